//! Watching files: nothing is missed, and what is missed is said.

mod limits;
mod random;
mod replay;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use sandshell_client::types::{
    ChangesReply, ChangesRequest, ChangesStatus, FileChange, FileEvent, RescanReason,
    WatchEndReason,
};
use sandshell_client::{Client, WatchStream, WatchStreamEvent};
use sandshell_testkit::{Agent, UnprivilegedUser};

use crate::calls::in_time;

fn request(path: &Path) -> ChangesRequest {
    ChangesRequest {
        path: path.to_str().map(str::to_owned),
        ..Default::default()
    }
}

/// A directory of its own in the agent's.
fn tree(agent: &Agent) -> PathBuf {
    let tree = agent.work_dir().join("tree");
    fs::create_dir(&tree).unwrap();
    tree
}

async fn event(stream: &mut WatchStream) -> (u64, WatchStreamEvent) {
    in_time(stream.next())
        .await
        .expect("the stream goes on")
        .unwrap()
}

/// A stream, and the version at its beginning.
async fn open(client: &Client, request: &ChangesRequest) -> (WatchStream, u64) {
    let mut stream = in_time(client.watch_files(request)).await.unwrap();
    let (id, first) = event(&mut stream).await;
    let WatchStreamEvent::Ready(ready) = first else {
        panic!("{first:?}");
    };
    assert_eq!(ready.version, id);
    (stream, id)
}

async fn changes(client: &Client, request: &ChangesRequest) -> ChangesReply {
    in_time(client.check_changes(request)).await.unwrap()
}

/// Everything told up to now, after a version.
async fn told(
    client: &Client,
    request: &ChangesRequest,
    stream: &mut WatchStream,
    mut version: u64,
) -> (Vec<WatchStreamEvent>, u64) {
    let now = changes(client, request).await.version;
    let mut events = Vec::new();
    while version < now {
        let (id, event) = event(stream).await;
        version = id;
        events.push(event);
    }
    (events, version)
}

/// The same as short lines: `created a`, `moved a b`. Cutting a file and writing to it are two changes,
/// told as one or as two: lines that repeat are left out.
fn lines(tree: &Path, events: &[WatchStreamEvent]) -> Vec<String> {
    let short = |path: &str| {
        let below = path.strip_prefix(tree.to_str().unwrap()).unwrap();
        below.trim_start_matches('/').to_owned()
    };
    let line = |event: &WatchStreamEvent| match event {
        WatchStreamEvent::Change(FileEvent {
            change,
            path,
            from,
            directory,
            ..
        }) => {
            let slash = if *directory { "/" } else { "" };
            let from = from
                .as_ref()
                .map_or_else(String::new, |from| format!("{} ", short(from)));
            format!("{} {from}{}{slash}", change.as_str(), short(path))
        }
        other => format!("{other:?}"),
    };
    let mut lines: Vec<String> = events.iter().map(line).collect();
    lines.dedup();
    lines
}

