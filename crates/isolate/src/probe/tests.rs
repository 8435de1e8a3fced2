use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;

use rustix::process::{WaitId, WaitIdOptions, geteuid, waitid};
use sandshell_sys::calls;
use sandshell_sys::capability::{Capabilities, bounding};
use sandshell_sys::seccomp::{Filter, Rule, Verdict};
use sandshell_sys::spawn::fork_single_threaded;

use super::*;
use crate::harden::{COMMAND_ROOT, Devices, Filters, InitHardening, on_init};

fn said(name: Layer, status: ProtectionStatus, reason: Option<&str>) -> Protection {
    Protection {
        name,
        status,
        reason: reason.map(str::to_owned),
    }
}

#[test]
fn the_worse_word_counts_and_silence_is_off() {
    use ProtectionStatus::{Enforced, Off, Partial};
    let inside = vec![
        said(Layer::PidNs, Enforced, None),
        said(Layer::UidSeparation, Partial, Some("one id")),
        said(Layer::NetNs, Off, Some("shared")),
    ];
    let launcher = vec![
        said(Layer::PidNs, Enforced, None),
        said(Layer::UidSeparation, Off, Some("no range")),
        said(Layer::NetNs, Enforced, None),
        said(Layer::PidsLimit, Partial, Some("rlimit")),
    ];
    let report = compose(inside, launcher);
    let names: Vec<_> = report.iter().map(|protection| protection.name).collect();
    assert_eq!(names, Layer::ALL, "each layer once, in order");
    let find = |layer| {
        report
            .iter()
            .find(|p| p.name == layer)
            .cloned()
            .expect("in the report")
    };
    assert_eq!(find(Layer::PidNs), said(Layer::PidNs, Enforced, None));
    assert_eq!(
        find(Layer::UidSeparation),
        said(Layer::UidSeparation, Off, Some("no range; one id"))
    );
    assert_eq!(find(Layer::NetNs), said(Layer::NetNs, Off, Some("shared")));
    assert_eq!(
        find(Layer::PidsLimit),
        said(Layer::PidsLimit, Partial, Some("rlimit"))
    );
    assert_eq!(find(Layer::KillTree).status, Off);
}

#[test]
fn a_report_survives_the_wire_and_truncation_is_refused() {
    let report = vec![
        said(Layer::UidSeparation, ProtectionStatus::Enforced, None),
        said(Layer::OomAttribution, ProtectionStatus::Off, Some("weil ä")),
    ];
    let bytes = encode(&report);
    assert_eq!(decode(&bytes), Ok(report));
    for length in 0..bytes.len() {
        assert!(decode(&bytes[..length]).is_err(), "{length}");
    }
    let unknown = encode(&[]).into_iter().chain([1]).collect::<Vec<_>>();
    assert!(decode(&unknown).is_err());
}

/// Where a stand-in for init stands, and what it does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Nothing is built.
    Bare,
    /// Hardened.
    Hardened,
    /// Hardened, in a container as engines make them without privileges.
    InContainer,
    /// The same, as an ordinary user of it.
    InContainerAsUser,
}

/// What the probe finds below a stand-in for init.
fn found(standing: Standing) -> Vec<Protection> {
    let outside = Outside::look().expect("a look outside");
    let filters = Filters::compile();
    let (reading, writing) = rustix::pipe::pipe().expect("a pipe");
    let Some(init) = fork_single_threaded().expect("a fork") else {
        if matches!(
            standing,
            Standing::InContainer | Standing::InContainerAsUser
        ) {
            enter_container(standing == Standing::InContainerAsUser);
        }
        let bait = Bait::lay().expect("a bait");
        let identity = geteuid().is_root().then(|| ordinary(1000));
        let report = if standing == Standing::Bare {
            let rights = Rights::new(Capabilities(!0), bounding(), None, None).expect("rights");
            run(&outside, &bait, None, &rights)
        } else {
            let hardened = on_init(&InitHardening {
                filters: &filters,
                channels: None,
                writable: None,
                devices: Devices::Usual,
                keep: Capabilities::NONE,
            })
            .expect("hardened");
            run(&outside, &bait, identity.as_ref(), hardened.rights(1000))
        };
        let _ = std::fs::File::from(writing).write_all(&encode(&report));
        std::process::exit(0);
    };
    drop(writing);
    let mut bytes = Vec::new();
    let _ = std::fs::File::from(reading).read_to_end(&mut bytes);
    let _ = waitid(WaitId::PidFd(init.pidfd.as_fd()), WaitIdOptions::EXITED);
    decode(&bytes).expect("a report")
}

