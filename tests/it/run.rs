//! `sandshell run`: one command in a sandbox of its own, and nothing left of it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use sandshell_testkit::{alive_with_marker, find_binary, wait_until_gone};

use crate::calls::marker;

/// `sandshell run` with its directory below this one.
fn run(dir: &Path, argv: &[&str]) -> Command {
    let mut command = Command::new(find_binary());
    command
        .args(["run", "--"])
        .args(argv)
        .env("XDG_RUNTIME_DIR", dir)
        .stdin(Stdio::null());
    command
}

fn entries(dir: &Path) -> usize {
    std::fs::read_dir(dir).unwrap().count()
}

#[test]
fn streams_and_codes_are_the_commands_own() {
    let dir = tempfile::tempdir().unwrap();
    let done = |argv: &[&str]| -> Output { run(dir.path(), argv).output().unwrap() };
    let said = done(&["bash", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!(said.status.code(), Some(7), "{said:?}");
    assert_eq!(said.stdout, b"out\n");
    assert!(said.stderr.ends_with(b"err\n"), "{said:?}");
    assert_eq!(
        done(&["bash", "-c", "kill -KILL $$"]).status.code(),
        Some(137)
    );
    assert_eq!(done(&["no-such-program-here"]).status.code(), Some(127));
    assert_eq!(done(&["/etc/passwd"]).status.code(), Some(126));
    assert_eq!(entries(dir.path()), 0, "its directory is gone when it ends");
}

#[test]
fn standard_input_goes_in_byte_for_byte_and_ends() {
    let dir = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..=255_u8).cycle().take(300_000).collect();
    let mut child = run(dir.path(), &["cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let sent = bytes.clone();
    let writing = std::thread::spawn(move || stdin.write_all(&sent).unwrap());
    let said = child.wait_with_output().unwrap();
    writing.join().unwrap();
    assert!(said.status.success());
    assert!(
        said.stdout == bytes,
        "{} bytes came back",
        said.stdout.len()
    );
}

#[test]
fn killed_hard_it_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mark = marker();
    let script = format!(
        "exec -a {mark} sleep 1000 & setsid bash -c 'exec -a {mark} sleep 1000' & echo up; wait"
    );
    let mut child = run(dir.path(), &["bash", "-c", &script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "up\n");
    assert_ne!(alive_with_marker(&mark), Vec::<i32>::new());
    assert_eq!(entries(dir.path()), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    let left = wait_until_gone(&mark, Duration::from_secs(20));
    assert_eq!(left, Vec::<i32>::new());
    // The launcher removes the directory last.
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while entries(dir.path()) > 0 {
        assert!(
            std::time::Instant::now() < deadline,
            "its directory is left"
        );
        std::thread::yield_now();
    }
}
