//! Promise 6: what a session survives, and with which state.

use sandshell_client::types::{ForkRequest, SessionExecRequest, StreamName};
use sandshell_testkit::Agent;

use crate::calls::{Shell, in_time, plain_bash, text};

/// Everything the promise names, set in one go.
const STATE: &str = r#"
plain='a "quoted" $value
with lines'; export exported='e  e'; declare -i number=42; declare -r constant=fixed
list=(one 'two words' '' [7]=seven); declare -A map=([key]=value ['odd key']=$'tab\there')
declare -x -r both=1; declare -l lower=ABC; empty=; unset unset_one
f() { local x=$1; echo "f: $x"; }; g() { f "$@" | cat; }; export -f g
alias ll='ls -l' q="echo 'quoted'"
set -o pipefail -o noclobber +o braceexpand; shopt -s nullglob expand_aliases; shopt -u sourcepath
trap 'echo usr1' USR1; trap "echo 'it'\''s term'" TERM; trap '' HUP
umask 027; cd /usr; pushd /tmp >/dev/null; pushd /etc >/dev/null
set -- p1 'p 2' ''; IFS=:; bytes=$'\xff\xfe\x80'; nl=$'a\nb'; OPTIND=3; PS4='> '; HISTSIZE=7
"#;

/// Shows it all in a stable form.
const SHOW: &str = r#"
declare -p plain exported number constant list map both lower empty bytes nl IFS OPTIND PS4 HISTSIZE 2>&1
declare -p unset_one 2>/dev/null; declare -f f g; declare -Fx; alias -p; set +o; shopt
trap -p USR1 TERM HUP; umask; pwd; echo $OLDPWD; dirs -v; printf '<%s>' "$@" $#; echo
bash -c 'g "from a child" 2>&1; env | grep -a ^exported=; umask'
"#;

async fn with_state(agent: &Agent) -> (Shell, String) {
    let shell = Shell::new(agent).await;
    let made = shell.run(STATE).await;
    assert_eq!((made.exit_code, made.stderr.as_str()), (0, ""), "{made:?}");
    let shown = shell.ask(&crate::calls::in_base64(SHOW)).await.stdout;
    (shell, shown)
}

fn decoded(text: &str) -> String {
    let bytes = sandshell_client::types::Encoded::decode(
        text,
        sandshell_client::types::TextEncoding::Base64,
    );
    String::from_utf8_lossy(&bytes.unwrap()).into_owned()
}

/// The lines that differ, for a readable failure.
fn difference(before: &str, after: &str) -> String {
    let (before, after) = (decoded(before), decoded(after));
    let lost = before
        .lines()
        .filter(|line| !after.lines().any(|other| other == *line));
    let added = after
        .lines()
        .filter(|line| !before.lines().any(|other| other == *line));
    lost.map(|line| format!("- {line}\n"))
        .chain(added.map(|line| format!("+ {line}\n")))
        .collect()
}

#[tokio::test]
async fn state_is_kept_from_command_to_command() {
    let agent = Agent::start();
    let (shell, shown) = with_state(&agent).await;
    let plain = plain_bash(&format!("{STATE}\n{SHOW}"));
    let ours = decoded(&shown);
    let theirs = String::from_utf8_lossy(&plain.stdout).into_owned();
    for line in theirs
        .lines()
        .filter(|line| line.contains("declare") || line.contains("trap"))
    {
        assert!(
            ours.lines().any(|other| other == line),
            "{line:?} is missing in {ours}"
        );
    }
    shell.run("true").await;
    let again = shell.ask(&crate::calls::in_base64(SHOW)).await.stdout;
    assert_eq!(again, shown, "{}", difference(&shown, &again));
}

