//! `/mcp`: everything an agent does, whose rights it has, and who is kept out.

use std::time::Duration;

use http::{HeaderMap, HeaderName, Method, StatusCode};
use sandshell_client::types::{SandboxSpec, Scope, TokenRequest};
use sandshell_testkit::Hub;
use serde_json::{Value, json};

use super::drive;
use crate::calls::in_time;

fn everything(mode: &str, version: &str, parts: usize) {
    let hub = Hub::start();
    let url = format!("{}/mcp", hub.url());
    let arguments = ["http", &url, mode, "everything"];
    let Some(said) = drive(&arguments, Some(hub.token()), hub.dir()) else {
        return;
    };
    assert!(said.contains(&format!("speaks {version}")), "{said}");
    assert_eq!(said.matches("ok: ").count(), parts, "{said}");
    assert!(!hub.log().contains("ERROR"), "{}", hub.log());
}

#[test]
fn an_agent_does_everything() {
    everything("auto", "2026-07-28", 9);
}

/// Older versions take a call back by a message of its own, which nothing ties to the call here.
#[test]
fn an_older_agent_does_everything_but_cancel() {
    everything("legacy", "2025-11-25", 8);
}

#[tokio::test]
async fn the_token_of_one_sandbox_reaches_that_one_only() {
    let hub = Hub::start();
    let admin = hub.client();
    for id in ["own", "other"] {
        let spec = SandboxSpec {
            id: Some(id.parse().unwrap()),
            ..SandboxSpec::default()
        };
        in_time(admin.create_sandbox(&spec)).await.unwrap();
    }
    let request = TokenRequest {
        name: None,
        scopes: vec![Scope::Sandbox("own".parse().unwrap())],
        expires_at: None,
        max_sandboxes: None,
    };
    let token = in_time(admin.create_token(&request)).await.unwrap().token;
    let url = format!("{}/mcp", hub.url());
    for mode in ["auto", "legacy"] {
        let arguments = ["http", &url, mode, "scoped", "own", "other"];
        let Some(said) = drive(&arguments, Some(&token), hub.dir()) else {
            return;
        };
        assert!(said.contains("ok: scoped"), "{said}");
    }
}

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;

async fn ask(
    hub: &Hub,
    token: Option<&str>,
    extra: &[(&str, &str)],
    body: String,
) -> (StatusCode, String) {
    let mut headers = HeaderMap::new();
    let usual = [
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
    ];
    for (name, value) in usual.iter().chain(extra) {
        let name: HeaderName = name.parse().unwrap();
        headers.insert(name, value.parse().unwrap());
    }
    let client = hub.client_with(token);
    let sent = client.raw(Method::POST, "/mcp", &headers, body);
    let (status, _, answer) = in_time(sent).await.unwrap();
    (status, String::from_utf8_lossy(&answer).into_owned())
}

#[tokio::test]
async fn keeps_out_who_has_no_business_there() {
    let hub = Hub::start();
    let token = Some(hub.token());
    let (status, answer) = ask(&hub, token, &[], PING.to_owned()).await;
    assert_eq!(status, 200, "{answer}");
    assert!(answer.contains("create_sandbox"), "{answer}");
    let (status, answer) = ask(&hub, None, &[], PING.to_owned()).await;
    let problem: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(
        (status.as_u16(), &problem["code"]),
        (401, &json!("unauthorized"))
    );
    let (status, _) = ask(&hub, Some("sk_wrong"), &[], PING.to_owned()).await;
    assert_eq!(status, 401);
    // As for the rest of the hub: pages of other origins, and names that are not ours.
    for header in [("origin", "https://evil.example"), ("host", "evil.example")] {
        let (status, answer) = ask(&hub, token, &[header], PING.to_owned()).await;
        assert_eq!(status, 403, "{header:?}: {answer}");
    }
}

