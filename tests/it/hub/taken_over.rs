//! A hub takes over what the one before left: the living as they were, the dead to be buried.

use sandshell_client::types::{ErrorCode, SandboxLimits, SandboxPatch, SandboxState};
use sandshell_testkit::{Hub, alive_with_marker, children_deep, wait_for_exit_of};

use super::{agent_of, get, groups_of, id_of, sandbox, until};
use crate::calls::{DEADLINE, exec, in_time, marker, process_of, skipped, start};

#[tokio::test]
async fn what_died_meanwhile_is_buried_and_leftovers_are_removed() {
    let mut hub = Hub::with(&["--warm", "1"]);
    let client = hub.client();
    let mark = marker();
    let lives = sandbox(&client, "lives").await;
    // The pool holds another, which no record knows of.
    let full = async || {
        while !in_time(client.metrics())
            .await
            .unwrap()
            .contains("sandshell_sandboxes_warm 1")
        {
            tokio::task::yield_now().await;
        }
    };
    in_time(full()).await;
    let dies = sandbox(&client, "dies").await;
    // It is filled again, so that there is an agent at every place.
    in_time(full()).await;
    // The shell stays: a program that is being replaced has no command line for a moment.
    start(&dies, &process_of(&format!(": {mark}; sleep 600; :"))).await;
    let places = || -> Vec<std::path::PathBuf> {
        let entries = std::fs::read_dir(hub.state_dir().join("sandboxes")).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    let dying = places()
        .into_iter()
        .map(|path| agent_of(&path))
        .find(|pid| {
            let below = children_deep(*pid);
            alive_with_marker(&mark)
                .iter()
                .any(|marked| below.contains(marked))
        })
        .unwrap();
    let litter = hub.state_dir().join("sandboxes/0123456789ab");
    std::fs::create_dir(&litter).unwrap();
    hub.kill_hard();
    let pid = rustix::process::Pid::from_raw(dying).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    // Until it is gone it may still be taken for one that lives.
    assert!(wait_for_exit_of(dying, DEADLINE), "{dying} is alive");
    hub.restart();
    let record = get(&client, "dies").await;
    assert_eq!(record.state, SandboxState::Failed);
    assert!(record.reason.unwrap().contains("its agent"));
    assert_eq!(exec(&lives, "echo on").await.stdout, "on\n");
    assert!(!litter.exists());
    // Its id is free, and its slot too.
    let again = sandbox(&client, "dies").await;
    assert_eq!(exec(&again, "echo new").await.stdout, "new\n");
    until(&client, "dies", SandboxState::Ready).await;
}

/// A process that no version 2 group can freeze: the version 1 freezer holds it already, as the disk holds
/// one that waits for it.
struct Stuck {
    process: std::process::Child,
    freezer: std::path::PathBuf,
}

impl Stuck {
    /// `None` where there is no such freezer.
    async fn new() -> Option<Self> {
        let above = std::path::Path::new("/sys/fs/cgroup/freezer");
        let freezer = above.join(format!("sandshell-test-{}", std::process::id()));
        if !above.join("cgroup.procs").exists() || std::fs::create_dir(&freezer).is_err() {
            return None;
        }
        let process = std::process::Command::new("sleep").arg("600").spawn();
        let stuck = Self {
            process: process.unwrap(),
            freezer,
        };
        stuck.join(&stuck.freezer);
        let state = stuck.freezer.join("freezer.state");
        std::fs::write(&state, "FROZEN").unwrap();
        let frozen = async {
            while std::fs::read_to_string(&state).unwrap().trim() != "FROZEN" {
                tokio::task::yield_now().await;
            }
        };
        in_time(frozen).await;
        Some(stuck)
    }

    /// Has it be a member of a group.
    fn join(&self, group: &std::path::Path) {
        let pid = self.process.id().to_string();
        std::fs::write(group.join("cgroup.procs"), pid).unwrap();
    }
}

impl Drop for Stuck {
    fn drop(&mut self) {
        let _ = std::fs::write(self.freezer.join("freezer.state"), "THAWED");
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir(&self.freezer);
    }
}

/// A living sandbox that cannot be frozen again is no dead one.
#[tokio::test]
async fn one_that_cannot_be_frozen_again_lives() {
    let mut hub = Hub::start();
    let client = hub.client();
    let own = sandbox(&client, "own").await;
    assert_eq!(exec(&own, "echo kept >/tmp/kept").await.exit_code, 0);
    in_time(client.pause_sandbox(&id_of("own"))).await.unwrap();
    let groups = groups_of(&hub);
    let mut groups = groups.iter();
    let group = groups.find(|group| group.join("cgroup.freeze").exists());
    let (Some(group), Some(stuck)) = (group, Stuck::new().await) else {
        return skipped(
            "there are not two kinds of freezer here, so nothing can be kept from being frozen",
        );
    };
    hub.kill_hard();
    stuck.join(group);
    hub.restart();
    let record = get(&client, "own").await;
    assert_eq!(record.state, SandboxState::Ready, "{record:?}");
    assert_eq!(exec(&own, "cat /tmp/kept").await.stdout, "kept\n");
    assert!(hub.log().contains("a sandbox is not as it was left"));
    drop(stuck);
    in_time(client.pause_sandbox(&id_of("own"))).await.unwrap();
    until(&client, "own", SandboxState::Paused).await;
}

/// Groups for a hub to be started in, as those of another login.
struct Login(Vec<std::path::PathBuf>);

impl Login {
    /// One in each hierarchy that has groups of sandboxes.
    fn beside(groups: &[std::path::PathBuf]) -> Self {
        let name = format!("sandshell-test-login-{}", std::process::id());
        let mut made: Vec<_> = groups
            .iter()
            .filter_map(|group| Some(group.parent()?.join(&name)))
            .collect();
        made.sort_unstable();
        made.dedup();
        for group in &made {
            std::fs::create_dir(group).unwrap();
        }
        Self(made)
    }
}

impl Drop for Login {
    fn drop(&mut self) {
        for group in &self.0 {
            let _ = std::fs::remove_dir(group.join("sandshell-self"));
            let _ = std::fs::remove_dir(group);
        }
    }
}

/// A hub that is started again elsewhere is in other control groups than its sandboxes' are below.
#[tokio::test]
async fn groups_are_found_from_another_login() {
    let mut hub = Hub::start();
    let client = hub.client();
    let own = sandbox(&client, "own").await;
    let groups = groups_of(&hub);
    if groups.is_empty() {
        return skipped("no groups can be made here, so none is looked for from another login");
    }
    assert_eq!(exec(&own, "echo kept >/tmp/kept").await.exit_code, 0);
    in_time(client.pause_sandbox(&id_of("own"))).await.unwrap();
    hub.kill_hard();
    let login = Login::beside(&groups);
    // Dropped before what it is in.
    let mut hub = hub;
    let (freezing, others): (Vec<_>, Vec<_>) = login
        .0
        .iter()
        .cloned()
        .partition(|group| group.join("cgroup.freeze").exists());
    // In none of the former groups, in some of them, and in the others.
    for (n, groups) in (1..).zip([&login.0, &freezing, &others, &login.0]) {
        hub.enter(groups);
        hub.restart();
        let patch = SandboxPatch {
            limits: Some(SandboxLimits {
                memory_bytes: Some((2 << 30) + (n << 20)),
                pids: Some(300 + n),
                ..SandboxLimits::default()
            }),
            ..SandboxPatch::default()
        };
        let client = hub.client();
        let own = client.sandbox(&id_of("own"));
        assert_eq!(get(&client, "own").await.state, SandboxState::Paused);
        in_time(client.resume_sandbox(&id_of("own"))).await.unwrap();
        assert_eq!(exec(&own, "cat /tmp/kept").await.stdout, "kept\n");
        if !others.is_empty() {
            let patched = in_time(client.patch_sandbox(&id_of("own"), &patch)).await;
            assert_eq!(patched.unwrap().spec.limits, patch.limits);
        }
        in_time(client.pause_sandbox(&id_of("own"))).await.unwrap();
        hub.kill_hard();
    }
    hub.restart();
    let client = hub.client();
    // What is made from here on is here, and both are removed.
    let other = sandbox(&client, "other").await;
    assert_eq!(exec(&other, "echo here").await.stdout, "here\n");
    for id in ["own", "other"] {
        in_time(client.destroy_sandbox(&id_of(id))).await.unwrap();
    }
    let left: Vec<_> = groups.iter().filter(|group| group.exists()).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Hubs that come and go leave connections that a frozen agent never takes; when no more fit it is no dead one.
#[tokio::test]
async fn a_frozen_one_whose_queue_is_full_lives() {
    let mut hub = Hub::start();
    let client = hub.client();
    let own = sandbox(&client, "own").await;
    assert_eq!(exec(&own, "echo kept >/tmp/kept").await.exit_code, 0);
    if let Err(error) = in_time(client.pause_sandbox(&id_of("own"))).await {
        assert_eq!(error.code(), Some(ErrorCode::LimitUnavailable), "{error}");
        return skipped("no sandbox can be paused here, so NO queue of a frozen agent is filled");
    }
    let mut places = std::fs::read_dir(hub.state_dir().join("sandboxes")).unwrap();
    let socket = places.next().unwrap().unwrap().path().join("agent.sock");
    let mut waiting = 0;
    loop {
        match in_time(tokio::net::UnixStream::connect(&socket)).await {
            Ok(left) => drop(left),
            Err(full) => break assert_eq!(full.kind(), std::io::ErrorKind::WouldBlock, "{full}"),
        }
        waiting += 1;
        if waiting > 100_000 {
            return skipped("a paused agent takes connections here, so its queue is never full");
        }
    }
    hub.kill_hard();
    hub.restart();
    assert_eq!(get(&client, "own").await.state, SandboxState::Paused);
    in_time(client.resume_sandbox(&id_of("own"))).await.unwrap();
    assert_eq!(exec(&own, "cat /tmp/kept").await.stdout, "kept\n");
}
