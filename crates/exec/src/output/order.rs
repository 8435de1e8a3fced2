//! The order in which the bytes of the two streams arrived, as a list of runs.
//!
//! A run is consecutive bytes of one stream with one time. Runs are packed into 8 bytes, blocks of
//! them carry the absolute numbers. Owns: packing, finding, and the account of where each block
//! is. Does not own files, as in `stream`.
//!
//! ```text
//!   block = start.stdout u64, start.stderr u64, base_ms i64, count u64, count × run, padding
//!   run   = stream (1 bit) | bytes (31 bits) | milliseconds since base (32 bits, signed)
//! ```

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use super::{Config, Marks, PerStream, Stream};

/// Bytes of one stream that arrive within this time of the first make one run.
const SAME_RUN_MS: i64 = 5;
const HEADER: usize = 32;
const MAX_RUN: u64 = (1 << 31) - 1;

/// Bytes of one stream that arrived together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) stream: Stream,
    /// What lies before the run.
    pub(super) start: Marks,
    pub(super) len: u64,
    pub(super) at_ms: i64,
}

/// A place in a block, so that reading on does not begin at the block's start again.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cursor {
    block: u64,
    index: usize,
    marks: Marks,
}

/// Consecutive runs.
#[derive(Debug, Default)]
pub(super) struct Block {
    start: Marks,
    end: Marks,
    base_ms: i64,
    runs: Vec<u64>,
}

fn pack(stream: Stream, len: u64, delta: i32) -> u64 {
    let side = if stream == Stream::Stderr { 1 << 63 } else { 0 };
    side | (len & MAX_RUN) << 32 | u64::from(delta.cast_unsigned())
}

fn unpack(run: u64) -> (Stream, u64, i32) {
    let stream = if run >> 63 == 1 {
        Stream::Stderr
    } else {
        Stream::Stdout
    };
    (stream, (run >> 32) & MAX_RUN, (run as u32).cast_signed())
}

impl Block {
    fn starting(start: Marks, base_ms: i64) -> Self {
        Self {
            start,
            end: start,
            base_ms,
            runs: Vec::new(),
        }
    }

    /// Joint positions before and after the block.
    pub(super) fn start(&self) -> u64 {
        self.start.total()
    }

    pub(super) fn end(&self) -> u64 {
        self.end.total()
    }

    /// Adds bytes; `false` when the block cannot take another run.
    fn push(&mut self, stream: Stream, len: u64, at_ms: i64, config: &Config) -> bool {
        if let Some(last) = self.runs.last_mut() {
            let (same, before, delta) = unpack(*last);
            let since = at_ms.saturating_sub(self.base_ms.saturating_add(i64::from(delta)));
            if same == stream && (0..SAME_RUN_MS).contains(&since) && before + len <= MAX_RUN {
                *last = pack(stream, before + len, delta);
                *self.end.get_mut(stream) += len;
                return true;
            }
        }
        let Ok(delta) = i32::try_from(at_ms.saturating_sub(self.base_ms)) else {
            return false;
        };
        if self.runs.len() >= config.order_runs {
            return false;
        }
        self.runs.push(pack(stream, len, delta));
        *self.end.get_mut(stream) += len;
        true
    }

    /// The run that holds the byte after `position`.
    pub(super) fn run_at(&self, position: u64, cursor: &mut Cursor) -> Option<Run> {
        if cursor.block != self.start() || cursor.marks.total() > position {
            *cursor = Cursor {
                block: self.start(),
                index: 0,
                marks: self.start,
            };
        }
        while let Some(packed) = self.runs.get(cursor.index) {
            let (stream, len, delta) = unpack(*packed);
            if position < cursor.marks.total() + len {
                let at_ms = self.base_ms.saturating_add(i64::from(delta));
                return Some(Run {
                    stream,
                    start: cursor.marks,
                    len,
                    at_ms,
                });
            }
            *cursor.marks.get_mut(stream) += len;
            cursor.index += 1;
        }
        None
    }

    pub(super) fn encode(&self, config: &Config) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(encoded_len(config));
        bytes.extend(self.start.stdout.to_le_bytes());
        bytes.extend(self.start.stderr.to_le_bytes());
        bytes.extend(self.base_ms.to_le_bytes());
        bytes.extend((self.runs.len() as u64).to_le_bytes());
        bytes.extend(self.runs.iter().flat_map(|run| run.to_le_bytes()));
        bytes.resize(encoded_len(config), 0);
        bytes
    }

    /// Reads a block of a file, which may be damaged: what it says is possible, if not true.
    pub(super) fn decode(bytes: &[u8]) -> io::Result<Self> {
        let damaged = || io::Error::from(io::ErrorKind::InvalidData);
        let mut words = bytes
            .chunks_exact(8)
            .filter_map(|word| word.try_into().ok());
        let mut word = || words.next().map(u64::from_le_bytes).ok_or_else(damaged);
        let start = PerStream {
            stdout: word()?,
            stderr: word()?,
        };
        let mut block = Self::starting(start, word()?.cast_signed());
        for _ in 0..word()? {
            let run = word()?;
            let (stream, len, _) = unpack(run);
            block.runs.push(run);
            let end = block.end.get_mut(stream);
            *end = end.checked_add(len).ok_or_else(damaged)?;
        }
        let total = block.end.stdout.checked_add(block.end.stderr);
        total.map(|_| block).ok_or_else(damaged)
    }
}

