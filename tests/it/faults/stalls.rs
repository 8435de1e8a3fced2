//! Processes stand still for a while (SIGSTOP): nothing is lost, nothing is declared dead, and what took
//! too long is called that.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sandshell_client::OutputQuery;
use sandshell_client::types::{SandboxState, StreamName};
use sandshell_sys::procfs;
use sandshell_testkit::{Agent, Hub, children_deep};

use super::{agent_of, full, id_of, sandbox, spec_of};
use crate::calls::{DEADLINE, Shell, exec, exec_of, in_time, process_of, start};

/// How long they stand still.
fn while_still() -> Duration {
    if full() {
        Duration::from_secs(30)
    } else {
        Duration::from_millis(1_200)
    }
}

fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// Stops a process for a while; it goes on when the time is over or this is dropped.
struct Stopped(i32);

impl Stopped {
    fn new(pid: i32) -> Self {
        signal(pid, Signal::STOP);
        Self(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        signal(self.0, Signal::CONT);
    }
}

/// A count to `last`, a line for each number.
fn count(last: u32) -> String {
    (1..=last).map(|n| n.to_string() + "\n").collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_stood_still_goes_on() {
    let hub = Hub::start();
    let client = hub.client();
    let inside = sandbox(&client, "still").await;
    let other = sandbox(&client, "other").await;
    let shell = Shell::of(&inside).await;
    let counting = start(
        &inside,
        &process_of("for i in {1..100}; do echo $i; sleep 0.01; done"),
    )
    .await;
    let query = OutputQuery::follow(StreamName::Stdout);
    let mut stream = inside.process_output(&counting, query).await.unwrap();
    let mut seen = in_time(stream.next()).await.unwrap().unwrap().to_vec();
    let socket = std::fs::read_dir(hub.state_dir().join("sandboxes"))
        .unwrap()
        .flatten();
    let agents: Vec<i32> = socket
        .map(|entry| entry.path())
        .filter(|path| path.join("agent.sock").exists())
        .map(|path| agent_of(&path))
        .collect();
    let mut timed = exec_of("sleep 1000");
    timed.timeout_ms = Some(500);
    for still in agents
        .iter()
        .flat_map(|agent| [*agent, children_deep(*agent)[0]])
    {
        let stopped = Stopped::new(still);
        let begun = Instant::now();
        let waiting = {
            let (client, timed) = (inside.clone(), timed.clone());
            tokio::spawn(async move { client.exec(&timed).await })
        };
        let in_session = {
            let (client, id) = (shell.client.clone(), shell.id.clone());
            tokio::spawn(async move {
                client
                    .session_exec(&id, &crate::calls::text("echo $((++n))"))
                    .await
            })
        };
        tokio::time::sleep(while_still()).await;
        for name in ["still", "other"] {
            let record = in_time(client.get_sandbox(&id_of(name))).await.unwrap();
            assert_eq!(record.state, SandboxState::Ready);
        }
        drop(stopped);
        let done = in_time(waiting).await.unwrap().unwrap();
        assert!(done.timed_out, "{done:?}");
        assert!(begun.elapsed() < while_still() + DEADLINE);
        let done = in_time(in_session).await.unwrap().unwrap();
        assert_eq!(
            (done.exit_code, &*done.session_state),
            (0, "kept"),
            "{done:?}"
        );
    }
    while let Some(piece) = in_time(stream.next()).await {
        seen.extend_from_slice(&piece.unwrap());
    }
    assert_eq!(String::from_utf8(seen).unwrap(), count(100));
    assert_eq!(shell.out("echo $n").await, "4\n");
    assert_eq!(exec(&other, "echo well").await.stdout, "well\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_or_launcher_that_stood_still_goes_on() {
    let hub = Hub::start();
    let client = hub.client();
    let inside = sandbox(&client, "one").await;
    let counting = start(
        &inside,
        &process_of("for i in {1..100}; do echo $i; sleep 0.01; done"),
    )
    .await;
    let query = OutputQuery::follow(StreamName::Stdout);
    let stream = inside.process_output(&counting, query).await.unwrap();
    let launcher = children_deep(hub.pid())[0];
    for (n, still) in [launcher, hub.pid()].into_iter().enumerate() {
        let stopped = Stopped::new(still);
        let creating = {
            let (client, spec) = (hub.client(), spec_of(&format!("more-{n}")));
            tokio::spawn(async move { client.create_sandbox(&spec).await })
        };
        tokio::time::sleep(while_still()).await;
        assert!(!creating.is_finished());
        drop(stopped);
        let made = in_time(creating).await.unwrap().unwrap();
        assert_eq!(made.state, SandboxState::Ready);
        assert_eq!(
            exec(&client.sandbox(&made.id), "echo in").await.stdout,
            "in\n"
        );
    }
    let seen = in_time(stream.read_to_end()).await.unwrap();
    assert_eq!(String::from_utf8(seen.to_vec()).unwrap(), count(100));
    assert_eq!(children_deep(hub.pid())[0], launcher, "the same one");
}

/// The watchdog of lost completions must not take a shell that stands still for one that lost its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shell_that_stood_still_goes_on() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    let client = agent.client();
    let pid = shell.record().await.pid;
    let running = shell
        .go("for i in {1..50}; do echo $i; sleep 0.01; done; v=set")
        .await;
    exec(&client, &format!("kill -STOP {pid}")).await;
    tokio::time::sleep(while_still()).await;
    exec(&client, &format!("kill -CONT {pid}")).await;
    let done = shell.result(&running).await;
    assert_eq!(done.stdout, format!("go\n{}", count(50)));
    assert_eq!((done.exit_code, &*done.session_state), (0, "kept"));
    assert_eq!(shell.out("echo $v").await, "set\n");
    // A command that comes while it stands still.
    exec(&client, &format!("kill -STOP {pid}")).await;
    let waiting = shell.run("echo late");
    let going_on = async {
        tokio::time::sleep(while_still()).await;
        exec(&client, &format!("kill -CONT {pid}")).await
    };
    let (done, _) = tokio::join!(waiting, going_on);
    assert_eq!(
        (done.stdout.as_str(), &*done.session_state),
        ("late\n", "kept")
    );
    assert_eq!(shell.record().await.pid, pid);
}

/// Waits until a signal is pending for a process that stands still.
async fn pending(pid: i32) {
    let none = "ShdPnd:\t0000000000000000";
    while std::fs::read_to_string(format!("/proc/{pid}/status"))
        .unwrap()
        .contains(none)
    {
        tokio::task::yield_now().await;
    }
}

/// The signal comes while the shell is somewhere on its way from one command into the next: about to
/// fork, having forked, about to read.
#[tokio::test]
async fn an_interrupt_that_comes_before_the_shell_waits_is_not_lost() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    let inside = shell.record().await.pid;
    let pid = children_deep(agent.pid())
        .into_iter()
        .find(|pid| procfs::innermost_pid(*pid) == Ok(Some(inside)))
        .unwrap();
    shell.out("v=kept").await;
    for round in 0..100 {
        let command = ["x=$(sleep 1000)", "read x < <(sleep 1000)"][round % 2];
        let running = shell.go(command).await;
        let stopped = Stopped::new(pid);
        let interrupt = shell.client.interrupt_session(&shell.id);
        let going_on = async move {
            pending(pid).await;
            drop(stopped);
        };
        let (reply, ()) = in_time(async { tokio::join!(interrupt, going_on) }).await;
        let method = reply.unwrap().method;
        assert_ne!(method, "shell_killed", "{command} in round {round}");
        let done = shell.result(&running).await;
        assert_eq!(
            (done.exit_code, &*done.session_state),
            (130, "kept"),
            "{command} in round {round}"
        );
    }
    assert_eq!(shell.out("echo $v").await, "kept\n");
    assert_eq!(shell.record().await.pid, inside);
}
