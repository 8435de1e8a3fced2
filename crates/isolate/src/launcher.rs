//! The launcher: a small process with one thread that forks one agent for each sandbox.
//!
//! ```text
//! hub ──launch{plan}──► launcher ──fork──► stage ─► agent
//!     ◄─pidfd, report──────                 │
//!     ◄──────────────────────── report: Outcome, once
//!     ──freeze, thaw, limit, remove{group}, name──►
//! ```
//!
//! It is a re-exec of the same binary, so that what it forks shares its pages and holds nothing of
//! the hub's. It alone makes and uses sandboxes' control groups. It keeps no state that matters: when the hub goes away so does it, and the sandboxes
//! stay, except those of one-shot plans, which it ends and whose directories it removes. It may be in the middle of something then; the
//! file whose lock it holds for the hub (`tenure.rs`) tells the next one when it is done, and where groups were made.
//!
//! Invariants: no thread, no runtime, no secret, and nothing random that forks would share.

mod account;
mod tenure;

use std::ffi::CString;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create, open};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use sandshell_sys::namespace::{self, Namespaces};
use sandshell_sys::packet::{self, Packet};
use sandshell_sys::spawn::{SpawnPlan, Spawned, spawn};
use sandshell_sys::{signal, turn};
use serde::{Deserialize, Serialize};

use self::account::Account;
use crate::harden::Filters;
use crate::limits::{Controllers, LimitError, Parent, SandboxGroups, SandboxLimits};
use crate::plan::{AGENT_UID, Ids, RANGE, SANDBOX_UID, SandboxPlan};
use crate::probe::Outside;
use crate::stage::{self, Birth, Outcome, Report, Seat, Step, Trees};

/// The word that makes the binary a launcher.
pub const WORD: &str = "launcher";

/// The descriptor of the hub's socket in the launcher.
pub const SOCKET_FD: i32 = 3;

/// How long groups may take to stand still, or to become empty once their processes were killed.
const WITHIN: Duration = Duration::from_secs(5);

/// Descriptors in the answer to a launch.
const ANSWERED: usize = 4;

/// Pause before an answer is tried again that there was no room for.
const NO_ROOM: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 10_000_000,
};

const DONE: u8 = 0;
const REFUSED: u8 = 1;

/// A running launcher, seen from whoever wants sandboxes.
#[derive(Debug)]
pub struct Launcher {
    socket: OwnedFd,
    process: OwnedFd,
}

/// A sandbox that is being made.
#[derive(Debug)]
pub struct Launched {
    /// Its agent; the end of it is the end of the sandbox.
    pub agent: OwnedFd,
    /// Where its [`Outcome`] is told.
    pub report: OwnedFd,
    /// What can give it another host name.
    pub naming: Naming,
}

/// The namespaces of a sandbox that have to do with its host name. To be opened at its birth: later
/// its processes are closed to all but root.
#[derive(Debug)]
pub struct Naming {
    user: OwnedFd,
    host: OwnedFd,
}

impl Naming {
    fn of(agent: &Spawned) -> Result<Self, Errno> {
        let namespace = |name: &str| {
            let path = format!("/proc/{}/ns/{name}", agent.pid);
            open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        };
        Ok(Self {
            user: namespace("user")?,
            host: namespace("uts")?,
        })
    }
}

