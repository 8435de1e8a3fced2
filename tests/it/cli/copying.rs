//! `cp` and `file`: bytes and trees between here and a sandbox.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::User;
use crate::tree::{grow, shape};

#[test]
fn a_file_goes_there_and_back() {
    let user = User::with_box();
    let bytes: Vec<u8> = (0..=255_u8).cycle().take(1_000_000).collect();
    let from = user.home().join("from.bin");
    fs::write(&from, &bytes).unwrap();
    fs::set_permissions(&from, fs::Permissions::from_mode(0o750)).unwrap();
    user.ok(&["cp", "from.bin", "box:"]);
    assert_eq!(user.ok(&["file", "ls", "-q"]), "from.bin\n");
    user.ok(&["cp", "from.bin", "box:/workspace/deep/er/copy.bin"]);
    user.ok(&["cp", "box:deep/er/copy.bin", "back.bin"]);
    assert_eq!(fs::read(user.home().join("back.bin")).unwrap(), bytes);
    let mode = fs::metadata(user.home().join("back.bin"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o750);
    user.ok(&["cp", "box:from.bin", "box:again.bin"]);
    fs::create_dir(user.home().join("dir")).unwrap();
    user.ok(&["cp", "box:again.bin", "dir"]);
    assert_eq!(fs::read(user.home().join("dir/again.bin")).unwrap(), bytes);
    let left: Vec<String> = fs::read_dir(user.home())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains(".part"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn what_is_no_plain_file_is_written_into() {
    let user = User::with_box();
    let home = user.home();
    fs::write(home.join("from"), "text").unwrap();
    user.ok(&["cp", "from", "box:there"]);
    let name = rustix::path::Arg::into_c_str(home.join("pipe")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &*name, rustix::fs::Mode::RWXU).unwrap();
    let pipe = home.join("pipe");
    let reader = std::thread::spawn(move || fs::read_to_string(pipe).unwrap());
    user.ok(&["cp", "box:there", "pipe"]);
    assert_eq!(reader.join().unwrap(), "text");
    // A link leads on, and a file keeps its mode.
    fs::write(home.join("real"), "before, and longer").unwrap();
    fs::set_permissions(home.join("real"), fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::symlink("real", home.join("link")).unwrap();
    user.ok(&["cp", "box:there", "link"]);
    assert!(home.join("link").is_symlink());
    assert_eq!(fs::read_to_string(home.join("real")).unwrap(), "text");
    user.ok(&["cp", "box:there", "real"]);
    let mode = fs::metadata(home.join("real"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_tree_goes_there_and_back_the_same() {
    let user = User::with_box();
    let from = user.home().join("tree");
    fs::create_dir(&from).unwrap();
    grow(&from, 7);
    let expected = shape(&from);
    user.ok(&["cp", "tree", "box:/workspace"]);
    user.ok(&["cp", "box:/workspace/tree", "back"]);
    let back = shape(&user.home().join("back"));
    // Whoever unpacks owns it, and times are kept to the second: names, kinds and contents are the same.
    assert_eq!(back.len(), expected.len());
    for ((name, here), (other, there)) in expected.iter().zip(&back) {
        let shown = String::from_utf8_lossy(name);
        let kind = |what: &str| what.split(' ').next().map(str::to_owned);
        assert_eq!((name, kind(&here.0)), (other, kind(&there.0)), "{shown}");
        if here.0.starts_with("link") {
            // `a//b` and `a/./b` are written `a/b`: the same path.
            let path = |bytes: &[u8]| Path::new(OsStr::from_bytes(bytes)).to_owned();
            assert_eq!(path(&here.3), path(&there.3), "{shown}");
        } else {
            assert!(here.3 == there.3, "{shown} has another content");
        }
    }
    user.ok(&["cp", "tree", "box:/workspace/other"]);
    let there = user.ok(&[
        "exec",
        "-c",
        "diff -r --no-dereference tree other && echo same",
    ]);
    assert_eq!(there, "same\n");
}

#[test]
fn a_sandbox_writes_nothing_beside_the_target() {
    let user = User::with_box();
    // A link that leads out, and then a file below its name, as a tar of a hostile tree could have them.
    user.ok(&[
        "exec",
        "-c",
        "mkdir evil && ln -s /tmp/sandshell-never evil/out && ln -s ../../up evil/up",
    ]);
    user.ok(&["cp", "box:evil", "evil"]);
    assert!(!user.home().parent().unwrap().join("up").exists());
    let link = fs::read_link(user.home().join("evil/out")).unwrap();
    assert_eq!(
        link.to_str(),
        Some("/tmp/sandshell-never"),
        "a link stays a link"
    );
    assert!(!link.exists());
    user.ok(&[
        "exec",
        "-c",
        "cp /bin/true suid && chmod 6755 suid && mkdir d && cp -p suid d",
    ]);
    user.ok(&["cp", "box:suid", "suid"]);
    user.ok(&["cp", "box:d", "d"]);
    for path in ["suid", "d/suid"] {
        let mode = fs::metadata(user.home().join(path))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o7000, 0, "{path} has {mode:o}");
    }
}

#[test]
fn files_are_listed_written_moved_and_removed() {
    let user = User::with_box();
    let put = user.fed(&["file", "put", "--mode", "0640", "box:a/b.txt"], b"one\n");
    assert_eq!(put.stdout, b"/workspace/a/b.txt\n");
    user.fed(&["file", "put", "--append", "a/b.txt"], b"two\n");
    assert_eq!(
        user.ok(&["file", "cat", "a/b.txt", "box:a/b.txt"]),
        "one\ntwo\none\ntwo\n"
    );
    let listed = user.ok(&["file", "ls", "a"]);
    assert!(
        listed.starts_with("MODE   OWNER    SIZE  MODIFIED  NAME\n-0640  sandbox  8     "),
        "{listed}"
    );
    user.ok(&["file", "mv", "a/b.txt", "a/c.txt"]);
    user.ok(&["file", "chmod", "0600", "a/c.txt"]);
    assert_eq!(
        user.ok(&["file", "find", "*.txt", "/workspace"]),
        "/workspace/a/c.txt\n"
    );
    assert_eq!(
        user.ok(&["file", "search", "tw.", "/workspace"]),
        "/workspace/a/c.txt:2:two\n"
    );
    user.ok(&["file", "rm", "-r", "a"]);
    assert_eq!(user.ok(&["file", "ls", "-q"]), "");
    user.ok(&["file", "rm", "-f", "a"]);
}

#[test]
fn a_backup_brings_a_directory_back() {
    let user = User::with_box();
    user.fed(&["file", "put", "keep.txt"], b"kept");
    assert_eq!(
        user.ok(&["backup", "create", "box:/workspace", "--name", "mon"]),
        "mon\n"
    );
    user.ok(&["file", "rm", "keep.txt"]);
    assert_eq!(user.ok(&["backup", "restore", "mon"]), "/workspace\n");
    assert_eq!(user.ok(&["file", "cat", "keep.txt"]), "kept");
    let archive = user.fed(&["backup", "get", "box/mon"], b"").stdout;
    assert_eq!(&archive[..4], b"\x28\xb5\x2f\xfd", "a zstd frame");
    assert_eq!(user.ok(&["backup", "rm", "mon"]), "mon\n");
}

#[test]
fn stdin_and_stdout_are_places_too() {
    let user = User::with_box();
    let bytes: Vec<u8> = (0..=255_u8).cycle().take(500_000).collect();
    let put = user.fed(&["cp", "-", "box:piped.bin"], &bytes);
    assert!(
        put.status.success(),
        "{:?}",
        String::from_utf8_lossy(&put.stderr)
    );
    let got = user.fed(&["cp", "box:piped.bin", "-"], b"");
    assert!(got.stdout == bytes, "{} bytes came back", got.stdout.len());
    // A directory is a tar.
    user.ok(&["file", "mkdir", "box:d/e"]);
    user.fed(&["file", "put", "box:d/f"], b"in it");
    let tar = user.fed(&["cp", "box:d", "-"], b"").stdout;
    let mut archive = tar::Archive::new(&*tar);
    let names: Vec<String> = archive
        .entries()
        .unwrap()
        .map(|entry| entry.unwrap().path().unwrap().display().to_string())
        .collect();
    assert!(names.iter().any(|name| name.ends_with('f')), "{names:?}");
    let nowhere = user.fed(&["cp", "-", "box:d"], b"x");
    assert_eq!(nowhere.status.code(), Some(2));
}

#[test]
fn a_pipe_can_be_copied_from() {
    let user = User::with_box();
    let home = user.home();
    let line = "exec \"$0\" cp <(echo from a pipe) box:made.txt";
    let plain = user.command(&[]);
    let status = std::process::Command::new("bash")
        .args(["-c", line])
        .arg(plain.get_program())
        .envs(
            plain
                .get_envs()
                .filter_map(|(key, value)| Some((key, value?))),
        )
        .current_dir(home)
        .status()
        .unwrap();
    assert!(status.success());
    assert_eq!(user.ok(&["file", "cat", "box:made.txt"]), "from a pipe\n");
    let mode = user.ok(&["file", "stat", "box:made.txt"]);
    assert!(mode.contains("0644"), "not that of the pipe: {mode}");
}

#[test]
fn several_go_into_a_directory() {
    let user = User::with_box();
    let home = user.home();
    for name in ["a", "b"] {
        fs::write(home.join(name), name).unwrap();
    }
    fs::create_dir(home.join("c")).unwrap();
    fs::write(home.join("c/inner"), "c").unwrap();
    user.ok(&["cp", "-r", "a", "b", "c", "box:"]);
    assert_eq!(user.ok(&["file", "cat", "a", "b", "c/inner"]), "abc");
    fs::create_dir(home.join("back")).unwrap();
    user.ok(&["cp", "box:a", "box:c", "back"]);
    assert_eq!(fs::read_to_string(home.join("back/c/inner")).unwrap(), "c");
    // Within a sandbox as well.
    user.ok(&["file", "mkdir", "-p", "box:in", "box:out"]);
    user.ok(&["cp", "box:a", "box:b", "box:in"]);
    user.ok(&["cp", "box:c", "box:in"]);
    assert_eq!(user.ok(&["file", "ls", "-q", "box:in"]), "a\nb\nc\n");
    user.ok(&["file", "mv", "box:in/a", "box:out"]);
    user.ok(&["file", "mv", "in/b", "box:out/bee"]);
    assert_eq!(user.ok(&["file", "ls", "-q", "out"]), "a\nbee\n");
    assert_eq!(user.ok(&["file", "cat", "box:out/bee"]), "b");
}
