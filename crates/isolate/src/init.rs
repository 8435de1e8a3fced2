//! The `init` process: spawns what the agent asks for, reaps everything, reports exits. Nothing else.
//!
//! ```text
//! start ─► (own /proc) ─► (hardened, proved) ─► READY ─► serve ──agent gone / SIGTERM──► end all ─► exit
//! ```
//!
//! In a sandbox that a launcher made, READY comes before the proof (`stage`).
//!
//! It is single-threaded and waits in one `poll` on two descriptors: the agent's socket and a
//! signalfd. Sending never blocks for long: the agent drains its socket on its own task, and if it
//! is gone, so are we.
//!
//! To ask the kernel for any child that ended makes it look at all of them. With many, the one that the signal
//! names is asked for by its pid first; others may have ended whose signals were merged with it, so all are looked
//! at too, but no more often than a small part of the time allows (see [`Round`]).

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, WaitStatus};
use sandshell_sys::capability::Capabilities;
use sandshell_sys::rights::Rights;
use sandshell_sys::spawn::{Identity, SpawnError, SpawnPlan, Spawned, Stage, spawn};
use sandshell_sys::{oom, packet, procfs, signal, turn};

use crate::harden::{self, Devices, Filters, HardenError, Hardened, InitHardening};
use crate::keeper::{Keepers, Lost};
use crate::private::{Home, Privates, Standing};
use crate::probe::{self, Bait, Outside};
use crate::protocol::{Event, Exit, MAX_INLINE, ReceiveError, SpawnRequest};

/// The descriptor of the agent's socket in init.
pub const SOCKET_FD: i32 = 3;
/// And of the file system that the sessions' channels lie on.
pub const CHANNELS_FD: i32 = 4;

const SIGCHLD: i32 = 17;
/// Ends init in an orderly way when it is not PID 1 of a namespace. There only those inside could
/// send it.
const SIGTERM: i32 = 15;

/// Pause before the kernel is asked again for the memory that a message takes.
const SHORT_OF_MEMORY: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 10_000_000,
};

/// What init needs to know of its surroundings; handed over as arguments by the launcher.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InitOptions {
    /// It is PID 1 of a PID namespace and has a mount namespace to put its own /proc in.
    pub namespaced: bool,
    /// Use `clone` instead of `clone3`.
    pub avoid_clone3: bool,
    /// Groups to remove, with those in them, when the agent is gone.
    pub cgroups: Vec<PathBuf>,
    /// What programs give up all, and for the proof of it how it looks outside; absent, nothing.
    pub hardening: Option<Unaided>,
    /// Whether sessions have a file system for their channels, which is then a descriptor of ours.
    pub channels: bool,
    /// It is a warden: it starts private trees only, and keeps its rights for that.
    pub warden: bool,
}

/// Hardening without a launcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unaided {
    /// How it looks outside.
    pub outside: Outside,
    /// Who commands are unless they ask for another; absent, whoever the agent is.
    pub user: Option<u32>,
}

/// Why init could not serve.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// A step of the set-up failed.
    #[error("init: {step} failed: {errno}")]
    Setup {
        /// Which step.
        step: &'static str,
        /// Why.
        errno: Errno,
    },
}

/// Runs init until the agent is gone. `socket` is the agent's seqpacket socket.
pub fn run(socket: &OwnedFd, options: &InitOptions) -> Result<(), InitError> {
    let setup = |step| move |errno| InitError::Setup { step, errno };
    if options.namespaced {
        mount_own_proc().map_err(setup("mount of /proc"))?;
    } else {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .map_err(setup("child subreaper"))?;
    }
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .map_err(setup("non-dumpable"))?;
    let channels = options.channels.then(|| packet::inherited(CHANNELS_FD));
    let channels = channels.flatten();
    let filters = options.hardening.as_ref().map(|_| Filters::compile());
    let hardening = filters.as_ref().map(|filters| InitHardening {
        filters,
        channels: channels.as_ref().map(AsFd::as_fd),
        writable: None,
        devices: Devices::Given,
        keep: Capabilities::NONE,
    });
    if options.warden {
        let ready = Event::Ready {
            root: None,
            protections: Vec::new(),
        };
        let standing = Standing::Beside(hardening);
        return serve(socket, options, None, standing, Some(&ready));
    }
    let (hardened, protections) = match (&hardening, &options.hardening) {
        (Some(hardening), Some(unaided)) => {
            let bait = Bait::lay().map_err(setup("the probe"))?;
            let hardened = harden::on_init(hardening)
                .map_err(|HardenError { step, errno }| InitError::Setup { step, errno })?;
            let user = unaided.user.map(|uid| Identity {
                uid,
                gid: uid,
                groups: Vec::new(),
            });
            let rights = hardened.rights(uid_of(user.as_ref()));
            let proved = probe::run(&unaided.outside, &bait, user.as_ref(), rights);
            (Some(hardened), proved)
        }
        _ => (None, Vec::new()),
    };
    let ready = Event::Ready {
        root: None,
        protections,
    };
    let hardened = hardened.as_ref();
    serve(socket, options, hardened, Standing::Init, Some(&ready))
}

