//! Waiting for processes to end, and signalling them, without pid races.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Waits until a process has ended, a zombie included; false when the deadline passes first.
///
/// It need not be a child. A pid that does not exist counts as ended.
#[must_use]
pub fn wait_for_exit_of(pid: i32, deadline: Duration) -> bool {
    open(pid).is_none_or(|pidfd| wait_readable(&[pidfd.as_fd()], Instant::now() + deadline))
}

/// A pidfd; `None` when there is no such process.
pub(crate) fn open(pid: i32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(pid).unwrap_or_else(|| panic!("{pid} is not a pid"));
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(fd) => Some(fd),
        Err(Errno::SRCH) => None,
        Err(error) => panic!("pidfd_open({pid}): {error}"),
    }
}

/// Waits until one of the descriptors is readable; false when the deadline passes first.
pub(crate) fn wait_readable(fds: &[BorrowedFd<'_>], deadline: Instant) -> bool {
    let mut polled: Vec<_> = fds
        .iter()
        .map(|fd| PollFd::new(fd, PollFlags::IN))
        .collect();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).expect("a deadline is not centuries away");
        match poll(&mut polled, Some(&left)) {
            Ok(ready) => return ready > 0,
            Err(Errno::INTR) => {}
            Err(error) => panic!("poll: {error}"),
        }
    }
}
