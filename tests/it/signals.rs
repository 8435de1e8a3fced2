//! What a program begins with: no signal ignored, none blocked. What is ignored when a program starts it ignores for
//! ever, and all that it starts.
//!
//! That is how plain bash begins on a machine; not always here, for it inherits what whoever runs the tests ignores.

use std::process::{Command, Stdio};

use sandshell_client::Client;
use sandshell_client::types::{
    ContextRequest, ExecRequest, GitCommitRequest, Language, Limits, RunRequest, SessionRequest,
    StreamName, TerminalRequest,
};
use sandshell_testkit::{Agent, Hub, UnprivilegedUser, find_binary};

use crate::calls::{exec, follow, in_time, process_of, skipped, start, text};
use crate::hub::sandbox;

/// Says it, and shows it.
const LOOK: &str =
    "grep -E '^Sig(Blk|Ign)' /proc/self/status; yes | head -n 1; echo ${PIPESTATUS[*]}";

/// What is to be seen.
const PLAIN: &str = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\ny\n141 0\n";

/// What holds a place.
#[expect(dead_code, reason = "held, not looked at")]
enum Keeper {
    Agent(Agent),
    Hub(Hub),
}

/// Every kind of init: of an agent, with keepers, started by `clone`, and of a sandbox of root's and of a user's.
async fn everywhere() -> Vec<(&'static str, Client, Keeper)> {
    let mut places = Vec::new();
    for (name, options) in [
        ("an agent", &[][..]),
        ("an agent without groups", &["--without", "cgroup"]),
        ("an agent without clone3", &["--without", "clone3"]),
        (
            "an agent without namespaces",
            &["--without", "pid-namespace"],
        ),
    ] {
        let agent = Agent::builder().args(options).start();
        places.push((name, agent.client(), Keeper::Agent(agent)));
    }
    let hub = Hub::start();
    let inside = sandbox(&hub.client(), "ours").await;
    places.push(("a sandbox", inside, Keeper::Hub(hub)));
    if let Some(user) = UnprivilegedUser::get() {
        let hub = Hub::of(user);
        let inside = sandbox(&hub.client(), "theirs").await;
        places.push(("a sandbox of a user's", inside, Keeper::Hub(hub)));
    }
    places
}

#[tokio::test]
async fn a_command_begins_as_with_plain_bash() {
    for (place, client, _keeper) in everywhere().await {
        assert_eq!(exec(&client, LOOK).await.stdout, PLAIN, "exec in {place}");
        let argv = ExecRequest {
            argv: Some(["bash", "-c", LOOK].map(str::to_owned).into()),
            ..ExecRequest::default()
        };
        let seen = in_time(client.exec(&argv)).await.unwrap().stdout;
        assert_eq!(seen, PLAIN, "argv in {place}");
        let limited = ExecRequest {
            limits: Some(Limits {
                pids: Some(16),
                ..Limits::default()
            }),
            ..argv
        };
        match in_time(client.exec(&limited)).await {
            Ok(seen) => assert_eq!(seen.stdout, PLAIN, "limited in {place}"),
            Err(error) => skipped(&format!("nothing is limited in {place}: {error}")),
        }
        let process = start(&client, &process_of(LOOK)).await;
        let seen = follow(&client, &process, StreamName::Stdout).await;
        assert_eq!(String::from_utf8_lossy(&seen), PLAIN, "process in {place}");
        for private_processes in [false, true] {
            let request = SessionRequest {
                private_processes,
                ..SessionRequest::default()
            };
            match in_time(client.create_session(&request)).await {
                Ok(session) => {
                    let look = text(LOOK);
                    let seen = in_time(client.session_exec(&session.id, &look))
                        .await
                        .unwrap();
                    let what = format!("session in {place}, private: {private_processes}");
                    assert_eq!(seen.stdout, PLAIN, "{what}");
                }
                Err(error) => skipped(&format!("no private tree in {place}: {error}")),
            }
        }
    }
}

#[tokio::test]
async fn a_program_on_a_terminal_or_behind_a_helper_begins_so_too() {
    for (place, client, _keeper) in everywhere().await {
        let dir = exec(&client, "mktemp -d").await.stdout;
        let dir = dir.trim();
        let told = exec(&client, &format!("mkfifo {dir}/told")).await;
        assert_eq!(told.exit_code, 0, "{told:?}");
        let terminal = TerminalRequest {
            command: Some(format!("{{ {LOOK}; }} >{dir}/told")),
            ..TerminalRequest::default()
        };
        in_time(client.create_terminal(&terminal)).await.unwrap();
        let seen = exec(&client, &format!("cat {dir}/told")).await.stdout;
        assert_eq!(seen, PLAIN, "terminal in {place}");

        let hook = format!(
            "git init -q {dir}/r && cd {dir}/r && git config user.name me && \
             git config user.email me@example.org && echo 1 >a && git add a && \
             printf '#!/bin/bash\\n{{ {}; }} >{dir}/hooked\\n' >.git/hooks/post-commit && \
             chmod +x .git/hooks/post-commit",
            LOOK.replace('\'', "\"")
        );
        let made = exec(&client, &hook).await;
        assert_eq!(made.exit_code, 0, "{made:?}");
        let commit = GitCommitRequest {
            path: Some(format!("{dir}/r")),
            message: "one".to_owned(),
            ..GitCommitRequest::default()
        };
        in_time(client.git_commit(&commit)).await.unwrap();
        let seen = exec(&client, &format!("cat {dir}/hooked")).await.stdout;
        assert_eq!(seen, PLAIN, "hook of git in {place}");
        exec(&client, &format!("rm -r {dir}")).await;
    }
}

/// Python itself ignores two.
#[tokio::test]
async fn an_interpreter_begins_as_it_does_by_itself() {
    let look =
        "print(*[line for line in open('/proc/self/status') if line[:6] in ('SigBlk', 'SigIgn')])";
    // SIGPIPE and SIGXFSZ.
    let plain = "SigBlk:\t0000000000000000\n SigIgn:\t0000000001001000\n\n";
    for (place, client, _keeper) in everywhere().await {
        let request = ContextRequest::new(Language::Python);
        let context = in_time(client.create_context(&request)).await.unwrap();
        let code = RunRequest {
            code: look.to_owned(),
            ..RunRequest::default()
        };
        let seen = in_time(client.run_code(&context.id, &code)).await.unwrap();
        assert_eq!(seen.stdout, plain, "{place}: {seen:?}");
    }
}

#[test]
fn a_command_of_a_sandbox_of_its_own_begins_so_too() {
    let dir = tempfile::tempdir().unwrap();
    let seen = Command::new(find_binary())
        .args(["run", "--", "bash", "-c", LOOK])
        .env("XDG_RUNTIME_DIR", dir.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&seen.stdout), PLAIN, "{seen:?}");
}
