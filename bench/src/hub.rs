//! What the hub adds to a request.
//!
//! The same requests go to a sandbox's agent by its own socket and through the hub by the hub's, in turn:
//! one of each at a time, so that both see the same sandbox on the same machine.

use anyhow::{Context as _, Result, ensure};
use sandshell_client::Client;
use sandshell_testkit::Hub;
use sandshell_types::SandboxSpec;

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

pub(crate) async fn run(report: &mut Report, count: usize) -> Result<()> {
    let hub = Hub::on_socket();
    let client = hub.client();
    let made = client.create_sandbox(&SandboxSpec::default()).await?;
    let agent = agent_of_the_only_one(&hub)?;
    let ways = [agent, client.sandbox(&made.id)];
    let mut added = Vec::new();
    for _ in 0..RUNS {
        let [own, through] = in_turn(&ways, count, async |way| exec(way).await).await?;
        added.push(through.p50 - own.p50);
        report.add_run(SECTION, EXEC[0], own);
        report.add_run(SECTION, EXEC[1], through);
        let ping = async |way: &Client| {
            way.environment().await?;
            Ok(())
        };
        let [own, through] = in_turn(&ways, count, ping).await?;
        report.add_run(SECTION, PING[0], own);
        report.add_run(SECTION, PING[1], through);
    }
    report.at_most("hub: added to an exec, p50 in ms", median(&added), BAR);
    Ok(())
}

/// The agent of the one sandbox there is, by its own socket.
fn agent_of_the_only_one(hub: &Hub) -> Result<Client> {
    let mut sandboxes = std::fs::read_dir(hub.state_dir().join("sandboxes"))?;
    let found = sandboxes.next().context("no sandbox is there")??;
    let socket = found.path().join("agent.sock");
    Ok(Client::new(&format!("unix:{}", socket.display()), None)?)
}

pub(crate) async fn exec(way: &Client) -> Result<()> {
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
