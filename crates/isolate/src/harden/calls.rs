//! Which system calls a sandbox may make: policy as data.
//!
//! Every call the table of `sys::calls` knows is in exactly one of the lists below. What is in none
//! of them, because it is newer than this file, is answered with `ENOSYS`, so that programs fall back
//! on what they used before. The lists follow what container engines have found to be needed and safe
//! without any capability, and leave out more where a sandbox has no use for it: asynchronous rings,
//! local descriptor tables, other protocols than those of the internet.

use std::collections::BTreeMap;

use rustix::io::Errno;
use sandshell_sys::calls;
use sandshell_sys::seccomp::{Arm, Condition, Filter, Rule, Verdict};

/// The filters of a sandbox, compiled once and used for every one.
#[derive(Debug)]
pub struct Filters {
    /// For init, and inherited by all programs.
    pub init: Filter,
    /// For programs, on top of it.
    pub command: Filter,
}

impl Filters {
    /// Compiles both.
    pub fn compile() -> Self {
        let number = |name: &&str| calls::number(name);
        let verdicts = [(ALLOWED, Verdict::Allow), (REFUSED, NOT_PERMITTED)];
        let mut rules = BTreeMap::new();
        for (names, verdict) in verdicts {
            let numbers = names.iter().filter_map(number);
            rules.extend(numbers.map(|number| (number, Rule::Always(verdict))));
        }
        for (name, rule) in BY_ARGUMENTS {
            rules.extend(number(name).map(|number| (number, *rule)));
        }
        Self {
            init: Filter::compile(&rules, NOT_THERE),
            command: Filter::stacked(CLONE3, NOT_THERE),
        }
    }
}

/// The same on every architecture, as all calls of its age.
const CLONE3: u32 = 435;
const NOT_PERMITTED: Verdict = Verdict::Fail(Errno::PERM);
const NOT_THERE: Verdict = Verdict::Fail(Errno::NOSYS);

/// Harmless for whoever has no rights over others, or judged by the kernel by such rights.
#[rustfmt::skip]
const ALLOWED: &[&str] = &[
    // Files and directories.
    "access", "cachestat", "chdir", "chmod", "chown", "chroot", "close", "close_range",
    "copy_file_range", "creat", "dup", "dup2", "dup3", "faccessat", "faccessat2", "fadvise64",
    "fallocate", "fchdir", "fchmod", "fchmodat", "fchmodat2", "fchown", "fchownat", "fcntl",
    "fdatasync", "fgetxattr", "file_getattr", "file_setattr", "flistxattr", "flock",
    "fremovexattr", "fsetxattr", "fstat", "fstatfs", "fsync", "ftruncate", "futimesat", "getcwd",
    "getdents", "getdents64", "getxattr", "getxattrat", "inotify_add_watch", "inotify_init",
    "inotify_init1", "inotify_rm_watch", "lchown", "lgetxattr", "link", "linkat", "listxattr",
    "listxattrat", "llistxattr", "lremovexattr", "lseek", "lsetxattr", "lstat", "mkdir", "mkdirat",
    "mknod", "mknodat", "name_to_handle_at", "newfstatat", "open", "openat", "openat2", "pread64",
    "preadv", "preadv2", "pwrite64", "pwritev", "pwritev2", "read", "readahead", "readlink",
    "readlinkat", "readv", "removexattr", "removexattrat", "rename", "renameat", "renameat2",
    "rmdir", "sendfile", "setxattr", "setxattrat", "splice", "stat", "statfs", "statx", "symlink",
    "symlinkat", "sync", "sync_file_range", "syncfs", "tee", "truncate", "umask", "unlink",
    "unlinkat", "utime", "utimensat", "utimes", "vmsplice", "write", "writev",
    // Memory.
    "brk", "madvise", "map_shadow_stack", "membarrier", "memfd_create", "memfd_secret", "mincore",
    "mlock", "mlock2", "mlockall", "mmap", "mprotect", "mremap", "mseal", "msync", "munlock",
    "munlockall", "munmap", "pkey_alloc", "pkey_free", "pkey_mprotect", "process_mrelease",
    "remap_file_pages",
    // Processes, threads and their rights. `clone3` is open to init alone, see `harden`.
    "arch_prctl", "capget", "capset", "clone3", "execve", "execveat", "exit", "exit_group", "fork",
    "get_robust_list", "getcpu", "getegid", "geteuid", "getgid", "getgroups", "getpgid", "getpgrp",
    "getpid", "getppid", "getpriority", "getresgid", "getresuid", "getrlimit", "getrusage",
    "getsid", "gettid", "getuid", "ioprio_get", "ioprio_set", "landlock_add_rule",
    "landlock_create_ruleset", "landlock_restrict_self", "pidfd_open", "pidfd_send_signal",
    "prctl", "prlimit64", "process_vm_readv", "process_vm_writev", "ptrace", "rseq",
    "sched_get_priority_max", "sched_get_priority_min", "sched_getaffinity", "sched_getattr",
    "sched_getparam", "sched_getscheduler", "sched_rr_get_interval", "sched_setaffinity",
    "sched_setattr", "sched_setparam", "sched_setscheduler", "sched_yield", "seccomp",
    "set_robust_list", "set_tid_address", "setfsgid", "setfsuid", "setgid", "setgroups", "setpgid",
    "setpriority", "setregid", "setresgid", "setresuid", "setreuid", "setrlimit", "setsid",
    "setuid", "sysinfo", "times", "uname", "uprobe", "uretprobe", "vfork", "wait4", "waitid",
    // Signals, time, waiting.
    "adjtimex", "alarm", "clock_adjtime", "clock_getres", "clock_gettime", "clock_nanosleep",
    "epoll_create", "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait",
    "eventfd", "eventfd2", "futex", "futex_requeue", "futex_wait", "futex_waitv", "futex_wake",
    "getitimer", "getrandom", "gettimeofday", "kill", "nanosleep", "pause", "poll", "ppoll",
    "pselect6", "restart_syscall", "rt_sigaction", "rt_sigpending", "rt_sigprocmask",
    "rt_sigqueueinfo", "rt_sigreturn", "rt_sigsuspend", "rt_sigtimedwait", "rt_tgsigqueueinfo",
    "select", "setitimer", "sigaltstack", "signalfd", "signalfd4", "tgkill", "time",
    "timer_create", "timer_delete", "timer_getoverrun", "timer_gettime", "timer_settime",
    "timerfd_create", "timerfd_gettime", "timerfd_settime", "tkill",
    // Between processes. `socket` and `socketpair` are judged by their arguments.
    "accept", "accept4", "bind", "connect", "getpeername", "getsockname", "getsockopt", "io_cancel",
    "io_destroy", "io_getevents", "io_pgetevents", "io_submit", "listen",
    "mq_getsetattr", "mq_notify", "mq_open", "mq_timedreceive", "mq_timedsend", "mq_unlink",
    "msgctl", "msgget", "msgrcv", "msgsnd", "pipe", "pipe2", "recvfrom", "recvmmsg", "recvmsg",
    "semctl", "semget", "semop", "semtimedop", "sendmmsg", "sendmsg", "sendto", "setsockopt",
    "shmat", "shmctl", "shmdt", "shmget", "shutdown",
];

