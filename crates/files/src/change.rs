//! Making directories, moving, removing, and changing modes.
//!
//! Whole trees are walked by descriptor ([`Tree`]); a link is never followed below the path that was
//! named.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, mkdirat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use sandshell_exec::inside::{Follow, Root, wants_directory};
use sandshell_types::{FileEntry, FileMode};

use crate::FileError;
use crate::copy::copy_for_move;
use crate::dirs::open_dir;
use crate::entry::entry_of;
use crate::place::{Place, rename_new};
use crate::tree::Tree;
use crate::write::bits;

/// How often a directory is emptied again because somebody filled it meanwhile.
const REFILLED: u32 = 8;

/// Found, neither opened nor followed.
const FOUND: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The entry at a place.
pub(crate) fn entry_at(
    root: &Root,
    path: &Path,
    dir: impl AsFd,
    name: &OsStr,
) -> Result<FileEntry, Errno> {
    entry_of(root, path, openat(dir, name, FOUND, Mode::empty())?)
}

/// A directory to be made.
#[derive(Debug, Clone)]
pub struct MkdirSpec {
    /// Absolute.
    pub path: PathBuf,
    /// Make what is missing above it.
    pub parents: bool,
    /// Be content with one that is there.
    pub exist_ok: bool,
    /// Its permission bits.
    pub mode: Option<FileMode>,
}

/// Makes a directory. Says whether it was made now.
pub fn mkdir(root: &Root, spec: &MkdirSpec) -> Result<(FileEntry, bool), FileError> {
    make_dir(root, spec).map_err(FileError::at(&spec.path))
}

fn make_dir(root: &Root, spec: &MkdirSpec) -> Result<(FileEntry, bool), Errno> {
    let there = |found: OwnedFd| {
        if spec.exist_ok {
            Ok((entry_of(root, &spec.path, found)?, false))
        } else {
            Err(Errno::EXIST)
        }
    };
    // Also for `/` and paths that end in `..`, which cannot be made but can be there.
    match root.find_dir(&spec.path) {
        Ok(found) => return there(found),
        Err(Errno::NOENT | Errno::NOTDIR) => {}
        Err(errno) => return Err(errno),
    }
    let place = Place::of(root, &spec.path, spec.parents)?;
    let made = place.make_missing()?;
    let mode = spec.mode.map_or(Mode::from_raw_mode(0o777), bits);
    if let Err(errno) = mkdirat(made.last(), &place.name, mode) {
        made.take_back();
        return match (errno, root.find_dir(&spec.path)) {
            (Errno::EXIST, Ok(found)) => there(found),
            (errno, _) => Err(errno),
        };
    }
    let dir = openat(made.last(), &place.name, FOUND, Mode::empty())?;
    if let Some(mode) = spec.mode {
        root.chmod(&dir, bits(mode))?;
    }
    Ok((entry_of(root, &spec.path, dir)?, true))
}

/// A move.
#[derive(Debug, Clone)]
pub struct MoveSpec {
    /// Absolute.
    pub from: PathBuf,
    /// Absolute.
    pub to: PathBuf,
    /// Replace what is there.
    pub overwrite: bool,
    /// Make missing directories.
    pub parents: bool,
}

/// Renames, or copies and removes where two file systems are involved.
pub fn rename(root: &Root, spec: &MoveSpec) -> Result<FileEntry, FileError> {
    let (from_dir, from) = root
        .find_parent(&spec.from)
        .map_err(FileError::at(&spec.from))?;
    let stat = root
        .stat_at(&from_dir, &from)
        .map_err(FileError::at(&spec.from))?;
    let at_target = || FileError::at(&spec.to);
    let place = Place::of(root, &spec.to, spec.parents).map_err(at_target())?;
    if wants_directory(&spec.to) && FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return Err(at_target()(Errno::NOTDIR));
    }
    let made = place.make_missing().map_err(at_target())?;
    let dir = made.last();
    let renamed = if spec.overwrite {
        renameat(&from_dir, &from, dir, &place.name)
    } else {
        rename_new(&from_dir, &from, dir, &place.name)
    };
    let moved = match renamed {
        Ok(()) => Ok(()),
        Err(Errno::XDEV) => copy_for_move(root, spec, (&from_dir, &from), (dir, &place.name))
            .and_then(|()| {
                let removed = RemoveSpec {
                    path: spec.from.clone(),
                    recursive: true,
                    missing_ok: true,
                };
                remove(root, &removed).map(drop)
            }),
        Err(Errno::INVAL) => Err(FileError::invalid(
            "/to",
            "a directory cannot be moved into itself",
        )),
        Err(errno) => Err(at_target()(errno)),
    };
    match moved {
        Ok(()) => entry_at(root, &spec.to, dir, &place.name).map_err(at_target()),
        Err(error) => {
            made.take_back();
            Err(error)
        }
    }
}