#[tokio::test]
async fn everything_is_restored_after_every_kind_of_exit() {
    let agent = Agent::start();
    let mut wrong = Vec::new();
    for (command, code, after) in [
        ("exit 7", 7, "restored"),
        ("set -e; false; echo not here", 1, "restored"),
        ("set -u; echo $not_set; echo not here", 1, "restored"),
        // As in a sourced file; with `-c` it would be 127.
        (": ${not_set:?is missing}", 1, "restored"),
        ("f2() { exit 9; }; f2", 9, "restored"),
        ("exec true", 0, "restored_before"),
        ("exec /bin/sh -c 'exit 5'", 5, "restored_before"),
        ("kill -9 $$", 137, "restored_before"),
        ("trap 'echo my exit' EXIT; exit 6", 6, "restored_before"),
        ("kill -TERM $$; exit 8", 8, "restored"),
    ] {
        let (shell, shown) = with_state(&agent).await;
        let result = shell.run(command).await;
        let said = (
            result.exit_code,
            result.session_state.as_str(),
            result.cwd.as_str(),
        );
        if said != (code, after, "/etc") {
            wrong.push(format!("{command}: {said:?}, expected {code} and {after}"));
        }
        shell.run("set +eu; unset -f f2").await;
        let again = shell.ask(&crate::calls::in_base64(SHOW)).await.stdout;
        if again != shown {
            wrong.push(format!("after {command}:\n{}", difference(&shown, &again)));
        }
        assert_eq!(shell.record().await.restores, 1, "{command}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn errexit_does_not_stumble_over_the_status_of_the_command_before() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    shell.out("x=mine; set -e").await;
    // Not zero, and by the rules of `set -e` no reason to exit.
    for command in ["false && true", "! true", "if true; then false && true; fi"] {
        let result = shell.run(command).await;
        // The text is sourced, and `set -e` applies to the sourcing too, so the shell may go.
        // The session stays, with its state.
        assert_eq!(result.exit_code, 1, "{command}");
        assert_ne!(result.session_state, "ended", "{command}");
        let next = shell.run("echo $x; case $- in *e*) echo on;; esac").await;
        assert_eq!(
            (next.stdout.as_str(), next.session_state.as_str()),
            ("mine\non\n", "kept"),
            "{command}: {next:?}"
        );
    }
}

#[tokio::test]
async fn locals_of_a_function_that_exits_do_not_become_globals() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    shell.out("v=global; unset w").await;
    let result = shell
        .run("f() { local v=inner w=inner; new=1; exit 9; }; f")
        .await;
    assert_eq!(
        (result.exit_code, result.session_state.as_str()),
        (9, "restored")
    );
    assert_eq!(
        shell.out("echo $v ${w-unset} $new").await,
        "global unset 1\n"
    );
}

#[tokio::test]
async fn an_unterminated_substitution_does_not_cost_the_next_command() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    shell.out("x=mine").await;
    // bash 5.2 can abort some time after such a text; the session is restored unasked.
    for n in 0..10 {
        shell.run("echo $(unterminated").await;
        let next = shell.run(&format!("echo {n} $x")).await;
        assert_eq!((next.exit_code, next.stdout), (0, format!("{n} mine\n")));
    }
}

#[tokio::test]
async fn the_commands_own_changes_are_kept_too_when_it_exits_plainly() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    for command in [
        "cd /usr; v=new; h() { echo new; }; alias n=new; exit 3",
        "cd /usr; v=new; h() { echo new; }; alias n=new; set -e; false",
        "cd /usr; v=new; h() { echo new; }; alias n=new; set -u; : $not_set",
        "(exit 1); cd /usr; v=new; h() { echo new; }; alias n=new; : ${not_set?}",
    ] {
        shell
            .out("cd /; v=old; h() { echo old; }; unalias -a")
            .await;
        let result = shell.run(command).await;
        assert_eq!(
            (result.session_state.as_str(), result.cwd.as_str()),
            ("restored", "/usr"),
            "{command}: {result:?}"
        );
        shell.run("set +eu").await;
        assert_eq!(
            shell.out("pwd; echo $v; h; alias n").await,
            "/usr\nnew\nnew\nalias n='new'\n"
        );
    }
}

#[tokio::test]
async fn changes_of_a_command_that_was_killed_are_not_half_there() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    shell.out("v=before; cd /usr").await;
    for command in [
        "v=after; cd /tmp; kill -9 $$",
        "v=after; cd /tmp; exec true",
    ] {
        let result = shell.run(command).await;
        assert_eq!(
            (result.session_state.as_str(), result.cwd.as_str()),
            ("restored_before", "/usr")
        );
        assert_eq!(
            shell.out("echo $v; pwd").await,
            "before\n/usr\n",
            "{command}"
        );
    }
}

