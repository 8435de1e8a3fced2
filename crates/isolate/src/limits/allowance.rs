//! Time for what the kernel does in a moment, by one thread that waits for it.
//!
//! Only time in which this process could run is used up: on a machine that stood still nothing was done, so each
//! wait counts for no more than it was meant to take, and no wait is long (see `sandshell_sys::task::own_time`).

use std::time::{Duration, Instant};

use rustix::event::{PollFd, Timespec, poll};
use rustix::io::Errno;

/// The longest single wait.
const SLICE: Duration = Duration::from_millis(500);

/// What is left of the time.
#[derive(Debug)]
pub(super) struct Allowance(Duration);

impl Allowance {
    pub(super) fn of(time: Duration) -> Self {
        Self(time)
    }

    pub(super) fn is_over(&self) -> bool {
        self.0.is_zero()
    }

    /// Waits until something happens to one of these, or a while has gone by.
    pub(super) fn wait(
        &mut self,
        for_one: &mut [PollFd<'_>],
        at_most: Duration,
    ) -> Result<(), Errno> {
        let slice = self.0.min(at_most).min(SLICE);
        let timeout = Timespec::try_from(slice).map_err(|_| Errno::INVAL)?;
        let began = Instant::now();
        let waited = poll(for_one, Some(&timeout));
        self.0 = self.0.saturating_sub(began.elapsed().min(slice));
        match waited {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno),
        }
    }
}
