//! Shells held ready, so that nobody waits for bash to start.
//!
//! A pool is a bounded queue with one task that fills it. Taking gives the oldest; when the queue is
//! empty the taker waits for the one that is being made. Each member is used once.
//!
//! A pool begins with one member and holds one more each time a taker found it empty, up to its size:
//! a sandbox that does one thing at a time does not pay for many.
//!
//! Two kinds: shells for `exec` ([`exec_shell`]) and shells for sessions (`crate::session::shell`).

pub(crate) mod exec_shell;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sandshell_sys::task;
use tokio::sync::{Mutex, Notify, Semaphore, mpsc};

use crate::ExecError;

/// How long the making of a member waits when it is the only one missing and nobody waits for it, so
/// that it does not compete for the processor with the command that has just taken one. Where more
/// are missing they are taken faster than this, and a pause would only make the next taker wait.
const SETTLE: Duration = Duration::from_millis(2);

/// Pause after a failed make, so that a machine without resources is not hammered.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// How often a make is tried before whoever waits is told of the failure.
const TRIES: u32 = 3;

/// Something that can be held ready.
pub(crate) trait Member: Send + 'static {
    /// Whether it can still be used; someone inside may have killed it.
    fn is_usable(&mut self) -> bool;
}

#[derive(Debug)]
pub(crate) struct Pool<T> {
    ready: Mutex<mpsc::Receiver<Result<T, ExecError>>>,
    /// A permit for each member to be made.
    wanted: Arc<Semaphore>,
    /// Told when someone finds the queue empty.
    hungry: Arc<Notify>,
    /// Told when one is made, or cannot be.
    made: Arc<Notify>,
    /// How many more may be held ready than now.
    growth: AtomicUsize,
}

impl<T: Member> Pool<T> {
    /// Starts the task that makes members, the first one after this long or when it is asked for.
    pub(crate) fn new<F>(
        size: usize,
        first: Duration,
        make: impl Fn() -> F + Send + Sync + 'static,
    ) -> Arc<Self>
    where
        F: Future<Output = Result<T, ExecError>> + Send + 'static,
    {
        // Never full: a member is made for each that was taken.
        let (sender, receiver) = mpsc::channel(size.max(1));
        let wanted = Arc::new(Semaphore::new(1));
        let hungry = Arc::new(Notify::new());
        let told = Arc::new(Notify::new());
        let pool = Arc::new(Self {
            ready: Mutex::new(receiver),
            wanted: wanted.clone(),
            hungry: hungry.clone(),
            made: told.clone(),
            growth: AtomicUsize::new(size.saturating_sub(1)),
        });
        task::spawn(async move {
            let mut patience = first;
            while let Ok(permit) = wanted.acquire().await {
                permit.forget();
                if wanted.available_permits() > 0 {
                    patience = Duration::ZERO;
                }
                // No timer for no pause: the shortest it knows is a millisecond.
                let asked = !patience.is_zero()
                    && tokio::time::timeout(patience, hungry.notified())
                        .await
                        .is_ok();
                patience = SETTLE;
                let mut made = patiently(&make, &wanted).await;
                if made.is_err() && !asked {
                    // Nobody waited for it to use it. The next one who does deserves another try.
                    told.notify_waiters();
                    hungry.notified().await;
                    made = patiently(&make, &wanted).await;
                }
                let closed = sender.send(made).await.is_err();
                told.notify_waiters();
                if closed {
                    return;
                }
            }
        });
        pool
    }

    /// Waits until the first is held ready, or cannot be made. For whoever comes before all takers.
    pub(crate) async fn filled(&self) {
        let mut made = std::pin::pin!(self.made.notified());
        made.as_mut().enable();
        if self.ready.lock().await.is_empty() {
            // For a task that waits now, not for the next time: nobody is hungry.
            self.hungry.notify_waiters();
            made.await;
        }
    }

    /// A member that can be used.
    pub(crate) async fn take(&self) -> Result<T, ExecError> {
        let mut ready = self.ready.lock().await;
        loop {
            let gone = || ExecError::Unavailable {
                detail: "the agent is shutting down".to_owned(),
            };
            let waits = ready.is_empty();
            if waits {
                self.hungry.notify_one();
                self.grow();
            }
            let member = ready.recv().await.ok_or_else(gone)?;
            self.wanted.add_permits(1);
            match member {
                Ok(mut member) => {
                    if member.is_usable() {
                        return Ok(member);
                    }
                }
                Err(error) if waits => return Err(error),
                // From before we came: it says nothing of now.
                Err(_) => {}
            }
        }
    }

    /// Holds one more ready from now on, unless that is too many.
    fn grow(&self) {
        let less = |left: usize| left.checked_sub(1);
        if self
            .growth
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
            .is_ok()
        {
            self.wanted.add_permits(1);
        }
    }

    /// Lets go of everything held ready and makes no more.
    pub(crate) async fn close(&self) {
        let mut ready = self.ready.lock().await;
        ready.close();
        self.wanted.close();
        // Should it wait for someone to come, nobody will.
        self.hungry.notify_one();
        // What is being made right now is dropped by the filling task, which finds the queue closed.
        while ready.try_recv().is_ok() {}
    }
}

/// Makes one, trying again a few times unless the pool is closed.
async fn patiently<T, F>(make: &impl Fn() -> F, wanted: &Semaphore) -> Result<T, ExecError>
where
    F: Future<Output = Result<T, ExecError>>,
{
    let mut made = make().await;
    let mut failures = 0;
    while let Err(error) = &made
        && failures < TRIES
        && !wanted.is_closed()
    {
        failures += 1;
        tracing::warn!(%error, "cannot make a shell to hold ready");
        tokio::time::sleep(AFTER_FAILURE).await;
        made = make().await;
    }
    made
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    struct Never;

    impl Member for Never {
        fn is_usable(&mut self) -> bool {
            false
        }
    }

    struct Always;

    impl Member for Always {
        fn is_usable(&mut self) -> bool {
            true
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_not_kept_for_whoever_comes_later() {
        let lack = Arc::new(AtomicBool::new(false));
        let lacking = lack.clone();
        let pool = Pool::new(1, Duration::ZERO, move || {
            let lacking = lacking.clone();
            async move {
                tokio::time::sleep(Duration::from_millis(1)).await;
                if lacking.load(Ordering::Relaxed) {
                    return Err(ExecError::Unavailable {
                        detail: "no shell can be had".to_owned(),
                    });
                }
                Ok(Always)
            }
        });
        // It comes while the first is being made: what it asks for is still to be heard when that is there.
        tokio::time::sleep(Duration::from_micros(1)).await;
        assert!(pool.take().await.is_ok());
        lack.store(true, Ordering::Relaxed);
        tokio::time::sleep(AFTER_FAILURE * (TRIES + 1) * 2).await;
        lack.store(false, Ordering::Relaxed);
        let later = pool.take().await;
        assert!(later.is_ok(), "{:?}", later.err());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_for_the_first_hears_that_it_cannot_be_made() {
        let pool = Pool::<Never>::new(1, Duration::ZERO, || async {
            Err(ExecError::Unavailable {
                detail: "no shell can be had".to_owned(),
            })
        });
        let waited = tokio::time::timeout(AFTER_FAILURE * (TRIES + 1), pool.filled()).await;
        assert!(waited.is_ok(), "it waits for ever");
        // Who wants one has another try made, and is told why there is none.
        assert!(pool.take().await.is_err());
    }
}
