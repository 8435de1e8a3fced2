//! The third level: a container as engines make them without privileges. An agent serves it by itself,
//! hardens its commands with what needs no namespace, and says what there is not; a hub refuses.
//!
//! The stand-in is bubblewrap's, with root's usual fourteen capabilities, a filter such as container
//! engines use (see `src/bin/intruder/container.rs`), and /proc covered as theirs is. The agent is PID 1
//! of it, so that whatever the intruder tries on PID 1 it tries on the agent.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use sandshell_client::types::{
    ErrorCode, ExecRequest, IsolationPolicy, IsolationSpec, Layer, ProtectionStatus, SandboxSpec,
};
use sandshell_client::{Client, ClientError, FileQuery, WriteOptions};
use sandshell_testkit::{Agent, UnprivilegedUser, find_binary};

use super::bait::Bait;
use super::places::intruder;
use super::{Findings, open, parse};
use crate::calls::{in_time, marker, skipped};

/// What engines leave to root.
const CAPABILITIES: &[&str] = &[
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "NET_RAW",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];
const MASKED: &[&str] = &[
    "kcore",
    "keys",
    "latency_stats",
    "timer_list",
    "sched_debug",
];
const READ_ONLY: &[&str] = &["bus", "fs", "irq", "sys", "sysrq-trigger"];

/// A way to run programs in such a container. The directory above the working directory is there too.
struct Container {
    dir: tempfile::TempDir,
    script: PathBuf,
}

impl Container {
    /// `None`, said aloud, where it cannot be.
    fn build() -> Option<Self> {
        if UnprivilegedUser::get().is_none() {
            skipped("the test does not run as root");
            return None;
        }
        let dir = tempfile::TempDir::with_prefix("sandshell-test-").unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("intruder"), intruder()).unwrap();
        let mode = fs::Permissions::from_mode;
        fs::set_permissions(at("intruder"), mode(0o755)).unwrap();
        fs::set_permissions(dir.path(), mode(0o755)).unwrap();
        // It only prints the filter, but is never run outside walls.
        let filter = Command::new("bwrap")
            .args(["--unshare-all", "--ro-bind", "/usr", "/usr"])
            .args([
                "--symlink",
                "usr/lib",
                "/lib",
                "--symlink",
                "usr/lib64",
                "/lib64",
            ])
            .args(["--ro-bind".into(), at("intruder"), "/intruder".into()])
            .args(["/intruder", "container-filter"])
            .stdin(Stdio::null())
            .output();
        let Some(filter) = filter.ok().filter(|made| made.status.success()) else {
            skipped("bubblewrap cannot make a container here");
            return None;
        };
        fs::write(at("filter"), filter.stdout).unwrap();
        let mut words = "bwrap --die-with-parent --unshare-pid --unshare-net --unshare-ipc --unshare-uts \
             --unshare-cgroup --as-pid-1 --ro-bind /usr /usr --ro-bind /etc /etc --symlink usr/bin /bin \
             --symlink usr/lib /lib --symlink usr/lib64 /lib64 --symlink usr/sbin /sbin --proc /proc \
             --dev /dev --perms 1777 --tmpfs /tmp --cap-drop ALL"
            .to_owned();
        for capability in CAPABILITIES {
            words.push_str(&format!(" --cap-add CAP_{capability}"));
        }
        let there = |name: &&&str| Path::new("/proc").join(name).exists();
        for name in MASKED.iter().filter(there) {
            words.push_str(&format!(" --ro-bind /dev/null /proc/{name}"));
        }
        for name in READ_ONLY.iter().filter(there) {
            words.push_str(&format!(" --ro-bind /proc/{name} /proc/{name}"));
        }
        let text = format!(
            "#!/bin/sh\nhere=$(dirname \"$PWD\")\n[ -z \"$OWNER\" ] || chown -R \"$OWNER\" \"$here\"\n\
             if [ \"$WORD\" ]; then shift; set -- \"$WORD\" \"$@\"; fi\nexec {words} --bind \"$here\" \"$here\" --ro-bind '{}' \
             /sandshell --chdir \"$PWD\" --seccomp 9 $BEFORE ${{PROGRAM-/sandshell}} \"$@\" 9<'{}'\n",
            find_binary().display(),
            at("filter").display(),
        );
        let script = at("container.sh");
        fs::write(&script, text).unwrap();
        fs::set_permissions(&script, mode(0o755)).unwrap();
        Some(Self { dir, script })
    }

    /// What a program prints there.
    fn run(&self, program: &str, words: &[&str]) -> Output {
        let work = self.dir.path().join("work");
        fs::create_dir_all(&work).unwrap();
        Command::new(&self.script)
            .args(words)
            .env("PROGRAM", program)
            .current_dir(work)
            .stdin(Stdio::piped())
            .output()
            .unwrap()
    }

    /// The agent of the container.
    fn agent(&self, who: Who) -> Contained {
        let mut builder = Agent::builder().unix_socket().binary(&self.script);
        match who {
            Who::Root => {}
            Who::UserOfRoot => {
                builder = builder.args(["--user", "1000", "--isolation", "strict"]);
            }
            Who::User => {
                let as_user = "setpriv --reuid=1000 --regid=1000 --clear-groups";
                builder = builder.env("OWNER", "1000").env("BEFORE", as_user);
            }
        }
        let agent = builder.start();
        let inside = sandshell_testkit::children_deep(agent.pid()).into_iter();
        let inside = inside.filter_map(Pid::from_raw);
        let inside = inside.filter_map(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        Contained {
            inside: inside.collect(),
            agent,
        }
    }
}

