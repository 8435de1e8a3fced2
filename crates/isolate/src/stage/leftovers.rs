//! Memory that stays used when no program runs: System V objects, and the file system of the sessions' channels.
//!
//! No kill gives it back. The writable layer may take three quarters of a sandbox's memory; if these could take
//! all of the rest, the kernel would end init in the end, which alone is left then.

use super::set_sysctl;
use crate::limits::{SandboxLimits, USUAL_MEMORY};

/// The kernel's own number of bytes of one message queue.
const QUEUE: u64 = 16 << 10;
/// Bytes that the kernel keeps for a semaphore, and for a set of them.
const SEMAPHORE: u64 = 64;
const SEMAPHORE_SET: u64 = 512;
/// What the kernel gives by itself, which is no limit of memory: the number of queues and of sets, and the
/// semaphores and operations of each set.
const USUAL_OBJECTS: u64 = 32_000;
const SET_SEMAPHORES: u64 = 32_000;
const SET_OPERATIONS: u64 = 500;

/// The largest state of a session that is read.
const MOST_CHANNELS: u64 = 32 << 20;

/// Most bytes of each kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leftovers {
    pub(super) channels: u64,
    shared_memory: u64,
    queues: u64,
    semaphores: u64,
}

impl Leftovers {
    pub(super) fn of(limits: SandboxLimits) -> Self {
        let memory = limits.memory_bytes.unwrap_or(USUAL_MEMORY);
        Self {
            channels: (memory / 16).min(MOST_CHANNELS),
            shared_memory: memory / 8,
            queues: memory / 64,
            semaphores: memory / 64,
        }
    }

    /// Bounds the objects of the IPC namespace. Its root may do that, where the kernel lets anyone: what it refuses
    /// stays as it was.
    pub(super) fn bound_objects(self) {
        let pages = self.shared_memory / rustix::param::page_size() as u64;
        let objects = |bytes, each| USUAL_OBJECTS.min(bytes / each);
        let (semaphores, sets) = (
            self.semaphores / SEMAPHORE,
            objects(self.semaphores, SEMAPHORE_SET),
        );
        set_sysctl("kernel/shmall", &pages.to_string());
        set_sysctl("kernel/msgmni", &objects(self.queues, QUEUE).to_string());
        set_sysctl(
            "kernel/sem",
            &format!("{SET_SEMAPHORES} {semaphores} {SET_OPERATIONS} {sets}"),
        );
    }
}
