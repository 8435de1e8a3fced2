//! What must not get out, and that nothing of it does.

use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use sandshell_types::RefusalReason::{
    self, AddressDenied, AddressNotAllowed, BadName, BadRequest, HostMismatch, HostNotAllowed,
    PortNotAllowed, Protocol, SniMismatch, SniMissing,
};
use tokio::io::AsyncWriteExt;

use crate::world::{BANNER_PORT, OTHER_HTTP_PORT, OTHER_TLS_PORT, PUBLIC, rest, rest_bytes, world};

/// Asks by absolute form and by CONNECT and expects this refusal of both; no server sees anything.
async fn refuses(host: &str, port: u16, reason: RefusalReason) {
    let mut world = world(&["ok.test"], &[]).await;
    let authority = format!("{host}:{port}");
    for request in [
        format!("GET http://{authority}/ HTTP/1.1\r\nHost: {authority}\r\n\r\n"),
        format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n"),
    ] {
        let answer = world.say(&request).await;
        let field = format!("x-sandshell-refused: {}\r\n", reason.as_str());
        assert!(answer.contains(&field), "{request}: {answer}");
    }
    let refused = world.refusal().await;
    assert_eq!(refused.reason, reason, "{refused:?}");
    assert_eq!(world.egress.stats().refused, 2);
    assert!(world.seen.all().is_empty(), "{host}");
}

#[tokio::test]
async fn names_and_ports_off_the_list() {
    refuses("evil.test", 443, HostNotAllowed).await;
    refuses("sub.ok.test", 443, HostNotAllowed).await;
    refuses("ok.test.evil.test", 443, HostNotAllowed).await;
    refuses("ok.test", 25, PortNotAllowed).await;
    refuses("localhost", 80, HostNotAllowed).await;
    refuses("metadata.google.internal", 80, HostNotAllowed).await;
}

#[tokio::test]
async fn literals_in_every_form() {
    for literal in [
        "127.0.0.1",
        "169.254.169.254",
        "10.0.0.1",
        "8.8.8.8",
        PUBLIC,
        "[::1]",
        "[::ffff:169.254.169.254]",
        "[::ffff:a9fe:a9fe]",
        "[fd00:ec2::254]",
        "[64:ff9b::a9fe:a9fe]",
    ] {
        refuses(literal, 80, AddressNotAllowed).await;
    }
    for odd in [
        "2852039166",
        "0xA9FEA9FE",
        "0xa9.0xfe.0xa9.0xfe",
        "0251.0376.0251.0376",
        "169.254.43518",
        "127.1",
        "0",
        "0177.0.0.1",
        "169.254.169.254.",
    ] {
        refuses(odd, 80, BadName).await;
    }
}

#[tokio::test]
async fn names_that_stand_for_denied_addresses() {
    for address in [
        "169.254.169.254",
        "127.0.0.1",
        "10.1.2.3",
        "100.100.100.200",
        "168.63.129.16",
        "0.0.0.0",
        "::1",
        "::ffff:169.254.169.254",
        "::a9fe:a9fe",
        "fd00:ec2::254",
        "fe80::1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "255.255.255.255",
        "224.0.0.1",
    ] {
        let mut world = world(&["bad.test"], &[]).await;
        world.names.answer("bad.test", &[&[address]]);
        let answer = world
            .say("CONNECT bad.test:443 HTTP/1.1\r\nHost: bad.test:443\r\n\r\n")
            .await;
        assert!(answer.starts_with("HTTP/1.1 403"), "{address}: {answer}");
        // The sandbox does not learn which address it was.
        assert!(!answer.contains("254"), "{answer}");
        let refused = world.refusal().await;
        assert_eq!(refused.reason, AddressDenied);
        let told: std::net::IpAddr = refused.address.unwrap().parse().unwrap();
        let given: std::net::IpAddr = address.parse().unwrap();
        assert_eq!(told, given.to_canonical());
    }
}

