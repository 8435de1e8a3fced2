//! Who can reach the agent: tokens, sockets, and not its own commands.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use sandshell_client::Client;
use sandshell_client::types::ErrorCode;
use sandshell_testkit::Agent;

use crate::calls::exec;

#[tokio::test]
async fn a_token_is_needed_and_only_the_right_one_will_do() {
    let agent = Agent::builder().token("secret-token-of-the-test").start();
    let right = agent.client();
    assert_eq!(exec(&right, "echo in").await.stdout, "in\n");
    for token in [
        None,
        Some("wrong"),
        Some("secret-token-of-the-tes"),
        Some(""),
    ] {
        let client = Client::new(agent.url(), token).unwrap();
        let refused = client
            .exec(&crate::calls::exec_of("true"))
            .await
            .expect_err("no right token");
        assert_eq!(
            (refused.status(), refused.code()),
            (Some(401), Some(ErrorCode::Unauthorized))
        );
        let (status, headers, _) = client
            .raw(
                http::Method::GET,
                "/v1/nothing",
                &http::HeaderMap::new(),
                "",
            )
            .await
            .unwrap();
        assert_eq!(
            (
                status.as_u16(),
                headers["www-authenticate"].to_str().unwrap()
            ),
            (401, "Bearer")
        );
        assert_eq!(client.healthz().await.unwrap().status, "ok");
        assert_eq!(client.version().await.unwrap().api, "v1");
    }
    let made = Agent::start();
    let mode = std::fs::metadata(made.token_file())
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(made.token().unwrap().len() >= 32);
    assert!(
        !exec(
            &made.client(),
            "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'; :"
        )
        .await
        .stdout
        .contains(made.token().unwrap())
    );
}

#[tokio::test]
async fn a_unix_socket_needs_no_token_and_is_the_owners() {
    let agent = Agent::builder().unix_socket().start();
    assert!(agent.url().starts_with("unix:"), "{}", agent.url());
    assert_eq!(exec(&agent.client(), "echo in").await.stdout, "in\n");
    let path = agent.url().trim_start_matches("unix:").to_owned();
    assert_eq!(
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o077,
        0
    );
    tokio::task::spawn_blocking(move || agent.stop_gracefully())
        .await
        .unwrap();
    assert!(!Path::new(&path).exists(), "the socket is left");
}

#[tokio::test]
async fn commands_cannot_reach_the_agent() {
    let agent = Agent::start();
    let client = agent.client();
    if agent.log().contains("no PID namespace") {
        return;
    }
    let pid = agent.pid();
    let result = exec(&client, &format!("kill -9 {pid} 2>&1; ls /proc | grep -c '^[0-9]'; cat /proc/1/environ | wc -c; readlink /proc/$$/exe")).await;
    assert_eq!(client.healthz().await.unwrap().status, "ok", "{result:?}");
}
