//! The root of the sandbox's files, and how a path below it becomes a descriptor.
//!
//! Every path is resolved by the kernel as if the root were `/` (`openat2` with `RESOLVE_IN_ROOT`):
//! neither a link nor `..` nor a race leads out, and the magic links of /proc are refused. A name is
//! first only *found* (`O_PATH`), which opens nothing and so neither blocks on a FIFO nor wakes a
//! device; what was found is looked at and then opened, itself, whatever its name means by then.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat, chmodat, fstat, linkat, openat,
    openat2, statat,
};
use rustix::io::Errno;

/// Most bytes read of a table of users.
const TABLE_LIMIT: u64 = 4 * 1024 * 1024;

/// Whether the last name of a path is followed when it is a symbolic link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follow {
    /// As `open` and `stat` do.
    Yes,
    /// As `lstat`, `rename` and `unlink` do.
    No,
}

/// The root of the sandbox's files. To be used on the threads of [`super::Inside`] only.
#[derive(Debug)]
pub struct Root {
    dir: OwnedFd,
    /// Our own /proc/self/fd, from which what was found is opened.
    descriptors: OwnedFd,
}

impl Root {
    pub(crate) fn new(dir: OwnedFd) -> Result<Self, Errno> {
        let descriptors = openat(
            CWD,
            "/proc/self/fd",
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        Ok(Self { dir, descriptors })
    }

    /// Finds what an absolute path names, without opening it.
    pub fn find(&self, path: &Path, follow: Follow) -> Result<OwnedFd, Errno> {
        self.find_below(&self.dir, path, follow)
    }

    /// Finds a directory.
    pub fn find_dir(&self, path: &Path) -> Result<OwnedFd, Errno> {
        self.resolve(&self.dir, path, OFlags::PATH | OFlags::DIRECTORY)
    }

    /// Finds the directory a path lies in, and its last name, for making, renaming and removing.
    /// As the kernel does: `EINVAL` for a path that ends in `.` or `..`, `EBUSY` for the root itself,
    /// `ENOTDIR` for one that ends in a slash and names something else than a directory.
    pub fn find_parent(&self, path: &Path) -> Result<(OwnedFd, OsString), Errno> {
        match path.components().next_back() {
            Some(Component::Normal(_)) if ends_in_a_dot(path) => {
                self.find_dir(path)?;
                Err(Errno::INVAL)
            }
            Some(Component::Normal(name)) => {
                let parent = self.find_dir(path.parent().unwrap_or(Path::new("/")))?;
                if wants_directory(path) {
                    match self.stat_at(&parent, name) {
                        Ok(stat) if !is_directory(&stat) => return Err(Errno::NOTDIR),
                        Ok(_) | Err(Errno::NOENT) => {}
                        Err(errno) => return Err(errno),
                    }
                }
                Ok((parent, name.to_owned()))
            }
            Some(Component::RootDir) => Err(Errno::BUSY),
            _ => Err(Errno::INVAL),
        }
    }

    fn find_below(&self, dir: impl AsFd, path: &Path, follow: Follow) -> Result<OwnedFd, Errno> {
        let nofollow = match follow {
            Follow::Yes => OFlags::empty(),
            Follow::No => OFlags::NOFOLLOW,
        };
        self.resolve(dir, path, OFlags::PATH | nofollow)
    }

    fn resolve(&self, dir: impl AsFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        loop {
            match openat2(&dir, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
                // A rename somewhere made the kernel unsure whether it is still inside.
                Err(Errno::AGAIN | Errno::INTR) => {}
                found => return found,
            }
        }
    }

    /// Opens what was found, itself. It must be a regular file or a directory: anything else could
    /// block or have effects of its own.
    pub fn open(&self, found: impl AsFd, flags: OFlags) -> Result<OwnedFd, Errno> {
        let found = found.as_fd();
        match FileType::from_raw_mode(fstat(found)?.st_mode) {
            FileType::RegularFile | FileType::Directory => {}
            FileType::Symlink => return Err(Errno::LOOP),
            _ => return Err(Errno::NXIO),
        }
        let number = found.as_raw_fd().to_string();
        let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        openat(&self.descriptors, number, flags, Mode::empty())
    }

    /// A small text file, such as a table of users; `None` when there is none, or it is something else.
    pub(crate) fn read_table(&self, path: &Path) -> Option<String> {
        let found = self.find(path, Follow::Yes).ok()?;
        let file = std::fs::File::from(self.open(found, OFlags::RDONLY).ok()?);
        let mut text = String::new();
        let mut file = std::io::Read::take(file, TABLE_LIMIT);
        std::io::Read::read_to_string(&mut file, &mut text).ok()?;
        Some(text)
    }

    /// Whether a path names a program.
    pub(crate) fn is_program(&self, path: &Path) -> bool {
        self.find(path, Follow::Yes)
            .and_then(fstat)
            .is_ok_and(|stat| {
                FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
                    && stat.st_mode & 0o111 != 0
            })
    }

    /// A new pseudo-terminal of the sandbox's own, which belongs to whoever the calling thread acts
    /// for.
    pub(crate) fn open_terminal(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDWR | OFlags::NOCTTY;
        self.resolve(&self.dir, Path::new("/dev/ptmx"), flags)
    }

    /// Sets the permission bits of what was found, itself, whatever its name means by now.
    pub fn chmod(&self, found: impl AsFd, mode: Mode) -> Result<(), Errno> {
        let number = found.as_fd().as_raw_fd().to_string();
        chmodat(&self.descriptors, number, mode, AtFlags::empty())
    }

    /// Gives an open file a name in a directory that was found. `EEXIST` when there is one.
    pub fn link(&self, file: impl AsFd, dir: impl AsFd, name: &OsStr) -> Result<(), Errno> {
        let number = file.as_fd().as_raw_fd().to_string();
        linkat(
            &self.descriptors,
            number,
            dir,
            name,
            AtFlags::SYMLINK_FOLLOW,
        )
    }

    /// What is at a name in a directory that was found, itself when it is a link.
    pub fn stat_at(&self, dir: impl AsFd, name: &OsStr) -> Result<Stat, Errno> {
        statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
    }
}

/// Whether a path can name nothing but a directory: `Path` does not tell `name/` from `name`.
pub fn wants_directory(path: &Path) -> bool {
    let path = path.as_os_str().as_bytes();
    path.ends_with(b"/") || path.ends_with(b"/.")
}

/// `Path` does not tell `name/.` from `name` either, nor `name/./`.
fn ends_in_a_dot(path: &Path) -> bool {
    let mut path = path.as_os_str().as_bytes();
    while let [before @ .., b'/'] = path {
        path = before;
    }
    path.ends_with(b"/.")
}

fn is_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}
