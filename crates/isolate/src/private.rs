//! A private tree: one program in a PID namespace of its own, with a /proc that shows nothing else.
//!
//! ```text
//! agent ─► init ────────────► commands            init's PID namespace
//!   └────► warden ─► reaper ─► private program    one PID namespace for each, beside init's
//! ```
//!
//! A process is seen and can be signalled from every PID namespace above its own. So init, whose
//! namespace the other commands share, is not the one to make it: a *warden* is, a second init that
//! lives in the agent's own PID namespace and is asked for private trees only.
//!
//! The reaper is a fork of the warden that never execs. It is PID 1 of the new namespace, starts the
//! program, collects whatever is left to it, tells the agent of the program's start and end, and ends
//! when nothing is left. Nobody in its namespace can signal or trace it. Whoever kills it has killed
//! everything in there: the kernel sees to that before the reaper itself is gone.

use std::collections::HashMap;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::io::Errno;
use rustix::process::{
    PidfdFlags, Signal, WaitOptions, getpid, pidfd_open, set_parent_process_death_signal,
};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use sandshell_sys::namespace::{Namespaces, fork_into};
use sandshell_sys::signal;
use sandshell_sys::spawn::{SpawnError, Spawned, Stage};

use crate::harden::{self, Ceilings, Hardened, InitHardening};
use crate::init::{Manner, announce, mount_own_proc, reap_one, spawn_request, tell};
use crate::limits::Joins;
use crate::protocol::{Event, Exit, SpawnRequest};
use crate::rootfs;

/// What a private tree has of its own.
const OWN: Namespaces = Namespaces::PID.and(Namespaces::MOUNT);

/// What surrounds the commands of an isolated sandbox, for a warden that stands outside: a private
/// program is to have the same but for its processes. Init itself cannot make private trees there: it
/// has given up its rights over the namespaces it made, and may not mount a /proc.
#[derive(Debug)]
pub(crate) struct Home<'a> {
    /// Init's mount namespace.
    pub(crate) mounts: OwnedFd,
    /// Init's cgroup namespace.
    pub(crate) groups: OwnedFd,
    /// Init's user namespace.
    pub(crate) users: OwnedFd,
    /// The groups that init is in, for trees that are not born in one.
    pub(crate) joins: Joins,
    /// Init's own limits.
    pub(crate) ceilings: Ceilings,
    /// What init has given up.
    pub(crate) hardening: InitHardening<'a>,
}

impl<'a> Home<'a> {
    /// Goes where the commands' groups and files are; what is forked afterwards is in the same groups
    /// and has a copy of their mounts.
    fn enter(&self) -> Result<(), Errno> {
        self.joins.join_all()?;
        move_into_link_name_space(self.mounts.as_fd(), Some(LinkNameSpaceType::Mount))
    }

    /// Becomes what init is to its commands, with a /proc of its own processes. Nothing leads back.
    fn move_in(self) -> Result<Hardened<'a>, Errno> {
        rootfs::replace_proc()?;
        self.ceilings.set()?;
        let to =
            |namespace: &OwnedFd, kind| move_into_link_name_space(namespace.as_fd(), Some(kind));
        to(&self.groups, LinkNameSpaceType::ControlGroup)?;
        to(&self.users, LinkNameSpaceType::User)?;
        harden::on_init(&self.hardening)
            .map_err(|error| error.errno)?
            .complete()
    }
}

/// Where whoever starts private trees stands.
#[derive(Debug, Default)]
pub(crate) enum Standing<'a> {
    /// It is no warden.
    #[default]
    Init,
    /// A warden outside of its programs' home, and whether it has gone in. It waits until the first
    /// tree is wanted: joining groups takes milliseconds, and most sandboxes have no private tree.
    Outside(Home<'a>, bool),
    /// A warden of an agent by itself, in the place where all of it is; and what its programs give up.
    Beside(Option<InitHardening<'a>>),
}

impl<'a> Standing<'a> {
    /// Makes a fresh PID namespace's first process what init is to its commands.
    fn settle(self) -> Result<Option<Hardened<'a>>, Errno> {
        match self {
            Self::Outside(home, _) => home.move_in().map(Some),
            Self::Beside(Some(hardening)) => {
                mount_own_proc()?;
                let hardened = harden::on_init(&hardening).map_err(|error| error.errno)?;
                hardened.complete().map(Some)
            }
            Self::Beside(None) | Self::Init => mount_own_proc().map(|()| None),
        }
    }
}

