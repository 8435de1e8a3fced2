//! A session's life: spec, fork, processes from its state, limits in time, figures.

use std::path::Path;
use std::time::{Duration, Instant};

use sandshell_client::Client;
use sandshell_client::types::{
    ErrorCode, ForkRequest, ProcessRequest, SessionExecRequest, SessionPatch, SessionRequest,
    SessionState, StreamName,
};
use sandshell_testkit::{Agent, alive_with_marker, wait_for_exit_of};

use crate::calls::{
    DEADLINE, Shell, code_of, env, exec, follow, in_time, marker, process_of, skipped, start, text,
    wait_for_exit,
};

#[tokio::test]
async fn a_fork_has_the_state_and_goes_its_own_way() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    shell
        .out("a=1; l=(x 'y z'); declare -A m=([k]=v); f() { echo f; }; alias n=:; cd /usr; set -- p q; set -f; umask 077")
        .await;
    let show = "declare -p a l m; f; alias n; pwd; echo \"$@\" $-; umask";
    let before = shell.out(show).await;
    let request = ForkRequest {
        id: Some("copy".parse().unwrap()),
    };
    let copy = in_time(shell.client.fork_session(&shell.id, &request))
        .await
        .unwrap();
    assert_eq!((copy.id.as_str(), copy.cwd.as_str()), ("copy", "/usr"));
    let copy = Shell {
        client: agent.client(),
        id: copy.id,
    };
    assert_eq!(copy.out(show).await, before);
    copy.out("a=2; cd /tmp; f() { echo g; }").await;
    assert_eq!(shell.out(show).await, before);
    shell.client.delete_session(&shell.id).await.unwrap();
    assert_eq!(copy.out("echo $a; pwd; f").await, "2\n/tmp\ng\n");
}

#[tokio::test]
async fn a_fork_of_a_busy_session_has_the_state_before_its_command() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    shell.out("a=before").await;
    let running = shell.go("a=within; sleep 1000").await;
    let copy = in_time(
        shell
            .client
            .fork_session(&shell.id, &ForkRequest::default()),
    )
    .await
    .unwrap();
    let copy = Shell {
        client: agent.client(),
        id: copy.id,
    };
    assert_eq!(copy.out("echo $a").await, "before\n");
    in_time(shell.client.interrupt_session(&shell.id))
        .await
        .unwrap();
    drop(running);
    assert_eq!(shell.out("echo $a").await, "within\n");
}

#[tokio::test]
async fn a_process_starts_from_a_sessions_state_and_writes_nothing_back() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    shell.out("plain=p; export A=a; f() { echo \"f $1\"; }; cd /usr; l=(1 2); set -- x y; shopt -s nullglob").await;
    let command = "echo $plain $A ${l[1]} $#; f arg; pwd; shopt -q nullglob && echo glob; plain=changed; cd /tmp";
    let request = ProcessRequest {
        session: Some(shell.id.clone()),
        ..process_of(command)
    };
    let id = start(&shell.client, &request).await;
    let output = follow(&shell.client, &id, StreamName::Stdout).await;
    assert_eq!(
        String::from_utf8(output).unwrap(),
        "p a 2 2\nf arg\n/usr\nglob\n"
    );
    assert_eq!(
        wait_for_exit(&shell.client, &id).await.process.exit_code,
        Some(0)
    );
    assert_eq!(shell.out("echo $plain; pwd").await, "p\n/usr\n");
    // Its own environment and directory come on top.
    let request = ProcessRequest {
        cwd: Some("/etc".to_owned()),
        env: env(&[("A", Some("own")), ("plain", None)]),
        session: Some(shell.id.clone()),
        ..process_of("echo $A ${plain-unset}; pwd; exit 5")
    };
    let id = start(&shell.client, &request).await;
    assert_eq!(
        follow(&shell.client, &id, StreamName::Stdout).await,
        b"own unset\n/etc\n"
    );
    let record = wait_for_exit(&shell.client, &id).await.process;
    assert_eq!(
        (record.exit_code, record.session),
        (Some(5), Some(shell.id.clone()))
    );
    let filter = sandshell_client::ProcessFilter {
        session: Some(shell.id.clone()),
        ..Default::default()
    };
    assert_eq!(
        shell
            .client
            .list_processes(&filter)
            .await
            .unwrap()
            .items
            .len(),
        2
    );
    let request = ProcessRequest {
        session: Some("nobody".parse().unwrap()),
        ..process_of("true")
    };
    assert_eq!(
        code_of(shell.client.create_process(&request).await),
        ErrorCode::SessionNotFound
    );
}

