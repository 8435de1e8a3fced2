//! One stream of a log: its memory, the list of its segments, and what it dropped.
//!
//! Owns the account of where each byte is. Does not own files: the flush job writes them and says
//! here what became of each chunk.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::{Bytes, BytesMut};

use super::Config;

/// Bytes in memory that no longer change.
#[derive(Debug)]
struct Chunk {
    start: u64,
    data: Bytes,
    /// The disk refused it: memory is the only place that has it.
    lost: bool,
}

impl Chunk {
    fn end(&self) -> u64 {
        self.start + self.data.len() as u64
    }
}

/// Consecutive bytes outside of the memory tail.
#[derive(Debug)]
struct Segment {
    start: u64,
    len: u64,
    /// Head bytes that the disk refused; `None` for a file.
    pinned: Option<Bytes>,
}

impl Segment {
    fn end(&self) -> u64 {
        self.start + self.len
    }
}

/// Where the bytes at an offset are.
#[derive(Debug)]
pub(super) enum Place {
    /// Here they are.
    Memory(Bytes),
    /// In the segment file that begins at `segment.start` and is written up to `segment.end`.
    File { segment: Range<u64> },
    /// Dropped; the next kept byte is at `next`.
    Gone { next: u64 },
    /// Not written yet.
    End,
}

#[derive(Debug, Default)]
pub(super) struct StreamState {
    len: u64,
    /// Everything before is in a segment or was refused by the disk.
    settled_to: u64,
    /// Contiguous, up to the start of `open`.
    chunks: VecDeque<Chunk>,
    /// The newest bytes, still gathering.
    open: BytesMut,
    segments: VecDeque<Segment>,
    segment_bytes: u64,
    pinned_bytes: u64,
    dropped: u64,
}

impl StreamState {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Bytes that the flush job has not dealt with.
    pub(super) fn unwritten(&self) -> u64 {
        self.len - self.settled_to
    }

    pub(super) fn has_segments(&self) -> bool {
        !self.segments.is_empty()
    }

    /// Bytes in segments, pinned ones included.
    pub(super) fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    fn open_start(&self) -> u64 {
        self.len - self.open.len() as u64
    }

    fn memory_start(&self) -> u64 {
        self.chunks
            .front()
            .map_or_else(|| self.open_start(), |chunk| chunk.start)
    }

    fn in_memory(&self) -> u64 {
        self.len - self.memory_start()
    }

    /// Adds at most one piece. `block` is the same bytes when they are worth a chunk of their own.
    pub(super) fn push(&mut self, data: &[u8], block: Option<Bytes>, config: &Config) {
        // A chunk never crosses the end of the head, because segments end there.
        let before_head_end = config.keep_head.saturating_sub(self.len);
        if before_head_end > 0 && before_head_end < data.len() as u64 {
            let (head, rest) = data.split_at(before_head_end as usize);
            self.push_within(head, block.as_ref().map(|b| b.slice(..head.len())), config);
            self.push_within(rest, block.map(|b| b.slice(head.len()..)), config);
        } else {
            self.push_within(data, block, config);
        }
    }

    fn push_within(&mut self, data: &[u8], block: Option<Bytes>, config: &Config) {
        if let Some(block) = block {
            self.seal();
            self.chunks.push_back(Chunk {
                start: self.len,
                data: block,
                lost: false,
            });
            self.len += data.len() as u64;
        } else {
            if self.open.len() + data.len() > config.piece {
                self.seal();
            }
            self.open.extend_from_slice(data);
            self.len += data.len() as u64;
        }
        if self.len == config.keep_head {
            self.seal();
        }
    }

    /// Turns the gathered bytes into a chunk. Its buffer grew by doubling, so that a sealed chunk
    /// holds at most twice the memory of its bytes.
    fn seal(&mut self) {
        if !self.open.is_empty() {
            let start = self.open_start();
            let data = std::mem::take(&mut self.open).freeze();
            self.chunks.push_back(Chunk {
                start,
                data,
                lost: false,
            });
        }
    }

    /// Where the bytes at `offset` are, at most `max` of them when they are in memory.
    pub(super) fn locate(&mut self, offset: u64, max: u64, config: &Config) -> Place {
        if offset >= self.len {
            return Place::End;
        }
        if offset >= self.memory_start() {
            return self
                .memory_part(offset, max, config)
                .map_or(Place::End, Place::Memory);
        }
        let after = self
            .segments
            .partition_point(|segment| segment.start <= offset);
        if let Some(segment) = after.checked_sub(1).and_then(|at| self.segments.get(at))
            && offset < segment.end()
        {
            return match &segment.pinned {
                Some(data) => Place::Memory(part(data, offset - segment.start, max)),
                None => Place::File {
                    segment: segment.start..segment.end(),
                },
            };
        }
        Place::Gone {
            next: self.kept_from(offset),
        }
    }

    fn memory_part(&mut self, offset: u64, max: u64, config: &Config) -> Option<Bytes> {
        let open_start = self.open_start();
        if offset >= open_start {
            let available = self.open.get((offset - open_start) as usize..)?;
            let wanted = max.min(available.len() as u64) as usize;
            if wanted < config.gather {
                return available.get(..wanted).map(Bytes::copy_from_slice);
            }
            self.seal();
        }
        let after = self.chunks.partition_point(|chunk| chunk.start <= offset);
        let chunk = self.chunks.get(after.checked_sub(1)?)?;
        Some(part(&chunk.data, offset - chunk.start, max))
    }

    /// The first kept offset that is not before `offset`; the length when there is none.
    pub(super) fn kept_from(&self, offset: u64) -> u64 {
        let memory = self.memory_start();
        if offset >= memory {
            return offset;
        }
        let after = self
            .segments
            .partition_point(|segment| segment.start <= offset);
        match after.checked_sub(1).and_then(|at| self.segments.get(at)) {
            Some(segment) if offset < segment.end() => offset,
            _ => self
                .segments
                .get(after)
                .map_or(memory, |next| next.start.min(memory)),
        }
    }

