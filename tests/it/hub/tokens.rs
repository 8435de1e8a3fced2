//! Who may do what.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use http::Method;
use sandshell_client::types::{
    ErrorCode, KillRequest, ProcessId, Scope, StreamName, TerminalId, TerminalRequest,
    TerminalState, Timestamp, TokenCreated, TokenRequest,
};
use sandshell_client::{
    AuditFilter, ByteStream, Client, ConnectOptions, OutputQuery, Page, SandboxFilter,
    TerminalConnection, TerminalEvent,
};
use sandshell_testkit::Hub;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{id_of, raw, sandbox, spec_of};
use crate::calls::{code_of, exec, exec_of, in_time, process_of, start};

async fn token(hub: &Hub, scopes: &[Scope]) -> (String, Client) {
    let request = TokenRequest {
        name: Some("test".to_owned()),
        scopes: scopes.to_vec(),
        expires_at: None,
        max_sandboxes: None,
    };
    let made = in_time(hub.client().create_token(&request)).await.unwrap();
    (made.record.id, hub.client_with(Some(&made.token)))
}

#[tokio::test]
async fn a_foreign_token_learns_nothing() {
    let hub = Hub::start();
    let admin = hub.client();
    let (_, one) = token(&hub, &[Scope::Create]).await;
    let (_, two) = token(&hub, &[Scope::Create]).await;
    let mine = sandbox(&one, "mine").await;
    assert_eq!(exec(&mine, "echo me").await.stdout, "me\n");
    // For the other, it is as if it were not there: the same answer as for an id nobody has.
    for path in [
        "",
        "/exec",
        "/processes",
        "/pause",
        "/files?path=/",
        "/ports/1/preview",
    ] {
        for method in [Method::GET, Method::POST, Method::DELETE, Method::PATCH] {
            let there = format!("/v1/sandboxes/mine{path}");
            let nowhere = format!("/v1/sandboxes/none{path}");
            let (status, mut was) = raw(&two, method.clone(), &there, "{}").await;
            let (expected, mut other) = raw(&two, method.clone(), &nowhere, "{}").await;
            was["request_id"] = "".into();
            other["request_id"] = "".into();
            let text = was.to_string().replace("mine", "none");
            assert_eq!(
                (status, text),
                (expected, other.to_string()),
                "{method} {path}"
            );
            assert!(status == 404 || status == 405, "{method} {path}: {status}");
        }
    }
    let listed = in_time(two.sandboxes(&SandboxFilter::default()))
        .await
        .unwrap();
    assert!(listed.items.is_empty());
    let taken = in_time(two.create_sandbox(&spec_of("mine"))).await;
    assert_eq!(code_of(taken), ErrorCode::IdConflict);
    // The admin may all.
    assert_eq!(
        exec(&admin.sandbox(&id_of("mine")), "echo root")
            .await
            .stdout,
        "root\n"
    );
    assert_eq!(
        in_time(admin.sandboxes(&SandboxFilter::default()))
            .await
            .unwrap()
            .items
            .len(),
        1
    );
    // Tokens, the log and the figures are the admin's.
    for path in ["/v1/tokens", "/v1/audit", "/metrics"] {
        let (status, problem) = raw(&one, Method::GET, path, "").await;
        assert_eq!(
            (status, &problem["code"]),
            (403, &"forbidden".into()),
            "{path}"
        );
    }
}

/// The answer to the last thing that a token may ask for arrives.
#[tokio::test]
async fn a_token_may_end_itself() {
    let hub = Hub::start();
    let (id, own) = token(&hub, &[Scope::Admin]).await;
    let ended = in_time(own.revoke_token(&id)).await.unwrap();
    assert!(ended.revoked_at.is_some());
    assert_eq!(
        code_of(own.tokens(&Page::default()).await),
        ErrorCode::Unauthorized
    );
}

#[tokio::test]
async fn a_token_for_one_sandbox_ends_with_it() {
    let hub = Hub::start();
    let admin = hub.client();
    sandbox(&admin, "again").await;
    let (_, holder) = token(&hub, &[Scope::Sandbox(id_of("again"))]).await;
    let inside = holder.sandbox(&id_of("again"));
    assert_eq!(exec(&inside, "echo in").await.stdout, "in\n");
    in_time(admin.destroy_sandbox(&id_of("again")))
        .await
        .unwrap();
    // Somebody else takes the id.
    let (_, other) = token(&hub, &[Scope::Create]).await;
    sandbox(&other, "again").await;
    let strange = in_time(inside.exec(&exec_of("true"))).await;
    assert_eq!(code_of(strange), ErrorCode::SandboxNotFound);
    let seen = in_time(holder.sandboxes(&SandboxFilter::default())).await;
    assert!(seen.unwrap().items.is_empty());
}

