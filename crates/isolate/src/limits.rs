//! Limits of a whole sandbox, and what its agent may limit further inside.
//!
//! ```text
//! hub's own group ─ NAME ─┬─ sup          the agent
//!   (version 2)           └─ c            limits; init starts here, then moves to c/init
//!                            └─ t1, p1 …  trees, and groups with limits of their own, by the agent
//! memory, cpu, pids ─ NAME ─── p1 …       where these live in version 1: commands only
//! ```
//!
//! [`SandboxGroups`] makes and ends the groups of one sandbox, with the rights of the hub.
//! [`Controllers`] is what the agent holds of them: directories by descriptor, below which it makes
//! groups, and no way up. Each controller is taken from wherever it lives; one that cannot be had is
//! off with a reason, never silently.
//!
//! The agent is outside the commands' limits: what they use up, they use up alone.

mod allowance;
mod parent;
mod sandbox;

use std::sync::LazyLock;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use sandshell_sys::cgroup::{Group, Limit, Seat, Version};
use sandshell_types::Cpus;
use serde::{Deserialize, Serialize};

pub use parent::{Parent, Whereabouts};
pub use sandbox::{Joins, SandboxGroups};

/// Least memory of a sandbox: init, the shells held ready and one command.
const LEAST_MEMORY: u64 = 16 << 20;
/// Least memory of one process or session: the kernel's own part and a shell.
const LEAST_MEMORY_INSIDE: u64 = 4 << 20;
/// Fewest processes of a sandbox: init, the shells held ready and a command with a few children.
const LEAST_PIDS: u64 = 16;

/// Fewest bytes of a sandbox to write: the files it begins with, among them the certificates that one with a way outside has.
const LEAST_DISK: u64 = 1 << 20;
/// Fewest files of a sandbox: those it begins with, which are about half of these.
const LEAST_INODES: u64 = 128;
/// More files than anyone can mean, and fewer than the kernel refuses to count.
const MOST_INODES: u64 = 1 << 32;
/// Fewest open files of each process: init and a session's shell have some dozens.
const LEAST_OPEN_FILES: u64 = 64;

/// Processors that there are for us, and so for a sandbox. Found out once, for it takes dozens of calls.
pub fn processors() -> u64 {
    static FOUND: LazyLock<u64> =
        LazyLock::new(|| std::thread::available_parallelism().map_or(1, |n| n.get() as u64));
    *FOUND
}

/// What a whole sandbox may use. Absent: no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxLimits {
    /// Bytes of memory, swap included.
    pub memory_bytes: Option<u64>,
    /// Processors.
    pub cpus: Option<Cpus>,
    /// Processes and threads.
    pub pids: Option<u64>,
}

/// A limit that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// Nothing could run within it.
    #[error("{limit} is {asked}, and nothing can run with less than {least}")]
    TooSmall {
        /// The field.
        limit: &'static str,
        /// Its value.
        asked: String,
        /// The least that is taken.
        least: String,
    },
    /// It would never be met.
    #[error("{limit} is {asked}, and {most} is the most there can be here")]
    TooLarge {
        /// The field.
        limit: &'static str,
        /// Its value.
        asked: String,
        /// What there is.
        most: String,
    },
    /// More is in use at the moment, and cannot be freed.
    #[error("{limit} cannot be {asked}: {used} are in use now")]
    BelowUse {
        /// The field.
        limit: &'static str,
        /// Its value.
        asked: u64,
        /// What is used.
        used: u64,
    },
    /// What is written lies in memory, and would fill it.
    #[error(
        "disk_bytes is {asked}; what is written lies in memory, and may be three quarters of \
         memory_bytes at most, {most} here"
    )]
    BeyondMemory {
        /// The value.
        asked: u64,
        /// The most that is taken.
        most: u64,
    },
    /// We have too little of something to see to it; nothing was changed.
    #[error("the sandbox's groups: {errno}")]
    Lack {
        /// What there is too little of.
        errno: Errno,
    },
    /// Whether there is something of this name cannot be seen.
    #[error("the groups of {name:?} cannot be looked at: {errno}")]
    Unseen {
        /// The name.
        name: String,
        /// Why not.
        errno: Errno,
    },
    /// Another sandbox of this name lives.
    #[error("something still lives in the groups of {name:?}")]
    InUse {
        /// The name.
        name: String,
    },
    /// It cannot be kept here.
    #[error("{limit} cannot be limited here: {reason}")]
    Unavailable {
        /// The field.
        limit: &'static str,
        /// Why.
        reason: String,
    },
}

