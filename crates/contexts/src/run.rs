//! One run: what the code wrote, the values it gave, how it ended, and the readers of all that.
//!
//! Output lies in an output log; values and errors lie beside it, each with the position in the log
//! at which it came. A reader puts both together again, at its own pace.
//!
//! ```text
//!  queued ── turn comes ──► started ── over ──► ended
//!     └──── restart, delete ────────────────────►┘
//! ```
//!
//! Invariants: nothing is added after the end; the log has ended before the end is told.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use sandshell_exec::output::{JointPiece, JointReader, OutputLog, Stream};
use sandshell_types::{
    ContextOutcome, Encoded, RunEnd, RunError, RunReply, RunRequest, RunResult, RunStarted,
    RunStatus, Truncate, Truncated,
};
use tokio::sync::watch;

use crate::{ContextError, RESULT_BYTES};

/// Most bytes of each stream in a JSON result.
const OUTPUT_BYTES: u64 = 10 * 1024 * 1024;

/// Why a run is to end before it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Gently: the state is to be kept.
    Interrupt,
    /// The same, by the clock.
    Timeout,
    /// At once: the interpreter is not wanted any more.
    Discard,
}

/// A run; cheap to clone.
#[derive(Debug, Clone)]
pub struct RunHandle(Arc<Run>);

#[derive(Debug)]
struct Run {
    id: String,
    request: RunRequest,
    /// Restarts that had happened when it was queued.
    epoch: u64,
    started: OnceLock<Started>,
    facts: Mutex<Facts>,
    /// Counts the changes of the above.
    changed: watch::Sender<u64>,
    stop: watch::Sender<Option<Stop>>,
}

#[derive(Debug)]
struct Started {
    log: OutputLog,
    count: u64,
    at: Instant,
}

#[derive(Debug, Default)]
struct Facts {
    items: Vec<(u64, Item)>,
    bytes: usize,
    dropped: u64,
    end: Option<RunEnd>,
}

#[derive(Debug, Clone)]
enum Item {
    Result(RunResult),
    Error(RunError),
}

/// What a reader sees.
#[derive(Debug, Clone, PartialEq)]
pub enum RunItem {
    /// The turn has come.
    Started(RunStarted),
    /// Bytes of one stream.
    Output(Stream, Bytes),
    /// Bytes of one stream that are not kept.
    Gap(Stream, u64),
    /// A value.
    Result(RunResult),
    /// An error.
    Error(RunError),
    /// The end; nothing follows.
    End(RunEnd),
}

