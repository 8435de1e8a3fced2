//! Figures of the hub itself, beside those of its HTTP service.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sandshell_agent::parts::Exposition;
use sandshell_types::SandboxState;

use crate::registry::Registry;

/// What has been counted since the start.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    created: AtomicU64,
    from_warm: AtomicU64,
    create_micros: AtomicU64,
    ended: AtomicU64,
}

impl Figures {
    /// Counts a sandbox that was made in this time.
    pub(crate) fn created(&self, took: Duration) {
        self.created.fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.create_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Counts one that was taken from the warm pool.
    pub(crate) fn taken_warm(&self) {
        self.from_warm.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the end of one.
    pub(crate) fn ended(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    /// Writes all of it.
    pub(crate) fn write(&self, registry: &Registry, text: &mut Exposition) {
        const SANDBOXES: &str = "sandshell_sandboxes";
        text.family(SANDBOXES, "gauge", "Sandboxes with a record, by state.");
        let states = registry.states();
        for state in SandboxState::ALL {
            let count = states.iter().filter(|found| *found == state).count();
            text.sample(SANDBOXES, &format!("state=\"{}\"", state.name()), count);
        }
        for (name, help, counter) in [
            (
                "sandshell_sandboxes_created_total",
                "Sandboxes that were made.",
                &self.created,
            ),
            (
                "sandshell_sandboxes_from_warm_total",
                "Those of them that waited in the warm pool.",
                &self.from_warm,
            ),
            (
                "sandshell_sandboxes_ended_total",
                "Sandboxes that were destroyed or died.",
                &self.ended,
            ),
        ] {
            text.family(name, "counter", help);
            text.sample(name, "", counter.load(Ordering::Relaxed));
        }
        let seconds = Duration::from_micros(self.create_micros.load(Ordering::Relaxed));
        let name = "sandshell_sandbox_create_seconds_total";
        text.family(name, "counter", "Time spent on making sandboxes.");
        text.sample(name, "", seconds.as_secs_f64());
        text.gauge(
            "sandshell_sandboxes_warm",
            "Sandboxes that wait in the warm pool.",
            registry.warm().len() as u64,
        );
        text.gauge(
            "sandshell_sandboxes_warm_target",
            "How many are to wait there.",
            registry.warm().size() as u64,
        );
        text.gauge(
            "sandshell_sandboxes_most",
            "Most sandboxes at a time.",
            registry.most() as u64,
        );
    }
}
