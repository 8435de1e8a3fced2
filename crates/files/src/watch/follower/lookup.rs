//! Directories on the disk: found, watched, listed and looked at again.
//!
//! Every name is found below the watched path without following links, whatever else is renamed
//! meanwhile. The watched path is found anew for each job and not held: a directory that someone holds
//! would not be reported as removed.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, WatchFlags};
use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::io::Errno;
use sandshell_exec::inside::{Follow, Root};
use sandshell_types::WatchEndReason;

use super::{Follower, Stop};
use crate::kernels_own::is_kernels_own;
use crate::watch::tree::{DirId, Entry};

/// What is reported of a directory and of what lies in it.
const REPORTED: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::EXCL_UNLINK);

/// Longest path given to the kernel at once; longer ones are found in steps.
const PATH_STEP: usize = 4000;

/// The sandbox's files for one job.
pub(super) struct Disk<'a> {
    root: &'a Root,
    /// The watched path, once it has been found.
    base: Option<OwnedFd>,
}

impl<'a> Disk<'a> {
    pub(super) fn new(root: &'a Root) -> Self {
        Self { root, base: None }
    }
}

/// Device and inode of a path that can be watched, and whether it is a directory.
pub(super) fn identify(root: &Root, path: &Path) -> Result<((u64, u64), bool), Errno> {
    let found = root.find(path, Follow::Yes)?;
    let stat = fstat(&found)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Ok(((stat.st_dev, stat.st_ino), true)),
        FileType::RegularFile => Ok(((stat.st_dev, stat.st_ino), false)),
        _ => Err(Errno::NXIO),
    }
}

fn identity(fd: impl AsFd) -> Option<(u64, u64)> {
    let stat = fstat(fd).ok()?;
    Some((stat.st_dev, stat.st_ino))
}

impl Follower {
    /// The watched path; an error when it leads elsewhere by now.
    fn base<'d>(&self, disk: &'d mut Disk<'_>) -> Result<BorrowedFd<'d>, Stop> {
        if disk.base.is_none() {
            let found = disk.root.find(&self.path, Follow::Yes);
            let found = found.map_err(|_| Stop::Gone(WatchEndReason::Removed))?;
            if identity(&found) != Some(self.identity) {
                return Err(Stop::Gone(WatchEndReason::Moved));
            }
            disk.base = Some(found);
        }
        disk.base
            .as_ref()
            .map(AsFd::as_fd)
            .ok_or(Stop::Failed(Errno::NOENT))
    }

