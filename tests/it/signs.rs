//! Signs that a test waits for: a FIFO that what runs inside writes to, and the kernel's word that
//! something changed.

use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{FileType, Mode};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;

use crate::calls::{DEADLINE, in_time};

/// A FIFO that programs ring by writing a byte each.
pub(crate) struct Bell {
    path: PathBuf,
    /// Open for writing too: it never reads as ended.
    pipe: pipe::Receiver,
}

impl Bell {
    /// Whoever opens it for writing finds a reader, whether somebody waits or not.
    pub(crate) fn hang(dir: &Path) -> Self {
        let path = dir.join("bell");
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, mode, 0).unwrap();
        let mut options = pipe::OpenOptions::new();
        let pipe = options.read_write(true).open_receiver(&path).unwrap();
        Self { path, pipe }
    }

    pub(crate) fn path(&self) -> std::path::Display<'_> {
        self.path.display()
    }

    /// Waits until it has been rung so often.
    pub(crate) async fn rung(&mut self, times: usize) {
        let mut bytes = vec![0; times];
        in_time(self.pipe.read_exact(&mut bytes)).await.unwrap();
    }

    /// Waits until no program has it open. One that will have must have rung before.
    pub(crate) async fn let_go(self) {
        let mut reader = pipe::OpenOptions::new().open_receiver(&self.path).unwrap();
        drop(self.pipe);
        in_time(reader.read_to_end(&mut Vec::new())).await.unwrap();
    }
}

/// Waits until something is so, and looks whenever the kernel tells of a change of a directory's
/// entries, or that somebody has closed a file.
pub(crate) async fn until_so(path: &Path, mut is_so: impl FnMut() -> bool) {
    let queue = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).unwrap();
    // To list a directory is to close it, too.
    let what = if path.is_dir() {
        WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::MOVE
    } else {
        WatchFlags::CLOSE
    };
    inotify::add_watch(&queue, path, what).unwrap();
    while !is_so() {
        let queue = queue.try_clone().unwrap();
        let told = tokio::task::spawn_blocking(move || {
            let deadline = rustix::event::Timespec::try_from(DEADLINE).unwrap();
            let ready = poll(&mut [PollFd::new(&queue, PollFlags::IN)], Some(&deadline));
            while rustix::io::read(&queue, &mut [0; 4096]).is_ok() {}
            ready == Ok(1)
        });
        assert!(told.await.unwrap(), "nothing changed at {}", path.display());
    }
}
