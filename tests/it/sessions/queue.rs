//! Promise 5: one command at a time, in arrival order; sessions in parallel; interrupts overtake.

use sandshell_client::types::{
    CommandId, CommandState, ErrorCode, OnDisconnect, SessionExecRequest, SessionState, StreamName,
};
use sandshell_client::{EventQuery, EventStream, Page};
use sandshell_testkit::Agent;

use crate::calls::{Heard, Shell, code_of, env, in_time, text};

fn named(id: &str, command: &str) -> SessionExecRequest {
    SessionExecRequest {
        id: Some(id.parse().unwrap()),
        ..text(command)
    }
}

/// Sends a command and hears the first of it: it has arrived.
async fn arrived(shell: &Shell, request: &SessionExecRequest) -> (EventStream, Heard) {
    let events = shell.client.session_exec_stream(&shell.id, request).await;
    let (mut events, mut heard) = (events.unwrap(), Heard::default());
    assert!(heard.next(&mut events).await && heard.command_id.is_some());
    (events, heard)
}

#[tokio::test]
async fn commands_run_one_at_a_time_in_order_of_arrival() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    let dir = agent.work_dir();
    shell
        .out(&format!("cd {}; mkfifo gate; n=0", dir.display()))
        .await;
    let blocker = shell.go("read x < gate").await;
    // Each arrival is seen before the next one is sent.
    let mut waiting = Vec::new();
    for n in 1..=20 {
        let request = text(&format!("echo $((++n)) {n}; sleep 0.00$((RANDOM % 9))"));
        let (events, heard) = arrived(&shell, &request).await;
        waiting.push((n, events, heard));
    }
    let record = shell.record().await;
    assert_eq!(
        (record.state, record.queue_length),
        (SessionState::Busy, 20)
    );
    assert_eq!(
        record.foreground.unwrap().command_id,
        blocker.request.id.clone().unwrap()
    );
    std::fs::write(dir.join("gate"), "open\n").unwrap();
    for (n, mut events, mut heard) in waiting {
        heard.until_the_end(&mut events).await;
        assert_eq!(
            String::from_utf8(heard.stdout).unwrap(),
            format!("{n} {n}\n")
        );
    }
    let history = shell
        .client
        .list_commands(&shell.id, &Page::default())
        .await
        .unwrap()
        .items;
    assert!(
        history
            .windows(2)
            .all(|pair| pair[0].ended_at <= pair[1].started_at),
        "{history:?}"
    );
}

#[tokio::test]
async fn sessions_run_side_by_side() {
    let agent = Agent::start();
    let mut blocked = Vec::new();
    for _ in 0..4 {
        let shell = Shell::new(&agent).await;
        let running = shell.go("sleep 1000").await;
        blocked.push((shell, running));
    }
    let free = Shell::new(&agent).await;
    assert_eq!(free.out("echo free").await, "free\n");
    for (shell, running) in &blocked {
        in_time(shell.client.interrupt_session(&shell.id))
            .await
            .unwrap();
        assert_eq!(shell.result(running).await.exit_code, 130);
    }
}

#[tokio::test]
async fn an_interrupt_does_not_wait_in_the_queue_and_takes_only_the_running_command() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    let running = shell.go("sleep 1000").await;
    let mut queued = Vec::new();
    for _ in 0..5 {
        let request = text("echo next");
        let (events, heard) = arrived(&shell, &request).await;
        queued.push((events, heard));
    }
    let reply = in_time(shell.client.interrupt_session(&shell.id))
        .await
        .unwrap();
    assert_eq!(reply.command_id, running.request.id);
    for (mut events, mut heard) in queued {
        heard.until_the_end(&mut events).await;
        assert_eq!(
            (heard.stdout.as_slice(), heard.exit.unwrap().exit_code),
            (&b"next\n"[..], Some(0))
        );
    }
}

#[tokio::test]
async fn commands_still_waiting_when_a_session_ends_are_told_so() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    let _running = shell.go("sleep 1000").await;
    let request = text("echo never");
    let (mut events, mut heard) = arrived(&shell, &request).await;
    let id = heard.command_id.clone().unwrap();
    let record = shell.client.command(&shell.id, &id).await.unwrap();
    assert_eq!(record.state, CommandState::Queued);
    let client = agent.client();
    let waiting = client.session_exec(&shell.id, &request);
    let (refused, deleted) = tokio::join!(
        in_time(waiting),
        in_time(shell.client.delete_session(&shell.id))
    );
    deleted.unwrap();
    let code = code_of(refused);
    assert!(
        matches!(code, ErrorCode::SessionEnded | ErrorCode::SessionNotFound),
        "{code:?}"
    );
    heard.until_the_end(&mut events).await;
    assert_eq!(heard.exit.unwrap().exit_code, None);
}

