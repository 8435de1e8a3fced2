//! Follows a tree of directories by inotify.
//!
//! Owns the inotify instance and the [`Tree`]; lives on the threads of the inside, one job at a time,
//! with the rights of its user. What happens is read in the order of the kernel's queue and applied to
//! the tree; whatever changes the tree is told.
//!
//! The disk is ahead of the queue, so a name looked up on the disk may already mean something else.
//! Three rules make the tree right in the end:
//!
//! - A directory is watched first and listed then. What its watch reports afterwards is applied on top,
//!   whether the list had it already or not: the last word on a name is the queue's, and of names the
//!   queue says nothing about the list is true.
//! - The kernel gives one directory one watch. A watch that belongs to another place in the tree shows
//!   that one of the two was looked up too early; the other becomes a *suspect*. So does a directory
//!   that moved or whose watch ended.
//! - When the queue is empty, suspects are looked up again, until there are none, and so are those
//!   that could not be found.
//!
//! ```text
//! read queue ─► apply ─► empty? ─► look at suspects ─► none? ─► drained
//!     ▲           │ overflow          │ some
//!     └───────────┴── begin anew, tell `rescan`
//! ```

mod apply;
mod lookup;

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader};
use rustix::io::Errno;
use sandshell_exec::inside::Root;
use sandshell_types::{
    FileChange, FileEvent, RescanReason, Timestamp, WatchEndEvent, WatchEndReason,
};

use super::filter::Filter;
use super::ring::Told;
use super::tree::{DirId, ROOT, Tree};
use crate::FileError;
use crate::entry::shown_path;
use lookup::Disk;

/// Most names known in all watches together. Each costs about 100 bytes.
pub(super) const MOST_ENTRIES: usize = 1_000_000;

/// A job ends when it has this much to tell, so that readers hear of it.
const MOST_TOLD: usize = 4096;

/// Bytes taken from the queue at a time.
const READ: usize = 64 << 10;

pub(super) struct Follower {
    inotify: OwnedFd,
    /// As asked for; events have paths below it.
    path: PathBuf,
    /// Device and inode of what is watched.
    identity: (u64, u64),
    /// What is watched is a directory.
    is_dir: bool,
    recursive: bool,
    filter: Filter,
    tree: Tree,
    /// Names known in all watches.
    budget: Arc<AtomicUsize>,
    counted: usize,
    /// Directories to be looked up again when the queue is empty.
    suspects: BTreeSet<DirId>,
    /// Directories that were not where they should have been, or were watched at another place: a
    /// report still to come explains it.
    lost: BTreeSet<DirId>,
    /// Directories have come, gone or moved since the lost ones were last looked for.
    search: bool,
    /// Names to be looked up again when the queue is empty.
    doubtful: Vec<(DirId, OsString)>,
    /// Where the last moves led. Two names that change places are reported as two moves, `a` to `b` and
    /// `b` to `a`, after which `b` seems to be gone.
    last_moves: VecDeque<(DirId, OsString)>,
    /// The first half of a move, when it was the last thing read.
    half_move: Option<HalfMove>,
    /// Files known to be told as modified already, with nothing else told since.
    modified: HashSet<(DirId, OsString)>,
    overflowed: bool,
    told: Vec<Told>,
    /// Nobody has a tree yet to which anything could be told.
    silent: bool,
    now: Timestamp,
}

struct HalfMove {
    cookie: u32,
    dir: DirId,
    name: OsString,
}

/// One report of the kernel.
struct Report {
    watch: i32,
    flags: ReadFlags,
    cookie: u32,
    name: Option<OsString>,
}

/// What is to be watched.
pub(super) struct Wanted {
    pub(super) path: PathBuf,
    pub(super) recursive: bool,
    pub(super) filter: Filter,
}

/// What one job found.
pub(super) struct Found {
    pub(super) told: Vec<Told>,
    /// Reports read from the queue.
    pub(super) read: usize,
    /// The queue was empty and nothing is in doubt.
    pub(super) drained: bool,
    /// The inotify instance is another one now.
    pub(super) renewed: bool,
    /// The watch is over.
    pub(super) ended: bool,
}

/// Why nothing more can be followed.
pub(super) enum Stop {
    /// What is watched is not there any more.
    Gone(WatchEndReason),
    /// A limit, and what can be done.
    Limit {
        detail: String,
        hint: String,
    },
    Failed(Errno),
}