#[tokio::test]
async fn each_change_is_told_once_and_in_order() {
    let agent = Agent::start();
    let client = agent.client();
    let tree = tree(&agent);
    fs::write(tree.join("old"), "x").unwrap();
    let outside = agent.work_dir().join("outside");
    fs::create_dir_all(outside.join("in/deep")).unwrap();
    fs::write(outside.join("in/deep/file"), "x").unwrap();
    let asked = request(&tree);
    let (mut stream, mut version) = open(&client, &asked).await;
    let mut expect = async |what: &str, expected: &[&str]| {
        let (events, now) = told(&client, &asked, &mut stream, version).await;
        version = now;
        assert_eq!(lines(&tree, &events), expected, "{what}");
    };
    fs::create_dir_all(tree.join("a/b/c")).unwrap();
    fs::write(tree.join("a/b/c/file"), "").unwrap();
    expect(
        "nested",
        &[
            "created a/",
            "created a/b/",
            "created a/b/c/",
            "created a/b/c/file",
        ],
    )
    .await;
    fs::write(tree.join("a/b/c/file"), "data").unwrap();
    expect("write", &["modified a/b/c/file"]).await;
    fs::rename(tree.join("a/b"), tree.join("z")).unwrap();
    fs::write(tree.join("z/c/more"), "").unwrap();
    expect("move", &["moved a/b z/", "created z/c/more"]).await;
    fs::rename(tree.join("z/c/more"), tree.join("old")).unwrap();
    expect("replace", &["moved z/c/more old"]).await;
    fs::rename(outside.join("in"), tree.join("in")).unwrap();
    expect(
        "move in",
        &["created in/", "created in/deep/", "created in/deep/file"],
    )
    .await;
    fs::rename(tree.join("in"), outside.join("out")).unwrap();
    fs::write(outside.join("out/deep/unseen"), "").unwrap();
    expect("move out", &["removed in/"]).await;
    fs::set_permissions(tree.join("old"), fs::Permissions::from_mode(0o600)).unwrap();
    expect("mode", &["attributes old"]).await;
    std::os::unix::fs::symlink("/etc", tree.join("link")).unwrap();
    expect("link", &["created link"]).await;
    fs::remove_dir_all(tree.join("z")).unwrap();
    expect(
        "remove",
        &["removed z/c/file", "removed z/c/", "removed z/"],
    )
    .await;
}

#[tokio::test]
async fn a_lost_connection_goes_on_where_it_was() {
    let agent = Agent::start();
    let client = agent.client();
    let tree = tree(&agent);
    let asked = request(&tree);
    let (mut stream, version) = open(&client, &asked).await;
    fs::write(tree.join("one"), "").unwrap();
    let (events, version) = told(&client, &asked, &mut stream, version).await;
    assert_eq!(lines(&tree, &events), ["created one"]);
    drop(stream);
    client.close_idle();
    fs::write(tree.join("two"), "").unwrap();
    fs::rename(tree.join("two"), tree.join("three")).unwrap();
    let since = ChangesRequest {
        since: Some(version),
        ..asked.clone()
    };
    let mut stream = in_time(client.watch_files(&since)).await.unwrap();
    event(&mut stream).await;
    let (events, _) = told(&client, &asked, &mut stream, version).await;
    assert_eq!(lines(&tree, &events), ["created two", "moved two three"]);
    // A version of another watch, or of a former agent.
    for since in [0, 1, version - 1_000_000, version + 1_000_000] {
        let unknown = ChangesRequest {
            since: Some(since),
            ..asked.clone()
        };
        let mut stream = in_time(client.watch_files(&unknown)).await.unwrap();
        event(&mut stream).await;
        let (_, first) = event(&mut stream).await;
        assert!(
            matches!(&first, WatchStreamEvent::Rescan(why) if why.reason == RescanReason::UnknownVersion),
            "{since}: {first:?}"
        );
        let reply = changes(&client, &unknown).await;
        assert_eq!(reply.status, ChangesStatus::Rescan);
        assert_eq!(reply.reason, Some(RescanReason::UnknownVersion));
    }
}

#[tokio::test]
async fn changes_are_known_without_a_stream() {
    let agent = Agent::start();
    let client = agent.client();
    let tree = tree(&agent);
    let mut asked = request(&tree);
    asked.exclude = vec!["*.log".to_owned()];
    let first = changes(&client, &asked).await;
    assert_eq!(first.status, ChangesStatus::Unchanged);
    asked.since = Some(first.version);
    assert_eq!(
        changes(&client, &asked).await.status,
        ChangesStatus::Unchanged
    );
    fs::write(tree.join("x.log"), "x").unwrap();
    assert_eq!(changes(&client, &asked).await, first);
    // What ended before the question is in the answer, however often it is asked.
    for n in 0..200 {
        fs::write(tree.join("file"), n.to_string()).unwrap();
        let reply = changes(&client, &asked).await;
        assert_eq!(reply.status, ChangesStatus::Changed, "{n}");
        asked.since = Some(reply.version);
        client.close_idle();
        assert_eq!(
            changes(&client, &asked).await.status,
            ChangesStatus::Unchanged
        );
    }
}

