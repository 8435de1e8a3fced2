//! Doors of the kernel: system calls with arguments that would have an effect, or at least get past the
//! question of rights, wherever the door is open.

use std::ffi::CString;

use sandshell_sys::calls;
use sandshell_sys::knock::{Answer, Argument, knock};

use super::{describe, say};

/// Refusals. Any other answer has got past the question of rights.
const SHUT: &[i32] = &[
    1,  // EPERM
    13, // EACCES
    30, // EROFS
    38, // ENOSYS
    93, // EPROTONOSUPPORT
    94, // ESOCKTNOSUPPORT
    97, // EAFNOSUPPORT
];
/// Refused where the id is not mapped at all.
const UNMAPPED: i32 = 22; // EINVAL
const OF_IDS: &[&str] = &["setuid-root", "setgid-root", "setgroups-root"];
/// The signal of a filter that kills.
const SIGSYS: i32 = 31;

type Arguments = Vec<Argument>;

fn n(number: u64) -> Argument {
    Argument::Number(number)
}

/// A negative number, as the kernel reads it.
fn minus(number: u64) -> Argument {
    Argument::Number(number.wrapping_neg())
}

fn t(text: &str) -> Argument {
    Argument::Text(CString::new(text).unwrap_or_default())
}

/// Zeroes, of which the call may make what it likes.
fn room(bytes: usize) -> Argument {
    Argument::Bytes(vec![0; bytes])
}

/// A structure of 64-bit words.
fn words(words: &[u64]) -> Argument {
    Argument::Bytes(words.iter().flat_map(|word| word.to_ne_bytes()).collect())
}

/// A structure of 32-bit words.
fn halves(halves: &[u32]) -> Argument {
    Argument::Bytes(halves.iter().flat_map(|half| half.to_ne_bytes()).collect())
}

pub(super) fn try_all() {
    for (name, call, arguments) in table() {
        let Some(number) = calls::number(call) else {
            say(name, false, "does not exist here");
            continue;
        };
        report(name, knock(number, arguments));
    }
    for device in ["disk", "memory", "whiteout"] {
        let _ = std::fs::remove_file(format!("/tmp/intruder-{device}"));
    }
    #[cfg(target_arch = "x86_64")]
    {
        const X32: u32 = 0x4000_0000;
        const GETPID: u32 = 39;
        report("x32-call", knock(X32 | GETPID, Vec::new()));
        report("32-bit-gate", sandshell_sys::knock::knock_at_32_bit_gate());
    }
}

fn report(name: &str, answer: Result<Answer, sandshell_sys::Errno>) {
    match answer {
        Ok(answer) => {
            let shut = match answer {
                Answer::Failed(errno) => {
                    let errno = errno.raw_os_error();
                    SHUT.contains(&errno) || errno == UNMAPPED && OF_IDS.contains(&name)
                }
                Answer::Killed(signal) => signal == SIGSYS,
                Answer::Done | Answer::Waits => false,
            };
            say(name, !shut, &describe(answer));
        }
        Err(errno) => say(name, true, &format!("could not be tried: {errno}")),
    }
}

const HERE: u64 = 100; // AT_FDCWD, negated
const SIGCHLD: u64 = 17;
const NEWTIME: u64 = 0x80;
const NEWNS: u64 = 0x2_0000;
const NEWCGROUP: u64 = 0x200_0000;
const NEWUTS: u64 = 0x400_0000;
const NEWIPC: u64 = 0x800_0000;
const NEWUSER: u64 = 0x1000_0000;
const NEWPID: u64 = 0x2000_0000;
const NEWNET: u64 = 0x4000_0000;
const BLOCK_DEVICE: u64 = 0o60_600;
const CHARACTER_DEVICE: u64 = 0o20_600;
const TIOCSTI: u64 = 0x5412;
const TIOCLINUX: u64 = 0x541C;
const GARBAGE: u64 = 0xDEAD_BEEF_0000_0000;

