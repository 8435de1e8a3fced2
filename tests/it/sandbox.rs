//! The sandbox as a whole: its environment, its events, its figures.

use sandshell_client::types::{
    BackupRequest, EnvPatch, ExecRequest, Happening, KillRequest, ProcessRequest, RestartMode,
    RestartPolicy, RestoreRequest, SessionExecRequest, SessionRequest, StatsSource,
    TerminalRequest, WaitRequest,
};
use sandshell_client::{Client, SandboxStream, SandboxStreamEvent};
use sandshell_testkit::Agent;

use crate::calls::{env, exec, exec_of, in_time, process_of, start, wait_for_exit};

async fn patch(client: &Client, pairs: &[(&str, Option<&str>)]) {
    let patch = EnvPatch { env: env(pairs) };
    in_time(client.patch_environment(&patch)).await.unwrap();
}

async fn in_session(client: &Client, id: &str, command: &str) -> String {
    let request = SessionExecRequest {
        command: command.to_owned(),
        ..Default::default()
    };
    let id = id.parse().unwrap();
    in_time(client.session_exec(&id, &request))
        .await
        .unwrap()
        .stdout
}

async fn session(client: &Client, id: &str) {
    let request = SessionRequest {
        id: Some(id.parse().unwrap()),
        ..Default::default()
    };
    in_time(client.create_session(&request)).await.unwrap();
}

#[tokio::test]
async fn what_starts_after_a_change_has_it() {
    let agent = Agent::builder().args(["--env", "GIVEN=1"]).start();
    let client = agent.client();
    let show = "echo ${GIVEN-unset} ${ADDED-unset} ${LANG-unset}";
    assert_eq!(exec(&client, show).await.stdout, "1 unset C.UTF-8\n");
    session(&client, "old").await;
    // Shells that wait already were started with the former values: none of them may be used.
    for round in 0..20 {
        let value = round.to_string();
        patch(&client, &[("ADDED", Some(&value)), ("LANG", None)]).await;
        let expected = format!("1 {round} unset\n");
        assert_eq!(exec(&client, show).await.stdout, expected);
        let argv = ExecRequest {
            argv: Some(vec!["printenv".to_owned(), "ADDED".to_owned()]),
            ..Default::default()
        };
        assert_eq!(
            client.exec(&argv).await.unwrap().stdout,
            format!("{round}\n")
        );
        let name = format!("new{round}");
        session(&client, &name).await;
        assert_eq!(in_session(&client, &name, show).await, expected);
        let id = start(&client, &process_of(&format!("test $ADDED = {round}"))).await;
        assert_eq!(wait_for_exit(&client, &id).await.process.exit_code, Some(0));
    }
    // The call's own comes last, and null unsets for it alone.
    let mut request = exec_of(show);
    request.env = env(&[("GIVEN", None), ("ADDED", Some("mine"))]);
    assert_eq!(
        client.exec(&request).await.unwrap().stdout,
        "unset mine unset\n"
    );
    let reply = client.environment().await.unwrap();
    assert_eq!(
        reply.env,
        env(&[("ADDED", Some("19")), ("GIVEN", Some("1")), ("LANG", None)])
    );
    assert_eq!(reply.base["LANG"], "C.UTF-8");
    patch(
        &client,
        &[("ADDED", None), ("GIVEN", None), ("LANG", Some("C"))],
    )
    .await;
    assert_eq!(exec(&client, show).await.stdout, "unset unset C\n");
    let reply = client.environment().await.unwrap();
    assert_eq!(reply.env, env(&[("LANG", Some("C"))]));
    // A session that was there keeps what it had, also when its shell is replaced.
    assert_eq!(in_session(&client, "old", show).await, "1 unset C.UTF-8\n");
    patch(&client, &[("ADDED", Some("late"))]).await;
    in_session(&client, "old", "exit 3").await;
    assert_eq!(in_session(&client, "old", show).await, "1 unset C.UTF-8\n");
    let from_session = ProcessRequest {
        session: Some("old".parse().unwrap()),
        ..process_of("test \"${ADDED-unset} $LANG\" = 'unset C.UTF-8'")
    };
    let id = start(&client, &from_session).await;
    assert_eq!(wait_for_exit(&client, &id).await.process.exit_code, Some(0));
}

#[tokio::test]
async fn what_a_session_has_unset_stays_so_when_its_shell_is_replaced() {
    let agent = Agent::start();
    let client = agent.client();
    session(&client, "s").await;
    in_session(&client, "s", "unset LANG").await;
    in_session(&client, "s", "exit").await;
    let shown = in_session(&client, "s", "echo ${LANG-unset} $USER").await;
    assert!(
        shown.starts_with("unset ") && shown.len() > "unset \n".len(),
        "{shown:?}"
    );
}

