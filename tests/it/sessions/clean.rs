//! Promise 7: nothing of ours is in the way.

use std::collections::BTreeSet;

use sandshell_client::types::{ExecRequest, SessionRequest};
use sandshell_testkit::Agent;

use crate::calls::{Shell, env, exec, exec_of, plain_bash, process_of, start, wait_for_exit};

fn lines(text: &str) -> BTreeSet<String> {
    text.lines().map(str::to_owned).collect()
}

/// What plain bash reading from its standard input says, as a session's shell does.
fn plain(text: &str) -> String {
    String::from_utf8(plain_bash(text).stdout).unwrap()
}

#[tokio::test]
async fn variables_functions_aliases_and_options_are_those_of_plain_bash() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    let ours = lines(&shell.out("compgen -v").await);
    let theirs = lines(&plain("true; compgen -v"));
    // The base environment is documented; the second is set by `-c` only.
    let base = ["HOME", "USER", "LOGNAME", "SHELL", "LANG"]
        .map(str::to_owned)
        .into();
    let known: BTreeSet<String> = theirs.union(&base).cloned().collect();
    let added: Vec<_> = ours.difference(&known).collect();
    assert_eq!(added, Vec::<&String>::new());
    let missing: Vec<_> = theirs
        .difference(&ours)
        .filter(|n| *n != "BASH_EXECUTION_STRING")
        .collect();
    assert_eq!(missing, Vec::<&String>::new());
    for command in [
        "declare -F",
        "alias -p",
        "shopt",
        "set +o | grep -v hashall",
        "umask",
        "ulimit -a",
        "compgen -f /proc/self/fd/nope",
        "dirs",
        "jobs",
        "hash 2>&1",
        "complete -p 2>&1",
        "enable -n",
        "echo $#$@ $SHLVL",
    ] {
        let ours = shell.run(command).await.stdout;
        let expected = plain(&format!("cd /; {command}"));
        if command == "shopt" {
            assert_eq!(ours, expected);
        }
        assert_eq!(lines(&ours), lines(&expected), "{command}");
    }
}

#[tokio::test]
async fn status_variables_are_those_of_the_command_before() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    assert_eq!(shell.out("echo $?").await, "0\n");
    assert_eq!(shell.run("(exit 42)").await.exit_code, 42);
    assert_eq!(shell.out("echo $?").await, "42\n");
    assert_eq!(shell.out("echo $?").await, "0\n");
    assert_eq!(shell.run("f() { return 3; }; f").await.exit_code, 3);
    assert_eq!(shell.out("echo $?; echo $!").await, "3\n\n");
    shell.out("true & p=$!; wait").await;
    assert_eq!(shell.out("[ $! = $p ] && echo same").await, "same\n");
}

#[tokio::test]
async fn children_inherit_three_descriptors_and_no_more() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    // The fourth is the directory that ls itself reads.
    let expected = "0\n1\n2\n3\n";
    let command = "ls /proc/self/fd";
    assert_eq!(shell.out(command).await, expected);
    assert_eq!(shell.out("(ls /proc/self/fd)").await, expected);
    assert_eq!(
        shell.out("x=$(ls /proc/self/fd); echo \"$x\"").await,
        expected
    );
    assert_eq!(shell.out("bash -c 'ls /proc/self/fd'").await, expected);
    assert_eq!(shell.out("ls /proc/self/fd | cat").await, expected);
    shell.run("exit").await;
    assert_eq!(shell.out(command).await, expected);
    let client = &shell.client;
    assert_eq!(exec(client, command).await.stdout, expected);
    let argv = ["ls", "/proc/self/fd"].map(str::to_owned).to_vec();
    let request = ExecRequest {
        argv: Some(argv),
        ..Default::default()
    };
    assert_eq!(client.exec(&request).await.unwrap().stdout, expected);
    let request = ExecRequest {
        stdin: Some(String::new()),
        ..exec_of(command)
    };
    assert_eq!(client.exec(&request).await.unwrap().stdout, expected);
    let mut request = process_of(command);
    request.session = Some(shell.id.clone());
    let id = start(client, &request).await;
    wait_for_exit(client, &id).await;
    let body = crate::calls::follow(client, &id, sandshell_client::types::StreamName::Stdout).await;
    assert_eq!(String::from_utf8(body).unwrap(), expected);
}

