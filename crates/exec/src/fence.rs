//! Limits of one process or session: groups of its own that all its trees live in.
//!
//! Where a controller lives in version 2, the trees are made inside the fence's group. Where it lives
//! in version 1, whatever is started joins a group of its hierarchy before it becomes the user's. A
//! limit that cannot be kept here is refused with the reason, never left out.
//!
//! A fence has the groups of all controllers there are, also of those that limit nothing, so that a
//! limit can be set later and an OOM kill is always counted to whom it hit.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustix::io::Errno;
use sandshell_isolate::limits::{Controllers, LimitError, SandboxLimits, wanted};
use sandshell_sys::cgroup::{Group, Limit, Seat, Version, counter};
use sandshell_sys::is_lack;
use sandshell_types::{Cpus, LimitScope, Limits, ProcessId, SessionId};
use tokio::task::AbortHandle;

use crate::ExecError;
use crate::oom::Refusals;

/// Most groups that wait to be removed. What died a moment ago may still be counted in one.
const LEFTOVERS: usize = 1024;

/// What fails where groups cannot be made.
const MAKING: &str = "cannot make a group";

/// Whose limits.
#[derive(Debug, Clone)]
pub(crate) enum Owner {
    Process(ProcessId),
    Session(SessionId),
}

impl Owner {
    pub(crate) fn scope(&self) -> LimitScope {
        match self {
            Self::Process(_) => LimitScope::Process,
            Self::Session(_) => LimitScope::Session,
        }
    }

    pub(crate) fn process(&self) -> Option<ProcessId> {
        match self {
            Self::Process(id) => Some(id.clone()),
            Self::Session(_) => None,
        }
    }

    pub(crate) fn session(&self) -> Option<SessionId> {
        match self {
            Self::Session(id) => Some(id.clone()),
            Self::Process(_) => None,
        }
    }
}

/// The groups of one process or session.
#[derive(Debug)]
pub(crate) struct Fence {
    pub(crate) owner: Owner,
    pub(crate) memory: Result<Seat, String>,
    pub(crate) cpu: Result<Seat, String>,
    pub(crate) pids: Result<Seat, String>,
    /// Most processors that the sandbox has; version 1 refuses more than that.
    most_cpu: Option<u64>,
    /// In which trees are made, where a controller lives in version 2.
    trees: Option<Group>,
    /// Groups of version 1, to be joined.
    joins: Vec<OwnedFd>,
    /// Counts what the kernel killed in it.
    kills: Option<OwnedFd>,
    watch: Mutex<Vec<AbortHandle>>,
    refusals: OnceLock<Arc<Refusals>>,
    leftovers: Leftovers,
}

/// Groups that could not be removed yet.
pub(crate) type Leftovers = Arc<Mutex<Vec<Group>>>;

/// The limits of a request that a group keeps.
fn of(limits: &Limits) -> SandboxLimits {
    SandboxLimits {
        memory_bytes: limits.memory_bytes,
        cpus: limits.cpus,
        pids: limits.pids,
    }
}

/// Whether a group is needed for them.
pub(crate) fn needed(limits: Option<&Limits>) -> bool {
    limits.is_some_and(|limits| of(limits) != SandboxLimits::default())
}

/// Refuses what could never be right, and what cannot be kept here.
pub(crate) fn check(limits: Option<&Limits>, controllers: &Controllers) -> Result<(), ExecError> {
    let Some(limits) = limits else { return Ok(()) };
    if let Some(limit) = [
        ("open_files", limits.open_files),
        ("cpu_seconds", limits.cpu_seconds),
    ]
    .into_iter()
    .find_map(|(name, value)| (value == Some(0)).then_some(name))
    {
        return Err(ExecError::invalid(
            &format!("/limits/{limit}"),
            format!("nothing can run with {limit} 0"),
        ));
    }
    let limits = of(limits);
    limits.check_inside().map_err(refused)?;
    for ((limit, seat), (_, value)) in controllers.named().into_iter().zip(wanted(&limits)) {
        if let (Some(_), Err(reason)) = (value, seat) {
            return Err(refused(LimitError::Unavailable {
                limit,
                reason: reason.clone(),
            }));
        }
    }
    Ok(())
}

fn refused(error: LimitError) -> ExecError {
    let pointer = format!("/limits/{}", error.limit().unwrap_or_default());
    match error {
        LimitError::Unavailable { .. } => ExecError::LimitUnavailable {
            pointer,
            detail: error.to_string(),
        },
        LimitError::Lack { errno } => ExecError::system("cannot set a limit", errno),
        error => ExecError::invalid(&pointer, error.to_string()),
    }
}

