//! A keeper: holds one program's tree together where no cgroup can.
//!
//! It is a fork of init that is a child subreaper. Whatever the program leaves behind, double-forked
//! or in a session of its own, becomes the keeper's child, never init's. So the tree is exactly what
//! descends from the keeper, and when the keeper has no child left it ends: its pidfd is the event
//! "this tree is empty".
//!
//! A program of the same user can signal its keeper. Init undoes a stop at once. A keeper that was
//! killed is lost: what it kept becomes init's child, init kills it, and then reports the end of the
//! program in the keeper's place. Its start too, because a program can be quicker than its keeper:
//! then the keeper's own pid stands for the program's, which nobody else knew.
//!
//! ```text
//! serving ── ended with 0, all reported ──► forgotten
//!    └────── killed ──► lost ── no stray left, or deadline ──► reported
//! ```
//!
//! Best effort against a program that forks faster than /proc can be walked.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{PidfdFlags, WaitOptions, getpid, pidfd_open, set_child_subreaper};
use sandshell_sys::spawn::{SpawnError, Spawned, Stage, fork_single_threaded};
use sandshell_sys::{procfs, signal};

use crate::init::{Manner, announce, end_all, reap_one, spawn_request, tell};
use crate::protocol::{Event, Exit, SpawnRequest};

const SIGCONT: i32 = 18;
const SIGKILL: i32 = 9;

/// How long the end of a program waits for the strays of its keeper. Only uninterruptible sleep in the
/// kernel, or a program of another user, takes longer than milliseconds.
const STRAYS_DEADLINE: Duration = Duration::from_secs(10);

/// Init's keepers.
#[derive(Debug, Default)]
pub(crate) struct Keepers {
    /// Those that run, by pid.
    serving: HashMap<i32, Keeper>,
    /// Those that were killed, and when this is reported at the latest.
    lost: Vec<(Lost, Instant)>,
    /// Whether a keeper was ever lost. Until then init cannot have strays.
    strays_possible: bool,
}

#[derive(Debug)]
struct Keeper {
    /// The number of the request.
    id: u64,
    pidfd: OwnedFd,
}

/// A keeper that was killed.
#[derive(Debug)]
pub(crate) struct Lost {
    /// The number of the request.
    pub(crate) id: u64,
    pub(crate) pid: i32,
    pub(crate) pidfd: OwnedFd,
}

impl Keepers {
    /// How many run.
    pub(crate) fn len(&self) -> usize {
        self.serving.len()
    }

    /// Forks a keeper that starts the program and reports for it.
    pub(crate) fn start(
        &mut self,
        socket: &OwnedFd,
        request: &SpawnRequest,
        fds: Vec<OwnedFd>,
        manner: Manner<'_>,
    ) -> Result<(), Errno> {
        let Some(Spawned { pid, pidfd }) = fork_single_threaded()? else {
            keep(socket, request, fds, manner);
            std::process::exit(0);
        };
        let id = request.id;
        self.serving.insert(pid, Keeper { id, pidfd });
        Ok(())
    }

    /// A child of init was stopped. Nobody but init would let a keeper go on.
    pub(crate) fn stopped(&self, pid: i32) {
        if let Some(keeper) = self.serving.get(&pid) {
            let _ = signal::send(&keeper.pidfd, SIGCONT);
        }
    }

    /// A child of init was reaped. A keeper that ended by itself has reported all before.
    pub(crate) fn reaped(&mut self, pid: i32, exit: Exit) {
        if let Some(Keeper { id, pidfd }) = self.serving.remove(&pid)
            && exit != Exit::Code(0)
        {
            let lost = Lost { id, pid, pidfd };
            self.lost.push((lost, Instant::now() + STRAYS_DEADLINE));
            self.strays_possible = true;
        }
    }

    /// Kills what lost keepers left to init: each of its children that `is_known` does not name and
    /// that is no keeper. Says which keepers are to be reported for. To be asked after each reaping: the
    /// end of a stray makes its children strays of ours, so none is missed.
    pub(crate) fn sweep(&mut self, is_known: impl Fn(i32) -> bool) -> Vec<Lost> {
        if !self.strays_possible {
            return Vec::new();
        }
        let children = procfs::children(getpid().as_raw_pid());
        // Where it cannot be looked, there may be some.
        let looked = children.is_ok();
        let mut strays = children.unwrap_or_default();
        strays.retain(|pid| !self.serving.contains_key(pid) && !is_known(*pid));
        for &stray in &strays {
            for pid in procfs::descendants(stray).unwrap_or_default() {
                kill_below(pid, stray);
            }
            // Our own child has its pid until we reap it.
            if let Ok(pinned) = procfs::pin(stray) {
                let _ = signal::send(&pinned, SIGKILL);
            }
        }
        let now = Instant::now();
        self.lost
            .extract_if(.., |(_, deadline)| {
                (looked && strays.is_empty()) || *deadline <= now
            })
            .map(|(lost, _)| lost)
            .collect()
    }

    /// How long the next sweep can wait when no child ends.
    pub(crate) fn next_sweep(&self) -> Option<Duration> {
        let (_, first) = self.lost.first()?;
        Some(first.saturating_duration_since(Instant::now()))
    }
}

/// Kills a process if, once pinned, it descends from a stray.
fn kill_below(pid: i32, stray: i32) {
    if let Ok(pinned) = procfs::pin(pid)
        && procfs::is_below(pid, stray) == Ok(true)
    {
        let _ = signal::send(&pinned, SIGKILL);
    }
}

fn keep(socket: &OwnedFd, request: &SpawnRequest, fds: Vec<OwnedFd>, manner: Manner<'_>) {
    let id = request.id;
    let clone_failed = |errno| SpawnError {
        stage: Stage::Clone,
        errno,
    };
    let started = set_child_subreaper(Some(getpid()))
        .and_then(|()| pidfd_open(getpid(), PidfdFlags::empty()))
        .map_err(clone_failed)
        .and_then(|own| Ok((own, spawn_request(request, &fds, manner)?)));
    // The program's pipes must have no other holder, or their end would never be seen.
    drop(fds);
    let (keeper, program) = match started {
        Ok(started) => started,
        Err(SpawnError { stage, errno }) => {
            tell(socket, &Event::Failed { id, stage, errno });
            return;
        }
    };
    let pid = program.pid;
    if !announce(socket, id, program, Some(keeper)) {
        end_all(false);
        return;
    }
    while let Some((ended, exit)) = reap_one(WaitOptions::empty()) {
        if ended == pid {
            tell(socket, &Event::Exited { id, exit });
        }
    }
}
