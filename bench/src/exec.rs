//! Stateless exec over HTTP.

use anyhow::{Result, ensure};
use sandshell_client::Client;
use sandshell_types::ExecRequest;

use crate::floor;
use crate::measure::{Pace, Run, repeat_async};
use crate::report::Report;

const SECTION: &str = "http";
const PACED: &str = "exec: true, 100/s";
const PING: &str = "GET /version, 100/s";
const BACK_TO_BACK: &str = "exec: true, back to back";
const ARGV: &str = "exec: argv /bin/true, back to back";
const BASH: &str = "exec: argv bash -c true, back to back";
const REQUESTS_PER_SECOND: u32 = 100;

pub(crate) fn shell(text: &str) -> ExecRequest {
    ExecRequest {
        command: Some(text.to_owned()),
        ..Default::default()
    }
}

pub(crate) fn argv(words: &[&str]) -> ExecRequest {
    ExecRequest {
        argv: Some(words.iter().map(|word| (*word).to_owned()).collect()),
        ..Default::default()
    }
}

pub(crate) async fn once(client: &Client, request: &ExecRequest) -> Result<()> {
    let code = client.exec(request).await?.exit_code;
    ensure!(code == 0, "{request:?} ended with {code}");
    Ok(())
}

/// One run of every row.
pub(crate) async fn run(report: &mut Report, client: &Client, count: usize) -> Result<()> {
    let request = shell("true");
    let mut pace = Pace::per_second(REQUESTS_PER_SECOND);
    let mut samples = Vec::with_capacity(count);
    for _ in 0..count {
        let start = pace.tick().await;
        once(client, &request).await?;
        samples.push(start.elapsed());
    }
    report.add_run(SECTION, PACED, Run::of(&samples));
    samples.clear();
    for _ in 0..count / 2 {
        let start = pace.tick().await;
        client.version().await?;
        samples.push(start.elapsed());
    }
    report.add_run(SECTION, PING, Run::of(&samples));
    for (name, request) in [
        (BACK_TO_BACK, request),
        (ARGV, argv(&["/bin/true"])),
        (BASH, argv(&["bash", "-c", "true"])),
    ] {
        let run = repeat_async(count, async || once(client, &request).await);
        report.add_run(SECTION, name, run.await?);
    }
    Ok(())
}

pub(crate) fn judge(report: &mut Report) {
    let paced = report.compare(SECTION, PACED, floor::BASH);
    let back_to_back = report.compare(SECTION, BACK_TO_BACK, floor::BASH);
    let argv = report.compare(SECTION, ARGV, floor::TRUE);
    report.compare(SECTION, BASH, floor::BASH);
    report.at_most("exec true at 100/s, p50 to bash -c true", paced, 0.6);
    report.at_most(
        "exec true back to back, p50 to bash -c true",
        back_to_back,
        1.4,
    );
    report.at_most("exec argv /bin/true, p50 to vfork of it", argv, 1.5);
}
