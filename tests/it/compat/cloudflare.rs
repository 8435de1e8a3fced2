//! `@cloudflare/sandbox` at `/cloudflare/{sandbox}/{token}` of a hub.

use std::process::Command;

use http::Method;
use sandshell_client::Client;
use sandshell_client::types::{
    IsolationPolicy, IsolationSpec, SandboxId, SandboxSpec, Scope, TokenRequest,
};
use sandshell_testkit::{Hub, UnprivilegedUser};

use super::{must_pass, suite};
use crate::calls::in_time;

async fn token(client: &Client, scopes: Vec<Scope>) -> String {
    let request = TokenRequest {
        name: None,
        scopes,
        expires_at: None,
        max_sandboxes: None,
    };
    in_time(client.create_token(&request)).await.unwrap().token
}

async fn sandbox(client: &Client) -> SandboxId {
    let spec = SandboxSpec {
        isolation: Some(IsolationSpec {
            policy: IsolationPolicy::BestEffort,
            ..IsolationSpec::default()
        }),
        ..SandboxSpec::default()
    };
    in_time(client.create_sandbox(&spec)).await.unwrap().id
}

async fn drive(hub: &Hub) {
    let Some(place) = suite("cloudflare") else {
        return;
    };
    let id = sandbox(&hub.client()).await;
    let token = token(&hub.client(), vec![Scope::Sandbox(id.clone())]).await;
    let base = format!("{}/cloudflare/{id}/{token}", hub.url());
    must_pass(
        Command::new("node")
            .args(["--test", "--test-reporter=spec", "suite.test.mjs"])
            .current_dir(place)
            .env("BASE", base),
    );
}

#[tokio::test]
async fn its_own_client_does_everything() {
    drive(&Hub::start()).await;
}

#[tokio::test]
async fn its_own_client_does_everything_for_an_ordinary_user() {
    if let Some(user) = UnprivilegedUser::get() {
        drive(&Hub::of(user)).await;
    }
}

/// The token in the path opens its own sandbox and nothing else, and a wider one is refused there.
#[tokio::test]
async fn the_path_opens_one_sandbox() {
    let hub = Hub::start();
    let client = hub.client();
    let (one, other) = (sandbox(&client).await, sandbox(&client).await);
    let narrow = token(&client, vec![Scope::Sandbox(one.clone())]).await;
    let wide = token(&client, vec![Scope::Admin]).await;
    let anyone = Client::new(hub.url(), None).unwrap();
    let no_headers = http::HeaderMap::new();
    let denied = r#""code":"PERMISSION_DENIED""#;
    for (id, token, expected, says) in [
        (&one, narrow.as_str(), 200, r#""success":true"#),
        (&other, narrow.as_str(), 403, denied),
        (&one, wide.as_str(), 403, denied),
        (&one, "sk_wrong", 403, denied),
        (&one, "", 403, denied),
    ] {
        let path = format!("/cloudflare/{id}/{token}/api/ping");
        let reply = anyone.raw(Method::GET, &path, &no_headers, "");
        let (status, _, body) = in_time(reply).await.unwrap();
        assert_eq!(status.as_u16(), expected, "{path}: {body:?}");
        let body = String::from_utf8_lossy(&body);
        assert!(body.contains(says), "{path}: {body}");
    }
    in_time(client.destroy_sandbox(&one)).await.unwrap();
    let path = format!("/cloudflare/{one}/{narrow}/api/ping");
    let reply = anyone.raw(Method::GET, &path, &no_headers, "");
    let (status, _, body) = in_time(reply).await.unwrap();
    // Nothing that their client would try again.
    assert!(matches!(status.as_u16(), 403 | 410), "{status} {body:?}");
}
