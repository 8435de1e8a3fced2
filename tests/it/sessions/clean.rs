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
