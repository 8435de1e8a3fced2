//! Mistakes that people make: each has an error that says what, a hint that says what to type next, and
//! the right exit code.

use std::fmt::Write as _;
use std::fs;

use super::{Ended, User, bare, ended, fed};

/// A line, the code it ends with, and parts of its error and its hint.
type Mistake<'a> = (&'a [&'a str], i32, &'a str, &'a str);

/// What is not as it should be.
fn faults(ended: &Ended, code: i32, error: &str, hint: &str) -> Option<String> {
    let first = ended.err.lines().find(|line| line.starts_with("error: "));
    let told = ended
        .err
        .split_once("\nhint: ")
        .map(|(_, hint)| hint.trim_end());
    let mut wrong = String::new();
    if ended.code != Some(code) {
        write!(wrong, " code {:?} instead of {code};", ended.code).unwrap();
    }
    if !first.is_some_and(|_| ended.err.contains(error)) {
        write!(wrong, " no error with {error:?};").unwrap();
    }
    if !told.is_some_and(|told| told.contains(hint)) {
        write!(wrong, " no hint with {hint:?};").unwrap();
    }
    if !ended.out.is_empty() {
        wrong.push_str(" something on stdout;");
    }
    (!wrong.is_empty()).then(|| format!("{wrong}\n{}", ended.err))
}

fn check(run: impl Fn(&[&str]) -> Ended, mistakes: &[Mistake<'_>]) {
    let wrong: Vec<String> = mistakes
        .iter()
        .filter_map(|(words, code, error, hint)| {
            let fault = faults(&run(words), *code, error, hint)?;
            Some(format!("sandshell {}:{fault}", words.join(" ")))
        })
        .collect();
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        mistakes.len(),
        wrong.join("\n")
    );
}

const USAGE: &[Mistake<'_>] = &[
    (&["lss"], 2, "unrecognized subcommand 'lss'", "'ls'"),
    (
        &["ls", "--labell", "a=b"],
        2,
        "unexpected argument '--labell'",
        "--label",
    ),
    (
        &["ls", "--label", "team"],
        2,
        "expected KEY=VALUE",
        "sandshell ls --help",
    ),
    (
        &["ls", "--state", "runing"],
        2,
        "expected one of creating, ready",
        "sandshell ls --help",
    ),
    (
        &["ls", "--hub", "a", "--url", "b"],
        2,
        "cannot be used with",
        "sandshell ls",
    ),
    (
        &["exec", "box"],
        2,
        "there is no command to run",
        "after `--`",
    ),
    (
        &["exec", "box", "ls"],
        2,
        "unexpected argument 'ls'",
        "-- ls",
    ),
    (
        &["exec", "box", "-c", "a", "--", "b"],
        2,
        "cannot be used with",
        "sandshell exec --help",
    ),
    (
        &["exec", "box", "--timeout", "soon", "--", "a"],
        2,
        "500ms, 30s, 5m",
        "sandshell exec --help",
    ),
    (
        &["exec", "box", "-e", "=x", "--", "a"],
        2,
        "expected KEY=VALUE",
        "sandshell exec --help",
    ),
    (
        &["exec", "box", "-e", "NOT_SET_HERE", "--", "a"],
        2,
        "not set here",
        "sandshell exec --help",
    ),
    (
        &["exec", "box", "--env-file", "missing", "--", "a"],
        2,
        "missing cannot be read",
        "KEY=VALUE",
    ),
    (
        &["exec", "box", "--env-file", "bad.env", "--", "a"],
        2,
        "line 2 of bad.env",
        "start with #",
    ),
    (
        &["exec", "-t", "-d", "box", "--", "a"],
        2,
        "cannot be used with",
        "sandshell exec --help",
    ),
    (
        &["create", "Bad_Name"],
        2,
        "lower-case letters, digits",
        "sandshell create --help",
    ),
    (
        &["create", "--memory", "lots"],
        2,
        "512m or 2g",
        "sandshell create --help",
    ),
    (
        &["create", "--network", "some"],
        2,
        "expected none or full",
        "sandshell create --help",
    ),
    (
        &["create", "--isolation", "none"],
        2,
        "invalid value 'none'",
        "sandshell create --help",
    ),
    (&["rm"], 2, "required arguments", "sandshell rm"),
    (&["logs"], 2, "<PROCESS>", "sandshell logs"),
    (
        &["logs", "box/"],
        2,
        "expected ID or SANDBOX/ID",
        "sandshell logs --help",
    ),
    (
        &["logs", "web", "--since", "yesterday"],
        2,
        "such as 10m",
        "sandshell logs --help",
    ),
    (
        &["cp", "a", "b"],
        2,
        "neither is in a sandbox",
        "SANDBOX:PATH",
    ),
    (
        &["port", "expose", "http"],
        2,
        "from 1 to 65535",
        "sandshell port expose --help",
    ),
    (
        &["port", "expose", "box/99999"],
        2,
        "from 1 to 65535",
        "sandshell port expose --help",
    ),
    (&["token", "create"], 2, "--scope", "sandshell token create"),
    (
        &["token", "create", "--scope", "root"],
        2,
        "admin, create or sandbox:ID",
        "token create --help",
    ),
    (
        &["terminal", "create", "--size", "big"],
        2,
        "such as 80x24",
        "terminal create --help",
    ),
    (
        &["file", "chmod", "u+x", "a"],
        2,
        "octal digits",
        "sandshell file chmod --help",
    ),
    (
        &["events", "--type", "ooom"],
        2,
        "did you mean oom?",
        "sandshell events --help",
    ),
    (
        &["context", "create", "--language", "pyton"],
        2,
        "invalid value 'pyton'",
        "python",
    ),
    (
        &["completion", "cmd"],
        2,
        "invalid value 'cmd'",
        "sandshell completion --help",
    ),
    (
        &["help", "exitcodes"],
        2,
        "no command or topic",
        "sandshell help exit-codes",
    ),
    (
        &["config", "set", "sandbx", "a"],
        2,
        "there is no key \"sandbx\"",
        "\"sandbox\"",
    ),
    (
        &["config", "set", "color", "red"],
        2,
        "auto, always or never",
        "config unset",
    ),
    (
        &["config", "set", "hubs.a.url", "ftp://x"],
        2,
        "starts with http://",
        "config unset",
    ),
    (
        &["config", "set", "detach_keys", "ctrl-alt"],
        2,
        "not a key",
        "config unset",
    ),
    (
        &["config", "unset", "sandbox"],
        1,
        "not set in your own file",
        "config show --origin",
    ),
    (
        &["config", "use", "wrk"],
        1,
        "no hub \"wrk\"",
        "sandshell login --name wrk",
    ),
    (
        &["ls", "--hub", "nohub"],
        2,
        "no hub \"nohub\"",
        "sandshell login --name nohub",
    ),
    (
        &["ls", "--url", "https://x"],
        2,
        "starts with http:// or unix:/",
        "comes from --url",
    ),
    (
        &["ls", "--url", "http://me:secret@x"],
        2,
        "not into it",
        "comes from --url",
    ),
    (
        &["ls", "--token-file", "missing"],
        4,
        "missing (--token-file) cannot be read",
        "sandshell login",
    ),
    (
        &["login", "--name", "a/b"],
        2,
        "is no name for a hub",
        "letters, digits",
    ),
];

#[test]
fn lines_that_are_not_understood() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("bad.env"), "A=1\nnonsense\n").unwrap();
    check(|words| ended(&mut bare(home.path(), words)), USAGE);
}

