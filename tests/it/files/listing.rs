//! Lists and looks, compared with `find`.

use std::collections::BTreeSet;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;
use std::process::Command;

use sandshell_client::types::{ErrorCode, FileEntry, FileKind};
use sandshell_client::{Client, FileQuery, ListOptions, Page};

use super::Desk;
use crate::calls::{code_of, in_time};

/// What `find` says of everything below a directory.
fn found(dir: &Path) -> BTreeSet<String> {
    let output = Command::new("find")
        .arg(dir)
        .args([
            "-mindepth",
            "1",
            "-printf",
            "%p|%y|%s|%m|%U:%G|%u:%g|%T@|%l\\0",
        ])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_terminator('\0').map(str::to_owned).collect()
}

/// An entry in the same form.
fn line(entry: &FileEntry) -> String {
    let kind = match entry.kind {
        FileKind::File => "f",
        FileKind::Directory => "d",
        FileKind::Symlink => "l",
        FileKind::Fifo => "p",
        FileKind::Socket => "s",
        other => panic!("{other:?}"),
    };
    let (mode, at) = (entry.mode.bits(), entry.modified_at);
    let (uid, gid) = (entry.uid, entry.gid);
    let owner = entry.owner.clone().unwrap_or(uid.to_string());
    let group = entry.group.clone().unwrap_or(gid.to_string());
    let target = entry.link_target.as_deref().unwrap_or_default();
    format!(
        "{}|{kind}|{}|{mode:o}|{uid}:{gid}|{owner}:{group}|{}.{:09}0|{target}",
        entry.path,
        entry.size,
        at.as_second(),
        at.subsec_nanosecond(),
    )
}

async fn pages(
    client: &Client,
    dir: &FileQuery,
    options: ListOptions,
    limit: u32,
) -> Vec<FileEntry> {
    let mut entries = Vec::new();
    let mut page = Page {
        limit: Some(limit),
        cursor: None,
    };
    loop {
        let list = in_time(client.list_files(dir, options, &page))
            .await
            .unwrap();
        assert!(list.items.len() <= limit as usize);
        entries.extend(list.items);
        page.cursor = list.next_cursor;
        if page.cursor.is_none() {
            return entries;
        }
    }
}

fn plant(dir: &Path) {
    for path in ["b/c/d", "b.d", ".hidden/in", "empty"] {
        std::fs::create_dir_all(dir.join(path)).unwrap();
    }
    for path in [
        "a",
        "b/x",
        "b/c/y",
        "b/c/.z",
        ".dot",
        ".hidden/file",
        "zz",
        "new\nline",
    ] {
        std::fs::write(dir.join(path), path).unwrap();
    }
    std::fs::write(
        dir.join(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"b/\xff")),
        "",
    )
    .unwrap();
    symlink("..", dir.join("b/up")).unwrap();
    symlink("nowhere", dir.join("dangling")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        dir.join("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    std::os::unix::net::UnixListener::bind(dir.join("socket")).unwrap();
}

#[tokio::test]
async fn a_recursive_list_is_what_find_finds() {
    let desk = Desk::new();
    plant(&desk.dir);
    let expected = found(&desk.dir);
    let recursive = ListOptions {
        recursive: true,
        hidden: None,
    };
    let mut orders = Vec::new();
    for limit in [1, 2, 3, 7, 1000] {
        let entries = pages(&desk.client, &desk.query("."), recursive, limit).await;
        let order: Vec<String> = entries.iter().map(|entry| entry.path.clone()).collect();
        // `.` is a directory like any other.
        let lines: BTreeSet<String> = entries.iter().map(line).collect();
        assert_eq!(lines, expected, "in pages of {limit}");
        assert_eq!(entries.len(), expected.len(), "something came twice");
        orders.push(order);
    }
    assert!(orders.windows(2).all(|pair| pair[0] == pair[1]));
    let lines = in_time(desk.client.list_files_lines(&desk.query("."), recursive)).await;
    let lines = in_time(lines.unwrap().read_to_end()).await.unwrap();
    let streamed: Vec<String> = lines
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice::<FileEntry>(line).unwrap().path)
        .collect();
    assert_eq!(streamed, orders[0]);
}

