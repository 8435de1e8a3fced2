//! Promise 2: completion is exact.

use std::time::{Duration, Instant};

use sandshell_client::types::StreamName;
use sandshell_client::{EventQuery, OutputQuery};
use sandshell_testkit::{Agent, alive_with_marker};

use crate::calls::{
    Heard, Shell, exec, in_time, marker, plain_bash, process_of, session_bytes_of, start, text,
    wait_for_exit,
};

#[tokio::test]
async fn a_background_child_does_not_delay_an_exec() {
    let agent = Agent::start();
    let client = agent.client();
    let marker = marker();
    // Until it is loaded the child has no marker to be seen.
    let loaded = "until grep -q ^sleep /proc/$!/cmdline; do :; done";
    let command = format!("MARKER={marker} sleep 1000 & {loaded}; echo now");
    let result = exec(&client, &command).await;
    assert_eq!((result.stdout.as_str(), result.left_running), ("now\n", 1));
    let result = exec(&client, "setsid sleep 1000 & (sleep 1000 &) ; echo now").await;
    assert_eq!((result.stdout.as_str(), result.left_running), ("now\n", 2));
    assert_eq!(exec(&client, "echo alone").await.left_running, 0);
    assert_eq!(exec(&client, "echo next").await.stdout, "next\n");
    // Children left behind keep running.
    assert_eq!(alive_with_marker(&marker).len(), 1);
}

#[tokio::test]
async fn late_output_of_an_exec_is_in_its_log_and_not_in_its_result() {
    let agent = Agent::start();
    let client = agent.client();
    let dir = agent.work_dir().display().to_string();
    exec(&client, &format!("mkfifo {dir}/gate {dir}/over")).await;
    // The child says that it has written what it will.
    let child = format!("read x <{dir}/gate; echo late; exec >&- 2>&-; echo x >{dir}/over");
    let result = exec(&client, &format!("({child}) & echo now")).await;
    assert_eq!((result.stdout.as_str(), result.left_running), ("now\n", 1));
    std::fs::write(agent.work_dir().join("gate"), "x\n").unwrap();
    let over = exec(&client, &format!("cat {dir}/over")).await;
    assert_eq!(over.stdout, "x\n");
    let query = OutputQuery::all(StreamName::Stdout);
    let body = client.process_output(&result.id, query).await.unwrap();
    assert_eq!(*in_time(body.read_to_end()).await.unwrap(), *b"now\nlate\n");
    // A kill answers when all of it is gone, so there is nothing for the next one.
    let request = sandshell_client::types::KillRequest::default();
    let kill = || in_time(client.kill_process(&result.id, &request));
    kill().await.unwrap();
    assert_eq!(kill().await.unwrap().method, "already_ended");
}

#[tokio::test]
async fn a_process_ends_when_it_ends_and_its_late_output_stays_in_the_log() {
    let agent = Agent::start();
    let client = agent.client();
    let dir = agent.work_dir().display().to_string();
    exec(&client, &format!("mkfifo {dir}/gate {dir}/over")).await;
    let command = format!(
        "(read x <{dir}/gate; echo late; exec >&- 2>&-; echo x >{dir}/over) & echo now; exit 3"
    );
    let id = start(&client, &process_of(&command)).await;
    let reply = wait_for_exit(&client, &id).await;
    assert_eq!(reply.process.exit_code, Some(3));
    let mut events = client
        .process_events(&id, EventQuery::default())
        .await
        .unwrap();
    let mut heard = Heard::default();
    heard.until_the_end(&mut events).await;
    assert_eq!(heard.stdout, b"now\n");
    std::fs::write(agent.work_dir().join("gate"), "x\n").unwrap();
    exec(&client, &format!("cat {dir}/over")).await;
    in_time(client.kill_process(&id, &sandshell_client::types::KillRequest::default()))
        .await
        .unwrap();
    let query = OutputQuery::follow(StreamName::Stdout);
    let body = client.process_output(&id, query).await.unwrap();
    assert_eq!(*in_time(body.read_to_end()).await.unwrap(), *b"now\nlate\n");
}

