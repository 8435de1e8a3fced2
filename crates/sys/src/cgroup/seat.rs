//! One controller's group: its limit, its use, and what is told when the limit is met.
//!
//! The same words for version 1 and version 2; the files behind them differ.

use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use super::{Group, Version};

/// The time over which a share of the processors is measured; the kernel's own default.
const PERIOD_MICROS: u64 = 100_000;

/// A limit, as a number of its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Bytes of memory, swap included.
    Memory(u64),
    /// Thousandths of a processor.
    CpuMillis(u64),
    /// Processes and threads.
    Pids(u64),
}

/// A group in the hierarchy where one controller lives.
#[derive(Debug, Clone)]
pub struct Seat {
    /// The kind of hierarchy.
    pub version: Version,
    /// The group.
    pub group: Group,
}

impl Seat {
    /// Makes a group inside this one.
    pub fn child(&self, name: &str) -> Result<Self, Errno> {
        Ok(Self {
            version: self.version,
            group: self.group.child(name)?,
        })
    }

    /// Sets a limit, or changes it. `EBUSY`: more memory is in use than that, and cannot be freed.
    pub fn set(&self, limit: Limit) -> Result<(), Errno> {
        let group = &self.group;
        match (limit, self.version) {
            (Limit::Memory(bytes), Version::V1) => self.set_memory_v1(bytes),
            (Limit::Memory(bytes), Version::V2) => {
                group.write("memory.max", &bytes.to_string())?;
                // Absent where swap is not counted.
                match group.write("memory.swap.max", "0") {
                    Ok(()) | Err(Errno::NOENT) => Ok(()),
                    Err(errno) => Err(errno),
                }
            }
            (Limit::CpuMillis(millis), Version::V1) => {
                let quota = millis * PERIOD_MICROS / 1000;
                group.write("cpu.cfs_period_us", &PERIOD_MICROS.to_string())?;
                group.write("cpu.cfs_quota_us", &quota.to_string())
            }
            (Limit::CpuMillis(millis), Version::V2) => {
                let quota = millis * PERIOD_MICROS / 1000;
                group.write("cpu.max", &format!("{quota} {PERIOD_MICROS}"))
            }
            (Limit::Pids(count), _) => group.write("pids.max", &count.to_string()),
        }
    }

