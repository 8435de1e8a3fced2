//! A backend without isolation: each sandbox is an agent process that outlives the hub.
//!
//! It stands in until the launcher's backend takes its place; every protection is reported as off.
//! An agent is known by its pid and start time, kept in the sandbox's directory.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::fs::inotify;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use sandshell_types::{Layer, Protection, ProtectionStatus, SandboxSpec};
use tokio::io::unix::AsyncFd;

use crate::backend::{Backend, BackendError, Created, Endpoint, Pending, Place, SandboxPlan};

/// Far above any honest start of an agent, also on a loaded machine.
const START: Duration = Duration::from_secs(20);

pub(crate) struct PlainBackend {
    root: PathBuf,
    program: PathBuf,
    live: Mutex<HashMap<Place, Live>>,
}

struct Live {
    pidfd: Arc<OwnedFd>,
    pid: Pid,
    /// Ours to reap; `None` when an earlier hub started it.
    child: Option<Child>,
}

impl PlainBackend {
    /// A backend that keeps its sandboxes below this directory.
    pub(crate) fn new(root: PathBuf) -> io::Result<Self> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&root)?;
        Ok(Self {
            root,
            program: std::env::current_exe()?,
            live: Mutex::default(),
        })
    }

    fn dir(&self, place: &Place) -> PathBuf {
        self.root.join(place.as_str())
    }

    fn live(&self) -> MutexGuard<'_, HashMap<Place, Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn command(&self, dir: &Path, spec: &SandboxSpec) -> io::Result<Command> {
        let mut listen = std::ffi::OsString::from("unix:");
        listen.push(dir.join("agent.sock"));
        let log = fs::File::create(dir.join("agent.log"))?;
        // In a session of its own: a stopped process that its hub leaves alone is hung up on otherwise.
        let mut command = Command::new("setsid");
        command
            .arg(&self.program)
            .arg("agent")
            .arg("--listen")
            .arg(listen)
            .arg("--state-dir")
            .arg(dir.join("agent"))
            .arg("--ready-file")
            .arg(dir.join("ready"))
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        if let Some(cwd) = &spec.cwd {
            command.arg("--cwd").arg(cwd);
        }
        if let Some(user) = &spec.user {
            command.arg("--user").arg(user);
        }
        for (name, value) in &spec.env {
            command.arg("--env").arg(format!("{name}={value}"));
        }
        Ok(command)
    }

    async fn start(&self, plan: &SandboxPlan) -> Result<Created, BackendError> {
        let dir = self.dir(&plan.place);
        let failed = |action| move |source| BackendError::Failed { action, source };
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&dir)
            .map_err(failed("make the directory of the sandbox"))?;
        let ready = Ready::watch(&dir).map_err(failed("watch the directory of the sandbox"))?;
        let child = self
            .command(&dir, &plan.spec)
            .and_then(|mut command| command.spawn())
            .map_err(failed("start the agent"))?;
        let pid = Pid::from_child(&child);
        let open = || {
            let pidfd = pidfd_open(pid, PidfdFlags::NONBLOCK)?;
            fs::write(dir.join("pid"), identity(pid)?)?;
            Ok::<_, io::Error>(Arc::new(pidfd))
        };
        let pidfd = open().map_err(failed("know the agent by its pid"))?;
        let live = Live {
            pidfd: Arc::clone(&pidfd),
            pid,
            child: Some(child),
        };
        self.live().insert(plan.place.clone(), live);
        let ready_file = dir.join("ready");
        tokio::select! {
            outcome = tokio::time::timeout(START, ready.wait(&ready_file)) => {
                outcome
                    .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
                    .map_err(failed("wait for the agent"))?;
            }
            () = exit_of(pidfd) => {
                let log = fs::read_to_string(dir.join("agent.log")).unwrap_or_default();
                return Err(BackendError::Dead(format!("the agent ended at its start: {}", log.trim())));
            }
        }
        let off = |name: &Layer| Protection {
            name: *name,
            status: ProtectionStatus::Off,
            reason: Some("the plain backend isolates nothing".to_owned()),
        };
        Ok(Created {
            protections: Layer::ALL.iter().map(off).collect(),
        })
    }

    async fn end(&self, place: &Place) -> Result<(), BackendError> {
        if self.find(place).is_ok()
            && let Some((pid, pidfd)) = self.known(place)
        {
            // Init outlives the agent by a moment, in which it kills all it started.
            let init: Vec<_> = children(pid)
                .into_iter()
                .filter_map(|pid| pidfd_open(pid, PidfdFlags::NONBLOCK).ok())
                .collect();
            self.signal_all(place, Signal::CONT);
            let _ = pidfd_send_signal(&*pidfd, Signal::KILL);
            exit_of(pidfd).await;
            for init in init {
                exit_of(Arc::new(init)).await;
            }
        }
        if let Some(mut child) = self.live().remove(place).and_then(|live| live.child) {
            // It has ended; this only takes its status.
            let _ = child.wait();
        }
        match fs::remove_dir_all(self.dir(place)) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(BackendError::Failed {
                action: "remove the directory of the sandbox",
                source,
            }),
            _ => Ok(()),
        }
    }

    /// Makes sure that the agent of a place is known and alive.
    fn find(&self, place: &Place) -> Result<(), BackendError> {
        if self.live().contains_key(place) {
            return Ok(());
        }
        let dead = |why: &str| BackendError::Dead(why.to_owned());
        let known = fs::read_to_string(self.dir(place).join("pid"))
            .map_err(|_| dead("its directory is gone"))?;
        let pid = known
            .split(' ')
            .next()
            .and_then(|pid| Pid::from_raw(pid.parse().ok()?))
            .ok_or_else(|| dead("its pid is not known"))?;
        let pidfd =
            pidfd_open(pid, PidfdFlags::NONBLOCK).map_err(|_| dead("its agent has ended"))?;
        // Looked at after the descriptor was taken: a pid that was used again has another start.
        if identity(pid).ok().as_ref() != Some(&known) || readable(&pidfd) {
            return Err(dead("its agent has ended"));
        }
        let live = Live {
            pidfd: Arc::new(pidfd),
            pid,
            child: None,
        };
        self.live().insert(place.clone(), live);
        Ok(())
    }

    fn known(&self, place: &Place) -> Option<(Pid, Arc<OwnedFd>)> {
        let live = self.live();
        live.get(place)
            .map(|live| (live.pid, Arc::clone(&live.pidfd)))
    }

    fn signal_all(&self, place: &Place, signal: Signal) {
        let Some((pid, pidfd)) = self.known(place) else {
            return;
        };
        let _ = pidfd_send_signal(&*pidfd, signal);
        let mut next = children(pid);
        while let Some(pid) = next.pop() {
            if let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) {
                let _ = pidfd_send_signal(&pidfd, signal);
            }
            next.extend(children(pid));
        }
    }
}

