//! Puts entries into the root of an image.
//!
//! Whoever made an image chose its names and links. The directory of an entry is found beneath the root
//! by `openat2`, in which links mean what they would mean inside, and `..` ends at the root; the entry
//! itself is always made anew, never opened through what is there. So an image may use its own links, as
//! `lib` for `usr/lib`, and reaches nothing else.
//!
//! Owners and modes are kept where we are root, but ids that no sandbox has; else everything is ours, and
//! open to us. Device nodes, FIFOs and extended attributes are left out.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Write as _;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, UTIME_OMIT, Uid,
    chownat, fchmod, fchown, futimens, linkat, mkdirat, openat, openat2, readlinkat, statat,
    symlinkat, utimensat,
};
use rustix::io::Errno;
use sandshell_files::archive::{Head, Kind};
use tokio_util::sync::CancellationToken;

use super::{ImageError, MAX_BYTES, MAX_DEPTH, MAX_DIRECTORIES, MAX_ENTRIES, tree};

const BUFFER: usize = 128 << 10;

/// The last id that a sandbox has; what belongs to a later one belongs to nobody.
const LAST_ID: u64 = 65534;

/// Mode of directories that entries lie in but that are no entries.
const IMPLIED_MODE: u32 = 0o755;

/// Gives the content of an entry piece by piece; 0 at its end.
pub(super) type Content<'a> = &'a mut dyn FnMut(&mut [u8]) -> Result<usize, ImageError>;

/// Attributes of a directory, set when nothing is put into it any more.
#[derive(Debug, Clone, Copy)]
struct Attributes {
    mode: u32,
    owner: (u32, u32),
    modified: Option<Timespec>,
}

pub(super) struct Extraction<'a> {
    top: OwnedFd,
    /// How many directories lie above the top.
    top_depth: usize,
    as_root: bool,
    stop: &'a CancellationToken,
    /// The directory that the last entry went into; most entries follow one in the same.
    last: Option<(PathBuf, OwnedFd)>,
    directories: BTreeMap<PathBuf, Attributes>,
    buffer: Vec<u8>,
    entries: u64,
    bytes: u64,
    /// What was left out.
    pub(super) skipped: u64,
}

impl<'a> Extraction<'a> {
    /// Into a fresh directory at this path.
    pub(super) fn new(at: &Path, stop: &'a CancellationToken) -> Result<Self, ImageError> {
        let opened = mkdirat(CWD, at, Mode::from_raw_mode(0o755))
            .and_then(|()| tree::open_dir(CWD, at.as_os_str()));
        let top = opened.map_err(ImageError::at("."))?;
        Ok(Self {
            top_depth: depth(&top).map_err(ImageError::at("."))?,
            top,
            as_root: rustix::process::geteuid().is_root(),
            stop,
            last: None,
            directories: BTreeMap::new(),
            buffer: vec![0; BUFFER],
            entries: 0,
            bytes: 0,
            skipped: 0,
        })
    }

    pub(super) fn top(&self) -> &OwnedFd {
        &self.top
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries == self.skipped
    }

    pub(super) fn check_stop(&self) -> Result<(), ImageError> {
        if self.stop.is_cancelled() {
            return Err(ImageError::BrokenOff);
        }
        Ok(())
    }

    /// Puts one entry in its place, and in that of whatever was there.
    pub(super) fn put(&mut self, head: Head, content: Content<'_>) -> Result<(), ImageError> {
        self.check_stop()?;
        self.entries += 1;
        check_size(self.entries, self.bytes)?;
        let owner = (id(head.uid), id(head.gid));
        if head.kind == Kind::Directory {
            let attributes = Attributes {
                mode: head.mode & 0o7777,
                owner,
                modified: Some(head.modified),
            };
            self.directory(&head.path, true)?;
            self.directories.insert(head.path, attributes);
            return self.check_directories();
        }
        let (Some(parent), Some(name)) = (head.path.parent(), head.path.file_name()) else {
            return Err(ImageError::invalid("the root is no directory"));
        };
        self.forget(&head.path);
        match &head.kind {
            Kind::Special => {
                self.skipped += 1;
                Ok(())
            }
            Kind::File => {
                self.enter(parent)?;
                self.file(&head, name, owner, content)
            }
            Kind::Symlink(target) => {
                self.enter(parent)?;
                let target = OsStr::from_bytes(target);
                self.anew(name, |dir| symlinkat(target, dir, name))
                    .and_then(|()| self.finish_link(name, owner, head.modified))
                    .map_err(ImageError::at(&head.path))
            }
            Kind::HardLink(first) => self.hard_link(&head.path, first),
            Kind::Directory => Ok(()),
        }
    }

