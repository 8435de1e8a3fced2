//! What a thousand sessions take, and what is left of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use sandshell_client::Client;
use sandshell_testkit::{Agent, children_deep, open_fds, pss_bytes, rss_bytes};
use sandshell_types::{SessionId, SessionRequest};

use crate::measure::milliseconds;
use crate::report::Report;
use crate::sessions::exec;
use crate::soak::turns::fill_pools;

const SECTION: &str = "memory";
const SESSIONS: usize = 1000;
const AT_ONCE: usize = 8;
const KIB: f64 = 1024.0;

/// The agent should be fresh: what it holds after former work would count as idle.
pub(crate) async fn run(report: &mut Report, agent: &Agent) -> Result<()> {
    let client = agent.client();
    // Everything that is made once has been made before the first look, and the shells held ready are as many
    // as they will be.
    fill_pools(&client).await?;
    let idle = Traces::settled(agent, &client, None).await?;

    let start = Instant::now();
    let ids = create(&client).await?;
    report.add(
        SECTION,
        "create 1,000, use each once, 8 at a time",
        "ms",
        elapsed(start),
    );
    let busy = Traces::settled(agent, &client, None).await?;
    let shells = shells(agent);
    ensure!(
        shells.len() >= SESSIONS,
        "only {} shells are there",
        shells.len()
    );
    let pss: u64 = shells.iter().map(|&pid| pss_bytes(pid)).sum();
    let each = pss as f64 / shells.len() as f64 / KIB;
    let growth = (busy.rss as f64 - idle.rss as f64) / KIB / KIB;
    let fds = (busy.fds - idle.fds) as f64 / SESSIONS as f64;

    let start = Instant::now();
    delete(&client, ids).await?;
    report.add(SECTION, "delete 1,000, 8 at a time", "ms", elapsed(start));
    let after = Traces::settled(agent, &client, Some(&idle)).await?;

    report.add(SECTION, "PSS of a session's shell", "KiB", each);
    report.add(
        SECTION,
        "agent RSS, idle",
        "MiB",
        idle.rss as f64 / KIB / KIB,
    );
    report.add(SECTION, "agent RSS above idle", "MiB", growth);
    let kept = (after.rss as f64 - idle.rss as f64) / KIB / KIB;
    report.add(SECTION, "agent RSS above idle after delete", "MiB", kept);
    report.add(SECTION, "agent descriptors of a session", "", fds);
    report.at_most("1,000 sessions, PSS each in KiB", each, 300.0);
    report.at_most("1,000 sessions, agent RSS above idle in MiB", growth, 40.0);
    for (name, before, after) in [
        ("descriptors", idle.fds, after.fds),
        ("files", idle.files, after.files),
        ("groups", idle.groups, after.groups),
        ("processes", idle.processes, after.processes),
    ] {
        let left = after as f64 - before as f64;
        report.add(SECTION, &format!("{name} left after delete"), "", left);
        report.at_most(
            &format!("1,000 sessions, {name} left after delete"),
            left,
            0.0,
        );
    }
    Ok(())
}

fn elapsed(start: Instant) -> f64 {
    milliseconds(start.elapsed())
}

async fn create(client: &Client) -> Result<Vec<SessionId>> {
    let mut makers = Vec::new();
    for _ in 0..AT_ONCE {
        let client = client.clone();
        makers.push(tokio::spawn(async move {
            let mut ids = Vec::new();
            for _ in 0..SESSIONS / AT_ONCE {
                let id = client.create_session(&SessionRequest::default()).await?.id;
                exec(&client, &id, "cd /tmp; export A=1").await?;
                ids.push(id);
            }
            anyhow::Ok(ids)
        }));
    }
    let mut ids = Vec::new();
    for maker in makers {
        ids.extend(maker.await??);
    }
    Ok(ids)
}

async fn delete(client: &Client, ids: Vec<SessionId>) -> Result<()> {
    let mut enders = Vec::new();
    for chunk in ids.chunks(SESSIONS.div_ceil(AT_ONCE)) {
        let (client, chunk) = (client.clone(), chunk.to_vec());
        enders.push(tokio::spawn(async move {
            for id in &chunk {
                client.delete_session(id).await?;
            }
            anyhow::Ok(())
        }));
    }
    for ender in enders {
        ender.await??;
    }
    Ok(())
}

fn shells(agent: &Agent) -> Vec<i32> {
    let is_bash = |pid: &i32| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "bash")
    };
    children_deep(agent.pid())
        .into_iter()
        .filter(is_bash)
        .collect()
}

/// What an agent leaves in the machine.
#[derive(Debug, PartialEq, Eq)]
struct Traces {
    rss: u64,
    fds: usize,
    files: usize,
    groups: usize,
    processes: usize,
}

impl Traces {
    /// Looks again until nothing changes any more, because pools fill up and connections close in
    /// the background; with an earlier look, until it is equal to that one or a second has passed.
    async fn settled(agent: &Agent, client: &Client, like: Option<&Self>) -> Result<Self> {
        const PAUSE: Duration = Duration::from_millis(100);
        client.close_idle();
        let deadline = Instant::now() + Duration::from_secs(3);
        let mut last = Self::look(agent)?;
        loop {
            tokio::time::sleep(PAUSE).await;
            let now = Self::look(agent)?;
            let done = like.map_or_else(|| now.same_things(&last), |like| now.same_things(like));
            if done || Instant::now() > deadline {
                return Ok(now);
            }
            last = now;
        }
    }

    fn same_things(&self, other: &Self) -> bool {
        let things = |t: &Self| (t.fds, t.files, t.groups, t.processes);
        things(self) == things(other)
    }

    fn look(agent: &Agent) -> Result<Self> {
        let group = sandshell_sys::cgroup::own_group();
        let group = group.map(|own| own.join(format!("sandshell-{}", agent.pid())));
        Ok(Self {
            rss: rss_bytes(agent.pid()),
            fds: open_fds(agent.pid()),
            files: entries(&agent.state_dir())?.len(),
            groups: group
                .filter(|path| path.exists())
                .map_or(0, |path| directories(&path)),
            processes: children_deep(agent.pid()).len(),
        })
    }
}

fn directories(path: &Path) -> usize {
    fs::read_dir(path).map_or(0, |found| {
        found
            .filter_map(Result::ok)
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .count()
    })
}

/// Everything below a directory.
fn entries(path: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut next = vec![path.to_owned()];
    while let Some(path) = next.pop() {
        let listed = fs::read_dir(&path).with_context(|| path.display().to_string())?;
        for entry in listed {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                next.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    Ok(found)
}
