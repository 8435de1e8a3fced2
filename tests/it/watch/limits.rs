//! What happens when there is too much: of changes, of files, of watches.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use sandshell_client::WatchStreamEvent;
use sandshell_client::types::{ChangesStatus, ErrorCode, RescanReason};
use sandshell_testkit::{Agent, find_binary};

use super::replay::{Replay, on_disk};
use super::{changes, event, lines, open, request, told, tree};
use crate::calls::{in_time, skipped};

#[tokio::test]
async fn an_overflow_of_the_queue_says_rescan_and_goes_on() {
    let agent = Agent::start();
    let client = agent.client();
    let root = tree(&agent);
    let asked = request(&root);
    let (mut stream, version) = open(&client, &asked).await;
    let before = changes(&client, &asked).await.version;
    // An agent that stands still reads nothing: the kernel's queue fills up.
    let pid = Pid::from_raw(agent.pid()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    for n in 0..200 {
        let dir = root.join(format!("d{n}"));
        fs::create_dir(&dir).unwrap();
        for m in 0..100 {
            fs::write(root.join(format!("{n}-{m}")), "").unwrap();
            fs::write(dir.join(format!("{m}")), "").unwrap();
        }
    }
    kill_process(pid, Signal::CONT).unwrap();
    let (events, version) = told(&client, &asked, &mut stream, version).await;
    let overflows = events.iter().filter(
        |event| matches!(event, WatchStreamEvent::Rescan(why) if why.reason == RescanReason::Overflow),
    );
    assert!(overflows.count() >= 1);
    let mut replay = Replay::from(&root, &events);
    assert!(replay.tree == on_disk(&root));
    // From then on nothing is missing, also in the directories whose making was not reported.
    for n in 0..200 {
        fs::write(root.join(format!("d{n}/after")), "").unwrap();
    }
    fs::rename(root.join("d7"), root.join("d8/inner")).unwrap();
    let (events, _) = told(&client, &asked, &mut stream, version).await;
    for event in &events {
        replay.apply(&root, event);
    }
    assert!(replay.tree == on_disk(&root));
    assert_eq!(events.len(), 201);
    let mut since = asked.clone();
    since.since = Some(before);
    let reply = changes(&client, &since).await;
    assert_eq!(reply.status, ChangesStatus::Rescan);
    assert_eq!(reply.reason, Some(RescanReason::Overflow));
}

#[tokio::test]
async fn a_reader_that_is_too_slow_is_told_that_it_missed_something() {
    let agent = Agent::start();
    let client = agent.client();
    let root = tree(&agent);
    let asked = request(&root);
    let first = changes(&client, &asked).await.version;
    for round in 0..70 {
        for n in 0..500 {
            let path = root.join(format!("{n}"));
            fs::write(&path, "").unwrap();
            fs::remove_file(&path).unwrap();
        }
        let version = changes(&client, &asked).await.version;
        assert!(version >= first + (round + 1) * 1000);
    }
    let mut old = asked.clone();
    old.since = Some(first);
    let reply = changes(&client, &old).await;
    assert_eq!(
        (reply.status, reply.reason),
        (ChangesStatus::Rescan, Some(RescanReason::Dropped))
    );
    let mut stream = in_time(client.watch_files(&old)).await.unwrap();
    event(&mut stream).await;
    let (version, rescan) = event(&mut stream).await;
    assert!(
        matches!(&rescan, WatchStreamEvent::Rescan(why) if why.reason == RescanReason::Dropped),
        "{rescan:?}"
    );
    fs::write(root.join("last"), "").unwrap();
    let (events, _) = told(&client, &asked, &mut stream, version).await;
    assert_eq!(lines(&root, &events), ["created last"]);
}

#[tokio::test]
#[expect(clippy::print_stderr, reason = "the figure is wanted")]
async fn a_hundred_thousand_files_are_watched() {
    let agent = Agent::start();
    let client = agent.client();
    let root = tree(&agent);
    for n in 0..1000 {
        let dir = root.join(format!("{}/{n}", n % 10));
        fs::create_dir_all(&dir).unwrap();
        for m in 0..100 {
            fs::File::create(dir.join(m.to_string())).unwrap();
        }
    }
    let asked = request(&root);
    let began = Instant::now();
    let mut stream = in_time(client.watch_files(&asked)).await.unwrap();
    let (version, ready) = event(&mut stream).await;
    let took = began.elapsed();
    let WatchStreamEvent::Ready(ready) = ready else {
        panic!("{ready:?}");
    };
    assert_eq!((ready.directories, ready.entries), (1011, 101_010));
    eprintln!("100,000 files in 1,000 directories: watched after {took:?}");
    fs::write(root.join("7/997/50"), "x").unwrap();
    fs::rename(root.join("3"), root.join("4/three")).unwrap();
    fs::write(root.join("4/three/993/new"), "x").unwrap();
    let (events, _) = told(&client, &asked, &mut stream, version).await;
    let expected = [
        "modified 7/997/50",
        "moved 3 4/three/",
        "created 4/three/993/new",
        "modified 4/three/993/new",
    ];
    assert_eq!(lines(&root, &events), expected);
}

/// An agent in a user namespace with a limit of its own.
fn limited(which: &str, limit: u32) -> (tempfile::TempDir, Agent) {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("sandshell");
    let text = format!(
        "#!/bin/sh\nexec unshare --user --map-root-user sh -c \
         'echo {limit} >/proc/sys/user/{which} && exec \"$0\" \"$@\"' {} \"$@\"\n",
        find_binary().display()
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let agent = Agent::builder().binary(script).start();
    (dir, agent)
}

fn user_namespaces() -> bool {
    let tried = std::process::Command::new("unshare")
        .args(["--user", "--map-root-user", "true"])
        .output();
    tried.is_ok_and(|output| output.status.success())
}

#[tokio::test]
async fn the_kernels_limits_are_named() {
    if !user_namespaces() {
        skipped("no user namespace can be made here");
        return;
    }
    let (_dir, agent) = limited("max_inotify_watches", 5);
    let client = agent.client();
    let root = tree(&agent);
    for n in 0..9 {
        fs::create_dir(root.join(n.to_string())).unwrap();
    }
    let refused = in_time(client.check_changes(&request(&root))).await;
    let problem = refused.unwrap_err().problem().unwrap().clone();
    assert_eq!(problem.code, ErrorCode::LimitReached);
    assert!(
        problem.detail.contains("fs.inotify.max_user_watches"),
        "{problem:?}"
    );
    // What was refused is given back, so a smaller wish is met; when it grows too large, it ends.
    let small = request(&root.join("0"));
    let (mut stream, _) = open(&client, &small).await;
    fs::create_dir_all(root.join("0/1/2/3/4/5/6/7")).unwrap();
    let last = loop {
        let (_, next) = event(&mut stream).await;
        if !matches!(next, WatchStreamEvent::Change(_)) {
            break next;
        }
    };
    let WatchStreamEvent::End(end) = last else {
        panic!("{last:?}");
    };
    assert!(end.detail.unwrap().contains("fs.inotify.max_user_watches"));

    let (_dir, agent) = limited("max_inotify_instances", 1);
    let client = agent.client();
    let root = tree(&agent);
    fs::create_dir(root.join("other")).unwrap();
    let (_held, _) = open(&client, &request(&root)).await;
    let refused = in_time(client.check_changes(&request(&root.join("other")))).await;
    let problem = refused.unwrap_err().problem().unwrap().clone();
    assert_eq!(problem.code, ErrorCode::LimitReached);
    assert!(
        problem.detail.contains("fs.inotify.max_user_instances"),
        "{problem:?}"
    );
}

#[tokio::test]
async fn unused_watches_make_room_and_used_ones_do_not() {
    let agent = Agent::start();
    let client = agent.client();
    let root = tree(&agent);
    let dirs: Vec<PathBuf> = (0..40).map(|n| root.join(n.to_string())).collect();
    for dir in &dirs {
        fs::create_dir(dir).unwrap();
        changes(&client, &request(dir)).await;
    }
    let mut held = Vec::new();
    for dir in dirs.iter().take(32) {
        held.push(open(&client, &request(dir)).await);
    }
    let refused = in_time(client.check_changes(&request(&dirs[39]))).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.status(), Some(429), "{refused:?}");
    held.pop();
    let freed = async {
        // The agent hears of the closed connection a little later.
        while client.check_changes(&request(&dirs[39])).await.is_err() {}
    };
    in_time(freed).await;
    // Those in use went on all the time.
    let (stream, version) = &mut held[5];
    fs::write(dirs[5].join("file"), "").unwrap();
    let (events, _) = told(&client, &request(&dirs[5]), stream, *version).await;
    assert_eq!(lines(&dirs[5], &events), ["created file"]);
}

/// One that has just been made belongs to its caller, however many are made at the same time.
#[tokio::test]
async fn watches_made_at_once_do_not_take_each_others_place() {
    let agent = Agent::start();
    let client = agent.client();
    let root = tree(&agent);
    let dirs: Vec<PathBuf> = (0..60).map(|n| root.join(n.to_string())).collect();
    let requests: Vec<_> = dirs.iter().map(|dir| request(dir)).collect();
    for dir in &dirs {
        fs::create_dir(dir).unwrap();
    }
    let opening = requests.iter().map(|request| client.watch_files(request));
    let opened = in_time(futures_util::future::join_all(opening)).await;
    let mut streams = Vec::new();
    for (stream, dir) in opened.into_iter().zip(&dirs) {
        match stream {
            Ok(stream) => streams.push((stream, dir)),
            Err(refused) => assert_eq!(refused.status(), Some(429), "{refused:?}"),
        }
    }
    assert_eq!(streams.len(), 32);
    for (stream, dir) in &mut streams {
        assert!(matches!(event(stream).await.1, WatchStreamEvent::Ready(_)));
        fs::write(dir.join("file"), "").unwrap();
        let (_, told) = event(stream).await;
        assert!(matches!(told, WatchStreamEvent::Change(_)), "{told:?}");
    }
}
