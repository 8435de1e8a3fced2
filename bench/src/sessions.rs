//! Sessions over HTTP: one command after the other, new ones, and many at once.

use std::time::Instant;

use anyhow::{Result, ensure};
use sandshell_client::Client;
use sandshell_testkit::Agent;
use sandshell_types::{SessionExecRequest, SessionId, SessionRequest};

use crate::floor;
use crate::measure::{Pace, Run, largest, milliseconds, repeat_async};
use crate::report::Report;

const SECTION: &str = "http";
const TRUE: &str = "session: true";
const BIN_TRUE: &str = "session: /bin/true";
const CREATE: &str = "session: create + first exec, 20/s";
const CREATE_ONLY: &str = "session: create, 20/s";
const CREATES_PER_SECOND: u32 = 20;

const MANY: &str = "many";
const SESSIONS: usize = 100;
const EXECS: usize = 20;
const ROUNDS: usize = 10;

pub(crate) fn command(text: &str) -> SessionExecRequest {
    SessionExecRequest {
        command: text.to_owned(),
        ..Default::default()
    }
}

/// Runs a command that must end with status 0; gives its standard output.
pub(crate) async fn exec(client: &Client, id: &SessionId, text: &str) -> Result<String> {
    let result = client.session_exec(id, &command(text)).await?;
    let code = result.exit_code;
    ensure!(code == 0, "{text:?} ended with {code}: {}", result.stderr);
    Ok(result.stdout)
}

/// One run of the rows of one session.
pub(crate) async fn run(report: &mut Report, client: &Client, count: usize) -> Result<()> {
    let id = client.create_session(&SessionRequest::default()).await?.id;
    for (name, text, count) in [(TRUE, "true", count * 4), (BIN_TRUE, "/bin/true", count)] {
        let run = repeat_async(count, async || exec(client, &id, text).await.map(drop));
        report.add_run(SECTION, name, run.await?);
    }
    client.delete_session(&id).await?;
    create(report, client, (count / 4).max(10)).await
}

async fn create(report: &mut Report, client: &Client, count: usize) -> Result<()> {
    let mut pace = Pace::per_second(CREATES_PER_SECOND);
    let mut created = Vec::with_capacity(count);
    let mut executed = Vec::with_capacity(count);
    for _ in 0..count {
        let start = pace.tick().await;
        let id = client.create_session(&SessionRequest::default()).await?.id;
        created.push(start.elapsed());
        exec(client, &id, "true").await?;
        executed.push(start.elapsed());
        client.delete_session(&id).await?;
    }
    report.add_run(SECTION, CREATE_ONLY, Run::of(&created));
    report.add_run(SECTION, CREATE, Run::of(&executed));
    Ok(())
}

pub(crate) fn judge(report: &mut Report) {
    let p50 = report.median(SECTION, TRUE);
    let ratio = report.compare(SECTION, TRUE, floor::BASH);
    report.compare(SECTION, BIN_TRUE, floor::TRUE);
    report.compare(SECTION, CREATE, floor::BASH);
    report.at_most("session true, p50 in ms", p50, 0.25);
    report.at_most("session true, p50 to bash -c true", ratio, 0.35);
    let spread = report.p99(SECTION, TRUE) / p50;
    report.at_most("session true, p99 to p50", spread, 3.0);
    let create = report.median(SECTION, CREATE);
    report.at_most("session create + first exec, p50 in ms", create, 0.5);
}

/// A hundred sessions with twenty commands each, all at once, several times in a row.
pub(crate) async fn many(report: &mut Report, agent: &Agent) -> Result<()> {
    for _ in 0..ROUNDS {
        // A client each: a hundred users share no connections.
        let clients: Vec<Client> = (0..SESSIONS).map(|_| agent.client()).collect();
        let start = Instant::now();
        let mut ids = Vec::with_capacity(SESSIONS);
        for client in &clients {
            ids.push(client.create_session(&SessionRequest::default()).await?.id);
        }
        let created = start.elapsed();
        let start = Instant::now();
        let users: Vec<_> = clients
            .iter()
            .zip(&ids)
            .map(|(client, id)| tokio::spawn(user(client.clone(), id.clone())))
            .collect();
        for user in users {
            user.await??;
        }
        let executed = start.elapsed();
        for (client, id) in clients.iter().zip(&ids) {
            client.delete_session(id).await?;
        }
        let name = "create 100 sessions, one by one";
        report.add(MANY, name, "ms", milliseconds(created));
        report.add(
            MANY,
            "100 sessions × 20 execs",
            "ms",
            milliseconds(executed),
        );
    }
    let worst = largest(report.runs(MANY, "100 sessions × 20 execs"));
    report.at_most(
        "100 sessions × 20 execs, slowest of ten in ms",
        worst,
        1000.0,
    );
    Ok(())
}

/// Any failure or wrong answer is an error of the whole benchmark.
async fn user(client: Client, id: SessionId) -> Result<()> {
    for turn in 1..=EXECS {
        let said = exec(&client, &id, "n=$((n + 1)); echo $n").await?;
        ensure!(said == format!("{turn}\n"), "turn {turn} said {said:?}");
    }
    Ok(())
}
