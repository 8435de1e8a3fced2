//! The files of a log: the flush job that writes them, the cap that drops them, their removal.
//!
//! At most one job runs for a log, on a blocking thread. It takes what is unwritten under the
//! lock, writes it without the lock, and reports under the lock what became of it. A write that
//! fails is not repeated: the bytes count as refused, and the next bytes try the disk again in a
//! new file, so that a disk that was full for a while costs only what came meanwhile.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, TryLockError};

use bytes::Bytes;
use tokio::runtime::Handle;

use super::log::{Shared, State};
use super::order::{self, Block};
use super::space::Place;
use super::{Config, PerStream, Stream};
use crate::space::Share;

/// What a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Bytes(Stream),
    Order,
}

/// The file whose content begins at `start`.
pub(super) fn path(config: &Config, kind: Kind, start: u64) -> PathBuf {
    let name = match kind {
        Kind::Bytes(Stream::Stdout) => "stdout",
        Kind::Bytes(Stream::Stderr) => "stderr",
        Kind::Order => "order",
    };
    config.dir.join(format!("{name}.{start}"))
}

/// The file that is being written.
#[derive(Debug)]
struct Active {
    start: u64,
    /// Only what begins here continues the file.
    next: u64,
    bytes: u64,
    /// Closed when the process is over, so that finished logs hold no descriptors.
    file: Option<File>,
}

/// The writing side of the directory. Locked by the flush job, and by whoever has a log give up what it has.
#[derive(Debug)]
pub(super) struct Disk {
    /// What the files have of the room of all logs.
    pub(super) place: Place,
    /// The directory was made, and is to be removed with the log.
    pub(super) made: bool,
    /// One warning per log is enough: the bytes themselves are counted.
    warned: bool,
    bytes: PerStream<Option<Active>>,
    order: Option<Active>,
}

impl Disk {
    pub(super) fn new(place: Place) -> Self {
        Self {
            place,
            made: false,
            warned: false,
            bytes: PerStream::default(),
            order: None,
        }
    }

    fn active(&mut self, kind: Kind) -> &mut Option<Active> {
        match kind {
            Kind::Bytes(stream) => self.bytes.get_mut(stream),
            Kind::Order => &mut self.order,
        }
    }

    /// Writes what covers `start..end` and returns the start of the file it is in now.
    fn write(
        &mut self,
        config: &Config,
        kind: Kind,
        range: Range<u64>,
        data: &[u8],
    ) -> io::Result<u64> {
        self.place.grow(data.len() as u64)?;
        let written = self.put(config, kind, range, data);
        if written.is_err() {
            self.place.shrink(data.len() as u64);
        }
        written
    }

    /// The same, when there is room.
    fn put(
        &mut self,
        config: &Config,
        kind: Kind,
        range: Range<u64>,
        data: &[u8],
    ) -> io::Result<u64> {
        let (max, rolls) = match kind {
            Kind::Bytes(_) => (config.segment, range.start == config.keep_head),
            Kind::Order => (
                config.order_segment * order::encoded_len(config) as u64,
                false,
            ),
        };
        let mut active = self.active(kind).take().filter(|active| {
            active.next == range.start && active.bytes + data.len() as u64 <= max && !rolls
        });
        if active.is_none() {
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&config.dir)?;
            self.made = true;
        }
        let (start, bytes) = active
            .as_ref()
            .map_or((range.start, 0), |a| (a.start, a.bytes));
        let file = match active.as_mut().and_then(|active| active.file.take()) {
            Some(file) => file,
            None => OpenOptions::new()
                .write(true)
                .create(bytes == 0)
                .truncate(bytes == 0)
                .mode(0o600)
                .open(path(config, kind, start))?,
        };
        if let Err(error) = file.write_all_at(data, bytes) {
            // What a failed write left behind only takes space from others on a full disk.
            let _ = match bytes {
                0 => fs::remove_file(path(config, kind, start)),
                _ => file.set_len(bytes),
            };
            return Err(error);
        }
        *self.active(kind) = Some(Active {
            start,
            next: range.end,
            bytes: bytes + data.len() as u64,
            file: Some(file),
        });
        Ok(start)
    }

    fn warn_once(&mut self, config: &Config, error: &io::Error) {
        if !self.warned {
            self.warned = true;
            let dir = config.dir.display();
            tracing::warn!(%dir, %error, "output cannot be stored; what memory cannot hold is dropped");
        }
    }

    fn remove(&mut self, config: &Config, kind: Kind, start: u64) {
        let active = self.active(kind);
        if active.as_ref().is_some_and(|active| active.start == start) {
            *active = None;
        }
        let path = path(config, kind, start);
        let bytes = fs::metadata(&path).map_or(0, |file| file.len());
        if fs::remove_file(&path).is_ok() {
            self.place.shrink(bytes);
        }
    }

    fn close(&mut self) {
        let all = [
            &mut self.bytes.stdout,
            &mut self.bytes.stderr,
            &mut self.order,
        ];
        for active in all.into_iter().flatten() {
            active.file = None;
        }
    }
}