#[tokio::test]
async fn a_background_child_does_not_delay_a_session_and_writes_to_the_late_streams_only() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    let dir = agent.work_dir().display().to_string();
    shell.out(&format!("cd {dir}; mkfifo gate")).await;
    let result = shell
        .run("(read x <gate; echo late; echo late err >&2) & echo now")
        .await;
    assert_eq!((result.stdout.as_str(), result.left_running), ("now\n", 2));
    let id = result.command_id;
    for n in 0..20 {
        assert_eq!(shell.out(&format!("echo {n}")).await, format!("{n}\n"));
    }
    std::fs::write(agent.work_dir().join("gate"), "x\n").unwrap();
    assert_eq!(shell.follow(&id, StreamName::LateStdout).await, b"late\n");
    assert_eq!(
        shell.follow(&id, StreamName::LateStderr).await,
        b"late err\n"
    );
    assert_eq!(shell.follow(&id, StreamName::Stdout).await, b"now\n");
    assert_eq!(shell.follow(&id, StreamName::Stderr).await, b"");
    let record = shell.client.command(&shell.id, &id).await.unwrap();
    assert_eq!(
        (record.stdout_bytes, record.stderr_bytes, record.late_bytes),
        (4, 0, 14)
    );
    assert_eq!(shell.out("wait; echo next").await, "next\n");
}

#[tokio::test]
async fn two_generations_of_late_output_stay_apart() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    let dir = agent.work_dir().display().to_string();
    shell.out(&format!("cd {dir}; mkfifo one two")).await;
    let one = shell
        .run("(read x <one; echo first) & echo 1")
        .await
        .command_id;
    let two = shell
        .run("(read x <two; echo second) & echo 2")
        .await
        .command_id;
    std::fs::write(agent.work_dir().join("two"), "x\n").unwrap();
    assert_eq!(
        shell.follow(&two, StreamName::LateStdout).await,
        b"second\n"
    );
    assert_eq!(shell.out("echo between").await, "between\n");
    std::fs::write(agent.work_dir().join("one"), "x\n").unwrap();
    assert_eq!(shell.follow(&one, StreamName::LateStdout).await, b"first\n");
    assert_eq!(shell.follow(&one, StreamName::Stdout).await, b"1\n");
}

#[tokio::test]
async fn a_result_has_all_that_was_written_before_the_end() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    // More than a pipe holds, from a child, right before the end.
    for command in [
        "head -c 300000 /dev/zero; exit 0",
        "seq 30000; seq 30000 >&2",
        "cat /proc/self/maps >/dev/null; seq 20000 | cat",
    ] {
        let plain = plain_bash(command);
        for _ in 0..10 {
            let result = exec(&shell.client, command).await;
            assert!(result.stdout.as_bytes() == plain.stdout, "{command}");
            assert!(result.stderr.as_bytes() == plain.stderr, "{command}");
            let result = shell.ask(&text(command)).await;
            assert!(
                session_bytes_of(&result) == (plain.stdout.clone(), plain.stderr.clone()),
                "{command}"
            );
        }
    }
}

#[tokio::test]
async fn the_result_does_not_wait_for_a_timer() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    let mut seen = Vec::new();
    // A poll of 50 ms anywhere would be in every pair; the machine's own pauses are in few, or come for a while.
    for _ in 0..8 {
        let mut taken = Vec::new();
        for _ in 0..100 {
            let begun = Instant::now();
            shell.run("true").await;
            exec(&shell.client, "true").await;
            taken.push(begun.elapsed());
        }
        taken.sort();
        let usual = taken[taken.len() / 2];
        if usual < Duration::from_millis(40) {
            return;
        }
        seen.push(usual);
    }
    panic!("{seen:?}");
}