/// This machine's own addresses are refused even where they are public. There is one to try with
/// only where the machine has such an address.
#[tokio::test]
async fn the_machine_itself() {
    let out = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    // No packet is sent; the kernel only chooses an address.
    let own = out.connect("8.8.8.8:53").and_then(|()| out.local_addr());
    let Ok(own) = own else {
        sandshell_testkit::skipped("this machine has no route and so no address to try");
        return;
    };
    let mut world = world(&["self.test"], &[]).await;
    world.names.answer("self.test", &[&[&own.ip().to_string()]]);
    world
        .say("CONNECT self.test:80 HTTP/1.1\r\nHost: self.test:80\r\n\r\n")
        .await;
    assert_eq!(world.refusal().await.reason, AddressDenied);
}

#[tokio::test]
async fn a_name_that_is_bound_anew() {
    let mut world = world(&["turn.test"], &[]).await;
    let turns: &[&[&str]] = &[&[PUBLIC], &["169.254.169.254"]];
    world.names.answer("turn.test", turns);
    let request = "GET http://turn.test/ HTTP/1.1\r\nHost: turn.test\r\nConnection: close\r\n\r\n";
    let first = world.say(request).await;
    assert!(first.starts_with("HTTP/1.1 200"), "{first}");
    let second = world.say(request).await;
    assert!(second.starts_with("HTTP/1.1 403"), "{second}");
    assert_eq!(world.refusal().await.reason, AddressDenied);
    // One lookup for each connection: what was checked is what was connected to.
    assert_eq!(world.names.asked(), ["turn.test", "turn.test"]);
    assert_eq!(world.seen.all().len(), 1);
}

