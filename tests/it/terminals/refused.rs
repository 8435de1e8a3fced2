//! Bad input: a clear answer, and nothing changed.

use http::{HeaderMap, Method};
use sandshell_client::types::Problem;
use sandshell_client::{ConnectOptions, Page, TerminalEvent};
use sandshell_testkit::Agent;

use super::drive::{Driver, bash, create};
use crate::calls::in_time;

/// Route, body, and the status, code and pointer it gets.
const CASES: &[(&str, &str, u16, &str, &str)] = &[
    ("POST /v1/terminals", "[]", 400, "invalid_request", ""),
    ("POST /v1/terminals", "{", 400, "invalid_request", ""),
    (
        "POST /v1/terminals",
        r#"{"columns":80}"#,
        400,
        "invalid_request",
        "/columns",
    ),
    (
        "POST /v1/terminals",
        r#"{"id":"a/b"}"#,
        400,
        "invalid_request",
        "/id",
    ),
    (
        "POST /v1/terminals",
        r#"{"cols":0}"#,
        400,
        "invalid_request",
        "/cols",
    ),
    (
        "POST /v1/terminals",
        r#"{"cols":501}"#,
        400,
        "invalid_request",
        "/cols",
    ),
    (
        "POST /v1/terminals",
        r#"{"rows":301}"#,
        400,
        "invalid_request",
        "/rows",
    ),
    (
        "POST /v1/terminals",
        r#"{"rows":-1}"#,
        400,
        "invalid_request",
        "/rows",
    ),
    (
        "POST /v1/terminals",
        r#"{"rows":70000}"#,
        400,
        "invalid_request",
        "/rows",
    ),
    (
        "POST /v1/terminals",
        r#"{"cols":"80"}"#,
        400,
        "invalid_request",
        "/cols",
    ),
    (
        "POST /v1/terminals",
        r#"{"argv":[]}"#,
        400,
        "invalid_request",
        "/argv",
    ),
    (
        "POST /v1/terminals",
        r#"{"argv":[""]}"#,
        400,
        "invalid_request",
        "/argv",
    ),
    (
        "POST /v1/terminals",
        r#"{"argv":["a\u0000"]}"#,
        400,
        "invalid_request",
        "/argv/0",
    ),
    (
        "POST /v1/terminals",
        r#"{"command":"a\u0000"}"#,
        400,
        "invalid_request",
        "/command",
    ),
    (
        "POST /v1/terminals",
        r#"{"command":"a","argv":["a"]}"#,
        400,
        "invalid_request",
        "/argv",
    ),
    (
        "POST /v1/terminals",
        r#"{"env":{"A=B":"x"}}"#,
        400,
        "invalid_request",
        "/env/A=B",
    ),
    (
        "POST /v1/terminals",
        r#"{"cwd":"/no/such/dir"}"#,
        400,
        "invalid_cwd",
        "/cwd",
    ),
    (
        "POST /v1/terminals",
        r#"{"cwd":""}"#,
        400,
        "invalid_request",
        "/cwd",
    ),
    (
        "POST /v1/terminals",
        r#"{"user":"nobody-here"}"#,
        400,
        "user_not_found",
        "/user",
    ),
    (
        "POST /v1/terminals",
        r#"{"argv":["no-such-program"]}"#,
        422,
        "program_not_found",
        "/argv/0",
    ),
    (
        "POST /v1/terminals",
        r#"{"argv":["/etc/passwd"]}"#,
        422,
        "program_not_executable",
        "/argv/0",
    ),
    (
        "POST /v1/terminals",
        r#"{"id":"live","cols":99}"#,
        409,
        "id_conflict",
        "/argv",
    ),
    (
        "GET /v1/terminals?limit=0",
        "",
        400,
        "invalid_request",
        "/limit",
    ),
    (
        "GET /v1/terminals?size=1",
        "",
        400,
        "invalid_request",
        "/size",
    ),
    (
        "GET /v1/terminals?cursor=none",
        "",
        400,
        "invalid_request",
        "/cursor",
    ),
    ("GET /v1/terminals/none", "", 404, "terminal_not_found", "-"),
    (
        "DELETE /v1/terminals/none",
        "",
        404,
        "terminal_not_found",
        "-",
    ),
    ("PUT /v1/terminals/live", "", 405, "method_not_allowed", "-"),
    (
        "POST /v1/terminals/none/resize",
        r#"{"cols":1,"rows":1}"#,
        404,
        "terminal_not_found",
        "-",
    ),
    (
        "POST /v1/terminals/live/resize",
        "",
        400,
        "invalid_request",
        "",
    ),
    (
        "POST /v1/terminals/live/resize",
        r#"{"cols":9}"#,
        400,
        "invalid_request",
        "/rows",
    ),
    (
        "POST /v1/terminals/live/resize",
        r#"{"cols":9,"rows":0}"#,
        400,
        "invalid_request",
        "/rows",
    ),
    (
        "POST /v1/terminals/live/resize",
        r#"{"cols":501,"rows":9}"#,
        400,
        "invalid_request",
        "/cols",
    ),
    (
        "POST /v1/terminals/live/resize",
        r#"{"cols":9,"rows":9,"x":1}"#,
        400,
        "invalid_request",
        "/x",
    ),
    (
        "POST /v1/terminals/dead/resize",
        r#"{"cols":9,"rows":9}"#,
        410,
        "terminal_ended",
        "-",
    ),
    (
        "GET /v1/terminals/none/screen",
        "",
        404,
        "terminal_not_found",
        "-",
    ),
    (
        "GET /v1/terminals/live/screen?format=html",
        "",
        400,
        "invalid_request",
        "/format",
    ),
    (
        "GET /v1/terminals/live/screen?scrollback=1001",
        "",
        400,
        "invalid_request",
        "/scrollback",
    ),
    (
        "GET /v1/terminals/live/screen?scrollback=x",
        "",
        400,
        "invalid_request",
        "/scrollback",
    ),
    (
        "GET /v1/terminals/live/screen?x=1",
        "",
        400,
        "invalid_request",
        "/x",
    ),
    (
        "GET /v1/terminals/none/recording",
        "",
        404,
        "terminal_not_found",
        "-",
    ),
    (
        "GET /v1/terminals/none/connect",
        "",
        404,
        "terminal_not_found",
        "-",
    ),
    (
        "GET /v1/terminals/live/connect",
        "",
        400,
        "invalid_request",
        "-",
    ),
    (
        "GET /v1/terminals/live/connect?offset=-1",
        "",
        400,
        "invalid_request",
        "/offset",
    ),
    (
        "GET /v1/terminals/live/connect?role=admin",
        "",
        400,
        "invalid_request",
        "/role",
    ),
    (
        "GET /v1/terminals/live/connect?cols=80",
        "",
        400,
        "invalid_request",
        "/rows",
    ),
    (
        "GET /v1/terminals/live/connect?rows=24",
        "",
        400,
        "invalid_request",
        "/cols",
    ),
    (
        "GET /v1/terminals/live/connect?role=viewer&cols=9&rows=9",
        "",
        400,
        "invalid_request",
        "/cols",
    ),
    (
        "GET /v1/terminals/live/connect?x=1",
        "",
        400,
        "invalid_request",
        "/x",
    ),
];

