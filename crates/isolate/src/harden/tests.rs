//! A stand-in for init is forked, hardens itself, and starts shells that look around.

use std::ffi::CString;
use std::io::Read as _;
use std::os::fd::AsFd as _;

use rustix::fs::{AtFlags, FileType, mkdirat, mknodat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use rustix::process::{WaitId, WaitIdOptions, geteuid, waitid};
use sandshell_sys::spawn::{Identity, SpawnPlan, fork_single_threaded, spawn};
use sandshell_testkit::skipped;

use super::*;

/// The number of a session's channel in its shell.
const CHANNEL: i32 = 31;

/// What a script prints when it runs below a hardened init, as this user, with the directory of a
/// channel that lies below `channels`.
fn below_init(
    uid: u32,
    writable: Option<&[PathBuf]>,
    channels: Option<(&OwnedFd, &OwnedFd)>,
    script: &str,
) -> String {
    let filters = Filters::compile();
    let (reading, writing) = rustix::pipe::pipe().expect("a pipe");
    let Some(init) = fork_single_threaded().expect("a fork") else {
        let hardening = InitHardening {
            filters: &filters,
            channels: channels.map(|(root, _)| root.as_fd()),
            writable,
            devices: Devices::Usual,
            keep: Capabilities::NONE,
        };
        let hardened = on_init(&hardening).expect("hardened");
        assert!(
            hardened.landlock.is_ok() && hardened.filter.is_ok(),
            "{hardened:?}"
        );
        let null = std::fs::File::open("/dev/null").expect("/dev/null");
        let mut fds = vec![
            (null.as_fd(), 0),
            (writing.as_fd(), 1),
            (writing.as_fd(), 2),
        ];
        fds.extend(channels.map(|(_, channel)| (channel.as_fd(), CHANNEL)));
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
            fds: &fds,
            identity: geteuid().is_root().then_some(&identity),
            rights: Some(hardened.rights(uid)),
            rlimits: &[],
            namespaces: 0,
            cgroup: None,
            join: &[],
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

fn status(capabilities: Capabilities, bounding: Capabilities) -> String {
    let (none, held, bounding) = (0, capabilities.0, bounding.0);
    format!(
        "CapInh:{none:016x}\nCapPrm:{held:016x}\nCapEff:{held:016x}\nCapBnd:{bounding:016x}\n\
         CapAmb:{none:016x}\nNoNewPrivs:1\nSeccomp:2\n0\n"
    )
}

#[test]
fn an_ordinary_program_has_no_capability() {
    // Without SETPCAP the bounding set cannot be emptied, and needs not be.
    let bounding = if geteuid().is_root() {
        Capabilities::NONE
    } else {
        capability::bounding()
    };
    let wanted = status(Capabilities::NONE, bounding);
    assert_eq!(below_init(1000, None, None, STATUS), wanted);
}

/// A temporary directory that everybody may write to.
fn open_directory() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(dir.path(), mode).expect("its mode");
    dir
}

#[test]
fn a_program_of_root_has_the_small_set() {
    if !geteuid().is_root() {
        return skipped("needs root");
    }
    let wanted = status(COMMAND_ROOT, COMMAND_ROOT);
    assert_eq!(below_init(0, None, None, STATUS), wanted);
}

#[test]
fn files_are_written_and_moved_but_devices_neither_made_nor_commanded() {
    let dir = open_directory();
    let script = format!(
        "cd {} && mkdir a b && echo text > a/f && mv a/f b/g && ln b/g a/h && cat a/h && mkfifo p \
         && mknod w c 0 0; stat -c %F p w; echo x > /dev/null && head -c 2 /dev/zero | od -An -tx1",
        dir.path().display()
    );
    let said = below_init(1000, None, None, &script);
    assert_eq!(
        said,
        "text\nmknod: w: Permission denied\nfifo\nstat: cannot statx 'w': No such file or \
         directory\n 00 00\n"
    );
}

#[test]
fn nothing_is_written_outside_the_places_that_were_named() {
    let (named, other) = (open_directory(), open_directory());
    let script = format!(
        "echo yes > {0}/f && cat {0}/f; echo no > {1}/f; mkdir {1}/d; : > /dev/null && ls {1}",
        named.path().display(),
        other.path().display()
    );
    let places = [named.path().to_owned()];
    let said = below_init(1000, Some(&places), None, &script);
    assert_eq!(
        said,
        format!(
            "yes\nbash: line 1: {0}/f: Permission denied\nmkdir: cannot create directory \
             '{0}/d': Permission denied\n",
            other.path().display()
        )
    );
}

#[test]
fn a_session_channel_stays_usable_by_its_descriptor() {
    if !geteuid().is_root() {
        return skipped("needs root, to make a tmpfs that is mounted nowhere");
    }
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).expect("a file system");
    fsconfig_create(&context).expect("a tmpfs");
    let root = fsmount(
        &context,
        FsMountFlags::FSMOUNT_CLOEXEC,
        MountAttrFlags::empty(),
    )
    .expect("a mount");
    let mode = Mode::from_raw_mode(0o777);
    mkdirat(&root, "sh0", mode).expect("a channel");
    let channel = openat(&root, "sh0", OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let channel = channel.expect("the channel");
    mknodat(&channel, "o", FileType::Fifo, Mode::from_raw_mode(0o622), 0).expect("a FIFO");
    let note = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    drop(openat(&channel, "t", note, Mode::from_raw_mode(0o644)).expect("a note"));
    rustix::fs::chmodat(&channel, "t", Mode::from_raw_mode(0o666), AtFlags::empty()).expect("mode");
    rustix::fs::chmodat(&channel, "o", Mode::from_raw_mode(0o622), AtFlags::empty()).expect("mode");
    let reader = openat(
        &channel,
        "o",
        OFlags::RDONLY | OFlags::NONBLOCK,
        Mode::empty(),
    );
    let reader = reader.expect("the reading end");
    let script = "echo note > /proc/self/fd/31/t && cat /proc/self/fd/31/t; \
                  echo out > /proc/self/fd/31/o; ls /proc/self/fd/31/../..; mkdir /proc/self/fd/31/d";
    let said = below_init(1000, None, Some((&root, &channel)), script);
    let mut out = String::new();
    std::fs::File::from(reader)
        .read_to_string(&mut out)
        .expect("text");
    assert_eq!(out, "out\n");
    assert_eq!(
        said,
        "note\nls: cannot open directory '/proc/self/fd/31/../..': Permission denied\n\
         mkdir: cannot create directory '/proc/self/fd/31/d': Permission denied\n"
    );
}
