//! Copies of files and trees: under a temporary name first, so that a copy is there whole or not at
//! all.
//!
//! Content is shared by the file system where it can be (reflink), else copied by the kernel. Modes
//! without set-id bits, times of modification and symbolic links are kept; devices are refused.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT, Uid,
    copy_file_range, fchmod, fchown, fstat, futimens, ioctl_ficlone, mkdirat, mknodat, openat,
    readlinkat, renameat, symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;
use sandshell_exec::inside::{Follow, Root, wants_directory};
use sandshell_types::FileEntry;

use crate::FileError;
use crate::change::{MoveSpec, entry_at, remove_tree};
use crate::dirs::{Dirs, id_of, open_dir};
use crate::place::{NewFile, Place, Replace, rename_new, temporary_name};
use crate::tree::Tree;

/// Bytes that the kernel is asked to copy at a time.
const AT_ONCE: usize = 64 << 20;

/// Bytes copied by hand at a time, where the kernel does not.
const BY_HAND: usize = 256 * 1024;

/// A copy to be made.
#[derive(Debug, Clone)]
pub struct CopySpec {
    /// Absolute.
    pub from: PathBuf,
    /// Absolute.
    pub to: PathBuf,
    /// Also directories.
    pub recursive: bool,
    /// Replace what is there.
    pub overwrite: bool,
    /// Make missing directories.
    pub parents: bool,
}

/// What was copied.
#[derive(Debug)]
pub struct Copied {
    /// The copy.
    pub entry: FileEntry,
    /// Things made.
    pub copied: u64,
    /// Bytes of files.
    pub bytes: u64,
}

/// Copies a file or a tree.
pub fn copy(root: &Root, spec: &CopySpec) -> Result<Copied, FileError> {
    let at_source = || FileError::at(&spec.from);
    let at_target = || FileError::at(&spec.to);
    let found = root.find(&spec.from, Follow::Yes).map_err(at_source())?;
    let stat = fstat(&found).map_err(at_source())?;
    let mut copying = Copying::new(root, &spec.from, false);
    let replace = if spec.overwrite {
        Replace::Yes
    } else {
        Replace::No
    };
    let place = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory if !spec.recursive => return Err(at_source()(Errno::ISDIR)),
        FileType::RegularFile if wants_directory(&spec.to) => Err(Errno::NOTDIR),
        FileType::RegularFile if spec.overwrite => {
            Place::through_links(root, &spec.to, spec.parents)
        }
        FileType::Directory | FileType::RegularFile => Place::of(root, &spec.to, spec.parents),
        _ => Err(Errno::NXIO),
    };
    let place = place.map_err(at_target())?;
    if replace == Replace::No && place.what_is_there(root).is_ok() {
        return Err(at_target()(Errno::EXIST));
    }
    let made = place.make_missing().map_err(at_target())?;
    let source = root.open(&found, OFlags::RDONLY).map_err(at_source());
    let copied = source.and_then(|source| {
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            copying.tree(source, made.last(), &place.name, replace, &spec.to)
        } else {
            copying
                .file(&source, made.last(), &place.name, replace)
                .map_err(at_target())
        }
    });
    if let Err(error) = copied {
        made.take_back();
        return Err(error);
    }
    Ok(Copied {
        entry: entry_at(root, &spec.to, made.last(), &place.name).map_err(at_target())?,
        copied: copying.copied,
        bytes: copying.bytes,
    })
}

/// The first half of a move between two file systems.
pub(crate) fn copy_for_move(
    root: &Root,
    spec: &MoveSpec,
    (from_dir, from): (&OwnedFd, &OsStr),
    (dir, name): (BorrowedFd<'_>, &OsStr),
) -> Result<(), FileError> {
    let at_source = || FileError::at(&spec.from);
    let at_target = || FileError::at(&spec.to);
    let mut copying = Copying::new(root, &spec.from, true);
    let replace = if spec.overwrite {
        Replace::Yes
    } else {
        Replace::No
    };
    let stat = root.stat_at(from_dir, from).map_err(at_source())?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => {
            let source = open_dir(from_dir, from).map_err(at_source())?;
            copying.tree(source, dir, name, replace, &spec.to)
        }
        FileType::RegularFile => {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let source = openat(from_dir, from, flags, Mode::empty())
                .and_then(|found| root.open(found, OFlags::RDONLY))
                .map_err(at_source())?;
            copying
                .file(&source, dir, name, replace)
                .map_err(at_target())
        }
        _ => {
            let temporary = temporary_name();
            copying
                .special(from_dir.as_fd(), from, dir, &temporary, &stat)
                .map_err(at_source())?;
            put(dir, &temporary, name, replace).map_err(|errno| {
                let _ = unlinkat(dir, &temporary, AtFlags::empty());
                at_target()(errno)
            })
        }
    }
}

