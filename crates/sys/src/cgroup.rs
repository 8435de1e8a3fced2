//! Control groups: make, list, freeze, kill, remove, and wait until empty.
//!
//! A [`Group`] is a directory held by descriptor, or known by its name in one that is. Whatever is done
//! to it is done relative to that descriptor, so it works as well where no cgroup file system is mounted
//! and only a detached mount of one directory was handed over. Kill and freeze need version 2, whose core is there on hybrid
//! hosts too; a controller is used in whichever hierarchy it lives (see [`Seat`]).
//!
//! Kernel trap: once `cgroup.kill` was written, every later birth in that group is killed at once,
//! even when the group was empty by then. A killed group is removed, never used again.

mod hierarchy;
mod seat;

use std::borrow::Cow;
use std::fs;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Uid, mkdirat, openat, unlinkat};
use rustix::io::Errno;

pub use hierarchy::{Controller, Facts, Located, Version, locate, locate_unified};
pub use seat::{Limit, OomSource, Seat, counter};

/// How long the killed may take to leave a group before it is left behind.
const BURIAL: Duration = Duration::from_secs(2);
const BURIAL_PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 2_000_000,
};

/// A group. Dropping it leaves the directory; [`Group::remove`] removes it.
#[derive(Debug, Clone)]
pub struct Group {
    /// What its files are reached from.
    dir: Arc<OwnedFd>,
    /// Its name in `dir`; absent where `dir` is the group itself.
    within: Option<String>,
    /// Where it is to be removed from; a group that was handed over is not ours to remove.
    place: Option<(Arc<OwnedFd>, String)>,
}

/// The file systems of control groups, of version 1 and 2.
const KINDS: [i128; 2] = [0x0027_e0eb, 0x6367_7270];

fn open_dir(parent: impl AsFd, name: impl rustix::path::Arg) -> Result<Arc<OwnedFd>, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    openat(parent, name, flags, Mode::empty()).map(Arc::new)
}

impl Group {
    /// A group that exists and stays.
    pub fn open(path: &Path) -> Result<Self, Errno> {
        Ok(Self {
            dir: open_dir(CWD, path)?,
            within: None,
            place: None,
        })
    }

    /// Whether it is one to the kernel, and not a directory of another kind.
    pub fn is_real(&self) -> bool {
        let kind = rustix::fs::fstatfs(&self.dir).map(|about| i128::from(about.f_type));
        kind.is_ok_and(|kind| KINDS.contains(&kind))
    }

    /// A group that was handed over by its directory.
    pub fn adopt(dir: OwnedFd) -> Self {
        Self {
            dir: Arc::new(dir),
            within: None,
            place: None,
        }
    }

    /// Makes a fresh group inside this one.
    pub fn child(&self, name: &str) -> Result<Self, Errno> {
        self.make(name)?;
        self.existing(name).inspect_err(|_| {
            // One that nobody has would stay for good.
            let _ = unlinkat(&self.dir, self.at(name).as_ref(), AtFlags::REMOVEDIR);
        })
    }

    /// The same, known by name only: it takes no descriptor while nothing is done to it, and nobody else
    /// may remove it and make another of that name.
    pub fn named_child(&self, name: &str) -> Result<Self, Errno> {
        self.make(name)?;
        let name = self.at(name).into_owned();
        Ok(Self {
            dir: self.dir.clone(),
            within: Some(name.clone()),
            place: Some((self.dir.clone(), name)),
        })
    }

    fn make(&self, name: &str) -> Result<(), Errno> {
        let mode = Mode::from_raw_mode(0o755);
        mkdirat(&self.dir, self.at(name).as_ref(), mode)
    }