/// Waits for the end of a session's shell, then for the word of the session.
async fn ends(client: &Client, shell: &Shell, pid: i32) {
    assert!(wait_for_exit_of(pid, DEADLINE), "the shell still runs");
    let refused = in_time(client.session_exec(&shell.id, &text("echo still here"))).await;
    assert_eq!(code_of(refused), ErrorCode::SessionEnded);
    assert_eq!(
        client.session(&shell.id).await.unwrap().state,
        SessionState::Ended
    );
}

/// The shell's pid as seen from outside.
fn outside(marker: &str) -> i32 {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let found = alive_with_marker(marker);
        if let [pid] = found[..] {
            return pid;
        }
        // In the middle of its exec a process has no environment.
        assert!(found.is_empty() && Instant::now() < deadline, "{found:?}");
    }
}

#[tokio::test]
async fn an_idle_session_ends_after_its_idle_timeout() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    let gate = agent.work_dir().join("gate");
    shell.out(&format!("mkfifo {}", gate.display())).await;
    let marker = marker();
    let command = format!(
        "MARKER={marker} setsid bash -c 'echo up; exec sleep 1000' & read x <{}; echo worked",
        gate.display()
    );
    let mut running = shell.go(&command).await;
    let (events, heard) = (&mut running.events, &mut running.heard);
    heard.until_stdout_has(events, "up\n").await;
    let pid = outside(&marker);
    let patch = SessionPatch {
        idle_timeout_ms: Some(300),
        ..Default::default()
    };
    in_time(shell.client.patch_session(&shell.id, &patch))
        .await
        .unwrap();
    // A command longer than the idle timeout is not idleness.
    tokio::time::sleep(Duration::from_millis(500)).await;
    std::fs::write(gate, "x\n").unwrap();
    heard.until_the_end(events).await;
    assert_eq!(heard.stdout, b"go\nup\nworked\n");
    let client = shell.client.clone();
    ends(&client, &shell, pid).await;
}

/// A session that ended while this command ran, by its lifetime.
async fn outlived(agent: &Agent, command: &str) -> Shell {
    // The lifetime counts from the making of the session: a machine that stands still may use it up before
    // the command has begun.
    for lifetime in [400, 4000, 40_000] {
        let request = SessionRequest {
            max_lifetime_ms: Some(lifetime),
            ..Default::default()
        };
        let shell = Shell::with(agent, &request).await;
        let command = text(&format!("echo begun; {command}"));
        let result = match in_time(shell.client.session_exec(&shell.id, &command)).await {
            Ok(result) => result,
            Err(error) => {
                assert_eq!(error.code(), Some(ErrorCode::SessionEnded), "{error}");
                continue;
            }
        };
        assert_eq!(result.session_state, "ended", "{result:?}");
        if result.stdout == "begun\n" {
            return shell;
        }
        assert_eq!(result.stdout, "");
    }
    panic!("no command began within the lifetime of its session");
}

#[tokio::test]
async fn a_session_ends_at_its_maximum_lifetime_even_when_busy() {
    let agent = Agent::start();
    let marker = marker();
    let shell = outlived(&agent, &format!("MARKER={marker} sleep 1000")).await;
    let refused = shell.client.session_exec(&shell.id, &text("true")).await;
    let error = refused.expect_err("it has ended");
    assert_eq!(
        (error.status(), error.code()),
        (Some(410), Some(ErrorCode::SessionEnded))
    );
    assert!(
        error.problem().unwrap().detail.contains("lifetime"),
        "{error}"
    );
    let left = sandshell_testkit::wait_until_gone(&marker, DEADLINE);
    assert_eq!(left, Vec::<i32>::new());
    assert_eq!(shell.record().await.state, SessionState::Ended);
}