    /// Finds a directory of the tree on the disk.
    fn find(&self, disk: &mut Disk<'_>, dir: DirId) -> Result<Result<OwnedFd, Errno>, Stop> {
        let path = self.tree.path(dir);
        let base = self.base(disk)?;
        Ok(if path.as_os_str().is_empty() {
            base.try_clone_to_owned()
                .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::MFILE))
        } else {
            find_below(base, &path)
        })
    }

    /// Watches a directory and lists it, then the directories in it, and so on. Whatever is new is
    /// told; whatever is not there any more, too.
    pub(super) fn attach(&mut self, disk: &mut Disk<'_>, dir: DirId) -> Result<(), Stop> {
        let mut todo = vec![dir];
        while let Some(dir) = todo.pop() {
            if !self.tree.has(dir) {
                continue;
            }
            if let Some(found) = self.watch(disk, dir)?
                && self.is_dir
            {
                self.list(disk, dir, &found, &mut todo)?;
            }
        }
        Ok(())
    }

    /// Gives a directory its watch; where it was found, when the watch is new.
    fn watch(&mut self, disk: &mut Disk<'_>, dir: DirId) -> Result<Option<OwnedFd>, Stop> {
        let found = match self.find(disk, dir)? {
            Ok(found) => found,
            Err(errno) => return self.not_watched(dir, errno),
        };
        let parent_device = self.identity.0;
        if identity(&found).is_some_and(|(device, _)| device != parent_device)
            && is_kernels_own(&found)
        {
            return self.not_watched(dir, Errno::ACCESS);
        }
        let only_dir = if self.is_dir {
            WatchFlags::ONLYDIR
        } else {
            WatchFlags::empty()
        };
        let watch = match add_watch(&self.inotify, &found, REPORTED | only_dir) {
            Ok(watch) => watch,
            Err(Errno::NOSPC) => return Err(too_many_watches()),
            Err(errno) => return self.not_watched(dir, errno),
        };
        match self.tree.of_watch(watch) {
            Some(known) if known == dir => return Ok(None),
            Some(other) => {
                let there = self.find(disk, other)?.ok().and_then(identity);
                if there.is_some() && there == identity(&found) {
                    // It moved from here to there just now; or it is at both places, by a bind mount,
                    // and then it is told at the first one only.
                    self.lost.insert(dir);
                    self.release(dir);
                    return Ok(None);
                }
                // It is here now, so the other place was looked at before it had its turn.
                self.tree.detach(other);
                self.suspects.insert(other);
            }
            None => {}
        }
        if let Some(former) = self.tree.attach(dir, watch) {
            let _ = inotify::remove_watch(&self.inotify, former);
        }
        self.lost.remove(&dir);
        Ok(Some(found))
    }

    /// Whether what was found is the directory with this watch.
    fn is_watched_as(&self, found: &OwnedFd, watch: i32) -> bool {
        match add_watch(&self.inotify, found, REPORTED) {
            Ok(same) if same == watch => true,
            Ok(other) => {
                if self.tree.of_watch(other).is_none() {
                    // It gets its watch when its turn comes.
                    let _ = inotify::remove_watch(&self.inotify, other);
                }
                false
            }
            Err(_) => false,
        }
    }

    /// A directory that is not where it should be, or that its user may not read.
    fn not_watched(&mut self, dir: DirId, errno: Errno) -> Result<Option<OwnedFd>, Stop> {
        match errno {
            Errno::NOMEM | Errno::MFILE | Errno::NFILE => return Err(Stop::Failed(errno)),
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP => {
                self.lost.insert(dir);
            }
            _ => {}
        }
        self.release(dir);
        Ok(None)
    }

    fn release(&mut self, dir: DirId) {
        if let Some(watch) = self.tree.detach(dir) {
            let _ = inotify::remove_watch(&self.inotify, watch);
        }
    }

    /// Compares a directory with what is known of it.
    fn list(
        &mut self,
        disk: &Disk<'_>,
        dir: DirId,
        found: &OwnedFd,
        todo: &mut Vec<DirId>,
    ) -> Result<(), Stop> {
        let former = self.tree.names(dir);
        let mut seen = HashSet::new();
        let opened = disk.root.open(found, OFlags::RDONLY | OFlags::DIRECTORY);
        let Ok(entries) = opened.and_then(Dir::new) else {
            // The right to read it was taken away meanwhile.
            return Ok(());
        };
        let place = self.tree.path(dir);
        for entry in entries {
            let Ok(entry) = entry else {
                // What could not be read is not known to be gone.
                return self.count();
            };
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let directory = match entry.file_type() {
                FileType::Unknown => match disk.root.stat_at(found, name) {
                    Ok(stat) => FileType::from_raw_mode(stat.st_mode) == FileType::Directory,
                    Err(_) => continue,
                },
                kind => kind == FileType::Directory,
            };
            if !self.filter.tells(&place.join(name), directory) {
                continue;
            }
            if !former.is_empty() {
                seen.insert(name.to_owned());
            }
            self.list_one(dir, name, directory, todo);
        }
        for name in former {
            if !seen.contains(&*name) {
                self.vanish(dir, &name);
            }
        }
        self.count()
    }

    fn list_one(&mut self, dir: DirId, name: &OsStr, directory: bool, todo: &mut Vec<DirId>) {
        match (self.tree.get(dir, name), directory) {
            (Some(Entry::File), false) => return,
            (Some(Entry::Dir(known)), true) => {
                if self.recursive {
                    todo.push(known);
                }
                return;
            }
            (Some(_), _) => self.vanish(dir, name),
            (None, _) => {}
        }
        let entry = self.tree.insert(dir, name, directory);
        self.tell(sandshell_types::FileChange::Created, (dir, name), directory);
        if let Entry::Dir(new) = entry
            && self.recursive
        {
            todo.push(new);
        }
    }

    /// The queue is empty, so the disk can tell what is right.
    pub(super) fn look_again(&mut self, disk: &mut Disk<'_>) -> Result<(), Stop> {
        for dir in std::mem::take(&mut self.suspects) {
            self.attach(disk, dir)?;
        }
        for (dir, name) in std::mem::take(&mut self.doubtful) {
            let Some(watch) = self.tree.watch_of(dir) else {
                // It is listed when it is found.
                continue;
            };
            let found = self.find(disk, dir)?;
            let Some(found) = found.ok().filter(|found| self.is_watched_as(found, watch)) else {
                self.suspects.insert(dir);
                self.doubtful.push((dir, name));
                continue;
            };
            match disk.root.stat_at(&found, &name) {
                Ok(stat) => {
                    let kind = FileType::from_raw_mode(stat.st_mode);
                    self.appear(disk, dir, &name, kind == FileType::Directory)?;
                }
                Err(Errno::NOENT) => self.vanish(dir, &name),
                Err(_) => {}
            }
        }
        Ok(())
    }
}