#[tokio::test]
async fn refuses_what_is_no_message() {
    let hub = Hub::start();
    let token = Some(hub.token());
    for body in [
        "nonsense",
        "[]",
        "{}",
        "\"\"",
        "{\"jsonrpc\":\"2.0\",\"id\":1}",
    ] {
        let (status, answer) = ask(&hub, token, &[], body.to_owned()).await;
        assert!(status.is_client_error(), "{body}: {status}: {answer}");
    }
    let (status, _) = ask(&hub, token, &[("accept", "text/html")], PING.to_owned()).await;
    assert_eq!(status, 406);
    let (status, _) = ask(
        &hub,
        token,
        &[("content-type", "text/plain")],
        PING.to_owned(),
    )
    .await;
    assert_eq!(status, 415);
    let huge = format!(r#"{{"x":"{}"}}"#, "y".repeat(17 << 20));
    let (status, _) = ask(&hub, token, &[], huge).await;
    assert_eq!(status, 413);
    // There are no sessions to listen to or to end.
    for method in [Method::GET, Method::DELETE] {
        let (client, none) = (hub.client(), HeaderMap::new());
        let sent = client.raw(method.clone(), "/mcp", &none, "");
        assert_eq!(in_time(sent).await.unwrap().0, 405, "{method}");
    }
    // The hub is well.
    let (status, _) = ask(&hub, token, &[], PING.to_owned()).await;
    assert_eq!(status, 200);
}

/// What a tool asks of the hub counts as the caller's own.
#[tokio::test]
async fn the_rate_of_a_token_holds_for_tools() {
    let hub = Hub::with(&["--rate", "3"]);
    let call = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "list_sandboxes", "arguments": {}},
    });
    let mut refused = 0;
    for _ in 0..20 {
        let (status, answer) = ask(&hub, Some(hub.token()), &[], call.to_string()).await;
        refused += usize::from(status == 429 || answer.contains("limit_reached"));
    }
    assert!(refused > 0);
}

/// A call under way is a stream that is open; it does not hold the hub up.
#[tokio::test]
async fn a_hub_that_is_told_to_end_does_not_wait_for_calls() {
    let mut best = Duration::MAX;
    // Whoever waits does so each time; a machine that stands still does not.
    for _ in 0..3 {
        best = best.min(end_with_a_call_under_way().await);
        // Half of what answers are given to end.
        if best < Duration::from_secs(5) {
            return;
        }
    }
    panic!("{best:?}");
}

/// How long a hub takes to end while a call is under way.
async fn end_with_a_call_under_way() -> Duration {
    let mut hub = Hub::start();
    let client = hub.client();
    let spec = SandboxSpec {
        id: Some("one".parse().unwrap()),
        ..SandboxSpec::default()
    };
    in_time(client.create_sandbox(&spec)).await.unwrap();
    let command = "echo > /tmp/up; sleep 300";
    let call = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "run_command",
            "arguments": {"sandbox": "one", "command": command, "wait_ms": 200_000},
        },
    });
    let headers: HeaderMap = [
        (http::header::CONTENT_TYPE, "application/json"),
        (http::header::ACCEPT, "application/json, text/event-stream"),
    ]
    .into_iter()
    .map(|(name, value)| (name, value.parse().unwrap()))
    .collect();
    let caller = hub.client();
    let calling = tokio::spawn(async move {
        let sent = caller.raw(Method::POST, "/mcp", &headers, call.to_string());
        sent.await.map(drop)
    });
    let one = client.sandbox(&"one".parse().unwrap());
    crate::calls::exec(&one, "until [ -e /tmp/up ]; do sleep 0.05; done").await;
    let began = std::time::Instant::now();
    let (hub, status) = tokio::task::spawn_blocking(move || {
        let status = hub.stop();
        (hub, status)
    })
    .await
    .unwrap();
    assert!(status.success());
    let took = began.elapsed();
    let _ = in_time(calling).await.unwrap();
    drop(hub);
    took
}