/// Gives what is complete its name.
fn put(
    dir: BorrowedFd<'_>,
    temporary: &OsStr,
    name: &OsStr,
    replace: Replace,
) -> Result<(), Errno> {
    match replace {
        Replace::Yes => renameat(dir, temporary, dir, name),
        Replace::No => rename_new(dir, temporary, dir, name),
    }
}

struct Copying<'a> {
    root: &'a Root,
    from: &'a Path,
    /// Keep owners too, where that can be.
    owners: bool,
    copied: u64,
    bytes: u64,
}

impl<'a> Copying<'a> {
    fn new(root: &'a Root, from: &'a Path, owners: bool) -> Self {
        Self {
            root,
            from,
            owners,
            copied: 0,
            bytes: 0,
        }
    }

    fn file(
        &mut self,
        source: &OwnedFd,
        dir: BorrowedFd<'_>,
        name: &OsStr,
        replace: Replace,
    ) -> Result<(), Errno> {
        let stat = fstat(source)?;
        let new = NewFile::make(dir, Mode::RUSR | Mode::WUSR)?;
        self.content(source, &new.file, &stat)?;
        new.place(self.root, dir, name, replace)?;
        Ok(())
    }

    /// Bytes, mode and times.
    fn content(&mut self, source: &OwnedFd, target: impl AsFd, stat: &Stat) -> Result<(), Errno> {
        self.bytes += match ioctl_ficlone(&target, source) {
            Ok(()) => stat.st_size.cast_unsigned(),
            Err(_) => copy_bytes(source, target.as_fd())?,
        };
        self.settle(target, stat)?;
        self.copied += 1;
        Ok(())
    }

    fn settle(&self, target: impl AsFd, stat: &Stat) -> Result<(), Errno> {
        if self.owners {
            // Only root may; for others the copy is their own.
            let (uid, gid) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
            let _ = fchown(&target, Some(uid), Some(gid));
        }
        fchmod(&target, Mode::from_raw_mode(stat.st_mode & 0o1777))?;
        futimens(target, &times(stat))
    }

    fn tree(
        &mut self,
        source: OwnedFd,
        dir: BorrowedFd<'_>,
        name: &OsStr,
        replace: Replace,
        to: &Path,
    ) -> Result<(), FileError> {
        let temporary = temporary_name();
        let at_target = || FileError::at(to);
        mkdirat(dir, &temporary, Mode::RWXU).map_err(at_target())?;
        let copied = open_dir(dir, &temporary)
            .map_err(at_target())
            .and_then(|target| self.below(source, target))
            .and_then(|()| put(dir, &temporary, name, replace).map_err(at_target()));
        if copied.is_err()
            && let Ok(dir) = rustix::io::fcntl_dupfd_cloexec(dir, 0)
        {
            let _ = remove_tree(&dir, &temporary, to);
        }
        copied
    }

    /// Everything in a directory, and then the directory's own mode and time.
    fn below(&mut self, source: OwnedFd, target: OwnedFd) -> Result<(), FileError> {
        let at_top = || FileError::at(self.from);
        let copy = id_of(&target).map_err(at_top())?;
        let mut tree = Tree::new(source).map_err(at_top())?;
        let mut targets = Dirs::new(target).map_err(at_top())?;
        loop {
            if tree.dir_id() == copy {
                return Err(FileError::invalid(
                    "/to",
                    "a directory cannot be copied into itself",
                ));
            }
            let mut at = OsString::new();
            let step = self.step(&mut tree, &mut targets, &mut at);
            let on = step.map_err(FileError::at(&self.from.join(tree.path_of(&at))))?;
            if !on {
                return Ok(());
            }
        }
    }

