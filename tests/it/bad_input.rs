//! Promise 10: bad input gets a clear error and changes nothing.

use http::{HeaderMap, Method};
use sandshell_client::types::{Problem, ProcessKind};
use sandshell_client::{Client, Page, ProcessFilter};
use sandshell_testkit::{Agent, children_deep};

use crate::calls::{exec_of, in_time, process_of};

/// Everything that could have been started.
async fn world(agent: &Agent, client: &Client) -> (Vec<String>, Vec<String>, usize) {
    let mut ids = Vec::new();
    for kind in [ProcessKind::Process, ProcessKind::Exec] {
        let filter = ProcessFilter { kind: Some(kind), ..Default::default() };
        let list = client.list_processes(&filter).await.unwrap().items;
        ids.extend(list.into_iter().map(|record| record.id.to_string()));
    }
    let sessions = client.list_sessions(&Page::default()).await.unwrap().items;
    let sessions = sessions.into_iter().map(|record| record.id.to_string()).collect();
    // Init and the warm shells, whose number is settled once the agent stands still.
    (ids, sessions, children_deep(agent.pid()).len())
}

struct Case {
    method: Method,
    path: &'static str,
    body: Vec<u8>,
    expected: (u16, &'static str, Option<&'static str>),
}

fn case(
    line: &'static str,
    body: impl Into<Vec<u8>>,
    status: u16,
    code: &'static str,
    pointer: impl Into<Option<&'static str>>,
) -> Case {
    let (method, path) = line.split_once(' ').unwrap();
    Case { method: method.parse().unwrap(), path, body: body.into(), expected: (status, code, pointer.into()) }
}

/// Asks, and says what is not as expected.
async fn ask(client: &Client, case: &Case, headers: &HeaderMap) -> Option<String> {
    let (status, head, body) =
        in_time(client.raw(case.method.clone(), case.path, headers, case.body.clone())).await.unwrap();
    let shown = String::from_utf8_lossy(&case.body[..case.body.len().min(100)]).into_owned();
    let asked = format!("{} {} {shown}", case.method, case.path);
    let Ok(problem) = serde_json::from_slice::<Problem>(&body) else {
        return Some(format!("{asked}: {status} {body:?}"));
    };
    let got = (problem.status, problem.code.as_str(), problem.pointer.as_deref());
    let as_it_should_be = head["content-type"] == "application/problem+json"
        && problem.status == status.as_u16()
        && head["x-request-id"] == problem.request_id.as_str()
        && !problem.detail.is_empty();
    if got == case.expected && as_it_should_be {
        return None;
    }
    Some(format!("{asked}: expected {:?}, got {got:?}: {}", case.expected, problem.detail))
}

fn json() -> HeaderMap {
    HeaderMap::from_iter([(http::header::CONTENT_TYPE, "application/json".parse().unwrap())])
}

