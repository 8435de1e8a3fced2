//! What a hub takes of the machine at one moment, as the kernel tells it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use sandshell_testkit::{children, children_deep};

use super::places::{Groups, Places};

/// The processes that live as long as the soak.
#[derive(Debug, Clone)]
pub(crate) struct Cast {
    /// Name and pid: the hub, its launcher, the agents of the sandboxes that stay.
    pub(crate) members: Vec<(&'static str, i32)>,
}

const SOCKET: &str = "socket:[]";
/// A command's own group, as an agent sees it.
const GROUP: &str = "/t";

/// Where a hub has a directory for each sandbox.
pub(crate) const SANDBOXES: &str = "sandboxes";

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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) rss_kib: u64,
    /// Of it, what is not of a file.
    pub(crate) anon_kib: u64,
    pub(crate) pss_kib: u64,
    pub(crate) threads: u64,
    pub(crate) mounts: usize,
    /// How many descriptors of each kind: what they lead to, without numbers.
    pub(crate) descriptors: BTreeMap<String, usize>,
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
            // One that was closed meanwhile is none.
            if let Ok(target) = fs::read_link(entry?.path()) {
                let kind = target
                    .to_string_lossy()
                    .replace(|c: char| c.is_ascii_digit(), "");
                *held.descriptors.entry(kind).or_default() += 1;
            }
        }
        Ok(held)
    }

    pub(crate) fn fds(&self) -> usize {
        self.descriptors.values().sum()
    }

    pub(crate) fn fds_of(&self, kind: &str) -> usize {
        self.descriptors.get(kind).copied().unwrap_or(0)
    }

    /// Kinds of descriptors whose number differs from that of an earlier look.
    fn differences(&self, before: &Self) -> Vec<String> {
        let kinds: BTreeSet<&String> = self
            .descriptors
            .keys()
            .chain(before.descriptors.keys())
            .collect();
        kinds
            .into_iter()
            .map(|kind| (kind, before.fds_of(kind), self.fds_of(kind)))
            .filter(|(_, before, now)| before != now)
            .map(|(kind, before, now)| format!("{kind}: {before} before, {now} now"))
            .collect()
    }
}

/// What all of it has.
#[derive(Debug, Clone, Default)]
pub(crate) struct Traces {
    /// In the order of the cast.
    pub(crate) held: Vec<Held>,
    /// Below the hub, itself not counted.
    pub(crate) processes: usize,
    pub(crate) groups: Groups,
    /// Files and directories of the hub's own directory, without what the agents keep below it: output of
    /// what has ended, up to a limit.
    pub(crate) files: usize,
    /// Bytes in all files of that directory.
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
        traces.walk(state_dir, &state_dir.join(SANDBOXES));
        Ok(traces)
    }

    /// What must be the same before and after: name and count. Handles of control groups are not among it:
    /// how many empty ones an agent keeps depends on which command ended last. Connections count only when
    /// asked for: idle ones between the hub and agents are kept for a minute.
    pub(crate) fn counts(&self, with_connections: bool) -> Vec<(String, usize)> {
        let mut counts = vec![
            ("processes".to_owned(), self.processes),
            ("control groups in use".to_owned(), self.groups.occupied),
            ("files of the hub".to_owned(), self.files),
        ];
        for (name, held) in NAMES.iter().zip(&self.held) {
            counts.push((format!("{name}: mounts"), held.mounts));
            let fds = held.fds() - held.fds_of(GROUP);
            counts.push(if with_connections {
                (format!("{name}: descriptors"), fds)
            } else {
                let sockets = held.fds_of(SOCKET);
                (format!("{name}: descriptors but sockets"), fds - sockets)
            });
        }
        counts
    }

    /// Empty control groups, and handles of any: there may be fewer after than before.
    pub(crate) fn spare(&self) -> usize {
        let handles = self.held.iter().map(|held| held.fds_of(GROUP));
        self.groups.empty + handles.sum::<usize>()
    }

    /// Which descriptors there were not before, or are no more: name of the process, and what.
    pub(crate) fn differences(&self, before: &Self) -> Vec<String> {
        let both = self.held.iter().zip(&before.held);
        NAMES
            .iter()
            .zip(both)
            .flat_map(|(name, (now, before))| {
                now.differences(before)
                    .into_iter()
                    .map(move |difference| format!("{name}: {difference}"))
            })
            .collect()
    }

    fn walk(&mut self, directory: &Path, sandboxes: &Path) {
        // Sandboxes come and go while we look.
        let Ok(entries) = fs::read_dir(directory) else {
            return;
        };
        for entry in entries.filter_map(Result::ok) {
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            let kept = directory.starts_with(sandboxes) && directory != sandboxes;
            self.files += usize::from(!kept);
            if metadata.is_dir() {
                self.walk(&entry.path(), sandboxes);
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
