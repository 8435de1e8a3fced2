//! Making, finding and ending sandboxes.

use std::collections::BTreeMap;

use http::Method;
use sandshell_client::types::{ErrorCode, OnIdle, SandboxPatch, SandboxSpec, SandboxState};
use sandshell_client::{AuditFilter, Client, Page, SandboxFilter};
use sandshell_testkit::{Hub, UnprivilegedUser, alive_with_marker, wait_until_gone};

use super::{get, id_of, raw, raw_with, sandbox, spec_of};
use crate::calls::{DEADLINE, code_of, exec, in_time, marker, process_of};

fn directories(hub: &Hub) -> usize {
    std::fs::read_dir(hub.state_dir().join("sandboxes"))
        .unwrap()
        .count()
}

#[tokio::test]
async fn a_sandbox_is_made_used_and_gone() {
    let hub = Hub::start();
    let client = hub.client();
    let inside = sandbox(&client, "one").await;
    assert_eq!(exec(&inside, "echo hello").await.stdout, "hello\n");
    let record = get(&client, "one").await;
    assert_eq!(record.owner, "tok_admin");
    assert!(!record.protections.is_empty(), "every layer is reported");
    let mark = marker();
    let command = format!("setsid bash -c 'exec -a {mark} sleep 600' & exec -a {mark} sleep 600");
    let started = in_time(inside.create_process(&process_of(&command))).await;
    started.unwrap();
    let gone = in_time(client.destroy_sandbox(&id_of("one")))
        .await
        .unwrap();
    assert_eq!(gone.state, SandboxState::Gone);
    assert!(gone.ended_at.is_some());
    assert!(alive_with_marker(&mark).is_empty(), "kill means gone");
    assert_eq!(directories(&hub), 0);
    // The record stays for a while, and says why.
    let record = get(&client, "one").await;
    assert_eq!(
        record.reason.as_deref(),
        Some("it was destroyed on request")
    );
    let again = in_time(client.destroy_sandbox(&id_of("one")))
        .await
        .unwrap();
    assert_eq!(again, record);
    let refused = code_of(in_time(inside.exec(&crate::calls::exec_of("true"))).await);
    assert_eq!(refused, ErrorCode::SandboxGone);
    // Its id is free.
    let inside = sandbox(&client, "one").await;
    assert_eq!(exec(&inside, "echo again").await.stdout, "again\n");
    assert_eq!(get(&client, "one").await.reason, None);
    let all = SandboxFilter {
        state: Some("all".to_owned()),
        ..SandboxFilter::default()
    };
    let listed = in_time(client.sandboxes(&all)).await.unwrap();
    assert_eq!(listed.items.len(), 1, "an id has one record");
}

#[tokio::test]
async fn a_record_outlives_a_successor_that_cannot_be_made() {
    let hub = Hub::start();
    let client = hub.client();
    sandbox(&client, "one").await;
    let gone = in_time(client.destroy_sandbox(&id_of("one")))
        .await
        .unwrap();
    let spec = SandboxSpec {
        image: Some("there-is-none".to_owned()),
        ..spec_of("one")
    };
    let refused = code_of(in_time(client.create_sandbox(&spec)).await);
    assert_eq!(refused, ErrorCode::ImageNotFound);
    assert_eq!(get(&client, "one").await, gone);
}

#[tokio::test]
async fn one_id_is_one_sandbox() {
    let hub = Hub::start();
    let client = hub.client();
    let mut spec = spec_of("mine");
    spec.labels.insert("a".to_owned(), "b".to_owned());
    let made = futures_util::future::join_all((0..20).map(|_| {
        let (client, spec) = (client.clone(), spec.clone());
        async move {
            let body = serde_json::to_string(&spec).unwrap();
            raw(&client, Method::POST, "/v1/sandboxes", &body).await
        }
    }))
    .await;
    let fresh = made.iter().filter(|(status, _)| *status == 201).count();
    assert_eq!(fresh, 1, "{made:?}");
    let first = &made[0].1["created_at"];
    assert!(
        made.iter()
            .all(|(status, body)| *status < 300 && &body["created_at"] == first)
    );
    assert_eq!(directories(&hub), 1);
    // Another spec is told apart by its field, and changes nothing.
    for (field, other) in [
        (
            "labels",
            SandboxSpec {
                labels: BTreeMap::new(),
                ..spec.clone()
            },
        ),
        (
            "idle_timeout_ms",
            SandboxSpec {
                idle_timeout_ms: Some(1),
                ..spec.clone()
            },
        ),
        (
            "env",
            SandboxSpec {
                env: [("A".to_owned(), "b".to_owned())].into(),
                ..spec.clone()
            },
        ),
    ] {
        let body = serde_json::to_string(&other).unwrap();
        let (status, problem) = raw(&client, Method::POST, "/v1/sandboxes", &body).await;
        assert_eq!(
            (status, &problem["code"]),
            (409, &"id_conflict".into()),
            "{problem}"
        );
        assert_eq!(problem["pointer"], format!("/{field}"));
    }
    // A change of the sandbox does not change what it was asked for with.
    let patch = SandboxPatch {
        idle_timeout_ms: Some(600_000),
        on_idle: Some(OnIdle::Destroy),
        labels: [
            ("a".to_owned(), None),
            ("c".to_owned(), Some("d".to_owned())),
        ]
        .into(),
        ..SandboxPatch::default()
    };
    let patched = in_time(client.patch_sandbox(&id_of("mine"), &patch))
        .await
        .unwrap();
    assert_eq!(
        patched.spec.labels,
        BTreeMap::from([("c".to_owned(), "d".to_owned())])
    );
    assert_eq!(patched.spec.idle_timeout_ms, Some(600_000));
    let again = in_time(client.create_sandbox(&spec)).await.unwrap();
    assert_eq!(again.spec.labels, patched.spec.labels);
}

