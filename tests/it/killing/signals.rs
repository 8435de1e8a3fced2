//! Timeouts, and signals with their scopes.

use std::time::Duration;

use sandshell_client::types::{ErrorCode, ExecRequest, ProcessRequest, SignalRequest, SignalScope};
use sandshell_testkit::{Agent, alive_with_marker, wait_until_gone};

use crate::calls::{
    code_of, exec_of, in_time, marker, process_of, start, wait_for_exit, wait_for_text,
};

use super::kill;

#[tokio::test]
async fn a_timeout_ends_the_whole_tree_of_an_exec() {
    let agent = Agent::start();
    let client = agent.client();
    let marker = marker();
    let command = format!(
        "export MARKER={marker}; echo partial; setsid sleep 1000 & \
         (trap '' TERM; setsid sleep 1000 &) & sleep 1000"
    );
    let mut written = String::new();
    // On a machine that stands still the time may be over before the first word.
    for timeout in [300, 3000, 30_000] {
        let request = ExecRequest {
            timeout_ms: Some(timeout),
            ..exec_of(&command)
        };
        let result = in_time(client.exec(&request)).await.unwrap();
        assert!(result.timed_out && result.left_running == 0, "{result:?}");
        assert!(result.exit_code > 128, "{result:?}");
        assert!(result.duration_ms >= timeout, "{result:?}");
        assert_eq!(alive_with_marker(&marker), Vec::<i32>::new());
        written = result.stdout;
        if !written.is_empty() {
            break;
        }
    }
    assert_eq!(written, "partial\n");
}

#[tokio::test]
async fn a_timeout_ends_a_process_and_its_record_says_so() {
    let agent = Agent::start();
    let client = agent.client();
    let marker = marker();
    let request = ProcessRequest {
        timeout_ms: Some(300),
        ..process_of(&format!("MARKER={marker} sleep 1000"))
    };
    let id = start(&client, &request).await;
    let record = wait_for_exit(&client, &id).await.process;
    assert!(record.timed_out);
    assert_eq!(wait_until_gone(&marker, Duration::ZERO), Vec::<i32>::new());
}

#[tokio::test]
async fn a_signal_goes_as_far_as_its_scope() {
    let agent = Agent::start();
    let client = agent.client();
    // Each waits on a fifo of its own, so that no other process comes and goes.
    let report = "mkfifo $D/$$; exec 9<>$D/$$; trap 'echo $n got' USR1; echo $n up; while :; do read -u 9; done";
    let dir = agent.work_dir().display().to_string();
    let command = format!(
        "export R=\"{}\"; n=child bash -c \"$R\" & n=other setsid bash -c \"$R\" & n=first; {report}",
        report.replace('$', "\\$")
    );
    for (scope, who) in [
        (SignalScope::Process, &["first"][..]),
        (SignalScope::Group, &["first", "child"]),
        (SignalScope::Tree, &["first", "child", "other"]),
    ] {
        let mut request = process_of(&command);
        request.env = crate::calls::env(&[("D", Some(&dir))]);
        let id = start(&client, &request).await;
        for name in ["first", "child", "other"] {
            wait_for_text(&client, &id, &format!("{name} up")).await;
        }
        let request = SignalRequest {
            signal: "USR1".to_owned(),
            scope,
        };
        let reply = client.signal_process(&id, &request).await.unwrap();
        assert_eq!(reply.signalled as usize, who.len(), "{scope:?}");
        for name in who {
            wait_for_text(&client, &id, &format!("{name} got")).await;
        }
        kill(&client, &id, 0).await;
        let body = crate::calls::follow(&client, &id, sandshell_client::types::StreamName::Stdout);
        let output = String::from_utf8(body.await).unwrap();
        assert_eq!(
            output.matches("got").count(),
            who.len(),
            "{scope:?}: {output}"
        );
    }
}

#[tokio::test]
async fn signals_are_named_in_every_usual_way() {
    let agent = Agent::start();
    let client = agent.client();
    for signal in ["SIGHUP", "HUP", "hup", "1"] {
        let id = start(&client, &process_of("sleep 1000")).await;
        let request = SignalRequest {
            signal: signal.to_owned(),
            scope: SignalScope::Process,
        };
        client.signal_process(&id, &request).await.unwrap();
        let record = wait_for_exit(&client, &id).await.process;
        assert_eq!(
            (record.exit_code, record.signal.as_deref()),
            (Some(129), Some("SIGHUP"))
        );
        let ended = client.signal_process(&id, &request).await;
        assert_eq!(code_of(ended), ErrorCode::ProcessEnded);
    }
}