/// Why a sandbox could not be made.
#[derive(Debug, thiserror::Error)]
pub enum LauncherError {
    /// The launcher could not be started, or is gone.
    #[error("the launcher is gone: {0}")]
    Gone(Errno),
    /// We have not what it takes to ask it; it was asked for nothing.
    #[error("the launcher cannot be asked: {0}")]
    Lack(Errno),
    /// A step failed.
    #[error("cannot make the sandbox: {0}")]
    Step(#[from] Step),
    /// A limit cannot be changed to what was asked; none was.
    #[error("{reason}")]
    Limit {
        /// The field; empty where it is about none.
        limit: String,
        /// Why.
        reason: String,
    },
    /// It died while it was being made.
    #[error("the sandbox died while it was being made")]
    Died,
}

/// What a failure to reach the launcher means: something is used up here, or it is gone.
fn unreached(errno: Errno) -> LauncherError {
    match errno {
        Errno::MFILE
        | Errno::NFILE
        | Errno::NOMEM
        | Errno::NOBUFS
        | Errno::NOSPC
        | Errno::AGAIN
        | Errno::TOOMANYREFS => LauncherError::Lack(errno),
        errno => LauncherError::Gone(errno),
    }
}

impl Launcher {
    /// Starts one.
    pub fn start() -> Result<Self, LauncherError> {
        let (ours, theirs) = packet::pair().map_err(unreached)?;
        let null =
            open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(unreached)?;
        let stderr = std::io::stderr();
        let word = CString::new(WORD).map_err(|_| LauncherError::Gone(Errno::INVAL))?;
        let spawned = spawn(&SpawnPlan {
            programs: &[c"/proc/self/exe".to_owned()],
            argv: &[c"sandshell".to_owned(), word],
            env: &[],
            cwd: Some(c"/"),
            fds: &[
                (null.as_fd(), 0),
                (null.as_fd(), 1),
                (stderr.as_fd(), 2),
                (theirs.as_fd(), SOCKET_FD),
            ],
            identity: None,
            rlimits: &[],
            namespaces: 0,
            rights: None,
            cgroup: None,
            join: &[],
            controlling_terminal: false,
            // It is not there in containers, and nothing is needed of it.
            avoid_clone3: true,
        })
        .map_err(|error| unreached(error.errno))?;
        Ok(Self {
            socket: ours,
            process: spawned.pidfd,
        })
    }

    /// The process it is, to be watched and collected by whoever started it.
    pub fn process(&self) -> std::io::Result<OwnedFd> {
        self.process.try_clone()
    }

    /// Lets it go, and waits until it and the one-shot sandboxes that it made are gone, with all they
    /// left.
    pub fn finish(self) {
        drop(self.socket);
        while let Err(Errno::INTR) =
            waitid(WaitId::PidFd(self.process.as_fd()), WaitIdOptions::EXITED)
        {}
    }

    /// Has a sandbox begun; its outcome comes on the report. Blocks for about a millisecond. Like the
    /// other calls it must not be made twice at once.
    pub fn launch(&self, plan: &SandboxPlan) -> Result<Launched, LauncherError> {
        let fds = self.ask(&Wish::Launch(Box::new(plan.clone())))?;
        match <[OwnedFd; ANSWERED]>::try_from(fds) {
            Ok([agent, report, user, host]) => Ok(Launched {
                agent,
                report,
                naming: Naming { user, host },
            }),
            Err(_) => Err(LauncherError::Gone(Errno::PROTO)),
        }
    }

    /// Has a directory removed at the end, ours or the launcher's, unless there is a sandbox in it, with
    /// which it goes.
    pub fn keep(&self, directory: &Path) -> Result<(), LauncherError> {
        self.ask(&Wish::Keep(directory.to_owned())).map(drop)
    }

    /// Has it hold a locked file to its end, however late that is and whatever becomes of us, and use those
    /// groups, too, that the file says others have made.
    pub fn hold(&self, file: BorrowedFd<'_>) -> Result<(), LauncherError> {
        self.ask_with(&Wish::Hold, &[file]).map(drop)
    }

    /// Gives a sandbox another host name.
    pub fn name(&self, naming: &Naming, name: &str) -> Result<(), LauncherError> {
        let wish = Wish::Name(name.to_owned());
        let fds = [naming.user.as_fd(), naming.host.as_fd()];
        self.ask_with(&wish, &fds).map(drop)
    }

