//! Launching init without a launcher: which of its surroundings can be had here, tried in order, and said
//! honestly. What needs no namespace is built all the same: see `harden`.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Pid, Resource, Rlimit, WaitId, WaitIdOptions, getrlimit, prlimit,
    set_dumpable_behavior, setrlimit, waitid,
};
use sandshell_sys::cgroup::Group;
use sandshell_sys::mounts::{self, Limits};
use sandshell_sys::packet;
use sandshell_sys::spawn::{SpawnError, SpawnPlan, Spawned, Stage, spawn};
use sandshell_types::{Layer, Protection, ProtectionStatus};

use crate::init::{CHANNELS_FD, InitOptions, SOCKET_FD, Unaided};
use crate::limits::{Controllers, Parent, SandboxGroups};
use crate::probe::{self, Outside};
use crate::proof::Proof;
use crate::protocol::{Event, ReceiveError};

const CLONE_NEWNS: u64 = 0x0002_0000;
const CLONE_NEWPID: u64 = 0x2000_0000;

/// The groups of an agent that was not given any begin so; its pid follows.
const GROUP: &str = "sandshell-";

/// Init answers within a few milliseconds; a machine that stands still gets this long.
pub(crate) const READY_TIMEOUT: Duration = Duration::from_mins(1);

/// What to leave out even where it could be had, to look at the fallbacks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LaunchOptions {
    /// No PID namespace.
    pub without_pid_namespace: bool,
    /// No cgroup.
    pub without_cgroup: bool,
    /// No `clone3`, as in a default container. Implies no cgroup.
    pub without_clone3: bool,
    /// Programs keep all rights of the agent.
    pub without_hardening: bool,
    /// Who commands are unless they ask for another; absent, whoever the agent is.
    pub user: Option<u32>,
}

/// What could be had, and why not where it could not.
#[derive(Debug)]
pub struct Surroundings {
    /// Whether init is PID 1 of a namespace of its own.
    pub pid_namespace: Result<(), String>,
    /// The group in which trees get groups of their own.
    pub cgroup: Result<Group, String>,
    /// The groups in which what is started can be limited.
    pub controllers: Controllers,
    /// The warden, where it runs already; elsewhere [`launch_warden`] starts one.
    pub warden: Option<Warden>,
    /// What such a one is told.
    pub warden_plan: WardenPlan,
}

/// What a warden is told that an agent starts by itself.
#[derive(Debug, Default)]
pub struct WardenPlan {
    /// How many descriptors what it starts may have open, where the agent itself may have more.
    pub open_files: Option<Rlimit>,
    /// How it hardens what it starts.
    pub hardening: Option<Unaided>,
    /// Where the sessions' channels lie.
    pub channels: Option<OwnedFd>,
}

/// A second init, outside init's PID namespace, for private process trees.
#[derive(Debug)]
pub struct Warden {
    /// The socket to it; non-blocking.
    pub socket: OwnedFd,
    /// The warden itself.
    pub pidfd: OwnedFd,
}

/// A running init.
#[derive(Debug)]
pub struct InitHandle {
    /// The socket to it; non-blocking.
    pub socket: OwnedFd,
    /// Init itself.
    pub pidfd: OwnedFd,
    /// What could be had.
    pub surroundings: Surroundings,
    /// The root of the commands' files, where it is not to be had otherwise.
    pub root: Option<OwnedFd>,
    /// A file system of nobody else's for what shells and the agent exchange.
    pub channels: Option<OwnedFd>,
    /// What became of each layer of isolation.
    pub proof: Proof,
}

/// Why there is no init.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// A system call failed.
    #[error("cannot start init: {0}")]
    Spawn(#[from] SpawnError),
    /// The socket to it could not be made.
    #[error("cannot make init's socket: {0}")]
    Socket(Errno),
    /// This process cannot be protected, or cannot look around.
    #[error("cannot prepare the hardening: {0}")]
    Hardening(Errno),
    /// It ended or hung before it was ready.
    #[error("init did not become ready")]
    NotReady,
}