/// Watches what was found. The thread's user needs the right to read it, as for listing it.
fn add_watch(inotify: &OwnedFd, found: &OwnedFd, flags: WatchFlags) -> Result<i32, Errno> {
    inotify::add_watch(
        inotify,
        format!("/proc/self/fd/{}", found.as_raw_fd()),
        flags,
    )
}

/// Finds a directory below another; no link is followed on the way.
fn find_below(base: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd, Errno> {
    let mut at: Option<OwnedFd> = None;
    for step in steps(path) {
        let from = at.as_ref().map_or(base, AsFd::as_fd);
        at = Some(find_step(from, &step)?);
    }
    at.ok_or(Errno::NOENT)
}

fn find_step(base: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    loop {
        match openat2(base, path, flags, Mode::empty(), resolve) {
            // A rename somewhere made the kernel unsure whether it is still below.
            Err(Errno::AGAIN | Errno::INTR) => {}
            found => return found,
        }
    }
}

/// A path in pieces that the kernel takes.
fn steps(path: &Path) -> Vec<PathBuf> {
    if path.as_os_str().len() <= PATH_STEP {
        return vec![path.to_owned()];
    }
    let mut steps = vec![Vec::new()];
    for name in path.as_os_str().as_bytes().split(|byte| *byte == b'/') {
        let full = steps
            .last()
            .is_some_and(|step: &Vec<u8>| step.len() + 1 + name.len() > PATH_STEP);
        if full {
            steps.push(Vec::new());
        }
        if let Some(step) = steps.last_mut() {
            if !step.is_empty() {
                step.push(b'/');
            }
            step.extend_from_slice(name);
        }
    }
    let path = |step| PathBuf::from(OsString::from_vec(step));
    steps.into_iter().map(path).collect()
}

fn too_many_watches() -> Stop {
    let limit = std::fs::read_to_string("/proc/sys/fs/inotify/max_user_watches");
    let limit = limit.map_or_else(|_| "?".to_owned(), |text| text.trim().to_owned());
    Stop::Limit {
        detail: format!(
            "this user may watch no more directories (fs.inotify.max_user_watches is {limit})"
        ),
        hint:
            "Raise the sysctl fs.inotify.max_user_watches, watch a smaller directory, or exclude \
               what you do not need."
                .to_owned(),
    }
}
