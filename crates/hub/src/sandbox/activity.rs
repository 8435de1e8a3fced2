//! How much a sandbox is used: what is in flight, and when it last was.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use sandshell_types::Timestamp;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The use of one sandbox.
#[derive(Debug)]
pub(crate) struct Activity {
    in_flight: AtomicUsize,
    /// Microseconds since `began`.
    last: AtomicU64,
    began: Instant,
    /// Told when nothing is in flight any more.
    quiet: Notify,
}

/// A request that is in flight until this is dropped.
#[derive(Debug)]
pub(crate) struct InUse(Arc<Activity>);

impl Activity {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            in_flight: AtomicUsize::new(0),
            last: AtomicU64::new(0),
            began: Instant::now(),
            quiet: Notify::new(),
        })
    }

    /// Counts a request.
    pub(crate) fn enter(self: &Arc<Self>) -> InUse {
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        InUse(Arc::clone(self))
    }

    /// Notes that it is used now.
    pub(crate) fn touch(&self) {
        let now = self.began.elapsed().as_micros();
        let now = u64::try_from(now).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::SeqCst);
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::SeqCst)
    }

    /// When it was last used; now, while something is in flight.
    pub(crate) fn last_used_at(&self) -> Timestamp {
        if self.in_flight() > 0 {
            return Timestamp::now();
        }
        Timestamp::now() - self.last().elapsed()
    }

    /// Resolves when nothing has been in flight for this long.
    pub(crate) async fn idle_for(&self, timeout: Duration) {
        loop {
            let quiet = self.quiet.notified();
            if self.in_flight() > 0 {
                quiet.await;
                continue;
            }
            let deadline = self.last() + timeout;
            tokio::time::sleep_until(deadline).await;
            if self.in_flight() == 0 && self.last() + timeout <= Instant::now() {
                return;
            }
        }
    }

    fn last(&self) -> Instant {
        self.began + Duration::from_micros(self.last.load(Ordering::SeqCst))
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.touch();
        if self.0.in_flight.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.quiet.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn idle_begins_when_the_last_request_ends() {
        let activity = Activity::new();
        let began = Instant::now();
        let (one, two) = (activity.enter(), activity.enter());
        let timeout = Duration::from_secs(10);
        let idle = activity.idle_for(timeout);
        let using = async {
            tokio::time::sleep(Duration::from_secs(30)).await;
            drop(one);
            tokio::time::sleep(Duration::from_secs(30)).await;
            drop(two);
            tokio::time::sleep(Duration::from_secs(9)).await;
            activity.touch();
        };
        tokio::join!(idle, using);
        let waited = began.elapsed();
        assert!(
            (79_000..79_100).contains(&waited.as_millis()),
            "idle after {waited:?}"
        );
    }
}