    /// Goes on until a directory is entered or left. False at the end.
    fn step(
        &mut self,
        tree: &mut Tree,
        targets: &mut Dirs,
        at: &mut OsString,
    ) -> Result<bool, Errno> {
        while let Some(next) = tree.next()? {
            at.clone_from(&next.name);
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let found = match openat(tree.dir(), &next.name, flags, Mode::empty()) {
                Err(Errno::NOENT) => continue,
                found => found?,
            };
            let stat = fstat(&found)?;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => {
                    tree.enter(&next.name)?;
                    at.clear();
                    mkdirat(targets.deepest(), &next.name, Mode::RWXU)?;
                    let below = open_dir(targets.deepest(), &next.name)?;
                    targets.enter(below)?;
                    return Ok(true);
                }
                FileType::RegularFile => {
                    let source = self.root.open(&found, OFlags::RDONLY)?;
                    let flags = OFlags::CREATE
                        | OFlags::EXCL
                        | OFlags::NOFOLLOW
                        | OFlags::WRONLY
                        | OFlags::CLOEXEC;
                    let mode = Mode::RUSR | Mode::WUSR;
                    let target = openat(targets.deepest(), &next.name, flags, mode)?;
                    self.content(&source, target, &stat)?;
                }
                _ => self.special(tree.dir(), &next.name, targets.deepest(), &next.name, &stat)?,
            }
        }
        at.clear();
        self.settle(targets.deepest(), &fstat(tree.dir())?)?;
        self.copied += 1;
        targets.leave()?;
        Ok(tree.leave()?.is_some())
    }

    /// Links, FIFOs and sockets. A device is not for everyone to make.
    fn special(
        &mut self,
        from_dir: BorrowedFd<'_>,
        from: &OsStr,
        dir: BorrowedFd<'_>,
        name: &OsStr,
        stat: &Stat,
    ) -> Result<(), Errno> {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => {
                let target = readlinkat(from_dir, from, Vec::new())?;
                symlinkat(&target, dir, name)?;
                utimensat(dir, name, &times(stat), AtFlags::SYMLINK_NOFOLLOW)?;
            }
            kind @ (FileType::Fifo | FileType::Socket) => {
                mknodat(
                    dir,
                    name,
                    kind,
                    Mode::from_raw_mode(stat.st_mode & 0o777),
                    0,
                )?;
            }
            _ => return Err(Errno::NXIO),
        }
        self.copied += 1;
        Ok(())
    }
}

fn times(stat: &Stat) -> Timestamps {
    Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: stat.st_mtime,
            tv_nsec: stat.st_mtime_nsec.cast_signed(),
        },
    }
}

fn copy_bytes(source: &OwnedFd, target: BorrowedFd<'_>) -> Result<u64, Errno> {
    let mut copied = 0;
    loop {
        match copy_file_range(source, None, target, None, AT_ONCE) {
            // Also what some file systems of the kernel say of files that do have content.
            Ok(0) => return Ok(copied + by_hand(source, target)?),
            Ok(more) => copied += more as u64,
            Err(Errno::INTR) => {}
            Err(Errno::XDEV | Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM) => {
                return Ok(copied + by_hand(source, target)?);
            }
            Err(errno) => return Err(errno),
        }
    }
}

/// From where the two files are.
fn by_hand(source: &OwnedFd, target: BorrowedFd<'_>) -> Result<u64, Errno> {
    let mut buffer = Vec::new();
    let mut copied = 0;
    // Most are at their end here; those need no buffer.
    let mut size = 1;
    loop {
        buffer.resize(size, 0);
        let read = match rustix::io::read(source, &mut buffer[..]) {
            Ok(0) => return Ok(copied),
            Ok(read) => read,
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno),
        };
        let mut left = buffer.get(..read).unwrap_or_default();
        while !left.is_empty() {
            match rustix::io::write(target, left) {
                Ok(written) => left = left.get(written..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        copied += read as u64;
        size = BY_HAND;
    }
}
