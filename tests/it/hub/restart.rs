//! The hub is killed under load, again and again, and nothing is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use sandshell_client::types::{
    ErrorCode, IsolationPolicy, IsolationSpec, SandboxSpec, SessionExecRequest, SessionId,
    SessionRequest, StreamName, TerminalFrame, TerminalId, TerminalRequest,
};
use sandshell_client::{
    Client, ClientError, ConnectOptions, EventQuery, OutputQuery, OutputStreamEvent, TerminalEvent,
};
use sandshell_testkit::{Hub, UnprivilegedUser, children_deep};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use super::{id_of, sandbox, spec_of};
use crate::calls::{DEADLINE, exec, in_time, process_of, skipped, start};

/// Prints a line for each number from 1 on, about a thousand a second, until its file appears.
fn counting(stop: &std::path::Path) -> String {
    format!(
        "exec 9<> <(:); i=0; until [[ -e {} ]]; do echo $((++i)); read -t 0.001 -u 9; done; echo end",
        stop.display()
    )
}

/// How often the hub is killed.
fn rounds() -> u64 {
    let given = std::env::var("SANDSHELL_HUB_KILLS").ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(10)
}

/// What the killer and the clients tell each other.
#[derive(Clone)]
struct Load {
    /// Hubs started so far.
    hubs: watch::Receiver<u64>,
    stop: watch::Receiver<bool>,
    progress: Arc<Progress>,
}

/// Steps of each client.
struct Progress {
    steps: Vec<AtomicU64>,
    made: Notify,
}

impl Progress {
    fn step(&self, who: usize) {
        self.steps[who].fetch_add(1, Ordering::Relaxed);
        self.made.notify_one();
    }

    /// Waits until every client has come further.
    async fn all(&self) {
        let now = |step: &AtomicU64| step.load(Ordering::Relaxed);
        let before: Vec<u64> = self.steps.iter().map(now).collect();
        while self
            .steps
            .iter()
            .zip(&before)
            .any(|(step, before)| now(step) < before + 3)
        {
            self.made.notified().await;
        }
    }
}

impl Load {
    fn stopped(&self) -> bool {
        *self.stop.borrow()
    }

    /// Waits for the hub after the one that failed.
    async fn next_hub(&mut self, failed: &ClientError) {
        assert!(
            failed.code().is_none(),
            "a refusal is no broken connection: {failed:?}"
        );
        // Seen before the failure, or about to come: either way there is one more.
        if !self.hubs.has_changed().unwrap() {
            in_time(self.hubs.changed()).await.unwrap();
        }
        self.hubs.mark_unchanged();
    }
}

/// Runs commands one by one, each with a key: each must have run once.
async fn commands(client: Client, session: SessionId, mut load: Load, who: usize) -> u64 {
    let mut n = 0;
    while !load.stopped() {
        let keyed = client.idempotent(&format!("{who}-{n}")).unwrap();
        let request = SessionExecRequest {
            command: "echo $((++ran))".to_owned(),
            ..Default::default()
        };
        loop {
            load.hubs.mark_unchanged();
            match in_time(keyed.session_exec(&session, &request)).await {
                Ok(result) => {
                    n += 1;
                    assert_eq!(result.stdout, format!("{n}\n"), "ran once, in order");
                    load.progress.step(who);
                    break;
                }
                Err(error) => load.next_hub(&error).await,
            }
        }
    }
    n
}

/// Follows raw output to its end, by offset.
async fn bytes(
    client: Client,
    id: sandshell_client::types::ProcessId,
    mut load: Load,
    who: usize,
) -> Vec<u8> {
    let mut seen = Vec::new();
    loop {
        load.hubs.mark_unchanged();
        let query = OutputQuery {
            offset: seen.len() as u64,
            ..OutputQuery::follow(StreamName::Stdout)
        };
        let failed = match in_time(client.process_output(&id, query)).await {
            Ok(mut stream) => loop {
                match in_time(stream.next()).await {
                    Some(Ok(piece)) => {
                        seen.extend_from_slice(&piece);
                        load.progress.step(who);
                    }
                    Some(Err(error)) => break error,
                    None => return seen,
                }
            },
            Err(error) => error,
        };
        load.next_hub(&failed).await;
    }
}

/// Follows events to the exit, by position.
async fn events(
    client: Client,
    id: sandshell_client::types::ProcessId,
    mut load: Load,
    who: usize,
) -> Vec<u8> {
    let mut seen = Vec::new();
    let mut from = None;
    loop {
        load.hubs.mark_unchanged();
        let query = EventQuery {
            from,
            follow: Some(true),
        };
        let failed = match in_time(client.process_events(&id, query)).await {
            Ok(mut stream) => loop {
                match in_time(stream.next()).await {
                    Some(Ok(event)) => match event.event {
                        OutputStreamEvent::Output(output) => {
                            assert_eq!(output.offset, seen.len() as u64);
                            seen.extend_from_slice(output.data.as_bytes());
                            from = event.id;
                            load.progress.step(who);
                        }
                        OutputStreamEvent::Exit(_) => return seen,
                        other => panic!("{other:?}"),
                    },
                    Some(Err(error)) => break error,
                    None => panic!("the stream ended without an exit"),
                }
            },
            Err(error) => error,
        };
        load.next_hub(&failed).await;
    }
}

