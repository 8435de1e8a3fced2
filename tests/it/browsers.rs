//! What web pages may do: tickets, CORS, and the checks of Host and Origin.

mod driver;

use http::{HeaderMap, Method, StatusCode};
use sandshell_client::types::{ErrorCode, Problem, WaitRequest};
use sandshell_client::{Client, ProcessFilter};
use sandshell_testkit::Agent;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::calls::{in_time, process_of};
pub(crate) use driver::Browser;

fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
    all.iter()
        .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
        .collect()
}

async fn ask(
    client: &Client,
    method: Method,
    path: &str,
    head: &[(&'static str, &str)],
    body: &str,
) -> (StatusCode, HeaderMap, Vec<u8>) {
    let (status, head, body) = in_time(client.raw(method, path, &headers(head), body.to_owned()))
        .await
        .unwrap();
    (status, head, body.to_vec())
}

fn code_of(body: &[u8]) -> ErrorCode {
    serde_json::from_slice::<Problem>(body).unwrap().code
}

/// Starts a process that has said something and ended.
async fn spoken(agent: &Agent) {
    let mut process = process_of("echo spoken");
    process.id = Some("said".parse().unwrap());
    let id = agent.client().create_process(&process).await.unwrap().id;
    agent
        .client()
        .wait_process(&id, &WaitRequest::default())
        .await
        .unwrap();
}

const OUTPUT: &str = "/v1/processes/said/output";
const EVENTS: (&str, &str) = ("accept", "text/event-stream");

#[tokio::test]
async fn a_ticket_opens_its_stream_once_and_appears_in_no_log() {
    let agent = Agent::builder().env("SANDSHELL_LOG", "trace").start();
    spoken(&agent).await;
    let stranger = Client::new(agent.url(), None).unwrap();
    let owner = agent.client();
    let ticket = || async { in_time(owner.create_ticket(OUTPUT)).await.unwrap() };
    // Only who has the token makes tickets.
    let (status, _, _) = ask(&stranger, Method::POST, "/v1/tickets", &[], "{}").await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);

    let first = ticket().await;
    assert_eq!(first.url, format!("{OUTPUT}?ticket={}", first.ticket));
    let with_query = format!("{}&follow=true&from=0", first.url);
    let (status, _, body) = ask(&stranger, Method::GET, &with_query, &[EVENTS], "").await;
    assert_eq!(status, StatusCode::OK);
    assert!(String::from_utf8(body).unwrap().contains("spoken"));
    let (status, _, body) = ask(&stranger, Method::GET, &first.url, &[EVENTS], "").await;
    assert_eq!(
        (status, code_of(&body)),
        (StatusCode::UNAUTHORIZED, ErrorCode::Unauthorized)
    );

    // Not for another path, another method or anything that is no stream.
    for (method, path, head) in [
        (Method::GET, "/v1/processes", &[EVENTS][..]),
        (Method::DELETE, "/v1/processes/said", &[EVENTS]),
        (Method::GET, OUTPUT, &[]),
    ] {
        let used = ticket().await.ticket;
        let path = format!("{path}?ticket={used}");
        let (status, _, _) = ask(&stranger, method, &path, head, "").await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{path}");
        assert!(!agent.log().contains(&used));
    }
    // Nor for what only seems to be one because it is asked for as one.
    for path in [
        "/v1/env",
        "/v1/processes/said",
        "/v1/files/content",
        "/v1/none",
    ] {
        let refused = in_time(owner.create_ticket(path)).await.unwrap_err();
        let problem = refused.problem().unwrap();
        assert_eq!(
            (problem.status, problem.pointer.as_deref()),
            (400, Some("/path"))
        );
    }
    assert!(
        agent.log().contains("/v1/tickets"),
        "the log tells of requests"
    );
    assert!(!agent.log().contains(&first.ticket));
    // With the token, a ticket that does not fit does no harm.
    let spent = format!("{OUTPUT}?ticket=tk_0");
    let (status, _, _) = ask(&owner, Method::GET, &spent, &[], "").await;
    assert_eq!(status, StatusCode::OK);
}

/// Sends a request as it is and gives the status line and headers of the answer.
async fn raw(agent: &Agent, request: &str) -> String {
    let address = agent.url().strip_prefix("http://").unwrap();
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = request.replace("TOKEN", agent.token().unwrap());
    let mut answer = String::new();
    in_time(async {
        stream.write_all(request.as_bytes()).await?;
        stream.read_to_string(&mut answer).await
    })
    .await
    .unwrap();
    answer
}

#[tokio::test]
async fn a_name_that_was_rebound_to_loopback_is_refused() {
    let agent = Agent::builder()
        .args(["--allow-host", "sandbox.example"])
        .start();
    let ask = |path: &str, host: &str| {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer TOKEN\r\n\
             Connection: close\r\n\r\n"
        );
        let agent = &agent;
        async move { raw(agent, &request).await }
    };
    for host in ["localhost", "127.0.0.1:9", "[::1]", "sandbox.example:8080"] {
        assert!(
            ask("/v1/processes", host).await.starts_with("HTTP/1.1 200"),
            "{host}"
        );
    }
    for host in ["evil.example", "localhost.evil.example", "169.254.169.254"] {
        let answer = ask("/v1/processes", host).await;
        assert!(answer.starts_with("HTTP/1.1 403"), "{host}: {answer}");
        assert!(answer.contains("--allow-host"), "{answer}");
    }
    assert!(
        ask("/healthz", "evil.example")
            .await
            .starts_with("HTTP/1.1 200")
    );
}