/// A removal.
#[derive(Debug, Clone)]
pub struct RemoveSpec {
    /// Absolute.
    pub path: PathBuf,
    /// Also a directory that is not empty.
    pub recursive: bool,
    /// Be content with nothing.
    pub missing_ok: bool,
}

/// Removes; says how many things.
pub fn remove(root: &Root, spec: &RemoveSpec) -> Result<u64, FileError> {
    let (parent, name) = match root.find_parent(&spec.path) {
        Err(Errno::NOENT) if spec.missing_ok => return Ok(0),
        found => found.map_err(FileError::at(&spec.path))?,
    };
    match remove_name(&parent, &name) {
        Ok(()) => Ok(1),
        Err(Errno::NOENT) if spec.missing_ok => Ok(0),
        Err(Errno::NOTEMPTY | Errno::EXIST) if spec.recursive => {
            remove_tree(&parent, &name, &spec.path)
        }
        Err(Errno::EXIST) => Err(FileError::at(&spec.path)(Errno::NOTEMPTY)),
        Err(errno) => Err(FileError::at(&spec.path)(errno)),
    }
}

/// A file, a link, or an empty directory.
fn remove_name(dir: impl AsFd, name: &OsStr) -> Result<(), Errno> {
    match unlinkat(&dir, name, AtFlags::empty()) {
        Err(Errno::ISDIR) => unlinkat(dir, name, AtFlags::REMOVEDIR),
        // Some file systems say this of a directory.
        Err(Errno::PERM) if is_dir(&dir, name) => unlinkat(dir, name, AtFlags::REMOVEDIR),
        result => result,
    }
}

