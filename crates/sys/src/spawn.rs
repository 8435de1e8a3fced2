//! Starting a program: clone with shared memory and `vfork` semantics, then `execve`.
//!
//! `fork` copies page tables, which takes 35 ms for a process with 1 GiB; this takes 0.5 ms whatever
//! the size. The child borrows our memory until it execs, so everything it needs is laid out before
//! the clone and it makes only system calls: no allocation, no locks, no unwinding.
//!
//! Two ways in: `clone3`, which can place the child in a cgroup at birth, and `clone` for places
//! that refuse `clone3` (a default container answers `ENOSYS`).

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_void};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::Errno;

use crate::rights::Rights;

/// Bytes of stack for the child between clone and exec; it calls a handful of leaf functions.
const CHILD_STACK: usize = 64 * 1024;

/// Who the program runs as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

impl Identity {
    /// Takes it on: only bare system calls; negative when one failed.
    #[allow(unsafe_code, reason = "libc's wrappers would change every thread")]
    pub(crate) fn become_raw(&self) -> c_long {
        let (uid, gid, groups) = (self.uid, self.gid, &self.groups);
        // SAFETY: the groups are live and only read; all else are numbers.
        unsafe {
            match libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) {
                0 => {}
                failed => return failed,
            }
            match libc::syscall(libc::SYS_setresgid, gid, gid, gid) {
                0 => libc::syscall(libc::SYS_setresuid, uid, uid, uid),
                failed => failed,
            }
        }
    }
}

/// A resource limit: the `RLIMIT_*` number and the value for both soft and hard limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rlimit {
    /// Which resource.
    pub resource: u32,
    /// Its limit.
    pub value: u64,
}

/// Everything about a program that is to be started.
#[derive(Debug)]
pub struct SpawnPlan<'a> {
    /// Paths to try in order; the first that can be executed wins.
    pub programs: &'a [CString],
    /// The argument vector.
    pub argv: &'a [CString],
    /// The whole environment.
    pub env: &'a [CString],
    /// Directory to start in, resolved with the rights of `identity`.
    pub cwd: Option<&'a CStr>,
    /// Descriptors of the child: (ours, number in the child). All others are closed.
    pub fds: &'a [(BorrowedFd<'a>, RawFd)],
    /// User and groups; ours when absent.
    pub identity: Option<&'a Identity>,
    /// Rights that stay; ours when absent.
    pub rights: Option<&'a Rights<'a>>,
    /// Limits to set.
    pub rlimits: &'a [Rlimit],
    /// Extra `CLONE_NEW*` flags.
    pub namespaces: u64,
    /// A cgroup v2 directory to be born in. Needs `clone3`.
    pub cgroup: Option<BorrowedFd<'a>>,
    /// Groups to join before anything else, by the file of each that takes members.
    pub join: &'a [BorrowedFd<'a>],
    /// Descriptor 0 of the child is a terminal and becomes its controlling one.
    pub controlling_terminal: bool,
    /// Use `clone` even where `clone3` would work.
    pub avoid_clone3: bool,
}

/// What failed on the way to the new program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Stage {
    /// The clone itself.
    Clone = 1,
    /// Placing descriptors.
    Fds = 2,
    /// Setting a resource limit.
    Rlimit = 3,
    /// Taking on user and groups.
    Identity = 4,
    /// Entering the working directory.
    Cwd = 5,
    /// Executing the program.
    Exec = 6,
    /// Joining a group.
    Join = 7,
    /// Making a process tree of its own.
    Private = 8,
    /// Giving up rights.
    Rights = 9,
}

impl Stage {
    /// The stage with this number on the wire.
    pub fn from_u32(n: u32) -> Option<Self> {
        [
            Self::Clone,
            Self::Fds,
            Self::Rlimit,
            Self::Identity,
            Self::Cwd,
            Self::Exec,
            Self::Join,
            Self::Private,
            Self::Rights,
        ]
        .into_iter()
        .find(|s| *s as u32 == n)
    }
}

