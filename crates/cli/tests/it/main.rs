//! The built binary as a user or a container runtime meets it: its codes, its messages, its API.
//!
//! Requests are written by hand on a socket, one connection each, so that what is on the wire is
//! what is tested.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

fn sandshell() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sandshell"));
    command
        .env_remove("SANDSHELL_LISTEN")
        .env_remove("SANDSHELL_TOKEN_FILE")
        .stdin(Stdio::null());
    command
}

/// An agent on a socket of its own. It supervises a command that says when it is up.
struct Agent {
    process: Child,
    dir: tempfile::TempDir,
}

impl Agent {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut process = sandshell()
            .arg("agent")
            .arg("--listen")
            .arg(format!("unix:{}", dir.path().join("socket").display()))
            .arg("--state-dir")
            .arg(dir.path().join("state"))
            .args(["--", "sh", "-c", "echo up; exec sleep 100000"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "up\n");
        Self { process, dir }
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("socket")
    }

    fn send(&self, request: &str) -> UnixStream {
        let mut stream = UnixStream::connect(self.socket()).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(150)))
            .unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    /// Status, head and body of an answer.
    fn ask(&self, line: &str, headers: &str, body: &str) -> (u16, String, String) {
        let length = body.len();
        let request = format!(
            "{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
        );
        let mut answer = String::new();
        self.send(&request).read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head.to_lowercase(), body.to_owned())
    }

    fn json(&self, line: &str, headers: &str, body: &Value) -> (u16, Value) {
        let (status, _, body) = self.ask(line, headers, &body.to_string());
        (
            status,
            serde_json::from_str(&body).unwrap_or_else(|_| panic!("not JSON: {body}")),
        )
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn finish(arguments: &[&str], dir: &tempfile::TempDir) -> Output {
    sandshell()
        .arg("agent")
        .arg("--listen")
        .arg(format!("unix:{}", dir.path().join("socket").display()))
        .arg("--state-dir")
        .arg(dir.path().join("state"))
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn ends_with_the_code_of_its_command() {
    let dir = tempfile::tempdir().unwrap();
    let run = |script| finish(&["--", "sh", "-c", script], &dir);
    let output = run("echo out; printf err >&2; exit 7");
    assert_eq!(
        (output.status.code(), &output.stdout[..]),
        (Some(7), &b"out\n"[..])
    );
    assert!(output.stderr.ends_with(b"err"));
    assert_eq!(run("kill -9 $$").status.code(), Some(137));
    let missing = finish(&["--", "/no/such"], &dir);
    assert_eq!(missing.status.code(), Some(127));
    assert!(String::from_utf8_lossy(&missing.stderr).starts_with("error: cannot start"));
}

#[test]
fn refuses_to_be_exposed_without_a_token() {
    let output = sandshell()
        .args(["agent", "--listen", "0.0.0.0:0"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("\n\nhint: add --token-file"), "{text}");
    assert!(output.stdout.is_empty());
}

#[test]
fn two_agents_do_not_share_a_state_directory() {
    let agent = Agent::start();
    let output = sandshell()
        .args(["agent", "--listen", "127.0.0.1:0", "--state-dir"])
        .arg(agent.dir.path().join("state"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&output.stderr).contains("another agent"));
}

#[test]
fn runs_a_command_and_says_what_is_wrong_with_another() {
    let agent = Agent::start();
    let (status, result) = agent.json("POST /v1/exec", "", &json!({"command": "echo a; exit 3"}));
    assert_eq!(
        (status, &result["exit_code"], &result["stdout"]),
        (200, &json!(3), &json!("a\n"))
    );
    let (status, head, body) = agent.ask(
        "POST /v1/exec",
        "x-request-id: mine-1\r\n",
        r#"{"comand":"x"}"#,
    );
    let problem: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &problem["code"]), (400, &json!("invalid_request")));
    assert_eq!(
        (&problem["pointer"], &problem["request_id"]),
        (&json!("/comand"), &json!("mine-1"))
    );
    assert!(head.contains("x-request-id: mine-1") && head.contains("application/problem+json"));
    for (line, status, code) in [
        ("GET /v1/nothing", 404, "not_found"),
        ("PUT /v1/exec", 405, "method_not_allowed"),
        ("GET /v1/processes?limit=0", 400, "invalid_request"),
        ("GET /v1/processes/none", 404, "process_not_found"),
        ("GET /v1/sessions/none/commands", 404, "session_not_found"),
    ] {
        let (got, problem) = agent.json(line, "", &json!({}));
        assert_eq!((got, &problem["code"]), (status, &json!(code)), "{line}");
    }
}

#[test]
fn an_idempotency_key_runs_a_command_once() {
    let agent = Agent::start();
    let headers = "idempotency-key: k\r\n";
    let request = json!({"command": "echo $RANDOM$RANDOM$RANDOM; sleep 0.2"});
    let results: Vec<Value> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| agent.json("POST /v1/exec", headers, &request).1))
            .collect();
        asking.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(
        results.windows(2).all(|two| two[0] == two[1]),
        "{results:?}"
    );
    let (status, problem) = agent.json("POST /v1/exec", headers, &json!({"command": "true"}));
    assert_eq!(
        (status, &problem["code"]),
        (409, &json!("idempotency_conflict"))
    );
    // A refused request uses its key up for nothing.
    let (status, _) = agent.json("POST /v1/exec", "idempotency-key: l\r\n", &json!({}));
    assert_eq!(status, 400);
    let (status, _) = agent.json("POST /v1/exec", "idempotency-key: l\r\n", &request);
    assert_eq!(status, 200);
}

