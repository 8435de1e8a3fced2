//! Promise 4: a timeout or an interrupt ends the command and keeps the shell and its state.

use sandshell_client::types::{CommandState, SessionExecRequest, SessionExecResult, SessionState};
use sandshell_testkit::{Agent, alive_with_marker};

use crate::calls::{RunningCommand, Shell, exec, in_time, marker, text};

/// State that every test checks to be still there.
const MAKE_STATE: &str =
    "v=kept; f() { echo function; }; cd /usr; set -o pipefail; shopt -s nullglob";
/// The last line is the shell's signal mask: unwinding out of a wait leaves signals blocked.
const SHOW_STATE: &str =
    "echo $v; f; pwd; shopt -o pipefail; shopt nullglob; trap -p DEBUG; echo $-
while read -r name mask; do case $name in SigBlk:) echo \"$mask\";; esac; done </proc/$$/status";

struct Kept {
    shell: Shell,
    pid: i32,
    shown: String,
}

impl Kept {
    async fn new(agent: &Agent) -> Self {
        let shell = Shell::new(agent).await;
        shell.out(MAKE_STATE).await;
        let shown = shell.out(SHOW_STATE).await;
        assert!(shown.starts_with("kept\nfunction\n/usr\n"), "{shown}");
        assert!(shown.ends_with("\n0000000000000000\n"), "{shown}");
        let pid = shell.record().await.pid;
        Self { shell, pid, shown }
    }

    /// The same shell goes on with the same state.
    async fn check(&self, after: &str) {
        assert_eq!(
            self.shell.out(SHOW_STATE).await,
            self.shown,
            "after {after}"
        );
        let record = self.shell.record().await;
        assert_eq!(
            (record.pid, record.restores),
            (self.pid, 0),
            "after {after}"
        );
        assert_eq!(record.state, SessionState::Idle);
    }

    /// Interrupts a command when it has written what says that it is ready. Where processes have to
    /// wait for a processor the next stage is reached too soon: such a round shows nothing of it.
    async fn interrupt(&self, command: &str, ready: &[&str], method: &[&str]) {
        let mut seen = Vec::new();
        while seen.len() < 10 {
            let mut running = self.shell.go(command).await;
            for text in ready {
                let heard = running.heard.until_stdout_has(&mut running.events, text);
                heard.await;
            }
            let used = self.interrupt_running(running, command).await;
            if method.contains(&used.as_str()) {
                return;
            }
            seen.push(used);
        }
        panic!("{command}: {seen:?} instead of {method:?}");
    }

    /// Interrupts a command that runs, and checks that it is over when the answer comes.
    async fn interrupt_running(&self, running: RunningCommand, command: &str) -> String {
        let reply = in_time(self.shell.client.interrupt_session(&self.shell.id))
            .await
            .unwrap();
        let id = running.request.id.clone().unwrap();
        let record = self
            .shell
            .client
            .command(&self.shell.id, &id)
            .await
            .unwrap();
        assert_eq!(
            record.state,
            CommandState::Done,
            "answered before the end: {command}"
        );
        assert_eq!(reply.command_id, Some(id));
        let stages = ["int", "term", "kill"];
        assert!(
            stages.contains(&reply.method.as_str()),
            "{command}: {}",
            reply.method
        );
        let result = self.shell.result(&running).await;
        assert!(
            result.interrupted && !result.timed_out,
            "{command}: {result:?}"
        );
        assert_eq!(
            (
                result.exit_code,
                result.stdout.as_bytes(),
                result.session_state.as_str()
            ),
            (130, running.heard.stdout.as_slice(), "kept"),
            "{command}: {result:?}"
        );
        self.check(command).await;
        reply.method
    }
}

