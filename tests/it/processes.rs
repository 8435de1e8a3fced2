//! The process surface: input, waits, restarts, records, retries (promise 8).

use sandshell_client::types::{
    ErrorCode, ExecRequest, HttpCheck, LogCondition, PortCondition, ProcessKind, ProcessRequest,
    ProcessState, RestartMode, RestartPolicy, StreamName, WaitOutcome, WaitRequest,
};
use sandshell_client::{Client, OutputQuery, Page, ProcessFilter};
use sandshell_testkit::Agent;

use crate::calls::{
    code_of, exec_of, follow, in_time, process_of, start, wait_for_exit, wait_for_text,
};

fn with_input(command: &str) -> ProcessRequest {
    ProcessRequest { stdin_open: true, ..process_of(command) }
}

fn named(id: &str, command: &str) -> ProcessRequest {
    ProcessRequest { id: Some(id.parse().unwrap()), ..process_of(command) }
}

#[tokio::test]
async fn input_is_streamed_by_offset_and_retries_do_not_double_it() {
    let agent = Agent::start();
    let client = agent.client();
    let id = start(&client, &with_input("cat")).await;
    assert_eq!(client.write_stdin(&id, Some(0), "hello ").await.unwrap().offset, 6);
    assert_eq!(client.write_stdin(&id, Some(0), "hello ").await.unwrap().offset, 6);
    assert_eq!(client.write_stdin(&id, Some(3), "lo world").await.unwrap().offset, 11);
    assert_eq!(client.write_stdin(&id, None, "!").await.unwrap().offset, 12);
    let gap = client.write_stdin(&id, Some(13), "x").await.expect_err("a gap");
    assert_eq!((gap.status(), gap.code()), (Some(409), Some(ErrorCode::StdinOffset)));
    assert_eq!(gap.problem().unwrap().expected_offset, Some(12));
    wait_for_text(&client, &id, "hello world!").await;
    client.close_stdin(&id).await.unwrap();
    assert_eq!(wait_for_exit(&client, &id).await.process.exit_code, Some(0));
    assert_eq!(follow(&client, &id, StreamName::Stdout).await, b"hello world!");
    assert_eq!(code_of(client.write_stdin(&id, None, "x").await), ErrorCode::StdinClosed);
}

#[tokio::test]
async fn a_large_write_that_is_repeated_is_not_doubled_either() {
    let agent = Agent::start();
    let client = agent.client();
    let id = start(&client, &with_input("cat")).await;
    // Far more than one piece of a request body.
    let much: Vec<u8> = (0..3_000_000_u32).flat_map(|n| n.to_le_bytes()).collect();
    let len = much.len() as u64;
    assert_eq!(in_time(client.write_stdin(&id, Some(0), much.clone())).await.unwrap().offset, len);
    assert_eq!(in_time(client.write_stdin(&id, Some(0), much.clone())).await.unwrap().offset, len);
    client.close_stdin(&id).await.unwrap();
    let echoed = follow(&client, &id, StreamName::Stdout).await;
    assert_eq!(echoed.len(), much.len());
    assert!(echoed == much);
}

#[tokio::test]
async fn first_input_comes_before_what_is_written_later() {
    let agent = Agent::start();
    let client = agent.client();
    let request = ProcessRequest { stdin: Some("first\n".to_owned()), ..with_input("cat") };
    let id = start(&client, &request).await;
    wait_for_text(&client, &id, "first").await;
    client.write_stdin(&id, Some(6), "second\n").await.unwrap();
    client.close_stdin(&id).await.unwrap();
    assert_eq!(follow(&client, &id, StreamName::Stdout).await, b"first\nsecond\n");
    // Without `stdin_open` the first input is all; without either there is none.
    let request = ProcessRequest { stdin: Some("x".repeat(1 << 20)), ..process_of("wc -c") };
    let id = start(&client, &request).await;
    assert_eq!(follow(&client, &id, StreamName::Stdout).await, b"1048576\n");
    let id = start(&client, &process_of("wc -c")).await;
    assert_eq!(follow(&client, &id, StreamName::Stdout).await, b"0\n");
}

#[tokio::test]
async fn writing_to_a_process_that_does_not_read_ends_with_it() {
    let agent = Agent::start();
    let client = agent.client();
    let id = start(&client, &with_input("echo up; sleep 1000")).await;
    let (writer, writes) = (agent.client(), id.clone());
    let blocked = tokio::spawn(async move { writer.write_stdin(&writes, Some(0), vec![0; 4 << 20]).await });
    wait_for_text(&client, &id, "up").await;
    in_time(client.kill_process(&id, &Default::default())).await.unwrap();
    assert_eq!(code_of(in_time(blocked).await.unwrap()), ErrorCode::StdinClosed);
}

