//! The groups of one sandbox: made before it starts, frozen and killed by, removed after it.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use sandshell_sys::cgroup::{Group, Limit, Seat, Version};
use sandshell_sys::{procfs, signal};
use sandshell_types::{Layer, Protection, ProtectionStatus};

use super::allowance::Allowance;
use super::parent::{enable_below, make_child};
use super::{Common, Controllers, LimitError, Parent, SandboxLimits, wanted};

const SIGKILL: i32 = 9;

/// What `cgroup.events` says of a group that stands still.
const FROZEN: &str = "frozen 1";

/// What it says of one in which nothing lives.
const EMPTY: &str = "populated 0";

/// Version 1 tells nobody when it is done, so it is asked again after this long.
const PAUSE: Duration = Duration::from_millis(1);

/// How long the killed of a version 1 group may take.
const DYING: Duration = Duration::from_secs(5);

/// The part of a sandbox in the unified hierarchy.
#[derive(Debug)]
pub(super) struct Unified {
    pub(super) sandbox: Group,
    pub(super) supervisor: Group,
    pub(super) commands: Group,
    /// Where init goes, so that controllers can be passed on below `commands`.
    pub(super) init: Option<Group>,
}

/// The groups of one sandbox.
#[derive(Debug)]
pub struct SandboxGroups {
    pub(super) unified: Result<Unified, String>,
    pub(super) memory: Result<Seat, String>,
    pub(super) cpu: Result<Seat, String>,
    pub(super) pids: Result<Seat, String>,
    pub(super) freezer: Result<Seat, String>,
    protections: Vec<Protection>,
}

/// What init writes `0` to, to join its groups. The descriptors carry the rights of the hub.
#[derive(Debug, Default)]
pub struct Joins {
    /// Before it makes its cgroup namespace, so that they are the namespace's roots.
    pub before_namespace: Vec<OwnedFd>,
    /// After it, once it is in `c`: a group below that root.
    pub after_namespace: Vec<OwnedFd>,
    /// `c`, for whoever was not born there as init was.
    pub born_in: Option<OwnedFd>,
}

impl Joins {
    /// All of them.
    pub(crate) fn files(&self) -> impl Iterator<Item = &OwnedFd> {
        let files = self.before_namespace.iter().chain(&self.after_namespace);
        files.chain(&self.born_in)
    }

    /// Joins all that init is in, from another place and without a namespace.
    pub(crate) fn join_all(&self) -> Result<(), Errno> {
        for file in self.files() {
            rustix::io::write(file, b"0")?;
        }
        Ok(())
    }
}

impl SandboxGroups {
    /// Makes them. What cannot be had is told by [`Self::protections`]; only limits that could never be
    /// right are refused. `agent_uid` is the agent's user as this process sees it.
    pub fn create(
        parent: &Parent,
        name: &str,
        limits: &SandboxLimits,
        agent_uid: u32,
    ) -> Result<Self, LimitError> {
        limits.check()?;
        Self::sweep(parent, name, Duration::ZERO).map_err(|errno| match errno {
            Errno::BUSY => LimitError::InUse {
                name: name.to_owned(),
            },
            errno if sandshell_sys::is_lack(errno) => LimitError::Lack { errno },
            errno => LimitError::Unseen {
                name: name.to_owned(),
                errno,
            },
        })?;
        let unified = parent
            .unified
            .clone()
            .and_then(|above| make_unified(parent, &above, name, agent_uid));
        let seat = |above: &Result<Seat, String>| -> Result<Seat, String> {
            let above = above.clone()?;
            match above.version {
                Version::V1 => make_seat(&above, name, agent_uid),
                Version::V2 => unified.as_ref().map_err(Clone::clone).map(|made| Seat {
                    version: Version::V2,
                    group: made.commands.clone(),
                }),
            }
        };
        let mut groups = Self {
            memory: seat(&parent.memory),
            cpu: seat(&parent.cpu),
            pids: seat(&parent.pids),
            freezer: seat(&parent.freezer),
            unified,
            protections: Vec::new(),
        };
        groups.protections = groups.limit(limits);
        Ok(groups)
    }

