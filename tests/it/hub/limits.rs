//! Limits of a sandbox that are changed while it runs.

use http::Method;
use sandshell_client::Client;
use sandshell_client::types::{
    KillRequest, ProcessId, ProtectionStatus, SandboxLimits, SandboxPatch, SandboxRecord,
    SandboxSpec,
};
use sandshell_testkit::{Hub, UnprivilegedUser};
use serde_json::Value;

use super::{get, id_of, raw, spec_of};
use crate::calls::{exec, in_time, process_of, skipped, start, wait_for_text};

const MIB: u64 = 1024 * 1024;
const PATH: &str = "/v1/sandboxes/box";

fn limited(limits: SandboxLimits) -> SandboxSpec {
    SandboxSpec {
        limits: Some(limits),
        ..spec_of("box")
    }
}

/// What most of these begin with.
fn first() -> SandboxSpec {
    limited(SandboxLimits {
        memory_bytes: Some(128 * MIB),
        disk_bytes: Some(24 * MIB),
        cpus: Some(1.0),
        pids: Some(40),
        ..SandboxLimits::default()
    })
}

/// A sandbox whose limits are kept by groups; `None`, said aloud, where there are none.
async fn grouped(client: &Client) -> Option<SandboxRecord> {
    let made = in_time(client.create_sandbox(&first())).await.unwrap();
    let kept = |name: &str| {
        let mut all = made.protections.iter();
        all.any(|one| one.name.name() == name && one.status != ProtectionStatus::Off)
    };
    if kept("memory-limit") && kept("cpu-limit") {
        return Some(made);
    }
    skipped("no groups can be made here");
    None
}

async fn patch(client: &Client, limits: SandboxLimits) -> SandboxRecord {
    let patch = SandboxPatch {
        limits: Some(limits),
        ..SandboxPatch::default()
    };
    in_time(client.patch_sandbox(&id_of("box"), &patch))
        .await
        .unwrap()
}

/// Refused, and nothing else of the patch was done.
async fn refused(client: &Client, body: &str, status: u16, pointer: &str) -> String {
    let before = get(client, "box").await;
    let (found, problem) = raw(client, Method::PATCH, PATH, body).await;
    assert_eq!(found, status, "{problem}");
    assert_eq!(problem["pointer"], pointer, "{problem}");
    if status == 422 {
        assert_eq!(problem["code"], "limit_unavailable", "{problem}");
    }
    let after = get(client, "box").await;
    assert_eq!(after.spec, before.spec, "nothing was changed");
    problem["detail"].as_str().unwrap().to_owned()
}

/// What the agent reads from the kernel: memory, thousandths of a processor, processes.
async fn held(client: &Client) -> (Option<u64>, Option<f64>, Option<u64>) {
    let (status, stats) = raw(client, Method::GET, &format!("{PATH}/stats"), "").await;
    assert_eq!(status, 200, "{stats}");
    (
        stats["memory"]["limit_bytes"].as_u64(),
        stats["cpu"]["limit"].as_f64(),
        stats["pids"]["limit"].as_u64(),
    )
}

/// How many children can be had at a time.
async fn forks(inside: &Client) -> u32 {
    let script = "python3 -c '
import os, signal, time
children = []
try:
    while len(children) < 150:
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        children.append(child)
except OSError:
    pass
print(len(children))
for child in children:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
'";
    exec(inside, script).await.stdout.trim().parse().unwrap()
}

/// Kills a process; it is gone with all it had.
async fn killed(inside: &Client, process: &ProcessId) {
    let reply = in_time(inside.kill_process(process, &KillRequest::default()))
        .await
        .unwrap();
    assert!(reply.survivors.is_empty(), "{reply:?}");
}

async fn can_use(inside: &Client, mib: u64) -> bool {
    let script = format!("python3 -c 'x = bytearray({mib} << 20); print(len(x))'");
    exec(inside, &script).await.exit_code == 0
}

#[tokio::test]
async fn change_for_what_runs_and_outlive_the_hub() {
    let mut hub = Hub::start();
    let client = hub.client();
    if grouped(&client).await.is_none() {
        return;
    }
    let inside = client.sandbox(&id_of("box"));
    assert!(forks(&inside).await < 40);
    assert!(!can_use(&inside, 200).await);

    let more = SandboxLimits {
        memory_bytes: Some(300 * MIB),
        cpus: Some(0.5),
        pids: Some(120),
        ..first().limits.unwrap_or_default()
    };
    let patched = patch(&client, more.clone()).await;
    assert_eq!(patched.spec.limits, Some(more.clone()));
    assert_eq!(held(&client).await, (Some(300 * MIB), Some(0.5), Some(120)));
    let had = forks(&inside).await;
    assert!((60..120).contains(&had), "{had}");
    assert!(can_use(&inside, 200).await);

    hub.kill_hard();
    hub.restart();
    assert_eq!(get(&client, "box").await.spec.limits, Some(more));
    assert_eq!(held(&client).await, (Some(300 * MIB), Some(0.5), Some(120)));
    // One of them, by the hub that adopted it, also while it is frozen; the others stay.
    in_time(client.pause_sandbox(&id_of("box"))).await.unwrap();
    let fewer = patch(
        &client,
        SandboxLimits {
            pids: Some(50),
            ..SandboxLimits::default()
        },
    )
    .await;
    let limits = fewer.spec.limits.unwrap();
    assert_eq!(
        (limits.memory_bytes, limits.pids),
        (Some(300 * MIB), Some(50))
    );
    in_time(client.resume_sandbox(&id_of("box"))).await.unwrap();
    assert!(forks(&inside).await < 50);
    // A change of the sandbox does not change what it was asked for with.
    let again = in_time(client.create_sandbox(&first())).await.unwrap();
    assert_eq!(again.spec.limits.unwrap().pids, Some(50));
}

