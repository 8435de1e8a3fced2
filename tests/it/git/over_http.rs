//! Clones over HTTP: credentials, progress, failures.

use base64::Engine as _;
use sandshell_client::types::{
    ErrorCode, GitAuth, GitCloneReply, GitCloneRequest, GitProgress, GitPullRequest,
    GitPushRequest, Problem, ProcessId, ProcessKind, ProcessRequest,
};
use sandshell_client::{Client, ProcessFilter};
use sandshell_testkit::{Agent, children_deep};
use sha2::{Digest as _, Sha256};

use super::{agent, commit_all, path, sh};
use crate::calls::{code_of, in_time, marker, start, wait_for_text};

const SERVER: &str = include_str!("server.py");

/// A server in the sandbox with one repository, and what opens it.
struct Remote {
    id: ProcessId,
    port: u16,
    secret: String,
}

impl Remote {
    async fn start(agent: &Agent, client: &Client) -> Self {
        let script = "mkdir srv; git init -q --bare -b main srv/r.git; git init -q -b main s; cd s; for n in $(seq 50); do seq $((n * 100)) >f$n; done; git add .; git commit -qm one; git push -q ../srv/r.git main";
        sh(agent, client, script).await;
        let secret = marker();
        let basic = base64::engine::general_purpose::STANDARD.encode(format!("someone:{secret}"));
        let digest = Sha256::digest(basic);
        let digest = digest.iter().fold(String::new(), |mut text, byte| {
            text.push_str(&format!("{byte:02x}"));
            text
        });
        let root = path(agent, "srv");
        let argv = ["python3", "-c", SERVER, &root, &digest];
        let request = ProcessRequest {
            argv: Some(argv.iter().map(|word| (*word).to_owned()).collect()),
            ..Default::default()
        };
        let id = start(client, &request).await;
        let line = wait_for_text(client, &id, "now").await.line.unwrap();
        let port = line.split(' ').nth(2).unwrap().parse().unwrap();
        Self { id, port, secret }
    }

    fn url(&self, rest: &str) -> String {
        format!("http://127.0.0.1:{}/{rest}", self.port)
    }

    fn auth(&self) -> GitAuth {
        GitAuth {
            username: Some("someone".to_owned()),
            password: Some(self.secret.clone()),
            token: None,
        }
    }

    async fn go(&self, agent: &Agent, client: &Client) {
        sh(agent, client, &format!("curl -sS {}", self.url("go"))).await;
    }
}

fn clone_of(agent: &Agent, url: String, name: &str, auth: Option<GitAuth>) -> GitCloneRequest {
    GitCloneRequest {
        url,
        path: Some(path(agent, name)),
        auth,
        ..Default::default()
    }
}

/// Files below a directory that have this text in them.
fn files_with(dir: &std::path::Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap().flatten() {
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                dirs.push(entry.path());
            } else if kind.is_file()
                && std::fs::read(entry.path()).is_ok_and(|bytes| contains(&bytes, text))
            {
                found.push(entry.path().display().to_string());
            }
        }
    }
    found
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|window| window == text.as_bytes())
}

/// Where the secret, or what it looks like on the wire, can be seen from outside.
async fn leaks(agent: &Agent, client: &Client, secret: &str) -> Vec<String> {
    let basic = base64::engine::general_purpose::STANDARD.encode(format!("someone:{secret}"));
    let mut found = Vec::new();
    for text in [secret, &basic] {
        for pid in children_deep(agent.pid()).into_iter().chain([agent.pid()]) {
            for file in ["cmdline", "environ"] {
                let file = format!("/proc/{pid}/{file}");
                if std::fs::read(&file).is_ok_and(|bytes| contains(&bytes, text)) {
                    found.push(file);
                }
            }
        }
        found.extend(files_with(&agent.work_dir(), text));
        found.extend(files_with(&agent.state_dir(), text));
        if agent.log().contains(text) {
            found.push("the agent's log".to_owned());
        }
        let filter = ProcessFilter {
            kind: Some(ProcessKind::Exec),
            ..Default::default()
        };
        let records = client.list_processes(&filter).await.unwrap().items;
        if format!("{records:?}").contains(text) {
            found.push("a record".to_owned());
        }
    }
    found
}