fn log(pattern: &str, regex: bool, stream: Option<StreamName>) -> WaitRequest {
    WaitRequest {
        log: Some(LogCondition { pattern: pattern.to_owned(), regex, stream }),
        ..Default::default()
    }
}

#[tokio::test]
async fn a_wait_answers_what_came_first() {
    let agent = Agent::start();
    let client = agent.client();
    let id = start(&client, &with_input("echo one two; echo err >&2; read x; echo three $x; read y; exit 4")).await;
    let reply = in_time(client.wait_process(&id, &log("two", false, None))).await.unwrap();
    assert_eq!((reply.outcome, reply.line.as_deref()), (WaitOutcome::Log, Some("one two")));
    let reply = in_time(client.wait_process(&id, &log("^e.r$", true, Some(StreamName::Stderr)))).await.unwrap();
    assert_eq!((reply.outcome, reply.line.as_deref()), (WaitOutcome::Log, Some("err")));
    let nowhere = WaitRequest { timeout_ms: Some(50), ..log("err", false, Some(StreamName::Stdout)) };
    let reply = in_time(client.wait_process(&id, &nowhere)).await.unwrap();
    assert_eq!((reply.outcome, reply.timed_out), (WaitOutcome::Timeout, true));
    assert_eq!(reply.process.state, ProcessState::Running);
    // A pattern is text unless said otherwise.
    let text = WaitRequest { timeout_ms: Some(50), ..log("o.e", false, None) };
    assert!(in_time(client.wait_process(&id, &text)).await.unwrap().timed_out);
    let (waiter, waited) = (agent.client(), id.clone());
    let waiting = tokio::spawn(async move { waiter.wait_process(&waited, &log("three it", false, None)).await });
    client.write_stdin(&id, None, "it\n").await.unwrap();
    assert_eq!(in_time(waiting).await.unwrap().unwrap().outcome, WaitOutcome::Log);
    // The end of the process ends every wait.
    let (waiter, waited) = (agent.client(), id.clone());
    let waiting = tokio::spawn(async move { waiter.wait_process(&waited, &log("never", false, None)).await });
    client.write_stdin(&id, None, "it\n").await.unwrap();
    let reply = in_time(waiting).await.unwrap().unwrap();
    assert_eq!((reply.outcome, reply.process.exit_code), (WaitOutcome::Exit, Some(4)));
    for request in [WaitRequest::default(), log("never", false, None), WaitRequest { timeout_ms: Some(0), exit: Some(true), ..Default::default() }] {
        let reply = in_time(client.wait_process(&id, &request)).await.unwrap();
        assert_eq!(reply.outcome, WaitOutcome::Exit, "{request:?}");
    }
    let reply = in_time(client.wait_process(&id, &log("one", false, None))).await.unwrap();
    assert_eq!(reply.outcome, WaitOutcome::Log, "old output counts");
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
    let wait = |http| WaitRequest { port: Some(PortCondition { port, http }), timeout_ms: Some(5000), ..Default::default() };
    let reply = in_time(client.wait_process(&id, &wait(None))).await.unwrap();
    assert_eq!(reply.outcome, WaitOutcome::Port);
    let check = HttpCheck { path: Some("/health?x=1".to_owned()), status: Some(200) };
    let reply = in_time(client.wait_process(&id, &wait(Some(check)))).await.unwrap();
    assert_eq!(reply.outcome, WaitOutcome::Port);
    let output = client.process_output(&id, OutputQuery::all(StreamName::Stdout)).await.unwrap();
    let output = String::from_utf8(output.read_to_end().await.unwrap().to_vec()).unwrap();
    assert_eq!(output.matches("GET /health?x=1 HTTP/1.1").count(), 3, "{output}");
    in_time(client.kill_process(&id, &Default::default())).await.unwrap();
    // A process that has ended cannot be waited for by its port.
    let reply = in_time(client.wait_process(&id, &wait(None))).await.unwrap();
    assert_eq!(reply.outcome, WaitOutcome::Exit);
}

fn restarting(mode: RestartMode, max: Option<u32>, command: &str) -> ProcessRequest {
    let policy = RestartPolicy { mode, backoff_ms: Some(1), max_restarts: max };
    ProcessRequest { restart: Some(policy), ..process_of(command) }
}

