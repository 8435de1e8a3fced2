//! What a find, a search or an archive sees of a tree.
//!
//! Owns what is left out (globs, .gitignore, the kernel's own file systems, depth) and what happens
//! where a directory cannot be read. Does not own the way through the tree, which is [`Tree`]'s: sorted,
//! by descriptors, through no link, in bounded memory; nor what is done with an entry. To be run inside.
//!
//! The other users of [`Tree`] (lists, copies, removals) see everything and need no rules, but must
//! know when a directory is left; so they use it without this.
//!
//! Invariant: the file systems of the kernel itself (/proc, /sys) are not entered unless the walk begins
//! there.

mod globs;
pub(crate) mod rules;

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, Stat, openat};
use rustix::io::Errno;
use sandshell_exec::inside::{Follow, Root};

use crate::FileError;
use crate::kernels_own::is_kernels_own;
use crate::tree::{Name, Tree};
pub(crate) use globs::Globs;
use rules::{Rules, Verdict};

/// Deepest level. What is packed can be unpacked again, which holds a descriptor for each.
pub(crate) const MAX_LEVELS: usize = 512;

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

/// A directory on the way.
struct Level {
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
    let rules = if options.gitignore {
        Rules::at_start(root, start, dir.as_fd())
    } else {
        Rules::none()
    };
    let tree = Tree::new(dir).map_err(FileError::at(start))?;
    Walk {
        root,
        start,
        options,
        tree: if options.hidden {
            tree
        } else {
            tree.without_hidden()
        },
        levels: vec![Level { prefix: 0, rules }],
        path: Vec::new(),
    }
    .run(visitor)
}

struct Walk<'a> {
    root: &'a Root,
    start: &'a Path,
    options: &'a WalkOptions,
    tree: Tree,
    /// As many as the tree has.
    levels: Vec<Level>,
    /// Path of the entry that is looked at, below the start.
    path: Vec<u8>,
}

impl Walk<'_> {
    fn run(&mut self, visitor: &mut impl Visitor) -> Result<(), FileError> {
        while let Some(level) = self.levels.last() {
            self.path.truncate(level.prefix);
            let Some(Name { name, kind }) = self.tree.next().map_err(|e| self.failed(e))? else {
                self.leave()?;
                self.levels.pop();
                continue;
            };
            if !self.path.is_empty() {
                self.path.push(b'/');
            }
            self.path.extend_from_slice(name.as_bytes());
            let kind = match kind {
                FileType::Unknown => self.kind_of(&name),
                kind => kind,
            };
            if self.left_out(&name, kind == FileType::Directory) {
                continue;
            }
            let entry = Entry {
                path: Path::new(OsStr::from_bytes(&self.path)),
                name: &name,
                kind,
                dir: self.tree.dir(),
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

    /// For file systems that do not say it with the name.
    fn kind_of(&self, name: &OsStr) -> FileType {
        match self.root.stat_at(self.tree.dir(), name) {
            Ok(stat) => FileType::from_raw_mode(stat.st_mode),
            Err(_) => FileType::Unknown,
        }
    }

    fn left_out(&self, name: &OsStr, is_dir: bool) -> bool {
        let options = self.options;
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
        let device = self.tree.dir_id().0;
        match self.tree.enter(name) {
            Ok(()) => {}
            Err(errno @ (Errno::ACCESS | Errno::PERM)) => {
                return visitor.unreadable(Path::new(OsStr::from_bytes(&self.path)), errno);
            }
            // It went away, or became something else.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
            Err(errno) => return Err(self.failed(errno)),
        }
        if self.tree.dir_id().0 != device && is_kernels_own(self.tree.dir()) {
            return self.leave();
        }
        let rules = if self.options.gitignore {
            Rules::of(self.root, self.tree.dir())
        } else {
            Rules::none()
        };
        self.levels.push(Level {
            prefix: self.path.len(),
            rules,
        });
        Ok(())
    }

    fn leave(&mut self) -> Result<(), FileError> {
        let left = self.tree.leave();
        left.map(|_| ()).map_err(|errno| self.failed(errno))
    }

    fn failed(&self, errno: Errno) -> FileError {
        FileError::At {
            path: self.start.join(OsStr::from_bytes(&self.path)),
            errno,
        }
    }
}

/// A path below a directory in full, as the user would name it.
pub(crate) fn below(start: &Path, path: &Path) -> PathBuf {
    // Without `.` and doubled slashes, which mean nothing; `..` may lead anywhere, and stays.
    start.components().chain(path.components()).collect()
}
