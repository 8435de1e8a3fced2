//! `sandshell-bench load`: an open loop of requests at a fixed rate, and the rate at which it is too much.
//!
//! For each kind of request the knee is found (`knee.rs`), then seven tenths of it are measured. Requests
//! arrive by a timetable (`arrivals.rs`) and latencies count from there (`step.rs`), so that nothing is
//! left out because something else was slow. The generator is this process: its runtime has one thread,
//! and what that thread did and how late it was is part of what is told.

pub(crate) mod arrivals;
mod crew;
mod floods;
mod knee;
mod step;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use sandshell_client::Client;
use sandshell_testkit::Hub;
use sandshell_types::SandboxSpec;

use self::arrivals::Spread;
use self::crew::{Crew, Kind};
use self::step::Step;
use crate::dice::Dice;
use crate::measure::{RUNS, Run, median};
use crate::report::{Report, progress};

const SECTION: &str = "load";
const SANDBOXES: usize = 4;
/// The part of the knee at which it is measured.
const PART: f64 = 0.7;
/// A rate that nothing feels.
const QUIET_RATE: f64 = 20.0;
/// p99 of a session exec at that part, as a multiple of its p50.
const SPREAD_BAR: f64 = 5.0;

const HELP: &str = "\
Usage: sandshell-bench load [OPTION…] [exec|session|stream|terminal|floods]…

Starts a hub with isolated sandboxes, finds the highest rate of requests that is still served, and
measures at seven tenths of it. `floods` shows what hostile clients do to everybody else.

  --agent        ask the sandboxes' agents themselves, past the hub
  --rate N       measure at N requests a second; no search
  --uniform      arrivals at equal distances instead of those of independent users
  --seconds N    length of each of the five runs at the end [default: 6]
  --seed N       chance, again [default: 1]
  --no-bars      show the bars, but do not fail by them
  --json FILE    write the figures there, too

SANDSHELL_BIN names the binary to measure [default: the one beside this program].
";

struct Options {
    kinds: Vec<Kind>,
    floods: bool,
    agent: bool,
    rate: Option<f64>,
    spread: Spread,
    length: Duration,
    seed: u64,
    bars: bool,
    json: Option<PathBuf>,
}

impl Options {
    fn parse(words: impl Iterator<Item = OsString>) -> Result<Option<Self>> {
        let mut options = Self {
            kinds: Vec::new(),
            floods: false,
            agent: false,
            rate: None,
            spread: Spread::Poisson,
            length: Duration::from_secs(6),
            seed: 1,
            bars: true,
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
                "--agent" => options.agent = true,
                "--uniform" => options.spread = Spread::Uniform,
                "--no-bars" => options.bars = false,
                "--rate" => options.rate = Some(value()?.parse()?),
                "--seconds" => options.length = Duration::from_secs(value()?.parse()?),
                "--seed" => options.seed = value()?.parse()?,
                "--json" => options.json = Some(value()?.into()),
                "floods" => options.floods = true,
                name => match Kind::ALL.iter().find(|kind| kind.name() == name) {
                    Some(kind) => options.kinds.push(*kind),
                    None => bail!("{word:?} is neither an option nor a kind of load"),
                },
            }
        }
        if options.kinds.is_empty() && !options.floods {
            options.kinds = Kind::ALL.to_vec();
            options.floods = true;
        }
        Ok(Some(options))
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
    report.print(options.bars)?;
    if let Some(path) = &options.json {
        report.write_json(path)?;
    }
    let failed = options.bars && !report.all_bars_met();
    Ok(ExitCode::from(u8::from(failed)))
}

async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut dice = Dice::new(options.seed);
    for &kind in &options.kinds {
        // One of its own: what former load left behind would count against the next.
        let hub = Hub::start();
        let sandboxes = sandboxes(&hub, options.agent).await?;
        let crew = Arc::new(Crew::hire(kind, &sandboxes).await?);
        measure(options, report, kind, &crew, &mut dice).await?;
    }
    if options.floods {
        floods::run(report, &mut dice).await?;
    }
    Ok(())
}

/// Clients of new sandboxes: through the hub, or of the agents themselves.
async fn sandboxes(hub: &Hub, by_agent: bool) -> Result<Vec<Client>> {
    let client = hub.client();
    let mut through = Vec::new();
    for _ in 0..SANDBOXES {
        let made = client.create_sandbox(&SandboxSpec::default()).await?;
        through.push(client.sandbox(&made.id));
    }
    if !by_agent {
        return Ok(through);
    }
    let mut agents = Vec::new();
    for found in std::fs::read_dir(hub.state_dir().join("sandboxes"))? {
        let socket = found?.path().join("agent.sock");
        agents.push(Client::new(&format!("unix:{}", socket.display()), None)?);
    }
    ensure!(agents.len() == SANDBOXES, "not all agents are there");
    Ok(agents)
}

