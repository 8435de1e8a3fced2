//! The disk that a hub has its state on is full: told as such, nothing half-made, and all is well again
//! when there is space.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use sandshell_client::types::{BackupRequest, ErrorCode, SandboxState, Scope, TokenRequest};
use sandshell_client::{Client, Page, SandboxFilter};
use sandshell_testkit::Hub;
use tempfile::TempDir;

use super::{id_of, processes_of, sandbox, say, spec_of};
use crate::calls::{DEADLINE, Shell, code_of, exec, exec_of, in_time, skipped};
use crate::hub::{get, groups_of};

/// A small file system of its own, gone when this is dropped.
struct Disk(TempDir);

impl Disk {
    fn of(size: &str) -> Option<Self> {
        let dir = TempDir::with_prefix("sandshell-test-").unwrap();
        let options = format!("size={size},mode=0755");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "sandshell-test"])
            .arg(dir.path())
            .status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Self(dir));
        }
        skipped("no file system can be mounted here, so NO disk of a hub is full");
        None
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Takes all the space there is.
    fn fill(&self) {
        let mut file = File::create(self.path().join("filler")).unwrap();
        for size in [1 << 20, 4096, 1] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
    }

    fn free(&self) {
        std::fs::remove_file(self.path().join("filler")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

async fn ids(client: &Client) -> Vec<String> {
    let listed = in_time(client.sandboxes(&SandboxFilter::default()))
        .await
        .unwrap();
    listed.items.iter().map(|one| one.id.to_string()).collect()
}

/// Waits until the hub's sandboxes have no more processes than these.
async fn come_to(hub: &Hub, most: usize) {
    let gone = async {
        while processes_of(hub).len() > most {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let gone = tokio::time::timeout(DEADLINE, gone).await;
    assert!(gone.is_ok(), "{:?} after {most}", processes_of(hub));
}

/// What is more than the log of an output holds in memory.
const LARGE: &str = "head -c 30000000 /dev/zero | tr '\\0' x";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_on_a_full_disk_says_so_and_recovers() {
    let Some(disk) = Disk::of("48m") else {
        return;
    };
    let dir = TempDir::with_prefix_in("h-", disk.path()).unwrap();
    let mut hub = Hub::in_dir(dir, &[]);
    let client = hub.client();
    let inside = sandbox(&client, "first").await;
    let shell = Shell::of(&inside).await;
    shell
        .out("v=kept; mkdir -p /tmp/d; head -c 3000000 /dev/urandom > /tmp/d/f")
        .await;
    disk.fill();
    let before = processes_of(&hub).len();
    for n in 0..3 {
        let refused = in_time(client.create_sandbox(&spec_of(&format!("more-{n}")))).await;
        assert_eq!(code_of(refused), ErrorCode::NoSpace);
    }
    assert_eq!(ids(&client).await, ["first"]);
    let token = TokenRequest {
        name: Some("another".to_owned()),
        scopes: vec![Scope::Admin],
        expires_at: None,
        max_sandboxes: None,
    };
    come_to(&hub, before).await;
    let refused = in_time(client.create_token(&token)).await;
    assert_eq!(code_of(refused), ErrorCode::NoSpace);
    let backup = BackupRequest {
        path: Some("/tmp/d".to_owned()),
        ..Default::default()
    };
    let refused = in_time(inside.create_backup(&backup)).await;
    assert_eq!(code_of(refused), ErrorCode::NoSpace);
    assert!(
        in_time(inside.list_backups(&Page::default()))
            .await
            .unwrap()
            .items
            .is_empty()
    );
    // What needs no disk goes on; what needs it says what it has not.
    assert_eq!(exec(&inside, "echo small").await.stdout, "small\n");
    assert_eq!(shell.out("echo $v").await, "kept\n");
    let large = exec_of(LARGE);
    match in_time(inside.exec(&large)).await {
        Ok(done) => {
            say(&format!(
                "{} bytes and {:?}",
                done.stdout.len(),
                done.truncated
            ));
            let omitted = done.truncated.map_or(0, |truncated| truncated.stdout_bytes);
            assert_eq!(done.stdout.len() as u64 + omitted, 30_000_000);
            assert!(done.stdout.bytes().all(|byte| byte == b'x'));
        }
        Err(error) => assert_eq!(error.code(), Some(ErrorCode::NoSpace), "{error:?}"),
    }
    // It is gone as a whole or there as a whole, and whoever asked knows which.
    match in_time(client.destroy_sandbox(&id_of("first"))).await {
        Ok(_) => {
            assert_eq!(ids(&client).await, [""; 0]);
            come_to(&hub, 0).await;
            disk.free();
        }
        Err(error) => {
            say(&format!("destroying: {error}"));
            assert_eq!(error.code(), Some(ErrorCode::NoSpace), "{error:?}");
            assert_eq!(shell.out("echo $v").await, "kept\n");
            disk.free();
            in_time(client.destroy_sandbox(&id_of("first")))
                .await
                .unwrap();
            come_to(&hub, 0).await;
        }
    }
    let second = sandbox(&client, "second").await;
    let done = exec(&second, LARGE).await;
    let omitted = done.truncated.map_or(0, |truncated| truncated.stdout_bytes);
    assert_eq!(done.stdout.len() as u64 + omitted, 30_000_000);
    in_time(second.create_backup(&BackupRequest {
        path: Some("/etc".to_owned()),
        ..Default::default()
    }))
    .await
    .unwrap();
    in_time(client.create_token(&token)).await.unwrap();
    // The records are whole, also for the next hub.
    let known = ids(&client).await;
    hub.kill_hard();
    hub.restart();
    let client = hub.client();
    assert_eq!(ids(&client).await, known);
    assert_eq!(
        exec(&client.sandbox(&id_of("second")), "echo on")
            .await
            .stdout,
        "on\n"
    );
    let check = "import sqlite3,sys; print(sqlite3.connect(sys.argv[1]).execute('pragma integrity_check').fetchone()[0])";
    let checked = Command::new("python3")
        .args(["-c", check])
        .arg(hub.state_dir().join("hub.db"))
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&checked.stdout).trim(),
        "ok",
        "{checked:?}"
    );
}

/// What cannot be written down is not done: a sandbox that is called paused stands still.
#[tokio::test]
async fn one_that_cannot_be_woken_on_a_full_disk_stands_still() {
    let Some(disk) = Disk::of("48m") else {
        return;
    };
    let dir = TempDir::with_prefix_in("h-", disk.path()).unwrap();
    let hub = Hub::in_dir(dir, &[]);
    let client = hub.client();
    let own = sandbox(&client, "own").await;
    in_time(client.pause_sandbox(&id_of("own"))).await.unwrap();
    let groups = groups_of(&hub);
    let mut groups = groups.iter();
    let Some(group) = groups.find(|group| group.join("cgroup.freeze").exists()) else {
        return skipped(
            "no group here tells whether it is frozen, so NO waking on a full disk is tried",
        );
    };
    disk.fill();
    // Until the records have used the room that they still have.
    let refused = loop {
        match in_time(client.resume_sandbox(&id_of("own"))).await {
            Err(error) => break error,
            Ok(_) => drop(in_time(client.pause_sandbox(&id_of("own"))).await),
        }
        disk.fill();
    };
    assert_eq!(refused.code(), Some(ErrorCode::NoSpace), "{refused:?}");
    assert_eq!(get(&client, "own").await.state, SandboxState::Paused);
    let events = std::fs::read_to_string(group.join("cgroup.events")).unwrap();
    assert!(events.contains("frozen 1"), "{events}");
    disk.free();
    in_time(client.resume_sandbox(&id_of("own"))).await.unwrap();
    assert_eq!(exec(&own, "echo on").await.stdout, "on\n");
}
