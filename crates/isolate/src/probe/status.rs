//! What the kernel says of a process: its rights, its namespaces, its root.

use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat, statat};
use rustix::io::Errno;
use sandshell_sys::capability::{self, Capabilities, Sets};

/// The namespaces of a process, by the kernel's numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Namespaces {
    pub(crate) user: u64,
    pub(crate) pid: u64,
    pub(crate) mount: u64,
    pub(crate) net: u64,
    pub(crate) ipc: u64,
    pub(crate) uts: u64,
    pub(crate) cgroup: u64,
}

impl Namespaces {
    /// Those of this process.
    pub(crate) fn own() -> Result<Self, Errno> {
        let dir = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat(CWD, "/proc/self/ns", dir, Mode::empty())?;
        let number = |name: &str| statat(&dir, name, AtFlags::empty()).map(|found| found.st_ino);
        Ok(Self {
            user: number("user")?,
            pid: number("pid")?,
            mount: number("mnt")?,
            net: number("net")?,
            ipc: number("ipc")?,
            uts: number("uts")?,
            cgroup: number("cgroup")?,
        })
    }
}

impl Namespaces {
    /// All of them, in the order of [`Self::of`].
    pub(crate) fn numbers(&self) -> [u64; 7] {
        [
            self.user,
            self.pid,
            self.mount,
            self.net,
            self.ipc,
            self.uts,
            self.cgroup,
        ]
    }

    pub(crate) fn of([user, pid, mount, net, ipc, uts, cgroup]: [u64; 7]) -> Self {
        Self {
            user,
            pid,
            mount,
            net,
            ipc,
            uts,
            cgroup,
        }
    }
}

/// Device and number of the root directory: no two are alike.
pub(super) fn root_directory() -> Result<(u64, u64), Errno> {
    statat(CWD, "/", AtFlags::empty()).map(|root| (root.st_dev, root.st_ino))
}

/// Rights of this process, as the kernel counts them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Status {
    /// In any set that can be used or passed on: inheritable, permitted or effective. What is ambient
    /// is in all of them.
    pub(super) capabilities: Capabilities,
    pub(super) bounding: Capabilities,
    pub(super) no_new_privs: bool,
}

impl Status {
    pub(super) fn own() -> Result<Self, Errno> {
        let sets = Sets::current()?;
        Ok(Self {
            capabilities: sets.inheritable.or(sets.permitted).or(sets.effective),
            bounding: capability::bounding(),
            no_new_privs: rustix::thread::no_new_privs()?,
        })
    }
}