impl RunHandle {
    pub(crate) fn new(id: String, request: RunRequest, epoch: u64) -> Self {
        Self(Arc::new(Run {
            id,
            request,
            epoch,
            started: OnceLock::new(),
            facts: Mutex::default(),
            changed: watch::Sender::new(0),
            stop: watch::Sender::new(None),
        }))
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    pub(crate) fn request(&self) -> &RunRequest {
        &self.0.request
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.0.epoch
    }

    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.0.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self) {
        self.0
            .changed
            .send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Its turn has come.
    pub(crate) fn start(&self, log: OutputLog, count: u64) {
        let at = Instant::now();
        let _ = self.0.started.set(Started { log, count, at });
        self.tell();
    }

    /// Adds a value, unless there are too many bytes of them.
    pub(crate) fn add_result(&self, result: RunResult) {
        let size: usize = result
            .data
            .iter()
            .map(|(mime, value)| mime.len() + size_of_value(value))
            .sum();
        let mut facts = self.facts();
        if facts.bytes + size > RESULT_BYTES {
            facts.dropped += 1;
            return;
        }
        facts.bytes += size;
        let position = self.position();
        facts.items.push((position, Item::Result(result)));
        drop(facts);
        self.tell();
    }

    /// Counts a value that was too large to come here.
    pub(crate) fn drop_result(&self) {
        self.facts().dropped += 1;
    }

    pub(crate) fn add_error(&self, error: RunError) {
        let position = self.position();
        self.facts().items.push((position, Item::Error(error)));
        self.tell();
    }

    fn position(&self) -> u64 {
        self.0
            .started
            .get()
            .map_or(0, |started| started.log.position())
    }

    /// Says that it is over.
    pub(crate) fn end(&self, status: RunStatus, context: ContextOutcome, exit_code: Option<i32>) {
        let started = self.0.started.get();
        if let Some(started) = started {
            started.log.end();
        }
        let mut facts = self.facts();
        let end = RunEnd {
            status,
            execution_count: started.map_or(0, |started| started.count),
            duration_ms: started.map_or(0, |started| started.at.elapsed().as_millis() as u64),
            context,
            exit_code,
            dropped_results: facts.dropped,
        };
        facts.end.get_or_insert(end);
        drop(facts);
        self.tell();
    }

    /// Wants it over. The first reason stands, but a discard is always heard.
    pub(crate) fn stop(&self, stop: Stop) {
        self.0.stop.send_if_modified(|current| {
            let heard = current.is_none() || (stop == Stop::Discard && *current != Some(stop));
            if heard {
                *current = Some(stop);
            }
            heard
        });
    }

    pub(crate) fn stops(&self) -> watch::Receiver<Option<Stop>> {
        self.0.stop.subscribe()
    }

    /// Resolves when it is over.
    pub async fn ended(&self) -> RunEnd {
        let mut changed = self.0.changed.subscribe();
        loop {
            changed.borrow_and_update();
            if let Some(end) = self.facts().end.clone() {
                return end;
            }
            // The sender lives as long as we do.
            let _ = changed.changed().await;
        }
    }

    /// All of it, once it is over.
    pub async fn reply(&self) -> Result<RunReply, ContextError> {
        let end = self.ended().await;
        let request = &self.0.request;
        let max = request.max_output_bytes.unwrap_or(OUTPUT_BYTES);
        let mut texts = Vec::new();
        let mut omitted = Vec::new();
        for stream in [Stream::Stdout, Stream::Stderr] {
            let bytes = match self.0.started.get() {
                Some(started) => {
                    let excerpt = started.log.excerpt(stream, max, Truncate::Both).await?;
                    omitted.push(excerpt.omitted);
                    excerpt.bytes
                }
                None => Vec::new(),
            };
            texts.push(Encoded::new(bytes, request.encoding));
        }
        let (mut results, mut error) = (Vec::new(), None);
        for (_, item) in &self.facts().items {
            match item {
                Item::Result(result) => results.push(result.clone()),
                Item::Error(raised) => error = Some(raised.clone()),
            }
        }
        let missing = |n: usize| omitted.get(n).copied().unwrap_or(0);
        let truncated = (missing(0) > 0 || missing(1) > 0).then(|| Truncated {
            stdout_bytes: missing(0),
            stderr_bytes: missing(1),
        });
        let mut texts = texts.into_iter();
        let empty = || Encoded::new(Vec::new(), request.encoding);
        let (stdout, stderr) = (
            texts.next().unwrap_or_else(empty),
            texts.next().unwrap_or_else(empty),
        );
        Ok(RunReply {
            run_id: self.0.id.clone(),
            stdout: stdout.data,
            stdout_encoding: stdout.encoding,
            stderr: stderr.data,
            stderr_encoding: stderr.encoding,
            results,
            error,
            truncated,
            end,
        })
    }

    /// Reads it from its start, live.
    pub fn reader(&self) -> RunReader {
        RunReader {
            changed: self.0.changed.subscribe(),
            run: self.clone(),
            announced: false,
            output: None,
            position: 0,
            next: 0,
            piece: None,
            over: false,
        }
    }
}

fn size_of_value(value: &serde_json::Value) -> usize {
    match value {
        serde_json::Value::String(text) => text.len(),
        serde_json::Value::Array(items) => items.iter().map(size_of_value).sum::<usize>() + 2,
        serde_json::Value::Object(items) => {
            let sizes = items
                .iter()
                .map(|(name, value)| name.len() + size_of_value(value));
            sizes.sum::<usize>() + 2
        }
        _ => 8,
    }
}

/// Reads a run.
#[derive(Debug)]
pub struct RunReader {
    run: RunHandle,
    changed: watch::Receiver<u64>,
    announced: bool,
    /// `None` before the start and after the last byte.
    output: Option<JointReader>,
    /// All output before it has been given.
    position: u64,
    /// The next value or error.
    next: usize,
    /// Output that has been read and not given.
    piece: Option<(Stream, Bytes)>,
    over: bool,
}

impl RunReader {
    /// What comes next; `None` after the end.
    ///
    /// CANCEL SAFETY: nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Result<Option<RunItem>, ContextError> {
        if self.over {
            return Ok(None);
        }
        loop {
            self.changed.borrow_and_update();
            if !self.announced
                && let Some(started) = self.run.0.started.get()
            {
                self.announced = true;
                self.output = Some(started.log.joint_reader(0, true)?);
                return Ok(Some(RunItem::Started(RunStarted {
                    run_id: self.run.0.id.clone(),
                    execution_count: started.count,
                })));
            }
            let (due, next_position, end) = self.look();
            if let Some(item) = due {
                return Ok(Some(item));
            }
            if let Some((stream, bytes)) = self.piece.take() {
                return Ok(Some(self.give(stream, bytes, next_position)));
            }
            if let Some(output) = &mut self.output {
                tokio::select! {
                    piece = output.next() => match piece? {
                        Some(JointPiece::Data { stream, data, .. }) => self.piece = Some((stream, data)),
                        Some(JointPiece::Gap { stream, bytes, .. }) => {
                            self.position += bytes;
                            return Ok(Some(RunItem::Gap(stream, bytes)));
                        }
                        None => self.output = None,
                    },
                    _ = self.changed.changed() => {}
                }
            } else if let Some(end) = end {
                self.over = true;
                return Ok(Some(RunItem::End(end)));
            } else {
                // The sender lives as long as the run we hold.
                let _ = self.changed.changed().await;
            }
        }
    }

    /// The value or error whose turn it is, else where the next one stands; and the end, if known.
    fn look(&mut self) -> (Option<RunItem>, Option<u64>, Option<RunEnd>) {
        let facts = self.run.facts();
        let all_out = self.announced && self.output.is_none() && self.piece.is_none();
        match facts.items.get(self.next) {
            Some((position, item)) if *position <= self.position || all_out => {
                self.next += 1;
                let item = match item.clone() {
                    Item::Result(result) => RunItem::Result(result),
                    Item::Error(error) => RunItem::Error(error),
                };
                (Some(item), None, None)
            }
            Some((position, _)) => (None, Some(*position), None),
            None => (None, None, facts.end.clone()),
        }
    }

    /// Gives output up to the place of the next value.
    fn give(&mut self, stream: Stream, mut bytes: Bytes, until: Option<u64>) -> RunItem {
        let room = until.map_or(usize::MAX, |until| (until - self.position) as usize);
        if bytes.len() > room {
            self.piece = Some((stream, bytes.split_off(room)));
        }
        self.position += bytes.len() as u64;
        RunItem::Output(stream, bytes)
    }
}
