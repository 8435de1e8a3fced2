//! Promise 1: no byte lost, none invented.

use bytes::Bytes;
use sandshell_client::types::{
    Encoding, ErrorCode, ExecRequest, ProcessRequest, StreamName, TextEncoding, Truncate, Truncated,
    WaitRequest,
};
use sandshell_client::{EventQuery, OutputQuery, SseParser};
use sandshell_testkit::Agent;
use sha2::{Digest as _, Sha256};

use crate::calls::{
    Heard, Shell, bytes_of, exec, exec_of, follow, in_base64, in_time, plain_bash, process_of,
    session_bytes_of, start, wait_for_exit, wait_for_text,
};

/// NUL, control bytes, invalid and cut-off UTF-8, carriage returns, no newline at the end.
const AWKWARD: &str = r"printf 'a\0b\1\2\377\376\r\n\303\251\303'; printf '\200\0\033[1m\nerr' >&2";

#[tokio::test]
async fn awkward_bytes_come_through_exec_exactly() {
    let agent = Agent::start();
    let client = agent.client();
    let plain = plain_bash(AWKWARD);
    for encoding in [Encoding::Auto, Encoding::Base64] {
        let request = ExecRequest { encoding, ..exec_of(AWKWARD) };
        let result = client.exec(&request).await.unwrap();
        assert_eq!(result.stdout_encoding, TextEncoding::Base64);
        assert_eq!(bytes_of(&result), (plain.stdout.clone(), plain.stderr.clone()));
    }
    let argv = ["bash", "-c", AWKWARD].map(str::to_owned).to_vec();
    let request = ExecRequest { argv: Some(argv), ..Default::default() };
    let result = client.exec(&request).await.unwrap();
    assert_eq!(bytes_of(&result), (plain.stdout, plain.stderr));
}

#[tokio::test]
async fn text_stays_text_and_nothing_is_added_to_it() {
    let agent = Agent::start();
    let client = agent.client();
    for (command, expected) in
        [("printf 'x'", "x"), ("printf ''", ""), ("printf 'é\\0\\n'", "é\0\n"), ("echo", "\n")]
    {
        let result = exec(&client, command).await;
        assert_eq!((result.stdout.as_str(), result.stdout_encoding), (expected, TextEncoding::Utf8));
        assert_eq!(result.stderr, "");
    }
}

#[tokio::test]
async fn awkward_bytes_come_through_a_process_raw_and_as_events() {
    let agent = Agent::start();
    let client = agent.client();
    let plain = plain_bash(AWKWARD);
    let id = start(&client, &process_of(AWKWARD)).await;
    assert_eq!(follow(&client, &id, StreamName::Stdout).await, plain.stdout);
    assert_eq!(follow(&client, &id, StreamName::Stderr).await, plain.stderr);
    let mut events = client.process_events(&id, EventQuery::default()).await.unwrap();
    let mut heard = Heard::default();
    heard.to_the_end(&mut events).await;
    assert_eq!((heard.stdout, heard.stderr), (plain.stdout, plain.stderr));
    assert_eq!(heard.first, [Some(0), Some(0)]);
}

#[tokio::test]
async fn awkward_bytes_come_through_a_session_as_result_events_and_raw() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    let plain = plain_bash(AWKWARD);
    let result = shell.run(AWKWARD).await;
    assert_eq!(session_bytes_of(&result), (plain.stdout.clone(), plain.stderr.clone()));
    let result = shell.ask(&in_base64(AWKWARD)).await;
    assert_eq!(session_bytes_of(&result), (plain.stdout.clone(), plain.stderr.clone()));
    let id = result.command_id;
    assert_eq!(shell.follow(&id, StreamName::Stdout).await, plain.stdout);
    assert_eq!(shell.follow(&id, StreamName::Stderr).await, plain.stderr);
    let request = in_base64(AWKWARD);
    let mut events = shell.client.session_exec_stream(&shell.id, &request).await.unwrap();
    let mut heard = Heard::default();
    heard.to_the_end(&mut events).await;
    assert_eq!((heard.stdout, heard.stderr), (plain.stdout, plain.stderr));
}

