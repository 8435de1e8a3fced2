//! The events of a watch that are kept for whoever reads them, now or after a reconnect.
//!
//! Each has the version of the watch after it. Versions begin at the time the watch was made, in
//! microseconds, and grow by one: changes come slower than microseconds pass, so no version of a former
//! watch is ever taken for one of this.

use std::collections::VecDeque;
use std::sync::Arc;

use sandshell_types::{FileEvent, RescanReason, WatchEndEvent};

/// Most events kept.
pub(super) const EVENTS: usize = 65_536;
/// Most bytes kept.
pub(super) const BYTES: usize = 16 << 20;

/// What is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// A change.
    Change(FileEvent),
    /// Some changes are missing before this.
    Rescan(RescanReason),
    /// The last event.
    End(WatchEndEvent),
}

#[derive(Debug)]
pub(super) struct Ring {
    events: VecDeque<Arc<Told>>,
    bytes: usize,
    /// The version at which the watch was made.
    begun: u64,
    /// The version now.
    version: u64,
    /// Nothing more will come.
    closed: bool,
}

/// What a reader finds after its version.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// These, each with its version.
    Events(Vec<(u64, Arc<Told>)>),
    /// Not everything: read on from this version.
    Missing(RescanReason, u64),
}

impl Ring {
    pub(super) fn new(begun: u64) -> Self {
        Self {
            events: VecDeque::new(),
            bytes: 0,
            begun,
            version: begun,
            closed: false,
        }
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    pub(super) fn push(&mut self, told: Told) {
        self.bytes += size(&told);
        self.events.push_back(Arc::new(told));
        self.version += 1;
        while self.events.len() > EVENTS || self.bytes > BYTES {
            let Some(gone) = self.events.pop_front() else {
                break;
            };
            self.bytes -= size(&gone);
        }
    }

    /// Whether all that happened after a version is known.
    pub(super) fn knows(&self, version: u64) -> Result<(), RescanReason> {
        if version < self.begun || version > self.version {
            return Err(RescanReason::UnknownVersion);
        }
        if version < self.version - self.events.len() as u64 {
            return Err(RescanReason::Dropped);
        }
        Ok(())
    }

    /// Events after a version, up to so many.
    pub(super) fn after(&self, version: u64, most: usize) -> Found {
        if let Err(reason) = self.knows(version) {
            return Found::Missing(reason, self.version);
        }
        let first = self.version - self.events.len() as u64;
        let events = self.events.iter().skip((version - first) as usize);
        Found::Events((version + 1..).zip(events.take(most).cloned()).collect())
    }

    /// Whether a rescan was told after a version.
    pub(super) fn rescan_after(&self, version: u64) -> Option<RescanReason> {
        let new = (self.version - version) as usize;
        self.events
            .iter()
            .rev()
            .take(new)
            .find_map(|told| match **told {
                Told::Rescan(reason) => Some(reason),
                _ => None,
            })
    }
}

/// About what an event costs.
fn size(told: &Told) -> usize {
    let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    128 + match told {
        Told::Change(event) => {
            event.path.len()
                + text(&event.path_base64)
                + text(&event.from)
                + text(&event.from_base64)
        }
        Told::Rescan(_) | Told::End(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_what_is_missing_and_why() {
        let mut ring = Ring::new(1000);
        assert_eq!(ring.after(1000, 9), Found::Events(vec![]));
        for version in [0, 999, 1001] {
            let missing = Found::Missing(RescanReason::UnknownVersion, 1000);
            assert_eq!(ring.after(version, 9), missing, "{version}");
        }
        for _ in 0..=EVENTS {
            ring.push(Told::Rescan(RescanReason::Overflow));
        }
        let now = ring.version();
        assert_eq!(
            ring.after(1000, 9),
            Found::Missing(RescanReason::Dropped, now)
        );
        let Found::Events(events) = ring.after(1001, 2) else {
            unreachable!("1002 is the first that is kept");
        };
        let versions: Vec<u64> = events.iter().map(|(version, _)| *version).collect();
        assert_eq!(versions, [1002, 1003]);
        assert_eq!(ring.rescan_after(now), None);
        assert_eq!(ring.rescan_after(now - 1), Some(RescanReason::Overflow));
    }
}