/// What one round of the job writes.
struct Batch {
    bytes: PerStream<Vec<(u64, Bytes)>>,
    order: Vec<Arc<Block>>,
}

impl State {
    fn batch(&mut self, config: &Config) -> Option<Batch> {
        let streams = self.streams_want_flush(config);
        let order = self.order.wants_flush(config);
        if !streams && !order {
            return None;
        }
        let mut batch = Batch {
            bytes: PerStream::default(),
            order: Vec::new(),
        };
        if streams {
            for stream in Stream::BOTH {
                *batch.bytes.get_mut(stream) = self.streams.get_mut(stream).batch(config);
            }
        }
        if order {
            batch.order = self.order.batch();
        }
        Some(batch)
    }

    fn holds_refused(&self) -> bool {
        Stream::BOTH
            .iter()
            .any(|&stream| self.streams.get(stream).holds_refused())
    }

    /// Drops everything that is settled, head included; the names of the files are returned.
    fn give_up(&mut self) -> Vec<(Kind, u64)> {
        let mut names = Vec::new();
        for stream in Stream::BOTH {
            let starts = self.streams.get_mut(stream).give_up();
            names.extend(starts.into_iter().map(|start| (Kind::Bytes(stream), start)));
        }
        let order = self.order.drop_unneeded(|_, _| false);
        names.extend(order.into_iter().map(|start| (Kind::Order, start)));
        names
    }

    /// Chooses what the cap drops, until what is on disk leaves room for what may be in memory.
    fn drop_excess(&mut self, config: &Config) -> Vec<(Kind, u64)> {
        let mut names = Vec::new();
        let room = config.cap.saturating_sub(config.unwritten_max);
        loop {
            let [stdout, stderr] = Stream::BOTH.map(|s| self.streams.get(s).droppable(config));
            let order = self.order.file_bytes(config);
            let used: u64 = Stream::BOTH
                .map(|s| self.streams.get(s).segment_bytes())
                .iter()
                .sum();
            if used + order <= room {
                break;
            }
            let larger = if stdout >= stderr {
                Stream::Stdout
            } else {
                Stream::Stderr
            };
            if order > stdout.max(stderr) {
                names.extend(self.order.drop_oldest().map(|start| (Kind::Order, start)));
            } else if let Some(start) = self.streams.get_mut(larger).drop_oldest(config) {
                names.push((Kind::Bytes(larger), start));
            } else {
                break;
            }
        }
        if !names.is_empty() {
            let streams = &self.streams;
            let unneeded = self.order.drop_unneeded(|from, until| {
                Stream::BOTH.iter().any(|&stream| {
                    streams.get(stream).kept_from(*from.get(stream)) < *until.get(stream)
                })
            });
            names.extend(unneeded.into_iter().map(|start| (Kind::Order, start)));
        }
        names
    }
}

