//! Waiting for the ready file.
//!
//! The watch is set before the agent starts, so that no event can be missed.

use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::inotify;
use rustix::io::Errno;
use serde::Deserialize;

use crate::pidfd;

/// What the agent writes once it serves requests.
#[derive(Debug, Deserialize)]
pub(crate) struct Ready {
    pub(crate) url: String,
}

/// Why there is no ready agent.
#[derive(Debug)]
pub(crate) enum NotReady {
    Exited,
    Deadline,
}

pub(crate) struct ReadyFile {
    path: PathBuf,
    inotify: OwnedFd,
}

impl ReadyFile {
    pub(crate) fn watch(dir: &Path, name: &str) -> Self {
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let inotify = inotify::init(flags).expect("inotify is there");
        // Both ways to write it: in place, and by a rename.
        let events = inotify::WatchFlags::CLOSE_WRITE | inotify::WatchFlags::MOVED_TO;
        inotify::add_watch(&inotify, dir, events).expect("the directory can be watched");
        Self {
            path: dir.join(name),
            inotify,
        }
    }

    pub(crate) fn wait(&self, agent: BorrowedFd<'_>, deadline: Instant) -> Result<Ready, NotReady> {
        loop {
            // A file written in place may be incomplete; the close that follows is an event.
            if let Ok(text) = fs::read(&self.path)
                && let Ok(ready) = serde_json::from_slice(&text)
            {
                return Ok(ready);
            }
            if !pidfd::wait_readable(&[self.inotify.as_fd(), agent], deadline) {
                return Err(NotReady::Deadline);
            }
            if pidfd::wait_readable(&[agent], Instant::now()) {
                return Err(NotReady::Exited);
            }
            self.drain();
        }
    }

    fn drain(&self) {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&self.inotify, &mut buffer);
        loop {
            match events.next() {
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(error) => panic!("inotify: {error}"),
            }
        }
    }
}