fn is_dir(dir: impl AsFd, name: &OsStr) -> bool {
    statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

/// Removes a directory and everything in it. `path` is for messages.
pub(crate) fn remove_tree(parent: &OwnedFd, name: &OsStr, path: &Path) -> Result<u64, FileError> {
    let top = open_dir(parent, name).map_err(FileError::at(path))?;
    let mut tree = Tree::new(top).map_err(FileError::at(path))?;
    let mut removed = 0;
    let mut refilled = 0;
    loop {
        let mut at = PathBuf::new();
        let step = remove_step(&mut tree, &mut removed, &mut at);
        match step {
            Ok(Step::On) => {}
            Ok(Step::Refilled) if refilled < REFILLED => refilled += 1,
            Ok(Step::Refilled) => return Err(FileError::at(&path.join(at))(Errno::NOTEMPTY)),
            Ok(Step::Emptied) => match unlinkat(parent, name, AtFlags::REMOVEDIR) {
                Ok(()) => return Ok(removed + 1),
                Err(Errno::NOENT) => return Ok(removed),
                Err(Errno::NOTEMPTY | Errno::EXIST) if refilled < REFILLED => {
                    refilled += 1;
                    tree.start_again();
                }
                Err(errno) => return Err(FileError::at(path)(errno)),
            },
            Err(errno) => return Err(FileError::at(&path.join(at))(errno)),
        }
    }
}

enum Step {
    On,
    /// A directory that was emptied has something in it again.
    Refilled,
    /// Nothing is left but the top.
    Emptied,
}

fn remove_step(tree: &mut Tree, removed: &mut u64, at: &mut PathBuf) -> Result<Step, Errno> {
    while let Some(next) = tree.next()? {
        if next.kind != FileType::Directory {
            match unlinkat(tree.dir(), &next.name, AtFlags::empty()) {
                Ok(()) => {
                    *removed += 1;
                    continue;
                }
                Err(Errno::NOENT) => continue,
                Err(Errno::ISDIR) => {}
                Err(Errno::PERM) if is_dir(tree.dir(), &next.name) => {}
                Err(errno) => {
                    *at = tree.path_of(&next.name);
                    return Err(errno);
                }
            }
        }
        match tree.enter(&next.name) {
            Ok(()) | Err(Errno::NOENT) => {}
            // It became something else, or cannot be read but is perhaps empty.
            Err(errno) => match remove_name(tree.dir(), &next.name) {
                Ok(()) => *removed += 1,
                Err(Errno::NOENT) => {}
                Err(_) => {
                    *at = tree.path_of(&next.name);
                    return Err(errno);
                }
            },
        }
    }
    *at = tree.path_of(OsStr::new(""));
    let Some(left) = tree.leave()? else {
        return Ok(Step::Emptied);
    };
    match unlinkat(tree.dir(), &left, AtFlags::REMOVEDIR) {
        Ok(()) => {
            *removed += 1;
            Ok(Step::On)
        }
        Err(Errno::NOENT) => Ok(Step::On),
        Err(Errno::NOTEMPTY | Errno::EXIST) => {
            tree.enter(&left)?;
            Ok(Step::Refilled)
        }
        Err(errno) => Err(errno),
    }
}

/// A change of mode.
#[derive(Debug, Clone)]
pub struct ChmodSpec {
    /// Absolute.
    pub path: PathBuf,
    /// The permission bits.
    pub mode: FileMode,
    /// Also everything below.
    pub recursive: bool,
}

/// Changes modes; says of how many things.
pub fn chmod(root: &Root, spec: &ChmodSpec) -> Result<u64, FileError> {
    let mode = bits(spec.mode);
    let at_top = || FileError::at(&spec.path);
    let found = root.find(&spec.path, Follow::Yes).map_err(at_top())?;
    let stat = rustix::fs::fstat(&found).map_err(at_top())?;
    let mut changed = 0;
    if spec.recursive && FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let top = root.open(&found, flags).or_else(|errno| {
            // It may become readable by what is asked for.
            root.chmod(&found, mode).map_err(|_| errno)?;
            root.open(&found, flags)
        });
        let mut tree = top.and_then(Tree::new).map_err(at_top())?;
        loop {
            let mut at = PathBuf::new();
            let on = chmod_step(root, &mut tree, mode, &mut changed, &mut at);
            if !on.map_err(FileError::at(&spec.path.join(at)))? {
                break;
            }
        }
    }
    root.chmod(&found, mode).map_err(at_top())?;
    Ok(changed + 1)
}

/// Directories are changed when they are left: without the right to search they could not be.
fn chmod_step(
    root: &Root,
    tree: &mut Tree,
    mode: Mode,
    changed: &mut u64,
    at: &mut PathBuf,
) -> Result<bool, Errno> {
    while let Some(next) = tree.next()? {
        *at = tree.path_of(&next.name);
        if next.kind == FileType::Symlink {
            continue;
        }
        let found = match openat(tree.dir(), &next.name, FOUND, Mode::empty()) {
            Err(Errno::NOENT) => continue,
            found => found?,
        };
        match FileType::from_raw_mode(rustix::fs::fstat(&found)?.st_mode) {
            FileType::Symlink => {}
            FileType::Directory => {
                if tree.enter(&next.name).is_err() {
                    root.chmod(&found, mode)?;
                    match tree.enter(&next.name) {
                        Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                        Err(errno) => return Err(errno),
                    }
                }
            }
            _ => {
                root.chmod(&found, mode)?;
                *changed += 1;
            }
        }
    }
    if tree.is_at_top() {
        return Ok(false);
    }
    // The directory itself, by its descriptor, before the way back could be closed by its new mode.
    let left = rustix::io::fcntl_dupfd_cloexec(tree.dir(), 0)?;
    tree.leave()?;
    root.chmod(&left, mode)?;
    *changed += 1;
    Ok(true)
}
