//! A walk over a tree, by descriptors.
//!
//! Owns the order (sorted within each directory), what is left out (globs, .gitignore, hidden names),
//! and the rule that no link is followed: a directory is opened by its name in the directory above
//! it, never by a path. Does not own what is done with an entry. To be run inside.
//!
//! Invariants: one descriptor and at most [`CHUNK`] names in memory for each level; the file systems
//! of the kernel itself (/proc, /sys) are not entered unless the walk begins there.

mod globs;
mod rules;

use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, RawDir, Stat, fstat, fstatfs, openat};
use rustix::io::Errno;
use sandshell_exec::inside::{Follow, Root};

use crate::FileError;
pub(crate) use globs::Globs;
use rules::{Rules, Verdict};

/// Deepest level: a descriptor is held for each.
pub(crate) const MAX_LEVELS: usize = 512;

/// Most names of one directory that are sorted together. A larger directory comes in several
/// sorted pieces, so that memory stays bounded.
const CHUNK: usize = 65_536;

/// Magic numbers of file systems that are the kernel's own: proc, sysfs, cgroup, cgroup2, debugfs,
/// tracefs, securityfs, devpts, bpf.
const KERNELS_OWN: &[i64] = &[
    0x9fa0,
    0x6265_6572,
    0x0027_e0eb,
    0x6367_7270,
    0x6462_6720,
    0x7472_6163,
    0x7363_6673,
    0x1cd1,
    0xcafe_4a11_u32 as i64,
];

/// What a walk leaves out.
#[derive(Debug, Clone)]
pub(crate) struct WalkOptions {
    pub(crate) exclude: Globs,
    /// Leave out what .gitignore files say.
    pub(crate) gitignore: bool,
    /// Leave out `.git`.
    pub(crate) skip_git: bool,
    /// Look at names that begin with a dot.
    pub(crate) hidden: bool,
    pub(crate) max_depth: Option<u32>,
}

/// One entry, while the walk is there.
pub(crate) struct Entry<'a> {
    /// Its path below the start.
    pub(crate) path: &'a Path,
    pub(crate) name: &'a OsStr,
    pub(crate) kind: FileType,
    dir: BorrowedFd<'a>,
}

impl Entry<'_> {
    /// What it is now, itself.
    pub(crate) fn stat(&self, root: &Root) -> Result<Stat, Errno> {
        root.stat_at(self.dir, self.name)
    }

    /// Opens a regular file for reading.
    pub(crate) fn open(&self, root: &Root) -> Result<OwnedFd, Errno> {
        root.open(found_at(self.dir, self.name)?, OFlags::RDONLY)
    }

    pub(crate) fn dir(&self) -> BorrowedFd<'_> {
        self.dir
    }
}

/// Whether the walk goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Go,
    Stop,
}

/// Who walks along.
pub(crate) trait Visitor {
    /// An entry that is not left out; a directory comes before what is in it.
    fn entry(&mut self, entry: &Entry<'_>) -> Result<Next, FileError>;

    /// A directory that cannot be read.
    fn unreadable(&mut self, path: &Path, errno: Errno) -> Result<(), FileError>;
}

/// A name in a directory, itself, without opening it.
fn found_at(dir: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(dir, name, flags, Mode::empty())
}

/// Opens a directory by its name in the one above it. Anything else is refused before it is opened.
pub(crate) fn open_dir_at(dir: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(dir, name, flags, Mode::empty())
}

struct Name {
    name: OsString,
    kind: FileType,
}

struct Level {
    dir: OwnedFd,
    device: u64,
    /// Sorted, the next one last.
    names: Vec<Name>,
    /// The directory has been read to its end.
    complete: bool,
    /// Length of its path.
    prefix: usize,
    rules: Rules,
}

/// Walks the tree below a directory.
pub(crate) fn walk(
    root: &Root,
    start: &Path,
    options: &WalkOptions,
    visitor: &mut impl Visitor,
) -> Result<(), FileError> {
    let found = root
        .find(start, Follow::Yes)
        .map_err(FileError::at(start))?;
    let dir = root
        .open(found, OFlags::RDONLY | OFlags::DIRECTORY)
        .map_err(FileError::at(start))?;
    Walk {
        root,
        start,
        options,
        levels: Vec::new(),
        path: Vec::new(),
        buffer: Vec::with_capacity(32 << 10),
    }
    .run(dir, visitor)
}

struct Walk<'a> {
    root: &'a Root,
    start: &'a Path,
    options: &'a WalkOptions,
    levels: Vec<Level>,
    /// Path of the entry that is looked at, below the start.
    path: Vec<u8>,
    buffer: Vec<u8>,
}

