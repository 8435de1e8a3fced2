//! Idempotency keys: a request that is sent again is not done again.
//!
//! Owns who was first with a key, and the answer that was given. Does not own how an answer is made
//! or repeated: the table holds any cloneable `A`.
//!
//! ```text
//!             claim (first)             answer
//!   (free) ────────────────► in flight ────────► answered ──10 minutes / room needed──► (free)
//!      ▲                        │  ▲
//!      └── ticket dropped ──────┘  └── claim (again): waits for what comes of it
//! ```
//!
//! A ticket that is dropped without an answer frees its key: the request failed and changed nothing,
//! so the next one with the key is a first one again. Which body a key belongs to is known by its
//! digest, taken while the first request reads it, so that a body of any size can be told apart
//! without being held.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt as _;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use tokio::time::Instant;

/// How long an answer is kept; a client that retries does so within this.
pub(crate) const KEPT_FOR: Duration = Duration::from_mins(10);

/// Most keys at a time; about 20 MiB with small answers.
pub const CAPACITY: usize = 10_000;

/// Longest key.
pub const KEY_MAX: usize = 255;

/// The SHA-256 of a body.
pub type BodyDigest = [u8; 32];

/// An answer and the request it belongs to.
#[derive(Debug)]
pub struct Kept<A> {
    /// Method and path.
    pub target: String,
    /// Of its body.
    pub digest: BodyDigest,
    /// What was answered.
    pub answer: A,
}

type Outcome<A> = Option<Arc<Kept<A>>>;

#[derive(Debug)]
struct Table<A> {
    slots: HashMap<String, watch::Receiver<Outcome<A>>>,
    /// Answered keys, oldest first.
    answered: VecDeque<(Instant, String)>,
}

/// All keys of an agent.
#[derive(Debug)]
pub struct Keys<A> {
    table: Mutex<Table<A>>,
    capacity: usize,
}

/// What a key is to the request that brings it.
#[derive(Debug)]
pub enum Claim<A> {
    /// It is new: do the work, then answer.
    First(Ticket<A>),
    /// It has been answered.
    Again(Arc<Kept<A>>),
    /// There is no room: as many requests as there may be are in flight.
    Full,
}

impl<A> Keys<A> {
    /// An empty table for this many keys.
    pub fn new(capacity: usize) -> Self {
        let table = Table {
            slots: HashMap::new(),
            answered: VecDeque::new(),
        };
        Self {
            table: Mutex::new(table),
            capacity,
        }
    }

    /// Asks for a key. Waits while an earlier request with it is in flight.
    ///
    /// CANCEL SAFETY: a dropped call leaves nothing behind.
    pub async fn claim(self: &Arc<Self>, key: &str, target: &str) -> Claim<A> {
        loop {
            let mut earlier = {
                let mut table = self.lock();
                table.expire(Instant::now());
                if let Some(earlier) = table.slots.get(key) {
                    earlier.clone()
                } else {
                    if table.slots.len() >= self.capacity && !table.drop_oldest() {
                        return Claim::Full;
                    }
                    let (outcome, slot) = watch::channel(None);
                    table.slots.insert(key.to_owned(), slot);
                    return Claim::First(Ticket {
                        keys: Arc::clone(self),
                        key: key.to_owned(),
                        target: target.to_owned(),
                        digest: OnceLock::new(),
                        outcome,
                    });
                }
            };
            if let Ok(outcome) = earlier.wait_for(Option::is_some).await
                && let Some(kept) = outcome.as_ref()
            {
                return Claim::Again(Arc::clone(kept));
            }
        }
    }

    /// Forgets answers that are too old.
    pub fn expire(&self) {
        self.lock().expire(Instant::now());
    }

    fn lock(&self) -> MutexGuard<'_, Table<A>> {
        // Every change is complete in itself, so a panic elsewhere leaves the table usable.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A> Table<A> {
    fn expire(&mut self, now: Instant) {
        while self
            .answered
            .front()
            .is_some_and(|(at, _)| now.duration_since(*at) >= KEPT_FOR)
        {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) -> bool {
        let oldest = self.answered.pop_front();
        oldest.is_some_and(|(_, key)| self.slots.remove(&key).is_some())
    }
}

/// The right and duty to answer for a key.
#[derive(Debug)]
pub struct Ticket<A> {
    keys: Arc<Keys<A>>,
    key: String,
    target: String,
    digest: OnceLock<BodyDigest>,
    outcome: watch::Sender<Outcome<A>>,
}

impl<A> Ticket<A> {
    /// Gives the answer; the first one counts. The body must have been read.
    pub fn answer(&self, answer: A) {
        let digest = self.digest.get().copied().unwrap_or_default();
        let kept = Arc::new(Kept {
            target: self.target.clone(),
            digest,
            answer,
        });
        let mut table = self.keys.lock();
        let first = self.outcome.send_if_modified(|outcome| {
            let first = outcome.is_none();
            if first {
                *outcome = Some(kept);
            }
            first
        });
        if first {
            table.answered.push_back((Instant::now(), self.key.clone()));
        }
    }

    /// Whether the answer has been given.
    pub fn is_answered(&self) -> bool {
        self.outcome.borrow().is_some()
    }

    /// The same body, with its digest taken on the way.
    pub fn watch_body(self: &Arc<Self>, body: Body) -> Body
    where
        A: Send + Sync + 'static,
    {
        Body::new(WatchedBody {
            body,
            digest: Sha256::new(),
            ticket: Arc::clone(self),
        })
    }
}

impl<A> Drop for Ticket<A> {
    fn drop(&mut self) {
        if !self.is_answered() {
            self.keys.lock().slots.remove(&self.key);
        }
    }
}

/// Reads a body to its end for its digest only.
pub async fn digest_of(mut body: Body) -> Result<BodyDigest, axum::Error> {
    let mut digest = Sha256::new();
    while let Some(frame) = body.frame().await {
        if let Some(data) = frame?.data_ref() {
            digest.update(data);
        }
    }
    Ok(digest.finalize().into())
}

struct WatchedBody<A> {
    body: Body,
    digest: Sha256,
    ticket: Arc<Ticket<A>>,
}

impl<A> HttpBody for WatchedBody<A> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    self.digest.update(data);
                }
            }
            Some(Err(_)) => {}
            None => {
                let digest = std::mem::take(&mut self.digest).finalize().into();
                let _ = self.ticket.digest.set(digest);
            }
        }
        Poll::Ready(frame)
    }

    // `is_end_stream` stays false, so that every reader goes on to the end and the digest is taken.

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
#[path = "idempotency/tests.rs"]
mod tests;