#[test]
fn hubs_that_are_not_there() {
    let home = tempfile::tempdir().unwrap();
    // A port that nothing listens on: it was ours, and is closed.
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let url = format!("http://{free}");
    check(
        |words| ended(bare(home.path(), words).env("SANDSHELL_URL", &url)),
        &[
            (
                &["ls"],
                1,
                "cannot connect to 127.0.0.1:",
                "sandshell serve",
            ),
            (
                &["exec", "--", "true"],
                125,
                "cause: Connection refused",
                "sandshell serve",
            ),
            (
                &["version", "--server"],
                1,
                "cannot connect",
                "sandshell serve",
            ),
            (
                &["ls", "--url", "unix:/no/such.sock"],
                1,
                "unix:/no/such.sock",
                "config show --origin",
            ),
            (
                &["ls", "--url", "http://no-such-host.invalid"],
                1,
                "no-such-host.invalid",
                "config show",
            ),
            (&["shell"], 125, "cannot connect", "sandshell serve"),
        ],
    );
    // Something that is no hub.
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", other.local_addr().unwrap());
    let answering = std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        let (mut stream, _) = other.accept().unwrap();
        let mut head = [0; 2048];
        let _ = stream.read(&mut head).unwrap();
        let body = "HTTP/1.1 404 Not Found\r\ncontent-length: 5\r\nconnection: close\r\n\r\nnope\n";
        stream.write_all(body.as_bytes()).unwrap();
    });
    check(
        |words| ended(bare(home.path(), words).env("SANDSHELL_URL", &url)),
        &[(
            &["ls"],
            1,
            "the server answered 404: nope",
            "may not be a hub",
        )],
    );
    answering.join().unwrap();
}

