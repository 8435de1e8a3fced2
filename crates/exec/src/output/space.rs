//! The room on disk that all logs of an agent have together.
//!
//! Owns which logs make room for others: those that ended, the oldest first, which give up all that
//! they have outside of small memory. Does not own the files; each log's flush job writes and removes its own.
//!
//! Invariant: nothing here waits for the lock of a log's disk, because its caller may hold that of another.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::disk;
use super::log::Shared;
use crate::space::{Share, Space};

/// Most ended logs that hold in memory what the disk refused; each may have some MiB of it.
const MOST_HOLDING: usize = 64;

/// The room of all logs; cheap to clone.
#[derive(Debug, Clone)]
pub struct LogSpace(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    space: Space,
    ended: Mutex<Ended>,
}

/// The logs that ended and have something to give up, in the order in which they ended.
#[derive(Debug, Default)]
struct Ended {
    next: u64,
    /// Those that have files.
    on_disk: BTreeMap<u64, Weak<Shared>>,
    /// Those that hold in memory what the disk refused.
    holding: BTreeMap<u64, Weak<Shared>>,
}

impl Ended {
    fn remove(&mut self, number: u64) {
        self.on_disk.remove(&number);
        self.holding.remove(&number);
    }
}

impl LogSpace {
    /// Room for so many bytes.
    pub fn new(limit: u64) -> Self {
        Self(Arc::new(Inner {
            space: Space::new(limit),
            ended: Mutex::default(),
        }))
    }

    /// The place of a new log.
    pub(super) fn place(&self) -> Place {
        Place {
            space: self.clone(),
            share: self.0.space.share(),
            number: None,
        }
    }

    fn ended(&self) -> MutexGuard<'_, Ended> {
        self.0.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn oldest_on_disk(&self) -> Option<Weak<Shared>> {
        let mut ended = self.ended();
        let (number, oldest) = ended.on_disk.pop_first()?;
        ended.holding.remove(&number);
        Some(oldest)
    }

    fn one_too_many_holding(&self) -> Option<Weak<Shared>> {
        let mut ended = self.ended();
        if ended.holding.len() <= MOST_HOLDING {
            return None;
        }
        let (number, oldest) = ended.holding.pop_first()?;
        ended.on_disk.remove(&number);
        Some(oldest)
    }
}

/// What one log has of the room.
#[derive(Debug)]
pub(super) struct Place {
    space: LogSpace,
    share: Share,
    number: Option<u64>,
}

impl Place {
    /// Takes room for so many bytes more, if need be from logs that ended.
    pub(super) fn grow(&self, bytes: u64) -> io::Result<()> {
        while !self.share.grow(bytes) {
            let Some(oldest) = self.space.oldest_on_disk() else {
                return Err(io::ErrorKind::StorageFull.into());
            };
            give_up(&oldest);
        }
        Ok(())
    }

    pub(super) fn shrink(&self, bytes: u64) {
        self.share.shrink(bytes);
    }

    /// The log ended, and has written all it will until something is added.
    pub(super) fn ended(&mut self, log: &Arc<Shared>, holds_refused: bool) {
        self.leave();
        let mut ended = self.space.ended();
        let number = ended.next;
        ended.next += 1;
        if self.share.bytes() > 0 {
            ended.on_disk.insert(number, Arc::downgrade(log));
        }
        if holds_refused {
            ended.holding.insert(number, Arc::downgrade(log));
        }
        drop(ended);
        self.number = Some(number);
        if let Some(oldest) = self.space.one_too_many_holding() {
            give_up(&oldest);
        }
    }

    /// What it has, for whoever removes its files.
    pub(super) fn take_share(&mut self) -> Share {
        let none = self.space.0.space.share();
        std::mem::replace(&mut self.share, none)
    }

    fn leave(&mut self) {
        if let Some(number) = self.number.take() {
            self.space.ended().remove(number);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.leave();
    }
}

/// The list is not locked here: with the last handle goes the log, and that leaves the list.
fn give_up(log: &Weak<Shared>) {
    if let Some(log) = log.upgrade() {
        disk::give_up(&log);
    }
}
