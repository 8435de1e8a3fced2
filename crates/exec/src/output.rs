//! The output log: the append-only record of the bytes a process wrote to stdout and stderr.
//!
//! Owns: the bytes of both streams, their order of arrival, the cap on both, the files they spill
//! to, and the waking of readers. Does not own: the pipes the bytes come from, their encoding for
//! the wire, or how long a finished log is kept; the log lives as long as a handle or a reader.
//!
//! ```text
//!                    append                         end
//!                      │                             │
//!   stdout  ┌── head ──┬ ─ dropped ─ ┬── segments ──┬┴─ memory ──┐
//!           └──────────┴ ─ ─ ─ ─ ─ ─ ┴──────────────┴────────────┘ len
//!   stderr  (the same)                         files │ chunks
//!   order   ┌──────────── blocks of runs ────────────┬───────────┐
//!           │ (stream, bytes, at) (stream, bytes, …) │           │
//!           └────────────────────────────────────────┴───────────┘
//!                 ▲ written by one blocking job at a time ▲
//! ```
//!
//! Memory is a contiguous suffix of each stream; what lies before it is in segment files or was
//! dropped. A stream that stays small is never written to a file. The order of the two streams is
//! a list of runs; a position in the joint log is the number of bytes of both streams before it.
//!
//! Invariants:
//! - A byte leaves memory only when it is in a segment, or is counted in `dropped`.
//! - `dropped + kept = len` for each stream at any time; the holes never lie in the head, unless
//!   the disk refused to take it, or the log ended and gave all up to make room for others.
//! - A chunk of memory lies in one segment as a whole; segments end at the end of the head.
//! - Appending waits for the disk (a few MiB behind) and never for a reader.
//! - The lock is held for memory operations only, never during disk work or an await.

use std::io;
use std::path::PathBuf;

mod disk;
mod excerpt;
pub(crate) mod fuzzing;
mod joint;
mod log;
mod order;
mod reader;
mod space;
mod stream;
#[cfg(test)]
mod tests;

pub use excerpt::Excerpt;
pub use joint::{JointPiece, JointReader};
pub use log::OutputLog;
pub use reader::StreamReader;
pub use space::LogSpace;

/// One of the two byte streams of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    const BOTH: [Self; 2] = [Self::Stdout, Self::Stderr];
}

/// How much a log keeps.
#[derive(Debug, Clone, Copy)]
pub struct LogLimits {
    /// Most bytes kept on disk and in memory, both streams and their order together. Taken as
    /// 1 MiB when smaller.
    pub cap: u64,
    /// First bytes of each stream that are never dropped. Taken as a quarter of the cap when
    /// larger, so that half of the cap remains for what is new.
    pub keep_head: u64,
}

/// Why output could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// The bytes at the offset were dropped.
    #[error("the bytes at this offset were dropped; the next kept offset is {first_offset}")]
    Gone {
        /// The next offset after the asked one that is still kept.
        first_offset: u64,
    },
    /// The offset lies after the last byte.
    #[error("the offset is beyond the end of the output, which is {len} bytes long")]
    Beyond {
        /// Bytes written so far.
        len: u64,
    },
    /// A file of the log could not be read.
    #[error("stored output could not be read")]
    Io {
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl From<io::Error> for OutputError {
    fn from(source: io::Error) -> Self {
        Self::Io { source }
    }
}

/// One value for each stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct PerStream<T> {
    stdout: T,
    stderr: T,
}

impl<T> PerStream<T> {
    fn get(&self, stream: Stream) -> &T {
        match stream {
            Stream::Stdout => &self.stdout,
            Stream::Stderr => &self.stderr,
        }
    }

    fn get_mut(&mut self, stream: Stream) -> &mut T {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }
}

/// A place in the joint log: so many bytes of each stream lie before it.
type Marks = PerStream<u64>;

impl Marks {
    fn total(&self) -> u64 {
        self.stdout + self.stderr
    }
}

/// All sizes of a log. Tests use tiny ones to reach every path with little data.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// The directory of the segment files.
    dir: PathBuf,
    /// Most bytes kept.
    cap: u64,
    /// First bytes of each stream that the cap does not drop.
    keep_head: u64,
    /// Largest chunk of memory, and with it the largest piece handed out from memory.
    piece: usize,
    /// Appends of this size and more become a chunk of their own; smaller ones are gathered.
    /// Reads of less than this are copied, so that a reader cannot break memory into crumbs.
    gather: usize,
    /// A stream up to this size stays in memory after the end.
    small: u64,
    /// Memory kept of each running stream for readers near the live end.
    tail: u64,
    /// Unwritten bytes that start a flush.
    flush_at: u64,
    /// Unwritten bytes above which the producer waits.
    unwritten_max: u64,
    /// Largest part of one stream that a flush writes between two looks at the state.
    batch: u64,
    /// Largest segment file of a stream.
    segment: u64,
    /// How much a reader takes from a file at once.
    window: u64,
    /// Largest piece of the joint log.
    joint_piece: u64,
    /// Runs in one block of the order.
    order_runs: usize,
    /// Blocks of the order that stay in memory.
    order_blocks: usize,
    /// Blocks in one file of the order.
    order_segment: u64,
}

impl Config {
    fn new(dir: PathBuf, limits: LogLimits) -> Self {
        const KIB: u64 = 1024;
        const MIB: u64 = 1024 * KIB;
        // Below this the parts that cannot be dropped at once would not fit.
        let cap = limits.cap.max(MIB);
        Self {
            dir,
            cap,
            keep_head: limits.keep_head.min(cap / 4),
            // What one read of a full pipe gives.
            piece: 64 << 10,
            // One page: below it a copy is cheaper than the bookkeeping of a chunk.
            gather: 4 << 10,
            small: 64 * KIB,
            tail: (512 * KIB).min(cap / 16),
            flush_at: (512 * KIB).min(cap / 16),
            unwritten_max: (4 * MIB).min(cap / 8),
            batch: MIB,
            // Thirty-two steps of dropping, in files that are quick to unlink.
            segment: (cap / 32).clamp(64 * KIB, 8 * MIB),
            window: 256 * KIB,
            joint_piece: 64 * KIB,
            // One page of 8-byte runs.
            order_runs: 512,
            // 128 KiB, or 16,384 changes between the streams, before the order needs a file.
            order_blocks: 32,
            // About 1 MiB, or less with a small cap.
            order_segment: (cap / (64 * 4 * KIB)).clamp(4, 256),
        }
    }
}
