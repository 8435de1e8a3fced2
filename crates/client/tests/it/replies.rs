//! What replies become: values, errors, events.

use http::{HeaderMap, HeaderValue, Method, StatusCode};
use sandshell_client::types::{ErrorCode, SessionExecRequest};
use sandshell_client::{ClientError, EventQuery, OutputStreamEvent};

use crate::scripted::Scripted;

#[tokio::test]
async fn a_problem_keeps_its_particulars() {
    let (server, client) = Scripted::start().await;
    let serve = tokio::spawn(async move {
        let mut peer = server.accept().await;
        peer.request().await;
        let body = r#"{"type":"/problems/process_not_found","title":"t","status":404,
            "code":"process_not_found","detail":"no process web","request_id":"r1"}"#;
        peer.reply("404 Not Found", "application/problem+json", body)
            .await;
        peer.request().await;
        peer.reply("502 Bad Gateway", "text/html", "<h1>proxy</h1>")
            .await;
        peer.request().await;
        peer.reply("200 OK", "text/html", "<h1>hello</h1>").await;
    });
    let id = "web".parse().unwrap();
    let error = client.process(&id).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::ProcessNotFound));
    assert_eq!(error.problem().unwrap().request_id, "r1");
    let error = client.process(&id).await.unwrap_err();
    assert!(matches!(&error, ClientError::Http { status: 502, body } if body.contains("proxy")));
    let error = client.process(&id).await.unwrap_err();
    assert!(matches!(error, ClientError::Protocol { .. }), "{error:?}");
    serve.await.unwrap();
}

#[tokio::test]
async fn a_streamed_exec_gives_typed_events_and_its_connection_back() {
    let (server, client) = Scripted::start().await;
    let serve = tokio::spawn(async move {
        let mut peer = server.accept().await;
        let request = peer.request().await;
        assert!(
            request.starts_with("POST /v1/sessions/work/exec HTTP/1.1\r\n"),
            "{request}"
        );
        assert!(
            request.contains("accept: text/event-stream\r\n"),
            "{request}"
        );
        peer.say("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n")
            .await;
        peer.say("transfer-encoding: chunked\r\n\r\n").await;
        let events = concat!(
            "event: command\ndata: {\"command_id\":\"cmd_7\"}\n\n",
            ": keep-alive\n\n",
            "event: output\nid: 3\ndata: {\"stream\":\"stdout\",\"offset\":0,\"data\":\"hé\",",
            "\"encoding\":\"utf8\",\"at\":\"2026-01-01T00:00:00Z\"}\n\n",
            "event: truncated\nid: 9\ndata: {\"stream\":\"stderr\",\"offset\":0,\"bytes\":6}\n\n",
            "event: exit\ndata: {\"exit_code\":0,\"duration_ms\":2,\"session_state\":\"kept\"}\n\n",
        );
        let bytes = events.as_bytes();
        for piece in bytes.chunks(17) {
            let size = piece.len();
            peer.say(&format!("{size:x}\r\n")).await;
            peer.say_bytes(piece).await;
            peer.say("\r\n").await;
        }
        peer.say("0\r\n\r\n").await;
        peer.request().await;
        peer.reply_health().await;
    });
    let request = SessionExecRequest {
        command: "true".into(),
        ..Default::default()
    };
    let mut events = client
        .session_exec_stream(&"work".parse().unwrap(), &request)
        .await
        .unwrap();
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        seen.push(event.unwrap());
    }
    let ids: Vec<_> = seen.iter().map(|event| event.id).collect();
    assert_eq!(ids, [None, Some(3), Some(9), None]);
    assert_eq!(events.last_id(), Some(9));
    let [started, output, truncated, exit] = &seen[..] else {
        unreachable!("{seen:?}")
    };
    assert!(matches!(&started.event,
        OutputStreamEvent::Started { command_id } if command_id.as_str() == "cmd_7"));
    assert!(matches!(&output.event, OutputStreamEvent::Output(output) if output.data == "hé"));
    assert!(matches!(&truncated.event, OutputStreamEvent::Truncated(gap) if gap.bytes == 6));
    assert!(matches!(&exit.event, OutputStreamEvent::Exit(exit) if exit.exit_code == Some(0)));
    client.healthz().await.unwrap();
    serve.await.unwrap();
}

#[tokio::test]
async fn events_are_refused_when_something_else_comes() {
    let (server, client) = Scripted::start().await;
    let serve = tokio::spawn(async move {
        let mut peer = server.accept().await;
        let request = peer.request().await;
        assert!(
            request.starts_with("GET /v1/processes/p/output?from=12 "),
            "{request}"
        );
        peer.reply("200 OK", "application/octet-stream", "bytes")
            .await;
    });
    let query = EventQuery {
        from: Some(12),
        ..Default::default()
    };
    let error = client
        .process_events(&"p".parse().unwrap(), query)
        .await
        .unwrap_err();
    assert!(matches!(error, ClientError::Protocol { .. }), "{error:?}");
    serve.await.unwrap();
}

#[tokio::test]
async fn raw_sends_what_it_is_told() {
    let (server, client) = Scripted::start().await;
    let serve = tokio::spawn(async move {
        let mut peer = server.accept().await;
        let request = peer.request().await;
        assert!(
            request.starts_with("PUT /v1/%zz?x HTTP/1.1\r\n"),
            "{request}"
        );
        assert!(
            request.contains("authorization: Basic wrong\r\n"),
            "{request}"
        );
        assert!(!request.contains("secret"), "{request}");
        assert!(request.ends_with("\r\n\r\n{broken"), "{request}");
        peer.reply("400 Bad Request", "text/plain", "no").await;
    });
    let headers = HeaderMap::from_iter([(
        http::header::AUTHORIZATION,
        HeaderValue::from_static("Basic wrong"),
    )]);
    let (status, headers, body) = client
        .raw(Method::PUT, "/v1/%zz?x", &headers, "{broken")
        .await
        .unwrap();
    assert_eq!((status, &body[..]), (StatusCode::BAD_REQUEST, &b"no"[..]));
    assert_eq!(headers["content-type"], "text/plain");
    serve.await.unwrap();
}

#[tokio::test]
async fn a_large_reply_arrives_whole() {
    let (server, client) = Scripted::start().await;
    let expected: String = ('a'..='z').cycle().take(3_000_000).collect();
    let body = expected.clone();
    let serve = tokio::spawn(async move {
        let mut peer = server.accept().await;
        peer.request().await;
        peer.reply("200 OK", "text/plain", &body).await;
    });
    let (_, _, body) = client
        .raw(Method::GET, "/x", &HeaderMap::new(), "")
        .await
        .unwrap();
    assert_eq!(body, expected);
    serve.await.unwrap();
}
