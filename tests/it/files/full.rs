//! A disk that is full: the right code, and nothing changed.

use std::os::unix::fs::PermissionsExt as _;

use sandshell_client::types::{CopyRequest, ErrorCode, MkdirRequest};
use sandshell_client::{FileQuery, WriteOptions};
use sandshell_testkit::{Agent, find_binary};

use super::{Desk, noise, read};
use crate::calls::{code_of, exec, in_time, skipped};

/// An agent that sees a disk of 1 MiB and 16 inodes at the given path, and nobody else does.
fn agent_with_small_disk(disk: &str) -> Option<Agent> {
    let script = tempfile::NamedTempFile::with_prefix("sandshell-test-").unwrap();
    let small = format!("mount -t tmpfs -o size=1m,nr_inodes=16 tmpfs '{disk}'");
    let able = std::process::Command::new("unshare")
        .args(["-m", "sh", "-c", &small])
        .status();
    if !able.is_ok_and(|status| status.success()) {
        skipped("no file system can be mounted here, so that no disk can be full");
        return None;
    }
    let binary = find_binary();
    let text = format!(
        "#!/bin/sh\nexec unshare -m sh -c '{}; exec \"$0\" \"$@\"' '{}' \"$@\"\n",
        small.replace('\'', ""),
        binary.display()
    );
    std::fs::write(script.path(), text).unwrap();
    let path = script.into_temp_path();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    Some(Agent::builder().binary(path.to_path_buf()).start())
}

#[tokio::test]
async fn a_full_disk_is_said_and_changes_nothing() {
    let disk = tempfile::TempDir::with_prefix("sandshell-test-").unwrap();
    let at = disk.path().to_str().unwrap().to_owned();
    let Some(agent) = agent_with_small_disk(&at) else {
        return;
    };
    let desk = Desk::of(agent);
    let file = |name: &str| FileQuery::new(format!("{at}/{name}"));
    let options = WriteOptions::default();
    let write = async |name: &str, length: usize| {
        in_time(desk.client.write_file(&file(name), &options, noise(length))).await
    };
    write("old", 300_000).await.unwrap();
    // Small and large, over what is there and new, with directories to be made.
    for length in [900_000, 20 << 20] {
        for name in ["old", "new", "deep/er/new"] {
            assert_eq!(
                code_of(write(name, length).await),
                ErrorCode::NoSpace,
                "{name}"
            );
        }
    }
    let left = exec(
        &desk.client,
        &format!("cd {at}; find . | sort; wc -c < old"),
    )
    .await
    .stdout;
    assert_eq!(left, ".\n./old\n300000\n");
    assert!(read(&desk.client, &file("old")).await.unwrap() == noise(300_000));
    desk.put("big", noise(2 << 20)).await;
    let copied = in_time(desk.client.copy_file(&CopyRequest {
        from: Some(desk.path("big")),
        to: Some(format!("{at}/big")),
        ..Default::default()
    }))
    .await;
    assert_eq!(code_of(copied), ErrorCode::NoSpace);
    let full = async |n: usize| {
        in_time(desk.client.make_directory(&MkdirRequest {
            path: Some(format!("{at}/many/{n}")),
            ..Default::default()
        }))
        .await
    };
    let mut n = 0;
    let refused = loop {
        match full(n).await {
            Ok(_) if n < 100 => n += 1,
            other => break other,
        }
    };
    assert_eq!(
        code_of(refused),
        ErrorCode::NoSpace,
        "after {n} directories"
    );
    let left = exec(
        &desk.client,
        &format!("cd {at}; find . -name '.sand*' | wc -l"),
    )
    .await;
    assert_eq!(left.stdout, "0\n");
}
