//! What passes through the proxy, and how.

use http::{HeaderMap, Method};
use sandshell_testkit::{Agent, open_fds};
use tokio::io::AsyncReadExt as _;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use super::{Server, address, dial, headers, own_port, until};
use crate::calls::in_time;

/// A head as the server got it.
fn sent(body: &[u8]) -> (String, Vec<String>) {
    let text = String::from_utf8_lossy(body);
    let head = text.split("\r\n\r\n").next().unwrap().to_owned();
    let mut lines = head.split("\r\n").map(str::to_owned);
    (lines.next().unwrap(), lines.collect())
}

#[tokio::test]
async fn a_request_arrives_as_it_was_sent() {
    let agent = Agent::start();
    let client = agent.client();
    let server = Server::start(&client).await;
    let rest = "/a%2Fb/../%C3%A4//c;d=e?x=%20+&y=%26&=&%zz";
    let given = headers(&[
        ("x-own", "1"),
        ("connection", "x-hop"),
        ("x-hop", "secret"),
        ("idempotency-key", "mine"),
        ("cookie", "a=b"),
    ]);
    let body: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let path = server.path(rest);
    let (status, head, echoed) = in_time(client.raw(
        Method::from_bytes(b"PURGE").unwrap(),
        &path,
        &given,
        body.clone(),
    ))
    .await
    .unwrap();
    assert_eq!(status, 200);
    let (line, fields) = sent(&echoed);
    assert_eq!(line, format!("PURGE {rest} HTTP/1.1"));
    assert!(echoed.ends_with(&body));
    let has = |field: &str| fields.iter().any(|line| line.eq_ignore_ascii_case(field));
    assert!(
        has("x-own: 1") && has("idempotency-key: mine") && has("cookie: a=b"),
        "{fields:?}"
    );
    assert!(
        has(&format!("host: localhost:{}", server.port)),
        "{fields:?}"
    );
    assert!(
        has(&format!("x-forwarded-host: {}", address(&agent))),
        "{fields:?}"
    );
    assert!(
        has("x-forwarded-for: 127.0.0.1") && has("x-forwarded-proto: http"),
        "{fields:?}"
    );
    assert!(
        has(&format!("x-forwarded-prefix: {}", server.path(""))),
        "{fields:?}"
    );
    let text = String::from_utf8_lossy(&echoed);
    assert!(
        !text.contains("x-hop") && !text.contains(agent.token().unwrap()),
        "{fields:?}"
    );
    let cookies: Vec<_> = head.get_all("set-cookie").iter().collect();
    assert_eq!(cookies, ["a=1", "b=2"]);
}

#[tokio::test]
async fn answers_pass_whatever_their_status() {
    let agent = Agent::start();
    let client = agent.client();
    let server = Server::start(&client).await;
    for status in [201, 400, 401, 404, 500, 503] {
        let (got, head, body) = server.get(&client, &format!("/status/{status}")).await;
        assert_eq!(
            (got.as_u16(), &body[..]),
            (status, format!("status {status}").as_bytes())
        );
        assert_eq!(head["x-own"], "yes");
        assert!(!head.contains_key("x-request-id"), "a field was added");
    }
    let (status, head, _) = server.get(&client, "/redirect").await;
    assert_eq!(status, 302);
    assert_eq!(head["location"], server.path("/hello?x").as_str());
    assert!(!head.contains_key("service-worker-allowed"));
    let (status, head, _) = server.get(&client, "").await;
    assert_eq!(
        (status.as_u16(), head["location"].to_str().unwrap()),
        (308, server.path("/").as_str())
    );
    assert_eq!(server.text(&client, "/old").await, "old");
    let path = server.path("/hello");
    let (status, head, body) = in_time(client.raw(Method::HEAD, &path, &HeaderMap::new(), ""))
        .await
        .unwrap();
    assert_eq!(
        (status.as_u16(), &head["content-length"], body.len()),
        (200, &"5".parse().unwrap(), 0)
    );
}

