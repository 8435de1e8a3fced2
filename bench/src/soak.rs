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
//! everything that can leak must be what they were, no process may outlive the answer that its sandbox is gone, and
//! after the last one nothing may be left.

mod left;
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

use self::left::{alive, below, is_ours, left};
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
/// A turn that takes longer is stuck; a machine can stand still for a quarter of this.
const TURN: Duration = Duration::from_mins(2);
/// From here on it is long enough for memory to be judged, and for idle connections to be waited for.
const LONG: Duration = Duration::from_mins(10);
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

    /// What is left for longer stays. A short soak is a test, which is ended after ten minutes: in that there is time for
    /// users that are stuck, four minutes, and for this wait before them and all three at the end, so that there is a
    /// verdict.
    fn wait(&self) -> Duration {
        Duration::from_secs(if self.is_long() { 120 } else { 40 })
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
    let mut hub = Hub::start();
    let client = hub.client();
    let mut places = Places::watch(&hub.state_dir())?;
    let mut dice = Dice::new(options.seed);
    let empty = children_deep(hub.pid());
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

    let mut processes = below(hub.pid(), &empty)?;
    anyhow::ensure!(!processes.is_empty(), "the sandboxes have no processes");
    for id in &ids {
        client.destroy_sandbox(id).await?;
    }
    // At once, and also at those from before: what outlives its parent is no longer below the hub.
    processes.extend(below(hub.pid(), &empty)?);
    let alive = alive(&processes)? + places.groups()?.occupied;
    let left_of_sandboxes = left(options.wait(), || {
        let directories = std::fs::read_dir(hub.state_dir().join(SANDBOXES))?.count();
        let children = below(hub.pid(), &empty)?.len();
        Ok(places.groups()?.all() + children + directories)
    })
    .await?;
    let pids = children_deep(hub.pid());
    // Not dropped yet: that starts another one, which removes what this one has left.
    hub.stop();
    let mut left_of_all = left(options.wait(), || {
        let processes = pids.iter().filter(|pid| is_ours(**pid)).count();
        Ok(processes + places.groups()?.all())
    })
    .await?;
    let directory = hub.dir().to_owned();
    drop(hub);
    // Where something is still mounted it cannot be removed.
    left_of_all += usize::from(directory.exists());

    let tally = with(&tally, std::mem::take);
    verdict::rows(report, options, &samples);
    report.add(SECTION, "turns of users", "", tally.turns as f64);
    let made = places.sandboxes() as f64;
    report.add(SECTION, "sandboxes made", "", made);
    verdict::counts(report, options, &before, &after);
    for (name, count) in [
        ("wrong answers", tally.error_count),
        ("sessions, processes and terminals alive", living),
        ("processes alive when the last sandbox was gone", alive),
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

/// How many looks, a pause before each, take this time. Looks are counted instead of watching the clock, for a machine
/// that stands still does not look either.
fn looks(time: Duration) -> u128 {
    time.as_millis() / PAUSE.as_millis()
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
    let over = tokio::time::timeout(2 * TURN, async {
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

/// Looks again until nothing changes any more, or until all is as it was and stays so: pools fill up and
/// connections close in the background.
async fn settled(
    client: &Client,
    like: Option<&Traces>,
    options: &Options,
    look: &mut impl FnMut() -> Result<Traces>,
) -> Result<Traces> {
    let all = options.is_long();
    client.close_idle();
    // Idle connections to agents go after 60 to 90 seconds; where they count, they are waited for. At the end a pool
    // that is not full again yet can hide for a moment what has leaked.
    let (quiet, limit) = match (all, like) {
        (true, None) => (95, 240),
        (true, Some(_)) => (10, 240),
        (false, _) => (2, options.wait().as_secs()),
    };
    let enough = looks(Duration::from_secs(quiet));
    let mut last = look()?;
    let mut same = 0;
    for _ in 0..looks(Duration::from_secs(limit)) {
        tokio::time::sleep(PAUSE).await;
        let now = look()?;
        let as_wanted = now.counts(all) == like.unwrap_or(&last).counts(all);
        same = if as_wanted { same + 1 } else { 0 };
        last = now;
        if same >= enough {
            return Ok(last);
        }
    }
    // At the end what differs is the verdict; a beginning that never was still compares with nothing.
    anyhow::ensure!(
        like.is_some(),
        "the counts did not stand still for {quiet} s within {limit} s: {:?}",
        last.counts(all)
    );
    Ok(last)
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
