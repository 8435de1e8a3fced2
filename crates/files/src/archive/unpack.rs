//! Puts the entries of an archive into a directory that nobody else uses.
//!
//! Nothing is ever opened by following a link: the directory of an entry is reached by `openat2` that
//! refuses links and anything above the top, and files are always made anew. So an archive cannot write
//! through links of its own, nor through such as someone puts in the way meanwhile.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::io::{Read, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, Timespec, Timestamps, UTIME_OMIT, fchmod,
    futimens, linkat, mkdirat, openat, openat2, statat, symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;
use sandshell_types::ArchiveCounts;

use super::codec::decompress;
use super::reader::{Head, Kind, Reader};
use super::{MAX_BYTES, MAX_DIRECTORIES, MAX_ENTRIES, MODE_BITS, Progress};
use crate::{FileError, Stop};

const BUFFER: usize = 128 << 10;

/// Mode of directories that the archive uses but does not have.
const IMPLIED_MODE: u32 = 0o755;

/// Attributes of a directory, set when nothing is put into it any more.
#[derive(Debug, Clone, Copy)]
struct Attributes {
    mode: u32,
    modified: Option<Timespec>,
}

/// A tree that has been unpacked, but for the attributes of its directories.
#[derive(Debug)]
pub(super) struct Unpacked {
    pub(super) counts: ArchiveCounts,
    directories: BTreeMap<PathBuf, Attributes>,
}

/// Unpacks everything into an empty directory.
pub(super) fn unpack(
    input: impl Read,
    top: &OwnedFd,
    stop: &Stop,
    progress: Progress<'_>,
) -> Result<Unpacked, FileError> {
    let mut unpacking = Unpacking {
        top,
        last: None,
        buffer: vec![0; BUFFER],
        unpacked: Unpacked {
            counts: ArchiveCounts::default(),
            directories: BTreeMap::new(),
        },
    };
    read_all(input, stop, |head, reader| {
        unpacking.entry(head, reader)?;
        progress(&unpacking.unpacked.counts);
        Ok(())
    })?;
    Ok(unpacking.unpacked)
}

/// Reads an archive to its end and counts what is in it.
pub(crate) fn verify(input: impl Read, stop: &Stop) -> Result<ArchiveCounts, FileError> {
    let mut counts = ArchiveCounts::default();
    let mut seen = HashSet::new();
    read_all(input, stop, |head, _| {
        match head.kind {
            Kind::File => {
                counts.files += 1;
                counts.bytes += head.size;
            }
            Kind::HardLink(_) => counts.files += 1,
            Kind::Symlink(_) => counts.symlinks += 1,
            Kind::Special => counts.skipped += 1,
            // The top does not count, and one that comes twice counts once.
            Kind::Directory => {
                if !head.path.as_os_str().is_empty() && seen.insert(head.path) {
                    counts.directories += 1;
                    if seen.len() > MAX_DIRECTORIES {
                        return Err(too_many_directories());
                    }
                }
            }
        }
        Ok(())
    })?;
    Ok(counts)
}

fn too_many_directories() -> FileError {
    FileError::Archive {
        reason: format!("it has more than {MAX_DIRECTORIES} directories"),
    }
}

type Input<'a> = Reader<Box<dyn Read + 'a>>;

fn read_all<'a>(
    input: impl Read + 'a,
    stop: &Stop,
    mut each: impl FnMut(Head, &mut Input<'a>) -> Result<(), FileError>,
) -> Result<(), FileError> {
    let mut reader = Reader::new(decompress(input)?);
    let mut entries = 0;
    let mut bytes = 0_u64;
    while let Some(head) = reader.next()? {
        entries += 1;
        bytes = bytes.saturating_add(head.size);
        if entries > MAX_ENTRIES || bytes > MAX_BYTES {
            return Err(FileError::Archive {
                reason: format!("it has more than {MAX_ENTRIES} entries or {MAX_BYTES} bytes"),
            });
        }
        if stop.is_over() {
            return Err(FileError::Archive {
                reason: "it was broken off".to_owned(),
            });
        }
        each(head, &mut reader)?;
    }
    Ok(())
}

