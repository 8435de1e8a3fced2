//! Reading a log: caps, offsets, resumed events, followers.

use bytes::Bytes;
use sandshell_client::types::{ErrorCode, ProcessRequest, StreamName, WaitRequest};
use sandshell_client::{EventQuery, OutputQuery, SseParser};
use sandshell_testkit::Agent;

use crate::calls::{Heard, in_time, plain_bash, process_of, start, wait_for_exit, wait_for_text};

/// The smallest cap there is; a smaller one is taken as this.
const CAP: u64 = 1 << 20;

#[tokio::test]
async fn what_the_log_cap_dropped_is_named_and_the_rest_is_exact() {
    let agent = Agent::start();
    let client = agent.client();
    let command = "seq 1 400000";
    let whole = plain_bash(command).stdout;
    let request = ProcessRequest {
        max_output_bytes: Some(CAP),
        ..process_of(command)
    };
    let id = start(&client, &request).await;
    wait_for_exit(&client, &id).await;
    let first_kept = async || {
        let gone = client
            .process_output(&id, OutputQuery::all(StreamName::Stdout))
            .await;
        let gone = gone.expect_err("the beginning is no longer there");
        assert_eq!(
            (gone.status(), gone.code()),
            (Some(410), Some(ErrorCode::OffsetGone))
        );
        gone.problem().unwrap().first_offset.unwrap()
    };
    let (first, rest, heard) = loop {
        let first = first_kept().await;
        let query = OutputQuery {
            offset: first,
            ..OutputQuery::all(StreamName::Stdout)
        };
        let rest = match client.process_output(&id, query).await {
            Ok(stream) => stream.read_to_end().await,
            Err(moved) => Err(moved),
        };
        let mut events = client
            .process_events(&id, EventQuery::default())
            .await
            .unwrap();
        let mut heard = Heard::default();
        heard.until_the_end(&mut events).await;
        // The end of a log is written to disk after the exit, and more may be cut then. What was read
        // while nothing moved must agree.
        if first_kept().await == first {
            break (first, rest.unwrap(), heard);
        }
    };
    let kept = whole.len() as u64 - first;
    assert!((1..=CAP).contains(&kept), "{kept} bytes are kept");
    assert!(*rest == whole[first as usize..]);
    let dropped: u64 = heard.truncated.iter().map(|gone| gone.bytes).sum();
    assert_eq!(
        (dropped, heard.first[0]),
        (first, Some(first)),
        "{:?}",
        heard.truncated
    );
    assert!(heard.stdout == whole[first as usize..]);
    assert_eq!(
        client.process(&id).await.unwrap().stdout_bytes,
        whole.len() as u64
    );
}

#[tokio::test]
async fn a_read_goes_on_at_any_offset() {
    let agent = Agent::start();
    let client = agent.client();
    let id = start(
        &client,
        &process_of("printf 0123456789; read x; printf abc"),
    )
    .await;
    wait_for_exit(&client, &id).await;
    for offset in 0..=13 {
        let query = OutputQuery {
            offset,
            ..OutputQuery::follow(StreamName::Stdout)
        };
        let rest = client
            .process_output(&id, query)
            .await
            .unwrap()
            .read_to_end()
            .await
            .unwrap();
        assert_eq!(*rest, b"0123456789abc"[offset as usize..]);
    }
    let query = OutputQuery {
        offset: 14,
        ..OutputQuery::all(StreamName::Stdout)
    };
    let beyond = client
        .process_output(&id, query)
        .await
        .expect_err("beyond the end");
    assert_eq!(beyond.code(), Some(ErrorCode::InvalidRequest));
}

#[tokio::test]
async fn events_resume_after_a_drop_without_loss() {
    let agent = Agent::start();
    let client = agent.client();
    let command = "for i in {1..3000}; do echo out $i; echo err $i >&2; done";
    let plain = plain_bash(command);
    let id = start(&client, &process_of(command)).await;
    let mut heard = Heard::default();
    let mut connections = 0;
    // Three events from each connection, resumed by `?from=`.
    while heard.exit.is_none() {
        let query = EventQuery {
            from: heard.last_id,
            follow: None,
        };
        let mut events = client.process_events(&id, query).await.unwrap();
        for _ in 0..3 {
            if !heard.next(&mut events).await {
                break;
            }
        }
        connections += 1;
    }
    assert!(connections > 1);
    assert!(heard.stdout == plain.stdout && heard.stderr == plain.stderr);
}

#[tokio::test]
async fn the_last_event_id_header_resumes_where_it_says() {
    let agent = Agent::start();
    let client = agent.client();
    let id = start(&client, &process_of("echo one; echo two >&2; echo three")).await;
    wait_for_exit(&client, &id).await;
    let path = format!("/v1/processes/{id}/output");
    let read = async |last: Option<String>| {
        let mut headers = http::HeaderMap::new();
        headers.insert("accept", "text/event-stream".parse().unwrap());
        if let Some(last) = last {
            headers.insert("last-event-id", last.parse().unwrap());
        }
        let (status, _, body) = client
            .raw(http::Method::GET, &path, &headers, Bytes::new())
            .await
            .unwrap();
        assert_eq!(status, 200);
        let mut parser = SseParser::new();
        parser.push(&body);
        std::iter::from_fn(|| parser.next_event()).collect::<Vec<_>>()
    };
    let all = read(None).await;
    assert_eq!(all.last().unwrap().event, "exit");
    for (n, event) in all
        .iter()
        .enumerate()
        .filter(|(_, event)| event.event == "output")
    {
        assert!(event.id.is_some(), "{event:?}");
        assert_eq!(
            read(event.id.clone()).await,
            all[n + 1..],
            "after {event:?}"
        );
    }
}

#[tokio::test]
async fn a_follower_hears_output_while_the_process_runs() {
    let agent = Agent::start();
    let client = agent.client();
    let request = ProcessRequest {
        stdin_open: true,
        ..process_of("echo first; read x; echo $x")
    };
    let id = start(&client, &request).await;
    let mut raw = client
        .process_output(&id, OutputQuery::follow(StreamName::Stdout))
        .await
        .unwrap();
    assert_eq!(*in_time(raw.next()).await.unwrap().unwrap(), *b"first\n");
    client.write_stdin(&id, Some(0), "second\n").await.unwrap();
    assert_eq!(*in_time(raw.next()).await.unwrap().unwrap(), *b"second\n");
    assert!(in_time(raw.next()).await.is_none());
    // Without `follow` a read ends at what there is.
    let request = ProcessRequest {
        stdin_open: true,
        ..process_of("echo now; read x")
    };
    let id = start(&client, &request).await;
    wait_for_text(&client, &id, "now").await;
    let body = client
        .process_output(&id, OutputQuery::all(StreamName::Stdout))
        .await
        .unwrap();
    assert_eq!(*in_time(body.read_to_end()).await.unwrap(), *b"now\n");
    assert_eq!(
        client
            .wait_process(
                &id,
                &WaitRequest {
                    timeout_ms: Some(0),
                    ..Default::default()
                }
            )
            .await
            .unwrap()
            .process
            .exit_code,
        None
    );
}