#[tokio::test]
async fn restart_policies_do_what_they_say() {
    let agent = Agent::start();
    let client = agent.client();
    let file = agent.work_dir().join("n").display().to_string();
    let third = format!("echo run; echo x >>{file}; [ $(wc -l <{file}) -ge 3 ]");
    let id = start(&client, &restarting(RestartMode::OnFailure, None, &third)).await;
    let record = wait_for_exit(&client, &id).await.process;
    assert_eq!((record.exit_code, record.restarts, record.state), (Some(0), 2, ProcessState::Exited));
    assert_eq!(follow(&client, &id, StreamName::Stdout).await, b"run\nrun\nrun\n");
    let id = start(&client, &restarting(RestartMode::OnFailure, Some(2), "exit 9")).await;
    let record = wait_for_exit(&client, &id).await.process;
    assert_eq!((record.exit_code, record.restarts), (Some(9), 2));
    let id = start(&client, &restarting(RestartMode::Always, Some(3), "kill -9 $$")).await;
    let record = wait_for_exit(&client, &id).await.process;
    assert_eq!((record.signal.as_deref(), record.restarts), (Some("SIGKILL"), 3));
    for mode in [RestartMode::Never, RestartMode::OnFailure] {
        let id = start(&client, &restarting(mode, None, "exit 0")).await;
        assert_eq!(wait_for_exit(&client, &id).await.process.restarts, 0, "{mode:?}");
    }
    let id = start(&client, &restarting(RestartMode::Always, None, "echo up; sleep 1000")).await;
    wait_for_text(&client, &id, "up").await;
    in_time(client.kill_process(&id, &Default::default())).await.unwrap();
    assert_eq!(client.process(&id).await.unwrap().state, ProcessState::Exited);
}

#[tokio::test]
async fn a_kill_ends_the_wait_for_a_restart() {
    let agent = Agent::start();
    let client = agent.client();
    let policy = RestartPolicy { mode: RestartMode::Always, backoff_ms: Some(600_000), max_restarts: None };
    let id = start(&client, &ProcessRequest { restart: Some(policy), ..process_of("echo x; exit 3") }).await;
    wait_for_text(&client, &id, "x").await;
    in_time(client.kill_process(&id, &Default::default())).await.unwrap();
    let record = client.process(&id).await.unwrap();
    assert_eq!((record.state, record.exit_code), (ProcessState::Exited, Some(3)));
    in_time(client.delete_process(&id)).await.unwrap();
}

async fn ids(client: &Client, kind: Option<ProcessKind>, page: Page) -> (Vec<String>, Option<String>) {
    let filter = ProcessFilter { kind, page, ..Default::default() };
    let list = client.list_processes(&filter).await.unwrap();
    (list.items.into_iter().map(|record| record.id.to_string()).collect(), list.next_cursor)
}

#[tokio::test]
async fn records_are_listed_by_kind_and_page_by_page() {
    let agent = Agent::start();
    let client = agent.client();
    for n in 0..7 {
        let id = start(&client, &named(&format!("p{n}"), "true")).await;
        wait_for_exit(&client, &id).await;
    }
    let request = ExecRequest { id: Some("e".parse().unwrap()), ..exec_of("true") };
    client.exec(&request).await.unwrap();
    let all: Vec<String> = (0..7).map(|n| format!("p{n}")).collect();
    assert_eq!(ids(&client, None, Page::default()).await, (all.clone(), None));
    assert_eq!(ids(&client, Some(ProcessKind::Exec), Page::default()).await.0, ["e"]);
    let mut seen = Vec::new();
    let mut cursor = None;
    loop {
        let (page, next) = ids(&client, None, Page { limit: Some(3), cursor }).await;
        assert!(page.len() <= 3 && !page.is_empty());
        seen.extend(page);
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, all);
    client.delete_process(&"p3".parse().unwrap()).await.unwrap();
    assert_eq!(ids(&client, None, Page::default()).await.0.len(), 6);
}

#[tokio::test]
async fn a_create_can_be_repeated_and_a_different_one_is_refused() {
    let agent = Agent::start();
    let client = agent.client();
    let spec = named("web", "echo started; sleep 1000");
    let body = serde_json::to_vec(&spec).unwrap();
    let headers = http::HeaderMap::from_iter([(http::header::CONTENT_TYPE, "application/json".parse().unwrap())]);
    let mut replies = Vec::new();
    for expected in [201, 200] {
        let (status, _, reply) = client.raw(http::Method::POST, "/v1/processes", &headers, body.clone()).await.unwrap();
        assert_eq!(status.as_u16(), expected);
        let reply: sandshell_client::types::ProcessRecord = serde_json::from_slice(&reply).unwrap();
        replies.push((reply.id, reply.pid, reply.started_at));
    }
    assert_eq!(replies[0], replies[1]);
    for (other, field) in [
        (named("web", "other"), "/command"),
        (ProcessRequest { tag: Some("t".to_owned()), ..spec.clone() }, "/tag"),
        (ProcessRequest { cwd: Some("/".to_owned()), ..spec.clone() }, "/cwd"),
        (ProcessRequest { env: crate::calls::env(&[("A", None)]), ..spec.clone() }, "/env"),
    ] {
        let refused = client.create_process(&other).await.expect_err("another spec");
        assert_eq!(refused.code(), Some(ErrorCode::IdConflict));
        assert_eq!(refused.problem().unwrap().pointer.as_deref(), Some(field));
    }
}

