//! Ports that open and close, as a stream.
//!
//! The kernel tells nobody when a socket starts to listen, so a watcher asks again, and only while
//! somebody awaits its next event. A look reads the table of listening sockets alone; who holds them
//! is asked only when the table has changed.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use sandshell_types::{Happening, PortRecord};

use super::table::{self, Row};
use crate::Executor;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(100);

/// A change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortEvent {
    /// Something listens on it now.
    Opened(PortRecord),
    /// Nothing does any more; as it was.
    Closed(PortRecord),
}

/// Publishes ports that open and close, from when somebody first listens to the sandbox's events and
/// for as long as anybody does. What changed while nobody did is told to the next who does.
pub(crate) async fn publish(executor: Executor) {
    let events = executor.events().clone();
    let mut listeners = events.listeners();
    if listeners.wait_for(|count| *count > 0).await.is_err() {
        return;
    }
    let mut watcher = executor.watch_ports().await;
    while listeners.wait_for(|count| *count > 0).await.is_ok() {
        let nobody = listeners.wait_for(|count| *count == 0);
        let telling = async {
            loop {
                events.publish(match watcher.next().await {
                    PortEvent::Opened(record) => Happening::PortOpened {
                        port: record.port,
                        pid: Some(record.pid),
                    },
                    PortEvent::Closed(record) => Happening::PortClosed { port: record.port },
                });
            }
        };
        tokio::select! {
            _ = nobody => {}
            () = telling => {}
        }
    }
}

/// Sees ports open and close from its making on.
#[derive(Debug)]
pub struct PortWatcher {
    executor: Executor,
    rows: Vec<Row>,
    seen: BTreeMap<u16, PortRecord>,
    ready: VecDeque<PortEvent>,
}

impl PortWatcher {
    pub(crate) async fn new(executor: Executor) -> Self {
        let mut watcher = Self {
            executor,
            rows: Vec::new(),
            seen: BTreeMap::new(),
            ready: VecDeque::new(),
        };
        watcher.look().await;
        watcher.ready.clear();
        watcher
    }

    /// The ports that are open as far as the events given so far tell.
    pub fn open(&self) -> impl Iterator<Item = &PortRecord> {
        self.seen.values()
    }

    /// The next change.
    ///
    /// CANCEL SAFETY: a dropped call loses no change.
    pub async fn next(&mut self) -> PortEvent {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return event;
            }
            tokio::time::sleep(PAUSE).await;
            self.look().await;
        }
    }

    async fn look(&mut self) {
        let init = self.executor.port_table().0.init;
        // Who cannot look for now sees no change.
        let looked = tokio::task::spawn_blocking(move || table::listening(init));
        let Ok(Ok(rows)) = looked.await else {
            return;
        };
        if rows == self.rows {
            return;
        }
        let Ok(ports) = self.executor.ports().await else {
            return;
        };
        let now: BTreeMap<u16, PortRecord> = ports
            .into_iter()
            .map(|record| (record.port, record))
            .collect();
        // From here on nothing is awaited, so that the change is noted as a whole.
        self.rows = rows;
        let closed = self
            .seen
            .values()
            .filter(|was| !now.contains_key(&was.port));
        let closed = closed.cloned().map(PortEvent::Closed);
        let opened = now.values().filter(|is| !self.seen.contains_key(&is.port));
        let opened = opened.cloned().map(PortEvent::Opened);
        self.ready.extend(closed.chain(opened));
        self.seen = now;
    }
}