/// Watches a terminal to its end, by offset.
async fn terminal(client: Client, id: TerminalId, mut load: Load, who: usize) -> Vec<u8> {
    let mut seen: Vec<u8> = Vec::new();
    loop {
        load.hubs.mark_unchanged();
        let options = ConnectOptions {
            offset: Some(seen.len() as u64),
            ..ConnectOptions::default()
        };
        let failed = match in_time(client.connect_terminal(&id, options)).await {
            Ok(mut connection) => loop {
                match in_time(connection.next()).await {
                    Ok(Some(TerminalEvent::Bytes(bytes))) => {
                        seen.extend_from_slice(&bytes);
                        load.progress.step(who);
                    }
                    Ok(Some(TerminalEvent::Frame(TerminalFrame::Exit { .. }))) => return seen,
                    Ok(Some(TerminalEvent::Frame(TerminalFrame::Ready {
                        offset,
                        redraw_bytes,
                        ..
                    }))) => {
                        assert_eq!((offset, redraw_bytes), (seen.len() as u64, 0));
                    }
                    Ok(Some(TerminalEvent::Frame(TerminalFrame::Truncated { .. }))) => {
                        panic!("the terminal was followed too slowly")
                    }
                    // A tunnel that was cut says no goodbye.
                    Ok(Some(_)) => {}
                    Ok(None) => break None,
                    Err(error) => break Some(error),
                }
            },
            Err(error) => Some(error),
        };
        match failed {
            Some(error) => load.next_hub(&error).await,
            None => {
                if !load.hubs.has_changed().unwrap() {
                    in_time(load.hubs.changed()).await.unwrap();
                }
            }
        }
    }
}

