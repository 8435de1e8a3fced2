//! Promise 3: kill means gone.

mod keepers;
mod signals;

use std::time::Instant;

use sandshell_client::types::{
    ErrorCode, KillReply, KillRequest, ProcessId, ProcessState, RestartMode, RestartPolicy,
};
use sandshell_client::{Client, ProcessFilter};
use sandshell_testkit::{Agent, AgentBuilder, UnprivilegedUser, alive_with_marker};

use crate::calls::{
    DEADLINE, Shell, code_of, in_time, marker, process_of, skipped, start, text, wait_for_exit,
    wait_for_text,
};

/// Each kind 40 times: plain, in a session of its own, double-forked, deaf to TERM, stopped. Each
/// process writes a dot when it is as it is to be; the stopped ones are reported by their parent.
fn tree(marker: &str) -> String {
    format!(
        "m={marker}
        deaf='trap \"\" TERM INT HUP; echo dot; while :; do read -t 1000 <> <(:); done'
        for i in {{1..40}}; do
            bash -c 'echo dot; exec sleep 1000' $m &
            setsid bash -c 'echo dot; exec sleep 1000' $m &
            (setsid bash -c '(bash -c \"echo dot; exec sleep 1000\" $0 &) ; exit' $m &)
            setsid bash -c \"$deaf\" $m &
            bash -c 'kill -STOP $$; sleep 1000' $m & stopped+=($!)
        done
        for pid in ${{stopped[@]}}; do
            until grep -q '^State:.T' /proc/$pid/status; do :; done; echo dot
        done
        wait; # {marker}"
    )
}

const TREE_SIZE: usize = 200;

async fn start_tree(client: &Client, marker: &str, command: &str) -> ProcessId {
    let mut request = process_of(command);
    // The marker in the environment is what survives every exec.
    request.env = crate::calls::env(&[("MARKER", Some(marker))]);
    let id = start(client, &request).await;
    let dots = format!("(?s)(dot\\s*){{{TREE_SIZE}}}");
    let request = sandshell_client::types::WaitRequest {
        log: Some(sandshell_client::types::LogCondition {
            pattern: dots,
            regex: true,
            stream: None,
        }),
        timeout_ms: Some(140_000),
        ..Default::default()
    };
    let reply = in_time(client.wait_process(&id, &request)).await.unwrap();
    assert!(!reply.timed_out, "the tree did not come up");
    // In the middle of its exec a process has no environment.
    let deadline = Instant::now() + DEADLINE;
    while alive_with_marker(marker).len() < TREE_SIZE {
        assert!(Instant::now() < deadline, "some are gone");
    }
    id
}

async fn kill(client: &Client, id: &ProcessId, grace_ms: u64) -> KillReply {
    let request = KillRequest {
        grace_ms: Some(grace_ms),
    };
    in_time(client.kill_process(id, &request)).await.unwrap()
}

async fn a_tree_is_gone_after_a_kill(agent: AgentBuilder, method: Option<&str>) {
    let agent = agent.start();
    let client = agent.client();
    // Where nobody got a processor within the grace, both signals are there when the root looks; then it gets longer.
    for grace in [0, 200, 3000, 30_000] {
        let marker = marker();
        let id = start_tree(&client, &marker, &tree(&marker)).await;
        let reply = kill(&client, &id, grace).await;
        let alive = alive_with_marker(&marker);
        assert_eq!(alive, Vec::<i32>::new(), "alive after {reply:?}");
        assert_eq!(reply.survivors, []);
        assert!(reply.killed as usize >= TREE_SIZE, "{reply:?}");
        if let Some(method) = method {
            assert_eq!(reply.method, method);
        } else {
            assert!(
                matches!(reply.method.as_str(), "cgroup_kill" | "subreaper_walk"),
                "{reply:?}"
            );
        }
        let record = client.process(&id).await.unwrap();
        assert_eq!(record.state, ProcessState::Exited);
        let signal = record.signal.as_deref().unwrap();
        let possible: &[&str] = match grace {
            0 => &["SIGKILL"],
            30_000 => &["SIGTERM"],
            _ => &["SIGTERM", "SIGKILL"],
        };
        assert!(possible.contains(&signal), "{signal} after {grace} ms");
        // A second kill finds nothing.
        assert_eq!(kill(&client, &id, grace).await.method, "already_ended");
        if signal == "SIGTERM" {
            break;
        }
    }
}

#[tokio::test]
async fn a_tree_is_gone_after_a_kill_by_whatever_there_is() {
    a_tree_is_gone_after_a_kill(Agent::builder(), None).await;
}

#[tokio::test]
async fn a_tree_is_gone_after_a_kill_without_cgroup() {
    let agent = Agent::builder().args(["--without", "cgroup"]);
    a_tree_is_gone_after_a_kill(agent, Some("subreaper_walk")).await;
}