#[tokio::test]
async fn twenty_creates_of_one_id_at_once_make_one_process() {
    let agent = Agent::start();
    let file = agent.work_dir().join("starts");
    let spec = named("one", &format!("echo x >>{}; sleep 1000", file.display()));
    let creates: Vec<_> = (0..20)
        .map(|_| {
            let (client, spec) = (agent.client(), spec.clone());
            tokio::spawn(async move { client.create_process(&spec).await.unwrap().pid })
        })
        .collect();
    let mut pids = Vec::new();
    for create in creates {
        pids.push(in_time(create).await.unwrap());
    }
    pids.sort_unstable();
    pids.dedup();
    assert_eq!(pids.len(), 1);
    let client = agent.client();
    in_time(client.kill_process(&"one".parse().unwrap(), &Default::default())).await.unwrap();
    assert!(std::fs::read_to_string(&file).unwrap_or_default().lines().count() <= 1);
}

#[tokio::test]
async fn an_idempotency_key_runs_an_exec_once() {
    let agent = Agent::start();
    let client = agent.client();
    let file = agent.work_dir().join("runs");
    let request = exec_of(&format!("echo x >>{0}; wc -l <{0}; exit 3", file.display()));
    let keyed = client.idempotent("key-1").unwrap();
    let first = in_time(keyed.exec(&request)).await.unwrap();
    assert_eq!((first.stdout.as_str(), first.exit_code), ("1\n", 3));
    assert_eq!(in_time(keyed.exec(&request)).await.unwrap(), first);
    assert_eq!(code_of(keyed.exec(&exec_of("true")).await), ErrorCode::IdempotencyConflict);
    let route = keyed.create_process(&process_of("true")).await;
    assert_eq!(code_of(route), ErrorCode::IdempotencyConflict);
    let other = client.idempotent("key-2").unwrap();
    assert_eq!(in_time(other.exec(&request)).await.unwrap().stdout, "2\n");
    // A refused request changed nothing, so its key is free again.
    let key = client.idempotent("key-3").unwrap();
    let bad = ExecRequest { cwd: Some("/no/such/dir".to_owned()), ..exec_of("true") };
    assert_eq!(code_of(key.exec(&bad).await), ErrorCode::InvalidCwd);
    assert_eq!(in_time(key.exec(&exec_of("echo ok"))).await.unwrap().stdout, "ok\n");
}

#[tokio::test]
async fn concurrent_repeats_of_a_key_share_one_run() {
    let agent = Agent::start();
    let file = agent.work_dir().join("runs");
    let request = exec_of(&format!("echo x >>{0}; sleep 0.1; wc -l <{0}", file.display()));
    let calls: Vec<_> = (0..10)
        .map(|_| {
            let (client, request) = (agent.client().idempotent("same").unwrap(), request.clone());
            tokio::spawn(async move { client.exec(&request).await.unwrap() })
        })
        .collect();
    let mut results = Vec::new();
    for call in calls {
        results.push(in_time(call).await.unwrap());
    }
    assert!(results.iter().all(|result| *result == results[0]), "{results:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "x\n");
}

#[tokio::test]
async fn a_key_makes_creates_and_session_commands_safe_too() {
    let agent = Agent::start();
    let client = agent.client();
    let keyed = client.idempotent("create").unwrap();
    let first = keyed.create_process(&process_of("sleep 1000")).await.unwrap();
    let second = keyed.create_process(&process_of("sleep 1000")).await.unwrap();
    assert_eq!(first.id, second.id);
    let keyed = client.idempotent("session").unwrap();
    let session = keyed.create_session(&Default::default()).await.unwrap();
    assert_eq!(keyed.create_session(&Default::default()).await.unwrap().id, session.id);
    let keyed = client.idempotent("command").unwrap();
    let command = crate::calls::text("echo $((++n))");
    for _ in 0..3 {
        let result = in_time(keyed.session_exec(&session.id, &command)).await.unwrap();
        assert_eq!(result.stdout, "1\n");
    }
}
