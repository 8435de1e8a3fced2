//! Reading one stream: from memory near the live end, from segment files behind it.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;

use super::disk::{self, Kind};
use super::log::Shared;
use super::stream::Place;
use super::{OutputError, Stream};

/// What is at an offset.
#[derive(Debug)]
pub(super) enum Fetched {
    Data(Bytes),
    /// Dropped; the next kept byte is at `next`.
    Gone {
        next: u64,
    },
    /// Not written yet.
    End,
}

/// Fetches bytes of one stream for one reader, and keeps what makes the next fetch cheap: the open
/// segment, which thereby survives being dropped by the cap, and what was read ahead from it.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) shared: Arc<Shared>,
    pub(super) stream: Stream,
    file: Option<(Range<u64>, Arc<File>)>,
    ahead: Option<(u64, Bytes)>,
}

impl Source {
    pub(super) fn new(shared: Arc<Shared>, stream: Stream) -> Self {
        Self {
            shared,
            stream,
            file: None,
            ahead: None,
        }
    }

    /// At most `max` bytes at `offset`, at least one unless it is `Gone` or `End`.
    ///
    /// CANCEL SAFETY: a dropped call changes nothing but what is cached.
    pub(super) async fn fetch(&mut self, offset: u64, max: u64) -> Result<Fetched, OutputError> {
        let mut missing = false;
        loop {
            if let Some(data) = self.take_ahead(offset, max) {
                return Ok(Fetched::Data(data));
            }
            let place = {
                let mut state = self.shared.lock();
                state
                    .streams
                    .get_mut(self.stream)
                    .locate(offset, max, &self.shared.config)
            };
            let segment = match place {
                Place::Memory(data) => {
                    self.file = None;
                    return Ok(Fetched::Data(data));
                }
                Place::End => return Ok(Fetched::End),
                Place::File { segment } => segment,
                Place::Gone { next } => match &self.file {
                    Some((segment, _)) if segment.contains(&offset) => segment.clone(),
                    _ => return Ok(Fetched::Gone { next }),
                },
            };
            match self.read_ahead(segment, offset).await {
                // The cap may drop the segment between the look and the opening; looking again
                // then says so.
                Err(error) if error.kind() == io::ErrorKind::NotFound && !missing => missing = true,
                other => other?,
            }
        }
    }

    fn take_ahead(&mut self, offset: u64, max: u64) -> Option<Bytes> {
        let (start, data) = self.ahead.take()?;
        let from = usize::try_from(offset.checked_sub(start)?).ok()?;
        if from >= data.len() {
            return None;
        }
        let len = max.min((data.len() - from) as u64) as usize;
        let part = data.slice(from..from + len);
        if from + len < data.len() {
            self.ahead = Some((start, data));
        }
        Some(part)
    }

    async fn read_ahead(&mut self, segment: Range<u64>, offset: u64) -> io::Result<()> {
        let known = self
            .file
            .as_ref()
            .filter(|(open, _)| open.start == segment.start);
        let file = known.map(|(_, file)| Arc::clone(file));
        let path = disk::path(&self.shared.config, Kind::Bytes(self.stream), segment.start);
        let len = self.shared.config.window.min(segment.end - offset);
        let at = offset - segment.start;
        let (file, data) = blocking(move || {
            let file = match file {
                Some(file) => file,
                None => Arc::new(File::open(path)?),
            };
            let mut data = vec![0; len as usize];
            file.read_exact_at(&mut data, at)?;
            Ok((file, data))
        })
        .await?;
        self.file = Some((segment, file));
        self.ahead = Some((offset, data.into()));
        Ok(())
    }
}

/// Runs disk work off the async threads.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(io::Error::other(error)),
    }
}

/// Reads one stream.
#[derive(Debug)]
pub struct StreamReader {
    source: Source,
    offset: u64,
    /// Where the reader ends; not known while it follows a running process.
    limit: Option<u64>,
}

impl StreamReader {
    pub(super) fn new(
        shared: Arc<Shared>,
        stream: Stream,
        offset: u64,
        limit: Option<u64>,
    ) -> Self {
        Self {
            source: Source::new(shared, stream),
            offset,
            limit,
        }
    }

    /// The offset of the next byte.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The next bytes: up to 64 KiB from memory or 256 KiB from disk. Waits when following; `None`
    /// at the end. `Gone` when the cap dropped the next byte; the reader then stays where it is.
    ///
    /// CANCEL SAFETY: a dropped call loses nothing; the next call gives the same bytes.
    pub async fn next(&mut self) -> Result<Option<Bytes>, OutputError> {
        let shared = Arc::clone(&self.source.shared);
        loop {
            // Made before the look at the state, so that no change is missed.
            let changed = shared.changed.notified();
            // End and length are taken together, so that bytes added after the end, in between, are
            // not handed out.
            let reach = {
                let state = shared.lock();
                let stream = self.source.stream;
                self.limit = self
                    .limit
                    .or_else(|| state.ended.map(|marks| *marks.get(stream)));
                self.limit
                    .unwrap_or_else(|| state.streams.get(stream).len())
            };
            let max = reach.saturating_sub(self.offset);
            if max == 0 {
                if self.limit.is_some() {
                    return Ok(None);
                }
                changed.await;
                continue;
            }
            match self.source.fetch(self.offset, max).await? {
                Fetched::Data(data) => {
                    self.offset += data.len() as u64;
                    return Ok(Some(data));
                }
                Fetched::Gone { next } => return Err(OutputError::Gone { first_offset: next }),
                // The length was looked at before, so there is something.
                Fetched::End => {}
            }
        }
    }
}
