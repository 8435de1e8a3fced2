//! What a command costs whoever types it: from its start to its end, process start included.

use std::process::{Command, Stdio};

use anyhow::{Result, ensure};
use sandshell_testkit::{Hub, find_binary};
use sandshell_types::SandboxSpec;

use crate::measure::{RUNS, repeat};
use crate::report::Report;

const SECTION: &str = "cli";
/// What `version` and `exec` may take, and what `run`, in milliseconds.
const BAR: f64 = 10.0;
const RUN_BAR: f64 = 25.0;

const TRUE: &str = "/bin/true, for comparison";
const VERSION: &str = "sandshell version";
const LIST: &str = "sandshell ls";
const EXEC: &str = "sandshell exec SANDBOX -- true";
const RUN: &str = "sandshell run -- true";

pub(crate) async fn run(report: &mut Report, count: usize) -> Result<()> {
    let hub = Hub::start();
    let spec = SandboxSpec {
        id: Some("bench".parse()?),
        ..SandboxSpec::default()
    };
    hub.client().create_sandbox(&spec).await?;
    let ours = |words: &[&str]| {
        let mut command = Command::new(find_binary());
        command
            .args(words)
            .env("SANDSHELL_URL", hub.url())
            .env("SANDSHELL_TOKEN", hub.token());
        command
    };
    let rows = [
        (TRUE, Command::new("/bin/true")),
        (VERSION, ours(&["version"])),
        (LIST, ours(&["ls"])),
        (EXEC, ours(&["exec", "bench", "--", "true"])),
        (RUN, ours(&["run", "--", "true"])),
    ];
    let mut rows = rows.map(|(name, mut command)| {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        (name, command)
    });
    for _ in 0..RUNS {
        for (name, command) in &mut rows {
            let run = repeat(count, || {
                ensure!(command.status()?.success(), "it failed");
                Ok(())
            })?;
            report.add_run(SECTION, name, run);
        }
    }
    for (name, bar) in [(VERSION, BAR), (EXEC, BAR), (RUN, RUN_BAR)] {
        let median = report.median(SECTION, name);
        report.at_most(&format!("cli: {name}, p50 in ms"), median, bar);
    }
    Ok(())
}
