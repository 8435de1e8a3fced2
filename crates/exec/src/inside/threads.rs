//! Threads that act with another user's rights, one job at a time.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::io::Errno;
use sandshell_sys::identity;
use sandshell_sys::spawn::Identity;
use tokio::sync::{Semaphore, oneshot};

use super::InsideError;

/// How long a thread waits for its next job before it ends.
const IDLE: Duration = Duration::from_secs(10);

/// Files are made with this mask, as by commands.
const UMASK: u32 = 0o022;

/// Takes the thread's word on whether it could take on the rights that the job needs.
type Job = Box<dyn FnOnce(Result<(), Errno>) + Send>;

#[derive(Debug, Clone)]
pub(super) struct Threads(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// One for each thread there may be, so that a job with a permit always finds one.
    permits: Semaphore,
    queue: Mutex<Queue>,
    more: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<(Option<Identity>, Job)>,
    idle: usize,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue")
            .field("jobs", &self.jobs.len())
            .field("idle", &self.idle)
            .finish()
    }
}

impl Threads {
    pub(super) fn new(most: usize) -> Self {
        Self(Arc::new(Shared {
            permits: Semaphore::new(most),
            queue: Mutex::default(),
            more: Condvar::new(),
        }))
    }

    pub(super) async fn run<T: Send + 'static>(
        &self,
        who: Option<Identity>,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, InsideError> {
        let shared = &self.0;
        let permit = shared.permits.acquire().await;
        let permit = permit.map_err(|_| InsideError::Thread)?;
        let (answer, answered) = oneshot::channel();
        let released = shared.clone();
        // The job holds the permit, not whoever waits: it runs on when they go away.
        permit.forget();
        let job: Job = Box::new(move |rights| {
            let result = match rights {
                Ok(()) => catch_unwind(AssertUnwindSafe(job)).map_err(|_| InsideError::Broken),
                Err(errno) => Err(InsideError::Rights(errno)),
            };
            released.permits.add_permits(1);
            let _ = answer.send(result);
        });
        shared.give(who, job);
        answered.await.map_err(|_| InsideError::Thread)?
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give(self: &Arc<Self>, who: Option<Identity>, job: Job) {
        let mut queue = self.lock();
        queue.jobs.push_back((who, job));
        if queue.idle >= queue.jobs.len() {
            drop(queue);
            self.more.notify_one();
            return;
        }
        drop(queue);
        let shared = self.clone();
        let started = std::thread::Builder::new()
            .name("inside".to_owned())
            .spawn(move || shared.work());
        if started.is_err() && self.lock().idle == 0 {
            // Nobody is there to take it: dropping it tells whoever waits.
            if self.lock().jobs.pop_back().is_some() {
                self.permits.add_permits(1);
            }
        }
    }

    /// The life of one thread.
    fn work(&self) {
        let mut rights = Rights::new();
        while let Some((who, job)) = self.next() {
            job(rights.take_on(who));
        }
    }

    fn next(&self) -> Option<(Option<Identity>, Job)> {
        let mut queue = self.lock();
        queue.idle += 1;
        let deadline = std::time::Instant::now() + IDLE;
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                queue.idle -= 1;
                return Some(job);
            }
            let left = deadline.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                queue.idle -= 1;
                return None;
            }
            queue = self
                .more
                .wait_timeout(queue, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }
}

/// Whose rights a thread has now.
struct Rights {
    set_up: Result<(), Errno>,
    now: Option<Identity>,
    /// The last change failed half-way, so `now` says nothing.
    unknown: bool,
}

impl Rights {
    fn new() -> Self {
        Self {
            set_up: identity::own_file_context(UMASK),
            now: None,
            unknown: false,
        }
    }

    fn take_on(&mut self, who: Option<Identity>) -> Result<(), Errno> {
        self.set_up?;
        if self.unknown || self.now != who {
            self.unknown = true;
            identity::assume(who.as_ref())?;
            self.now = who;
            self.unknown = false;
        }
        Ok(())
    }
}
