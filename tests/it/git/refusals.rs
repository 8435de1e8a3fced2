//! What git is never asked.

use http::{HeaderMap, Method};
use sandshell_client::types::{ErrorCode, GitCloneRequest, GitStatusRequest, Problem};
use sandshell_testkit::Agent;

use super::{agent, one_commit, path, sh};
use crate::calls::{code_of, in_time};

#[tokio::test]
async fn bad_input_is_refused() {
    let agent = agent();
    let client = agent.client();
    one_commit(&agent, &client).await;
    let before = sh(
        &agent,
        &client,
        "git -C r rev-parse HEAD; git -C r for-each-ref; find . ! -name FETCH_HEAD | sort",
    )
    .await;
    let repo = path(&agent, "r");
    // Route, fields beside the path, code, pointer.
    let cases: &[(&str, &str, &str, Option<&str>)] = &[
        ("clone", r#""x": 1"#, "invalid_request", Some("/x")),
        ("clone", r#""depth": 1"#, "invalid_request", Some("/url")),
        (
            "clone",
            r#""url": "--upload-pack=touch x""#,
            "invalid_request",
            Some("/url"),
        ),
        (
            "clone",
            r#""url": "ext::sh -c touch% x""#,
            "invalid_request",
            Some("/url"),
        ),
        (
            "clone",
            r#""url": "https://u:p@h/r""#,
            "invalid_request",
            Some("/url"),
        ),
        (
            "clone",
            r#""url": "ftp://h/r""#,
            "invalid_request",
            Some("/url"),
        ),
        (
            "clone",
            r#""url": "/x", "depth": 0"#,
            "invalid_request",
            Some("/depth"),
        ),
        (
            "clone",
            r#""url": "/x", "branch": "-x""#,
            "invalid_request",
            Some("/branch"),
        ),
        (
            "clone",
            r#""url": "git@h:r", "auth": {"token": "t"}"#,
            "invalid_request",
            Some("/auth"),
        ),
        (
            "clone",
            r#""url": "https://h/r", "auth": {}"#,
            "invalid_request",
            Some("/auth"),
        ),
        (
            "clone",
            r#""url": "https://h/r", "auth": {"token": "a", "password": "b"}"#,
            "invalid_request",
            Some("/auth"),
        ),
        (
            "clone",
            r#""url": "https://h/r", "auth": {"token": "a\nb"}"#,
            "invalid_request",
            Some("/auth"),
        ),
        (
            "clone",
            r#""url": "https://h/r", "auth": {"ssh_key": "a"}"#,
            "invalid_request",
            Some("/auth/ssh_key"),
        ),
        (
            "clone",
            r#""url": "/x", "session": "none""#,
            "session_not_found",
            None,
        ),
        (
            "clone",
            r#""url": "/x", "user": "no-such-user""#,
            "user_not_found",
            Some("/user"),
        ),
        (
            "status",
            r#""ignored": 1"#,
            "invalid_request",
            Some("/ignored"),
        ),
        ("status", r#""session": "none""#, "session_not_found", None),
        ("diff", r#""to": "HEAD""#, "invalid_request", Some("/to")),
        (
            "diff",
            r#""from": "--output=x""#,
            "invalid_request",
            Some("/from"),
        ),
        (
            "diff",
            r#""paths": [""]"#,
            "invalid_request",
            Some("/paths/0"),
        ),
        (
            "diff",
            r#""max_bytes": 999999999"#,
            "invalid_request",
            Some("/max_bytes"),
        ),
        ("diff", r#""from": "nowhere""#, "git_not_found", None),
        ("log", r#""limit": 0"#, "invalid_request", Some("/limit")),
        ("log", r#""limit": 1001"#, "invalid_request", Some("/limit")),
        (
            "log",
            r#""cursor": "x""#,
            "invalid_request",
            Some("/cursor"),
        ),
        (
            "log",
            r#""revision": "--output=x""#,
            "invalid_request",
            Some("/revision"),
        ),
        (
            "branches",
            r#""create": {"name": "-x"}"#,
            "invalid_request",
            Some("/create/name"),
        ),
        (
            "branches",
            r#""create": {"name": "a..b"}"#,
            "git_failed",
            None,
        ),
        (
            "branches",
            r#""create": {"name": "b", "start": "nowhere"}"#,
            "git_not_found",
            None,
        ),
        (
            "branches",
            r#""delete": {"name": ""}"#,
            "invalid_request",
            Some("/delete/name"),
        ),
        (
            "branches",
            r#""create": {"name": "b"}, "delete": {"name": "b"}"#,
            "invalid_request",
            Some("/delete"),
        ),
        (
            "checkout",
            r#""create": true"#,
            "invalid_request",
            Some("/target"),
        ),
        (
            "checkout",
            r#""target": "-f""#,
            "invalid_request",
            Some("/target"),
        ),
        (
            "checkout",
            r#""target": "main", "start": "x""#,
            "invalid_request",
            Some("/start"),
        ),
        ("add", r#""all": false"#, "invalid_request", Some("/paths")),
        (
            "add",
            r#""all": true, "paths": ["a"]"#,
            "invalid_request",
            Some("/paths"),
        ),
        ("add", r#""paths": ["missing"]"#, "git_not_found", None),
        (
            "add",
            r#""paths": ["../../etc/passwd"]"#,
            "git_failed",
            None,
        ),
        (
            "commit",
            r#""all": true"#,
            "invalid_request",
            Some("/message"),
        ),
        (
            "commit",
            r#""message": " \n""#,
            "invalid_request",
            Some("/message"),
        ),
        (
            "commit",
            r#""message": "m", "author": {"name": "a"}"#,
            "invalid_request",
            Some("/author/email"),
        ),
        (
            "commit",
            r#""message": "m", "author": {"name": "a<", "email": "e"}"#,
            "invalid_request",
            Some("/author/name"),
        ),
        ("pull", r#""mode": "x""#, "invalid_request", Some("/mode")),
        (
            "pull",
            r#""remote": "--upload-pack=x""#,
            "invalid_request",
            Some("/remote"),
        ),
        ("pull", r#""branch": "main""#, "git_not_found", None),
        (
            "push",
            r#""branch": "--exec=x""#,
            "invalid_request",
            Some("/branch"),
        ),
        ("push", r#""remote": "nowhere""#, "git_not_found", None),
    ];
    let mut wrong = Vec::new();
    for (route, fields, code, pointer) in cases {
        let target = if *route == "clone" {
            path(&agent, "new")
        } else {
            repo.clone()
        };
        let body = format!(r#"{{"path": "{target}", {fields}}}"#);
        let path = format!("/v1/git/{route}");
        let (_, _, text) = in_time(client.raw(Method::POST, &path, &HeaderMap::new(), body))
            .await
            .unwrap();
        let problem: Problem =
            serde_json::from_slice(&text).unwrap_or_else(|_| panic!("{route} {fields}: {text:?}"));
        if (problem.code.as_str(), problem.pointer.as_deref()) != (*code, *pointer) {
            wrong.push(format!("{route} {fields}: {problem:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for route in [
        "status", "diff", "log", "branches", "checkout", "add", "commit", "pull", "push",
    ] {
        for body in ["", "[]", r#"{"path": ""}"#, r#"{"path": "a\u0000b"}"#] {
            let path = format!("/v1/git/{route}");
            let (status, _, _) = in_time(client.raw(Method::POST, &path, &HeaderMap::new(), body))
                .await
                .unwrap();
            assert_eq!(status, 400, "{route} {body}");
        }
    }
    let after = sh(
        &agent,
        &client,
        "git -C r rev-parse HEAD; git -C r for-each-ref; find . ! -name FETCH_HEAD | sort",
    )
    .await;
    assert_eq!(after, before);
}

#[tokio::test]
async fn without_git_the_error_says_so() {
    let agent = Agent::builder().args(["--env", "PATH=/nowhere"]).start();
    let client = agent.client();
    let refused = in_time(client.git_status(&GitStatusRequest::default()))
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::ProgramNotFound));
    assert!(
        refused
            .problem()
            .unwrap()
            .hint
            .as_deref()
            .unwrap()
            .contains("git")
    );
    let request = GitCloneRequest {
        url: "/x".to_owned(),
        path: Some(path(&agent, "y")),
        ..Default::default()
    };
    assert_eq!(
        code_of(in_time(client.git_clone(&request)).await),
        ErrorCode::ProgramNotFound
    );
}

/// A FIFO where git expects a file holds it up; the end of the client ends it.
#[tokio::test]
async fn a_git_that_hangs_ends_with_its_client() {
    let agent = agent();
    let client = agent.client();
    one_commit(&agent, &client).await;
    // Of the same size: only its content tells that it changed, and how that is read is in the FIFO.
    sh(&agent, &client, "cd r; echo 2 >a; mkfifo .gitattributes").await;
    let fifo = agent.work_dir().join("r/.gitattributes");
    let request = GitStatusRequest {
        path: Some(path(&agent, "r")),
        ..Default::default()
    };
    // Opens when git has.
    let opened = tokio::task::spawn_blocking(move || {
        std::fs::File::options().write(true).open(fifo).unwrap()
    });
    let status = async { client.git_status(&request).await };
    let writer = in_time(async {
        tokio::select! {
            status = status => panic!("git does not read it: {status:?}"),
            writer = opened => writer.unwrap(),
        }
    })
    .await;
    // The request is given up; the kernel tells when nobody reads any more.
    let gone = tokio::task::spawn_blocking(move || {
        use rustix::event::{PollFd, PollFlags, poll};
        let mut writer = [PollFd::new(&writer, PollFlags::ERR)];
        let deadline = rustix::event::Timespec::try_from(crate::calls::DEADLINE).unwrap();
        poll(&mut writer, Some(&deadline))
    });
    assert_eq!(gone.await.unwrap(), Ok(1), "git is still there");
}
