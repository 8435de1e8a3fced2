//! Refused connections, told to whoever listens: in bounded number, without repeating themselves.
//!
//! Owns the rate. A refusal equal to one told a moment ago, or beyond the rate, is counted in the
//! next one that is told.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sandshell_types::NetworkRefused;
use tokio::sync::broadcast;
use tokio::time::Instant;

/// Told at once before the rate holds.
const BURST: f64 = 20.0;
/// Told each second from then on.
const PER_SECOND: f64 = 2.0;
/// How long an equal refusal is only counted. A program that retries does so in this time.
const REPEAT: Duration = Duration::from_secs(10);
/// Refusals remembered to tell repeats by.
const REMEMBERED: usize = 64;
/// Refusals kept for a listener that is behind.
const QUEUE: usize = 256;

/// The refusals of one sandbox.
#[derive(Debug)]
pub(super) struct Refusals {
    sandbox: String,
    state: Mutex<State>,
    told: broadcast::Sender<NetworkRefused>,
}

#[derive(Debug)]
struct State {
    recent: VecDeque<(Instant, NetworkRefused)>,
    tokens: f64,
    filled_at: Instant,
    suppressed: u64,
    total: u64,
}

impl Refusals {
    pub(super) fn new(sandbox: String) -> Self {
        Self {
            sandbox,
            state: Mutex::new(State {
                recent: VecDeque::new(),
                tokens: BURST,
                filled_at: Instant::now(),
                suppressed: 0,
                total: 0,
            }),
            told: broadcast::Sender::new(QUEUE),
        }
    }

    pub(super) fn listen(&self) -> broadcast::Receiver<NetworkRefused> {
        self.told.subscribe()
    }

    /// How many there were, told or not.
    pub(super) fn total(&self) -> u64 {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.total
    }

    /// Tells of a refusal, unless it is a repeat or one too many. Its `suppressed` is 0.
    pub(super) fn tell(&self, mut refused: NetworkRefused) {
        let due = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.admit(&refused, Instant::now())
        };
        let Some(suppressed) = due else { return };
        refused.suppressed = suppressed;
        tracing::info!(
            sandbox = self.sandbox,
            host = refused.host,
            port = refused.port,
            reason = refused.reason.as_str(),
            address = refused.address,
            suppressed,
            "network connection refused"
        );
        // Nobody listens: then the line above is all.
        let _ = self.told.send(refused);
    }
}

impl State {
    /// How many were suppressed before this one, if it is to be told.
    fn admit(&mut self, refused: &NetworkRefused, now: Instant) -> Option<u64> {
        self.total += 1;
        let passed = now.saturating_duration_since(self.filled_at).as_secs_f64();
        self.tokens = (self.tokens + passed * PER_SECOND).min(BURST);
        self.filled_at = now;
        while self
            .recent
            .front()
            .is_some_and(|(at, _)| now.saturating_duration_since(*at) >= REPEAT)
        {
            self.recent.pop_front();
        }
        if self.tokens < 1.0 || self.recent.iter().any(|(_, told)| told == refused) {
            self.suppressed += 1;
            return None;
        }
        self.tokens -= 1.0;
        if self.recent.len() == REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back((now, refused.clone()));
        Some(std::mem::take(&mut self.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use sandshell_types::RefusalReason;

    use super::*;

    fn refused(host: &str) -> NetworkRefused {
        NetworkRefused {
            host: host.to_owned(),
            port: Some(443),
            reason: RefusalReason::HostNotAllowed,
            address: None,
            suppressed: 0,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn repeats_and_floods_are_counted_not_told() {
        let refusals = Refusals::new("sb-test".to_owned());
        let mut heard = refusals.listen();
        for _ in 0..5 {
            refusals.tell(refused("a.test"));
        }
        refusals.tell(refused("b.test"));
        assert_eq!(heard.recv().await.unwrap().suppressed, 0);
        assert_eq!(heard.recv().await.unwrap().suppressed, 4);
        for number in 0..1000 {
            refusals.tell(refused(&format!("{number}.test")));
        }
        tokio::time::advance(Duration::from_mins(1)).await;
        refusals.tell(refused("a.test"));
        let mut told = 0;
        let last = loop {
            let one = heard.recv().await.unwrap();
            told += 1;
            if one.host == "a.test" {
                break one;
            }
        };
        assert_eq!(told - 1, 18, "the burst, less the two before");
        assert_eq!(last.suppressed, 1000 - 18);
        assert_eq!(refusals.total(), 5 + 1 + 1000 + 1);
    }
}
