//! Samples and what is made of them: medians, percentiles, paces.

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::Result;

/// Runs of each latency row.
pub(crate) const RUNS: usize = 5;

/// What one run of a row gave.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    /// Milliseconds.
    pub(crate) p50: f64,
    /// Milliseconds.
    pub(crate) p99: f64,
}

impl Run {
    pub(crate) fn of(samples: &[Duration]) -> Self {
        let mut sorted: Vec<f64> = samples.iter().copied().map(milliseconds).collect();
        sorted.sort_by(f64::total_cmp);
        Self {
            p50: percentile(&sorted, 50),
            p99: percentile(&sorted, 99),
        }
    }
}

pub(crate) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// The nearest-rank percentile of sorted values; NaN when there are none.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    permille(sorted, percent * 10)
}

/// The same in thousandths.
pub(crate) fn permille(sorted: &[f64], permille: usize) -> f64 {
    let rank = (sorted.len() * permille).div_ceil(1000).max(1);
    sorted.get(rank - 1).copied().unwrap_or(f64::NAN)
}

pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    percentile(&sorted, 50)
}

pub(crate) fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NAN, f64::max)
}

pub(crate) fn smallest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NAN, f64::min)
}

/// Times a blocking operation again and again, after a few rounds that do not count.
pub(crate) fn repeat(count: usize, mut once: impl FnMut() -> Result<()>) -> Result<Run> {
    let mut samples = Vec::with_capacity(count);
    for _ in 0..warm_up(count) {
        once()?;
    }
    for _ in 0..count {
        let start = Instant::now();
        once()?;
        samples.push(start.elapsed());
    }
    Ok(Run::of(&samples))
}

/// The same for a future, one after the other.
pub(crate) async fn repeat_async<F>(count: usize, mut once: impl FnMut() -> F) -> Result<Run>
where
    F: Future<Output = Result<()>>,
{
    let mut samples = Vec::with_capacity(count);
    for _ in 0..warm_up(count) {
        once().await?;
    }
    for _ in 0..count {
        let start = Instant::now();
        once().await?;
        samples.push(start.elapsed());
    }
    Ok(Run::of(&samples))
}

/// A timetable that does not wait for slow answers: an operation that could not start on time
/// because the one before was not over is timed from when it should have started.
pub(crate) struct Pace {
    next: Instant,
    interval: Duration,
}

impl Pace {
    pub(crate) fn per_second(rate: u32) -> Self {
        Self {
            next: Instant::now(),
            interval: Duration::from_secs(1) / rate,
        }
    }

    /// The same on a thread that has nothing else to do.
    pub(crate) fn tick_blocking(&mut self) -> Instant {
        self.next += self.interval;
        let now = Instant::now();
        if now > self.next {
            return self.next;
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "the pause is what is measured, and nothing else runs on this thread"
        )]
        std::thread::sleep(self.next - now);
        Instant::now()
    }

    /// Waits for the next start; gives the moment to count from.
    pub(crate) async fn tick(&mut self) -> Instant {
        self.next += self.interval;
        if Instant::now() > self.next {
            return self.next;
        }
        tokio::time::sleep_until(self.next.into()).await;
        Instant::now()
    }
}

fn warm_up(count: usize) -> usize {
    (count / 10).clamp(5, 50)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_the_nearest_rank() {
        let samples: Vec<Duration> = (1..=100).map(Duration::from_millis).collect();
        let run = Run::of(&samples);
        assert!((run.p50 - 50.0).abs() < 1e-9);
        assert!((run.p99 - 99.0).abs() < 1e-9);
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!(median(&[]).is_nan());
    }
}