/// It shares its origin with all other ports and the API.
#[tokio::test]
async fn a_server_speaks_for_its_own_paths_only() {
    let agent = Agent::start();
    let client = agent.client();
    let server = Server::start(&client).await;
    let (status, head, _) = server.get(&client, "/origin").await;
    assert_eq!(status, 200);
    for gone in ["clear-site-data", "strict-transport-security", "alt-svc"] {
        assert!(!head.contains_key(gone), "{gone}");
    }
    let cookies: Vec<_> = head.get_all("set-cookie").iter().collect();
    assert_eq!(cookies, [&format!("app=1; Path={}", server.path("/"))]);
    // Nobody asked for another protocol.
    let (status, _, body) = server.get(&client, "/unasked").await;
    let problem: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(
        (status.as_u16(), &problem["code"]),
        (502, &"port_unreachable".into())
    );
}

#[tokio::test]
async fn a_thousand_requests_share_a_connection() {
    let agent = Agent::start();
    let client = agent.client();
    let shared = serde_json::json!({"this": 1, "all": 1});
    let mut counts = serde_json::Value::Null;
    // One that is idle for 30 s is closed, and as long may the machine stand still.
    for _ in 0..3 {
        let server = Server::start(&client).await;
        for n in 0..1000 {
            let rest = format!("/echo/{n}?n={n}");
            let body = server.text(&client, &rest).await;
            assert!(
                body.starts_with(&format!("GET {rest} HTTP/1.1\r\n")),
                "{body}"
            );
        }
        counts = serde_json::from_str(&server.text(&client, "/connection").await).unwrap();
        if counts == shared {
            break;
        }
    }
    assert_eq!(counts, shared);
}

/// A server that closes an idle connection costs no request; one that may not be sent twice is not.
#[tokio::test]
async fn only_what_is_safe_is_sent_again() {
    let agent = Agent::start();
    let client = agent.client();
    let server = Server::start(&client).await;
    for _ in 0..50 {
        assert_eq!(server.text(&client, "/close").await, "bye");
    }
    for method in [Method::POST, Method::PUT] {
        assert_eq!(server.text(&client, "/hello").await, "hello");
        let before: u32 = server.text(&client, "/drops").await.parse().unwrap();
        let path = server.path("/drop");
        let (status, _, body) = in_time(client.raw(method.clone(), &path, &HeaderMap::new(), "x"))
            .await
            .unwrap();
        assert_eq!(status, 502, "{body:?}");
        let after: u32 = server.text(&client, "/drops").await.parse().unwrap();
        assert_eq!(after - before, 1, "{method}");
    }
}

#[tokio::test]
async fn a_web_socket_echoes() {
    let agent = Agent::start();
    let client = agent.client();
    let server = Server::start(&client).await;
    let exposed = client.expose_port(server.port).await.unwrap();
    let url = format!("ws://{}{}", address(&agent), server.path("/ws"));
    let mut with_header = url.as_str().into_client_request().unwrap();
    let bearer = format!("Bearer {}", agent.token().unwrap());
    with_header
        .headers_mut()
        .insert("authorization", bearer.parse().unwrap());
    let with_query = format!("{url}?port_token={}", exposed.token)
        .into_client_request()
        .unwrap();
    for request in [with_header, with_query] {
        let (mut socket, answer) = in_time(tokio_tungstenite::connect_async(request))
            .await
            .unwrap();
        assert_eq!(answer.status(), 101);
        for size in [0, 1, 125, 126, 65_535, 65_536, 1_000_000] {
            let data: Vec<u8> = (0..=255).cycle().take(size).collect();
            send(&mut socket, Message::Binary(data.clone().into())).await;
            assert_eq!(receive(&mut socket).await, Message::Binary(data.into()));
        }
        send(&mut socket, Message::Text("grüß".into())).await;
        assert_eq!(receive(&mut socket).await, Message::Text("grüß".into()));
        in_time(socket.close(None)).await.unwrap();
    }
    let refused = in_time(tokio_tungstenite::connect_async(url.as_str())).await;
    assert!(refused.is_err(), "it opened without a token");
    // A tunnel does not hold up the end of the agent.
    let open = format!("{url}?port_token={}", exposed.token);
    let (_socket, _) = in_time(tokio_tungstenite::connect_async(open))
        .await
        .unwrap();
    assert!(agent.stop_gracefully().success());
}

