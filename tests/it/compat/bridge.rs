//! The `OpenAI` Agents SDK's client of Cloudflare's bridge, at `/bridge` of a hub.

use std::process::Command;

use http::{HeaderMap, Method};
use sandshell_client::types::{SandboxSpec, Scope, TokenRequest};
use sandshell_testkit::{Hub, UnprivilegedUser};

use super::{must_pass, python, root};
use crate::calls::in_time;

/// Runs parts of the suite.
async fn drive(hub: &Hub, parts: &[&str]) {
    let Some(python) = python("bridge") else {
        return;
    };
    let client = hub.client();
    let sandbox = in_time(client.create_sandbox(&SandboxSpec::default()))
        .await
        .unwrap();
    let request = TokenRequest {
        name: None,
        scopes: vec![Scope::Sandbox(sandbox.id)],
        expires_at: None,
        max_sandboxes: None,
    };
    let narrow = in_time(client.create_token(&request)).await.unwrap().token;
    must_pass(
        Command::new(python)
            .args(["-B", "-W", "ignore", "suite.py"])
            .args(parts)
            .current_dir(root().join("tests/compat/bridge"))
            .env("SANDSHELL_URL", hub.url())
            .env("CLOUDFLARE_SANDBOX_API_KEY", hub.token())
            .env("NARROW_TOKEN", narrow),
    );
}

const ALONE: [&str; 4] = ["Suite", "More", "Errors", "BadInput"];

#[tokio::test]
async fn its_own_client_does_everything() {
    drive(&Hub::start(), &ALONE).await;
}

#[tokio::test]
async fn its_own_client_does_everything_for_an_ordinary_user() {
    if let Some(user) = UnprivilegedUser::get() {
        let hub = Hub::of_with(user, &["--isolation", "best-effort"]);
        drive(&hub, &ALONE).await;
    }
}

#[tokio::test]
async fn twenty_clients_do_everything_at_once() {
    drive(&Hub::start(), &["Crowd"]).await;
}

/// With a domain for previews, the address of a port is a name below it.
#[tokio::test]
async fn a_tunnel_is_a_preview_where_there_can_be_one() {
    let hub = Hub::with(&["--preview-domain", "https://preview.example.org"]);
    let client = hub.client();
    let sandbox = in_time(client.create_sandbox(&SandboxSpec::default())).await;
    let id = sandbox.unwrap().id;
    let path = format!("/bridge/v1/sandbox/{id}/tunnel/8080");
    let no_headers = HeaderMap::new();
    let reply = client.raw(Method::POST, &path, &no_headers, "");
    let (status, _, body) = in_time(reply).await.unwrap();
    assert_eq!(status, 200, "{body:?}");
    let tunnel: serde_json::Value = serde_json::from_slice(&body).unwrap();
    let host = tunnel["hostname"].as_str().unwrap();
    assert!(host.starts_with(&format!("8080-{id}-")), "{host}");
    assert!(host.ends_with(".preview.example.org"), "{host}");
    assert_eq!(tunnel["url"], format!("https://{host}/"));
    let reply = client.raw(Method::DELETE, &path, &no_headers, "");
    assert_eq!(in_time(reply).await.unwrap().0, 204);
}
