//! The explorer at `/docs`, over HTTP and in a real browser.

use http::{HeaderMap, Method};
use sandshell_testkit::Agent;

use crate::browsers::Browser;
use crate::calls::in_time;

fn header(name: &'static str, value: &str) -> HeaderMap {
    HeaderMap::from_iter([(name.parse().unwrap(), value.parse().unwrap())])
}

#[tokio::test]
async fn is_served_compressed_tagged_and_locked_down_without_a_token() {
    let agent = Agent::start();
    let client = sandshell_client::Client::new(agent.url(), None).unwrap();
    let get = |headers: HeaderMap| {
        let client = client.clone();
        async move {
            in_time(client.raw(Method::GET, "/docs", &headers, ""))
                .await
                .unwrap()
        }
    };
    let (status, plain_head, plain) = get(HeaderMap::new()).await;
    assert_eq!(status.as_u16(), 200);
    assert!(!plain_head.contains_key("content-encoding"));
    assert!(plain.starts_with(b"<!doctype html>"));
    let (_, head, small) = get(header("accept-encoding", "gzip, br")).await;
    assert_eq!(head["content-encoding"], "gzip");
    assert_eq!(head["vary"], "accept-encoding");
    assert!(small.len() * 2 < plain.len(), "{} bytes", small.len());
    // Strong, and not the same for other bytes.
    assert!(head["etag"].to_str().unwrap().starts_with('"'));
    assert_ne!(head["etag"], plain_head["etag"]);
    let policy = head["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"));
    assert!(!policy.contains("-inline") && !policy.contains("-eval") && !policy.contains("http"));
    let mut again = header("accept-encoding", "gzip");
    again.insert("if-none-match", head["etag"].clone());
    let (status, _, body) = get(again).await;
    assert_eq!((status.as_u16(), body.len()), (304, 0));
    let (status, head, document) =
        in_time(client.raw(Method::GET, "/openapi.json", &HeaderMap::new(), ""))
            .await
            .unwrap();
    assert_eq!(status.as_u16(), 200);
    let again = header("if-none-match", head["etag"].to_str().unwrap());
    let (status, _, _) = in_time(client.raw(Method::GET, "/openapi.json", &again, ""))
        .await
        .unwrap();
    assert_eq!(status.as_u16(), 304);
    assert!(serde_json::from_slice::<serde_json::Value>(&document).is_ok());
}

#[tokio::test]
async fn a_browser_shows_every_operation_and_runs_a_command() {
    let agent = Agent::start();
    let Some(mut browser) = Browser::start().await else {
        return;
    };
    browser.open(&format!("{}/docs#exec", agent.url())).await;
    let routes = browser
        .when("nav a", "[...document.querySelectorAll('nav a')].length")
        .await;
    let document: serde_json::Value = serde_json::from_slice(
        &agent
            .client()
            .raw(Method::GET, "/openapi.json", &HeaderMap::new(), "")
            .await
            .unwrap()
            .2,
    )
    .unwrap();
    let operations = document["paths"].as_object().unwrap().values();
    let operations: usize = operations.map(|item| item.as_object().unwrap().len()).sum();
    assert_eq!(routes, operations);
    // Without the token: the page tells what is missing.
    browser
        .evaluate("document.querySelector('form').requestSubmit()")
        .await;
    let shown = browser
        .when(
            "#result pre:not(:empty)",
            "document.querySelector('#result').textContent",
        )
        .await;
    assert!(shown.as_str().unwrap().contains("unauthorized"), "{shown}");
    // With it, a command runs and its output is shown.
    let token = agent.token().unwrap();
    browser
        .evaluate(&format!(
            "document.querySelector('#result').replaceChildren();
             document.querySelector('#token').value = '{token}';
             document.querySelector('#body').value = '{{\"command\": \"echo from-a-browser\"}}';
             document.querySelector('form').requestSubmit()"
        ))
        .await;
    let shown = browser
        .when(
            "#result pre:not(:empty)",
            "document.querySelector('#result').textContent",
        )
        .await;
    assert!(
        shown.as_str().unwrap().contains("from-a-browser\\n"),
        "{shown}"
    );
    let curl = browser
        .evaluate("document.querySelector('#curl').textContent")
        .await;
    assert!(curl.as_str().unwrap().contains("$TOKEN"));
    assert!(!curl.as_str().unwrap().contains(token));
    // Nothing came from elsewhere, nothing is stored, and the policy holds.
    let elsewhere = browser
        .evaluate(
            "performance.getEntriesByType('resource').map((entry) => entry.name)
                .filter((name) => !name.startsWith(location.origin + '/') && !name.startsWith('data:')).length
             + localStorage.length + sessionStorage.length + document.cookie.length",
        )
        .await;
    assert_eq!(elsewhere, 0);
    let injected = browser
        .evaluate(
            "const script = document.createElement('script'); script.textContent = 'window.injected = 1';
             document.body.append(script); typeof window.injected",
        )
        .await;
    assert_eq!(injected, "undefined");
    browser.close().await;
}
