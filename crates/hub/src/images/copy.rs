//! From a directory of the machine to an image: it is copied, so that what happens to it later is of no
//! concern.
//!
//! The walk stays on the directory's own file system, and follows no link.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Stat, Timespec, fstat, open, openat, readlinkat, statat,
};
use rustix::io::Errno;
use sandshell_files::archive::{Head, Kind};
use sandshell_files::is_kernels_own;
use tokio_util::sync::CancellationToken;

use super::extract::Extraction;
use super::import::Imported;
use super::{ImageError, ROOT, tree};

/// Makes an image of a directory, in `root` below another. After a failure that is to be removed. Blocks.
pub fn copy_directory(
    from: &Path,
    at: &Path,
    stop: &CancellationToken,
) -> Result<Imported, ImageError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let top = open(from, flags, Mode::empty()).map_err(ImageError::at(from))?;
    let stat = fstat(&top).map_err(ImageError::at(from))?;
    let mut copy = Copy {
        extraction: Extraction::new(&at.join(ROOT), stop)?,
        device: stat.st_dev,
        linked: HashMap::new(),
    };
    let root = head(PathBuf::new(), Kind::Directory, &stat);
    copy.extraction.put(root, &mut |_| Ok(0))?;
    copy.directory(&top, Path::new(""))?;
    let skipped = copy.extraction.skipped;
    copy.extraction.finish()?;
    Ok(Imported {
        skipped,
        ..Imported::default()
    })
}

/// Whether a directory has no files that could be copied: the kernel makes them up when they are read.
pub fn is_of_kernel(directory: &Path) -> bool {
    File::open(directory).is_ok_and(is_kernels_own)
}

struct Copy<'a> {
    extraction: Extraction<'a>,
    device: u64,
    /// Where files with more than one name were first seen.
    linked: HashMap<u64, PathBuf>,
}

impl Copy<'_> {
    fn directory(&mut self, dir: &OwnedFd, path: &Path) -> Result<(), ImageError> {
        for name in tree::names(dir).map_err(unreadable(path))? {
            let path = path.join(&name);
            let at = || unreadable(&path);
            let stat = match statat(dir, &name, AtFlags::SYMLINK_NOFOLLOW) {
                // It went away meanwhile.
                Err(Errno::NOENT) => continue,
                found => found.map_err(at())?,
            };
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => {
                    let below = head(path.clone(), Kind::Directory, &stat);
                    self.extraction.put(below, &mut |_| Ok(0))?;
                    // What is mounted there is something else.
                    if stat.st_dev == self.device {
                        let below = tree::open_dir(dir.as_fd(), &name).map_err(at())?;
                        self.directory(&below, &path)?;
                    }
                }
                FileType::RegularFile => self.file(dir, path, &stat)?,
                FileType::Symlink => {
                    let target = readlinkat(dir, &name, Vec::new()).map_err(at())?;
                    let link = Kind::Symlink(target.into_bytes());
                    let link = head(path.clone(), link, &stat);
                    self.extraction.put(link, &mut |_| Ok(0))?;
                }
                _ => {
                    let other = head(path.clone(), Kind::Special, &stat);
                    self.extraction.put(other, &mut |_| Ok(0))?;
                }
            }
        }
        Ok(())
    }

    fn file(&mut self, dir: &OwnedFd, path: PathBuf, stat: &Stat) -> Result<(), ImageError> {
        if stat.st_nlink > 1 {
            if let Some(first) = self.linked.get(&stat.st_ino) {
                let link = head(path, Kind::HardLink(first.clone()), stat);
                return self.extraction.put(link, &mut |_| Ok(0));
            }
            self.linked.insert(stat.st_ino, path.clone());
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let name = path.file_name().unwrap_or_default();
        let opened = openat(dir, name, flags, Mode::empty()).map_err(unreadable(&path))?;
        let mut file = File::from(opened);
        self.extraction
            .put(head(path.clone(), Kind::File, stat), &mut |buffer| {
                let read = file.read(buffer);
                read.map_err(|error| {
                    unreadable(&path)(Errno::from_io_error(&error).unwrap_or(Errno::IO))
                })
            })
    }
}

/// What is to be copied cannot be, which is no failure of ours.
fn unreadable(path: &Path) -> impl FnOnce(Errno) -> ImageError {
    move |errno| ImageError::invalid(format!("/{} cannot be read: {errno}", path.display()))
}

fn head(path: PathBuf, kind: Kind, stat: &Stat) -> Head {
    Head {
        path,
        kind,
        mode: stat.st_mode & 0o7777,
        uid: stat.st_uid.into(),
        gid: stat.st_gid.into(),
        modified: Timespec {
            tv_sec: stat.st_mtime,
            tv_nsec: i64::try_from(stat.st_mtime_nsec).unwrap_or_default(),
        },
        size: stat.st_size.cast_unsigned(),
    }
}