impl Walk<'_> {
    fn run(&mut self, dir: OwnedFd, visitor: &mut impl Visitor) -> Result<(), FileError> {
        let rules = if self.options.gitignore {
            Rules::at_start(self.root, self.start, dir.as_fd())
        } else {
            Rules::none()
        };
        let device = self.device_of(&dir)?;
        self.enter(dir, device, rules)?;
        while let Some(level) = self.levels.last_mut() {
            let Some(Name { name, kind }) = level.names.pop() else {
                if level.complete {
                    self.levels.pop();
                } else {
                    self.read_names()?;
                }
                continue;
            };
            self.path.truncate(level.prefix);
            if level.prefix > 0 {
                self.path.push(b'/');
            }
            self.path.extend_from_slice(name.as_bytes());
            if self.left_out(&name, kind == FileType::Directory) {
                continue;
            }
            let Some(level) = self.levels.last() else {
                break;
            };
            let entry = Entry {
                path: Path::new(OsStr::from_bytes(&self.path)),
                name: &name,
                kind,
                dir: level.dir.as_fd(),
            };
            if visitor.entry(&entry)? == Next::Stop {
                return Ok(());
            }
            if kind == FileType::Directory {
                self.descend(&name, visitor)?;
            }
        }
        Ok(())
    }

    fn left_out(&self, name: &OsStr, is_dir: bool) -> bool {
        let options = self.options;
        if !options.hidden && name.as_bytes().first() == Some(&b'.') {
            return true;
        }
        if options.skip_git && name == ".git" {
            return true;
        }
        let path = Path::new(OsStr::from_bytes(&self.path));
        if options.exclude.matches(path, name) {
            return true;
        }
        // The nearest rules win; a repository within another has rules of its own.
        for level in self.levels.iter().rev() {
            let below = self.path.get(level.prefix..).unwrap_or_default();
            let below = below.strip_prefix(b"/").unwrap_or(below);
            match level.rules.verdict(below, is_dir) {
                Verdict::Ignored => return true,
                Verdict::Kept => return false,
                Verdict::Silent if level.rules.is_repository() => return false,
                Verdict::Silent => {}
            }
        }
        false
    }

    fn descend(&mut self, name: &OsStr, visitor: &mut impl Visitor) -> Result<(), FileError> {
        if self
            .options
            .max_depth
            .is_some_and(|most| self.levels.len() >= most as usize)
        {
            return Ok(());
        }
        if self.levels.len() >= MAX_LEVELS {
            return Err(self.failed(Errno::NAMETOOLONG));
        }
        let Some(level) = self.levels.last() else {
            return Ok(());
        };
        match open_dir_at(level.dir.as_fd(), name) {
            Ok(dir) => {
                let device = self.device_of(&dir)?;
                if device != level.device && is_kernels_own(&dir) {
                    return Ok(());
                }
                let rules = if self.options.gitignore {
                    Rules::of(self.root, dir.as_fd())
                } else {
                    Rules::none()
                };
                self.enter(dir, device, rules)
            }
            Err(errno @ (Errno::ACCESS | Errno::PERM)) => {
                visitor.unreadable(Path::new(OsStr::from_bytes(&self.path)), errno)
            }
            // It went away, or became something else.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(()),
            Err(errno) => Err(self.failed(errno)),
        }
    }

    fn enter(&mut self, dir: OwnedFd, device: u64, rules: Rules) -> Result<(), FileError> {
        self.levels.push(Level {
            dir,
            device,
            names: Vec::new(),
            complete: false,
            prefix: self.path.len(),
            rules,
        });
        self.read_names()
    }

    fn read_names(&mut self) -> Result<(), FileError> {
        let Some(level) = self.levels.last_mut() else {
            return Ok(());
        };
        let read = read_some(&level.dir, &mut self.buffer, CHUNK);
        match read {
            Ok((names, complete)) => {
                level.names = names;
                level.complete = complete;
                Ok(())
            }
            Err(errno) => Err(self.failed(errno)),
        }
    }

    fn device_of(&self, dir: &OwnedFd) -> Result<u64, FileError> {
        fstat(dir)
            .map(|stat| stat.st_dev)
            .map_err(|errno| self.failed(errno))
    }

    fn failed(&self, errno: Errno) -> FileError {
        FileError::At {
            path: self.start.join(OsStr::from_bytes(&self.path)),
            errno,
        }
    }
}

/// Reads names until there are `most` of them, sorted with the first one last, and says whether
/// they are the rest of the directory.
fn read_some(dir: &OwnedFd, buffer: &mut Vec<u8>, most: usize) -> Result<(Vec<Name>, bool), Errno> {
    let mut names = Vec::new();
    let mut complete = true;
    buffer.clear();
    let space: &mut [MaybeUninit<u8>] = buffer.spare_capacity_mut();
    let mut entries = RawDir::new(dir, space);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            let kind = match entry.file_type() {
                FileType::Unknown => {
                    match rustix::fs::statat(dir, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW) {
                        Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                        Err(_) => FileType::Unknown,
                    }
                }
                kind => kind,
            };
            names.push(Name {
                name: name.to_owned(),
                kind,
            });
        }
        // What the kernel has given already must be taken.
        if names.len() >= most && entries.is_buffer_empty() {
            complete = false;
            break;
        }
    }
    names.sort_unstable_by(|a, b| b.name.cmp(&a.name));
    Ok((names, complete))
}

/// All names of a directory, sorted, for trees of our own making.
pub(crate) fn names_in(dir: &OwnedFd) -> Result<Vec<OsString>, Errno> {
    // It may have been read before.
    rustix::fs::seek(dir, rustix::fs::SeekFrom::Start(0))?;
    let mut buffer = Vec::with_capacity(32 << 10);
    let (names, _) = read_some(dir, &mut buffer, usize::MAX)?;
    Ok(names.into_iter().rev().map(|name| name.name).collect())
}

fn is_kernels_own(dir: &OwnedFd) -> bool {
    fstatfs(dir).is_ok_and(|stat| KERNELS_OWN.contains(&stat.f_type))
}

/// A path below a directory in full, as the user would name it.
pub(crate) fn below(start: &Path, path: &Path) -> PathBuf {
    if path.as_os_str().is_empty() {
        start.to_owned()
    } else {
        start.join(path)
    }
}
