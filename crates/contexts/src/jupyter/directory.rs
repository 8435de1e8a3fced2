//! The directory a kernel's sockets lie in.
//!
//! It is in the sandbox's /tmp, because the kernel must reach it by a short path, and only the kernel's
//! user can enter it. Its name and that user are noted in the agent's own directory before it is made:
//! what an agent that was killed has left there is removed at the next start.
//!
//! ```text
//! noted ─► made ─► used ─► removed ─► note removed
//!                   └── agent killed ─► next start ──┘
//! ```

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::io::Errno;
use sandshell_exec::Executor;
use sandshell_exec::inside::{Follow, Root, Who};
use sandshell_types::ContextId;
use tokio::net::UnixStream;

use crate::ContextError;

/// Where in the sandbox they are.
const PLACE: &str = "/tmp";

/// Itself, not what a link leads to.
const ITSELF: OFlags = OFlags::DIRECTORY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// The notes of all there are.
#[derive(Debug, Clone)]
pub(crate) struct Directories {
    notes: PathBuf,
}

impl Directories {
    /// Opens the notes, and removes what a former agent has noted and not removed.
    pub(crate) async fn open(executor: &Executor, notes: PathBuf) -> io::Result<Self> {
        let left = match std::fs::read_dir(&notes) {
            // Nothing was ever noted.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self { notes }),
            left => left?,
        };
        for note in left {
            let note = note?.path();
            let user = std::fs::read_to_string(&note).unwrap_or_default();
            let user = Some(user.as_str()).filter(|user| !user.is_empty());
            // A user that is gone has nothing left that we could remove with its rights.
            if let Ok(who) = executor.who(user) {
                let path = Path::new(PLACE).join(note.file_name().unwrap_or_default());
                let left = Directory {
                    executor: executor.clone(),
                    who,
                    path,
                    note,
                };
                left.remove().await;
            } else {
                std::fs::remove_file(note)?;
            }
        }
        Ok(Self { notes })
    }

    /// Makes one for a kernel of a user.
    pub(super) async fn make(
        &self,
        executor: &Executor,
        user: Option<&str>,
    ) -> Result<Directory, ContextError> {
        let name = format!("sandshell-{}", ContextId::generate());
        let directory = Directory {
            executor: executor.clone(),
            who: executor.who(user)?,
            path: Path::new(PLACE).join(&name),
            note: self.notes.join(&name),
        };
        self.note(&directory.note, user.unwrap_or_default())
            .map_err(|error| ContextError::start(format!("cannot note a directory: {error}")))?;
        let made = directory
            .run(|root, path| {
                let (parent, name) = root.find_parent(path)?;
                mkdirat(&parent, &name, Mode::RWXU)
            })
            .await;
        if made.is_err() {
            directory.forget();
        }
        made.map(|()| directory)
    }

    fn note(&self, path: &Path, user: &str) -> io::Result<()> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.notes)?;
        std::fs::write(path, user)
    }
}

/// One of them.
#[derive(Debug)]
pub(super) struct Directory {
    executor: Executor,
    who: Who,
    path: PathBuf,
    note: PathBuf,
}

impl Directory {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Does something inside, with the user's rights.
    async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Root, &Path) -> Result<T, Errno> + Send + 'static,
    ) -> Result<T, ContextError> {
        let path = self.path.clone();
        let done = self.executor.inside();
        match done.run(&self.who, move |root| job(root, &path)).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(errno)) => Err(ContextError::start(format!(
                "cannot use {}: {errno}",
                self.path.display()
            ))),
            Err(error) => Err(ContextError::start(error.to_string())),
        }
    }

    /// Writes a new file in it.
    pub(super) async fn write(
        &self,
        name: &'static str,
        content: String,
    ) -> Result<(), ContextError> {
        self.run(move |root, path| {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let file = openat(enter(root, path)?, name, flags, Mode::RUSR | Mode::WUSR)?;
            let mut rest = content.as_bytes();
            while !rest.is_empty() {
                let n = rustix::io::write(&file, rest)?;
                rest = rest.get(n..).unwrap_or_default();
            }
            Ok(())
        })
        .await
    }

    /// Connects to a socket in it. It is found with the user's rights, inside, and reached as what was
    /// found, whatever its name means by then.
    pub(super) async fn connect(&self, name: &str) -> Option<UnixStream> {
        let socket = self.path.join(name);
        let found = self.run(move |root, _| root.find(&socket, Follow::No));
        let found = found.await.ok()?;
        let stat = rustix::fs::fstat(&found).ok()?;
        if rustix::fs::FileType::from_raw_mode(stat.st_mode) != rustix::fs::FileType::Socket {
            return None;
        }
        let stream = UnixStream::connect(format!("/proc/self/fd/{}", found.as_raw_fd()));
        stream.await.ok()
    }

    /// Removes it with everything in it. What a kernel has put there beyond sockets may stay.
    pub(super) async fn remove(&self) {
        let removed = self.run(|root, path| match enter(root, path) {
            Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno),
            Ok(dir) => {
                for entry in rustix::fs::Dir::read_from(&dir)? {
                    let name = entry?.file_name().to_owned();
                    if name.to_bytes() != b"." && name.to_bytes() != b".." {
                        let _ = unlinkat(&dir, &name, AtFlags::empty());
                    }
                }
                let (parent, name) = root.find_parent(path)?;
                unlinkat(&parent, &name, AtFlags::REMOVEDIR)
            }
        });
        if let Err(error) = removed.await {
            tracing::debug!(%error, "a kernel's directory stays");
        }
        self.forget();
    }

    fn forget(&self) {
        if let Err(error) = std::fs::remove_file(&self.note) {
            let name = self.note.file_name().unwrap_or(OsStr::new(""));
            tracing::debug!(%error, ?name, "the note of a kernel's directory stays");
        }
    }
}

/// Opens it, itself.
fn enter(root: &Root, path: &Path) -> Result<std::os::fd::OwnedFd, Errno> {
    let (parent, name) = root.find_parent(path)?;
    openat(parent, name, OFlags::RDONLY | ITSELF, Mode::empty())
}
