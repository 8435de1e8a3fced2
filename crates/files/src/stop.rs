//! When long work ends before it is done.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

/// Longest time that can be asked for; longer ones are no limit in practice.
const LONGEST: Duration = Duration::from_hours(24 * 365);

/// Tells work on an inside thread that nobody waits for it any more, or that its time is over.
#[derive(Debug, Clone)]
pub struct Stop {
    cancelled: CancellationToken,
    deadline: Option<Instant>,
}

impl Stop {
    /// Ends with the token, and after a time if there is one.
    pub fn new(cancelled: CancellationToken, time: Option<Duration>) -> Self {
        Self {
            cancelled,
            deadline: time.map(|time| Instant::now() + time.min(LONGEST)),
        }
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.is_cancelled()
    }

    pub(crate) fn is_timed_out(&self) -> bool {
        self.deadline
            .is_some_and(|deadline| Instant::now() >= deadline)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_cancelled() || self.is_timed_out()
    }
}
