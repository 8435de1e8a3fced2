//! The life of the agent process: start, end, and what is left.

mod access;
mod killed;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use sandshell_client::types::{ErrorCode, StreamName};
use sandshell_client::{Client, EventQuery, OutputQuery};
use sandshell_testkit::{
    Agent, alive_with_marker, children_deep, find_binary, wait_for_exit_of, wait_until_gone,
};

use crate::calls::{
    DEADLINE, Shell, code_of, exec, in_time, marker, process_of, start, wait_for_text,
};

/// Directories of cgroup v2 that carry the pid of an agent.
fn groups_of(pid: i32) -> Vec<PathBuf> {
    fn walk(dir: &Path, name: &str, depth: u32, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() && !path.is_symlink() {
                if entry.file_name().to_string_lossy() == name {
                    found.push(path.clone());
                }
                if depth > 0 {
                    walk(&path, name, depth - 1, found);
                }
            }
        }
    }
    let mut found = Vec::new();
    for root in ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"] {
        if Path::new(root).join("cgroup.procs").exists() {
            walk(Path::new(root), &format!("sandshell-{pid}"), 3, &mut found);
        }
    }
    found
}

/// The init of an agent: what it started under that word.
fn init_of(agent: i32) -> i32 {
    let is_init = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.starts_with(b"sandshell\0init\0")
    };
    let found: Vec<i32> = children_deep(agent).into_iter().filter(is_init).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found[0]
}

/// One of everything that can run, all with the marker.
async fn busy(agent: &Agent, marker: &str) -> (Client, Shell) {
    let client = agent.client();
    let mut request =
        process_of("setsid sleep 1000 & (trap '' TERM; sleep 1000) & echo up; sleep 1000");
    request.env = crate::calls::env(&[("MARKER", Some(marker))]);
    let id = start(&client, &request).await;
    wait_for_text(&client, &id, "up").await;
    let shell = Shell::new(agent).await;
    shell
        .out(&format!(
            "export MARKER={marker}; sleep 1000 & setsid sleep 1000 &"
        ))
        .await;
    exec(
        &client,
        &format!("export MARKER={marker}; sleep 1000 & echo x"),
    )
    .await;
    (client, shell)
}