/// Of a user with the sandboxes `box`, `cold` (paused), `web-1` and `web-2`.
const THINGS: &[Mistake<'_>] = &[
    (
        &["get", "bax"],
        1,
        "there is no sandbox \"bax\"",
        "did you mean \"box\"?",
    ),
    (&["get", "zzzzzz"], 1, "there is no sandbox", "sandshell ls"),
    (
        &["get", "we"],
        1,
        "beginning of 2 sandbox ids",
        "web-1, web-2",
    ),
    (
        &["exec", "cold", "--", "true"],
        125,
        "is paused",
        "sandshell resume",
    ),
    (
        &["exec", "--", "pyhton"],
        127,
        "no program \"pyhton\"",
        "command -v",
    ),
    (&["exec", "--", "/etc/passwd"], 126, "", "file stat"),
    (
        &["exec", "-u", "nobodyhere", "--", "true"],
        125,
        "nobodyhere",
        "/etc/passwd",
    ),
    (
        &["exec", "-w", "/no/dir", "--", "true"],
        125,
        "/no/dir",
        "sandshell file ls",
    ),
    (
        &["logs", "jbo"],
        1,
        "there is no process \"jbo\"",
        "did you mean \"job\"?",
    ),
    (
        &["kill", "nothing"],
        1,
        "there is no process",
        "sandshell ps -a",
    ),
    (
        &["kill", "job", "--signal", "HUP"],
        1,
        "ended",
        "sandshell logs",
    ),
    (
        &["attach", "nothing"],
        125,
        "there is no process",
        "sandshell ps -a",
    ),
    (
        &["session", "exec", "wrok", "-c", "a"],
        125,
        "no session \"wrok\"",
        "\"work\"",
    ),
    (
        &["session", "exec", "work"],
        2,
        "there is no command",
        "-c 'cd /tmp'",
    ),
    (&["session", "create", "--shell", "fish"], 1, "fish", ""),
    (
        &["terminal", "attach", "t"],
        125,
        "there is no terminal \"t\"",
        "terminal ls",
    ),
    (
        &["context", "run", "c", "-c", "1"],
        125,
        "there is no context \"c\"",
        "context ls",
    ),
    (
        &["backup", "restore", "b"],
        1,
        "there is no backup \"b\"",
        "backup ls",
    ),
    (
        &["token", "rm", "zz"],
        1,
        "there is no token \"zz\"",
        "token ls",
    ),
    (
        &["file", "cat", "missing"],
        1,
        "missing",
        "sandshell file ls",
    ),
    (&["file", "cat", "dir"], 1, "dir", "sandshell cp"),
    (&["file", "ls", "a.txt"], 1, "a.txt", "file stat"),
    (&["file", "rm", "dir"], 1, "not empty", "-r"),
    (&["file", "mv", "a.txt", "dir/inner/../../a.txt"], 1, "", ""),
    (&["file", "search", "("], 1, "unclosed group", "-F"),
    (
        &["cp", "missing", "box:"],
        1,
        "missing cannot be read",
        "SANDBOX:PATH",
    ),
    (
        &["cp", "box:missing", "."],
        1,
        "missing",
        "sandshell file ls",
    ),
    (
        &["cp", "box:a.txt", "no/such/dir/a"],
        1,
        "cannot be written",
        "this machine",
    ),
    (
        &["cp", "box:a", "web-1:b"],
        2,
        "not in the same",
        "copy it here first",
    ),
    (
        &["git", "status", "-C", "dir"],
        1,
        "not a git repository",
        "-C names",
    ),
    (
        &["create", "box", "--memory", "64m"],
        1,
        "is in use",
        "Take another id",
    ),
];