#[tokio::test]
async fn a_character_is_not_split_between_two_events() {
    let agent = Agent::start();
    let client = agent.client();
    // Four-byte characters written a byte at a time.
    let text = "for i in 1 2 3 4 5; do printf '\\360'; printf '\\237'; printf '\\246'; printf '\\200'; done";
    let id = start(&client, &process_of(text)).await;
    let mut events = client.process_events(&id, EventQuery::default()).await.unwrap();
    let mut whole = String::new();
    while let Some(event) = in_time(events.next()).await {
        if let sandshell_client::OutputStreamEvent::Output(piece) = event.unwrap().event {
            assert_eq!(piece.encoding, TextEncoding::Utf8, "{piece:?}");
            whole.push_str(&piece.data);
        }
    }
    assert_eq!(whole, "🦀".repeat(5));
}

/// About 20 MB, different on the two streams.
const MUCH: &str = "seq 1 2600000 & seq 2600001 -1 1 >&2; wait";

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn twenty_megabytes_on_both_streams_at_once_are_what_plain_bash_writes() {
    let agent = Agent::start();
    let client = agent.client();
    let plain = plain_bash(MUCH);
    let expected = (digest(&plain.stdout), digest(&plain.stderr));
    assert!(plain.stdout.len() > 19_000_000 && plain.stderr.len() > 19_000_000);
    let id = start(&client, &process_of(MUCH)).await;
    let (stdout, stderr) = tokio::join!(
        follow(&client, &id, StreamName::Stdout),
        follow(&client, &id, StreamName::Stderr)
    );
    assert_eq!((digest(&stdout), digest(&stderr)), expected);
    let record = client.process(&id).await.unwrap();
    assert_eq!(record.stdout_bytes, plain.stdout.len() as u64);
    assert_eq!(record.stderr_bytes, plain.stderr.len() as u64);
}

#[tokio::test]
async fn twenty_megabytes_fit_into_results_when_asked_for() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    let plain = plain_bash(MUCH);
    let limit = Some(64 << 20);
    let request = ExecRequest { max_output_bytes: limit, ..exec_of(MUCH) };
    let result = in_time(shell.client.exec(&request)).await.unwrap();
    assert_eq!(result.truncated, None);
    assert!(result.stdout.as_bytes() == plain.stdout && result.stderr.as_bytes() == plain.stderr);
    let mut request = crate::calls::text(MUCH);
    request.max_output_bytes = limit;
    let result = shell.ask(&request).await;
    assert_eq!(result.truncated, None);
    assert!(result.stdout.as_bytes() == plain.stdout && result.stderr.as_bytes() == plain.stderr);
}

#[tokio::test]
async fn a_reader_that_stalls_neither_blocks_the_process_nor_loses_a_byte() {
    let agent = Agent::start();
    let client = agent.client();
    let size = 50_000_000;
    let id = start(&client, &process_of(&format!("head -c {size} /dev/zero; echo over >&2"))).await;
    let mut stalled =
        client.process_output(&id, OutputQuery::follow(StreamName::Stdout)).await.unwrap();
    let mut events = client.process_events(&id, EventQuery::default()).await.unwrap();
    let mut read = in_time(stalled.next()).await.unwrap().unwrap().len();
    let mut heard = Heard::default();
    assert!(heard.next(&mut events).await);
    // The process ends while both readers stand still.
    assert_eq!(wait_for_exit(&client, &id).await.process.exit_code, Some(0));
    while let Some(piece) = in_time(stalled.next()).await {
        let piece: Bytes = piece.unwrap();
        assert!(piece.iter().all(|byte| *byte == 0));
        read += piece.len();
    }
    assert_eq!(read, size);
    drop(events);
}

#[tokio::test]
async fn without_any_reader_everything_is_there_later() {
    let agent = Agent::start();
    let client = agent.client();
    let id = start(&client, &process_of("seq 1 500000; echo over >&2")).await;
    wait_for_exit(&client, &id).await;
    let body = client.process_output(&id, OutputQuery::all(StreamName::Stdout)).await.unwrap();
    let stdout = body.read_to_end().await.unwrap();
    assert!(*stdout == plain_bash("seq 1 500000").stdout);
    assert_eq!(follow(&client, &id, StreamName::Stderr).await, b"over\n");
}

