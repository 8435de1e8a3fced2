//! What a sandbox feels of the bombs in another.
//!
//! The attacker has limits, one processor among them; the neighbour has what everybody gets. The same
//! paced execs go to the neighbour while all is quiet and while a bomb goes off without end, in turn.

use anyhow::{Result, ensure};
use sandshell_client::Client;
use sandshell_testkit::Hub;
use sandshell_types::{
    KillRequest, LogCondition, ProcessRequest, SandboxLimits, SandboxSpec, WaitRequest,
};

use crate::exec::shell;
use crate::hub::exec;
use crate::measure::{Pace, RUNS, Run};
use crate::report::Report;

const SECTION: &str = "neighbour";
const QUIET: &str = "exec: true, quiet";
const REQUESTS_PER_SECOND: u32 = 100;
const MIB: u64 = 1024 * 1024;

/// What may become of an exec's p50, as a multiple of the quiet one, and of its p99, in milliseconds.
const RATIO: f64 = 3.0;
const P99: f64 = 25.0;

/// Name, with its article, and endless script of each bomb; none gets further than its limits.
const BOMBS: [(&str, &str); 6] = [
    (
        "a fork",
        "exec python3 -c '
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
'",
    ),
    (
        "a memory",
        "while :; do python3 -c 'x = bytearray(1 << 30)'; done",
    ),
    (
        "a disk",
        "while :; do head -c 64M /dev/zero > /tmp/big; rm /tmp/big; done",
    ),
    (
        "an inode",
        "while :; do mkdir /tmp/d; cd /tmp/d; for n in {1..4000}; do : > $n || break; done; cd /; rm -r /tmp/d; done",
    ),
    (
        "a descriptor",
        "exec python3 -c '
import os
while True:
    held = []
    try:
        while True:
            held.append(os.open(\"/dev/null\", 0))
    except OSError:
        for one in held:
            os.close(one)
'",
    ),
    ("an output", "exec yes"),
];

pub(crate) async fn run(report: &mut Report, count: usize) -> Result<()> {
    let hub = Hub::start();
    let client = hub.client();
    let made = client.create_sandbox(&SandboxSpec::default()).await?;
    let neighbour = client.sandbox(&made.id);
    let limited = SandboxSpec {
        limits: Some(SandboxLimits {
            memory_bytes: Some(256 * MIB),
            cpus: Some(1.0),
            pids: Some(64),
            disk_bytes: Some(16 * MIB),
            inodes: Some(2000),
            open_files: Some(256),
        }),
        ..SandboxSpec::default()
    };
    let made = client.create_sandbox(&limited).await?;
    let attacker = client.sandbox(&made.id);
    for _ in 0..RUNS {
        for (name, script) in BOMBS {
            report.add_run(SECTION, QUIET, paced(&neighbour, count).await?);
            let beside = beside(&attacker, script, paced(&neighbour, count)).await?;
            report.add_run(SECTION, &row(name), beside);
        }
    }
    let quiet = report.median(SECTION, QUIET);
    for (name, _) in BOMBS {
        let ratio = report.median(SECTION, &row(name)) / quiet;
        let p99 = report.p99(SECTION, &row(name));
        report.at_most(
            &format!("neighbour: beside {name} bomb, p50, ratio to quiet"),
            ratio,
            RATIO,
        );
        report.at_most(
            &format!("neighbour: beside {name} bomb, p99 in ms"),
            p99,
            P99,
        );
    }
    Ok(())
}

fn row(bomb: &str) -> String {
    format!("exec: true, beside {bomb} bomb")
}

async fn paced(way: &Client, count: usize) -> Result<Run> {
    let mut pace = Pace::per_second(REQUESTS_PER_SECOND);
    let mut samples = Vec::with_capacity(count);
    for _ in 0..count {
        let start = pace.tick().await;
        exec(way).await?;
        samples.push(start.elapsed());
    }
    Ok(Run::of(&samples))
}

/// Measures while a bomb goes off, and clears up after it.
async fn beside(
    attacker: &Client,
    script: &str,
    measured: impl Future<Output = Result<Run>>,
) -> Result<Run> {
    let bomb = attacker
        .create_process(&ProcessRequest {
            command: Some(format!("echo begun; {{ {script}\n}} 2> /dev/null")),
            ..ProcessRequest::default()
        })
        .await?;
    let begun = WaitRequest {
        log: Some(LogCondition {
            pattern: "begun".to_owned(),
            regex: false,
            stream: None,
        }),
        ..WaitRequest::default()
    };
    attacker.wait_process(&bomb.id, &begun).await?;
    let run = measured.await?;
    let record = attacker.process(&bomb.id).await?;
    ensure!(record.exit_code.is_none(), "the bomb ended: {record:?}");
    let now = KillRequest { grace_ms: Some(0) };
    attacker.kill_process(&bomb.id, &now).await?;
    attacker.exec(&shell("rm -rf /tmp/*")).await?;
    Ok(run)
}