/// Says that it is ready, where that has not been said, and serves until the agent is gone.
pub(crate) fn serve(
    socket: &OwnedFd,
    options: &InitOptions,
    hardened: Option<&Hardened<'_>>,
    standing: Standing<'_>,
    ready: Option<&Event>,
) -> Result<(), InitError> {
    let setup = |step| move |errno| InitError::Setup { step, errno };
    let watched: &[i32] = if options.namespaced {
        &[SIGCHLD]
    } else {
        &[SIGCHLD, SIGTERM]
    };
    let signals = signal::block_all_and_watch(watched).map_err(setup("signalfd"))?;
    turn::ask_for_short_ones();
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    if let Some(ready) = ready {
        ready.send(socket).map_err(setup("ready message"))?;
    }
    Init {
        socket,
        manner: Manner {
            avoid_clone3: options.avoid_clone3,
            hardened,
        },
        programs: HashMap::new(),
        keepers: Keepers::default(),
        privates: Privates::of(standing),
        round: Round::default(),
    }
    .serve(&signals);
    end_everything(options);
    Ok(())
}

/// Runs the warden of an isolated sandbox until the agent is gone. To be called in a fork of whoever
/// made init's namespaces, with the same user and all its rights, in the agent's PID namespace.
pub(crate) fn run_warden(socket: &OwnedFd, home: Home<'_>) -> Result<(), InitError> {
    let setup = |step| move |errno| InitError::Setup { step, errno };
    let signals = signal::block_all_and_watch(&[SIGCHLD, SIGTERM]).map_err(setup("signalfd"))?;
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .map_err(setup("non-dumpable"))?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let mut warden = Init {
        socket,
        manner: Manner::default(),
        programs: HashMap::new(),
        keepers: Keepers::default(),
        privates: Privates::of(Standing::Outside(home, false)),
        round: Round::default(),
    };
    warden.serve(&signals);
    warden.privates.kill();
    Ok(())
}

/// A fresh /proc that shows this PID namespace, in a mount namespace nobody else sees.
pub(crate) fn mount_own_proc() -> Result<(), Errno> {
    use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
    mount_change(
        "/",
        MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC,
    )?;
    mount(
        "proc",
        "/proc",
        "proc",
        MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC,
        None::<&std::ffi::CStr>,
    )
}

struct Init<'a> {
    socket: &'a OwnedFd,
    manner: Manner<'a>,
    /// Requests' numbers by pid, for programs that are ours to report.
    programs: HashMap<i32, u64>,
    /// Who reports for the others. An agent asks either for groups or for keepers, never for both.
    keepers: Keepers,
    /// Those that have a PID namespace of their own.
    privates: Privates<'a>,
    round: Round,
}

