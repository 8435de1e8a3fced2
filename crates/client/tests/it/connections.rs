//! Reuse, retries, and the end of connections.

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::task::{Context, Waker};

use sandshell_client::types::{ExecRequest, ForkRequest, StreamName};
use sandshell_client::{Client, ClientError, OutputQuery};

use tokio::task::coop;

use crate::scripted::{DEADLINE, Scripted};

fn exec() -> ExecRequest {
    ExecRequest {
        command: Some("true".into()),
        ..Default::default()
    }
}

#[tokio::test]
async fn one_connection_serves_requests_in_turn() {
    let (server, client) = Scripted::start().await;
    let serve = tokio::spawn(async move {
        let mut peer = server.accept().await;
        for _ in 0..3 {
            let request = peer.request().await;
            assert!(
                request.starts_with("GET /healthz HTTP/1.1\r\n"),
                "{request}"
            );
            assert!(
                request.contains("authorization: Bearer secret\r\n"),
                "{request}"
            );
            peer.reply_health().await;
        }
    });
    for _ in 0..3 {
        assert_eq!(client.healthz().await.unwrap().status, "ok");
    }
    serve.await.unwrap();
}

/// Answers one request, reads the next on the same connection and hangs up without a reply.
async fn stale(server: Scripted) -> (Scripted, String) {
    let mut peer = server.accept().await;
    peer.request().await;
    peer.reply_health().await;
    let lost = peer.request().await;
    drop(peer);
    (server, lost)
}

#[tokio::test]
async fn a_get_is_repeated_on_a_fresh_connection() {
    let (server, client) = Scripted::start().await;
    let serve = tokio::spawn(async move {
        let (server, lost) = stale(server).await;
        let mut peer = server.accept().await;
        assert_eq!(peer.request().await, lost);
        peer.reply_health().await;
    });
    client.healthz().await.unwrap();
    client.healthz().await.unwrap();
    serve.await.unwrap();
}

#[tokio::test]
async fn a_post_with_a_key_is_repeated() {
    let (server, client) = Scripted::start().await;
    let serve = tokio::spawn(async move {
        let (server, lost) = stale(server).await;
        assert!(lost.contains("idempotency-key: k1\r\n"), "{lost}");
        let mut peer = server.accept().await;
        assert_eq!(peer.request().await, lost);
        peer.reply("418 Teapot", "text/plain", "seen").await;
    });
    client.healthz().await.unwrap();
    let error = client
        .idempotent("k1")
        .unwrap()
        .exec(&exec())
        .await
        .unwrap_err();
    assert!(
        matches!(error, ClientError::Http { status: 418, .. }),
        "{error:?}"
    );
    serve.await.unwrap();
}

#[tokio::test]
async fn a_post_without_a_key_is_not_repeated() {
    let (server, client) = Scripted::start().await;
    let serve = tokio::spawn(stale(server));
    client.healthz().await.unwrap();
    let error = client.exec(&exec()).await.unwrap_err();
    assert!(matches!(error, ClientError::Protocol { .. }), "{error:?}");
    serve.await.unwrap();
}

#[tokio::test]
async fn a_first_connection_that_fails_is_not_repeated() {
    let (server, client) = Scripted::start().await;
    let serve = tokio::spawn(async move { drop(server.accept().await) });
    assert!(matches!(
        client.healthz().await,
        Err(ClientError::Protocol { .. })
    ));
    serve.await.unwrap();
}

#[tokio::test]
async fn a_reply_that_closes_is_followed_by_a_fresh_connection() {
    let (server, client) = Scripted::start().await;
    let serve = tokio::spawn(async move {
        for _ in 0..2 {
            let mut peer = server.accept().await;
            peer.request().await;
            peer.say("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"status\":\"ok\"}")
                .await;
        }
    });
    for _ in 0..2 {
        assert_eq!(client.healthz().await.unwrap().status, "ok");
    }
    serve.await.unwrap();
}

#[tokio::test]
async fn dropping_a_reply_future_hangs_up() {
    let (server, client) = Scripted::start().await;
    let running = tokio::spawn(async move { client.exec(&exec()).await.map(drop) });
    let mut peer = server.accept().await;
    assert!(peer.request().await.starts_with("POST /v1/exec"));
    running.abort();
    assert_eq!(peer.request().await, "");
}