    /// Those that were made earlier under this name, each in the first of these places that has it: two places can
    /// be the same in one hierarchy and not in another.
    pub fn find<'a>(places: impl Iterator<Item = &'a Parent>, name: &str) -> Result<Self, Errno> {
        let mut all = Self::existing(&Parent::none("the sandbox has no group"), name)?;
        for place in places {
            let here = Self::existing(place, name)?;
            if all.unified.is_err() {
                all.unified = here.unified;
            }
            for (seat, here) in [
                (&mut all.memory, here.memory),
                (&mut all.cpu, here.cpu),
                (&mut all.pids, here.pids),
                (&mut all.freezer, here.freezer),
            ] {
                if seat.is_err() {
                    *seat = here;
                }
            }
        }
        Ok(all)
    }

    /// Those that were made earlier under this name. One that cannot be looked at is not taken for one that is not
    /// there: a sandbox would be called awake that nobody woke.
    pub fn existing(parent: &Parent, name: &str) -> Result<Self, Errno> {
        let unified = match &parent.unified {
            Ok(above) => existing_unified(above, name)?,
            Err(reason) => Err(reason.clone()),
        };
        let seat = |above: &Result<Seat, String>| -> Result<Result<Seat, String>, Errno> {
            let (version, above) = match above {
                Ok(seat) => (seat.version, &seat.group),
                Err(reason) => return Ok(Err(reason.clone())),
            };
            let group = match (version, &unified) {
                (Version::V1, _) => existing_child(above, name)?,
                (Version::V2, Ok(made)) => Ok(made.commands.clone()),
                (Version::V2, Err(reason)) => Err(reason.clone()),
            };
            Ok(group.map(|group| Seat { version, group }))
        };
        Ok(Self {
            memory: seat(&parent.memory)?,
            cpu: seat(&parent.cpu)?,
            pids: seat(&parent.pids)?,
            freezer: seat(&parent.freezer)?,
            unified,
            protections: Vec::new(),
        })
    }

    /// Sets the limits and says what became of each.
    fn limit(&mut self, limits: &SandboxLimits) -> Vec<Protection> {
        let layers = [Layer::MemoryLimit, Layer::CpuLimit, Layer::PidsLimit];
        let seats = [&mut self.memory, &mut self.cpu, &mut self.pids];
        let mut protections: Vec<Protection> = layers
            .into_iter()
            .zip(seats)
            .zip(wanted(limits))
            .map(|((layer, seat), (_, limit))| match (&*seat, limit) {
                (_, None) => off(layer, "no limit was asked for"),
                (Err(reason), Some(_)) => off(layer, reason),
                (Ok(found), Some(limit)) => match found.set(limit) {
                    Ok(()) if layer == Layer::MemoryLimit && !found.counts_swap() => {
                        partial(layer, "the kernel does not count swap")
                    }
                    Ok(()) => enforced(layer),
                    Err(errno) => off(layer, &format!("the limit cannot be set: {errno}")),
                },
            })
            .collect();
        protections.push(match &self.unified {
            Ok(_) => enforced(Layer::KillTree),
            Err(reason) => partial(Layer::KillTree, &format!("no group to kill: {reason}")),
        });
        protections.push(match &self.memory {
            Ok(_) => enforced(Layer::OomAttribution),
            Err(reason) => off(Layer::OomAttribution, reason),
        });
        protections
    }

    /// Changes limits while the sandbox runs; those that are absent stay. All are changed or none.
    pub fn change(&self, limits: &SandboxLimits) -> Result<(), LimitError> {
        limits.check()?;
        let seats = [&self.memory, &self.cpu, &self.pids];
        let mut changes = Vec::new();
        for (seat, (name, limit)) in seats.into_iter().zip(wanted(limits)) {
            if let Some(limit) = limit {
                let seat = seat.as_ref().map_err(|reason| LimitError::Unavailable {
                    limit: name,
                    reason: reason.clone(),
                })?;
                changes.push((name, seat, limit));
            }
        }
        for (_, seat, limit) in &changes {
            make_room(seat, *limit)?;
        }
        let mut undo = Vec::new();
        for (name, seat, limit) in changes {
            let before = current(seat, limit);
            if let Err(errno) = seat.set(limit) {
                for (seat, before) in undo {
                    // It was so a moment ago.
                    let _ = Seat::set(seat, before);
                }
                return Err(not_set(name, seat, limit, errno));
            }
            undo.extend(before.map(|before| (seat, before)));
        }
        Ok(())
    }

    /// Whether the number of processes is kept by a group, where it can be changed later.
    pub fn limits_pids(&self) -> bool {
        let enforced = |one: &Protection| {
            one.name == Layer::PidsLimit && one.status == ProtectionStatus::Enforced
        };
        self.protections.iter().any(enforced)
    }

    /// What became of the limits, of killing and of the account of memory.
    pub fn protections(&self) -> &[Protection] {
        &self.protections
    }

    /// The group the agent is to be born in.
    pub fn agent_group(&self) -> Option<BorrowedFd<'_>> {
        self.unified.as_ref().ok()?.supervisor.dir()
    }

    /// The group init is to be born in.
    pub fn init_group(&self) -> Option<BorrowedFd<'_>> {
        self.unified.as_ref().ok()?.commands.dir()
    }

    /// What init joins by itself.
    pub fn joins(&self) -> Result<Joins, Errno> {
        let mut joins = Joins::default();
        for seat in [&self.memory, &self.cpu, &self.pids, &self.freezer] {
            if let Ok(seat) = seat
                && seat.version == Version::V1
            {
                joins.before_namespace.push(seat.group.join_file()?);
            }
        }
        if let Ok(Unified {
            init: Some(leaf), ..
        }) = &self.unified
        {
            joins.after_namespace.push(leaf.join_file()?);
        } else if let Ok(made) = &self.unified {
            joins.born_in = Some(made.commands.join_file()?);
        }
        Ok(joins)
    }

    /// What the agent gets: the group of its trees, and those of the controllers, as detached mounts.
    /// Needs the rights to mount.
    pub fn delegate(&self) -> Result<(Result<Group, String>, Controllers), Errno> {
        let trees = match &self.unified {
            Ok(made) => Ok(Group::adopt(made.commands.detached()?)),
            Err(reason) => Err(reason.clone()),
        };
        let seat = |seat: &Result<Seat, String>| -> Result<Result<Seat, String>, Errno> {
            let found = match seat {
                Ok(found) => found,
                Err(reason) => return Ok(Err(reason.clone())),
            };
            let group = match (&trees, found.version) {
                (Ok(trees), Version::V2) => trees.clone(),
                _ => Group::adopt(found.group.detached()?),
            };
            Ok(Ok(Seat {
                version: found.version,
                group,
            }))
        };
        let memory = seat(&self.memory)?;
        let controllers = Controllers {
            common: memory.as_ref().ok().map(|memory| Common {
                memory: memory.clone(),
                exclusive: true,
            }),
            memory,
            cpu: seat(&self.cpu)?,
            pids: seat(&self.pids)?,
        };
        Ok((trees, controllers))
    }

    /// Stops the whole sandbox, agent and all, or where only version 1 can, its commands. Says whether
    /// everything stands still within the time; otherwise it runs, for half frozen is worse than not at all. One that
    /// stood still before does so whatever fails here. To be called where blocking is allowed.
    pub fn freeze(&self, within: Duration) -> Result<bool, Errno> {
        if self.is_frozen()? {
            return Ok(true);
        }
        let frozen = self.stop(Allowance::of(within));
        if frozen != Ok(true) {
            let _ = self.thaw();
        }
        frozen
    }

    /// Whether it was told to stand still and does.
    fn is_frozen(&self) -> Result<bool, Errno> {
        if let Ok(made) = &self.unified {
            // The events tell of what stands still for a group above, too.
            let told = made.sandbox.read("cgroup.freeze")?.trim() == "1";
            return Ok(told && made.sandbox.read("cgroup.events")?.contains(FROZEN));
        }
        match &self.freezer {
            Ok(freezer) => Ok(freezer.group.read("freezer.state")?.trim() == "FROZEN"),
            Err(_) => Ok(false),
        }
    }

    fn stop(&self, mut time: Allowance) -> Result<bool, Errno> {
        if let Ok(made) = &self.unified {
            // Opened before anything is done.
            let events = made.sandbox.events()?;
            made.sandbox.freeze()?;
            return wait_for(&events, FROZEN, &mut time);
        }
        let freezer = self.freezer.as_ref().map_err(|_| Errno::OPNOTSUPP)?;
        freezer.group.write("freezer.state", "FROZEN")?;
        while freezer.group.read("freezer.state")?.trim() != "FROZEN" {
            if time.is_over() {
                return Ok(false);
            }
            time.wait(&mut [], PAUSE)?;
        }
        Ok(true)
    }

    /// Lets the sandbox run again. One that cannot be frozen runs.
    pub fn thaw(&self) -> Result<(), Errno> {
        if let Ok(made) = &self.unified {
            return made.sandbox.thaw();
        }
        match &self.freezer {
            Ok(freezer) => freezer.group.write("freezer.state", "THAWED"),
            Err(_) => Ok(()),
        }
    }

    /// Kills everything in the sandbox at once. Nothing can be started in it afterwards.
    pub fn kill(&self) -> Result<(), Errno> {
        if let Ok(made) = &self.unified {
            let _ = made.sandbox.freeze();
            return made.sandbox.kill();
        }
        let version_1 = [&self.freezer, &self.pids, &self.memory, &self.cpu];
        let seat = version_1.into_iter().flatten().next();
        let group = &seat.ok_or(Errno::OPNOTSUPP)?.group;
        kill_members(group, &mut Allowance::of(DYING));
        Ok(())
    }

    /// Kills what is left and removes the groups; says whether all are gone. May be called again.
    pub fn remove(&self, within: Duration) -> bool {
        let mut time = Allowance::of(within);
        let mut gone = true;
        if let Ok(made) = &self.unified {
            gone &= end(&made.sandbox, &mut time);
        }
        for seat in [&self.memory, &self.cpu, &self.pids, &self.freezer] {
            if let Ok(seat) = seat
                && seat.version == Version::V1
            {
                gone &= end(&seat.group, &mut time);
            }
        }
        gone
    }

    /// The same for what a former hub left under this name; `EBUSY` where not all of it is gone.
    pub fn sweep(parent: &Parent, name: &str, within: Duration) -> Result<(), Errno> {
        let mut time = Allowance::of(within);
        let mut swept = Ok(());
        for above in parent.groups() {
            let gone = match above.existing(name) {
                Ok(left) if end(&left, &mut time) => Ok(()),
                Ok(_) => Err(Errno::BUSY),
                Err(Errno::NOENT) => Ok(()),
                Err(errno) => Err(errno),
            };
            swept = swept.and(gone);
        }
        swept
    }
}

