//! Reading both streams in order of arrival.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;

use super::disk::{self, Kind};
use super::log::Shared;
use super::order::{self, Block, Cursor, OrderPlace, Run};
use super::reader::{Fetched, Source, blocking};
use super::{Marks, OutputError, PerStream, Stream};

/// A piece of the joint log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JointPiece {
    /// Bytes of one stream that arrived together.
    Data {
        /// Which stream.
        stream: Stream,
        /// Their offset in that stream.
        offset: u64,
        /// The bytes, at most 64 KiB.
        data: Bytes,
        /// When they arrived, to a few milliseconds.
        at: Timestamp,
        /// Where to go on in the joint log.
        position_after: u64,
    },
    /// Bytes that were dropped, or whose place in the order was dropped with the cap. Gaps of both
    /// streams that lie together come as one piece each.
    Gap {
        /// Which stream.
        stream: Stream,
        /// The offset of the first missing byte in that stream.
        offset: u64,
        /// How many are missing.
        bytes: u64,
        /// Where to go on in the joint log. The first of two gaps that lie together gives the
        /// place before both, so that going on from there repeats it rather than missing the other.
        position_after: u64,
    },
}

/// Missing bytes of one stream that have not been reported yet.
#[derive(Debug, Clone, Copy)]
struct Gap {
    offset: u64,
    bytes: u64,
}

/// What comes next in the order.
enum Step {
    Run(Run),
    Lost { from: Marks, until: Marks },
}

/// Reads both streams in order of arrival.
#[derive(Debug)]
pub struct JointReader {
    shared: Arc<Shared>,
    position: u64,
    /// The same in bytes of each stream, once it is known.
    marks: Option<Marks>,
    /// Where the reader ends; not known while it follows a running process.
    limit: Option<u64>,
    sources: PerStream<Source>,
    cursor: Cursor,
    /// The block of the order the reader is in, unless it is the newest one.
    block: Option<Arc<Block>>,
    /// The open file of the order: its name, and the number of the block read last.
    file: Option<(u64, u64, Arc<File>)>,
    gaps: PerStream<Option<Gap>>,
    /// Where the unreported gaps begin.
    gap_position: u64,
}

impl JointReader {
    pub(super) fn new(shared: Arc<Shared>, position: u64, limit: Option<u64>) -> Self {
        let sources = PerStream {
            stdout: Source::new(Arc::clone(&shared), Stream::Stdout),
            stderr: Source::new(Arc::clone(&shared), Stream::Stderr),
        };
        Self {
            shared,
            position,
            marks: (position == 0).then(Marks::default),
            limit,
            sources,
            cursor: Cursor::default(),
            block: None,
            file: None,
            gaps: PerStream::default(),
            gap_position: position,
        }
    }

    /// The next piece. Waits when following; `None` at the end.
    ///
    /// CANCEL SAFETY: a dropped call loses nothing; the next call gives the same piece.
    pub async fn next(&mut self) -> Result<Option<JointPiece>, OutputError> {
        let shared = Arc::clone(&self.shared);
        loop {
            // Made before the look at the state, so that no change is missed.
            let changed = shared.changed.notified();
            let len = {
                let state = shared.lock();
                self.limit = self
                    .limit
                    .or_else(|| state.ended.map(|marks| marks.total()));
                self.limit.unwrap_or_else(|| state.marks().total())
            };
            if self.position >= len {
                if let Some(gap) = self.take_gap() {
                    return Ok(Some(gap));
                }
                if self.limit.is_some() {
                    return Ok(None);
                }
                changed.await;
                continue;
            }
            let run = match self.step().await? {
                Step::Run(run) => run,
                Step::Lost { from, until } => {
                    // What was handed out before its order was dropped is not missing.
                    let from = self.marks.unwrap_or(from);
                    for stream in Stream::BOTH {
                        let (from, until) = (*from.get(stream), *until.get(stream));
                        self.add_gap(stream, from, until.saturating_sub(from));
                    }
                    self.position = until.total();
                    self.marks = Some(until);
                    continue;
                }
            };
            let into = self.position - run.start.total();
            let offset = run.start.get(run.stream) + into;
            let marks = self.marks.insert(run.start);
            *marks.get_mut(run.stream) = offset;
            let left = (run.len - into).min(len - self.position);
            let max = left.min(shared.config.joint_piece);
            let fetched = self.sources.get_mut(run.stream).fetch(offset, max).await?;
            match fetched {
                Fetched::Data(data) => {
                    // The bytes are fetched again after the gap; they are in memory by now.
                    if let Some(gap) = self.take_gap() {
                        return Ok(Some(gap));
                    }
                    self.advance(run.stream, data.len() as u64);
                    return Ok(Some(JointPiece::Data {
                        stream: run.stream,
                        offset,
                        data,
                        at: Timestamp::from_millisecond(run.at_ms).unwrap_or_default(),
                        position_after: self.position,
                    }));
                }
                Fetched::Gone { next } => {
                    let bytes = left.min(next.saturating_sub(offset)).max(1);
                    self.add_gap(run.stream, offset, bytes);
                    self.advance(run.stream, bytes);
                }
                // The order knows bytes that the stream does not: never, as both are changed under
                // one lock.
                Fetched::End => return Err(io::Error::from(io::ErrorKind::InvalidData).into()),
            }
        }
    }

