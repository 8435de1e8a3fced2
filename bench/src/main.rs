//! The benchmark: the floor and us in one run.
//!
//! `sandshell-bench --help` tells how it is called. The agent is the `sandshell`
//! next to this program, or `$SANDSHELL_BIN`. Latencies are taken in five runs, each a run of the
//! floor followed by one of ours, so that both see the same machine.
//!
//! Everything but the in-process section runs on one thread, and that section comes last: the
//! floor is measured from a process as small as can be.
#![allow(
    clippy::cast_precision_loss,
    reason = "figures are far below 2^52, and are rounded for people anyway"
)]

mod backup;
mod cloudflare;
mod command_line;
mod contexts;
mod dice;
mod exec;
mod files;
mod floor;
mod growth;
mod hub;
mod inside;
mod interrupt;
mod kill;
mod load;
mod machine;
mod measure;
mod memory;
mod neighbour;
mod output;
mod peer;
mod plot;
mod proxy;
mod publish;
mod report;
mod sandboxes;
mod sessions;
mod soak;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use sandshell_isolate::LaunchOptions;
use sandshell_isolate::launch::{launch, parse_init_arguments};
use sandshell_testkit::{Agent, Hub};

use crate::measure::RUNS;
use crate::peer::Peer;
use crate::report::Report;

const SECTIONS: &[&str] = &[
    "floor",
    "http",
    "many",
    "output",
    "interrupt",
    "kill",
    "memory",
    "proxy",
    "hub",
    "sandboxes",
    "neighbour",
    "cli",
    "cloudflare",
    "contexts",
    "files",
    "backup",
    "growth-sessions",
    "growth-sandboxes",
    "growth-output",
    "growth-files",
    "layers",
    "in-process",
    "compare",
];

const HELP: &str = "\
Usage: sandshell-bench [--quick] [--no-bars] [--json FILE] [--peer NAME=KIND:URL]… [SECTION…]
       sandshell-bench publish FILE.json…

Measures the floor and us in one run, and fails when a bar is missed.

  --quick      a tenth of the rounds
  --no-bars    show the bars, but do not fail by them
  --json FILE  write the figures there, too
  --peer NAME=openapi:http://…   another agent of this API, or a sandbox of a hub, in `compare`
  --peer NAME=e2b:http://…       a service that speaks E2B's API; the token of either is $PEER_NAME_TOKEN

A section may be named by its first part: `growth` is all that begin so. `publish` writes tables and pictures of
figures into docs/benchmarks.md.

SANDSHELL_BIN names the binary to measure [default: the one beside this program].
";

fn main() -> Result<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    match words.next() {
        Some(word) if word == "init" => return init(words),
        Some(word) if word == "load" => return load::main(words),
        Some(word) if word == "soak" => return soak::main(words),
        Some(word) if word == "publish" => return publish::main(words),
        Some(word) if word == "--help" || word == "-h" => {
            let help = format!("{HELP}\nSections: {}\n", SECTIONS.join(", "));
            std::io::stdout().write_all(help.as_bytes())?;
            return Ok(ExitCode::SUCCESS);
        }
        _ => {}
    }
    let options = Options::parse(std::env::args().skip(1))?;
    let report = measure(&options)?;
    report.print(options.bars)?;
    if let Some(path) = &options.json {
        report.write_json(path)?;
    }
    let failed = report.has_errors() || (options.bars && !report.all_bars_met());
    Ok(ExitCode::from(u8::from(failed)))
}

/// The in-process section starts its spawner from this program, as the agent does from its own.
fn init(words: impl Iterator<Item = OsString>) -> Result<ExitCode> {
    let words: Vec<OsString> = words.collect();
    if words.first().is_some_and(|word| word == "--probe") {
        return Ok(ExitCode::SUCCESS);
    }
    let options = parse_init_arguments(words.into_iter()).context("not started by hand")?;
    let socket = sandshell_sys::packet::inherited(sandshell_isolate::init::SOCKET_FD)
        .context("not started by hand")?;
    sandshell_isolate::init::run(&socket, &options)?;
    Ok(ExitCode::SUCCESS)
}

#[derive(Debug)]
struct Options {
    quick: bool,
    bars: bool,
    json: Option<PathBuf>,
    peers: Vec<Peer>,
    sections: Vec<String>,
}

impl Options {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self> {
        let mut options = Self {
            quick: false,
            bars: true,
            json: None,
            peers: Vec::new(),
            sections: Vec::new(),
        };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--quick" => options.quick = true,
                "--no-bars" => options.bars = false,
                "--json" => options.json = Some(words.next().context("--json FILE")?.into()),
                "--peer" => {
                    let named = words.next().context("--peer NAME=KIND:URL")?;
                    options.peers.push(Peer::parse(&named)?);
                }
                name if SECTIONS.iter().any(|section| is_in(section, name)) => {
                    options.sections.push(word);
                }
                _ => bail!("{word:?} is neither a flag nor one of {SECTIONS:?}"),
            }
        }
        Ok(options)
    }

    fn wants(&self, section: &str) -> bool {
        self.sections.is_empty() || self.sections.iter().any(|name| is_in(section, name))
    }

    /// `full`, or a tenth of it for a quick look.
    fn count(&self, full: usize) -> usize {
        if self.quick { full.div_ceil(10) } else { full }
    }
}