    /// Stops everything in the groups of this name.
    pub fn freeze(&self, group: &str) -> Result<(), LauncherError> {
        self.ask(&Wish::Freeze(group.to_owned())).map(drop)
    }

    /// Lets it go on.
    pub fn thaw(&self, group: &str) -> Result<(), LauncherError> {
        self.ask(&Wish::Thaw(group.to_owned())).map(drop)
    }

    /// Changes limits of the groups of this name, all of them or none; those that are absent stay.
    pub fn limit(&self, group: &str, limits: SandboxLimits) -> Result<(), LauncherError> {
        let group = group.to_owned();
        self.ask(&Wish::Limit { group, limits }).map(drop)
    }

    /// Kills what is left in the groups of this name, and removes them.
    pub fn remove(&self, group: &str) -> Result<(), LauncherError> {
        self.ask(&Wish::Remove(group.to_owned())).map(drop)
    }

    fn ask(&self, wish: &Wish) -> Result<Vec<OwnedFd>, LauncherError> {
        self.ask_with(wish, &[])
    }

    fn ask_with(
        &self,
        wish: &Wish,
        with: &[BorrowedFd<'_>],
    ) -> Result<Vec<OwnedFd>, LauncherError> {
        let text = serde_json::to_vec(wish).map_err(|_| LauncherError::Gone(Errno::INVAL))?;
        // Room for what comes with the answer: without it a sandbox would be made that nobody has.
        let spare = || fcntl_dupfd_cloexec(&self.socket, 0).map_err(unreached);
        let room = (0..ANSWERED)
            .map(|_| spare())
            .collect::<Result<Vec<_>, _>>()?;
        // A plan may be larger than a packet.
        let memfd = memfd_create("sandshell-wish", MemfdFlags::CLOEXEC).map_err(unreached)?;
        let mut file = File::from(memfd);
        std::io::Write::write_all(&mut file, &text)
            .map_err(|e| unreached(Errno::from_io_error(&e).unwrap_or(Errno::IO)))?;
        let fds: Vec<_> = with.iter().copied().chain([file.as_fd()]).collect();
        packet::send(&self.socket, b"W", &fds).map_err(unreached)?;
        let mut buffer = [0; 4096];
        let Packet { len, fds, .. } = receive_answer(&self.socket, &mut buffer, room)
            .ok_or(LauncherError::Gone(Errno::PIPE))?;
        let answer = buffer.get(..len).unwrap_or_default();
        match answer.split_first() {
            Some((&DONE, _)) => Ok(fds),
            Some((&REFUSED, why)) => Err(serde_json::from_slice::<Refusal>(why)
                .map_or(LauncherError::Died, LauncherError::from)),
            _ => Err(LauncherError::Gone(Errno::PROTO)),
        }
    }
}

/// Collects a launcher that has ended; without this its entry stays in the table of processes.
pub fn collect(process: &OwnedFd) -> Result<(), Errno> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    waitid(WaitId::PidFd(process.as_fd()), options).map(drop)
}

/// Waits for the outcome that a report tells.
pub fn read_outcome(report: OwnedFd) -> Result<Outcome, LauncherError> {
    let mut text = Vec::new();
    File::from(report)
        .read_to_end(&mut text)
        .map_err(|_| LauncherError::Died)?;
    serde_json::from_slice(&text).map_err(|_| LauncherError::Died)
}

/// Waits for an answer, which must not be lost. The room that was kept for its descriptors is given
/// up when there is no other; if someone else takes that too, it waits.
fn receive_answer(socket: &OwnedFd, buffer: &mut [u8], room: Vec<OwnedFd>) -> Option<Packet> {
    let mut room = Some(room);
    loop {
        match packet::receive_whole(socket, buffer) {
            Ok(Some(packet)) if packet.cut => {
                if room.take().is_none() {
                    let _ = poll(&mut [], Some(&NO_ROOM));
                }
            }
            Ok(received) => return received,
            Err(Errno::AGAIN) => {
                let _ = poll(&mut [PollFd::new(socket, PollFlags::IN)], None);
            }
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

/// What is made once for all sandboxes; a fork inherits it.
#[derive(Debug)]
pub(crate) struct Workshop {
    /// The groups below which those of sandboxes are made.
    pub(crate) parent: Parent,
    /// Those below which earlier launchers have made some.
    former: Vec<Parent>,
    /// The filters of system calls.
    pub(crate) filters: Filters,
    /// How it looks outside; without it the probe could prove nothing.
    pub(crate) outside: Option<Outside>,
}

impl Workshop {
    /// Where groups of sandboxes may be.
    fn places(&self) -> impl Iterator<Item = &Parent> {
        std::iter::once(&self.parent).chain(&self.former)
    }

    fn groups(&self, name: &str) -> Result<SandboxGroups, Step> {
        let found = SandboxGroups::find(self.places(), name);
        found.map_err(Step::at("the sandbox's groups"))
    }
}

/// What the launcher itself remembers of a sandbox that must not outlive it.
struct Kept {
    agent: OwnedFd,
    group: String,
    directory: PathBuf,
    /// Held open as long as we live: its end is told to the agent by the kernel, also when we cannot.
    _alive: OwnedFd,
}

/// Serves until the hub is gone. In each forked child `serve_agent` is called, and what it returns is
/// that process's exit code.
pub fn serve(socket: OwnedFd, serve_agent: fn(Seat) -> i32) -> i32 {
    // Agents are told of by their pidfds; nobody collects them.
    signal::ignore(signal::CHLD);
    turn::ask_for_short_ones();
    rustix::process::umask(Mode::from_raw_mode(0o077));
    let mut workshop = Workshop {
        parent: Parent::own(),
        former: Vec::new(),
        filters: Filters::compile(),
        outside: Outside::look().ok(),
    };
    let mut kept = Vec::new();
    let mut directories = Vec::new();
    let mut held = Vec::new();
    let mut buffer = [0; 16];
    while let Ok(Some(Packet { mut fds, .. })) = packet::wait_for(&socket, &mut buffer) {
        let Some(wish) = fds.pop().and_then(read_wish) else {
            break;
        };
        let answer = match wish {
            Wish::Launch(plan) => match begin(&workshop, &plan) {
                Ok(Begun::Parent(begun)) => Ok(keep(&mut kept, *plan, begun)),
                Ok(Begun::Child(birth, report)) => {
                    // The agent holds nothing of the hub's.
                    drop((socket, kept, held));
                    return match stage::become_agent(&workshop, *birth, report) {
                        Ok(seat) => {
                            // Nor of the host's groups.
                            drop(workshop);
                            serve_agent(seat)
                        }
                        Err((report, step)) => {
                            // Nobody may be there to hear it; it is over either way.
                            let _ = report.tell(&Outcome::Failed(step));
                            125
                        }
                    };
                }
                Err(step) => Err(step.into()),
            },
            Wish::Keep(directory) => {
                directories.push(directory);
                Ok(Vec::new())
            }
            Wish::Hold => done(fds.pop().map_or(Ok(()), |file| {
                workshop.former = tenure::take_over(&file, &workshop.parent)?;
                held.push(file);
                Ok(())
            })),
            Wish::Limit { group, limits } => match workshop.groups(&group) {
                Ok(groups) => groups.change(&limits).map_err(Refusal::from),
                Err(step) => Err(step.into()),
            }
            .map(|()| Vec::new()),
            Wish::Name(name) => done(rename(&fds, &name)),
            Wish::Freeze(group) => done(freeze(&workshop, &group)),
            Wish::Thaw(group) => done(thaw(&workshop, &group)),
            Wish::Remove(group) => done(remove(&workshop, &group)),
        };
        if !reply(&socket, answer) {
            break;
        }
    }
    for Kept {
        agent,
        group,
        directory,
        ..
    } in kept
    {
        let _ = signal::send(&agent, 9);
        // The end of the agent is the end of its namespaces, and so of everything in them.
        let _ = poll(&mut [PollFd::new(&agent, PollFlags::IN)], None);
        let _ = remove(&workshop, &group);
        let _ = std::fs::remove_dir_all(directory);
    }
    for directory in directories {
        let _ = std::fs::remove_dir_all(directory);
    }
    0
}

/// The answer to a wish that gives nothing back.
fn done(outcome: Result<(), Step>) -> Result<Vec<OwnedFd>, Refusal> {
    outcome.map(|()| Vec::new()).map_err(Refusal::from)
}

/// Gives the sandbox of these namespaces another host name: by a child, for whoever went there could
/// not come back.
fn rename(namespaces: &[OwnedFd], name: &str) -> Result<(), Step> {
    let failed = Step::at("the host name");
    let [user, host] = namespaces else {
        return Err(failed(Errno::INVAL));
    };
    let (told, tell) = pipe_with(PipeFlags::CLOEXEC).map_err(&failed)?;
    let born = namespace::fork_into(Namespaces::NONE, None).map_err(&failed)?;
    if born.is_none() {
        let into = |fd: &OwnedFd, kind| move_into_link_name_space(fd.as_fd(), Some(kind));
        let named = into(user, LinkNameSpaceType::User)
            .and_then(|()| into(host, LinkNameSpaceType::HostNameAndNISDomainName))
            .and_then(|()| rustix::system::sethostname(name.as_bytes()));
        let errno = named.map_or_else(Errno::raw_os_error, |()| 0);
        let _ = rustix::io::write(&tell, &errno.to_ne_bytes());
        std::process::exit(0);
    }
    drop(tell);
    let mut errno = [0; 4];
    match rustix::io::read(&told, &mut errno).map_err(&failed)? {
        4 if i32::from_ne_bytes(errno) == 0 => Ok(()),
        4 => Err(failed(Errno::from_raw_os_error(i32::from_ne_bytes(errno)))),
        _ => Err(failed(Errno::CHILD)),
    }
}

fn freeze(workshop: &Workshop, group: &str) -> Result<(), Step> {
    let groups = workshop.groups(group)?;
    let failed = Step::at("freezing the sandbox");
    match groups.freeze(WITHIN) {
        Ok(true) => Ok(()),
        Ok(false) => Err(failed(Errno::TIMEDOUT)),
        Err(errno) => Err(failed(errno)),
    }
}

fn thaw(workshop: &Workshop, group: &str) -> Result<(), Step> {
    let groups = workshop.groups(group)?;
    groups.thaw().map_err(Step::at("the sandbox's groups"))
}

fn remove(workshop: &Workshop, group: &str) -> Result<(), Step> {
    let mut swept = Ok(());
    for place in workshop.places() {
        swept = swept.and(SandboxGroups::sweep(place, group, WITHIN));
    }
    swept.map_err(Step::at("removing the sandbox's groups"))
}

/// Remembers a one-shot sandbox; gives what the hub gets of any.
fn keep(kept: &mut Vec<Kept>, plan: SandboxPlan, begun: Beginning) -> Vec<OwnedFd> {
    let Beginning {
        agent,
        report,
        naming,
        alive,
    } = begun;
    if let Some(alive) = alive
        && let Ok(agent) = fcntl_dupfd_cloexec(&agent, 0)
    {
        kept.push(Kept {
            agent,
            group: plan.group,
            directory: plan.directory,
            _alive: alive,
        });
    }
    vec![agent, report, naming.user, naming.host]
}

/// Answers. False when the answer cannot be given, for which the hub must not wait.
fn reply(socket: &OwnedFd, answer: Result<Vec<OwnedFd>, Refusal>) -> bool {
    let (text, fds) = match answer {
        Ok(fds) => (vec![DONE], fds),
        Err(refusal) => {
            let mut text = vec![REFUSED];
            text.extend(serde_json::to_vec(&refusal).unwrap_or_default());
            (text, Vec::new())
        }
    };
    let fds: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
    packet::send(socket, &text, &fds).is_ok()
}

/// What a wish of these bytes comes to, in its one form.
#[doc(hidden)]
pub fn wish_of(bytes: &[u8]) -> Option<Vec<u8>> {
    let wish: Wish = serde_json::from_slice(bytes).ok()?;
    serde_json::to_vec(&wish).ok()
}

fn read_wish(memfd: OwnedFd) -> Option<Wish> {
    let mut file = File::from(memfd);
    std::io::Seek::rewind(&mut file).ok()?;
    serde_json::from_reader(std::io::BufReader::new(file)).ok()
}

/// What the hub can ask for.
#[derive(Debug, Serialize, Deserialize)]
enum Wish {
    Keep(PathBuf),
    /// With the file that is to be held.
    Hold,
    Launch(Box<SandboxPlan>),
    Freeze(String),
    Thaw(String),
    /// With the descriptors of a [`Naming`].
    Name(String),
    Limit {
        group: String,
        limits: SandboxLimits,
    },
    Remove(String),
}

/// Why it did not get it.
#[derive(Debug, Serialize, Deserialize)]
enum Refusal {
    Step(Step),
    Limit { limit: String, reason: String },
}

impl From<Step> for Refusal {
    fn from(step: Step) -> Self {
        Self::Step(step)
    }
}

impl From<LimitError> for Refusal {
    fn from(error: LimitError) -> Self {
        match error {
            LimitError::Lack { errno } => Step::at("the sandbox's limits")(errno).into(),
            error => Self::Limit {
                limit: error.limit().unwrap_or_default().to_owned(),
                reason: error.to_string(),
            },
        }
    }
}

impl From<Refusal> for LauncherError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Step(step) => Self::Step(step),
            Refusal::Limit { limit, reason } => Self::Limit { limit, reason },
        }
    }
}

struct Beginning {
    agent: OwnedFd,
    report: OwnedFd,
    naming: Naming,
    alive: Option<OwnedFd>,
}

enum Begun {
    Parent(Beginning),
    Child(Box<Birth>, Report),
}

fn begin(workshop: &Workshop, plan: &SandboxPlan) -> Result<Begun, Step> {
    let state = plan.directory.join("agent");
    std::fs::create_dir_all(&state).map_err(io_step("the sandbox's directory"))?;
    let agent_uid = match plan.ids {
        Ids::Range(base) => {
            let agent = base + AGENT_UID;
            chown(&state, Some(agent), Some(agent)).map_err(io_step("the agent's state"))?;
            agent
        }
        Ids::Own => rustix::process::getuid().as_raw(),
    };
    let groups = SandboxGroups::create(&workshop.parent, &plan.group, &plan.limits, agent_uid)
        .map_err(|error| match error {
            LimitError::Lack { errno } | LimitError::Unseen { errno, .. } => {
                Step::at("the sandbox's groups")(errno)
            }
            error => Step {
                what: error.to_string(),
                errno: Errno::INVAL,
            },
        })?;
    let begun = begin_in(groups, plan);
    if begun.is_err() {
        // Nobody else may know of them.
        let _ = SandboxGroups::sweep(&workshop.parent, &plan.group, WITHIN);
    }
    begun
}

fn begin_in(groups: SandboxGroups, plan: &SandboxPlan) -> Result<Begun, Step> {
    let joins = groups.joins().map_err(Step::at("the sandbox's groups"))?;
    // Only whoever may mount can hand a group over without what lies beside it.
    let delegated = groups.delegate().unwrap_or_else(|errno| {
        let reason = format!("its groups cannot be handed over: {errno}");
        (Err(reason.clone()), Controllers::none(&reason))
    });
    let trees = match plan.ids {
        Ids::Range(_) => Some(Trees::open(plan)?),
        Ids::Own => None,
    };
    let socket = bind_socket(&plan.directory).map_err(Step::at("the agent's socket"))?;
    let (go, gone) = pipe_with(PipeFlags::CLOEXEC).map_err(Step::at("a pipe"))?;
    let (report, told) = pipe_with(PipeFlags::CLOEXEC).map_err(Step::at("a pipe"))?;
    let (liveness, alive) = if plan.one_shot {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(Step::at("a pipe"))?;
        (Some(read), Some(write))
    } else {
        (None, None)
    };
    let account = Account::of(plan.ids).map_err(Step::at("the sandbox's account"))?;
    let born = bear(groups.agent_group(), plan.ids, trees.as_ref());
    if !matches!(born, Ok(None)) {
        account
            .leave()
            .map_err(Step::at("the launcher's account"))?;
    }
    let Some((agent, naming)) = born? else {
        drop((gone, report, alive));
        let birth = Birth {
            plan: plan.clone(),
            go,
            trees,
            groups,
            joins,
            delegated,
            socket,
            liveness,
        };
        return Ok(Begun::Child(Box::new(birth), Report::new(told)));
    };
    drop((go, told, liveness));
    let _ = rustix::io::write(&gone, b"g");
    Ok(Begun::Parent(Beginning {
        agent,
        report,
        naming,
        alive,
    }))
}

/// Forks the stage into its namespaces and gives it its ids; `None` in the stage, which waits for a byte and
/// without it ends by itself.
fn bear(
    group: Option<BorrowedFd<'_>>,
    ids: Ids,
    trees: Option<&Trees>,
) -> Result<Option<(OwnedFd, Naming)>, Step> {
    let all = Namespaces::USER
        .and(Namespaces::PID)
        .and(Namespaces::MOUNT)
        .and(Namespaces::IPC)
        .and(Namespaces::UTS);
    let born = namespace::fork_into(all, group).map_err(Step::at(stage::NEW_NAMESPACES))?;
    let Some(agent) = born else { return Ok(None) };
    let naming = Naming::of(&agent).map_err(Step::at("the sandbox's namespaces"))?;
    let shown = trees.map(|trees| trees.shown.as_slice());
    map(&agent, ids, shown.unwrap_or_default())?;
    Ok(Some((agent.pidfd, naming)))
}

fn map(agent: &Spawned, ids: Ids, trees: &[OwnedFd]) -> Result<(), Step> {
    match ids {
        Ids::Range(base) => {
            let range = format!("0 {base} {RANGE}");
            stage::write_maps(agent.pid, &range, &range, false)
                .map_err(Step::at("the sandbox's ids"))?;
            let namespace =
                stage::user_namespace(agent.pid).map_err(Step::at("the sandbox's ids"))?;
            stage::map_trees(trees, &namespace).map_err(Step::at("the ids of a shown directory"))
        }
        Ids::Own => {
            let me = rustix::process::getuid().as_raw();
            let group = rustix::process::getgid().as_raw();
            stage::write_maps(
                agent.pid,
                &format!("{SANDBOX_UID} {me} 1"),
                &format!("{SANDBOX_UID} {group} 1"),
                true,
            )
            .map_err(Step::at("the sandbox's ids"))
        }
    }
}

/// A socket bound by way of its directory's descriptor: a path to a socket has at most 107 bytes.
fn bind_socket(directory: &Path) -> Result<OwnedFd, Errno> {
    let dir = open(
        directory,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    match rustix::fs::unlinkat(&dir, "agent.sock", rustix::fs::AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno),
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let path = format!("/proc/self/fd/{}/agent.sock", dir.as_raw_fd());
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

fn io_step(what: &'static str) -> impl Fn(std::io::Error) -> Step {
    move |error| Step::at(what)(Errno::from_io_error(&error).unwrap_or(Errno::IO))
}