#[tokio::test]
async fn an_interrupt_ends_every_kind_of_command_and_keeps_the_state() {
    let agent = Agent::start();
    let kept = Kept::new(&agent).await;
    for command in [
        "sleep 1000",
        "while :; do :; done",
        "sleep 1000 | cat | cat",
        "x=$(sleep 1000)",
        "g() { h; echo not here; }; h() { i; echo nor here; }; i() { while :; do :; done; }; g",
        "for i in 1 2 3; do sleep 1000; done; echo not here",
        "(while :; do :; done)",
        "eval 'eval \"sleep 1000; echo not here\"'",
        "read x < <(sleep 1000); echo not here",
        "sleep 1000 & wait; echo not here",
        "until false; do /bin/true; done",
        "cat <<<\"$(sleep 1000)\"",
        "{ sleep 1000; } 2>&1 | while read l; do :; done",
        "select x in a b; do :; done >/dev/null < <(sleep 1000)",
        "mapfile -t a < <(sleep 1000); echo not here",
        "exec 9< <(sleep 1000); read -u 9; echo not here",
        "setsid -w sleep 1000",
    ] {
        // A signal that meets a shell between fork and exec is lost on the child, and the next
        // stage follows; that is a matter of time, not of what is kept.
        kept.interrupt(command, &[], &["int", "term"]).await;
    }
}

#[tokio::test]
async fn an_interrupt_goes_further_when_children_resist() {
    let agent = Agent::start();
    let kept = Kept::new(&agent).await;
    for (command, method) in [
        (
            "bash -c \"trap '' INT; echo deaf; exec sleep 1000\"",
            "term",
        ),
        (
            "bash -c \"trap '' INT TERM; echo deaf; exec sleep 1000\"",
            "kill",
        ),
    ] {
        let marker = marker();
        let command = format!("MARKER={marker} {command}");
        kept.interrupt(&command, &["deaf\n"], &[method]).await;
        assert_eq!(alive_with_marker(&marker), Vec::<i32>::new(), "{command}");
    }
}

/// Bash ignores SIGQUIT for itself, so one that ignores SIGINT looks like what is started with `&`.
#[tokio::test]
async fn an_interrupt_ends_a_script_that_ignores_it_and_spares_the_background() {
    let agent = Agent::start();
    let kept = Kept::new(&agent).await;
    let loops = "bash -c \"trap '' INT; echo deaf; while :; do :; done\"";
    let waits = "bash -c \"trap '' INT; echo deaf; sleep 1000; echo on\"";
    for (foreground, ready, method) in [
        (loops, "deaf\n", "term"),
        (waits, "deaf\n", "term"),
        (&format!("{waits} | cat"), "deaf\n", "term"),
        (
            &format!("{{ {loops} >&3 | {loops} >&3; }} 3>&1"),
            "deaf\ndeaf\n",
            "kill",
        ),
        (
            "(trap '' INT; echo deaf; while :; do :; done)",
            "deaf\n",
            "term",
        ),
        (
            "bash -c \"trap '' INT TERM; echo deaf; exec sleep 1000\"",
            "deaf\n",
            "kill",
        ),
    ] {
        let (ended, spared) = (marker(), marker());
        let command = format!(
            "MARKER={spared} sleep 1000 & until grep -q ^sleep /proc/$!/cmdline; do :; done
            export MARKER={ended}; {foreground}"
        );
        kept.interrupt(&command, &[ready], &[method]).await;
        assert_eq!(alive_with_marker(&ended), Vec::<i32>::new(), "{foreground}");
        assert_eq!(alive_with_marker(&spared).len(), 1, "{foreground}");
    }
}

