//! The warden of an isolated sandbox, as root: namespaces as the launcher makes them, in miniature.
//!
//! ```text
//! test ─► P2, M2 with a masked /proc, then U2: a sleeper stands for init
//!   └──► warden: a fork of the test, in its own PID namespace ─► reaper: P3, M3, U2 ─► sh
//! ```

use std::ffi::CString;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use sandshell_sys::capability::Capabilities;
use sandshell_sys::spawn::{Identity, fork_single_threaded};
use sandshell_sys::{packet, procfs};

use super::*;
use crate::harden::{Devices, Filters};
use crate::init::run_warden;
use crate::protocol::{ReceiveError, SpawnFlags};

const PATIENCE: Timespec = Timespec {
    tv_sec: 150,
    tv_nsec: 0,
};

/// A stand-in for init and the namespaces around it.
struct StandIn {
    outer: Child,
    pid: i32,
}

impl StandIn {
    /// `None`, said aloud, where namespaces cannot be made.
    fn start() -> Option<Self> {
        let inner = "mount --bind /dev/null /proc/kallsyms && exec unshare -U sleep 1000";
        let outer = Command::new("unshare")
            .args(["-p", "-m", "-f", "--mount-proc", "sh", "-c", inner])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let above = outer.id().cast_signed();
        let deadline = Instant::now() + Duration::from_secs(150);
        let mut stand_in = Self { outer, pid: 0 };
        while stand_in.outer.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "the stand-in does not come up");
            // It is ready once it sleeps in a user namespace of its own.
            let found = procfs::children(above).unwrap().into_iter().next();
            if let Some(pid) = found
                && procfs::command_line(pid) == "sleep 1000"
            {
                stand_in.pid = pid;
                for file in ["gid_map", "uid_map"] {
                    std::fs::write(format!("/proc/{pid}/{file}"), "0 0 65535").unwrap();
                }
                return Some(stand_in);
            }
            std::thread::yield_now();
        }
        sandshell_testkit::skipped("namespaces cannot be made here");
        None
    }

    fn namespace(&self, name: &str) -> OwnedFd {
        let path = format!("/proc/{}/ns/{name}", self.pid);
        File::open(path).unwrap().into()
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        if self.pid > 0
            && let Ok(pinned) = procfs::pin(self.pid)
        {
            let _ = signal::send(&pinned, 9);
        }
        let _ = self.outer.kill();
        let _ = self.outer.wait();
    }
}

fn next(socket: &OwnedFd) -> Event {
    loop {
        match Event::receive(socket) {
            Ok(event) => return event.unwrap(),
            Err(ReceiveError::Socket(Errno::AGAIN)) => {
                let ready = poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&PATIENCE));
                assert_eq!(ready, Ok(1), "the warden says nothing");
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_warden_outside_gives_programs_the_commands_home() {
    let Some(stand_in) = StandIn::start() else {
        return;
    };
    let (ours, theirs) = packet::pair().unwrap();
    let filters = Filters::compile();
    let home = Home {
        mounts: stand_in.namespace("mnt"),
        groups: stand_in.namespace("cgroup"),
        users: stand_in.namespace("user"),
        joins: Joins::default(),
        ceilings: Ceilings::default(),
        hardening: InitHardening {
            filters: &filters,
            channels: None,
            writable: None,
            devices: Devices::Usual,
            keep: Capabilities::NONE,
        },
    };
    let Some(warden) = fork_single_threaded().unwrap() else {
        drop(ours);
        let _ = run_warden(&theirs, home);
        std::process::exit(0);
    };
    drop(theirs);
    let (read, write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let script = "echo $$ $(id -u); echo /proc/[0-9]*; tr -s ' ' < /proc/self/uid_map; \
                  grep NoNewPrivs /proc/self/status; umount /proc 2>/dev/null || echo kept; sleep 1000";
    let request = SpawnRequest {
        id: 7,
        programs: vec![c"/bin/sh".to_owned()],
        argv: vec![
            c"sh".to_owned(),
            c"-c".to_owned(),
            CString::new(script).unwrap(),
        ],
        env: vec![c"PATH=/usr/bin:/bin".to_owned()],
        cwd: c"/".to_owned(),
        identity: Some(Identity {
            uid: 1000,
            gid: 1000,
            groups: Vec::new(),
        }),
        rlimits: Vec::new(),
        fd_numbers: vec![1],
        joins: 0,
        flags: SpawnFlags {
            private: true,
            ..SpawnFlags::default()
        },
    };
    request.send(&ours, &[write.as_fd()]).unwrap();
    drop(write);
    let Event::Spawned {
        id: 7,
        pid: 2,
        pidfd,
        keeper: Some(reaper),
    } = next(&ours)
    else {
        panic!("it was not started");
    };
    let mut said = String::new();
    let mut output = File::from(read);
    while !said.ends_with("kept\n") {
        let mut buffer = [0; 512];
        let n = output.read(&mut buffer).unwrap();
        assert!(n > 0, "{said}");
        said.push_str(std::str::from_utf8(&buffer[..n]).unwrap());
    }
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], "2 1000");
    assert!(lines[1].starts_with("/proc/1 /proc/2"), "{said}");
    assert_eq!(lines[2].trim(), "0 0 65535");
    assert!(lines[3].ends_with('1'), "{said}");
    // Those in init's namespace see nothing of it.
    let mounts = format!("--mount=/proc/{}/ns/mnt", stand_in.pid);
    let seen = Command::new("nsenter")
        .args([&mounts, "sh", "-c", "cat /proc/[0-9]*/cmdline"])
        .output()
        .unwrap();
    let seen = String::from_utf8_lossy(&seen.stdout).into_owned();
    assert!(seen.contains("sleep"), "it sees the stand-in: {seen}");
    assert!(!seen.contains("NoNewPrivs"), "{seen}");
    // Its PID 1 takes all of it along, and the warden tells.
    signal::send(&reaper, 9).unwrap();
    let told = [next(&ours), next(&ours)];
    assert!(matches!(
        told,
        [
            Event::Spawned { id: 7, .. },
            Event::Exited {
                id: 7,
                exit: Exit::Signal(9)
            }
        ]
    ));
    assert_eq!(procfs::pid_of(&pidfd), Ok(None), "the program is gone");
    drop(ours);
    let mut ended = [PollFd::new(&warden.pidfd, PollFlags::IN)];
    assert_eq!(poll(&mut ended, Some(&PATIENCE)), Ok(1), "it outlives us");
    let ended = waitid(WaitId::PidFd(warden.pidfd.as_fd()), WaitIdOptions::EXITED);
    assert_eq!(ended.unwrap().unwrap().exit_status(), Some(0));
}