/// A group inside another, or why there is none.
fn existing_child(above: &Group, name: &str) -> Result<Result<Group, String>, Errno> {
    match above.existing(name) {
        Ok(group) => Ok(Ok(group)),
        Err(Errno::NOENT) => Ok(Err(
            "the sandbox has no group for it; see `protections`".to_owned()
        )),
        Err(errno) => Err(errno),
    }
}

fn existing_unified(above: &Group, name: &str) -> Result<Result<Unified, String>, Errno> {
    let sandbox = match existing_child(above, name)? {
        Ok(sandbox) => sandbox,
        Err(reason) => return Ok(Err(reason)),
    };
    let below = |name| existing_child(&sandbox, name);
    let (supervisor, commands) = match (below("sup")?, below("c")?) {
        (Ok(supervisor), Ok(commands)) => (supervisor, commands),
        (Err(reason), _) | (_, Err(reason)) => return Ok(Err(reason)),
    };
    Ok(Ok(Unified {
        init: existing_child(&commands, "init")?.ok(),
        sandbox,
        supervisor,
        commands,
    }))
}

/// The limit of the same kind that holds now.
fn current(seat: &Seat, limit: Limit) -> Option<Limit> {
    match limit {
        Limit::Memory(_) => seat.memory_limit().map(Limit::Memory),
        Limit::CpuMillis(_) => seat.cpu_limit().map(Limit::CpuMillis),
        Limit::Pids(_) => seat.pids_limit().map(Limit::Pids),
    }
}

