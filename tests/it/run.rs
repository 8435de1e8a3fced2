//! `sandshell run`: one command in a sandbox of its own, and nothing left of it.

use std::cell::Cell;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use sandshell_testkit::{UnprivilegedUser, alive_with_marker, find_binary, wait_until_gone};

use crate::calls::{DEADLINE, marker};

/// `sandshell run` with its directory below this one.
fn run(dir: &Path, argv: &[&str]) -> Command {
    run_with(dir, &[], argv)
}

fn run_with(dir: &Path, flags: &[&str], argv: &[&str]) -> Command {
    let mut command = Command::new(find_binary());
    command
        .arg("run")
        .args(flags)
        .arg("--")
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
fn signals_are_passed_on_and_a_second_ctrl_c_ends_it() {
    let dir = tempfile::tempdir().unwrap();
    let script = "trap 'echo heard' INT; echo up; while :; do sleep 0.05; done";
    let mut child = run(dir.path(), &["bash", "-c", script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let interrupt = |child: &std::process::Child| {
        let pid = rustix::process::Pid::from_child(child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    };
    assert_eq!(lines.next().unwrap().unwrap(), "up");
    interrupt(&child);
    assert_eq!(lines.next().unwrap().unwrap(), "heard");
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(entries(dir.path()), 0, "its directory is gone when it ends");
}

#[test]
fn a_reader_that_goes_away_ends_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = run(dir.path(), &["yes"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    reader.read_line(&mut line).unwrap();
    assert_eq!(line, "y\n");
    drop(reader);
    assert_eq!(child.wait().unwrap().code(), Some(141));
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
    let left = wait_until_gone(&mark, DEADLINE);
    assert_eq!(left, Vec::<i32>::new());
    // The launcher removes the directory last.
    let deadline = std::time::Instant::now() + DEADLINE;
    while entries(dir.path()) > 0 {
        assert!(
            std::time::Instant::now() < deadline,
            "its directory is left"
        );
        std::thread::yield_now();
    }
}

/// The same flags and script as root and as an ordinary user: the code and what was said.
fn at_each_level(flags: &[&str], script: &str, check: impl Fn(Option<i32>, &str, &str)) {
    let ordinary = UnprivilegedUser::get();
    for user in [None, ordinary] {
        let dir = tempfile::tempdir().unwrap();
        let mut command = run_with(dir.path(), flags, &["bash", "-c", script]);
        if let Some(user) = user {
            user.own(dir.path());
            command.uid(user.uid).gid(user.gid);
        }
        let said = command.env("RUN_TEST_KEY", "hunter2").output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&said.stdout), text(&said.stderr));
        check(said.status.code(), &out, &err);
        assert_eq!(entries(dir.path()), 0, "its directory is gone when it ends");
    }
}

#[test]
fn limits_hold_or_nothing_is_run() {
    let hungry = "echo ran; exec python3 -c 'x = bytearray(200 << 20)'";
    at_each_level(&["--memory", "64M"], hungry, |code, out, err| {
        // Where no group can be made it is said, before the command starts.
        if err.contains("--memory cannot be kept here") {
            assert_eq!((code, out), (Some(125), ""), "{err}");
        } else {
            assert_eq!((code, out), (Some(137), "ran\n"), "{err}");
        }
    });
    let busy = "TIMEFORMAT='%R %U'; time timeout 2 bash -c 'while :; do :; done'";
    let too_much = Cell::new(None);
    // A machine that stands still can count that as use: the best of three tells.
    for _ in 0..3 {
        too_much.set(None);
        at_each_level(&["--cpus", "0.5"], busy, |code, _, err| {
            if err.contains("--cpus cannot be kept here") {
                assert_eq!(code, Some(125), "{err}");
            } else {
                let (wall, used) = err.lines().last().unwrap().split_once(' ').unwrap();
                let (wall, used): (f64, f64) = (wall.parse().unwrap(), used.parse().unwrap());
                if used > 0.5 * wall + 0.4 {
                    too_much.set(Some((used, wall)));
                }
            }
        });
        if too_much.get().is_none() {
            break;
        }
    }
    assert_eq!(too_much.get(), None, "seconds of seconds");
    let fork = "exec python3 -c '
import os, time
n = 0
try:
    while n < 60:
        if os.fork() == 0:
            time.sleep(1000)
            os._exit(0)
        n += 1
except OSError as error:
    print(n, error.errno)
'";
    at_each_level(&["--pids", "30"], fork, |_, out, err| {
        let (forks, errno) = out.trim().split_once(' ').expect(err);
        assert!(forks.parse::<u32>().unwrap() < 30 && errno == "11", "{out}");
    });
    let fill = "head -c 64M /dev/zero > /tmp/big; stat -c %s /tmp/big";
    at_each_level(&["--disk", "8M"], fill, |_, out, err| {
        assert!(err.contains("No space left"), "{err}");
        assert!(out.trim().parse::<u64>().unwrap() <= 8 << 20, "{out}");
    });
}

#[test]
fn a_command_whose_time_is_over_is_killed_with_all_it_started() {
    let mark = marker();
    let script =
        format!("trap '' TERM; MARK={mark} sleep 1000 & echo begun; sleep 1000; echo not reached");
    // On a machine that stands still the time may be over before the first word.
    let begun = ["300ms", "3s", "30s"].iter().any(|time| {
        let all = Cell::new(true);
        at_each_level(&["--timeout", time], &script, |code, out, err| {
            assert_eq!(code, Some(124), "{err}");
            assert!(["", "begun\n"].contains(&out), "{out}");
            assert_eq!(alive_with_marker(&mark), Vec::<i32>::new());
            all.set(all.get() && !out.is_empty());
        });
        all.get()
    });
    assert!(begun, "nothing was written in time");
    at_each_level(&["--timeout", "10m"], "exit 3", |code, _, err| {
        assert_eq!(code, Some(3), "{err}");
    });
}

#[test]
fn the_network_is_what_the_flags_say() {
    let look = "echo proxy=${HTTP_PROXY:+set}";
    for (flags, said) in [
        (&["--network", "none"][..], "proxy=\n"),
        (&["--network", "full"], "proxy=set\n"),
        (
            &["--network", "allow", "--allow", "a.example"],
            "proxy=set\n",
        ),
    ] {
        at_each_level(flags, look, |code, out, err| {
            assert_eq!((code, out), (Some(0), said), "{flags:?}: {err}");
        });
    }
    let flags = [
        "--allow",
        "a.example",
        "--secret",
        "a.example:X-Key=RUN_TEST_KEY",
    ];
    let look = "env | grep -c hunter2; grep -c sandshell <<< $SSL_CERT_FILE; \
                openssl x509 -in $SSL_CERT_FILE -noout || grep -c BEGIN $SSL_CERT_FILE > /dev/null";
    at_each_level(&flags, look, |code, out, err| {
        assert_eq!((code, out), (Some(0), "0\n1\n"), "{err}");
        assert!(!err.contains("hunter2"), "{err}");
    });
}

#[test]
fn its_hints_are_about_itself() {
    let dir = tempfile::tempdir().unwrap();
    let output = run(dir.path(), &["nosuch"]).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(127), "{err}");
    assert!(
        err.contains("-c 'command -v NAME'") && !err.contains("SANDBOX"),
        "{err}"
    );
}

#[test]
fn a_directory_begins_where_the_command_would() {
    let dir = tempfile::tempdir().unwrap();
    for (flag, there) in [("..", "/\n"), (".", "/workspace\n"), ("/tmp", "/tmp\n")] {
        let output = run_with(dir.path(), &["-w", flag], &["pwd"]).output();
        let output = output.unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), there, "{output:?}");
    }
}