/// Starts init. To be called before the agent has threads, with the best surroundings that work.
pub fn launch(options: LaunchOptions) -> Result<InitHandle, LaunchError> {
    let hardening = if options.without_hardening {
        None
    } else {
        // What is in our memory, the token above all, is not for programs of the same user.
        set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(LaunchError::Hardening)?;
        Some(Unaided {
            outside: Outside::look().map_err(LaunchError::Hardening)?,
            user: options.user,
        })
    };
    let avoid_clone3 = options.without_clone3 || !clone3_works();
    let (cgroup, controllers) = if options.without_cgroup {
        let off = "switched off";
        (Err(off.to_owned()), Controllers::none(off))
    } else {
        make_groups(avoid_clone3)
    };
    let made = cgroup.iter().chain(controllers.groups());
    let channels = channels();
    let mut init = InitOptions {
        namespaced: true,
        avoid_clone3,
        cgroups: made.filter_map(Group::path).collect(),
        hardening: hardening.clone(),
        ..InitOptions::default()
    };
    let namespaced = if options.without_pid_namespace {
        Err("switched off".to_owned())
    } else {
        start(&init, channels.as_ref()).map_err(|error| error.to_string())
    };
    let (started, pid_namespace) = match namespaced {
        Ok(started) => (started, Ok(())),
        Err(reason) => {
            init.namespaced = false;
            let reason = format!("{reason}; orphans are collected by a subreaper instead");
            (start(&init, channels.as_ref())?, Err(reason))
        }
    };
    let surroundings = Surroundings {
        pid_namespace,
        cgroup,
        controllers,
        warden: None,
        warden_plan: WardenPlan {
            open_files: raise_open_files(),
            hardening,
            channels: channels.as_ref().and_then(|fd| fd.try_clone().ok()),
        },
    };
    Ok(InitHandle {
        proof: Proof::given(probe::compose(started.proved, known(&surroundings))),
        socket: started.socket,
        pidfd: started.pidfd,
        surroundings,
        root: None,
        channels,
    })
}

/// A session takes three descriptors of the agent, a stream one, and the usual soft limit is for programs that call
/// `select`: what the hard limit allows is the agent's to take. Init is there already and has the limit it was
/// started with, and so has all that it starts. Gives that limit.
fn raise_open_files() -> Option<Rlimit> {
    let usual = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: usual.maximum,
        ..usual
    };
    setrlimit(Resource::Nofile, raised).ok().map(|()| usual)
}

/// A file system for what shells and the agent exchange, where one can be mounted.
fn channels() -> Option<OwnedFd> {
    let limits = Limits {
        read_only: false,
        no_devices: true,
        no_programs: false,
    };
    mounts::fresh(c"tmpfs", &[(c"mode", "0711")], limits).ok()
}

/// What no probe could see from inside.
fn known(surroundings: &Surroundings) -> Vec<Protection> {
    let said = |name, status, reason: &str| Protection {
        name,
        status,
        reason: Some(reason.to_owned()),
    };
    let mut known = vec![match &surroundings.cgroup {
        Ok(_) => Protection {
            name: Layer::KillTree,
            status: ProtectionStatus::Enforced,
            reason: None,
        },
        Err(reason) => {
            let reason = format!("no group to kill: {reason}");
            said(Layer::KillTree, ProtectionStatus::Partial, &reason)
        }
    }];
    known.push(match &surroundings.controllers.memory {
        Ok(_) => Protection {
            name: Layer::OomAttribution,
            status: ProtectionStatus::Enforced,
            reason: None,
        },
        Err(reason) => said(Layer::OomAttribution, ProtectionStatus::Off, reason),
    });
    let of_the_place = "an agent by itself leaves this to whoever made the place it runs in";
    for layer in [
        Layer::CpuLimit,
        Layer::MemoryLimit,
        Layer::PidsLimit,
        Layer::DiskLimit,
        Layer::InodeLimit,
        Layer::EgressPolicy,
    ] {
        known.push(said(layer, ProtectionStatus::Off, of_the_place));
    }
    if surroundings.warden_plan.hardening.is_some() {
        known.push(said(
            Layer::LandlockFs,
            ProtectionStatus::Partial,
            "every device that is there can be commanded",
        ));
    } else {
        let off = |layer: &Layer| said(*layer, ProtectionStatus::Off, "switched off");
        known.extend(probe::JUDGED.iter().map(off));
    }
    known
}

/// Starts a warden. Blocks until it is ready.
pub fn launch_warden(plan: &WardenPlan) -> Result<Warden, LaunchError> {
    let options = InitOptions {
        hardening: plan.hardening.clone(),
        warden: true,
        ..InitOptions::default()
    };
    let started = start(&options, plan.channels.as_ref())?;
    if let Some(usual) = plan.open_files {
        // It has ours, and starts nothing before it is asked to.
        let pid = Pid::from_raw(started.pid);
        prlimit(pid, Resource::Nofile, usual).map_err(LaunchError::Hardening)?;
    }
    let Started { socket, pidfd, .. } = started;
    Ok(Warden { socket, pidfd })
}

