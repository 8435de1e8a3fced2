//! `sandshell-bench soak`: mixed load for a long time, and what has grown at its end.
//!
//! ```text
//! a hub, two sandboxes that stay, a turn of each kind ─► counted ─► users for the time asked for ─► counted
//!                                                                   │ a third warms up, then memory is compared
//!                                                                   └ samples every few seconds
//! ```
//!
//! Users (`turns.rs`) come and go, kill shells and destroy sandboxes in the middle of a command; what they
//! are told must be right all the same. Beside them a command is sent twenty times a second by a timetable:
//! its latency over time is a curve among those of memory and descriptors (`traces.rs`). At the end the counts of
//! everything that can leak must be what they were, and after the last sandbox nothing may be left.

mod places;
mod traces;
pub(crate) mod turns;
mod verdict;

use std::ffi::OsString;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use sandshell_client::{Client, Page, ProcessFilter};
use sandshell_testkit::{Hub, children_deep};
use sandshell_types::{ProcessKind, SandboxId, SandboxSpec, SessionRequest};
use tokio::task::JoinSet;

use self::places::Places;
use self::traces::{Cast, SANDBOXES, Traces};
use self::turns::Turn;
use crate::dice::Dice;
use crate::load::arrivals::{self, Spread, timetable};
use crate::measure::{milliseconds, permille};
use crate::report::{Report, progress};
use crate::sessions;

const SECTION: &str = "soak";
const PROBES_PER_SECOND: f64 = 20.0;
/// From here on it is long enough for memory to be judged, and for idle connections to be waited for.
const LONG: Duration = Duration::from_mins(10);
/// A turn that takes longer is stuck; a machine can stand still for half of this.
const TURN: Duration = Duration::from_mins(2);
/// Between two looks at what is there.
const PAUSE: Duration = Duration::from_millis(250);
/// Errors of turns that are kept to be shown.
const SHOWN: usize = 10;

const HELP: &str = "\
Usage: sandshell-bench soak [OPTION…]

Mixed load with random kills on a hub with isolated sandboxes. Fails when memory grows by more than
1 MiB after the first third, when anything is left at the end, or when an answer is wrong.

  --minutes N  how long [default: 30]; memory is judged from 10 minutes on
  --seconds N  the same, shorter
  --seed N     chance, again [default: 1]
  --csv FILE   write the samples there as they are taken
  --json FILE  write figures and curves there

SANDSHELL_BIN names the binary to measure [default: the one beside this program].
";

struct Options {
    length: Duration,
    seed: u64,
    csv: Option<PathBuf>,
    json: Option<PathBuf>,
}

impl Options {
    fn parse(words: impl Iterator<Item = OsString>) -> Result<Option<Self>> {
        let mut options = Self {
            length: Duration::from_mins(30),
            seed: 1,
            csv: None,
            json: None,
        };
        let mut words = words.map(|word| word.to_string_lossy().into_owned());
        while let Some(word) = words.next() {
            let mut value = || {
                words
                    .next()
                    .with_context(|| format!("{word} needs a value"))
            };
            match word.as_str() {
                "--help" | "-h" => return Ok(None),
                "--minutes" => options.length = Duration::from_mins(value()?.parse()?),
                "--seconds" => options.length = Duration::from_secs(value()?.parse()?),
                "--seed" => options.seed = value()?.parse()?,
                "--csv" => options.csv = Some(value()?.into()),
                "--json" => options.json = Some(value()?.into()),
                _ => bail!("{word:?} is not an option"),
            }
        }
        Ok(Some(options))
    }

    fn is_long(&self) -> bool {
        self.length >= LONG
    }

    /// About three hundred samples, at least a second apart.
    fn interval(&self) -> Duration {
        (self.length / 300).max(Duration::from_secs(1))
    }
}

