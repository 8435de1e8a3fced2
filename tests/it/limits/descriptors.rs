//! Descriptors of the agent itself: how many a session takes, and what becomes of everything when they are used up.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use sandshell_client::Client;
use sandshell_client::types::{ErrorCode, SessionId, SessionRequest};
use sandshell_testkit::{Agent, find_binary};
use tempfile::TempDir;

use crate::calls::{exec, in_time, text};

/// What a command says in a session.
async fn said(client: &Client, session: &SessionId, command: &str) -> String {
    let result = in_time(client.session_exec(session, &text(command))).await;
    result.unwrap().stdout
}

/// An agent that was started with these limits of open files, as `ulimit` sets them.
fn agent_with(limits: &str) -> (TempDir, Agent) {
    let dir = TempDir::with_prefix("sandshell-test-limits-").unwrap();
    let script: PathBuf = dir.path().join("sandshell");
    let binary = find_binary();
    let text = format!("#!/bin/sh\n{limits}\nexec {} \"$@\"\n", binary.display());
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let agent = Agent::builder().binary(script).start();
    (dir, agent)
}

#[tokio::test]
async fn an_agent_takes_all_descriptors_it_may_and_leaves_its_commands_the_usual() {
    let (_dir, agent) = agent_with("ulimit -Sn 300; ulimit -Hn 2000");
    let limits = fs::read_to_string(format!("/proc/{}/limits", agent.pid())).unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let words: Vec<&str> = line.unwrap().split_whitespace().collect();
    assert_eq!(words[3..5], ["2000", "2000"], "{limits}");
    let client = agent.client();
    let limits = exec(&client, "ulimit -Sn; ulimit -Hn").await.stdout;
    assert_eq!(limits, "300\n2000\n");
    let private = SessionRequest {
        private_processes: true,
        ..SessionRequest::default()
    };
    // Only where a PID namespace can be made.
    if let Ok(session) = client.create_session(&private).await {
        assert_eq!(said(&client, &session.id, "ulimit -Sn").await, "300\n");
    }
}

/// Makes sessions, several at once, until one is refused for want of descriptors.
async fn fill(client: &Client) -> Vec<SessionId> {
    let maker = |client: Client| async move {
        let mut made = Vec::new();
        loop {
            match client.create_session(&SessionRequest::default()).await {
                Ok(session) => made.push(session.id),
                Err(error) => {
                    assert_eq!(error.code(), Some(ErrorCode::Unavailable), "{error:?}");
                    return made;
                }
            }
        }
    };
    let makers: Vec<_> = (0..8)
        .map(|_| tokio::spawn(maker(client.clone())))
        .collect();
    let mut all = Vec::new();
    for maker in makers {
        all.extend(in_time(maker).await.unwrap());
    }
    all
}

/// The descriptor that comes with a program's start found no room, and the agent took that for init's end: everything
/// it had was lost.
#[tokio::test]
async fn an_agent_without_a_free_descriptor_refuses_and_loses_nothing() {
    let (_dir, agent) = agent_with("ulimit -n 256");
    let client = agent.client();
    let first = client.create_session(&SessionRequest::default()).await;
    let first = first.unwrap().id;
    said(&client, &first, "kept=yes").await;
    for _ in 0..3 {
        let made = fill(&client).await;
        // Three for each; the rest is the agent's own, connections and shells held ready.
        assert!(made.len() >= 45, "only {} sessions", made.len());
        for id in made {
            in_time(client.delete_session(&id)).await.unwrap();
        }
        assert_eq!(said(&client, &first, "echo $kept").await, "yes\n");
    }
    assert_eq!(exec(&client, "echo well").await.stdout, "well\n");
}
