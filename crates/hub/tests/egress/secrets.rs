//! Secrets: put in for their host, and never seen by the sandbox.

use rustls::pki_types::ServerName;
use tokio::io::AsyncWriteExt;

use crate::passing::client;
use crate::world::{World, rest, world};

const SECRET: (&str, &str, &str) = ("ok.test", "authorization", "Bearer hunter2");

async fn https(world: &World, root: &str, host: &'static str, request: &str) -> String {
    let stream = world.connect(&format!("{host}:443")).await;
    let name = ServerName::try_from(host).unwrap();
    let mut stream = client(root).connect(name, stream).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    rest(&mut stream).await
}

#[tokio::test]
async fn over_http_and_https() {
    let world = world(&["ok.test", "other.test"], &[SECRET]).await;
    let plain = "GET http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nConnection: close, authorization\r\n\
                 Authorization: mine\r\nAUTHORIZATION: mine too\r\n\r\n";
    assert!(world.say(plain).await.starts_with("HTTP/1.1 200"));
    let authority = world.authority.clone().unwrap();
    let request = "GET /1 HTTP/1.1\r\nHost: ok.test\r\nauthorization: mine\r\n\r\n\
                   GET /2 HTTP/1.1\r\nHost: ok.test\r\nConnection: close\r\n\r\n";
    let answer = https(&world, &authority, "ok.test", request).await;
    assert_eq!(answer.matches("HTTP/1.1 200").count(), 2, "{answer}");
    let seen = world.seen.all();
    assert_eq!(seen.len(), 3);
    for one in seen {
        assert!(one.contains("authorization: Bearer hunter2\n"), "{one}");
        assert!(!one.contains("mine"), "{one}");
    }
    // Another host gets nothing, and keeps its own certificate.
    let root = world.root.clone();
    let request = "GET / HTTP/1.1\r\nHost: other.test\r\nConnection: close\r\n\r\n";
    let answer = https(&world, &root, "other.test", request).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let plain = "GET http://other.test/ HTTP/1.1\r\nHost: other.test\r\nConnection: close\r\n\r\n";
    world.say(plain).await;
    let seen = world.seen.all();
    assert_eq!(seen.len(), 5);
    assert!(seen[3..].iter().all(|one| !one.contains("hunter2")));
}

#[tokio::test]
async fn not_in_refusals_nor_echoes() {
    let mut world = world(&["ok.test"], &[SECRET]).await;
    let authority = world.authority.clone().unwrap();
    for request in [
        // The Host is checked inside the TLS that we end.
        "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        "TRACE / HTTP/1.1\r\nHost: ok.test\r\n\r\n",
    ] {
        let answer = https(&world, &authority, "ok.test", request).await;
        assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
        assert!(!answer.contains("hunter2"), "{answer}");
        let refused = world.refusal().await;
        assert!(!format!("{refused:?}").contains("hunter2"));
    }
    assert!(world.seen.all().is_empty());
    assert!(!format!("{:?}", world.egress).contains("hunter2"));
}

/// The server is verified: an impostor does not get the secret.
#[tokio::test]
async fn not_to_an_impostor() {
    // The servers have no certificate for this name.
    let world = world(&["a.wild.test"], &[("a.wild.test", "x-key", "hunter2")]).await;
    let authority = world.authority.clone().unwrap();
    let request = "GET / HTTP/1.1\r\nHost: a.wild.test\r\nConnection: close\r\n\r\n";
    let answer = https(&world, &authority, "a.wild.test", request).await;
    assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
    assert!(!answer.contains("hunter2"));
    assert!(world.seen.all().is_empty());
}

/// A secret for one port of a host is not sent to another.
#[tokio::test]
async fn only_on_its_port() {
    let secret = ("ok.test:443", "x-key", "hunter2");
    let world = world(&["ok.test"], &[secret]).await;
    world
        .say("GET http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nConnection: close\r\n\r\n")
        .await;
    let authority = world.authority.clone().unwrap();
    let request = "GET / HTTP/1.1\r\nHost: ok.test\r\nConnection: close\r\n\r\n";
    https(&world, &authority, "ok.test", request).await;
    let seen = world.seen.all();
    assert!(!seen[0].contains("x-key"), "{}", seen[0]);
    assert!(seen[1].contains("x-key: hunter2\n"), "{}", seen[1]);
}
