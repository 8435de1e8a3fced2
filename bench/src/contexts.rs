//! Code contexts with the built-in drivers: a run in one that is there, and the first result of a
//! fresh one. The interpreters held ready refill between two creates.

use std::time::Instant;

use anyhow::{Result, ensure};
use sandshell_client::Client;
use sandshell_types::{ContextId, ContextRequest, KernelChoice, Language, RunEvent, RunRequest};

use crate::measure::{Pace, RUNS, Run};
use crate::report::Report;

const SECTION: &str = "contexts";
const CREATES_PER_SECOND: u32 = 4;

const LANGUAGES: [(&str, Language); 3] = [
    ("python", Language::Python),
    ("javascript", Language::Javascript),
    ("bash", Language::Bash),
];

/// Adds the rows, and judges those of python.
pub(crate) async fn run(report: &mut Report, client: &Client, count: usize) -> Result<()> {
    for (name, language) in LANGUAGES {
        // The first one starts the pool.
        let id = create(client, language).await?;
        first_result(client, &id, language).await?;
        for _ in 0..RUNS {
            let mut there = Vec::with_capacity(count);
            for _ in 0..count {
                let start = Instant::now();
                first_result(client, &id, language).await?;
                there.push(start.elapsed());
            }
            report.add_run(
                SECTION,
                &format!("{name}: run to first result"),
                Run::of(&there),
            );
        }
        let mut fresh = Vec::new();
        let mut pace = Pace::per_second(CREATES_PER_SECOND);
        for _ in 0..(count / 10).max(5) {
            let start = pace.tick().await;
            let id = create(client, language).await?;
            first_result(client, &id, language).await?;
            fresh.push(start.elapsed());
            client.delete_context(&id).await?;
        }
        let row = format!("{name}: create + first result, {CREATES_PER_SECOND}/s");
        report.add_run(SECTION, &row, Run::of(&fresh));
        client.delete_context(&id).await?;
    }
    let there = report.median(SECTION, "python: run to first result");
    report.at_most(
        "python context, first result of a run, p50 in ms",
        there,
        5.0,
    );
    let row = format!("python: create + first result, {CREATES_PER_SECOND}/s");
    let fresh = report.median(SECTION, &row);
    report.at_most(
        "python context, create + first result, p50 in ms",
        fresh,
        5.0,
    );
    Ok(())
}

async fn create(client: &Client, language: Language) -> Result<ContextId> {
    let request = ContextRequest {
        id: None,
        language,
        cwd: None,
        env: std::collections::BTreeMap::new(),
        user: None,
        session: None,
        timeout_ms: None,
        idle_timeout_ms: None,
        kernel: KernelChoice::Builtin,
    };
    Ok(client.create_context(&request).await?.id)
}

/// From the request to the end of the run, which comes right after its result.
async fn first_result(client: &Client, id: &ContextId, language: Language) -> Result<()> {
    let code = match language {
        Language::Bash => "echo $((40 + 2))",
        _ => "40 + 2",
    };
    let request = RunRequest {
        code: code.to_owned(),
        ..RunRequest::default()
    };
    let mut events = client.run_code_stream(id, &request).await?;
    let mut found = false;
    while let Some(event) = events.next().await {
        match event? {
            RunEvent::Result(result) => found |= result.data["text/plain"] == "42",
            RunEvent::Stdout(piece) => found |= piece.data == "42\n",
            _ => {}
        }
    }
    ensure!(found, "the result did not come");
    Ok(())
}