#[tokio::test]
async fn pages_of_named_origins_may_use_the_api_and_no_others() {
    const PAGE: &str = "https://app.example";
    let agent = Agent::builder()
        .args([
            "--cors-origin",
            PAGE,
            "--cors-origin",
            "http://localhost:5173",
        ])
        .start();
    let client = agent.client();
    let exec = r#"{"command": "true", "id": "ran"}"#;
    let json = ("content-type", "application/json");
    // A preflight has no token.
    let stranger = Client::new(agent.url(), None).unwrap();
    let preflight = |origin| {
        let stranger = stranger.clone();
        async move {
            let asked = [
                ("origin", origin),
                ("access-control-request-method", "POST"),
                (
                    "access-control-request-headers",
                    "authorization,content-type",
                ),
            ];
            ask(&stranger, Method::OPTIONS, "/v1/exec", &asked, "").await
        }
    };
    let (status, head, _) = preflight(PAGE).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    assert_eq!(head["access-control-allow-origin"], PAGE);
    assert_eq!(
        head["access-control-allow-headers"],
        "authorization,content-type"
    );
    assert!(!head.contains_key("access-control-allow-credentials"));
    let (status, head, _) = preflight("https://evil.example").await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(!head.contains_key("access-control-allow-origin"));

    for origin in ["https://evil.example", "null", "https://app.example.evil"] {
        let (status, head, body) = ask(
            &client,
            Method::POST,
            "/v1/exec",
            &[json, ("origin", origin)],
            exec,
        )
        .await;
        assert_eq!(
            (status, code_of(&body)),
            (StatusCode::FORBIDDEN, ErrorCode::Forbidden)
        );
        assert!(!head.contains_key("access-control-allow-origin"));
        // Reading is answered; the browser keeps it from the page.
        let (status, head, _) = ask(
            &client,
            Method::GET,
            "/v1/processes",
            &[("origin", origin)],
            "",
        )
        .await;
        assert_eq!(status, StatusCode::OK);
        assert!(!head.contains_key("access-control-allow-origin"));
        // A browser would give a page the messages of a WebSocket.
        let socket = [
            ("origin", origin),
            ("upgrade", "websocket"),
            ("connection", "upgrade"),
        ];
        let (status, _, _) = ask(&client, Method::GET, "/v1/processes", &socket, "").await;
        assert_eq!(status, StatusCode::FORBIDDEN);
    }
    let execs = ProcessFilter {
        kind: Some(sandshell_client::types::ProcessKind::Exec),
        ..Default::default()
    };
    assert!(
        client
            .list_processes(&execs)
            .await
            .unwrap()
            .items
            .is_empty(),
        "nothing ran"
    );

    for origin in [PAGE, "http://localhost:5173"] {
        let (status, head, _) = ask(
            &client,
            Method::POST,
            "/v1/exec",
            &[json, ("origin", origin)],
            exec,
        )
        .await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(head["access-control-allow-origin"], origin);
        assert!(
            head["access-control-expose-headers"]
                .to_str()
                .unwrap()
                .contains("x-request-id")
        );
        assert_eq!(head["vary"], "origin");
    }
    // A page that may ask may also learn why it was refused.
    let (status, head, _) = ask(
        &stranger,
        Method::GET,
        "/v1/processes",
        &[("origin", PAGE)],
        "",
    )
    .await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    assert_eq!(head["access-control-allow-origin"], PAGE);
    // The agent's own pages.
    let (status, _, _) = ask(
        &client,
        Method::POST,
        "/v1/exec",
        &[json, ("origin", agent.url())],
        exec,
    )
    .await;
    assert_eq!(status, StatusCode::OK);
}

#[tokio::test]
async fn a_browser_reads_events_with_a_ticket_and_is_kept_from_other_origins() {
    let page = Agent::start();
    let open = Agent::builder().args(["--cors-origin", page.url()]).start();
    let closed = Agent::start();
    spoken(&open).await;
    let Some(mut browser) = Browser::start().await else {
        return;
    };
    // Any document of the first agent without a policy of its own.
    browser.open(&format!("{}/version", page.url())).await;
    let exec = |agent: &Agent| {
        format!(
            "fetch('{}/v1/exec', {{method: 'POST', body: '{{\"command\": \"echo hi\"}}', headers: \
             {{Authorization: 'Bearer {}', 'Content-Type': 'application/json'}}}})\
             .then((answer) => answer.json()).then((result) => result.stdout, (error) => error.name)",
            agent.url(),
            agent.token().unwrap()
        )
    };
    assert_eq!(browser.evaluate(&exec(&open)).await, "hi\n");
    assert_eq!(browser.evaluate(&exec(&closed)).await, "TypeError");
    assert_eq!(browser.evaluate(&exec(&page)).await, "hi\n");
    let listen = format!(
        "fetch('{0}/v1/tickets', {{method: 'POST', body: '{{\"path\": \"{OUTPUT}\"}}', headers: \
         {{Authorization: 'Bearer {1}', 'Content-Type': 'application/json'}}}})\
         .then((answer) => answer.json())\
         .then(({{url}}) => new Promise((done) => {{
             const source = new EventSource('{0}' + url);
             let said = '';
             source.addEventListener('output', (event) => {{ said += JSON.parse(event.data).data; }});
             source.addEventListener('exit', () => {{ source.close(); done(said); }});
             source.onerror = () => {{ source.close(); done('error'); }};
         }}))",
        open.url(),
        open.token().unwrap()
    );
    assert_eq!(browser.evaluate(&listen).await, "spoken\n");
    browser.close().await;
}