    fn advance(&mut self, stream: Stream, bytes: u64) {
        self.position += bytes;
        if let Some(marks) = &mut self.marks {
            *marks.get_mut(stream) += bytes;
        }
    }

    fn add_gap(&mut self, stream: Stream, offset: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        if self.gaps.stdout.is_none() && self.gaps.stderr.is_none() {
            self.gap_position = self.position;
        }
        self.gaps
            .get_mut(stream)
            .get_or_insert(Gap { offset, bytes: 0 })
            .bytes += bytes;
    }

    fn take_gap(&mut self) -> Option<JointPiece> {
        let both = self.gaps.stdout.is_some() && self.gaps.stderr.is_some();
        let stream = if self.gaps.stdout.is_some() {
            Stream::Stdout
        } else {
            Stream::Stderr
        };
        let Gap { offset, bytes } = self.gaps.get_mut(stream).take()?;
        let position_after = if both {
            self.gap_position
        } else {
            self.position
        };
        Some(JointPiece::Gap {
            stream,
            offset,
            bytes,
            position_after,
        })
    }

    async fn step(&mut self) -> Result<Step, OutputError> {
        let mut missing = false;
        loop {
            if let Some(block) = &self.block
                && (block.start()..block.end()).contains(&self.position)
                && let Some(run) = block.run_at(self.position, &mut self.cursor)
            {
                return Ok(Step::Run(run));
            }
            self.block = None;
            let place = self
                .shared
                .lock()
                .order
                .find(self.position, &mut self.cursor);
            match place {
                OrderPlace::Run(run) => return Ok(Step::Run(run)),
                OrderPlace::Block(block) => self.block = Some(block),
                OrderPlace::Lost { from, until } => return Ok(Step::Lost { from, until }),
                OrderPlace::File { segment, blocks } => match self.load(segment, blocks).await {
                    // Dropped between the look and the opening; looking again says so.
                    Err(error) if error.kind() == io::ErrorKind::NotFound && !missing => {
                        missing = true;
                    }
                    other => other?,
                },
            }
        }
    }

    /// Reads the block that holds `position` from the file that begins at `segment`.
    async fn load(&mut self, segment: u64, blocks: u64) -> io::Result<()> {
        let known = self.file.as_ref().filter(|(name, _, _)| *name == segment);
        let (hint, file) = match known {
            Some((_, last, file)) => (last + 1, Some(Arc::clone(file))),
            None => (0, None),
        };
        let path = disk::path(&self.shared.config, Kind::Order, segment);
        let size = order::encoded_len(&self.shared.config);
        let position = self.position;
        let (file, index, block) = blocking(move || {
            let file = match file {
                Some(file) => file,
                None => Arc::new(File::open(path)?),
            };
            let (index, block) = search(&file, size, hint, blocks, position)?;
            Ok((file, index, block))
        })
        .await?;
        self.file = Some((segment, index, file));
        self.block = Some(Arc::new(block));
        Ok(())
    }
}

/// Binary search that begins with `hint`, the right block when reading on.
fn search(
    file: &File,
    size: usize,
    hint: u64,
    blocks: u64,
    position: u64,
) -> io::Result<(u64, Block)> {
    let mut bytes = vec![0; size];
    let (mut low, mut high) = (0, blocks);
    let mut index = hint.min(blocks.saturating_sub(1));
    while low < high {
        file.read_exact_at(&mut bytes, index * size as u64)?;
        let block = Block::decode(&bytes)?;
        if position < block.start() {
            high = index;
        } else if position >= block.end() {
            low = index + 1;
        } else {
            return Ok((index, block));
        }
        index = low + (high - low) / 2;
    }
    Err(io::Error::from(io::ErrorKind::InvalidData))
}
