//! Directories made, things moved, copied, removed, and their modes.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::process::Command;

use sandshell_client::types::{
    ChmodRequest, CopyRequest, ErrorCode, FileKind, FileMode, MkdirRequest, MoveRequest,
    RemoveRequest,
};

use sandshell_client::WriteOptions;

use super::{Desk, tree_of};
use crate::calls::{code_of, in_time, skipped};

fn mkdir(desk: &Desk, name: &str) -> MkdirRequest {
    MkdirRequest {
        path: Some(desk.path(name)),
        ..Default::default()
    }
}

fn moving(desk: &Desk, from: &str, to: &str) -> MoveRequest {
    MoveRequest {
        from: Some(desk.path(from)),
        to: Some(desk.path(to)),
        ..Default::default()
    }
}

fn copying(desk: &Desk, from: &str, to: &str) -> CopyRequest {
    CopyRequest {
        from: Some(desk.path(from)),
        to: Some(desk.path(to)),
        ..Default::default()
    }
}

fn removing(desk: &Desk, name: &str, recursive: bool) -> RemoveRequest {
    RemoveRequest {
        path: Some(desk.path(name)),
        recursive,
        ..Default::default()
    }
}

#[tokio::test]
async fn directories_are_made_once() {
    let desk = Desk::new();
    let make = async |request: MkdirRequest| in_time(desk.client.make_directory(&request)).await;
    let made = make(mkdir(&desk, "a/b")).await.unwrap();
    assert_eq!((made.kind, made.mode.bits()), (FileKind::Directory, 0o755));
    assert_eq!(
        code_of(make(mkdir(&desk, "a/b")).await),
        ErrorCode::FileExists
    );
    let mut again = mkdir(&desk, "a/b");
    again.exist_ok = true;
    make(again).await.unwrap();
    let mut chosen = mkdir(&desk, "c");
    chosen.mode = FileMode::new(0o2770);
    make(chosen).await.unwrap();
    assert_eq!(
        std::fs::metadata(desk.dir.join("c")).unwrap().mode() & 0o7777,
        0o2770
    );
    let mut alone = mkdir(&desk, "x/y");
    alone.parents = Some(false);
    assert_eq!(code_of(make(alone).await), ErrorCode::FileNotFound);
    std::fs::write(desk.dir.join("file"), "").unwrap();
    let mut there = mkdir(&desk, "file");
    there.exist_ok = true;
    assert_eq!(code_of(make(there).await), ErrorCode::FileExists);
    let below = make(mkdir(&desk, "file/below")).await;
    assert_eq!(code_of(below), ErrorCode::NotADirectory);
    // Two who make the same at once both get it.
    let mut both = mkdir(&desk, "at/once");
    both.exist_ok = true;
    let (one, two) = tokio::join!(make(both.clone()), make(both));
    assert_eq!(one.unwrap(), two.unwrap());
}

#[tokio::test]
async fn moves_replace_only_if_told() {
    let desk = Desk::new();
    desk.put("a", "a").await;
    desk.put("b", "b").await;
    desk.put("full/file", "x").await;
    symlink("a", desk.dir.join("link")).unwrap();
    let go = async |request: MoveRequest| in_time(desk.client.move_file(&request)).await;
    assert_eq!(
        code_of(go(moving(&desk, "a", "b")).await),
        ErrorCode::FileExists
    );
    assert_eq!(desk.get("b").await, "b");
    let mut over = moving(&desk, "a", "b");
    over.overwrite = true;
    assert_eq!(go(over).await.unwrap().path, desk.path("b"));
    assert_eq!(desk.get("b").await, "a");
    go(moving(&desk, "b", "new/dir/b")).await.unwrap();
    assert_eq!(
        go(moving(&desk, "link", "other")).await.unwrap().kind,
        FileKind::Symlink
    );
    assert_eq!(
        code_of(go(moving(&desk, "gone", "x/y")).await),
        ErrorCode::FileNotFound
    );
    assert!(
        !desk.dir.join("x").exists(),
        "parents of a move that failed were left"
    );
    assert_eq!(
        code_of(go(moving(&desk, "full", "full/in")).await),
        ErrorCode::InvalidRequest
    );
    let mut onto = moving(&desk, "new", "full");
    onto.overwrite = true;
    assert_eq!(code_of(go(onto).await), ErrorCode::DirectoryNotEmpty);
    let mut alone = moving(&desk, "full", "not/there");
    alone.parents = Some(false);
    assert_eq!(code_of(go(alone).await), ErrorCode::FileNotFound);
    assert_eq!(
        code_of(go(moving(&desk, "full/file/x", "y")).await),
        ErrorCode::NotADirectory
    );
}