impl Follower {
    /// Watches a path and everything below it.
    pub(super) fn begin(
        root: &Root,
        wanted: Wanted,
        budget: Arc<AtomicUsize>,
    ) -> Result<Self, FileError> {
        let at = FileError::at;
        let (identity, is_dir) = lookup::identify(root, &wanted.path).map_err(at(&wanted.path))?;
        let failed = |path: &Path, stop: Stop| match stop {
            Stop::Gone(_) => at(path)(Errno::NOENT),
            Stop::Limit { detail, hint } => FileError::Limit { detail, hint },
            Stop::Failed(errno) => at(path)(errno),
        };
        let mut follower = Self {
            inotify: instance().map_err(|stop| failed(&wanted.path, stop))?,
            path: wanted.path,
            identity,
            is_dir,
            recursive: wanted.recursive && is_dir,
            filter: wanted.filter,
            tree: Tree::new(),
            budget,
            counted: 0,
            suspects: BTreeSet::new(),
            lost: BTreeSet::new(),
            search: false,
            doubtful: Vec::new(),
            last_moves: VecDeque::new(),
            half_move: None,
            modified: HashSet::new(),
            overflowed: false,
            told: Vec::new(),
            silent: true,
            now: Timestamp::now(),
        };
        let mut disk = Disk::new(root);
        let attached = follower.attach(&mut disk, ROOT);
        let path = follower.path.clone();
        attached.map_err(|stop| failed(&path, stop))?;
        if follower.tree.watch_of(ROOT).is_none() {
            return Err(at(&path)(Errno::ACCESS));
        }
        follower.silent = false;
        Ok(follower)
    }

    /// The queue, to be waited for.
    pub(super) fn queue(&self) -> std::io::Result<OwnedFd> {
        self.inotify.try_clone()
    }

    pub(super) fn directories(&self) -> u64 {
        self.tree.watched() as u64
    }

    pub(super) fn entries(&self) -> u64 {
        self.tree.entries() as u64
    }

    /// Reads the queue and tells what happened.
    pub(super) fn catch_up(&mut self, root: &Root) -> Found {
        let mut found = Found {
            told: Vec::new(),
            read: 0,
            drained: false,
            renewed: false,
            ended: false,
        };
        self.now = Timestamp::now();
        self.modified.clear();
        let mut disk = Disk::new(root);
        if let Err(mut stop) = self.advance(&mut disk, &mut found) {
            if let Stop::Gone(reason) = &mut stop
                && let Some(exact) = self.own_end()
            {
                *reason = exact;
            }
            self.told.push(Told::End(end_event(stop)));
            found.ended = true;
        }
        found.told = std::mem::take(&mut self.told);
        found
    }

    /// The path was looked up in vain: what the queue says of it, further on.
    fn own_end(&self) -> Option<WatchEndReason> {
        let itself = self.tree.watch_of(ROOT);
        let mut buffer = vec![MaybeUninit::uninit(); READ];
        loop {
            let reports = self.read(&mut buffer).ok()?;
            if reports.is_empty() {
                return None;
            }
            let own = reports.iter().filter(|report| Some(report.watch) == itself);
            let mut reasons = own.filter_map(|report| apply::reason_of(report.flags));
            if let Some(reason) = reasons.next() {
                return Some(reason);
            }
        }
    }

