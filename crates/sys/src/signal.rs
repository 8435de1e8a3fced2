//! Signals: names, masks and `signalfd`.

use std::os::fd::{FromRawFd as _, OwnedFd};

use rustix::io::Errno;

/// Takes all signals: none is ignored any more, every one is blocked in this thread, and a descriptor
/// reads these instead. For `init`, which has one thread.
///
/// What it starts inherits through exec whatever is ignored and has no way to undo that, so it is done
/// here, where every starter of programs comes by.
#[allow(unsafe_code, reason = "rustix has neither sigprocmask nor signalfd")]
pub fn block_all_and_watch(signals: &[i32]) -> Result<OwnedFd, Errno> {
    default_all();
    // SAFETY: plain calls on a set that lives on this stack; sigfillset and sigemptyset initialise
    // it fully before use.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        if libc::sigprocmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut()) != 0 {
            return Err(Errno::INVAL);
        }
        let mut watched = std::mem::zeroed();
        libc::sigemptyset(&raw mut watched);
        for signal in signals {
            libc::sigaddset(&raw mut watched, *signal);
        }
        let fd = libc::signalfd(
            -1,
            &raw const watched,
            libc::SFD_CLOEXEC | libc::SFD_NONBLOCK,
        );
        if fd < 0 {
            return Err(
                Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)
            );
        }
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Kills every process of the PID namespace whose PID 1 we are. Does nothing for any other process.
#[allow(unsafe_code, reason = "rustix cannot express kill(-1)")]
pub fn kill_all_below_namespace_init() {
    if rustix::process::getpid() == rustix::process::Pid::INIT {
        // SAFETY: a plain system call. As PID 1 of a namespace it reaches that namespace's other
        // processes and nothing else.
        unsafe {
            libc::kill(-1, libc::SIGKILL);
        }
    }
}

/// Gives every signal its default action again. Ignored signals are inherited through exec: Rust's
/// start-up code ignores `SIGPIPE`, `nohup` ignores `SIGHUP`, a shell without job control
/// ignores `SIGINT` and `SIGQUIT` for what it starts with `&`, and libc's `posix_spawn` ignores libc's own two.
///
/// For a process with one thread: libc sets up its own two again when there are more.
#[allow(unsafe_code, reason = "rustix has no sigaction")]
pub fn default_all() {
    /// The kernel's `struct sigaction` has at most four words; all zero it means the default action.
    const DEFAULT: [u64; 4] = [0; 4];
    for number in 1..=libc::SIGRTMAX() {
        // SAFETY: the kernel reads an action that lives here and calls no code of ours. The bare call, because
        // libc's refuses its own signals. KILL and STOP refuse, which changes nothing.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                number,
                DEFAULT.as_ptr(),
                std::ptr::null_mut::<u64>(),
                size_of::<u64>(),
            );
        }
    }
}

/// The end of a child.
pub const CHLD: i32 = libc::SIGCHLD;
/// A write that nobody can read.
pub const PIPE: i32 = libc::SIGPIPE;

/// Ignores a signal. Children whose end is ignored leave nothing to be collected.
#[allow(unsafe_code, reason = "rustix has no sigaction")]
pub fn ignore(number: i32) {
    // SAFETY: no handler code of ours is involved.
    unsafe {
        libc::signal(number, libc::SIG_IGN);
    }
}

/// The signal used to interrupt a session's shell: the highest real-time signal, which programs
/// practically never use.
pub fn interrupt_signal() -> i32 {
    libc::SIGRTMAX()
}

const NAMES: &[(i32, &str)] = &[
    (libc::SIGHUP, "SIGHUP"),
    (libc::SIGINT, "SIGINT"),
    (libc::SIGQUIT, "SIGQUIT"),
    (libc::SIGILL, "SIGILL"),
    (libc::SIGTRAP, "SIGTRAP"),
    (libc::SIGABRT, "SIGABRT"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGFPE, "SIGFPE"),
    (libc::SIGKILL, "SIGKILL"),
    (libc::SIGUSR1, "SIGUSR1"),
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGUSR2, "SIGUSR2"),
    (libc::SIGPIPE, "SIGPIPE"),
    (libc::SIGALRM, "SIGALRM"),
    (libc::SIGTERM, "SIGTERM"),
    (libc::SIGSTKFLT, "SIGSTKFLT"),
    (libc::SIGCHLD, "SIGCHLD"),
    (libc::SIGCONT, "SIGCONT"),
    (libc::SIGSTOP, "SIGSTOP"),
    (libc::SIGTSTP, "SIGTSTP"),
    (libc::SIGTTIN, "SIGTTIN"),
    (libc::SIGTTOU, "SIGTTOU"),
    (libc::SIGURG, "SIGURG"),
    (libc::SIGXCPU, "SIGXCPU"),
    (libc::SIGXFSZ, "SIGXFSZ"),
    (libc::SIGVTALRM, "SIGVTALRM"),
    (libc::SIGPROF, "SIGPROF"),
    (libc::SIGWINCH, "SIGWINCH"),
    (libc::SIGIO, "SIGIO"),
    (libc::SIGPWR, "SIGPWR"),
    (libc::SIGSYS, "SIGSYS"),
];

/// `SIGTERM` for 15; `SIG64` for numbers without a name.
pub fn name(number: i32) -> String {
    NAMES
        .iter()
        .find(|(n, _)| *n == number)
        .map_or_else(|| format!("SIG{number}"), |(_, name)| (*name).to_owned())
}

/// The number of `TERM`, `SIGTERM`, `sigterm`, `15` or `SIG40`.
pub fn parse(text: &str) -> Option<i32> {
    let upper = text.to_ascii_uppercase();
    let bare = upper.strip_prefix("SIG").unwrap_or(&upper);
    NAMES
        .iter()
        .find(|(_, name)| name.strip_prefix("SIG") == Some(bare))
        .map(|(n, _)| *n)
        .or_else(|| bare.parse::<i32>().ok().filter(|n| (1..=64).contains(n)))
}

/// Sends a signal to a process named by descriptor. `ESRCH` means it is gone.
///
/// rustix's `Signal` knows no real-time signals, hence the raw call.
#[allow(unsafe_code, reason = "rustix cannot name real-time signals")]
pub fn send(pidfd: &impl std::os::fd::AsRawFd, signal: i32) -> Result<(), Errno> {
    // SAFETY: a plain system call on a borrowed descriptor; no memory is passed.
    let done = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            signal,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
    if done == 0 {
        Ok(())
    } else {
        Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::SRCH))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_agree() {
        for text in ["TERM", "SIGTERM", "sigterm", "15"] {
            assert_eq!(parse(text), Some(15), "{text}");
        }
        assert_eq!(name(15), "SIGTERM");
        assert_eq!(parse(&name(64)), Some(64));
        for bad in ["", "0", "65", "-1", "NOPE", "SIG"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
