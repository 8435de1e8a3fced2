//! A process under the eyes of ptrace: which system calls with an effect it makes, and its death at a
//! chosen one.
//!
//! ```text
//! sh: read a line ◄── "go" ── tracer: seized it        (so that not one call is missed)
//!  └─ exec ─► the hub ── call ──► before ── kernel ──► after ──► goes on
//!                                   └── the trap ────────┘
//! ```
//!
//! One thread starts the process, traces it and collects it. Its threads are followed, what it forks is
//! not: the launcher and all below it run as ever. A process killed before a call has not made it, one
//! killed after it has, and has not heard of it.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
use sandshell_testkit::UnprivilegedUser;
use tokio::sync::watch;

use super::effects::Reader;
use super::points::{ANY, Moment, Trap, Victim};

/// The call after which a hub serves.
const READY: &str = "rename ready.json";

/// What is known of a traced process.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// How many traps sprang.
    sprung: u32,
    /// It has said that it serves.
    pub(super) ready: bool,
    /// How it ended.
    pub(super) ended: Option<String>,
    /// The launchers that it had when it was killed.
    pub(super) launchers: Vec<Process>,
}

/// A process that somebody else started, told from later ones with its number.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) pid: i32,
    pub(super) fd: OwnedFd,
}

#[derive(Debug, Default)]
struct Orders {
    trap: Option<Trap>,
    /// How often each call was made since the trap was set, or since the start.
    heard: BTreeMap<String, u32>,
    /// How many traps had sprung before this one was set.
    sprung: u32,
}

#[derive(Debug)]
pub(super) struct Tracer {
    pub(super) pid: i32,
    pub(super) fd: OwnedFd,
    orders: Arc<Mutex<Orders>>,
    seen: watch::Receiver<Seen>,
    thread: Option<JoinHandle<()>>,
}