/// The private trees of a warden.
#[derive(Debug, Default)]
pub(crate) struct Privates<'a> {
    /// The request's number and the reaper, by the reaper's pid.
    reapers: HashMap<i32, (u64, OwnedFd)>,
    standing: Standing<'a>,
}

impl<'a> Privates<'a> {
    pub(crate) fn of(standing: Standing<'a>) -> Self {
        Self {
            reapers: HashMap::new(),
            standing,
        }
    }

    /// Whether nothing but private trees may be started here: whoever starts them has rights that no
    /// program is to have.
    pub(crate) fn exclusively(&self) -> bool {
        !matches!(self.standing, Standing::Init)
    }

    /// Ends all of them.
    pub(crate) fn kill(&self) {
        for (_, reaper) in self.reapers.values() {
            let _ = signal::send(reaper, 9);
        }
    }

    /// Forks a reaper that starts the program and reports for it.
    pub(crate) fn start(
        &mut self,
        socket: &OwnedFd,
        request: &SpawnRequest,
        fds: Vec<OwnedFd>,
        manner: Manner<'_>,
    ) -> Result<(), Errno> {
        if let Standing::Outside(home, entered @ false) = &mut self.standing {
            home.enter()?;
            *entered = true;
        }
        let group = fds.last().filter(|_| request.flags.into_cgroup);
        let Some(Spawned { pid, pidfd }) = fork_into(OWN, group.map(|fd| fd.as_fd()))? else {
            let standing = std::mem::take(&mut self.standing);
            serve(socket, request, fds, standing, manner);
            std::process::exit(0);
        };
        self.reapers.insert(pid, (request.id, pidfd));
        Ok(())
    }

    /// Whether this child of init is a reaper.
    pub(crate) fn contains(&self, pid: i32) -> bool {
        self.reapers.contains_key(&pid)
    }

    /// A child of init was reaped. Says what to tell of a reaper that was killed; one that ended by
    /// itself has told everything.
    pub(crate) fn reaped(&mut self, pid: i32, exit: Exit) -> Option<[Event; 2]> {
        let (id, pidfd) = self.reapers.remove(&pid)?;
        if exit == Exit::Code(0) {
            return None;
        }
        // Its start may not have been told yet; of two the first counts.
        let spawned = Event::Spawned {
            id,
            pid,
            pidfd,
            keeper: None,
        };
        let exited = Event::Exited {
            id,
            exit: Exit::Signal(9),
        };
        Some([spawned, exited])
    }
}

fn serve(
    socket: &OwnedFd,
    request: &SpawnRequest,
    fds: Vec<OwnedFd>,
    standing: Standing<'_>,
    manner: Manner<'_>,
) {
    let id = request.id;
    let started = start(request, &fds, standing, manner);
    // The program's pipes must have no other holder, or their end would never be seen.
    drop(fds);
    let (reaper, program) = match started {
        Ok(started) => started,
        Err(SpawnError { stage, errno }) => {
            tell(socket, &Event::Failed { id, stage, errno });
            return;
        }
    };
    let pid = program.pid;
    if !announce(socket, id, program, Some(reaper)) {
        // With us goes all that is in our namespace.
        return;
    }
    while let Some((ended, exit)) = reap_one(WaitOptions::empty()) {
        if ended == pid {
            tell(socket, &Event::Exited { id, exit });
        }
    }
}

fn start(
    request: &SpawnRequest,
    fds: &[OwnedFd],
    standing: Standing<'_>,
    manner: Manner<'_>,
) -> Result<(OwnedFd, Spawned), SpawnError> {
    let at = |stage| move |errno| SpawnError { stage, errno };
    // No tree outlives the warden that answers for it.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(at(Stage::Private))?;
    let reaper = pidfd_open(getpid(), PidfdFlags::empty()).map_err(at(Stage::Private))?;
    let hardened = standing.settle().map_err(at(Stage::Private))?;
    let manner = Manner {
        hardened: hardened.as_ref().or(manner.hardened),
        ..manner
    };
    // Born in its group already.
    let mut program = request.clone();
    program.flags.into_cgroup = false;
    Ok((reaper, spawn_request(&program, fds, manner)?))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod tests;