/// A failed start: nothing runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{stage:?} failed: {errno}")]
pub struct SpawnError {
    /// Where.
    pub stage: Stage,
    /// Why.
    pub errno: Errno,
}

/// A program that was started.
#[derive(Debug)]
pub struct Spawned {
    /// Its pid in our PID namespace.
    pub pid: i32,
    /// A descriptor that names it for ever, also when the pid is used again.
    pub pidfd: OwnedFd,
}

/// What the child reads and writes while it shares our memory.
struct ChildContext<'a> {
    plan: &'a SpawnPlan<'a>,
    /// (ours, number in the child), by ascending number; none of ours is one of the numbers.
    fds: Vec<(RawFd, RawFd)>,
    argv: Vec<*const c_char>,
    env: Vec<*const c_char>,
    /// `[sh, <path>, argv[1]…]` for a script without an interpreter line.
    sh_argv: Vec<*const c_char>,
    /// 0 while all is well.
    failed_stage: u32,
    failed_errno: i32,
}

const SHELL_FOR_SCRIPTS: &CStr = c"/bin/sh";

/// Starts a program and returns once it has been executed, or with the reason why it could not.
#[allow(unsafe_code, reason = "clone with shared memory has no safe form")]
pub fn spawn(plan: &SpawnPlan<'_>) -> Result<Spawned, SpawnError> {
    let pointers = |strings: &[CString]| -> Vec<*const c_char> {
        strings
            .iter()
            .map(|s| s.as_ptr())
            .chain([std::ptr::null()])
            .collect()
    };
    let mut sh_argv = vec![SHELL_FOR_SCRIPTS.as_ptr(), std::ptr::null()];
    sh_argv.extend(plan.argv.iter().skip(1).map(|s| s.as_ptr()));
    sh_argv.push(std::ptr::null());
    let (fds, _moved) = clear_of_targets(plan.fds)?;
    let mut context = ChildContext {
        plan,
        fds,
        argv: pointers(plan.argv),
        env: pointers(plan.env),
        sh_argv,
        failed_stage: 0,
        failed_errno: 0,
    };
    let mut stack = vec![0_u128; CHILD_STACK / 16];
    let mut pidfd: RawFd = -1;
    let flags = (libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD) as u64 | plan.namespaces;

    let context_ptr: *mut ChildContext<'_> = &raw mut context;
    let result = if plan.avoid_clone3 {
        // SAFETY: the stack is live and unused, the context outlives the child's use of it because
        // CLONE_VFORK suspends us until the child has exec'd or exited, and `child_entry` never
        // returns. Needed because nothing safe clones with CLONE_VM.
        let pid = unsafe {
            libc::clone(
                child_entry_int,
                stack.as_mut_ptr_range().end.cast::<c_void>(),
                flags as c_int | libc::SIGCHLD,
                context_ptr.cast::<c_void>(),
                &raw mut pidfd,
            )
        };
        if pid < 0 { Err(last_errno()) } else { Ok(pid) }
    } else {
        let mut args = CloneArgs {
            flags,
            pidfd: (&raw mut pidfd) as u64,
            exit_signal: libc::SIGCHLD as u64,
            stack: stack.as_mut_ptr() as u64,
            stack_size: CHILD_STACK as u64,
            ..CloneArgs::default()
        };
        if let Some(cgroup) = plan.cgroup {
            args.flags |= CLONE_INTO_CGROUP;
            args.cgroup = u64::from(cgroup.as_raw_fd().cast_unsigned());
        }
        // SAFETY: as above; the arguments name live memory of the right size.
        unsafe { clone3(&args, context_ptr.cast::<c_void>()) }
    };
    let pid = result.map_err(|errno| SpawnError {
        stage: Stage::Clone,
        errno,
    })?;
    // SAFETY: the kernel put a fresh descriptor there, which nobody else owns.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    // SAFETY: the child has exec'd or exited, so we are the only one who uses the context. The read
    // is volatile because the compiler cannot know that another process wrote it.
    let (stage, errno) = unsafe {
        (
            (&raw const context.failed_stage).read_volatile(),
            (&raw const context.failed_errno).read_volatile(),
        )
    };
    drop(stack);
    match Stage::from_u32(stage) {
        None => Ok(Spawned { pid, pidfd }),
        Some(stage) => {
            reap(&pidfd);
            Err(SpawnError {
                stage,
                errno: Errno::from_raw_os_error(errno),
            })
        }
    }
}

