//! Backups: made, kept, restored, all or nothing.

mod fake_storage;
mod storage;

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use sandshell_client::types::{
    BackupRecord, BackupRequest, BackupState, ErrorCode, Problem, RestoreReply, RestoreRequest,
};
use sandshell_client::{Client, Page};
use sandshell_testkit::{Agent, UnprivilegedUser};

use crate::calls::{code_of, in_time, skipped};
use crate::signs::until_so;
use crate::tree::{grow, inner_shape, leftovers, shape};

fn backup_of(id: &str, path: &Path) -> BackupRequest {
    BackupRequest {
        id: Some(id.parse().unwrap()),
        path: Some(path.display().to_string()),
        ..Default::default()
    }
}

fn to(path: &Path) -> RestoreRequest {
    RestoreRequest {
        path: Some(path.display().to_string()),
        ..Default::default()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

async fn make(client: &Client, request: &BackupRequest) -> BackupRecord {
    in_time(client.create_backup(request)).await.unwrap()
}

#[tokio::test]
async fn a_directory_comes_back_as_it_was() {
    let agent = Agent::start();
    let client = agent.client();
    let dir = agent.work_dir().join("tree");
    fs::create_dir(&dir).unwrap();
    grow(&dir, 5);
    let expected = shape(&dir);
    let record = make(&client, &backup_of("one", &dir)).await;
    assert_eq!((record.state, record.stored), (BackupState::Ready, true));
    assert_eq!(record.path, dir.display().to_string());
    // The hash is that of what can be fetched, and that is an archive anyone can read.
    let content = client.backup_content(&record.id).await.unwrap();
    let content = in_time(content.read_to_end()).await.unwrap();
    assert_eq!(content.len() as u64, record.size);
    let digest = <sha2::Sha256 as sha2::Digest>::digest(&content);
    assert_eq!(Some(hex(&digest)), record.sha256);
    // Everything is changed, then restored in place.
    fs::remove_dir_all(&dir).unwrap();
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("newer"), "not in the backup").unwrap();
    let restored = in_time(client.restore_backup(&record.id, &RestoreRequest::default())).await;
    assert_eq!(restored.unwrap().contents.files, record.contents.files);
    assert_eq!(shape(&dir), expected);
    // Elsewhere, where nothing is; with events.
    let elsewhere = agent.work_dir().join("else/where");
    let mut events = client
        .restore_backup_events(&record.id, &to(&elsewhere))
        .await
        .unwrap();
    let mut last = None;
    while let Some(event) = in_time(events.next()).await {
        last = Some(event.unwrap());
    }
    let last = last.unwrap();
    assert_eq!(last.event, "restored");
    let reply: RestoreReply = serde_json::from_str(&last.data).unwrap();
    assert_eq!(reply.path, elsewhere.display().to_string());
    assert_eq!(shape(&elsewhere), expected);
    assert!(leftovers(&agent.work_dir()).is_empty());
    // In the list, until it is deleted.
    let list = client.list_backups(&Page::default()).await.unwrap();
    assert_eq!(list.items, std::slice::from_ref(&record));
    client.delete_backup(&record.id).await.unwrap();
    assert_eq!(
        code_of(client.backup(&record.id).await),
        ErrorCode::BackupNotFound
    );
    assert_eq!(
        fs::read_dir(agent.state_dir().join("backups"))
            .unwrap()
            .count(),
        0
    );
}

#[tokio::test]
async fn an_altered_archive_is_refused_and_changes_nothing() {
    let agent = Agent::start();
    let client = agent.client();
    let dir = agent.work_dir().join("tree");
    fs::create_dir(&dir).unwrap();
    grow(&dir, 9);
    let record = make(&client, &backup_of("one", &dir)).await;
    let file = agent.state_dir().join("backups/one/archive.tar.zst");
    let whole = fs::read(&file).unwrap();
    fs::write(dir.join("newer"), "stays").unwrap();
    let before = shape(&agent.work_dir());
    let mut altered: Vec<Vec<u8>> = Vec::new();
    for at in (0..whole.len())
        .step_by(whole.len() / 40)
        .chain([whole.len() - 1])
    {
        let mut copy = whole.clone();
        copy[at] ^= 1;
        altered.push(copy);
        altered.push(whole[..at].to_vec());
    }
    altered.push([&whole[..], b"more"].concat());
    altered.push([&whole[..], &whole[..]].concat());
    for bytes in altered {
        fs::write(&file, &bytes).unwrap();
        let restored = in_time(client.restore_backup(&record.id, &RestoreRequest::default())).await;
        assert_eq!(code_of(restored), ErrorCode::InvalidArchive);
    }
    let mut after = shape(&agent.work_dir());
    // The staging directory came and went.
    after.get_mut(&Vec::new()).unwrap().1 = before[&Vec::new()].1;
    after.get_mut(&Vec::new()).unwrap().2 = before[&Vec::new()].2;
    assert_eq!(after, before);
    fs::remove_file(&file).unwrap();
    let restored = in_time(client.restore_backup(&record.id, &RestoreRequest::default())).await;
    assert_eq!(code_of(restored), ErrorCode::BackupNotFound);
    fs::write(&file, &whole).unwrap();
    in_time(client.restore_backup(&record.id, &RestoreRequest::default()))
        .await
        .unwrap();
    assert!(!dir.join("newer").exists());
}

#[tokio::test]
async fn the_same_id_is_the_same_backup() {
    let agent = Agent::start();
    let client = agent.client();
    let dir = agent.work_dir().join("tree");
    fs::create_dir(&dir).unwrap();
    grow(&dir, 2);
    let request = backup_of("same", &dir);
    let all = (0..8).map(|_| {
        let (client, request) = (agent.client(), request.clone());
        tokio::spawn(async move { client.create_backup(&request).await.unwrap() })
    });
    let mut records = Vec::new();
    for record in all.collect::<Vec<_>>() {
        records.push(in_time(record).await.unwrap());
    }
    assert!(records.windows(2).all(|pair| pair[0] == pair[1]));
    let other = BackupRequest {
        gitignore: true,
        ..request.clone()
    };
    let refused = in_time(client.create_backup(&other)).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::IdConflict));
    assert_eq!(
        refused.problem().unwrap().pointer.as_deref(),
        Some("/gitignore")
    );
    // Different ones at the same time.
    let many = (0..8).map(|n| {
        let (client, request) = (agent.client(), backup_of(&format!("b{n}"), &dir));
        tokio::spawn(async move { client.create_backup(&request).await.unwrap() })
    });
    for record in many.collect::<Vec<_>>() {
        let record = in_time(record).await.unwrap();
        assert_eq!(record.contents, records[0].contents);
    }
    assert_eq!(
        client
            .list_backups(&Page::default())
            .await
            .unwrap()
            .items
            .len(),
        9
    );
}