type Socket =
    tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>;

async fn send(socket: &mut Socket, message: Message) {
    in_time(futures_util::SinkExt::send(socket, message))
        .await
        .unwrap();
}

async fn receive(socket: &mut Socket) -> Message {
    in_time(futures_util::StreamExt::next(socket))
        .await
        .unwrap()
        .unwrap()
}

/// Each event comes through before the next is even made.
#[tokio::test]
async fn events_are_not_held_back() {
    let agent = Agent::start();
    let client = agent.client();
    let server = Server::start(&client).await;
    let path = server.path("/sse");
    let ask = format!("GET {path} HTTP/1.1\nHost: localhost\nAuthorization: Bearer TOKEN\n\n");
    let mut stream = dial(&agent, &ask).await;
    let mut seen = Vec::new();
    for n in 0..20 {
        until(&mut stream, &mut seen, &format!("data: {n}\n\n")).await;
        server.text(&client, "/go").await;
    }
    server.text(&client, "/stop").await;
    until(&mut stream, &mut seen, "\r\n0\r\n\r\n").await;
}

/// Length of a block of the download: its number, then a pattern.
const BLOCK: usize = (1 << 20) + 8;

/// What the download must be, byte for byte.
struct Expected {
    pattern: Vec<u8>,
    position: usize,
}

impl Expected {
    fn new() -> Self {
        let pattern = (0..=255).cycle().take(1 << 20).collect();
        Self {
            pattern,
            position: 0,
        }
    }

    fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (number, at) = (self.position / BLOCK, self.position % BLOCK);
            let number = (number as u64).to_be_bytes();
            let rest = if at < 8 {
                &number[at..]
            } else {
                &self.pattern[at - 8..]
            };
            let n = rest.len().min(bytes.len());
            assert!(
                bytes[..n] == rest[..n],
                "a wrong byte after {}",
                self.position
            );
            self.position += n;
            bytes = &bytes[n..];
        }
    }
}

#[tokio::test]
async fn a_large_download_is_exact_and_not_held_in_memory() {
    const BLOCKS: usize = 100;
    let agent = Agent::start();
    let client = agent.client();
    let server = Server::start(&client).await;
    server.text(&client, "/hello").await;
    let before = sandshell_testkit::rss_bytes(agent.pid());
    let path = server.path(&format!("/big?blocks={BLOCKS}"));
    let ask = format!(
        "GET {path} HTTP/1.1\nHost: localhost\nConnection: close\nAuthorization: Bearer TOKEN\n\n"
    );
    let mut stream = dial(&agent, &ask).await;
    let mut seen = Vec::new();
    until(&mut stream, &mut seen, "\r\n\r\n").await;
    let head = seen.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
    let mut expected = Expected::new();
    expected.take(&seen[head..]);
    let mut buffer = vec![0; 1 << 20];
    let mut largest = 0;
    loop {
        let n = in_time(stream.read(&mut buffer)).await.unwrap();
        if n == 0 {
            break;
        }
        let block = expected.position / BLOCK;
        expected.take(&buffer[..n]);
        if expected.position / BLOCK > block {
            largest = largest.max(sandshell_testkit::rss_bytes(agent.pid()));
        }
    }
    assert_eq!(expected.position, BLOCKS * BLOCK);
    assert!(
        largest.saturating_sub(before) < 16 << 20,
        "{before} then {largest}"
    );
}

/// A client that goes away takes its request to the server with it.
#[tokio::test]
async fn a_client_that_goes_away_is_noticed_inside() {
    let agent = Agent::start();
    let client = agent.client();
    let server = Server::start(&client).await;
    let path = server.path("/hang");
    let ask = format!("GET {path} HTTP/1.1\nHost: localhost\nAuthorization: Bearer TOKEN\n\n");
    let stream = dial(&agent, &ask).await;
    let counted = async {
        loop {
            let counts = server.text(&client, "/connection").await;
            if counts.contains("\"all\": 2") {
                break;
            }
        }
    };
    in_time(counted).await;
    drop(stream);
    assert_eq!(server.text(&client, "/gone").await, "gone");
}