fn ordinary(uid: u32) -> Identity {
    Identity {
        uid,
        gid: uid,
        groups: vec![],
    }
}

/// Gives up what a container without privileges lacks: namespaces, mounts, `clone3`, and all
/// capabilities but those that engines leave to root.
fn enter_container(as_user: bool) {
    let refused = [
        "unshare",
        "setns",
        "mount",
        "umount2",
        "pivot_root",
        "pidfd_getfd",
        "bpf",
    ];
    let mut rules: BTreeMap<u32, Rule> = refused
        .iter()
        .filter_map(|name| {
            Some((
                calls::number(name)?,
                Rule::Always(Verdict::Fail(Errno::PERM)),
            ))
        })
        .collect();
    let clone3 = calls::number("clone3").expect("a number");
    rules.insert(clone3, Rule::Always(Verdict::Fail(Errno::NOSYS)));
    let filter = Filter::compile(&rules, Verdict::Allow);
    let (kept, user) = if as_user && geteuid().is_root() {
        (Capabilities::NONE, Some(ordinary(61_000)))
    } else {
        (COMMAND_ROOT, None)
    };
    let rights = Rights::new(kept, bounding(), None, Some(&filter)).expect("rights");
    rights.take_up(user.as_ref()).expect("a container");
}

/// The layers of a report, by status.
fn summary(report: &[Protection]) -> [Vec<&'static str>; 3] {
    use ProtectionStatus::{Enforced, Off, Partial};
    for protection in report {
        let silent = protection.reason.is_none();
        assert_eq!(silent, protection.status == Enforced, "{protection:?}");
    }
    [Enforced, Partial, Off].map(|status| {
        let of_status = report.iter().filter(|said| said.status == status);
        of_status.map(|said| said.name.name()).collect()
    })
}

const NAMESPACES: &[&str] = &[
    "pid-ns",
    "mount-ns",
    "net-ns",
    "ipc-ns",
    "uts-ns",
    "cgroup-ns",
    "pivot-root",
];
const SELF_MADE: &[&str] = &["no-new-privs", "landlock-fs", "landlock-scope", "seccomp"];

#[test]
fn without_any_wall_the_probe_says_so() {
    let report = found(Standing::Bare);
    let [enforced, ..] = summary(&report);
    assert_eq!(enforced, ["no-new-privs"], "{report:#?}");
}

#[test]
fn each_wall_without_namespaces_is_found() {
    if geteuid().is_root() {
        for standing in [Standing::Hardened, Standing::InContainer] {
            let report = found(standing);
            let [enforced, partial, off] = summary(&report);
            let wanted = [&["uid-separation"], SELF_MADE].concat();
            assert_eq!(enforced, wanted, "{report:#?}");
            assert_eq!(partial, ["capability-drop"]);
            assert_eq!(off, NAMESPACES);
        }
    }
    let report = found(Standing::InContainerAsUser);
    let [enforced, partial, off] = summary(&report);
    assert_eq!(
        enforced,
        [&["capability-drop"], SELF_MADE].concat(),
        "{report:#?}"
    );
    assert_eq!(partial, [""; 0]);
    assert_eq!(off, [&["uid-separation"], NAMESPACES].concat());
}
