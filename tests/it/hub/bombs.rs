//! Bombs in one sandbox: it alone suffers, and what stopped it is named.

use sandshell_client::Client;
use sandshell_client::types::{
    ExecRequest, ExecResult, Happening, ProcessRequest, ProtectionStatus, SandboxLimits,
    SandboxSpec, SandboxState,
};
use sandshell_testkit::{Hub, UnprivilegedUser};

use super::{id_of, sandbox, spec_of, until};
use crate::calls::{Shell, exec, exec_of, in_time, skipped, start, wait_for_text};
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

/// Fills memory that is in nobody's size: what writes is smaller than init.
const FILL_MEMFD: &str = "import os; f = os.memfd_create('x', 0); \
    os.execvp('dd', ['dd', 'if=/dev/zero', f'of=/proc/self/fd/{f}', 'bs=64k', 'count=4000', 'conv=notrunc'])";

/// The same with segments that stay when their maker ends. Says why it could not make more.
const FILL_SEGMENTS: &str = "import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
while True:
    segment = libc.shmget(0, 1 << 20, 0o600)
    if segment < 0:
        print(ctypes.get_errno())
        break
    at = libc.shmat(segment, None, 0)
    ctypes.memset(at, 1, 1 << 20)
    libc.shmdt(ctypes.c_void_p(at))";

/// A sandbox whose memory is limited; `None`, said aloud, where it cannot be.
async fn small(hub: &Hub, id: &str) -> Option<Client> {
    let client = hub.client();
    let spec = SandboxSpec {
        limits: Some(SandboxLimits {
            memory_bytes: Some(64 * MIB),
            ..SandboxLimits::default()
        }),
        ..spec_of(id)
    };
    let made = in_time(client.create_sandbox(&spec)).await.unwrap();
    let mut protections = made.protections.iter();
    if protections
        .any(|one| one.name.name() == "memory-limit" && one.status != ProtectionStatus::Off)
    {
        return Some(client.sandbox(&made.id));
    }
    skipped("memory is not limited here");
    None
}

async fn python(inside: &Client, code: &str) -> ExecResult {
    let request = ExecRequest {
        argv: Some(["python3", "-c", code].map(str::to_owned).into()),
        ..ExecRequest::default()
    };
    in_time(inside.exec(&request)).await.unwrap()
}

/// The kernel ends the largest process, and nothing here makes whoever uses the memory large.
#[tokio::test]
async fn memory_in_nobodys_size_does_not_end_the_sandbox() {
    let hub = Hub::start();
    let Some(inside) = small(&hub, "small").await else {
        return;
    };
    let shell = Shell::of(&inside).await;
    shell.run("kept=1").await;
    let hit = python(&inside, FILL_MEMFD).await;
    assert!(hit.oom, "{hit:?}");
    assert_eq!(exec(&inside, "echo on").await.stdout, "on\n");
    assert_eq!(shell.out("echo $kept").await, "1\n", "a bystander lives");
    let scores = "cat /proc/1/oom_score_adj /proc/self/oom_score_adj";
    let scores = exec(&inside, scores).await.stdout;
    let scores: Vec<i32> = scores.lines().map(|line| line.parse().unwrap()).collect();
    assert!(scores[0] < scores[1], "init goes last: {scores:?}");
}

/// They are all that is left when everything was ended, and then init would be next.
#[tokio::test]
async fn what_stays_without_a_program_does_not_fill_the_memory() {
    let hub = Hub::start();
    let Some(inside) = small(&hub, "small").await else {
        return;
    };
    let full = python(&inside, FILL_SEGMENTS).await;
    assert_eq!(full.stdout.trim(), "28", "no space: {full:?}");
    let full = exec(&inside, "dd if=/dev/zero of=/tmp/big bs=1M count=64 2>&1").await;
    assert!(full.stdout.contains("No space left"), "{full:?}");
    assert_eq!(exec(&inside, "echo on").await.stdout, "on\n");
}

/// Takes all inotify instances it gets, says how many, and keeps them.
const WATCH: &str = "import ctypes, time
libc = ctypes.CDLL(None)
n = 0
while libc.inotify_init1(0) >= 0:
    n += 1
print(n, flush=True)
time.sleep(1000)";

/// The kernel counts them for a user, and root made both.
#[tokio::test]
async fn a_sandbox_uses_up_its_own_watches_only() {
    let hubs = [Some(Hub::start()), UnprivilegedUser::get().map(Hub::of)];
    for hub in hubs.into_iter().flatten() {
        let client = hub.client();
        let greedy = sandbox(&client, "greedy").await;
        let other = sandbox(&client, "other").await;
        let request = ProcessRequest {
            argv: Some(["python3", "-c", WATCH].map(str::to_owned).into()),
            ..ProcessRequest::default()
        };
        let process = start(&greedy, &request).await;
        wait_for_text(&greedy, &process, "\n").await;
        let watch = "import ctypes; print(ctypes.CDLL(None).inotify_init1(0) >= 0)";
        let there = python(&other, watch).await;
        let here = rustix::fs::inotify::init(rustix::fs::inotify::CreateFlags::CLOEXEC);
        // First, for a failed test must not leave the machine without.
        in_time(client.destroy_sandbox(&id_of("greedy")))
            .await
            .unwrap();
        assert_eq!(there.stdout, "True\n");
        assert!(here.is_ok(), "{here:?}");
    }
}

/// The machine has some thousands for all.
#[tokio::test]
async fn a_sandbox_has_terminals_of_its_own_number() {
    let hub = Hub::start();
    let inside = sandbox(&hub.client(), "greedy").await;
    let open = "import os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
n = 0
try:
    while n < 2000:
        os.open('/dev/ptmx', os.O_RDWR)
        n += 1
except OSError as error:
    print(n, error.errno)";
    let opened = python(&inside, open).await;
    assert_eq!(opened.stdout, "512 28\n", "{opened:?}");
}

/// What sessions and the agent exchange lies in memory, too.
#[tokio::test]
async fn a_sessions_channel_is_bounded() {
    let hub = Hub::start();
    let Some(inside) = small(&hub, "small").await else {
        return;
    };
    let shell = Shell::of(&inside).await;
    let fill = "head -c 64M /dev/zero 2>&1 >/proc/$$/fd/31/s0";
    let full = shell.run(fill).await;
    assert!(full.stdout.contains("No space left"), "{full:?}");
    assert_eq!(exec(&inside, "echo on").await.stdout, "on\n");
}

/// Programs can take back that they go before init, and lose their sandbox by it. Then it is said why.
#[tokio::test]
async fn a_sandbox_that_ran_out_of_memory_says_so() {
    let hub = Hub::start();
    let client = hub.client();
    let Some(inside) = small(&hub, "small").await else {
        return;
    };
    let first = "for p in /proc/[0-9]*; do echo 0 >$p/oom_score_adj; done 2>/dev/null; \
         for p in /proc/[0-9]*; do [ $p = /proc/1 ] || [ $p = /proc/$$ ] || kill -9 ${p#/proc/}; done 2>/dev/null; ";
    let request = exec_of(&format!("{first}exec python3 -c \"{FILL_MEMFD}\""));
    // Its answer may be lost with it.
    let answer = in_time(inside.exec(&request)).await;
    let record = until(&client, "small", SandboxState::Failed).await;
    assert!(
        record
            .reason
            .as_deref()
            .unwrap_or_default()
            .contains("memory"),
        "{record:?} {answer:?}"
    );
}
