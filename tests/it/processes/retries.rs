//! Promise 8: retries are safe.

use sandshell_client::Page;
use sandshell_client::types::{ErrorCode, ExecRequest, ProcessRequest};
use sandshell_testkit::Agent;

use crate::calls::{code_of, exec_of, in_time, process_of};

use super::named;

#[tokio::test]
async fn a_create_can_be_repeated_and_a_different_one_is_refused() {
    let agent = Agent::start();
    let client = agent.client();
    let spec = named("web", "echo started; sleep 1000");
    let body = serde_json::to_vec(&spec).unwrap();
    let headers = http::HeaderMap::from_iter([(
        http::header::CONTENT_TYPE,
        "application/json".parse().unwrap(),
    )]);
    let mut replies = Vec::new();
    for expected in [201, 200] {
        let (status, _, reply) = client
            .raw(http::Method::POST, "/v1/processes", &headers, body.clone())
            .await
            .unwrap();
        assert_eq!(status.as_u16(), expected);
        let reply: sandshell_client::types::ProcessRecord = serde_json::from_slice(&reply).unwrap();
        replies.push((reply.id, reply.pid, reply.started_at));
    }
    assert_eq!(replies[0], replies[1]);
    for (other, field) in [
        (named("web", "other"), "/command"),
        (
            ProcessRequest {
                tag: Some("t".to_owned()),
                ..spec.clone()
            },
            "/tag",
        ),
        (
            ProcessRequest {
                cwd: Some("/".to_owned()),
                ..spec.clone()
            },
            "/cwd",
        ),
        (
            ProcessRequest {
                env: crate::calls::env(&[("A", None)]),
                ..spec.clone()
            },
            "/env",
        ),
    ] {
        let refused = client
            .create_process(&other)
            .await
            .expect_err("another spec");
        assert_eq!(refused.code(), Some(ErrorCode::IdConflict));
        assert_eq!(refused.problem().unwrap().pointer.as_deref(), Some(field));
    }
}

#[tokio::test]
async fn twenty_creates_of_one_id_at_once_make_one_process() {
    let agent = Agent::start();
    let file = agent.work_dir().join("starts");
    let spec = named("one", &format!("echo x >>{}; sleep 1000", file.display()));
    let creates: Vec<_> = (0..20)
        .map(|_| {
            let (client, spec) = (agent.client(), spec.clone());
            tokio::spawn(async move { client.create_process(&spec).await.unwrap().pid })
        })
        .collect();
    let mut pids = Vec::new();
    for create in creates {
        pids.push(in_time(create).await.unwrap());
    }
    pids.sort_unstable();
    pids.dedup();
    assert_eq!(pids.len(), 1);
    let client = agent.client();
    in_time(client.kill_process(
        &"one".parse().unwrap(),
        &sandshell_client::types::KillRequest::default(),
    ))
    .await
    .unwrap();
    assert!(
        std::fs::read_to_string(&file)
            .unwrap_or_default()
            .lines()
            .count()
            <= 1
    );
}

#[tokio::test]
async fn an_idempotency_key_runs_an_exec_once() {
    let agent = Agent::start();
    let client = agent.client();
    let file = agent.work_dir().join("runs");
    let request = exec_of(&format!("echo x >>{0}; wc -l <{0}; exit 3", file.display()));
    let keyed = client.idempotent("key-1").unwrap();
    let first = in_time(keyed.exec(&request)).await.unwrap();
    assert_eq!((first.stdout.as_str(), first.exit_code), ("1\n", 3));
    assert_eq!(in_time(keyed.exec(&request)).await.unwrap(), first);
    assert_eq!(
        code_of(keyed.exec(&exec_of("true")).await),
        ErrorCode::IdempotencyConflict
    );
    let route = keyed.create_process(&process_of("true")).await;
    assert_eq!(code_of(route), ErrorCode::IdempotencyConflict);
    let other = client.idempotent("key-2").unwrap();
    assert_eq!(in_time(other.exec(&request)).await.unwrap().stdout, "2\n");
    // A refused request changed nothing, so its key is free again.
    let key = client.idempotent("key-3").unwrap();
    let bad = ExecRequest {
        cwd: Some("/no/such/dir".to_owned()),
        ..exec_of("true")
    };
    assert_eq!(code_of(key.exec(&bad).await), ErrorCode::InvalidCwd);
    assert_eq!(
        in_time(key.exec(&exec_of("echo ok"))).await.unwrap().stdout,
        "ok\n"
    );
}

