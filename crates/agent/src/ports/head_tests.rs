#![allow(clippy::unwrap_used)]

use super::*;

const TARGET: (Target, &str) = (Target { port: 8000 }, "/v1/ports/8000/proxy");

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let pairs = pairs.iter();
    pairs
        .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
        .fold(HeaderMap::new(), |mut all, (name, value)| {
            all.append(name, value);
            all
        })
}

fn inside(mut given: HeaderMap, ours: bool) -> HeaderMap {
    let uri = Uri::from_static("/v1/ports/8000/proxy/");
    let upgrade = upgrade(&given);
    to_inside(&mut given, &uri, TARGET, None, upgrade.as_ref(), ours);
    given
}

#[test]
fn fields_of_one_connection_end_here() {
    let given = headers(&[
        ("connection", "keep-alive, X-Secret"),
        ("keep-alive", "timeout=5"),
        ("x-secret", "1"),
        ("transfer-encoding", "chunked"),
        ("te", "gzip, trailers"),
        ("expect", "100-continue"),
        ("x-other", "2"),
    ]);
    let got = inside(given, false);
    for gone in ["keep-alive", "x-secret", "transfer-encoding", "expect"] {
        assert!(!got.contains_key(gone), "{gone}");
    }
    assert_eq!(
        (&got["te"], &got["connection"]),
        (&"trailers".parse().unwrap(), &"te".parse().unwrap())
    );
    assert_eq!(got["x-other"], "2");
    assert_eq!(got["host"], "localhost:8000");
}

#[test]
fn our_secrets_stay_outside() {
    let given = || {
        headers(&[
            ("authorization", "Bearer sk_1"),
            ("x-port-token", "pt_1"),
            ("cookie", "a=b; sandshell_port_8000=pt_1; c=d"),
            ("cookie", "sandshell_port_9=pt_2"),
        ])
    };
    let got = inside(given(), true);
    assert!(!got.contains_key("authorization") && !got.contains_key("x-port-token"));
    assert_eq!(got["cookie"], "a=b; c=d");
    assert_eq!(inside(given(), false)["authorization"], "Bearer sk_1");
    let only = headers(&[("cookie", "sandshell_port_8000=pt_1")]);
    assert!(!inside(only, false).contains_key("cookie"));
    assert_eq!(
        inside_path("/a%2Fb/", Some("x=%20&port_token=pt_1&y")),
        "/a%2Fb/?x=%20&y"
    );
    assert_eq!(inside_path("/", Some("port_token=pt_1")), "/");
    for (query, kept) in [
        ("a;port_token=pt_1;b", "a;b"),
        ("a=1;port_token=pt_1", "a=1"),
        ("port_token=pt_1;a&&port_token=pt_2", "a&"),
        ("port_token=pt_1&a;", "a;"),
        ("my_port_token=1", "my_port_token=1"),
    ] {
        assert_eq!(inside_path("/", Some(query)), format!("/?{kept}"));
    }
    assert_eq!(inside_path("/", Some("")), "/?");
}

#[test]
fn a_page_of_ours_stays_of_the_same_origin() {
    let given = headers(&[("host", "box:3000"), ("origin", "http://box:3000")]);
    let got = inside(given, false);
    assert_eq!(got["origin"], "http://localhost:8000");
    assert_eq!(got["x-forwarded-host"], "box:3000");
    assert_eq!(got["x-forwarded-prefix"], "/v1/ports/8000/proxy");
    let other = headers(&[("host", "box:3000"), ("origin", "http://evil")]);
    assert_eq!(inside(other, false)["origin"], "http://evil");
}

#[test]
fn an_upgrade_is_asked_for_again() {
    let given = headers(&[
        ("connection", "keep-alive, Upgrade"),
        ("upgrade", "websocket"),
    ]);
    let got = inside(given, false);
    assert_eq!(
        (&got["connection"], &got["upgrade"]),
        (&"upgrade".parse().unwrap(), &"websocket".parse().unwrap())
    );
}

/// Behind such an upgrade, heads would pass unseen.
#[test]
fn an_upgrade_to_http_2_is_not_passed_on() {
    for protocol in ["h2c", "H2C, websocket"] {
        let given = headers(&[
            ("connection", "Upgrade, HTTP2-Settings"),
            ("upgrade", protocol),
            ("http2-settings", "AAMAAABk"),
        ]);
        let got = inside(given, false);
        for gone in ["connection", "upgrade", "http2-settings"] {
            assert!(!got.contains_key(gone), "{gone}");
        }
    }
}