/// The answer comes before the state is saved, and these keep the shell from saving it.
#[tokio::test]
async fn a_state_lost_behind_an_answer_is_told_by_the_next_command() {
    let agent = Agent::start();
    for losing in [
        "ulimit -f 0; y=2",
        "set -r; y=2",
        "ulimit -f 1; printf -v y '%05000d' 0",
    ] {
        let shell = Shell::new(&agent).await;
        shell.out("x=1").await;
        assert_eq!(shell.run(losing).await.session_state, "kept", "{losing}");
        for (command, said, state) in [
            ("echo $x ${y-unset}; z=3", "1 unset\n", "restored_before"),
            ("echo $x ${y-unset} $z", "1 unset 3\n", "kept"),
        ] {
            let result = shell.run(command).await;
            assert_eq!(
                (result.stdout.as_str(), result.session_state.as_str()),
                (said, state),
                "{losing}: {result:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_shell_killed_while_idle_is_replaced() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    let gate = agent.work_dir().join("gate");
    let pid = shell.record().await.pid;
    // The killer waits until its command is over; the shell is replaced at once, so the pid was asked for before.
    shell
        .out(&format!(
            "v=kept; cd /usr; mkfifo {0}; (read x <{0}; kill -9 $$) >/dev/null 2>&1 &",
            gate.display()
        ))
        .await;
    // The state is saved behind the answer, and before the next command.
    shell.out("true").await;
    std::fs::write(gate, "x\n").unwrap();
    let result = loop {
        let result = shell.run("echo $v; pwd").await;
        if shell.record().await.pid != pid {
            break result;
        }
    };
    // The kill may have met this very command; then it says so and the next one is fine.
    if result.session_state == "kept" {
        assert_eq!(result.stdout, "kept\n/usr\n");
    }
    assert_eq!(shell.out("echo $v; pwd").await, "kept\n/usr\n");
}

#[tokio::test]
async fn mistakes_in_a_text_end_with_the_text() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    shell.out("v=kept").await;
    for command in [
        "echo 'unterminated",
        "echo \"unterminated",
        "if true; then",
        "}",
        "fi",
        "case x in",
        "echo a; )",
        "for",
        "f() {",
        "((1+))",
        "[[ a",
        "<<<",
        "&&",
        "${bad",
        "`",
    ] {
        let result = shell.run(command).await;
        assert_ne!(result.exit_code, 0, "{command}: {result:?}");
        assert_ne!(result.stderr, "", "{command}");
        assert_eq!(result.session_state, "kept", "{command}: {result:?}");
        let next = shell.run("echo $v").await;
        assert_eq!(
            (next.stdout.as_str(), next.exit_code),
            ("kept\n", 0),
            "after {command}: {next:?}"
        );
    }
    assert_eq!(shell.run("cat <<EOF\nno end").await.stdout, "no end\n");
    assert_eq!(shell.out("echo $v").await, "kept\n");
    for command in ["", " ", "\n\n", "# only a comment", "echo x \\"] {
        assert_eq!(shell.run(command).await.exit_code, 0, "{command:?}");
    }
    assert_eq!(shell.record().await.restores, 0);
}

#[tokio::test]
async fn the_exit_trap_of_the_user_runs_as_in_plain_bash() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    let command = "trap 'echo bye $?' EXIT; echo hello; exit 3";
    let plain = plain_bash(command);
    let result = shell.run(command).await;
    assert_eq!(result.stdout.as_bytes(), plain.stdout);
    assert_eq!(Some(result.exit_code), plain.status.code());
    // A subshell's own trap is not ours to care for.
    assert_eq!(shell.out("(trap 'echo sub' EXIT; exit 0)").await, "sub\n");
}

#[tokio::test]
async fn last_words_of_an_exiting_command_are_its_output() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    let gate = agent.work_dir().join("gate").display().to_string();
    shell.out(&format!("mkfifo {gate}")).await;
    let result = shell
        .run(&format!(
            "echo out; echo err >&2; (read x <{gate}; echo late) & exit 2"
        ))
        .await;
    assert_eq!(
        (result.stdout.as_str(), result.stderr.as_str()),
        ("out\n", "err\n")
    );
    assert!(result.left_running > 0, "{result:?}");
    assert_eq!(shell.out("echo next").await, "next\n");
    std::fs::write(&gate, "x\n").unwrap();
    assert_eq!(
        shell
            .follow(&result.command_id, StreamName::LateStdout)
            .await,
        b"late\n"
    );
}