#[tokio::test]
async fn nothing_of_the_agents_environment_leaks() {
    let agent = Agent::builder().env("SECRET_MARKER", "do-not-tell").start();
    let shell = Shell::new(&agent).await;
    let client = &shell.client;
    let look = "env; set; cat /proc/$$/environ /proc/$PPID/environ 2>/dev/null | tr '\\0' '\\n'; :";
    let argv = ["env"].map(str::to_owned).to_vec();
    let by_argv = ExecRequest {
        argv: Some(argv),
        ..Default::default()
    };
    for output in [
        shell.run(look).await.stdout,
        exec(client, look).await.stdout,
        client.exec(&by_argv).await.unwrap().stdout,
        exec(
            client,
            "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'",
        )
        .await
        .stdout,
        shell
            .run("cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'")
            .await
            .stdout,
    ] {
        assert!(!output.is_empty());
        // `do-not-tell` alone: the look itself has the name neither.
        assert!(!output.contains("do-not-tell"), "{output}");
    }
    let names = exec(client, "env | cut -d= -f1 | sort").await.stdout;
    let base = "HOME\nLANG\nLOGNAME\nPATH\nPWD\nSHELL\nSHLVL\nUSER\n_\n";
    assert_eq!(names, base);
    assert_eq!(
        client.exec(&by_argv).await.unwrap().stdout.lines().count(),
        6
    );
    assert_eq!(
        shell.out("env | cut -d= -f1 | grep -v OLDPWD | sort").await,
        base
    );
}

#[tokio::test]
async fn environment_is_layered_and_null_unsets() {
    let agent = Agent::builder()
        .args(["-e", "A=sandbox", "-e", "B=sandbox", "-e", "C=sandbox"])
        .start();
    let client = agent.client();
    let show = "echo ${A-unset} ${B-unset} ${C-unset} ${HOME-unset}";
    let home = exec(&client, "echo $HOME").await.stdout;
    assert_eq!(
        exec(&client, show).await.stdout,
        format!("sandbox sandbox sandbox {home}")
    );
    let changes = env(&[("A", Some("call")), ("B", None), ("HOME", None)]);
    let request = ExecRequest {
        env: changes.clone(),
        ..exec_of(show)
    };
    assert_eq!(
        client.exec(&request).await.unwrap().stdout,
        "call unset sandbox unset\n"
    );
    let request = SessionRequest {
        env: changes,
        ..Default::default()
    };
    let shell = Shell::with(&agent, &request).await;
    assert_eq!(shell.out(show).await, "call unset sandbox unset\n");
    let request = ExecRequest {
        env: env(&[("A B", Some("odd name"))]),
        ..exec_of("env | grep odd")
    };
    assert_eq!(
        client.exec(&request).await.unwrap().stdout,
        "A B=odd name\n"
    );
}

#[tokio::test]
async fn traps_of_the_user_work_as_in_plain_bash() {
    let agent = Agent::start();
    for command in [
        "trap 'echo int' INT; kill -INT $$; echo after",
        "trap 'echo usr1; trap - USR1' USR1; kill -USR1 $$; trap -p USR1; echo after",
        "trap 'echo err $?' ERR; false; (exit 3); true",
        "trap 'echo debug' DEBUG; true; trap - DEBUG; true",
        "f() { trap 'echo return' RETURN; }; f; trap - RETURN",
        "trap 'echo term' TERM; kill $$; echo after",
        "trap '' INT; kill -INT $$; echo ignored",
        "trap 'echo chld' CHLD; /bin/true; trap - CHLD; echo after",
        "set -E; g() { false; }; trap 'echo in g' ERR; g; :",
    ] {
        let shell = Shell::new(&agent).await;
        let theirs = plain_bash(command);
        let ours = shell.run(command).await;
        assert_eq!(
            ours.stdout,
            String::from_utf8_lossy(&theirs.stdout),
            "{command}: {ours:?}"
        );
        assert_eq!(Some(ours.exit_code), theirs.status.code(), "{command}");
        assert_eq!(
            ours.stderr.is_empty(),
            theirs.stderr.is_empty(),
            "{command}: {ours:?}"
        );
        assert_eq!(shell.run("echo next").await.session_state, "kept");
    }
}