#[tokio::test]
async fn a_list_goes_on_after_what_was_removed_meanwhile() {
    let desk = Desk::new();
    let recursive = ListOptions {
        recursive: true,
        hidden: None,
    };
    let mut at = 1;
    loop {
        let dir = desk.dir.join(at.to_string());
        std::fs::create_dir(&dir).unwrap();
        plant(&dir);
        let query = FileQuery::new(dir.to_str().unwrap());
        let all = pages(&desk.client, &query, recursive, 1000).await;
        if at >= all.len() {
            break;
        }
        let page = Page {
            limit: Some(u32::try_from(at).unwrap()),
            cursor: None,
        };
        let first = in_time(desk.client.list_files(&query, recursive, &page)).await;
        let first = first.unwrap();
        let last = &all[at - 1];
        assert_eq!(first.items.last(), Some(last));
        let removed = if last.kind == FileKind::Directory {
            std::fs::remove_dir_all(&last.path)
        } else {
            // Some names are no text.
            std::fs::remove_file(&last.path).or(Ok(()))
        };
        removed.unwrap();
        let page = Page {
            limit: None,
            cursor: first.next_cursor,
        };
        let rest = in_time(desk.client.list_files(&query, recursive, &page)).await;
        let rest: Vec<String> = rest
            .unwrap()
            .items
            .into_iter()
            .map(|entry| entry.path)
            .collect();
        let expected: Vec<String> = all[at..]
            .iter()
            .map(|entry| entry.path.clone())
            .filter(|path| !Path::new(path).starts_with(&last.path))
            .collect();
        assert_eq!(rest, expected, "after {}", last.path);
        at += 1;
    }
}

#[tokio::test]
async fn a_flat_list_has_names_in_order_and_hidden_ones_only_if_wanted() {
    let desk = Desk::new();
    plant(&desk.dir);
    let names = async |hidden| {
        let options = ListOptions {
            recursive: false,
            hidden,
        };
        let entries = pages(&desk.client, &desk.query(""), options, 2).await;
        entries
            .into_iter()
            .map(|entry| entry.name)
            .collect::<Vec<_>>()
    };
    let mut all: Vec<String> = std::fs::read_dir(&desk.dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    all.sort();
    assert_eq!(names(None).await, all);
    all.retain(|name| !name.starts_with('.'));
    assert_eq!(names(Some(false)).await, all);
}

#[tokio::test]
async fn a_look_follows_a_link_or_does_not() {
    let desk = Desk::new();
    plant(&desk.dir);
    let stat = |name: &str, follow| {
        let (client, query) = (desk.client.clone(), desk.query(name));
        async move { in_time(client.stat_file(&query, follow)).await }
    };
    assert_eq!(stat("b/up", true).await.unwrap().kind, FileKind::Directory);
    let link = stat("b/up", false).await.unwrap();
    assert_eq!(
        (link.kind, link.link_target.as_deref()),
        (FileKind::Symlink, Some(".."))
    );
    assert_eq!(
        code_of(stat("dangling", true).await),
        ErrorCode::FileNotFound
    );
    assert_eq!(
        stat("dangling", false).await.unwrap().kind,
        FileKind::Symlink
    );
    let expected = std::fs::metadata(desk.dir.join("a")).unwrap();
    let entry = stat("a", true).await.unwrap();
    assert_eq!((entry.size, entry.uid), (expected.len(), expected.uid()));
    assert_eq!(entry.name, "a");
    let root = in_time(desk.client.stat_file(&FileQuery::new("/"), true))
        .await
        .unwrap();
    assert_eq!((root.name.as_str(), root.path.as_str()), ("/", "/"));
}

#[tokio::test]
async fn a_deep_tree_is_listed_and_removed() {
    let desk = Desk::new();
    // A shell would need a minute for it.
    let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY;
    let none = rustix::fs::Mode::empty();
    let mut at = rustix::fs::open(&desk.dir, flags, none).unwrap();
    for _ in 0..1500 {
        rustix::fs::mkdirat(&at, "d", rustix::fs::Mode::RWXU).unwrap();
        rustix::fs::symlinkat("..", &at, "f").unwrap();
        at = rustix::fs::openat(&at, "d", flags, none).unwrap();
    }
    let recursive = ListOptions {
        recursive: true,
        hidden: None,
    };
    let lines = in_time(desk.client.list_files_lines(&desk.query("."), recursive)).await;
    let lines = in_time(lines.unwrap().read_to_end()).await.unwrap();
    let lines = lines.split(|byte| *byte == b'\n');
    assert_eq!(lines.filter(|line| !line.is_empty()).count(), 3000);
    let removed = in_time(
        desk.client
            .remove_file(&sandshell_client::types::RemoveRequest {
                path: Some(desk.path("d")),
                recursive: true,
                ..Default::default()
            }),
    )
    .await;
    assert_eq!(removed.unwrap().removed, 2999);
    assert!(!desk.dir.join("d").exists());
}