impl Tracer {
    /// Starts a program and traces it from its first call. An error says that this is not permitted.
    pub(super) fn start(
        program: &Path,
        args: &[String],
        user: Option<UnprivilegedUser>,
        dir: &Path,
        trap: Option<Trap>,
    ) -> Result<Self, Errno> {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(dir.join("hub.log"))
            .unwrap();
        let mut command = Command::new("sh");
        if let Some(user) = user {
            command.uid(user.uid).gid(user.gid);
        }
        command
            .args(["-c", r#"read -r go && exec "$0" "$@" </dev/null"#])
            .arg(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        let orders = Arc::new(Mutex::new(Orders {
            trap,
            ..Orders::default()
        }));
        let (tell, seen) = watch::channel(Seen::default());
        let (started, begun) = std::sync::mpsc::sync_channel(1);
        let (of_thread, dir) = (Arc::clone(&orders), dir.to_owned());
        let work = move || trace(&mut command, &of_thread, &tell, dir, &started);
        let thread = std::thread::Builder::new().spawn(work).unwrap();
        let pid = begun.recv().expect("the thread tells")?;
        Ok(Self {
            pid,
            fd: open(pid).expect("it is not collected before it ends"),
            orders,
            seen,
            thread: Some(thread),
        })
    }

    fn orders(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap()
    }

    /// Sets a trap, and counts calls anew.
    pub(super) fn arm(&self, trap: Option<Trap>) {
        let mut orders = self.orders();
        orders.trap = trap;
        orders.heard.clear();
        orders.sprung = self.seen.borrow().sprung;
    }

    /// Takes the trap away; says whether it had sprung.
    pub(super) fn disarm(&self) -> bool {
        self.orders().trap = None;
        self.has_sprung()
    }

    pub(super) fn has_sprung(&self) -> bool {
        // In the order in which the thread takes them.
        let orders = self.orders();
        self.seen.borrow().sprung > orders.sprung
    }

    /// Resolves when the trap springs.
    pub(super) async fn sprung(&self) {
        let before = self.orders().sprung;
        let mut seen = self.seen.clone();
        let sprung = seen.wait_for(|seen| seen.sprung > before).await;
        drop(sprung.expect("the thread outlives the process"));
    }

    /// The calls since the trap was set.
    pub(super) fn heard(&self) -> BTreeMap<String, u32> {
        self.orders().heard.clone()
    }

    pub(super) fn seen(&self) -> watch::Receiver<Seen> {
        self.seen.clone()
    }

    pub(super) fn signal(&self, signal: rustix::process::Signal) {
        // One that has ended needs none.
        let _ = pidfd_send_signal(&self.fd, signal);
    }

    /// The launchers that outlived it when it was killed by a trap.
    pub(super) fn orphans(&self) -> Vec<Process> {
        let seen = self.seen.borrow();
        let orphans = seen.launchers.iter().map(|one| Process {
            pid: one.pid,
            fd: one.fd.try_clone().unwrap(),
        });
        orphans.collect()
    }

    /// The children of it that are there now.
    pub(super) fn launchers(&self) -> Vec<Process> {
        children(self.pid)
    }

    /// Waits for its end, and gives what was seen of it.
    pub(super) async fn ended(&mut self) -> String {
        let mut seen = self.seen.clone();
        let ended = seen.wait_for(|seen| seen.ended.is_some()).await.unwrap();
        let how = ended.ended.clone().unwrap();
        drop(ended);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
        how
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        self.signal(rustix::process::Signal::KILL);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub(super) fn open(pid: i32) -> Option<OwnedFd> {
    pidfd_open(rustix::process::Pid::from_raw(pid)?, PidfdFlags::empty()).ok()
}

/// The living children of a process.
fn children(of: i32) -> Vec<Process> {
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let ours = pids.filter(|pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after_name = stat.rsplit_once(") ").map(|(_, rest)| rest.to_owned());
        let mut fields = after_name.iter().flat_map(|rest| rest.split(' '));
        let state = fields.next();
        state != Some("Z") && fields.next() == Some(of.to_string().as_str())
    });
    ours.filter_map(|pid| {
        Some(Process {
            pid,
            fd: open(pid)?,
        })
    })
    .collect()
}

type Started = std::sync::mpsc::SyncSender<Result<i32, Errno>>;

/// The thread's work, from the start of the process to its end.
#[expect(clippy::zombie_processes, reason = "whoever traces it collects it")]
fn trace(
    command: &mut Command,
    orders: &Mutex<Orders>,
    tell: &watch::Sender<Seen>,
    dir: PathBuf,
    started: &Started,
) {
    let mut child = command.spawn().expect("a shell can be started");
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
    let options = Options::PTRACE_O_TRACESYSGOOD
        | Options::PTRACE_O_TRACECLONE
        | Options::PTRACE_O_TRACEEXEC
        | Options::PTRACE_O_EXITKILL;
    let seized = ptrace::seize(pid, options).and_then(|()| ptrace::interrupt(pid));
    let mut stdin = child.stdin.take().expect("it is a pipe");
    if let Err(errno) = seized {
        drop(stdin);
        child.wait().unwrap();
        started.send(Err(errno)).unwrap();
        return;
    }
    stdin.write_all(b"go\n").unwrap();
    started.send(Ok(pid.as_raw())).unwrap();
    let mut eyes = Eyes {
        pid,
        orders,
        tell,
        reader: Reader::new(pid.as_raw(), dir),
        calls: HashMap::new(),
        is_hub: false,
    };
    let how = eyes.watch();
    tell.send_modify(|seen| seen.ended = Some(how));
}

struct Eyes<'a> {
    pid: Pid,
    orders: &'a Mutex<Orders>,
    tell: &'a watch::Sender<Seen>,
    reader: Reader,
    /// The threads that are in a call, with its name if it has an effect.
    calls: HashMap<Pid, Option<String>>,
    /// It is no shell any more.
    is_hub: bool,
}

impl Eyes<'_> {
    fn watch(&mut self) -> String {
        // Only what this thread has started and traces: other tests have children too.
        let flags = WaitPidFlag::__WALL | WaitPidFlag::from_bits_retain(libc::__WNOTHREAD);
        loop {
            let status = match waitpid(None, Some(flags)) {
                Ok(status) => status,
                Err(Errno::EINTR) => continue,
                Err(errno) => panic!("nothing is left to wait for: {errno}"),
            };
            let mut passed_on = None;
            let stopped = match status {
                WaitStatus::Exited(pid, code) if pid == self.pid => {
                    return format!("exit code {code}");
                }
                WaitStatus::Signaled(pid, signal, _) if pid == self.pid => {
                    return format!("{signal}");
                }
                WaitStatus::PtraceSyscall(pid) => {
                    self.at_call(pid);
                    pid
                }
                WaitStatus::PtraceEvent(pid, _, event) => {
                    if event == libc::PTRACE_EVENT_EXEC {
                        self.is_hub = true;
                        self.calls = HashMap::from([(pid, None)]);
                    }
                    pid
                }
                WaitStatus::Stopped(pid, signal) => {
                    passed_on = Some(signal);
                    pid
                }
                _ => continue,
            };
            // One that was killed meanwhile is not there to go on.
            let _ = ptrace::syscall(stopped, passed_on);
        }
    }

    /// A thread stands before or after a call.
    fn at_call(&mut self, thread: Pid) {
        if let Some(call) = self.calls.remove(&thread) {
            if let Some(call) = call {
                self.reached(&call, Moment::After);
            }
            return;
        }
        let call = if self.is_hub {
            self.reader.effect(thread.as_raw())
        } else {
            None
        };
        if let Some(call) = &call {
            let mut orders = self.orders.lock().unwrap();
            for name in [call.as_str(), ANY] {
                *orders.heard.entry(name.to_owned()).or_default() += 1;
            }
            drop(orders);
            self.reached(call, Moment::Before);
        }
        self.calls.insert(thread, call);
    }

    fn reached(&self, call: &str, moment: Moment) {
        if moment == Moment::After && call == READY {
            self.tell.send_modify(|seen| seen.ready = true);
        }
        let mut orders = self.orders.lock().unwrap();
        let count = |name: &str| orders.heard.get(name).copied().unwrap_or_default();
        let (this, all) = (count(call), count(ANY));
        let Some(trap) = orders.trap.take_if(|trap| {
            (trap.call == call && trap.nth == this) || (trap.call == ANY && trap.nth == all)
        }) else {
            return;
        };
        let launchers = children(self.pid.as_raw());
        let signal = |to: i32, signal| {
            // It may have ended by itself.
            let _ = nix::sys::signal::kill(Pid::from_raw(to), signal);
        };
        let launchers_get = |kind| {
            for launcher in &launchers {
                signal(launcher.pid, kind);
            }
        };
        if trap.victim == Victim::HubFirst && moment == Moment::Before {
            launchers_get(Signal::SIGSTOP);
        }
        if trap.moment != moment {
            // Not yet: it is set again for the other side of the call.
            orders.trap = Some(trap);
            return;
        }
        match trap.victim {
            Victim::Hub | Victim::HubFirst => signal(self.pid.as_raw(), Signal::SIGKILL),
            Victim::Launcher => launchers_get(Signal::SIGKILL),
        }
        self.tell.send_modify(|seen| {
            seen.sprung += 1;
            seen.launchers = launchers;
        });
        // Whoever takes the trap away must see that it sprang.
        drop(orders);
    }
}