#[tokio::test]
async fn commands_whose_clients_left_neither_count_nor_fill_the_queue() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    let _running = shell.go("sleep 1000").await;
    // As many as may wait.
    for _ in 0..1000 {
        let request = SessionExecRequest {
            on_disconnect: OnDisconnect::Kill,
            ..text("echo never")
        };
        let (events, heard) = arrived(&shell, &request).await;
        let id = heard.command_id.clone().unwrap();
        let mut after = shell
            .client
            .command_events(
                &shell.id,
                &id,
                EventQuery {
                    follow: Some(true),
                    ..Default::default()
                },
            )
            .await
            .unwrap();
        drop(events);
        Heard::default().until_the_end(&mut after).await;
    }
    assert_eq!(shell.record().await.queue_length, 0);
    let request = text("echo next");
    let (mut events, mut heard) = arrived(&shell, &request).await;
    assert_eq!(shell.record().await.queue_length, 1);
    shell.client.interrupt_session(&shell.id).await.unwrap();
    heard.until_the_end(&mut events).await;
    assert_eq!(heard.stdout, b"next\n");
}

#[tokio::test]
async fn a_repeated_command_id_runs_once() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    let request = named("once", "echo $((++runs))");
    assert_eq!(shell.ask(&request).await.stdout, "1\n");
    assert_eq!(shell.ask(&request).await.stdout, "1\n");
    assert_eq!(shell.out("echo $runs").await, "1\n");
    let other = named("once", "echo other");
    assert_eq!(
        code_of(shell.client.session_exec(&shell.id, &other).await),
        ErrorCode::IdConflict
    );
}

#[tokio::test]
async fn history_tells_command_status_duration_and_bytes() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    shell.run("printf 12345; printf 123 >&2; false").await;
    shell.run("cd /usr; sleep 0.05").await;
    let page = shell
        .client
        .list_commands(&shell.id, &Page::default())
        .await
        .unwrap();
    let [first, second] = page.items.as_slice() else {
        panic!("{page:?}")
    };
    assert_eq!(first.command, "printf 12345; printf 123 >&2; false");
    assert_eq!(
        (first.exit_code, first.stdout_bytes, first.stderr_bytes),
        (Some(1), 5, 3)
    );
    assert_eq!(first.state, CommandState::Done);
    assert!(first.queued_at <= first.started_at.unwrap() && first.started_at <= first.ended_at);
    assert_eq!(second.cwd.as_deref(), Some("/usr"));
    assert!(second.duration_ms.unwrap() >= 50);
    assert_eq!(
        shell.client.command(&shell.id, &first.id).await.unwrap(),
        *first
    );
    let page = Page {
        limit: Some(1),
        cursor: None,
    };
    let one = shell.client.list_commands(&shell.id, &page).await.unwrap();
    assert_eq!(one.items, std::slice::from_ref(first));
    let page = Page {
        limit: Some(1),
        cursor: one.next_cursor,
    };
    let two = shell.client.list_commands(&shell.id, &page).await.unwrap();
    assert_eq!(
        (two.items.as_slice(), two.next_cursor),
        (&[second.clone()][..], None)
    );
    let unknown: CommandId = "unknown".parse().unwrap();
    let unknown = shell.client.command(&shell.id, &unknown).await;
    assert_eq!(code_of(unknown), ErrorCode::CommandNotFound);
}

/// A session with something to lose, and the command that shows it.
async fn with_directory_and_variables(agent: &Agent) -> (Shell, &'static str, String) {
    let shell = Shell::new(agent).await;
    shell
        .out("cd /usr; cd /tmp; export A=a B=b; c=plain; unset D")
        .await;
    let show = "pwd; echo $OLDPWD; declare -p A B c; echo ${D-unset}";
    let shown = shell.out(show).await;
    (shell, show, shown)
}

#[tokio::test]
async fn directory_and_environment_of_a_call_hold_for_that_call() {
    let agent = Agent::start();
    let (shell, show, before) = with_directory_and_variables(&agent).await;
    let request = SessionExecRequest {
        cwd: Some("/etc".to_owned()),
        env: env(&[
            ("A", Some("new 'quoted'\n")),
            ("B", None),
            ("c", Some("exported")),
            ("D", Some("d")),
        ]),
        ..text("pwd; echo \"$A\"; echo ${B-unset}; env | grep ^c=; env | grep ^D=")
    };
    let result = shell.ask(&request).await;
    assert_eq!(
        result.stdout,
        "/etc\nnew 'quoted'\n\nunset\nc=exported\nD=d\n"
    );
    assert_eq!(shell.out(show).await, before);
}

