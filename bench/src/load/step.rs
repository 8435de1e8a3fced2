//! One rate, kept for a while, and what became of it.
//!
//! A latency is from the moment a request was meant to arrive to its whole answer, so that a request
//! that had to wait for a slow one before it is not made to look fast.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::task::JoinSet;

use super::arrivals::{self, Spread, timetable};
use super::crew::Crew;
use crate::dice::Dice;
use crate::measure::{milliseconds, permille};

/// Requests under way or waiting. Whoever is that far behind will not catch up; the rest of the
/// timetable is left.
const MOST: usize = 4096;

/// How long the answers of a step may take after its last arrival.
const DRAIN: Duration = Duration::from_secs(30);

/// What a rate gave.
#[derive(Debug, Default)]
pub(crate) struct Step {
    /// Requests a second that were aimed at.
    pub(crate) offered: f64,
    /// Requests a second that the timetable had, which is chance's.
    pub(crate) asked: f64,
    /// Requests a second that were answered rightly, from the start to the last answer.
    pub(crate) achieved: f64,
    pub(crate) errors: usize,
    pub(crate) first_error: Option<String>,
    /// Sorted, in milliseconds.
    latencies: Vec<f64>,
    /// How late requests left the generator, sorted, in milliseconds.
    lags: Vec<f64>,
    /// Of the time of the step: what the generator's thread ran, and what it waited for a processor.
    pub(crate) generator_ran: f64,
    pub(crate) generator_waited: f64,
}

impl Step {
    /// In milliseconds; 500 thousandths are the median.
    pub(crate) fn latency(&self, thousandths: usize) -> f64 {
        permille(&self.latencies, thousandths)
    }

    pub(crate) fn lag_p99(&self) -> f64 {
        permille(&self.lags, 990)
    }

    /// Several runs at one rate as one.
    pub(crate) fn pooled(steps: &[Self]) -> Self {
        let mean = |value: fn(&Self) -> f64| {
            steps.iter().map(value).sum::<f64>() / steps.len().max(1) as f64
        };
        let sorted = |values: fn(&Self) -> &Vec<f64>| {
            let mut all: Vec<f64> = steps.iter().flat_map(values).copied().collect();
            all.sort_by(f64::total_cmp);
            all
        };
        Self {
            offered: mean(|step| step.offered),
            asked: mean(|step| step.asked),
            achieved: mean(|step| step.achieved),
            errors: steps.iter().map(|step| step.errors).sum(),
            first_error: steps.iter().find_map(|step| step.first_error.clone()),
            latencies: sorted(|step| &step.latencies),
            lags: sorted(|step| &step.lags),
            generator_ran: mean(|step| step.generator_ran),
            generator_waited: mean(|step| step.generator_waited),
        }
    }
}

/// What became of one request.
struct Answer {
    lag: Duration,
    latency: Duration,
    outcome: Result<()>,
}

/// Offers a rate for a while, and waits for all answers.
pub(crate) async fn run(
    crew: &Arc<Crew>,
    spread: Spread,
    per_second: f64,
    length: Duration,
    dice: &mut Dice,
) -> Result<Step> {
    let table = timetable(spread, per_second, length, dice);
    let mut step = Step {
        offered: per_second,
        asked: table.len() as f64 / length.as_secs_f64(),
        ..Step::default()
    };
    let before = OnProcessor::now()?;
    let start = Instant::now();
    let mut arrivals = arrivals::keep(start, table);
    let mut under_way = JoinSet::new();
    while let Some(intended) = arrivals.recv().await {
        while let Some(answer) = under_way.try_join_next() {
            step.take(answer?);
        }
        if under_way.len() >= MOST {
            step.fail(format!("{MOST} requests were under way at once"));
            break;
        }
        let crew = Arc::clone(crew);
        under_way.spawn(async move {
            let lag = intended.elapsed();
            let outcome = crew.once().await;
            Answer {
                lag,
                latency: intended.elapsed(),
                outcome,
            }
        });
    }
    drop(arrivals);
    let deadline = tokio::time::Instant::now() + DRAIN;
    while let Ok(Some(answer)) = tokio::time::timeout_at(deadline, under_way.join_next()).await {
        step.take(answer?);
    }
    for _ in 0..under_way.len() {
        step.fail(format!("no answer within {DRAIN:?}"));
    }
    let took = start.elapsed().max(length);
    let now = OnProcessor::now()?;
    step.achieved = step.latencies.len() as f64 / took.as_secs_f64();
    let share = |part: Duration| part.as_secs_f64() / took.as_secs_f64();
    step.generator_ran = share(now.ran.saturating_sub(before.ran));
    step.generator_waited = share(now.waited.saturating_sub(before.waited));
    step.latencies.sort_by(f64::total_cmp);
    step.lags.sort_by(f64::total_cmp);
    Ok(step)
}

impl Step {
    fn take(&mut self, answer: Answer) {
        self.lags.push(milliseconds(answer.lag));
        match answer.outcome {
            Ok(()) => self.latencies.push(milliseconds(answer.latency)),
            Err(error) => self.fail(format!("{error:#}")),
        }
    }

    fn fail(&mut self, why: String) {
        self.errors += 1;
        self.first_error.get_or_insert(why);
    }
}

/// What the kernel says of the calling thread, on which the whole runtime runs.
struct OnProcessor {
    ran: Duration,
    waited: Duration,
}

impl OnProcessor {
    fn now() -> Result<Self> {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
        let mut figures = text.split_ascii_whitespace().map(str::parse::<u64>);
        let mut next = || Duration::from_nanos(figures.next().and_then(Result::ok).unwrap_or(0));
        Ok(Self {
            ran: next(),
            waited: next(),
        })
    }
}
