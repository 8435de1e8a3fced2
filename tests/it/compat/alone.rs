//! Dialects at the root of an agent that has no hub.

use std::process::Command;

use http::{HeaderMap, HeaderValue, Method};
use sandshell_client::Client;
use sandshell_testkit::Agent;
use tempfile::TempDir;

use super::{must_pass, python, root};
use crate::calls::in_time;

/// E2B's debug mode, at an address of our choice.
fn debug(agent: &Agent, more: &[(&str, &str)]) {
    let Some(python) = python("e2b") else {
        return;
    };
    let place = TempDir::with_prefix("sandshell-alone-").unwrap();
    let home = TempDir::with_prefix("sandshell-home-").unwrap();
    must_pass(
        Command::new(python)
            .arg("alone.py")
            .current_dir(root().join("tests/compat/e2b"))
            .env("E2B_DEBUG", "true")
            .env("E2B_SANDBOX_URL", agent.url())
            .env("PLACE", place.path())
            .env("HOME_OF_COMMANDS", home.path())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .envs(more.iter().copied()),
    );
}

#[test]
fn an_agent_is_what_debug_mode_of_e2b_looks_for() {
    let agent = Agent::builder().without_token_file();
    debug(&agent.args(["--dialect", "e2b"]).start(), &[]);
}

#[test]
fn with_a_token_file_nobody_comes_in_without_the_token() {
    let agent = Agent::builder().args(["--dialect", "e2b"]).start();
    debug(&agent, &[("LOCKED", "1")]);
}

/// The rest of its API is tried at a hub, where its files lie in a sandbox.
#[tokio::test]
async fn an_agent_stands_in_for_the_server_in_cloudflares_images() {
    let agent = Agent::builder().without_token_file();
    let agent = agent.args(["--dialect", "cloudflare"]).start();
    let anyone = Client::new(agent.url(), None).unwrap();
    let json = HeaderMap::from_iter([(
        http::header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    )]);
    let execute = |body: &'static str| anyone.raw(Method::POST, "/api/execute", &json, body);
    let (status, _, body) = in_time(execute(r#"{"command":"cd /tmp; X=1","sessionId":"s"}"#))
        .await
        .unwrap();
    assert_eq!(status, 200, "{body:?}");
    let (_, _, body) = in_time(execute(r#"{"command":"pwd; echo $X","sessionId":"s"}"#))
        .await
        .unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(answer["stdout"], "/tmp\n1\n");
    let (status, _, body) = in_time(execute("{")).await.unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(
        (status.as_u16(), &answer["code"]),
        (400, &"VALIDATION_FAILED".into())
    );
    // Our own API is there, with its own token.
    let (status, _, _) = in_time(anyone.raw(Method::GET, "/v1/processes", &json, ""))
        .await
        .unwrap();
    assert_eq!(status, 401);
}