#[tokio::test]
async fn a_result_is_cut_where_asked_and_counts_what_is_missing() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    let command = "printf 0123456789abcdefghij; printf 0123456789 >&2";
    for (truncate, stdout) in [
        (Truncate::Head, "abcdefghij"),
        (Truncate::Tail, "0123456789"),
        (Truncate::Both, "01234fghij"),
    ] {
        let expected = Some(Truncated { stdout_bytes: 10, stderr_bytes: 0 });
        let limit = Some(10);
        let request = ExecRequest { truncate, max_output_bytes: limit, ..exec_of(command) };
        let result = shell.client.exec(&request).await.unwrap();
        assert_eq!((result.stdout.as_str(), result.truncated), (stdout, expected), "{truncate:?}");
        assert_eq!(result.stderr, "0123456789");
        let mut request = crate::calls::text(command);
        (request.truncate, request.max_output_bytes) = (truncate, limit);
        let result = shell.ask(&request).await;
        assert_eq!((result.stdout.as_str(), result.truncated), (stdout, expected), "{truncate:?}");
        // The whole is still in the log.
        let whole = shell.follow(&result.command_id, StreamName::Stdout).await;
        assert_eq!(whole, b"0123456789abcdefghij");
    }
}

#[tokio::test]
async fn a_cut_does_not_split_a_character() {
    let agent = Agent::start();
    let client = agent.client();
    let command = "printf 'éééééééééé'";
    for (truncate, stdout, missing) in [
        (Truncate::Head, "ééé", 14),
        (Truncate::Tail, "ééé", 14),
        (Truncate::Both, "ééé", 14),
    ] {
        let request = ExecRequest { truncate, max_output_bytes: Some(7), ..exec_of(command) };
        let result = client.exec(&request).await.unwrap();
        assert_eq!(result.stdout_encoding, TextEncoding::Utf8, "{truncate:?}: {result:?}");
        assert_eq!(result.stdout, stdout, "{truncate:?}");
        let expected = Truncated { stdout_bytes: missing, stderr_bytes: 0 };
        assert_eq!(result.truncated, Some(expected), "{truncate:?}");
    }
    let request = ExecRequest { max_output_bytes: Some(0), ..exec_of("echo x; echo yy >&2") };
    let result = client.exec(&request).await.unwrap();
    assert_eq!((result.stdout.as_str(), result.stderr.as_str()), ("", ""));
    assert_eq!(result.truncated, Some(Truncated { stdout_bytes: 2, stderr_bytes: 3 }));
}

#[tokio::test]
async fn what_the_log_cap_dropped_is_named_and_the_rest_is_exact() {
    let agent = Agent::start();
    let client = agent.client();
    const CAP: u64 = 1 << 20;
    let command = "seq 1 400000";
    let whole = plain_bash(command).stdout;
    let request = ProcessRequest { max_output_bytes: Some(CAP), ..process_of(command) };
    let id = start(&client, &request).await;
    wait_for_exit(&client, &id).await;
    let gone = client.process_output(&id, OutputQuery::all(StreamName::Stdout)).await;
    let gone = gone.expect_err("the beginning is no longer there");
    assert_eq!((gone.status(), gone.code()), (Some(410), Some(ErrorCode::OffsetGone)));
    let first = gone.problem().unwrap().first_offset.unwrap();
    let kept = whole.len() as u64 - first;
    assert!((1..=CAP).contains(&kept), "{kept} bytes are kept");
    let query = OutputQuery { offset: first, ..OutputQuery::all(StreamName::Stdout) };
    let rest = client.process_output(&id, query).await.unwrap().read_to_end().await.unwrap();
    assert!(*rest == whole[first as usize..]);
    let mut events = client.process_events(&id, EventQuery::default()).await.unwrap();
    let mut heard = Heard::default();
    heard.to_the_end(&mut events).await;
    let dropped: u64 = heard.truncated.iter().map(|gone| gone.bytes).sum();
    assert_eq!((dropped, heard.first[0]), (first, Some(first)), "{:?}", heard.truncated);
    assert!(heard.stdout == whole[first as usize..]);
    assert_eq!(client.process(&id).await.unwrap().stdout_bytes, whole.len() as u64);
}

