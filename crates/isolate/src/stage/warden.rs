//! The warden of a sandbox: a fork of the stage that keeps its rights, and waits in the agent's PID
//! namespace until private process trees are wanted. Nobody but the agent can ask it, and for nothing
//! else; see `private`.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use sandshell_sys::spawn::{Spawned, fork_single_threaded};
use sandshell_sys::{namespace, packet};

use super::place_standard;
use crate::harden::{Ceilings, InitHardening};
use crate::init;
use crate::launch::Warden;
use crate::limits::Joins;
use crate::private::Home;

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

    pub(super) fn home(
        self,
        joins: Joins,
        ceilings: Ceilings,
        hardening: InitHardening<'_>,
    ) -> Home<'_> {
        Home {
            mounts: self.mounts,
            groups: self.groups,
            users: self.users,
            joins,
            ceilings,
            hardening,
        }
    }
}

/// Forks the warden of this home.
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
    if (0..3).any(|number| place_standard(number).is_err()) {
        return 125;
    }
    let mut kept: Vec<BorrowedFd<'_>> = vec![socket.as_fd()];
    kept.extend(home.descriptors());
    namespace::close_all_but(&kept);
    match init::run_warden(socket, home) {
        Ok(()) => 0,
        Err(_) => 125,
    }
}