fn plant(desk: &Desk) {
    let script = r#"
        cd "$1" && mkdir -p tree/sub/deep tree/empty &&
        echo one > tree/one && head -c 300000 /dev/zero > tree/sub/two && : > tree/sub/deep/none &&
        ln -s ../one tree/sub/link && ln -s /etc/passwd tree/out && mkfifo tree/fifo &&
        chmod 0640 tree/one && chmod 0711 tree/sub && chmod 0500 tree/empty && chmod 4755 tree/sub/two &&
        touch -d 2001-02-03T04:05:06.789 tree/one tree/sub/two tree/sub &&
        touch -h -d 2002-02-03T04:05:06.789 tree/out && touch -d 2003-02-03T04:05:06 tree"#;
    let done = Command::new("bash")
        .args(["-c", script, "bash"])
        .arg(&desk.dir)
        .status()
        .unwrap();
    assert!(done.success());
}

/// Modes, sizes, times and targets, by `find`. Set-id bits are not copied.
fn shape(desk: &Desk, name: &str) -> String {
    let script = r#"cd "$1" && find . \( -type p -printf '%P %y %m\n' \) -o -type d -name deep -printf '%P %y %m\n' \
        -o -type f -name none -printf '%P %y %m %s\n' -o -printf '%P %y %m %s %T@ %l\n' | sed 's/ f 4755/ f 755/' | sort"#;
    let output = Command::new("bash")
        .args(["-c", script, "bash"])
        .arg(desk.dir.join(name))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn a_copied_tree_is_the_same_tree() {
    let desk = Desk::new();
    plant(&desk);
    let copy = async |request: CopyRequest| in_time(desk.client.copy_file(&request)).await;
    let refused = copy(copying(&desk, "tree", "copy")).await;
    assert_eq!(code_of(refused), ErrorCode::IsADirectory);
    let mut request = copying(&desk, "tree", "new/copy");
    request.recursive = true;
    let reply = copy(request.clone()).await.unwrap();
    assert_eq!((reply.copied, reply.bytes), (10, 300_004));
    assert_eq!(reply.entry.path, desk.path("new/copy"));
    assert_eq!(shape(&desk, "new/copy"), shape(&desk, "tree"));
    assert_eq!(code_of(copy(request).await), ErrorCode::FileExists);
    for to in ["tree/in", "tree/sub/deep/in"] {
        let mut request = copying(&desk, "tree", to);
        request.recursive = true;
        let before = tree_of(&desk.dir.join("tree"));
        let refused = in_time(desk.client.copy_file(&request)).await.unwrap_err();
        assert_eq!(refused.problem().unwrap().pointer.as_deref(), Some("/to"));
        assert_eq!(tree_of(&desk.dir.join("tree")), before);
    }
    let left: Vec<_> = std::fs::read_dir(&desk.dir).unwrap().collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[tokio::test]
async fn a_copied_file_replaces_only_if_told() {
    let desk = Desk::new();
    desk.put("a", "aaa").await;
    desk.put("b", "b").await;
    symlink("a", desk.dir.join("link")).unwrap();
    let copy = async |request: CopyRequest| in_time(desk.client.copy_file(&request)).await;
    assert_eq!(
        code_of(copy(copying(&desk, "a", "b")).await),
        ErrorCode::FileExists
    );
    let mut over = copying(&desk, "link", "b");
    over.overwrite = true;
    assert_eq!(copy(over).await.unwrap().bytes, 3);
    assert_eq!(desk.get("b").await, "aaa");
    assert!(!desk.dir.join("b").is_symlink());
    let mut itself = copying(&desk, "a", "a");
    itself.overwrite = true;
    copy(itself).await.unwrap();
    assert_eq!(desk.get("a").await, "aaa");
}

#[tokio::test]
async fn a_move_to_another_file_system_takes_everything_along() {
    let desk = Desk::new();
    let other = match tempfile::TempDir::with_prefix_in("sandshell-test-", "/dev/shm") {
        Ok(other)
            if std::fs::metadata(other.path()).unwrap().dev()
                != std::fs::metadata(&desk.dir).unwrap().dev() =>
        {
            other
        }
        _ => {
            skipped("/dev/shm is no other file system here");
            return;
        }
    };
    plant(&desk);
    let before = shape(&desk, "tree");
    let to = |name: &str| Some(other.path().join(name).to_str().unwrap().to_owned());
    let mut request = moving(&desk, "tree", "");
    request.to = to("moved");
    in_time(desk.client.move_file(&request)).await.unwrap();
    assert!(!desk.dir.join("tree").exists());
    // And back, which also proves that it was all there.
    let mut back = moving(&desk, "", "back");
    back.from = to("moved");
    in_time(desk.client.move_file(&back)).await.unwrap();
    assert_eq!(shape(&desk, "back"), before);
    desk.put("file", "x").await;
    std::fs::write(other.path().join("there"), "y").unwrap();
    let mut request = moving(&desk, "file", "");
    request.to = to("there");
    assert_eq!(
        code_of(in_time(desk.client.move_file(&request)).await),
        ErrorCode::FileExists
    );
    request.overwrite = true;
    in_time(desk.client.move_file(&request)).await.unwrap();
    assert_eq!(std::fs::read(other.path().join("there")).unwrap(), b"x");
    assert_eq!(std::fs::read_dir(other.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn removal_takes_what_it_is_told_and_no_more() {
    let desk = Desk::new();
    plant(&desk);
    desk.put("outside/keep", "keep").await;
    symlink("../outside", desk.dir.join("tree/escape")).unwrap();
    symlink("tree", desk.dir.join("link")).unwrap();
    let remove = async |request: RemoveRequest| in_time(desk.client.remove_file(&request)).await;
    let refused = remove(removing(&desk, "tree", false)).await;
    assert_eq!(code_of(refused), ErrorCode::DirectoryNotEmpty);
    assert_eq!(
        remove(removing(&desk, "link", true)).await.unwrap().removed,
        1
    );
    assert!(desk.dir.join("tree/one").exists());
    assert_eq!(
        remove(removing(&desk, "tree/empty", false))
            .await
            .unwrap()
            .removed,
        1
    );
    assert_eq!(
        remove(removing(&desk, "tree", true)).await.unwrap().removed,
        10
    );
    assert!(!desk.dir.join("tree").exists());
    assert_eq!(desk.get("outside/keep").await, "keep");
    assert_eq!(
        code_of(remove(removing(&desk, "tree", true)).await),
        ErrorCode::FileNotFound
    );
    let mut content = removing(&desk, "tree/below", true);
    content.missing_ok = true;
    assert_eq!(remove(content).await.unwrap().removed, 0);
}

#[tokio::test]
async fn modes_of_one_thing_or_of_a_tree() {
    let desk = Desk::new();
    plant(&desk);
    let change = async |name: &str, mode, recursive| {
        let request = ChmodRequest {
            path: Some(desk.path(name)),
            path_base64: None,
            mode: FileMode::new(mode).unwrap(),
            recursive,
            user: None,
            session: None,
        };
        in_time(desk.client.change_mode(&request)).await
    };
    assert_eq!(change("tree/one", 0o604, false).await.unwrap().changed, 1);
    let mode = |name: &str| desk.dir.join(name).metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode("tree/one"), 0o604);
    let passwd = std::fs::metadata("/etc/passwd").unwrap().permissions();
    // Two links are left alone.
    assert_eq!(change("tree", 0o700, true).await.unwrap().changed, 8);
    for name in ["tree", "tree/sub", "tree/sub/deep/none", "tree/fifo"] {
        assert_eq!(mode(name), 0o700, "{name}");
    }
    assert_eq!(
        std::fs::metadata("/etc/passwd").unwrap().permissions(),
        passwd
    );
    assert_eq!(
        code_of(change("gone", 0o700, true).await),
        ErrorCode::FileNotFound
    );
}

/// A path that ends in a slash means a directory, as it does to the kernel.
#[tokio::test]
async fn a_slash_at_the_end_means_a_directory() {
    let desk = Desk::new();
    desk.put("plain", "content").await;
    desk.put("dir/file", "content").await;
    symlink("dir", desk.dir.join("link")).unwrap();
    let before = tree_of(&desk.dir);
    let remove = async |name: &str| {
        let request = removing(&desk, name, true);
        code_of(in_time(desk.client.remove_file(&request)).await)
    };
    let rename = async |from: &str, to: &str| {
        let request = moving(&desk, from, to);
        code_of(in_time(desk.client.move_file(&request)).await)
    };
    for name in ["plain/", "plain/.", "plain//", "link/"] {
        assert_eq!(remove(name).await, ErrorCode::NotADirectory, "{name}");
        assert_eq!(
            rename(name, "new").await,
            ErrorCode::NotADirectory,
            "{name}"
        );
    }
    for name in ["dir/.", "link/.", "dir/./."] {
        assert_eq!(remove(name).await, ErrorCode::InvalidRequest, "{name}");
        assert_eq!(
            rename(name, "new").await,
            ErrorCode::InvalidRequest,
            "{name}"
        );
    }
    assert_eq!(remove("none/.").await, ErrorCode::FileNotFound);
    assert_eq!(rename("plain", "new/").await, ErrorCode::NotADirectory);
    let copied = in_time(desk.client.copy_file(&copying(&desk, "plain", "new/"))).await;
    assert_eq!(code_of(copied), ErrorCode::NotADirectory);
    for name in ["new/", "new/.", "plain/"] {
        let (query, options) = (desk.query(name), WriteOptions::default());
        let written = desk.client.write_file(&query, &options, "x");
        assert_eq!(code_of(in_time(written).await), ErrorCode::IsADirectory);
    }
    assert_eq!(tree_of(&desk.dir), before);
    // A directory it may be.
    in_time(desk.client.move_file(&moving(&desk, "dir/", "moved/")))
        .await
        .unwrap();
    in_time(desk.client.make_directory(&mkdir(&desk, "made/")))
        .await
        .unwrap();
    in_time(desk.client.remove_file(&removing(&desk, "moved/", true)))
        .await
        .unwrap();
    assert!(desk.dir.join("made").is_dir() && !desk.dir.join("moved").exists());
}
