//! Whole trees of an image: their removal and their size.
//!
//! Every name is used in the directory it was read from, by descriptor, and links are never followed.
//! Trees are at most [`super::MAX_DEPTH`] deep, which bounds the recursion and the open directories.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat, unlinkat};
use rustix::io::Errno;

/// Opens a directory that is no link.
pub(super) fn open_dir(dir: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(dir, name, flags, Mode::empty())
}

/// The names in a directory.
pub(super) fn names(dir: &OwnedFd) -> Result<Vec<OsString>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsStr::from_bytes(name).to_owned());
        }
    }
    Ok(names)
}

/// Removes whatever has this name, with all that is in it.
pub(super) fn remove(dir: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
    match unlinkat(dir, name, AtFlags::empty()) {
        Err(Errno::ISDIR | Errno::PERM) => {}
        done => return done,
    }
    clear(&open_dir(dir, name)?)?;
    unlinkat(dir, name, AtFlags::REMOVEDIR)
}

/// Removes all that is in a directory.
pub(super) fn clear(dir: &OwnedFd) -> Result<(), Errno> {
    for name in names(dir)? {
        remove(dir.as_fd(), &name)?;
    }
    Ok(())
}

/// How many files and links there are, and the bytes of the files, each counted once.
pub(super) fn measure(top: &Path) -> Result<(u64, u64), Errno> {
    let top = open_dir(CWD, top.as_os_str())?;
    let mut size = Size::default();
    size.add(&top)?;
    Ok((size.files, size.bytes))
}

#[derive(Default)]
struct Size {
    files: u64,
    bytes: u64,
    /// Files with more than one name that have been counted.
    linked: HashSet<u64>,
}

impl Size {
    fn add(&mut self, dir: &OwnedFd) -> Result<(), Errno> {
        for name in names(dir)? {
            let stat = statat(dir, &name, AtFlags::SYMLINK_NOFOLLOW)?;
            let kind = FileType::from_raw_mode(stat.st_mode);
            if kind == FileType::Directory {
                self.add(&open_dir(dir.as_fd(), &name)?)?;
                continue;
            }
            self.files += 1;
            let counted = stat.st_nlink > 1 && !self.linked.insert(stat.st_ino);
            if kind == FileType::RegularFile && !counted {
                self.bytes += stat.st_size.cast_unsigned();
            }
        }
        Ok(())
    }
}
