//! The groups of a sandbox with real members, as root. Bombs are small and within the groups.

use std::ffi::CString;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::process::{WaitId, WaitIdOptions, waitid};
use sandshell_sys::cgroup::{Group, Seat};
use sandshell_sys::spawn::{Identity, SpawnPlan, Spawned, spawn};
use sandshell_testkit::skipped;
use sandshell_types::{Layer, ProtectionStatus};

use super::*;

/// A user that has no rights here.
const AGENT: u32 = 41_234;
const PATIENCE: Duration = Duration::from_secs(150);

/// Removes the groups also when a check fails.
struct Cleanup(String);

impl Drop for Cleanup {
    fn drop(&mut self) {
        let _ = SandboxGroups::sweep(&Parent::own(), &self.0, PATIENCE);
    }
}

/// A sandbox's groups under a name of this test's own; `None`, said aloud, where none can be made.
fn groups(test: &str, limits: &SandboxLimits) -> Option<(Cleanup, Parent, SandboxGroups)> {
    let parent = Parent::own();
    let name = format!("sandshell-test-{test}-{}", std::process::id());
    let groups = SandboxGroups::create(&parent, &name, limits, AGENT).unwrap();
    let missing: Vec<_> = groups
        .protections()
        .iter()
        .filter(|p| p.status != ProtectionStatus::Enforced)
        .collect();
    if missing.is_empty() {
        return Some((Cleanup(name), parent, groups));
    }
    skipped(&format!("not every limit can be had: {missing:?}"));
    groups.remove(PATIENCE);
    None
}

const LIMITS: SandboxLimits = SandboxLimits {
    memory_bytes: Some(48 << 20),
    cpus: None,
    pids: Some(24),
};

fn limits() -> SandboxLimits {
    SandboxLimits {
        cpus: Cpus::new(0.5),
        ..LIMITS
    }
}

