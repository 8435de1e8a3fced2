//! What the model once found, each in its shortest form; where a moment decided, that moment made long.

use std::collections::BTreeMap;

use sandshell_client::Client;
use sandshell_client::types::{
    ErrorCode, ForkRequest, ProcessRequest, SessionId, SessionPatch, SessionRequest,
};
use sandshell_testkit::Agent;

use super::script::{Output, Writing};
use super::step::{At, Program, Step};
use super::{Place, run};
use crate::calls::{Shell, code_of, exec, exec_of, in_time};

/// A state that takes its time to be saved.
const LARGE: &str = "large=$(head -c 4000000 /dev/zero | tr '\\0' x); kept=yes";
const LOOK: &str = "echo ${#large} $kept";

fn start() -> Agent {
    Agent::builder().in_bubblewrap().start()
}

async fn signal_shell(client: &Client, id: &SessionId, signal: &str) {
    let pid = in_time(client.session(id)).await.unwrap().pid;
    let result = exec(client, &format!("kill -{signal} {pid}")).await;
    assert_eq!(result.exit_code, 0, "{result:?}");
}

/// The shell that had taken over had not saved the state it was given: everything was lost.
#[tokio::test]
async fn a_restored_shell_that_is_killed_at_once_loses_nothing() {
    let agent = start();
    let shell = Shell::new(&agent).await;
    shell.out(LARGE).await;
    assert_eq!(shell.run("exit 3").await.session_state, "restored");
    signal_shell(&shell.client, &shell.id, "KILL").await;
    assert_eq!(shell.out(LOOK).await, "4000000 yes\n");
}

/// The same for one that was forked.
#[tokio::test]
async fn a_fork_whose_shell_is_killed_at_once_keeps_its_state() {
    let agent = start();
    let shell = Shell::new(&agent).await;
    shell.out(LARGE).await;
    let request = ForkRequest::default();
    let forked = in_time(shell.client.fork_session(&shell.id, &request)).await;
    let id = forked.unwrap().id;
    signal_shell(&shell.client, &id, "KILL").await;
    let fork = Shell {
        client: shell.client.clone(),
        id,
    };
    assert_eq!(fork.out(LOOK).await, "4000000 yes\n");
}

/// A change that was promised was lost with the shell that could not take it any more.
#[tokio::test]
async fn a_patch_outlives_the_shell_that_was_to_take_it() {
    let agent = start();
    let request = SessionRequest {
        cwd: Some("/usr".to_owned()),
        env: BTreeMap::from([("A".to_owned(), Some("given".to_owned()))]),
        ..SessionRequest::default()
    };
    let shell = Shell::with(&agent, &request).await;
    signal_shell(&shell.client, &shell.id, "STOP").await;
    let patch = SessionPatch {
        env: BTreeMap::from([("B".to_owned(), Some("changed".to_owned()))]),
        ..SessionPatch::default()
    };
    in_time(shell.client.patch_session(&shell.id, &patch))
        .await
        .unwrap();
    signal_shell(&shell.client, &shell.id, "KILL").await;
    assert_eq!(shell.out("echo $PWD $A $B").await, "/usr given changed\n");
}

/// The output of the process before was removed together with that of the next of its id.
#[test]
fn a_process_that_is_started_anew_has_its_own_output() {
    let first = At(255);
    let program = Program::Write(Writing {
        stdout: Output::Zeros(400_000),
        stderr: Output::Zeros(100_000),
        code: 0,
    });
    let mut steps = vec![Step::StartProcess { at: At(0), program }];
    for cut in 0..8 {
        let (at, read) = (first, cut % 2 == 0);
        steps.push(Step::StartAnew { at, read });
        let events = cut % 3 == 0;
        steps.push(Step::ReadProcess { at, cut, events });
    }
    let (_agent, place) = Place::in_bubblewrap();
    run(&place, &steps).unwrap_or_else(|failure| panic!("{}", failure.0));
}

/// One was answered with the other, because their specs are alike.
#[tokio::test]
async fn an_exec_and_a_process_are_not_the_same() {
    let agent = start();
    let client = agent.client();
    let mut first = exec_of("echo one");
    first.id = Some("one".parse().unwrap());
    assert_eq!(in_time(client.exec(&first)).await.unwrap().stdout, "one\n");
    let process = ProcessRequest {
        id: first.id.clone(),
        command: first.command.clone(),
        ..ProcessRequest::default()
    };
    let refused = in_time(client.create_process(&process)).await;
    assert_eq!(code_of(refused), ErrorCode::IdConflict);
    // Nor is a result that is cut in another way.
    first.max_output_bytes = Some(2);
    let refused = in_time(client.exec(&first)).await;
    assert_eq!(code_of(refused), ErrorCode::IdConflict);
}