#[test]
fn redirects_stay_below_the_prefix() {
    let moved = |location: &str| moved(location, TARGET);
    let below = |path: &str| Some(format!("/v1/ports/8000/proxy{path}"));
    assert_eq!(moved("/login?x=1"), below("/login?x=1"));
    assert_eq!(moved("http://localhost:8000/a"), below("/a"));
    assert_eq!(moved("http://127.0.0.1:8000"), below("/"));
    assert_eq!(moved("a/b"), None);
    assert_eq!(moved("//cdn/x"), None);
    assert_eq!(moved("https://example.org/"), None);
    assert_eq!(moved("/v1/ports/8000/proxy/x"), None);
}

#[test]
fn a_length_beside_chunks_is_not_told() {
    let mut both = headers(&[("content-length", "3"), ("transfer-encoding", "chunked")]);
    to_outside(&mut both, TARGET, false);
    assert!(both.is_empty(), "{both:?}");
    let mut length = headers(&[("content-length", "3")]);
    to_outside(&mut length, TARGET, false);
    assert_eq!(length["content-length"], "3");
}

#[test]
fn a_port_with_a_name_of_its_own_has_no_prefix() {
    let at_root = (TARGET.0, "");
    for (location, expected) in [
        ("/login", None),
        ("http://localhost:8000/login?a=b", Some("/login?a=b")),
        ("http://127.0.0.1:8000", Some("/")),
        ("//other/x", None),
        ("https://other/x", None),
    ] {
        assert_eq!(moved(location, at_root).as_deref(), expected, "{location}");
    }
}

#[test]
fn a_server_says_nothing_of_the_whole_origin() {
    let mut given = headers(&[
        ("clear-site-data", "\"*\""),
        ("strict-transport-security", "max-age=1; includeSubDomains"),
        ("alt-svc", "h2=\":1\""),
        ("public-key-pins", "x"),
        ("report-to", "{}"),
        ("nel", "{}"),
        ("service-worker-allowed", "/"),
        ("origin-agent-cluster", "?1"),
        ("content-security-policy", "default-src 'self'"),
    ]);
    to_outside(&mut given, TARGET, false);
    let left: Vec<&str> = given.keys().map(HeaderName::as_str).collect();
    assert_eq!(left, ["content-security-policy"]);
}

#[test]
fn cookies_stay_below_the_prefix() {
    let below = "/v1/ports/8000/proxy";
    for (given, at_path, at_root) in [
        ("a=b", Some("a=b"), Some("a=b")),
        (
            "a=b; Secure; Path=",
            Some("a=b; Secure; Path="),
            Some("a=b; Secure; Path="),
        ),
        (
            "a=b; path=/; HttpOnly",
            Some("a=b; Path=/v1/ports/8000/proxy/; HttpOnly"),
            Some("a=b; path=/; HttpOnly"),
        ),
        (
            "a=b; Path=/v1/ports/8000/proxy/x",
            Some("a=b; Path=/v1/ports/8000/proxy/x"),
            Some("a=b; Path=/v1/ports/8000/proxy/x"),
        ),
        (
            "a=b;Path=/v1/ports/8000/proxyx",
            Some("a=b; Path=/v1/ports/8000/proxy/v1/ports/8000/proxyx"),
            Some("a=b;Path=/v1/ports/8000/proxyx"),
        ),
        (
            "a=b; DOMAIN = .example.org; Secure",
            Some("a=b; Secure"),
            Some("a=b; Secure"),
        ),
        (
            "sandshell_port_8080=bad; Path=/v1/ports/8080/proxy/",
            None,
            None,
        ),
        (" sandshell_port_8080 = bad", None, None),
        ("= sandshell_port_8080=bad", None, None),
        ("", Some(""), Some("")),
    ] {
        for (prefix, expected) in [(below, at_path), ("", at_root)] {
            let got = confined(given.as_bytes(), prefix);
            let got = got.map(|cookie| String::from_utf8(cookie).unwrap());
            assert_eq!(got.as_deref(), expected, "{given:?} at {prefix:?}");
        }
    }
    let mut several = headers(&[
        ("set-cookie", "a=1"),
        ("set-cookie", "sandshell_port_1=x"),
        ("set-cookie", "b=2"),
    ]);
    to_outside(&mut several, TARGET, false);
    let left: Vec<_> = several.get_all("set-cookie").iter().collect();
    assert_eq!(left, ["a=1", "b=2"]);
}
