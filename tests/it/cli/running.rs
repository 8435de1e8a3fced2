//! Commands in a sandbox, as if they ran here: bytes, codes, input and its end, Ctrl-C.

use std::io::{BufReader, Read as _, Write as _};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sandshell_testkit::{Hub, UnprivilegedUser};
use tempfile::TempDir;

use super::User;
use crate::calls::skipped;

/// Far above any honest answer, also on a loaded machine.
const DEADLINE: Duration = Duration::from_secs(150);

fn interrupt(child: &Child) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
}

fn line_of(reader: &mut impl std::io::BufRead) -> String {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    line
}

#[test]
fn streams_and_codes_are_the_commands_own() {
    let user = User::with_box();
    let said = user.run(&[
        "exec",
        "box",
        "--",
        "sh",
        "-c",
        "echo out; echo err >&2; exit 7",
    ]);
    assert_eq!(
        (said.code, &*said.out, &*said.err),
        (Some(7), "out\n", "err\n")
    );
    for (words, code) in [
        (&["exec", "-c", "kill -KILL $$"][..], 137),
        (&["exec", "--", "no-such-program"], 127),
        (&["exec", "--", "/etc/passwd"], 126),
        (&["exec", "--timeout", "100ms", "--", "sleep", "600"], 124),
        (&["exec", "nobox", "--", "true"], 125),
        (&["exec", "-c", "exit 4"], 4),
    ] {
        assert_eq!(user.run(words).code, Some(code), "{words:?}");
    }
}

#[test]
fn who_waits_for_a_process_hears_that_its_time_was_over() {
    let user = User::with_box();
    let start = ["exec", "-d", "--name", "long", "--timeout", "100ms", "--"];
    user.ok(&[&start[..], &["sleep", "600"]].concat());
    let waited = user.run(&["wait", "long"]);
    assert_eq!(waited.code, Some(124), "{}", waited.err);
    assert!(waited.err.contains("took too long"), "{}", waited.err);
}

/// What a sandbox of an ordinary user lacks is said when it is made.
#[test]
fn a_create_says_which_protections_are_off() {
    let Some(ordinary) = UnprivilegedUser::get() else {
        skipped("only root can become an ordinary user for a test");
        return;
    };
    let hub = Hub::of(ordinary);
    let home = TempDir::new().unwrap();
    let words = [
        "create",
        "small",
        "--memory",
        "256m",
        "--isolation",
        "best-effort",
    ];
    let made = super::ended(
        super::bare(home.path(), &words)
            .env("SANDSHELL_URL", hub.url())
            .env("SANDSHELL_TOKEN", hub.token()),
    );
    assert_eq!((made.code, &*made.out), (Some(0), "small\n"));
    assert!(
        made.err.contains("without") && made.err.contains("memory-limit"),
        "{}",
        made.err
    );
}

#[test]
fn arguments_pass_unchanged() {
    let user = User::with_box();
    let printed = user.ok(&[
        "exec", "box", "--", "printf", "[%s]", "a b", "$HOME", "*", "", "--json", "-e", "it's",
        "\\n",
    ]);
    assert_eq!(printed, "[a b][$HOME][*][][--json][-e][it's][\\n]");
    assert_eq!(user.ok(&["exec", "-c", "echo $((6 * 7)) | tr 4 5"]), "52\n");
}

#[test]
fn surroundings_can_be_given() {
    let user = User::with_box();
    let file = user.home().join("vars");
    std::fs::write(
        &file,
        "# a comment\n\nA=from file\nexport B=2\nC=overridden\n",
    )
    .unwrap();
    let mut command = user.command(&[
        "exec",
        "box",
        "--env-file",
        file.to_str().unwrap(),
        "-e",
        "C=given",
        "-e",
        "HERE",
        "-w",
        "/tmp",
        "-c",
        "echo $A/$B/$C/$HERE/$PWD/$(whoami)",
    ]);
    let said = super::ended(command.env("HERE", "from here"));
    assert_eq!(
        said.out, "from file/2/given/from here//tmp/sandbox\n",
        "{said:?}"
    );
}

#[test]
fn input_goes_in_byte_for_byte_and_ends() {
    let user = User::with_box();
    let bytes: Vec<u8> = (0..=255_u8).cycle().take(300_000).collect();
    let said = user.fed(&["exec", "box", "--", "cat"], &bytes);
    assert!(
        said.status.success(),
        "{:?}",
        String::from_utf8_lossy(&said.stderr)
    );
    assert!(
        said.stdout == bytes,
        "{} bytes came back",
        said.stdout.len()
    );
    // A command that does not read to the end does not hold us.
    let said = user.fed(&["exec", "box", "--", "head", "-c", "5"], &bytes);
    assert_eq!(said.stdout, &bytes[..5]);
    let said = user.fed(&["exec", "--json", "--", "wc", "-c"], &bytes);
    let result: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(result["stdout"], "300000\n");
}

#[test]
fn detached_prints_its_id_and_no_more() {
    let user = User::with_box();
    let started = user.run(&["exec", "-d", "-c", "echo started; sleep 600"]);
    assert_eq!(started.err, "");
    let id = started.out.trim_end();
    assert!(id.starts_with("proc_") && !id.contains('\n'), "{id:?}");
    assert_eq!(user.ok(&["wait", id, "--log", "start"]), "started\n");
    assert_eq!(user.ok(&["ps", "-q"]), format!("{id}\n"));
    assert_eq!(user.ok(&["kill", id, "--grace", "1s"]), format!("{id}\n"));
    assert_eq!(user.ok(&["ps", "-q"]), "");
    assert_eq!(user.run(&["attach", id]).code, Some(143));
}

