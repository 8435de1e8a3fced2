//! The figures at `/metrics`: well-formed, and equal to what was done.

use std::collections::BTreeMap;

use sandshell_client::types::SessionRequest;
use sandshell_client::{EventQuery, ProcessFilter};
use sandshell_testkit::Agent;

use crate::calls::{exec_of, in_time, process_of};

/// Samples by name and labels. Every one must belong to a family that was opened before it, and the
/// buckets of a histogram only grow.
fn read(text: &str) -> BTreeMap<String, f64> {
    let mut samples = BTreeMap::new();
    let mut families: Vec<&str> = Vec::new();
    let mut bucket = ("", 0.0);
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# ") {
            let (kind, rest) = rest.split_once(' ').unwrap();
            let (name, rest) = rest.split_once(' ').unwrap();
            assert!(!rest.is_empty(), "{line}");
            if kind == "TYPE" {
                assert!(!families.contains(&name), "{name} is there twice");
                families.push(name);
            }
            continue;
        }
        let (name, value) = line.rsplit_once(' ').unwrap();
        let bare = name.split('{').next().unwrap();
        let family = families.last().unwrap();
        assert!(
            ["", "_bucket", "_sum", "_count"]
                .map(|end| format!("{family}{end}"))
                .contains(&bare.to_owned()),
            "{line} is not in {family}"
        );
        let value: f64 = value.parse().unwrap();
        if let Some((series, _)) = name.split_once(",le=") {
            assert!(series != bucket.0 || value >= bucket.1, "{line}");
            bucket = (series, value);
        }
        let twice = samples.insert(name.to_owned(), value);
        assert!(twice.is_none(), "{line}");
    }
    samples
}

#[tokio::test]
async fn say_what_was_done() {
    let agent = Agent::start();
    let client = agent.client();
    for _ in 0..3 {
        client.exec(&exec_of("true")).await.unwrap();
    }
    client
        .create_session(&SessionRequest::default())
        .await
        .unwrap();
    let mut process = process_of("echo begun; read x");
    (process.id, process.stdin_open) = (Some("live".parse().unwrap()), true);
    let id = client.create_process(&process).await.unwrap().id;
    assert!(client.process(&"gone".parse().unwrap()).await.is_err());
    client
        .list_processes(&ProcessFilter::default())
        .await
        .unwrap();
    // A stream that stays open; it is counted from its first event.
    let mut events = client
        .process_events(&id, EventQuery::default())
        .await
        .unwrap();
    let first = in_time(events.next()).await.unwrap();
    assert!(first.is_ok());

    let figures = read(&in_time(client.metrics()).await.unwrap());
    let requests = |labels: &str| {
        figures
            .get(&format!("sandshell_http_requests_total{{{labels}}}"))
            .copied()
    };
    assert_eq!(
        requests(r#"route="/v1/exec",method="POST",status="200""#),
        Some(3.0)
    );
    assert_eq!(
        requests(r#"route="/v1/processes/{id}",method="GET",status="404""#),
        Some(1.0)
    );
    let duration = "sandshell_http_request_duration_seconds";
    let count = |name: &str| figures[name].to_string();
    for (name, value) in [
        (
            r#"sandshell_http_request_duration_seconds_count{route="/v1/exec"}"#,
            "3",
        ),
        (
            r#"sandshell_http_request_duration_seconds_bucket{route="/v1/exec",le="+Inf"}"#,
            "3",
        ),
        (
            r#"sandshell_processes{kind="process",state="running"}"#,
            "1",
        ),
        (r#"sandshell_processes{kind="exec",state="exited"}"#, "3"),
        (r#"sandshell_sessions{state="idle"}"#, "1"),
        ("sandshell_http_streams", "1"),
    ] {
        assert_eq!(count(name), value, "{name}");
    }
    assert!(figures[&format!("{duration}_sum{{route=\"/v1/exec\"}}")] > 0.0);
    assert!(figures["sandshell_http_connections"] >= 2.0);
    assert!(figures["process_resident_memory_bytes"] > 1e6);
    drop(events);
}
