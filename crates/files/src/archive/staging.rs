//! A directory of our own in one of the user's, for what is not finished; gone when dropped.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, mkdirat, openat, statat, unlinkat};
use rustix::io::Errno;
use sandshell_exec::inside::Root;

use crate::dirs::open_dir;
use crate::tree::names_in;
use crate::walk::MAX_LEVELS;

/// Begins the names of our directories. They are removed in every case but a crash of the agent.
pub(super) const PREFIX: &str = ".sandshell-staging-";

/// How often another name is tried when one is taken.
const TRIES: u32 = 100;

/// A directory of our own.
#[derive(Debug)]
pub(super) struct Staging<'a> {
    root: &'a Root,
    parent: OwnedFd,
    name: OsString,
    dir: OwnedFd,
    /// It has been moved to where it belongs.
    moved: bool,
}

impl<'a> Staging<'a> {
    /// Makes one in a directory.
    pub(super) fn new(root: &'a Root, parent: OwnedFd) -> Result<Self, Errno> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        for _ in 0..TRIES {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            let nanoseconds = now.map_or(0, |now| now.as_nanos());
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = OsString::from(format!("{PREFIX}{nanoseconds:x}-{count:x}"));
            match mkdirat(&parent, &name, Mode::RWXU) {
                Err(Errno::EXIST) => continue,
                made => made?,
            }
            let dir = open_dir(parent.as_fd(), &name)?;
            return Ok(Self {
                root,
                parent,
                name,
                dir,
                moved: false,
            });
        }
        Err(Errno::EXIST)
    }

    pub(super) fn dir(&self) -> &OwnedFd {
        &self.dir
    }

    pub(super) fn parent(&self) -> &OwnedFd {
        &self.parent
    }

    pub(super) fn name(&self) -> &OsStr {
        &self.name
    }

    /// Its name now means nothing of ours.
    pub(super) fn was_moved(&mut self) {
        self.moved = true;
    }
}

impl Drop for Staging<'_> {
    fn drop(&mut self) {
        if self.moved {
            return;
        }
        if let Err(errno) = remove_tree(self.root, self.parent.as_fd(), &self.name, 0) {
            tracing::warn!(%errno, name = ?self.name, "a staging directory cannot be removed");
        }
    }
}

/// Removes a tree without following links. Directories that forbid it are made to allow it, which a
/// removal that a user asked for (`change.rs`) never does: here it is what an archive made.
pub(super) fn remove_tree(
    root: &Root,
    parent: BorrowedFd<'_>,
    name: &OsStr,
    level: usize,
) -> Result<(), Errno> {
    let stat = match statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(()),
        stat => stat?,
    };
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return unlinkat(parent, name, AtFlags::empty());
    }
    // An empty one, or a mount point, is dealt with by the kernel.
    match unlinkat(parent, name, AtFlags::REMOVEDIR) {
        Err(Errno::NOTEMPTY | Errno::EXIST) => {}
        removed => return removed,
    }
    if level > 2 * MAX_LEVELS {
        return Err(Errno::NAMETOOLONG);
    }
    let dir = match open_dir(parent, name) {
        Err(Errno::ACCESS) => {
            allow(root, parent, name)?;
            open_dir(parent, name)?
        }
        dir => dir?,
    };
    if stat.st_mode & 0o300 != 0o300 && fstat(&dir)?.st_mode & 0o300 != 0o300 {
        // For root it makes no difference.
        let _ = allow(root, parent, name);
    }
    for inner in names_in(&dir)? {
        remove_tree(root, dir.as_fd(), &inner, level + 1)?;
    }
    unlinkat(parent, name, AtFlags::REMOVEDIR)
}

fn allow(root: &Root, parent: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let found = openat(parent, name, flags, Mode::empty())?;
    root.chmod(found, Mode::RWXU)
}
