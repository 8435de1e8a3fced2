//! An agent killed with SIGKILL leaves nothing.

use std::path::PathBuf;
use std::time::Duration;

use sandshell_testkit::{Agent, children_deep, wait_for_exit_of, wait_until_gone};

use crate::calls::marker;

use super::{busy, groups_of};

async fn a_killed_agent_leaves_no_process(without: Option<&str>) {
    let agent = without
        .map_or(Agent::builder(), |parts| {
            Agent::builder().args(["--without", parts])
        })
        .start();
    let marker = marker();
    let _busy = busy(&agent, &marker).await;
    let (pid, children) = (agent.pid(), children_deep(agent.pid()));
    assert!(children.len() >= 8, "{children:?}");
    let before = outside();
    tokio::task::spawn_blocking(move || agent.kill_hard())
        .await
        .unwrap();
    let left = wait_until_gone(&marker, Duration::from_secs(10));
    assert_eq!(left, Vec::<i32>::new(), "{without:?}");
    for child in children {
        assert!(
            wait_for_exit_of(child, Duration::from_secs(10)),
            "{child} is left: {without:?}"
        );
    }
    let after = outside();
    let added: Vec<_> = after.iter().filter(|path| !before.contains(path)).collect();
    assert_eq!(added, Vec::<&PathBuf>::new());
    assert_eq!(groups_of(pid), Vec::<PathBuf>::new(), "{without:?}");
}

/// Files of ours in the usual shared places.
fn outside() -> Vec<PathBuf> {
    ["/tmp", "/dev/shm", "/run", "/var/tmp"]
        .iter()
        .flat_map(|dir| std::fs::read_dir(dir).into_iter().flatten().flatten())
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            name.contains("sandshell") && !name.starts_with("sandshell-test-")
        })
        .collect()
}

#[tokio::test]
async fn a_killed_agent_leaves_nothing_running() {
    a_killed_agent_leaves_no_process(None).await;
}

#[tokio::test]
async fn a_killed_agent_leaves_nothing_running_without_cgroup() {
    a_killed_agent_leaves_no_process(Some("cgroup")).await;
}

#[tokio::test]
async fn a_killed_agent_leaves_nothing_running_without_cgroup_and_pid_namespace() {
    a_killed_agent_leaves_no_process(Some("cgroup,pid-namespace")).await;
}

#[tokio::test]
async fn a_killed_agent_leaves_nothing_running_without_a_pid_namespace() {
    a_killed_agent_leaves_no_process(Some("pid-namespace")).await;
}
