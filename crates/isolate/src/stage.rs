//! From the launcher's fork to an agent in its own namespaces, with an init in the commands' ones.
//!
//! ```text
//! launcher ─fork─► stage: in U1, P1, M1, I, T
//!                   │ waits for its ids                                   (ids are mapped from outside)
//!                   ├─fork─► init: P2, M2 ─ root ─ N ─ U2 ─ asks for ids ─► READY ─► proof ─► serves
//!                   │ N, own root, /proc of P1, loopback, host name
//!                   ├─fork─► warden: waits for the first private tree
//!                   │ maps init's ids, gives up its rights
//!                   ▼
//!                  agent: waits for READY when it needs init
//! ```
//!
//! The agent's root holds its state, its /proc and /dev/null, nothing else. Namespaces that commands
//! live in are all owned by U1; U2, in which they run, is made last and owns nothing, so that not
//! even its root has rights over a mount, the network or init.
//!
//! Stage and init work at once: N takes the kernel longest of all, so the stage makes it while init builds the
//! root, and the warden is forked before there is a place for its programs. Each meets what was not there yet at
//! its [gate](pass_gates).

mod inner;
mod leftovers;
mod warden;

use std::ffi::CStr;
use std::fs::File;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, mkdir, open, openat};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{DumpableBehavior, Gid, Uid, set_dumpable_behavior};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, set_capabilities,
    set_capabilities_secure_bits, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};
use sandshell_sys::capability::Capabilities;
use sandshell_sys::cgroup::Group;
use sandshell_sys::mounts::{self, Limits};
use sandshell_sys::namespace::{self, Namespaces};
use sandshell_sys::{packet, signal};
use sandshell_types::{Layer, Protection, ProtectionStatus};
use serde::{Deserialize, Serialize};

use self::leftovers::Leftovers;

use crate::harden::{Ceilings, Devices, InitHardening};
use crate::launch::{InitHandle, Surroundings, WardenPlan, wait_for_event};
use crate::launcher::Workshop;
use crate::limits::{Controllers, Joins, SandboxGroups, SandboxLimits};
use crate::plan::{AGENT_UID, Ids, SANDBOX_UID, SandboxPlan};
use crate::proof::Proof;
use crate::protocol::Event;
use crate::rootfs;

/// Where the agent finds its state.
const STATE: &str = "/state";

/// One more address, for programs that ask for addresses only of the kinds the machine has: 127.0.0.1
/// does not count as one.
const SEEN: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// How many sandboxes of an ordinary user can have as many watches as they may.
const SANDBOXES_THAT_WATCH: u64 = 4;

/// What comes with namespaces to enter.
const GATES: &[u8] = b"gates";

/// What init waits for before it goes on.
const MAPPED: &[u8] = b"mapped";

/// A step on the way to a sandbox that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{what}: {errno}")]
pub struct Step {
    /// What was being made.
    pub what: String,
    /// Why it could not be.
    #[serde(with = "errno_number")]
    pub errno: Errno,
}

/// Steps that only need rights over files.
const OF_FILES: &[&str] = &[
    "the sandbox's directory",
    "the agent's socket",
    "a shown directory",
];

/// Steps that an image may be in the way of.
const OF_ROOT: &[&str] = &[
    "a layer",
    "the root's directories",
    "a file of the root",
    "/dev",
    "/proc",
];

impl Step {
    /// Turns an error of this step into one that tells of it.
    pub(crate) fn at(what: &'static str) -> impl Fn(Errno) -> Self {
        move |errno| Self {
            what: what.to_owned(),
            errno,
        }
    }

    /// Whether it is about the files that the root is made of.
    pub fn is_of_root(&self) -> bool {
        let odd = matches!(
            self.errno,
            Errno::NOENT | Errno::NOTDIR | Errno::ISDIR | Errno::LOOP | Errno::EXIST | Errno::INVAL
        );
        odd && OF_ROOT.contains(&self.what.as_str())
    }

