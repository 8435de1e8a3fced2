//! What the hub adds to a request.
//!
//! The same requests go to a sandbox's agent by its own socket and through the hub by the hub's, in turn:
//! one of each at a time, so that both see the same sandbox on the same machine.
//!
//! The floor is what any process in between adds here, above all by being woken twice: bytes of the same number, over the
//! same kind of socket and at the same pace, passed on by a thread that looks at none of them.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use anyhow::{Context as _, Result, ensure};
use sandshell_client::Client;
use sandshell_testkit::Hub;
use sandshell_types::SandboxSpec;

use crate::exec::shell;
use crate::measure::{Pace, RUNS, Run, median};
use crate::report::Report;

const SECTION: &str = "hub";
const REQUESTS_PER_SECOND: u32 = 200;
/// About as many as an exec and its answer have.
const REQUEST_BYTES: usize = 256;
/// What the hub may add to an exec, in milliseconds.
const BAR: f64 = 0.1;

const EXEC: [&str; 2] = ["exec: true, the agent's own", "exec: true, through the hub"];
const RELAY: [&str; 2] = ["bytes to a thread and back", "bytes through a bare relay"];
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
    let relay = with_and_without_relay()?;
    for _ in 0..RUNS {
        let [direct, relayed] = in_turn(&relay, count, async |way| there_and_back(way)).await?;
        report.add_run(SECTION, RELAY[0], direct);
        report.add_run(SECTION, RELAY[1], relayed);
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

/// Two ways to threads that answer at once.
fn with_and_without_relay() -> Result<[UnixStream; 2]> {
    let (direct, end) = UnixStream::pair()?;
    std::thread::spawn(move || give_back(end));
    let (relayed, near) = UnixStream::pair()?;
    let (far, end) = UnixStream::pair()?;
    std::thread::spawn(move || give_back(end));
    std::thread::spawn(move || {
        // In turn, as requests and answers go.
        let mut bytes = [0; REQUEST_BYTES];
        while (&near).read_exact(&mut bytes).is_ok()
            && (&far).write_all(&bytes).is_ok()
            && (&far).read_exact(&mut bytes).is_ok()
            && (&near).write_all(&bytes).is_ok()
        {}
    });
    Ok([direct, relayed])
}

fn there_and_back(mut way: &UnixStream) -> Result<()> {
    let mut bytes = [1; REQUEST_BYTES];
    way.write_all(&bytes)?;
    Ok(way.read_exact(&mut bytes)?)
}

/// Gives bytes back until nobody sends any.
fn give_back(mut stream: UnixStream) {
    let mut bytes = [0; REQUEST_BYTES];
    while stream.read_exact(&mut bytes).is_ok() && stream.write_all(&bytes).is_ok() {}
}

/// One request each way, again and again.
async fn in_turn<W>(
    ways: &[W; 2],
    count: usize,
    mut once: impl AsyncFnMut(&W) -> Result<()>,
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
