//! A walk through a tree of directories, in the order of the bytes of their names.
//!
//! Owns which name comes next, and the way there ([`Dirs`]). Does not own what is done with a name.
//! There is no recursion, links are never followed, and every name is used in the directory it was
//! read from, by descriptor: whatever is renamed meanwhile, the walk does not leave the tree it began
//! in.
//!
//! ```text
//! next() ─► name ─► enter(name) ─► next() … next() ─► none: done ─► leave() ─► next() …
//! ```
//!
//! What is to be left out on the way (globs, .gitignore) is `walk`'s, which is built on this.
//!
//! Memory is bounded: of a huge directory only the next [`BATCH`] names are held, and when the
//! directories above hold too many they forget theirs and read again from where they were.

use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use rustix::fs::{FileType, RawDir, SeekFrom, seek};
use rustix::io::Errno;

use crate::dirs::{DirId, Dirs, open_dir};

/// Names of one directory that are read and sorted at a time.
const BATCH: usize = 128 * 1024;

/// Batches held by all directories on the way together.
const HELD: usize = 2;

/// Bytes of names that are read from the kernel at a time.
const BUFFER: usize = 64 * 1024;

/// A name in the current directory.
#[derive(Debug)]
pub(crate) struct Name {
    pub(crate) name: OsString,
    /// What it was when the directory was read; not every file system says.
    pub(crate) kind: FileType,
}

#[derive(Debug, Default)]
struct Level {
    /// The name it was entered by.
    name: OsString,
    /// The next names, the last one first.
    names: Vec<(Vec<u8>, FileType)>,
    /// Names up to this one are done with, or in `names`.
    after: Option<Vec<u8>>,
    /// Whether there may be names after those.
    more: bool,
}

#[derive(Debug)]
pub(crate) struct Tree {
    dirs: Dirs,
    levels: Vec<Level>,
    hidden: bool,
    batch: usize,
}

impl Tree {
    pub(crate) fn new(top: OwnedFd) -> Result<Self, Errno> {
        Ok(Self {
            dirs: Dirs::new(top)?,
            levels: vec![Level {
                more: true,
                ..Level::default()
            }],
            hidden: true,
            batch: BATCH,
        })
    }

    /// Passes over names that begin with a dot.
    pub(crate) fn without_hidden(mut self) -> Self {
        self.hidden = false;
        self
    }

    /// The directory that the names are in.
    pub(crate) fn dir(&self) -> BorrowedFd<'_> {
        self.dirs.deepest()
    }

    pub(crate) fn dir_id(&self) -> DirId {
        self.dirs.deepest_id()
    }

    pub(crate) fn is_at_top(&self) -> bool {
        self.dirs.above() == 0
    }

    /// Where a name of the current directory is, from the top.
    pub(crate) fn path_of(&self, name: &OsStr) -> PathBuf {
        let way = self.levels.iter().skip(1).map(|level| &*level.name);
        way.chain((!name.is_empty()).then_some(name)).collect()
    }

    /// The next name in the current directory.
    pub(crate) fn next(&mut self) -> Result<Option<Name>, Errno> {
        let Some(level) = self.levels.last_mut() else {
            return Ok(None);
        };
        if level.names.is_empty() && level.more {
            level.read(self.dirs.deepest(), self.hidden, self.batch)?;
        }
        Ok(level.names.pop().map(|(name, kind)| Name {
            name: OsString::from_vec(name),
            kind,
        }))
    }

    /// Goes on behind this name of the current directory.
    pub(crate) fn skip_to(&mut self, name: &OsStr) {
        if let Some(level) = self.levels.last_mut() {
            level.start_after(Some(name.as_bytes().to_vec()));
        }
    }

    /// Begins again with the first name of the current directory.
    pub(crate) fn start_again(&mut self) {
        if let Some(level) = self.levels.last_mut() {
            level.start_after(None);
        }
    }

    /// Goes down. Fails on anything but a directory, a link to one included.
    pub(crate) fn enter(&mut self, name: &OsStr) -> Result<(), Errno> {
        let dir = open_dir(self.dirs.deepest(), name)?;
        self.dirs.enter(dir)?;
        if self
            .levels
            .iter()
            .map(|level| level.names.len())
            .sum::<usize>()
            > HELD * self.batch
        {
            self.forget_names(name);
        }
        self.levels.push(Level {
            name: name.to_owned(),
            more: true,
            ..Level::default()
        });
        Ok(())
    }

    /// Every directory on the way reads its names again when it is come back to. The last name it
    /// gave is the one that was entered.
    fn forget_names(&mut self, entered: &OsStr) {
        let below: Vec<_> = self.levels.iter().skip(1).map(|l| l.name.clone()).collect();
        let entered = below.into_iter().chain([entered.to_owned()]);
        for (level, name) in self.levels.iter_mut().zip(entered) {
            level.start_after(Some(name.into_vec()));
        }
    }

    /// Goes back up and gives the name of the directory that was left; `None` at the top.
    pub(crate) fn leave(&mut self) -> Result<Option<OsString>, Errno> {
        if !self.dirs.leave()? {
            return Ok(None);
        }
        Ok(self.levels.pop().map(|level| level.name))
    }
}

impl Level {
    fn start_after(&mut self, name: Option<Vec<u8>>) {
        self.names = Vec::new();
        self.after = name;
        self.more = true;
    }

    fn read(&mut self, dir: BorrowedFd<'_>, hidden: bool, batch: usize) -> Result<(), Errno> {
        seek(dir, SeekFrom::Start(0))?;
        self.more = false;
        let mut buffer = vec![MaybeUninit::uninit(); BUFFER];
        let mut entries = RawDir::new(dir, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            let dot = name.first() == Some(&b'.');
            let wanted = if dot {
                hidden && name != b"." && name != b".."
            } else {
                true
            };
            if wanted && self.after.as_deref().is_none_or(|after| name > after) {
                self.names.push((name.to_vec(), entry.file_type()));
                if self.names.len() >= 2 * batch {
                    self.cut(batch);
                }
            }
        }
        if self.names.len() > batch {
            self.cut(batch);
        }
        self.names.sort_unstable_by(|a, b| b.0.cmp(&a.0));
        if self.more {
            self.after = self.names.first().map(|(name, _)| name.clone());
        }
        Ok(())
    }

    /// Keeps the first names.
    fn cut(&mut self, batch: usize) {
        self.names
            .select_nth_unstable_by(batch - 1, |a, b| a.0.cmp(&b.0));
        self.names.truncate(batch);
        self.more = true;
    }
}

/// All names of one directory in order, for trees of our own making.
pub(crate) fn names_in(dir: impl AsFd) -> Result<Vec<OsString>, Errno> {
    let mut level = Level::default();
    level.read(dir.as_fd(), true, usize::MAX / 2)?;
    let names = level.names.into_iter().rev();
    Ok(names.map(|(name, _)| OsString::from_vec(name)).collect())
}

#[cfg(test)]
mod tests;
