//! Memory goes back to the kernel after a flood.
//!
//! The allocator keeps what was freed for the next request, which is right for small change. But ten thousand
//! connections that come once, or a few with large requests, would be paid for until the end of the process.
//!
//! Nothing runs while nothing happens: the end of a connection is what makes it look, after a pause. When
//! there is a good deal more than there ever was after giving back, it gives back. Where that frees little,
//! because the memory is in use, the pause grows, up to a minute.

use std::convert::Infallible;
use std::time::Duration;

use sandshell_sys::memory;
use tokio::sync::Notify;

/// From the end of a connection until its buffers, and those of others that end with it, are free.
const SHORTEST: Duration = Duration::from_secs(1);

/// The same after many tries that freed little.
const LONGEST: Duration = Duration::from_mins(1);

/// Growth that is worth a try: giving back takes a few milliseconds, and taking again page faults.
const WORTH: u64 = 2 * 1024 * 1024;

/// Gives memory back when connections have ended. Has no end itself.
pub(crate) async fn give_back(ended: &Notify) -> Infallible {
    let Some(now) = memory::resident() else {
        return std::future::pending().await;
    };
    let mut tide = Tide::new(now);
    loop {
        ended.notified().await;
        tokio::time::sleep(tide.pause).await;
        let Some(before) = memory::resident() else {
            continue;
        };
        if tide.is_high(before)
            // It takes milliseconds: not on the thread that serves requests, which waits only where it needs memory.
            && tokio::task::spawn_blocking(memory::trim).await.is_ok()
            && let Some(after) = memory::resident()
        {
            tide.fell(before, after);
        }
    }
}

/// When to try.
#[derive(Debug)]
struct Tide {
    /// The least there ever was, in bytes.
    lowest: u64,
    /// From the end of a connection to the next look.
    pause: Duration,
}

impl Tide {
    fn new(now: u64) -> Self {
        Self {
            lowest: now,
            pause: SHORTEST,
        }
    }

    fn is_high(&mut self, now: u64) -> bool {
        self.lowest = self.lowest.min(now);
        now >= self.lowest + WORTH
    }

    fn fell(&mut self, before: u64, after: u64) {
        self.lowest = self.lowest.min(after);
        let freed = before.saturating_sub(after);
        self.pause = if freed >= WORTH / 2 {
            SHORTEST
        } else {
            (self.pause * 2).min(LONGEST)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    #[test]
    fn a_flood_that_was_in_use_at_the_first_try_goes_back_at_the_next() {
        let mut tide = Tide::new(30 * MIB);
        assert!(tide.is_high(70 * MIB));
        // All of it belongs to connections that are open.
        tide.fell(70 * MIB, 70 * MIB);
        assert!(tide.is_high(70 * MIB), "they have ended since");
        tide.fell(70 * MIB, 31 * MIB);
        assert_eq!(tide.pause, SHORTEST);
        assert!(!tide.is_high(31 * MIB));
    }

    #[test]
    fn memory_in_use_is_left_alone_for_longer_and_longer() {
        let mut tide = Tide::new(30 * MIB);
        for _ in 0..10 {
            assert!(tide.is_high(50 * MIB));
            tide.fell(50 * MIB, 50 * MIB);
        }
        assert_eq!(tide.pause, LONGEST);
    }
}
