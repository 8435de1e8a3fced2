//! Bombs in one sandbox: it alone suffers, and what stopped it is named.

use sandshell_client::Client;
use sandshell_client::types::{ExecResult, Happening, SandboxLimits, SandboxSpec};
use sandshell_testkit::{Hub, UnprivilegedUser};

use super::{sandbox, spec_of};
use crate::calls::{exec, exec_of, in_time, skipped};
use crate::limits::{about_a_limit, events};

const MIB: u64 = 1024 * 1024;

async fn bomb(inside: &Client, text: &str) -> ExecResult {
    in_time(inside.exec(&exec_of(text))).await.unwrap()
}

#[tokio::test]
async fn one_sandbox_alone_suffers() {
    let hub = Hub::start();
    let client = hub.client();
    let neighbour = sandbox(&client, "neighbour").await;
    let spec = SandboxSpec {
        limits: Some(SandboxLimits {
            memory_bytes: Some(256 * MIB),
            cpus: Some(1.0),
            pids: Some(64),
            disk_bytes: Some(16 * MIB),
            inodes: Some(2000),
            open_files: Some(256),
        }),
        ..spec_of("attacker")
    };
    let made = in_time(client.create_sandbox(&spec)).await.unwrap();
    let attacker = client.sandbox(&made.id);
    let unharmed = async || {
        assert_eq!(exec(&neighbour, "echo fine").await.stdout, "fine\n");
        assert_eq!(exec(&attacker, "echo on").await.stdout, "on\n");
    };
    let full = bomb(&attacker, "dd if=/dev/zero of=/tmp/big bs=1M count=64").await;
    assert!(full.stderr.contains("No space left"), "{}", full.stderr);
    exec(&attacker, "rm /tmp/big").await;
    unharmed().await;
    let files = "mkdir /tmp/d; cd /tmp/d; for n in {1..4000}; do : > $n || break; done";
    let files = bomb(&attacker, files).await;
    assert!(files.stderr.contains("No space left"), "{}", files.stderr);
    exec(&attacker, "rm -r /tmp/d").await;
    unharmed().await;
    let open = "ulimit -n; for n in {10..600}; do eval \"exec $n</dev/null\" || break; done";
    let open = bomb(&attacker, open).await;
    assert!(open.stdout.starts_with("256\n"), "{}", open.stdout);
    assert!(!open.stderr.is_empty());
    unharmed().await;
    // Children that are left behind are the sandbox's own to end.
    let fork = bomb(&attacker, &format!("{FORKS}; kill -9 -1")).await;
    assert!(fork.stdout.ends_with(" 11\n"), "{fork:?}");
    // The events name what was met. Before anything else is: of two in one second, either may be told first.
    let is_limited = |layer: &str| {
        let mut protections = made.protections.iter();
        protections.any(|protection| {
            protection.name.name() == layer && format!("{:?}", protection.status) != "Off"
        })
    };
    let mut told = events(&attacker).await;
    if is_limited("pids-limit") {
        let first = about_a_limit(&mut told).await;
        let Happening::LimitReached { limit, .. } = &first else {
            panic!("{first:?}");
        };
        assert_eq!(limit, "pids");
    } else {
        skipped("processes are not limited here, so no event tells that they were");
    }
    unharmed().await;
    let shout = bomb(&attacker, "yes | head -c 64M").await;
    assert!(shout.truncated.is_some(), "what was left out is counted");
    unharmed().await;
    let hungry = "python3 -c 'x = bytearray(1 << 30); print(len(x))'";
    let hungry = bomb(&attacker, hungry).await;
    assert_ne!(hungry.exit_code, 0);
    if is_limited("memory-limit") {
        assert!(hungry.oom, "{hungry:?}");
        let mut memory = about_a_limit(&mut told).await;
        while matches!(memory, Happening::LimitReached { .. }) {
            memory = about_a_limit(&mut told).await;
        }
        assert!(matches!(memory, Happening::Oom { .. }), "{memory:?}");
    } else {
        skipped("memory is not limited here, so nothing can be attributed to it");
    }
    unharmed().await;
}

/// What is written lies in memory. It cannot fill it, or whoever writes would end the sandbox.
#[tokio::test]
async fn files_do_not_use_up_the_memory() {
    let hub = Hub::start();
    let client = hub.client();
    let limits = SandboxLimits {
        memory_bytes: Some(64 * MIB),
        ..SandboxLimits::default()
    };
    let spec = SandboxSpec {
        limits: Some(limits.clone()),
        ..spec_of("small")
    };
    let made = in_time(client.create_sandbox(&spec)).await.unwrap();
    let inside = client.sandbox(&made.id);
    let full = bomb(
        &inside,
        "dd if=/dev/zero of=/workspace/f bs=1M count=200 2>&1",
    )
    .await;
    assert!(full.stdout.contains("No space left"), "{full:?}");
    assert_eq!(exec(&inside, "echo on").await.stdout, "on\n");
    // More than that is refused when it is asked for.
    let spec = SandboxSpec {
        limits: Some(SandboxLimits {
            disk_bytes: Some(64 * MIB),
            ..limits
        }),
        ..spec_of("greedy")
    };
    let refused = in_time(client.create_sandbox(&spec)).await.unwrap_err();
    assert_eq!(refused.status(), Some(400), "{refused}");
    assert!(refused.to_string().contains("memory_bytes"), "{refused}");
}

/// Forks until it is refused; says how often it was not, and why then.
const FORKS: &str = "python3 -c '
import os, time
n = 0
try:
    while n < 200:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        n += 1
except OSError as error:
    print(n, error.errno)
'";

/// An ordinary user has no control group here, and the limit is the sandbox's own all the same.
#[tokio::test]
async fn processes_are_limited_without_groups_too() {
    let hub = UnprivilegedUser::get().map_or_else(Hub::start, Hub::of);
    let client = hub.client();
    for id in ["one", "other"] {
        let spec = SandboxSpec {
            limits: Some(SandboxLimits {
                pids: Some(40),
                ..SandboxLimits::default()
            }),
            ..spec_of(id)
        };
        let made = in_time(client.create_sandbox(&spec)).await.unwrap();
        let result = bomb(&client.sandbox(&made.id), FORKS).await;
        let (forks, errno) = result.stdout.trim().split_once(' ').unwrap();
        assert_eq!(errno, "11", "{result:?}");
        // Init and the shells that wait take some.
        let forks: u32 = forks.parse().unwrap();
        assert!((15..40).contains(&forks), "{forks}");
    }
}
