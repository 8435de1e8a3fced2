//! How soon a thread has its turn.

/// The shortest turn the kernel knows, in nanoseconds.
const SHORTEST: u64 = 100_000;

/// Tells the kernel that this thread runs for a moment each time it is woken, as one does that passes messages on:
/// since Linux 6.12 whoever asks for short turns has them soon, before those who compute. It gets no more of the processor by
/// it, and what is forked has turns as usual. Who was given another policy or priority than the usual keeps it.
#[allow(unsafe_code, reason = "no wrapper sets what a turn is")]
pub fn ask_for_short_ones() {
    // SAFETY: the call asks for a number of this thread's.
    let policy = unsafe { libc::sched_getscheduler(0) };
    let nice = rustix::process::getpriority_process(None);
    let Some(nice) = nice
        .ok()
        .filter(|nice| *nice >= 0 && policy == libc::SCHED_OTHER)
    else {
        return;
    };
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_OTHER as u32,
        sched_flags: libc::SCHED_FLAG_RESET_ON_FORK as u64,
        sched_nice: nice,
        sched_priority: 0,
        sched_runtime: SHORTEST,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the call reads the structure, whose size it is told, and changes only how this thread is scheduled.
    unsafe {
        libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0);
    }
}