/// Asks all of them and looks at the world before and after.
async fn refused(cases: Vec<Case>) {
    let agent = Agent::start();
    let client = agent.client();
    client.exec(&exec_of("true")).await.unwrap();
    let id = "there".parse().unwrap();
    client.create_session(&sandshell_client::types::SessionRequest { id: Some(id), ..Default::default() }).await.unwrap();
    let mut process = process_of("read x");
    (process.id, process.stdin_open) = (Some("live".parse().unwrap()), true);
    client.create_process(&process).await.unwrap();
    let mut process = process_of("true");
    process.id = Some("dead".parse().unwrap());
    let dead = client.create_process(&process).await.unwrap().id;
    client.wait_process(&dead, &Default::default()).await.unwrap();
    // One round settles the warm shells.
    let (ids, sessions, _) = world(&agent, &client).await;
    let mut wrong = Vec::new();
    for case in &cases {
        wrong.extend(ask(&client, case, &json()).await);
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    let (ids_after, sessions_after, children) = world(&agent, &client).await;
    assert_eq!((ids_after, sessions_after), (ids, sessions));
    // Init, the session, the live process, and at most the warm shells.
    assert!(children <= 3 + 4 + 3, "{children} processes: {:?}", children_deep(agent.pid()));
    assert_eq!(client.session(&"there".parse().unwrap()).await.unwrap().stats.unwrap().commands, 0);
    assert_eq!(client.exec(&exec_of("echo fine")).await.unwrap().stdout, "fine\n");
}

#[tokio::test]
async fn bodies_that_are_not_what_the_route_takes() {
    let mut cases = Vec::new();
    for route in ["POST /v1/exec", "POST /v1/processes", "POST /v1/sessions", "POST /v1/sessions/there/exec", "PATCH /v1/sessions/there", "POST /v1/processes/live/signal", "POST /v1/processes/live/kill", "POST /v1/processes/live/wait", "POST /v1/sessions/there/fork"] {
        cases.push(case(route, "{", 400, "invalid_request", ""));
        cases.push(case(route, "{} more", 400, "invalid_request", ""));
        cases.push(case(route, "nonsense", 400, "invalid_request", ""));
        cases.push(case(route, "[]", 400, "invalid_request", ""));
        cases.push(case(route, "\"text\"", 400, "invalid_request", ""));
        cases.push(case(route, "null", 400, "invalid_request", ""));
        cases.push(case(route, "{\"no_such_field\": 1}", 400, "invalid_request", "/no_such_field"));
        cases.push(case(route, b"{\"id\": \"\xff\"}".to_vec(), 400, "invalid_request", ""));
    }
    refused(cases).await;
}

#[tokio::test]
async fn fields_with_values_that_cannot_be() {
    let bad = "invalid_request";
    let nul = r#"{"command": "echo a\u0000b"}"#;
    let mut cases = vec![];
    for route in ["POST /v1/exec", "POST /v1/processes"] {
        cases.extend([
            case(route, nul, 400, bad, "/command"),
            case(route, "{}", 400, bad, "/command"),
            case(route, r#"{"command": "true", "argv": ["true"]}"#, 400, bad, "/argv"),
            case(route, r#"{"argv": []}"#, 400, bad, "/argv"),
            case(route, r#"{"argv": [""]}"#, 400, bad, "/argv/0"),
            case(route, r#"{"argv": ["a\u0000b"]}"#, 400, bad, "/argv/0"),
            case(route, r#"{"argv": ["echo", "a\u0000b"]}"#, 400, bad, "/argv/1"),
            case(route, r#"{"argv": "true"}"#, 400, bad, "/argv"),
            case(route, r#"{"argv": ["true", 1]}"#, 400, bad, "/argv/1"),
            case(route, r#"{"command": 7}"#, 400, bad, "/command"),
            case(route, r#"{"command": ["true"]}"#, 400, bad, "/command"),
            case(route, r#"{"command": "true", "timeout_ms": -1}"#, 400, bad, "/timeout_ms"),
            case(route, r#"{"command": "true", "timeout_ms": 1.5}"#, 400, bad, "/timeout_ms"),
            case(route, r#"{"command": "true", "timeout_ms": "5"}"#, 400, bad, "/timeout_ms"),
            case(route, r#"{"command": "true", "max_output_bytes": -5}"#, 400, bad, "/max_output_bytes"),
            case(route, r#"{"command": "true", "env": {"A": 1}}"#, 400, bad, "/env/A"),
            case(route, r#"{"command": "true", "env": ["A"]}"#, 400, bad, "/env"),
            case(route, r#"{"command": "true", "env": {"A=B": "c"}}"#, 400, bad, "/env/A=B"),
            case(route, r#"{"command": "true", "env": {"": "c"}}"#, 400, bad, "/env/"),
            case(route, r#"{"command": "true", "env": {"A": "b\u0000c"}}"#, 400, bad, "/env/A"),
            case(route, r#"{"command": "true", "cwd": "/no/such/dir"}"#, 400, "invalid_cwd", "/cwd"),
            case(route, r#"{"command": "true", "cwd": "/etc/passwd"}"#, 400, "invalid_cwd", "/cwd"),
            case(route, r#"{"command": "true", "cwd": ""}"#, 400, bad, "/cwd"),
            case(route, r#"{"command": "true", "cwd": "/a\u0000"}"#, 400, bad, "/cwd"),
            case(route, r#"{"command": "true", "user": "no-such-user-here"}"#, 400, "user_not_found", "/user"),
            case(route, r#"{"command": "true", "user": ""}"#, 400, "user_not_found", "/user"),
            case(route, r#"{"command": "true", "stdin": "%%%", "stdin_encoding": "base64"}"#, 400, bad, "/stdin"),
            case(route, r#"{"command": "true", "stdin_encoding": "rot13"}"#, 400, bad, "/stdin_encoding"),
            case(route, r#"{"command": "true", "id": "a/b"}"#, 400, bad, "/id"),
            case(route, r#"{"command": "true", "id": ""}"#, 400, bad, "/id"),
            case(route, r#"{"command": "true", "id": ".."}"#, 400, bad, "/id"),
            case(route, r#"{"command": "true", "id": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}"#, 400, bad, "/id"),
            case(route, r#"{"command": "true", "limits": {"memory": 1}}"#, 400, bad, "/limits/memory"),
            case(route, r#"{"command": "true", "shell": "no-such-shell"}"#, 422, "program_not_found", "/shell"),
            case(route, r#"{"argv": ["true"], "shell": "bash"}"#, 400, bad, "/shell"),
            case(route, r#"{"argv": ["no-such-program-here"]}"#, 422, "program_not_found", "/argv/0"),
            case(route, r#"{"argv": ["/no/such/program"]}"#, 422, "program_not_found", "/argv/0"),
            case(route, r#"{"argv": ["/etc/passwd"]}"#, 422, "program_not_executable", "/argv/0"),
            case(route, r#"{"argv": ["/etc"]}"#, 422, "program_not_executable", "/argv/0"),
            case(route, r#"{"command": "true", "command": "false"}"#, 400, bad, "/command"),
        ]);
    }
    cases.extend([
        case("POST /v1/exec", r#"{"command": "true", "truncate": "middle"}"#, 400, bad, "/truncate"),
        case("POST /v1/exec", r#"{"command": "true", "encoding": "hex"}"#, 400, bad, "/encoding"),
        case("POST /v1/exec", r#"{"command": "true", "on_disconnect": "x"}"#, 400, bad, "/on_disconnect"),
        case("POST /v1/exec", r#"{"command": "true", "session": "there"}"#, 400, bad, "/session"),
        case("POST /v1/processes", r#"{"command": "true", "session": "gone"}"#, 404, "session_not_found", None),
        case("POST /v1/processes", r#"{"argv": ["true"], "session": "there"}"#, 400, bad, "/session"),
        case("POST /v1/processes", r#"{"command": "true", "restart": {"mode": "x"}}"#, 400, bad, "/restart/mode"),
        case("POST /v1/processes", r#"{"command": "true", "restart": {"mode": "always"}, "stdin": "x"}"#, 400, bad, "/stdin"),
        case("POST /v1/processes", r#"{"command": "other", "id": "live"}"#, 409, "id_conflict", "/command"),
    ]);
    refused(cases).await;
}

#[tokio::test]
async fn sessions_that_cannot_be() {
    let bad = "invalid_request";
    refused(vec![
        case("POST /v1/sessions", r#"{"cwd": "/no/such/dir"}"#, 400, "invalid_cwd", "/cwd"),
        case("POST /v1/sessions", r#"{"cwd": ""}"#, 400, bad, "/cwd"),
        case("POST /v1/sessions", r#"{"cwd": "/a\u0000"}"#, 400, bad, "/cwd"),
        case("POST /v1/sessions", r#"{"user": "no-such-user-here"}"#, 400, "user_not_found", "/user"),
        case("POST /v1/sessions", r#"{"shell": "no-such-shell"}"#, 422, "program_not_found", "/shell"),
        case("POST /v1/sessions", r#"{"shell": "/bin/cat"}"#, 400, bad, "/shell"),
        case("POST /v1/sessions", r#"{"env": {"A B": "x"}}"#, 400, bad, "/env/A B"),
        case("POST /v1/sessions", r#"{"env": {"1A": "x"}}"#, 400, bad, "/env/1A"),
        case("POST /v1/sessions", r#"{"env": {"A/B": "x"}}"#, 400, bad, "/env/A~1B"),
        case("POST /v1/sessions", r#"{"env": {"A": "x\u0000"}}"#, 400, bad, "/env/A"),
        case("POST /v1/sessions", r#"{"id": "a/b"}"#, 400, bad, "/id"),
        case("POST /v1/sessions", r#"{"idle_timeout_ms": -1}"#, 400, bad, "/idle_timeout_ms"),
        case("POST /v1/sessions", r#"{"id": "there", "cwd": "/usr"}"#, 409, "id_conflict", "/cwd"),
        case("PATCH /v1/sessions/there", r#"{"env": {"A-B": "x"}}"#, 400, bad, "/env/A-B"),
        case("PATCH /v1/sessions/there", r#"{"timeout_ms": -1}"#, 400, bad, "/timeout_ms"),
        case("POST /v1/sessions/there/exec", "{}", 400, bad, "/command"),
        case("POST /v1/sessions/there/exec", r#"{"command": "a\u0000"}"#, 400, bad, "/command"),
        case("POST /v1/sessions/there/exec", r#"{"command": "true", "argv": ["x"]}"#, 400, bad, "/argv"),
        case("POST /v1/sessions/there/exec", r#"{"command": "true", "user": "root"}"#, 400, bad, "/user"),
        case("POST /v1/sessions/there/exec", r#"{"command": "true", "timeout_ms": -1}"#, 400, bad, "/timeout_ms"),
        case("POST /v1/sessions/there/exec", r#"{"command": "true", "id": "a b"}"#, 400, bad, "/id"),
        case("POST /v1/sessions/there/exec", r#"{"command": "true", "env": {"A B": "x"}}"#, 400, bad, "/env/A B"),
        case("POST /v1/sessions/there/exec", r#"{"command": "true", "cwd": ""}"#, 400, bad, "/cwd"),
        case("POST /v1/sessions/there/exec", r#"{"command": "true", "stdin": "%", "stdin_encoding": "base64"}"#, 400, bad, "/stdin"),
        case("POST /v1/sessions/there/fork", r#"{"id": "a/b"}"#, 400, bad, "/id"),
    ])
    .await;
}

#[tokio::test]
async fn a_missing_directory_of_a_session_command_is_a_client_error() {
    refused(vec![case("POST /v1/sessions/there/exec", r#"{"command": "true", "cwd": "/no/such/dir"}"#, 400, "invalid_cwd", "/cwd")]).await;
}

#[tokio::test]
async fn things_that_are_not_there() {
    let mut cases = vec![];
    for line in ["GET /v1/processes/gone", "DELETE /v1/processes/gone", "GET /v1/processes/gone/output", "POST /v1/processes/gone/stdin", "POST /v1/processes/gone/stdin/close", "POST /v1/processes/gone/kill", "POST /v1/processes/gone/wait"] {
        cases.push(case(line, "", 404, "process_not_found", None));
    }
    cases.push(case("POST /v1/processes/gone/signal", r#"{"signal": "TERM"}"#, 404, "process_not_found", None));
    for line in ["GET /v1/sessions/gone", "DELETE /v1/sessions/gone", "GET /v1/sessions/gone/commands", "GET /v1/sessions/gone/commands/x", "POST /v1/sessions/gone/interrupt", "POST /v1/sessions/gone/fork"] {
        cases.push(case(line, "", 404, "session_not_found", None));
    }
    cases.extend([
        case("POST /v1/sessions/gone/exec", r#"{"command": "true"}"#, 404, "session_not_found", None),
        case("PATCH /v1/sessions/gone", "{}", 404, "session_not_found", None),
        case("GET /v1/sessions/there/commands/gone", "", 404, "command_not_found", None),
        case("GET /v1/sessions/there/commands/gone/output", "", 404, "command_not_found", None),
        case("GET /v1/nothing", "", 404, "not_found", None),
        case("GET /", "", 404, "not_found", None),
        case("GET /v1/exec", "", 405, "method_not_allowed", None),
        case("PUT /v1/sessions", "", 405, "method_not_allowed", None),
        case("GET /v1/processes/a%2Fb", "", 404, "process_not_found", None),
        case("GET /v1/processes/%FF", "", 400, "invalid_request", None),
        case("GET /v1/sessions/..%2F..%2Fetc", "", 404, "session_not_found", None),
        case("POST /v1/processes/dead/signal", r#"{"signal": "TERM"}"#, 409, "process_ended", None),
        case("POST /v1/processes/dead/stdin", "x", 409, "stdin_closed", None),
    ]);
    refused(cases).await;
}

#[tokio::test]
async fn queries_and_small_requests_that_cannot_be() {
    let bad = "invalid_request";
    refused(vec![
        case("GET /v1/processes?limit=0", "", 400, bad, "/limit"),
        case("GET /v1/processes?limit=1001", "", 400, bad, "/limit"),
        case("GET /v1/processes?limit=x", "", 400, bad, "/limit"),
        case("GET /v1/processes?limit=-1", "", 400, bad, "/limit"),
        case("GET /v1/processes?kind=thread", "", 400, bad, "/kind"),
        case("GET /v1/processes?nothing=1", "", 400, bad, "/nothing"),
        case("GET /v1/processes?cursor=gone", "", 400, bad, "/cursor"),
        case("GET /v1/processes?session=a/b", "", 400, bad, "/session"),
        case("GET /v1/sessions?cursor=gone", "", 400, bad, "/cursor"),
        case("GET /v1/processes/live/output?stream=stdin", "", 400, bad, "/stream"),
        case("GET /v1/processes/live/output?stream=late_stdout", "", 400, bad, "/stream"),
        case("GET /v1/processes/live/output?offset=-1", "", 400, bad, "/offset"),
        case("GET /v1/processes/live/output?offset=99", "", 400, bad, "/offset"),
        case("GET /v1/processes/live/output?follow=maybe", "", 400, bad, "/follow"),
        case("POST /v1/processes/live/stdin?offset=5", "x", 409, "stdin_offset", "/offset"),
        case("POST /v1/processes/live/stdin?offset=x", "x", 400, bad, "/offset"),
        case("POST /v1/processes/live/signal", "{}", 400, bad, "/signal"),
        case("POST /v1/processes/live/signal", r#"{"signal": "SIGNOTHING"}"#, 400, bad, "/signal"),
        case("POST /v1/processes/live/signal", r#"{"signal": "65"}"#, 400, bad, "/signal"),
        case("POST /v1/processes/live/signal", r#"{"signal": "-1"}"#, 400, bad, "/signal"),
        case("POST /v1/processes/live/signal", r#"{"signal": "TERM", "scope": "all"}"#, 400, bad, "/scope"),
        case("POST /v1/processes/live/kill", r#"{"grace_ms": -1}"#, 400, bad, "/grace_ms"),
        case("POST /v1/processes/live/wait", r#"{"exit": false}"#, 400, bad, "/exit"),
        case("POST /v1/processes/live/wait", r#"{"log": {}}"#, 400, bad, "/log/pattern"),
        case("POST /v1/processes/live/wait", r#"{"log": {"pattern": "(", "regex": true}}"#, 400, bad, "/log/pattern"),
        case("POST /v1/processes/live/wait", r#"{"log": {"pattern": "x", "stream": "late_stdout"}}"#, 400, bad, "/log/stream"),
        case("POST /v1/processes/live/wait", r#"{"port": {"port": 0}}"#, 400, bad, "/port/port"),
        case("POST /v1/processes/live/wait", r#"{"port": {"port": 70000}}"#, 400, bad, "/port/port"),
    ])
    .await;
}

#[tokio::test]
async fn bodies_that_are_too_large_are_refused_and_not_gathered() {
    let agent = Agent::start();
    let client = agent.client();
    let before = sandshell_testkit::rss_bytes(agent.pid());
    for path in ["/v1/exec", "/v1/processes", "/v1/sessions", "/v1/sessions/x/exec"] {
        let mut body = br#"{"command": ""#.to_vec();
        body.resize(100 << 20, b'x');
        // The agent may answer and hang up before all is sent; either is a refusal.
        match in_time(client.raw(Method::POST, path, &json(), body)).await {
            Ok((status, _, body)) => {
                let problem: Problem = serde_json::from_slice(&body).unwrap();
                assert_eq!((status.as_u16(), problem.code.as_str()), (413, "body_too_large"), "{path}");
                assert!(problem.hint.is_some());
            }
            Err(error) => panic!("{path}: no answer but {error:?}"),
        }
    }
    let grown = sandshell_testkit::rss_bytes(agent.pid()).saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes more");
    assert_eq!(client.exec(&exec_of("echo fine")).await.unwrap().stdout, "fine\n");
}

#[tokio::test]
async fn headers_that_cannot_be() {
    let agent = Agent::start();
    let client = agent.client();
    let exec = || case("POST /v1/exec", r#"{"command": "true"}"#, 415, "unsupported_media_type", None);
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
        let headers = HeaderMap::from_iter([(http::header::CONTENT_TYPE, kind.parse().unwrap())]);
        assert_eq!(ask(&client, &exec(), &headers).await, None);
    }
    let mut headers = json();
    headers.insert("idempotency-key", "".parse().unwrap());
    let mut refused = exec();
    refused.expected = (400, "invalid_request", None);
    assert_eq!(ask(&client, &refused, &headers).await, None);
    headers.insert("idempotency-key", "x".repeat(1000).parse().unwrap());
    assert_eq!(ask(&client, &refused, &headers).await, None);
    headers.remove("idempotency-key");
    headers.insert("accept", "text/event-stream".parse().unwrap());
    headers.insert("last-event-id", "nonsense".parse().unwrap());
    let mut process = process_of("true");
    process.id = Some("p".parse().unwrap());
    client.create_process(&process).await.unwrap();
    let case = case("GET /v1/processes/p/output", "", 400, "invalid_request", None);
    assert_eq!(ask(&client, &case, &headers).await, None);
    // A request id of the client's own is given back.
    let mut headers = json();
    headers.insert("x-request-id", "mine-1".parse().unwrap());
    let (_, head, _) = client.raw(Method::GET, "/v1/processes", &headers, "").await.unwrap();
    assert_eq!(head["x-request-id"], "mine-1");
}