    /// Removes what a layer says is gone from those below: one name, or all in a directory.
    pub(super) fn remove(
        &mut self,
        directory: &Path,
        name: Option<&OsStr>,
    ) -> Result<(), ImageError> {
        if name.is_some_and(|name| matches!(name.as_bytes(), b"" | b"." | b"..")) {
            return Err(ImageError::invalid("a whiteout names nothing"));
        }
        self.last = None;
        if let Some(name) = name {
            self.forget(&directory.join(name));
        } else {
            // It is cleared, and stays.
            let itself = self.directories.remove_entry(directory);
            self.forget(directory);
            self.directories.extend(itself);
        }
        let removed = match self.find(directory, OFlags::RDONLY | OFlags::DIRECTORY) {
            Ok(dir) => match name {
                Some(name) => tree::remove(dir.as_fd(), name),
                None => tree::clear(&dir),
            },
            Err(errno) => Err(errno),
        };
        match removed {
            Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(()),
            Err(errno) => Err(ImageError::at(directory)(errno)),
        }
    }

    /// What was said of a directory holds no more, nor of those below: something else takes its place, and
    /// their names may lead elsewhere by a link.
    fn forget(&mut self, path: &Path) {
        let below = self.directories.range(path.to_owned()..);
        let below = below.take_while(|(name, _)| name.starts_with(path));
        let gone: Vec<PathBuf> = below.map(|(name, _)| name.clone()).collect();
        for name in gone {
            self.directories.remove(&name);
        }
    }

    /// Gives directories their owners, modes and times, the deepest first.
    pub(super) fn finish(self) -> Result<(), ImageError> {
        for (path, attributes) in self.directories.iter().rev() {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
            let dir = match self.find(path, flags) {
                Ok(dir) => dir,
                // A later layer took it away, or put something else there.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
                Err(errno) => return Err(ImageError::at(path)(errno)),
            };
            self.attributes(&dir, attributes)
                .map_err(ImageError::at(path))?;
        }
        Ok(())
    }

