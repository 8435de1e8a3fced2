//! Without a group, a tree hangs on its keeper, which a program of the same user can signal. Whatever
//! it does to it, every call gets its answer and nothing stays alive.

use sandshell_client::types::{
    ContextRequest, ErrorCode, ExecRequest, KernelChoice, Language, ProcessState, RunRequest,
    TerminalRequest, TerminalState,
};
use sandshell_client::{Client, ConnectOptions};
use sandshell_testkit::{Agent, alive_with_marker, wait_until_gone};

use crate::calls::{
    DEADLINE, Shell, code_of, env, exec, exec_of, in_time, marker, process_of, start,
    wait_for_exit, wait_for_text,
};

use super::kill;

/// With a PID namespace init is its PID 1, without it is a subreaper.
const FALLBACKS: [&str; 2] = ["cgroup", "cgroup,pid-namespace"];

/// Leaves children of each kind behind, then ends its own keeper.
const TREE_THEN_KILL: &str = "trap '' TERM; sleep 1000 & setsid sleep 1000 & \
     (setsid bash -c 'sleep 1000; :' &) ; kill -9 $PPID; sleep 1000; exit 4";

fn agent_without(parts: &str) -> Agent {
    Agent::builder().args(["--without", parts]).start()
}

fn assert_gone(marker: &str, what: &str) {
    assert_eq!(alive_with_marker(marker), Vec::<i32>::new(), "{what}");
}

/// Other trees, before and after, are not touched.
async fn assert_well(client: &Client) {
    let result = exec(client, "echo well").await;
    assert_eq!((result.exit_code, result.stdout.as_str()), (0, "well\n"));
}

#[tokio::test]
async fn an_exec_that_kills_its_keeper_is_answered() {
    for without in FALLBACKS {
        let agent = agent_without(without);
        let client = agent.client();
        let bystander = start(&client, &process_of("echo up; sleep 1000; :")).await;
        wait_for_text(&client, &bystander, "up").await;
        for command in ["kill -9 $PPID; exit 4", TREE_THEN_KILL] {
            let marker = marker();
            let request = ExecRequest {
                timeout_ms: Some(140_000),
                env: env(&[("MARKER", Some(&marker))]),
                ..exec_of(command)
            };
            let result = in_time(client.exec(&request)).await.unwrap();
            assert_gone(&marker, without);
            assert_eq!(
                (result.exit_code, result.timed_out, result.left_running),
                (137, false, 0),
                "{without}: {result:?}"
            );
        }
        assert_well(&client).await;
        let record = client.process(&bystander).await.unwrap();
        assert_eq!(record.state, ProcessState::Running, "{without}");
    }
}

#[tokio::test]
async fn a_process_that_kills_its_keeper_has_ended() {
    for without in FALLBACKS {
        let agent = agent_without(without);
        let client = agent.client();
        let marker = marker();
        let mut request = process_of(TREE_THEN_KILL);
        request.env = env(&[("MARKER", Some(&marker))]);
        let id = start(&client, &request).await;
        let record = wait_for_exit(&client, &id).await.process;
        assert_gone(&marker, without);
        assert_eq!(record.state, ProcessState::Exited);
        assert_eq!(record.signal.as_deref(), Some("SIGKILL"), "{without}");
        assert_eq!(kill(&client, &id, 0).await.method, "already_ended");
        in_time(client.delete_process(&id)).await.unwrap();
        assert_eq!(
            code_of(client.process(&id).await),
            ErrorCode::ProcessNotFound
        );
        // A kill that may meet the loss of the keeper at any point.
        for _ in 0..20 {
            let id = start(&client, &request).await;
            kill(&client, &id, 0).await;
            let record = wait_for_exit(&client, &id).await.process;
            assert_eq!(record.signal.as_deref(), Some("SIGKILL"), "{without}");
            assert_gone(&marker, without);
        }
        assert_well(&client).await;
    }
}

#[tokio::test]
async fn what_an_ended_process_left_behind_dies_with_its_keeper() {
    for without in FALLBACKS {
        let agent = agent_without(without);
        let client = agent.client();
        let marker = marker();
        let mut request = process_of(
            "exec 3< <(setsid bash -c 'echo up; sleep 1000; :'); read -u 3; echo $PPID >$F; exit 3",
        );
        let file = agent.work_dir().join("keeper");
        let path = file.display().to_string();
        request.env = env(&[("MARKER", Some(&marker)), ("F", Some(&path))]);
        let id = start(&client, &request).await;
        assert_eq!(wait_for_exit(&client, &id).await.process.exit_code, Some(3));
        assert!(!alive_with_marker(&marker).is_empty(), "{without}");
        let keeper = std::fs::read_to_string(&file).unwrap();
        let killer = format!("kill -9 {keeper}");
        assert_eq!(exec(&client, &killer).await.exit_code, 0, "{killer}");
        let left = wait_until_gone(&marker, DEADLINE);
        assert_eq!(left, Vec::<i32>::new(), "{without}");
        let record = client.process(&id).await.unwrap();
        assert_eq!(record.exit_code, Some(3), "the end of the process stands");
    }
}