/// Doors of the kernel that no sandbox needs. Mostly closed to it anyway; this is the second lock.
#[rustfmt::skip]
const REFUSED: &[&str] = &[
    // Mounts and namespaces.
    "fsconfig", "fsmount", "fsopen", "fspick", "mount", "mount_setattr", "move_mount", "open_tree",
    "open_tree_attr", "pivot_root", "setns", "umount2",
    // The machine: its clock, name, modules, swap, accounts, log, end.
    "acct", "clock_settime", "delete_module", "finit_module", "init_module", "ioperm", "iopl",
    "kexec_file_load", "kexec_load", "quotactl", "quotactl_fd", "reboot", "setdomainname",
    "sethostname", "settimeofday", "swapoff", "swapon", "syslog", "vhangup",
    // Large or old surfaces where bugs have been found again and again. Of what `io_setup` makes the
    // machine has one number for all, too; who can use it does without.
    "add_key", "bpf", "fanotify_init", "fanotify_mark", "io_setup", "io_uring_enter",
    "io_uring_register", "io_uring_setup", "keyctl", "modify_ldt", "perf_event_open", "request_key", "userfaultfd",
    // Reaching into other processes, or around the rights of a path.
    "kcmp", "open_by_handle_at", "pidfd_getfd", "process_madvise",
    // Where memory lies is the host's affair.
    "get_mempolicy", "mbind", "migrate_pages", "move_pages", "set_mempolicy",
    "set_mempolicy_home_node",
];

/// Left to the default on purpose: never built, no longer there, or not yet needed.
#[cfg(test)]
#[rustfmt::skip]
const ABSENT: &[&str] = &[
    "_sysctl", "afs_syscall", "create_module", "epoll_ctl_old", "epoll_wait_old",
    "get_kernel_syms", "get_thread_area", "getpmsg", "listmount", "lookup_dcookie",
    "lsm_get_self_attr", "lsm_list_modules", "lsm_set_self_attr", "nfsservctl", "putpmsg",
    "query_module", "security", "set_thread_area", "statmount", "sysfs", "tuxcall", "uselib",
    "ustat", "vserver",
];

/// Calls that are judged by their arguments.
const BY_ARGUMENTS: &[(&str, Rule)] = &[
    (
        "clone",
        Rule::ByArguments(WITHOUT_NAMESPACES, NOT_PERMITTED),
    ),
    (
        "unshare",
        Rule::ByArguments(WITHOUT_ANY_NAMESPACE, NOT_PERMITTED),
    ),
    (
        "ioctl",
        Rule::ByArguments(TERMINAL_INJECTION, Verdict::Allow),
    ),
    (
        "personality",
        Rule::ByArguments(HARMLESS_PERSONALITIES, NOT_PERMITTED),
    ),
    ("socket", Rule::ByArguments(SOCKETS, NO_SUCH_FAMILY)),
    ("socketpair", Rule::ByArguments(LOCAL_PAIRS, NO_SUCH_FAMILY)),
];