/// The right to run the job. Given back on drop, also when the job never ran because the runtime
/// shut down, or panicked; the producer then no longer waits for the disk.
#[derive(Debug)]
struct Job {
    shared: Arc<Shared>,
    done: bool,
}

impl Drop for Job {
    fn drop(&mut self) {
        if !self.done {
            let mut state = self.shared.lock();
            state.refuse_all(&self.shared.config);
            state.flushing = false;
        }
        self.shared.flushed.notify_waiters();
    }
}

/// Starts the job on a blocking thread; the caller has set `flushing`.
pub(super) fn start_flush(shared: &Arc<Shared>) {
    let job = Job {
        shared: Arc::clone(shared),
        done: false,
    };
    match Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(move || flush(job))),
        // No runtime, so nothing that this could hold up.
        Err(_) => flush(job),
    }
}

fn flush(mut job: Job) {
    let shared = Arc::clone(&job.shared);
    let config = &shared.config;
    let mut disk = shared.disk.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let batch = {
            let mut state = shared.lock();
            let Some(batch) = state.batch(config) else {
                state.trim(config);
                state.flushing = false;
                job.done = true;
                let ended = state.ended.is_some();
                let holds_refused = state.holds_refused();
                drop(state);
                if ended {
                    disk.close();
                    disk.place.ended(&shared, holds_refused);
                }
                return;
            };
            batch
        };
        for stream in Stream::BOTH {
            for (start, data) in batch.bytes.get(stream) {
                let range = *start..*start + data.len() as u64;
                let written = disk.write(config, Kind::Bytes(stream), range, data);
                let mut state = shared.lock();
                let side = state.streams.get_mut(stream);
                match written {
                    Ok(segment) => side.stored(*start, data.len() as u64, segment),
                    Err(error) => {
                        side.refused(*start, data, config);
                        drop(state);
                        disk.warn_once(config, &error);
                    }
                }
            }
        }
        for block in &batch.order {
            let encoded = block.encode(config);
            let written = disk.write(config, Kind::Order, block.start()..block.end(), &encoded);
            let mut state = shared.lock();
            match written {
                Ok(segment) => state.order.stored(block, segment),
                Err(error) => {
                    state.order.refused(block);
                    drop(state);
                    disk.warn_once(config, &error);
                }
            }
        }
        // The batch's references go first, so that trimming gives memory back.
        drop(batch);
        let dropped = {
            let mut state = shared.lock();
            state.trim(config);
            state.drop_excess(config)
        };
        shared.flushed.notify_waiters();
        for (kind, start) in dropped {
            disk.remove(config, kind, start);
        }
    }
}

/// Has a log that ended drop all that it has outside of small memory, unless its flush job runs: then it
/// is asked again when that is done.
pub(super) fn give_up(shared: &Arc<Shared>) {
    let mut disk = match shared.disk.try_lock() {
        Ok(disk) => disk,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return,
    };
    let dropped = shared.lock().give_up();
    for (kind, start) in dropped {
        disk.remove(&shared.config, kind, start);
    }
}

/// Removes the directory on drop, on whatever thread that happens; then others have its room.
struct Removal {
    dir: PathBuf,
    /// Held for its drop.
    _share: Share,
}

impl Drop for Removal {
    fn drop(&mut self) {
        remove_dir(&self.dir);
    }
}

fn remove_dir(dir: &Path) {
    if let Err(error) = fs::remove_dir_all(dir)
        && error.kind() != io::ErrorKind::NotFound
    {
        let dir = dir.display();
        tracing::warn!(%dir, %error, "the directory of an output log could not be removed");
    }
}

/// Removes the directory without holding up an async thread. A runtime that shuts down drops the
/// closure instead of running it, and with it the removal, which has the same effect.
pub(super) fn remove_in_background(dir: PathBuf, share: Share) {
    let removal = Removal { dir, _share: share };
    match Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(move || drop(removal))),
        Err(_) => drop(removal),
    }
}