    /// What to say where the place forbids it, as containers do; `None` for anything that failed or is
    /// used up.
    pub fn forbidden(&self) -> Option<Forbidden> {
        let forbidden = match self.errno {
            Errno::PERM | Errno::ACCESS | Errno::NOSYS | Errno::OPNOTSUPP | Errno::ROFS => {
                !OF_FILES.contains(&self.what.as_str())
            }
            // So a limit on the number of namespaces says it.
            Errno::NOSPC | Errno::USERS => self.what == NEW_NAMESPACES,
            _ => false,
        };
        let reason = format!("namespaces and mounts are not permitted here ({self})");
        let off = |name: &Layer| Protection {
            name: *name,
            status: ProtectionStatus::Off,
            reason: Some(reason.clone()),
        };
        let protections = MADE_OF_NAMESPACES.iter().map(off).collect();
        forbidden.then_some(Forbidden {
            reason,
            protections,
        })
    }
}

/// Why no sandbox can be made in this place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no sandbox can be isolated: {reason}")]
pub struct Forbidden {
    reason: String,
    /// The layers that cannot be had.
    pub protections: Vec<Protection>,
}

/// The step that makes them.
pub(crate) const NEW_NAMESPACES: &str = "new namespaces";

/// What a sandbox cannot be made without.
const MADE_OF_NAMESPACES: &[Layer] = &[
    Layer::PidNs,
    Layer::MountNs,
    Layer::NetNs,
    Layer::IpcNs,
    Layer::UtsNs,
    Layer::CgroupNs,
    Layer::PivotRoot,
];

/// What can be done where the place forbids it.
pub const REMEDY: &str = "In a container, start it with `--security-opt seccomp=unconfined --security-opt \
    apparmor=unconfined --security-opt systempaths=unconfined`, or have `sandshell agent` serve the \
    container itself. On a host, allow user namespaces: `sysctl user.max_user_namespaces=10000 \
    kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0`, those that exist.";

mod errno_number {
    use rustix::io::Errno;
    use serde::{Deserialize as _, Deserializer, Serializer};

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it so")]
    pub(super) fn serialize<S: Serializer>(errno: &Errno, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_i32(errno.raw_os_error())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Errno, D::Error> {
        crate::protocol::errno(i32::deserialize(from)?)
            .ok_or_else(|| serde::de::Error::custom("this is no error's number"))
    }
}

/// What whoever asked for a sandbox hears of it, once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Its agent takes requests, behind these protections.
    Ready(Vec<Protection>),
    /// It could not be made; nothing of it is left.
    Failed(Step),
    /// What its agent was set to cannot be there, so it ended.
    Refused {
        /// The setting.
        setting: String,
        /// Why not.
        reason: String,
    },
}

/// The line on which the outcome is told. Dropped without a word, it says that the sandbox died.
#[derive(Debug)]
pub struct Report(OwnedFd);

impl Report {
    pub(crate) fn new(line: OwnedFd) -> Self {
        Self(line)
    }

    /// Tells it. An error says that whoever asked is gone, and that nobody knows of the sandbox.
    pub fn tell(self, outcome: &Outcome) -> std::io::Result<()> {
        let text = serde_json::to_vec(outcome)?;
        File::from(self.0).write_all(&text)
    }
}

/// What an agent takes over.
#[derive(Debug)]
pub struct Seat {
    /// Its init, which is on its way in.
    pub init: Arriving,
    /// A bound socket, on which it must listen itself: that is how it can be told who it is.
    pub socket: OwnedFd,
    /// The directory it keeps its state in.
    pub state_dir: PathBuf,
    /// Ends when whoever asked for the sandbox goes away; then so must the agent.
    pub liveness: Option<OwnedFd>,
    /// Where to tell that it takes requests.
    pub report: Report,
    /// The plan's settings for the agent.
    pub settings: serde_json::Value,
}

/// An init that hardens itself while its agent starts.
#[derive(Debug)]
pub struct Arriving(InitHandle);

impl Arriving {
    /// Blocks until it is ready.
    pub fn arrive(self) -> Result<InitHandle, Step> {
        let Self(mut init) = self;
        match wait_for_event(&init.socket) {
            Some(Event::Ready {
                root: Some(root), ..
            }) => init.root = Some(root),
            Some(Event::Unfit(step)) => return Err(step),
            _ => return Err(Step::at("init")(Errno::PIPE)),
        }
        Ok(init)
    }
}

