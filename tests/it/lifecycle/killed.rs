//! An agent killed with SIGKILL leaves nothing.

use std::path::PathBuf;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use sandshell_testkit::{Agent, children_deep, wait_for_exit_of, wait_until_gone};

use crate::calls::{DEADLINE, exec, marker, skipped};

use super::{busy, groups_of, init_of};

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
    let left = wait_until_gone(&marker, DEADLINE);
    assert_eq!(left, Vec::<i32>::new(), "{without:?}");
    for child in children {
        assert!(
            wait_for_exit_of(child, DEADLINE),
            "{child} is left: {without:?}"
        );
    }
    let mut added = outside();
    added.retain(|path| !before.contains(path));
    // What other tests have there goes with them; what this agent left, nobody removes.
    let deadline = Instant::now() + DEADLINE;
    while added.iter().any(|path| path.exists()) {
        assert!(Instant::now() < deadline, "left: {added:?}");
        tokio::task::yield_now().await;
    }
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
            let of_tests = [
                "test-", "hub-", "home-", "crash-", "root-", "tar-", "run-", "out-", "alone-",
            ];
            let ours = name.strip_prefix("sandshell-");
            let of_a_test =
                ours.is_some_and(|rest| of_tests.iter().any(|start| rest.starts_with(start)));
            name.contains("sandshell") && !of_a_test
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

/// Nobody is left to remove its groups, so the next agent does.
#[tokio::test]
async fn what_an_agent_and_its_init_leave_together_goes_with_the_next_start() {
    let agent = Agent::start();
    let pid = agent.pid();
    let made = groups_of(pid);
    if made.is_empty() {
        return skipped("no groups can be made here");
    }
    let init = init_of(pid);
    // Stopped, so that neither can clear up after the other.
    for one in [pid, init] {
        kill_process(Pid::from_raw(one).unwrap(), Signal::STOP).unwrap();
    }
    for one in [init, pid] {
        kill_process(Pid::from_raw(one).unwrap(), Signal::KILL).unwrap();
    }
    assert!(wait_for_exit_of(init, DEADLINE));
    drop(agent);
    assert_eq!(groups_of(pid), made, "they were left");
    let living = Agent::start();
    let next = Agent::start();
    assert_eq!(groups_of(pid), Vec::<PathBuf>::new());
    assert!(!groups_of(living.pid()).is_empty(), "of one that lives");
    assert_eq!(exec(&living.client(), "echo on").await.stdout, "on\n");
    drop(next);
}
