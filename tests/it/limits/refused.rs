//! Limits that cannot be, and limits that cannot be kept.

use http::{HeaderMap, Method};
use sandshell_client::ClientError;
use sandshell_client::types::{ErrorCode, Limits, Problem, SessionPatch, SessionRequest};
use sandshell_testkit::{Agent, UnprivilegedUser};
use serde_json::json;

use super::{MIB, cpus, limited, memory, pids, session};
use crate::calls::{in_time, skipped};

fn refusal<T: std::fmt::Debug>(reply: Result<T, ClientError>) -> (ErrorCode, String) {
    let error = reply.expect_err("a refusal was expected");
    let problem = error.problem().expect("a problem document");
    (problem.code, problem.pointer.clone().unwrap_or_default())
}

#[tokio::test]
async fn impossible_limits_are_refused_by_name() {
    let agent = Agent::start();
    let client = agent.client();
    for (limits, name) in [
        (memory(0), "memory_bytes"),
        (memory(MIB), "memory_bytes"),
        (memory(1 << 60), "memory_bytes"),
        (pids(0), "pids"),
        (pids(1 << 40), "pids"),
        (cpus(1_000_000.0), "cpus"),
        (
            Limits {
                open_files: Some(0),
                ..Limits::default()
            },
            "open_files",
        ),
    ] {
        let reply = in_time(client.exec(&limited("true", limits.clone()))).await;
        let expected = (ErrorCode::InvalidRequest, format!("/limits/{name}"));
        assert_eq!(refusal(reply), expected, "{limits:?}");
        let request = SessionRequest {
            limits: Some(limits),
            ..Default::default()
        };
        assert_eq!(
            refusal(in_time(client.create_session(&request)).await),
            expected
        );
    }
    for wrong in [json!(0), json!(-1), json!(0.001), json!("1"), json!(true)] {
        let body = json!({"command": "true", "limits": {"cpus": wrong}});
        let mut headers = HeaderMap::new();
        headers.insert("content-type", "application/json".parse().unwrap());
        let sent = client.raw(Method::POST, "/v1/exec", &headers, body.to_string());
        let (status, _, reply) = in_time(sent).await.unwrap();
        let problem: Problem = serde_json::from_slice(&reply).unwrap();
        let place = problem.pointer.as_deref();
        assert_eq!(
            (status.as_u16(), place),
            (400, Some("/limits/cpus")),
            "{wrong}"
        );
    }
    assert!(in_time(client.stats()).await.unwrap().sessions == 0);
}

#[tokio::test]
async fn what_cannot_be_kept_is_refused_with_the_reason() {
    let Some(user) = UnprivilegedUser::get() else {
        return skipped("only root can give up rights");
    };
    let agent = Agent::builder().run_as(user).start();
    let client = agent.client();
    for (limits, name) in [
        (memory(64 * MIB), "memory_bytes"),
        (cpus(0.5), "cpus"),
        (pids(50), "pids"),
    ] {
        let reply = in_time(client.exec(&limited("true", limits))).await;
        let detail = reply.as_ref().unwrap_err().to_string();
        let expected = (ErrorCode::LimitUnavailable, format!("/limits/{name}"));
        assert_eq!(refusal(reply), expected);
        assert!(
            detail.contains(name) && detail.contains("cannot"),
            "{detail}"
        );
    }
    let files = Limits {
        open_files: Some(40),
        ..Limits::default()
    };
    let kept = in_time(client.exec(&limited("ulimit -n", files))).await;
    assert_eq!(kept.unwrap().stdout, "40\n");
    let private = SessionRequest {
        private_processes: true,
        ..Default::default()
    };
    let refused = refusal(in_time(client.create_session(&private)).await);
    assert_eq!(refused.0, ErrorCode::IsolationUnavailable);
    assert_eq!(refused.1, "/private_processes");
}

#[tokio::test]
async fn a_tree_that_others_would_see_is_not_called_private() {
    let without = ["--without", "pid-namespace"];
    let agent = Agent::builder().args(without).start();
    let private = SessionRequest {
        private_processes: true,
        ..Default::default()
    };
    let refused = refusal(in_time(agent.client().create_session(&private)).await);
    assert_eq!(refused.0, ErrorCode::IsolationUnavailable);
}

#[tokio::test]
async fn a_session_without_groups_cannot_get_them_later() {
    let agent = Agent::start();
    let client = agent.client();
    let id = session(&client, &SessionRequest::default()).await;
    let patch = SessionPatch {
        limits: Some(pids(50)),
        ..Default::default()
    };
    let refused = refusal(in_time(client.patch_session(&id, &patch)).await);
    assert_eq!(refused.0, ErrorCode::LimitUnavailable);
}

/// It was laid to the environment, which nobody had sent.
#[tokio::test]
async fn what_is_longer_than_an_argument_is_refused_by_name() {
    let agent = Agent::start();
    let client = agent.client();
    let long = "x".repeat(200_000);
    let text = crate::calls::exec_of(&format!(": {long}"));
    let refused = in_time(client.exec(&text)).await;
    assert_eq!(
        refusal(refused),
        (ErrorCode::InvalidRequest, "/command".to_owned())
    );
    let argv = sandshell_client::types::ExecRequest {
        argv: Some(vec!["true".to_owned(), long]),
        ..Default::default()
    };
    let refused = in_time(client.exec(&argv)).await;
    assert_eq!(refusal(refused), (ErrorCode::InvalidRequest, String::new()));
}