#[tokio::test]
async fn a_tree_is_gone_after_a_kill_without_cgroup_and_pid_namespace() {
    let agent = Agent::builder().args(["--without", "cgroup,pid-namespace"]);
    a_tree_is_gone_after_a_kill(agent, Some("subreaper_walk")).await;
}

#[tokio::test]
async fn a_tree_is_gone_after_a_kill_where_clone3_is_refused() {
    let agent = Agent::builder().args(["--without", "clone3,pid-namespace"]);
    a_tree_is_gone_after_a_kill(agent, Some("subreaper_walk")).await;
}

#[tokio::test]
async fn a_tree_of_an_unprivileged_agent_is_gone_after_a_kill() {
    let Some(user) = UnprivilegedUser::get() else {
        return skipped("this test does not run as root, so there are no rights to give up");
    };
    a_tree_is_gone_after_a_kill(Agent::builder().run_as(user), None).await;
}

#[tokio::test]
async fn a_tree_of_an_unprivileged_agent_without_a_pid_namespace_is_gone_after_a_kill() {
    let Some(user) = UnprivilegedUser::get() else {
        return skipped("this test does not run as root, so there are no rights to give up");
    };
    let agent = Agent::builder()
        .run_as(user)
        .args(["--without", "clone3,pid-namespace"]);
    a_tree_is_gone_after_a_kill(agent, Some("subreaper_walk")).await;
}

#[tokio::test]
async fn a_fork_bomb_is_gone_after_a_kill() {
    let agent = Agent::start();
    let client = agent.client();
    if agent.log().contains("no cgroup for commands") {
        return skipped("there is no cgroup v2 to be written to");
    }
    let marker = marker();
    // Every process makes two and ends, in sessions of their own; a limit on the user's or the
    // machine's behalf is not needed, because a token pipe lets only 250 live at a time.
    let bomb = "mkfifo \"$D/tokens\"; exec 9<>\"$D/tokens\"
        for i in {1..250}; do echo; done >&9
        export B='echo -n x; read -t 20 -u 9 || exit; setsid bash -c \"$B\" & read -t 20 -u 9 || exit; setsid bash -c \"$B\" & wait -n; echo >&9; echo >&9'
        setsid bash -c \"$B\" & setsid bash -c \"$B\" & wait";
    let dir = agent.work_dir().display().to_string();
    let mut request = process_of(bomb);
    request.env = crate::calls::env(&[("MARKER", Some(&marker)), ("D", Some(&dir))]);
    let id = start(&client, &request).await;
    wait_for_text(&client, &id, &"x".repeat(100)).await;
    let reply = kill(&client, &id, 0).await;
    assert_eq!(alive_with_marker(&marker), Vec::<i32>::new(), "{reply:?}");
    assert_eq!(
        (reply.method.as_str(), reply.survivors.len()),
        ("cgroup_kill", 0)
    );
}

#[tokio::test]
async fn grace_lets_a_process_end_by_itself() {
    let agent = Agent::start();
    let client = agent.client();
    let id = start(
        &client,
        &process_of(
            // Bash runs a trap between commands: one that comes just before a long read would wait for it.
            "trap 'echo bye; exit 7' TERM; echo up; while :; do read -t 0.1 <> <(:); done",
        ),
    )
    .await;
    wait_for_text(&client, &id, "up").await;
    // Far longer than the deadline: an answer at all says that it is not waited out.
    let reply = kill(&client, &id, 600_000).await;
    assert_eq!((reply.method.as_str(), reply.survivors.len()), ("term", 0));
    let record = wait_for_exit(&client, &id).await.process;
    assert_eq!((record.exit_code, record.signal), (Some(7), None));
    wait_for_text(&client, &id, "bye").await;
}

#[tokio::test]
async fn a_kill_reaches_what_an_ended_process_left_behind() {
    for without in [None, Some("cgroup"), Some("cgroup,pid-namespace")] {
        let agent = without
            .map_or(Agent::builder(), |parts| {
                Agent::builder().args(["--without", parts])
            })
            .start();
        let client = agent.client();
        let marker = marker();
        // It ends only after its child has come up, and leaves that child behind.
        let command = "exec 3< <(setsid bash -c 'echo up; sleep 1000; :'); read -u 3; exit 3";
        let mut request = process_of(command);
        request.env = crate::calls::env(&[("MARKER", Some(&marker))]);
        let id = start(&client, &request).await;
        assert_eq!(wait_for_exit(&client, &id).await.process.exit_code, Some(3));
        assert!(!alive_with_marker(&marker).is_empty(), "{without:?}");
        let reply = kill(&client, &id, 0).await;
        assert_eq!(
            alive_with_marker(&marker),
            Vec::<i32>::new(),
            "{without:?}: {reply:?}"
        );
        assert!(reply.killed >= 1 && reply.survivors.is_empty(), "{reply:?}");
        let record = client.process(&id).await.unwrap();
        assert_eq!(
            record.exit_code,
            Some(3),
            "the end of the process itself stands"
        );
    }
}