#[test]
fn things_that_are_not_there_or_not_allowed() {
    let user = User::new();
    let none = |words: &[&str]| user.run(words);
    check(
        none,
        &[
            (
                &["exec", "--", "true"],
                125,
                "there is no sandbox",
                "sandshell create",
            ),
            (
                &["get", "box"],
                1,
                "there is no sandbox \"box\"",
                "sandshell create",
            ),
        ],
    );
    for id in ["box", "cold", "web-1", "web-2"] {
        user.make(id);
    }
    user.ok(&["pause", "cold"]);
    user.ok(&["exec", "box", "-d", "--name", "job", "--", "true"]);
    user.ok(&["wait", "box/job"]);
    user.ok(&["file", "mkdir", "box:dir/inner"]);
    user.fed(&["file", "put", "box:a.txt"], b"a");
    user.ok(&["session", "create", "box", "--name", "work"]);
    let secret = user.home().join("dir-here");
    fs::create_dir(&secret).unwrap();
    check(
        |words| ended(user.command(words).env("SANDSHELL_SANDBOX", "box")),
        THINGS,
    );
    let late = user.run(&["port", "wait", "box/1", "--timeout", "100ms"]);
    assert_eq!(late.code, Some(124), "{late:?}");
    check(
        none,
        &[(
            &["exec", "--", "true"],
            2,
            "there are 4 sandboxes",
            "SANDSHELL_SANDBOX",
        )],
    );
}

#[test]
fn tokens_that_do_not_open() {
    let user = User::with_box();
    user.make("other");
    let token = user.ok(&["token", "create", "--scope", "sandbox:box", "-q"]);
    let few = |words: &[&str]| ended(user.command(words).env("SANDSHELL_TOKEN", token.trim_end()));
    assert_eq!(few(&["ls", "-q"]).out, "box\n");
    check(
        few,
        &[
            (&["create", "mine"], 1, "", "sandshell token create"),
            (&["rm", "box"], 1, "", "sandshell token create"),
            (&["token", "ls"], 1, "", "sandshell token create"),
            (
                &["exec", "other", "--", "true"],
                125,
                "there is no sandbox \"other\"",
                "sandshell ls",
            ),
        ],
    );
    let foreign = |words: &[&str]| ended(user.command(words).env("SANDSHELL_TOKEN", "sk_foreign"));
    check(
        foreign,
        &[
            (
                &["ls"],
                4,
                "the token is not a right one",
                "sandshell login",
            ),
            (
                &["exec", "box", "--", "true"],
                4,
                "the token is not a right one",
                "sandshell login",
            ),
        ],
    );
    let without = |words: &[&str]| ended(user.command(words).env_remove("SANDSHELL_TOKEN"));
    check(without, &[(&["ls"], 4, "token", "sandshell login")]);
    let empty = fed(
        &mut bare(user.home(), &["login", "--url", user.hub.url()]),
        b"\n",
    );
    assert_eq!(empty.status.code(), Some(2), "{empty:?}");
    // An address that is taken.
    let taken = user.hub.url().trim_start_matches("http://").to_owned();
    let dir = user.home().join("s");
    let line = [
        "serve",
        "--listen",
        &taken,
        "--state-dir",
        dir.to_str().unwrap(),
    ];
    let second = ended(&mut bare(user.home(), &line));
    assert_eq!(second.code, Some(125), "{second:?}");
    assert!(second.err.contains("hint: "), "{second:?}");
}