#[tokio::test]
async fn are_refused_as_a_whole() {
    let hub = Hub::start();
    let client = hub.client();
    if grouped(&client).await.is_none() {
        return;
    }
    let inside = client.sandbox(&id_of("box"));
    let before = held(&client).await;
    for (body, status, pointer) in [
        (
            r#"{"limits":{"memory_bytes":0}}"#,
            400,
            "/limits/memory_bytes",
        ),
        (
            r#"{"limits":{"memory_bytes":1048576}}"#,
            400,
            "/limits/memory_bytes",
        ),
        (
            r#"{"limits":{"memory_bytes":1152921504606846976}}"#,
            400,
            "/limits/memory_bytes",
        ),
        (r#"{"limits":{"cpus":0}}"#, 400, "/limits/cpus"),
        (r#"{"limits":{"cpus":0.001}}"#, 400, "/limits/cpus"),
        (r#"{"limits":{"cpus":4000}}"#, 400, "/limits/cpus"),
        (r#"{"limits":{"pids":1}}"#, 400, "/limits/pids"),
        (r#"{"limits":{"pids":"many"}}"#, 400, "/limits/pids"),
        (r#"{"limits":{"files":1}}"#, 400, "/limits/files"),
        (
            r#"{"limits":{"disk_bytes":1048576,"pids":60}}"#,
            422,
            "/limits/disk_bytes",
        ),
        (
            r#"{"limits":{"inodes":10,"pids":60}}"#,
            422,
            "/limits/inodes",
        ),
        (
            r#"{"labels":{"a":"b"},"limits":{"open_files":10}}"#,
            422,
            "/limits/open_files",
        ),
    ] {
        refused(&client, body, status, pointer).await;
    }
    // What a program holds nobody can free. It tells when it holds it, and whoever has it killed is
    // answered when it is gone: told to end, it would have its memory for a while.
    let holds =
        "python3 -uc 'import time; x = b\"x\" * (80 << 20); print(\"held\"); time.sleep(600)'";
    let holder = start(&inside, &process_of(holds)).await;
    wait_for_text(&inside, &holder, "held").await;
    let less = r#"{"labels":{"a":"b"},"limits":{"memory_bytes":33554432,"cpus":0.2,"pids":60}}"#;
    let detail = refused(&client, less, 422, "/limits/memory_bytes").await;
    assert!(detail.contains("are in use now"), "{detail}");
    killed(&inside, &holder).await;
    let many = "for n in {1..25}; do sleep 600 & done; echo held; wait";
    let holder = start(&inside, &process_of(many)).await;
    wait_for_text(&inside, &holder, "held").await;
    let fewer = r#"{"limits":{"memory_bytes":268435456,"pids":20}}"#;
    let detail = refused(&client, fewer, 422, "/limits/pids").await;
    assert!(detail.contains("are in use now"), "{detail}");
    assert_eq!(held(&client).await, before, "nor in the kernel");
    killed(&inside, &holder).await;
    patch(
        &client,
        SandboxLimits {
            memory_bytes: Some(64 * MIB),
            ..SandboxLimits::default()
        },
    )
    .await;
    assert_eq!(held(&client).await.0, Some(64 * MIB));
}

/// Where nobody delegated a group there is nothing to change, and the answer says so.
#[tokio::test]
async fn are_refused_to_an_ordinary_user() {
    let hub = UnprivilegedUser::get().map_or_else(Hub::start, Hub::of);
    let client = hub.client();
    let spec = limited(SandboxLimits {
        pids: Some(40),
        disk_bytes: Some(8 * MIB),
        ..SandboxLimits::default()
    });
    let made = in_time(client.create_sandbox(&spec)).await.unwrap();
    let grouped = |one: &sandshell_client::types::Protection| {
        one.name.name() == "memory-limit" && one.status != ProtectionStatus::Off
    };
    if made.protections.iter().any(grouped) {
        skipped("this user has groups of its own");
        return;
    }
    for (body, pointer) in [
        (
            r#"{"limits":{"memory_bytes":67108864}}"#,
            "/limits/memory_bytes",
        ),
        (r#"{"limits":{"cpus":0.5}}"#, "/limits/cpus"),
        (
            r#"{"labels":{"a":"b"},"limits":{"pids":80}}"#,
            "/limits/pids",
        ),
    ] {
        let detail = refused(&client, body, 422, pointer).await;
        assert!(detail.contains("cannot be limited here"), "{detail}");
    }
    // What is so already needs no change.
    let (status, record) = raw(&client, Method::PATCH, PATH, r#"{"limits":{"pids":40}}"#).await;
    assert_eq!((status, &record["limits"]["pids"]), (200, &Value::from(40)));
}