impl Init<'_> {
    fn serve(&mut self, signals: &OwnedFd) {
        let mut buffer = vec![0; MAX_INLINE + 64];
        loop {
            let mut waiting = [
                PollFd::new(self.socket, PollFlags::IN),
                PollFd::new(signals, PollFlags::IN),
            ];
            let due = self.round.due_in();
            let timeout = due.into_iter().chain(self.keepers.next_sweep()).min();
            let timeout = timeout.and_then(|time| Timespec::try_from(time).ok());
            match poll(&mut waiting, timeout.as_ref()) {
                Ok(0) => self.sweep(),
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            let [socket_ready, signal_ready] = waiting.map(|w| !w.revents().is_empty());
            if signal_ready {
                let later = self.round.is_put_off();
                for Noticed { signal, pid } in read_signals(signals) {
                    if signal == SIGTERM {
                        return;
                    }
                    if later {
                        self.reap_this(pid);
                    }
                }
                self.sweep();
                self.round.ask();
            }
            if self.round.due_in() == Some(Duration::ZERO) {
                let began = Instant::now();
                self.reap_all();
                self.round
                    .done(began, self.programs.len() + self.keepers.len());
            }
            if socket_ready {
                match SpawnRequest::receive(self.socket, &mut buffer) {
                    Ok(Some((request, fds))) => self.start(&request, fds),
                    Err(ReceiveError::Socket(Errno::AGAIN | Errno::INTR)) => {}
                    Err(ReceiveError::NoRoom { id }) => {
                        tell(self.socket, &no_start(id, Errno::MFILE));
                    }
                    // The agent is gone, or broke the protocol, which the same binary never does:
                    // then ending is the only safe answer.
                    Ok(None) | Err(_) => return,
                }
            }
        }
    }

    fn start(&mut self, request: &SpawnRequest, fds: Vec<OwnedFd>) {
        let id = request.id;
        let event = if request.flags.private {
            match self.privates.start(self.socket, request, fds, self.manner) {
                // The reaper reports for itself.
                Ok(()) => return,
                Err(errno) => Event::Failed {
                    id,
                    stage: Stage::Private,
                    errno,
                },
            }
        } else if self.privates.exclusively() {
            Event::Failed {
                id,
                stage: Stage::Private,
                errno: Errno::PERM,
            }
        } else if request.flags.keeper {
            match self.keepers.start(self.socket, request, fds, self.manner) {
                // The keeper reports for itself.
                Ok(()) => return,
                Err(errno) => no_start(id, errno),
            }
        } else {
            match spawn_request(request, &fds, self.manner) {
                Ok(program) => {
                    let pid = program.pid;
                    if announce(self.socket, id, program, None) {
                        self.programs.insert(pid, id);
                    }
                    return;
                }
                Err(SpawnError { stage, errno }) => Event::Failed { id, stage, errno },
            }
        };
        tell(self.socket, &event);
    }

    /// Looks at the child that a signal named.
    fn reap_this(&mut self, pid: i32) {
        let options = WaitOptions::NOHANG | WaitOptions::UNTRACED;
        let asked = Pid::from_raw(pid).map(|pid| rustix::process::waitpid(Some(pid), options));
        if let Some(Ok(Some((pid, status)))) = asked {
            self.changed(pid.as_raw_pid(), status);
        }
    }

    /// Looks at all children.
    fn reap_all(&mut self) {
        while let Some((pid, status)) = changed_child(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            self.changed(pid, status);
        }
        self.sweep();
    }

    /// A child ended or was stopped.
    fn changed(&mut self, pid: i32, status: WaitStatus) {
        if status.stopped() {
            self.keepers.stopped(pid);
            return;
        }
        let exit = exit_of(status);
        if let Some(id) = self.programs.remove(&pid) {
            tell(self.socket, &Event::Exited { id, exit });
        } else if self.privates.contains(pid) {
            for event in self.privates.reaped(pid, exit).into_iter().flatten() {
                tell(self.socket, &event);
            }
        } else {
            self.keepers.reaped(pid, exit);
        }
    }

    /// Reports for keepers that were killed, once nothing is left of what they kept.
    fn sweep(&mut self) {
        let (programs, privates) = (&self.programs, &self.privates);
        let known = |pid| programs.contains_key(&pid) || privates.contains(pid);
        for Lost { id, pid, pidfd } in self.keepers.sweep(known) {
            // Whatever the keeper itself said before, the agent takes the first of each.
            let spawned = Event::Spawned {
                id,
                pid,
                pidfd,
                keeper: None,
            };
            tell(self.socket, &spawned);
            // How the program would have ended is not known: init never heard of it.
            let exit = Exit::Signal(9);
            tell(self.socket, &Event::Exited { id, exit });
        }
    }
}

/// A request that nothing was started for.
fn no_start(id: u64, errno: Errno) -> Event {
    Event::Failed {
        id,
        stage: Stage::Clone,
        errno,
    }
}