/// Whether a section is meant by a word: its name, or the first part of it, as `growth` of `growth-files`.
fn is_in(section: &str, word: &str) -> bool {
    let rest = section.strip_prefix(word);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

fn measure(options: &Options) -> Result<Report> {
    let mut report = Report::default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    latencies(options, &mut report, &runtime)?;
    runtime.block_on(sections(options, &mut report));
    drop(runtime);
    if options.wants("in-process") {
        let init = launch(LaunchOptions::default())?;
        let outcome = inside::run(&mut report, init, options.count(500));
        report.note("in-process", outcome);
    }
    if options.wants("compare") {
        let init = launch(LaunchOptions::default())?;
        let outcome = peer::run(&mut report, init, &options.peers, options.count(500));
        report.note("compare", outcome);
    }
    report.finish();
    Ok(report)
}

fn latencies(
    options: &Options,
    report: &mut Report,
    runtime: &tokio::runtime::Runtime,
) -> Result<()> {
    let http = options.wants("http");
    if !http && !options.wants("floor") && !options.wants("in-process") {
        return Ok(());
    }
    let agent = http.then(Agent::start);
    let client = agent.as_ref().map(Agent::client);
    for _ in 0..RUNS {
        floor::run(report, options.count(500))?;
        if let Some(client) = &client {
            runtime.block_on(async {
                sessions::run(report, client, options.count(500)).await?;
                exec::run(report, client, options.count(500)).await
            })?;
        }
    }
    if http {
        sessions::judge(report);
        exec::judge(report);
    }
    Ok(())
}

/// What is not compared with the floor. Each has an agent of its own, and one that fails leaves the others
/// their figures.
async fn sections(options: &Options, report: &mut Report) {
    if options.wants("many") {
        let outcome = sessions::many(report, &Agent::start()).await;
        report.note("many", outcome);
    }
    if options.wants("output") {
        let agent = Agent::builder()
            .args(["--log-bytes", output::LOG_BYTES])
            .start();
        let runs = if options.quick { 1 } else { 3 };
        let outcome = output::run(report, &agent, runs, options.quick).await;
        report.note("output", outcome);
    }
    if options.wants("interrupt") {
        let agent = Agent::start();
        let outcome = interrupt::run(report, &agent.client(), options.count(120)).await;
        report.note("interrupt", outcome);
    }
    if options.wants("kill") {
        let agent = Agent::start();
        let outcome = kill::run(report, &agent.client(), options.count(RUNS)).await;
        report.note("kill", outcome);
    }
    if options.wants("memory") {
        let outcome = memory::run(report, &Agent::start()).await;
        report.note("memory", outcome);
    }
    if options.wants("proxy") {
        let outcome = proxy::run(report, &Agent::start(), options.count(1000)).await;
        report.note("proxy", outcome);
    }
    if options.wants("hub") {
        let outcome = hub::run(report, options.count(300)).await;
        report.note("hub", outcome);
    }
    if options.wants("sandboxes") {
        let outcome = sandboxes::run(report, options.count(50)).await;
        report.note("sandboxes", outcome);
    }
    if options.wants("neighbour") {
        let outcome = neighbour::run(report, options.count(200)).await;
        report.note("neighbour", outcome);
    }
    if options.wants("cli") {
        let outcome = command_line::run(report, options.count(200)).await;
        report.note("cli", outcome);
    }
    if options.wants("cloudflare") {
        let outcome = cloudflare::run(report, options.count(500)).await;
        report.note("cloudflare", outcome);
    }
    if options.wants("contexts") {
        let agent = Agent::start();
        let outcome = contexts::run(report, &agent.client(), options.count(200)).await;
        report.note("contexts", outcome);
    }
    if options.wants("files") {
        let outcome = files::run(report, &Agent::start(), options.quick).await;
        report.note("files", outcome);
    }
    if options.wants("backup") {
        let outcome = backup::run(report, &Agent::start(), options.count(100_000)).await;
        report.note("backup", outcome);
    }
    growth(options, report).await;
}

async fn growth(options: &Options, report: &mut Report) {
    let quick = options.quick;
    if options.wants("growth-sessions") {
        let count = options.count(200);
        let outcome = growth::sessions::run(report, &Agent::start(), count, quick).await;
        report.note("growth-sessions", outcome);
    }
    if options.wants("growth-sandboxes") {
        let count = options.count(200);
        let outcome = growth::sandboxes::run(report, &Hub::start(), count, quick).await;
        report.note("growth-sandboxes", outcome);
    }
    if options.wants("growth-output") {
        let keeps = Agent::builder()
            .args(["--log-bytes", growth::output::LOG_BYTES])
            .start();
        let outcome = growth::output::run(report, [&keeps, &Agent::start()], quick).await;
        report.note("growth-output", outcome);
    }
    if options.wants("growth-files") {
        let outcome = growth::files::run(report, quick).await;
        report.note("growth-files", outcome);
    }
    if options.wants("layers") {
        let outcome = growth::layers::run(report, &Hub::start(), options.count(100)).await;
        report.note("layers", outcome);
    }
}
