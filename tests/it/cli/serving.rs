//! What `serve` says when it starts: lines to paste, wherever one stands.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use sandshell_testkit::{Hub, UnprivilegedUser};

use super::bare;
use crate::calls::skipped;

struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let pid = Pid::from_raw(i32::try_from(self.0.id()).unwrap()).unwrap();
        let _ = kill_process(pid, Signal::TERM);
        let _ = self.0.wait();
    }
}

/// What it says, up to the line for curl.
fn said(command: &mut Command) -> (Serving, String) {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut text = String::new();
    for line in lines.by_ref() {
        let line = line.unwrap();
        text.push_str(&line);
        text.push('\n');
        if line.trim_start().starts_with("curl") {
            break;
        }
    }
    (Serving(child), text)
}

#[test]
fn its_lines_work_as_pasted_in_another_directory() {
    let home = tempfile::tempdir().unwrap();
    let flags = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--state-dir",
        "s",
        "--token-file",
        "./it's a token",
        "--destroy-on-exit",
    ];
    let (serving, text) = said(&mut bare(home.path(), &flags));
    let (_, lines) = text.split_once("Try it:\n").unwrap();
    let lines = lines.replace("Or over HTTP:\n", "");
    let pasted = Command::new("sh")
        .args(["-e", "-c", &lines])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home.path())
        .current_dir("/")
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&pasted.stdout);
    assert!(pasted.status.success(), "{text}\n{pasted:?}");
    assert!(out.starts_with("first\nhello\n"), "{out}");
    assert!(out.contains("\"stdout\":\"hello\\n\""), "{out}");
    drop(serving);
}

#[test]
fn an_ordinary_users_hub_has_no_other_users_and_says_so() {
    let Some(nobody) = UnprivilegedUser::get() else {
        return skipped("only root can be an ordinary user as well");
    };
    let hub = Hub::of(nobody);
    let home = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| {
        let mut command = bare(home.path(), words);
        command
            .env("SANDSHELL_URL", hub.url())
            .env("SANDSHELL_TOKEN", hub.token());
        super::ended(&mut command)
    };
    let made = run(&["create", "mine", "--isolation", "best-effort"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let root = run(&["exec", "mine", "-u", "root", "--", "true"]);
    assert_eq!(root.code, Some(125), "{root:?}");
    assert!(
        root.err.contains("hint: Leave -u out; where the hub"),
        "{root:?}"
    );
    // What does not hold is called what it is.
    let shown = run(&["get", "mine"]).out;
    let record = run(&["get", "mine", "--json"]).out;
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    for one in record["protections"].as_array().unwrap() {
        let (name, status) = (
            one["name"].as_str().unwrap(),
            one["status"].as_str().unwrap(),
        );
        let named = format!("{name}:");
        let said = shown.lines().any(|line| {
            let mut words = line.split_whitespace();
            words.next() == Some(status) && words.next() == Some(named.as_str())
        });
        assert_eq!(said, status != "enforced", "{name} is {status}: {shown}");
    }
}

#[test]
fn an_ordinary_user_is_told_what_to_ask_for() {
    let Some(nobody) = UnprivilegedUser::get() else {
        return skipped("only root can be an ordinary user as well");
    };
    let hub = Hub::of(nobody);
    let log = hub.log();
    let home = tempfile::tempdir().unwrap();
    let mut create = bare(home.path(), &["create", "mine", "-l", "a=b c"]);
    create
        .env("SANDSHELL_URL", hub.url())
        .env("SANDSHELL_TOKEN", hub.token());
    let made = super::ended(&mut create);
    if made.code == Some(0) {
        assert!(!log.contains("--isolation best-effort"), "{log}");
        return skipped("an ordinary user has all protections here");
    }
    assert!(
        made.err
            .contains("hint: `sandshell create mine -l 'a=b c' --isolation best-effort`"),
        "{made:?}"
    );
    assert!(
        log.contains("warning: sandboxes here must ask for `--isolation best-effort`"),
        "{log}"
    );
    assert!(
        log.contains("create first --isolation best-effort\n"),
        "{log}"
    );
}