#[tokio::test]
async fn a_graceful_end_ends_streams_and_leaves_nothing() {
    let agent = Agent::start();
    let marker = marker();
    let (client, shell) = busy(&agent, &marker).await;
    let pid = agent.pid();
    let (state, children) = (agent.state_dir(), children_deep(pid));
    let id = start(&client, &process_of("echo up; sleep 1000")).await;
    let mut raw = client
        .process_output(&id, OutputQuery::follow(StreamName::Stdout))
        .await
        .unwrap();
    in_time(raw.next()).await.unwrap().unwrap();
    let mut events = client
        .process_events(&id, EventQuery::default())
        .await
        .unwrap();
    in_time(events.next()).await.unwrap().unwrap();
    let running = shell.go("sleep 1000").await;
    let stop = tokio::task::spawn_blocking(move || {
        let status = agent.stop_gracefully();
        (status, state)
    });
    // Both kinds of stream end; whether by an exit or by breaking off is theirs.
    while let Some(Ok(_)) = in_time(raw.next()).await {}
    while let Some(Ok(_)) = in_time(events.next()).await {}
    let mut running = running;
    while let Some(Ok(_)) = in_time(running.events.next()).await {}
    let (status, _) = stop.await.unwrap();
    assert_eq!(status.code(), Some(0));
    assert_eq!(alive_with_marker(&marker), Vec::<i32>::new());
    for child in children {
        assert!(wait_for_exit_of(child, DEADLINE), "{child} is left");
    }
    assert_eq!(groups_of(pid), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn a_graceful_end_without_cgroups_and_namespaces_leaves_nothing_either() {
    let agent = Agent::builder()
        .args(["--without", "cgroup,pid-namespace"])
        .start();
    let marker = marker();
    let _busy = busy(&agent, &marker).await;
    let children = children_deep(agent.pid());
    let status = tokio::task::spawn_blocking(move || agent.stop_gracefully())
        .await
        .unwrap();
    assert_eq!(status.code(), Some(0));
    assert_eq!(wait_until_gone(&marker, Duration::ZERO), Vec::<i32>::new());
    for child in children {
        assert!(wait_for_exit_of(child, DEADLINE), "{child} is left");
    }
}

/// An agent in a directory of the test's own, for those that outlive one agent.
fn raw_agent(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(find_binary());
    command
        .args(["agent", "--listen"])
        .arg(format!("unix:{}", dir.join("socket").display()))
        .arg("--state-dir")
        .arg(dir.join("state"))
        .args(args)
        .stdin(Stdio::null());
    command
}

/// Starts it and waits for its ready file, which `mkfifo` makes an event.
fn ready(dir: &Path, command: &mut Command) -> (std::process::Child, serde_json::Value) {
    let fifo = dir.join("ready");
    let _ = std::fs::remove_file(&fifo);
    let watch = rustix::fs::inotify::init(rustix::fs::inotify::CreateFlags::CLOEXEC).unwrap();
    let events =
        rustix::fs::inotify::WatchFlags::MOVED_TO | rustix::fs::inotify::WatchFlags::CLOSE_WRITE;
    rustix::fs::inotify::add_watch(&watch, dir, events).unwrap();
    let mut child = command.arg("--ready-file").arg(&fifo).spawn().unwrap();
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    let mut reader = rustix::fs::inotify::Reader::new(&watch, &mut buffer);
    loop {
        if let Ok(text) = std::fs::read(&fifo)
            && let Ok(ready) = serde_json::from_slice(&text)
        {
            return (child, ready);
        }
        assert!(
            child.try_wait().unwrap().is_none(),
            "it ended before it was ready"
        );
        reader.next().unwrap();
    }
}

#[tokio::test]
async fn the_next_start_cleans_what_a_killed_agent_left() {
    let dir = tempfile::tempdir().unwrap();
    let (mut child, said) = ready(dir.path(), &mut raw_agent(dir.path(), &[]));
    assert_eq!(said["pid"], child.id());
    let url = said["url"].as_str().unwrap().to_owned();
    let client = Client::new(&url, None).unwrap();
    // More than is held back from the disk.
    let id = start(&client, &process_of("seq 1 1000000")).await;
    crate::calls::wait_for_exit(&client, &id).await;
    let files = || walk(&dir.path().join("state"));
    assert!(
        files()
            .iter()
            .any(|path| path.components().any(|c| c.as_os_str() == "logs")),
        "{:?}",
        files()
    );
    child.kill().unwrap();
    child.wait().unwrap();
    // The socket of the dead agent is in the way of nobody.
    let (mut child, said) = ready(dir.path(), &mut raw_agent(dir.path(), &[]));
    let client = Client::new(said["url"].as_str().unwrap(), None).unwrap();
    assert_eq!(exec(&client, "echo again").await.stdout, "again\n");
    assert_eq!(
        code_of(client.process(&id).await),
        ErrorCode::ProcessNotFound
    );
    let left: Vec<_> = files()
        .into_iter()
        .filter(|path| path.to_string_lossy().contains(id.as_str()))
        .collect();
    assert_eq!(left, Vec::<PathBuf>::new());
    // A second agent beside it is refused with the reason.
    let mut other = Command::new(find_binary());
    other
        .args(["agent", "--listen", "127.0.0.1:0", "--state-dir"])
        .arg(dir.path().join("state"));
    let other = other.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&other.stderr).into_owned();
    assert_eq!(other.status.code(), Some(125), "{said}");
    assert!(said.contains("state") && said.contains("hint:"), "{said}");
    assert_eq!(exec(&client, "echo still").await.stdout, "still\n");
    signal(&child, Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(!dir.path().join("ready").exists());
    assert_eq!(
        walk(&dir.path().join("state")).len(),
        1,
        "only the lock: {:?}",
        walk(&dir.path().join("state"))
    );
}

fn walk(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        found.push(entry.path());
        if entry.path().is_dir() {
            found.extend(walk(&entry.path()));
        }
    }
    found
}

fn signal(child: &std::process::Child, signal: Signal) {
    kill_process(
        Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(),
        signal,
    )
    .unwrap();
}

#[tokio::test]
async fn a_supervised_command_gives_its_code_and_its_output() {
    for (command, code) in [
        ("exit 7", 7),
        ("exit 0", 0),
        ("kill -TERM $$", 143),
        ("kill -9 $$", 137),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let text = format!("echo out; echo err >&2; {command}");
        let output = raw_agent(dir.path(), &["--", "bash", "-c", &text])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(code), "{command}: {output:?}");
        assert_eq!(output.stdout, b"out\n", "{command}");
        assert!(
            String::from_utf8_lossy(&output.stderr).contains("err\n"),
            "{command}"
        );
    }
    let dir = tempfile::tempdir().unwrap();
    for (program, code) in [("/no/such/program", 127), ("/etc/passwd", 126)] {
        let output = raw_agent(dir.path(), &["--", program]).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
    }
}