#[tokio::test]
async fn a_create_with_a_key_is_done_once_even_by_two_hubs() {
    let mut hub = Hub::start();
    let body = serde_json::to_string(&SandboxSpec {
        id: None,
        ..spec_of("x")
    })
    .unwrap();
    let key = [("idempotency-key", "once")];
    let client = hub.client();
    let path = "/v1/sandboxes";
    let (status, first) = raw_with(&client, Method::POST, path, &key, &body).await;
    assert_eq!(status, 201);
    let (status, second) = raw_with(&client, Method::POST, path, &key, &body).await;
    assert_eq!((status, &second), (201, &first));
    let (status, other) = raw_with(&client, Method::POST, path, &key, "{}").await;
    assert_eq!(
        (status, &other["code"]),
        (409, &"idempotency_conflict".into())
    );
    hub.kill_hard();
    hub.restart();
    let (status, third) = raw_with(&hub.client(), Method::POST, path, &key, &body).await;
    assert_eq!((status, &third["id"]), (200, &first["id"]));
    assert_eq!(directories(&hub), 1);
}

#[tokio::test]
async fn strict_makes_no_sandbox_that_lacks_a_protection() {
    let hub = Hub::start();
    let client = hub.client();
    // What is off depends on the machine; that one of the layers cannot be required does not.
    let probe = in_time(client.create_sandbox(&spec_of("probe")))
        .await
        .unwrap();
    let off = probe
        .protections
        .iter()
        .find(|one| one.status == sandshell_client::types::ProtectionStatus::Off);
    let Some(off) = off else {
        return crate::calls::skipped("every protection is enforced here");
    };
    in_time(client.destroy_sandbox(&probe.id)).await.unwrap();
    for body in [
        r#"{"id":"strict"}"#.to_owned(),
        format!(
            r#"{{"id":"strict","isolation":{{"policy":"best_effort","require":["{}"]}}}}"#,
            off.name.name()
        ),
    ] {
        let (status, problem) = raw(&client, Method::POST, "/v1/sandboxes", &body).await;
        assert_eq!(
            (status, &problem["code"]),
            (422, &"isolation_unavailable".into())
        );
        assert!(
            problem["detail"]
                .as_str()
                .unwrap()
                .contains(off.name.name())
        );
        assert!(problem["hint"].as_str().unwrap().contains("doctor"));
        assert!(!problem["protections"].as_array().unwrap().is_empty());
        assert_eq!(directories(&hub), 0, "nothing is left");
        let found = in_time(client.get_sandbox(&id_of("strict"))).await;
        assert_eq!(code_of(found), ErrorCode::SandboxNotFound);
    }
    let filter = AuditFilter {
        target: Some("strict".to_owned()),
        ..AuditFilter::default()
    };
    let log = in_time(client.audit(&filter)).await.unwrap();
    assert!(
        log.items
            .iter()
            .all(|entry| entry.outcome == "isolation_unavailable")
    );
    assert_eq!(log.items.len(), 2);
}

