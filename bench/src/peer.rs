//! `compare`: the same small command by every way there is, in one run.
//!
//! ```text
//! bash itself ─► the core in this process ─► an agent over HTTP ─► a hub, its agent in a strict sandbox ─► peers
//! ```
//!
//! The ways take turns, a few commands each, so that all see the same machine. Then each is asked by more and more
//! at once, for as long as a figure takes. Peers are other services, named by the user; they run where they run, and
//! what lies between counts.

mod e2b;
mod way;

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use futures_util::future::try_join_all;
use sandshell_isolate::InitHandle;

use self::way::{Way, Ways};
use crate::measure::{RUNS, Run, milliseconds};
use crate::plot::{Axis, Bar, Chart, Drawing, Line, Scale};
use crate::report::Report;

const SECTION: &str = "compare";
/// Commands of one way before it is the next one's turn.
const TURN: usize = 20;
const AT_ONCE: [usize; 6] = [1, 2, 4, 8, 16, 32];
const PERCENTILES: [f64; 12] = [
    0.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 98.0, 99.0, 99.5, 99.8, 99.9,
];

/// What a user names by `--peer NAME=KIND:URL`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Peer {
    name: String,
    kind: Kind,
    url: String,
    token: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// An agent of this API, or a sandbox of a hub: `http://…/v1/sandboxes/ID`.
    OpenApi,
    /// E2B's API: a control plane, which is asked for a sandbox, or an envd.
    E2b,
}

impl Peer {
    /// The token is read from the environment, so that no list of processes shows it.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        const FORM: &str = "--peer NAME=openapi:http://… or --peer NAME=e2b:http://…";
        let (name, rest) = text.split_once('=').context(FORM)?;
        let (kind, url) = rest.split_once(':').context(FORM)?;
        let kind = match kind {
            "openapi" => Kind::OpenApi,
            "e2b" => Kind::E2b,
            _ => bail!("{FORM}"),
        };
        Ok(Self {
            name: name.to_owned(),
            kind,
            url: url.trim_end_matches('/').to_owned(),
            token: std::env::var(Self::variable(name)).ok(),
        })
    }

    /// `my-peer` has `PEER_MY_PEER_TOKEN`.
    fn variable(name: &str) -> String {
        let word = |letter: char| {
            if letter.is_ascii_alphanumeric() {
                letter.to_ascii_uppercase()
            } else {
                '_'
            }
        };
        format!("PEER_{}_TOKEN", name.chars().map(word).collect::<String>())
    }
}

/// To be called while this process has one thread.
pub(crate) fn run(
    report: &mut Report,
    init: InitHandle,
    peers: &[Peer],
    count: usize,
) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let ways = Ways::start(init, peers).await?;
        let measured = measure(report, &ways, count).await;
        ways.end().await?;
        measured
    })
}

async fn measure(report: &mut Report, ways: &Ways, count: usize) -> Result<()> {
    let execs: Vec<&Way> = ways.all.iter().collect();
    latencies(report, "exec", "One command", &execs, count).await?;
    let sessions: Vec<&Way> = ways.all.iter().filter(|way| way.has_sessions()).collect();
    latencies(report, "session", "A session's command", &sessions, count).await?;
    let period = Duration::from_millis((count as u64 * 2).clamp(100, 1000));
    throughput(report, &execs, period).await
}