async fn measure(
    options: &Options,
    report: &mut Report,
    kind: Kind,
    crew: &Arc<Crew>,
    dice: &mut Dice,
) -> Result<()> {
    let what = kind.what();
    let spread = options.spread;
    let three_seconds = Duration::from_secs(3);
    // Everything that is made once is made by this one.
    step::run(crew, spread, QUIET_RATE, three_seconds, dice).await?;
    let quiet = step::run(crew, spread, QUIET_RATE, three_seconds, dice).await?;
    ensure!(quiet.errors == 0, "{what}: {:?}", quiet.first_error);
    let quiet_p50 = quiet.latency(500);
    report.add(SECTION, &format!("{what}: quiet p50"), "ms", quiet_p50);

    let mut curve = vec![point(&quiet)];
    let rate = if let Some(rate) = options.rate {
        rate
    } else {
        let probe = async |rate: f64| {
            let step = step::run(crew, spread, rate, three_seconds, dice).await?;
            let verdict = knee::too_much(&step, quiet_p50);
            tell(what, &step, verdict.map(knee::TooMuch::why));
            curve.push(point(&step));
            Ok(verdict)
        };
        let (knee, why) = knee::find(probe).await?;
        ensure!(knee > 0.0, "{what}: no rate is served: {why:?}");
        report.add(SECTION, &format!("{what}: knee"), "/s", knee);
        knee * PART
    };

    let mut steps = Vec::new();
    for _ in 0..RUNS {
        let step = step::run(crew, spread, rate, options.length, dice).await?;
        tell(what, &step, step.first_error.as_deref());
        steps.push(step);
    }
    judge(report, kind, rate, &steps);
    curve.push(point(&Step::pooled(&steps)));
    curve.sort_by(|one, other| one[0].total_cmp(&other[0]));
    report.add_curve(SECTION, what, &COLUMNS, curve);
    Ok(())
}

/// Rows and bars of the runs at one rate.
fn judge(report: &mut Report, kind: Kind, rate: f64, steps: &[Step]) {
    let what = kind.what();
    let name = format!("{what}, at {rate:.0}/s");
    for step in steps {
        let run = Run {
            p50: step.latency(500),
            p99: step.latency(990),
        };
        report.add_run(SECTION, &name, run);
    }
    let all = Step::pooled(steps);
    for (share, thousandths) in [("p90", 900), ("p99", 990), ("p99.9", 999)] {
        let row = format!("{name}: {share} of all runs");
        report.add(SECTION, &row, "ms", all.latency(thousandths));
    }
    report.add(SECTION, &format!("{name}: answered"), "/s", all.achieved);
    let late = format!("{name}: generator late, p99");
    report.add(SECTION, &late, "ms", all.lag_p99());
    let share = format!("{name}: generator's thread ran");
    report.add(SECTION, &share, "%", 100.0 * all.generator_ran);
    let errors = all.errors as f64;
    report.at_most(&format!("load: {what}, errors"), errors, 0.0);
    if kind == Kind::Session {
        let ratios: Vec<f64> = steps
            .iter()
            .map(|step| step.latency(990) / step.latency(500))
            .collect();
        let bar = format!("load: {what}, p99 to p50, median of {RUNS} runs");
        report.at_most(&bar, median(&ratios), SPREAD_BAR);
    }
}

const COLUMNS: [&str; 9] = [
    "offered_per_second",
    "answered_per_second",
    "p50_ms",
    "p90_ms",
    "p99_ms",
    "p999_ms",
    "errors",
    "generator_late_p99_ms",
    "generator_ran",
];

fn point(step: &Step) -> Vec<f64> {
    vec![
        step.offered,
        step.achieved,
        step.latency(500),
        step.latency(900),
        step.latency(990),
        step.latency(999),
        step.errors as f64,
        step.lag_p99(),
        step.generator_ran,
    ]
}

fn tell(what: &str, step: &Step, remark: Option<&str>) {
    progress(&format!(
        "{SECTION}: {what}: {:.0}/s offered, {:.0}/s answered, p50 {:.3} p99 {:.3} ms, {} errors; generator \
         late {:.3} ms (p99), ran {:.0} %, waited {:.0} %{}{}",
        step.asked,
        step.achieved,
        step.latency(500),
        step.latency(990),
        step.errors,
        step.lag_p99(),
        100.0 * step.generator_ran,
        100.0 * step.generator_waited,
        remark.map_or("", |_| ": "),
        remark.unwrap_or(""),
    ));
}
