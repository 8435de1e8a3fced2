//! How a server on standard input and output begins and ends, and what it leaves: nothing.

use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sandshell_testkit::{UnprivilegedUser, children_deep, find_binary, wait_for_exit_of};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::Spoken;
use crate::calls::{DEADLINE, skipped};

/// All processes below one, the hub and the sandboxes among them; and what it has in its directory.
fn below(spoken: &Spoken) -> Vec<i32> {
    children_deep(i32::try_from(spoken.child.id()).unwrap())
}

fn files(spoken: &Spoken) -> Vec<PathBuf> {
    let dir = std::fs::read_dir(spoken.dir.path()).unwrap();
    dir.map(|entry| entry.unwrap().path()).collect()
}

fn all_gone(processes: &[i32]) {
    for pid in processes {
        assert!(wait_for_exit_of(*pid, DEADLINE), "{pid} is alive");
    }
}

/// One with a sandbox and a process in it.
fn busy() -> (Spoken, Vec<i32>) {
    let mut spoken = Spoken::start();
    let made = spoken.call("create_sandbox", &json!({"id": "one"}));
    assert_eq!(made["isError"], false, "{made}");
    let started = spoken.call(
        "start_process",
        &json!({"sandbox": "one", "command": "sleep 300"}),
    );
    assert_eq!(started["isError"], false, "{started}");
    let processes = below(&spoken);
    assert!(processes.len() > 4, "{processes:?}");
    assert_eq!(files(&spoken).len(), 1);
    (spoken, processes)
}

#[test]
fn ends_with_its_input_and_leaves_nothing() {
    let (mut spoken, processes) = busy();
    // A call is under way: it is cancelled.
    let long =
        json!({"name": "run_command", "arguments": {"sandbox": "one", "command": "sleep 300"}});
    spoken.begin("tools/call", &long);
    drop(spoken.input.take());
    assert!(spoken.child.wait().unwrap().success());
    all_gone(&processes);
    assert!(files(&spoken).is_empty(), "{:?}", files(&spoken));
}

#[test]
fn killed_it_leaves_nothing_either() {
    let (mut spoken, processes) = busy();
    spoken.child.kill().unwrap();
    spoken.child.wait().unwrap();
    all_gone(&processes);
    assert!(files(&spoken).is_empty(), "{:?}", files(&spoken));
}

/// How many of these calls are answered well when the input ends right behind them, the last of which takes a while;
/// all that was said, and how long it took from that end on.
fn piped_in(calls: usize) -> (usize, String, Duration) {
    let mut spoken = Spoken::start();
    for _ in 1..calls {
        let listed = json!({"name": "list_sandboxes", "arguments": {}});
        spoken.begin("tools/call", &listed);
    }
    let made = json!({"name": "create_sandbox", "arguments": {"id": "one"}});
    spoken.begin("tools/call", &made);
    let ended = Instant::now();
    drop(spoken.input.take());
    let mut answers = String::new();
    spoken.output.read_to_string(&mut answers).unwrap();
    let took = ended.elapsed();
    assert!(spoken.child.wait().unwrap().success());
    assert!(files(&spoken).is_empty(), "{:?}", files(&spoken));
    let well = |line: &&str| {
        let answer: Value = serde_json::from_str(line).unwrap();
        answer["result"]["isError"] == false
    };
    (answers.lines().filter(well).count(), answers, took)
}

/// Whoever pipes requests in gets all answers. They have a second for it, in which a machine may stand still: only where
/// it was over is it tried again.
#[test]
fn answers_what_was_piped_in_before_its_end() {
    const CALLS: usize = 20;
    for attempt in 1.. {
        let (answered, said, took) = piped_in(CALLS);
        if answered == CALLS {
            return;
        }
        assert!(
            took >= Duration::from_secs(1) && attempt < 10,
            "{answered} of {CALLS} in {took:?}, attempt {attempt}: {said}"
        );
    }
}

/// Where a protection cannot be had, whoever runs the server decides, and the agent is told.
#[test]
fn an_ordinary_user_chooses_to_do_without() {
    let Some(user) = UnprivilegedUser::get() else {
        skipped("only root can become an ordinary user for a test");
        return;
    };
    let refused = Spoken::with(Some(user), &[]).call("create_sandbox", &json!({}));
    assert_eq!(refused["isError"], true, "{refused}");
    let error = &refused["structuredContent"]["error"];
    assert_eq!(error["code"], "isolation_unavailable", "{error}");
    assert!(error["hint"].as_str().unwrap().contains("--best-effort"));
    let mut spoken = Spoken::with(Some(user), &["--best-effort"]);
    let made = spoken.call("create_sandbox", &json!({"id": "one"}));
    assert_eq!(made["isError"], false, "{made}");
    let weak = made["structuredContent"]["weak_protections"].to_string();
    assert!(weak.contains("memory-limit: off"), "{weak}");
    let text = made["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("weaker than usual"), "{text}");
    let ran = spoken.call(
        "run_command",
        &json!({"sandbox": "one", "command": "id -un"}),
    );
    assert_eq!(ran["structuredContent"]["exit_code"], 0, "{ran}");
    drop(spoken.input.take());
    assert!(spoken.child.wait().unwrap().success());
    assert!(files(&spoken).is_empty(), "{:?}", files(&spoken));
}

fn alone(url: &str, token: &str) -> (Option<i32>, String) {
    let dir = TempDir::new().unwrap();
    let output = Command::new(find_binary())
        .arg("mcp")
        .env("HOME", dir.path())
        .env_remove("XDG_CONFIG_HOME")
        .env("XDG_STATE_HOME", dir.path())
        .env("XDG_RUNTIME_DIR", dir.path())
        .env("SANDSHELL_URL", url)
        .env("SANDSHELL_TOKEN", token)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.stdout.is_empty());
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

#[test]
fn a_hub_that_was_named_must_answer() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = closed.local_addr().unwrap();
    drop(closed);
    let (code, said) = alone(&format!("http://{address}"), "sk_x");
    assert_eq!(code, Some(125), "{said}");
    assert!(
        said.contains("cannot connect") && said.contains("hint: start a hub"),
        "{said}"
    );
    let (code, said) = alone("nonsense", "sk_x");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("hint: set SANDSHELL_URL"), "{said}");
}

#[test]
fn a_wrong_token_is_told() {
    let hub = sandshell_testkit::Hub::start();
    let (code, said) = alone(hub.url(), "sk_wrong");
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("hint: set SANDSHELL_TOKEN"), "{said}");
    // With the right one it serves, and ends with its input.
    let (code, said) = alone(hub.url(), hub.token());
    assert_eq!(code, Some(0), "{said}");
}
