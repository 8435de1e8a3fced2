//! Descriptors in tokio's reactor.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Watches a descriptor for as long as the value lives. To be called inside the runtime.
#[allow(
    unsafe_code,
    reason = "tokio cannot know that the descriptor of a value never changes"
)]
pub fn watch(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` names one open descriptor from its making to its drop, and `AsyncFd`
    // owns it, so that it is deregistered before it is closed.
    unsafe { AsyncFd::register_with_interest(fd, interest) }.map_err(io::Error::from)
}

/// Whether nothing more can be watched for now: no descriptor or memory, or no room among what epoll may watch.
pub fn is_full(error: &io::Error) -> bool {
    Errno::from_io_error(error).is_some_and(|errno| crate::is_lack(errno) || errno == Errno::NOSPC)
}
