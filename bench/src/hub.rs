//! What the hub adds to a request, and how long it takes to make a sandbox.
//!
//! The same requests go to an agent of its own and through a hub to a sandbox, both over TCP with a
//! token, in turn: one of each at a time, so that both see the same machine.

use std::time::Instant;

use anyhow::{Result, ensure};
use sandshell_client::Client;
use sandshell_testkit::{Agent, Hub};
use sandshell_types::{IsolationPolicy, IsolationSpec, SandboxSpec};

use crate::exec::shell;
use crate::measure::{Pace, RUNS, Run, median};
use crate::report::Report;

const SECTION: &str = "hub";
const REQUESTS_PER_SECOND: u32 = 200;
/// What the hub may add to an exec, in milliseconds.
const BAR: f64 = 0.1;

const EXEC: [&str; 2] = ["exec: true, the agent's own", "exec: true, through the hub"];
const PING: [&str; 2] = [
    "GET /v1/env, the agent's own",
    "GET /v1/env, through the hub",
];
const CREATE: &str = "create to first exec result";
const WARM: &str = "create to first exec result, from the warm pool";

pub(crate) async fn run(report: &mut Report, count: usize) -> Result<()> {
    let (agent, hub) = (Agent::start(), Hub::start());
    let client = hub.client();
    let made = client.create_sandbox(&spec()).await?;
    let ways = [agent.client(), client.sandbox(&made.id)];
    let mut added = Vec::new();
    for _ in 0..RUNS {
        let [own, through] = in_turn(&ways, count, async |way| exec(way).await).await?;
        added.push(through.p50 - own.p50);
        report.add_run(SECTION, EXEC[0], own);
        report.add_run(SECTION, EXEC[1], through);
        let ping = async |way: &Client| Ok(drop(way.environment().await?));
        let [own, through] = in_turn(&ways, count, ping).await?;
        report.add_run(SECTION, PING[0], own);
        report.add_run(SECTION, PING[1], through);
    }
    report.at_most("hub: added to an exec, p50 in ms", median(&added), BAR);
    let creates = count.div_ceil(10);
    for _ in 0..RUNS {
        let run = create(&client, creates, async || Ok(())).await?;
        report.add_run(SECTION, CREATE, run);
    }
    let warm = Hub::with(&["--warm", "1"]);
    let client = warm.client();
    for _ in 0..RUNS {
        let run = create(&client, creates, async || filled(&client).await).await?;
        report.add_run(SECTION, WARM, run);
    }
    Ok(())
}

fn spec() -> SandboxSpec {
    SandboxSpec {
        isolation: Some(IsolationSpec {
            policy: IsolationPolicy::BestEffort,
            require: Vec::new(),
        }),
        ..SandboxSpec::default()
    }
}

async fn exec(way: &Client) -> Result<()> {
    let code = way.exec(&shell("true")).await?.exit_code;
    ensure!(code == 0, "it ended with {code}");
    Ok(())
}

/// One request each way, again and again.
async fn in_turn(
    ways: &[Client; 2],
    count: usize,
    mut once: impl AsyncFnMut(&Client) -> Result<()>,
) -> Result<[Run; 2]> {
    let mut pace = Pace::per_second(REQUESTS_PER_SECOND);
    let mut samples = [Vec::new(), Vec::new()];
    for _ in 0..count {
        for (way, samples) in ways.iter().zip(&mut samples) {
            let start = pace.tick().await;
            once(way).await?;
            samples.push(start.elapsed());
        }
    }
    Ok(samples.map(|samples| Run::of(&samples)))
}

async fn create(
    client: &Client,
    count: usize,
    mut before: impl AsyncFnMut() -> Result<()>,
) -> Result<Run> {
    let mut samples = Vec::new();
    for _ in 0..count {
        before().await?;
        let start = Instant::now();
        let made = client.create_sandbox(&spec()).await?;
        exec(&client.sandbox(&made.id)).await?;
        samples.push(start.elapsed());
        client.destroy_sandbox(&made.id).await?;
    }
    Ok(Run::of(&samples))
}

/// Waits until a sandbox waits in the pool.
async fn filled(client: &Client) -> Result<()> {
    while !client
        .metrics()
        .await?
        .contains("sandshell_sandboxes_warm 1")
    {
        tokio::task::yield_now().await;
    }
    Ok(())
}
