//! The handle of an output log and the state behind it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use jiff::Timestamp;
use sandshell_types::Truncate;
use tokio::sync::Notify;

use super::disk::{self, Disk};
use super::excerpt::{self, Excerpt};
use super::joint::JointReader;
use super::order::Order;
use super::reader::StreamReader;
use super::stream::StreamState;
use super::{Config, LogLimits, LogSpace, Marks, OutputError, PerStream, Stream};

/// What the lock protects.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) streams: PerStream<StreamState>,
    pub(super) order: Order,
    /// Lengths at the moment of `end`.
    pub(super) ended: Option<Marks>,
    /// A flush job has been started and has not finished.
    pub(super) flushing: bool,
    /// Write everything out although it is little, because the process is over.
    flush_rest: bool,
}

impl State {
    pub(super) fn marks(&self) -> Marks {
        PerStream {
            stdout: self.streams.stdout.len(),
            stderr: self.streams.stderr.len(),
        }
    }

    fn unwritten(&self) -> u64 {
        self.streams.stdout.unwritten() + self.streams.stderr.unwritten()
    }

    pub(super) fn streams_want_flush(&mut self, config: &Config) -> bool {
        let unwritten = self.unwritten();
        self.flush_rest &= unwritten > 0;
        let at = if self.ended.is_some() {
            config.small
        } else {
            config.flush_at
        };
        self.flush_rest || unwritten > at
    }

    /// Whether to start a flush job; says yes once until that job is over.
    fn take_flush(&mut self, config: &Config) -> bool {
        let wanted =
            !self.flushing && (self.streams_want_flush(config) || self.order.wants_flush(config));
        self.flushing |= wanted;
        wanted
    }

    pub(super) fn trim(&mut self, config: &Config) {
        let ended = self.ended.is_some();
        self.streams.stdout.trim(ended, config);
        self.streams.stderr.trim(ended, config);
        self.order.trim(config);
    }

    pub(super) fn refuse_all(&mut self, config: &Config) {
        self.streams.stdout.refuse_all(config);
        self.streams.stderr.refuse_all(config);
        self.order.refuse_all();
        self.trim(config);
    }
}

/// What handles, readers and the flush job share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) config: Config,
    state: Mutex<State>,
    pub(super) disk: Mutex<Disk>,
    /// Told when bytes were added or the process is over.
    pub(super) changed: Notify,
    /// Told when the flush job got on.
    pub(super) flushed: Notify,
}

impl Shared {
    /// A panic elsewhere must not take the output with it, so poisoning is ignored; every change
    /// under the lock is complete before anything that can panic.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let disk = self.disk.get_mut().unwrap_or_else(PoisonError::into_inner);
        if disk.made {
            let share = disk.place.take_share();
            disk::remove_in_background(std::mem::take(&mut self.config.dir), share);
        }
    }
}

/// The record of what a process wrote to stdout and stderr. Clones are handles of the same log.
#[derive(Debug, Clone)]
pub struct OutputLog {
    pub(super) shared: Arc<Shared>,
}