#[tokio::test]
async fn redirections_by_exec_end_with_the_command() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    let file = agent.work_dir().join("out").display().to_string();
    shell.out(&format!("exec >{file} 2>&1; echo hidden")).await;
    assert_eq!(shell.out("echo shown").await, "shown\n");
    assert_eq!(shell.out(&format!("cat {file}")).await, "hidden\n");
    let result = shell.run("exec >&- 2>&-; echo nothing; true").await;
    assert_eq!(result.session_state, "kept", "{result:?}");
    assert_eq!(shell.out("echo shown").await, "shown\n");
    let request = SessionExecRequest {
        stdin: Some("in\n".into()),
        ..text("exec 0<&-; read x; echo $?")
    };
    let result = shell.ask(&request).await;
    assert_eq!(
        (result.stdout.as_str(), result.session_state.as_str()),
        ("1\n", "kept")
    );
    assert_eq!(shell.out("exec 7<<<kept; echo x").await, "x\n");
    assert_eq!(shell.out("cat <&7").await, "kept\n");
}

#[tokio::test]
async fn an_ifs_of_digits_does_not_split_our_own_words() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    for (command, code) in [
        ("IFS=0; true", 0),
        ("(exit 100)", 100),
        ("IFS=0123456789; (exit 130)", 130),
        ("IFS=e; (exit 22)", 22),
    ] {
        let result = shell.run(command).await;
        assert_eq!(
            (result.exit_code, result.session_state.as_str()),
            (code, "kept"),
            "{command}"
        );
    }
}

#[tokio::test]
async fn a_signal_a_command_sends_to_its_own_shell_does_not_poison_the_session() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    shell.out("x=mine").await;
    for command in [
        "kill -INT $$; echo s",
        "kill -RTMAX $$; echo s",
        "f() { kill -INT $$; }; f",
    ] {
        shell.run(command).await;
        assert_eq!(
            shell.out("echo after $x").await,
            "after mine\n",
            "{command}"
        );
    }
}

#[tokio::test]
async fn a_session_whose_trap_never_ends_can_be_deleted() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    let mut held = SessionExecRequest {
        command: "trap 'sleep 50' DEBUG".to_owned(),
        ..Default::default()
    };
    held.timeout_ms = Some(200);
    shell.client.session_exec(&shell.id, &held).await.unwrap();
    in_time(shell.client.delete_session(&shell.id))
        .await
        .unwrap();
}

/// bash takes seconds to list so many variables. That is not the time of the command after it, whose
/// timeout would cost the state, and a fork waits for it.
#[tokio::test]
async fn a_state_that_takes_long_to_save_is_waited_for() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    shell
        .out("for((i=0;i<20000;i++)); do declare -g v$i=$i; done; keep=1")
        .await;
    let request = SessionExecRequest {
        timeout_ms: Some(1000),
        ..text("echo keep=$keep v=$v19999")
    };
    let result = shell.ask(&request).await;
    assert_eq!(result.stdout, "keep=1 v=19999\n");
    assert!(!result.timed_out, "{result:?}");
    assert!(result.duration_ms < 1000, "{result:?}");
    shell.out("keep=2").await;
    let request = ForkRequest::default();
    let fork = in_time(shell.client.fork_session(&shell.id, &request)).await;
    let fork = Shell {
        client: agent.client(),
        id: fork.unwrap().id,
    };
    assert_eq!(fork.out("echo $keep $v19999").await, "2 19999\n");
}
