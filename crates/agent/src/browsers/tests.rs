//! Who is let in, by Host and Origin.

#![allow(clippy::unwrap_used)]

use super::*;

const HERE: &str = "127.0.0.1:3000";

fn rules(listen: &str, origins: &[&str], hosts: &[&str]) -> Browsers {
    Browsers::new(
        &listen.parse().unwrap(),
        origins
            .iter()
            .map(|origin| origin.parse().unwrap())
            .collect(),
        &hosts
            .iter()
            .map(|&host| host.to_owned())
            .collect::<Vec<_>>(),
    )
}

fn request(method: &str, path: &str, headers: &[(&str, &str)]) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Body::empty()).unwrap()
}

#[test]
fn a_loopback_agent_answers_only_to_names_of_loopback() {
    let rules = rules(HERE, &[], &["My.Box"]);
    let check = |host| {
        rules
            .check(&request("GET", "/v1/stats", &[("host", host)]))
            .is_ok()
    };
    for host in [
        "localhost",
        "LOCALHOST:3000",
        "127.0.0.1:3000",
        "[::1]:3000",
        "[::1]",
        "my.box:1",
    ] {
        assert!(check(host), "{host}");
    }
    for host in [
        "evil.example",
        "evil.example:3000",
        "localhost.evil.example",
        "127.0.0.1.evil",
        "",
        "127.0.0.2",
    ] {
        assert!(!check(host), "{host}");
    }
    // An HTTP/2 request names its host in the request line.
    assert!(
        rules
            .check(&request("GET", "http://evil.example/v1/stats", &[]))
            .is_err()
    );
    assert!(rules.check(&request("GET", "/v1/stats", &[])).is_ok());
}

#[test]
fn other_listeners_check_the_host_only_when_told_to() {
    let asked = || request("GET", "/v1/stats", &[("host", "box.example")]);
    assert!(rules("0.0.0.0:1", &[], &[]).check(&asked()).is_ok());
    assert!(
        rules("0.0.0.0:1", &[], &["other.example"])
            .check(&asked())
            .is_err()
    );
    assert!(
        rules("0.0.0.0:1", &[], &["box.example"])
            .check(&asked())
            .is_ok()
    );
    assert!(
        rules("unix:/s", &[], &["other.example"])
            .check(&asked())
            .is_ok()
    );
}

#[test]
fn a_foreign_page_may_look_but_not_touch() {
    let rules = rules(HERE, &["https://App.example"], &[]);
    let check = |method, origin, more: &[(&str, &str)]| {
        let headers = [&[("host", HERE), ("origin", origin)], more].concat();
        rules.check(&request(method, "/v1/exec", &headers))
    };
    let socket = [("upgrade", "WebSocket")];
    assert_eq!(
        check("POST", "http://127.0.0.1:3000", &[]).unwrap(),
        Caller::Plain
    );
    assert_eq!(
        check("GET", "http://evil.example", &[]).unwrap(),
        Caller::Plain
    );
    for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
        assert!(
            check(method, "http://evil.example", &[]).is_err(),
            "{method}"
        );
        assert!(check(method, "null", &[]).is_err(), "{method}");
        assert!(matches!(
            check(method, "https://app.example", &[]),
            Ok(Caller::Allowed(_))
        ));
    }
    assert!(check("GET", "http://evil.example", &socket).is_err());
    assert!(check("GET", "http://127.0.0.1:3000", &socket).is_ok());
    assert!(check("GET", "https://app.example", &socket).is_ok());
    // The same machine, but another port or scheme's page.
    assert!(check("POST", "http://127.0.0.1:3001", &[]).is_err());
    assert!(check("POST", "http://localhost:3000", &[]).is_err());
}

#[test]
fn a_proxied_port_is_left_alone() {
    let rules = rules(HERE, &["*"], &[]);
    for path in [
        "/v1/ports/8000/proxy",
        "/v1/ports/8000/proxy/",
        "/v1/ports/8000/proxy/a?b",
    ] {
        let asked = request(
            "POST",
            path,
            &[("host", HERE), ("origin", "http://evil.example")],
        );
        assert_eq!(rules.check(&asked).unwrap(), Caller::Plain, "{path}");
    }
    assert!(!is_proxied("/v1/ports/8000") && !is_proxied("/v1/ports/8000/proxyx"));
    assert!(!is_proxied("/v1/exec/proxy/"));
}

#[test]
fn origins_are_origins() {
    for good in [
        "https://a.example",
        "http://localhost:5173",
        "http://[::1]:3",
        "*",
    ] {
        assert!(good.parse::<Origin>().is_ok(), "{good}");
    }
    for bad in [
        "",
        "a.example",
        "https://a.example/",
        "https://a/b",
        "https://",
        "null",
        "https://u@a",
    ] {
        assert!(bad.parse::<Origin>().is_err(), "{bad}");
    }
}

#[test]
fn a_parameter_is_taken_out_of_the_query() {
    let take = |uri: &str| {
        let (mut parts, ()) = Request::builder().uri(uri).body(()).unwrap().into_parts();
        let found = take_parameter(&mut parts, "ticket", "tk_");
        (found, parts.uri.to_string())
    };
    assert_eq!(take("/a?ticket=tk_1"), (Some("tk_1".into()), "/a".into()));
    assert_eq!(
        take("/a?b=1&ticket=tk_1&c=2"),
        (Some("tk_1".into()), "/a?b=1&c=2".into())
    );
    assert_eq!(
        take("http://h/a?ticket=tk_1&b"),
        (Some("tk_1".into()), "http://h/a?b".into())
    );
    assert_eq!(take("/a?ticket=other"), (None, "/a?ticket=other".into()));
    assert_eq!(take("/a?xticket=tk_1"), (None, "/a?xticket=tk_1".into()));
}
