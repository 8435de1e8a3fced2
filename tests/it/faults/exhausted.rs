//! Descriptors run out: of the agent, of its init.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use http::{HeaderMap, Method};
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use sandshell_client::types::{
    Cpus, ErrorCode, Happening, KillRequest, Limits, ProcessRequest, StreamName, WaitRequest,
};
use sandshell_client::{OutputQuery, Page, SandboxStreamEvent};
use sandshell_testkit::{Agent, alive_with_marker};

use super::bench::{Bench, REQUESTS};
use super::{Dice, full, say};
use crate::calls::{Shell, exec, exec_of, in_time, marker, process_of, start, wait_for_text};
use crate::limits::{MIB, groups_named, limited, limiting_agent};
use crate::ports::Server;

/// Most descriptors that a request needs at a time.
const ENOUGH: usize = 24;

/// Leaves a process room for this many more descriptors; its limit is as before when this is dropped.
pub(super) struct Room {
    pid: Pid,
    before: Rlimit,
}

impl Room {
    pub(super) fn of(pid: i32, more: usize) -> Self {
        let used: BTreeSet<u64> = std::fs::read_dir(format!("/proc/{pid}/fd"))
            .unwrap()
            .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
            .collect();
        let mut free = (0_u64..).filter(|number| !used.contains(number));
        let limit = free.nth(more).unwrap();
        let pid = Pid::from_raw(pid).unwrap();
        let before = limits_of(pid.as_raw_nonzero().get());
        let now = Rlimit {
            current: Some(limit),
            ..before
        };
        set(pid, now).unwrap();
        Self { pid, before }
    }
}

/// Changes how many descriptors a process may have. A root without rights over the machine's resources has them
/// inside the sandbox's own namespace.
fn set(pid: Pid, limit: Rlimit) -> Result<(), Errno> {
    let done = prlimit(Some(pid), Resource::Nofile, limit);
    if done != Err(Errno::PERM) {
        return done.map(|_| ());
    }
    let number = pid.as_raw_nonzero().to_string();
    let soft = limit.current;
    let soft = soft.map_or("unlimited".to_owned(), |soft| soft.to_string());
    let done = Command::new("nsenter")
        .args(["--user", "--target", &number])
        .args(["prlimit", "--pid", &number, &format!("--nofile={soft}:")])
        .status();
    let done = done.is_ok_and(|status| status.success());
    done.then_some(()).ok_or(Errno::PERM)
}