#[tokio::test]
async fn globs_choose_what_is_told() {
    let agent = Agent::start();
    let client = agent.client();
    let tree = tree(&agent);
    let asked = ChangesRequest {
        include: vec!["*.{rs,toml}".to_owned()],
        exclude: vec!["target".to_owned(), "a/b".to_owned()],
        ..request(&tree)
    };
    let (mut stream, mut version) = open(&client, &asked).await;
    let mut expect = async |what: &str, expected: &[&str]| {
        let (events, now) = told(&client, &asked, &mut stream, version).await;
        version = now;
        assert_eq!(lines(&tree, &events), expected, "{what}");
    };
    fs::create_dir_all(tree.join("target/debug")).unwrap();
    fs::write(tree.join("target/debug/x.rs"), "x").unwrap();
    expect("excluded", &[]).await;
    fs::write(tree.join("x.txt"), "").unwrap();
    fs::rename(tree.join("x.txt"), tree.join("x.rs")).unwrap();
    expect("renamed into it", &["created x.rs"]).await;
    fs::write(tree.join("x.tmp"), "").unwrap();
    fs::rename(tree.join("x.tmp"), tree.join("x.rs")).unwrap();
    expect("replaced", &["modified x.rs"]).await;
    fs::rename(tree.join("x.rs"), tree.join("x.bak")).unwrap();
    expect("renamed out of it", &["removed x.rs"]).await;
    fs::create_dir_all(tree.join("c/b")).unwrap();
    fs::write(tree.join("c/b/y.toml"), "").unwrap();
    expect(
        "told",
        &["created c/", "created c/b/", "created c/b/y.toml"],
    )
    .await;
    fs::rename(tree.join("c"), tree.join("a")).unwrap();
    expect(
        "moved to where a part is excluded",
        &["removed c/", "created a/"],
    )
    .await;
}

#[tokio::test]
async fn only_one_level_when_asked_so() {
    let agent = Agent::start();
    let client = agent.client();
    let tree = tree(&agent);
    let asked = ChangesRequest {
        recursive: Some(false),
        ..request(&tree)
    };
    let (mut stream, version) = open(&client, &asked).await;
    fs::create_dir(tree.join("dir")).unwrap();
    fs::write(tree.join("dir/file"), "").unwrap();
    fs::write(tree.join("file"), "").unwrap();
    let (events, _) = told(&client, &asked, &mut stream, version).await;
    assert_eq!(lines(&tree, &events), ["created dir/", "created file"]);
}

#[tokio::test]
async fn a_file_is_watched_too() {
    let agent = Agent::start();
    let client = agent.client();
    let tree = tree(&agent);
    let file = tree.join("file");
    fs::write(&file, "").unwrap();
    let asked = request(&file);
    let (mut stream, version) = open(&client, &asked).await;
    fs::write(&file, "data").unwrap();
    let (events, _) = told(&client, &asked, &mut stream, version).await;
    assert_eq!(lines(&file, &events), ["modified "]);
    fs::remove_file(&file).unwrap();
    let (_, last) = loop {
        let next = event(&mut stream).await;
        if !matches!(next.1, WatchStreamEvent::Change(_)) {
            break next;
        }
    };
    assert!(
        matches!(&last, WatchStreamEvent::End(end) if end.reason == WatchEndReason::Removed),
        "{last:?}"
    );
}