/// HTTP/2 in, HTTP/1.1 to the server; trailers come through.
#[tokio::test]
async fn http_2_and_trailers_pass() {
    let agent = Agent::start();
    let client = agent.client();
    let server = Server::start(&client).await;
    let url = |rest: &str| format!("{}{}", agent.url(), server.path(rest));
    let bearer = format!("authorization: Bearer {}", agent.token().unwrap());
    let curl = async |more: &[&str]| {
        let mut curl = tokio::process::Command::new("curl");
        curl.args([
            "-sS",
            "--http2-prior-knowledge",
            "-H",
            &bearer,
            "-H",
            "te: trailers",
        ]);
        let output = in_time(curl.args(more).output()).await.unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    };
    let echoed = curl(&[
        "-H",
        "cookie: a=b",
        "-H",
        "cookie: c=d",
        "-d",
        "posted",
        &url("/x?y"),
    ])
    .await;
    assert!(
        echoed.starts_with("POST /x?y HTTP/1.1\r\n") && echoed.ends_with("posted"),
        "{echoed}"
    );
    let host = format!("x-forwarded-host: 127.0.0.1:{}", own_port(&agent));
    assert!(
        echoed.contains(&host) && echoed.contains("cookie: a=b; c=d"),
        "{echoed}"
    );
    let trailed = curl(&["-v", "--stderr", "-", &url("/trailers")]).await;
    assert!(
        trailed.contains("hello") && trailed.contains("x-sum: abc"),
        "{trailed}"
    );
    let ask = format!(
        "GET {} HTTP/1.1\nHost: localhost\nTE: trailers\nConnection: te\nAuthorization: Bearer TOKEN\n\n",
        server.path("/trailers")
    );
    let mut seen = Vec::new();
    until(
        &mut dial(&agent, &ask).await,
        &mut seen,
        "x-sum: abc\r\n\r\n",
    )
    .await;
}

/// A body that comes in pieces goes on in pieces, with what follows it.
#[tokio::test]
async fn an_upload_in_pieces_arrives_with_its_trailers() {
    let agent = Agent::start();
    let client = agent.client();
    let server = Server::start(&client).await;
    let ask = format!(
        "PUT {} HTTP/1.1\nHost: localhost\nTrailer: x-sum\nTransfer-Encoding: chunked\n\
         Authorization: Bearer TOKEN\n\n3\nabc\n4\ndefg\n0\nx-sum: 7\n\n",
        server.path("/up")
    );
    let mut seen = Vec::new();
    until(
        &mut dial(&agent, &ask).await,
        &mut seen,
        "abcdefgx-sum: 7\r\n",
    )
    .await;
}

/// A client that does not read holds up the server inside, not the agent's memory.
#[tokio::test]
async fn a_client_that_does_not_read_fills_no_memory() {
    let agent = Agent::start();
    let client = agent.client();
    let server = Server::start(&client).await;
    server.text(&client, "/hello").await;
    let before = sandshell_testkit::rss_bytes(agent.pid());
    let path = server.path("/big?blocks=2000");
    let ask = format!("GET {path} HTTP/1.1\nHost: localhost\nAuthorization: Bearer TOKEN\n\n");
    let mut stream = dial(&agent, &ask).await;
    let mut seen = Vec::new();
    until(&mut stream, &mut seen, "\r\n\r\n").await;
    // Meanwhile the agent has every chance to read on.
    for _ in 0..200 {
        server.text(&client, "/hello").await;
    }
    let after = sandshell_testkit::rss_bytes(agent.pid());
    assert!(
        after.saturating_sub(before) < 16 << 20,
        "{before} then {after}"
    );
}

#[tokio::test]
async fn connections_are_given_back() {
    let agent = Agent::start();
    let client = agent.client();
    let server = Server::start(&client).await;
    server.text(&client, "/hello").await;
    let before = open_fds(agent.pid());
    for _ in 0..100 {
        assert_eq!(server.text(&client, "/close").await, "bye");
        assert_eq!(server.text(&client, "/hello").await, "hello");
    }
    let after = open_fds(agent.pid());
    assert!(after <= before + 2, "{before} then {after}");
}
