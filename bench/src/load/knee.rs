//! The search for the knee: the highest rate that is still served.
//!
//! The rate doubles until it is too much, then the gap between the last good and the first bad rate is
//! halved until it is small. A rate is too much only when two steps in a row say so: on a machine with
//! neighbours a single stall looks like saturation.

use anyhow::Result;

use super::step::Step;

const FIRST: f64 = 100.0;
/// No machine this is meant for gets there; it ends the search where nothing is ever too much.
const LAST: f64 = 51_200.0;
/// The last good and the first bad rate are this close at the end.
const CLOSE: f64 = 1.06;
/// Less than this part of what is offered is a shortfall.
const SERVED: f64 = 0.97;
/// A p99 of this many times the quiet p50, or of this many milliseconds where that is more, is a queue.
const TIMES_QUIET: f64 = 20.0;
const QUEUE_MS: f64 = 10.0;

/// Why a rate is too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TooMuch {
    Errors,
    Shortfall,
    Latency,
}

impl TooMuch {
    pub(crate) fn why(self) -> &'static str {
        match self {
            Self::Errors => "errors",
            Self::Shortfall => "less was answered than was asked",
            Self::Latency => "p99 shows a queue",
        }
    }
}

/// Whether a step was too much, given the p50 of a quiet one.
pub(crate) fn too_much(step: &Step, quiet_p50: f64) -> Option<TooMuch> {
    if step.errors > 0 {
        Some(TooMuch::Errors)
    } else if step.achieved < SERVED * step.asked {
        Some(TooMuch::Shortfall)
    } else if step.latency(990) > (TIMES_QUIET * quiet_p50).max(QUEUE_MS) {
        Some(TooMuch::Latency)
    } else {
        None
    }
}

/// Searches with whatever tells of a rate whether it is too much.
pub(crate) async fn find<W>(
    mut probe: impl AsyncFnMut(f64) -> Result<Option<W>>,
) -> Result<(f64, Option<W>)> {
    let mut twice = async |rate: f64| -> Result<Option<W>> {
        if probe(rate).await?.is_none() {
            return Ok(None);
        }
        probe(rate).await
    };
    let (mut good, mut bad, mut why) = (0.0, FIRST, None);
    while bad <= LAST {
        why = twice(bad).await?;
        if why.is_some() {
            break;
        }
        (good, bad) = (bad, bad * 2.0);
    }
    while bad <= LAST && bad / good > CLOSE && bad - good > 1.0 {
        let middle = f64::midpoint(good, bad);
        match twice(middle).await? {
            None => good = middle,
            found => (bad, why) = (middle, found),
        }
    }
    Ok((good, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn found(knee: f64) -> f64 {
        let probe = async |rate| Ok((rate > knee).then_some(()));
        find(probe).await.unwrap().0
    }

    #[tokio::test]
    async fn finds_it_from_below_within_six_per_cent() {
        for knee in [130.0, 999.0, 1_000.0, 7_777.0] {
            let at = found(knee).await;
            assert!(at <= knee && at * CLOSE >= knee, "{at} for {knee}");
        }
    }

    #[tokio::test]
    async fn goes_below_the_first_rate() {
        let at = found(13.0).await;
        assert!(at <= 13.0 && at > 11.0, "{at}");
    }

    #[tokio::test]
    async fn one_bad_step_is_not_the_knee() {
        let mut probes = 0;
        let probe = async |rate: f64| {
            probes += 1;
            // Every third step stalls.
            Ok((probes % 3 == 0 || rate > 2_000.0).then_some(()))
        };
        let (at, _) = find(probe).await.unwrap();
        assert!(at > 1_800.0, "{at}");
    }
}