pub(crate) fn main(words: impl Iterator<Item = OsString>) -> Result<ExitCode> {
    let Some(options) = Options::parse(words)? else {
        std::io::stdout().write_all(HELP.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    };
    let mut report = Report::default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(run(&options, &mut report))?;
    report.finish();
    report.print(true)?;
    if let Some(path) = &options.json {
        report.write_json(path)?;
    }
    Ok(ExitCode::from(u8::from(!report.all_bars_met())))
}

/// What is known after each interval.
#[derive(Debug)]
struct Sample {
    seconds: f64,
    traces: Traces,
    /// Of the probe, in milliseconds.
    p50: f64,
    p99: f64,
    /// So far.
    turns: usize,
    errors: usize,
}

/// What users did, told by all of them.
#[derive(Default)]
struct Tally {
    turns: usize,
    errors: Vec<String>,
    error_count: usize,
    /// Latencies of the probe since the last sample, in milliseconds.
    probes: Vec<f64>,
}

type Shared = Arc<Mutex<Tally>>;

fn with<T>(tally: &Shared, act: impl FnOnce(&mut Tally) -> T) -> T {
    act(&mut tally.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Tally {
    fn count(&mut self, outcome: Result<()>) {
        self.turns += 1;
        if let Err(error) = outcome {
            self.error_count += 1;
            if self.errors.len() < SHOWN {
                progress(&format!("{SECTION}: ERROR: {error:#}"));
                self.errors.push(format!("{error:#}"));
            }
        }
    }
}

async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let hub = Hub::start();
    let client = hub.client();
    let mut places = Places::watch(&hub.state_dir())?;
    let mut dice = Dice::new(options.seed);
    let empty = children_deep(hub.pid()).len();
    let mut ids = Vec::new();
    for _ in 0..2 {
        ids.push(client.create_sandbox(&SandboxSpec::default()).await?.id);
    }
    // Everything that is made once is made by these.
    for id in &ids {
        for turn in Turn::ALL {
            turn.take(&client, &client.sandbox(id), &mut dice).await?;
        }
    }
    let cast = Cast::of(hub.pid())?;
    let mut look = || Traces::look(&cast, &hub.state_dir(), &mut places);
    fill_pools(&client, &ids).await?;
    let before = settled(&client, None, options, &mut look).await?;

    let tally = Shared::default();
    let samples = under_load(options, &hub, &ids, &mut dice, &tally, &mut look).await?;
    fill_pools(&client, &ids).await?;
    let after = settled(&client, Some(&before), options, &mut look).await?;
    let living = living(&client, &ids).await?;

    for id in &ids {
        client.destroy_sandbox(id).await?;
    }
    let left_of_sandboxes = left(|| {
        let directories = std::fs::read_dir(hub.state_dir().join(SANDBOXES))?.count();
        let children = children_deep(hub.pid()).len().saturating_sub(empty);
        Ok(places.groups()?.all() + children + directories)
    })
    .await?;
    let (pids, directory) = (children_deep(hub.pid()), hub.dir().to_owned());
    drop(hub);
    let left_of_all = left(|| {
        let processes = pids.iter().filter(|pid| is_ours(**pid)).count();
        Ok(processes + places.groups()?.all() + usize::from(directory.exists()))
    })
    .await?;

    let tally = with(&tally, std::mem::take);
    verdict::rows(report, options, &samples);
    report.add(SECTION, "turns of users", "", tally.turns as f64);
    let made = places.sandboxes() as f64;
    report.add(SECTION, "sandboxes made", "", made);
    verdict::counts(report, options, &before, &after);
    for (name, count) in [
        ("wrong answers", tally.error_count),
        ("sessions, processes and terminals alive", living),
        ("left after the last sandbox", left_of_sandboxes),
        ("left after the hub", left_of_all),
    ] {
        report.at_most(&format!("{SECTION}: {name}"), count as f64, 0.0);
    }
    Ok(())
}

async fn fill_pools(client: &Client, ids: &[SandboxId]) -> Result<()> {
    for id in ids {
        turns::fill_pools(&client.sandbox(id)).await?;
    }
    Ok(())
}

/// Counts again until nothing is left, or until it is clear that it stays: what ends needs a moment, and longer on a
/// machine that stands still.
async fn left(mut count: impl FnMut() -> Result<usize>) -> Result<usize> {
    let deadline = Instant::now() + TURN;
    loop {
        let left = count()?;
        if left == 0 || Instant::now() > deadline {
            return Ok(left);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Whether a pid is still one of a program of ours.
fn is_ours(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/cmdline"))
        .is_ok_and(|line| line.starts_with("sandshell"))
}

/// Lets all users act for the time asked for, and samples.
async fn under_load(
    options: &Options,
    hub: &Hub,
    ids: &[SandboxId],
    dice: &mut Dice,
    tally: &Shared,
    look: &mut impl FnMut() -> Result<Traces>,
) -> Result<Vec<Sample>> {
    let start = Instant::now();
    let end = start + options.length;
    let mut users = JoinSet::new();
    for turn in Turn::ALL {
        for user in 0..turn.users() {
            // A client each: users share no connections.
            let client = hub.client();
            let sandbox = client.sandbox(&ids[user % ids.len()]);
            users.spawn(a_user(
                turn,
                client,
                sandbox,
                dice.split(),
                end,
                Arc::clone(tally),
            ));
        }
    }
    let first = hub.client().sandbox(&ids[0]);
    let table = timetable(Spread::Poisson, PROBES_PER_SECOND, options.length, dice);
    users.spawn(probe(first, start, table, Arc::clone(tally)));

    let mut csv = options.csv.as_ref().map(File::create).transpose()?;
    if let Some(csv) = &mut csv {
        writeln!(csv, "{}", verdict::COLUMNS.join(","))?;
    }
    let mut samples = Vec::new();
    let mut ticks = tokio::time::interval(options.interval());
    ticks.tick().await;
    while Instant::now() < end {
        ticks.tick().await;
        let traces = look()?;
        let sample = with(tally, |tally| {
            let mut probes = std::mem::take(&mut tally.probes);
            probes.sort_by(f64::total_cmp);
            Sample {
                seconds: start.elapsed().as_secs_f64(),
                traces,
                p50: permille(&probes, 500),
                p99: permille(&probes, 990),
                turns: tally.turns,
                errors: tally.error_count,
            }
        });
        if let Some(csv) = &mut csv {
            writeln!(csv, "{}", verdict::line(&sample))?;
        }
        if samples.len() % 10 == 9 {
            progress(&verdict::summary(&sample));
        }
        samples.push(sample);
    }
    let over = tokio::time::timeout(TURN * 2, async {
        while let Some(user) = users.join_next().await {
            user?;
        }
        anyhow::Ok(())
    });
    over.await.context("users are stuck")??;
    Ok(samples)
}

async fn a_user(
    turn: Turn,
    client: Client,
    sandbox: Client,
    mut dice: Dice,
    end: Instant,
    tally: Shared,
) {
    while Instant::now() < end {
        let outcome = tokio::time::timeout(TURN, turn.take(&client, &sandbox, &mut dice)).await;
        let outcome = outcome
            .with_context(|| format!("{turn:?}: stuck"))
            .flatten();
        with(&tally, |tally| tally.count(outcome));
        let pause = dice.gap(1.0 / turn.pause().as_secs_f64());
        tokio::time::sleep(pause.min(Duration::from_secs(2))).await;
    }
}

/// A command in a session of its own, by a timetable.
async fn probe(sandbox: Client, start: Instant, table: Vec<Duration>, tally: Shared) {
    let Ok(made) = sandbox.create_session(&SessionRequest::default()).await else {
        with(&tally, |tally| {
            tally.count(Err(anyhow::anyhow!("no session to probe with")));
        });
        return;
    };
    let mut arrivals = arrivals::keep(start, table);
    let mut under_way = JoinSet::new();
    while let Some(intended) = arrivals.recv().await {
        while under_way.try_join_next().is_some() {}
        let (sandbox, id, tally) = (sandbox.clone(), made.id.clone(), Arc::clone(&tally));
        under_way.spawn(async move {
            let outcome = sessions::exec(&sandbox, &id, "true").await.map(drop);
            with(&tally, |tally| {
                tally.probes.push(milliseconds(intended.elapsed()));
                tally.count(outcome.context("probe"));
            });
        });
    }
    under_way.join_all().await;
    let outcome = sandbox.delete_session(&made.id).await;
    with(&tally, |tally| {
        tally.count(outcome.map(drop).context("probe"));
    });
}

/// Looks again until nothing changes any more, or until all is as it was: pools fill up and
/// connections close in the background.
async fn settled(
    client: &Client,
    like: Option<&Traces>,
    options: &Options,
    look: &mut impl FnMut() -> Result<Traces>,
) -> Result<Traces> {
    let all = options.is_long();
    client.close_idle();
    // Idle connections to agents go after 60 to 90 seconds; where they count, they are waited for.
    let (quiet, limit) = if all { (95, 240) } else { (2, 120) };
    let quiet = Duration::from_secs(quiet);
    let deadline = Instant::now() + Duration::from_secs(limit);
    let mut last = look()?;
    let mut changed = Instant::now();
    loop {
        tokio::time::sleep(PAUSE).await;
        let now = look()?;
        if now.counts(all) != last.counts(all) {
            changed = Instant::now();
        }
        let done = like.map_or_else(
            || changed.elapsed() >= quiet,
            |like| now.counts(all) == like.counts(all),
        );
        if done {
            return Ok(now);
        }
        if Instant::now() > deadline {
            // At the end what differs is the verdict; a beginning that never was still compares with nothing.
            anyhow::ensure!(
                like.is_some(),
                "the counts did not stand still for {quiet:?} within {limit} s: {:?}",
                now.counts(all)
            );
            return Ok(now);
        }
        last = now;
    }
}

/// What the agents say is alive in the sandboxes that stay.
async fn living(client: &Client, ids: &[SandboxId]) -> Result<usize> {
    let page = Page {
        limit: Some(1000),
        cursor: None,
    };
    let mut count = 0;
    for id in ids {
        let sandbox = client.sandbox(id);
        count += sandbox.list_sessions(&page).await?.items.len();
        for kind in [ProcessKind::Process, ProcessKind::Exec] {
            count += running(&sandbox, kind).await?;
        }
        let terminals = sandbox.list_terminals(&page).await?.items;
        count += terminals
            .iter()
            .filter(|one| one.ended_at.is_none())
            .count();
    }
    Ok(count)
}

/// How many of a kind run, on whatever page of the list they are.
async fn running(sandbox: &Client, kind: ProcessKind) -> Result<usize> {
    let mut filter = ProcessFilter {
        kind: Some(kind),
        ..ProcessFilter::default()
    };
    filter.page.limit = Some(1000);
    let mut count = 0;
    loop {
        let page = sandbox.list_processes(&filter).await?;
        count += page
            .items
            .iter()
            .filter(|one| one.ended_at.is_none())
            .count();
        filter.page.cursor = page.next_cursor;
        if filter.page.cursor.is_none() {
            return Ok(count);
        }
    }
}