/// Refuses a limit below what is in use: version 2 would kill for it, and without processes to spare
/// nothing could be started any more. Version 1 frees memory by itself, and says when it cannot.
fn make_room(seat: &Seat, limit: Limit) -> Result<(), LimitError> {
    let below = |limit, asked, used: Option<u64>| match used {
        Some(used) if used > asked => Err(LimitError::BelowUse { limit, asked, used }),
        _ => Ok(()),
    };
    match limit {
        Limit::Pids(asked) => below("pids", asked, seat.pids_used()),
        Limit::Memory(asked) if seat.version == Version::V2 => {
            if let Some(more) = seat.memory_used().and_then(|used| used.checked_sub(asked)) {
                // Kernels before 5.19 cannot be asked to; what is in use then counts as it is.
                let _ = seat.group.write("memory.reclaim", &more.to_string());
            }
            below("memory_bytes", asked, seat.memory_used())
        }
        Limit::Memory(_) | Limit::CpuMillis(_) => Ok(()),
    }
}

/// Why the kernel did not take a limit.
fn not_set(name: &'static str, seat: &Seat, limit: Limit, errno: Errno) -> LimitError {
    let reason = match (limit, errno) {
        (_, errno) if sandshell_sys::is_lack(errno) => return LimitError::Lack { errno },
        (Limit::Memory(asked), Errno::BUSY) => {
            return LimitError::BelowUse {
                limit: name,
                asked,
                used: seat.memory_used().unwrap_or(asked),
            };
        }
        // Version 1 lets nothing have more than what it is part of.
        (Limit::CpuMillis(_), Errno::INVAL) => {
            "a process or session inside has a higher limit of its own".to_owned()
        }
        (_, errno) => errno.to_string(),
    };
    LimitError::Unavailable {
        limit: name,
        reason,
    }
}