#[tokio::test]
async fn a_restored_shell_is_as_clean_as_a_fresh_one() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    let show = "compgen -v | sort; declare -F; alias -p; shopt; set +o; trap -p | grep -v RTMAX; umask; declare -p | grep -v -e RANDOM -e PID -e EPOCH -e _= -e PIPESTATUS -e BASH_ARGV -e BASH_LINENO -e SECONDS -e BASH_SOURCE -e ' -A ' -e COMMAND -e LINENO -e HISTCMD -e GROUPS -e DIRSTACK -e BASH_VERSINFO; :";
    let before = shell.out(show).await;
    shell.run("exit 0").await;
    let after = shell.out(show).await;
    let (after, before) = (lines(&after), lines(&before));
    let changed: Vec<_> = after.symmetric_difference(&before).collect();
    assert_eq!(changed, Vec::<&String>::new());
}

/// What a DEBUG trap set by one command does in the next, as in a script that goes on.
#[tokio::test]
async fn a_debug_trap_holds_for_the_users_commands_and_shows_none_of_ours() {
    let agent = Agent::start();
    for flags in ["", "set -T;"] {
        let shell = Shell::new(&agent).await;
        let set = format!("{flags}trap 'echo \"D:$BASH_COMMAND\"' DEBUG");
        assert_eq!(shell.out(&set).await, "");
        let before = shell.out("echo $-").await;
        assert_eq!(before.contains('T'), !flags.is_empty(), "{before}");
        for (command, said) in [
            ("echo a; # no more\necho b", "D:echo a\na\nD:echo b\nb\n"),
            ("# nothing at all", ""),
            (
                "trap -p DEBUG >/dev/null; :",
                "D:trap -p DEBUG > /dev/null\nD::\n",
            ),
            (
                "[[ $- == *T* ]]; builtin printf x",
                "D:[[ $- == *T* ]]\nD:builtin printf x\nx",
            ),
        ] {
            assert_eq!(shell.run(command).await.stdout, said, "{flags} {command}");
        }
        // It is part of the state.
        let exits = shell.run("exit 3").await;
        assert_eq!(exits.session_state, "restored");
        assert_eq!(exits.stderr, "");
        assert!(!exits.stdout.contains("builtin"), "{exits:?}");
        assert_eq!(shell.out("echo c").await, "D:echo c\nc\n", "{flags}");
        assert_eq!(shell.out("echo $-").await, before, "{flags}");
        assert_eq!(shell.out("trap - DEBUG").await, "D:trap - DEBUG\n");
        assert_eq!(shell.out("echo d").await, "d\n");
    }
}

/// Our lines are sourced, so a RETURN trap would run for them in every command.
#[tokio::test]
async fn a_return_trap_ends_with_its_command() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    for trap in ["echo RET", "return 5", "exit 3"] {
        shell.out("v=kept").await;
        shell.run(&format!("trap '{trap}' RETURN")).await;
        let next = shell.run("echo $v").await;
        assert_eq!(
            (next.stdout.as_str(), next.stderr.as_str(), next.exit_code),
            ("kept\n", "", 0),
            "{trap}"
        );
        assert_eq!(next.session_state, "kept");
    }
}

#[tokio::test]
async fn a_history_holds_no_line_of_ours() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    shell.out("set -o history").await;
    shell.out("echo x >/dev/null").await;
    assert_eq!(shell.out("history").await, "");
    // What the user puts there himself stays.
    shell.out("history -s mine").await;
    assert_eq!(shell.out("history").await.trim(), "1  mine");
}

/// PWD is a variable like any other.
#[tokio::test]
async fn the_directory_of_a_session_is_where_its_shell_is() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    let link = tempfile::tempdir().unwrap();
    let link = link.path().join("link");
    std::os::unix::fs::symlink("/usr", &link).unwrap();
    let link = link.display().to_string();
    for (command, cwd) in [
        ("cd /usr; PWD=/etc", "/usr"),
        ("cd /usr; PWD=", "/usr"),
        ("cd /usr; PWD=nonsense", "/usr"),
        (&format!("cd {link}"), link.as_str()),
    ] {
        assert_eq!(shell.run(command).await.cwd, cwd, "{command}");
    }
}