    /// The path of a file of its own from `dir`.
    fn at<'a>(&self, file: &'a str) -> Cow<'a, str> {
        match &self.within {
            None => Cow::Borrowed(file),
            Some(within) => Cow::Owned(format!("{within}/{file}")),
        }
    }

    /// A group inside this one that exists already.
    pub fn existing(&self, name: &str) -> Result<Self, Errno> {
        let name = self.at(name).into_owned();
        Ok(Self {
            dir: open_dir(&self.dir, name.as_str())?,
            within: None,
            place: Some((self.dir.clone(), name)),
        })
    }

    /// Says that it is somebody's, for as long as a copy of this lives; false where it is another's.
    pub fn claim(&self) -> bool {
        let lock = rustix::fs::FlockOperation::NonBlockingLockExclusive;
        self.within.is_none() && rustix::fs::flock(&self.dir, lock).is_ok()
    }

    /// Names of the groups inside this one.
    pub fn children(&self) -> Vec<String> {
        // Ours may only name the place, and cannot be read then.
        let Ok(dir) = open_dir(&self.dir, self.at(".").as_ref()).and_then(Dir::read_from) else {
            return Vec::new();
        };
        dir.flatten()
            .filter(|entry| entry.file_type() == FileType::Directory)
            .filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned))
            .filter(|name| name != "." && name != "..")
            .collect()
    }

    /// Where it is, for messages and for a process that outlives this one.
    pub fn path(&self) -> Option<PathBuf> {
        let dir = fs::read_link(format!("/proc/self/fd/{}", self.dir.as_raw_fd())).ok()?;
        Some(self.within.iter().fold(dir, |dir, name| dir.join(name)))
    }

    /// Its directory, for a clone into it; of a group that is known by name only, none.
    pub fn dir(&self) -> Option<BorrowedFd<'_>> {
        self.within.is_none().then(|| self.dir.as_fd())
    }

    /// The same of any group, opened where it is not.
    pub fn directory(&self) -> Result<Arc<OwnedFd>, Errno> {
        match &self.within {
            None => Ok(self.dir.clone()),
            Some(name) => open_dir(&self.dir, name.as_str()),
        }
    }

    /// Its directory as a mount that is attached nowhere: whoever gets it can reach what is below,
    /// and nothing above. Needs the rights to mount. The mount goes with the last copy of the
    /// descriptor, and its end costs milliseconds: it is kept as it is, not opened anew.
    pub fn detached(&self) -> Result<OwnedFd, Errno> {
        use rustix::mount::{OpenTreeFlags, open_tree};
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_EMPTY_PATH;
        open_tree(&self.directory()?, "", flags)
    }

    /// A file of its own, whole.
    pub fn read(&self, file: &str) -> Result<String, Errno> {
        let fd = self.open_file(file)?;
        // Plain reads: the size that `std` would ask for first is 0 here and says nothing.
        let mut text = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            match rustix::io::read(&fd, &mut buffer)? {
                0 => return Ok(String::from_utf8_lossy(&text).into_owned()),
                n => text.extend_from_slice(buffer.get(..n).unwrap_or_default()),
            }
        }
    }

    /// Writes a file of its own.
    pub fn write(&self, file: &str, text: &str) -> Result<(), Errno> {
        let fd = openat(
            &self.dir,
            self.at(file).as_ref(),
            OFlags::WRONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        rustix::io::write(fd, text.as_bytes()).map(|_| ())
    }

    /// Gives a file of its own, or with `.` its directory, to a user.
    pub fn give(&self, file: &str, uid: u32) -> Result<(), Errno> {
        let owner = Some(Uid::from_raw(uid));
        let file = self.at(file);
        rustix::fs::chownat(
            &self.dir,
            file.as_ref(),
            owner,
            None,
            AtFlags::SYMLINK_NOFOLLOW,
        )
    }

    /// A file to which a process with one thread writes `0` to join the group, with the rights of
    /// whoever opened it.
    ///
    /// Where there is `tasks`, which only version 1 has, it is that: a thread that moves itself need not
    /// wait until no process anywhere is forking, which takes ten milliseconds and more, during which
    /// nothing can be born in a group.
    pub fn join_file(&self) -> Result<OwnedFd, Errno> {
        let open = |file| {
            openat(
                &self.dir,
                self.at(file).as_ref(),
                OFlags::WRONLY | OFlags::CLOEXEC,
                Mode::empty(),
            )
        };
        match open("tasks") {
            Err(Errno::NOENT) => open("cgroup.procs"),
            opened => opened,
        }
    }

    /// Pids of its members as this process sees them; of a group that was removed, none. Zombies are not
    /// members.
    pub fn members(&self) -> Result<Vec<i32>, Errno> {
        let text = match self.read("cgroup.procs") {
            Err(errno) if is_removed(errno) => return Ok(Vec::new()),
            read => read?,
        };
        let pids = text.lines().filter_map(|line| line.parse().ok());
        Ok(pids.filter(|pid| *pid > 0).collect())
    }

    /// Whether anything lives in it or below.
    pub fn is_populated(&self) -> Result<bool, Errno> {
        let mut text = [0; 128];
        let read = self
            .events()
            .and_then(|events| rustix::io::read(&events, &mut text));
        let read = match read {
            Err(errno) if is_removed(errno) => return Ok(false),
            read => read?,
        };
        let text = text.get(..read).unwrap_or_default();
        Ok(text.windows(11).any(|part| part == b"populated 1"))
    }

    /// A descriptor of `cgroup.events` that becomes readable with priority when the group changes
    /// between populated and empty, or frozen and not.
    pub fn events(&self) -> Result<OwnedFd, Errno> {
        self.open_file("cgroup.events")
    }

    /// Stops every member from running, so that a fork bomb cannot outrun a kill.
    pub fn freeze(&self) -> Result<(), Errno> {
        self.write("cgroup.freeze", "1")
    }

    /// Lets its members run again.
    pub fn thaw(&self) -> Result<(), Errno> {
        self.write("cgroup.freeze", "0")
    }

    /// Kills every member at once. The group must be removed afterwards.
    pub fn kill(&self) -> Result<(), Errno> {
        self.write("cgroup.kill", "1")
    }

    /// CPU time of all members, past ones included, in microseconds.
    pub fn cpu_micros(&self) -> Option<u64> {
        self.keyed("cpu.stat", "usage_usec")
    }

    /// A file of its own that holds one number; absent where the controller is not enabled, or the number is `max`.
    pub fn figure(&self, file: &str) -> Option<u64> {
        self.read(file).ok()?.trim().parse().ok()
    }

    /// One number of a file of its own that holds several by name.
    pub fn keyed(&self, file: &str, key: &str) -> Option<u64> {
        keyed(&self.read(file).ok()?, key)
    }

    /// A file of its own, to be read or watched.
    pub fn open_file(&self, file: &str) -> Result<OwnedFd, Errno> {
        openat(
            &self.dir,
            self.at(file).as_ref(),
            OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK,
            Mode::empty(),
        )
    }

    /// Removes the directory; `EBUSY` while something lives in it or below.
    pub fn remove(&self) -> Result<(), Errno> {
        let (parent, name) = self.place.as_ref().ok_or(Errno::PERM)?;
        match unlinkat(parent, name.as_str(), AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Removes what is below it, the deepest first, then the group itself where it is ours. What
    /// still lives keeps its group.
    pub fn remove_all(&self) -> Result<(), Errno> {
        let mut kept = Ok(());
        for name in self.children() {
            let removed = match self.existing(&name) {
                Ok(child) => child.remove_all(),
                Err(Errno::NOENT) => Ok(()),
                Err(errno) => Err(errno),
            };
            kept = kept.and(removed);
        }
        match (kept, &self.place) {
            (Ok(()), Some(_)) => self.remove(),
            (kept, _) => kept,
        }
    }

    /// Kills all that lives in it and removes it with all below. Members of a version 1 group are
    /// not killed here: they are members of a tree that is, and are waited for.
    pub fn bury(&self) {
        let _ = self.kill();
        let until = Instant::now() + BURIAL;
        while self.remove_all() == Err(Errno::BUSY) && Instant::now() < until {
            // The dying are gone within a moment. Version 2 tells when, version 1 does not.
            let events = self.events().ok();
            let mut waiting: Vec<PollFd<'_>> = events
                .iter()
                .map(|events| PollFd::new(events, PollFlags::PRI))
                .collect();
            let _ = poll(&mut waiting, Some(&BURIAL_PAUSE));
        }
    }
}

/// What the files of a group answer that is there no more, before and after they are opened.
fn is_removed(errno: Errno) -> bool {
    matches!(errno, Errno::NOENT | Errno::NODEV)
}

/// One number of a text that holds several by name, a line each.
pub(crate) fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(' ')?;
        (name == key).then(|| value.trim().parse().ok())?
    })
}

/// The v2 group this process lives in, as a directory; `None` where v2 is not mounted.
pub fn own_group() -> Option<PathBuf> {
    locate_unified(&Facts::read().ok()?).ok()
}

/// Removes a group that a former agent left, with what is below it, killing what lives in it.
pub fn bury(path: &Path) {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name().and_then(|n| n.to_str()))
    else {
        return;
    };
    if let Ok(group) = Group::open(parent).and_then(|parent| parent.existing(name)) {
        group.bury();
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_key_is_a_whole_word() {
        let text = "low 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 1\n";
        assert_eq!(super::keyed(text, "oom"), Some(3));
        assert_eq!(super::keyed(text, "oom_kill"), Some(2));
        assert_eq!(super::keyed(text, "kill"), None);
        assert_eq!(super::keyed("", "oom"), None);
    }
}
