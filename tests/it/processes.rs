//! The process surface.

mod input;
mod retries;
mod waits;

use sandshell_client::types::{
    ExecRequest, ProcessKind, ProcessRequest, ProcessState, RestartMode, RestartPolicy, StreamName,
};
use sandshell_client::{Client, Page, ProcessFilter};
use sandshell_testkit::Agent;

use crate::calls::{exec_of, follow, in_time, process_of, start, wait_for_exit, wait_for_text};

fn with_input(command: &str) -> ProcessRequest {
    ProcessRequest {
        stdin_open: true,
        ..process_of(command)
    }
}

fn named(id: &str, command: &str) -> ProcessRequest {
    ProcessRequest {
        id: Some(id.parse().unwrap()),
        ..process_of(command)
    }
}

fn restarting(mode: RestartMode, max: Option<u32>, command: &str) -> ProcessRequest {
    let policy = RestartPolicy {
        mode,
        backoff_ms: Some(1),
        max_restarts: max,
    };
    ProcessRequest {
        restart: Some(policy),
        ..process_of(command)
    }
}

#[tokio::test]
async fn restart_policies_do_what_they_say() {
    let agent = Agent::start();
    let client = agent.client();
    let file = agent.work_dir().join("n").display().to_string();
    let third = format!("echo run; echo x >>{file}; [ $(wc -l <{file}) -ge 3 ]");
    let id = start(&client, &restarting(RestartMode::OnFailure, None, &third)).await;
    let record = wait_for_exit(&client, &id).await.process;
    assert_eq!(
        (record.exit_code, record.restarts, record.state),
        (Some(0), 2, ProcessState::Exited)
    );
    assert_eq!(
        follow(&client, &id, StreamName::Stdout).await,
        b"run\nrun\nrun\n"
    );
    let id = start(
        &client,
        &restarting(RestartMode::OnFailure, Some(2), "exit 9"),
    )
    .await;
    let record = wait_for_exit(&client, &id).await.process;
    assert_eq!((record.exit_code, record.restarts), (Some(9), 2));
    let id = start(
        &client,
        &restarting(RestartMode::Always, Some(3), "kill -9 $$"),
    )
    .await;
    let record = wait_for_exit(&client, &id).await.process;
    assert_eq!(
        (record.signal.as_deref(), record.restarts),
        (Some("SIGKILL"), 3)
    );
    for mode in [RestartMode::Never, RestartMode::OnFailure] {
        let id = start(&client, &restarting(mode, None, "exit 0")).await;
        assert_eq!(
            wait_for_exit(&client, &id).await.process.restarts,
            0,
            "{mode:?}"
        );
    }
    let id = start(
        &client,
        &restarting(RestartMode::Always, None, "echo up; sleep 1000"),
    )
    .await;
    wait_for_text(&client, &id, "up").await;
    in_time(client.kill_process(&id, &sandshell_client::types::KillRequest::default()))
        .await
        .unwrap();
    assert_eq!(
        client.process(&id).await.unwrap().state,
        ProcessState::Exited
    );
}

#[tokio::test]
async fn a_kill_ends_the_wait_for_a_restart() {
    let agent = Agent::start();
    let client = agent.client();
    let policy = RestartPolicy {
        mode: RestartMode::Always,
        backoff_ms: Some(600_000),
        max_restarts: None,
    };
    let id = start(
        &client,
        &ProcessRequest {
            restart: Some(policy),
            ..process_of("echo x; exit 3")
        },
    )
    .await;
    let in_backoff = async || client.process(&id).await.unwrap().state == ProcessState::Backoff;
    in_time(async { while !in_backoff().await {} }).await;
    in_time(client.kill_process(&id, &sandshell_client::types::KillRequest::default()))
        .await
        .unwrap();
    let record = client.process(&id).await.unwrap();
    assert_eq!(
        (record.state, record.exit_code),
        (ProcessState::Exited, Some(3))
    );
    in_time(client.delete_process(&id)).await.unwrap();
}

async fn ids(
    client: &Client,
    kind: Option<ProcessKind>,
    page: Page,
) -> (Vec<String>, Option<String>) {
    let filter = ProcessFilter {
        kind,
        page,
        ..Default::default()
    };
    let list = client.list_processes(&filter).await.unwrap();
    (
        list.items
            .into_iter()
            .map(|record| record.id.to_string())
            .collect(),
        list.next_cursor,
    )
}

#[tokio::test]
async fn records_are_listed_by_kind_and_page_by_page() {
    let agent = Agent::start();
    let client = agent.client();
    for n in 0..7 {
        let id = start(&client, &named(&format!("p{n}"), "true")).await;
        wait_for_exit(&client, &id).await;
    }
    let request = ExecRequest {
        id: Some("e".parse().unwrap()),
        ..exec_of("true")
    };
    client.exec(&request).await.unwrap();
    let all: Vec<String> = (0..7).map(|n| format!("p{n}")).collect();
    assert_eq!(
        ids(&client, None, Page::default()).await,
        (all.clone(), None)
    );
    assert_eq!(
        ids(&client, Some(ProcessKind::Exec), Page::default())
            .await
            .0,
        ["e"]
    );
    let mut seen = Vec::new();
    let mut cursor = None;
    loop {
        let (page, next) = ids(
            &client,
            None,
            Page {
                limit: Some(3),
                cursor,
            },
        )
        .await;
        assert!(page.len() <= 3 && !page.is_empty());
        seen.extend(page);
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, all);
    client.delete_process(&"p3".parse().unwrap()).await.unwrap();
    assert_eq!(ids(&client, None, Page::default()).await.0.len(), 6);
}
