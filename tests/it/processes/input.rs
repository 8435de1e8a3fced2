//! Standard input: in order, each byte once, and its end.

use sandshell_client::types::{ErrorCode, ProcessRequest, StreamName};
use sandshell_testkit::Agent;

use crate::calls::{code_of, follow, in_time, process_of, start, wait_for_exit, wait_for_text};

use super::with_input;

#[tokio::test]
async fn input_is_streamed_by_offset_and_retries_do_not_double_it() {
    let agent = Agent::start();
    let client = agent.client();
    let id = start(&client, &with_input("cat")).await;
    assert_eq!(
        client
            .write_stdin(&id, Some(0), "hello ")
            .await
            .unwrap()
            .offset,
        6
    );
    assert_eq!(
        client
            .write_stdin(&id, Some(0), "hello ")
            .await
            .unwrap()
            .offset,
        6
    );
    assert_eq!(
        client
            .write_stdin(&id, Some(3), "lo world")
            .await
            .unwrap()
            .offset,
        11
    );
    assert_eq!(client.write_stdin(&id, None, "!").await.unwrap().offset, 12);
    let gap = client
        .write_stdin(&id, Some(13), "x")
        .await
        .expect_err("a gap");
    assert_eq!(
        (gap.status(), gap.code()),
        (Some(409), Some(ErrorCode::StdinOffset))
    );
    assert_eq!(gap.problem().unwrap().expected_offset, Some(12));
    wait_for_text(&client, &id, "hello world!").await;
    client.close_stdin(&id).await.unwrap();
    assert_eq!(wait_for_exit(&client, &id).await.process.exit_code, Some(0));
    assert_eq!(
        follow(&client, &id, StreamName::Stdout).await,
        b"hello world!"
    );
    assert_eq!(
        code_of(client.write_stdin(&id, None, "x").await),
        ErrorCode::StdinClosed
    );
}

#[tokio::test]
async fn a_large_write_that_is_repeated_is_not_doubled_either() {
    let agent = Agent::start();
    let client = agent.client();
    let id = start(&client, &with_input("cat")).await;
    // Far more than one piece of a request body.
    let much: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let len = much.len() as u64;
    assert_eq!(
        in_time(client.write_stdin(&id, Some(0), much.clone()))
            .await
            .unwrap()
            .offset,
        len
    );
    assert_eq!(
        in_time(client.write_stdin(&id, Some(0), much.clone()))
            .await
            .unwrap()
            .offset,
        len
    );
    client.close_stdin(&id).await.unwrap();
    let echoed = follow(&client, &id, StreamName::Stdout).await;
    assert_eq!(echoed.len(), much.len());
    assert!(echoed == much);
}

#[tokio::test]
async fn first_input_comes_before_what_is_written_later() {
    let agent = Agent::start();
    let client = agent.client();
    let request = ProcessRequest {
        stdin: Some("first\n".to_owned()),
        ..with_input("cat")
    };
    let id = start(&client, &request).await;
    wait_for_text(&client, &id, "first").await;
    client.write_stdin(&id, Some(6), "second\n").await.unwrap();
    client.close_stdin(&id).await.unwrap();
    assert_eq!(
        follow(&client, &id, StreamName::Stdout).await,
        b"first\nsecond\n"
    );
    // Without `stdin_open` the first input is all; without either there is none.
    let request = ProcessRequest {
        stdin: Some("x".repeat(1 << 20)),
        ..process_of("wc -c")
    };
    let id = start(&client, &request).await;
    assert_eq!(follow(&client, &id, StreamName::Stdout).await, b"1048576\n");
    let id = start(&client, &process_of("wc -c")).await;
    assert_eq!(follow(&client, &id, StreamName::Stdout).await, b"0\n");
}

#[tokio::test]
async fn writing_to_a_process_that_does_not_read_ends_with_it() {
    let agent = Agent::start();
    let client = agent.client();
    let id = start(&client, &with_input("echo up; sleep 1000")).await;
    let (writer, writes) = (agent.client(), id.clone());
    let blocked =
        tokio::spawn(async move { writer.write_stdin(&writes, Some(0), vec![0; 4 << 20]).await });
    wait_for_text(&client, &id, "up").await;
    in_time(client.kill_process(&id, &sandshell_client::types::KillRequest::default()))
        .await
        .unwrap();
    assert_eq!(
        code_of(in_time(blocked).await.unwrap()),
        ErrorCode::StdinClosed
    );
}