#[tokio::test]
async fn a_refused_change_changes_nothing() {
    let agent = Agent::start();
    let client = agent.client();
    for (pairs, pointer) in [
        (vec![("GOOD", Some("1")), ("A=B", Some("1"))], "/env/A=B"),
        (vec![("GOOD", Some("1")), ("", Some("1"))], "/env/"),
        (vec![("GOOD", Some("1")), ("NUL", Some("a\0b"))], "/env/NUL"),
    ] {
        let wrong = EnvPatch { env: env(&pairs) };
        let problem = in_time(client.patch_environment(&wrong)).await.unwrap_err();
        let problem = problem.problem().unwrap();
        assert_eq!(
            (problem.status, problem.pointer.as_deref()),
            (400, Some(pointer))
        );
    }
    let large = "x".repeat(200 << 10);
    let large = EnvPatch {
        env: env(&[("GOOD", Some("1")), ("LARGE", Some(&large))]),
    };
    let refused = in_time(client.patch_environment(&large)).await.unwrap_err();
    assert_eq!(refused.status(), Some(400));
    assert!(client.environment().await.unwrap().env.is_empty());
    assert_eq!(exec(&client, "echo ${GOOD-unset}").await.stdout, "unset\n");
}

/// The next event.
async fn heard(stream: &mut SandboxStream) -> SandboxStreamEvent {
    in_time(stream.next())
        .await
        .expect("the stream goes on")
        .unwrap()
}

