//! What the hub says of itself, and how it starts and ends.

use std::process::{Command, Stdio};

use http::Method;
use sandshell_client::Client;
use sandshell_client::types::{SandboxState, SessionRequest};
use sandshell_testkit::{Hub, children_deep, find_binary};

use super::{get, id_of, raw, raw_with, sandbox};
use crate::calls::{exec, in_time, skipped};

#[tokio::test]
async fn the_document_has_the_hubs_routes_and_each_sandboxs() {
    let hub = Hub::start();
    let anyone = hub.client_with(None);
    let (status, document) = raw(&anyone, Method::GET, "/openapi.json", "").await;
    assert_eq!(status, 200);
    let paths = document["paths"].as_object().unwrap();
    for path in [
        "/v1/sandboxes",
        "/v1/sandboxes/{sandbox}",
        "/v1/sandboxes/{sandbox}/pause",
        "/v1/sandboxes/{sandbox}/exec",
        "/v1/sandboxes/{sandbox}/sessions/{id}/exec",
        "/v1/sandboxes/{sandbox}/files/content",
        "/v1/sandboxes/{sandbox}/ports/{port}/preview",
        "/v1/tokens",
        "/v1/audit",
        "/healthz",
    ] {
        assert!(paths.contains_key(path), "{path}");
    }
    assert!(!paths.contains_key("/v1/exec"));
    let exec = &paths["/v1/sandboxes/{sandbox}/exec"]["post"];
    assert_eq!(exec["parameters"][0]["name"], "sandbox");
    for status in ["404", "410", "502"] {
        assert!(!exec["responses"][status].is_null(), "{status}");
    }
    // Every reference leads somewhere, and no operation id is there twice.
    let text = document.to_string();
    for part in text.split("#/components/schemas/").skip(1) {
        let name = part.split('"').next().unwrap();
        assert!(!document["components"]["schemas"][name].is_null(), "{name}");
    }
    let mut ids: Vec<&str> = paths
        .values()
        .flat_map(|item| item.as_object().unwrap().values())
        .filter_map(|operation| operation["operationId"].as_str())
        .collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all);
    // As the command prints it.
    let printed = Command::new(find_binary())
        .args(["openapi", "--hub"])
        .output()
        .unwrap();
    let printed: serde_json::Value = serde_json::from_slice(&printed.stdout).unwrap();
    assert_eq!(printed, document);
}

#[tokio::test]
async fn probes_need_no_token_and_figures_do() {
    let hub = Hub::start();
    let anyone = hub.client_with(None);
    for path in ["/healthz", "/readyz", "/version", "/openapi.json", "/docs"] {
        assert_eq!(raw(&anyone, Method::GET, path, "").await.0, 200, "{path}");
    }
    assert_eq!(raw(&anyone, Method::GET, "/metrics", "").await.0, 401);
    let client = hub.client();
    let inside = sandbox(&client, "a").await;
    exec(&inside, "true").await;
    let text = in_time(client.metrics()).await.unwrap();
    for line in [
        "sandshell_sandboxes{state=\"ready\"} 1",
        "sandshell_sandboxes_created_total 1",
        "sandshell_http_requests_total{route=\"/v1/sandboxes/{sandbox}/exec\",method=\"POST\",status=\"200\"} 1",
    ] {
        assert!(
            text.lines().any(|found| found == line),
            "{line}\nnot in\n{text}"
        );
    }
}

