//! The directory through which a session's shell and the agent exchange text and output.
//!
//! It lies on a tmpfs that is mounted nowhere, held only by descriptor, so that a shell that walks
//! `..` from it finds nothing; without the right to make one, in the state directory. The agent owns
//! it: a shell can open what is there, and can neither list, add nor remove.
//!
//! ```text
//! command  text to run            o e   output FIFOs        i   stdin of one command
//! dump exit   scripts that save   s0 s1 x y   saved states  q u restore   scripts of ours
//! t        written by the interrupt trap      r   variables noted for one command
//! d        the user's DEBUG trap, while our own lines run      b   the script that brings it back
//! ```

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, chmodat, fchmod, mkdirat, mknodat, openat, unlinkat,
};
use rustix::io::Errno;

use super::dialect::Dialect;

/// Where the directories of all shells lie.
#[derive(Debug)]
pub(crate) struct ChannelRoot {
    dir: OwnedFd,
    next: AtomicU64,
}

/// The directory of one shell; removed when dropped.
///
/// It is reached by name from the root, which only the agent can change: a session that waits for a command
/// holds no descriptor of it.
#[derive(Debug)]
pub(super) struct Channel {
    root: std::sync::Arc<ChannelRoot>,
    name: String,
}

/// Files the shell writes to.
const WRITTEN_BY_SHELL: &[&str] = &["s0", "s1", "x", "y", "t", "r", "d"];
const READ_BY_SHELL: u32 = 0o644;
/// Most bytes taken from a file that a shell wrote. A state of thousands of functions is far below.
const READ_LIMIT: u64 = 32 * 1024 * 1024;

impl ChannelRoot {
    /// The given file system, or a directory below `fallback`.
    pub(crate) fn new(given: Option<OwnedFd>, fallback: &Path) -> Result<Self, Errno> {
        let dir = given.map_or_else(|| directory(fallback), Ok)?;
        Ok(Self {
            dir,
            next: AtomicU64::new(0),
        })
    }
}

fn directory(path: &Path) -> Result<OwnedFd, Errno> {
    let mode = Mode::from_raw_mode(0o711);
    match mkdirat(rustix::fs::CWD, path, mode) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno),
    }
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let dir = openat(rustix::fs::CWD, path, flags, Mode::empty())?;
    fchmod(&dir, mode).map(|()| dir)
}

impl Channel {
    /// A fresh directory with everything a shell needs.
    pub(super) fn new(root: &std::sync::Arc<ChannelRoot>, dialect: Dialect) -> Result<Self, Errno> {
        let name = format!("sh{}", root.next.fetch_add(1, Ordering::Relaxed));
        mkdirat(&root.dir, &name, Mode::from_raw_mode(0o711))?;
        let channel = Self {
            root: root.clone(),
            name,
        };
        chmodat(
            &root.dir,
            &channel.name,
            Mode::from_raw_mode(0o711),
            AtFlags::empty(),
        )?;
        channel.write("dump", dialect.dump_script().as_bytes())?;
        channel.write("exit", dialect.exit_script().as_bytes())?;
        for file in WRITTEN_BY_SHELL {
            channel.create(file)?;
        }
        channel.make_fifos()?;
        Ok(channel)
    }

    /// The directory, to be passed to the shell.
    pub(super) fn directory(&self) -> Result<OwnedFd, Errno> {
        openat(
            &self.root.dir,
            &self.name,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )
    }

    /// The path of one of its files from the root.
    fn at(&self, file: &str) -> String {
        format!("{}/{file}", self.name)
    }

    fn create(&self, file: &str) -> Result<OwnedFd, Errno> {
        let mode = Mode::from_raw_mode(if WRITTEN_BY_SHELL.contains(&file) {
            0o666
        } else {
            READ_BY_SHELL
        });
        let fd = openat(
            &self.root.dir,
            self.at(file),
            OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW,
            mode,
        )?;
        // Whatever the agent's umask: the shell may be another user.
        fchmod(&fd, mode)?;
        Ok(fd)
    }

    /// Writes a file for the shell to read.
    pub(super) fn write(&self, file: &str, content: &[u8]) -> Result<(), Errno> {
        let fd = self.create(file)?;
        let mut rest = content;
        while !rest.is_empty() {
            let n = rustix::io::write(&fd, rest)?;
            rest = rest.get(n..).unwrap_or_default();
        }
        Ok(())
    }

    /// Writes a file anew under the same name: who has the old one open keeps it.
    pub(super) fn replace(&self, file: &str, content: &[u8]) -> Result<(), Errno> {
        match unlinkat(&self.root.dir, self.at(file), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => self.write(file, content),
            Err(errno) => Err(errno),
        }
    }

    /// Reads a file the shell wrote.
    pub(super) fn read(&self, file: &str) -> Result<Vec<u8>, Errno> {
        let fd = openat(
            &self.root.dir,
            self.at(file),
            OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW,
            Mode::empty(),
        )?;
        let mut content = Vec::new();
        // A command can write to these files too, as much as it likes.
        let mut file = std::io::Read::take(std::fs::File::from(fd), READ_LIMIT);
        std::io::Read::read_to_end(&mut file, &mut content)
            .map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
        Ok(content)
    }

    /// Whether the interrupt trap has run since its note was last cleared.
    pub(super) fn interrupt_noted(&self) -> bool {
        self.is_noted("t")
    }

    /// Whether there is something in a file the shell wrote.
    pub(super) fn is_noted(&self, file: &str) -> bool {
        rustix::fs::statat(&self.root.dir, self.at(file), AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|note| note.st_size > 0)
    }

    fn make_fifos(&self) -> Result<(), Errno> {
        for fifo in ["o", "e"] {
            mknodat(
                &self.root.dir,
                self.at(fifo),
                FileType::Fifo,
                Mode::from_raw_mode(0o622),
                0,
            )?;
            chmodat(
                &self.root.dir,
                self.at(fifo),
                Mode::from_raw_mode(0o622),
                AtFlags::empty(),
            )?;
        }
        Ok(())
    }

    /// Puts fresh FIFOs in place of those that a child left behind still holds.
    pub(super) fn rotate(&self) -> Result<(), Errno> {
        for fifo in ["o", "e"] {
            unlinkat(&self.root.dir, self.at(fifo), AtFlags::empty())?;
        }
        self.make_fifos()
    }

    /// Opens the reading ends for one command. A fresh open has no memory of earlier writers, so
    /// that "end of file" and "nobody has opened it yet" cannot be taken for each other.
    pub(super) fn open_outputs(&self) -> Result<(OwnedFd, OwnedFd), Errno> {
        let open = |fifo: &str| {
            openat(
                &self.root.dir,
                self.at(fifo),
                OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW,
                Mode::empty(),
            )
        };
        Ok((open("o")?, open("e")?))
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        let files = [
            "command", "dump", "exit", "o", "e", "i", "q", "u", "v", "b", "restore",
        ];
        for file in files.iter().chain(WRITTEN_BY_SHELL) {
            let _ = unlinkat(&self.root.dir, self.at(file), AtFlags::empty());
        }
        if let Err(errno) = unlinkat(&self.root.dir, &self.name, AtFlags::REMOVEDIR) {
            tracing::warn!(%errno, "cannot remove a session's directory");
        }
    }
}