#[tokio::test]
async fn a_kill_reaches_what_earlier_runs_of_a_restarted_process_left_behind() {
    let agent = Agent::start();
    let client = agent.client();
    let marker = marker();
    let mut request =
        process_of("setsid sleep 1000 & echo run; [ -e $F ] && exec sleep 1000; >$F; exit 1");
    let file = agent.work_dir().join("ran").display().to_string();
    request.env = crate::calls::env(&[("MARKER", Some(&marker)), ("F", Some(&file))]);
    request.restart = Some(RestartPolicy {
        mode: RestartMode::Always,
        backoff_ms: Some(1),
        max_restarts: None,
    });
    let id = start(&client, &request).await;
    let request = sandshell_client::types::WaitRequest {
        log: Some(sandshell_client::types::LogCondition {
            pattern: "run\nrun".to_owned(),
            ..Default::default()
        }),
        ..Default::default()
    };
    in_time(client.wait_process(&id, &request)).await.unwrap();
    let reply = kill(&client, &id, 0).await;
    let alive = alive_with_marker(&marker);
    assert_eq!(alive, Vec::<i32>::new(), "{reply:?}");
}

#[tokio::test]
async fn a_kill_that_meets_a_restart_ends_it_too() {
    let agent = Agent::start();
    let client = agent.client();
    for _ in 0..30 {
        let marker = marker();
        // Ends at once three times, then stays.
        let mut request = process_of("echo x >>$F; [ $(wc -l <$F) -gt 3 ] && exec sleep 1000");
        let file = agent.work_dir().join(&marker).display().to_string();
        request.env = crate::calls::env(&[("MARKER", Some(&marker)), ("F", Some(&file))]);
        request.restart = Some(RestartPolicy {
            mode: RestartMode::Always,
            backoff_ms: Some(1),
            max_restarts: None,
        });
        let id = start(&client, &request).await;
        let reply = kill(&client, &id, 0).await;
        assert_eq!(
            client.process(&id).await.unwrap().state,
            ProcessState::Exited
        );
        assert_eq!(alive_with_marker(&marker), Vec::<i32>::new(), "{reply:?}");
    }
}

#[tokio::test]
async fn delete_kills_and_forgets() {
    let agent = Agent::start();
    let client = agent.client();
    let marker = marker();
    let id = start_tree(&client, &marker, &tree(&marker)).await;
    in_time(client.delete_process(&id)).await.unwrap();
    assert_eq!(alive_with_marker(&marker), Vec::<i32>::new());
    assert_eq!(
        code_of(client.process(&id).await),
        ErrorCode::ProcessNotFound
    );
    let list = client
        .list_processes(&ProcessFilter::default())
        .await
        .unwrap();
    assert_eq!(list.items, []);
}

#[tokio::test]
async fn the_end_of_a_session_is_the_end_of_all_it_started() {
    for without in [None, Some("cgroup"), Some("cgroup,pid-namespace")] {
        let agent = without
            .map_or(Agent::builder(), |parts| {
                Agent::builder().args(["--without", parts])
            })
            .start();
        let shell = Shell::new(&agent).await;
        let marker = marker();
        shell.out(&format!("export MARKER={marker}")).await;
        let command =
            "for i in 1 2 3; do sleep 1000 & setsid sleep 1000 & (setsid sleep 1000 &); done";
        shell.out(command).await;
        // What a replaced shell left behind belongs to the session too.
        let result = shell
            .run("(trap '' TERM; sleep 1000) & disown; exit 4")
            .await;
        assert_eq!(
            (result.exit_code, result.session_state.as_str()),
            (4, "restored")
        );
        shell.out("sleep 1000 &").await;
        in_time(shell.client.delete_session(&shell.id))
            .await
            .unwrap();
        assert_eq!(alive_with_marker(&marker), Vec::<i32>::new(), "{without:?}");
        assert_eq!(
            code_of(shell.client.session(&shell.id).await),
            ErrorCode::SessionNotFound
        );
    }
}

#[tokio::test]
async fn deleting_a_busy_session_ends_its_command() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    let marker = marker();
    let mut running = shell
        .go(&format!("MARKER={marker} sleep 1000 | cat; :"))
        .await;
    in_time(shell.client.delete_session(&shell.id))
        .await
        .unwrap();
    assert_eq!(alive_with_marker(&marker), Vec::<i32>::new());
    running.heard.until_the_end(&mut running.events).await;
    let over = shell.client.session_exec(&shell.id, &text("true")).await;
    assert_eq!(code_of(over), ErrorCode::SessionNotFound);
}
