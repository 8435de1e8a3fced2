//! What the machine shows of a hub's sandboxes, whatever the hub says: directories, agents, control
//! groups, mounts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// What a hub keeps in its state directory.
const KNOWN: &[&str] = &[
    "e2b-key",
    "etc",
    "hub.db",
    "hub.db-shm",
    "hub.db-wal",
    "images",
    "launcher",
    "lock",
    "next",
    "sandboxes",
    "token",
];

/// The state directory of a hub, seen from outside.
#[derive(Debug)]
pub(super) struct Machine {
    /// The temporary directory, by whose name everything of the hub is known.
    dir: PathBuf,
    /// Whether each sandbox has user ids of its own.
    ranges: bool,
    /// Every place there ever was.
    places: BTreeSet<String>,
}

/// What there is at a moment.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sight {
    /// The directories of sandboxes.
    pub(super) directories: BTreeSet<String>,
    /// The places whose agents live.
    pub(super) agents: BTreeSet<String>,
    /// Places that have control groups.
    pub(super) grouped: BTreeSet<String>,
    /// How many of them are frozen.
    pub(super) frozen: usize,
    /// Their limits of processes, in order.
    pub(super) pids: Vec<String>,
    /// Sandboxes with the same user ids.
    pub(super) shared_ids: usize,
}

impl Machine {
    pub(super) fn new(dir: &Path, ranges: bool) -> Self {
        Self {
            dir: dir.to_owned(),
            ranges,
            places: BTreeSet::new(),
        }
    }

    fn sandboxes(&self) -> PathBuf {
        self.dir.join("s/sandboxes")
    }

    /// Notes the places there are, to look for what is left of them later.
    pub(super) fn note_places(&mut self) -> BTreeSet<String> {
        let entries = fs::read_dir(self.sandboxes()).into_iter().flatten();
        let names = entries.flatten().map(|entry| entry.file_name());
        let now: BTreeSet<String> = names.filter_map(|name| name.into_string().ok()).collect();
        self.places.extend(now.iter().cloned());
        now
    }

    pub(super) fn look(&mut self) -> Sight {
        let directories = self.note_places();
        let owners: Vec<u32> = directories
            .iter()
            .filter_map(|place| fs::metadata(self.sandboxes().join(place).join("agent")).ok())
            .map(|agent| agent.uid())
            .collect();
        let distinct: BTreeSet<u32> = owners.iter().copied().collect();
        let mut groups = BTreeMap::new();
        groups_of(Path::new("/sys/fs/cgroup"), &self.places, 5, &mut groups);
        let all = || groups.values().flatten();
        let read = |group: &PathBuf, file: &str| fs::read_to_string(group.join(file)).ok();
        let is_frozen = |group: &&PathBuf| {
            read(group, "cgroup.events").is_some_and(|text| text.contains("frozen 1"))
                || read(group, "freezer.state").is_some_and(|text| text.trim() != "THAWED")
        };
        let mut pids: Vec<String> = all()
            .filter_map(|group| read(group, "pids.max").or_else(|| read(group, "c/pids.max")))
            .map(|text| text.trim().to_owned())
            .collect();
        pids.sort();
        Sight {
            agents: self.agents(),
            frozen: all().filter(is_frozen).count(),
            pids,
            grouped: groups.into_keys().collect(),
            shared_ids: if self.ranges {
                owners.len() - distinct.len()
            } else {
                0
            },
            directories,
        }
    }

    /// The places whose agent's state some process has mounted.
    fn agents(&self) -> BTreeSet<String> {
        let name = self.dir.file_name().unwrap().to_str().unwrap();
        let below = format!("{name}/s/sandboxes/");
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let mut found = BTreeSet::new();
        for process in processes {
            let numbered = process.file_name().to_string_lossy().parse::<i32>().is_ok();
            if !numbered {
                continue;
            }
            let mounts = fs::read_to_string(process.path().join("mountinfo")).unwrap_or_default();
            if let Some((_, after)) = mounts.split_once(&below) {
                found.extend(after.split('/').next().map(str::to_owned));
            }
        }
        found
    }

    /// What lies in the state directory besides what belongs there, and how many /etcs are kept.
    pub(super) fn strays(&self) -> (Vec<String>, usize) {
        let names = |dir: &Path| -> Vec<String> {
            let entries = fs::read_dir(dir).into_iter().flatten().flatten();
            let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
            names.collect()
        };
        let state = self.dir.join("s");
        let mut strays = names(&state);
        strays.retain(|name| !KNOWN.contains(&name.as_str()));
        (strays, names(&state.join("etc")).len())
    }

    /// Processes that have anything of the hub's mounted.
    pub(super) fn processes(&self) -> Vec<String> {
        let name = self.dir.file_name().unwrap().to_str().unwrap();
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let ours = processes.filter(|process| {
            fs::read_to_string(process.path().join("mountinfo"))
                .is_ok_and(|mounts| mounts.contains(name))
        });
        ours.map(|process| process.file_name().to_string_lossy().into_owned())
            .filter(|name| name.parse::<i32>().is_ok())
            .collect()
    }
}

/// Groups of these places, wherever a hierarchy has them.
fn groups_of(
    dir: &Path,
    places: &BTreeSet<String>,
    depth: usize,
    found: &mut BTreeMap<String, Vec<PathBuf>>,
) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        match name.strip_prefix("sandshell-") {
            Some(place) if places.contains(place) => {
                found
                    .entry(place.to_owned())
                    .or_default()
                    .push(entry.path());
            }
            None if depth > 0 => groups_of(&entry.path(), places, depth - 1, found),
            // Another hub's, or too deep.
            _ => {}
        }
    }
}
