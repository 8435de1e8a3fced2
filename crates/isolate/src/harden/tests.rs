//! A stand-in for init is forked, hardens itself, and starts shells that look around.

use std::ffi::CString;
use std::io::Read as _;
use std::os::fd::AsFd as _;

use rustix::process::{WaitId, WaitIdOptions, geteuid, waitid};
use sandshell_sys::spawn::{Identity, SpawnPlan, fork_single_threaded, spawn};

use super::*;

/// What a script prints when it runs below a hardened init, as this user.
fn below_init(uid: u32, writable: Option<&[PathBuf]>, script: &str) -> String {
    let filters = Filters::compile();
    let (reading, writing) = rustix::pipe::pipe().expect("a pipe");
    let child = fork_single_threaded().expect("a fork");
    let Some(init) = child else {
        let hardening = InitHardening {
            filters: &filters,
            channels: None,
            writable,
            keep: Capabilities::NONE,
        };
        let hardened = on_init(&hardening).expect("hardened");
        assert!(
            hardened.landlock.is_ok() && hardened.filter.is_ok(),
            "{hardened:?}"
        );
        let null = std::fs::File::open("/dev/null").expect("/dev/null");
        let identity = Identity {
            uid,
            gid: uid,
            groups: vec![],
        };
        let program = spawn(&SpawnPlan {
            programs: &[c"/bin/bash".to_owned()],
            argv: &[
                c"bash".to_owned(),
                c"-c".to_owned(),
                CString::new(script).expect("no NUL"),
            ],
            env: &[
                c"PATH=/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
                c"LC_ALL=C".to_owned(),
            ],
            cwd: Some(c"/"),
            fds: &[
                (null.as_fd(), 0),
                (writing.as_fd(), 1),
                (writing.as_fd(), 2),
            ],
            identity: geteuid().is_root().then_some(&identity),
            rights: Some(hardened.rights(uid)),
            rlimits: &[],
            namespaces: 0,
            cgroup: None,
            controlling_terminal: false,
            avoid_clone3: false,
        })
        .expect("a shell");
        let _ = waitid(WaitId::PidFd(program.pidfd.as_fd()), WaitIdOptions::EXITED);
        std::process::exit(0);
    };
    drop(writing);
    let mut said = String::new();
    std::fs::File::from(reading)
        .read_to_string(&mut said)
        .expect("text");
    let _ = waitid(WaitId::PidFd(init.pidfd.as_fd()), WaitIdOptions::EXITED);
    said
}

const STATUS: &str =
    "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status | tr -d '\t'; ulimit -c";

#[test]
fn an_ordinary_program_has_no_capability_and_two_filters() {
    assert_eq!(
        below_init(1000, None, STATUS),
        "CapInh:0000000000000000\nCapPrm:0000000000000000\nCapEff:0000000000000000\n\
         CapBnd:0000000000000000\nCapAmb:0000000000000000\nNoNewPrivs:1\nSeccomp:2\n0\n"
    );
}

#[test]
fn a_program_of_root_has_the_small_set() {
    if !geteuid().is_root() {
        return;
    }
    let small = format!("{:016x}", COMMAND_ROOT.0);
    assert_eq!(
        below_init(0, None, STATUS),
        format!(
            "CapInh:0000000000000000\nCapPrm:{small}\nCapEff:{small}\nCapBnd:{small}\n\
             CapAmb:0000000000000000\nNoNewPrivs:1\nSeccomp:2\n0\n"
        )
    );
}