#[test]
fn a_public_address_needs_a_token_file() {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new(find_binary())
        .args(["serve", "--listen", "0.0.0.0:0", "--state-dir"])
        .arg(dir.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains("there is no token file") && text.contains("--token-file"),
        "{text}"
    );
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_token_is_printed_once() {
    let mut hub = Hub::start();
    assert!(hub.log().contains(hub.token()));
    let token = hub.token().to_owned();
    assert!(hub.stop().success());
    let before = hub.log().matches(&token).count();
    hub.restart();
    assert_eq!(hub.token(), token);
    assert_eq!(hub.log().matches(&token).count(), before);
    assert_eq!(before, 1);
}

#[tokio::test]
async fn one_hub_has_a_directory_at_a_time() {
    let hub = Hub::start();
    let inside = sandbox(&hub.client(), "a").await;
    let (status, text) = hub.another();
    assert_eq!(status.code(), Some(125));
    assert!(
        text.contains("another hub uses the state directory"),
        "{text}"
    );
    assert_eq!(exec(&inside, "echo fine").await.stdout, "fine\n");
}

#[tokio::test]
async fn a_stop_leaves_sandboxes_and_destroy_on_exit_does_not() {
    let mut hub = Hub::start();
    let client = hub.client();
    let inside = sandbox(&client, "stays").await;
    let session = in_time(inside.create_session(&SessionRequest::default()))
        .await
        .unwrap();
    assert!(hub.stop().success());
    hub.restart();
    assert_eq!(get(&client, "stays").await.state, SandboxState::Ready);
    in_time(inside.session(&session.id)).await.unwrap();
    let mut other = Hub::with(&["--destroy-on-exit"]);
    sandbox(&other.client(), "goes").await;
    assert!(other.stop().success());
    let left = std::fs::read_dir(other.state_dir().join("sandboxes")).unwrap();
    assert_eq!(left.count(), 0);
    other.restart();
    let gone = get(&other.client(), "goes").await;
    assert_eq!(gone.reason.as_deref(), Some("the hub was stopped"));
}

#[tokio::test]
async fn tickets_open_streams_of_a_sandbox_for_browsers() {
    let hub = Hub::start();
    let client = hub.client();
    sandbox(&client, "a").await;
    let anyone = hub.client_with(None);
    let path = "/v1/sandboxes/a/processes/none/output";
    let events = [("accept", "text/event-stream")];
    let ticket = in_time(client.create_ticket(path)).await.unwrap();
    // Let in, the agent says that there is no such process.
    let (status, _) = raw_with(&anyone, Method::GET, &ticket.url, &events, "").await;
    assert_eq!(status, 404);
    for url in [ticket.url.as_str(), path] {
        let (status, _) = raw_with(&anyone, Method::GET, url, &events, "").await;
        assert_eq!(status, 401, "{url}");
    }
    let foreign = raw(
        &client,
        Method::POST,
        "/v1/tickets",
        r#"{"path":"/v1/sandboxes/b/events"}"#,
    )
    .await;
    assert_eq!(foreign.0, 404);
    let (status, problem) = raw(
        &client,
        Method::POST,
        "/v1/tickets",
        r#"{"path":"/v1/tokens"}"#,
    )
    .await;
    assert_eq!((status, &problem["pointer"]), (400, &"/path".into()));
}

#[tokio::test]
async fn a_unix_socket_needs_no_token() {
    let dir = tempfile::tempdir().unwrap();
    let socket = format!("unix:{}", dir.path().join("hub.sock").display());
    let ready = dir.path().join("ready");
    let mut child = Command::new(find_binary())
        .args([
            "serve",
            "--destroy-on-exit",
            "--listen",
            &socket,
            "--state-dir",
        ])
        .arg(dir.path().join("s"))
        .arg("--ready-file")
        .arg(&ready)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let up = async {
        while !ready.exists() {
            tokio::task::yield_now().await;
        }
    };
    in_time(up).await;
    let client = Client::new(&socket, None).unwrap();
    let inside = sandbox(&client, "a").await;
    assert_eq!(exec(&inside, "echo plain").await.stdout, "plain\n");
    let wrong = Client::new(&socket, Some("sk_wrong")).unwrap();
    assert_eq!(raw(&wrong, Method::GET, "/v1/sandboxes", "").await.0, 401);
    in_time(client.destroy_sandbox(&id_of("a"))).await.unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(
        !ready.exists(),
        "whoever waits for the next hub would take it for ready"
    );
}

/// How long a turn of a process is, in nanoseconds, by its `/proc/PID/sched`.
fn turn_in(sched: &str) -> Option<u64> {
    let line = sched.lines().find(|line| line.starts_with("se.slice"))?;
    line.rsplit_once(':')?.1.trim().parse().ok()
}

/// Whether the kernel lets a process ask for its own.
fn turns_can_be_asked_for() -> bool {
    let release = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    let mut numbers = release
        .split(['.', '-'])
        .map_while(|part| part.parse().ok());
    let version: (u32, u32) = (
        numbers.next().unwrap_or_default(),
        numbers.next().unwrap_or_default(),
    );
    version >= (6, 12)
}

#[tokio::test]
async fn whoever_passes_messages_on_has_short_turns_and_commands_have_the_usual() {
    let own = std::fs::read_to_string("/proc/self/sched").unwrap_or_default();
    let Some(usual) = turn_in(&own).filter(|_| turns_can_be_asked_for()) else {
        skipped("this kernel tells of no turns, or gives all the same");
        return;
    };
    let hub = Hub::start();
    let inside = sandbox(&hub.client(), "one").await;
    let command = exec(&inside, "cat /proc/self/sched").await.stdout;
    assert_eq!(turn_in(&command), Some(usual));
    let everyone = [hub.pid()].into_iter().chain(children_deep(hub.pid()));
    let short = everyone.filter(|pid| {
        let sched = std::fs::read_to_string(format!("/proc/{pid}/sched"));
        turn_in(&sched.unwrap_or_default()) == Some(100_000)
    });
    assert_eq!(short.count(), 4, "hub, launcher, agent and init");
}