#[tokio::test]
async fn credentials_open_what_they_should_and_show_nowhere() {
    let agent = Agent::builder().env("SANDSHELL_LOG", "trace").start();
    let client = agent.client();
    let remote = Remote::start(&agent, &client).await;
    let request = clone_of(
        &agent,
        remote.url("slow/r.git"),
        "slow",
        Some(remote.auth()),
    );
    let other = agent.client();
    let cloning = tokio::spawn(async move { other.git_clone(&request).await });
    wait_for_text(&client, &remote.id, "paused").await;
    assert_eq!(leaks(&agent, &client, &remote.secret).await, [""; 0]);
    remote.go(&agent, &client).await;
    let reply = in_time(cloning).await.unwrap().unwrap();
    let head = sh(&agent, &client, "git -C srv/r.git rev-parse main").await;
    assert_eq!(
        (reply.branch.as_deref(), reply.commit.as_deref()),
        (Some("main"), Some(head.as_str()))
    );
    sh(&agent, &client, "diff -r -x .git s slow").await;
    assert_eq!(leaks(&agent, &client, &remote.secret).await, [""; 0]);
    let config = sh(&agent, &client, "cat slow/.git/config").await;
    assert!(
        !config.contains("credential") && !config.contains('@'),
        "{config}"
    );
    // The same for the calls that follow, which get them anew; a hook finds the pipe read.
    let hook = "printf '#!/bin/sh\\ncat <&9 >../stolen 2>/dev/null; touch ../hooked\\n' >slow/.git/hooks/pre-push; chmod +x slow/.git/hooks/pre-push; echo 2 >slow/f1";
    sh(&agent, &client, hook).await;
    commit_all(&agent, &client, "slow", "two").await;
    let push = |auth| GitPushRequest {
        path: Some(path(&agent, "slow")),
        auth,
        ..Default::default()
    };
    assert_eq!(
        code_of(client.git_push(&push(None)).await),
        ErrorCode::GitAuth
    );
    let pushed = in_time(client.git_push(&push(Some(remote.auth()))))
        .await
        .unwrap();
    assert_eq!(pushed.refs[0].to, "refs/heads/main");
    assert_eq!(sh(&agent, &client, "cat stolen; ls hooked").await, "hooked");
    let pull = |auth| GitPullRequest {
        path: Some(path(&agent, "slow")),
        auth,
        ..Default::default()
    };
    assert_eq!(
        code_of(client.git_pull(&pull(None)).await),
        ErrorCode::GitAuth
    );
    assert!(
        !in_time(client.git_pull(&pull(Some(remote.auth()))))
            .await
            .unwrap()
            .updated
    );
    assert_eq!(leaks(&agent, &client, &remote.secret).await, [""; 0]);
}

/// Helpers that would store what they see are not asked.
#[tokio::test]
async fn configured_helpers_are_not_given_the_credentials() {
    let agent = agent();
    let client = agent.client();
    let remote = Remote::start(&agent, &client).await;
    sh(&agent, &client, &format!("mkdir -p $HOME; git config --global credential.helper 'store --file={0}'; git config --global credential.{1}.helper 'store --file={0}'", path(&agent, "stored"), remote.url(""))).await;
    let request = clone_of(&agent, remote.url("r.git"), "r", Some(remote.auth()));
    in_time(client.git_clone(&request)).await.unwrap();
    assert_eq!(leaks(&agent, &client, &remote.secret).await, [""; 0]);
    // A server that sends us elsewhere does not get them there.
    let request = clone_of(
        &agent,
        remote.url("redirect/r.git"),
        "e",
        Some(remote.auth()),
    );
    assert_eq!(
        code_of(in_time(client.git_clone(&request)).await),
        ErrorCode::GitAuth
    );
    sh(&agent, &client, "test ! -e e").await;
    sh(&agent, &client, "rm -rf $HOME").await;
}