/// Percentiles of `true` by each way, in turns.
async fn latencies(
    report: &mut Report,
    what: &str,
    title: &str,
    ways: &[&Way],
    count: usize,
) -> Result<()> {
    let mut all: Vec<Vec<Duration>> = vec![Vec::new(); ways.len()];
    for way in ways {
        for _ in 0..TURN {
            way.once(what).await?;
        }
    }
    for _ in 0..RUNS {
        let mut run: Vec<Vec<Duration>> = vec![Vec::with_capacity(count); ways.len()];
        for _ in 0..count.div_ceil(TURN) {
            for (way, samples) in ways.iter().zip(&mut run) {
                for _ in 0..TURN {
                    let start = Instant::now();
                    way.once(what).await?;
                    samples.push(start.elapsed());
                }
            }
        }
        for ((way, samples), all) in ways.iter().zip(run).zip(&mut all) {
            let name = format!("{what}: {}", way.name());
            report.add_run(SECTION, &name, Run::of(&samples));
            all.extend(samples);
        }
    }
    let bars = ways.iter().map(|way| {
        let name = format!("{what}: {}", way.name());
        Bar {
            name: way.name().to_owned(),
            value: report.median(SECTION, &name),
            mark: Some(report.p99(SECTION, &name)),
            reference: way.is_floor(),
        }
    });
    let bars: Vec<Bar> = bars.collect();
    report.draw(Chart {
        id: format!("compare-{what}"),
        section: SECTION.to_owned(),
        title: format!("{title}: p50, and p99 of the best run"),
        drawing: Drawing::Bars {
            unit: "ms".to_owned(),
            mark: "p99".to_owned(),
            bars,
        },
    });
    let lines = ways.iter().zip(all).map(|(way, samples)| {
        let points = percentiles(samples);
        if way.is_floor() {
            Line::reference(way.name(), points)
        } else {
            Line::new(way.name(), points)
        }
    });
    report.draw(Chart::lines(
        SECTION,
        &format!("percentiles-{what}"),
        &format!("{title}: all percentiles"),
        [
            Axis::new("percentile", Scale::Percentile),
            Axis::new("ms", Scale::Log),
        ],
        lines.collect(),
    ));
    Ok(())
}

/// As many percentiles as there are samples for.
fn percentiles(samples: Vec<Duration>) -> Vec<(f64, f64)> {
    let mut sorted: Vec<f64> = samples.into_iter().map(milliseconds).collect();
    sorted.sort_by(f64::total_cmp);
    let enough = |percent: &&f64| (100.0 - **percent) / 100.0 * sorted.len() as f64 >= 2.0;
    let at = |percent: &f64| {
        // The first that as many are not above.
        let below = |rank: usize| (rank as f64) < percent / 100.0 * sorted.len() as f64;
        let rank = (1..sorted.len()).find(|rank| !below(*rank))?;
        Some((*percent, *sorted.get(rank - 1)?))
    };
    PERCENTILES.iter().filter(enough).filter_map(at).collect()
}

/// How many commands end in a second when so many are under way at once.
async fn throughput(report: &mut Report, ways: &[&Way], period: Duration) -> Result<()> {
    let mut lines = Vec::new();
    for way in ways {
        let mut points = Vec::new();
        for at_once in AT_ONCE {
            let rate = way.rate(at_once, period).await?;
            let name = format!("exec, {at_once} at once: {}", way.name());
            report.add(SECTION, &name, "/s", rate);
            points.push((at_once as f64, rate));
        }
        lines.push(if way.is_floor() {
            Line::reference(way.name(), points)
        } else {
            Line::new(way.name(), points)
        });
    }
    report.draw(Chart::lines(
        SECTION,
        "throughput",
        "Commands a second by how many are under way at once",
        [
            Axis::new("at once", Scale::Log),
            Axis::new("commands a second", Scale::Linear),
        ],
        lines,
    ));
    Ok(())
}

/// Asks again and again until the time is over, as so many clients would.
async fn asked_by(way: &Way, clients: usize, period: Duration) -> Result<f64> {
    let start = Instant::now();
    let client = async || {
        let mut count = 0_usize;
        while start.elapsed() < period {
            way.once("exec").await?;
            count += 1;
        }
        anyhow::Ok(count)
    };
    let counts = try_join_all((0..clients).map(|_| client())).await?;
    Ok(counts.iter().sum::<usize>() as f64 / start.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_read_and_its_token_found_by_its_name() {
        let peer = Peer::parse("box=e2b:http://127.0.0.1:4020/e2b/").unwrap();
        assert_eq!(peer.kind, Kind::E2b);
        assert_eq!(peer.url, "http://127.0.0.1:4020/e2b");
        assert_eq!(Peer::variable("my-box.2"), "PEER_MY_BOX_2_TOKEN");
        for bad in ["box", "box=http", "box=soap:http://there"] {
            Peer::parse(bad).unwrap_err();
        }
    }

    #[test]
    fn percentiles_are_left_out_where_there_are_too_few_samples() {
        let samples = |count: u64| (1..=count).map(Duration::from_millis).collect();
        let few = percentiles(samples(100));
        assert_eq!(few.last(), Some(&(98.0, 98.0)));
        assert_eq!(percentiles(samples(2001)).len(), PERCENTILES.len());
    }
}