struct Started {
    pid: i32,
    socket: OwnedFd,
    pidfd: OwnedFd,
    proved: Vec<Protection>,
}

fn start(options: &InitOptions, channels: Option<&OwnedFd>) -> Result<Started, LaunchError> {
    let (ours, theirs) = packet::pair().map_err(LaunchError::Socket)?;
    let null = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")
        .map_err(|e| LaunchError::Socket(Errno::from_io_error(&e).unwrap_or(Errno::IO)))?;
    let mut argv = vec![c"sandshell".to_owned(), c"init".to_owned()];
    if options.namespaced {
        argv.push(c"--namespaced".to_owned());
    }
    if options.avoid_clone3 {
        argv.push(c"--avoid-clone3".to_owned());
    }
    for group in &options.cgroups {
        argv.push(c"--cgroup".to_owned());
        argv.extend(CString::new(group.as_os_str().as_bytes()));
    }
    if let Some(Unaided { outside, user }) = &options.hardening {
        argv.push(c"--harden".to_owned());
        argv.extend(CString::new(outside.to_word()));
        argv.extend(CString::new(
            user.map_or_else(String::new, |uid| uid.to_string()),
        ));
    }
    if options.warden {
        argv.push(c"--warden".to_owned());
    }
    if channels.is_some() {
        argv.push(c"--channels".to_owned());
    }
    let stderr = std::io::stderr();
    let mut fds = vec![
        (null.as_fd(), 0),
        (null.as_fd(), 1),
        (stderr.as_fd(), 2),
        (theirs.as_fd(), SOCKET_FD),
    ];
    fds.extend(channels.map(|channels| (channels.as_fd(), CHANNELS_FD)));
    let spawned = spawn(&SpawnPlan {
        programs: &[c"/proc/self/exe".to_owned()],
        argv: &argv,
        env: &[],
        cwd: Some(c"/"),
        fds: &fds,
        identity: None,
        rights: None,
        rlimits: &[],
        namespaces: if options.namespaced {
            CLONE_NEWPID | CLONE_NEWNS
        } else {
            0
        },
        cgroup: None,
        join: &[],
        controlling_terminal: false,
        avoid_clone3: options.avoid_clone3,
    })?;
    drop(theirs);
    if let Some(Event::Ready { protections, .. }) = wait_for_event(&ours) {
        Ok(Started {
            pid: spawned.pid,
            socket: ours,
            pidfd: spawned.pidfd,
            proved: protections,
        })
    } else {
        end(&spawned);
        Err(LaunchError::NotReady)
    }
}

/// What init says next; `None` when it is gone or says nothing in time.
pub(crate) fn wait_for_event(socket: &OwnedFd) -> Option<Event> {
    let timeout = Timespec {
        tv_sec: READY_TIMEOUT.as_secs().cast_signed(),
        tv_nsec: 0,
    };
    match poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&timeout)) {
        Ok(1..) => match Event::receive(socket) {
            // That it did not live to read a word of ours is told first, and once; what it said itself comes after.
            Err(ReceiveError::Socket(Errno::CONNRESET)) => Event::receive(socket),
            received => received,
        }
        .ok()
        .flatten(),
        _ => None,
    }
}

fn end(spawned: &Spawned) {
    let _ = sandshell_sys::signal::send(&spawned.pidfd, 9);
    let _ = waitid(WaitId::PidFd(spawned.pidfd.as_fd()), WaitIdOptions::EXITED);
}

/// The words init was started with, as options. `None` for words we never say.
pub fn parse_init_arguments(
    mut arguments: impl Iterator<Item = std::ffi::OsString>,
) -> Option<InitOptions> {
    let mut options = InitOptions::default();
    while let Some(word) = arguments.next() {
        match word.to_str()? {
            "--namespaced" => options.namespaced = true,
            "--avoid-clone3" => options.avoid_clone3 = true,
            "--cgroup" => options.cgroups.push(PathBuf::from(arguments.next()?)),
            "--harden" => {
                let outside = Outside::from_word(arguments.next()?.to_str()?)?;
                let user = arguments.next()?;
                let user = user.to_str().filter(|uid| !uid.is_empty());
                options.hardening = Some(Unaided {
                    outside,
                    user: user.map(str::parse).transpose().ok()?,
                });
            }
            "--warden" => options.warden = true,
            "--channels" => options.channels = true,
            _ => return None,
        }
    }
    Some(options)
}

