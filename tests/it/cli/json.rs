//! `--json` is the API's own type, unchanged, on every command that reads.

use std::fmt::Debug;

use sandshell_client::types::{
    AuditEntry, BackupRecord, ContextRecord, EnvReply, ExecResult, FileEntry, GitBranchesReply,
    GitCommit, GitStatusReply, ImageRecord, KillReply, List, PortRecord, Problem, ProcessRecord,
    SandboxEvent, SandboxRecord, SandboxStats, SearchReply, SessionExecResult, SessionRecord,
    TerminalRecord, TerminalScreen, TokenCreated, TokenRecord, VersionInfo, WaitReply,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::User;

/// Reads what was printed as this type, and finds nothing in it that the type does not have.
fn read<T: DeserializeOwned + Serialize + Debug>(user: &User, words: &[&str]) -> T {
    let line = [words, &["--json"]].concat();
    let split = line.iter().position(|word| *word == "--");
    let line = match split {
        // What follows `--` is not ours.
        Some(at) => [&words[..at], &["--json"], &words[at..]].concat(),
        None => line,
    };
    let printed = user.ok(&line);
    assert_eq!(printed.lines().count(), 1, "{line:?}: {printed}");
    let value: Value = serde_json::from_str(&printed).unwrap();
    let typed: T = serde_json::from_str(&printed)
        .unwrap_or_else(|error| panic!("{line:?}: {error}: {printed}"));
    assert_eq!(serde_json::to_value(&typed).unwrap(), value, "{line:?}");
    typed
}

#[test]
fn every_reading_command_prints_the_type_of_the_api() {
    let user = User::new();
    let made: SandboxRecord = read(&user, &["create", "box", "--isolation", "best-effort"]);
    assert_eq!(made.id.as_str(), "box");
    let list: List<SandboxRecord> = read(&user, &["ls"]);
    assert_eq!(list.items.len(), 1);
    let one: SandboxRecord = read(&user, &["get", "box"]);
    assert_eq!(one.id, made.id);

    let result: ExecResult = read(&user, &["exec", "--", "echo", "--json"]);
    assert_eq!(result.stdout, "--json\n");
    let process: ProcessRecord = read(
        &user,
        &["exec", "-d", "--name", "nap", "--", "sleep", "600"],
    );
    assert_eq!(process.id.as_str(), "nap");
    let list: List<ProcessRecord> = read(&user, &["ps"]);
    assert_eq!(list.items.len(), 1);
    let _: List<PortRecord> = read(&user, &["port", "ls"]);
    let killed: KillReply = read(&user, &["kill", "box/nap", "--grace", "1s"]);
    assert_eq!(killed.survivors, []);
    let waited: WaitReply = {
        let printed = user.run(&["wait", "nap", "--json"]);
        assert_eq!(printed.code, Some(143), "{printed:?}");
        serde_json::from_str(&printed.out).unwrap()
    };
    assert_eq!(waited.process.signal.as_deref(), Some("SIGTERM"));

    let session: SessionRecord = read(&user, &["session", "create", "--name", "work"]);
    assert_eq!(session.id.as_str(), "work");
    let result: SessionExecResult = read(
        &user,
        &["session", "exec", "work", "-c", "cd /tmp; echo hi"],
    );
    assert_eq!(
        (result.stdout.as_str(), result.cwd.as_str()),
        ("hi\n", "/tmp")
    );
    let _: List<SessionRecord> = read(&user, &["session", "ls"]);
    let _: SessionRecord = read(&user, &["session", "get", "work"]);

    let _: TerminalRecord = read(&user, &["terminal", "create", "--name", "t", "--", "cat"]);
    let _: List<TerminalRecord> = read(&user, &["terminal", "ls"]);
    let _: TerminalScreen = read(&user, &["terminal", "screen", "t"]);

    let _: FileEntry = read(&user, &["file", "mkdir", "box:repo"]);
    let _: List<FileEntry> = read(&user, &["file", "ls", "box:/"]);
    let _: FileEntry = read(&user, &["file", "stat", "box:/etc"]);
    let _: SearchReply = read(&user, &["file", "search", "x", "box:/workspace"]);

    let _: TokenCreated = read(&user, &["token", "create", "--scope", "sandbox:box"]);
    let list: List<TokenRecord> = read(&user, &["token", "ls"]);
    assert_eq!(list.items.len(), 2);
    let _: BackupRecord = read(
        &user,
        &["backup", "create", "box:/workspace", "--name", "b"],
    );
    let _: List<BackupRecord> = read(&user, &["backup", "ls"]);
    let _: SandboxStats = read(&user, &["stats", "box"]);
    let _: List<ContextRecord> = read(&user, &["context", "ls"]);
    let _: VersionInfo = read(&user, &["version"]);

    let changed: SandboxRecord = read(&user, &["update", "box", "--label", "a=b", "--pids", "200"]);
    assert_eq!(changed.spec.labels["a"], "b");
    assert_eq!(changed.spec.limits.unwrap().pids, Some(200));
    let _: SandboxRecord = read(&user, &["keepalive", "box"]);
    let env: EnvReply = read(&user, &["env", "--set", "A=1"]);
    assert_eq!(env.env["A"].as_deref(), Some("1"));
    let log: List<AuditEntry> = read(&user, &["audit", "--target", "box"]);
    assert_eq!(log.items.last().unwrap().action, "sandbox.create");
    std::fs::create_dir(user.home().join("root")).unwrap();
    let image: ImageRecord = read(&user, &["image", "import", "root"]);
    let list: List<ImageRecord> = read(&user, &["image", "ls"]);
    assert_eq!(list.items, std::slice::from_ref(&image));
    let shown: ImageRecord = read(&user, &["image", "show", "root"]);
    assert_eq!(shown, image);
    let _: ImageRecord = read(&user, &["image", "rm", "root"]);

    let script = "cd repo && git init -q -b main && git -c user.name=A -c user.email=a@b commit -q --allow-empty -m one";
    user.ok(&["exec", "-c", script]);
    let status: GitStatusReply = read(&user, &["git", "status", "-C", "box:repo"]);
    assert!(status.clean);
    let log: List<GitCommit> = read(&user, &["git", "log", "-C", "repo"]);
    assert_eq!(log.items[0].subject, "one");
    let branches: GitBranchesReply = read(&user, &["git", "branches", "-C", "repo"]);
    assert_eq!(branches.current.as_deref(), Some("main"));
    let _: SandboxRecord = read(&user, &["rm", "box"]);
}

#[test]
fn a_stream_is_one_object_a_line() {
    let user = User::with_box();
    user.ok(&[
        "exec",
        "-d",
        "--name",
        "p",
        "-c",
        "echo out; echo err >&2; exit 3",
    ]);
    user.run(&["wait", "p"]);
    let printed = user.ok(&["logs", "p", "--json"]);
    let lines: Vec<Value> = printed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 3, "{printed}");
    let streams: Vec<&str> = lines
        .iter()
        .filter_map(|line| line["stream"].as_str())
        .collect();
    assert_eq!(streams.len(), 2, "{printed}");
    assert!(streams.contains(&"stderr"));
    assert_eq!(lines[2]["exit_code"], 3);

    let events = user
        .command(&["events", "--from", "0", "--json"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut events = events;
    let mut reader = std::io::BufReader::new(events.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut reader, &mut line).unwrap();
    let event: SandboxEvent = serde_json::from_str(&line).unwrap();
    assert_eq!(event.what.kind(), "ready");
    events.kill().unwrap();
    events.wait().unwrap();
}

#[test]
fn an_error_is_the_problem_itself() {
    let user = User::with_box();
    let refused = user.run(&["exec", "box", "--json", "--", "no-such-program"]);
    assert_eq!(refused.code, Some(127));
    assert_eq!(refused.out, "");
    let problem: Problem = serde_json::from_str(&refused.err).unwrap();
    assert_eq!(problem.code.as_str(), "program_not_found");
    let local: Value = serde_json::from_str(&user.run(&["get", "bx", "--json"]).err).unwrap();
    assert_eq!(local["detail"], "there is no sandbox \"bx\"");
    assert_eq!(local["code"], "sandbox_not_found");
    assert_eq!(local["status"], 404);
    assert!(local["hint"].as_str().unwrap().contains("box"));
    let usage: Value = serde_json::from_str(&user.run(&["ls", "--json", "--nope"]).err).unwrap();
    assert!(
        usage["detail"].as_str().unwrap().contains("--nope"),
        "{usage}"
    );
    for (words, code) in [
        (&["logs", "box/nope"][..], "process_not_found"),
        (&["session", "get", "box/nope"], "session_not_found"),
        (&["image", "show", "nope"], "image_not_found"),
        (&["exec", "box"], "invalid_request"),
    ] {
        let told = user.run(&[words, &["--json"]].concat());
        let problem: Problem = serde_json::from_str(&told.err).unwrap();
        assert_eq!(problem.code.as_str(), code, "{words:?}");
        assert_eq!(problem.status, problem.code.status(), "{words:?}");
    }
}