#[tokio::test]
async fn concurrent_repeats_of_a_key_share_one_run() {
    let agent = Agent::start();
    let file = agent.work_dir().join("runs");
    let request = exec_of(&format!(
        "echo x >>{0}; sleep 0.1; wc -l <{0}",
        file.display()
    ));
    let calls: Vec<_> = (0..10)
        .map(|_| {
            let (client, request) = (agent.client().idempotent("same").unwrap(), request.clone());
            tokio::spawn(async move { client.exec(&request).await.unwrap() })
        })
        .collect();
    let mut results = Vec::new();
    for call in calls {
        results.push(in_time(call).await.unwrap());
    }
    assert!(
        results.iter().all(|result| *result == results[0]),
        "{results:?}"
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "x\n");
}

#[tokio::test]
async fn a_key_makes_creates_and_session_commands_safe_too() {
    let agent = Agent::start();
    let client = agent.client();
    let keyed = client.idempotent("create").unwrap();
    let first = keyed
        .create_process(&process_of("sleep 1000"))
        .await
        .unwrap();
    let second = keyed
        .create_process(&process_of("sleep 1000"))
        .await
        .unwrap();
    assert_eq!(first.id, second.id);
    let keyed = client.idempotent("session").unwrap();
    let session = keyed
        .create_session(&sandshell_client::types::SessionRequest::default())
        .await
        .unwrap();
    assert_eq!(
        keyed
            .create_session(&sandshell_client::types::SessionRequest::default())
            .await
            .unwrap()
            .id,
        session.id
    );
    let keyed = client.idempotent("command").unwrap();
    let command = crate::calls::text("echo $((++n))");
    for _ in 0..3 {
        let result = in_time(keyed.session_exec(&session.id, &command))
            .await
            .unwrap();
        assert_eq!(result.stdout, "1\n");
    }
}
#[tokio::test]
async fn creating_a_session_again_gives_the_same_one() {
    let agent = Agent::start();
    let client = agent.client();
    let spec = sandshell_client::types::SessionRequest {
        id: Some("same".parse().unwrap()),
        cwd: Some("/usr".to_owned()),
        ..Default::default()
    };
    let first = client.create_session(&spec).await.unwrap();
    let second = client.create_session(&spec).await.unwrap();
    assert_eq!(
        (first.pid, first.created_at),
        (second.pid, second.created_at)
    );
    let other = sandshell_client::types::SessionRequest {
        cwd: Some("/tmp".to_owned()),
        ..spec.clone()
    };
    let refused = client
        .create_session(&other)
        .await
        .expect_err("another spec");
    assert_eq!(
        (refused.status(), refused.code()),
        (Some(409), Some(ErrorCode::IdConflict))
    );
    assert_eq!(refused.problem().unwrap().pointer.as_deref(), Some("/cwd"));
    let many = (0..20).map(|_| {
        let (client, spec) = (
            agent.client(),
            sandshell_client::types::SessionRequest {
                id: Some("race".parse().unwrap()),
                ..Default::default()
            },
        );
        tokio::spawn(async move { client.create_session(&spec).await.unwrap().pid })
    });
    let mut pids = Vec::new();
    for one in many.collect::<Vec<_>>() {
        pids.push(one.await.unwrap());
    }
    pids.dedup();
    assert_eq!(pids.len(), 1);
    assert_eq!(
        client
            .list_sessions(&Page::default())
            .await
            .unwrap()
            .items
            .len(),
        2
    );
}
