//! Where something new is to go, and how it gets there in one step.
//!
//! [`Place`] is a directory that was found and a name in it, with the directories in between that are
//! still missing; they are made last, when nothing else can fail. [`NewFile`] has no name until it is
//! complete (`O_TMPFILE`), or a temporary one where the file system cannot do that. Readers therefore
//! see the old file or the new one, and what breaks off leaves nothing.
//!
//! This is for one thing that appears under one name: a file, a copy. A tree that may have to join one
//! that is there is `archive/place.rs`'s.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, fsync, mkdirat, openat, readlinkat, renameat,
    renameat_with, unlinkat,
};
use rustix::io::Errno;
use sandshell_exec::inside::{Follow, Root, wants_directory};

/// Links that are followed one after the other, as many as the kernel follows.
const LINKS: usize = 40;

/// A directory in which only names are used.
const NAMES_IN: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Whether something that is there is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replace {
    Yes,
    No,
}

#[derive(Debug)]
pub(crate) struct Place {
    /// The deepest directory that is there.
    pub(crate) dir: OwnedFd,
    /// Directories to be made in it, one in the other.
    missing: Vec<OsString>,
    pub(crate) name: OsString,
}

impl Place {
    /// The place of a path, without following a link at its end.
    pub(crate) fn of(root: &Root, path: &Path, parents: bool) -> Result<Self, Errno> {
        match root.find_parent(path) {
            Ok((dir, name)) => Ok(Self {
                dir,
                missing: Vec::new(),
                name,
            }),
            Err(Errno::NOENT) if parents => Self::with_missing(root, path),
            Err(errno) => Err(errno),
        }
    }

    fn with_missing(root: &Root, path: &Path) -> Result<Self, Errno> {
        let name = path.file_name().ok_or(Errno::NOENT)?.to_owned();
        let mut missing = Vec::new();
        let mut above = path.parent().ok_or(Errno::NOENT)?;
        let dir = loop {
            match root.find_dir(above) {
                Ok(dir) => break dir,
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno),
            }
            // What `..` of a missing directory would be, nobody knows.
            let Some(Component::Normal(name)) = above.components().next_back() else {
                return Err(Errno::NOENT);
            };
            missing.push(name.to_owned());
            above = above.parent().ok_or(Errno::NOENT)?;
        };
        missing.reverse();
        Ok(Self { dir, missing, name })
    }

    /// The place where a file is written: through links, to what they lead to.
    pub(crate) fn through_links(root: &Root, path: &Path, parents: bool) -> Result<Self, Errno> {
        if wants_directory(path) {
            return Err(Errno::ISDIR);
        }
        let mut path: PathBuf = path.to_owned();
        for _ in 0..LINKS {
            let place = Self::of(root, &path, parents)?;
            match place.what_is_there(root) {
                Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink => {}
                Ok(_) | Err(Errno::NOENT) => return Ok(place),
                Err(errno) => return Err(errno),
            }
            // The kernel says whether this user may follow this link at all.
            match root.find(&path, Follow::Yes) {
                Ok(_) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno),
            }
            let target = readlinkat(&place.dir, &place.name, Vec::new())?;
            path.pop();
            path.push(OsStr::from_bytes(target.to_bytes()));
        }
        Err(Errno::LOOP)
    }

    /// What has this name now, itself when it is a link.
    pub(crate) fn what_is_there(&self, root: &Root) -> Result<rustix::fs::Stat, Errno> {
        if self.missing.is_empty() {
            root.stat_at(&self.dir, &self.name)
        } else {
            Err(Errno::NOENT)
        }
    }

    /// Makes what is missing; gives the directory of the name and what was made.
    pub(crate) fn make_missing(&self) -> Result<Made, Errno> {
        let mut made = Made {
            top: rustix::io::fcntl_dupfd_cloexec(&self.dir, 0)?,
            below: Vec::new(),
        };
        for name in &self.missing {
            if let Err(errno) = made.make(name) {
                made.take_back();
                return Err(errno);
            }
        }
        Ok(made)
    }
}

/// Directories from the one that was there to the one that is wanted.
#[derive(Debug)]
pub(crate) struct Made {
    top: OwnedFd,
    /// Each with its name, if we made it.
    below: Vec<(OwnedFd, Option<OsString>)>,
}

impl Made {
    fn make(&mut self, name: &OsStr) -> Result<(), Errno> {
        let ours = match mkdirat(self.last(), name, Mode::from_raw_mode(0o777)) {
            Ok(()) => Some(name.to_owned()),
            // Somebody else made it; it is not ours to take back.
            Err(Errno::EXIST) => None,
            Err(errno) => return Err(errno),
        };
        let dir = openat(self.last(), name, NAMES_IN, Mode::empty())?;
        self.below.push((dir, ours));
        Ok(())
    }