#[tokio::test]
async fn an_interrupt_ends_what_a_shell_that_came_back_has_left() {
    let agent = Agent::start();
    let kept = Kept::new(&agent).await;
    // Its parent may not have got to waiting for it by its first word.
    let deaf = "until grep -q '^State:.S' /proc/\\$PPID/status; do :; done; echo deaf >&3";
    for (traps, then, method) in [
        ("trap '' INT", "exec sleep 1000", "term"),
        ("trap '' INT", "while :; do :; done", "term"),
        ("trap '' INT TERM", "sleep 1000; sleep 1000", "kill"),
        // It goes on to the next after each, and that gets the second SIGINT.
        ("trap : INT", "sleep 1000; sleep 1000", "int"),
    ] {
        for around in ["x=$(_)", "x=$(_; :)", "read x < <(_)"] {
            let marker = marker();
            let child = format!("MARKER={marker} bash -c \"{traps}; {deaf}; {then}\"");
            let command = format!("{{ {}; }} 3>&1", around.replace('_', &child));
            kept.interrupt(&command, &["deaf\n"], &[method]).await;
            assert_eq!(alive_with_marker(&marker), Vec::<i32>::new(), "{command}");
        }
    }
}

#[tokio::test]
async fn an_interrupt_spares_what_earlier_commands_have_left_though_it_heeds_interrupts() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    let (marker, ready) = (
        marker(),
        agent.work_dir().join("ready").display().to_string(),
    );
    let heeds =
        "import signal; signal.signal(2, signal.SIG_DFL); print(1, flush=True); signal.pause()";
    shell
        .out(&format!(
            "MARKER={marker} python3 -c '{heeds}' >{ready} & until [ -s {ready} ]; do :; done"
        ))
        .await;
    for command in ["sleep 1000", "bash -c \"trap '' INT; exec sleep 1000\""] {
        let running = shell.go(command).await;
        in_time(shell.client.interrupt_session(&shell.id))
            .await
            .unwrap();
        assert_eq!(shell.result(&running).await.exit_code, 130, "{command}");
        assert_eq!(alive_with_marker(&marker).len(), 1, "{command}");
    }
}

#[tokio::test]
async fn an_interrupt_ends_a_stopped_child_too() {
    let agent = Agent::start();
    let kept = Kept::new(&agent).await;
    let (marker, command) = (marker(), "bash -c 'kill -STOP $$; sleep 1000'");
    let running = kept.shell.go(&format!("MARKER={marker} {command}")).await;
    let is_stopped = async || {
        let foreground = kept.shell.record().await.foreground;
        foreground.is_some_and(|info| info.processes.iter().any(|child| child.state == "T"))
    };
    in_time(async { while !is_stopped().await {} }).await;
    kept.interrupt_running(running, command).await;
    assert_eq!(alive_with_marker(&marker), Vec::<i32>::new());
}

#[tokio::test]
async fn a_hundred_interrupts_in_a_row_leave_the_state_alone() {
    let agent = Agent::start();
    let kept = Kept::new(&agent).await;
    for round in 0..20 {
        for command in [
            "sleep 1000",
            "while :; do :; done",
            "sleep 1000|cat",
            "x=$(sleep 1000)",
            "g() { h; }; h() { while :; do :; done; }; g",
        ] {
            let running = kept.shell.go(command).await;
            let reply = in_time(kept.shell.client.interrupt_session(&kept.shell.id))
                .await
                .unwrap();
            let result = kept.shell.result(&running).await;
            assert_eq!(
                result.exit_code, 130,
                "{command} in round {round}: {reply:?}"
            );
            assert_eq!(
                kept.shell.out("echo $v").await,
                "kept\n",
                "{command} in round {round}"
            );
        }
    }
    kept.check("a hundred interrupts").await;
}

#[tokio::test]
async fn an_interrupt_spares_background_children() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    let marker = marker();
    // Until its exec the child has neither the marker nor its signals settled.
    let command = "child=$!; until grep -q ^sleep /proc/$child/cmdline; do :; done";
    shell
        .out(&format!("MARKER={marker} sleep 1000 & {command}"))
        .await;
    let running = shell.go("sleep 1000").await;
    in_time(shell.client.interrupt_session(&shell.id))
        .await
        .unwrap();
    assert_eq!(shell.result(&running).await.exit_code, 130);
    assert_eq!(alive_with_marker(&marker).len(), 1);
    assert_eq!(
        shell.out("kill $child; wait $child; echo $?").await,
        "143\n"
    );
}

