//! What a hub takes of the machine at one moment, as the kernel tells it.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use sandshell_testkit::{children, children_deep};

use super::places::Places;

/// The processes that live as long as the soak.
#[derive(Debug, Clone)]
pub(crate) struct Cast {
    /// Name and pid: the hub, its launcher, the agents of the sandboxes that stay.
    pub(crate) members: Vec<(&'static str, i32)>,
}

/// The names of the cast, in order.
pub(crate) const NAMES: [&str; 4] = ["hub", "launcher", "agent 1", "agent 2"];

impl Cast {
    /// Of a hub that has exactly as many sandboxes as there are names of agents.
    pub(crate) fn of(hub: i32) -> Result<Self> {
        let launcher = *children(hub).first().context("the hub has no launcher")?;
        let mut agents = children(launcher);
        agents.sort_unstable();
        anyhow::ensure!(agents.len() == 2, "{} agents are there", agents.len());
        let pids = [hub, launcher].into_iter().chain(agents);
        Ok(Self {
            members: NAMES.into_iter().zip(pids).collect(),
        })
    }
}

/// What one process has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) rss_kib: u64,
    /// Of it, what is not of a file.
    pub(crate) anon_kib: u64,
    pub(crate) pss_kib: u64,
    pub(crate) threads: u64,
    pub(crate) fds: usize,
    /// Of them, sockets. Idle connections between the hub and agents are kept for a minute.
    pub(crate) sockets: usize,
    pub(crate) mounts: usize,
}

impl Held {
    fn by(pid: i32) -> Result<Self> {
        let status = read(&format!("/proc/{pid}/status"))?;
        let rollup = read(&format!("/proc/{pid}/smaps_rollup"))?;
        let mut held = Self {
            rss_kib: figure(&status, "VmRSS:"),
            anon_kib: figure(&status, "RssAnon:"),
            pss_kib: figure(&rollup, "Pss:"),
            threads: figure(&status, "Threads:"),
            mounts: read(&format!("/proc/{pid}/mountinfo"))?.lines().count(),
            ..Self::default()
        };
        for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
            let target = fs::read_link(entry?.path()).unwrap_or_default();
            held.fds += 1;
            held.sockets += usize::from(target.to_string_lossy().starts_with("socket:"));
        }
        Ok(held)
    }
}

/// What all of it has.
#[derive(Debug, Clone, Default)]
pub(crate) struct Traces {
    /// In the order of the cast.
    pub(crate) held: Vec<Held>,
    /// Below the hub, itself not counted.
    pub(crate) processes: usize,
    pub(crate) groups: usize,
    /// Files and directories of the hub's own directory, and bytes in them.
    pub(crate) files: usize,
    pub(crate) bytes: u64,
    /// Of these bytes, the records.
    pub(crate) database_bytes: u64,
}

impl Traces {
    pub(crate) fn look(cast: &Cast, state_dir: &Path, places: &mut Places) -> Result<Self> {
        let held = cast.members.iter().map(|&(_, pid)| Held::by(pid));
        let hub = cast.members.first().context("a cast has a hub")?.1;
        let mut traces = Self {
            held: held.collect::<Result<_>>()?,
            processes: children_deep(hub).len(),
            groups: places.groups()?,
            ..Self::default()
        };
        traces.walk(state_dir);
        Ok(traces)
    }

    /// What must be the same before and after: name and count. Connections count only when asked for.
    pub(crate) fn counts(&self, with_connections: bool) -> Vec<(String, usize)> {
        let mut counts = vec![
            ("processes".to_owned(), self.processes),
            ("control groups".to_owned(), self.groups),
            ("files of the hub".to_owned(), self.files),
        ];
        for (name, held) in NAMES.iter().zip(&self.held) {
            counts.push((format!("{name}: mounts"), held.mounts));
            if with_connections {
                counts.push((format!("{name}: descriptors"), held.fds));
            } else {
                let name = format!("{name}: descriptors but sockets");
                counts.push((name, held.fds - held.sockets));
            }
        }
        counts
    }

    fn walk(&mut self, directory: &Path) {
        // Sandboxes come and go while we look.
        let Ok(entries) = fs::read_dir(directory) else {
            return;
        };
        for entry in entries.filter_map(Result::ok) {
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            self.files += 1;
            if metadata.is_dir() {
                self.walk(&entry.path());
            } else {
                self.bytes += metadata.len();
                let records = entry.file_name().to_string_lossy().starts_with("hub.db");
                self.database_bytes += if records { metadata.len() } else { 0 };
            }
        }
    }
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(path).with_context(|| path.to_owned())
}

fn figure(text: &str, field: &str) -> u64 {
    text.lines()
        .find_map(|line| line.strip_prefix(field)?.split_ascii_whitespace().next())
        .and_then(|figure| figure.parse().ok())
        .unwrap_or(0)
}