impl Backend for PlainBackend {
    fn create<'a>(&'a self, plan: &'a SandboxPlan) -> Pending<'a, Result<Created, BackendError>> {
        Box::pin(async move {
            let made = self.start(plan).await;
            if made.is_err()
                && let Err(error) = self.end(&plan.place).await
            {
                tracing::warn!(%error, "a sandbox that was not made is not wholly removed");
            }
            made
        })
    }

    fn adopt<'a>(&'a self, place: &'a Place) -> Pending<'a, Result<(), BackendError>> {
        Box::pin(async move { self.find(place) })
    }

    fn endpoint(&self, place: &Place) -> Endpoint {
        Endpoint::Unix(self.dir(place).join("agent.sock"))
    }

    fn ended(&self, place: &Place) -> Pending<'static, String> {
        let known = self.known(place);
        Box::pin(async move {
            if let Some((_, pidfd)) = known {
                exit_of(pidfd).await;
            }
            "its agent ended by itself".to_owned()
        })
    }

    fn pause<'a>(&'a self, place: &'a Place) -> Pending<'a, Result<(), BackendError>> {
        Box::pin(async move {
            self.signal_all(place, Signal::STOP);
            Ok(())
        })
    }

    fn resume<'a>(&'a self, place: &'a Place) -> Pending<'a, Result<(), BackendError>> {
        Box::pin(async move {
            self.signal_all(place, Signal::CONT);
            Ok(())
        })
    }

    fn destroy<'a>(&'a self, place: &'a Place) -> Pending<'a, Result<(), BackendError>> {
        Box::pin(self.end(place))
    }

    fn sweep<'a>(&'a self, known: &'a HashSet<Place>) -> Pending<'a, Result<(), BackendError>> {
        Box::pin(async move {
            let found = fs::read_dir(&self.root).map_err(|source| BackendError::Failed {
                action: "list the directories of sandboxes",
                source,
            })?;
            for entry in found.flatten() {
                if let Some(place) = entry.file_name().to_str().and_then(Place::read)
                    && !known.contains(&place)
                {
                    tracing::info!(%place, "removing what is left of a sandbox");
                    self.end(&place).await?;
                }
            }
            Ok(())
        })
    }
}

/// The pid and the start time of a process.
fn identity(pid: Pid) -> io::Result<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name may hold anything, but ends at the last parenthesis; the 20th field after it.
    let start = stat
        .rsplit_once(')')
        .and_then(|(_, rest)| rest.split_ascii_whitespace().nth(19))
        .ok_or(io::ErrorKind::InvalidData)?;
    Ok(format!("{pid} {start}"))
}

fn children(pid: Pid) -> Vec<Pid> {
    let mut found = Vec::new();
    for task in fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let listed = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        let pids = listed.split_ascii_whitespace();
        found.extend(pids.filter_map(|pid| Pid::from_raw(pid.parse().ok()?)));
    }
    found
}

fn readable(fd: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(fd, PollFlags::IN)];
    let now = rustix::event::Timespec::default();
    rustix::event::poll(&mut polled, Some(&now)).is_ok_and(|ready| ready > 0)
}

/// Resolves when the process of a pidfd has ended.
async fn exit_of(pidfd: Arc<OwnedFd>) {
    let watched = pidfd
        .try_clone()
        .and_then(|fd| sandshell_sys::reactor::watch(fd, tokio::io::Interest::READABLE));
    match watched {
        Ok(watched) => drop(watched.readable().await),
        Err(error) => {
            tracing::error!(%error, "the end of a process cannot be waited for");
            std::future::pending::<()>().await;
        }
    }
}

/// Waits for the ready file of an agent.
struct Ready(AsyncFd<OwnedFd>);

impl Ready {
    fn watch(dir: &Path) -> io::Result<Self> {
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let fd = inotify::init(flags)?;
        inotify::add_watch(&fd, dir, inotify::WatchFlags::MOVED_TO)?;
        let watched = sandshell_sys::reactor::watch(fd, tokio::io::Interest::READABLE)?;
        Ok(Self(watched))
    }

    async fn wait(&self, file: &Path) -> io::Result<()> {
        while !file.exists() {
            let mut ready = self.0.readable().await?;
            let mut buffer = [0_u8; 512];
            while rustix::io::read(self.0.get_ref(), &mut buffer).is_ok() {}
            ready.clear_ready();
        }
        Ok(())
    }
}
