//! How long a program may take for what it is known to do in a moment.
//!
//! Owns the rule that tells one that does not do it from one that cannot: on a machine that stands still,
//! or whose disk does, an hour says nothing against a program. Each time its time is over it is looked
//! at: one that waits for the disk, or for a processor that it hardly had, gets as long again.
//!
//! Invariant: patience ends. A program can spin and be starved by its own children for ever.

use std::os::fd::OwnedFd;
use std::time::Duration;

use sandshell_sys::procfs::{self, Stat};
use tokio::time::Instant;

/// Less than one in so many parts of the time on a processor is hardly any.
const HARDLY: u32 = 5;

/// A clock tick of /proc.
const TICK: Duration = Duration::from_millis(10);

/// The time a program has.
#[derive(Debug)]
pub struct Patience {
    /// What it gets at a time.
    each: Duration,
    /// How often it can get that again.
    left: u32,
    over_at: Instant,
    /// Its time on a processor when it got its time.
    ticks: u64,
}

impl Patience {
    /// Gives a program its time, and as much again at most so many times.
    pub fn with(process: &OwnedFd, each: Duration, again: u32) -> Self {
        Self {
            each,
            left: again,
            over_at: Instant::now() + each,
            ticks: look(process).map_or(0, |stat| stat.cpu_ticks),
        }
    }

    /// Resolves when its time is over.
    ///
    /// CANCEL SAFETY: changes nothing.
    pub async fn over(&self) {
        tokio::time::sleep_until(self.over_at).await;
    }

    /// Whether that was all: if not, it has its time again.
    pub fn is_lost(&mut self, process: &OwnedFd) -> bool {
        let Some(stat) = look(process) else {
            return true;
        };
        if self.left == 0 || !is_starved(&stat, self.ticks, self.each) {
            return true;
        }
        self.left -= 1;
        self.over_at = Instant::now() + self.each;
        self.ticks = stat.cpu_ticks;
        false
    }
}

fn look(process: &OwnedFd) -> Option<Stat> {
    let pid = procfs::pid_of(process).unwrap_or_default()?;
    procfs::stat(pid).unwrap_or_default()
}

/// Whether a program had no chance in a time at whose beginning it had used so many ticks.
fn is_starved(stat: &Stat, before: u64, time: Duration) -> bool {
    let used = TICK.saturating_mul(
        stat.cpu_ticks
            .saturating_sub(before)
            .try_into()
            .unwrap_or(u32::MAX),
    );
    match stat.state {
        'D' => true,
        'R' => used < time / HARDLY,
        _ => false,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn stat(state: char, cpu_ticks: u64) -> Stat {
        Stat {
            state,
            parent: 1,
            cpu_ticks,
            reaped_ticks: 0,
            resident_pages: 0,
        }
    }

    #[test]
    fn only_one_that_could_not_go_on_is_starved() {
        let second = Duration::from_secs(1);
        assert!(is_starved(&stat('D', 1000), 0, second));
        assert!(is_starved(&stat('R', 119), 100, second));
        assert!(!is_starved(&stat('R', 120), 100, second));
        for waits in ['S', 'T', 'Z'] {
            assert!(!is_starved(&stat(waits, 0), 0, second), "{waits}");
        }
    }

    #[tokio::test]
    async fn patience_ends() {
        let mut spins = std::process::Command::new("bash")
            .args(["-c", "while :; do :; done"])
            .spawn()
            .unwrap();
        let pid = rustix::process::Pid::from_child(&spins);
        let process =
            rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap();
        // Of an hour it had hardly any, each time.
        let mut patience = Patience::with(&process, Duration::from_hours(1), 2);
        assert!(!patience.is_lost(&process));
        assert!(!patience.is_lost(&process));
        assert!(patience.is_lost(&process));
        spins.kill().unwrap();
        spins.wait().unwrap();
        assert!(patience.is_lost(&process), "what is gone is lost");
    }
}
