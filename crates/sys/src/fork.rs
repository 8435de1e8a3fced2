//! Forking into a PID and a mount namespace of the child's own.

use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

use rustix::io::Errno;

use crate::spawn::{CLONE_INTO_CGROUP, CloneArgs, Spawned};

/// Splits this single-threaded process in two; the child, which gets `None`, is PID 1 of a PID
/// namespace, has a mount namespace of its own, and is born in this cgroup.
///
/// Only for a process with one thread and no runtime: what another thread held would stay held in the
/// child.
#[allow(
    unsafe_code,
    reason = "no wrapper forks into namespaces and a cgroup at once"
)]
pub fn fork_private(group: Option<BorrowedFd<'_>>) -> Result<Option<Spawned>, Errno> {
    let mut pidfd: RawFd = -1;
    let mut args = CloneArgs {
        flags: (libc::CLONE_PIDFD | libc::CLONE_NEWPID | libc::CLONE_NEWNS) as u64,
        pidfd: (&raw mut pidfd) as u64,
        exit_signal: libc::SIGCHLD as u64,
        ..CloneArgs::default()
    };
    if let Some(group) = group {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = u64::from(group.as_raw_fd().cast_unsigned());
    }
    // SAFETY: without CLONE_VM and without a stack this is a fork: the child continues here on a copy
    // of this stack. The arguments name live memory of the right size. The caller is single-threaded.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<CloneArgs>()) };
    match pid {
        ..0 => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
        0 => Ok(None),
        pid => Ok(Some(Spawned {
            pid: i32::try_from(pid).map_err(|_| Errno::SRCH)?,
            // SAFETY: the kernel put a fresh descriptor there, which nobody else owns.
            pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) },
        })),
    }
}
