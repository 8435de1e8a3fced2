//! Promise 10: bad input gets a clear error and changes nothing.

use http::{HeaderMap, Method};
use sandshell_client::types::{Problem, ProcessKind, WaitRequest};
use sandshell_client::{Client, Page, ProcessFilter};
use sandshell_testkit::{Agent, children_deep};

use crate::calls::{exec_of, in_time, process_of};

/// Everything that could have been started.
async fn world(agent: &Agent, client: &Client) -> (Vec<String>, Vec<String>, usize) {
    let mut ids = Vec::new();
    for kind in [ProcessKind::Process, ProcessKind::Exec] {
        let filter = ProcessFilter {
            kind: Some(kind),
            ..Default::default()
        };
        let list = client.list_processes(&filter).await.unwrap().items;
        ids.extend(list.into_iter().map(|record| record.id.to_string()));
    }
    let sessions = client.list_sessions(&Page::default()).await.unwrap().items;
    let sessions = sessions
        .into_iter()
        .map(|record| record.id.to_string())
        .collect();
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
    Case {
        method: method.parse().unwrap(),
        path,
        body: body.into(),
        expected: (status, code, pointer.into()),
    }
}

/// Asks, and says what is not as expected.
async fn ask(client: &Client, case: &Case, headers: &HeaderMap) -> Option<String> {
    let (status, head, body) =
        in_time(client.raw(case.method.clone(), case.path, headers, case.body.clone()))
            .await
            .unwrap();
    let shown = String::from_utf8_lossy(&case.body[..case.body.len().min(100)]).into_owned();
    let asked = format!("{} {} {shown}", case.method, case.path);
    let Ok(problem) = serde_json::from_slice::<Problem>(&body) else {
        return Some(format!("{asked}: {status} {body:?}"));
    };
    let got = (
        problem.status,
        problem.code.as_str(),
        problem.pointer.as_deref(),
    );
    let as_it_should_be = head["content-type"] == "application/problem+json"
        && problem.status == status.as_u16()
        && head["x-request-id"] == problem.request_id.as_str()
        && !problem.detail.is_empty();
    if got == case.expected && as_it_should_be {
        return None;
    }
    Some(format!(
        "{asked}: expected {:?}, got {got:?}: {}",
        case.expected, problem.detail
    ))
}

fn json() -> HeaderMap {
    HeaderMap::from_iter([(
        http::header::CONTENT_TYPE,
        "application/json".parse().unwrap(),
    )])
}

/// Asks all of them and looks at the world before and after.
async fn refused(cases: Vec<Case>) {
    let agent = Agent::start();
    let client = agent.client();
    client.exec(&exec_of("true")).await.unwrap();
    let id = "there".parse().unwrap();
    client
        .create_session(&sandshell_client::types::SessionRequest {
            id: Some(id),
            ..Default::default()
        })
        .await
        .unwrap();
    let mut process = process_of("read x");
    (process.id, process.stdin_open) = (Some("live".parse().unwrap()), true);
    client.create_process(&process).await.unwrap();
    let mut process = process_of("true");
    process.id = Some("dead".parse().unwrap());
    let dead = client.create_process(&process).await.unwrap().id;
    client
        .wait_process(&dead, &WaitRequest::default())
        .await
        .unwrap();
    // One round settles the warm shells.
    let (ids, sessions, _) = world(&agent, &client).await;
    let mut wrong = Vec::new();
    for case in &cases {
        wrong.extend(ask(&client, case, &json()).await);
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
    let (ids_after, sessions_after, children) = world(&agent, &client).await;
    assert_eq!((ids_after, sessions_after), (ids, sessions));
    // Init, the session, the live process, and at most the warm shells.
    assert!(
        children <= 3 + 4 + 3,
        "{children} processes: {:?}",
        children_deep(agent.pid())
    );
    assert_eq!(
        client
            .session(&"there".parse().unwrap())
            .await
            .unwrap()
            .stats
            .unwrap()
            .commands,
        0
    );
    assert_eq!(
        client.exec(&exec_of("echo fine")).await.unwrap().stdout,
        "fine\n"
    );
}

#[tokio::test]
async fn bodies_that_are_not_what_the_route_takes() {
    let mut cases = Vec::new();
    for route in [
        "POST /v1/exec",
        "POST /v1/processes",
        "POST /v1/sessions",
        "POST /v1/sessions/there/exec",
        "PATCH /v1/sessions/there",
        "POST /v1/processes/live/signal",
        "POST /v1/processes/live/kill",
        "POST /v1/processes/live/wait",
        "POST /v1/sessions/there/fork",
        "PATCH /v1/env",
        "POST /v1/files/changes",
    ] {
        cases.push(case(route, "{", 400, "invalid_request", ""));
        // Of an object without a field that is needed, that is said first.
        let needs_none = !["/exec", "/signal", "/changes"]
            .iter()
            .any(|end| route.ends_with(end));
        if needs_none || route == "POST /v1/exec" {
            cases.push(case(route, "{} more", 400, "invalid_request", ""));
        }
        cases.push(case(route, "nonsense", 400, "invalid_request", ""));
        cases.push(case(route, "[]", 400, "invalid_request", ""));
        cases.push(case(route, "\"text\"", 400, "invalid_request", ""));
        cases.push(case(route, "null", 400, "invalid_request", ""));
        cases.push(case(
            route,
            "{\"no_such_field\": 1}",
            400,
            "invalid_request",
            "/no_such_field",
        ));
        cases.push(case(
            route,
            b"{\"\xff\": 1}".to_vec(),
            400,
            "invalid_request",
            "",
        ));
    }
    refused(cases).await;
}

#[tokio::test]
async fn requests_of_the_table_are_refused() {
    let lines = include_str!("bad_input.txt").lines();
    let cases = lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let mut parts = line.splitn(3, " |");
            let (request, expected) = (parts.next().unwrap(), parts.next().unwrap());
            let [status, code, pointer] = expected.trim().splitn(3, ' ').collect::<Vec<_>>()[..]
            else {
                panic!("{line}");
            };
            let pointer = (pointer != "-").then_some(pointer);
            let body = parts.next().unwrap_or_default().trim();
            case(request, body, status.parse().unwrap(), code, pointer)
        });
    refused(cases.collect()).await;
}