/// With job control a child does not ignore SIGINT, so nothing but its parent tells whose it is.
#[tokio::test]
async fn an_interrupt_reaches_what_loses_its_parent_by_it_and_spares_earlier_orphans() {
    let agent = Agent::start();
    let kept = Kept::new(&agent).await;
    let daemon = marker();
    kept.shell
        .out(&format!(
            "MARKER={daemon} bash -c 'set -m; sleep 1000 >/dev/null 2>&1 & until grep -q ^sleep /proc/$!/cmdline; do :; done'"
        ))
        .await;
    let orphan = marker();
    let command = format!(
        "{{ MARKER={orphan} bash -c 'set -m; trap \"sleep 1000 & exit\" INT; echo one >&3; while :; do :; done' |
            bash -c 'trap \"\" INT; echo two >&3; exec cat'; }} 3>&1"
    );
    kept.interrupt(&command, &["one\n", "two\n"], &["int", "term"])
        .await;
    assert_eq!(alive_with_marker(&orphan), Vec::<i32>::new());
    assert_eq!(alive_with_marker(&daemon).len(), 1);
}

#[tokio::test]
async fn the_users_own_interrupt_trap_stays_and_the_command_ends() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    shell.out("trap 'echo mine' INT; v=1").await;
    let trap = shell.out("trap -p INT").await;
    for command in ["sleep 1000", "while :; do :; done"] {
        let running = shell.go(command).await;
        let reply = in_time(shell.client.interrupt_session(&shell.id))
            .await
            .unwrap();
        assert_ne!(reply.method, "shell_killed", "{command}");
        let result = shell.result(&running).await;
        assert_eq!(
            (result.exit_code, result.session_state.as_str()),
            (130, "kept"),
            "{command}"
        );
        assert_eq!(
            shell.out("trap -p INT; echo $v").await,
            format!("{trap}1\n"),
            "{command}"
        );
    }
    // The trap itself works as in plain bash.
    assert_eq!(shell.out("kill -INT $$; echo after").await, "mine\nafter\n");
}

#[tokio::test]
async fn options_and_a_debug_trap_of_the_user_survive_an_interrupt() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    shell.out("set -e; set -T; trap ': debug' DEBUG").await;
    let before = shell.out("trap -p DEBUG; echo $-").await;
    assert!(
        before.contains("debug") && before.contains('e') && before.contains('T'),
        "{before}"
    );
    for command in ["sleep 1000", "f() { while :; do :; done; }; f"] {
        let running = shell.go(command).await;
        in_time(shell.client.interrupt_session(&shell.id))
            .await
            .unwrap();
        let result = shell.result(&running).await;
        assert_eq!(
            (result.exit_code, result.session_state.as_str()),
            (130, "kept"),
            "{command}"
        );
        assert_eq!(
            shell.out("trap -p DEBUG; echo $-").await,
            before,
            "{command}"
        );
    }
}

#[tokio::test]
async fn an_interrupt_of_an_idle_session_says_that_there_was_nothing() {
    let agent = Agent::start();
    let kept = Kept::new(&agent).await;
    let reply = in_time(kept.shell.client.interrupt_session(&kept.shell.id))
        .await
        .unwrap();
    assert_eq!((reply.command_id, reply.method.as_str()), (None, "none"));
    kept.check("an idle interrupt").await;
    assert_eq!(kept.shell.run("false").await.exit_code, 1);
    in_time(kept.shell.client.interrupt_session(&kept.shell.id))
        .await
        .unwrap();
    assert_eq!(kept.shell.out("echo $?").await, "1\n");
}

