//! Promise 1: no byte lost, none invented.

mod reading;

use bytes::Bytes;
use sandshell_client::types::{
    Encoding, ExecRequest, StreamName, TextEncoding, Truncate, Truncated,
};
use sandshell_client::{EventQuery, OutputQuery};
use sandshell_testkit::Agent;

use crate::calls::{
    Heard, Shell, bytes_of, exec, exec_of, follow, in_base64, in_time, plain_bash, process_of,
    session_bytes_of, start, wait_for_exit,
};

/// NUL, control bytes, invalid and cut-off UTF-8, carriage returns, no newline at the end.
const AWKWARD: &str = r"printf 'a\0b\1\2\377\376\r\n\303\251\303'; printf '\200\0\033[1m\nerr' >&2";

#[tokio::test]
async fn awkward_bytes_come_through_exec_exactly() {
    let agent = Agent::start();
    let client = agent.client();
    let plain = plain_bash(AWKWARD);
    for encoding in [Encoding::Auto, Encoding::Base64] {
        let request = ExecRequest {
            encoding,
            ..exec_of(AWKWARD)
        };
        let result = client.exec(&request).await.unwrap();
        assert_eq!(result.stdout_encoding, TextEncoding::Base64);
        assert_eq!(
            bytes_of(&result),
            (plain.stdout.clone(), plain.stderr.clone())
        );
    }
    let argv = ["bash", "-c", AWKWARD].map(str::to_owned).to_vec();
    let request = ExecRequest {
        argv: Some(argv),
        ..Default::default()
    };
    let result = client.exec(&request).await.unwrap();
    assert_eq!(bytes_of(&result), (plain.stdout, plain.stderr));
}

#[tokio::test]
async fn text_stays_text_and_nothing_is_added_to_it() {
    let agent = Agent::start();
    let client = agent.client();
    for (command, expected) in [
        ("printf 'x'", "x"),
        ("printf ''", ""),
        ("printf 'é\\0\\n'", "é\0\n"),
        ("echo", "\n"),
    ] {
        let result = exec(&client, command).await;
        assert_eq!(
            (result.stdout.as_str(), result.stdout_encoding),
            (expected, TextEncoding::Utf8)
        );
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
    let mut events = client
        .process_events(&id, EventQuery::default())
        .await
        .unwrap();
    let mut heard = Heard::default();
    heard.until_the_end(&mut events).await;
    assert_eq!((heard.stdout, heard.stderr), (plain.stdout, plain.stderr));
    assert_eq!(heard.first, [Some(0), Some(0)]);
}

#[tokio::test]
async fn awkward_bytes_come_through_a_session_as_result_events_and_raw() {
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    let plain = plain_bash(AWKWARD);
    let result = shell.run(AWKWARD).await;
    assert_eq!(
        session_bytes_of(&result),
        (plain.stdout.clone(), plain.stderr.clone())
    );
    let result = shell.ask(&in_base64(AWKWARD)).await;
    assert_eq!(
        session_bytes_of(&result),
        (plain.stdout.clone(), plain.stderr.clone())
    );
    let id = result.command_id;
    assert_eq!(shell.follow(&id, StreamName::Stdout).await, plain.stdout);
    assert_eq!(shell.follow(&id, StreamName::Stderr).await, plain.stderr);
    let request = in_base64(AWKWARD);
    let mut events = shell
        .client
        .session_exec_stream(&shell.id, &request)
        .await
        .unwrap();
    let mut heard = Heard::default();
    heard.until_the_end(&mut events).await;
    assert_eq!((heard.stdout, heard.stderr), (plain.stdout, plain.stderr));
}

#[tokio::test]
async fn a_character_is_not_split_between_two_events() {
    let agent = Agent::start();
    let client = agent.client();
    // Four-byte characters written a byte at a time.
    let text = "for i in 1 2 3 4 5; do printf '\\360'; printf '\\237'; printf '\\246'; printf '\\200'; done";
    let id = start(&client, &process_of(text)).await;
    let mut events = client
        .process_events(&id, EventQuery::default())
        .await
        .unwrap();
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

#[tokio::test]
async fn twenty_megabytes_on_both_streams_at_once_are_what_plain_bash_writes() {
    let agent = Agent::start();
    let client = agent.client();
    let plain = plain_bash(MUCH);
    assert!(plain.stdout.len() > 19_000_000 && plain.stderr.len() > 19_000_000);
    let id = start(&client, &process_of(MUCH)).await;
    let (stdout, stderr) = tokio::join!(
        follow(&client, &id, StreamName::Stdout),
        follow(&client, &id, StreamName::Stderr)
    );
    // Equal bytes are more than equal hashes, and quicker to compare without optimisation.
    assert!(stdout == plain.stdout && stderr == plain.stderr);
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
    let request = ExecRequest {
        max_output_bytes: limit,
        ..exec_of(MUCH)
    };
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
    let id = start(
        &client,
        &process_of(&format!("head -c {size} /dev/zero; echo over >&2")),
    )
    .await;
    let mut stalled = client
        .process_output(&id, OutputQuery::follow(StreamName::Stdout))
        .await
        .unwrap();
    let mut events = client
        .process_events(&id, EventQuery::default())
        .await
        .unwrap();
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
    let body = client
        .process_output(&id, OutputQuery::all(StreamName::Stdout))
        .await
        .unwrap();
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
        let expected = Some(Truncated {
            stdout_bytes: 10,
            stderr_bytes: 0,
        });
        let limit = Some(10);
        let request = ExecRequest {
            truncate,
            max_output_bytes: limit,
            ..exec_of(command)
        };
        let result = shell.client.exec(&request).await.unwrap();
        assert_eq!(
            (result.stdout.as_str(), result.truncated),
            (stdout, expected),
            "{truncate:?}"
        );
        assert_eq!(result.stderr, "0123456789");
        let mut request = crate::calls::text(command);
        (request.truncate, request.max_output_bytes) = (truncate, limit);
        let result = shell.ask(&request).await;
        assert_eq!(
            (result.stdout.as_str(), result.truncated),
            (stdout, expected),
            "{truncate:?}"
        );
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
        let request = ExecRequest {
            truncate,
            max_output_bytes: Some(7),
            ..exec_of(command)
        };
        let result = client.exec(&request).await.unwrap();
        assert_eq!(
            result.stdout_encoding,
            TextEncoding::Utf8,
            "{truncate:?}: {result:?}"
        );
        assert_eq!(result.stdout, stdout, "{truncate:?}");
        let expected = Truncated {
            stdout_bytes: missing,
            stderr_bytes: 0,
        };
        assert_eq!(result.truncated, Some(expected), "{truncate:?}");
    }
    let request = ExecRequest {
        max_output_bytes: Some(0),
        ..exec_of("echo x; echo yy >&2")
    };
    let result = client.exec(&request).await.unwrap();
    assert_eq!((result.stdout.as_str(), result.stderr.as_str()), ("", ""));
    assert_eq!(
        result.truncated,
        Some(Truncated {
            stdout_bytes: 2,
            stderr_bytes: 3
        })
    );
}