async fn happening(stream: &mut SandboxStream) -> (u64, Happening) {
    match heard(stream).await {
        SandboxStreamEvent::Event(id, event) => (id, event.what),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_lives_of_processes_and_sessions_are_told() {
    let agent = Agent::start();
    let client = agent.client();
    let mut events = client.sandbox_events(Some(0), &[]).await.unwrap();
    let (ready, first) = happening(&mut events).await;
    assert!(matches!(first, Happening::Ready { .. }), "{first:?}");
    // Execs come and go untold.
    exec(&client, "true").await;
    let policy = RestartPolicy {
        mode: RestartMode::OnFailure,
        backoff_ms: Some(1),
        max_restarts: Some(1),
    };
    let request = ProcessRequest {
        id: Some("p".parse().unwrap()),
        restart: Some(policy),
        ..process_of("exit 4")
    };
    let id = start(&client, &request).await;
    wait_for_exit(&client, &id).await;
    let mut kinds = Vec::new();
    for _ in 0..3 {
        let (_, what) = happening(&mut events).await;
        if let Happening::ProcessExited {
            exit_code,
            timed_out,
            ..
        } = &what
        {
            assert_eq!((*exit_code, *timed_out), (4, false));
        }
        if let Happening::ProcessRestarted { restarts, pid, .. } = &what {
            assert!(*restarts == 1 && *pid > 0);
        }
        kinds.push(what.kind());
    }
    assert_eq!(
        kinds,
        ["process_started", "process_restarted", "process_exited"]
    );
    let id = start(&client, &process_of("sleep 1000")).await;
    in_time(client.kill_process(&id, &KillRequest::default()))
        .await
        .unwrap();
    let mut kinds = vec![happening(&mut events).await.1.kind()];
    // The kill and the exit are told by two tasks, in either order.
    let mut ends = [
        happening(&mut events).await.1,
        happening(&mut events).await.1,
    ];
    ends.sort_by_key(Happening::kind);
    let [
        Happening::ProcessExited { signal, .. },
        Happening::ProcessKilled { method, process },
    ] = &ends
    else {
        panic!("{ends:?}");
    };
    assert_eq!(
        (signal.as_deref(), method.as_str(), process),
        (Some("SIGTERM"), "term", &id)
    );
    session(&client, "s").await;
    in_session(&client, "s", "exit 1").await;
    in_time(client.delete_session(&"s".parse().unwrap()))
        .await
        .unwrap();
    for _ in 0..3 {
        kinds.push(happening(&mut events).await.1.kind());
    }
    assert_eq!(
        kinds,
        [
            "process_started",
            "session_created",
            "session_restored",
            "session_ended"
        ]
    );
    // Resumed in the middle, and with types.
    let mut resumed = client
        .sandbox_events(Some(ready), &["session_created", "session_ended"])
        .await
        .unwrap();
    for expected in ["session_created", "session_ended"] {
        assert_eq!(happening(&mut resumed).await.1.kind(), expected);
    }
    let mut unknown = client.sandbox_events(Some(ready - 10), &[]).await.unwrap();
    assert!(matches!(
        heard(&mut unknown).await,
        SandboxStreamEvent::Truncated(truncated) if truncated.first == ready
    ));
    let (number, first) = happening(&mut unknown).await;
    assert_eq!((number, first.kind()), (ready, "ready"));
    // The end of the agent is told, and ends the stream.
    let status = tokio::task::spawn_blocking(move || agent.stop_gracefully());
    assert_eq!(happening(&mut events).await.1, Happening::Ending {});
    assert!(in_time(events.next()).await.is_none());
    assert!(status.await.unwrap().success());
}

#[tokio::test]
async fn terminals_ports_and_backups_are_told() {
    let agent = Agent::start();
    let client = agent.client();
    let mut events = client.sandbox_events(None, &[]).await.unwrap();
    let terminal = TerminalRequest {
        argv: Some(vec!["false".to_owned()]),
        ..Default::default()
    };
    let terminal = client.create_terminal(&terminal).await.unwrap().id;
    let made = happening(&mut events).await.1;
    let wanted = terminal.clone();
    assert_eq!(made, Happening::TerminalCreated { terminal: wanted });
    let exit_code = Some(1);
    let ended = happening(&mut events).await.1;
    assert_eq!(
        ended,
        Happening::TerminalEnded {
            terminal,
            exit_code
        }
    );
    let server = "exec python3 -c 'import socket,time
s = socket.socket(); s.bind((\"127.0.0.1\", 0)); s.listen()
print(s.getsockname()[1], flush=True); time.sleep(1000)'";
    let id = start(&client, &process_of(server)).await;
    let started = happening(&mut events).await.1;
    assert_eq!(started.kind(), "process_started");
    let opened = happening(&mut events).await.1;
    let Happening::PortOpened { port, pid } = opened else {
        panic!("{opened:?}");
    };
    assert_eq!(pid, Some(client.process(&id).await.unwrap().pid));
    in_time(client.delete_process(&id)).await.unwrap();
    let mut after = Vec::new();
    for _ in 0..3 {
        after.push(happening(&mut events).await.1);
    }
    assert!(after.contains(&Happening::PortClosed { port }), "{after:?}");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap().to_owned();
    let backup = BackupRequest {
        path: Some(path.clone()),
        ..Default::default()
    };
    let backup = in_time(client.create_backup(&backup)).await.unwrap().id;
    let restore = RestoreRequest::default();
    in_time(client.restore_backup(&backup, &restore))
        .await
        .unwrap();
    in_time(client.delete_backup(&backup)).await.unwrap();
    for wanted in [
        Happening::BackupCreated {
            backup: backup.clone(),
        },
        Happening::BackupRestored {
            backup: backup.clone(),
            path,
        },
        Happening::BackupDeleted { backup },
    ] {
        assert_eq!(happening(&mut events).await.1, wanted);
    }
}

#[tokio::test]
async fn figures_are_those_of_the_sandbox() {
    figures(Agent::start()).await;
}

#[tokio::test]
async fn figures_without_a_cgroup_are_summed() {
    let source = figures(Agent::builder().args(["--without", "cgroup"]).start()).await;
    assert_eq!(source, StatsSource::Proc);
}

async fn figures(agent: Agent) -> StatsSource {
    let client = agent.client();
    let before = in_time(client.stats()).await.unwrap();
    assert!(before.cpu.cpus >= 1 && before.uptime_ms < 600_000);
    assert_eq!((before.sessions, before.processes, before.execs), (0, 0, 0));
    session(&client, "s").await;
    // About 64 MiB in use, and some work done.
    let script = "x=$(head -c 67108864 /dev/zero | tr '\\0' x); echo ready; read line";
    let mut request = process_of(script);
    request.stdin_open = true;
    let id = start(&client, &request).await;
    let wait = WaitRequest {
        log: Some(sandshell_client::types::LogCondition {
            pattern: "ready".to_owned(),
            regex: false,
            stream: None,
        }),
        ..Default::default()
    };
    in_time(client.wait_process(&id, &wait)).await.unwrap();
    let after = in_time(client.stats()).await.unwrap();
    assert_eq!((after.sessions, after.processes), (1, 1));
    let grown = after.memory.used_bytes.unwrap() - before.memory.used_bytes.unwrap().min(1 << 30);
    assert!(grown > 60 << 20, "{before:?} {after:?}");
    assert!(
        after.cpu.usage_ms.unwrap() > before.cpu.usage_ms.unwrap(),
        "{before:?} {after:?}"
    );
    assert!(after.pids.count.unwrap() >= 3, "{after:?}");
    let disk = after.disk.unwrap();
    assert_eq!(disk.path, "/");
    assert!(disk.total_bytes >= disk.used_bytes && disk.total_bytes > 0);
    // The same as df says, in blocks of one byte.
    let shown = exec(&client, "df -B1 --output=size / | tail -1")
        .await
        .stdout;
    assert_eq!(shown.trim().parse::<u64>().unwrap(), disk.total_bytes);
    assert!(after.network.is_some());
    after.cpu.source
}