#[tokio::test]
async fn what_is_left_out_and_what_cannot_be_read() {
    let Some(user) = UnprivilegedUser::get() else {
        return skipped("only root can give up rights");
    };
    let agent = Agent::builder().run_as(user).start();
    let client = agent.client();
    let dir = agent.work_dir().join("tree");
    for name in ["keep", "skip.log", "ignored", ".git/HEAD", "secret"] {
        fs::create_dir_all(dir.join(name).parent().unwrap()).unwrap();
        fs::write(dir.join(name), name).unwrap();
    }
    fs::write(dir.join(".gitignore"), "ignored\n").unwrap();
    fs::set_permissions(dir.join("secret"), fs::Permissions::from_mode(0o600)).unwrap();
    let request = BackupRequest {
        exclude: vec!["*.log".to_owned()],
        gitignore: true,
        ..backup_of("one", &dir)
    };
    let refused = in_time(client.create_backup(&request)).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::PermissionDenied));
    assert!(
        refused.problem().unwrap().detail.contains("tree/secret"),
        "{refused:?}"
    );
    // It failed, so nothing of it is there and the id is free.
    assert_eq!(
        fs::read_dir(agent.state_dir().join("backups"))
            .unwrap()
            .count(),
        0
    );
    let request = BackupRequest {
        skip_unreadable: true,
        ..request
    };
    let record = make(&client, &request).await;
    assert_eq!((record.contents.files, record.contents.skipped), (3, 1));
    let elsewhere = agent.work_dir().join("new");
    in_time(client.restore_backup(&record.id, &to(&elsewhere)))
        .await
        .unwrap();
    let names: Vec<_> = inner_shape(&elsewhere).into_keys().collect();
    assert_eq!(names, [&b".git"[..], b".git/HEAD", b".gitignore", b"keep"]);
    assert_eq!(
        fs::metadata(elsewhere.join("keep")).unwrap().uid(),
        user.uid
    );
}

