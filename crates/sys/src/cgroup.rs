//! cgroup v2 groups used to hold process trees: make, list, freeze, kill, wait until empty.
//!
//! Only the core of v2 is used, no controller, so this works on hybrid hosts too.
//!
//! Kernel trap: once `cgroup.kill` was written, every later birth in that group is killed at once,
//! even when the group was empty by then. A killed group is removed, never used again.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::io::Errno;

/// A group, removed from the file system by [`Group::remove`].
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
    dir: OwnedFd,
}

impl Group {
    /// Makes a fresh group.
    pub fn create(path: PathBuf) -> Result<Self, Errno> {
        mkdirat(CWD, &path, Mode::from_raw_mode(0o755))?;
        let dir = openat(
            CWD,
            &path,
            OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        Ok(Self { path, dir })
    }

    /// Makes a group inside this one.
    pub fn child(&self, name: &str) -> Result<Self, Errno> {
        Self::create(self.path.join(name))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its directory, for a clone into it.
    pub fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    fn read(&self, file: &str) -> Result<String, Errno> {
        let fd = openat(
            &self.dir,
            file,
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
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

    fn write(&self, file: &str, text: &str) -> Result<(), Errno> {
        let fd = openat(
            &self.dir,
            file,
            OFlags::WRONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        rustix::io::write(fd, text.as_bytes()).map(|_| ())
    }

    /// Pids of its members as this process sees them. Zombies are not members.
    pub fn members(&self) -> Vec<i32> {
        self.read("cgroup.procs")
            .unwrap_or_default()
            .lines()
            .filter_map(|l| l.parse().ok())
            .filter(|pid| *pid > 0)
            .collect()
    }

    /// Whether anything lives in it.
    pub fn is_populated(&self) -> bool {
        let mut text = [0; 128];
        let read = self
            .events()
            .and_then(|events| rustix::io::read(&events, &mut text));
        let text = text.get(..read.unwrap_or(0)).unwrap_or_default();
        text.windows(11).any(|part| part == b"populated 1")
    }

    /// A descriptor of `cgroup.events` that becomes readable with priority when the group changes
    /// between populated and empty.
    pub fn events(&self) -> Result<OwnedFd, Errno> {
        self.open("cgroup.events")
    }

    /// Stops every member from running, so that a fork bomb cannot outrun a kill.
    pub fn freeze(&self) -> Result<(), Errno> {
        self.write("cgroup.freeze", "1")
    }

    /// Kills every member at once. The group must be removed afterwards.
    pub fn kill(&self) -> Result<(), Errno> {
        self.write("cgroup.kill", "1")
    }

    /// CPU time of all members, past ones included, in microseconds.
    pub fn cpu_micros(&self) -> Option<u64> {
        self.read("cpu.stat")
            .ok()?
            .lines()
            .find_map(|l| l.strip_prefix("usage_usec "))
            .and_then(|n| n.parse().ok())
    }

    /// A file of its own that holds one number; absent where the controller is not enabled, or the number is `max`.
    pub fn figure(&self, file: &str) -> Option<u64> {
        self.read(file).ok()?.trim().parse().ok()
    }

    /// A file of its own, to be watched.
    pub fn open(&self, file: &str) -> Result<OwnedFd, Errno> {
        openat(
            &self.dir,
            file,
            OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK,
            Mode::empty(),
        )
    }

    /// Removes the directory; `EBUSY` while something lives in it.
    pub fn remove(&self) -> Result<(), Errno> {
        unlinkat(CWD, &self.path, AtFlags::REMOVEDIR)
    }
}

/// The v2 group this process lives in, as a directory; `None` where v2 is not mounted.
pub fn own_group() -> Option<PathBuf> {
    let membership = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = membership.lines().find_map(|l| l.strip_prefix("0::"))?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mount = mounts.lines().find_map(|line| {
        let (fields, rest) = line.split_once(" - ")?;
        if !rest.starts_with("cgroup2 ") {
            return None;
        }
        let fields: Vec<&str> = fields.split(' ').collect();
        Some(((*fields.get(3)?).to_owned(), (*fields.get(4)?).to_owned()))
    })?;
    let (root, point) = mount;
    // With a cgroup namespace or a bind mount, the mount shows only what lies below its root.
    let below = path
        .strip_prefix(root.trim_end_matches('/'))
        .unwrap_or(path);
    Some(Path::new(&point).join(below.trim_start_matches('/')))
}

/// Removes a group that a former agent left, with what is below it, killing what lives in it.
pub fn bury(path: &Path) {
    if let Ok(entries) = fs::read_dir(path) {
        for entry in entries.flatten() {
            if entry.file_type().is_ok_and(|t| t.is_dir()) {
                bury(&entry.path());
            }
        }
    }
    if fs::write(path.join("cgroup.kill"), "1").is_ok() {
        let _ = fs::remove_dir(path);
    }
}
