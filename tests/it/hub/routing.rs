//! The way to a sandbox's agent: streams, sockets, bodies and clients that go away.

use bytes::Bytes;
use http::{HeaderMap, Method};
use sandshell_client::types::{
    ErrorCode, ExecRequest, OnDisconnect, ProcessId, ProcessRequest, StreamName, TerminalRequest,
};
use sandshell_client::{
    ConnectOptions, EventQuery, FileQuery, OutputQuery, OutputStreamEvent, ReadOptions,
    TerminalEvent, WriteOptions,
};
use sandshell_testkit::{Hub, open_fds, wait_until_gone};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{get, id_of, raw, sandbox};
use crate::calls::{
    DEADLINE, code_of, exec, exec_of, in_time, marker, process_of, start, wait_for_text,
};

/// A process whose input stays open.
fn interactive(command: &str) -> ProcessRequest {
    ProcessRequest {
        stdin_open: true,
        ..process_of(command)
    }
}

#[tokio::test]
async fn requests_pass_with_their_id_and_answers_as_they_are() {
    let hub = Hub::start();
    let client = hub.client();
    let inside = sandbox(&client, "a").await;
    let headers: HeaderMap = [("x-request-id", "mine-1")]
        .iter()
        .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
        .collect();
    let path = "/v1/sandboxes/a/processes/none";
    let (status, head, body) = in_time(client.raw(Method::GET, path, &headers, ""))
        .await
        .unwrap();
    assert_eq!(
        (status.as_u16(), &head["x-request-id"]),
        (404, &"mine-1".parse().unwrap())
    );
    let problem: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(problem["code"], "process_not_found");
    assert_eq!(problem["request_id"], "mine-1");
    assert_eq!(head.get_all("x-request-id").iter().count(), 1);
    // The agent's own refusals keep their pointers.
    let (status, problem) = raw(
        &client,
        Method::POST,
        "/v1/sandboxes/a/exec",
        r#"{"comand":1}"#,
    )
    .await;
    assert_eq!((status, &problem["pointer"]), (400, &"/comand".into()));
    let (status, _) = raw(&client, Method::GET, "/v1/sandboxes/a/nothing", "").await;
    assert_eq!(status, 404);
    // A key reaches the agent: the command runs once.
    let keyed = inside.idempotent("k").unwrap();
    for _ in 0..3 {
        let count = in_time(keyed.exec(&exec_of("echo x >> /tmp/$PPID.count; echo done"))).await;
        assert_eq!(count.unwrap().stdout, "done\n");
    }
    // Neither the token nor what we add reaches a command.
    let environment = exec(&inside, "cat /proc/self/environ").await.stdout;
    assert!(!environment.contains(hub.token()));
}

#[tokio::test]
async fn streams_are_live_and_resume() {
    let hub = Hub::start();
    let inside = sandbox(&hub.client(), "a").await;
    let id = start(
        &inside,
        &interactive("echo one; read x; echo two; sleep 600"),
    )
    .await;
    let query = EventQuery {
        from: None,
        follow: Some(true),
    };
    let mut events = in_time(inside.process_events(&id, query)).await.unwrap();
    let first = in_time(events.next()).await.unwrap().unwrap();
    // It arrives while the process runs.
    let OutputStreamEvent::Output(output) = &first.event else {
        panic!("{first:?}")
    };
    assert_eq!(output.data, "one\n");
    drop(events);
    let query = EventQuery {
        from: first.id,
        follow: Some(true),
    };
    let mut rest = in_time(inside.process_events(&id, query)).await.unwrap();
    in_time(inside.write_stdin(&id, Some(0), Bytes::from_static(b"x\n")))
        .await
        .unwrap();
    let second = in_time(rest.next()).await.unwrap().unwrap();
    assert!(
        matches!(&second.event, OutputStreamEvent::Output(output) if output.data == "two\n"),
        "{second:?}"
    );
}

#[tokio::test]
async fn large_bodies_pass_whole_both_ways() {
    let hub = Hub::start();
    let inside = sandbox(&hub.client(), "a").await;
    let bytes: Bytes = (0..32 << 20_u32).map(|n: u32| (n % 251) as u8).collect();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("big").to_str().unwrap().to_owned();
    let query = FileQuery::new(&path);
    in_time(inside.write_file(&query, &WriteOptions::default(), bytes.clone()))
        .await
        .unwrap();
    let read = in_time(inside.read_file(&query, &ReadOptions::default()))
        .await
        .unwrap();
    let read = in_time(read.bytes.read_to_end()).await.unwrap();
    assert_eq!(Sha256::digest(&read), Sha256::digest(&bytes));
}

#[tokio::test]
async fn a_client_that_goes_away_takes_its_request_with_it() {
    let hub = Hub::start();
    let inside = sandbox(&hub.client(), "a").await;
    let mark = marker();
    let request = ExecRequest {
        id: Some("long".parse().unwrap()),
        on_disconnect: OnDisconnect::Kill,
        ..exec_of(&format!("echo up; exec -a {mark} sleep 600"))
    };
    let waiting = inside.exec(&request);
    let other = hub.client().sandbox(&id_of("a"));
    let id: ProcessId = "long".parse().unwrap();
    tokio::select! {
        ended = waiting => panic!("{ended:?}"),
        () = in_time(async {
            // The record is there once the command runs.
            while other.process(&id).await.is_err() {
                tokio::task::yield_now().await;
            }
            wait_for_text(&other, &id, "up").await;
        }) => {}
    }
    let left = tokio::task::spawn_blocking(move || wait_until_gone(&mark, DEADLINE));
    assert!(left.await.unwrap().is_empty());
    assert_eq!(
        get(&hub.client(), "a").await.state,
        sandshell_client::types::SandboxState::Ready
    );
}