/// Runs a script as init would: born in `c`, joined to the rest, then the agent's user.
fn start(groups: &SandboxGroups, script: &str, fds: &[(BorrowedFd<'_>, i32)]) -> Spawned {
    let joins = groups.joins().unwrap();
    let join: Vec<_> = joins.before_namespace.iter().map(|fd| fd.as_fd()).collect();
    spawn(&SpawnPlan {
        programs: &[c"/bin/sh".to_owned()],
        argv: &[
            c"sh".to_owned(),
            c"-c".to_owned(),
            CString::new(script).unwrap(),
        ],
        env: &[c"PATH=/usr/bin:/bin".to_owned()],
        cwd: Some(c"/"),
        fds,
        identity: Some(&Identity {
            uid: AGENT,
            gid: AGENT,
            groups: Vec::new(),
        }),
        rights: None,
        rlimits: &[],
        namespaces: 0,
        cgroup: groups.init_group(),
        join: &join,
        controlling_terminal: false,
        avoid_clone3: false,
    })
    .unwrap()
}

fn status(child: &Spawned) -> i32 {
    let ended = waitid(WaitId::PidFd(child.pidfd.as_fd()), WaitIdOptions::EXITED);
    let ended = ended.unwrap().unwrap();
    ended
        .exit_status()
        .or(ended.terminating_signal().map(|n| 128 + n))
        .unwrap()
}

fn left(parent: &Parent, name: &str) -> Vec<String> {
    let below = parent.groups().flat_map(Group::children);
    below.filter(|found| found.starts_with(name)).collect()
}

#[test]
fn each_limit_holds_and_is_told() {
    let Some((cleanup, parent, groups)) = groups("limits", &limits()) else {
        return;
    };
    let memory = groups.memory.as_ref().unwrap();
    let pids = groups.pids.as_ref().unwrap();
    let source = memory.oom_source().unwrap();
    let bomb = start(
        &groups,
        "exec dd if=/dev/zero of=/dev/null bs=150M count=1",
        &[],
    );
    assert_eq!(status(&bomb), 137);
    assert_eq!(memory.oom_kills(), 1);
    assert!(source.total(0) >= 1);

    let forks = "i=0; while [ $i -lt 60 ]; do sleep 1000 & i=$((i+1)); done";
    let bomb = start(&groups, forks, &[]);
    assert_ne!(status(&bomb), 0, "a shell that cannot fork gives up");
    assert!(pids.forks_refused() >= 1);
    assert_eq!(pids.pids_limit(), Some(24));
    assert!(pids.pids_used().unwrap() <= 24);

    assert!(groups.remove(PATIENCE));
    assert!(groups.remove(PATIENCE), "again");
    assert_eq!(left(&parent, &cleanup.0), Vec::<String>::new());
}

#[test]
fn half_a_processor_is_half_a_processor() {
    let Some((_cleanup, _, groups)) = groups("cpu", &limits()) else {
        return;
    };
    let spin = "exec timeout 2 sh -c 'while :; do :; done'";
    let used = || groups.unified.as_ref().unwrap().commands.cpu_micros();
    let mut seen = Vec::new();
    // A machine that stands still can count that as use: the best of three tells.
    for _ in 0..3 {
        let (begun, before) = (Instant::now(), used().unwrap());
        let spinner = start(&groups, spin, &[]);
        status(&spinner);
        let (used, took) = (used().unwrap() - before, begun.elapsed().as_micros());
        if u128::from(used) <= took / 2 + 250_000 {
            assert!(groups.remove(PATIENCE));
            return;
        }
        seen.push((used, took));
    }
    panic!("µs of µs: {seen:?}");
}

#[test]
fn the_agent_divides_what_it_got_and_reaches_nothing_above() {
    let Some((cleanup, parent, groups)) = groups("delegation", &limits()) else {
        return;
    };
    let (trees, controllers) = groups.delegate().unwrap();
    let trees = trees.unwrap();
    let seats: Vec<&Seat> = [&controllers.memory, &controllers.cpu, &controllers.pids]
        .into_iter()
        .flatten()
        .collect();
    assert_eq!(seats.len(), 3);
    let mut fds: Vec<(BorrowedFd<'_>, i32)> = vec![(trees.dir().unwrap(), 9)];
    for (seat, number) in seats.iter().zip(10..) {
        fds.push((seat.group.dir().unwrap(), number));
    }
    let stderr = std::io::stderr();
    fds.push((stderr.as_fd(), 2));
    let script = r#"
        for fd in 9 10 11 12; do
            cd /proc/self/fd/$fd || exit 10
            [ "$(stat -c %i ./..)" = "$(stat -c %i .)" ] || exit 11
            mkdir p1 || exit 12
            echo 0 > p1/cgroup.procs || exit 13
        done
        for file in memory.limit_in_bytes memory.max cpu.cfs_quota_us cpu.max pids.max; do
            for fd in 9 10 11 12; do
                if [ -e /proc/self/fd/$fd/$file ]; then
                    (echo 100 > /proc/self/fd/$fd/$file) 2>/dev/null && exit 14
                fi
            done
        done
        echo 5 > /proc/self/fd/12/p1/pids.max || exit 15
        exit 7
    "#;
    let agent = start(&groups, script, &fds);
    assert_eq!(status(&agent), 7);
    assert_eq!(controllers.pids.as_ref().unwrap().group.children(), ["p1"]);
    drop((trees, controllers));
    drop(groups);
    // As a hub that was started again would.
    assert!(left(&parent, &cleanup.0).contains(&cleanup.0));
    SandboxGroups::sweep(&parent, &cleanup.0, PATIENCE).unwrap();
    assert_eq!(left(&parent, &cleanup.0), Vec::<String>::new());
}

#[test]
fn a_frozen_sandbox_stands_still_and_dies() {
    let Some((cleanup, parent, groups)) = groups("freeze", &limits()) else {
        return;
    };
    let spinner = start(&groups, "while :; do :; done", &[]);
    assert!(groups.freeze(PATIENCE).unwrap());
    let used = || groups.unified.as_ref().unwrap().commands.cpu_micros();
    let before = used();
    assert_eq!(used(), before);
    groups.thaw().unwrap();
    assert!(groups.freeze(PATIENCE).unwrap());
    groups.kill().unwrap();
    assert_eq!(status(&spinner), 137);
    assert!(groups.remove(PATIENCE));
    assert_eq!(left(&parent, &cleanup.0), Vec::<String>::new());
}

#[test]
fn a_living_sandbox_is_not_made_again() {
    let Some((cleanup, _, groups)) = groups("twice", &limits()) else {
        return;
    };
    let parent = Parent::own();
    let sleeper = start(&groups, "exec sleep 1000", &[]);
    let again = SandboxGroups::create(&parent, &cleanup.0, &limits(), AGENT);
    assert!(matches!(again, Err(LimitError::InUse { .. })));
    let more = SandboxLimits {
        pids: Some(40),
        memory_bytes: Some(64 << 20),
        ..SandboxLimits::default()
    };
    groups.change(&more).unwrap();
    assert_eq!(groups.pids.as_ref().unwrap().pids_limit(), Some(40));
    assert_eq!(
        groups.memory.as_ref().unwrap().memory_limit(),
        Some(64 << 20)
    );
    assert!(groups.remove(PATIENCE));
    assert_eq!(status(&sleeper), 137);
}

#[test]
fn version_2_is_written_as_it_wants() {
    let dir = tempfile::tempdir().unwrap();
    for file in ["memory.max", "memory.swap.max", "cpu.max", "pids.max"] {
        std::fs::write(dir.path().join(file), "").unwrap();
    }
    let seat = Seat {
        version: Version::V2,
        group: Group::open(dir.path()).unwrap(),
    };
    for (_, limit) in wanted(&limits()) {
        seat.set(limit.unwrap()).unwrap();
    }
    let read = |file: &str| std::fs::read_to_string(dir.path().join(file)).unwrap();
    assert_eq!(read("memory.max"), "50331648");
    assert_eq!(read("memory.swap.max"), "0");
    assert_eq!(read("cpu.max"), "50000 100000");
    assert_eq!(read("pids.max"), "24");
    assert_eq!(seat.cpu_limit(), Some(500));
    assert_eq!(
        (seat.pids_limit(), seat.memory_limit()),
        (Some(24), Some(48 << 20))
    );
}

/// Version 2 would kill for a limit below what is in use. The files are plain ones, so numbers keep their
/// length.
#[test]
fn nothing_is_changed_when_one_limit_cannot_be() {
    let dir = tempfile::tempdir().unwrap();
    for (file, text) in [
        ("memory.max", "99000000"),
        ("memory.current", "90000000"),
        ("cpu.max", "90000 100000"),
        ("pids.max", "50"),
        ("pids.current", "30"),
    ] {
        std::fs::write(dir.path().join(file), text).unwrap();
    }
    let seat = Seat {
        version: Version::V2,
        group: Group::open(dir.path()).unwrap(),
    };
    let mut groups = SandboxGroups::existing(&Parent::none("there is nothing here"), "x").unwrap();
    (groups.memory, groups.cpu, groups.pids) = (Ok(seat.clone()), Ok(seat.clone()), Ok(seat));
    let read = |file: &str| std::fs::read_to_string(dir.path().join(file)).unwrap();
    let limits = |memory_bytes, pids| SandboxLimits {
        memory_bytes: Some(memory_bytes),
        cpus: Cpus::new(0.5),
        pids: Some(pids),
    };
    for (asked, limit) in [
        (limits(80_000_000, 40), "memory_bytes"),
        (limits(95_000_000, 20), "pids"),
    ] {
        let refused = groups.change(&asked).unwrap_err();
        assert!(matches!(refused, LimitError::BelowUse { .. }), "{refused}");
        assert_eq!(refused.limit(), Some(limit));
    }
    // The last one of three.
    std::fs::remove_file(dir.path().join("pids.max")).unwrap();
    assert!(groups.change(&limits(95_000_000, 40)).is_err());
    assert_eq!(read("memory.max"), "99000000");
    assert_eq!(read("cpu.max"), "90000 100000");
    std::fs::write(dir.path().join("pids.max"), "50").unwrap();
    groups.change(&limits(95_000_000, 40)).unwrap();
    assert_eq!(read("memory.max"), "95000000");
    assert_eq!(read("cpu.max"), "50000 100000");
    assert_eq!(read("pids.max"), "40");
}

/// Groups of plain files, of which none need be as the kernel's are.
fn unified_of(dir: &std::path::Path) -> SandboxGroups {
    let mut groups = SandboxGroups::existing(&Parent::none("there is nothing here"), "x").unwrap();
    let group = Group::open(dir).unwrap();
    groups.unified = Ok(sandbox::Unified {
        sandbox: group.clone(),
        supervisor: group.clone(),
        commands: group,
        init: None,
    });
    groups
}

#[test]
fn what_stands_still_is_not_woken_by_a_freeze_that_fails() {
    let dir = tempfile::tempdir().unwrap();
    let groups = unified_of(dir.path());
    let freeze = dir.path().join("cgroup.freeze");
    let events = dir.path().join("cgroup.events");
    std::fs::write(&freeze, "1").unwrap();
    // Nothing tells whether it stands still.
    assert!(groups.freeze(Duration::ZERO).is_err());
    assert_eq!(std::fs::read_to_string(&freeze).unwrap(), "1");
    std::fs::write(&events, "populated 1\nfrozen 1\n").unwrap();
    assert_eq!(groups.freeze(Duration::ZERO), Ok(true));
    assert_eq!(std::fs::read_to_string(&freeze).unwrap(), "1");
    // What comes to stand still only in part runs.
    std::fs::write(&events, "populated 1\nfrozen 0\n").unwrap();
    assert_eq!(groups.freeze(Duration::ZERO), Ok(false));
    assert_eq!(std::fs::read_to_string(&freeze).unwrap(), "0");
}

#[test]
fn only_what_there_is_too_little_of_is_called_a_lack() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("x"), "no directory").unwrap();
    let mut parent = Parent::none("there is nothing here");
    parent.unified = Ok(Group::open(dir.path()).unwrap());
    let refused = SandboxGroups::create(&parent, "x", &limits(), AGENT).unwrap_err();
    assert!(
        matches!(
            refused,
            LimitError::Unseen {
                errno: Errno::NOTDIR,
                ..
            }
        ),
        "{refused}"
    );
}

#[test]
fn what_cannot_be_had_is_off_with_its_reason() {
    let parent = Parent::none("there is nothing here");
    let groups = SandboxGroups::create(&parent, "x", &limits(), AGENT).unwrap();
    for layer in [Layer::MemoryLimit, Layer::CpuLimit, Layer::PidsLimit] {
        let found = groups.protections().iter().find(|p| p.name == layer);
        let found = found.unwrap();
        assert_eq!(found.status, ProtectionStatus::Off);
        assert_eq!(found.reason.as_deref(), Some("there is nothing here"));
    }
}

#[test]
fn impossible_limits_are_named() {
    let memory = |bytes| SandboxLimits {
        memory_bytes: Some(bytes),
        ..SandboxLimits::default()
    };
    assert!(SandboxLimits::default().check().is_ok());
    assert!(memory(64 << 20).check().is_ok());
    assert!(matches!(
        memory(0).check(),
        Err(LimitError::TooSmall {
            limit: "memory_bytes",
            ..
        })
    ));
    assert!(memory(8 << 20).check_inside().is_ok());
    assert!(memory(8 << 20).check().is_err());
    assert!(matches!(
        memory(1 << 60).check(),
        Err(LimitError::TooLarge { .. })
    ));
    let many = SandboxLimits {
        cpus: Cpus::new(100_000.0),
        ..SandboxLimits::default()
    };
    assert!(matches!(
        many.check(),
        Err(LimitError::TooLarge { limit: "cpus", .. })
    ));
    let none = SandboxLimits {
        pids: Some(0),
        ..SandboxLimits::default()
    };
    assert!(none.check_inside().is_err());
}