impl Fence {
    /// Makes the groups and sets the limits, which [`check`] has let pass.
    pub(crate) fn create(
        name: &str,
        limits: &Limits,
        owner: Owner,
        controllers: &Controllers,
        leftovers: &Leftovers,
    ) -> Result<Arc<Self>, ExecError> {
        remove_left(leftovers);
        let seats = [&controllers.memory, &controllers.cpu, &controllers.pids];
        let unified = seats
            .into_iter()
            .flatten()
            .find(|seat| seat.version == Version::V2);
        let trees = unified.map(|seat| seat.group.child(name)).transpose();
        let trees = trees.map_err(|e| ExecError::system(MAKING, e))?;
        // What is used up now is there again later, and is no property of this machine.
        let mut lack = None;
        let mut reason = |errno: Errno| {
            lack = lack.or(is_lack(errno).then_some(errno));
            errno.to_string()
        };
        let mut seat = |above: &Result<Seat, String>| -> Result<Seat, String> {
            let above = above.clone()?;
            let group = match (above.version, &trees) {
                (Version::V2, Some(trees)) => Ok(trees.clone()),
                // Several controllers can share a hierarchy.
                _ => match above.group.child(name) {
                    Err(Errno::EXIST) => above.group.existing(name),
                    made => made,
                },
            };
            Ok(Seat {
                version: above.version,
                group: group.map_err(&mut reason)?,
            })
        };
        let (memory, cpu, pids) = (
            seat(&controllers.memory),
            seat(&controllers.cpu),
            seat(&controllers.pids),
        );
        let kills = match &memory {
            Ok(seat) => seat.oom_counters().map_err(&mut reason).ok(),
            Err(_) => None,
        };
        let of_version_1 = [&memory, &cpu, &pids]
            .into_iter()
            .flatten()
            .filter(|seat| seat.version == Version::V1);
        let joins: Result<Vec<OwnedFd>, Errno> =
            of_version_1.map(|seat| seat.group.join_file()).collect();
        let cpu_above = controllers.cpu.as_ref().ok();
        let mut fence = Self {
            owner,
            kills,
            memory,
            cpu,
            pids,
            most_cpu: cpu_above.and_then(Seat::cpu_limit),
            trees,
            joins: Vec::new(),
            watch: Mutex::default(),
            refusals: OnceLock::new(),
            leftovers: leftovers.clone(),
        };
        // From here on its drop removes what was made.
        if let Some(errno) = lack {
            return Err(ExecError::system(MAKING, errno));
        }
        fence.joins = joins.map_err(|e| ExecError::system("cannot open a group", e))?;
        fence.change(limits)?;
        Ok(Arc::new(fence))
    }

    /// Sets limits; those that are absent stay.
    pub(crate) fn change(&self, limits: &Limits) -> Result<(), ExecError> {
        let mut limits = of(limits);
        if let (Some(cpus), Some(most)) = (limits.cpus, self.most_cpu)
            && cpus.millis() > most
        {
            limits.cpus = Cpus::from_millis(most);
        }
        let seats = [&self.memory, &self.cpu, &self.pids];
        for (seat, (limit, value)) in seats.into_iter().zip(wanted(&limits)) {
            let Some(value) = value else { continue };
            set(seat, limit, value).map_err(refused)?;
        }
        Ok(())
    }

    /// In which a tree is made, where not just anywhere.
    pub(crate) fn trees(&self) -> Option<&Group> {
        self.trees.as_ref()
    }

    /// What a program joins by itself.
    pub(crate) fn joins(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.joins.iter().map(|fd| fd.as_fd())
    }

    /// How many of its processes the kernel killed for want of memory.
    pub(crate) fn oom_kills(&self) -> u64 {
        self.kills
            .as_ref()
            .map_or(0, |file| counter(file, "oom_kill"))
    }

    /// Ends this task with the fence.
    pub(crate) fn watched_by(&self, task: AbortHandle) {
        self.watch
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(task);
    }

    /// Has it tell of forks that were refused.
    pub(crate) fn tells(&self, refusals: Arc<Refusals>) {
        let _ = self.refusals.set(refusals);
    }

    /// Tells of limits that were met since the last look.
    pub(crate) fn look(&self) {
        if let Some(refusals) = self.refusals.get() {
            refusals.look();
        }
    }

    fn groups(&self) -> impl Iterator<Item = &Group> {
        let seats = [&self.memory, &self.cpu, &self.pids];
        let of_version_1 = seats
            .into_iter()
            .flatten()
            .filter(|seat| seat.version == Version::V1)
            .map(|seat| &seat.group);
        self.trees.iter().chain(of_version_1)
    }
}

fn set(seat: &Result<Seat, String>, limit: &'static str, value: Limit) -> Result<(), LimitError> {
    let unavailable = |reason| LimitError::Unavailable { limit, reason };
    let seat = seat.as_ref().map_err(|why| unavailable(why.clone()))?;
    seat.set(value).map_err(|errno| match errno {
        errno if is_lack(errno) => LimitError::Lack { errno },
        Errno::BUSY => unavailable("more than that is in use now".to_owned()),
        errno => unavailable(errno.to_string()),
    })
}

impl Drop for Fence {
    fn drop(&mut self) {
        let watch = self.watch.get_mut().unwrap_or_else(PoisonError::into_inner);
        for task in watch.drain(..) {
            task.abort();
        }
        let mut left = self
            .leftovers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for group in self.groups() {
            if group.remove_all().is_err() && left.len() < LEFTOVERS {
                left.push(group.clone());
            }
        }
    }
}

/// Removes groups whose last members are gone by now.
pub(crate) fn remove_left(leftovers: &Leftovers) {
    let mut left = leftovers.lock().unwrap_or_else(PoisonError::into_inner);
    left.retain(|group| group.remove_all().is_err());
}