#[test]
fn logs_show_the_end_and_follow() {
    let user = User::with_box();
    user.ok(&[
        "exec",
        "-d",
        "--name",
        "count",
        "-c",
        "seq 1 50; read x; echo $x",
    ]);
    user.ok(&[
        "exec",
        "-d",
        "--name",
        "gate",
        "-c",
        "until [ -e go ]; do :; done; echo opened",
    ]);
    user.ok(&["wait", "count"]);
    assert_eq!(user.ok(&["logs", "count", "-n", "2"]), "50\n\n");
    assert_eq!(
        user.ok(&["logs", "box/cou", "--since", "2099-01-01T00:00:00Z"]),
        ""
    );
    let mut following = user
        .command(&["logs", "-f", "gate"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    user.fed(&["file", "put", "box:go"], b"");
    let mut said = String::new();
    following
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert_eq!(said, "opened\n");
    assert!(following.wait().unwrap().success());
}

#[test]
fn a_session_keeps_its_state_between_commands() {
    let user = User::with_box();
    user.ok(&["session", "create", "box", "--name", "work"]);
    user.ok(&[
        "session",
        "exec",
        "work",
        "-c",
        "cd /tmp; A=1; f() { echo $A $PWD $1; }",
    ]);
    assert_eq!(
        user.ok(&["session", "exec", "box/work", "--", "f", "x y"]),
        "1 /tmp x y\n"
    );
    assert_eq!(
        user.run(&["session", "exec", "wo", "-c", "(exit 9)"]).code,
        Some(9)
    );
    user.ok(&["session", "fork", "work", "--name", "copy"]);
    assert_eq!(
        user.ok(&["session", "exec", "copy", "-c", "f z"]),
        "1 /tmp z\n"
    );
    let late = user.run(&[
        "session",
        "exec",
        "work",
        "--timeout",
        "200ms",
        "-c",
        "sleep 600",
    ]);
    assert_eq!(late.code, Some(124), "{late:?}");
    let fed = user.fed(&["session", "exec", "-i", "work", "--", "cat"], b"in");
    assert_eq!(fed.stdout, b"in");
    assert_eq!(user.ok(&["session", "rm", "work", "copy"]), "work\ncopy\n");
}

#[test]
fn the_first_ctrl_c_goes_to_the_command() {
    let user = User::with_box();
    let mut child = user
        .command(&[
            "exec",
            "box",
            "-c",
            "trap 'echo caught; exit 3' INT; echo up; while :; do sleep 0.05; done",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    assert_eq!(line_of(&mut reader), "up\n");
    interrupt(&child);
    assert_eq!(line_of(&mut reader), "caught\n");
    assert_eq!(child.wait().unwrap().code(), Some(3));
}

#[test]
fn the_second_ctrl_c_leaves_it_running() {
    let user = User::with_box();
    let mut child = user
        .command(&[
            "exec",
            "box",
            "--name",
            "stubborn",
            "-c",
            "trap 'echo no' INT; echo up; while :; do sleep 0.05; done",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    assert_eq!(line_of(&mut reader), "up\n");
    interrupt(&child);
    assert_eq!(line_of(&mut reader), "no\n");
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("`sandshell attach box/stubborn`"), "{told}");
    assert_eq!(user.ok(&["ps", "-q"]), "stubborn\n");
    user.ok(&["kill", "stubborn", "--grace", "0"]);
}

#[test]
fn a_reader_that_goes_away_ends_the_command_quietly() {
    let user = User::with_box();
    let mut child = user
        .command(&["exec", "box", "--", "yes"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    assert_eq!(line_of(&mut reader), "y\n");
    drop(reader);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(141));
    assert_eq!(output.stderr, b"");
    assert_eq!(user.ok(&["ps", "-q"]), "", "it is gone");
}

/// How long a command looks for a hub that is gone.
const LOOKS: Duration = Duration::from_millis(3750);

#[test]
fn a_hub_that_is_started_anew_is_found_again() {
    // One that takes longer to start than a command looks for it is none to be found again.
    let found = (0..5).any(|_| finds_its_hub_again());
    assert!(found, "no hub was there in time");
}

/// Whether a command goes on with a hub that was killed and started anew; false where that took too long.
fn finds_its_hub_again() -> bool {
    let mut user = User::with_box();
    let mut child = user
        .command(&[
            "exec",
            "box",
            "-c",
            "echo before; read line; echo after $line",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    assert_eq!(line_of(&mut reader), "before\n");
    let killed = Instant::now();
    user.hub.kill_hard();
    user.hub.restart();
    let took = killed.elapsed();
    let mut stdin = child.stdin.take().unwrap();
    // Nobody may be there to read it.
    let typed = stdin.write_all(b"the restart\n");
    let line = line_of(&mut reader);
    if line.is_empty() && took > LOOKS {
        child.wait().unwrap();
        return false;
    }
    typed.unwrap();
    assert_eq!(line, "after the restart\n");
    drop(stdin);
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success());
            return true;
        }
        assert!(Instant::now() < deadline, "it does not end");
        std::thread::yield_now();
    }
}

#[test]
fn code_keeps_its_state_in_a_context() {
    let user = User::with_box();
    user.ok(&["context", "create", "--language", "bash", "--name", "sh"]);
    user.ok(&["context", "run", "sh", "-c", "x=20"]);
    let said = user.fed(&["context", "run", "box/sh"], b"echo $((x + 1))");
    assert_eq!(said.stdout, b"21\n");
    let late = user.run(&[
        "context",
        "run",
        "sh",
        "--timeout",
        "200ms",
        "-c",
        "sleep 600",
    ]);
    assert_eq!(late.code, Some(124), "{late:?}");
    user.ok(&["context", "rm", "sh"]);
}
