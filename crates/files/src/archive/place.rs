//! Puts an unpacked tree where it belongs.
//!
//! ```text
//! merge_into:  staging in the target ─► all unpacked ─► no conflict? ─► renamed into place
//! replace:     staging beside it ─► all unpacked, attributes set ─► swapped in one step ─► old removed
//!              (staging in it, when the target is a mount point or its parent cannot be written:
//!               old entries out, new ones in, undone when one of these fails)
//! ```
//!
//! Until the last step nothing of the target has changed; a failure before it leaves nothing behind.
//!
//! Unlike `crate::place`, which gives one new thing its name, this takes trees apart: they are joined
//! with what is there, or exchanged with it where even a mount point cannot be renamed.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, StatxAttributes, StatxFlags, fchmod, mkdirat,
    renameat, renameat_with, statat, statx,
};
use rustix::io::Errno;
use sandshell_exec::inside::{Follow, Root};
use sandshell_types::ArchiveCounts;

use super::Progress;
use super::staging::{PREFIX, Staging};
use super::unpack::{Unpacked, unpack};
use crate::dirs::open_dir;
use crate::tree::names_in;
use crate::walk::MAX_LEVELS;
use crate::{FileError, Stop};

/// Unpacks an archive into a directory, which is made if need be; what else is in it stays.
pub fn merge_into(
    root: &Root,
    target: &Path,
    input: impl Read,
    stop: &Stop,
) -> Result<ArchiveCounts, FileError> {
    let (base, missing) = deepest(root, target)?;
    let mut staging = Staging::new(root, base).map_err(FileError::at(target))?;
    let unpacked = unpack(input, staging.dir(), stop, &|_| {}).map_err(|e| named(e, target))?;
    if missing.is_empty() {
        let mut there_before = HashSet::from([PathBuf::new()]);
        let base = staging.parent();
        let mut merge = Merge {
            target,
            there_before: &mut there_before,
            path: PathBuf::new(),
        };
        merge.check(staging.dir(), base.as_fd())?;
        merge.run(staging.dir(), base.as_fd())?;
        unpacked
            .finish(base, &there_before)
            .map_err(|e| named(e, target))?;
    } else {
        move_to_missing(&mut staging, &missing, target)?;
        unpacked
            .finish(staging.dir(), &HashSet::new())
            .map_err(|e| named(e, target))?;
    }
    Ok(unpacked.counts)
}

/// Puts an archive in the place of a directory: all of it, or nothing. `accept` has the last word
/// before anything changes.
pub fn replace(
    root: &Root,
    target: &Path,
    input: impl Read,
    stop: &Stop,
    progress: Progress<'_>,
    accept: impl FnOnce(&ArchiveCounts) -> Result<(), FileError>,
) -> Result<ArchiveCounts, FileError> {
    let at = || FileError::at(target);
    let (base, missing) = deepest(root, target)?;
    let unpack_here = |staging: &OwnedFd| -> Result<Unpacked, FileError> {
        let unpacked = unpack(input, staging, stop, progress).map_err(|e| named(e, target))?;
        accept(&unpacked.counts)?;
        Ok(unpacked)
    };
    if !missing.is_empty() {
        let mut staging = Staging::new(root, base).map_err(at())?;
        let unpacked = unpack_here(staging.dir())?;
        move_to_missing(&mut staging, &missing, target)?;
        let finished = unpacked.finish(staging.dir(), &HashSet::new());
        finished.map_err(|e| named(e, target))?;
        return Ok(unpacked.counts);
    }
    if let Some((parent, name)) = swappable(root, target, &base)
        && let Ok(staging) = Staging::new(root, parent)
    {
        let unpacked = unpack_here(staging.dir())?;
        fchmod(staging.dir(), Mode::from_raw_mode(0o755)).map_err(at())?;
        let finished = unpacked.finish(staging.dir(), &HashSet::new());
        finished.map_err(|e| named(e, target))?;
        renameat_with(
            staging.parent(),
            staging.name(),
            staging.parent(),
            &name,
            RenameFlags::EXCHANGE,
        )
        .map_err(at())?;
        // What has the staging's name now is the old tree, and goes with it.
        return Ok(unpacked.counts);
    }
    let staging = Staging::new(root, base).map_err(at())?;
    let new = sub_directory(&staging, "new").map_err(at())?;
    let old = sub_directory(&staging, "old").map_err(at())?;
    let unpacked = unpack_here(&new)?;
    change_content(staging.parent(), &new, &old).map_err(at())?;
    let finished = unpacked.finish(staging.parent(), &HashSet::from([PathBuf::new()]));
    finished.map_err(|e| named(e, target))?;
    Ok(unpacked.counts)
}