    fn attributes(&self, dir: &OwnedFd, attributes: &Attributes) -> Result<(), Errno> {
        let mut mode = attributes.mode;
        if self.as_root {
            let (uid, gid) = attributes.owner;
            fchown(dir, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
        } else {
            // Or we could not remove it again.
            mode |= 0o700;
        }
        fchmod(dir, Mode::from_raw_mode(mode))?;
        match attributes.modified {
            Some(modified) => futimens(dir, &times(modified)),
            None => Ok(()),
        }
    }

    fn file(
        &mut self,
        head: &Head,
        name: &OsStr,
        (uid, gid): (u32, u32),
        content: Content<'_>,
    ) -> Result<(), ImageError> {
        let at = || ImageError::at(&head.path);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let private = Mode::from_raw_mode(0o600);
        let file = self
            .anew(name, |dir| {
                openat(dir, name, flags | OFlags::CLOEXEC, private)
            })
            .map_err(at())?;
        let mut file = std::fs::File::from(file);
        loop {
            self.check_stop()?;
            let read = content(&mut self.buffer)?;
            if read == 0 {
                break;
            }
            self.bytes += read as u64;
            check_size(self.entries, self.bytes)?;
            file.write_all(self.buffer.get(..read).unwrap_or_default())
                .map_err(|error| ImageError::from_io(&head.path, &error))?;
        }
        if self.as_root {
            fchown(&file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid))).map_err(at())?;
        }
        // After the owner, whose change takes some bits away.
        fchmod(&file, Mode::from_raw_mode(head.mode & 0o7777)).map_err(at())?;
        futimens(&file, &times(head.modified)).map_err(at())
    }

    fn finish_link(
        &self,
        name: &OsStr,
        (uid, gid): (u32, u32),
        modified: Timespec,
    ) -> Result<(), Errno> {
        let itself = AtFlags::SYMLINK_NOFOLLOW;
        if self.as_root {
            let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
            chownat(self.dir(), name, Some(uid), Some(gid), itself)?;
        }
        utimensat(self.dir(), name, &times(modified), itself)
    }

    fn hard_link(&mut self, path: &Path, first: &Path) -> Result<(), ImageError> {
        let missing = || {
            ImageError::invalid(format!(
                "{:?} is a link to {:?}, which is not there before it",
                path.display().to_string(),
                first.display().to_string()
            ))
        };
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(missing());
        };
        let (Some(first_parent), Some(first_name)) = (first.parent(), first.file_name()) else {
            return Err(missing());
        };
        let from = self.find(first_parent, OFlags::PATH | OFlags::DIRECTORY);
        let from = from.map_err(|_| missing())?;
        let stat = |dir: BorrowedFd<'_>, name: &OsStr| statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
        let linked = stat(from.as_fd(), first_name).map_err(|_| missing())?;
        if FileType::from_raw_mode(linked.st_mode) == FileType::Directory {
            return Err(missing());
        }
        self.enter(parent)?;
        if let Ok(there) = stat(self.dir(), name)
            && (there.st_dev, there.st_ino) == (linked.st_dev, linked.st_ino)
        {
            // A later layer says again what is so already; making it anew would lose it.
            return Ok(());
        }
        self.anew(name, |dir| {
            linkat(&from, first_name, dir, name, AtFlags::empty())
        })
        .map_err(ImageError::at(path))
    }

    /// Makes something; what is there is removed first, never opened.
    fn anew<T>(
        &self,
        name: &OsStr,
        make: impl Fn(BorrowedFd<'_>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        match make(self.dir()) {
            Err(Errno::EXIST) => {
                tree::remove(self.dir(), name)?;
                make(self.dir())
            }
            made => made,
        }
    }

    /// Makes a directory unless it is there. What else is there goes, for an entry; but a directory that
    /// entries merely lie in takes nothing's place.
    fn directory(&mut self, path: &Path, is_entry: bool) -> Result<(), ImageError> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            // The root.
            return Ok(());
        };
        self.enter(parent)?;
        if let Ok(stat) = statat(self.dir(), name, AtFlags::SYMLINK_NOFOLLOW) {
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                return Ok(());
            }
            if !is_entry {
                return Err(no_directory(path));
            }
        }
        let above = match &self.last {
            Some((_, dir)) => depth(dir).map_err(ImageError::at(path))?,
            None => self.top_depth,
        };
        if above >= self.top_depth + MAX_DEPTH {
            return Err(ImageError::invalid(format!(
                "its directories are more than {MAX_DEPTH} deep"
            )));
        }
        self.check_directories()?;
        self.anew(name, |dir| mkdirat(dir, name, Mode::RWXU))
            .map_err(ImageError::at(path))
    }

    fn check_directories(&self) -> Result<(), ImageError> {
        if self.directories.len() > MAX_DIRECTORIES {
            return Err(ImageError::invalid(format!(
                "it has more than {MAX_DIRECTORIES} directories"
            )));
        }
        Ok(())
    }

    /// Makes a directory the current one, and makes it if need be.
    fn enter(&mut self, path: &Path) -> Result<(), ImageError> {
        if self.last.as_ref().is_some_and(|(last, _)| last == path) {
            return Ok(());
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let dir = match self.find(path, flags) {
            Err(Errno::NOENT) => {
                self.directory(path, false)?;
                self.directories
                    .entry(path.to_owned())
                    .or_insert(Attributes {
                        mode: IMPLIED_MODE,
                        owner: (0, 0),
                        modified: None,
                    });
                self.find(path, flags)
            }
            found => found,
        };
        let dir = dir.map_err(|errno| match errno {
            Errno::LOOP | Errno::NOTDIR | Errno::NOENT => no_directory(path),
            errno => ImageError::at(path)(errno),
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

    fn find(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        open_in(&self.top, path, flags)
    }
}

fn no_directory(path: &Path) -> ImageError {
    ImageError::invalid(format!(
        "an entry goes through {:?}, which is no directory",
        path.display().to_string()
    ))
}

/// Refuses what is larger than an image may be.
pub(super) fn check_size(entries: u64, bytes: u64) -> Result<(), ImageError> {
    if entries <= MAX_ENTRIES && bytes <= MAX_BYTES {
        return Ok(());
    }
    Err(ImageError::invalid(format!(
        "it has more than {MAX_ENTRIES} files and directories, or {MAX_BYTES} bytes"
    )))
}

/// Opens something beneath a root, as if it were the root.
pub(super) fn open_in(root: &OwnedFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
    loop {
        match openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), inside) {
            // A rename somewhere on the machine came in between.
            Err(Errno::AGAIN | Errno::INTR) => {}
            opened => return opened,
        }
    }
}

/// How many directories lie above this one. By its own path: an entry's may go through links.
fn depth(dir: &OwnedFd) -> Result<usize, Errno> {
    let path = readlinkat(
        CWD,
        format!("/proc/self/fd/{}", dir.as_raw_fd()),
        Vec::new(),
    )?;
    Ok(path.to_bytes().split(|byte| *byte == b'/').count())
}

fn id(id: u64) -> u32 {
    u32::try_from(id.min(LAST_ID)).unwrap_or_default()
}

fn times(modified: Timespec) -> Timestamps {
    Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: modified,
    }
}