/// When all children are looked at. With few it is at once, always: whoever hears of an end finds nothing of
/// what ended before. With thousands one look takes a millisecond, and the next may come no sooner than ten times that
/// after it.
#[derive(Debug, Default)]
struct Round {
    due: Option<Instant>,
    /// When the next may be.
    next: Option<Instant>,
}

impl Round {
    /// How many times as long as a look the pause after it is.
    const PAUSE: u32 = 10;

    /// Among how many programs a look takes no time worth a pause.
    const FEW: usize = 256;

    fn is_put_off(&self) -> bool {
        self.next.is_some_and(|next| next > Instant::now())
    }

    fn ask(&mut self) {
        let now = Instant::now();
        let due = self.next.map_or(now, |next| next.max(now));
        self.due.get_or_insert(due);
    }

    fn due_in(&self) -> Option<Duration> {
        self.due
            .map(|due| due.saturating_duration_since(Instant::now()))
    }

    fn done(&mut self, began: Instant, programs: usize) {
        let now = Instant::now();
        self.due = None;
        self.next = (programs > Self::FEW).then(|| now + (now - began) * Self::PAUSE);
    }
}

/// How programs are started, whoever asks.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Manner<'a> {
    /// Use `clone` instead of `clone3`.
    pub(crate) avoid_clone3: bool,
    /// What programs give up, where init itself is hardened.
    pub(crate) hardened: Option<&'a Hardened<'a>>,
}

impl Manner<'_> {
    /// What a program gives up.
    fn rights(&self, identity: Option<&Identity>) -> Option<&Rights<'_>> {
        let hardened = self.hardened?;
        Some(hardened.rights(uid_of(identity)))
    }
}

/// The user of a program. One that takes on nobody is whoever init is.
fn uid_of(identity: Option<&Identity>) -> u32 {
    identity.map_or_else(
        || rustix::process::geteuid().as_raw(),
        |identity| identity.uid,
    )
}

/// How much earlier than by its size a program is ended when memory has run out, in thousandths of that memory: in
/// the smallest sandbox still more than init has.
///
/// Init shares the programs' limit, and memory can be in nobody's size: a memfd, what waits in sockets. Then
/// init could be the largest, and with it the kernel would end them all. A group for init alone would not do: in
/// version 2 it cannot lie outside of the one that is the root of the programs' cgroup namespace. To lower init takes a
/// right over the whole machine, and programs could then lower themselves as far; so they are raised. One that takes
/// that back risks the sandbox it is in.
const BEFORE_INIT: i32 = 500;

/// Starts what a request describes.
pub(crate) fn spawn_request(
    request: &SpawnRequest,
    fds: &[OwnedFd],
    manner: Manner<'_>,
) -> Result<Spawned, SpawnError> {
    let placed: Vec<(BorrowedFd<'_>, i32)> = fds
        .iter()
        .zip(&request.fd_numbers)
        .map(|(fd, number)| (fd.as_fd(), *number))
        .collect();
    let cgroup = if request.flags.into_cgroup {
        fds.last().map(AsFd::as_fd)
    } else {
        None
    };
    let after_its_own = fds.iter().skip(request.fd_numbers.len());
    let join: Vec<BorrowedFd<'_>> = after_its_own
        .take(request.joins as usize)
        .map(AsFd::as_fd)
        .collect();
    let program = spawn(&SpawnPlan {
        programs: &request.programs,
        argv: &request.argv,
        env: &request.env,
        cwd: Some(&request.cwd),
        fds: &placed,
        identity: request.identity.as_ref(),
        rights: manner.rights(request.identity.as_ref()),
        rlimits: &request.rlimits,
        namespaces: 0,
        cgroup,
        join: &join,
        controlling_terminal: request.flags.controlling_terminal,
        avoid_clone3: manner.avoid_clone3,
    })?;
    // Where the file cannot be written, it goes by its size.
    let _ = oom::end_earlier(program.pid, BEFORE_INIT);
    Ok(program)
}

/// Collects one ended child; `None` when there is none (now, with `NOHANG`).
pub(crate) fn reap_one(options: WaitOptions) -> Option<(i32, Exit)> {
    changed_child(options).map(|(pid, status)| (pid, exit_of(status)))
}

/// The next child that ended or, if the options say so, was stopped.
fn changed_child(options: WaitOptions) -> Option<(i32, WaitStatus)> {
    loop {
        match rustix::process::wait(options) {
            Ok(Some((pid, status))) => return Some((pid.as_raw_pid(), status)),
            Err(Errno::INTR) => {}
            Ok(None) | Err(_) => return None,
        }
    }
}

fn exit_of(status: WaitStatus) -> Exit {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signal(signal.unwrap_or(9)),
    }
}