fn make_unified(parent: &Parent, above: &Group, name: &str, uid: u32) -> Result<Unified, String> {
    let failed = |step: &'static str| move |errno| format!("{step}: {errno}");
    let sandbox = make_child(above, name)?;
    let made = || {
        let passed_on: Vec<&str> = [
            ("memory", &parent.memory),
            ("cpu", &parent.cpu),
            ("pids", &parent.pids),
        ]
        .into_iter()
        .filter(|(_, seat)| seat.as_ref().is_ok_and(|seat| seat.version == Version::V2))
        .map(|(name, _)| name)
        .collect();
        for controller in &passed_on {
            enable_below(&sandbox, controller).map_err(failed("controllers"))?;
        }
        let supervisor = sandbox.child("sup").map_err(failed("a group below"))?;
        let commands = sandbox.child("c").map_err(failed("a group below"))?;
        let give = |group: &Group, file: &str| give(group, file, uid).map_err(failed("delegation"));
        // A birth in a group needs the right to write there and at the common ancestor.
        give(&sandbox, "cgroup.procs")?;
        give(&commands, ".")?;
        give(&commands, "cgroup.procs")?;
        let init = if passed_on.is_empty() {
            None
        } else {
            give(&commands, "cgroup.subtree_control")?;
            Some(commands.child("init").map_err(failed("a group below"))?)
        };
        Ok((supervisor, commands, init))
    };
    match made() {
        Ok((supervisor, commands, init)) => Ok(Unified {
            sandbox,
            supervisor,
            commands,
            init,
        }),
        Err(reason) => {
            let _ = sandbox.remove_all();
            Err(reason)
        }
    }
}

