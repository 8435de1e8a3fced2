//! E2B's clients, in Python and JavaScript, at `/e2b` of a hub.

use std::path::PathBuf;
use std::process::Command;

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use sandshell_client::types::{SandboxId, SandboxSpec};
use sandshell_testkit::{Hub, UnprivilegedUser};

use super::{must_pass, python, root, suite};
use crate::calls::in_time;

/// Sandboxes here may lack a protection that this machine cannot give.
const ARGUMENTS: [&str; 4] = ["--isolation", "best-effort", "--e2b-domain", "e2b.test"];

/// Variables of a suite that must find a sandbox to be paused.
const PAUSES: [(&str, &str); 1] = [("MUST_PAUSE", "1")];

/// A hub's address and key, as the clients are told them.
fn told<'a>(command: &'a mut Command, hub: &Hub, more: &'a [(&str, &str)]) -> &'a mut Command {
    let url = format!("{}/e2b", hub.url());
    command
        .env("E2B_API_URL", &url)
        .env("E2B_SANDBOX_URL", &url)
        .env("E2B_API_KEY", format!("e2b_{}", hub.token()))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .envs(more.iter().copied())
}

fn in_python(hub: &Hub, file: &str, more: &[(&str, &str)]) {
    if let Some(python) = python("e2b") {
        let suite: PathBuf = root().join("tests/compat/e2b");
        must_pass(told(
            Command::new(python).arg(file).current_dir(suite),
            hub,
            more,
        ));
    }
}

fn in_javascript(hub: &Hub, more: &[(&str, &str)]) {
    if let Some(place) = suite("e2b") {
        must_pass(told(
            Command::new("node")
                .args([
                    "--test",
                    "--test-force-exit",
                    "--test-reporter=spec",
                    "suite.test.mjs",
                ])
                .current_dir(place),
            hub,
            more,
        ));
    }
}

#[test]
fn its_python_client_does_everything() {
    in_python(&Hub::with(&ARGUMENTS), "suite.py", &PAUSES);
}

#[test]
fn its_asynchronous_python_client_does_everything() {
    in_python(&Hub::with(&ARGUMENTS), "suite_async.py", &PAUSES);
}

#[test]
fn its_javascript_client_does_everything() {
    in_javascript(&Hub::with(&ARGUMENTS), &PAUSES);
}

#[test]
fn bad_input_gets_its_errors_and_binary_messages_are_understood() {
    in_python(&Hub::with(&ARGUMENTS), "wire.py", &PAUSES);
}

#[test]
fn its_clients_do_everything_for_an_ordinary_user() {
    if let Some(user) = UnprivilegedUser::get() {
        let hub = Hub::of_with(user, &ARGUMENTS);
        in_python(&hub, "suite.py", &[]);
        in_javascript(&hub, &[]);
    }
}

/// The answer of `envd` to whoever shows this token for this sandbox.
async fn health(hub: &Hub, id: &str, token: &str) -> u16 {
    let anyone = hub.client_with(None);
    let shown = [("e2b-sandbox-id", id), ("x-access-token", token)];
    let shown = shown.map(|(name, value)| {
        let name = HeaderName::from_static(name);
        (name, HeaderValue::from_str(value).unwrap())
    });
    let headers = HeaderMap::from_iter(shown);
    let asked = anyone.raw(Method::GET, "/e2b/health", &headers, "");
    in_time(asked).await.unwrap().0.as_u16()
}

/// What a sandbox's client is told of it: the control plane's answer.
async fn detail(hub: &Hub, id: &SandboxId) -> String {
    let key = HeaderValue::from_str(&format!("e2b_{}", hub.token())).unwrap();
    let headers = HeaderMap::from_iter([(HeaderName::from_static("x-api-key"), key)]);
    let path = format!("/e2b/sandboxes/{id}");
    let anyone = hub.client_with(None);
    let asked = anyone.raw(Method::GET, &path, &headers, "");
    let (_, _, body) = in_time(asked).await.unwrap();
    let detail: serde_json::Value = serde_json::from_slice(&body).unwrap();
    detail["envdAccessToken"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_access_token_is_for_one_sandbox_for_as_long_as_it_lives() {
    let mut hub = Hub::with(&ARGUMENTS);
    let made = async |hub: &Hub, id: &str| {
        let spec = SandboxSpec {
            id: Some(id.parse().unwrap()),
            ..SandboxSpec::default()
        };
        let made = in_time(hub.client().create_sandbox(&spec)).await.unwrap();
        detail(hub, &made.id).await
    };
    let token = made(&hub, "one").await;
    let other = made(&hub, "two").await;
    assert_eq!(health(&hub, "one", &token).await, 204);
    assert_eq!(health(&hub, "two", &token).await, 401);
    assert_eq!(health(&hub, "none", &token).await, 401);
    hub.kill_hard();
    hub.restart();
    assert_eq!(health(&hub, "one", &token).await, 204);
    assert_eq!(health(&hub, "two", &other).await, 204);
    let id: SandboxId = "one".parse().unwrap();
    in_time(hub.client().destroy_sandbox(&id)).await.unwrap();
    assert_eq!(health(&hub, "one", &token).await, 502);
    // Another one with the same id is not the same.
    let again = made(&hub, "one").await;
    assert_eq!(health(&hub, "one", &token).await, 502);
    assert_eq!(health(&hub, "one", &again).await, 204);
}