#[tokio::test]
async fn the_end_of_what_is_watched_is_told() {
    let agent = Agent::start();
    let client = agent.client();
    for (reason, how) in [
        (WatchEndReason::Removed, "removed"),
        (WatchEndReason::Moved, "moved"),
    ] {
        let dir = agent.work_dir().join(how);
        fs::create_dir_all(dir.join("below")).unwrap();
        let (mut stream, _) = open(&client, &request(&dir)).await;
        if how == "removed" {
            fs::remove_dir_all(&dir).unwrap();
        } else {
            fs::rename(&dir, agent.work_dir().join("elsewhere")).unwrap();
        }
        let last = loop {
            let (_, next) = event(&mut stream).await;
            if !matches!(next, WatchStreamEvent::Change(_)) {
                break next;
            }
        };
        assert!(
            matches!(&last, WatchStreamEvent::End(end) if end.reason == reason),
            "{how}: {last:?}"
        );
        assert!(in_time(stream.next()).await.is_none());
        // A new directory at the same path has a watch of its own.
        fs::create_dir(&dir).unwrap();
        let asked = request(&dir);
        let (mut stream, version) = open(&client, &asked).await;
        fs::write(dir.join("new"), "").unwrap();
        let (events, _) = told(&client, &asked, &mut stream, version).await;
        assert_eq!(lines(&dir, &events), ["created new"]);
    }
}

#[tokio::test]
async fn a_large_tree_that_is_removed_was_removed() {
    let agent = Agent::start();
    let client = agent.client();
    for round in 0..10 {
        let dir = agent.work_dir().join(format!("large{round}"));
        for n in 0..50 {
            fs::create_dir_all(dir.join(format!("{n}/a/b"))).unwrap();
        }
        let (mut stream, _) = open(&client, &request(&dir)).await;
        // Directories are still being looked for below it while it goes.
        fs::create_dir_all(dir.join("new/a/b")).unwrap();
        fs::remove_dir_all(&dir).unwrap();
        let last = loop {
            let (_, next) = event(&mut stream).await;
            if !matches!(next, WatchStreamEvent::Change(_)) {
                break next;
            }
        };
        assert!(
            matches!(&last, WatchStreamEvent::End(end) if end.reason == WatchEndReason::Removed),
            "{round}: {last:?}"
        );
    }
}

#[tokio::test]
async fn two_that_change_places_are_both_there() {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let agent = Agent::start();
    let client = agent.client();
    let tree = tree(&agent);
    let asked = request(&tree);
    let (mut stream, mut version) = open(&client, &asked).await;
    fs::create_dir_all(tree.join("a/in_a")).unwrap();
    fs::create_dir_all(tree.join("deep/b/in_b")).unwrap();
    fs::write(tree.join("file"), "").unwrap();
    fs::write(tree.join("deep/other"), "").unwrap();
    let mut replay = replay::Replay::default();
    for (one, other) in [("a", "deep/b"), ("file", "deep/other"), ("file", "a")] {
        let exchange = |one: &str, other: &str| {
            let (one, other) = (tree.join(one), tree.join(other));
            renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
        };
        exchange(one, other);
        let (events, now) = told(&client, &asked, &mut stream, version).await;
        version = now;
        for event in &events {
            replay.apply(&tree, event);
        }
        assert_eq!(replay.tree, replay::on_disk(&tree), "{one} {other}");
    }
    // What is watched below them is right, too.
    fs::write(tree.join("deep/b/in_a/late"), "").unwrap();
    fs::write(tree.join("file/in_b/late"), "").unwrap();
    let (events, _) = told(&client, &asked, &mut stream, version).await;
    assert_eq!(
        lines(&tree, &events),
        ["created deep/b/in_a/late", "created file/in_b/late"]
    );
}

