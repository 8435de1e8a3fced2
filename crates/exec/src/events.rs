//! What happens in the sandbox, kept for whoever listens.
//!
//! Owns a bounded log of the last events and their numbers; does not own what makes them. Publishing
//! takes a lock for a moment and wakes only those who listen. Numbers begin at the time of the start,
//! in microseconds, and grow by one, so that one of a former agent is not taken for one of this.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use sandshell_types::{Happening, SandboxEvent};
use tokio::sync::watch;

/// Events kept; the oldest go first.
pub const KEPT: usize = 10_000;

/// Events a reader takes at a time.
const BATCH: usize = 256;

/// The log; cheap to clone.
#[derive(Debug, Clone)]
pub struct Events(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    log: Mutex<Log>,
    grown: watch::Sender<u64>,
    /// How many readers there are.
    listeners: watch::Sender<usize>,
}

#[derive(Debug)]
struct Log {
    kept: VecDeque<Arc<SandboxEvent>>,
    /// Number before the very first event.
    begun: u64,
    /// Number of the last event.
    last: u64,
}

/// Reads the log and waits for more.
#[derive(Debug)]
pub struct EventsReader {
    events: Events,
    position: u64,
    grown: watch::Receiver<u64>,
}

/// What a reader hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// An event with its number.
    Event(u64, Arc<SandboxEvent>),
    /// Events are missing before the one with this number.
    Truncated(u64),
}

impl Default for Events {
    fn default() -> Self {
        let now = u64::try_from(Timestamp::now().as_microsecond()).unwrap_or(0);
        Self(Arc::new(Shared {
            log: Mutex::new(Log {
                kept: VecDeque::new(),
                begun: now,
                last: now,
            }),
            grown: watch::Sender::new(now),
            listeners: watch::Sender::new(0),
        }))
    }
}

impl Events {
    fn lock(&self) -> MutexGuard<'_, Log> {
        self.0.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that something happened.
    pub fn publish(&self, what: Happening) {
        let event = Arc::new(SandboxEvent {
            at: Timestamp::now(),
            what,
        });
        let last = {
            let mut log = self.lock();
            log.kept.push_back(event);
            if log.kept.len() > KEPT {
                log.kept.pop_front();
            }
            log.last += 1;
            log.last
        };
        self.0.grown.send_replace(last);
    }

    /// The number of readers, for whoever can tell of something only by looking for it.
    pub(crate) fn listeners(&self) -> watch::Receiver<usize> {
        self.0.listeners.subscribe()
    }

    /// Reads on after the event with this number (0: all that are kept), or from now on.
    pub fn reader(&self, from: Option<u64>) -> EventsReader {
        let log = self.lock();
        let position = match from {
            None => log.last,
            Some(0) => log.begun,
            Some(from) => from,
        };
        drop(log);
        self.0.listeners.send_modify(|count| *count += 1);
        EventsReader {
            grown: self.0.grown.subscribe(),
            events: self.clone(),
            position,
        }
    }
}

impl Drop for EventsReader {
    fn drop(&mut self) {
        self.events.0.listeners.send_modify(|count| *count -= 1);
    }
}

impl EventsReader {
    /// The next events; never empty.
    ///
    /// CANCEL SAFETY: nothing is taken before it is given.
    pub async fn next(&mut self) -> Vec<Heard> {
        loop {
            self.grown.borrow_and_update();
            let heard = self.read();
            if !heard.is_empty() {
                return heard;
            }
            if self.grown.changed().await.is_err() {
                // We hold the sender, so this cannot be.
                std::future::pending::<()>().await;
            }
        }
    }

    fn read(&mut self) -> Vec<Heard> {
        let log = self.events.lock();
        let before_first = log.last - log.kept.len() as u64;
        let mut heard = Vec::new();
        if self.position < before_first || self.position > log.last {
            heard.push(Heard::Truncated(before_first + 1));
            self.position = before_first;
        }
        let new = log
            .kept
            .iter()
            .skip((self.position - before_first) as usize);
        for event in new.take(BATCH) {
            self.position += 1;
            heard.push(Heard::Event(self.position, event.clone()));
        }
        heard
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(heard: &[Heard]) -> Vec<u64> {
        heard
            .iter()
            .map(|heard| match heard {
                Heard::Event(number, _) | Heard::Truncated(number) => *number,
            })
            .collect()
    }

    #[tokio::test]
    async fn a_reader_misses_nothing_or_is_told() {
        let events = Events::default();
        let mut live = events.reader(None);
        events.publish(Happening::Ready {
            protections_off: Vec::new(),
        });
        let first = live.next().await;
        let Heard::Event(number, _) = first[0] else {
            unreachable!("the first event");
        };
        assert_eq!(numbers(&events.reader(Some(0)).next().await), [number]);
        for _ in 0..KEPT {
            events.publish(Happening::Ending {});
        }
        // The first is gone now.
        let mut all = events.reader(Some(0));
        assert_eq!(numbers(&all.next().await)[..2], [number + 1, number + 1]);
        let mut resumed = events.reader(Some(number));
        assert_eq!(
            numbers(&resumed.next().await)[..2],
            [number + 1, number + 2]
        );
        for unknown in [1, number - 1, number + 1_000_000] {
            let heard = events.reader(Some(unknown)).next().await;
            assert_eq!(heard[0], Heard::Truncated(number + 1), "{unknown}");
        }
        assert_eq!(numbers(&live.next().await)[0], number + 1);
    }
}
