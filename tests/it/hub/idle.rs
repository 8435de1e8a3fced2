//! Sleep, pause, keepalive and the end of a lifetime.

use std::time::{Duration, Instant};

use http::Method;
use sandshell_client::types::{
    ErrorCode, OnIdle, ProcessId, SandboxPatch, SandboxState, SessionRequest, StreamName, Timestamp,
};
use sandshell_client::{Client, OutputQuery};
use sandshell_testkit::Hub;

use super::{get, id_of, raw, sandbox, spec_of, until};
use crate::calls::{code_of, exec, exec_of, in_time, process_of, start};

/// Says the time, in microseconds, about a thousand times a second.
const TELLING: &str =
    "exec 9<> <(:); while :; do echo ${EPOCHREALTIME/./}; read -t 0.001 -u 9; done";

/// The times that were said so far.
async fn told(inside: &Client, id: &ProcessId) -> Vec<u64> {
    let output = inside.process_output(id, OutputQuery::all(StreamName::Stdout));
    let bytes = in_time(in_time(output).await.unwrap().read_to_end()).await;
    let text = String::from_utf8(bytes.unwrap().to_vec()).unwrap();
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(|line| line.parse().unwrap()).collect()
}

/// Waits until more is said.
async fn goes_on(inside: &Client, id: &ProcessId) {
    let before = told(inside, id).await.len();
    while told(inside, id).await.len() == before {
        tokio::task::yield_now().await;
    }
}

/// After this it sleeps.
const IDLE: Duration = Duration::from_millis(300);

/// Whoever was asked is awake, until its time without a request is over again.
async fn is_awake(client: &Client, asked: Instant) {
    let state = get(client, "sleepy").await.state;
    assert!(
        state == SandboxState::Ready || asked.elapsed() >= IDLE,
        "{state:?}"
    );
}

