//! Waiting for the end, a pattern, a port.

use sandshell_client::OutputQuery;
use sandshell_client::types::{
    HttpCheck, LogCondition, PortCondition, ProcessState, StreamName, WaitOutcome, WaitRequest,
};
use sandshell_testkit::Agent;

use crate::calls::{in_time, process_of, start, wait_for_text};

use super::with_input;

fn log(pattern: &str, regex: bool, stream: Option<StreamName>) -> WaitRequest {
    WaitRequest {
        log: Some(LogCondition {
            pattern: pattern.to_owned(),
            regex,
            stream,
        }),
        ..Default::default()
    }
}

#[tokio::test]
async fn a_wait_answers_what_came_first() {
    let agent = Agent::start();
    let client = agent.client();
    let id = start(
        &client,
        &with_input("echo one two; echo err >&2; read x; echo three $x; read y; exit 4"),
    )
    .await;
    let reply = in_time(client.wait_process(&id, &log("two", false, None)))
        .await
        .unwrap();
    assert_eq!(
        (reply.outcome, reply.line.as_deref()),
        (WaitOutcome::Log, Some("one two"))
    );
    let reply = in_time(client.wait_process(&id, &log("e.r", true, Some(StreamName::Stderr))))
        .await
        .unwrap();
    assert_eq!(
        (reply.outcome, reply.line.as_deref()),
        (WaitOutcome::Log, Some("err"))
    );
    let nowhere = WaitRequest {
        timeout_ms: Some(50),
        ..log("err", false, Some(StreamName::Stdout))
    };
    let reply = in_time(client.wait_process(&id, &nowhere)).await.unwrap();
    assert_eq!(
        (reply.outcome, reply.timed_out),
        (WaitOutcome::Timeout, true)
    );
    assert_eq!(reply.process.state, ProcessState::Running);
    // A pattern is text unless said otherwise.
    let text = WaitRequest {
        timeout_ms: Some(50),
        ..log("o.e", false, None)
    };
    assert!(
        in_time(client.wait_process(&id, &text))
            .await
            .unwrap()
            .timed_out
    );
    let (waiter, waited) = (agent.client(), id.clone());
    let waiting = tokio::spawn(async move {
        waiter
            .wait_process(&waited, &log("three it", false, None))
            .await
    });
    client.write_stdin(&id, None, "it\n").await.unwrap();
    assert_eq!(
        in_time(waiting).await.unwrap().unwrap().outcome,
        WaitOutcome::Log
    );
    // The end of the process ends every wait.
    let (waiter, waited) = (agent.client(), id.clone());
    let waiting = tokio::spawn(async move {
        waiter
            .wait_process(&waited, &log("never", false, None))
            .await
    });
    client.write_stdin(&id, None, "it\n").await.unwrap();
    let reply = in_time(waiting).await.unwrap().unwrap();
    assert_eq!(
        (reply.outcome, reply.process.exit_code),
        (WaitOutcome::Exit, Some(4))
    );
    for request in [
        WaitRequest::default(),
        log("never", false, None),
        WaitRequest {
            timeout_ms: Some(0),
            exit: Some(true),
            ..Default::default()
        },
    ] {
        let reply = in_time(client.wait_process(&id, &request)).await.unwrap();
        assert_eq!(reply.outcome, WaitOutcome::Exit, "{request:?}");
    }
    let reply = in_time(client.wait_process(&id, &log("one", false, None)))
        .await
        .unwrap();
    assert_eq!(reply.outcome, WaitOutcome::Log, "old output counts");
}

#[tokio::test]
async fn a_regular_expression_sees_lines() {
    let agent = Agent::start();
    let client = agent.client();
    let id = start(&client, &with_input("echo first; echo second; read x")).await;
    let reply = in_time(client.wait_process(&id, &log("^second$", true, None)))
        .await
        .unwrap();
    assert_eq!(
        (reply.outcome, reply.line.as_deref()),
        (WaitOutcome::Log, Some("second"))
    );
    // One long line has one beginning, however it is cut on its way.
    let id = start(
        &client,
        &process_of("head -c 300000 /dev/zero | tr '\\0' x; echo"),
    )
    .await;
    let reply = in_time(client.wait_process(&id, &log("^x+$", true, None)))
        .await
        .unwrap();
    assert_eq!(reply.outcome, WaitOutcome::Log);
    let id = start(
        &client,
        &process_of("printf a; head -c 300000 /dev/zero | tr '\\0' x; echo"),
    )
    .await;
    let reply = in_time(client.wait_process(&id, &log("^xx", true, None)))
        .await
        .unwrap();
    assert_eq!(
        reply.outcome,
        WaitOutcome::Exit,
        "{:?}",
        reply.line.map(|line| line.len())
    );
}

/// Serves one answer after another; the port is chosen by the kernel and printed.
const SERVER: &str = r#"exec perl -MIO::Socket::INET -e '
    $| = 1; my $s = IO::Socket::INET->new(Listen => 5, LocalAddr => "127.0.0.1:0") or die;
    open my $f, ">", $ENV{F}; print $f $s->sockport; close $f; print "listening\n";
    my $n = 0;
    while (my $c = $s->accept) { my $l = <$c>; defined $l or next; print $l;
        my $status = ++$n < 3 ? "503 Wait" : "200 OK";
        print $c "HTTP/1.1 $status\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"; close $c }'"#;

#[tokio::test]
async fn a_wait_sees_a_port_and_an_http_answer() {
    let agent = Agent::start();
    let client = agent.client();
    let file = agent.work_dir().join("port");
    let mut request = process_of(SERVER);
    request.env = crate::calls::env(&[("F", Some(&file.display().to_string()))]);
    let id = start(&client, &request).await;
    wait_for_text(&client, &id, "listening").await;
    let port: u16 = std::fs::read_to_string(&file).unwrap().parse().unwrap();
    let wait = |http| WaitRequest {
        port: Some(PortCondition { port, http }),
        timeout_ms: Some(600_000),
        ..Default::default()
    };
    let reply = in_time(client.wait_process(&id, &wait(None)))
        .await
        .unwrap();
    assert_eq!(reply.outcome, WaitOutcome::Port);
    let check = HttpCheck {
        path: Some("/health?x=1".to_owned()),
        status: Some(200),
    };
    let reply = in_time(client.wait_process(&id, &wait(Some(check))))
        .await
        .unwrap();
    assert_eq!(reply.outcome, WaitOutcome::Port);
    let output = client
        .process_output(&id, OutputQuery::all(StreamName::Stdout))
        .await
        .unwrap();
    let output = String::from_utf8(output.read_to_end().await.unwrap().to_vec()).unwrap();
    // An answer that came too late is asked for again.
    let asked = output.matches("GET /health?x=1 HTTP/1.1").count();
    assert!(asked >= 3, "{output}");
    in_time(client.kill_process(&id, &sandshell_client::types::KillRequest::default()))
        .await
        .unwrap();
    // A process that has ended cannot be waited for by its port.
    let reply = in_time(client.wait_process(&id, &wait(None)))
        .await
        .unwrap();
    assert_eq!(reply.outcome, WaitOutcome::Exit);
}
