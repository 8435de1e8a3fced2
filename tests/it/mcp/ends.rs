//! How a server on standard input and output begins and ends, and what it leaves: nothing.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use sandshell_testkit::{children_deep, find_binary, wait_for_exit_of};
use serde_json::json;
use tempfile::TempDir;

use super::Spoken;

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
        assert!(
            wait_for_exit_of(*pid, Duration::from_secs(20)),
            "{pid} is alive"
        );
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

fn alone(url: &str, token: &str) -> (Option<i32>, String) {
    let dir = TempDir::new().unwrap();
    let output = Command::new(find_binary())
        .arg("mcp")
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