#[tokio::test]
async fn an_idle_sandbox_sleeps_until_it_is_asked() {
    let mut hub = Hub::start();
    let client = hub.client();
    let mut spec = spec_of("sleepy");
    spec.idle_timeout_ms = Some(IDLE.as_millis().try_into().unwrap());
    in_time(client.create_sandbox(&spec)).await.unwrap();
    let inside = client.sandbox(&id_of("sleepy"));
    let session = in_time(inside.create_session(&SessionRequest::default()))
        .await
        .unwrap();
    let run = |text: &str| {
        let (inside, id) = (inside.clone(), session.id.clone());
        let request = sandshell_client::types::SessionExecRequest {
            command: text.to_owned(),
            ..Default::default()
        };
        async move {
            in_time(inside.session_exec(&id, &request))
                .await
                .unwrap()
                .stdout
        }
    };
    run("x=kept").await;
    for round in 0..3 {
        until(&client, "sleepy", SandboxState::Asleep).await;
        if round == 1 {
            // Asleep it stays through a restart.
            hub.kill_hard();
            hub.restart();
            assert_eq!(get(&client, "sleepy").await.state, SandboxState::Asleep);
        }
        let asked = Instant::now();
        assert_eq!(run("echo $x").await, "kept\n");
        is_awake(&client, asked).await;
    }
    // What is in flight keeps it awake.
    let result = exec(&inside, "sleep 1; echo awake").await;
    assert_eq!(result.stdout, "awake\n");
    until(&client, "sleepy", SandboxState::Asleep).await;
    let asked = Instant::now();
    in_time(client.keep_sandbox_alive(&id_of("sleepy")))
        .await
        .unwrap();
    is_awake(&client, asked).await;
    // Asleep, it can be destroyed.
    until(&client, "sleepy", SandboxState::Asleep).await;
    in_time(client.destroy_sandbox(&id_of("sleepy")))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_paused_sandbox_stands_still_and_answers_nothing() {
    let mut hub = Hub::start();
    let client = hub.client();
    let inside = sandbox(&client, "still").await;
    let telling = start(&inside, &process_of(TELLING)).await;
    in_time(goes_on(&inside, &telling)).await;
    for restart in [false, true] {
        let paused = in_time(client.pause_sandbox(&id_of("still")))
            .await
            .unwrap();
        assert_eq!(paused.state, SandboxState::Paused);
        in_time(client.pause_sandbox(&id_of("still")))
            .await
            .unwrap();
        if restart {
            hub.kill_hard();
            hub.restart();
            inside.close_idle();
        }
        let from = std::time::SystemTime::now();
        let refused = in_time(inside.exec(&exec_of("true"))).await;
        assert_eq!(code_of(refused), ErrorCode::SandboxPaused);
        tokio::time::sleep(Duration::from_millis(200)).await;
        let until = std::time::SystemTime::now();
        in_time(client.resume_sandbox(&id_of("still")))
            .await
            .unwrap();
        assert_eq!(exec(&inside, "echo on").await.stdout, "on\n");
        in_time(goes_on(&inside, &telling)).await;
        let micros = |time: std::time::SystemTime| {
            let since = time.duration_since(std::time::UNIX_EPOCH).unwrap();
            u64::try_from(since.as_micros()).unwrap()
        };
        let still = micros(from)..micros(until);
        let meanwhile = told(&inside, &telling).await;
        let meanwhile = meanwhile.iter().filter(|time| still.contains(time));
        assert_eq!(meanwhile.count(), 0, "it stands still");
    }
    // Paused, it can be destroyed.
    in_time(client.pause_sandbox(&id_of("still")))
        .await
        .unwrap();
    in_time(client.destroy_sandbox(&id_of("still")))
        .await
        .unwrap();
    let (status, _) = raw(&client, Method::POST, "/v1/sandboxes/still/resume", "").await;
    assert_eq!(status, 410);
}

#[tokio::test]
async fn times_end_sandboxes_also_across_a_restart() {
    let mut hub = Hub::start();
    let client = hub.client();
    let mut idle = spec_of("idle");
    idle.idle_timeout_ms = Some(3_600_000);
    idle.on_idle = Some(OnIdle::Destroy);
    let mut short = spec_of("short");
    short.max_lifetime_ms = Some(3_600_000);
    let mut changed = spec_of("changed");
    changed.max_lifetime_ms = Some(3_600_000);
    for spec in [&idle, &short, &changed] {
        in_time(client.create_sandbox(spec)).await.unwrap();
    }
    let record = get(&client, "short").await;
    let lifetime = record.expires_at.unwrap().duration_since(record.created_at);
    assert_eq!(lifetime.as_millis(), 3_600_000);
    // Short only now: all of them have been made, however long that took.
    let patch = SandboxPatch {
        idle_timeout_ms: Some(200),
        ..SandboxPatch::default()
    };
    in_time(client.patch_sandbox(&id_of("idle"), &patch))
        .await
        .unwrap();
    let lived = Timestamp::now().duration_since(record.created_at);
    let lifetime = u64::try_from(lived.as_millis()).unwrap() + 1500;
    let patch = SandboxPatch {
        max_lifetime_ms: Some(lifetime),
        ..SandboxPatch::default()
    };
    in_time(client.patch_sandbox(&id_of("short"), &patch))
        .await
        .unwrap();
    hub.kill_hard();
    hub.restart();
    let gone = until(&client, "idle", SandboxState::Gone).await;
    assert_eq!(gone.reason.as_deref(), Some("it was idle"));
    let gone = until(&client, "short", SandboxState::Gone).await;
    assert_eq!(gone.reason.as_deref(), Some("its lifetime is over"));
    let patch = SandboxPatch {
        max_lifetime_ms: Some(1),
        ..SandboxPatch::default()
    };
    in_time(client.patch_sandbox(&id_of("changed"), &patch))
        .await
        .unwrap();
    until(&client, "changed", SandboxState::Gone).await;
}