fn counted(seen: &[u8], line_end: &str) {
    let text = String::from_utf8(seen.to_vec()).unwrap();
    let lines: Vec<&str> = text.split_terminator(line_end).collect();
    let (last, numbers) = lines.split_last().unwrap();
    assert_eq!(*last, "end");
    for (at, line) in numbers.iter().enumerate() {
        assert_eq!(
            line.parse(),
            Ok(at + 1),
            "at line {at} of {}",
            numbers.len()
        );
    }
    assert!(numbers.len() > 10, "{}", numbers.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_under_load_it_loses_nothing() {
    const SANDBOXES: usize = 3;
    let rounds = rounds();
    let stop_file = std::path::Path::new("/tmp/stop");
    let mut hub = Hub::start();
    let (started, hubs) = watch::channel(0_u64);
    let (stopping, stop) = watch::channel(false);
    let load = Load {
        hubs,
        stop,
        progress: Arc::new(Progress {
            steps: (0..4 * SANDBOXES).map(|_| AtomicU64::new(0)).collect(),
            made: Notify::new(),
        }),
    };
    let (mut ran, mut seen) = (JoinSet::new(), JoinSet::new());
    let mut sessions = Vec::new();
    for n in 0..SANDBOXES {
        let name = format!("box-{n}");
        let inside = sandbox(&hub.client(), &name).await;
        let session = in_time(inside.create_session(&SessionRequest::default()))
            .await
            .unwrap();
        let process = start(&inside, &process_of(&counting(stop_file))).await;
        let request = TerminalRequest {
            argv: Some(vec![
                "bash".to_owned(),
                "-c".to_owned(),
                counting(stop_file),
            ]),
            ..TerminalRequest::default()
        };
        let shown = in_time(inside.create_terminal(&request)).await.unwrap();
        // Each client has connections of its own.
        let own = || hub.client().sandbox(&id_of(&name));
        let at = 4 * n;
        sessions.push((name.clone(), session.id.clone()));
        let (client, load_of) = (own(), load.clone());
        let id = session.id.clone();
        ran.spawn(async move { (n, commands(client, id, load_of, at).await) });
        let (client, load_of, id) = (own(), load.clone(), process.clone());
        seen.spawn(async move { ("\n", bytes(client, id, load_of, at + 1).await) });
        let (client, load_of) = (own(), load.clone());
        seen.spawn(async move { ("\n", events(client, process, load_of, at + 2).await) });
        let (client, load_of) = (own(), load.clone());
        seen.spawn(async move { ("\r\n", terminal(client, shown.id, load_of, at + 3).await) });
    }
    for round in 1..=rounds {
        in_time(load.progress.all()).await;
        tokio::task::block_in_place(|| {
            hub.kill_hard();
            hub.restart();
        });
        started.send_replace(round);
        for (name, _) in &sessions {
            let inside = hub.client().sandbox(&id_of(name));
            assert_eq!(exec(&inside, "echo there").await.stdout, "there\n");
        }
    }
    in_time(load.progress.all()).await;
    stopping.send_replace(true);
    for (name, _) in &sessions {
        let inside = hub.client().sandbox(&id_of(name));
        exec(&inside, "touch /tmp/stop").await;
    }
    while let Some(done) = in_time(ran.join_next()).await {
        let (n, commands) = done.unwrap();
        let (name, session) = &sessions[n];
        let request = SessionExecRequest {
            command: "echo $ran".to_owned(),
            ..Default::default()
        };
        let inside = hub.client().sandbox(&id_of(name));
        let told = in_time(inside.session_exec(session, &request))
            .await
            .unwrap();
        assert_eq!(told.stdout, format!("{commands}\n"), "no command ran twice");
    }
    while let Some(done) = in_time(seen.join_next()).await {
        let (line_end, bytes) = done.unwrap();
        counted(&bytes, line_end);
    }
}

/// The launchers of a hub: its children that are called so, the dead among them.
fn launchers(hub: &Hub) -> Vec<i32> {
    let children = children_deep(hub.pid());
    let direct = children.into_iter().filter(|child| {
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        let after = stat.rsplit_once(") ").map(|(_, rest)| rest.to_owned());
        let parent = after.and_then(|rest| rest.split(' ').nth(1)?.parse::<i32>().ok());
        parent == Some(hub.pid())
    });
    direct.collect()
}

/// Without its launcher a hub has another made; the old one leaves nothing, and no sandbox suffers.
#[tokio::test]
async fn a_launcher_that_is_killed_is_collected_and_replaced() {
    let hub = Hub::start();
    let client = hub.client();
    let before = sandbox(&client, "before").await;
    for round in 0..3 {
        let [launcher] = launchers(&hub)[..] else {
            panic!("{:?}", launchers(&hub));
        };
        let pid = rustix::process::Pid::from_raw(launcher).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        let collected = async {
            while !launchers(&hub).is_empty() {
                tokio::task::yield_now().await;
            }
        };
        in_time(collected).await;
        assert_eq!(exec(&before, "echo still").await.stdout, "still\n");
        let after = sandbox(&client, &format!("after-{round}")).await;
        assert_eq!(exec(&after, "echo new").await.stdout, "new\n");
        assert_ne!(launchers(&hub), [launcher]);
        in_time(client.pause_sandbox(&id_of("before")))
            .await
            .unwrap();
        in_time(client.resume_sandbox(&id_of("before")))
            .await
            .unwrap();
        assert_eq!(exec(&before, "echo again").await.stdout, "again\n");
    }
}

/// A hub without groups finds its sandboxes again, though it could not have frozen them.
#[tokio::test]
async fn an_ordinary_users_sandboxes_outlive_the_hub() {
    let Some(user) = UnprivilegedUser::get() else {
        skipped("only root can become an ordinary user for a test");
        return;
    };
    let mut hub = Hub::of(user);
    let client = hub.client();
    let spec = SandboxSpec {
        isolation: Some(IsolationSpec {
            policy: IsolationPolicy::BestEffort,
            ..IsolationSpec::default()
        }),
        ..spec_of("box")
    };
    in_time(client.create_sandbox(&spec)).await.unwrap();
    let inside = client.sandbox(&id_of("box"));
    exec(&inside, "echo kept > /tmp/kept").await;
    if let Err(error) = in_time(client.pause_sandbox(&id_of("box"))).await {
        assert_eq!(error.code(), Some(ErrorCode::LimitUnavailable), "{error}");
        assert!(error.to_string().contains("cannot be paused"), "{error}");
    }
    for _ in 0..2 {
        hub.kill_hard();
        hub.restart();
        client.close_idle();
        assert_eq!(exec(&inside, "cat /tmp/kept").await.stdout, "kept\n");
    }
}

/// A listener that a hub's child inherits would only make all that comes after it slow, so the fixture looks for one.
#[test]
fn a_port_that_was_inherited_fails_the_test() {
    let mut hub = Hub::start();
    let address = hub.url().trim_start_matches("http://").to_owned();
    hub.kill_hard();
    let began = Instant::now();
    let listener = loop {
        match std::net::TcpListener::bind(&address) {
            Ok(listener) => break listener,
            // Somebody else's connection has it.
            Err(error) => assert!(began.elapsed() < DEADLINE, "{error}"),
        }
    };
    let mut heir = std::process::Command::new("sleep")
        .arg("600")
        .env("OF", hub.dir())
        .stdin(std::os::fd::OwnedFd::from(listener))
        .spawn()
        .unwrap();
    let restarted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| hub.restart()));
    heir.kill().unwrap();
    heir.wait().unwrap();
    let said = restarted.unwrap_err();
    let said = said.downcast_ref::<String>().unwrap();
    let expected = format!("{} (sleep 600) listens on {address}", heir.id());
    assert!(said.contains(&expected), "{said}");
    // Nobody has it now.
    hub.restart();
}