/// Moves descriptors of ours out of the way when another one is to get their number, so that the
/// child can place them in any order. The moved copies live as long as the second value.
#[allow(clippy::type_complexity, reason = "one caller, named on the spot")]
fn clear_of_targets(
    wanted: &[(BorrowedFd<'_>, RawFd)],
) -> Result<(Vec<(RawFd, RawFd)>, Vec<OwnedFd>), SpawnError> {
    let mut moved = Vec::new();
    let mut placed = Vec::with_capacity(wanted.len());
    let above = wanted
        .iter()
        .map(|(_, number)| number + 1)
        .max()
        .unwrap_or(0);
    for (ours, number) in wanted {
        let taken = wanted.iter().any(|(_, other)| *other == ours.as_raw_fd());
        let source = if taken {
            let copy =
                rustix::io::fcntl_dupfd_cloexec(ours, above).map_err(|errno| SpawnError {
                    stage: Stage::Fds,
                    errno,
                })?;
            moved.push(copy);
            moved.last().map_or(-1, AsRawFd::as_raw_fd)
        } else {
            ours.as_raw_fd()
        };
        placed.push((source, *number));
    }
    placed.sort_unstable_by_key(|(_, number)| *number);
    Ok((placed, moved))
}

/// Collects a child that ended, or is about to.
fn reap(pidfd: &OwnedFd) {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    use std::os::fd::AsFd as _;
    while let Err(Errno::INTR) = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED) {}
}

pub(crate) fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

pub(crate) const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

#[repr(C)]
#[derive(Default)]
pub(crate) struct CloneArgs {
    pub(crate) flags: u64,
    pub(crate) pidfd: u64,
    pub(crate) child_tid: u64,
    pub(crate) parent_tid: u64,
    pub(crate) exit_signal: u64,
    pub(crate) stack: u64,
    pub(crate) stack_size: u64,
    pub(crate) tls: u64,
    pub(crate) set_tid: u64,
    pub(crate) set_tid_size: u64,
    pub(crate) cgroup: u64,
}

/// `clone3` whose child runs `child_entry(context)` on its own stack.
///
/// # Safety
/// `args` must name a live stack and pidfd slot, and `context` a `ChildContext` that stays untouched
/// until the child has exec'd or exited.
#[allow(
    unsafe_code,
    reason = "libc has no clone3 wrapper, and a plain syscall() returns twice on one stack"
)]
unsafe fn clone3(args: &CloneArgs, context: *mut c_void) -> Result<i32, Errno> {
    let entry: extern "C" fn(*mut c_void) -> ! = child_entry;
    let result: isize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: in the parent this is one system call that clobbers what is declared. The child
    // continues on its new stack, calls `child_entry` and never comes back.
    unsafe {
        core::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, {context}",
            "call {entry}",
            "ud2",
            "2:",
            context = in(reg) context,
            entry = in(reg) entry,
            inlateout("rax") libc::SYS_clone3 as isize => result,
            in("rdi") std::ptr::from_ref(args),
            in("rsi") size_of::<CloneArgs>(),
            out("rcx") _,
            out("r11") _,
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as for x86_64.
    unsafe {
        core::arch::asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, {context}",
            "blr {entry}",
            "brk 1",
            "2:",
            context = in(reg) context,
            entry = in(reg) entry,
            in("x8") libc::SYS_clone3,
            inlateout("x0") std::ptr::from_ref(args) => result,
            in("x1") size_of::<CloneArgs>(),
        );
    }
    if result < 0 {
        Err(Errno::from_raw_os_error(-(result as i32)))
    } else {
        Ok(result as i32)
    }
}

