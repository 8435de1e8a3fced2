//! Bytes on disk that several things may have together.
//!
//! Owns the account: how many there are, and who has them. Does not own the files, nor what is done
//! when there is no room.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// So many bytes for all; cheap to clone.
#[derive(Debug, Clone)]
pub struct Space(Arc<Account>);

#[derive(Debug)]
struct Account {
    limit: u64,
    used: AtomicU64,
}

/// What one of them has. It is given back on drop.
#[derive(Debug)]
pub struct Share {
    space: Space,
    bytes: AtomicU64,
}

impl Space {
    /// Room for so many bytes.
    pub fn new(limit: u64) -> Self {
        Self(Arc::new(Account {
            limit,
            used: AtomicU64::new(0),
        }))
    }

    /// How many bytes all may have.
    pub fn limit(&self) -> u64 {
        self.0.limit
    }

    /// A share without bytes.
    pub fn share(&self) -> Share {
        Share {
            space: self.clone(),
            bytes: AtomicU64::new(0),
        }
    }
}

impl Share {
    /// Takes so many more, if there is room; says whether it did.
    #[must_use]
    pub fn grow(&self, bytes: u64) -> bool {
        let Account { limit, used } = &*self.space.0;
        let more = |used: u64| used.checked_add(bytes).filter(|used| used <= limit);
        let grown = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        if grown.is_ok() {
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        grown.is_ok()
    }

    /// Takes so many although there may be no room: they are there already.
    pub fn add(&self, bytes: u64) {
        self.space.0.used.fetch_add(bytes, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Gives so many back.
    pub fn shrink(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.space.0.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// How many it has.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shrink(self.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_no_more_than_there_is() {
        let space = Space::new(10);
        let (one, other) = (space.share(), space.share());
        assert!(one.grow(6) && !other.grow(5) && other.grow(4));
        one.shrink(2);
        assert!(other.grow(2) && !other.grow(1) && !other.grow(u64::MAX));
        drop(one);
        assert!(other.grow(4));
        other.add(3);
        assert_eq!((other.bytes(), space.limit()), (13, 10));
    }
}