/// Name of the door, the call, its arguments.
#[rustfmt::skip]
fn table() -> Vec<(&'static str, &'static str, Arguments)> {
    vec![
        // Mounts.
        ("mount-tmpfs", "mount", vec![t("none"), t("/tmp"), t("tmpfs"), n(0), n(0)]),
        ("mount-proc", "mount", vec![t("proc"), t("/tmp"), t("proc"), n(0), n(0)]),
        ("mount-cgroup", "mount", vec![t("none"), t("/tmp"), t("cgroup2"), n(0), n(0)]),
        ("mount-debugfs", "mount", vec![t("none"), t("/tmp"), t("debugfs"), n(0), n(0)]),
        ("mount-bind", "mount", vec![t("/"), t("/tmp"), n(0), n(0x1000), n(0)]),
        ("mount-remount", "mount", vec![n(0), t("/"), n(0), n(0x20), n(0)]),
        ("mount-propagation", "mount", vec![n(0), t("/"), n(0), n(0x10_0000), n(0)]),
        ("umount-proc", "umount2", vec![t("/proc"), n(2)]),
        ("umount-root", "umount2", vec![t("/"), n(2)]),
        ("fsopen", "fsopen", vec![t("tmpfs"), n(0)]),
        ("fspick", "fspick", vec![minus(HERE), t("/"), n(0)]),
        ("fsconfig", "fsconfig", vec![minus(1), n(6), n(0), n(0), n(0)]),
        ("fsmount", "fsmount", vec![minus(1), n(0), n(0)]),
        ("open_tree", "open_tree", vec![minus(HERE), t("/"), n(0x8001)]),
        ("open_tree_attr", "open_tree_attr", vec![minus(HERE), t("/"), n(0x8001), n(0), n(0)]),
        ("move_mount", "move_mount", vec![minus(HERE), t("/tmp"), minus(HERE), t("/"), n(0)]),
        ("mount_setattr", "mount_setattr", vec![minus(HERE), t("/"), n(0), words(&[1, 0, 0, 0]), n(32)]),
        ("pivot_root", "pivot_root", vec![t("/tmp"), t("/tmp")]),
        ("chroot", "chroot", vec![t("/tmp")]),
        // Namespaces.
        ("unshare-user", "unshare", vec![n(NEWUSER)]),
        ("unshare-mount", "unshare", vec![n(NEWNS)]),
        ("unshare-pid", "unshare", vec![n(NEWPID)]),
        ("unshare-net", "unshare", vec![n(NEWNET)]),
        ("unshare-ipc", "unshare", vec![n(NEWIPC)]),
        ("unshare-uts", "unshare", vec![n(NEWUTS)]),
        ("unshare-cgroup", "unshare", vec![n(NEWCGROUP)]),
        ("unshare-time", "unshare", vec![n(NEWTIME)]),
        ("unshare-user-and-net", "unshare", vec![n(NEWUSER | NEWNET)]),
        ("clone-user", "clone", vec![n(NEWUSER | SIGCHLD), n(0), n(0), n(0), n(0)]),
        ("clone-user-garbage", "clone", vec![n(GARBAGE | NEWUSER | SIGCHLD), n(0), n(0), n(0), n(0)]),
        ("clone3-user", "clone3", vec![words(&[NEWUSER, 0, 0, 0, SIGCHLD, 0, 0, 0]), n(64)]),
        ("clone3-plain", "clone3", vec![words(&[0, 0, 0, 0, SIGCHLD, 0, 0, 0]), n(64)]),
        ("setns", "setns", vec![minus(1), n(0)]),
        // Large surfaces.
        ("bpf", "bpf", vec![n(0), words(&[1 | 4 << 32, 4 | 1 << 32, 0, 0, 0, 0, 0, 0]), n(64)]),
        ("perf_event_open", "perf_event_open", vec![words(&[1 | 112 << 32, 0, 0, 0, 0, 1 << 5, 0, 0, 0, 0, 0, 0, 0, 0]), n(0), minus(1), minus(1), n(0)]),
        ("userfaultfd", "userfaultfd", vec![n(0)]),
        ("userfaultfd-user-mode", "userfaultfd", vec![n(1)]),
        ("io_uring", "io_uring_setup", vec![n(1), room(120)]),
        ("keyctl", "keyctl", vec![n(0), minus(3), n(1)]),
        ("add_key", "add_key", vec![t("user"), t("intruder"), t("x"), n(1), minus(3)]),
        ("request_key", "request_key", vec![t("user"), t("intruder"), n(0), minus(3)]),
        ("fanotify", "fanotify_init", vec![n(0), n(0)]),
        ("fanotify-unprivileged", "fanotify_init", vec![n(0x200), n(0)]),
        ("modify_ldt", "modify_ldt", vec![n(0), room(16), n(16)]),
        ("open_by_handle_at", "open_by_handle_at", vec![minus(HERE), halves(&[8, 1, 0, 0]), n(0)]),
        ("personality-predictable", "personality", vec![n(0x4_0000)]),
        ("personality-predictable-garbage", "personality", vec![n(GARBAGE | 0x4_0000)]),
        ("personality-read-implies-exec", "personality", vec![n(0x40_0000)]),
        // The machine.
        ("reboot", "reboot", vec![n(0), n(0), n(0), n(0)]),
        ("kexec_load", "kexec_load", vec![n(0), n(0), n(0), n(0)]),
        ("kexec_file_load", "kexec_file_load", vec![minus(1), minus(1), n(0), n(0), n(4)]),
        ("init_module", "init_module", vec![n(0), n(0), t("")]),
        ("finit_module", "finit_module", vec![minus(1), t(""), n(0)]),
        ("delete_module", "delete_module", vec![t("intruder"), n(0x800)]),
        ("swapon", "swapon", vec![t("/intruder"), n(0)]),
        ("swapoff", "swapoff", vec![t("/intruder")]),
        ("settimeofday", "settimeofday", vec![n(0), n(0)]),
        ("clock_settime", "clock_settime", vec![n(0), words(&[0, u64::MAX])]),
        ("clock_adjtime", "clock_adjtime", vec![n(0), words(&[0x4000; 26])]),
        ("syslog", "syslog", vec![n(3), room(64), n(64)]),
        ("syslog-console-level", "syslog", vec![n(8), n(0), n(0)]),
        ("quotactl", "quotactl", vec![n(0x80_0004 << 8), t("/intruder"), n(0), room(64)]),
        ("acct", "acct", vec![t("/intruder")]),
        ("vhangup", "vhangup", vec![]),
        ("sethostname", "sethostname", vec![t("intruder"), n(8)]),
        ("setdomainname", "setdomainname", vec![t("intruder"), n(8)]),
        ("iopl", "iopl", vec![n(3)]),
        ("ioperm", "ioperm", vec![n(0x80), n(1), n(1)]),
        // Sockets.
        ("socket-raw", "socket", vec![n(2), n(3), n(1)]),
        ("socket-raw-v6", "socket", vec![n(10), n(3), n(58)]),
        ("socket-packet", "socket", vec![n(17), n(3), n(0x300)]),
        ("socket-packet-old", "socket", vec![n(2), n(10), n(0x300)]),
        ("socket-packet-old-garbage", "socket", vec![n(GARBAGE | 2), n(GARBAGE | 0x8_000A), n(0x300)]),
        ("socket-alg", "socket", vec![n(38), n(5), n(0)]),
        ("socket-vsock", "socket", vec![n(40), n(1), n(0)]),
        ("socket-vsock-garbage", "socket", vec![n(GARBAGE | 0x28), n(1), n(0)]),
        ("socket-bluetooth", "socket", vec![n(31), n(3), n(1)]),
        ("socket-tipc", "socket", vec![n(30), n(4), n(0)]),
        ("socketpair-tipc", "socketpair", vec![n(30), n(5), n(0), room(8)]),
        ("socket-can", "socket", vec![n(29), n(3), n(1)]),
        ("socket-key", "socket", vec![n(15), n(3), n(2)]),
        ("socket-rds", "socket", vec![n(21), n(5), n(0)]),
        ("socket-smc", "socket", vec![n(43), n(1), n(0)]),
        ("socket-xdp", "socket", vec![n(44), n(3), n(0)]),
        ("socket-sctp", "socket", vec![n(2), n(1), n(132)]),
        ("socket-dccp", "socket", vec![n(2), n(6), n(33)]),
        ("socket-netfilter", "socket", vec![n(16), n(3), n(12)]),
        ("socket-audit", "socket", vec![n(16), n(3), n(9)]),
        ("socket-uevent", "socket", vec![n(16), n(3), n(15)]),
        ("socket-generic-netlink", "socket", vec![n(16), n(3), n(16)]),
        ("socket-xfrm", "socket", vec![n(16), n(3), n(6)]),
        ("socket-crypto", "socket", vec![n(16), n(3), n(21)]),
        // The terminal. Descriptor 0 need not be one: the filter answers first.
        ("tiocsti", "ioctl", vec![n(0), n(TIOCSTI), t("x")]),
        ("tiocsti-garbage", "ioctl", vec![n(0), n(GARBAGE | TIOCSTI), t("x")]),
        ("tioclinux", "ioctl", vec![n(0), n(TIOCLINUX), t("\u{2}")]),
        ("tioclinux-garbage", "ioctl", vec![n(0), n(GARBAGE | TIOCLINUX), t("\u{2}")]),
        // Other processes: PID 1 is the nearest one that is not ours. Seized, not attached to: nothing stops.
        ("ptrace-seize", "ptrace", vec![n(0x4206), n(1), n(0), n(0)]),
        ("process_vm_readv", "process_vm_readv", vec![n(1), words(&[0x1000, 8]), n(1), words(&[0x1000, 8]), n(1), n(0)]),
        ("process_vm_writev", "process_vm_writev", vec![n(1), words(&[0x1000, 8]), n(1), words(&[0x1000, 8]), n(1), n(0)]),
        ("kcmp", "kcmp", vec![n(1), n(1), n(1), n(0), n(0)]),
        ("pidfd_getfd", "pidfd_getfd", vec![minus(1), n(0), n(0)]),
        ("process_madvise", "process_madvise", vec![minus(1), n(0), n(0), n(20), n(0)]),
        ("migrate_pages", "migrate_pages", vec![n(1), n(64), words(&[1]), words(&[1])]),
        ("prlimit-of-init", "prlimit64", vec![n(1), n(7), n(0), room(16)]),
        // Rights.
        ("setuid-root", "setuid", vec![n(0)]),
        ("setgid-root", "setgid", vec![n(0)]),
        ("setgroups-root", "setgroups", vec![n(1), halves(&[0])]),
        ("capset-all", "capset", vec![halves(&[0x2008_0522, 0]), halves(&[u32::MAX, u32::MAX, 0, 0xFF, 0xFF, 0])]),
        ("ambient-sys-admin", "prctl", vec![n(47), n(2), n(21), n(0), n(0)]),
        ("securebits", "prctl", vec![n(28), n(4), n(0), n(0), n(0)]),
        ("nice", "setpriority", vec![n(0), n(0), minus(20)]),
        ("real-time", "sched_setscheduler", vec![n(0), n(1), halves(&[50])]),
        ("deadline", "sched_setattr", vec![n(0), words(&[0x30 | 6 << 32, 0, 0, 1_000_000, 10_000_000, 10_000_000]), n(0)]),
        ("io-real-time", "ioprio_set", vec![n(1), n(0), n(1 << 13)]),
        ("mmap-zero", "mmap", vec![n(0), n(4096), n(3), n(0x32), minus(1), n(0)]),
        // Devices.
        ("mknod-disk", "mknodat", vec![minus(HERE), t("/tmp/intruder-disk"), n(BLOCK_DEVICE), n(8 << 8)]),
        ("mknod-memory", "mknodat", vec![minus(HERE), t("/tmp/intruder-memory"), n(CHARACTER_DEVICE), n(1 << 8 | 1)]),
        ("mknod-whiteout", "mknodat", vec![minus(HERE), t("/tmp/intruder-whiteout"), n(CHARACTER_DEVICE), n(0)]),
    ]
}