/// Tells of a program's start. One that cannot be told of, which its own user can bring about by
/// having too many descriptors under way, is ended: false.
pub(crate) fn announce(
    socket: &OwnedFd,
    id: u64,
    program: Spawned,
    keeper: Option<OwnedFd>,
) -> bool {
    let Spawned { pid, pidfd } = program;
    let spawned = Event::Spawned {
        id,
        pid,
        pidfd,
        keeper,
    };
    let Err(errno) = send(socket, &spawned) else {
        return true;
    };
    if let Event::Spawned { pidfd, .. } = &spawned {
        let _ = signal::send(pidfd, 9);
    }
    tell(socket, &no_start(id, errno));
    false
}

/// Sends an event that brings no descriptor, or one that can be done without.
pub(crate) fn tell(socket: &OwnedFd, event: &Event) {
    let _ = send(socket, event);
}

/// Sends an event, waiting while the agent's queue is full or the kernel has no memory for it. An agent
/// that is gone is noticed by the main loop.
fn send(socket: &OwnedFd, event: &Event) -> Result<(), Errno> {
    loop {
        match event.send(socket) {
            Err(Errno::AGAIN) => {
                let mut waiting = [PollFd::new(socket, PollFlags::OUT)];
                let _ = poll(&mut waiting, None);
            }
            Err(Errno::NOBUFS | Errno::NOMEM) => {
                let _ = poll(&mut [], Some(&SHORT_OF_MEMORY));
            }
            Err(Errno::INTR) => {}
            Err(errno @ Errno::TOOMANYREFS) => return Err(errno),
            Ok(()) | Err(_) => return Ok(()),
        }
    }
}

/// A signal, and the child it tells of.
struct Noticed {
    signal: i32,
    pid: i32,
}

fn read_signals(signals: &OwnedFd) -> Vec<Noticed> {
    const RECORD: usize = 128;
    let mut buffer = [0_u8; RECORD * 16];
    let mut seen = Vec::new();
    // `struct signalfd_siginfo`: signal, errno and code, pid.
    let number = |record: &[u8], at: usize| {
        let bytes = record.get(at..)?.first_chunk()?;
        Some(i32::from_ne_bytes(*bytes))
    };
    while let Ok(n) = rustix::io::read(signals, &mut buffer) {
        let read = buffer.get(..n).unwrap_or_default();
        seen.extend(read.chunks_exact(RECORD).filter_map(|record| {
            Some(Noticed {
                signal: number(record, 0)?,
                pid: number(record, 12)?,
            })
        }));
        if n < buffer.len() {
            break;
        }
    }
    seen
}

/// Ends all that was started, then removes the groups it lived in.
fn end_everything(options: &InitOptions) {
    end_all(options.namespaced);
    for group in &options.cgroups {
        sandshell_sys::cgroup::bury(group);
    }
}

/// Pause before it is looked again who descends from us, where a descriptor or memory to look with was lacking.
const LOOK_AGAIN: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 10_000_000,
};

/// Ends all that descends from us, for a child subreaper or PID 1 of a namespace.
pub(crate) fn end_all(namespaced: bool) {
    let me = rustix::process::getpid().as_raw_pid();
    loop {
        if namespaced {
            signal::kill_all_below_namespace_init();
        }
        let Ok(found) = procfs::descendants(me) else {
            let _ = poll(&mut [], Some(&LOOK_AGAIN));
            continue;
        };
        for pid in found {
            if let Ok(pinned) = procfs::pin(pid) {
                let _ = signal::send(&pinned, 9);
            }
        }
        // Blocks until a child ends; orphans become our children, so none is missed. Whoever has ended by now goes
        // too: a walk for each would look at all the others each time.
        if reap_one(WaitOptions::empty()).is_none() {
            break;
        }
        while reap_one(WaitOptions::NOHANG).is_some() {}
    }
}