/// Paths of entries, as the user would name them.
fn named(error: FileError, target: &Path) -> FileError {
    match error {
        FileError::At { path, errno } => FileError::At {
            path: target.join(path),
            errno,
        },
        other => other,
    }
}

/// The deepest directory on a path that is there, and the names that are missing below it.
fn deepest(root: &Root, target: &Path) -> Result<(OwnedFd, Vec<OsString>), FileError> {
    let mut missing = Vec::new();
    let mut path = target;
    loop {
        match root.find(path, Follow::Yes) {
            Ok(found) => {
                let dir = root
                    .open(found, OFlags::RDONLY | OFlags::DIRECTORY)
                    .map_err(FileError::at(path))?;
                missing.reverse();
                return Ok((dir, missing));
            }
            Err(Errno::NOENT) => {
                let (Some(parent), Some(Component::Normal(name))) =
                    (path.parent(), path.components().next_back())
                else {
                    return Err(FileError::at(target)(Errno::NOENT));
                };
                missing.push(name.to_owned());
                path = parent;
            }
            Err(errno) => return Err(FileError::at(target)(errno)),
        }
    }
}

/// Makes the missing directories but the last, and gives its name to the staging directory.
fn move_to_missing(
    staging: &mut Staging<'_>,
    missing: &[OsString],
    target: &Path,
) -> Result<(), FileError> {
    let at = || FileError::at(target);
    fchmod(staging.dir(), Mode::from_raw_mode(0o755)).map_err(at())?;
    let Some((last, parents)) = missing.split_last() else {
        return Ok(());
    };
    let mut parent = None;
    for name in parents {
        let above = parent.as_ref().unwrap_or(staging.parent());
        match mkdirat(above, name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(at()(errno)),
        }
        parent = Some(open_dir(above.as_fd(), name).map_err(at())?);
    }
    let parent = parent.as_ref().unwrap_or(staging.parent());
    renameat_with(
        staging.parent(),
        staging.name(),
        parent,
        last,
        RenameFlags::NOREPLACE,
    )
    .map_err(at())?;
    staging.was_moved();
    Ok(())
}

/// The parent and the name of a directory that can be swapped with another: not through a link, and
/// not a mount point.
fn swappable(root: &Root, target: &Path, dir: &OwnedFd) -> Option<(OwnedFd, OsString)> {
    let (found, name) = root.find_parent(target).ok()?;
    let stat = root.stat_at(&found, &name).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return None;
    }
    let is_mount =
        |stat: &rustix::fs::Statx| stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT);
    let own = statx(dir, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS).ok()?;
    (!is_mount(&own)).then_some((found, name))
}

fn sub_directory(staging: &Staging<'_>, name: &str) -> Result<OwnedFd, Errno> {
    mkdirat(staging.dir(), name, Mode::RWXU)?;
    open_dir(staging.dir().as_fd(), OsStr::new(name))
}

