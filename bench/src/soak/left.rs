//! What is left of sandboxes that were destroyed, and of a hub that was stopped.
//!
//! Whoever is told that a sandbox is gone finds none of its processes alive: these are looked at once. Everything
//! else is counted again for a while.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::Result;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use sandshell_testkit::children_deep;

use super::{PAUSE, looks};

const NOW: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// Processes by their pids, held so that none is taken for a later one with its pid.
pub(crate) type Processes = BTreeMap<i32, OwnedFd>;

/// What there is below the hub, but for these.
pub(crate) fn below(hub: i32, but: &[i32]) -> Result<Processes> {
    let mut found = Processes::new();
    for pid in children_deep(hub) {
        let Some(process) = Pid::from_raw(pid).filter(|_| !but.contains(&pid)) else {
            continue;
        };
        match pidfd_open(process, PidfdFlags::empty()) {
            Ok(process) => drop(found.insert(pid, process)),
            Err(Errno::SRCH) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}

/// How many live. One that has ended does not, be it collected or not.
pub(crate) fn alive(processes: &Processes) -> Result<usize> {
    let mut count = 0;
    for process in processes.values() {
        let mut waiting = [PollFd::new(process, PollFlags::IN)];
        count += usize::from(poll(&mut waiting, Some(&NOW))? == 0);
    }
    Ok(count)
}

/// Counts again until nothing is left, or until it is clear that it stays: what ends needs a moment, and longer on a
/// machine that stands still.
pub(crate) async fn left(
    wait: Duration,
    mut count: impl FnMut() -> Result<usize>,
) -> Result<usize> {
    let mut left = count()?;
    for _ in 0..looks(wait) {
        if left == 0 {
            break;
        }
        tokio::time::sleep(PAUSE).await;
        left = count()?;
    }
    Ok(left)
}

/// Whether a pid is still one of a program of ours.
pub(crate) fn is_ours(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/cmdline"))
        .is_ok_and(|line| line.starts_with("sandshell"))
}
