//! The APIs of other services, through their whole routers. What they ask of our own API is answered with
//! what the input says, as a sandbox that means ill could.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http::{HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use sandshell_client::types::SandboxId;
use sandshell_client::{Client, Connector};
use sandshell_compat::{Bridge, Cloudflare, Daytona, Lease};
use sandshell_compat_e2b::{E2b, ENVD_PORT, INTERPRETER_PORT, Key, Reach, Settings};
use tokio::io::{
    AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream,
};
use tokio_util::sync::CancellationToken;

use crate::input::{Input, sections};

/// Most bytes of an answer that are looked at; streams go on.
const ENOUGH: usize = 1 << 20;

/// The same of pieces, for one that only says that it is still there.
const MANY: usize = 10_000;

/// Fails instead of hanging.
async fn in_time<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), what)
        .await
        .expect("there was no answer in time")
}

struct Routers {
    cloudflare: Cloudflare,
    bridge: Bridge,
    daytona: Daytona,
    e2b: E2b,
}

thread_local! {
    static ROUTERS: Routers = Routers {
        cloudflare: Cloudflare::new(),
        bridge: Bridge::new(),
        daytona: Daytona::new(),
        e2b: E2b::new(Settings { key: Key::new(*b"key"), domain: None }),
    };
}

/// `METHOD /path?query`, then headers, an empty line and the body.
fn request(text: &[u8]) -> Option<Request<Body>> {
    let end = text.windows(2).position(|two| two == b"\n\n");
    let (head, body) = end.map_or((text, &[][..]), |end| (&text[..end], &text[end + 2..]));
    let head = std::str::from_utf8(head).ok()?;
    let mut lines = head.lines();
    let (method, path) = lines.next()?.split_once(' ')?;
    let mut request = Request::builder()
        .method(Method::from_bytes(method.as_bytes()).ok()?)
        .uri(path);
    for line in lines {
        let (name, value) = line.split_once(": ")?;
        let name: HeaderName = name.parse().ok()?;
        request = request.header(name, HeaderValue::from_str(value).ok()?);
    }
    request.body(Body::from(body.to_vec())).ok()
}

/// Answers everything with this; without it, there is nothing.
async fn serve(io: DuplexStream, answer: Vec<u8>) -> std::io::Result<()> {
    let mut io = BufReader::new(io);
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if io.read_until(b'\n', &mut head).await? == 0 {
                return Ok(());
            }
        }
        let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        if head.contains("chunked") {
            return Ok(());
        }
        io.read_exact(&mut body).await?;
        const MISSING: &[u8] = br#"{"type":"about:blank","title":"Not found","status":404,"code":"not_found","detail":"x","request_id":"r"}"#;
        let (status, kind, answer) = if answer.is_empty() {
            (404, "application/problem+json", MISSING)
        } else {
            (200, "application/json", &answer[..])
        };
        let kind = if head.contains("event-stream") && status == 200 {
            "text/event-stream"
        } else {
            kind
        };
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n",
            answer.len()
        );
        io.write_all(head.as_bytes()).await?;
        io.write_all(answer).await?;
    }
}

async fn answered(dialect: u8, request: Request<Body>, client: Client) -> Response {
    let lease = || Lease::new([CancellationToken::new(), CancellationToken::new()], ());
    let routers = ROUTERS.with(|all| {
        (
            all.cloudflare.clone(),
            all.bridge.clone(),
            all.daytona.clone(),
            all.e2b.clone(),
        )
    });
    let (cloudflare, bridge, daytona, e2b) = routers;
    let id = || "box".parse::<SandboxId>().unwrap();
    match dialect % 6 {
        0 => cloudflare.answer(client, lease(), request).await,
        1 => bridge.answer(client, lease(), request).await,
        2 => daytona.answer(client, lease(), request).await,
        3 => e2b.answer(client, Reach::Control, request).await,
        4 => e2b.answer_inside(client, id(), ENVD_PORT, request).await,
        _ => {
            e2b.answer_inside(client, id(), INTERPRETER_PORT, request)
                .await
        }
    }
}

/// Every request gets an answer, and what is refused before anything was asked of us is the client's mistake.
pub(crate) fn requests(data: &[u8]) {
    let mut input = Input(data);
    let dialect = input.byte();
    let [asked, answer] = sections::<2>(input.0);
    let Some(request) = request(asked) else {
        return;
    };
    let answer = answer.to_vec();
    let asked = Arc::new(AtomicBool::new(false));
    // A runtime of its own, whose clock goes on by itself: nothing waits, and nothing stays behind.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let tell = Arc::clone(&asked);
    let work = async {
        let connector = Connector::new(move || {
            tell.store(true, Ordering::Relaxed);
            let (ours, theirs) = tokio::io::duplex(64 * 1024);
            tokio::spawn(serve(theirs, answer.clone()));
            ours
        });
        let client = Client::in_process(connector, HeaderValue::from_static("fuzz"));
        let response = in_time(answered(dialect, request, client)).await;
        let status = response.status();
        let ours = status == StatusCode::INTERNAL_SERVER_ERROR && !asked.load(Ordering::Relaxed);
        assert!(!ours, "a mistake of the client's is told as one of ours");
        let mut body = response.into_body();
        let (mut read, mut frames) = (0, 0);
        while let Some(Ok(frame)) = in_time(body.frame()).await {
            read += frame.data_ref().map_or(0, |data| data.len());
            frames += 1;
            if read > ENOUGH || frames > MANY {
                break;
            }
        }
    };
    runtime.block_on(work);
    runtime.shutdown_background();
}