    /// The end of the first hole; 0 when there is none.
    pub(super) fn first_offset(&self) -> u64 {
        let mut reached = 0;
        for segment in &self.segments {
            if segment.start > reached {
                break;
            }
            reached = segment.end();
        }
        let kept = self.kept_from(reached);
        if kept > reached { kept } else { 0 }
    }

    /// The end of the last hole: from here on everything is kept.
    pub(super) fn whole_from(&self) -> u64 {
        let mut start = self.memory_start();
        for segment in self.segments.iter().rev() {
            if segment.end() < start {
                break;
            }
            start = start.min(segment.start);
        }
        start
    }

    /// The next bytes to write, in order.
    pub(super) fn batch(&mut self, config: &Config) -> Vec<(u64, Bytes)> {
        self.seal();
        let first = self
            .chunks
            .partition_point(|chunk| chunk.start < self.settled_to);
        let mut bytes = 0;
        let mut batch = Vec::new();
        for chunk in self.chunks.range(first..) {
            bytes += chunk.data.len() as u64;
            if bytes > config.batch && !batch.is_empty() {
                break;
            }
            batch.push((chunk.start, chunk.data.clone()));
        }
        batch
    }

    /// The chunk at `start` is now at the end of the segment file that begins at `segment`.
    pub(super) fn stored(&mut self, start: u64, len: u64, segment: u64) {
        self.settled_to = start + len;
        self.segment_bytes += len;
        match self.segments.back_mut() {
            Some(last) if last.start == segment && last.pinned.is_none() => last.len += len,
            _ => self.segments.push_back(Segment {
                start: segment,
                len,
                pinned: None,
            }),
        }
    }

    /// The disk refused the chunk at `start`. A little of the head is worth memory for good; the
    /// rest stays only as long as the memory tail reaches.
    pub(super) fn refused(&mut self, start: u64, data: &Bytes, config: &Config) {
        let len = data.len() as u64;
        self.settled_to = start + len;
        if start < config.keep_head && self.pinned_bytes + len <= config.tail {
            self.pinned_bytes += len;
            self.segment_bytes += len;
            self.segments.push_back(Segment {
                start,
                len,
                pinned: Some(data.clone()),
            });
            return;
        }
        let after = self.chunks.partition_point(|chunk| chunk.start <= start);
        if let Some(chunk) = after.checked_sub(1).and_then(|at| self.chunks.get_mut(at)) {
            chunk.lost = true;
        }
    }

    /// Refuses everything that is unwritten: nobody will write it.
    pub(super) fn refuse_all(&mut self, config: &Config) {
        self.seal();
        let first = self
            .chunks
            .partition_point(|chunk| chunk.start < self.settled_to);
        let left: Vec<_> = self
            .chunks
            .range(first..)
            .map(|chunk| (chunk.start, chunk.data.clone()))
            .collect();
        for (start, data) in left {
            self.refused(start, &data, config);
        }
    }

    /// Lets go of settled memory above the tail; of all of it once the process is over, unless
    /// memory is the only place that has it.
    pub(super) fn trim(&mut self, ended: bool, config: &Config) {
        while let Some(front) = self.chunks.front() {
            let keep = if ended && !front.lost { 0 } else { config.tail };
            let len = front.data.len() as u64;
            if front.end() > self.settled_to || self.in_memory() < keep + len {
                break;
            }
            if front.lost {
                self.dropped += len;
            }
            self.chunks.pop_front();
        }
        if self.chunks.is_empty() {
            self.chunks.shrink_to_fit();
        }
    }

    /// Whether memory is the only place that has some of what was settled.
    pub(super) fn holds_refused(&self) -> bool {
        self.pinned_bytes > 0 || self.chunks.iter().any(|chunk| chunk.lost)
    }

    /// Drops everything that is settled; the starts of the files are returned.
    pub(super) fn give_up(&mut self) -> Vec<u64> {
        while let Some(front) = self.chunks.front() {
            if front.end() > self.settled_to {
                break;
            }
            if front.lost {
                self.dropped += front.data.len() as u64;
            }
            self.chunks.pop_front();
        }
        let segments = std::mem::take(&mut self.segments);
        self.dropped += self.segment_bytes;
        (self.segment_bytes, self.pinned_bytes) = (0, 0);
        let files = segments.iter().filter(|segment| segment.pinned.is_none());
        files.map(|segment| segment.start).collect()
    }

    fn first_droppable(&self, config: &Config) -> Option<usize> {
        let at = self
            .segments
            .partition_point(|segment| segment.start < config.keep_head);
        // A segment whose bytes are also in memory would be dropped in name only.
        let segment = self.segments.get(at)?;
        (segment.end() <= self.memory_start()).then_some(at)
    }

    /// Bytes that the cap may drop now.
    pub(super) fn droppable(&self, config: &Config) -> u64 {
        self.first_droppable(config).map_or(0, |at| {
            self.segments.range(at..).map(|segment| segment.len).sum()
        })
    }

    /// Drops the oldest segment after the head; its start is returned so that its file can go.
    pub(super) fn drop_oldest(&mut self, config: &Config) -> Option<u64> {
        let segment = self.segments.remove(self.first_droppable(config)?)?;
        self.segment_bytes -= segment.len;
        self.dropped += segment.len;
        Some(segment.start)
    }
}

fn part(data: &Bytes, from: u64, max: u64) -> Bytes {
    let from = (from as usize).min(data.len());
    let len = max.min((data.len() - from) as u64) as usize;
    data.slice(from..from + len)
}
