//! A filter such as container engines put on whatever they run without privileges: no namespaces, no
//! mounts, `clone3` not there. It stands in for such a container in tests.

use std::collections::BTreeMap;
use std::io::Write as _;

use sandshell_sys::seccomp::{Arm, Condition, Filter, Rule, Verdict};
use sandshell_sys::{Errno, calls};

/// Only with a capability that such a container has not.
#[rustfmt::skip]
const REFUSED: &[&str] = &[
    "acct", "add_key", "bpf", "clock_settime", "delete_module", "fanotify_init", "finit_module",
    "fsconfig", "fsmount", "fsopen", "fspick", "get_mempolicy", "init_module", "io_uring_enter",
    "io_uring_register", "io_uring_setup", "ioperm", "iopl", "kcmp", "kexec_file_load",
    "kexec_load", "keyctl", "mbind", "mount", "mount_setattr", "move_mount", "move_pages",
    "open_by_handle_at", "open_tree", "perf_event_open", "pidfd_getfd", "pivot_root",
    "process_madvise", "quotactl", "quotactl_fd", "reboot", "request_key", "set_mempolicy",
    "setdomainname", "sethostname", "setns", "settimeofday", "swapoff", "swapon", "syslog",
    "umount2", "unshare", "userfaultfd", "vhangup",
];

const NAMESPACES: u32 = 0x7E02_0000;
const WITHOUT_NAMESPACES: &[Arm] = &[Arm(
    &[Condition {
        argument: 0,
        mask: NAMESPACES,
        value: 0,
    }],
    Verdict::Allow,
)];

pub(super) fn write_filter() {
    let not_permitted = Verdict::Fail(Errno::PERM);
    let mut rules: BTreeMap<u32, Rule> = REFUSED
        .iter()
        .filter_map(|name| Some((calls::number(name)?, Rule::Always(not_permitted))))
        .collect();
    let clone = Rule::ByArguments(WITHOUT_NAMESPACES, not_permitted);
    rules.extend(calls::number("clone").map(|number| (number, clone)));
    let clone3 = Rule::Always(Verdict::Fail(Errno::NOSYS));
    rules.extend(calls::number("clone3").map(|number| (number, clone3)));
    let filter = Filter::compile(&rules, Verdict::Allow);
    if std::io::stdout().write_all(&filter.to_bytes()).is_err() {
        std::process::exit(1);
    }
}