#[tokio::test]
async fn bad_requests_get_clear_answers_and_change_nothing() {
    let agent = Agent::start();
    let client = agent.client();
    let mut request = bash();
    request.id = Some("live".parse().unwrap());
    create(&client, &request).await;
    let mut request = super::drive::command("exit 0");
    request.id = Some("dead".parse().unwrap());
    Driver::start(&client, &request).await.exit().await;
    let before = client.list_terminals(&Page::default()).await.unwrap().items;
    let children = sandshell_testkit::children_deep(agent.pid()).len();
    let json = HeaderMap::from_iter([(
        http::header::CONTENT_TYPE,
        "application/json".parse().unwrap(),
    )]);
    let mut wrong = Vec::new();
    for (line, body, status, code, pointer) in CASES {
        let (method, path) = line.split_once(' ').unwrap();
        let method: Method = method.parse().unwrap();
        let (got, _, reply) = in_time(client.raw(method, path, &json, *body))
            .await
            .unwrap();
        let problem: Problem = match serde_json::from_slice(&reply) {
            Ok(problem) => problem,
            Err(error) => {
                wrong.push(format!("{line} {body}: {got} {error}"));
                continue;
            }
        };
        let is = (
            got.as_u16(),
            problem.code.as_str(),
            problem.pointer.as_deref().unwrap_or("-"),
        );
        if is != (*status, *code, *pointer) || problem.detail.is_empty() {
            wrong.push(format!("{line} {body}: {is:?} {}", problem.detail));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let mut after = client.list_terminals(&Page::default()).await.unwrap().items;
    // The prompt may come meanwhile.
    after
        .iter_mut()
        .zip(&before)
        .for_each(|(a, b)| a.output_bytes = b.output_bytes);
    assert_eq!(before, after);
    assert!(sandshell_testkit::children_deep(agent.pid()).len() <= children + 1);
}

#[tokio::test]
async fn bad_frames_close_the_connection_with_a_code_and_a_reason() {
    let agent = Agent::start();
    let client = agent.client();
    let mut shell = Driver::bash(&client).await;
    for (text, expected) in [
        ("not json", "not understood"),
        ("{}", "not understood"),
        (r#"{"type":"reset"}"#, "not understood"),
        (r#"{"type":"resize","cols":80}"#, "not understood"),
        (
            r#"{"type":"resize","cols":80,"rows":24,"x":1}"#,
            "not understood",
        ),
        (
            r#"{"type":"resize","cols":0,"rows":24}"#,
            "1 to 500 columns",
        ),
        (r#"{"type":"resize","cols":80,"rows":301}"#, "1 to 300 rows"),
    ] {
        let mut bad = Driver::connect(&client, &shell.id, ConnectOptions::default()).await;
        bad.connection.send_text(text).await.unwrap();
        bad.read_on().await;
        let (code, reason) = bad.closed.unwrap();
        assert_eq!(code, 1008, "{text}");
        assert!(reason.contains(expected), "{text}: {reason}");
    }
    let mut bad = Driver::connect(&client, &shell.id, ConnectOptions::default()).await;
    let _ = bad.connection.type_in(vec![b'x'; (256 << 10) + 1]).await;
    loop {
        match in_time(bad.connection.next()).await {
            Ok(Some(TerminalEvent::Closed { code, .. })) => {
                assert_eq!(code, 1009);
                break;
            }
            Ok(Some(_)) => {}
            other => panic!("closed without a code: {other:?}"),
        }
    }
    let screen = shell.run("echo still-$((1+1))", "still-2").await;
    assert_eq!((screen.cols, screen.rows), (80, 24));
    assert!(!screen.text.contains("xxx"));
}

/// The code of the close that follows some bytes which are no frame.
async fn close_code_after(agent: &Agent, id: &str, bytes: &[u8]) -> u16 {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let address = agent.url().strip_prefix("http://").unwrap();
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let mut stream = tokio::io::BufReader::new(stream);
    let head = format!(
        "GET /v1/terminals/{id}/connect HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\
         connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        agent.token().unwrap()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.unwrap());
    }
    assert!(answer.starts_with(b"HTTP/1.1 101"));
    stream.write_all(bytes).await.unwrap();
    loop {
        let kind = stream.read_u8().await.unwrap() & 0x0f;
        let size = match stream.read_u8().await.unwrap() {
            126 => usize::from(stream.read_u16().await.unwrap()),
            127 => usize::try_from(stream.read_u64().await.unwrap()).unwrap(),
            size => usize::from(size),
        };
        let mut payload = vec![0; size];
        stream.read_exact(&mut payload).await.unwrap();
        if kind == 8 {
            return u16::from_be_bytes([payload[0], payload[1]]);
        }
    }
}

#[tokio::test]
async fn what_is_no_websocket_closes_it_as_a_protocol_error() {
    let agent = Agent::start();
    let shell = Driver::bash(&agent.client()).await;
    let id = shell.id.as_str();
    for (what, bytes) in [
        ("a reserved kind", &[0x83, 0x80, 0, 0, 0, 0][..]),
        ("no mask", &[0x82, 0x01, b'x']),
        ("a reserved bit", &[0xc2, 0x80, 0, 0, 0, 0]),
        ("a ping in pieces", &[0x09, 0x80, 0, 0, 0, 0]),
        ("the rest of nothing", &[0x80, 0x80, 0, 0, 0, 0]),
    ] {
        let code = in_time(close_code_after(&agent, id, bytes)).await;
        assert_eq!(code, 1002, "{what}");
    }
}