impl LimitError {
    /// The field, where it is about one.
    pub fn limit(&self) -> Option<&'static str> {
        match self {
            Self::TooSmall { limit, .. }
            | Self::TooLarge { limit, .. }
            | Self::BelowUse { limit, .. }
            | Self::Unavailable { limit, .. } => Some(limit),
            Self::BeyondMemory { .. } => Some("disk_bytes"),
            Self::Lack { .. } | Self::Unseen { .. } | Self::InUse { .. } => None,
        }
    }
}

impl SandboxLimits {
    /// Refuses what could never be right for a sandbox.
    pub fn check(&self) -> Result<(), LimitError> {
        self.check_against(LEAST_MEMORY, LEAST_PIDS)
    }

    /// Refuses what could never be right for one process or session.
    pub fn check_inside(&self) -> Result<(), LimitError> {
        self.check_against(LEAST_MEMORY_INSIDE, 1)
    }

    fn check_against(&self, least_memory: u64, least_pids: u64) -> Result<(), LimitError> {
        let processors = processors();
        within(
            "memory_bytes",
            self.memory_bytes,
            least_memory,
            memory_of_machine(),
        )?;
        within("pids", self.pids, least_pids, pids_of_machine())?;
        if let Some(cpus) = self.cpus
            && cpus.millis() > processors * 1000
        {
            return Err(LimitError::TooLarge {
                limit: "cpus",
                asked: cpus.to_string(),
                most: processors.to_string(),
            });
        }
        Ok(())
    }
}

/// Refuses numbers of files that could never be right for a sandbox.
pub fn check_files(inodes: Option<u64>, open_files: Option<u64>) -> Result<(), LimitError> {
    within("inodes", inodes, LEAST_INODES, Some(MOST_INODES))?;
    // Nobody in a user namespace may have more than whoever made it.
    let most = getrlimit(Resource::Nofile).maximum;
    within("open_files", open_files, LEAST_OPEN_FILES, most)
}

/// Bytes that a sandbox may write, which lie in its memory: if they could fill it, whoever writes would
/// end everything.
pub fn disk_in_memory(asked: Option<u64>, memory_bytes: u64) -> Result<u64, LimitError> {
    within("disk_bytes", asked, LEAST_DISK, None)?;
    let most = memory_bytes / 4 * 3;
    match asked {
        Some(asked) if asked > most => Err(LimitError::BeyondMemory { asked, most }),
        Some(asked) => Ok(asked),
        None => Ok(USUAL_DISK.min(memory_bytes / 2)),
    }
}

/// What a sandbox may use unless something else is asked for.
pub const USUAL_MEMORY: u64 = 2 << 30;
/// Processes and threads.
pub const USUAL_PIDS: u64 = 1024;
/// Files that are written.
pub const USUAL_INODES: u64 = 200_000;
/// Bytes that are written, if memory is not short.
const USUAL_DISK: u64 = 1 << 30;

fn within(
    limit: &'static str,
    asked: Option<u64>,
    least: u64,
    most: Option<u64>,
) -> Result<(), LimitError> {
    match (asked, most) {
        (Some(asked), _) if asked < least => Err(LimitError::TooSmall {
            limit,
            asked: asked.to_string(),
            least: least.to_string(),
        }),
        (Some(asked), Some(most)) if asked > most => Err(LimitError::TooLarge {
            limit,
            asked: asked.to_string(),
            most: most.to_string(),
        }),
        _ => Ok(()),
    }
}