/// Runs the program `true`-like: our own binary with a word that makes it end at once.
fn probe(group: Option<&Group>) -> Result<(), SpawnError> {
    let spawned = spawn(&SpawnPlan {
        programs: &[c"/proc/self/exe".to_owned()],
        argv: &[
            c"sandshell".to_owned(),
            c"init".to_owned(),
            c"--probe".to_owned(),
        ],
        env: &[],
        cwd: None,
        fds: &[],
        identity: None,
        rights: None,
        rlimits: &[],
        namespaces: 0,
        cgroup: group.and_then(Group::dir),
        join: &[],
        controlling_terminal: false,
        avoid_clone3: false,
    })?;
    let _ = waitid(WaitId::PidFd(spawned.pidfd.as_fd()), WaitIdOptions::EXITED);
    Ok(())
}

fn clone3_works() -> bool {
    !matches!(
        probe(None),
        Err(SpawnError {
            stage: Stage::Clone,
            ..
        })
    )
}

/// Groups below our own: for trees, in which a birth has been tried, and for limits.
fn make_groups(avoid_clone3: bool) -> (Result<Group, String>, Controllers) {
    let parent = Parent::own();
    remove_dead(&parent);
    let name = format!("{GROUP}{}", rustix::process::getpid().as_raw_pid());
    // A former agent with our pid may have died without its init being able to clean up.
    if let Err(errno) = SandboxGroups::sweep(&parent, &name, READY_TIMEOUT) {
        let left = not_swept(&name, errno);
        return (Err(left.clone()), Controllers::none(&left));
    }
    let trees = if avoid_clone3 {
        Err("clone3 is not available, so nothing can be born in a group".to_owned())
    } else {
        make_trees(&parent, &name)
    };
    let controllers = Controllers::below(&parent, &name, &trees);
    for group in trees.iter().chain(controllers.groups()) {
        group.claim();
    }
    (trees, controllers)
}

/// Why groups that a former agent may have left are in the way.
fn not_swept(name: &str, errno: Errno) -> String {
    match errno {
        Errno::BUSY => format!("something still lives in {name}, which a former agent left"),
        errno => {
            format!("{name}, which a former agent may have left, cannot be looked at: {errno}")
        }
    }
}

/// Removes the groups of agents that were killed together with their inits, so that nobody was left to
/// do it. An agent in another PID namespace may have a number that nobody has here; its claim tells.
fn remove_dead(parent: &Parent) {
    for name in parent.names(GROUP) {
        let pid = name.strip_prefix(GROUP).unwrap_or_default();
        let alive = |number: i32| std::fs::exists(format!("/proc/{number}")).unwrap_or(true);
        // Sandboxes of a hub have other names, some of them digits: longer, or with zeroes in front.
        if let Ok(number) = pid.parse::<i32>()
            && number.to_string() == pid
            && !alive(number)
        {
            parent.remove_unclaimed(&name);
        }
    }
}

fn make_trees(parent: &Parent, name: &str) -> Result<Group, String> {
    let group = parent.unified_child(name)?;
    let tried = group
        .child("probe")
        .map_err(|errno| errno.to_string())
        .and_then(|inner| {
            let born = probe(Some(&inner)).map_err(|error| error.to_string());
            let _ = inner.remove();
            born
        });
    match tried {
        Ok(()) => Ok(group),
        Err(reason) => {
            let _ = group.remove();
            Err(format!("a process cannot be born in a group: {reason}"))
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::stage::Step;

    #[test]
    fn only_what_is_busy_is_said_to_live() {
        assert!(not_swept("x", Errno::BUSY).contains("still lives in x"));
        let unseen = not_swept("x", Errno::MFILE);
        assert!(
            !unseen.contains("lives") && unseen.contains("Too many open files"),
            "{unseen}"
        );
    }

    #[test]
    fn what_init_said_is_heard_though_it_read_nothing_any_more() {
        let (ours, theirs) = packet::pair().unwrap();
        packet::send(&ours, b"unread", &[]).unwrap();
        let step = Step::at("the root")(Errno::NOTDIR);
        Event::Unfit(step.clone()).send(&theirs).unwrap();
        drop(theirs);
        let heard = wait_for_event(&ours);
        assert!(
            matches!(&heard, Some(Event::Unfit(said)) if *said == step),
            "{heard:?}"
        );
    }
}