#[tokio::test]
async fn the_directory_of_a_call_is_not_reported_as_the_sessions() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    shell.out("cd /tmp").await;
    let request = SessionExecRequest {
        cwd: Some("/etc".to_owned()),
        ..text("pwd")
    };
    assert_eq!(shell.ask(&request).await.cwd, "/tmp");
    assert_eq!(shell.record().await.cwd, "/tmp");
    // Nor does the next call of this kind come back to it.
    let request = SessionExecRequest {
        cwd: Some("/usr".to_owned()),
        ..text("pwd")
    };
    shell.ask(&request).await;
    assert_eq!(shell.out("pwd").await, "/tmp\n");
}

#[tokio::test]
async fn the_directory_of_a_call_is_left_again_whatever_cd_means_to_the_user() {
    let agent = Agent::start();
    for cd in [
        "cd() { echo mine; }",
        "alias cd='echo mine'; shopt -s expand_aliases",
        "CDPATH=/usr",
    ] {
        let shell = Shell::new(&agent).await;
        shell.out(&format!("cd /tmp; {cd}")).await;
        let request = SessionExecRequest {
            cwd: Some("/etc".to_owned()),
            ..text("pwd")
        };
        assert_eq!(shell.ask(&request).await.stdout, "/etc\n", "{cd}");
        assert_eq!(shell.out("pwd").await, "/tmp\n", "{cd}");
    }
}

#[tokio::test]
async fn directory_and_environment_of_a_call_do_not_outlive_it_however_it_ends() {
    let agent = Agent::start();
    let mut wrong = Vec::new();
    for command in [
        "cd /var; A=z; unset D",
        "cd /var; sleep 1000",
        "A=z; exit 3",
        "kill -9 $$",
        "set -e; false",
        "exec true",
    ] {
        let (shell, show, before) = with_directory_and_variables(&agent).await;
        let request = SessionExecRequest {
            cwd: Some("/etc".to_owned()),
            env: env(&[("A", Some("x")), ("D", Some("d"))]),
            timeout_ms: Some(150),
            ..text(command)
        };
        shell.ask(&request).await;
        shell.run("set +e").await;
        let after = shell.run(show).await.stdout;
        if after != before {
            wrong.push(format!("after {command:?}:\n{after}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn a_command_whose_directory_is_missing_does_not_run() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    shell.out("cd /usr; A=a; ran=no").await;
    let request = SessionExecRequest {
        cwd: Some("/nowhere/at/all".to_owned()),
        env: env(&[("A", Some("b"))]),
        ..text("ran=yes; echo ran")
    };
    match in_time(shell.client.session_exec(&shell.id, &request)).await {
        Ok(result) => {
            assert_eq!((result.exit_code, result.stdout.as_str()), (125, ""));
            assert!(result.stderr.contains("/nowhere/at/all"), "{result:?}");
        }
        Err(error) => assert_eq!(error.code(), Some(ErrorCode::InvalidCwd)),
    }
    assert_eq!(shell.out("pwd; echo $A $ran").await, "/usr\na no\n");
}

#[tokio::test]
async fn standard_input_is_given_to_the_command_and_then_ends() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    let request = SessionExecRequest {
        stdin: Some("one\ntwo\n".to_owned()),
        ..text("read a; echo a=$a; cat; read b || echo over")
    };
    assert_eq!(shell.ask(&request).await.stdout, "a=one\ntwo\nover\n");
    assert_eq!(
        shell.out("echo $a; cat; read c || echo nothing").await,
        "one\nnothing\n"
    );
    let request = SessionExecRequest {
        stdin: Some("AP8A".to_owned()),
        stdin_encoding: sandshell_client::types::TextEncoding::Base64,
        ..text("od -An -tx1")
    };
    assert_eq!(shell.ask(&request).await.stdout, " 00 ff 00\n");
    let much = "x".repeat(3 << 20);
    let request = SessionExecRequest {
        stdin: Some(much),
        ..text("wc -c; echo $?")
    };
    let result = shell.ask(&request).await;
    assert_eq!(result.stdout, "3145728\n0\n");
    // Unread input is not left to the next command, nor to the shell itself.
    let request = SessionExecRequest {
        stdin: Some("echo leaked\n".repeat(50_000)),
        ..text("true")
    };
    shell.ask(&request).await;
    assert_eq!(shell.out("cat; echo clean").await, "clean\n");
    assert_eq!(
        shell.follow(&result.command_id, StreamName::Stderr).await,
        b""
    );
}
