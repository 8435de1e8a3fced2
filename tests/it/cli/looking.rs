//! What is told while it happens: ports, changes of files, repositories, an interrupted session.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use super::User;

fn line_of(reader: &mut impl std::io::BufRead) -> String {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    line
}

#[test]
fn a_port_is_waited_for_listed_and_reached() {
    let user = User::with_box();
    let server = "import http.server as h; h.HTTPServer(('127.0.0.1', 8123), h.SimpleHTTPRequestHandler).serve_forever()";
    user.ok(&["exec", "-d", "--name", "web", "--", "python3", "-c", server]);
    assert_eq!(
        user.ok(&[
            "port",
            "wait",
            "box/8123",
            "--http",
            "/",
            "--timeout",
            "10m"
        ]),
        "8123\n"
    );
    assert_eq!(
        user.ok(&["wait", "web", "--port", "8123", "--timeout", "10m"]),
        ""
    );
    assert_eq!(user.ok(&["port", "ls", "-q"]), "8123\n");
    let url = user.ok(&["port", "expose", "8123"]);
    assert!(
        url.starts_with(&format!(
            "{}/v1/sandboxes/box/ports/8123/proxy/?port_token=",
            user.hub.url()
        )),
        "{url}"
    );
    assert!(user.ok(&["port", "ls"]).contains(" yes "), "it is exposed");
    assert_eq!(user.ok(&["port", "unexpose", "8123"]), "8123\n");
    let refused = user.run(&["port", "preview", "8123"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains("hint: "), "{refused:?}");
}

#[test]
fn changes_of_files_are_told_as_they_happen() {
    let user = User::with_box();
    let mut watching = user
        .command(&["file", "watch", "box:/workspace"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(watching.stderr.take().unwrap());
    assert_eq!(line_of(&mut told), "watching /workspace\n");
    user.ok(&["file", "mkdir", "box:new"]);
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "created /workspace/new");
    watching.kill().unwrap();
    watching.wait().unwrap();
}

#[test]
fn a_repository_is_cloned_changed_and_pushed() {
    let user = User::with_box();
    let script = "git init -q -b main seed && cd seed && echo one > a && git add a && \
                  git -c user.name=A -c user.email=a@b commit -q -m first && cd .. && git clone -q --bare seed origin.git";
    user.ok(&["exec", "-c", script]);
    assert_eq!(
        user.ok(&["git", "clone", "/workspace/origin.git", "box:copy"]),
        "/workspace/copy\n"
    );
    user.fed(&["file", "put", "copy/b"], b"two\n");
    assert_eq!(
        user.ok(&["git", "status", "-C", "copy"]).lines().nth(1),
        Some("?? b")
    );
    user.ok(&["git", "checkout", "-b", "fix", "-C", "copy"]);
    user.ok(&["git", "add", "--all", "-C", "copy"]);
    let commit = user.ok(&[
        "git",
        "commit",
        "-m",
        "second",
        "--author",
        "Ada <ada@b>",
        "-C",
        "copy",
    ]);
    assert_eq!(commit.trim_end().len(), 40, "{commit}");
    let log = user.ok(&["git", "log", "-C", "copy", "-q"]);
    assert_eq!(log.lines().next(), Some(commit.trim_end()));
    user.ok(&[
        "git",
        "push",
        "--set-upstream",
        "origin",
        "fix",
        "-C",
        "box:copy",
    ]);
    let branches = user.ok(&[
        "exec",
        "-c",
        "git -C origin.git branch --format='%(refname:short)'",
    ]);
    assert_eq!(branches, "fix\nmain\n");
    assert!(
        user.ok(&["git", "diff", "main", "fix", "-C", "copy"])
            .contains("+two")
    );
}

#[test]
fn ctrl_c_interrupts_the_command_and_keeps_the_session() {
    let user = User::with_box();
    user.ok(&["session", "create", "--name", "work"]);
    user.ok(&["session", "exec", "work", "-c", "X=kept"]);
    let mut child = user
        .command(&["session", "exec", "work", "-c", "echo up; sleep 600"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    assert_eq!(line_of(&mut reader), "up\n");
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(
        user.ok(&["session", "exec", "work", "-c", "echo $X"]),
        "kept\n"
    );
}
