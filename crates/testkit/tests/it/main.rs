//! The fixtures against a script that stands in for the agent.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    reason = "a broken fixture should fail the test loudly"
)]

use std::os::unix::process::ExitStatusExt as _;
use std::panic::catch_unwind;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sandshell_testkit::{
    Agent, AgentBuilder, UnprivilegedUser, alive_with_marker, children_deep, open_fds, pss_bytes,
    rss_bytes, wait_for_exit_of, wait_until_gone,
};

const DEADLINE: Duration = Duration::from_secs(150);

fn fake() -> AgentBuilder {
    Agent::builder().binary(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/it/fake-agent.sh"
    ))
}

#[test]
fn an_agent_is_started_and_stopped() {
    let agent = fake().start();
    assert_eq!(agent.url(), "http://127.0.0.1:0");
    assert_eq!(agent.token(), Some("made"));
    assert!(agent.log().contains("fake agent: agent --listen"));
    let (pid, dir) = (agent.pid(), agent.state_dir());
    assert!(dir.is_dir());
    assert_eq!(agent.stop_gracefully().signal(), Some(15));
    assert!(wait_for_exit_of(pid, DEADLINE));
    assert!(!dir.exists());
}

#[test]
fn dropping_an_agent_ends_it_and_removes_its_directory() {
    let agent = fake().token("given").start();
    assert_eq!(agent.token(), Some("given"));
    let (pid, dir) = (agent.pid(), agent.work_dir());
    drop(agent);
    assert!(wait_for_exit_of(pid, Duration::ZERO));
    assert!(!dir.exists());
}

#[test]
fn an_agent_that_fails_says_why() {
    let failed = catch_unwind(|| fake().arg("--fail").start()).unwrap_err();
    let message = failed.downcast::<String>().unwrap();
    assert!(message.contains("exit status: 3"), "{message}");
}

#[test]
fn a_unix_socket_needs_no_token() {
    let agent = fake().unix_socket().start();
    assert!(agent.url().starts_with("unix:/"), "{}", agent.url());
    assert_eq!(agent.token(), None);
    assert_eq!(agent.kill_hard().signal(), Some(9));
}

#[test]
fn an_agent_runs_without_rights() {
    let Some(user) = UnprivilegedUser::get() else {
        return;
    };
    let agent = fake().run_as(user).start();
    let status = std::fs::read_to_string(format!("/proc/{}/status", agent.pid())).unwrap();
    let uids = format!("Uid:\t{0}\t{0}\t{0}\t{0}\n", user.uid);
    assert!(status.contains(&uids), "{status}");
}

#[test]
fn processes_are_seen_from_outside() {
    let marker = format!("marker-{}", std::process::id());
    let agent = fake().arg("--child").start();
    assert_eq!(children_deep(agent.pid()).len(), 1);
    assert!(open_fds(agent.pid()) >= 3);
    assert!(pss_bytes(agent.pid()) <= rss_bytes(agent.pid()));
    for pid in children_deep(agent.pid()) {
        assert!(!wait_for_exit_of(pid, Duration::ZERO));
    }
    let mut marked = Command::new("sleep");
    marked
        .arg("1000")
        .env("MARKER", &marker)
        .stdin(Stdio::null());
    let mut marked = marked.spawn().unwrap();
    let pid = i32::try_from(marked.id()).unwrap();
    // In the middle of its exec a process has no environment.
    let begun = Instant::now();
    while alive_with_marker(&marker) != [pid] {
        assert!(begun.elapsed() < DEADLINE, "{pid} is not seen");
    }
    assert_eq!(wait_until_gone(&marker, Duration::ZERO), [pid]);
    marked.kill().unwrap();
    assert!(wait_until_gone(&marker, DEADLINE).is_empty());
    marked.wait().unwrap();
    for pid in children_deep(agent.pid()) {
        Command::new("kill").arg(pid.to_string()).status().unwrap();
        assert!(wait_for_exit_of(pid, DEADLINE));
    }
}

#[test]
fn a_bad_marker_is_refused() {
    assert!(catch_unwind(|| alive_with_marker("")).is_err());
}