/// What the launcher leaves to the stage across the fork.
#[derive(Debug)]
pub(crate) struct Birth {
    pub(crate) plan: SandboxPlan,
    /// Carries one byte when the ids are mapped.
    pub(crate) go: OwnedFd,
    /// Copies of mounts, where the launcher must make them.
    pub(crate) trees: Option<Trees>,
    pub(crate) groups: SandboxGroups,
    /// What init joins of them.
    pub(crate) joins: Joins,
    /// What the agent gets of them.
    pub(crate) delegated: (Result<Group, String>, Controllers),
    pub(crate) socket: OwnedFd,
    pub(crate) liveness: Option<OwnedFd>,
}

/// Copies of the host's directories that become part of a sandbox. Root's launcher makes them, which
/// alone may reach and map them; an ordinary user's namespaces can only copy mounts of their own.
#[derive(Debug)]
pub(crate) struct Trees {
    /// The agent's state.
    pub(crate) state: OwnedFd,
    /// The shown directories, in the plan's order.
    pub(crate) shown: Vec<OwnedFd>,
}

impl Trees {
    pub(crate) fn open(plan: &SandboxPlan) -> Result<Self, Step> {
        // A namespace of an ordinary user must take along what is mounted below.
        let recursive = plan.ids == Ids::Own;
        let copy = |path: &Path, what| mounts::copy_of(path, recursive).map_err(Step::at(what));
        Ok(Self {
            state: copy(&plan.directory.join("agent"), "the agent's state")?,
            shown: plan
                .root
                .shown
                .iter()
                .map(|shown| copy(&shown.source, "a shown directory"))
                .collect::<Result<_, _>>()?,
        })
    }
}

/// Sets everything up around the calling process, which then is the agent of the sandbox.
pub(crate) fn become_agent(
    workshop: &Workshop,
    birth: Birth,
    report: Report,
) -> Result<Seat, (Report, Step)> {
    match set_up(workshop, birth) {
        Ok(made) => Ok(Seat {
            init: made.init,
            socket: made.socket,
            state_dir: PathBuf::from(STATE),
            liveness: made.liveness,
            report,
            settings: made.settings,
        }),
        Err(step) => Err((report, step)),
    }
}

struct Made {
    init: Arriving,
    socket: OwnedFd,
    liveness: Option<OwnedFd>,
    settings: serde_json::Value,
}