#[tokio::test]
async fn a_directory_whose_parent_is_not_the_users_is_restored_too() {
    let Some(user) = UnprivilegedUser::get() else {
        return skipped("only root can give up rights");
    };
    let agent = Agent::builder().run_as(user).start();
    let client = agent.client();
    let parent = tempfile::tempdir().unwrap();
    fs::set_permissions(parent.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let dir = parent.path().join("volume");
    fs::create_dir(&dir).unwrap();
    user.own(&dir);
    let source = agent.work_dir().join("source");
    fs::create_dir_all(source.join("sub")).unwrap();
    fs::write(source.join("sub/new"), "new").unwrap();
    user.own(&source);
    user.own(&source.join("sub"));
    fs::create_dir(dir.join("old")).unwrap();
    user.own(&dir.join("old"));
    fs::write(dir.join("old/file"), "old").unwrap();
    let record = make(&client, &backup_of("one", &source)).await;
    // A bad one first: nothing changes.
    let file = agent.state_dir().join("backups/one/archive.tar.zst");
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() - 1]).unwrap();
    let restored = in_time(client.restore_backup(&record.id, &to(&dir))).await;
    assert_eq!(code_of(restored), ErrorCode::InvalidArchive);
    assert_eq!(fs::read_to_string(dir.join("old/file")).unwrap(), "old");
    assert!(leftovers(&dir).is_empty());
    fs::write(&file, &whole).unwrap();
    in_time(client.restore_backup(&record.id, &to(&dir)))
        .await
        .unwrap();
    assert_eq!(inner_shape(&dir), inner_shape(&source));
    assert!(leftovers(&dir).is_empty());
}