extern "C" fn child_entry_int(context: *mut c_void) -> c_int {
    child_entry(context)
}

/// The child between clone and exec. Only system calls from here on.
#[allow(
    unsafe_code,
    reason = "runs in borrowed memory and may make nothing but raw system calls"
)]
extern "C" fn child_entry(context: *mut c_void) -> ! {
    // SAFETY: `spawn` passes a pointer to its live context and is suspended meanwhile.
    let context = unsafe { &mut *context.cast::<ChildContext<'_>>() };
    let (stage, errno) = child_setup_and_exec(context);
    // SAFETY: the context is live, see above; volatile so that the store is not optimised away
    // before the exit that follows.
    unsafe {
        (&raw mut context.failed_errno).write_volatile(errno);
        (&raw mut context.failed_stage).write_volatile(stage as u32);
        libc::_exit(127)
    }
}

/// Returns only on failure, with where and why.
#[allow(
    unsafe_code,
    reason = "raw system calls that act on this process alone"
)]
fn child_setup_and_exec(context: &mut ChildContext<'_>) -> (Stage, i32) {
    let plan = context.plan;
    macro_rules! check {
        ($stage:expr, $call:expr) => {
            // SAFETY: a plain system call on values that live in `plan`; it changes only this
            // process, which shares memory but neither descriptors nor credentials with the parent.
            if unsafe { $call } < 0 {
                return ($stage, errno());
            }
        };
    }
    // First, while the descriptors have their numbers and we our rights.
    for group in plan.join {
        check!(
            Stage::Join,
            libc::syscall(libc::SYS_write, group.as_raw_fd(), c"0".as_ptr(), 1)
        );
    }
    macro_rules! give_up {
        ($step:ident) => {
            if plan.rights.is_some_and(|rights| rights.$step() < 0) {
                return (Stage::Rights, errno());
            }
        };
    }
    give_up!(give_up_gains);
    // A session of its own: no controlling terminal, and group signals of ours never reach it.
    check!(Stage::Fds, libc::syscall(libc::SYS_setsid));
    for &(ours, number) in &context.fds {
        check!(Stage::Fds, libc::syscall(libc::SYS_dup3, ours, number, 0));
    }
    let mut next_unused = 0;
    for &(_, number) in &context.fds {
        if number > next_unused {
            check!(Stage::Fds, close_range(next_unused, number - 1));
        }
        next_unused = number + 1;
    }
    check!(Stage::Fds, close_range(next_unused, -1));
    if plan.controlling_terminal {
        // A session leader's right; the last argument says that it is not taken from another one.
        check!(
            Stage::Fds,
            libc::syscall(libc::SYS_ioctl, 0, libc::TIOCSCTTY, 0)
        );
    }
    for limit in plan.rlimits {
        let value = libc::rlimit64 {
            rlim_cur: limit.value,
            rlim_max: limit.value,
        };
        check!(
            Stage::Rlimit,
            libc::syscall(
                libc::SYS_prlimit64,
                0,
                limit.resource,
                &raw const value,
                std::ptr::null_mut::<c_void>()
            )
        );
    }
    give_up!(lower_ceiling);
    if plan
        .identity
        .is_some_and(|identity| identity.become_raw() < 0)
    {
        return (Stage::Identity, errno());
    }
    give_up!(drop_capabilities);
    if let Some(cwd) = plan.cwd {
        check!(Stage::Cwd, libc::syscall(libc::SYS_chdir, cwd.as_ptr()));
    }
    let empty_mask = 0_u64;
    check!(
        Stage::Exec,
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const empty_mask,
            std::ptr::null_mut::<c_void>(),
            size_of::<u64>()
        )
    );
    give_up!(filter_calls);
    (Stage::Exec, execute(context))
}

