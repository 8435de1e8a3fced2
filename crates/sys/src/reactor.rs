//! Descriptors in tokio's reactor.

use std::io;
use std::os::fd::OwnedFd;

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
