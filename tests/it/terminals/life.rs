//! From create to destroy.

use sandshell_client::types::{ErrorCode, TerminalRequest, TerminalState};
use sandshell_client::{ConnectOptions, Page};
use sandshell_testkit::{Agent, alive_with_marker, wait_until_gone};

use super::drive::{Driver, bash, command, create};
use crate::calls::{DEADLINE, code_of, in_time, marker};

fn named(id: &str, request: TerminalRequest) -> TerminalRequest {
    TerminalRequest {
        id: Some(id.parse().unwrap()),
        ..request
    }
}

#[tokio::test]
async fn the_exit_is_told_with_status_and_signal_after_the_last_byte() {
    let agent = Agent::start();
    let client = agent.client();
    for (text, expected) in [
        ("exit 0", (0, None)),
        ("echo words; exit 42", (42, None)),
        ("kill -TERM $$", (143, Some("SIGTERM"))),
        ("kill -KILL $$", (137, Some("SIGKILL"))),
        ("head -c 8000 /dev/zero | tr '\\0' x; exit 1", (1, None)),
    ] {
        let mut driver = Driver::start(&client, &command(text)).await;
        let (code, signal) = driver.exit().await;
        assert_eq!((code, signal.as_deref()), expected, "{text}");
        let record = client.terminal(&driver.id).await.unwrap();
        assert_eq!(record.state, TerminalState::Exited);
        assert_eq!(record.exit_code, Some(expected.0));
        assert_eq!(record.signal.as_deref(), expected.1);
        assert_eq!(record.output_bytes, driver.output.len() as u64);
        assert!(record.ended_at.is_some());
        if text.contains("8000") {
            assert_eq!(driver.output.len(), 8000);
        }
        let resized = client.resize_terminal(&driver.id, 10, 10).await;
        assert_eq!(code_of(resized), ErrorCode::TerminalEnded);
    }
}

#[tokio::test]
async fn a_child_left_behind_delays_no_exit() {
    let agent = Agent::start();
    let client = agent.client();
    let mark = marker();
    let text = format!(
        "trap '' HUP; sh -c 'trap \"\" HUP; while :; do sleep 1; done' {mark} & \
         until grep -q ^sh /proc/$!/cmdline; do :; done; echo on; exit 5"
    );
    let mut driver = Driver::start(&client, &command(&text)).await;
    assert_eq!(driver.exit().await, (5, None));
    assert!(String::from_utf8_lossy(&driver.output).contains("on"));
    assert!(
        !alive_with_marker(&mark).is_empty(),
        "it was to be left behind"
    );
    let reply = in_time(client.delete_terminal(&driver.id)).await.unwrap();
    assert!(reply.killed > 0 && reply.survivors.is_empty(), "{reply:?}");
    assert_eq!(alive_with_marker(&mark), Vec::<i32>::new());
}

#[tokio::test]
async fn destroy_leaves_no_process_however_it_hides() {
    for args in [&[][..], &["--without", "cgroup"]] {
        let agent = Agent::builder().args(args).start();
        let client = agent.client();
        let mark = marker();
        let mut shell = Driver::bash(&client).await;
        shell
            .run(&format!("(setsid sh -c 'trap \"\" TERM HUP INT; sleep 1000' {mark} &); sleep 1000 & echo up-$((1+1))"), "up-2")
            .await;
        shell
            .run(
                &format!("sh -c 'kill -STOP $$' {mark}; echo stopped-$((2+2))"),
                "stopped-4",
            )
            .await;
        let id = shell.id.clone();
        let reply = in_time(client.delete_terminal(&id)).await.unwrap();
        assert!(reply.survivors.is_empty(), "{reply:?}");
        assert_eq!(wait_until_gone(&mark, DEADLINE), Vec::<i32>::new());
        assert_eq!(shell.exit().await, (137, Some("SIGKILL".to_owned())));
        assert_eq!(
            code_of(client.terminal(&id).await),
            ErrorCode::TerminalNotFound
        );
        assert_eq!(
            code_of(client.delete_terminal(&id).await),
            ErrorCode::TerminalNotFound
        );
        assert!(
            client
                .list_terminals(&Page::default())
                .await
                .unwrap()
                .items
                .is_empty()
        );
    }
}

