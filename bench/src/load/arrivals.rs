//! When requests arrive: a timetable fixed in advance, and the thread that keeps it.
//!
//! Nothing that happens to a request changes when the next one arrives; that is what makes the loop
//! open. The thread does nothing but sleep until the next arrival and say so, because a timer of the
//! runtime has a grain of a millisecond, several times what is measured.

use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use crate::dice::Dice;

/// Arrivals that nobody has taken up yet. Beyond that the generator itself is stuck.
const WAITING: usize = 4096;

/// How arrivals are spread over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spread {
    /// Independent users: bursts and gaps.
    Poisson,
    /// One after the other at the same distance.
    Uniform,
}

/// Offsets from the start at which requests arrive.
pub(crate) fn timetable(
    spread: Spread,
    per_second: f64,
    length: Duration,
    dice: &mut Dice,
) -> Vec<Duration> {
    let mut at = Duration::ZERO;
    std::iter::from_fn(|| {
        at += match spread {
            Spread::Poisson => dice.gap(per_second),
            Spread::Uniform => Duration::from_secs_f64(1.0 / per_second),
        };
        (at < length).then_some(at)
    })
    .collect()
}

/// Keeps a timetable on a thread of its own; gives the intended moments as they come.
pub(crate) fn keep(start: Instant, timetable: Vec<Duration>) -> mpsc::Receiver<Instant> {
    let (arrive, arrivals) = mpsc::channel(WAITING);
    std::thread::spawn(move || {
        // Fifty microseconds by default; the distance between arrivals may be less.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        for at in timetable {
            let intended = start + at;
            let wait = intended.saturating_duration_since(Instant::now());
            if !wait.is_zero() {
                #[expect(
                    clippy::disallowed_methods,
                    reason = "the thread has nothing else to do than to wait for this moment"
                )]
                std::thread::sleep(wait);
            }
            if arrive.blocking_send(intended).is_err() {
                return;
            }
        }
    });
    arrivals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timetable_has_its_rate() {
        let second = Duration::from_secs(1);
        let uniform = timetable(Spread::Uniform, 100.0, second, &mut Dice::new(1));
        assert_eq!(uniform.len(), 99);
        let poisson = timetable(Spread::Poisson, 1000.0, second * 10, &mut Dice::new(1));
        assert!(
            (9_700..10_300).contains(&poisson.len()),
            "{}",
            poisson.len()
        );
        assert!(poisson.is_sorted());
    }
}