/// A group of version 1, in which the agent may make others. Its limit and its list of members stay
/// the hub's.
fn make_seat(above: &Seat, name: &str, uid: u32) -> Result<Seat, String> {
    let group = make_child(&above.group, name)?;
    if let Err(errno) = give(&group, ".", uid) {
        let _ = group.remove();
        return Err(format!("delegation: {errno}"));
    }
    // By which the agent asks to be told when memory has run out. Only that controller has it.
    let _ = give(&group, "cgroup.event_control", uid);
    Ok(Seat {
        version: above.version,
        group,
    })
}

fn give(group: &Group, file: &str, uid: u32) -> Result<(), Errno> {
    if rustix::process::geteuid().as_raw() == uid {
        return Ok(());
    }
    group.give(file, uid)
}

/// Kills what lives in a group and removes it; says whether it is gone.
fn end(group: &Group, time: &mut Allowance) -> bool {
    loop {
        match group.remove_all() {
            Ok(()) => return true,
            Err(Errno::BUSY) => {}
            Err(_) => return false,
        }
        if time.is_over() {
            return false;
        }
        match group.kill() {
            Ok(()) => {
                let empty = group
                    .events()
                    .and_then(|events| wait_for(&events, EMPTY, time));
                if empty != Ok(true) {
                    return false;
                }
            }
            // Version 1: its members one by one. What has just died may be counted a moment longer,
            // and no event tells when it is not.
            Err(_) => {
                if kill_members(group, time) == 0 {
                    let _ = time.wait(&mut [], PAUSE);
                }
            }
        }
    }
}

/// Kills the members of a version 1 group and of those below, and waits for each to end. Says how
/// many there were.
fn kill_members(group: &Group, time: &mut Allowance) -> usize {
    let mut killed = 0;
    for name in group.children() {
        if let Ok(child) = group.existing(&name) {
            killed += kill_members(&child, time);
        }
    }
    // Who cannot be looked at for now is not killed: the group is not removed then, and it is tried again.
    let pinned: Vec<OwnedFd> = group
        .members()
        .unwrap_or_default()
        .into_iter()
        .filter_map(|pid| procfs::pin(pid).ok())
        .collect();
    // Pinned first, then checked to be members still, so that a stranger is never hit.
    let members = group.members().unwrap_or_default();
    let mut told: Vec<&OwnedFd> = Vec::new();
    for pidfd in &pinned {
        if procfs::pid_of(pidfd).is_ok_and(|pid| pid.is_some_and(|pid| members.contains(&pid)))
            && signal::send(pidfd, SIGKILL).is_ok()
        {
            told.push(pidfd);
        }
    }
    // What is frozen takes no signal.
    let _ = group.write("freezer.state", "THAWED");
    killed += told.len();
    for pidfd in told {
        let mut waiting = [PollFd::from_borrowed_fd(pidfd.as_fd(), PollFlags::IN)];
        let _ = time.wait(&mut waiting, DYING);
    }
    killed
}

/// Waits until `cgroup.events` says so.
fn wait_for(events: &OwnedFd, word: &str, time: &mut Allowance) -> Result<bool, Errno> {
    loop {
        let mut text = [0; 128];
        let read = rustix::io::pread(events, &mut text, 0)?;
        let text = String::from_utf8_lossy(text.get(..read).unwrap_or_default());
        if text.contains(word) {
            return Ok(true);
        }
        if time.is_over() {
            return Ok(false);
        }
        time.wait(&mut [PollFd::new(events, PollFlags::PRI)], DYING)?;
    }
}

fn enforced(name: Layer) -> Protection {
    Protection {
        name,
        status: ProtectionStatus::Enforced,
        reason: None,
    }
}

fn partial(name: Layer, reason: &str) -> Protection {
    Protection {
        name,
        status: ProtectionStatus::Partial,
        reason: Some(reason.to_owned()),
    }
}

fn off(name: Layer, reason: &str) -> Protection {
    Protection {
        name,
        status: ProtectionStatus::Off,
        reason: Some(reason.to_owned()),
    }
}