    fn advance(&mut self, disk: &mut Disk<'_>, found: &mut Found) -> Result<(), Stop> {
        let mut buffer = vec![MaybeUninit::uninit(); READ];
        while self.told.len() < MOST_TOLD {
            let reports = self.read(&mut buffer)?;
            found.read += reports.len();
            if reports.is_empty() {
                self.finish_half_move();
                if self.search {
                    self.search = false;
                    self.suspects.append(&mut self.lost);
                }
                if self.suspects.is_empty() && self.doubtful.is_empty() {
                    found.drained = true;
                    break;
                }
                self.look_again(disk)?;
            }
            for report in reports {
                self.apply(disk, report)?;
                if self.overflowed {
                    self.begin_anew(disk)?;
                    found.renewed = true;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Some reports are missing: everything is watched afresh and whoever reads is told to list again.
    /// With another instance no report on a former watch can be mistaken for one on a new one.
    fn begin_anew(&mut self, disk: &mut Disk<'_>) -> Result<(), Stop> {
        self.overflowed = false;
        self.half_move = None;
        self.suspects.clear();
        self.lost.clear();
        self.doubtful.clear();
        self.last_moves.clear();
        self.inotify = instance()?;
        self.tree = Tree::new();
        self.silent = true;
        let attached = self.attach(disk, ROOT);
        self.silent = false;
        attached?;
        if self.tree.watch_of(ROOT).is_none() {
            return Err(Stop::Gone(WatchEndReason::Removed));
        }
        // Only now: what changes after this has a watch that reports it.
        self.told.push(Told::Rescan(RescanReason::Overflow));
        Ok(())
    }

    /// What is in the queue, up to a buffer full.
    fn read(&self, buffer: &mut [MaybeUninit<u8>]) -> Result<Vec<Report>, Stop> {
        let mut reports = Vec::new();
        let mut reader = Reader::new(&self.inotify, buffer);
        loop {
            match reader.next() {
                Ok(event) => reports.push(Report {
                    watch: event.wd(),
                    flags: event.events(),
                    cookie: event.cookie(),
                    name: event
                        .file_name()
                        .map(|name| OsString::from_vec(name.to_bytes().to_vec())),
                }),
                Err(Errno::AGAIN) => return Ok(reports),
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(Stop::Failed(errno)),
            }
            if reader.is_buffer_empty() {
                return Ok(reports);
            }
        }
    }

    fn finish_half_move(&mut self) {
        if let Some(half) = self.half_move.take() {
            // The other half is outside.
            self.vanish(half.dir, &half.name);
        }
    }

    /// Whether a name in a directory is told at all.
    fn tells(&self, dir: DirId, name: &OsStr, directory: bool) -> bool {
        self.filter
            .tells(&self.tree.path(dir).join(name), directory)
    }

    fn tell(&mut self, change: FileChange, at: (DirId, &OsStr), directory: bool) {
        self.tell_move(change, None, at, directory);
    }

    fn tell_move(
        &mut self,
        change: FileChange,
        from: Option<(DirId, &OsStr)>,
        at: (DirId, &OsStr),
        directory: bool,
    ) {
        if self.silent {
            return;
        }
        if change != FileChange::Modified {
            self.modified.clear();
        } else if !self.modified.insert((at.0, at.1.to_owned())) {
            return;
        }
        let (path, path_base64) = self.shown(at);
        let (from, from_base64) = match from {
            Some(from) => {
                let (from, base64) = self.shown(from);
                (Some(from), base64)
            }
            None => (None, None),
        };
        self.told.push(Told::Change(FileEvent {
            change,
            path,
            path_base64,
            from,
            from_base64,
            directory,
            at: self.now,
        }));
    }

    /// The absolute path of a name, as text, and exactly where that is not enough.
    fn shown(&self, (dir, name): (DirId, &OsStr)) -> (String, Option<String>) {
        let mut path = self.path.join(self.tree.path(dir));
        if !name.is_empty() {
            path.push(name);
        } else if dir == ROOT {
            path.clone_from(&self.path);
        }
        shown_path(&path)
    }

    /// Keeps the count of names in all watches.
    fn count(&mut self) -> Result<(), Stop> {
        let now = self.tree.entries();
        let all = if now >= self.counted {
            let more = now - self.counted;
            self.budget.fetch_add(more, Ordering::AcqRel) + more
        } else {
            let less = self.counted - now;
            self.budget.fetch_sub(less, Ordering::AcqRel) - less
        };
        self.counted = now;
        if all > MOST_ENTRIES {
            return Err(Stop::Limit {
                detail: format!("more than {MOST_ENTRIES} files would be watched"),
                hint: "Watch a smaller directory, or exclude what you do not need.".to_owned(),
            });
        }
        Ok(())
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.budget.fetch_sub(self.counted, Ordering::AcqRel);
    }
}

fn instance() -> Result<OwnedFd, Stop> {
    match inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK) {
        Ok(made) => Ok(made),
        // Of two limits with one error; the other one stops every open.
        Err(Errno::MFILE) if rustix::pipe::pipe().is_ok() => Err(Stop::Limit {
            detail: "this user has no inotify instance left (fs.inotify.max_user_instances)"
                .to_owned(),
            hint: "Raise the sysctl fs.inotify.max_user_instances, or end other watches."
                .to_owned(),
        }),
        Err(errno) => Err(Stop::Failed(errno)),
    }
}

fn end_event(stop: Stop) -> WatchEndEvent {
    match stop {
        Stop::Gone(reason) => WatchEndEvent {
            reason,
            detail: None,
        },
        Stop::Limit { detail, hint } => WatchEndEvent {
            reason: WatchEndReason::LimitReached,
            detail: Some(format!("{detail}. {hint}")),
        },
        Stop::Failed(errno) => WatchEndEvent {
            reason: WatchEndReason::Failed,
            detail: Some(errno.to_string()),
        },
    }
}
