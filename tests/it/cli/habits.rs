//! What fingers do that know other tools.

use super::{User, bare, ended};

#[test]
fn flags_of_all_commands_may_come_first() {
    let user = User::with_box();
    assert_eq!(user.ok(&["-q", "ls"]), "box\n");
    assert_eq!(user.ok(&["ls", "-o", "name"]), "box\n");
    assert!(
        user.ok(&["ls", "-o", "json"])
            .starts_with("{\"items\":[{\"id\":\"box\",")
    );
    let url = user.hub.url().to_owned();
    let mut command = bare(user.home(), &["--url", &url, "--json", "session", "ls"]);
    let said = ended(command.env("SANDSHELL_TOKEN", user.hub.token()));
    assert_eq!(
        (said.code, &*said.out),
        (Some(0), "{\"items\":[]}\n"),
        "{said:?}"
    );
}

#[test]
fn the_version_is_told_by_a_flag() {
    let home = tempfile::tempdir().unwrap();
    let told = |words: &[&str]| ended(&mut bare(home.path(), words)).out;
    let version = told(&["--version"]);
    assert!(
        version.starts_with("sandshell ") && version.lines().count() == 1,
        "{version}"
    );
    assert_eq!(told(&["-V"]), version);
    assert!(told(&["version"]).starts_with(version.trim_end()));
}

#[test]
fn signals_are_given_as_to_kill() {
    let user = User::with_box();
    for (flags, code) in [
        (&["-9"][..], 137),
        (&["-s", "INT"], 130),
        (&["-HUP"], 129),
        (&["--signal", "TERM"], 143),
    ] {
        let id = user.ok(&["exec", "-d", "--", "sleep", "600"]);
        let id = id.trim_end();
        let line: Vec<&str> = ["kill"].iter().chain(flags).chain(&[id]).copied().collect();
        user.ok(&line);
        assert_eq!(user.run(&["wait", id]).code, Some(code), "{flags:?}");
    }
}

#[test]
fn what_is_gone_may_be_removed_with_f() {
    let user = User::with_box();
    assert_eq!(user.ok(&["rm", "-f", "nothing", "box"]), "box\n");
    assert_eq!(user.ok(&["rm", "-f", "nothing"]), "");
    // A script's name is no beginning of another's.
    user.ok(&["create", "ci-prod"]);
    assert_eq!(user.ok(&["rm", "-f", "ci"]), "");
    assert_eq!(user.ok(&["rm", "-f", "ci-prod"]), "ci-prod\n");
    assert_eq!(user.run(&["rm", "nothing"]).code, Some(1));
}

#[test]
fn a_policy_is_spelled_either_way() {
    let user = User::new();
    for (id, policy) in [("a", "best-effort"), ("b", "best_effort")] {
        let made = user.ok(&["create", id, "--isolation", policy, "--json"]);
        assert!(made.contains("\"policy\":\"best_effort\""), "{made}");
    }
}

#[test]
fn words_of_commands_are_told_apart() {
    let user = User::with_box();
    user.ok(&[
        "exec",
        "-d",
        "--name",
        "p",
        "--",
        "sh",
        "-c",
        "sleep 600; :",
        "it's",
        "",
    ]);
    let table = user.ok(&["ps"]);
    assert!(
        table.contains(r"sh -c 'sleep 600; :' 'it'\''s' ''"),
        "{table}"
    );
}

#[test]
fn a_token_gets_a_name_without_an_address() {
    let user = User::with_box();
    let token = user.hub.token().to_owned();
    let mut login = bare(user.home(), &["login", "--name", "work"]);
    login.env("SANDSHELL_URL", user.hub.url());
    let done = super::fed(&mut login, token.as_bytes());
    assert!(
        done.status.success(),
        "{:?}",
        String::from_utf8_lossy(&done.stderr)
    );
    // From here on it is known.
    assert_eq!(ended(&mut bare(user.home(), &["ls", "-q"])).out, "box\n");
    let done = super::fed(
        &mut bare(user.home(), &["login", "--name", "work"]),
        token.as_bytes(),
    );
    assert!(
        done.status.success(),
        "{:?}",
        String::from_utf8_lossy(&done.stderr)
    );
}

#[test]
fn a_port_that_does_not_answer_in_time_is_said() {
    let user = User::with_box();
    let late = user.run(&["port", "wait", "box/1", "--timeout", "100ms"]);
    assert_eq!((late.code, &*late.out), (Some(124), ""), "{late:?}");
    assert!(
        late.err.contains("port 1 did not answer in time"),
        "{late:?}"
    );
}

#[test]
fn a_command_that_wants_a_network_is_told_of_allow() {
    let user = User::with_box();
    let script = "echo \"tool: Could not resolve host: example.org\" >&2; exit 6";
    let said = user.run(&["exec", "box", "-c", script]);
    assert_eq!(said.code, Some(6));
    assert!(
        said.err.contains("hint: `sandshell create --allow HOST`"),
        "{said:?}"
    );
    let said = ended(&mut bare(user.home(), &["run", "-c", script]));
    assert_eq!(said.code, Some(6));
    assert!(said.err.contains("hint: add --allow HOST"), "{said:?}");
    // Nobody is told who got on without.
    let said = user.run(&["exec", "box", "-c", "echo Could not resolve >&2"]);
    assert_eq!((said.code, &*said.err), (Some(0), "Could not resolve\n"));
}

#[test]
fn run_takes_the_flags_of_exec() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("vars"), "A=1\nB=2\n").unwrap();
    let line = [
        "run",
        "-i",
        "--rm",
        "-w",
        "/tmp",
        "-u",
        "sandbox",
        "-e",
        "HERE",
        "-e",
        "B=3",
        "--env-file",
        "vars",
        "-c",
        "echo $A $B $HERE $PWD",
    ];
    let said = ended(bare(home.path(), &line).env("HERE", "from here"));
    assert_eq!(said.out, "1 3 from here /tmp\n", "{said:?}");
    let said = ended(&mut bare(
        home.path(),
        &["run", "--shell", "sh", "-c", "echo $0"],
    ));
    assert_eq!(said.out, "sh\n", "{said:?}");
}