#[tokio::test]
async fn a_token_for_one_sandbox_uses_it_and_does_not_end_it() {
    let hub = Hub::start();
    let admin = hub.client();
    sandbox(&admin, "a").await;
    sandbox(&admin, "b").await;
    let (_, holder) = token(&hub, &[Scope::Sandbox(id_of("a"))]).await;
    assert_eq!(
        exec(&holder.sandbox(&id_of("a")), "echo in").await.stdout,
        "in\n"
    );
    in_time(holder.keep_sandbox_alive(&id_of("a")))
        .await
        .unwrap();
    let other = in_time(holder.sandbox(&id_of("b")).exec(&exec_of("true"))).await;
    assert_eq!(code_of(other), ErrorCode::SandboxNotFound);
    let ended = in_time(holder.destroy_sandbox(&id_of("a"))).await;
    assert_eq!(code_of(ended), ErrorCode::Forbidden);
    let made = in_time(holder.create_sandbox(&spec_of("c"))).await;
    assert_eq!(code_of(made), ErrorCode::Forbidden);
    assert_eq!(
        in_time(holder.sandboxes(&SandboxFilter::default()))
            .await
            .unwrap()
            .items
            .len(),
        1
    );
}

/// A token of an admin that opens something for a moment only.
async fn expiring_soon(hub: &Hub) -> TokenCreated {
    // On a machine that stands still the time may be over before the hub hears of it.
    for ms in [300, 3000, 30_000] {
        let request = TokenRequest {
            name: None,
            scopes: vec![Scope::Admin],
            expires_at: Some(Timestamp::now() + Duration::from_millis(ms)),
            max_sandboxes: None,
        };
        match in_time(hub.client().create_token(&request)).await {
            Ok(made) => return made,
            Err(error) => assert!(error.to_string().contains("that time is over"), "{error}"),
        }
    }
    panic!("no token was made in its time");
}

#[tokio::test]
async fn a_revoked_or_expired_token_opens_nothing_also_after_a_restart() {
    let mut hub = Hub::start();
    let (id, holder) = token(&hub, &[Scope::Create]).await;
    sandbox(&holder, "mine").await;
    let soon = expiring_soon(&hub).await;
    let brief = hub.client_with(Some(&soon.token));
    let expired = async {
        while raw(&brief, Method::GET, "/v1/sandboxes", "").await.0 == 200 {
            tokio::task::yield_now().await;
        }
    };
    in_time(expired).await;
    assert!(Timestamp::now() >= soon.record.expires_at.unwrap());
    let revoked = in_time(hub.client().revoke_token(&id)).await.unwrap();
    assert!(revoked.revoked_at.is_some());
    for _ in 0..2 {
        for client in [
            &holder,
            &brief,
            &hub.client_with(Some("sk_0")),
            &hub.client_with(None),
        ] {
            let (status, problem) = raw(client, Method::GET, "/v1/sandboxes", "").await;
            assert_eq!((status, &problem["code"]), (401, &"unauthorized".into()));
        }
        hub.kill_hard();
        hub.restart();
    }
    // What it made stays, and is the admin's to end.
    in_time(hub.client().destroy_sandbox(&id_of("mine")))
        .await
        .unwrap();
    let own = in_time(hub.client().revoke_token("tok_admin")).await;
    assert_eq!(code_of(own), ErrorCode::Forbidden);
    let unknown = in_time(hub.client().revoke_token("tok_none")).await;
    assert_eq!(code_of(unknown), ErrorCode::TokenNotFound);
    let all = in_time(hub.client().tokens(&Page::default()))
        .await
        .unwrap();
    assert_eq!(all.items.len(), 3);
}

