//! The warden of a sandbox: a fork of the stage that keeps its rights, and waits in the agent's PID
//! namespace until private process trees are wanted. Nobody but the agent can ask it, and for nothing
//! else; see `private`.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use sandshell_sys::spawn::{Spawned, fork_single_threaded};
use sandshell_sys::{namespace, packet};

use super::{pass_gates, place_standard};
use crate::harden::{Ceilings, InitHardening};
use crate::init;
use crate::launch::Warden;
use crate::limits::Joins;
use crate::private;

/// Init's namespaces, from when it is in all of them and can still be looked at.
pub(super) struct Gates {
    mounts: OwnedFd,
    groups: OwnedFd,
    users: OwnedFd,
}

impl Gates {
    pub(super) fn of(init: i32) -> Result<Self, Errno> {
        let gate = |name| {
            let path = format!("/proc/{init}/ns/{name}");
            open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        };
        Ok(Self {
            mounts: gate("mnt")?,
            groups: gate("cgroup")?,
            users: gate("user")?,
        })
    }

    /// In the order in which [`stand`] takes them.
    pub(super) fn all(&self) -> [BorrowedFd<'_>; 3] {
        [&self.mounts, &self.groups, &self.users].map(|gate| gate.as_fd())
    }
}

/// What the warden knows of its programs' home before there is one.
pub(super) struct Home<'a> {
    pub(super) joins: Joins,
    pub(super) ceilings: Ceilings,
    pub(super) hardening: InitHardening<'a>,
}

/// Forks the warden. It waits to be shown the gates.
pub(super) fn post(home: Home<'_>) -> Result<Warden, Errno> {
    let (ours, theirs) = packet::pair()?;
    let Some(Spawned { pidfd, .. }) = fork_single_threaded()? else {
        std::process::exit(stand(&theirs, home));
    };
    Ok(Warden {
        socket: ours,
        pidfd,
    })
}

fn stand(socket: &OwnedFd, home: Home<'_>) -> i32 {
    let Home {
        joins,
        ceilings,
        hardening,
    } = home;
    if (0..3).any(|number| place_standard(number).is_err()) {
        return 125;
    }
    let mut kept: Vec<BorrowedFd<'_>> = vec![socket.as_fd()];
    kept.extend(joins.files().map(|file| file.as_fd()));
    kept.extend(hardening.channels);
    namespace::close_all_but(&kept);
    let Ok([mounts, groups, users]) = pass_gates(socket) else {
        return 125;
    };
    let home = private::Home {
        mounts,
        groups,
        users,
        joins,
        ceilings,
        hardening,
    };
    match init::run_warden(socket, home) {
        Ok(()) => 0,
        Err(_) => 125,
    }
}