#[tokio::test]
async fn names_that_are_not_text_are_exact() {
    use std::os::unix::ffi::OsStrExt as _;
    let agent = Agent::start();
    let client = agent.client();
    let tree = tree(&agent);
    let asked = request(&tree);
    let (mut stream, version) = open(&client, &asked).await;
    let name = std::ffi::OsStr::from_bytes(b"\xff\xfe");
    fs::create_dir(tree.join(name)).unwrap();
    fs::write(tree.join(name).join("file"), "").unwrap();
    fs::rename(tree.join(name), tree.join("plain")).unwrap();
    let (events, _) = told(&client, &asked, &mut stream, version).await;
    let exact = replay::Replay::from(&tree, &events);
    assert_eq!(exact.tree, replay::on_disk(&tree));
    let with_base64 = events.iter().any(|event| {
        matches!(event, WatchStreamEvent::Change(FileEvent { path, path_base64: Some(_), .. })
            if path.contains('\u{fffd}'))
    });
    assert!(with_base64, "{events:?}");
}

#[tokio::test]
async fn directories_that_its_user_may_not_read_are_left_out() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let agent = Agent::start();
    let client = agent.client();
    let tree = tree(&agent);
    let mode = fs::Permissions::from_mode;
    // The directories above let everyone pass.
    for above in tree.ancestors().skip(1).take(2) {
        fs::set_permissions(above, mode(0o755)).unwrap();
    }
    fs::create_dir(tree.join("secret")).unwrap();
    fs::set_permissions(tree.join("secret"), mode(0o700)).unwrap();
    let asked = ChangesRequest {
        user: Some("nobody".to_owned()),
        ..request(&tree)
    };
    let (mut stream, version) = open(&client, &asked).await;
    fs::write(tree.join("secret/hidden"), "").unwrap();
    fs::write(tree.join("shown"), "").unwrap();
    let (events, version) = told(&client, &asked, &mut stream, version).await;
    assert_eq!(lines(&tree, &events), ["created shown"]);
    fs::set_permissions(tree.join("secret"), mode(0o755)).unwrap();
    let (events, _) = told(&client, &asked, &mut stream, version).await;
    assert_eq!(
        lines(&tree, &events),
        ["attributes secret/", "created secret/hidden"]
    );
    let refused = ChangesRequest {
        user: Some("nobody".to_owned()),
        ..request(&tree.join("closed"))
    };
    fs::create_dir(tree.join("closed")).unwrap();
    fs::set_permissions(tree.join("closed"), mode(0o700)).unwrap();
    let refused = in_time(client.check_changes(&refused)).await.unwrap_err();
    assert_eq!(refused.status(), Some(403), "{refused:?}");
}

#[tokio::test]
async fn relative_paths_start_at_the_session() {
    let agent = Agent::start();
    let client = agent.client();
    let tree = tree(&agent);
    let session = client
        .create_session(&sandshell_client::types::SessionRequest {
            cwd: Some(tree.to_str().unwrap().to_owned()),
            ..Default::default()
        })
        .await
        .unwrap();
    let asked = ChangesRequest {
        path: Some(".".to_owned()),
        session: Some(session.id.clone()),
        ..Default::default()
    };
    let (mut stream, version) = open(&client, &asked).await;
    fs::write(tree.join("file"), "").unwrap();
    let (events, _) = told(&client, &asked, &mut stream, version).await;
    let WatchStreamEvent::Change(change) = &events[0] else {
        panic!("{events:?}");
    };
    assert_eq!(change.change, FileChange::Created);
    // As text: paths are equal whether they have `./` in them or not.
    assert_eq!(change.path, tree.join("file").to_str().unwrap());
}

#[tokio::test]
async fn an_agent_without_rights_watches_too() {
    let Some(user) = UnprivilegedUser::get() else {
        return;
    };
    let agent = Agent::builder().run_as(user).start();
    let client = agent.client();
    let tree = tree(&agent);
    user.own(&tree);
    let asked = request(&tree);
    let (mut stream, version) = open(&client, &asked).await;
    fs::create_dir_all(tree.join("a/b")).unwrap();
    fs::write(tree.join("a/b/file"), "").unwrap();
    let (events, _) = told(&client, &asked, &mut stream, version).await;
    assert_eq!(
        lines(&tree, &events),
        ["created a/", "created a/b/", "created a/b/file"]
    );
}