#[tokio::test]
async fn sandboxes_are_listed_by_label_state_and_page() {
    let hub = Hub::start();
    let client = hub.client();
    for n in 0..5 {
        let mut spec = spec_of(&format!("n-{n}"));
        let parity = if n % 2 == 0 { "even" } else { "odd" };
        spec.labels.insert("parity".to_owned(), parity.to_owned());
        spec.labels.insert("app/n".to_owned(), n.to_string());
        in_time(client.create_sandbox(&spec)).await.unwrap();
    }
    let list = |labels: &[(&str, &str)], state: Option<&str>| {
        let filter = SandboxFilter {
            labels: labels
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
            state: state.map(str::to_owned),
            page: Page::default(),
        };
        let client = client.clone();
        async move {
            let list = in_time(client.sandboxes(&filter)).await.unwrap();
            list.items
                .iter()
                .map(|one| one.id.to_string())
                .collect::<Vec<_>>()
        }
    };
    assert_eq!(list(&[], None).await, ["n-0", "n-1", "n-2", "n-3", "n-4"]);
    assert_eq!(
        list(&[("parity", "even")], None).await,
        ["n-0", "n-2", "n-4"]
    );
    assert_eq!(
        list(&[("parity", "even"), ("app/n", "2")], None).await,
        ["n-2"]
    );
    in_time(client.destroy_sandbox(&id_of("n-0")))
        .await
        .unwrap();
    assert_eq!(list(&[("parity", "even")], None).await, ["n-2", "n-4"]);
    assert_eq!(list(&[], Some("gone")).await, ["n-0"]);
    assert_eq!(list(&[], Some("all")).await.len(), 5);
    // Page by page, and the one the cursor stands on may go meanwhile.
    let mut seen = Vec::new();
    let mut cursor = None;
    loop {
        let filter = SandboxFilter {
            page: Page {
                limit: Some(1),
                cursor,
            },
            ..SandboxFilter::default()
        };
        let page = in_time(client.sandboxes(&filter)).await.unwrap();
        for one in &page.items {
            seen.push(one.id.to_string());
            if one.id.as_str() == "n-2" {
                in_time(client.destroy_sandbox(&one.id)).await.unwrap();
            }
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, ["n-1", "n-2", "n-3", "n-4"]);
}

#[tokio::test]
async fn one_that_dies_is_buried_with_the_reason() {
    let hub = Hub::start();
    let client = hub.client();
    let inside = sandbox(&client, "dying").await;
    let mark = marker();
    let command = format!("exec -a {mark} sleep 600");
    in_time(inside.create_process(&process_of(&command)))
        .await
        .unwrap();
    // Its agent, a process this test's hub started.
    let place = std::fs::read_dir(hub.state_dir().join("sandboxes")).unwrap();
    let place = place.flatten().next().unwrap().path();
    let pid = rustix::process::Pid::from_raw(super::agent_of(&place)).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let record = super::until(&client, "dying", SandboxState::Failed).await;
    assert!(record.reason.unwrap().contains("ended by itself"));
    assert!(wait_until_gone(&mark, DEADLINE).is_empty());
    assert_eq!(directories(&hub), 0);
    let refused = code_of(in_time(inside.exec(&crate::calls::exec_of("true"))).await);
    assert_eq!(refused, ErrorCode::SandboxGone);
}

async fn metric(client: &Client, name: &str) -> u64 {
    let text = in_time(client.metrics()).await.unwrap();
    let begins = format!("{name} ");
    let value = text.lines().find_map(|line| line.strip_prefix(&begins));
    value.unwrap().parse().unwrap()
}

async fn warm_one_waits(client: &Client) -> bool {
    metric(client, "sandshell_sandboxes_warm").await > 0
}

async fn taken_warm(client: &Client) -> u64 {
    metric(client, "sandshell_sandboxes_from_warm_total").await
}

#[tokio::test]
async fn a_warm_sandbox_is_taken_when_it_fits() {
    let hub = Hub::with(&["--warm", "1"]);
    let client = hub.client();
    let full = async {
        while !warm_one_waits(&client).await {
            tokio::task::yield_now().await;
        }
    };
    in_time(full).await;
    let mut other = spec_of("other");
    other.env.insert("A".to_owned(), "b".to_owned());
    in_time(client.create_sandbox(&other)).await.unwrap();
    assert_eq!(taken_warm(&client).await, 0);
    let inside = sandbox(&client, "fits").await;
    assert_eq!(taken_warm(&client).await, 1);
    assert_eq!(exec(&inside, "echo warm").await.stdout, "warm\n");
}

/// The host name is the id: of one that was made for it, of one that waited, and of one that waited and
/// is taken under another id.
#[tokio::test]
async fn a_sandbox_calls_itself_by_its_id() {
    let ordinary = UnprivilegedUser::get().map(|user| Hub::of_with(user, &["--warm", "1"]));
    for hub in [Some(Hub::with(&["--warm", "1"])), ordinary]
        .into_iter()
        .flatten()
    {
        let client = hub.client();
        let check = async |spec: SandboxSpec, warm: bool| {
            let full = async {
                while !warm_one_waits(&client).await {
                    tokio::task::yield_now().await;
                }
            };
            in_time(full).await;
            let before = taken_warm(&client).await;
            let made = in_time(client.create_sandbox(&spec)).await.unwrap();
            assert_eq!(taken_warm(&client).await > before, warm);
            let inside = client.sandbox(&made.id);
            let ask = "uname -n; cat /proc/sys/kernel/hostname /etc/hostname; \
                       getent hosts $(uname -n); getent hosts localhost";
            let told = exec(&inside, ask).await;
            let words: Vec<&str> = told.stdout.split_whitespace().collect();
            let id = made.id.as_str();
            let expected = [
                id,
                id,
                id,
                "127.0.0.1",
                id,
                "::1",
                "localhost",
                "ip6-localhost",
            ];
            assert_eq!(words, expected);
        };
        let unnamed = SandboxSpec {
            id: None,
            ..spec_of("x")
        };
        let own = |spec: &SandboxSpec| SandboxSpec {
            env: [("A".to_owned(), "b".to_owned())].into(),
            ..spec.clone()
        };
        check(unnamed.clone(), true).await;
        check(spec_of("named"), true).await;
        check(own(&unnamed), false).await;
        check(own(&spec_of("fresh")), false).await;
    }
}