    /// The directory that was wanted.
    pub(crate) fn last(&self) -> BorrowedFd<'_> {
        self.below.last().map_or(&self.top, |(dir, _)| dir).as_fd()
    }

    /// Removes what was made, unless somebody has put something there.
    pub(crate) fn take_back(&self) {
        let above = [&self.top]
            .into_iter()
            .chain(self.below.iter().map(|(dir, _)| dir));
        let made: Vec<_> = above.zip(self.below.iter().map(|(_, name)| name)).collect();
        for (dir, name) in made.into_iter().rev() {
            if let Some(name) = name {
                let _ = unlinkat(dir, name, AtFlags::REMOVEDIR);
            }
        }
    }

    /// Has the names in all of them written to the disk.
    pub(crate) fn sync(&self, root: &Root) -> Result<(), Errno> {
        for dir in [&self.top]
            .into_iter()
            .chain(self.below.iter().map(|(dir, _)| dir))
        {
            fsync(root.open(dir, OFlags::RDONLY)?)?;
        }
        Ok(())
    }
}

/// A name that nothing else has.
pub(crate) fn temporary_name() -> OsString {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |now| now.subsec_nanos());
    format!(".sandshell-{}-{number}-{now:x}", std::process::id()).into()
}

/// A file in the making.
#[derive(Debug)]
pub(crate) struct NewFile {
    pub(crate) file: File,
    /// The directory and temporary name of one that could not be made without.
    named: Option<(OwnedFd, OsString)>,
}

impl NewFile {
    pub(crate) fn make(dir: BorrowedFd<'_>, mode: Mode) -> Result<Self, Errno> {
        let unnamed = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        match openat(dir, ".", unnamed, mode) {
            Ok(file) => {
                return Ok(Self {
                    file: file.into(),
                    named: None,
                });
            }
            // Each is what some file system says that has no such files.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOSYS) => {}
            Err(errno) => return Err(errno),
        }
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::RDWR | OFlags::CLOEXEC;
        loop {
            let name = temporary_name();
            match openat(dir, &name, flags, mode) {
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
                Ok(file) => {
                    return Ok(Self {
                        file: file.into(),
                        named: Some((rustix::io::fcntl_dupfd_cloexec(dir, 0)?, name)),
                    });
                }
            }
        }
    }

    /// Gives it its name. Says whether nothing had that name before.
    pub(crate) fn place(
        mut self,
        root: &Root,
        dir: BorrowedFd<'_>,
        name: &OsStr,
        replace: Replace,
    ) -> Result<bool, Errno> {
        if let Some((made_in, temporary)) = &self.named {
            match rename_new(made_in, temporary, dir, name) {
                Err(Errno::EXIST) if replace == Replace::Yes => {
                    renameat(made_in, temporary, dir, name)?;
                    self.named = None;
                    return Ok(false);
                }
                result => result?,
            }
            self.named = None;
            return Ok(true);
        }
        match root.link(&self.file, dir, name) {
            Err(Errno::EXIST) if replace == Replace::Yes => {}
            result => return result.map(|()| true),
        }
        let temporary = loop {
            let temporary = temporary_name();
            match root.link(&self.file, dir, &temporary) {
                Err(Errno::EXIST) => {}
                result => break result.map(|()| temporary)?,
            }
        };
        if let Err(errno) = renameat(dir, &temporary, dir, name) {
            let _ = unlinkat(dir, &temporary, AtFlags::empty());
            return Err(errno);
        }
        Ok(false)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // The name is ours and the directory the very one it was made in, so it does not matter with
        // whose rights it is removed.
        if let Some((dir, name)) = &self.named {
            let _ = unlinkat(dir, name, AtFlags::empty());
        }
    }
}

/// Renames; `EEXIST` when something has the new name.
pub(crate) fn rename_new(
    from_dir: impl AsFd,
    from: &OsStr,
    dir: impl AsFd,
    name: &OsStr,
) -> Result<(), Errno> {
    match renameat_with(&from_dir, from, &dir, name, RenameFlags::NOREPLACE) {
        // A file system that cannot promise it; the best left is to look first.
        Err(Errno::INVAL | Errno::NOSYS) => {
            match rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => renameat(from_dir, from, dir, name),
                Err(errno) => Err(errno),
                Ok(_) => Err(Errno::EXIST),
            }
        }
        result => result,
    }
}