/// A stream of events, by hand: what came so far, and the connection.
async fn open_events(
    url: &str,
    target: &str,
    secret: Option<&str>,
    until: &str,
) -> (String, TcpStream) {
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let by = secret.map_or_else(String::new, |secret| {
        format!("authorization: Bearer {secret}\r\n")
    });
    let head = format!(
        "GET {target} HTTP/1.1\r\nhost: {address}\r\naccept: text/event-stream\r\nconnection: close\r\n{by}\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut text = String::new();
    while !text.contains(until) {
        let mut buffer = [0; 4096];
        let read = in_time(stream.read(&mut buffer)).await.unwrap();
        assert!(read > 0, "{text}");
        text.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
    }
    (text, stream)
}

/// What a token has open.
struct Opened {
    streams: [(String, TcpStream); 2],
    output: ByteStream,
    terminal: TerminalId,
    connection: TerminalConnection,
}

/// Opens all that a token can.
async fn open_all(url: String, secret: String, process: ProcessId) -> Opened {
    let events = format!("/v1/sandboxes/box/processes/{process}/output?follow=true");
    let holder = Client::new(&url, Some(&secret)).unwrap();
    let theirs = holder.sandbox(&id_of("box"));
    let by_token = open_events(&url, &events, Some(&secret), "begun").await;
    // A ticket that the token gave is not worth more than it.
    let body = format!(r#"{{"path":"/v1/sandboxes/box/processes/{process}/output"}}"#);
    let (status, ticket) = raw(&holder, Method::POST, "/v1/tickets", &body).await;
    assert_eq!(status, 201, "{ticket}");
    let target = format!("{}&follow=true", ticket["url"].as_str().unwrap());
    let by_ticket = open_events(&url, &target, None, "begun").await;
    let output = OutputQuery::follow(StreamName::Stdout);
    let output = in_time(theirs.process_output(&process, output))
        .await
        .unwrap();
    let request = TerminalRequest {
        argv: Some(vec!["cat".to_owned()]),
        ..TerminalRequest::default()
    };
    let terminal = in_time(theirs.create_terminal(&request)).await.unwrap().id;
    let connected = theirs.connect_terminal(&terminal, ConnectOptions::default());
    let connection = in_time(connected).await.unwrap();
    Opened {
        streams: [by_token, by_ticket],
        output,
        terminal,
        connection,
    }
}

/// A token of one sandbox that has all open, made to expire or not.
async fn with_all_open(hub: &Hub, process: &ProcessId, expires: bool) -> (TokenCreated, Opened) {
    for seconds in [10, 50] {
        let soon = Timestamp::now() + Duration::from_secs(seconds);
        let request = TokenRequest {
            name: None,
            scopes: vec![Scope::Sandbox(id_of("box"))],
            expires_at: expires.then_some(soon),
            max_sandboxes: None,
        };
        let made = match in_time(hub.client().create_token(&request)).await {
            Ok(made) => made,
            Err(error) => {
                assert!(error.to_string().contains("that time is over"), "{error}");
                continue;
            }
        };
        let opening = open_all(hub.url().to_owned(), made.token.clone(), process.clone());
        match tokio::spawn(opening).await {
            Ok(opened) => return (made, opened),
            // On a machine that stands still it may be over before all is open.
            Err(_) if expires && Timestamp::now() >= soon => {}
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
    panic!("a token was over before all was open");
}

/// The end of a token is the end of what it has open: streams say so, terminals close, bodies break off.
#[tokio::test]
async fn what_a_token_has_open_ends_with_it() {
    let hub = Hub::start();
    let admin = hub.client();
    sandbox(&admin, "box").await;
    let inside = admin.sandbox(&id_of("box"));
    let process = start(&inside, &process_of("echo begun; exec sleep 600")).await;
    let events = format!("/v1/sandboxes/box/processes/{process}/output?follow=true");
    let kept = open_events(hub.url(), &events, Some(hub.token()), "begun").await;
    for expires in [false, true] {
        let (made, opened) = with_all_open(&hub, &process, expires).await;
        let Opened {
            streams,
            output,
            terminal,
            mut connection,
        } = opened;
        if !expires {
            in_time(admin.revoke_token(&made.record.id)).await.unwrap();
        }
        for (mut text, mut stream) in streams {
            in_time(stream.read_to_string(&mut text)).await.unwrap();
            assert!(text.contains("event: error\ndata: {"), "{text}");
            assert!(text.contains(r#""code":"unauthorized""#), "{text}");
        }
        assert!(
            in_time(output.read_to_end()).await.is_err(),
            "it breaks off"
        );
        let closed = in_time(async {
            loop {
                match connection.next().await {
                    Ok(Some(TerminalEvent::Closed { code, reason })) => return (code, reason),
                    Ok(Some(_)) => {}
                    other => panic!("{other:?}"),
                }
            }
        });
        assert_eq!(closed.await, (1008, "the token ended".to_owned()));
        // It was the right to watch that ended, not what was watched.
        let state = in_time(inside.terminal(&terminal)).await.unwrap().state;
        assert_eq!(state, TerminalState::Running);
    }
    let (mut text, mut stream) = kept;
    in_time(inside.kill_process(&process, &KillRequest::default()))
        .await
        .unwrap();
    while !text.contains("event: exit") {
        let mut buffer = [0; 4096];
        let read = in_time(stream.read(&mut buffer)).await.unwrap();
        assert!(read > 0, "{text}");
        text.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
    }
}

#[tokio::test]
async fn secrets_are_in_no_file_but_the_token_file() {
    let hub = Hub::start();
    let made = in_time(hub.client().create_token(&TokenRequest {
        name: None,
        scopes: vec![Scope::Create],
        expires_at: None,
        max_sandboxes: None,
    }))
    .await
    .unwrap();
    for entry in std::fs::read_dir(hub.state_dir()).unwrap() {
        let path = entry.unwrap().path();
        if !path.is_file() {
            continue;
        }
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}", path.display());
        let bytes = std::fs::read(&path).unwrap();
        let holds = |text: &str| {
            bytes
                .windows(text.len())
                .any(|part| part == text.as_bytes())
        };
        assert!(!holds(&made.token), "{}", path.display());
        let is_token_file = path.file_name().unwrap() == "token";
        assert_eq!(holds(hub.token()), is_token_file, "{}", path.display());
    }
}

#[tokio::test]
async fn a_token_has_so_many_sandboxes_and_no_more() {
    let hub = Hub::start();
    let made = in_time(hub.client().create_token(&TokenRequest {
        name: None,
        scopes: vec![Scope::Create],
        expires_at: None,
        max_sandboxes: Some(1),
    }))
    .await
    .unwrap();
    let holder = hub.client_with(Some(&made.token));
    sandbox(&holder, "one").await;
    let more = in_time(holder.create_sandbox(&spec_of("two"))).await;
    assert_eq!(code_of(more), ErrorCode::LimitReached);
    sandbox(&holder, "one").await;
    sandbox(&hub.client(), "two").await;
    in_time(holder.destroy_sandbox(&id_of("one")))
        .await
        .unwrap();
    sandbox(&holder, "three").await;
}

#[tokio::test]
async fn what_was_done_is_in_the_log() {
    let hub = Hub::start();
    let admin = hub.client();
    let (id, holder) = token(&hub, &[Scope::Create]).await;
    sandbox(&holder, "logged").await;
    in_time(holder.pause_sandbox(&id_of("logged")))
        .await
        .unwrap();
    in_time(holder.resume_sandbox(&id_of("logged")))
        .await
        .unwrap();
    in_time(admin.destroy_sandbox(&id_of("logged")))
        .await
        .unwrap();
    let filter = AuditFilter {
        target: Some("logged".to_owned()),
        ..AuditFilter::default()
    };
    let log = in_time(admin.audit(&filter)).await.unwrap().items;
    let told: Vec<(&str, Option<&str>)> = log
        .iter()
        .map(|entry| (entry.action.as_str(), entry.token.as_deref()))
        .collect();
    let id = Some(id.as_str());
    assert_eq!(
        told,
        [
            ("sandbox.destroy", Some("tok_admin")),
            ("sandbox.resume", id),
            ("sandbox.pause", id),
            ("sandbox.create", id),
        ]
    );
    assert!(
        log.iter()
            .all(|entry| entry.request_id.is_some() && entry.outcome == "ok")
    );
    let mut paged = Vec::new();
    let mut cursor = None;
    loop {
        let page = Page {
            limit: Some(3),
            cursor,
        };
        let filter = AuditFilter {
            page,
            ..AuditFilter::default()
        };
        let list = in_time(admin.audit(&filter)).await.unwrap();
        paged.extend(list.items);
        cursor = list.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    let all = in_time(admin.audit(&AuditFilter::default()))
        .await
        .unwrap()
        .items;
    assert_eq!(paged, all);
}

#[tokio::test]
async fn a_token_may_ask_so_often_and_no_more() {
    let hub = Hub::with(&["--rate", "20"]);
    let client = hub.client();
    let (mut served, mut refused) = (0, Vec::new());
    // On a slow machine so many may take long enough for all to be served.
    for _ in 0..5 {
        let answers = futures_util::future::join_all((0..60).map(|_| {
            let client = client.clone();
            async move { raw(&client, Method::GET, "/v1/sandboxes", "").await }
        }))
        .await;
        let (over, within): (Vec<_>, Vec<_>) =
            answers.into_iter().partition(|(status, _)| *status == 429);
        served += within.len();
        refused.extend(over);
        if !refused.is_empty() {
            break;
        }
    }
    assert!(served > 0 && !refused.is_empty(), "{served}");
    assert_eq!(refused[0].1["code"], "limit_reached");
    assert_eq!(raw(&client, Method::GET, "/healthz", "").await.0, 200);
}