/// Moves what is in a directory to `old`, and what is in `new` into it; undoes it when that fails.
fn change_content(target: &OwnedFd, new: &OwnedFd, old: &OwnedFd) -> Result<(), Errno> {
    let mut done: Vec<(&OwnedFd, &OwnedFd, OsString)> = Vec::new();
    let mut all = |from, to, names: Vec<OsString>| -> Result<(), Errno> {
        for name in names {
            renameat(from, &name, to, &name)?;
            done.push((from, to, name));
        }
        Ok(())
    };
    let leaving = names_in(target)?
        .into_iter()
        .filter(|name| !name.to_string_lossy().starts_with(PREFIX))
        .collect();
    let changed = all(target, old, leaving).and_then(|()| all(new, target, names_in(new)?));
    if let Err(errno) = changed {
        for (from, to, name) in done.iter().rev() {
            if let Err(errno) = renameat(*to, name, *from, name) {
                tracing::error!(%errno, ?name, "a restore that failed cannot be undone");
            }
        }
        return Err(errno);
    }
    Ok(())
}

/// Moves a tree into another.
struct Merge<'a> {
    target: &'a Path,
    /// Directories of the other tree that got something.
    there_before: &'a mut HashSet<PathBuf>,
    path: PathBuf,
}

impl Merge<'_> {
    /// Fails when something of another kind is in the way of a directory, or a directory in the way.
    fn check(&mut self, from: &OwnedFd, to: BorrowedFd<'_>) -> Result<(), FileError> {
        self.each(from, to, |merge, name, here, there| match there {
            Some(there) if here == FileType::Directory && there == FileType::Directory => {
                merge.both(from, to, name, Self::check)
            }
            Some(FileType::Directory) => Err(merge.failed(name, Errno::ISDIR)),
            Some(_) if here == FileType::Directory => Err(merge.failed(name, Errno::NOTDIR)),
            None | Some(_) => Ok(()),
        })
    }

    fn run(&mut self, from: &OwnedFd, to: BorrowedFd<'_>) -> Result<(), FileError> {
        self.each(from, to, |merge, name, here, there| {
            if here == FileType::Directory && there == Some(FileType::Directory) {
                merge.there_before.insert(merge.path.join(name));
                return merge.both(from, to, name, Self::run);
            }
            renameat(from, name, to, name).map_err(|errno| merge.failed(name, errno))
        })
    }

    fn each(
        &mut self,
        from: &OwnedFd,
        to: BorrowedFd<'_>,
        mut act: impl FnMut(&mut Self, &OsStr, FileType, Option<FileType>) -> Result<(), FileError>,
    ) -> Result<(), FileError> {
        let names = names_in(from).map_err(|errno| self.failed(OsStr::new(""), errno))?;
        for name in names {
            let kind = |dir: BorrowedFd<'_>| {
                statat(dir, &name, AtFlags::SYMLINK_NOFOLLOW)
                    .map(|stat| FileType::from_raw_mode(stat.st_mode))
            };
            let here = kind(from.as_fd()).map_err(|errno| self.failed(&name, errno))?;
            let there = match kind(to) {
                Ok(there) => Some(there),
                Err(Errno::NOENT) => None,
                Err(errno) => return Err(self.failed(&name, errno)),
            };
            act(self, &name, here, there)?;
        }
        Ok(())
    }

    fn both(
        &mut self,
        from: &OwnedFd,
        to: BorrowedFd<'_>,
        name: &OsStr,
        act: impl FnOnce(&mut Self, &OwnedFd, BorrowedFd<'_>) -> Result<(), FileError>,
    ) -> Result<(), FileError> {
        if self.path.components().count() > MAX_LEVELS {
            return Err(self.failed(name, Errno::NAMETOOLONG));
        }
        let open = |dir: BorrowedFd<'_>| open_dir(dir, name);
        let inner_from = open(from.as_fd()).map_err(|errno| self.failed(name, errno))?;
        let inner_to = open(to).map_err(|errno| self.failed(name, errno))?;
        self.path.push(name);
        let result = act(self, &inner_from, inner_to.as_fd());
        self.path.pop();
        result
    }

    fn failed(&self, name: &OsStr, errno: Errno) -> FileError {
        FileError::At {
            path: self.target.join(&self.path).join(name),
            errno,
        }
    }
}