fn set_up(workshop: &Workshop, birth: Birth) -> Result<Made, Step> {
    let Birth {
        plan,
        go,
        trees,
        groups,
        joins,
        delegated: (cgroup, controllers),
        socket,
        liveness,
    } = birth;
    signal::default_all();
    signal::ignore(signal::PIPE);
    // What needs no ids is done while they are mapped. Whether it could be is told afterwards: until then the launcher
    // knows this process by its number.
    let ahead = ahead_of_ids();
    let mut byte = [0];
    if rustix::io::read(&go, &mut byte).map_err(Step::at("the launcher"))? != 1 {
        return Err(Step::at("the launcher is gone")(Errno::PIPE));
    }
    let Ahead {
        init: (ours, theirs),
        proof: (proof, prover),
    } = ahead?;
    set_capabilities_secure_bits(CapabilitiesSecureBits::NO_SETUID_FIXUP)
        .map_err(Step::at("securebits"))?;
    let own = Own::of(plan.ids);
    // The sandbox's groups are the agent's, so whoever is to be born in one must be its child.
    own.take_on(own.agent).map_err(Step::at("user ids"))?;
    let trees = match trees {
        Some(trees) => trees,
        None => Trees::open(&plan)?,
    };
    let channels = channels(own, plan.limits).map_err(Step::at("session channels"))?;
    let ceilings = Ceilings {
        // Where a group keeps their number, it can be changed later.
        pids: plan.limits.pids.filter(|_| !groups.limits_pids()),
        open_files: plan.open_files,
    };
    let both = Namespaces::PID.and(Namespaces::MOUNT);
    let born = namespace::fork_into(both, groups.init_group()).map_err(Step::at("init"))?;
    let Some(init) = born else {
        let entrance = inner::Entrance {
            workshop,
            plan: &plan,
            own,
            trees: &trees.shown,
            joins: &joins,
            ceilings,
            channels: &channels,
            socket: &theirs,
        };
        inner::run(&entrance, prover);
    };
    drop((theirs, trees.shown, prover));
    let network = new_network().map_err(Step::at(NEW_NAMESPACES))?;
    match packet::send(&ours, GATES, &[network.as_fd()]) {
        // Init has ended, and has said why.
        Ok(()) | Err(Errno::PIPE) => {}
        Err(errno) => return Err(Step::at("init's network")(errno)),
    }
    drop(network);
    own_surroundings(&plan, trees.state)?;
    // Forked after N was made, so that what it starts is in N, too.
    let home = warden::Home {
        joins,
        ceilings,
        hardening: hardening(workshop, &channels),
    };
    let warden = warden::post(home).map_err(Step::at("the warden"))?;
    expect_event(&ours, |event| matches!(event, Event::NeedMap))?;
    // Init has built its root, and may not be looked at any more once it has its ids.
    let gates = warden::Gates::of(init.pid).map_err(Step::at("init's namespaces"))?;
    map_ids(init.pid, plan.ids).map_err(Step::at("init's ids"))?;
    packet::send(&ours, MAPPED, &[]).map_err(Step::at("init's ids"))?;
    packet::send(&warden.socket, GATES, &gates.all()).map_err(Step::at("the warden"))?;
    // What the agent makes for shells they must be able to read; its state lies behind a private door.
    rustix::process::umask(Mode::from_raw_mode(0o022));
    drop_capabilities(plan.ids).map_err(Step::at("the agent's capabilities"))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(Step::at("non-dumpable"))?;
    let init = Arriving(InitHandle {
        socket: ours,
        pidfd: init.pidfd,
        surroundings: Surroundings {
            pid_namespace: Ok(()),
            cgroup,
            controllers,
            warden: Some(warden),
            warden_plan: WardenPlan::default(),
        },
        root: None,
        channels: Some(channels),
        proof: Proof::coming(proof, known(&plan, &groups)),
    });
    Ok(Made {
        init,
        socket,
        liveness,
        settings: plan.agent,
    })
}

/// What a stage makes before it has ids.
struct Ahead {
    /// Both ends of init's socket.
    init: (OwnedFd, OwnedFd),
    /// Both ends of the line on which the proof comes.
    proof: (OwnedFd, OwnedFd),
}

fn ahead_of_ids() -> Result<Ahead, Step> {
    rustix::process::setsid().map_err(Step::at("setsid"))?;
    // What is built has the modes it is given.
    rustix::process::umask(Mode::empty());
    rootfs::privatise().map_err(Step::at("private mounts"))?;
    Ok(Ahead {
        init: packet::pair().map_err(Step::at("init's socket"))?,
        proof: pipe_with(PipeFlags::CLOEXEC).map_err(Step::at("a pipe"))?,
    })
}

/// Goes to a fresh network namespace, and gives its descriptor.
fn new_network() -> Result<OwnedFd, Errno> {
    namespace::unshare_network()?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    open("/proc/self/ns/net", flags, Mode::empty())
}

/// Waits until there are these namespaces to enter.
fn pass_gates<const COUNT: usize>(socket: &OwnedFd) -> Result<[OwnedFd; COUNT], Errno> {
    let gates = await_word(socket, GATES)?;
    gates.try_into().map_err(|_| Errno::PROTO)
}

/// Waits for a word; gives what came with it.
fn await_word(socket: &OwnedFd, word: &[u8]) -> Result<Vec<OwnedFd>, Errno> {
    let mut buffer = [0; 16];
    match packet::wait_for(socket, &mut buffer)? {
        Some(packet) if buffer.get(..packet.len) == Some(word) => Ok(packet.fds),
        _ => Err(Errno::PIPE),
    }
}

/// What init, and whoever else starts programs of the sandbox, gives up.
fn hardening<'a>(workshop: &'a Workshop, channels: &'a OwnedFd) -> InitHardening<'a> {
    InitHardening {
        filters: &workshop.filters,
        channels: Some(channels.as_fd()),
        writable: None,
        devices: Devices::Usual,
        keep: Capabilities::NONE,
    }
}