/// Bytes of a block in its file.
pub(super) fn encoded_len(config: &Config) -> usize {
    HEADER + 8 * config.order_runs
}

/// A file of blocks.
#[derive(Debug)]
struct OrderSegment {
    start: Marks,
    end: Marks,
    blocks: u64,
}

/// Where the run at a position is.
#[derive(Debug)]
pub(super) enum OrderPlace {
    Run(Run),
    Block(Arc<Block>),
    /// In the file that begins at joint position `segment` and has so many blocks.
    File {
        segment: u64,
        blocks: u64,
    },
    /// No longer known for the bytes between these two places.
    Lost {
        from: Marks,
        until: Marks,
    },
}

#[derive(Debug, Default)]
pub(super) struct Order {
    /// Full blocks in memory, contiguous up to `open`.
    sealed: VecDeque<Arc<Block>>,
    open: Block,
    /// The sealed blocks before this joint position are written, or were refused by the disk.
    settled_to: u64,
    segments: VecDeque<OrderSegment>,
}

impl Order {
    pub(super) fn push(&mut self, stream: Stream, len: u64, at_ms: i64, config: &Config) {
        if self.open.runs.is_empty() {
            self.open.base_ms = at_ms;
        }
        if !self.open.push(stream, len, at_ms, config) {
            let fresh = Block::starting(self.open.end, at_ms);
            self.sealed
                .push_back(Arc::new(std::mem::replace(&mut self.open, fresh)));
            self.open.push(stream, len, at_ms, config);
        }
    }

    /// Where the byte after `position` is; it must have been pushed.
    pub(super) fn find(&self, position: u64, cursor: &mut Cursor) -> OrderPlace {
        if let Some(run) = (position >= self.open.start())
            .then(|| self.open.run_at(position, cursor))
            .flatten()
        {
            return OrderPlace::Run(run);
        }
        let memory = self
            .sealed
            .front()
            .map_or(self.open.start, |block| block.start);
        if position >= memory.total() {
            let after = self
                .sealed
                .partition_point(|block| block.start() <= position);
            if let Some(block) = after.checked_sub(1).and_then(|at| self.sealed.get(at)) {
                return OrderPlace::Block(Arc::clone(block));
            }
        }
        let after = self
            .segments
            .partition_point(|segment| segment.start.total() <= position);
        let before = after.checked_sub(1).and_then(|at| self.segments.get(at));
        match before {
            Some(segment) if position < segment.end.total() => OrderPlace::File {
                segment: segment.start.total(),
                blocks: segment.blocks,
            },
            _ => OrderPlace::Lost {
                from: before.map_or_else(Marks::default, |segment| segment.end),
                until: self
                    .segments
                    .get(after)
                    .map_or(memory, |segment| segment.start),
            },
        }
    }

    fn unsettled(&self) -> usize {
        self.sealed.len()
            - self
                .sealed
                .partition_point(|block| block.start() < self.settled_to)
    }

    pub(super) fn wants_flush(&self, config: &Config) -> bool {
        self.unsettled() > config.order_blocks
    }

    /// Whether the producer is too far ahead of the disk.
    pub(super) fn is_behind(&self, config: &Config) -> bool {
        self.unsettled() > 4 * config.order_blocks
    }

    pub(super) fn batch(&self) -> Vec<Arc<Block>> {
        let first = self
            .sealed
            .partition_point(|block| block.start() < self.settled_to);
        self.sealed.range(first..).map(Arc::clone).collect()
    }

    /// The block is now at the end of the file that begins at `segment`.
    pub(super) fn stored(&mut self, block: &Block, segment: u64) {
        self.settled_to = block.end();
        match self.segments.back_mut() {
            Some(last) if last.start.total() == segment => {
                last.end = block.end;
                last.blocks += 1;
            }
            _ => self.segments.push_back(OrderSegment {
                start: block.start,
                end: block.end,
                blocks: 1,
            }),
        }
    }

    pub(super) fn refused(&mut self, block: &Block) {
        self.settled_to = block.end();
    }

    pub(super) fn refuse_all(&mut self) {
        self.settled_to = self.open.start();
    }

    pub(super) fn trim(&mut self, config: &Config) {
        while self.sealed.len() > config.order_blocks / 2
            && self
                .sealed
                .front()
                .is_some_and(|block| block.end() <= self.settled_to)
        {
            self.sealed.pop_front();
        }
    }

    pub(super) fn has_segments(&self) -> bool {
        !self.segments.is_empty()
    }

    /// Bytes on disk.
    pub(super) fn file_bytes(&self, config: &Config) -> u64 {
        let blocks: u64 = self.segments.iter().map(|segment| segment.blocks).sum();
        blocks * encoded_len(config) as u64
    }

    /// Drops the oldest file; its name is returned.
    pub(super) fn drop_oldest(&mut self) -> Option<u64> {
        self.segments
            .pop_front()
            .map(|segment| segment.start.total())
    }

    /// Drops the files about whose bytes `needed` says no; their names are returned.
    pub(super) fn drop_unneeded(&mut self, needed: impl Fn(Marks, Marks) -> bool) -> Vec<u64> {
        let mut names = Vec::new();
        self.segments.retain(|segment| {
            let keep = needed(segment.start, segment.end);
            if !keep {
                names.push(segment.start.total());
            }
            keep
        });
        names
    }
}