#[tokio::test]
async fn a_patch_changes_environment_and_limits() {
    let agent = Agent::start();
    let shell = Shell::with(
        &agent,
        &SessionRequest {
            env: env(&[("OLD", Some("o"))]),
            ..Default::default()
        },
    )
    .await;
    let patch = SessionPatch {
        env: env(&[("NEW", Some("it's")), ("OLD", None)]),
        ..Default::default()
    };
    in_time(shell.client.patch_session(&shell.id, &patch))
        .await
        .unwrap();
    assert_eq!(
        shell
            .out("env | grep -c -e ^NEW=it -e ^OLD=; echo ${OLD-unset}")
            .await,
        "1\nunset\n"
    );
    // Commands that are to end by themselves get a time that no machine stands still for.
    for (timeout_ms, command, timed_out) in
        [(150, "sleep 1000", true), (600_000, "sleep 0.2", false)]
    {
        let patch = SessionPatch {
            timeout_ms: Some(timeout_ms),
            ..Default::default()
        };
        in_time(shell.client.patch_session(&shell.id, &patch))
            .await
            .unwrap();
        assert_eq!(shell.run(command).await.timed_out, timed_out);
    }
    // While a command runs, the change waits for its end.
    let patch = SessionPatch {
        env: env(&[("NEW", Some("later"))]),
        ..Default::default()
    };
    let running = shell.go("sleep 0.05; echo $NEW").await;
    in_time(shell.client.patch_session(&shell.id, &patch))
        .await
        .unwrap();
    assert_eq!(shell.result(&running).await.stdout, "go\nit's\n");
    assert_eq!(shell.out("echo $NEW").await, "later\n");
    // And it survives the shell.
    shell.run("kill -9 $$").await;
    assert_eq!(shell.out("echo $NEW").await, "later\n");
    let patch = SessionPatch {
        idle_timeout_ms: Some(100),
        ..Default::default()
    };
    let marker = marker();
    shell
        .out(&format!("MARKER={marker} setsid sleep 1000 &"))
        .await;
    in_time(shell.client.patch_session(&shell.id, &patch))
        .await
        .unwrap();
    let left = sandshell_testkit::wait_until_gone(&marker, DEADLINE);
    assert_eq!(left, Vec::<i32>::new());
}

#[tokio::test]
async fn a_stuck_session_can_be_understood_by_its_figures() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    let marker = marker();
    let idle = shell.record().await;
    assert_eq!(idle.foreground, None);
    assert_eq!(idle.stats.as_ref().unwrap().processes, 1);
    assert!(idle.stats.unwrap().memory_bytes > 500_000);
    shell.out("sleep 1000 & :").await;
    let running = shell
        .go(&format!(
            "bash -c 'echo up; read x < <(sleep 1000)' {marker}"
        ))
        .await;
    let mut running = running;
    running
        .heard
        .until_stdout_has(&mut running.events, "up\n")
        .await;
    let record = shell.record().await;
    assert_eq!(record.state, SessionState::Busy);
    let foreground = record.foreground.unwrap();
    assert_eq!(foreground.command, running.request.command);
    assert_eq!(Some(foreground.command_id), running.request.id);
    let named: Vec<_> = foreground
        .processes
        .iter()
        .filter(|p| p.command.contains(&marker))
        .collect();
    assert!(!named.is_empty(), "{:?}", foreground.processes);
    assert!(["S", "R", "D"].contains(&named[0].state.as_str()));
    let stats = record.stats.unwrap();
    assert!(stats.processes >= 3, "{stats:?}");
    assert_eq!(stats.commands, 2);
    in_time(shell.client.interrupt_session(&shell.id))
        .await
        .unwrap();
    let before = shell.record().await.stats.unwrap().cpu_ms;
    shell
        .out("for ((i = 0; i < 200000; i++)); do :; done")
        .await;
    assert!(shell.record().await.stats.unwrap().cpu_ms > before + 20);
}

#[tokio::test]
async fn figures_do_not_need_a_cgroup() {
    let agent = Agent::builder()
        .args(["--without", "cgroup,pid-namespace"])
        .start();
    let shell = Shell::new(&agent).await;
    shell
        .out("sleep 1000 & setsid sleep 1000 & for ((i = 0; i < 200000; i++)); do :; done")
        .await;
    let stats = shell.record().await.stats.unwrap();
    assert_eq!(stats.processes, 3, "{stats:?}");
    assert!(
        stats.memory_bytes > 1_000_000 && stats.cpu_ms > 20,
        "{stats:?}"
    );
}

#[tokio::test]
async fn a_posix_shell_serves_too_and_says_what_is_lost() {
    let agent = Agent::start();
    let request = SessionRequest {
        shell: Some("/bin/sh".to_owned()),
        ..Default::default()
    };
    let shell = Shell::with(&agent, &request).await;
    let record = shell.record().await;
    assert!(!record.degraded.is_empty());
    assert_eq!(
        shell
            .out("v=1; f() { echo f$v; }; cd /usr; export E=e")
            .await,
        ""
    );
    assert_eq!(shell.out("f; pwd").await, "f1\n/usr\n");
    let result = shell.run("printf 'a\\0b'; echo err >&2; (exit 4)").await;
    assert_eq!(
        (
            result.stdout.as_str(),
            result.stderr.as_str(),
            result.exit_code
        ),
        ("a\0b", "err\n", 4)
    );
    let running = shell.go("sleep 1000").await;
    in_time(shell.client.interrupt_session(&shell.id))
        .await
        .unwrap();
    let result = shell.result(&running).await;
    assert!(result.interrupted && result.exit_code > 128, "{result:?}");
    assert_eq!(shell.out("pwd; echo $E").await, "/usr\ne\n");
    assert_eq!(shell.run("exit 3").await.exit_code, 3);
    assert_eq!(shell.out("pwd; echo $E").await, "/usr\ne\n");
}