#[tokio::test]
async fn a_session_whose_keeper_is_killed_goes_on() {
    for without in FALLBACKS {
        let agent = agent_without(without);
        let shell = Shell::new(&agent).await;
        let marker = marker();
        shell.out(&format!("export MARKER={marker}; cd /usr")).await;
        let result = shell.run(TREE_THEN_KILL).await;
        assert_gone(&marker, without);
        assert_eq!(result.exit_code, 137, "{without}: {result:?}");
        // What the shell waits for may die before it does, and then it saves its state on its way out.
        let state = result.session_state.as_str();
        assert!(
            ["restored_before", "restored"].contains(&state),
            "{without}: {result:?}"
        );
        assert_eq!(shell.out("pwd").await, "/usr\n");
        in_time(shell.client.delete_session(&shell.id))
            .await
            .unwrap();
        assert_gone(&marker, without);
    }
}

#[tokio::test]
async fn a_terminal_that_kills_its_keeper_has_ended() {
    for without in FALLBACKS {
        let agent = agent_without(without);
        let client = agent.client();
        for _ in 0..10 {
            let marker = marker();
            let request = TerminalRequest {
                argv: Some(["bash", "-c", TREE_THEN_KILL].map(str::to_owned).to_vec()),
                env: env(&[("MARKER", Some(&marker))]),
                ..Default::default()
            };
            let id = in_time(client.create_terminal(&request)).await.unwrap().id;
            let connecting = client.connect_terminal(&id, ConnectOptions::default());
            let mut connection = in_time(connecting).await.unwrap();
            while let Ok(Some(_)) = in_time(connection.next()).await {}
            let record = client.terminal(&id).await.unwrap();
            assert_eq!(record.state, TerminalState::Exited, "{without}");
            in_time(client.delete_terminal(&id)).await.unwrap();
            assert_gone(&marker, without);
        }
        assert_well(&client).await;
    }
}

#[tokio::test]
async fn a_context_that_kills_its_keeper_answers() {
    for without in FALLBACKS {
        let agent = agent_without(without);
        let client = agent.client();
        let marker = marker();
        let request = ContextRequest {
            id: None,
            language: Language::Bash,
            cwd: None,
            env: env(&[("MARKER", Some(&marker))]),
            user: None,
            session: None,
            timeout_ms: None,
            idle_timeout_ms: None,
            kernel: KernelChoice::Builtin,
        };
        let id = in_time(client.create_context(&request)).await.unwrap().id;
        let request = RunRequest {
            code: TREE_THEN_KILL.to_owned(),
            ..Default::default()
        };
        let reply = in_time(client.run_code(&id, &request)).await.unwrap();
        assert!(reply.error.is_some(), "{without}: {reply:?}");
        in_time(client.delete_context(&id)).await.unwrap();
        assert_gone(&marker, without);
    }
}

#[tokio::test]
async fn a_stopped_keeper_goes_on() {
    for without in FALLBACKS {
        let agent = agent_without(without);
        let client = agent.client();
        let result = exec(&client, "kill -STOP $PPID; exit 4").await;
        assert_eq!(result.exit_code, 4, "{without}: {result:?}");
        assert_well(&client).await;
    }
}

/// Keepers die at every moment of their lives, before they could report the start too.
#[tokio::test]
async fn every_call_is_answered_while_keepers_are_hunted() {
    let agent = agent_without("cgroup");
    let client = agent.client();
    let hunter = process_of(
        "echo up; while :; do for k in $(</proc/1/task/1/children); do \
         [ $k = $PPID ] || kill -9 $k; done; done 2>/dev/null",
    );
    let hunter = start(&client, &hunter).await;
    wait_for_text(&client, &hunter, "up").await;
    let marker = marker();
    let request = ExecRequest {
        argv: Some(["sleep", "1000"].map(str::to_owned).to_vec()),
        env: env(&[("MARKER", Some(&marker))]),
        ..Default::default()
    };
    for _ in 0..100 {
        let result = in_time(client.exec(&request)).await.unwrap();
        assert_eq!(result.exit_code, 137, "{result:?}");
    }
    kill(&client, &hunter, 0).await;
    assert_gone(&marker, "after the hunt");
    assert_well(&client).await;
}
