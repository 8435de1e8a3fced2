//! Where each controller lives: in a hierarchy of its own (version 1), in the unified one (version
//! 2), or nowhere; and which group of it is ours.
//!
//! Decided for each controller by itself, from what the kernel says of this process and its mounts.
//! Nothing is assumed of where a hierarchy is mounted or of which group we are in.

use std::fs;
use std::path::{Path, PathBuf};

/// What can be limited or done to a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Controller {
    /// Processor time.
    Cpu,
    /// Accounts of processor time, of version 1 only.
    CpuAccounts,
    /// Memory.
    Memory,
    /// Processes and threads.
    Pids,
    /// Stopping and continuing, of version 1 only; part of every group of version 2.
    Freezer,
}

impl Controller {
    /// Its name in the kernel.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::CpuAccounts => "cpuacct",
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Freezer => "freezer",
        }
    }
}

/// Which kind of hierarchy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    /// One hierarchy for each controller.
    V1,
    /// The unified hierarchy.
    V2,
}

/// Our own group in the hierarchy of a controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// The kind of hierarchy.
    pub version: Version,
    /// The group's directory.
    pub path: PathBuf,
}

/// What the kernel says of this process.
#[derive(Debug)]
pub struct Facts {
    membership: String,
    mounts: String,
}

impl Facts {
    /// Asks for them.
    pub fn read() -> Result<Self, String> {
        let read = |file: &str| fs::read_to_string(file).map_err(|e| format!("{file}: {e}"));
        Ok(Self {
            membership: read("/proc/self/cgroup")?,
            mounts: read("/proc/self/mountinfo")?,
        })
    }

    /// The same as seen from the group above ours, if ours of the unified hierarchy has this name.
    #[must_use]
    pub fn above(mut self, name: &str) -> Self {
        let leave = |line: &str| match line.strip_prefix("0::").map(Path::new) {
            Some(group) if group.ends_with(name) => {
                let above = group.parent().unwrap_or(group);
                format!("0::{}\n", above.display())
            }
            _ => format!("{line}\n"),
        };
        self.membership = self.membership.lines().map(leave).collect();
        self
    }

    /// The path of our group where a line of the membership has these controllers.
    fn group(&self, wanted: impl Fn(&str) -> bool) -> Option<&str> {
        self.membership.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            wanted(controllers).then_some(path)
        })
    }

    /// The directory of a group, by way of the first mount that shows it.
    fn directory(&self, group: &str, wanted: impl Fn(&str, &str) -> bool) -> Option<PathBuf> {
        self.mounts.lines().find_map(|line| {
            let (fields, rest) = line.split_once(" - ")?;
            let mut rest = rest.split(' ');
            let (kind, options) = (rest.next()?, rest.nth(1)?);
            if !wanted(kind, options) {
                return None;
            }
            let mut fields = fields.split(' ');
            let (root, point) = (unescape(fields.nth(3)?), unescape(fields.next()?));
            // With a namespace or a bind mount, a mount shows only what lies below its root.
            let below = Path::new(group).strip_prefix(&root).ok()?;
            Some(Path::new(&point).join(below))
        })
    }
}

/// Blanks and backslashes are written in octal there.
fn unescape(field: &str) -> String {
    let mut plain = field.to_owned();
    for (octal, byte) in [("\\040", " "), ("\\011", "\t"), ("\\012", "\n")] {
        plain = plain.replace(octal, byte);
    }
    plain.replace("\\134", "\\")
}

/// Our own group of the unified hierarchy.
pub fn locate_unified(facts: &Facts) -> Result<PathBuf, String> {
    let group = facts
        .group(str::is_empty)
        .ok_or("there is no cgroup v2 here")?;
    facts
        .directory(group, |kind, _| kind == "cgroup2")
        .ok_or_else(|| format!("cgroup v2 is not mounted, or does not show our group {group}"))
}

/// Our own group in the hierarchy of a controller, or why there is none.
pub fn locate(controller: Controller, facts: &Facts) -> Result<Located, String> {
    let name = controller.name();
    let listed = |list: &str| list.split(',').any(|word| word == name);
    if let Some(group) = facts.group(listed) {
        let path = facts
            .directory(group, |kind, options| kind == "cgroup" && listed(options))
            .ok_or_else(|| {
                format!("the {name} controller is not mounted, or does not show our group {group}")
            })?;
        return Ok(Located {
            version: Version::V1,
            path,
        });
    }
    let path = locate_unified(facts)
        .map_err(|reason| format!("the {name} controller is in no hierarchy: {reason}"))?;
    let file = path.join("cgroup.controllers");
    let available = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    if !available.split_whitespace().any(|word| word == name) {
        return Err(format!(
            "the {name} controller is not delegated to {}",
            path.display()
        ));
    }
    Ok(Located {
        version: Version::V2,
        path,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 /docker/a /sys/fs/cgroup/mem\\040ory rw - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
";

    fn facts(membership: &str) -> Facts {
        Facts {
            membership: membership.to_owned(),
            mounts: HYBRID.to_owned(),
        }
    }

    #[test]
    fn each_controller_is_found_where_it_is_mounted() {
        let facts = facts("4:memory:/docker/a/b\n2:cpu,cpuacct:/\n1:name=systemd:/x\n0::/y\n");
        let path = |controller| locate(controller, &facts).unwrap().path;
        let place = "/sys/fs/cgroup/cpu,cpuacct";
        assert_eq!(path(Controller::Cpu), Path::new(place));
        assert_eq!(path(Controller::CpuAccounts), Path::new(place));
        assert_eq!(
            path(Controller::Memory),
            Path::new("/sys/fs/cgroup/mem ory/b")
        );
        let unified = locate_unified(&facts).unwrap();
        assert_eq!(unified, Path::new("/sys/fs/cgroup/unified/y"));
    }

    #[test]
    fn a_group_that_is_only_for_us_is_left_by_its_name() {
        let unified = |membership| locate_unified(&facts(membership).above("self")).unwrap();
        let at = |path: &str| Path::new("/sys/fs/cgroup/unified").join(path);
        assert_eq!(unified("0::/a.service/self\n"), at("a.service"));
        assert_eq!(unified("0::/a.service/myself\n"), at("a.service/myself"));
        assert_eq!(unified("0::/self\n"), at(""));
        let others = facts("2:cpu,cpuacct:/self\n0::/self\n").above("self");
        let cpu = locate(Controller::Cpu, &others).unwrap().path;
        assert_eq!(cpu, Path::new("/sys/fs/cgroup/cpu,cpuacct/self"));
    }

    #[test]
    fn what_is_nowhere_says_why() {
        let facts = facts("4:memory:/elsewhere\n3:pids:/\n");
        for controller in [Controller::Memory, Controller::Pids] {
            let reason = locate(controller, &facts).unwrap_err();
            assert!(reason.contains("is not mounted"), "{reason}");
        }
        let reason = locate(Controller::Cpu, &facts).unwrap_err();
        assert!(reason.contains("in no hierarchy"), "{reason}");
    }
}
