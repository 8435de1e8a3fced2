//! A keeper: holds one program's tree together where no cgroup can.
//!
//! It is a fork of init that is a child subreaper. Whatever the program leaves behind, double-forked
//! or in a session of its own, becomes the keeper's child, never init's. So the tree is exactly what
//! descends from the keeper, and when the keeper has no child left it ends: its pidfd is the event
//! "this tree is empty".
//!
//! Best effort against a program that forks faster than /proc can be walked, and against one of the
//! same user that kills its keeper.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::process::{PidfdFlags, WaitOptions, getpid, pidfd_open, set_child_subreaper};
use sandshell_sys::spawn::{SpawnError, Stage, fork_single_threaded};

use crate::init::{reap_one, send, spawn_request};
use crate::protocol::{Event, SpawnRequest};

/// Forks a keeper that starts the program and reports for it.
pub(crate) fn start(
    socket: &OwnedFd,
    request: &SpawnRequest,
    fds: Vec<OwnedFd>,
    avoid_clone3: bool,
) -> Result<(), Errno> {
    if fork_single_threaded()?.is_none() {
        keep(socket, request, fds, avoid_clone3);
        std::process::exit(0);
    }
    Ok(())
}

fn keep(socket: &OwnedFd, request: &SpawnRequest, fds: Vec<OwnedFd>, avoid_clone3: bool) {
    let id = request.id;
    let clone_failed = |errno| SpawnError {
        stage: Stage::Clone,
        errno,
    };
    let started = set_child_subreaper(Some(getpid()))
        .and_then(|()| pidfd_open(getpid(), PidfdFlags::empty()))
        .map_err(clone_failed)
        .and_then(|own| Ok((own, spawn_request(request, &fds, avoid_clone3)?)));
    // The program's pipes must have no other holder, or their end would never be seen.
    drop(fds);
    let (keeper, program) = match started {
        Ok(started) => started,
        Err(SpawnError { stage, errno }) => {
            send(socket, &Event::Failed { id, stage, errno });
            return;
        }
    };
    let pid = program.pid;
    send(
        socket,
        &Event::Spawned {
            id,
            pid,
            pidfd: program.pidfd,
            keeper: Some(keeper),
        },
    );
    while let Some((ended, exit)) = reap_one(WaitOptions::empty()) {
        if ended == pid {
            send(socket, &Event::Exited { id, exit });
        }
    }
}
