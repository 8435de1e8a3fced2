//! Sandboxes come and go, and leave nothing.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use sandshell_client::types::SandboxSpec;
use sandshell_testkit::{Hub, children_deep, open_fds};

use crate::calls::{DEADLINE, exec, in_time};

/// How many are made and destroyed.
fn cycles() -> usize {
    let given = std::env::var("SANDSHELL_CYCLES").ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(60)
}

/// All that a sandbox could leave.
#[derive(Debug, PartialEq, Eq)]
struct Traces {
    mounts: usize,
    processes: usize,
    hub_fds: usize,
    launcher_fds: usize,
    directories: usize,
    groups: usize,
    /// The machine's: others have theirs here too.
    interfaces: BTreeSet<String>,
}

impl Traces {
    fn of(hub: &Hub, places: &[String]) -> Self {
        let below = children_deep(hub.pid());
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let own = hub.dir().to_str().unwrap();
        let launcher = below.iter().find(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.starts_with(b"sandshell\0launcher\0")
        });
        let devices = fs::read_to_string("/proc/net/dev").unwrap();
        let named = |line: &str| Some(line.split_once(':')?.0.trim().to_owned());
        Self {
            mounts: mounts.lines().filter(|line| line.contains(own)).count(),
            processes: below.len(),
            hub_fds: open_fds(hub.pid()),
            launcher_fds: open_fds(*launcher.expect("a launcher")),
            directories: fs::read_dir(hub.state_dir().join("sandboxes"))
                .unwrap()
                .count(),
            groups: groups_of(Path::new("/sys/fs/cgroup"), places, 5),
            interfaces: devices.lines().filter_map(named).collect(),
        }
    }

    /// Connections to agents that are gone are let go of in their own time, processes that ended and what is held for
    /// them too, and interfaces of others; there may be fewer than before.
    fn against(mut self, before: &Self) -> Self {
        self.hub_fds = self.hub_fds.max(before.hub_fds);
        self.launcher_fds = self.launcher_fds.max(before.launcher_fds);
        self.processes = self.processes.max(before.processes);
        if self.interfaces.is_subset(&before.interfaces) {
            self.interfaces.clone_from(&before.interfaces);
        }
        self
    }
}

/// Groups of these sandboxes, wherever a hierarchy has them.
fn groups_of(dir: &Path, places: &[String], depth: usize) -> usize {
    let Ok(entries) = fs::read_dir(dir) else {
        return 0;
    };
    let mut found = 0;
    for entry in entries.flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        if places.iter().any(|place| name.ends_with(place.as_str())) {
            found += 1;
        } else if depth > 0 {
            found += groups_of(&entry.path(), places, depth - 1);
        }
    }
    found
}

fn places(hub: &Hub) -> Vec<String> {
    let entries = fs::read_dir(hub.state_dir().join("sandboxes")).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect()
}

#[tokio::test]
async fn nothing_is_left_of_sandboxes_that_were_destroyed() {
    let hub = Hub::start();
    let client = hub.client();
    let mut seen = Vec::new();
    let one = async |seen: &mut Vec<String>| {
        let spec = super::spec_of("cycle");
        let made = in_time(client.create_sandbox(&SandboxSpec { id: None, ..spec }))
            .await
            .unwrap();
        seen.extend(places(&hub));
        let inside = client.sandbox(&made.id);
        let left = "setsid sleep 1000 & mkdir -p /tmp/a/b; echo x > /tmp/a/b/c; echo done";
        assert_eq!(exec(&inside, left).await.stdout, "done\n");
        in_time(client.destroy_sandbox(&made.id)).await.unwrap();
    };
    // What is made once has been made then.
    for _ in 0..3 {
        one(&mut seen).await;
    }
    client.close_idle();
    let mut before = Traces::of(&hub, &seen);
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = Traces::of(&hub, &seen);
        let settled = now
            == Traces {
                interfaces: now.interfaces.clone(),
                ..before
            };
        before = now;
        if settled {
            break;
        }
    }
    assert_eq!((before.directories, before.groups), (0, 0));
    for _ in 0..cycles() {
        one(&mut seen).await;
    }
    client.close_idle();
    let deadline = Instant::now() + DEADLINE;
    let mut after = Traces::of(&hub, &seen).against(&before);
    while after != before && Instant::now() < deadline {
        tokio::task::yield_now().await;
        after = Traces::of(&hub, &seen).against(&before);
    }
    assert_eq!(after, before);
}