#[tokio::test]
async fn time_runs_out_and_deletes_end_the_making() {
    let agent = Agent::start();
    let client = agent.client();
    let dir = agent.work_dir().join("tree");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("f"), "f").unwrap();
    let short = BackupRequest {
        ttl_ms: Some(1),
        ..backup_of("short", &dir)
    };
    let record = make(&client, &short).await;
    let expires_at = record.expires_at.unwrap();
    assert_eq!(expires_at.duration_since(record.created_at).as_millis(), 1);
    // The same clock tells both sides when that is.
    while sandshell_client::types::Timestamp::now() < expires_at {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(
        code_of(client.backup(&record.id).await),
        ErrorCode::BackupNotFound
    );
    assert!(
        client
            .list_backups(&Page::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );
    // The id can be used again, with another spec.
    make(&client, &backup_of("short", &dir)).await;
    // One that takes for ever, until it is deleted.
    let huge = fs::File::create(dir.join("huge")).unwrap();
    huge.set_len(1 << 39).unwrap();
    let request = backup_of("huge", &dir);
    let mut events = client.create_backup_events(&request).await.unwrap();
    let first = in_time(events.next()).await.unwrap().unwrap();
    assert_eq!(first.event, "progress");
    let id = "huge".parse().unwrap();
    let record = client.backup(&id).await.unwrap();
    assert_eq!(record.state, BackupState::Creating);
    let refused = in_time(client.restore_backup(&id, &RestoreRequest::default())).await;
    assert_eq!(code_of(refused), ErrorCode::Unavailable);
    in_time(client.delete_backup(&id)).await.unwrap();
    let mut last = first;
    while let Some(event) = in_time(events.next()).await {
        last = event.unwrap();
    }
    assert_eq!(last.event, "error");
    let problem: Problem = serde_json::from_str(&last.data).unwrap();
    assert_eq!(problem.code, ErrorCode::BackupNotFound);
    assert!(problem.detail.contains("deleted"), "{problem:?}");
    assert!(!agent.state_dir().join("backups/huge").exists());
}

#[tokio::test]
async fn backups_outlive_the_agent() {
    let state = tempfile::tempdir().unwrap();
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("f"), "before").unwrap();
    let binary = sandshell_testkit::find_binary();
    let socket = state.path().join("agent.sock");
    let run = |ready: &Path| {
        let mut command = Command::new(&binary);
        command
            .arg("agent")
            .arg("--listen")
            .arg(format!("unix:{}", socket.display()))
            .arg("--state-dir")
            .arg(state.path().join("state"))
            .arg("--ready-file")
            .arg(ready);
        command.spawn().unwrap()
    };
    let client = Client::new(&format!("unix:{}", socket.display()), None).unwrap();
    let ready = |name: &str| state.path().join(name);
    let until_ready = async |path: PathBuf| until_so(state.path(), || path.exists()).await;
    let mut first = run(&ready("1"));
    until_ready(ready("1")).await;
    let record = make(&client, &backup_of("one", dir.path())).await;
    // What a crash in the middle of another would leave.
    fs::create_dir(state.path().join("state/backups/unfinished")).unwrap();
    fs::write(
        state
            .path()
            .join("state/backups/unfinished/archive.tar.zst"),
        "x",
    )
    .unwrap();
    // What a failing disk, or somebody, would leave of one that was finished.
    let folder = |name: &str| state.path().join("state/backups").join(name);
    for (name, manifest) in [
        ("damaged", "{\"version\": 1, "),
        ("newer", "{\"version\": 9}"),
    ] {
        fs::create_dir(folder(name)).unwrap();
        fs::write(folder(name).join("archive.tar.zst"), "x").unwrap();
        fs::write(folder(name).join("manifest.json"), manifest).unwrap();
    }
    fs::write(folder(".fetched-7"), "x").unwrap();
    fs::write(folder("note"), "x").unwrap();
    first.kill().unwrap();
    first.wait().unwrap();
    let _ = fs::remove_file(&socket);
    fs::write(dir.path().join("f"), "after").unwrap();
    let mut second = run(&ready("2"));
    until_ready(ready("2")).await;
    client.close_idle();
    let list = client.list_backups(&Page::default()).await.unwrap();
    assert_eq!(list.items, std::slice::from_ref(&record));
    assert!(!folder("unfinished").exists() && !folder(".fetched-7").exists());
    for name in ["damaged", "newer"] {
        let refused = in_time(client.create_backup(&backup_of(name, dir.path()))).await;
        assert_eq!(code_of(refused), ErrorCode::IdConflict);
        assert_eq!(
            fs::read(folder(name).join("archive.tar.zst")).unwrap(),
            b"x"
        );
    }
    assert!(folder("note").exists());
    in_time(client.restore_backup(&record.id, &RestoreRequest::default()))
        .await
        .unwrap();
    assert_eq!(fs::read_to_string(dir.path().join("f")).unwrap(), "before");
    second.kill().unwrap();
    second.wait().unwrap();
}

#[tokio::test]
async fn a_time_that_no_backup_can_be_kept_for_is_refused() {
    let agent = Agent::start();
    let client = agent.client();
    for ttl_ms in [0, u64::MAX, 1 << 60] {
        let request = BackupRequest {
            ttl_ms: Some(ttl_ms),
            ..backup_of("short", &agent.work_dir())
        };
        let refused = in_time(client.create_backup(&request)).await.unwrap_err();
        let problem = refused.problem().unwrap();
        assert_eq!(
            (problem.status, problem.pointer.as_deref()),
            (400, Some("/ttl_ms")),
            "{ttl_ms}"
        );
    }
    let list = client.list_backups(&Page::default()).await.unwrap();
    assert!(list.items.is_empty());
}
