//! What is allowed gets through, byte by byte.

use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;

use crate::world::{BANNER_PORT, PUBLIC, read_head, rest, world};

/// A client that trusts this certificate (PEM).
pub(crate) fn client(root: &str) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    let root = rustls::pki_types::CertificateDer::from_pem_slice(root.as_bytes()).unwrap();
    roots.add(root).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

#[tokio::test]
async fn requests_and_bodies() {
    let world = world(&["OK.test", "*.wild.test"], &[]).await;
    let body = "x".repeat(200_000);
    let answer = world
        .say(&format!(
            "POST http://Ok.Test:80/p?q=%20 HTTP/1.1\r\nHost: ok.test\r\nX-Case: y\r\n\
             Proxy-Authorization: secret\r\nProxy-Connection: keep-alive\r\nConnection: close, x-hop\r\n\
             X-Hop: z\r\nContent-Length: 200000\r\n\r\n{body}"
        ))
        .await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.ends_with(&body));
    let seen = world.seen.all().remove(0);
    assert!(seen.starts_with("POST /p?q=%20\n"), "{seen}");
    assert!(
        seen.contains("x-case: y\n") && seen.contains("host: ok.test\n"),
        "{seen}"
    );
    for hop in ["proxy-", "x-hop", "connection"] {
        assert!(!seen.contains(hop), "{hop}: {seen}");
    }
    // Chunks, a name below a pattern, with a last dot.
    let answer = world
        .say(
            "POST http://a.wild.test./c HTTP/1.1\r\nHost: A.wild.test\r\n\
             Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        )
        .await;
    assert!(answer.ends_with("\nhello"), "{answer}");
    let stats = world.egress.stats();
    assert!(stats.sent_bytes > 200_000 && stats.received_bytes > 200_000);
    assert_eq!(stats.refused, 0);
}

#[tokio::test]
async fn tls_passes_untouched() {
    let world = world(&["ok.test"], &[]).await;
    for opening in ["CONNECT", "direct ok.test 443\n", "socks"] {
        let stream = match opening {
            "CONNECT" => world.connect("ok.test:443").await,
            "socks" => {
                let mut stream = world.open("proxy\n").await;
                stream
                    .write_all(b"\x05\x01\x00\x05\x01\x00\x03\x07ok.test\x01\xbb")
                    .await
                    .unwrap();
                let mut answer = [0; 12];
                stream.read_exact(&mut answer).await.unwrap();
                assert_eq!(answer[..4], [5, 0, 5, 0]);
                stream
            }
            _ => world.open(opening).await,
        };
        // The client trusts the server's own root and nobody else.
        let name = ServerName::try_from("ok.test").unwrap();
        let mut stream = client(&world.root).connect(name, stream).await.unwrap();
        stream
            .write_all(b"GET /t HTTP/1.1\r\nHost: anything.test\r\nConnection: close\r\n\r\n")
            .await
            .unwrap();
        let answer = rest(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{opening}: {answer}");
    }
}

#[tokio::test]
async fn a_server_that_speaks_first_and_half_closes() {
    let world = world(&["ok.test:2525"], &[]).await;
    let mut tunnel = world.connect(&format!("ok.test:{BANNER_PORT}")).await;
    let mut banner = [0; 11];
    tunnel.read_exact(&mut banner).await.unwrap();
    assert_eq!(&banner, b"220 ready\r\n");
    tunnel.write_all(b"EHLO there\r\n").await.unwrap();
    // The server answers after our end.
    tunnel.shutdown().await.unwrap();
    assert_eq!(rest(&mut tunnel).await, "EHLO there\r\n");
}

#[tokio::test]
async fn websockets() {
    let world = world(&["ok.test"], &[]).await;
    let head = "HTTP/1.1\r\nHost: ok.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    for (mut stream, target) in [
        (world.open("proxy\n").await, "http://ok.test/socket"),
        (world.connect("ok.test:80").await, "/socket"),
        (world.open("direct ok.test 80\n").await, "/socket"),
    ] {
        let request = format!("GET {target} {head}");
        stream.write_all(request.as_bytes()).await.unwrap();
        let answer = read_head(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 101"), "{answer}");
        stream.write_all(b"hello").await.unwrap();
        assert_eq!(rest(&mut stream).await, "hello");
    }
    // Another upgrade is not passed on.
    let answer = world
        .say(
            "GET http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nConnection: Upgrade, HTTP2-Settings\r\n\
             Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
        )
        .await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let last = world.seen.all().pop().unwrap();
    assert!(
        !last.contains("upgrade") && !last.contains("http2"),
        "{last}"
    );
}

#[tokio::test]
async fn a_name_that_does_not_resolve_is_no_refusal() {
    let world = world(&["gone.test"], &[]).await;
    let answer = world
        .say("CONNECT gone.test:443 HTTP/1.1\r\nHost: gone.test:443\r\n\r\n")
        .await;
    assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
    assert_eq!(world.egress.stats().refused, 0);
}

#[tokio::test]
async fn names_are_told_with_their_ports() {
    let world = world(&["ok.test", "ok.test:8080"], &[]).await;
    let mut stream = world.open("name Ok.Test.\n").await;
    assert_eq!(rest(&mut stream).await, "ports 80 443 8080\n");
    assert!(
        world.names.asked().is_empty(),
        "no name is looked up for it"
    );
}

#[tokio::test]
async fn a_hub_that_is_started_again_serves_the_same_socket() {
    let mut world = world(&["ok.test"], &[]).await;
    let request = "GET http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nConnection: close\r\n\r\n";
    assert!(world.say(request).await.starts_with("HTTP/1.1 200"));
    world.restart(&["ok.test"]).await;
    assert!(world.say(request).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn an_address_on_the_list_stands_for_itself() {
    let world = world(&[PUBLIC], &[]).await;
    let request =
        format!("GET http://{PUBLIC}/ HTTP/1.1\r\nHost: {PUBLIC}\r\nConnection: close\r\n\r\n");
    let answer = world.say(&request).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(world.names.asked().is_empty());
}

/// In the mode `full` every public host is reached, and no other address.
#[tokio::test]
async fn every_public_host() {
    let mut world = world(&[], &[]).await;
    let stream = world.connect("ok.test:443").await;
    let name = ServerName::try_from("other.test").unwrap();
    let mut stream = client(&world.root).connect(name, stream).await.unwrap();
    stream
        .write_all(b"GET /t HTTP/1.1\r\nHost: any.test\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    assert!(rest(&mut stream).await.starts_with("HTTP/1.1 200"));
    let mut stream = world.connect(&format!("{PUBLIC}:{BANNER_PORT}")).await;
    stream.shutdown().await.unwrap();
    assert_eq!(rest(&mut stream).await, "220 ready\r\n");
    let mut stream = world.open("name ok.test\n").await;
    assert_eq!(rest(&mut stream).await, "ports 22 80 443\n");
    let mut stream = world.open("name gone.test\n").await;
    assert_eq!(rest(&mut stream).await, "no\n");
    world.names.answer("bad.test", &[&["169.254.169.254"]]);
    for host in [
        "bad.test",
        "169.254.169.254",
        "10.0.0.1",
        "127.0.0.1",
        "[::1]",
    ] {
        let answer = world
            .say(&format!(
                "CONNECT {host}:80 HTTP/1.1\r\nHost: {host}:80\r\n\r\n"
            ))
            .await;
        assert!(answer.contains("address_denied"), "{host}: {answer}");
        let refused = world.refusal().await;
        assert_eq!(
            refused.reason,
            sandshell_types::RefusalReason::AddressDenied
        );
    }
}