/// What no probe could see from inside.
fn known(plan: &SandboxPlan, groups: &SandboxGroups) -> Vec<Protection> {
    let mut known = groups.protections().to_vec();
    // Without a group init has set a limit that is the sandbox's own.
    if plan.limits.pids.is_some() && !groups.limits_pids() {
        known.retain(|protection| protection.name != Layer::PidsLimit);
        known.push(Protection {
            name: Layer::PidsLimit,
            status: ProtectionStatus::Enforced,
            reason: None,
        });
    }
    // The one file system that can be written to has its limits from its making, and a network
    // namespace with nothing but loopback in it lets nothing out.
    for name in [Layer::DiskLimit, Layer::InodeLimit, Layer::EgressPolicy] {
        known.push(Protection {
            name,
            status: ProtectionStatus::Enforced,
            reason: None,
        });
    }
    known
}

fn expect_event(socket: &OwnedFd, wanted: impl Fn(&Event) -> bool) -> Result<(), Step> {
    match wait_for_event(socket) {
        Some(event) if wanted(&event) => Ok(()),
        Some(Event::Unfit(step)) => Err(step),
        _ => Err(Step::at("init")(Errno::PIPE)),
    }
}

/// Who builds the sandbox and who the agent is, by the numbers of U1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Own {
    pub(crate) builder: u32,
    pub(crate) agent: u32,
}

impl Own {
    fn of(ids: Ids) -> Self {
        match ids {
            Ids::Range(_) => Self {
                builder: 0,
                agent: AGENT_UID,
            },
            // The only one there is.
            Ids::Own => Self {
                builder: SANDBOX_UID,
                agent: SANDBOX_UID,
            },
        }
    }

    /// Capabilities stay as they are.
    pub(crate) fn take_on(self, id: u32) -> Result<(), Errno> {
        // Where there is one id, groups can be neither chosen nor dropped.
        if self.builder != self.agent {
            set_thread_groups(&[])?;
        }
        let (uid, gid) = (Uid::from_raw(id), Gid::from_raw(id));
        set_thread_res_gid(gid, gid, gid)?;
        set_thread_res_uid(uid, uid, uid)
    }
}

/// The agent's own mounts, network and host name.
fn own_surroundings(plan: &SandboxPlan, state: OwnedFd) -> Result<(), Step> {
    let null = mounts::copy_of(c"/dev/null", false).map_err(Step::at("/dev/null"))?;
    let limits = Limits {
        read_only: false,
        no_devices: true,
        no_programs: true,
    };
    let bare = |errno| Step::at("the agent's root")(errno);
    let options = [(c"mode", "0755"), (c"size", "64k"), (c"nr_inodes", "16")];
    let root = mounts::fresh(c"tmpfs", &options, limits).map_err(bare)?;
    mounts::attach(&root, CWD, c"/tmp").map_err(bare)?;
    rustix::process::chdir(c"/tmp").map_err(bare)?;
    for name in ["state", "proc", "dev"] {
        mkdir(name, Mode::from_raw_mode(0o755)).map_err(bare)?;
    }
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    openat(CWD, "dev/null", flags, Mode::from_raw_mode(0o666)).map_err(bare)?;
    mounts::limit(&state, limits).map_err(bare)?;
    mounts::attach(state, CWD, "state").map_err(bare)?;
    mounts::attach(null, CWD, "dev/null").map_err(bare)?;
    let proc = mounts::fresh(c"proc", &[], limits).map_err(Step::at("the agent's /proc"))?;
    mounts::attach(proc, CWD, "proc").map_err(Step::at("the agent's /proc"))?;
    rootfs::pivot()?;
    for number in 0..3 {
        place_standard(number).map_err(Step::at("standard streams"))?;
    }
    namespace::loopback_up().map_err(Step::at("loopback"))?;
    if plan.egress {
        namespace::loopback_address(SEEN).map_err(Step::at("loopback"))?;
    }
    // Commands hold no capability over the network; these take the need for one away.
    set_sysctl("net/ipv4/ip_unprivileged_port_start", "0");
    set_sysctl("net/ipv4/ping_group_range", "0 65534");
    // One more user namespace can be made, which is init's; then none.
    std::fs::write("/proc/sys/user/max_user_namespaces", "1").map_err(|error| {
        let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
        Step::at("the number of user namespaces")(errno)
    })?;
    if plan.ids == Ids::Own {
        leave_watches_to_others();
    }
    rustix::system::sethostname(plan.hostname.as_bytes()).map_err(Step::at("the host name"))
}