#[tokio::test]
async fn terminals_work_through_the_hub() {
    let hub = Hub::start();
    let inside = sandbox(&hub.client(), "a").await;
    let request = TerminalRequest {
        argv: Some(vec!["cat".to_owned()]),
        ..TerminalRequest::default()
    };
    let terminal = in_time(inside.create_terminal(&request)).await.unwrap();
    let connected = inside.connect_terminal(&terminal.id, ConnectOptions::default());
    let mut connection = in_time(connected).await.unwrap();
    in_time(connection.type_in("through\n")).await.unwrap();
    let mut seen = Vec::new();
    let echoed = async {
        while !String::from_utf8_lossy(&seen).contains("through\r\nthrough") {
            if let TerminalEvent::Bytes(bytes) = connection.next().await.unwrap().unwrap() {
                seen.extend_from_slice(&bytes);
            }
        }
    };
    in_time(echoed).await;
}

/// More streams than an agent takes connections from strangers, and nobody reads them meanwhile.
#[tokio::test]
async fn many_streams_are_open_at_once() {
    const STREAMS: usize = 1500;
    let hub = Hub::start();
    let client = hub.client();
    let inside = sandbox(&client, "a").await;
    let id = start(&inside, &interactive("echo up; read x; echo down")).await;
    wait_for_text(&inside, &id, "up").await;
    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        let stream = inside.process_output(&id, OutputQuery::follow(StreamName::Stdout));
        streams.push(in_time(stream).await.unwrap());
    }
    // All are open at once, and others still get through.
    assert_eq!(exec(&inside, "echo through").await.stdout, "through\n");
    in_time(inside.write_stdin(&id, Some(0), Bytes::from_static(b"x\n")))
        .await
        .unwrap();
    for stream in streams {
        let bytes = in_time(stream.read_to_end()).await.unwrap();
        assert_eq!(&bytes[..], b"up\ndown\n");
    }
    // Closed connections are let go of.
    inside.close_idle();
    let settled = async {
        while open_fds(hub.pid()) > 200 {
            tokio::task::yield_now().await;
        }
    };
    in_time(settled).await;
}

#[tokio::test]
async fn a_sandbox_that_does_not_answer_is_no_mystery() {
    let hub = Hub::start();
    let client = hub.client();
    let inside = sandbox(&client, "a").await;
    let place = std::fs::read_dir(hub.state_dir().join("sandboxes")).unwrap();
    let place = place.flatten().next().unwrap().path();
    std::fs::rename(place.join("agent.sock"), place.join("moved.sock")).unwrap();
    assert_eq!(
        code_of(in_time(inside.exec(&exec_of("true"))).await),
        ErrorCode::SandboxUnreachable
    );
    std::fs::rename(place.join("moved.sock"), place.join("agent.sock")).unwrap();
    assert_eq!(exec(&inside, "echo back").await.stdout, "back\n");
}

/// Whoever waits for a command of a sandbox that is destroyed hears that it is gone, and why.
#[tokio::test]
async fn a_request_in_a_sandbox_that_is_destroyed_hears_of_it() {
    let hub = Hub::start();
    let client = hub.client();
    let inside = sandbox(&client, "a").await;
    let request = ExecRequest {
        id: Some("long".parse().unwrap()),
        ..exec_of("echo up; exec sleep 600")
    };
    let id: ProcessId = "long".parse().unwrap();
    let other = client.sandbox(&id_of("a"));
    let destroyed = async {
        while other.process(&id).await.is_err() {
            tokio::task::yield_now().await;
        }
        wait_for_text(&other, &id, "up").await;
        client.destroy_sandbox(&id_of("a")).await.unwrap();
    };
    let both = Box::pin(async { tokio::join!(inside.exec(&request), destroyed) });
    let (waited, ()) = in_time(both).await;
    let error = waited.unwrap_err();
    assert_eq!(
        (error.status(), error.code()),
        (Some(410), Some(ErrorCode::SandboxGone))
    );
    assert!(
        error.to_string().contains("destroyed on request"),
        "{error}"
    );
}

/// It was said that the sandbox cannot be reached, and may have done what was asked.
#[tokio::test]
async fn a_broken_body_is_its_senders_fault() {
    let hub = Hub::start();
    let client = hub.client();
    sandbox(&client, "broken").await;
    let address = hub.url().trim_start_matches("http://").to_owned();
    for (method, route, framing, body) in [
        ("POST", "exec", "transfer-encoding: chunked", "zz\r\n{}"),
        ("POST", "exec", "content-length: 100", "{\"command\""),
        (
            "PUT",
            "files/content?path=a",
            "transfer-encoding: chunked",
            "zz\r\n{}",
        ),
        (
            "PUT",
            "files/content?path=a",
            "content-length: 100",
            "{\"command\"",
        ),
    ] {
        let mut stream = tokio::net::TcpStream::connect(&address).await.unwrap();
        let head = format!(
            "{method} /v1/sandboxes/broken/{route} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\n{framing}\r\n\r\n{body}",
            hub.token()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = String::new();
        in_time(stream.read_to_string(&mut answer)).await.unwrap();
        let expected = answer.starts_with("HTTP/1.1 400") && answer.contains("invalid_request");
        assert!(expected, "{method} {route} {framing}: {answer}");
    }
}
