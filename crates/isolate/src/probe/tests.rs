use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;

use rustix::process::{WaitId, WaitIdOptions, geteuid, waitid};
use sandshell_sys::capability::{Capabilities, bounding};
use sandshell_sys::spawn::fork_single_threaded;

use super::*;
use crate::harden::{Filters, InitHardening, on_init};

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

/// What the probe finds below a stand-in for init that has done this.
fn found_below(prepare: impl FnOnce() -> Hardening) -> Vec<Protection> {
    let outside = Outside::look().expect("a look outside");
    let (reading, writing) = rustix::pipe::pipe().expect("a pipe");
    let Some(init) = fork_single_threaded().expect("a fork") else {
        let bait = Bait::lay().expect("a bait");
        let filters = Filters::compile();
        let ordinary = Identity {
            uid: 1000,
            gid: 1000,
            groups: vec![],
        };
        let identity = geteuid().is_root().then_some(&ordinary);
        let found = match prepare() {
            Hardening::Full => {
                let hardened = on_init(&InitHardening {
                    filters: &filters,
                    channels: None,
                    writable: None,
                    keep: Capabilities::NONE,
                })
                .expect("hardened");
                run(&outside, &bait, identity, hardened.rights(1000))
            }
            Hardening::None => {
                let all = Capabilities(!0);
                let rights = Rights::new(all, bounding(), None, None).expect("rights");
                run(&outside, &bait, None, &rights)
            }
        };
        let _ = std::fs::File::from(writing).write_all(&encode(&found));
        std::process::exit(0);
    };
    drop(writing);
    let mut bytes = Vec::new();
    let _ = std::fs::File::from(reading).read_to_end(&mut bytes);
    let _ = waitid(WaitId::PidFd(init.pidfd.as_fd()), WaitIdOptions::EXITED);
    decode(&bytes).expect("a report")
}

enum Hardening {
    Full,
    None,
}

fn with(status: ProtectionStatus, report: &[Protection]) -> Vec<&'static str> {
    let of_status = report.iter().filter(|said| said.status == status);
    of_status.map(|said| said.name.name()).collect()
}

#[test]
fn without_any_wall_the_probe_says_so() {
    let report = found_below(|| Hardening::None);
    assert_eq!(
        with(ProtectionStatus::Enforced, &report),
        ["no-new-privs"],
        "{report:#?}"
    );
    for protection in &report {
        let reason = protection.reason.as_deref().unwrap_or("");
        assert_eq!(
            reason.is_empty(),
            protection.name == Layer::NoNewPrivs,
            "{protection:?}"
        );
    }
}

#[test]
fn each_wall_without_namespaces_is_found() {
    let report = found_below(|| Hardening::Full);
    let mut wanted = vec!["no-new-privs", "landlock-fs", "landlock-scope", "seccomp"];
    if geteuid().is_root() {
        wanted.insert(0, "uid-separation");
        assert_eq!(
            with(ProtectionStatus::Partial, &report),
            ["capability-drop"]
        );
    } else {
        wanted.insert(0, "capability-drop");
    }
    assert_eq!(
        with(ProtectionStatus::Enforced, &report),
        wanted,
        "{report:#?}"
    );
}