fn memory_of_machine() -> Option<u64> {
    let info = rustix::system::sysinfo();
    (info.totalram as u64).checked_mul(u64::from(info.mem_unit))
}

fn pids_of_machine() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/sys/kernel/pid_max").ok()?;
    text.trim().parse().ok()
}

/// The groups in which limits can be set for what is started, or why not.
#[derive(Debug)]
pub struct Controllers {
    /// For `memory_bytes`.
    pub memory: Result<Seat, String>,
    /// For `cpus`.
    pub cpu: Result<Seat, String>,
    /// For `pids`.
    pub pids: Result<Seat, String>,
    /// The account of memory of whatever gets no group of its own.
    pub common: Option<Common>,
}

/// The account of memory that commands without limits of their own share.
#[derive(Debug, Clone)]
pub struct Common {
    /// The group that counts.
    pub memory: Seat,
    /// Whether nobody but the sandbox's commands is in it.
    pub exclusive: bool,
}

impl Controllers {
    /// None of them, for this reason.
    pub fn none(reason: &str) -> Self {
        Self {
            memory: Err(reason.to_owned()),
            cpu: Err(reason.to_owned()),
            pids: Err(reason.to_owned()),
            common: None,
        }
    }

    /// Groups of this name below our own, for an agent that was not given any. Those of version 2 are
    /// the trees' own.
    pub fn below(parent: &Parent, name: &str, trees: &Result<Group, String>) -> Self {
        let seat = |above: &Result<Seat, String>| -> Result<Seat, String> {
            let above = above.clone()?;
            match above.version {
                Version::V1 => parent::make_child(&above.group, name),
                Version::V2 => trees.clone(),
            }
            .map(|group| Seat {
                version: above.version,
                group,
            })
        };
        let mut controllers = Self {
            memory: seat(&parent.memory),
            cpu: seat(&parent.cpu),
            pids: seat(&parent.pids),
            // Version 1: whoever started us may share our own group with us.
            common: parent.memory.as_ref().ok().map(|own| Common {
                memory: own.clone(),
                exclusive: false,
            }),
        };
        controllers.enable();
        controllers
    }

    /// Groups of version 1; those of version 2 are the trees' own.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        let seats = [&self.memory, &self.cpu, &self.pids];
        let seats = seats.into_iter().flatten();
        seats
            .filter(|seat| seat.version == Version::V1)
            .map(|seat| &seat.group)
    }

    /// Each with the field it limits.
    pub fn named(&self) -> [(&'static str, &Result<Seat, String>); 3] {
        [
            ("memory_bytes", &self.memory),
            ("cpus", &self.cpu),
            ("pids", &self.pids),
        ]
    }

    /// Lets groups below have limits of their own, where that has to be asked for. To be called once
    /// nothing lives in these groups themselves.
    pub fn enable(&mut self) {
        for (name, seat) in [
            ("memory", &mut self.memory),
            ("cpu", &mut self.cpu),
            ("pids", &mut self.pids),
        ] {
            if let Ok(found) = seat
                && found.version == Version::V2
                && let Err(errno) = parent::enable_below(&found.group, name)
            {
                *seat = Err(format!(
                    "the {name} controller cannot be passed on: {errno}"
                ));
            }
        }
    }
}

/// The limits of a request, each with the field it comes from and the controller that keeps it.
pub fn wanted(limits: &SandboxLimits) -> [(&'static str, Option<Limit>); 3] {
    [
        ("memory_bytes", limits.memory_bytes.map(Limit::Memory)),
        (
            "cpus",
            limits.cpus.map(|cpus| Limit::CpuMillis(cpus.millis())),
        ),
        ("pids", limits.pids.map(Limit::Pids)),
    ]
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
