//! The wall clock jumps by a day, back and forth: what takes its time takes no more and no less, nothing
//! is over before its time, and the order of things is kept. Times that are told follow the clock.

use std::path::{Path, PathBuf};
use std::process::Command;

use sandshell_client::types::{
    Happening, KillRequest, SandboxSpec, SandboxState, SessionRequest, StreamName, Timestamp,
    WaitOutcome, WaitRequest,
};
use sandshell_client::{OutputQuery, SandboxStreamEvent};
use sandshell_testkit::{Agent, Hub};

use super::{id_of, sandbox, spec_of};
use crate::calls::{Shell, exec, exec_of, in_time, process_of, start, wait_for_exit};

const HOUR_MS: u64 = 3_600_000;
const JUMPS: [&str; 4] = ["+1d", "-1d", "+400d", "+0"];

/// A wall clock that can be put forward and back; the monotonic one stays as it is.
struct Clock(PathBuf);

impl Clock {
    fn new(dir: &Path) -> Self {
        let clock = Self(dir.join("clock"));
        clock.jump("+0");
        clock
    }

    fn jump(&self, by: &str) {
        let next = self.0.with_extension("next");
        std::fs::write(&next, by).unwrap();
        std::fs::rename(next, &self.0).unwrap();
    }

    /// What makes a program go by it.
    fn variables(&self) -> Vec<(String, String)> {
        let shown = Command::new("faketime")
            .args(["-m", "-f", "+0", "printenv", "LD_PRELOAD"])
            .output()
            .expect("faketime of the tests' packages");
        let library = String::from_utf8(shown.stdout).unwrap().trim().to_owned();
        assert!(library.contains("faketime"), "{library:?}");
        [
            ("LD_PRELOAD", library.as_str()),
            ("FAKETIME_TIMESTAMP_FILE", self.0.to_str().unwrap()),
            ("FAKETIME_NO_CACHE", "1"),
            ("DONT_FAKE_MONOTONIC", "1"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
    }
}

fn days_of(jump: &str) -> i64 {
    jump.trim_end_matches('d').parse().unwrap()
}

/// Whether a time is about that of the clock that has jumped by so many days.
fn is_off_by(told: Timestamp, days: i64) -> bool {
    let off = told.as_second() - Timestamp::now().as_second();
    (off - days * 86_400).abs() < 600
}

#[tokio::test]
async fn an_agent_keeps_its_times_when_the_clock_jumps() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Clock::new(dir.path());
    let mut builder = Agent::builder();
    for (name, value) in clock.variables() {
        builder = builder.env(name, value);
    }
    let agent = builder.start();
    let client = agent.client();
    let shell = Shell::with(
        &agent,
        &SessionRequest {
            idle_timeout_ms: Some(HOUR_MS),
            max_lifetime_ms: Some(HOUR_MS),
            ..Default::default()
        },
    )
    .await;
    let mut events = in_time(client.sandbox_events(None, &[])).await.unwrap();
    let counting = start(
        &client,
        &process_of("i=0; while echo $((++i)); do read -t 0.01 <> <(:); done"),
    )
    .await;
    let query = OutputQuery::follow(StreamName::Stdout);
    let mut output = client.process_output(&counting, query).await.unwrap();
    let mut seen = Vec::new();
    for (n, jump) in JUMPS.into_iter().enumerate() {
        let mut timed = exec_of("sleep 1000");
        timed.timeout_ms = Some(300);
        let mut patient = exec_of("sleep 0.4; echo done");
        patient.timeout_ms = Some(600_000);
        let waiting = WaitRequest {
            timeout_ms: Some(300),
            ..Default::default()
        };
        let (timed, patient, waited, slept, ()) = in_time(Box::pin(async {
            tokio::join!(
                client.exec(&timed),
                client.exec(&patient),
                client.wait_process(&counting, &waiting),
                shell.run("sleep 0.3; echo $((++n))"),
                async {
                    seen.extend_from_slice(&output.next().await.unwrap().unwrap());
                    clock.jump(jump);
                }
            )
        }))
        .await;
        let (timed, patient) = (timed.unwrap(), patient.unwrap());
        assert!(timed.timed_out, "{jump}: {timed:?}");
        assert!((300..HOUR_MS).contains(&timed.duration_ms), "{timed:?}");
        assert_eq!((patient.exit_code, &*patient.stdout), (0, "done\n"));
        // Counted from when the agent heard of its start, so perhaps less than it slept.
        assert!(patient.duration_ms < HOUR_MS, "{patient:?}");
        assert_eq!(waited.unwrap().outcome, WaitOutcome::Timeout);
        assert_eq!(
            (slept.stdout, &*slept.session_state),
            (format!("{}\n", n + 1), "kept")
        );
        assert!(slept.duration_ms < HOUR_MS, "{} ms", slept.duration_ms);
        let short = start(&client, &process_of("true")).await;
        wait_for_exit(&client, &short).await;
        // The same shell, and it tells the time as the clock has it.
        let record = shell.record().await;
        assert_eq!(record.restores, 0);
        assert!(
            is_off_by(record.last_used_at.unwrap(), days_of(jump)),
            "{record:?}"
        );
    }
    in_time(client.kill_process(&counting, &KillRequest::default()))
        .await
        .unwrap();
    while let Some(piece) = in_time(output.next()).await {
        seen.extend_from_slice(&piece.unwrap());
    }
    let seen = String::from_utf8(seen).unwrap();
    for (line, n) in seen.lines().zip(1..) {
        assert_eq!(line, n.to_string());
    }
    // Numbers of events go up, whatever their times do.
    let mut last = 0;
    let mut ends = 0;
    while ends <= JUMPS.len() {
        let event = in_time(events.next()).await.unwrap().unwrap();
        let SandboxStreamEvent::Event(number, event) = event else {
            panic!("{event:?}")
        };
        assert!(number > last, "{event:?} after {last}");
        last = number;
        ends += usize::from(matches!(event.what, Happening::ProcessExited { .. }));
    }
}

#[tokio::test]
async fn a_hub_keeps_its_sandboxes_when_the_clock_jumps() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Clock::new(dir.path());
    let mut hub = Hub::with_env(clock.variables(), &[]);
    let client = hub.client();
    let spec = SandboxSpec {
        idle_timeout_ms: Some(HOUR_MS),
        ..spec_of("kept")
    };
    in_time(client.create_sandbox(&spec)).await.unwrap();
    let inside = client.sandbox(&id_of("kept"));
    let shell = Shell::of(&inside).await;
    shell.out("kept=yes").await;
    for jump in JUMPS {
        clock.jump(jump);
        let other = sandbox(&client, "other").await;
        assert_eq!(exec(&other, "echo well").await.stdout, "well\n");
        let record = in_time(client.get_sandbox(&id_of("other"))).await.unwrap();
        assert!(is_off_by(record.created_at, days_of(jump)), "{record:?}");
        in_time(client.destroy_sandbox(&id_of("other")))
            .await
            .unwrap();
        hub.kill_hard();
        hub.restart();
        let client = hub.client();
        let record = in_time(client.get_sandbox(&id_of("kept"))).await.unwrap();
        assert_eq!(record.state, SandboxState::Ready, "{jump}: {record:?}");
        let shell = Shell {
            client: client.sandbox(&id_of("kept")),
            id: shell.id.clone(),
        };
        assert_eq!(shell.out("echo $kept").await, "yes\n", "{jump}");
    }
}