#[tokio::test]
async fn concurrent_creates_of_one_id_make_one_terminal() {
    let agent = Agent::start();
    let client = agent.client();
    let request = named("one", bash());
    let mut creating = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let (client, request) = (client.clone(), request.clone());
        creating.spawn(async move { client.create_terminal(&request).await.unwrap().pid });
    }
    let pids = in_time(creating.join_all()).await;
    assert!(pids.iter().all(|pid| *pid == pids[0]), "{pids:?}");
    assert_eq!(
        client
            .list_terminals(&Page::default())
            .await
            .unwrap()
            .items
            .len(),
        1
    );
    let other = TerminalRequest {
        cols: 81,
        ..request
    };
    let refused = client.create_terminal(&other).await.unwrap_err();
    let problem = refused.problem().unwrap();
    assert_eq!(
        (problem.code, problem.pointer.as_deref()),
        (ErrorCode::IdConflict, Some("/cols"))
    );
}

#[tokio::test]
async fn a_process_and_a_terminal_of_one_name_keep_their_own_output() {
    // Small logs, so that both are in files.
    let agent = Agent::builder().args(["--log-bytes", "1048576"]).start();
    let client = agent.client();
    let mut terminal = Driver::start(
        &client,
        &named("same", command("stty -opost; yes t | head -c 300000")),
    )
    .await;
    let mut process = crate::calls::process_of("yes p | head -c 300000");
    process.id = Some("same".parse().unwrap());
    let id = crate::calls::start(&client, &process).await;
    crate::calls::wait_for_exit(&client, &id).await;
    terminal.exit().await;
    let stdout = sandshell_client::types::StreamName::Stdout;
    assert_eq!(
        crate::calls::follow(&client, &id, stdout).await,
        b"p\n".repeat(150_000)
    );
    let mut again = Driver::connect(
        &client,
        &terminal.id,
        ConnectOptions {
            offset: Some(0),
            ..Default::default()
        },
    )
    .await;
    again.exit().await;
    assert!(again.output == b"t\n".repeat(150_000));
}

#[tokio::test]
async fn the_end_of_the_agent_ends_terminals_and_tells_viewers() {
    let agent = Agent::start();
    let client = agent.client();
    let mark = marker();
    let text = format!("trap '' TERM HUP; echo up; exec -a {mark} sleep 1000");
    let mut driver = Driver::start(&client, &command(&text)).await;
    driver.until_text("up").await;
    let stopping = tokio::task::spawn_blocking(move || agent.stop_gracefully());
    driver.read_on().await;
    assert_eq!(driver.closed.map(|(code, _)| code), Some(1001));
    assert!(in_time(stopping).await.unwrap().success());
    assert_eq!(alive_with_marker(&mark), Vec::<i32>::new());
}

#[tokio::test]
async fn terminals_are_listed_with_their_facts() {
    let agent = Agent::start();
    let client = agent.client();
    create(&client, &named("a", command("exit 1"))).await;
    create(&client, &named("b", bash())).await;
    let list = client.list_terminals(&Page::default()).await.unwrap().items;
    let ids: Vec<&str> = list.iter().map(|record| record.id.as_str()).collect();
    assert_eq!(ids, ["a", "b"]);
    assert_eq!(list[0].command.as_deref(), Some("exit 1"));
    assert_eq!(list[1].argv.as_ref().unwrap()[0], "bash");
    assert_eq!((list[1].cols, list[1].rows), (80, 24));
    let mut ended = Driver::connect(&client, &list[0].id, ConnectOptions::default()).await;
    assert_eq!(ended.exit().await.0, 1);
}