/// An agent whose end is the container's: bubblewrap's own does not end what has changed its rights.
struct Contained {
    inside: Vec<OwnedFd>,
    agent: Agent,
}

impl std::ops::Deref for Contained {
    type Target = Agent;

    fn deref(&self) -> &Agent {
        &self.agent
    }
}

impl Drop for Contained {
    fn drop(&mut self) {
        for pidfd in &self.inside {
            let _ = pidfd_send_signal(pidfd, Signal::KILL);
        }
    }
}

/// Who the agent's commands are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    /// Root, as the agent.
    Root,
    /// An ordinary user below an agent of root's.
    UserOfRoot,
    /// An ordinary user, as the agent.
    User,
}

async fn run(client: &Client, command: &str) -> String {
    let request = ExecRequest {
        command: Some(command.to_owned()),
        ..ExecRequest::default()
    };
    let ran = in_time(client.exec(&request)).await.unwrap();
    assert_eq!(ran.exit_code, 0, "{command}: {ran:?}");
    ran.stdout
}

async fn explore(client: &Client, bait: &Bait) -> Findings {
    let options = WriteOptions {
        mode: Some("755".parse().unwrap()),
        ..WriteOptions::default()
    };
    let place = FileQuery::new("/tmp/intruder");
    in_time(client.write_file(&place, &options, intruder()))
        .await
        .unwrap();
    let mut found = parse(&run(client, "exec /tmp/intruder doors").await);
    assert!(found.len() > 100, "the intruder was cut short: {found:?}");
    let sights = format!("exec /tmp/intruder sights {}", bait.words());
    found.extend(parse(&run(client, &sights).await));
    found
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn names(findings: &Findings) -> Vec<&str> {
    let open = findings.iter().filter(|(_, (open, _))| *open);
    open.map(|(name, _)| name.as_str()).collect()
}

/// What is open below the agent: what root of a container is, and what a user may do to his own.
fn open_on_purpose(who: Who) -> &'static [&'static str] {
    match who {
        Who::Root => &[
            "chroot",
            "init-oom",
            "prlimit-of-init",
            "read /etc/gshadow",
            "read /etc/shadow",
            "read /proc/slabinfo",
            "read /proc/vmallocinfo",
            "securebits",
            "setgid-root",
            "setgroups-root",
            "setuid-root",
        ],
        Who::UserOfRoot => &[],
        Who::User => &["prlimit-of-init"],
    }
}

#[tokio::test]
async fn below_an_agent_a_container_has_hardly_a_door() {
    let Some(container) = Container::build() else {
        return;
    };
    let bait = Bait::lay();
    let bait_words = bait.words();
    let mut bare = parse(&text(&container.run("../intruder", &["doors"])));
    let words: Vec<&str> = ["sights"]
        .into_iter()
        .chain(bait_words.split(' '))
        .collect();
    bare.extend(parse(&text(&container.run("../intruder", &words))));
    let bare = names(&bare);
    assert!(bare.len() > 40, "the intruder finds no way in: {bare:#?}");
    for who in [Who::Root, Who::UserOfRoot, Who::User] {
        let agent = container.agent(who);
        let found = explore(&agent.client(), &bait).await;
        let on_purpose = open_on_purpose(who);
        let unexpected: Vec<String> = open(&found)
            .into_iter()
            .filter(|line| {
                let name = line.split_once(": ").unwrap().0;
                !on_purpose.contains(&name) || !bare.contains(&name)
            })
            .collect();
        assert!(unexpected.is_empty(), "open to {who:?}: {unexpected:#?}");
    }
    bait.assert_untouched();
}

