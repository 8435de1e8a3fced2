//! Mistakes that people make: each has an error that says what, a hint that says what to type next, and
//! the right exit code.

mod things;
mod usage;

use std::fmt::Write as _;
use std::fs;

use sandshell_testkit::Agent;

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

#[test]
fn lines_that_are_not_understood() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("bad.env"), "A=1\nnonsense\n").unwrap();
    check(
        |words| ended(&mut bare(home.path(), words)),
        usage::MISTAKES,
    );
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
    // An agent, which is no hub.
    let agent = Agent::start();
    check(
        |words| {
            let mut command = bare(home.path(), words);
            ended(
                command
                    .env("SANDSHELL_URL", agent.url())
                    .env("SANDSHELL_TOKEN", agent.token().unwrap_or_default()),
            )
        },
        &[(
            &["ls"],
            1,
            "there is no route /v1/sandboxes",
            "this is no hub",
        )],
    );
    // Something else that is no hub.
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
    user.ok(&["exec", "box", "-d", "--name", "nap", "--", "sleep", "600"]);
    for name in ["a.env", "b.env", "bad.env"] {
        fs::write(user.home().join(name), "A=1\n").unwrap();
    }
    let secret = user.home().join("dir-here");
    fs::create_dir(&secret).unwrap();
    check(
        |words| ended(user.command(words).env("SANDSHELL_SANDBOX", "box")),
        things::MISTAKES,
    );
    let late = user.run(&["port", "wait", "box/1", "--timeout", "100ms"]);
    assert_eq!(late.code, Some(124), "{late:?}");
    check(
        none,
        &[
            (
                &["exec", "--", "true"],
                2,
                "there are 4 sandboxes",
                "SANDSHELL_SANDBOX",
            ),
            (
                &["logs", "box"],
                2,
                "\"box\" is a sandbox",
                "`sandshell ps -a box`",
            ),
            (
                &["file", "ls", "web-1"],
                2,
                "\"web-1\" is a sandbox",
                "`sandshell file ls web-1:.`",
            ),
        ],
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
    let two = |words: &[&str]| ended(user.command(words).env("SANDSHELL_TOKEN", "two words"));
    check(
        two,
        &[(
            &["ls"],
            4,
            "what is in environment SANDSHELL_TOKEN is no token",
            "a token is one word",
        )],
    );
    let of_file = |words: &[&str]| {
        let mut command = user.command(words);
        ended(
            command
                .env_remove("SANDSHELL_TOKEN")
                .env("SANDSHELL_TOKEN_FILE", "page.md"),
        )
    };
    check(
        of_file,
        &[(
            &["ls"],
            4,
            "page.md (environment SANDSHELL_TOKEN_FILE) cannot be read",
            "a hub that was not started yet makes its own then",
        )],
    );
    fs::write(user.home().join("page.md"), "# A page\n\nof text\n").unwrap();
    check(
        of_file,
        &[(
            &["ls"],
            4,
            "what is in page.md (environment SANDSHELL_TOKEN_FILE) is no token",
            "a token is one word",
        )],
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
    assert!(
        !dir.join("token").exists(),
        "it leaves a token that nobody was told of"
    );
}
