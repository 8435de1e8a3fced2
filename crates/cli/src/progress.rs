//! How far a transfer is: on stderr, for people only, and only when it takes a while.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use crate::output::{Output, size};

/// What is done sooner needs no word.
const PATIENCE: Duration = Duration::from_millis(300);
/// Often enough to look alive.
const BETWEEN: Duration = Duration::from_millis(100);

/// One transfer. Dropping it takes its line away.
pub(crate) struct Progress {
    what: String,
    total: Option<u64>,
    done: u64,
    started: Instant,
    shown_at: Option<Instant>,
    on: bool,
}

impl Progress {
    pub(crate) fn new(out: Output, what: impl Into<String>, total: Option<u64>) -> Self {
        Self {
            what: what.into(),
            total,
            done: 0,
            started: Instant::now(),
            shown_at: None,
            on: !out.quiet && !out.json && std::io::stderr().is_terminal(),
        }
    }

    /// So many bytes more.
    pub(crate) fn add(&mut self, bytes: u64) {
        self.done += bytes;
        let text = self.bytes_so_far();
        self.tell(&text);
    }

    /// What is being done, in other words than bytes.
    pub(crate) fn say(&mut self, text: &str) {
        self.tell(text);
    }

    fn tell(&mut self, text: &str) {
        let now = Instant::now();
        let early = now.duration_since(self.started) < PATIENCE;
        let recent = self
            .shown_at
            .is_some_and(|at| now.duration_since(at) < BETWEEN);
        if !self.on || early || recent {
            return;
        }
        self.shown_at = Some(now);
        // There is nowhere to tell that stderr is closed.
        let _ = write!(std::io::stderr().lock(), "\r\x1b[K{}  {text}", self.what);
    }

    fn bytes_so_far(&self) -> String {
        let elapsed = self.started.elapsed().as_millis().max(1);
        let rate = u128::from(self.done) * 1000 / elapsed;
        let rate = size(u64::try_from(rate).unwrap_or(u64::MAX));
        match self.total {
            Some(total) if total > 0 => {
                let percent = u128::from(self.done) * 100 / u128::from(total);
                format!(
                    "{} of {}  {percent}%  {rate}/s",
                    size(self.done),
                    size(total)
                )
            }
            _ => format!("{}  {rate}/s", size(self.done)),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown_at.is_some() {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}