/// How many descriptors a process may have.
fn limits_of(pid: i32) -> Rlimit {
    let text = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"));
    let mut numbers = line
        .unwrap()
        .split_ascii_whitespace()
        .map(|word| word.parse().ok());
    Rlimit {
        current: numbers.next().unwrap(),
        maximum: numbers.next().unwrap(),
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = set(self.pid, self.before);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_room_for_descriptors_a_request_is_refused_or_done() {
    let mut dice = Dice::new();
    let mut bench = Bench::new().await;
    let (mut tried, mut refused, mut wrong) = (0, 0, Vec::new());
    for whose in ["agent", "init"] {
        let pid = if whose == "agent" {
            bench.agent.pid()
        } else {
            bench.init
        };
        for request in REQUESTS {
            for more in 0..ENOUGH {
                if !full() && dice.below(4) > 0 {
                    continue;
                }
                let client = bench.agent.client();
                in_time(client.healthz()).await.unwrap();
                let room = Room::of(pid, more);
                let answer = bench.patiently(request, &client).await;
                drop((room, client));
                tried += 1;
                refused += u32::from(matches!(answer, Ok(Err(_))));
                let found = bench.verdict(request, answer, |_| false).await;
                for one in &found {
                    say(&format!(
                        "WRONG: {request:?}, room for {more} in {whose}: {one}"
                    ));
                }
                if !found.is_empty() {
                    bench.settle_first().await;
                }
                wrong.extend(found);
            }
        }
    }
    say(&format!("{tried} requests, {refused} refused"));
    assert!(wrong.is_empty(), "{} are wrong", wrong.len());
    assert!(refused > 0);
}

/// Processor time that a process has used.
fn used(pid: i32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

/// More connect than there are descriptors for: they wait, the agent does not spin, those that are
/// there are answered, and what runs goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_without_descriptors_waits_for_some() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    let client = agent.client();
    let counting = start(
        &client,
        &process_of("for i in {1..20}; do echo $i; sleep 0.05; done"),
    )
    .await;
    let room = Room::of(agent.pid(), 20);
    let address = agent.url().trim_start_matches("http://").to_owned();
    let crowd: Vec<TcpStream> = (0..60)
        .map(|_| {
            let mut one = TcpStream::connect(&address).unwrap();
            one.write_all(b"GET /healthz HTTP/1.1\r\n").unwrap();
            one
        })
        .collect();
    let full = async {
        while sandshell_testkit::open_fds(agent.pid()) < 20
            || !agent.log().contains("cannot accept")
        {
            tokio::task::yield_now().await;
        }
    };
    in_time(full).await;
    let (begun, before) = (Instant::now(), used(agent.pid()));
    // Nothing happens in this time that could be waited for.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let spent = used(agent.pid()).saturating_sub(before);
    // A sleep may take longer than it should, and then the agent has had longer, too.
    let passed = begun.elapsed();
    assert!(spent * 10 < passed * 3, "{spent:?} of {passed:?}");
    for _ in 0..3 {
        match in_time(client.exec(&exec_of("echo on"))).await {
            Ok(done) => assert_eq!(done.stdout, "on\n"),
            Err(error) => assert_eq!(error.code(), Some(ErrorCode::Unavailable), "{error:?}"),
        }
    }
    drop((crowd, room));
    assert_eq!(exec(&client, "echo again").await.stdout, "again\n");
    assert_eq!(shell.out("echo kept").await, "kept\n");
    let output = in_time(client.process_output(&counting, OutputQuery::follow(StreamName::Stdout)));
    let output = in_time(output.await.unwrap().read_to_end()).await.unwrap();
    let expected: String = (1..=20).map(|n| n.to_string() + "\n").collect();
    assert_eq!(output, expected);
}

/// Where the agent keeps trees in groups, and where in the hands of keepers.
const PLACES: [Option<&str>; 3] = [None, Some("cgroup"), Some("cgroup,pid-namespace")];

fn agent_without(without: Option<&str>) -> Agent {
    let agent = Agent::builder();
    match without {
        Some(without) => agent.args(["--without", without]).start(),
        None => agent.start(),
    }
}

/// Who cannot look at a tree does not know whether it has ended: a kill waits until it can be done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_without_descriptors_is_done_when_there_are_some() {
    for without in PLACES {
        let agent = agent_without(without);
        let (client, other) = (agent.client(), agent.client());
        let mark = marker();
        let id = start(
            &client,
            &process_of(&format!(
                "setsid bash -c 'sleep 1000; : {mark}' & echo up; wait"
            )),
        )
        .await;
        wait_for_text(&client, &id, "up").await;
        in_time(other.healthz()).await.unwrap();
        let room = Room::of(agent.pid(), 0);
        let request = KillRequest { grace_ms: Some(0) };
        let killing = client.kill_process(&id, &request);
        let meanwhile = async {
            // Each answer is a turn in which the kill could have been answered, too.
            for _ in 0..20 {
                in_time(other.healthz()).await.unwrap();
            }
            drop(room);
        };
        let (reply, ()) = tokio::join!(in_time(killing), meanwhile);
        let reply = reply.unwrap();
        assert_ne!(reply.method, "already_ended", "{without:?}");
        assert!(reply.survivors.is_empty(), "{without:?} {reply:?}");
        assert_eq!(alive_with_marker(&mark), Vec::<i32>::new(), "{without:?}");
    }
}

/// The same for what ends because its time is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timeout_without_descriptors_is_enforced_when_there_are_some() {
    for without in PLACES {
        let agent = agent_without(without);
        let (client, other) = (agent.client(), agent.client());
        let mark = marker();
        let request = ProcessRequest {
            timeout_ms: Some(1000),
            ..process_of(&format!(
                "trap '' TERM; while :; do sleep 0.1; : {mark}; done"
            ))
        };
        let id = start(&client, &request).await;
        in_time(other.healthz()).await.unwrap();
        let room = Room::of(agent.pid(), 0);
        let timed_out = async {
            while !other.process(&id).await.unwrap().timed_out {
                tokio::task::yield_now().await;
            }
        };
        in_time(timed_out).await;
        drop(room);
        let ended = in_time(client.wait_process(&id, &WaitRequest::default()))
            .await
            .unwrap();
        assert!(ended.process.timed_out, "{without:?} {ended:?}");
        assert_eq!(alive_with_marker(&mark), Vec::<i32>::new(), "{without:?}");
    }
}

