//! Limits on memory, processors and processes of one process or session: they hold, they are told, and
//! nobody else feels them. Bombs are small and live in groups of the agent that the test started.

mod answers;
mod bombs;
mod descriptors;
mod disk;
mod private;
mod refused;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use sandshell_client::types::{
    Cpus, ExecRequest, Happening, Limits, ProcessRequest, SessionExecRequest, SessionExecResult,
    SessionId, SessionRequest,
};
use sandshell_client::{Client, SandboxStream, SandboxStreamEvent};
use sandshell_testkit::{Agent, wait_for_exit_of};

use crate::calls::{DEADLINE, exec_of, in_time, process_of, skipped};

pub(crate) const MIB: u64 = 1 << 20;

pub(crate) fn memory(bytes: u64) -> Limits {
    Limits {
        memory_bytes: Some(bytes),
        ..Limits::default()
    }
}

fn pids(count: u64) -> Limits {
    Limits {
        pids: Some(count),
        ..Limits::default()
    }
}

fn cpus(share: f64) -> Limits {
    Limits {
        cpus: Cpus::new(share),
        ..Limits::default()
    }
}

pub(crate) fn limited(command: &str, limits: Limits) -> ExecRequest {
    ExecRequest {
        limits: Some(limits),
        ..exec_of(command)
    }
}

fn limited_process(command: &str, limits: Limits) -> ProcessRequest {
    ProcessRequest {
        limits: Some(limits),
        ..process_of(command)
    }
}

/// Takes this much memory at once, then gives it back.
fn takes(mebibytes: u32) -> String {
    format!("dd if=/dev/zero of=/dev/null bs={mebibytes}M count=1 2>/dev/null")
}

async fn session(client: &Client, request: &SessionRequest) -> SessionId {
    in_time(client.create_session(request)).await.unwrap().id
}

async fn run(client: &Client, id: &SessionId, command: &str) -> SessionExecResult {
    let request = SessionExecRequest {
        command: command.to_owned(),
        ..Default::default()
    };
    in_time(client.session_exec(id, &request)).await.unwrap()
}

pub(crate) async fn events(client: &Client) -> SandboxStream {
    in_time(client.sandbox_events(Some(0), &[])).await.unwrap()
}

/// The next event about a limit.
pub(crate) async fn about_a_limit(stream: &mut SandboxStream) -> Happening {
    loop {
        let event = in_time(stream.next()).await.expect("the stream goes on");
        if let SandboxStreamEvent::Event(_, event) = event.unwrap()
            && matches!(
                event.what,
                Happening::Oom { .. } | Happening::LimitReached { .. }
            )
        {
            return event.what;
        }
    }
}

/// An agent that can limit memory, processors and processes; `None`, said aloud, where none can.
pub(crate) async fn limiting_agent() -> Option<Agent> {
    let agent = Agent::start();
    let all = Limits {
        memory_bytes: Some(64 * MIB),
        cpus: Cpus::new(0.5),
        pids: Some(32),
        ..Limits::default()
    };
    match in_time(agent.client().exec(&limited("true", all))).await {
        Ok(_) => Some(agent),
        Err(error) => {
            assert_eq!(error.status(), Some(422), "{error}");
            skipped(&format!("not every limit can be kept here: {error}"));
            None
        }
    }
}

/// Groups of this name, in whichever hierarchy.
pub(crate) fn groups_named(name: &str) -> Vec<PathBuf> {
    fn walk(dir: &Path, name: &str, depth: u32, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            if entry.file_name() == name {
                found.push(entry.path());
            } else if depth > 0 {
                walk(&entry.path(), name, depth - 1, found);
            }
        }
    }
    let mut found = Vec::new();
    walk(Path::new("/sys/fs/cgroup"), name, 4, &mut found);
    found
}

#[tokio::test]
async fn nothing_is_left_of_an_agents_groups() {
    for hard in [false, true] {
        let Some(agent) = limiting_agent().await else {
            return;
        };
        let name = format!("sandshell-{}", agent.pid());
        assert!(!groups_named(&name).is_empty());
        let client = agent.client();
        let request = SessionRequest {
            limits: Some(pids(20)),
            private_processes: true,
            ..Default::default()
        };
        let id = session(&client, &request).await;
        run(&client, &id, "sleep 1000 & setsid sleep 1000 &").await;
        let init = init_of(agent.pid());
        if hard {
            agent.kill_hard();
            // Init and the warden end what they started, then themselves.
            for pid in init {
                assert!(wait_for_exit_of(pid, DEADLINE));
            }
        } else {
            agent.stop_gracefully();
        }
        assert_eq!(groups_named(&name), Vec::<PathBuf>::new(), "hard: {hard}");
    }
}

/// The agent's own children: init, and the warden once it was needed.
fn init_of(agent: i32) -> Vec<i32> {
    let tasks = fs::read_dir(format!("/proc/{agent}/task")).unwrap();
    let children = tasks.flatten().flat_map(|task| {
        let list = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        list.split_whitespace()
            .map(|pid| pid.parse().unwrap())
            .collect::<Vec<i32>>()
    });
    children.collect()
}

/// A group of the test's own, in which an agent is started. Removed with its members gone.
struct Cage(PathBuf);

impl Cage {
    /// `None`, said aloud, where memory cannot be limited by the files of version 1 or 2.
    fn new(bytes: u64) -> Option<Self> {
        let line = fs::read_to_string("/proc/self/cgroup").unwrap();
        let of = |wanted: &str| {
            line.lines().find_map(|line| {
                let (_, rest) = line.split_once(':')?;
                let (controllers, path) = rest.split_once(':')?;
                controllers
                    .split(',')
                    .any(|name| name == wanted)
                    .then(|| path.trim_start_matches('/').to_owned())
            })
        };
        let Some(own) = of("memory") else {
            skipped("the agent's own group cannot be limited here by the test");
            return None;
        };
        let name = format!("sandshell-cage-{}", std::process::id());
        let path = Path::new("/sys/fs/cgroup/memory").join(own).join(name);
        if let Err(error) = fs::create_dir(&path) {
            skipped(&format!("no group can be made here: {error}"));
            return None;
        }
        let cage = Self(path);
        let limit = fs::write(cage.0.join("memory.limit_in_bytes"), bytes.to_string());
        limit.unwrap();
        Some(cage)
    }

    /// A program that joins the group, then becomes the agent.
    fn binary(&self, dir: &Path) -> PathBuf {
        let real = sandshell_testkit::find_binary();
        let script = format!(
            "#!/bin/sh\necho 0 > '{}/cgroup.procs' && exec '{}' \"$@\"\n",
            self.0.display(),
            real.display()
        );
        let path = dir.join("caged");
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }
}

impl Drop for Cage {
    fn drop(&mut self) {
        // Init ends after the agent.
        let members = fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
        for pid in members.lines().filter_map(|line| line.parse().ok()) {
            let _ = wait_for_exit_of(pid, DEADLINE);
        }
        for entry in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let _ = fs::remove_dir(entry.path());
        }
        let _ = fs::remove_dir(&self.0);
    }
}