/// The result of a command that had written when its time was over, and that time.
async fn timed_out_after_its_output(shell: &Shell, command: &str) -> (SessionExecResult, u64) {
    // On a machine that stands still the time may be over before the first word.
    for timeout in [150, 3000, 30_000] {
        let request = SessionExecRequest {
            timeout_ms: Some(timeout),
            ..text(&format!("w=new; echo out; echo err >&2; {command}"))
        };
        let result = shell.ask(&request).await;
        assert!(result.timed_out, "{result:?}");
        if !result.stderr.is_empty() {
            return (result, timeout);
        }
    }
    panic!("{command}: nothing was written in time");
}

#[tokio::test]
async fn a_timeout_keeps_shell_and_state_and_returns_what_there_was() {
    let agent = Agent::start();
    let kept = Kept::new(&agent).await;
    for command in [
        "sleep 1000",
        "while :; do :; done",
        "x=$(sleep 1000)",
        "sleep 1000 | cat",
    ] {
        let (result, timeout) = timed_out_after_its_output(&kept.shell, command).await;
        assert!(result.timed_out && !result.interrupted, "{result:?}");
        assert_eq!(
            (result.stdout.as_str(), result.stderr.as_str()),
            ("out\n", "err\n")
        );
        assert_eq!(
            (result.exit_code, result.session_state.as_str()),
            (130, "kept"),
            "{command}"
        );
        assert!(result.duration_ms >= timeout, "{result:?}");
        assert_eq!(kept.shell.out("echo $w").await, "new\n");
        kept.check(command).await;
    }
}

#[tokio::test]
async fn a_timeout_keeps_the_state_though_a_script_ignores_interrupts() {
    let agent = Agent::start();
    let kept = Kept::new(&agent).await;
    for command in [
        "bash -c \"trap '' INT; sleep 1000; echo on\"",
        "x=$(bash -c \"trap '' INT; sleep 1000; echo on\")",
    ] {
        let marker = marker();
        let command = format!("export MARKER={marker}; {command}");
        let (result, _) = timed_out_after_its_output(&kept.shell, &command).await;
        assert_eq!(
            (result.exit_code, result.session_state.as_str()),
            (130, "kept"),
            "{result:?}"
        );
        assert_eq!(alive_with_marker(&marker), Vec::<i32>::new(), "{command}");
        kept.check(&command).await;
    }
}

#[tokio::test]
async fn a_timeout_of_the_session_holds_for_commands_without_their_own() {
    let agent = Agent::start();
    let request = sandshell_client::types::SessionRequest {
        timeout_ms: Some(100),
        ..Default::default()
    };
    let shell = Shell::with(&agent, &request).await;
    assert!(shell.run("sleep 1000").await.timed_out);
    let request = SessionExecRequest {
        timeout_ms: Some(600_000),
        ..text("sleep 0.2; echo done")
    };
    assert_eq!(shell.ask(&request).await.stdout, "done\n");
}

#[tokio::test]
async fn what_cannot_be_interrupted_costs_the_shell_and_is_said() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    let gate = agent.work_dir().join("gate").display().to_string();
    shell.out(&format!("mkfifo {gate}")).await;
    let mut early = 0;
    let running = loop {
        shell.out("v=before").await;
        // Bash expands this in one go and looks at no signal meanwhile.
        let command = format!("v=after; echo >{gate}; for i in {{1..99999999}}; do :; done");
        let running = shell.go(&command).await;
        exec(&shell.client, &format!("cat {gate}")).await;
        let reply = in_time(shell.client.interrupt_session(&shell.id))
            .await
            .unwrap();
        if reply.method == "shell_killed" {
            break running;
        }
        // A signal, of whatever stage, may still come before it has begun to.
        early += 1;
        assert!(early <= 20, "{}", reply.method);
    };
    let result = shell.result(&running).await;
    assert!(result.interrupted);
    assert_eq!(
        (
            result.exit_code,
            result.signal.as_deref(),
            result.session_state.as_str()
        ),
        (137, Some("SIGKILL"), "restored_before")
    );
    assert_eq!(shell.out("echo $v").await, "before\n");
}