#[tokio::test]
async fn failures_are_told_apart_and_leave_nothing() {
    let agent = agent();
    let client = agent.client();
    let remote = Remote::start(&agent, &client).await;
    let wrong = GitAuth {
        token: Some("wrong".to_owned()),
        ..Default::default()
    };
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = format!("http://{}/r.git", closed.local_addr().unwrap());
    drop(closed);
    sh(&agent, &client, "mkdir empty").await;
    let before = sh(
        &agent,
        &client,
        "find . -not -path './s/*' -not -path './srv/*' | sort",
    )
    .await;
    let cases = [
        (remote.url("r.git"), None, ErrorCode::GitAuth),
        (remote.url("r.git"), Some(wrong), ErrorCode::GitAuth),
        (remote.url("open/missing.git"), None, ErrorCode::GitNotFound),
        (path(&agent, "missing"), None, ErrorCode::GitNotFound),
        (nobody, None, ErrorCode::GitNetwork),
        (
            "http://no-such-host.invalid/r.git".to_owned(),
            None,
            ErrorCode::GitNetwork,
        ),
    ];
    for (url, auth, code) in cases {
        for name in ["new/deep/er", "empty"] {
            let request = clone_of(&agent, url.clone(), name, auth.clone());
            assert_eq!(
                code_of(in_time(client.git_clone(&request)).await),
                code,
                "{url}"
            );
        }
    }
    let mut request = clone_of(&agent, remote.url("open/r.git"), "new", None);
    request.branch = Some("nowhere".to_owned());
    assert_eq!(
        code_of(in_time(client.git_clone(&request)).await),
        ErrorCode::GitNotFound
    );
    let taken = clone_of(&agent, remote.url("open/r.git"), "s", None);
    assert_eq!(
        code_of(in_time(client.git_clone(&taken)).await),
        ErrorCode::FileExists
    );
    let after = sh(
        &agent,
        &client,
        "find . -not -path './s/*' -not -path './srv/*' | sort",
    )
    .await;
    assert_eq!(after, before);
}

#[tokio::test]
async fn a_clone_that_takes_too_long_is_ended_and_removed() {
    let agent = agent();
    let client = agent.client();
    let remote = Remote::start(&agent, &client).await;
    sh(&agent, &client, "mkdir empty").await;
    for name in ["new/deep", "empty"] {
        let mut request = clone_of(&agent, remote.url("slow/r.git"), name, Some(remote.auth()));
        request.timeout_ms = Some(700);
        assert_eq!(
            code_of(in_time(client.git_clone(&request)).await),
            ErrorCode::TimedOut
        );
    }
    assert_eq!(
        sh(&agent, &client, "ls empty; ls -d new 2>/dev/null || true").await,
        ""
    );
    let left: Vec<String> = children_deep(agent.pid())
        .into_iter()
        .filter_map(|pid| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).ok())
        .filter(|line| line.contains("git\0clone") || line.contains("git-remote"))
        .collect();
    assert_eq!(left, [""; 0]);
    remote.go(&agent, &client).await;
}

#[tokio::test]
async fn progress_is_told() {
    let agent = agent();
    let client = agent.client();
    let remote = Remote::start(&agent, &client).await;
    let heard = async |request: &GitCloneRequest| {
        let mut events = in_time(client.git_clone_events(request)).await.unwrap();
        let mut heard = Vec::new();
        while let Some(event) = in_time(events.next()).await {
            heard.push(event.unwrap());
        }
        heard
    };
    let mut request = clone_of(&agent, remote.url("open/r.git"), "r", None);
    request.depth = Some(1);
    let all = heard(&request).await;
    let (last, progress) = all.split_last().unwrap();
    assert_eq!(last.event, "done", "{last:?}");
    let reply: GitCloneReply = serde_json::from_str(&last.data).unwrap();
    assert_eq!(
        (reply.path, reply.branch.as_deref()),
        (path(&agent, "r"), Some("main"))
    );
    let phases: Vec<GitProgress> = progress
        .iter()
        .map(|event| {
            assert_eq!(event.event, "progress");
            serde_json::from_str(&event.data).unwrap()
        })
        .collect();
    let done = |phase: &str| {
        phases
            .iter()
            .any(|p| p.phase == phase && p.percent == Some(100) && p.current == p.total)
    };
    assert!(done("Receiving objects"), "{phases:?}");
    let failed = heard(&clone_of(&agent, remote.url("r.git"), "f", None)).await;
    let [error] = &failed[..] else {
        panic!("{failed:?}")
    };
    assert_eq!(error.event, "error");
    let problem: Problem = serde_json::from_str(&error.data).unwrap();
    assert_eq!(problem.code, ErrorCode::GitAuth);
}
