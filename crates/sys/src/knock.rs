//! Any system call with any arguments, made by a child, to learn how the kernel answers. For tests of
//! walls, from behind them: nothing of the product uses it, and it is built only on demand.
//!
//! A call is made in a process of its own, so that whatever it does to its caller's memory,
//! descriptors or rights ends with it. What it does to others is what is being tested: knock only
//! where nothing of value can be reached.

use std::ffi::CString;
use std::os::fd::AsFd as _;

use rustix::io::Errno;
use rustix::process::{WaitId, WaitIdOptions, waitid};

use crate::spawn::fork_single_threaded;

/// A child that has not come back after this time waits for something that never comes.
const PATIENCE_SECONDS: u32 = 1;

/// One argument of a call.
#[derive(Debug, Clone)]
pub enum Argument {
    /// A number as it is.
    Number(u64),
    /// The address of a text.
    Text(CString),
    /// The address of some bytes, which the call may change.
    Bytes(Vec<u8>),
}

/// What became of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It was made.
    Done,
    /// It was refused, by the kernel or by a filter.
    Failed(Errno),
    /// The caller was killed by this signal.
    Killed(i32),
    /// It was made, and waits.
    Waits,
}

/// Makes a call in a child. Only for a program with one thread.
pub fn knock(number: u32, mut arguments: Vec<Argument>) -> Result<Answer, Errno> {
    let mut words = [0_u64; 6];
    for (word, argument) in words.iter_mut().zip(&mut arguments) {
        *word = match argument {
            Argument::Number(number) => *number,
            Argument::Text(text) => text.as_ptr() as u64,
            Argument::Bytes(bytes) => bytes.as_mut_ptr() as u64,
        };
    }
    let Some(child) = fork_single_threaded()? else {
        call_and_exit(number, words);
    };
    let ended = loop {
        match waitid(WaitId::PidFd(child.pidfd.as_fd()), WaitIdOptions::EXITED) {
            Err(Errno::INTR) => {}
            ended => break ended?.ok_or(Errno::CHILD)?,
        }
    };
    Ok(match (ended.exit_status(), ended.terminating_signal()) {
        (Some(0), _) => Answer::Done,
        (Some(errno), _) => Answer::Failed(Errno::from_raw_os_error(errno)),
        (None, Some(libc::SIGALRM)) => Answer::Waits,
        (None, signal) => Answer::Killed(signal.unwrap_or_default()),
    })
}

/// A call through the gate of the 32-bit ABI, `getpid` there, in a child. Only on `x86_64`.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "there is no other way through that gate")]
pub fn knock_at_32_bit_gate() -> Result<Answer, Errno> {
    const GETPID: u64 = 20;
    let Some(child) = fork_single_threaded()? else {
        let mut result = GETPID;
        // SAFETY: a call without arguments; on return only rax has changed, and r8 to r11, which
        // this gate does not keep.
        unsafe {
            core::arch::asm!(
                "int 0x80",
                inout("rax") result,
                out("r8") _, out("r9") _, out("r10") _, out("r11") _,
            );
        }
        exit_with(result.cast_signed());
    };
    let ended = waitid(WaitId::PidFd(child.pidfd.as_fd()), WaitIdOptions::EXITED)?;
    let signal = ended.and_then(|ended| ended.terminating_signal());
    Ok(signal.map_or(Answer::Done, Answer::Killed))
}

#[allow(unsafe_code, reason = "bare calls in a child that ends at once")]
fn call_and_exit(number: u32, arguments: [u64; 6]) -> ! {
    // SAFETY: no handlers are installed; the default action ends this child.
    unsafe {
        libc::alarm(PATIENCE_SECONDS);
    }
    let result = call(number, arguments);
    exit_with(result)
}

/// Inline, so that a call that returns twice, or on the same stack, finds its way.
#[inline(always)]
#[allow(
    unsafe_code,
    clippy::inline_always,
    reason = "vfork returns twice into one frame"
)]
#[allow(
    clippy::many_single_char_names,
    reason = "one letter for each register"
)]
fn call(number: u32, [a, b, c, d, e, f]: [u64; 6]) -> i64 {
    let result: i64;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: in a child made for it; whatever the call does to this process ends with it.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") u64::from(number) => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            out("rcx") _, out("r11") _,
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as for x86_64.
    unsafe {
        core::arch::asm!(
            "svc 0",
            in("x8") u64::from(number),
            inlateout("x0") a => result,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
        );
    }
    result
}

/// Ends this child; its status is the error, 0 without one. By `exit`, which even the strictest mode of
/// seccomp allows.
#[inline(always)]
#[allow(clippy::inline_always, reason = "the child of a vfork must not return")]
fn exit_with(result: i64) -> ! {
    let errno = if (-4095..0).contains(&result) {
        result.unsigned_abs()
    } else {
        0
    };
    loop {
        call(libc::SYS_exit as u32, [errno, 0, 0, 0, 0, 0]);
    }
}