#[tokio::test]
async fn a_session_of_a_program_that_is_no_shell_is_refused() {
    let agent = Agent::start();
    let client = agent.client();
    for shell in ["/bin/cat", "/bin/true"] {
        let request = sandshell_client::types::SessionRequest {
            shell: Some(shell.to_owned()),
            ..Default::default()
        };
        let refused = in_time(client.create_session(&request))
            .await
            .expect_err(shell);
        assert!(
            matches!(refused.status(), Some(400 | 422)),
            "{shell}: {refused:?}"
        );
        assert_eq!(
            refused.problem().unwrap().pointer.as_deref(),
            Some("/shell")
        );
    }
}

#[tokio::test]
async fn a_missing_directory_of_a_session_command_is_a_client_error() {
    refused(vec![case(
        "POST /v1/sessions/there/exec",
        r#"{"command": "true", "cwd": "/no/such/dir"}"#,
        400,
        "invalid_cwd",
        "/cwd",
    )])
    .await;
}

#[tokio::test]
async fn bodies_that_are_too_large_are_refused_and_not_gathered() {
    let agent = Agent::start();
    let client = agent.client();
    let before = sandshell_testkit::rss_bytes(agent.pid());
    for path in [
        "/v1/exec",
        "/v1/processes",
        "/v1/sessions",
        "/v1/sessions/x/exec",
    ] {
        let mut body = br#"{"command": ""#.to_vec();
        body.resize(100 << 20, b'x');
        // The agent may answer and hang up before all is sent; either is a refusal.
        match in_time(client.raw(Method::POST, path, &json(), body)).await {
            Ok((status, _, body)) => {
                let problem: Problem = serde_json::from_slice(&body).unwrap();
                assert_eq!(
                    (status.as_u16(), problem.code.as_str()),
                    (413, "body_too_large"),
                    "{path}"
                );
                assert!(problem.hint.is_some());
            }
            Err(error) => panic!("{path}: no answer but {error:?}"),
        }
    }
    let grown = sandshell_testkit::rss_bytes(agent.pid()).saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes more");
    assert_eq!(
        client.exec(&exec_of("echo fine")).await.unwrap().stdout,
        "fine\n"
    );
}

#[tokio::test]
async fn headers_that_cannot_be() {
    let agent = Agent::start();
    let client = agent.client();
    let exec = || {
        case(
            "POST /v1/exec",
            r#"{"command": "true"}"#,
            415,
            "unsupported_media_type",
            None,
        )
    };
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
    ] {
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
    let case = case(
        "GET /v1/processes/p/output",
        "",
        400,
        "invalid_request",
        None,
    );
    assert_eq!(ask(&client, &case, &headers).await, None);
    // A request id of the client's own is given back.
    let mut headers = json();
    headers.insert("x-request-id", "mine-1".parse().unwrap());
    let (_, head, _) = client
        .raw(Method::GET, "/v1/processes", &headers, "")
        .await
        .unwrap();
    assert_eq!(head["x-request-id"], "mine-1");
}