impl OutputLog {
    /// An empty log. Its directory is `dir` and a number of its own, because a name may be used
    /// again while the log before is still read or being removed. It is created when the first bytes leave
    /// memory, and removed with all that is in it, in the background, after the last handle and
    /// the last reader are dropped. Its files have their room in `space`.
    pub fn new(dir: PathBuf, limits: LogLimits, space: &LogSpace) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut own = dir.into_os_string();
        own.push(format!("+{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        Self::with_config(Config::new(own.into(), limits), space)
    }

    pub(super) fn with_config(config: Config, space: &LogSpace) -> Self {
        Self {
            shared: Arc::new(Shared {
                config,
                state: Mutex::default(),
                disk: Mutex::new(Disk::new(space.place())),
                changed: Notify::new(),
                flushed: Notify::new(),
            }),
        }
    }

    /// Adds bytes. Never waits for readers; waits while a few MiB are not yet on disk, that is
    /// while the disk is slower than the producer. Must be called in a tokio runtime.
    ///
    /// CANCEL SAFETY: data of up to 64 KiB is added as a whole or not at all; of longer data, a
    /// dropped call may have added the first pieces.
    pub async fn append(&self, stream: Stream, data: &[u8]) {
        let shared = &self.shared;
        let config = &shared.config;
        for piece in data.chunks(config.piece) {
            let mut block = (piece.len() >= config.gather).then(|| Bytes::copy_from_slice(piece));
            let start_flush = loop {
                // Made before the look at the state, so that no progress is missed.
                let progress = shared.flushed.notified();
                {
                    let mut state = shared.lock();
                    // The piece itself counts: the cap leaves room for no more than this.
                    let unwritten = state.unwritten() + piece.len() as u64;
                    let waits = state.flushing
                        && (unwritten > config.unwritten_max || state.order.is_behind(config));
                    if !waits {
                        let at_ms = Timestamp::now().as_millisecond();
                        state
                            .streams
                            .get_mut(stream)
                            .push(piece, block.take(), config);
                        state.order.push(stream, piece.len() as u64, at_ms, config);
                        break state.take_flush(config);
                    }
                }
                progress.await;
            };
            shared.changed.notify_waiters();
            if start_flush {
                disk::start_flush(shared);
            }
        }
    }

    /// The process is over: followers stop when they have read what was written until now. Bytes
    /// may still be added; readers opened later see them. A second call changes nothing.
    pub fn end(&self) {
        let shared = &self.shared;
        let start_flush = {
            let mut state = shared.lock();
            if state.ended.is_some() {
                return;
            }
            let marks = state.marks();
            state.ended = Some(marks);
            // A log that is in files anyway, or is not small, need not hold memory from now on.
            let kept_small = |stream| {
                let side = state.streams.get(stream);
                !side.has_segments() && side.len() <= shared.config.small
            };
            state.flush_rest =
                state.order.has_segments() || !Stream::BOTH.into_iter().all(kept_small);
            // With nothing left to write, the job still trims and closes the files.
            let start_flush = state.flush_rest && !state.flushing;
            state.flushing |= start_flush;
            start_flush
        };
        shared.changed.notify_waiters();
        if start_flush {
            disk::start_flush(shared);
        }
    }

    /// Whether `end` was called.
    pub fn is_ended(&self) -> bool {
        self.shared.lock().ended.is_some()
    }

    /// Bytes ever written to the stream.
    pub fn len(&self, stream: Stream) -> u64 {
        self.shared.lock().streams.get(stream).len()
    }

    /// Whether neither stream has bytes.
    pub fn is_empty(&self) -> bool {
        self.shared.lock().marks().total() == 0
    }

    /// The joint position after the last byte.
    pub fn position(&self) -> u64 {
        self.shared.lock().marks().total()
    }

    /// 0 when nothing was dropped, else the first kept offset after the first dropped byte.
    pub fn first_offset(&self, stream: Stream) -> u64 {
        self.shared.lock().streams.get(stream).first_offset()
    }

    /// Bytes that are no longer kept.
    pub fn dropped(&self, stream: Stream) -> u64 {
        self.shared.lock().streams.get(stream).dropped()
    }

    /// Reads one stream from `offset`. With `follow` the reader waits for more until the process
    /// is over; without, it ends at the length of this moment.
    pub fn reader(
        &self,
        stream: Stream,
        offset: u64,
        follow: bool,
    ) -> Result<StreamReader, OutputError> {
        let state = self.shared.lock();
        let side = state.streams.get(stream);
        let len = side.len();
        if offset > len {
            return Err(OutputError::Beyond { len });
        }
        let kept = side.kept_from(offset);
        if kept > offset {
            return Err(OutputError::Gone { first_offset: kept });
        }
        let limit = (!follow || state.ended.is_some()).then_some(len);
        Ok(StreamReader::new(
            Arc::clone(&self.shared),
            stream,
            offset,
            limit,
        ))
    }

    /// Reads both streams in order of arrival from the joint position `from`. Dropped bytes are
    /// reported as gaps, not as an error.
    pub fn joint_reader(&self, from: u64, follow: bool) -> Result<JointReader, OutputError> {
        let state = self.shared.lock();
        let len = state.marks().total();
        if from > len {
            return Err(OutputError::Beyond { len });
        }
        let limit = (!follow || state.ended.is_some()).then_some(len);
        Ok(JointReader::new(Arc::clone(&self.shared), from, limit))
    }

    /// At most `max` bytes of the stream as it is now. `Truncate` says which part is left out when
    /// there is more; with `Both` the first and the last half are kept. Dropped bytes are left out
    /// too. A cut does not split a UTF-8 character; up to 3 bytes more are left out for that.
    pub async fn excerpt(
        &self,
        stream: Stream,
        max: u64,
        truncate: Truncate,
    ) -> Result<Excerpt, OutputError> {
        excerpt::excerpt(&self.shared, stream, max, truncate).await
    }
}