#[test]
fn wrong_flags_are_said_before_anything_is_made() {
    for (flags, said) in [
        (&["--network", "allow"][..], "at least one host"),
        (
            &["--network", "none", "--allow", "a.example"],
            "no meaning in this mode",
        ),
        (&["--network", "half"], "possible values: none, allow, full"),
        (&["--memory", "1K"], "nothing can run with less"),
        (&["--memory", "lots"], "such as 512m or 2g"),
        (&["--cpus", "9999"], "the most there can be here"),
        (&["--pids", "2"], "nothing can run with less"),
        (&["--timeout", "0"], "such as 30s"),
        (
            &["--allow", "a.example", "--secret", "a.example:X-Key"],
            "HOST:HEADER=VARIABLE",
        ),
        (
            &[
                "--allow",
                "a.example",
                "--secret",
                "a.example:X-Key=NO_SUCH_VARIABLE",
            ],
            "NO_SUCH_VARIABLE is not set",
        ),
        (
            &["--secret", "a.example:X-Key=RUN_TEST_KEY"],
            "network mode does not have",
        ),
        (
            &[
                "--allow",
                "a.example",
                "--secret",
                "b.example:X-Key=RUN_TEST_KEY",
            ],
            "not on the allow list",
        ),
    ] {
        at_each_level(flags, "echo ran", |code, out, err| {
            assert_eq!((code, out), (Some(2), ""), "{flags:?}: {err}");
            assert!(
                err.contains(said) && !err.contains("hunter2"),
                "{flags:?}: {err}"
            );
        });
    }
}