/// The agent is PID 1, where its commands know to find it.
#[tokio::test]
async fn no_command_in_a_container_reaches_its_agent() {
    let Some(container) = Container::build() else {
        return;
    };
    for who in [Who::Root, Who::UserOfRoot, Who::User] {
        let secret = marker();
        let agent = container.agent(who);
        let client = agent.client();
        let script = "for s in TERM KILL STOP INT HUP; do kill -$s 1 2>/dev/null && echo heard $s; done; \
             cat /proc/1/environ /proc/1/maps /proc/1/mem 2>/dev/null | head -c1 | wc -c; echo still here";
        assert_eq!(run(&client, script).await, "0\nstill here\n", "{who:?}");
        if who == Who::UserOfRoot {
            // Whoever has the agent's user could end init; nobody else can.
            run(&client, "trap '' TERM; kill -TERM -1; echo $?").await;
        }
        // What containers are for goes on working.
        let script = format!(
            "cd /tmp && echo {secret} > f && chmod 600 f && cat f && strace -V >/dev/null; \
             sleep 100 & kill $!; wait $! ; [ $? = 143 ] && echo killed"
        );
        let wanted = format!("{secret}\nkilled\n");
        assert_eq!(run(&client, &script).await, wanted, "{who:?}");
    }
}

#[tokio::test]
async fn in_a_container_what_is_missing_is_said() {
    use Layer as L;
    use ProtectionStatus::{Enforced, Off, Partial};
    const NEVER: &[Layer] = &[
        L::PidNs,
        L::MountNs,
        L::NetNs,
        L::IpcNs,
        L::UtsNs,
        L::CgroupNs,
        L::PivotRoot,
        L::CpuLimit,
        L::MemoryLimit,
        L::PidsLimit,
        L::DiskLimit,
        L::InodeLimit,
        L::EgressPolicy,
        L::OomAttribution,
    ];
    let Some(container) = Container::build() else {
        return;
    };
    for (who, ids, capabilities) in [
        (Who::Root, Off, Partial),
        (Who::UserOfRoot, Enforced, Partial),
        (Who::User, Off, Enforced),
    ] {
        let agent = container.agent(who);
        let client = agent.client();
        let report = in_time(client.protections()).await.unwrap().protections;
        let status = |layer: Layer| match layer {
            L::UidSeparation => ids,
            L::CapabilityDrop => capabilities,
            L::NoNewPrivs | L::LandlockScope | L::Seccomp => Enforced,
            L::LandlockFs | L::KillTree => Partial,
            never if NEVER.contains(&never) => Off,
            other => panic!("{other:?} is new"),
        };
        let golden: Vec<_> = L::ALL
            .iter()
            .map(|layer| (*layer, status(*layer)))
            .collect();
        let found: Vec<_> = report.iter().map(|said| (said.name, said.status)).collect();
        assert_eq!(found, golden, "{who:?}: {report:#?}");
        for said in &report {
            assert_eq!(said.reason.is_none(), said.status == Enforced, "{said:?}");
        }
    }
}

/// Where there are no namespaces there is no sandbox, and no riddle either.
#[tokio::test]
async fn in_a_container_a_hub_refuses_with_the_reason_and_the_remedy() {
    let Some(container) = Container::build() else {
        return;
    };
    let ran = container.run("/sandshell", &["run", "--", "true"]);
    let said = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(125), "{said}");
    assert!(
        said.contains("namespaces and mounts are not permitted here"),
        "{said}"
    );
    assert!(
        said.contains("hint: In a container, start it with"),
        "{said}"
    );

    let hub = Agent::builder()
        .unix_socket()
        .token("not-a-secret-but-long-enough-for-one")
        .binary(&container.script)
        .env("WORD", "serve")
        .start();
    let client = hub.client();
    for policy in [IsolationPolicy::Strict, IsolationPolicy::BestEffort] {
        let spec = SandboxSpec {
            isolation: Some(IsolationSpec {
                policy,
                ..IsolationSpec::default()
            }),
            ..SandboxSpec::default()
        };
        let refused = in_time(client.create_sandbox(&spec)).await.unwrap_err();
        assert_eq!(
            refused.code(),
            Some(ErrorCode::IsolationUnavailable),
            "{refused:?}"
        );
        let ClientError::Problem(problem) = refused else {
            panic!("{refused:?}");
        };
        assert!(
            problem
                .detail
                .contains("namespaces and mounts are not permitted here"),
            "{problem:?}"
        );
        assert!(problem.hint.unwrap().contains("seccomp=unconfined"));
        let off: Vec<Layer> = problem.protections.iter().map(|said| said.name).collect();
        assert!(off.contains(&Layer::PidNs), "{off:?}");
    }
}