    /// Memory with swap may never be less than memory alone, so a limit that grows needs the other
    /// order than one that shrinks.
    fn set_memory_v1(&self, bytes: u64) -> Result<(), Errno> {
        const MEMORY: &str = "memory.limit_in_bytes";
        const WITH_SWAP: &str = "memory.memsw.limit_in_bytes";
        let value = bytes.to_string();
        let with_swap = || match self.group.write(WITH_SWAP, &value) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno),
        };
        match self.group.write(MEMORY, &value) {
            Err(Errno::INVAL) => {
                with_swap()?;
                self.group.write(MEMORY, &value)
            }
            done => done.and_then(|()| with_swap()),
        }
    }

    /// Whether a limit of memory also keeps what would go to swap.
    pub fn counts_swap(&self) -> bool {
        let file = match self.version {
            Version::V1 => "memory.memsw.limit_in_bytes",
            Version::V2 => "memory.swap.max",
        };
        self.group.read(file).is_ok()
    }

    /// Bytes of memory in use.
    pub fn memory_used(&self) -> Option<u64> {
        self.group.figure(match self.version {
            Version::V1 => "memory.usage_in_bytes",
            Version::V2 => "memory.current",
        })
    }

    /// Bytes of memory that may be used; absent where there is no limit.
    pub fn memory_limit(&self) -> Option<u64> {
        // Version 1 shows "none" as the largest number of whole pages.
        const NONE: u64 = 1 << 62;
        let file = match self.version {
            Version::V1 => "memory.limit_in_bytes",
            Version::V2 => "memory.max",
        };
        self.group.figure(file).filter(|bytes| *bytes < NONE)
    }

    /// Thousandths of a processor that may be used; absent where there is no limit.
    pub fn cpu_limit(&self) -> Option<u64> {
        let (quota, period) = match self.version {
            // "None" is -1, which is no number here.
            Version::V1 => (
                self.group.figure("cpu.cfs_quota_us")?,
                self.group.figure("cpu.cfs_period_us")?,
            ),
            Version::V2 => {
                let text = self.group.read("cpu.max").ok()?;
                let (quota, period) = text.trim().split_once(' ')?;
                (quota.parse().ok()?, period.parse().ok()?)
            }
        };
        (quota * 1000_u64).checked_div(period)
    }

    /// Processes and threads that live.
    pub fn pids_used(&self) -> Option<u64> {
        self.group.figure("pids.current")
    }

    /// Processes and threads that may live; absent where there is no limit.
    pub fn pids_limit(&self) -> Option<u64> {
        self.group.figure("pids.max")
    }

    /// How often a fork was refused: in version 1 to members of this very group, in version 2 because
    /// of this very group's limit.
    pub fn forks_refused(&self) -> u64 {
        self.refusals().map_or(0, |file| counter(&file, "max"))
    }

    /// How many the kernel killed for want of memory: in version 1 members of this very group, in
    /// version 2 also those below.
    pub fn oom_kills(&self) -> u64 {
        self.oom_counters()
            .map_or(0, |file| counter(&file, "oom_kill"))
    }

    /// The file that has this number as `oom_kill`.
    pub fn oom_counters(&self) -> Result<OwnedFd, Errno> {
        self.group.open_file(match self.version {
            Version::V1 => "memory.oom_control",
            Version::V2 => "memory.events",
        })
    }

    /// What tells of memory used up.
    pub fn oom_source(&self) -> Result<OomSource, Errno> {
        match self.version {
            Version::V1 => {
                let rung = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
                let control = self.group.open_file("memory.oom_control")?;
                let line = format!("{} {}", rung.as_raw_fd(), control.as_raw_fd());
                self.group.write("cgroup.event_control", &line)?;
                Ok(OomSource::Bell { rung })
            }
            Version::V2 => Ok(OomSource::Counters {
                changes: self.group.open_file("memory.events")?,
                own: self.group.open_file("memory.events.local")?,
            }),
        }
    }

    /// A file that is ready with priority when a fork was refused, and has the number as `max`.
    pub fn refusals(&self) -> Result<OwnedFd, Errno> {
        if self.version == Version::V2
            && let Ok(own) = self.group.open_file("pids.events.local")
        {
            return Ok(own);
        }
        self.group.open_file("pids.events")
    }
}

/// Tells when memory was used up because of a group's limit.
#[derive(Debug)]
pub enum OomSource {
    /// Version 1: an eventfd, rung when this group or one above it ran out. Those above are rung first.
    Bell {
        /// Readable once it was rung.
        rung: OwnedFd,
    },
    /// Version 2: two files of counters.
    Counters {
        /// Ready with priority when something was killed in the group or below.
        changes: OwnedFd,
        /// Tells how often this very group's limit was met.
        own: OwnedFd,
    },
}

impl OomSource {
    /// What to wait for, and whether it becomes ready with priority.
    pub fn waker(&self) -> (&OwnedFd, bool) {
        match self {
            Self::Bell { rung } => (rung, false),
            Self::Counters { changes, .. } => (changes, true),
        }
    }

    /// How often it has happened, given how often it had when this was last asked.
    pub fn total(&self, before: u64) -> u64 {
        match self {
            Self::Bell { rung } => {
                let mut count = [0; 8];
                match rustix::io::read(rung, &mut count) {
                    Ok(8) => before + u64::from_ne_bytes(count),
                    _ => before,
                }
            }
            Self::Counters { own, .. } => counter(own, "oom"),
        }
    }
}

/// A counter of a file that stays open, so that reading it again is one call.
pub fn counter(file: &OwnedFd, key: &str) -> u64 {
    let mut text = [0; 512];
    let read = rustix::io::pread(file, &mut text, 0).unwrap_or(0);
    let text = String::from_utf8_lossy(text.get(..read).unwrap_or_default());
    super::keyed(&text, key).unwrap_or(0)
}
