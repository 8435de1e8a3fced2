//! A way down from one directory, held open by descriptors.
//!
//! Owns the descriptors of the directories between where a walk began and where it is. However deep
//! it goes, at most [`OPEN`] are open: the highest are closed first and opened again on the way back
//! through `..`, and then must be the very directories they were.
//!
//! Invariant: the deepest directory is always open.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use rustix::path::Arg;

/// Most directories that one walk holds open.
const OPEN: usize = 32;

/// Which directory it is, whatever it is called.
pub(crate) type DirId = (u64, u64);

/// Opens a directory by its name in another: never through a link. Anything else is refused before it
/// is opened.
pub(crate) fn open_dir(dir: impl AsFd, name: impl Arg) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(dir, name, flags, Mode::empty())
}

#[derive(Debug)]
pub(crate) struct Dirs {
    /// From the top down; those before `closed` have no descriptor.
    way: Vec<(Option<OwnedFd>, DirId)>,
    closed: usize,
    deepest: OwnedFd,
    deepest_id: DirId,
}

pub(crate) fn id_of(dir: impl AsFd) -> Result<DirId, Errno> {
    let stat = fstat(dir)?;
    Ok((stat.st_dev, stat.st_ino))
}

impl Dirs {
    pub(crate) fn new(top: OwnedFd) -> Result<Self, Errno> {
        Ok(Self {
            deepest_id: id_of(&top)?,
            deepest: top,
            way: Vec::new(),
            closed: 0,
        })
    }

    pub(crate) fn deepest(&self) -> BorrowedFd<'_> {
        self.deepest.as_fd()
    }

    pub(crate) fn deepest_id(&self) -> DirId {
        self.deepest_id
    }

    /// Directories above the deepest.
    pub(crate) fn above(&self) -> usize {
        self.way.len()
    }

    #[cfg(test)]
    pub(crate) fn open(&self) -> usize {
        1 + self.way.iter().filter(|(dir, _)| dir.is_some()).count()
    }

    /// Goes down into a directory that was opened.
    pub(crate) fn enter(&mut self, dir: OwnedFd) -> Result<(), Errno> {
        let id = id_of(&dir)?;
        let left = std::mem::replace(&mut self.deepest, dir);
        self.way.push((Some(left), self.deepest_id));
        self.deepest_id = id;
        while self.way.len() - self.closed >= OPEN {
            if let Some((dir, _)) = self.way.get_mut(self.closed) {
                *dir = None;
            }
            self.closed += 1;
        }
        Ok(())
    }

    /// Goes back up. False at the top. `ENOENT` when the directory was moved elsewhere meanwhile and
    /// the way back is lost.
    pub(crate) fn leave(&mut self) -> Result<bool, Errno> {
        let Some((dir, id)) = self.way.pop() else {
            return Ok(false);
        };
        self.closed = self.closed.min(self.way.len());
        let dir = if let Some(dir) = dir {
            dir
        } else {
            let above = open_dir(&self.deepest, "..")?;
            if id_of(&above)? != id {
                return Err(Errno::NOENT);
            }
            above
        };
        (self.deepest, self.deepest_id) = (dir, id);
        Ok(true)
    }
}
