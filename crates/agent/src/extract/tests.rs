//! Bodies and queries, right and wrong.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use futures_util::stream;
use sandshell_types::{ExecRequest, KillRequest, Problem, SessionExecRequest};
use serde::Deserialize;

use super::*;

async fn take<T: DeserializeOwned>(request: Request) -> Result<T, Problem> {
    match Json::<T>::from_request(request, &()).await {
        Ok(Json(value)) => Ok(value),
        Err(error) => Err(error.problem().clone()),
    }
}

fn post(content_type: Option<&str>, body: impl Into<Body>) -> Request {
    let mut request = Request::new(body.into());
    if let Some(content_type) = content_type {
        request
            .headers_mut()
            .insert(header::CONTENT_TYPE, content_type.parse().unwrap());
    }
    request
}

async fn refused<T: DeserializeOwned + std::fmt::Debug>(body: &str) -> Problem {
    take::<T>(post(None, body.to_owned())).await.unwrap_err()
}

#[tokio::test]
async fn takes_json_of_every_spelling() {
    for content_type in [
        None,
        Some("application/json"),
        Some("Application/JSON; charset=utf-8"),
        Some("a/b+json"),
    ] {
        let request = post(content_type, r#"{"command":"true"}"#);
        assert_eq!(
            take::<ExecRequest>(request)
                .await
                .unwrap()
                .command
                .as_deref(),
            Some("true")
        );
    }
}

#[tokio::test]
async fn refuses_another_content_type() {
    for content_type in [
        "application/x-www-form-urlencoded",
        "text/plain",
        "json",
        "+json",
    ] {
        let problem = take::<ExecRequest>(post(Some(content_type), "{}"))
            .await
            .unwrap_err();
        assert_eq!(
            problem.code,
            ErrorCode::UnsupportedMediaType,
            "{content_type}"
        );
        assert!(problem.hint.is_some());
    }
}

#[tokio::test]
async fn names_an_unknown_field_and_its_place() {
    let problem = refused::<ExecRequest>(r#"{"comand":"x"}"#).await;
    assert_eq!(problem.code, ErrorCode::InvalidRequest);
    assert_eq!(problem.pointer.as_deref(), Some("/comand"));
    assert!(problem.detail.contains("`comand`"), "{}", problem.detail);
    let nested = refused::<ExecRequest>(r#"{"limits":{"open":1}}"#).await;
    assert_eq!(nested.pointer.as_deref(), Some("/limits/open"));
}

#[tokio::test]
async fn points_to_a_wrong_value() {
    for (body, pointer) in [
        (r#"{"timeout_ms":"5"}"#, "/timeout_ms"),
        (r#"{"argv":["a",1]}"#, "/argv/1"),
        (r#"{"env":{"a/b~c":1}}"#, "/env/a~1b~0c"),
        (r#"{"id":"a b"}"#, "/id"),
        (r#"{"truncate":"none"}"#, "/truncate"),
        (r#"{"limits":{"open_files":-1}}"#, "/limits/open_files"),
        ("[]", ""),
    ] {
        let problem = refused::<ExecRequest>(body).await;
        assert_eq!(
            problem.pointer.as_deref(),
            Some(pointer),
            "{body}: {}",
            problem.detail
        );
    }
}

#[tokio::test]
async fn points_to_a_missing_field() {
    let problem = refused::<SessionExecRequest>("{}").await;
    assert_eq!(problem.pointer.as_deref(), Some("/command"));
}

#[tokio::test]
async fn says_where_json_is_broken() {
    let problem = refused::<ExecRequest>("{\n  \"command\": oops}").await;
    assert!(
        problem.detail.contains("line 2 column 14"),
        "{}",
        problem.detail
    );
    for body in ["", "{", "{}}", "{\"command\":\"\u{1}\"}"] {
        let problem = refused::<ExecRequest>(body).await;
        assert_eq!(problem.status, 400, "{body:?}");
    }
    let problem = take::<ExecRequest>(post(None, &b"{\"command\":\"\xff\"}"[..]))
        .await
        .unwrap_err();
    assert_eq!(problem.status, 400);
}

#[tokio::test]
async fn an_optional_body_may_be_missing_but_not_wrong() {
    let kill = |body: &'static str, kind| async move {
        OptionalJson::<KillRequest>::from_request(post(kind, body), &())
            .await
            .map(|k| k.0)
    };
    // Clients set a content type for an empty body too.
    assert_eq!(
        kill("", Some("text/plain")).await.unwrap(),
        KillRequest::default()
    );
    assert_eq!(
        kill(r#"{"grace_ms":1}"#, None).await.unwrap().grace_ms,
        Some(1)
    );
    assert_eq!(
        kill("{}", Some("text/plain"))
            .await
            .unwrap_err()
            .problem()
            .status,
        415
    );
    assert!(kill(r#"{"grace":1}"#, None).await.is_err());
}

#[tokio::test]
async fn joins_a_body_in_pieces() {
    let pieces = [r#"{"com"#, "", r#"mand":"#, r#""true"}"#]
        .map(|piece| Ok::<_, std::io::Error>(Bytes::from_static(piece.as_bytes())));
    let body = Body::from_stream(stream::iter(pieces));
    assert_eq!(
        take::<ExecRequest>(post(None, body))
            .await
            .unwrap()
            .command
            .as_deref(),
        Some("true")
    );
}

#[tokio::test]
async fn stops_reading_at_the_limit() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static READ: AtomicUsize = AtomicUsize::new(0);
    // A body without an end and without a length.
    let endless = stream::repeat_with(|| {
        READ.fetch_add(1 << 20, Ordering::Relaxed);
        Ok::<_, std::io::Error>(Bytes::from(vec![b' '; 1 << 20]))
    });
    let problem = take::<ExecRequest>(post(None, Body::from_stream(endless)))
        .await
        .unwrap_err();
    assert_eq!(problem.code, ErrorCode::BodyTooLarge);
    assert!(READ.load(Ordering::Relaxed) <= JSON_BODY_LIMIT + (2 << 20));
    // One with a length is not read at all.
    let long = post(None, vec![b' '; JSON_BODY_LIMIT + 1]);
    assert_eq!(
        take::<ExecRequest>(long).await.unwrap_err().code,
        ErrorCode::BodyTooLarge
    );
    let mut fits = br#"{"command":"x"}"#.to_vec();
    fits.resize(JSON_BODY_LIMIT, b' ');
    assert!(take::<ExecRequest>(post(None, fits)).await.is_ok());
}

#[tokio::test]
async fn a_body_that_breaks_off_is_refused() {
    let broken = stream::iter([
        Ok(Bytes::from_static(b"{}")),
        Err(std::io::Error::other("gone")),
    ]);
    let problem = take::<BTreeMap<String, String>>(post(None, Body::from_stream(broken)))
        .await
        .unwrap_err();
    assert!(problem.detail.contains("broke off"), "{}", problem.detail);
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Numbers {
    limit: Option<u32>,
    follow: Option<bool>,
}

async fn query(uri: &str) -> Result<Numbers, Problem> {
    let (mut parts, ()) = http::Request::builder()
        .uri(uri)
        .body(())
        .unwrap()
        .into_parts();
    match Query::<Numbers>::from_request_parts(&mut parts, &()).await {
        Ok(Query(numbers)) => Ok(numbers),
        Err(error) => Err(error.problem().clone()),
    }
}

#[tokio::test]
async fn points_into_the_query() {
    assert_eq!(
        query("/?limit=3&follow=true").await.unwrap(),
        Numbers {
            limit: Some(3),
            follow: Some(true)
        }
    );
    for (uri, pointer) in [
        ("/?limit=x", "/limit"),
        ("/?follow=1", "/follow"),
        ("/?limt=1", "/limt"),
    ] {
        let problem = query(uri).await.unwrap_err();
        assert_eq!(
            problem.pointer.as_deref(),
            Some(pointer),
            "{uri}: {}",
            problem.detail
        );
        assert_eq!(problem.status, 400);
    }
}