struct Unpacking<'a> {
    top: &'a OwnedFd,
    /// The directory that the last entry went into; most entries follow one in the same.
    last: Option<(PathBuf, OwnedFd)>,
    buffer: Vec<u8>,
    unpacked: Unpacked,
}

impl Unpacking<'_> {
    fn entry(&mut self, head: Head, reader: &mut Input<'_>) -> Result<(), FileError> {
        let attributes = Attributes {
            mode: head.mode & MODE_BITS,
            modified: Some(head.modified),
        };
        if head.path.as_os_str().is_empty() {
            self.unpacked.directories.insert(PathBuf::new(), attributes);
            return Ok(());
        }
        let (Some(parent), Some(name)) = (head.path.parent(), head.path.file_name()) else {
            return Ok(());
        };
        match &head.kind {
            Kind::Directory => {
                self.directory(&head.path)?;
                self.unpacked.directories.insert(head.path, attributes);
            }
            Kind::File => {
                self.enter(parent)?;
                self.file(&head, name, reader)?;
                self.unpacked.counts.files += 1;
                self.unpacked.counts.bytes += head.size;
            }
            Kind::Symlink(target) => {
                self.enter(parent)?;
                let target = <OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(target);
                self.make_room(&head.path, |dir| symlinkat(target, dir, name))?;
                let times = times(Some(head.modified));
                utimensat(self.dir(), name, &times, AtFlags::SYMLINK_NOFOLLOW)
                    .map_err(FileError::at(&head.path))?;
                self.unpacked.counts.symlinks += 1;
            }
            Kind::HardLink(first) => {
                self.enter(parent)?;
                self.hard_link(&head.path, name, first)?;
                self.unpacked.counts.files += 1;
            }
            Kind::Special => self.unpacked.counts.skipped += 1,
        }
        Ok(())
    }

    fn file(&mut self, head: &Head, name: &OsStr, reader: &mut Input<'_>) -> Result<(), FileError> {
        let at = || FileError::at(&head.path);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let mode = Mode::from_raw_mode(head.mode & 0o777);
        let file = self.make_room(&head.path, |dir| {
            openat(dir, name, flags | OFlags::CLOEXEC, mode)
        })?;
        let mut file = std::fs::File::from(file);
        loop {
            let read = reader.content(&mut self.buffer)?;
            if read == 0 {
                break;
            }
            file.write_all(self.buffer.get(..read).unwrap_or_default())
                .map_err(|error| at()(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
        }
        // The rest of the mode is as asked for already; these bits the umask took.
        if head.mode & 0o022 != 0 {
            fchmod(&file, mode).map_err(at())?;
        }
        futimens(&file, &times(Some(head.modified))).map_err(at())
    }

    fn hard_link(&mut self, path: &Path, name: &OsStr, first: &Path) -> Result<(), FileError> {
        let missing = || FileError::Archive {
            reason: format!(
                "{:?} is a link to {:?}, which is not in the archive before it",
                path.display().to_string(),
                first.display().to_string()
            ),
        };
        if first == path {
            return Err(missing());
        }
        let (Some(parent), Some(first_name)) = (first.parent(), first.file_name()) else {
            return Err(missing());
        };
        let from = find_dir(self.top, parent).map_err(|_| missing())?;
        let stat = statat(&from, first_name, AtFlags::SYMLINK_NOFOLLOW).map_err(|_| missing())?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            return Err(missing());
        }
        self.make_room(path, |dir| {
            linkat(&from, first_name, dir, name, AtFlags::empty())
        })
    }

    /// Makes something; what an earlier entry of the same name left is removed first, never opened.
    fn make_room<T>(
        &mut self,
        path: &Path,
        make: impl Fn(BorrowedFd<'_>) -> Result<T, Errno>,
    ) -> Result<T, FileError> {
        let at = || FileError::at(path);
        match make(self.dir()) {
            Err(Errno::EXIST) => {}
            made => return made.map_err(at()),
        }
        let name = path.file_name().unwrap_or_default();
        match unlinkat(self.dir(), name, AtFlags::empty()) {
            Err(Errno::ISDIR | Errno::PERM) => {
                return Err(FileError::Archive {
                    reason: format!("{} is a directory and something else", path.display()),
                });
            }
            removed => removed.map_err(at())?,
        }
        make(self.dir()).map_err(at())
    }

    /// Makes a directory unless it is there.
    fn directory(&mut self, path: &Path) -> Result<(), FileError> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok(());
        };
        self.enter(parent)?;
        match mkdirat(self.dir(), name, Mode::RWXU) {
            Ok(()) => {
                self.unpacked.counts.directories += 1;
                if self.unpacked.directories.len() >= MAX_DIRECTORIES {
                    return Err(too_many_directories());
                }
                Ok(())
            }
            Err(Errno::EXIST) => {
                let stat = statat(self.dir(), name, AtFlags::SYMLINK_NOFOLLOW)
                    .map_err(FileError::at(path))?;
                if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                    return Ok(());
                }
                Err(FileError::Archive {
                    reason: format!("{} is a directory and something else", path.display()),
                })
            }
            Err(errno) => Err(FileError::at(path)(errno)),
        }
    }

    /// Makes a directory the current one, and makes it if need be.
    fn enter(&mut self, path: &Path) -> Result<(), FileError> {
        if self.last.as_ref().is_some_and(|(last, _)| last == path) {
            return Ok(());
        }
        let dir = match find_dir(self.top, path) {
            Err(Errno::NOENT) => {
                self.directory(path)?;
                self.unpacked
                    .directories
                    .entry(path.to_owned())
                    .or_insert(Attributes {
                        mode: IMPLIED_MODE,
                        modified: None,
                    });
                find_dir(self.top, path)
            }
            found => found,
        };
        let dir = dir.map_err(|errno| match errno {
            Errno::LOOP | Errno::NOTDIR | Errno::XDEV => FileError::Archive {
                reason: format!(
                    "an entry goes through {}, which is no directory",
                    path.display()
                ),
            },
            errno => FileError::at(path)(errno),
        })?;
        self.last = Some((path.to_owned(), dir));
        Ok(())
    }

    fn dir(&self) -> BorrowedFd<'_> {
        match &self.last {
            Some((_, dir)) => dir.as_fd(),
            None => self.top.as_fd(),
        }
    }
}

impl Unpacked {
    /// Gives the directories below `top` their modes and times, the deepest first, but for those
    /// that were there before.
    pub(super) fn finish(
        &self,
        top: &OwnedFd,
        there_before: &HashSet<PathBuf>,
    ) -> Result<(), FileError> {
        for (path, attributes) in self.directories.iter().rev() {
            if there_before.contains(path) {
                continue;
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let dir = open_below(top, path, flags).map_err(FileError::at(path))?;
            let mode = Mode::from_raw_mode(attributes.mode);
            fchmod(&dir, mode).map_err(FileError::at(path))?;
            if attributes.modified.is_some() {
                futimens(&dir, &times(attributes.modified)).map_err(FileError::at(path))?;
            }
        }
        Ok(())
    }
}

fn times(modified: Option<Timespec>) -> Timestamps {
    let omit = Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_OMIT,
    };
    Timestamps {
        last_access: omit,
        last_modification: modified.unwrap_or(omit),
    }
}

fn find_dir(top: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    open_below(
        top,
        path,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
    )
}

/// Opens a directory below the top without following any link.
fn open_below(top: &OwnedFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    loop {
        match openat2(top, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            opened => return opened,
        }
    }
}