const NO_SUCH_FAMILY: Verdict = Verdict::Fail(Errno::AFNOSUPPORT);

const fn is(argument: u8, value: u32) -> Condition {
    masked(argument, !0, value)
}

const fn masked(argument: u8, mask: u32, value: u32) -> Condition {
    Condition {
        argument,
        mask,
        value,
    }
}

/// Mount, cgroup, UTS, IPC, user, PID and network namespaces: `CLONE_NEW*` in the flags of `clone`.
const NAMESPACES: u32 = 0x7E02_0000;
/// The time namespace too; `clone` has the signal of the end in those bits.
const ANY_NAMESPACE: u32 = NAMESPACES | 0x80;
const WITHOUT_NAMESPACES: &[Arm] = &[Arm(&[masked(0, NAMESPACES, 0)], Verdict::Allow)];
const WITHOUT_ANY_NAMESPACE: &[Arm] = &[Arm(&[masked(0, ANY_NAMESPACE, 0)], Verdict::Allow)];

const TIOCSTI: u32 = 0x5412;
const TIOCLINUX: u32 = 0x541C;
/// Typing into a terminal in the place of the person before it.
const TERMINAL_INJECTION: &[Arm] = &[
    Arm(&[is(1, TIOCSTI)], NOT_PERMITTED),
    Arm(&[is(1, TIOCLINUX)], NOT_PERMITTED),
];

const UNAME26: u32 = 0x2_0000;
const LINUX32: u32 = 8;
/// Those that only change what `uname` says, and the question for the present one. Above all none
/// that makes addresses predictable.
const HARMLESS_PERSONALITIES: &[Arm] = &[
    Arm(&[is(0, 0)], Verdict::Allow),
    Arm(&[is(0, LINUX32)], Verdict::Allow),
    Arm(&[is(0, UNAME26)], Verdict::Allow),
    Arm(&[is(0, UNAME26 | LINUX32)], Verdict::Allow),
    Arm(&[is(0, u32::MAX)], Verdict::Allow),
];

const UNIX: Condition = is(0, 1);
/// `AF_INET` is 2 and `AF_INET6` is 10: they differ in this one bit, with which no other family is 2.
const INTERNET: Condition = masked(0, !8, 2);
const NETLINK: Condition = is(0, 16);
/// The kind of socket without its flags (close-on-exec, non-blocking).
const KIND: u32 = 0xF;
const STREAM: Condition = masked(1, KIND, 1);
const DATAGRAM: Condition = masked(1, KIND, 2);
const RAW: Condition = masked(1, KIND, 3);
const fn protocol(number: u32) -> Condition {
    is(2, number)
}
/// Sockets on the machine itself and of the internet's everyday protocols, and the one that lists
/// addresses and routes. Others would load modules of the kernel, or (vsock) pass by the network
/// namespace.
const SOCKETS: &[Arm] = &[
    Arm(&[UNIX], Verdict::Allow),
    Arm(&[INTERNET, STREAM, protocol(0)], Verdict::Allow),
    Arm(&[INTERNET, STREAM, protocol(6)], Verdict::Allow), // TCP
    Arm(&[INTERNET, STREAM, protocol(262)], Verdict::Allow), // MPTCP
    Arm(&[INTERNET, DATAGRAM, protocol(0)], Verdict::Allow),
    Arm(&[INTERNET, DATAGRAM, protocol(17)], Verdict::Allow), // UDP
    Arm(&[INTERNET, DATAGRAM, protocol(1)], Verdict::Allow),  // ICMP, for ping
    Arm(&[INTERNET, DATAGRAM, protocol(58)], Verdict::Allow), // ICMPv6
    Arm(&[INTERNET, RAW], NOT_PERMITTED),
    Arm(&[INTERNET], Verdict::Fail(Errno::PROTONOSUPPORT)),
    Arm(&[NETLINK, protocol(0)], Verdict::Allow),
];
const LOCAL_PAIRS: &[Arm] = &[Arm(&[UNIX], Verdict::Allow)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_call_has_been_judged_once() {
        let judged = || {
            let by_arguments = BY_ARGUMENTS.iter().map(|(name, _)| name);
            [ALLOWED, REFUSED, ABSENT]
                .into_iter()
                .flatten()
                .chain(by_arguments)
        };
        let unknown: Vec<_> = judged().filter(|name| !calls::exists(name)).collect();
        assert!(unknown.is_empty(), "no such call: {unknown:?}");
        for name in calls::all() {
            let times = judged().filter(|judged| **judged == name).count();
            assert_eq!(times, 1, "{name} must be in one list");
        }
    }

    #[test]
    fn clone3_is_meant_and_the_program_short() {
        assert_eq!(calls::number("clone3"), Some(CLONE3));
        let filters = Filters::compile();
        assert!(filters.init.len() < 400, "{}", filters.init.len());
    }
}
