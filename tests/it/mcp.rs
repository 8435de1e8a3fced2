//! The tools for AI agents: over standard input and output, and at `/mcp` of a hub.
//!
//! The official client of the protocol drives them (`tests/mcp/client.py`), in the protocol's newest
//! version and in the one before. What no client would do is sent here by hand.

mod documents;
mod ends;
mod over_http;

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use sandshell_testkit::{UnprivilegedUser, find_binary};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::calls::skipped;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The Python with the client; a test without it says so and does nothing.
fn python() -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let packages = root().join(target).join("venv/mcp");
    if packages.join("installed").exists() {
        return Some(packages.join("bin/python"));
    }
    skipped(&format!(
        "{} has no Python packages; scripts/test installs them",
        packages.display()
    ));
    None
}

/// Runs the client to its end.
fn drive(arguments: &[&str], token: Option<&str>, dir: &Path) -> Option<String> {
    let mut command = Command::new(python()?);
    command
        .arg(root().join("tests/mcp/client.py"))
        .args(arguments)
        .env("XDG_STATE_HOME", dir)
        .env("XDG_RUNTIME_DIR", dir)
        .env_remove("SANDSHELL_URL")
        .env_remove("SANDSHELL_TOKEN");
    if let Some(token) = token {
        command.env("SANDSHELL_TOKEN", token);
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    Some(said)
}

/// Everything an agent does, with a hub of the program's own, which leaves nothing.
fn over_stdio(mode: &str, version: &str) {
    let dir = TempDir::new().unwrap();
    let program = find_binary();
    let program = program.to_str().unwrap();
    let said = drive(&["stdio", program, mode, "everything"], None, dir.path());
    let Some(said) = said else { return };
    assert!(said.contains(&format!("speaks {version}")), "{said}");
    assert_eq!(said.matches("ok: ").count(), 9, "{said}");
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn an_agent_does_everything_over_stdio() {
    over_stdio("auto", "2026-07-28");
}

#[test]
fn an_older_agent_does_everything_over_stdio() {
    over_stdio("legacy", "2025-11-25");
}

/// A `sandshell mcp` that is spoken to by hand.
struct Spoken {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// Where its own hub is, if it has one.
    dir: TempDir,
    asked: u64,
}

impl Spoken {
    fn start() -> Self {
        Self::with(None, &[])
    }

    fn with(user: Option<UnprivilegedUser>, arguments: &[&str]) -> Self {
        let dir = TempDir::new().unwrap();
        let mut command = Command::new(find_binary());
        if let Some(user) = user {
            user.own(dir.path());
            command.uid(user.uid).gid(user.gid);
        }
        let mut child = command
            .arg("mcp")
            .args(arguments)
            .env("HOME", dir.path())
            .env_remove("XDG_CONFIG_HOME")
            .env("XDG_STATE_HOME", dir.path())
            .env("XDG_RUNTIME_DIR", dir.path())
            .env_remove("SANDSHELL_URL")
            .env_remove("SANDSHELL_TOKEN")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut spoken = Self {
            child,
            input,
            output,
            dir,
            asked: 0,
        };
        let hello = json!({
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        });
        let answer = spoken.ask("initialize", &hello);
        assert_eq!(answer["result"]["serverInfo"]["name"], "sandshell");
        spoken.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        spoken
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    /// Asks without waiting for the answer.
    fn begin(&mut self, method: &str, params: &Value) {
        self.asked += 1;
        let id = self.asked;
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.begin(method, params);
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(answer["id"], self.asked, "{answer}");
        answer
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let answer = self.ask("tools/call", &json!({"name": tool, "arguments": arguments}));
        answer["result"].clone()
    }
}