#[tokio::test]
async fn a_read_goes_on_at_any_offset() {
    let agent = Agent::start();
    let client = agent.client();
    let id = start(&client, &process_of("printf 0123456789; read x; printf abc")).await;
    wait_for_exit(&client, &id).await;
    for offset in 0..=13 {
        let query = OutputQuery { offset, ..OutputQuery::follow(StreamName::Stdout) };
        let rest = client.process_output(&id, query).await.unwrap().read_to_end().await.unwrap();
        assert_eq!(*rest, b"0123456789abc"[offset as usize..]);
    }
    let query = OutputQuery { offset: 14, ..OutputQuery::all(StreamName::Stdout) };
    let beyond = client.process_output(&id, query).await.expect_err("beyond the end");
    assert_eq!(beyond.code(), Some(ErrorCode::InvalidRequest));
}

#[tokio::test]
async fn events_resume_after_a_drop_without_loss() {
    let agent = Agent::start();
    let client = agent.client();
    let command = "for i in {1..3000}; do echo out $i; echo err $i >&2; done";
    let plain = plain_bash(command);
    let id = start(&client, &process_of(command)).await;
    let mut heard = Heard::default();
    let mut connections = 0;
    // Three events from each connection, resumed by `?from=`.
    while heard.exit.is_none() {
        let query = EventQuery { from: heard.last_id, follow: None };
        let mut events = client.process_events(&id, query).await.unwrap();
        for _ in 0..3 {
            if !heard.next(&mut events).await {
                break;
            }
        }
        connections += 1;
    }
    assert!(connections > 1);
    assert!(heard.stdout == plain.stdout && heard.stderr == plain.stderr);
}

#[tokio::test]
async fn the_last_event_id_header_resumes_where_it_says() {
    let agent = Agent::start();
    let client = agent.client();
    let id = start(&client, &process_of("echo one; echo two >&2; echo three")).await;
    wait_for_exit(&client, &id).await;
    let path = format!("/v1/processes/{id}/output");
    let read = async |last: Option<String>| {
        let mut headers = http::HeaderMap::new();
        headers.insert("accept", "text/event-stream".parse().unwrap());
        if let Some(last) = last {
            headers.insert("last-event-id", last.parse().unwrap());
        }
        let (status, _, body) =
            client.raw(http::Method::GET, &path, &headers, Bytes::new()).await.unwrap();
        assert_eq!(status, 200);
        let mut parser = SseParser::new();
        parser.push(&body);
        std::iter::from_fn(|| parser.next_event()).collect::<Vec<_>>()
    };
    let all = read(None).await;
    assert_eq!(all.last().unwrap().event, "exit");
    for (n, event) in all.iter().enumerate().filter(|(_, event)| event.event == "output") {
        assert!(event.id.is_some(), "{event:?}");
        assert_eq!(read(event.id.clone()).await, all[n + 1..], "after {event:?}");
    }
}

#[tokio::test]
async fn a_follower_hears_output_while_the_process_runs() {
    let agent = Agent::start();
    let client = agent.client();
    let request = ProcessRequest { stdin_open: true, ..process_of("echo first; read x; echo $x") };
    let id = start(&client, &request).await;
    let mut raw =
        client.process_output(&id, OutputQuery::follow(StreamName::Stdout)).await.unwrap();
    assert_eq!(*in_time(raw.next()).await.unwrap().unwrap(), *b"first\n");
    client.write_stdin(&id, Some(0), "second\n").await.unwrap();
    assert_eq!(*in_time(raw.next()).await.unwrap().unwrap(), *b"second\n");
    assert!(in_time(raw.next()).await.is_none());
    // Without `follow` a read ends at what there is.
    let request = ProcessRequest { stdin_open: true, ..process_of("echo now; read x") };
    let id = start(&client, &request).await;
    wait_for_text(&client, &id, "now").await;
    let body = client.process_output(&id, OutputQuery::all(StreamName::Stdout)).await.unwrap();
    assert_eq!(*in_time(body.read_to_end()).await.unwrap(), *b"now\n");
    assert_eq!(client.wait_process(&id, &WaitRequest { timeout_ms: Some(0), ..Default::default() }).await.unwrap().process.exit_code, None);
}