/// Tries the programs in turn. Returns only on failure, with why.
#[allow(unsafe_code, reason = "execve is what this is all about")]
fn execute(context: &mut ChildContext<'_>) -> i32 {
    let mut worst = libc::ENOENT;
    for program in context.plan.programs {
        // SAFETY: path, argv and env are NUL-terminated and live; on success this never returns.
        unsafe {
            libc::execve(
                program.as_ptr(),
                context.argv.as_ptr(),
                context.env.as_ptr(),
            )
        };
        let mut why = errno();
        if why == libc::ENOEXEC
            && let Some(slot) = context.sh_argv.get_mut(1)
        {
            *slot = program.as_ptr();
            // SAFETY: as above.
            unsafe {
                libc::execve(
                    SHELL_FOR_SCRIPTS.as_ptr(),
                    context.sh_argv.as_ptr(),
                    context.env.as_ptr(),
                )
            };
            why = errno();
        }
        match why {
            libc::ENOENT | libc::ENOTDIR => {}
            // Like execvp: remember the refusal, but a later directory may still have the program.
            libc::EACCES => worst = why,
            _ => return why,
        }
    }
    worst
}

/// # Safety
/// Closes descriptors of the calling process; the caller must not use them afterwards.
#[allow(
    unsafe_code,
    reason = "a raw system call; libc's wrapper is missing on musl"
)]
unsafe fn close_range(first: RawFd, last: RawFd) -> c_long {
    if last != -1 && first > last {
        return 0;
    }
    // SAFETY: the caller vouches for the range.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first.cast_unsigned(),
            last.cast_unsigned(),
            0,
        )
    }
}

#[allow(
    unsafe_code,
    reason = "errno of the child lives in the parent's TLS, read through libc"
)]
pub(crate) fn errno() -> i32 {
    // SAFETY: always a valid pointer to this thread's errno.
    unsafe { *libc::__errno_location() }
}

/// Does something in a child that borrows our memory, and returns what came of it: a fork without its
/// cost, for work that changes the rights or namespaces of whoever does it.
///
/// Only for `init`, which has one thread: it is suspended until the child has ended, so that the two
/// are never in the same memory at once. What the work opens goes with the child, and must not be in
/// its result.
#[allow(unsafe_code, reason = "clone with shared memory has no safe form")]
pub fn in_child<T, F: FnOnce() -> T>(work: F) -> Result<T, Errno> {
    struct Job<F, T> {
        work: Option<F>,
        result: Option<T>,
    }
    extern "C" fn entry<T, F: FnOnce() -> T>(job: *mut c_void) -> c_int {
        // SAFETY: `in_child` passes a pointer to its live job and is suspended meanwhile.
        let job = unsafe { &mut *job.cast::<Job<F, T>>() };
        job.result = job.work.take().map(|work| work());
        // SAFETY: ends the child at once, without running anything of ours at exit.
        unsafe { libc::_exit(0) }
    }
    let mut job = Job {
        work: Some(work),
        result: None,
    };
    let job_ptr: *mut Job<F, T> = &raw mut job;
    let mut stack = vec![0_u128; CHILD_STACK / 16];
    let mut pidfd: RawFd = -1;
    // SAFETY: the stack is live and unused, the job outlives the child because CLONE_VFORK suspends
    // us until it has ended, and `entry` never returns. The caller has one thread, so that no lock can
    // be held by another. Needed because nothing safe clones with CLONE_VM.
    let pid = unsafe {
        libc::clone(
            entry::<T, F>,
            stack.as_mut_ptr_range().end.cast::<c_void>(),
            libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD,
            job_ptr.cast::<c_void>(),
            &raw mut pidfd,
        )
    };
    if pid < 0 {
        return Err(last_errno());
    }
    // SAFETY: the kernel put a fresh descriptor there, which nobody else owns.
    reap(&unsafe { OwnedFd::from_raw_fd(pidfd) });
    drop(stack);
    // SAFETY: the child has ended. It wrote the result behind the compiler's back, so it is read as a
    // whole, once, and the job is forgotten: its work was consumed by the child.
    let result = unsafe { (&raw const job.result).read_volatile() };
    std::mem::forget(job);
    result.ok_or(Errno::CHILD)
}