#[tokio::test]
async fn of_several_addresses_only_public_ones_are_tried() {
    let world = world(&["mixed.test"], &[]).await;
    let both: &[&[&str]] = &[&["127.0.0.1", "169.254.169.254", PUBLIC]];
    world.names.answer("mixed.test", both);
    let answer = world
        .say("GET http://mixed.test/ HTTP/1.1\r\nHost: mixed.test\r\nConnection: close\r\n\r\n")
        .await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn a_redirect_is_the_clients_own_business() {
    let mut world = world(&["ok.test"], &[]).await;
    let answer = world
        .say("GET http://ok.test/redirect HTTP/1.1\r\nHost: ok.test\r\n\r\n")
        .await;
    assert!(answer.starts_with("HTTP/1.1 302"), "{answer}");
    let followed = world
        .say(
            "GET http://169.254.169.254/latest/meta-data/ HTTP/1.1\r\n\
             Host: 169.254.169.254\r\n\r\n",
        )
        .await;
    assert!(followed.starts_with("HTTP/1.1 403"), "{followed}");
    assert_eq!(world.refusal().await.reason, AddressNotAllowed);
    assert_eq!(world.seen.all().len(), 1);
}

#[tokio::test]
async fn a_host_field_that_names_another() {
    for (head, reason) in [
        (
            "GET http://ok.test/ HTTP/1.1\r\nHost: other.test\r\n",
            HostMismatch,
        ),
        (
            "GET http://ok.test/ HTTP/1.1\r\nHost: ok.test:8080\r\n",
            HostMismatch,
        ),
        (
            "GET http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nHost: other.test\r\n",
            HostMismatch,
        ),
        ("GET http://ok.test/ HTTP/1.1\r\n", HostMismatch),
        ("GET http://ok.test/ HTTP/1.0\r\n", HostMismatch),
        (
            "GET http://ok.test/ HTTP/1.1\r\nHost: ok.test, other.test\r\n",
            HostMismatch,
        ),
        (
            "GET https://ok.test/ HTTP/1.1\r\nHost: ok.test\r\n",
            BadRequest,
        ),
        ("GET / HTTP/1.1\r\nHost: ok.test\r\n", BadRequest),
        (
            "GET http://user@ok.test/ HTTP/1.1\r\nHost: ok.test\r\n",
            BadName,
        ),
        (
            "GET http://ok.test@evil.test/ HTTP/1.1\r\nHost: ok.test\r\n",
            BadName,
        ),
        ("CONNECT ok.test HTTP/1.1\r\nHost: ok.test\r\n", BadRequest),
        (
            "CONNECT user@ok.test:443 HTTP/1.1\r\nHost: ok.test\r\n",
            BadName,
        ),
        // The parser's own refusals.
        (
            "POST http://ok.test/ HTTP/1.0\r\nHost: ok.test\r\nTransfer-Encoding: chunked\r\n",
            BadRequest,
        ),
    ] {
        let mut world = world(&["ok.test"], &[]).await;
        let answer = world.say(&format!("{head}\r\n")).await;
        assert!(!answer.starts_with("HTTP/1.1 2"), "{head}: {answer}");
        // The parser may be stricter than we are, and then nothing is told.
        if answer.to_lowercase().contains("x-sandshell-refused") {
            assert_eq!(world.refusal().await.reason, reason, "{head}");
        } else {
            assert!(answer.starts_with("HTTP/1.1 400"), "{head}: {answer}");
        }
        assert!(
            world.seen.all().is_empty(),
            "{head}: {:?}",
            world.seen.all()
        );
    }
}

/// Heads that one reader takes for something else than another: none reaches the server.
#[tokio::test]
async fn smuggled_requests() {
    for sent in [
        "GET http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\n Folded: x\r\n\r\n",
        "GET http://ok.test/ HTTP/1.1\r\nHost : ok.test\r\n\r\n",
        "GET http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nContent-Length: 1, 2\r\n\r\nab",
        "GET http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nContent-Length: +1\r\n\r\na",
        "GET http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nContent-Length: 1\r\n\
         Content-Length: 2\r\n\r\nab",
        "POST http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nTransfer-Encoding: chunked, x\r\n\r\n0\r\n\r\n",
        "POST http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "GET http://ok.test/\r\nHost: ok.test\r\n\r\n",
        "GET  http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\n\r\n",
        "GET http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nX\0: y\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let world = world(&["ok.test"], &[]).await;
        let answer = world.say(sent).await;
        assert!(!answer.contains(" 200 "), "{sent:?}: {answer}");
        assert!(world.seen.all().is_empty(), "{sent:?}");
    }
}

/// Two framings of one body: the server gets one, and nothing is believed that follows.
#[tokio::test]
async fn a_body_that_is_framed_twice() {
    let world = world(&["ok.test"], &[]).await;
    let answer = world
        .say(
            "POST http://ok.test/1 HTTP/1.1\r\nHost: ok.test\r\nContent-Length: 60\r\n\
             Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n\
             GET http://ok.test/2 HTTP/1.1\r\nHost: ok.test\r\n\r\n",
        )
        .await;
    assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
    let seen = world.seen.all();
    assert_eq!(seen.len(), 1);
    assert!(!seen[0].contains("content-length"), "{}", seen[0]);
}

#[tokio::test]
async fn the_second_request_of_a_connection() {
    let mut world = world(&["ok.test", "other.test"], &[]).await;
    // As a proxy's client both hosts may be asked for, each for itself.
    let answer = world
        .say(
            "GET http://ok.test/1 HTTP/1.1\r\nHost: ok.test\r\n\r\n\
             GET http://other.test/2 HTTP/1.1\r\nHost: other.test\r\n\r\n\
             GET http://evil.test/3 HTTP/1.1\r\nHost: evil.test\r\n\r\n\
             GET http://ok.test/4 HTTP/1.1\r\nHost: ok.test\r\n\r\n",
        )
        .await;
    assert_eq!(answer.matches("HTTP/1.1 200").count(), 2, "{answer}");
    assert_eq!(answer.matches("HTTP/1.1 403").count(), 1, "{answer}");
    assert_eq!(world.refusal().await.reason, HostNotAllowed);
    assert_eq!(world.seen.all().len(), 2, "nothing after a refusal");

    // In a tunnel only the one it was made for.
    let mut tunnel = world.connect("ok.test:80").await;
    tunnel
        .write_all(
            b"GET /a HTTP/1.1\r\nHost: ok.test\r\n\r\n\
              GET /b HTTP/1.1\r\nHost: other.test\r\n\r\n\
              GET /c HTTP/1.1\r\nHost: ok.test\r\n\r\n",
        )
        .await
        .unwrap();
    let answer = rest(&mut tunnel).await;
    assert_eq!(answer.matches("HTTP/1.1 200").count(), 1, "{answer}");
    let refused = world.refusal().await;
    assert_eq!(refused.reason, HostMismatch);
    assert_eq!((refused.host.as_str(), refused.port), ("ok.test", Some(80)));
    assert_eq!(world.seen.all().len(), 3);
}

#[tokio::test]
async fn a_tunnel_within_a_tunnel() {
    let world = world(&["ok.test", "other.test"], &[]).await;
    for inner in [
        "CONNECT other.test:443 HTTP/1.1\r\nHost: ok.test\r\n\r\n",
        "GET http://other.test/ HTTP/1.1\r\nHost: ok.test\r\n\r\n",
        "GET http://other.test/ HTTP/1.1\r\nHost: other.test\r\n\r\n",
    ] {
        let mut tunnel = world.connect("ok.test:80").await;
        tunnel.write_all(inner.as_bytes()).await.unwrap();
        let answer = rest(&mut tunnel).await;
        assert!(!answer.contains(" 200 "), "{inner}: {answer}");
    }
    assert!(world.seen.all().is_empty());
}

/// A client hello, with or without the server's name.
fn hello(name: &'static str, sni: bool) -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    config.enable_sni = sni;
    let name = ServerName::try_from(name).unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

#[tokio::test]
async fn tls_that_names_another_server_or_none() {
    let tls_on = [443, OTHER_TLS_PORT];
    for port in tls_on {
        for (bytes, reason) in [
            (hello("other.test", true), SniMismatch),
            (hello("evil.test", true), SniMismatch),
            (hello("ok.test", false), SniMissing),
        ] {
            let mut world = world(&["ok.test", "ok.test:8443", "other.test"], &[]).await;
            let mut tunnel = world.connect(&format!("ok.test:{port}")).await;
            tunnel.write_all(&bytes).await.unwrap();
            let answer = rest(&mut tunnel).await;
            assert!(
                answer.as_bytes().starts_with(&[0x15]),
                "an alert, and nothing of a server: {answer:?}"
            );
            assert_eq!(world.refusal().await.reason, reason);
        }
    }
}

#[tokio::test]
async fn what_is_neither_tls_nor_http_on_the_webs_ports() {
    for (port, bytes) in [
        (443, &b"SSH-2.0-x\r\n"[..]),
        (80, b"\x00\x01\x02\x03"),
        (80, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        (OTHER_HTTP_PORT, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        // Something that begins like TLS.
        (443, b"\x16\x03\x01\x00\x05hello"),
    ] {
        let mut world = world(&["ok.test", "ok.test:8080"], &[]).await;
        let mut tunnel = world.connect(&format!("ok.test:{port}")).await;
        tunnel.write_all(bytes).await.unwrap();
        tunnel.shutdown().await.unwrap();
        assert_eq!(rest(&mut tunnel).await, "", "{bytes:?}");
        assert_eq!(world.refusal().await.reason, Protocol, "{bytes:?}");
        assert!(world.seen.all().is_empty());
    }
}

/// HTTP on a port of its own is checked too, also behind empty lines.
#[tokio::test]
async fn http_on_other_ports() {
    let mut world = world(&["ok.test:8080"], &[]).await;
    for before in ["", "\r\n", "\n\r\n"] {
        let mut tunnel = world.connect("ok.test:8080").await;
        let request = format!("{before}GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n");
        tunnel.write_all(request.as_bytes()).await.unwrap();
        tunnel.shutdown().await.unwrap();
        let answer = rest(&mut tunnel).await;
        assert!(!answer.contains(" 200 "), "{answer}");
    }
    assert_eq!(world.refusal().await.reason, HostMismatch);
    assert!(world.seen.all().is_empty());
}

#[tokio::test]
async fn socks_is_no_other_door() {
    let connect = |kind: u8, host: &[u8], port: u16| {
        [&[5, 1, 0, 5, 1, 0, kind][..], host, &port.to_be_bytes()].concat()
    };
    let named = |name: &str| [&[name.len() as u8][..], name.as_bytes()].concat();
    for (bytes, reason) in [
        (connect(3, &named("evil.test"), 443), HostNotAllowed),
        (connect(3, &named("ok.test"), 25), PortNotAllowed),
        (connect(1, &[169, 254, 169, 254], 80), AddressNotAllowed),
        (connect(3, &named("169.254.169.254"), 80), AddressNotAllowed),
        (connect(3, &named("2852039166"), 80), BadName),
        (connect(3, &named("ok.test\0.evil.test"), 80), BadName),
        (connect(3, &named("ok.test\nproxy"), 80), BadName),
        (
            connect(
                4,
                &"::ffff:169.254.169.254"
                    .parse::<std::net::Ipv6Addr>()
                    .unwrap()
                    .octets(),
                80,
            ),
            AddressNotAllowed,
        ),
    ] {
        let mut world = world(&["ok.test"], &[]).await;
        let mut stream = world.open("proxy\n").await;
        stream.write_all(&bytes).await.unwrap();
        let answer = rest_bytes(&mut stream).await;
        assert_eq!(answer[..4], [5, 0, 5, 2], "{bytes:?}");
        assert_eq!(world.refusal().await.reason, reason);
    }
    // BIND, UDP ASSOCIATE, and authentication only.
    let world = world(&["ok.test"], &[]).await;
    for (bytes, expected) in [
        (
            &[5, 1, 0, 5, 2, 0, 1, 1, 1, 1, 1, 0, 80][..],
            &[5, 0, 5, 7][..],
        ),
        (&[5, 1, 0, 5, 3, 0, 1, 1, 1, 1, 1, 0, 80], &[5, 0, 5, 7]),
        (&[5, 1, 2], &[5, 0xff]),
    ] {
        let mut stream = world.open("proxy\n").await;
        stream.write_all(bytes).await.unwrap();
        let answer = rest_bytes(&mut stream).await;
        assert!(answer.starts_with(expected), "{bytes:?}: {answer:?}");
    }
}

/// The relay is not believed: what it says of a connection is checked like any other.
#[tokio::test]
async fn a_relay_that_lies() {
    let mut world = world(&["ok.test"], &[]).await;
    for (opening, reason) in [
        ("direct evil.test 443\n", HostNotAllowed),
        ("direct 169.254.169.254 80\n", AddressNotAllowed),
        ("direct 127.1 80\n", BadName),
        ("direct ok.test 22\n", PortNotAllowed),
    ] {
        let mut stream = world.open(opening).await;
        assert_eq!(rest(&mut stream).await, "", "{opening}");
        assert_eq!(world.refusal().await.reason, reason, "{opening}");
    }
    for garbage in [
        "",
        "what\n",
        "direct ok.test\n",
        "direct ok.test 80 x\n",
        "\n",
        "proxy x\n",
    ] {
        let mut stream = world.open(garbage).await;
        stream.shutdown().await.unwrap();
        assert_eq!(rest(&mut stream).await, "", "{garbage:?}");
    }
    let mut endless = world.open(&"x".repeat(2000)).await;
    assert_eq!(rest(&mut endless).await, "");
    let mut stream = world.open("name evil.test\n").await;
    assert_eq!(rest(&mut stream).await, "no\n");
    let refused = world.refusal().await;
    assert_eq!((refused.host.as_str(), refused.port), ("evil.test", None));
    assert!(world.seen.all().is_empty() && world.names.asked().is_empty());
}

#[tokio::test]
async fn a_policy_that_changes_ends_what_it_let_through() {
    let world = world(&["ok.test:2525"], &[]).await;
    let mut tunnel = world.connect(&format!("ok.test:{BANNER_PORT}")).await;
    let mut banner = [0; 11];
    tokio::io::AsyncReadExt::read_exact(&mut tunnel, &mut banner)
        .await
        .unwrap();
    world
        .egress
        .replace_policy(crate::world::policy(&["other.test"], &[]));
    assert_eq!(rest(&mut tunnel).await, "");
    let answer = world
        .say("CONNECT ok.test:2525 HTTP/1.1\r\nHost: ok.test:2525\r\n\r\n")
        .await;
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
}