/// Members are held by descriptors while they are signalled: by as many at once as there are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_of_more_than_there_are_descriptors_ends_all() {
    for without in PLACES {
        let agent = agent_without(without);
        let client = agent.client();
        let mark = marker();
        let many =
            format!("for n in {{1..60}}; do bash -c 'sleep 1000; : {mark}' & done; echo up; wait");
        let id = start(&client, &process_of(&many)).await;
        wait_for_text(&client, &id, "up").await;
        let room = Room::of(agent.pid(), 20);
        let request = KillRequest { grace_ms: Some(0) };
        let reply = in_time(client.kill_process(&id, &request)).await.unwrap();
        drop(room);
        assert!(reply.survivors.is_empty(), "{without:?} {reply:?}");
        assert_eq!(alive_with_marker(&mark), Vec::<i32>::new(), "{without:?}");
    }
}

/// Groups of single processes that are there.
fn fences(agent: &Agent) -> BTreeSet<String> {
    let name = format!("sandshell-{}", agent.pid());
    let dirs = groups_named(&name).into_iter();
    let inside = dirs.flat_map(|dir| std::fs::read_dir(dir).unwrap());
    let names = inside.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let is_fence = |name: &String| {
        name.strip_prefix('p')
            .is_some_and(|n| n.parse::<u64>().is_ok())
    };
    names.filter(is_fence).collect()
}

/// A limit that cannot be set for now is no limit that cannot be had here, and nothing is left of the try.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_without_descriptors_are_refused_for_now() {
    let Some(agent) = limiting_agent().await else {
        return;
    };
    let client = agent.client();
    let limits = Limits {
        memory_bytes: Some(64 * MIB),
        cpus: Cpus::new(0.5),
        pids: Some(32),
        ..Limits::default()
    };
    let (mut refused, mut done) = (0, 0);
    for more in 0..ENOUGH {
        in_time(client.healthz()).await.unwrap();
        let room = Room::of(agent.pid(), more);
        let answer = in_time(client.exec(&limited("echo on", limits.clone()))).await;
        drop(room);
        match answer {
            Ok(result) => {
                assert_eq!((result.exit_code, result.stdout.as_str()), (0, "on\n"));
                done += 1;
            }
            Err(error) => {
                assert_eq!(
                    error.code(),
                    Some(ErrorCode::Unavailable),
                    "{more}: {error}"
                );
                refused += 1;
            }
        }
    }
    assert!(refused > 0 && done > 0, "{refused} refused, {done} done");
    let all_removed = async {
        // Each limited command removes what the one before it could not yet.
        while fences(&agent).len() > 1 {
            in_time(client.exec(&limited("true", limits.clone())))
                .await
                .unwrap();
        }
    };
    in_time(all_removed).await;
}

/// Who cannot look at a port does not know that nothing listens there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ports_without_descriptors_are_not_called_closed() {
    let agent = Agent::start();
    let client = agent.client();
    let mut events = in_time(client.sandbox_events(None, &[])).await.unwrap();
    let server = Server::start(&client).await;
    let mut told = async |wanted: &str| loop {
        let event = in_time(events.next()).await.unwrap().unwrap();
        let SandboxStreamEvent::Event(_, event) = event else {
            continue;
        };
        match event.what {
            Happening::PortOpened { port, .. } if port == server.port => {
                assert_eq!(wanted, "opened");
                return;
            }
            Happening::PortClosed { port } if port == server.port => {
                assert_eq!(wanted, "closed");
                return;
            }
            _ => {}
        }
    };
    told("opened").await;
    let (mut refused, mut done) = (0, 0);
    for more in 0..ENOUGH {
        in_time(client.healthz()).await.unwrap();
        let room = Room::of(agent.pid(), more);
        let listed = in_time(client.list_ports(&Page::default())).await;
        let waited =
            in_time(client.raw(Method::GET, &server.path("/"), &HeaderMap::new(), "")).await;
        // Time for some looks of the watcher.
        tokio::time::sleep(Duration::from_millis(250)).await;
        drop(room);
        match listed {
            Ok(list) => {
                let found = list.items.iter().find(|record| record.port == server.port);
                assert!(
                    found.is_some_and(|record| record.process.is_some()),
                    "{more}: {list:?}"
                );
                done += 1;
            }
            Err(error) => {
                assert_eq!(
                    error.code(),
                    Some(ErrorCode::Unavailable),
                    "{more}: {error}"
                );
                refused += 1;
            }
        }
        let (status, _, body) = waited.unwrap();
        assert!(
            matches!(status.as_u16(), 200 | 503),
            "{more}: {status} {body:?}"
        );
    }
    assert!(refused > 0 && done > 0, "{refused} refused, {done} done");
    in_time(client.kill_process(&server.id, &KillRequest { grace_ms: Some(0) }))
        .await
        .unwrap();
    told("closed").await;
}
