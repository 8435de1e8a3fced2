//! How often a token may ask: a bucket that fills with time.

use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

/// A bucket of requests: as many at once as come in a second.
#[derive(Debug)]
pub(crate) struct Bucket {
    /// Requests a second; 0 for no limit.
    rate: u32,
    state: Mutex<(Instant, f64)>,
}

impl Bucket {
    pub(crate) fn new(rate: u32) -> Self {
        Self {
            rate,
            state: Mutex::new((Instant::now(), f64::from(rate))),
        }
    }

    /// Takes one request out; false when there is none.
    pub(crate) fn take(&self) -> bool {
        if self.rate == 0 {
            return true;
        }
        let rate = f64::from(self.rate);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let filled = state.1 + now.duration_since(state.0).as_secs_f64() * rate;
        *state = (now, filled.min(rate));
        let there = state.1 >= 1.0;
        if there {
            state.1 -= 1.0;
        }
        there
    }

    pub(crate) fn rate(&self) -> u32 {
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn gives_a_burst_and_then_the_rate() {
        let bucket = Bucket::new(10);
        let taken = |bucket: &Bucket| (0..100).filter(|_| bucket.take()).count();
        assert_eq!(taken(&bucket), 10);
        tokio::time::advance(Duration::from_millis(301)).await;
        assert_eq!(taken(&bucket), 3);
        tokio::time::advance(Duration::from_mins(1)).await;
        assert_eq!(taken(&bucket), 10);
        assert_eq!(taken(&Bucket::new(0)), 100);
    }
}