#[tokio::test]
async fn dropping_a_stream_hangs_up() {
    let (server, client) = Scripted::start().await;
    let serve = tokio::spawn(async move {
        let mut peer = server.accept().await;
        let request = peer.request().await;
        let line = "GET /v1/processes/web/output?stream=stdout&follow=true HTTP/1.1\r\n";
        assert!(request.starts_with(line), "{request}");
        peer.say("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n")
            .await;
        assert_eq!(peer.request().await, "");
    });
    let query = OutputQuery::follow(StreamName::Stdout);
    let mut stream = client
        .process_output(&"web".parse().unwrap(), query)
        .await
        .unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap(), "abc");
    drop(stream);
    serve.await.unwrap();
}

#[tokio::test]
async fn a_stream_cut_short_is_an_error_and_not_an_end() {
    let (server, client) = Scripted::start().await;
    let serve = tokio::spawn(async move {
        let mut peer = server.accept().await;
        peer.request().await;
        peer.say("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n")
            .await;
    });
    let query = OutputQuery::all(StreamName::Stderr);
    let mut stream = client
        .process_output(&"web".parse().unwrap(), query)
        .await
        .unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap(), "abc");
    assert!(matches!(
        stream.next().await,
        Some(Err(ClientError::Protocol { .. }))
    ));
    assert!(stream.next().await.is_none());
    serve.await.unwrap();
}

#[tokio::test]
async fn requests_at_once_use_connections_of_their_own() {
    let (server, client) = Scripted::start().await;
    let other = client.clone();
    let serve = tokio::spawn(async move {
        let (mut one, mut two) = (server.accept().await, server.accept().await);
        one.request().await;
        two.request().await;
        two.reply_health().await;
        one.reply_health().await;
    });
    let (one, two) = tokio::join!(client.healthz(), other.healthz());
    one.unwrap();
    two.unwrap();
    client.close_idle();
    serve.await.unwrap();
}

/// Tokio makes its own futures pause when a task has done much in one turn. No reply may be lost to
/// that, and no connection given up, though replies are not polled with the task's waker.
#[tokio::test]
async fn a_task_that_has_done_much_still_gets_its_reply() {
    /// What a task may do in one turn; with one step less the request still gets on.
    const BUDGET: usize = 128;

    let (server, client) = Scripted::start().await;
    let serve = tokio::spawn(async move {
        let mut peer = server.accept().await;
        for _ in 0..BUDGET {
            peer.request().await;
            peer.reply_health().await;
        }
    });
    for spent in 0..BUDGET {
        let mut request = pin!(client.healthz());
        let tired = poll_fn(|cx| {
            for _ in 0..spent {
                let step = coop::poll_proceed(&mut Context::from_waker(Waker::noop()));
                step.map(|step| step.made_progress()).is_ready();
            }
            request.as_mut().poll(cx)
        });
        let health = tokio::time::timeout(DEADLINE, tired).await;
        assert_eq!(
            health.unwrap().unwrap().status,
            "ok",
            "{spent} steps before"
        );
    }
    serve.await.unwrap();
}

#[tokio::test]
async fn nobody_there_is_a_connect_error() {
    let (server, client) = Scripted::start().await;
    drop(server);
    let request = ForkRequest::default();
    let error = client
        .fork_session(&"s".parse().unwrap(), &request)
        .await
        .unwrap_err();
    assert!(matches!(error, ClientError::Connect { .. }), "{error:?}");
}

#[cfg(unix)]
#[tokio::test]
async fn speaks_over_a_unix_socket() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sock");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let client = Client::new(&format!("unix:{}", path.display()), None).unwrap();
    let serve = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 1024];
        let length = stream.read(&mut request).await.unwrap();
        let body = r#"{"version":"1.2.3","api":"v1"}"#;
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        String::from_utf8_lossy(&request[..length]).into_owned()
    });
    let version = tokio::time::timeout(DEADLINE, client.version())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(version.version, "1.2.3");
    let request = serve.await.unwrap();
    assert!(request.contains("host: localhost\r\n"), "{request}");
    assert!(!request.contains("authorization"), "{request}");
}
