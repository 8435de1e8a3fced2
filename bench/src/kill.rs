//! Kills: a big tree of every awkward kind, and a fork bomb that is bounded by itself.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use sandshell_client::Client;
use sandshell_testkit::alive_with_marker;
use sandshell_types::{KillRequest, LogCondition, ProcessRequest, WaitOutcome, WaitRequest};

use crate::measure::{largest, milliseconds};
use crate::report::Report;

const SECTION: &str = "kill";
const MARKER: &str = "SANDSHELL_BENCH_MARKER";

/// A thousand processes: plain, with a session of their own, orphaned by a double fork, ignoring
/// TERM, and stopped.
const TREE: &str = "
for ((i = 0; i < 200; i++)); do
  sleep 1000 &
  setsid sleep 1000 &
  (setsid sleep 1000 &)
  (trap '' TERM; exec sleep 1000) &
  sleep 1000 & kill -STOP $!
done
sleep 0.2
echo ready
wait
";
const TREE_SIZE: usize = 1001;

/// Every process forks whenever there is a token for one more and ends after a few forks, so that
/// about 1,500 are alive and none of them for long. Over after a minute, whatever happens.
const BOMB: &str = r#"
use Fcntl; $SIG{CHLD} = "IGNORE"; $| = 1;
pipe(my $r, my $w); fcntl($r, F_SETFL, O_NONBLOCK); syswrite $w, "x" x 1500;
my ($end, $root, $forks, $said) = (time + 60, $$, 0, 0);
while (time < $end) {
  if (sysread $r, my $token, 1) {
    my $pid = fork;
    if (!defined $pid) { syswrite $w, "x" } elsif ($pid) { $forks++ } else { $forks = 0 }
  } else {
    print "ready\n" if $$ == $root && !$said++;
    select undef, undef, undef, 0.002;
  }
  last if $$ != $root && $forks >= 3;
}
syswrite $w, "x" if $$ != $root;
"#;
/// How many a look at /proc must find: far fewer than are alive, because most of them end and are
/// replaced while it looks.
const BOMB_SIZE: usize = 200;
/// How often it may look, should it have come at a bad moment.
const LOOKS: usize = 10;

pub(crate) async fn run(report: &mut Report, client: &Client, runs: usize) -> Result<()> {
    let tree = ["bash", "-c", TREE];
    let bomb = ["perl", "-e", BOMB];
    for run in 0..runs {
        for (name, grace, argv, at_least) in [
            ("1,000 processes, no grace", 0, &tree, TREE_SIZE),
            (
                "1,000 processes, beyond 200 ms of grace",
                200,
                &tree,
                TREE_SIZE,
            ),
            ("fork bomb", 0, &bomb, BOMB_SIZE),
        ] {
            let marker = format!("{}-{run}-{grace}-{at_least}", std::process::id());
            let took = once(client, argv, &marker, grace, at_least).await?;
            let beyond = milliseconds(took) - milliseconds(Duration::from_millis(grace));
            report.add(SECTION, name, "ms", beyond);
        }
    }
    for (name, limit) in [
        ("1,000 processes, no grace", 100.0),
        ("1,000 processes, beyond 200 ms of grace", 100.0),
        ("fork bomb", 1000.0),
    ] {
        let worst = largest(report.runs(SECTION, name));
        report.at_most(&format!("kill of {name}, slowest in ms"), worst, limit);
    }
    Ok(())
}

/// Starts a tree, kills it, and looks from outside whether anything of it is alive.
async fn once(
    client: &Client,
    argv: &[&str],
    marker: &str,
    grace_ms: u64,
    at_least: usize,
) -> Result<Duration> {
    let process = ProcessRequest {
        argv: Some(argv.iter().map(|word| (*word).to_owned()).collect()),
        env: [(MARKER.to_owned(), Some(marker.to_owned()))].into(),
        ..Default::default()
    };
    let id = client.create_process(&process).await?.id;
    let ready = WaitRequest {
        log: Some(LogCondition {
            pattern: "ready".to_owned(),
            ..Default::default()
        }),
        timeout_ms: Some(60_000),
        ..Default::default()
    };
    let waited = client.wait_process(&id, &ready).await?;
    ensure!(waited.outcome == WaitOutcome::Log, "no tree: {waited:?}");
    let mark = format!("{MARKER}={marker}");
    let before = (0..LOOKS)
        .map(|_| alive_with_marker(&mark).len())
        .find(|seen| *seen >= at_least);
    ensure!(before.is_some(), "fewer than {at_least} processes came up");
    let request = KillRequest {
        grace_ms: Some(grace_ms),
    };
    let start = Instant::now();
    let reply = client.kill_process(&id, &request).await?;
    let took = start.elapsed();
    let left = alive_with_marker(&mark);
    ensure!(
        reply.killed > 0 && reply.survivors.is_empty() && left.is_empty(),
        "{} killed {}, left {left:?}, says {:?}",
        reply.method,
        reply.killed,
        reply.survivors
    );
    client.delete_process(&id).await?;
    Ok(took)
}