#[tokio::test]
async fn signals_are_forwarded_to_the_supervised_command() {
    for (name, number) in [
        ("TERM", Signal::TERM),
        ("INT", Signal::INT),
        ("HUP", Signal::HUP),
        ("USR1", Signal::USR1),
    ] {
        let dir = tempfile::tempdir().unwrap();
        // A signal that comes just before bash waits in a read is acted upon behind it.
        let wait = "echo trap set; while :; do read -t 0.1 <> <(:); done";
        let text = format!("trap 'exit 9' {name}; {wait}");
        let (mut child, said) = ready_with_command(dir.path(), &text);
        let client = Client::new(said["url"].as_str().unwrap(), None).unwrap();
        wait_for_text(&client, &"main".parse().unwrap(), "trap set").await;
        signal(&child, number);
        assert_eq!(child.wait().unwrap().code(), Some(9), "{name}");
    }
}

#[tokio::test]
async fn a_signal_right_after_the_ready_file_is_forwarded() {
    for _ in 0..5 {
        let dir = tempfile::tempdir().unwrap();
        let (mut child, _) = ready_with_command(dir.path(), "exec sleep 1000");
        signal(&child, Signal::TERM);
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(143), "{status:?}");
    }
}

/// An agent with a command to supervise, which comes last on the line: a shell moves it there.
fn ready_with_command(dir: &Path, text: &str) -> (std::process::Child, serde_json::Value) {
    let mut line = Command::new("bash");
    line.args([
        "-c",
        "text=$1; shift; exec \"$@\" -- bash -c \"$text\"",
        "bash",
        text,
    ]);
    let agent = raw_agent(dir, &[]);
    line.arg(agent.get_program())
        .args(agent.get_args())
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    ready(dir, &mut line)
}

#[tokio::test]
async fn without_init_the_agent_gives_up_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let log = std::fs::File::create(dir.path().join("log")).unwrap();
    let mut command = raw_agent(dir.path(), &[]);
    command.stderr(log);
    let (mut child, said) = ready(dir.path(), &mut command);
    let client = Client::new(said["url"].as_str().unwrap(), None).unwrap();
    let marker = marker();
    exec(
        &client,
        &format!("MARKER={marker} setsid sleep 1000 & echo x"),
    )
    .await;
    let agent = i32::try_from(child.id()).unwrap();
    let init = init_of(agent);
    kill_process(Pid::from_raw(init).unwrap(), Signal::KILL).unwrap();
    assert!(
        wait_for_exit_of(agent, DEADLINE),
        "the agent goes on without init"
    );
    assert_eq!(child.wait().unwrap().code(), Some(125));
    assert_eq!(wait_until_gone(&marker, DEADLINE), Vec::<i32>::new());
    assert!(
        std::fs::read_to_string(dir.path().join("log"))
            .unwrap()
            .contains("init")
    );
}

#[tokio::test]
async fn a_command_that_kills_everything_it_can_does_not_hurt_the_next() {
    let agent = Agent::start();
    let client = agent.client();
    for _ in 0..10 {
        // Also the shells that wait to be used.
        exec(&client, "kill -9 -1").await;
        let next = exec(&client, "echo still").await;
        assert_eq!(
            (next.exit_code, next.stdout.as_str()),
            (0, "still\n"),
            "{next:?}"
        );
        exec(&client, "kill -9 -1").await;
        let shell = Shell::new(&agent).await;
        let next = shell.run("echo still").await;
        assert_eq!(
            (next.exit_code, next.stdout.as_str()),
            (0, "still\n"),
            "{next:?}"
        );
        assert_eq!(next.session_state, "kept");
    }
}