/// Splits this single-threaded process in two. The child gets `None`.
///
/// Only for `init`, which is small, has one thread and no runtime.
#[allow(unsafe_code, reason = "fork has no safe form")]
pub fn fork_single_threaded() -> Result<Option<Spawned>, Errno> {
    // SAFETY: `fork` is the libc call, so that libc's own state stays right in the child; the caller
    // is single-threaded, so no lock can be held by a thread that does not exist there.
    match unsafe { libc::fork() } {
        -1 => Err(last_errno()),
        0 => Ok(None),
        pid => {
            let raw = rustix::process::Pid::from_raw(pid).ok_or(Errno::SRCH)?;
            let pidfd = rustix::process::pidfd_open(raw, rustix::process::PidfdFlags::empty())?;
            Ok(Some(Spawned { pid, pidfd }))
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    use std::os::fd::AsFd as _;

    fn plan<'a>(
        programs: &'a [CString],
        argv: &'a [CString],
        fds: &'a [(BorrowedFd<'a>, RawFd)],
        cwd: Option<&'a CStr>,
        avoid_clone3: bool,
    ) -> SpawnPlan<'a> {
        SpawnPlan {
            programs,
            argv,
            env: &[],
            cwd,
            fds,
            identity: None,
            rights: None,
            rlimits: &[],
            namespaces: 0,
            cgroup: None,
            join: &[],
            controlling_terminal: false,
            avoid_clone3,
        }
    }

    #[test]
    fn runs_a_program_and_reports_its_status_both_ways() {
        for avoid_clone3 in [false, true] {
            let (read, write) = rustix::pipe::pipe().unwrap();
            let programs = [c"/nonexistent/sh".to_owned(), c"/bin/sh".to_owned()];
            let argv = [
                c"sh".to_owned(),
                c"-c".to_owned(),
                c"echo fds: /proc/self/fd/*; exit 7".to_owned(),
            ];
            let null = std::fs::File::open("/dev/null").unwrap();
            let fds = [(null.as_fd(), 0), (write.as_fd(), 1), (null.as_fd(), 5)];
            let child = spawn(&plan(&programs, &argv, &fds, None, avoid_clone3)).unwrap();
            drop(write);
            let status = waitid(WaitId::PidFd(child.pidfd.as_fd()), WaitIdOptions::EXITED)
                .unwrap()
                .unwrap();
            assert_eq!(status.exit_status(), Some(7));
            let mut text = String::new();
            std::io::Read::read_to_string(&mut std::fs::File::from(read), &mut text).unwrap();
            assert_eq!(
                text, "fds: /proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2 /proc/self/fd/5\n",
                "2 is the shell's own handle on the directory it lists"
            );
        }
    }

    #[test]
    fn says_where_and_why_it_failed() {
        let argv = [c"x".to_owned()];
        let missing = [c"/no/such/program".to_owned()];
        let denied = [c"/etc/passwd".to_owned(), c"/no/such".to_owned()];
        let shell = [c"/bin/sh".to_owned()];
        for avoid_clone3 in [false, true] {
            let fail = |programs: &[CString], cwd: Option<&CStr>| {
                spawn(&plan(programs, &argv, &[], cwd, avoid_clone3)).unwrap_err()
            };
            assert_eq!(
                fail(&missing, None),
                SpawnError {
                    stage: Stage::Exec,
                    errno: Errno::NOENT
                }
            );
            assert_eq!(
                fail(&denied, None),
                SpawnError {
                    stage: Stage::Exec,
                    errno: Errno::ACCESS
                }
            );
            assert_eq!(
                fail(&shell, Some(c"/no/such/dir")),
                SpawnError {
                    stage: Stage::Cwd,
                    errno: Errno::NOENT
                }
            );
        }
    }
}
