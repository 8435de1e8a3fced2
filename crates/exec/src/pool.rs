//! Shells held ready, so that nobody waits for bash to start.
//!
//! A pool is a bounded queue with one task that keeps it full. Taking gives the oldest; when the
//! queue is empty the taker waits for the one that is being made. Each member is used once.
//!
//! Two kinds: shells for `exec` ([`exec_shell`]) and shells for sessions (`crate::session::shell`).

pub(crate) mod exec_shell;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, Notify, mpsc};

use crate::ExecError;

/// How long the refill of a pool that is not empty waits, so that it does not compete for the
/// processor with the command that has just taken a member.
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
    /// Told when someone finds the queue empty.
    hungry: Arc<Notify>,
}

impl<T: Member> Pool<T> {
    /// Starts the task that keeps `size` members ready.
    pub(crate) fn new<F>(size: usize, make: impl Fn() -> F + Send + 'static) -> Arc<Self>
    where
        F: Future<Output = Result<T, ExecError>> + Send + 'static,
    {
        let (sender, receiver) = mpsc::channel(size.max(1));
        let hungry = Arc::new(Notify::new());
        let wanted = hungry.clone();
        tokio::spawn(async move {
            let mut failures = 0;
            loop {
                let full = sender.capacity() == 0;
                let Ok(permit) = sender.reserve().await else {
                    return;
                };
                if full {
                    // A place has just become free: let the taker go first.
                    tokio::select! {
                        () = tokio::time::sleep(SETTLE) => {}
                        () = wanted.notified() => {}
                    }
                }
                let mut made = make().await;
                while let Err(error) = &made
                    && failures < TRIES
                {
                    failures += 1;
                    tracing::warn!(%error, "cannot make a shell to hold ready");
                    tokio::time::sleep(AFTER_FAILURE).await;
                    made = make().await;
                }
                if made.is_ok() {
                    failures = 0;
                } else {
                    // Only whoever waits now is told; the next one deserves another try.
                    wanted.notified().await;
                }
                permit.send(made);
            }
        });
        Arc::new(Self {
            ready: Mutex::new(receiver),
            hungry,
        })
    }

    /// A member that can be used.
    pub(crate) async fn take(&self) -> Result<T, ExecError> {
        let mut ready = self.ready.lock().await;
        loop {
            let gone = || ExecError::Unavailable {
                detail: "the agent is shutting down".to_owned(),
            };
            if ready.is_empty() {
                self.hungry.notify_one();
            }
            let mut member = ready.recv().await.ok_or_else(gone)??;
            if member.is_usable() {
                return Ok(member);
            }
        }
    }

    /// Lets go of everything held ready and makes no more.
    pub(crate) async fn close(&self) {
        let mut ready = self.ready.lock().await;
        ready.close();
        // What is being made right now is dropped by the filling task, which finds the queue closed.
        while ready.try_recv().is_ok() {}
    }
}