/// Takes no more than a part of what the kernel counts for whoever launches: an ordinary user's sandboxes have no
/// accounts of their own.
fn leave_watches_to_others() {
    for kind in ["instances", "watches"] {
        let all = std::fs::read_to_string(format!("/proc/sys/fs/inotify/max_user_{kind}"));
        let all = all.ok().and_then(|text| text.trim().parse::<u64>().ok());
        if let Some(all) = all {
            let part = (all / SANDBOXES_THAT_WATCH).to_string();
            set_sysctl(&format!("user/max_inotify_{kind}"), &part);
        }
    }
}

/// These only make life easier, so their failure is no reason not to go on.
fn set_sysctl(name: &str, value: &str) {
    let _ = std::fs::write(format!("/proc/sys/{name}"), value);
}

/// Puts /dev/null where a standard stream belongs.
pub(crate) fn place_standard(number: i32) -> Result<(), Errno> {
    let null = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    match number {
        0 => rustix::stdio::dup2_stdin(&null),
        1 => rustix::stdio::dup2_stdout(&null),
        _ => rustix::stdio::dup2_stderr(&null),
    }
}

/// Where shells and the agent exchange text: attached nowhere, so that `..` from it leads nowhere.
fn channels(own: Own, limits: SandboxLimits) -> Result<OwnedFd, Errno> {
    let agent = own.agent.to_string();
    let size = Leftovers::of(limits).channels.to_string();
    let options: [(&CStr, &str); 4] = [
        (c"mode", "0711"),
        (c"uid", &agent),
        (c"gid", &agent),
        (c"size", &size),
    ];
    let limits = Limits {
        read_only: false,
        no_devices: true,
        no_programs: false,
    };
    mounts::fresh(c"tmpfs", &options, limits)
}

/// Gives init's user namespace its ids: the same numbers as here, without the agent's.
fn map_ids(init: i32, ids: Ids) -> Result<(), Errno> {
    let map = match ids {
        Ids::Range(_) => format!("0 0 {}", AGENT_UID - 1),
        Ids::Own => format!("{SANDBOX_UID} {SANDBOX_UID} 1"),
    };
    write_maps(init, &map, &map, ids == Ids::Own)
}

/// Writes the id maps of a process in a fresh user namespace.
pub(crate) fn write_maps(
    pid: i32,
    users: &str,
    groups: &str,
    deny_setgroups: bool,
) -> Result<(), Errno> {
    let write = |file: &str, text: &str| {
        std::fs::write(format!("/proc/{pid}/{file}"), text)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    };
    if deny_setgroups {
        write("setgroups", "deny")?;
    }
    write("gid_map", groups)?;
    write("uid_map", users)
}

/// The agent keeps what it needs to act for the sandbox's users on their files and to see which of
/// them holds a port: all of it over this sandbox alone. Threads that act for a user give it up.
fn drop_capabilities(ids: Ids) -> Result<(), Errno> {
    let kept = match ids {
        Ids::Range(_) => {
            CapabilitySet::SETUID
                | CapabilitySet::SETGID
                | CapabilitySet::CHOWN
                | CapabilitySet::DAC_OVERRIDE
                | CapabilitySet::FOWNER
                | CapabilitySet::FSETID
        }
        Ids::Own => CapabilitySet::empty(),
    };
    set_capabilities(
        None,
        CapabilitySets {
            effective: kept,
            permitted: kept,
            inheritable: CapabilitySet::empty(),
        },
    )?;
    rustix::thread::set_no_new_privs(true)
}

/// A descriptor of a process's user namespace.
pub(crate) fn user_namespace(pid: i32) -> Result<OwnedFd, Errno> {
    open(
        format!("/proc/{pid}/ns/user"),
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )
}

/// Shows the copies under the ids of the sandbox.
pub(crate) fn map_trees(trees: &[OwnedFd], namespace: &OwnedFd) -> Result<(), Errno> {
    for tree in trees {
        let limits = Limits {
            read_only: false,
            ..Limits::SHOWN
        };
        mounts::map_ids(tree.as_fd(), namespace.as_fd(), limits)?;
    }
    Ok(())
}