/// The shells of other systems that are here, by the name that makes them a POSIX shell.
fn posix_shells(agent: &Agent) -> Vec<String> {
    let mut shells = vec!["/bin/sh".to_owned()];
    match ["/bin/busybox", "/usr/bin/busybox"]
        .map(Path::new)
        .into_iter()
        .find(|path| path.exists())
    {
        Some(busybox) => {
            let link = agent.work_dir().join("sh");
            std::os::unix::fs::symlink(busybox, &link).unwrap();
            shells.push(link.display().to_string());
        }
        None => skipped("there is no busybox"),
    }
    shells
}

/// They read their script in blocks, so everything is read while they wait for a child.
#[tokio::test]
async fn a_posix_shell_that_waits_for_a_child_is_not_taken_for_one_that_lost_its_completion() {
    let agent = Agent::start();
    for path in posix_shells(&agent) {
        let request = SessionRequest {
            shell: Some(path.clone()),
            ..Default::default()
        };
        let shell = Shell::with(&agent, &request).await;
        shell.out("v=1").await;
        for command in [
            "sleep 1; echo done",
            "y=$(sleep 1; echo done); echo $y",
            "sleep 1 | cat; echo done",
            "sleep 1 & wait; echo done",
        ] {
            let result = shell.run(command).await;
            assert_eq!(
                (result.stdout.as_str(), result.session_state.as_str()),
                ("done\n", "kept"),
                "{path}: {command}: {result:?}"
            );
        }
        assert_eq!(shell.out("echo $v").await, "1\n", "{path}");
        // One that does wait for its next line is still found, also after it has waited for a child.
        for command in ["set -n", "sleep 1; set -n"] {
            let lost = shell.run(command).await;
            assert_eq!(
                (lost.exit_code, lost.session_state.as_str()),
                (137, "restored_before"),
                "{path}: {command}: {lost:?}"
            );
            assert_eq!(shell.out("echo next").await, "next\n", "{path}");
        }
        let unclosed = shell.run("echo 'unclosed").await;
        assert_eq!(unclosed.exit_code, 2, "{path}: {unclosed:?}");
        assert!(
            unclosed.stderr.contains("nterminated quoted string"),
            "{path}: {unclosed:?}"
        );
        assert_eq!(shell.out("echo next").await, "next\n", "{path}");
    }
}

#[tokio::test]
async fn what_a_trap_on_exit_says_in_a_posix_shell_is_output() {
    let agent = Agent::start();
    for path in posix_shells(&agent) {
        let request = SessionRequest {
            shell: Some(path.clone()),
            ..Default::default()
        };
        let shell = Shell::with(&agent, &request).await;
        let result = shell
            .run("trap 'echo bye; echo err >&2' EXIT; echo out; exit 2")
            .await;
        assert_eq!(
            (
                result.stdout.as_str(),
                result.stderr.as_str(),
                result.exit_code
            ),
            ("out\nbye\n", "err\n", 2),
            "{path}"
        );
        // The streams are the command's own, and its status reaches the next.
        let request = SessionExecRequest {
            stdin: Some("in".into()),
            ..text("cat; exec >/dev/null; echo hidden; (exit 3)")
        };
        assert_eq!(shell.ask(&request).await.stdout, "in", "{path}");
        assert_eq!(shell.out("echo $?; cat").await, "3\n", "{path}");
    }
}

/// A shell that does not answer while it is prepared ran nothing of the command: another one takes over, and
/// nothing that the first was told comes true later.
#[tokio::test]
async fn a_shell_that_stands_still_before_a_command_is_replaced() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    let pid = shell.out("v=kept; cd /usr; echo $$").await;
    // The state is saved after the answer; a fork is given what was saved, and so waits for that.
    let fork = ForkRequest::default();
    let forked = shell.client.fork_session(&shell.id, &fork);
    in_time(forked).await.unwrap();
    exec(&agent.client(), &format!("kill -STOP {pid}")).await;
    let request = SessionExecRequest {
        cwd: Some("/tmp".to_owned()),
        ..text("pwd; echo $v")
    };
    assert_eq!(shell.ask(&request).await.stdout, "/tmp\nkept\n");
    let after = shell.out("pwd; echo $v $OLDPWD; echo $$").await;
    let lines: Vec<&str> = after.lines().collect();
    assert_eq!(lines[0], "/usr");
    assert!(lines[1].starts_with("kept"), "{after}");
    assert_ne!(lines[2], pid.trim());
}