#[test]
fn kills_for_a_client_that_went_away_and_asked_for_it() {
    let agent = Agent::start();
    let body = json!({"id": "left", "command": "sleep 1000", "on_disconnect": "kill"}).to_string();
    let request = format!(
        "POST /v1/exec HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let connection = agent.send(&request);
    // The same id and spec joins the running one: when it answers, the kill has happened.
    let joined = std::thread::scope(|scope| {
        let joined = scope.spawn(|| {
            while agent.json("GET /v1/processes/left", "", &json!({})).0 != 200 {
                std::thread::yield_now();
            }
            drop(connection);
            agent
                .json(
                    "POST /v1/processes/left/wait",
                    "",
                    &json!({"timeout_ms": 120_000}),
                )
                .1
        });
        joined.join().unwrap()
    });
    assert_eq!(joined["outcome"], "exit", "{joined}");
    assert_eq!(joined["process"]["signal"], "SIGTERM");
}

#[test]
fn streams_events_to_the_exit_and_resumes() {
    let agent = Agent::start();
    let command = "printf 'a\\342'; echo e >&2; sleep 0.1; printf '\\202\\254b'; exit 4";
    agent.json(
        "POST /v1/processes",
        "",
        &json!({"id": "p", "command": command}),
    );
    let accept = "accept: text/event-stream\r\n";
    let (_, head, whole) = agent.ask("GET /v1/processes/p/output", accept, "");
    assert!(head.contains("text/event-stream"));
    assert!(whole.contains("€"), "{whole}");
    assert!(
        whole.contains("event: exit\ndata: {\"exit_code\":4"),
        "{whole}"
    );
    let end = whole.rsplit("id: ").next().unwrap().lines().next().unwrap();
    assert_eq!(end, "7");
    let (_, _, rest) = agent.ask(
        "GET /v1/processes/p/output",
        &format!("{accept}last-event-id: 7\r\n"),
        "",
    );
    assert!(
        rest.contains("event: exit") && !rest.contains("event: output"),
        "{rest}"
    );
    let (status, _, bytes) = agent.ask("GET /v1/processes/p/output?offset=1", "", "");
    assert_eq!(status, 200);
    assert!(bytes.contains("€b"), "{bytes}");
}

#[test]
fn prints_versions_and_the_document() {
    let output = sandshell().args(["version", "--json"]).output().unwrap();
    let version: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(version["api"], "v1");
    let output = sandshell().arg("openapi").output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(
        sandshell().arg("init").output().unwrap().status.code(),
        Some(2)
    );
    assert_eq!(
        sandshell()
            .args(["init", "--probe"])
            .output()
            .unwrap()
            .status
            .code(),
        Some(0)
    );
}
