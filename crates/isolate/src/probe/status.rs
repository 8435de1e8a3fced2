//! What /proc says about a process and its namespaces, for the probe.

use rustix::fs::{AtFlags, CWD, statat};
use rustix::io::Errno;
use sandshell_sys::capability::Capabilities;

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
        let number = |name: &str| {
            let path = format!("/proc/self/ns/{name}");
            statat(CWD, path, AtFlags::empty()).map(|found| found.st_ino)
        };
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

/// Device and number of the root directory: no two are alike.
pub(super) fn root_directory() -> Result<(u64, u64), Errno> {
    statat(CWD, "/", AtFlags::empty()).map(|root| (root.st_dev, root.st_ino))
}

/// Rights of a process, as the kernel tells them to everybody.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Status {
    /// In any set that can be used: inheritable, permitted, effective, ambient.
    pub(super) capabilities: Capabilities,
    pub(super) bounding: Capabilities,
    pub(super) no_new_privs: bool,
    /// Whether there are filters.
    pub(super) filtered: bool,
}

impl Status {
    /// The rights of a process; `self` for our own.
    pub(super) fn of(process: &str) -> Option<Self> {
        let text = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Option<Self> {
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            Some(line.strip_prefix(':')?.trim())
        };
        let set = |name| u64::from_str_radix(value(name)?, 16).ok();
        let used = set("CapInh")? | set("CapPrm")? | set("CapEff")? | set("CapAmb")?;
        Some(Self {
            capabilities: Capabilities(used),
            bounding: Capabilities(set("CapBnd")?),
            no_new_privs: value("NoNewPrivs")? == "1",
            filtered: value("Seccomp")? == "2",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read() {
        let text = "Name:\tx\nCapInh:\t0000000000000000\nCapPrm:\t0000000000000001\n\
                    CapEff:\t0000000000000000\nCapBnd:\t00000000000000ff\nCapAmb:\t0000000000000004\n\
                    NoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t2\n";
        let wanted = Status {
            capabilities: Capabilities(5),
            bounding: Capabilities(0xFF),
            no_new_privs: true,
            filtered: true,
        };
        assert_eq!(Status::parse(text), Some(wanted));
        assert_eq!(Status::parse("Name:\tx\n"), None);
        assert!(Status::of("self").is_some());
    }
}
