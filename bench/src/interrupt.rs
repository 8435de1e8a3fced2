//! Interrupts: from the request to its answer, which says that the command is over.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use sandshell_client::{Client, EventStream, OutputStreamEvent};
use sandshell_types::{SessionId, SessionRequest};

use crate::measure::Run;
use crate::report::Report;
use crate::sessions::{command, exec};

const SECTION: &str = "interrupt";

/// Lets a command get from its first line to what is to be interrupted.
const SETTLE: Duration = Duration::from_millis(4);

const COMMANDS: [(&str, &str); 5] = [
    ("sleep", "sleep 100"),
    ("busy loop", "while :; do :; done"),
    ("pipeline", "sleep 100 | cat | cat"),
    ("substitution", "x=$(sleep 100)"),
    (
        "nested functions",
        "f() { g; echo no; }; g() { h; echo no; }; h() { while :; do sleep 100; done; }; f; echo no",
    ),
];

/// All commands in one session, which must keep its state through all of it.
pub(crate) async fn run(report: &mut Report, client: &Client, count: usize) -> Result<()> {
    let id = client.create_session(&SessionRequest::default()).await?.id;
    let mut turn = 0;
    let mut all = Vec::new();
    for (name, text) in COMMANDS {
        let mut samples = Vec::with_capacity(count);
        for _ in 0..count {
            turn += 1;
            let took = once(client, &id, text, turn);
            samples.push(
                took.await
                    .with_context(|| format!("interrupt {turn}, {name}"))?,
            );
        }
        report.add_run(SECTION, name, Run::of(&samples));
        all.extend(samples);
    }
    client.delete_session(&id).await?;
    report.add_run(SECTION, "all", Run::of(&all));
    for (name, _) in COMMANDS {
        let p50 = report.median(SECTION, name);
        report.at_most(&format!("interrupt of {name}, p50 in ms"), p50, 1.0);
    }
    Ok(())
}

async fn once(client: &Client, id: &SessionId, text: &str, turn: usize) -> Result<Duration> {
    let text = format!("n=$((n + 1)); echo started; {text}");
    let mut events = client.session_exec_stream(id, &command(&text)).await?;
    until_output(&mut events).await?;
    tokio::time::sleep(SETTLE).await;
    let start = Instant::now();
    let reply = client.interrupt_session(id).await?;
    let took = start.elapsed();
    ensure!(reply.command_id.is_some(), "there was nothing to interrupt");
    ensure!(reply.method == "int", "it took {}", reply.method);
    while let Some(event) = events.next().await {
        match event?.event {
            OutputStreamEvent::Exit(exit) => {
                ensure!(exit.exit_code == Some(130), "status {:?}", exit.exit_code);
            }
            other => bail!("after the interrupt came {other:?}"),
        }
    }
    let said = exec(client, id, "echo ok $n").await?;
    ensure!(said == format!("ok {turn}\n"), "the state is {said:?}");
    Ok(took)
}

async fn until_output(events: &mut EventStream) -> Result<()> {
    while let Some(event) = events.next().await {
        if matches!(event?.event, OutputStreamEvent::Output(_)) {
            return Ok(());
        }
    }
    bail!("the command ended before it had started")
}
