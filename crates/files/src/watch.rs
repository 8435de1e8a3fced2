//! Watches: what changes below a path, told to any number of readers, resumable.
//!
//! A watch is kept by its parameters: whoever asks for the same path, depth, globs and user shares it,
//! and comes back to it after a lost connection. It is made by the first call that needs it and ends
//! when nobody has used it for [`KEPT`], when what it watches is gone, or when it must make room.
//!
//! ```text
//! kernel queue ─► owner task ─► job on a thread of the inside (follower) ─► ring ─► readers
//!                    ▲ "catch up now" of a question for changes
//! ```
//!
//! Owns the table of watches and their owner tasks. Does not own how a tree is followed (`follower`)
//! nor what is kept (`ring`). Invariants: one task for each watch; a slow reader delays nobody and is
//! told when it missed something; what ended before a question is in its answer.

pub(crate) mod filter;
mod follower;
mod ring;
mod tree;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandshell_exec::Executor;
use sandshell_exec::inside::{Inside, Who};
use sandshell_sys::{reactor, task};
use sandshell_types::{
    ChangesReply, ChangesStatus, Timestamp, WatchEndEvent, WatchEndReason, WatchReadyEvent,
};
use tokio::io::Interest;
use tokio::sync::{OnceCell, mpsc, oneshot, watch};
use tokio::time::Instant;

pub use filter::split_globs;
pub use ring::Told;

use crate::FileError;
use crate::entry::shown_path;
use filter::Filter;
use follower::{Follower, Wanted};
use ring::{Found, Ring};

/// How long a watch is kept that nobody uses.
const KEPT: Duration = Duration::from_mins(10);

/// Watches at a time; then the one unused for the longest time makes room.
const MOST_WATCHES: usize = 32;

/// Events a reader takes at a time.
const BATCH: usize = 256;

/// Questions that may wait for a watch to catch up; further ones wait before that.
const QUESTIONS: usize = 64;

/// Reports the kernel's queue holds where it does not say.
const QUEUE: usize = 16_384;

/// What is to be watched. Equal wishes share a watch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WatchSpec {
    /// An absolute path.
    pub path: PathBuf,
    /// Also everything below.
    pub recursive: bool,
    /// Only files that match one of these; all when empty.
    pub include: Vec<String>,
    /// Nothing that matches one of these, nor anything below it.
    pub exclude: Vec<String>,
    /// Whose rights it has; the sandbox's user when absent.
    pub user: Option<String>,
}

/// The watches of a sandbox; cheap to clone.
#[derive(Debug, Clone)]
pub struct Watches(Arc<Table>);

#[derive(Debug)]
struct Table {
    executor: Executor,
    watches: Mutex<HashMap<WatchSpec, Arc<OnceCell<Arc<Shared>>>>>,
    /// Names known in all watches.
    entries: Arc<AtomicUsize>,
}

/// A watch in use.
#[derive(Debug)]
pub struct Watch(Using);

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    ring: Mutex<Ring>,
    /// Told when the ring has grown.
    grown: watch::Sender<u64>,
    questions: mpsc::Sender<oneshot::Sender<()>>,
    /// Readers and questions under way.
    users: AtomicUsize,
    last_used: Mutex<Instant>,
    directories: AtomicU64,
    entries: AtomicU64,
}

/// Reads the events of a watch, for as long as it lives.
#[derive(Debug)]
pub struct WatchReader {
    using: Using,
    version: u64,
    over: bool,
    grown: watch::Receiver<u64>,
}

/// Keeps a watch from being taken for unused.
#[derive(Debug)]
struct Using(Arc<Shared>);

impl Watches {
    /// None yet.
    pub fn new(executor: Executor) -> Self {
        Self(Arc::new(Table {
            executor,
            watches: Mutex::default(),
            entries: Arc::default(),
        }))
    }

    /// The watch with this spec, made now if there is none.
    pub async fn open(&self, mut spec: WatchSpec) -> Result<Watch, FileError> {
        // One form for one path: without `.`, double and trailing slashes.
        spec.path = spec.path.components().collect();
        let who = self.0.executor.who(spec.user.as_deref())?;
        // Globs are looked at before anything is made.
        Filter::new(&spec.include, &spec.exclude)?;
        loop {
            let cell = self.0.cell(&spec)?;
            match cell.get_or_try_init(|| self.make(&spec, &who)).await {
                // It has just ended: another one takes its place.
                Ok(shared) if shared.ring().is_closed() => self.0.forget(&spec),
                // In use from here on, so that no other call takes its place.
                Ok(shared) => return Ok(Watch(Using::new(shared.clone()))),
                Err(error) => {
                    self.0.leave_if_empty(&spec, &cell);
                    return Err(error);
                }
            }
        }
    }

    async fn make(&self, spec: &WatchSpec, who: &Who) -> Result<Arc<Shared>, FileError> {
        let inside = self.0.executor.inside().clone();
        let wanted = Wanted {
            path: spec.path.clone(),
            recursive: spec.recursive,
            filter: Filter::new(&spec.include, &spec.exclude)?,
        };
        let budget = self.0.entries.clone();
        let begin = inside.run(who, move |root| Follower::begin(root, wanted, budget));
        let follower = begin.await??;
        let (questions, asked) = mpsc::channel(QUESTIONS);
        let begun = u64::try_from(Timestamp::now().as_microsecond()).unwrap_or(0);
        let shared = Arc::new(Shared {
            path: spec.path.clone(),
            ring: Mutex::new(Ring::new(begun)),
            grown: watch::Sender::new(begun),
            questions,
            users: AtomicUsize::new(0),
            last_used: Mutex::new(Instant::now()),
            directories: AtomicU64::new(follower.directories()),
            entries: AtomicU64::new(follower.entries()),
        });
        let owner = Owner {
            shared: shared.clone(),
            inside,
            who: who.clone(),
            asked,
        };
        let (table, spec) = (Arc::downgrade(&self.0), spec.clone());
        let watch = shared.clone();
        task::spawn(async move {
            owner.run(follower).await;
            shared.ring().close();
            shared.grown.send_modify(|_| {});
            if let Some(table) = table.upgrade() {
                table.forget(&spec);
            }
        });
        Ok(watch)
    }
}

impl Table {
    fn lock(&self) -> MutexGuard<'_, HashMap<WatchSpec, Arc<OnceCell<Arc<Shared>>>>> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cell(&self, spec: &WatchSpec) -> Result<Arc<OnceCell<Arc<Shared>>>, FileError> {
        let mut watches = self.lock();
        if let Some(cell) = watches.get(spec) {
            return Ok(cell.clone());
        }
        if watches.len() >= MOST_WATCHES {
            let unused = watches
                .iter()
                .filter_map(|(spec, cell)| Some((cell.get()?.unused_since()?, spec)))
                .min_by_key(|(since, _)| *since)
                .map(|(_, spec)| spec.clone());
            let Some(unused) = unused else {
                return Err(FileError::Limit {
                    detail: format!("{MOST_WATCHES} watches are in use"),
                    hint: "Close a stream, or watch a directory above several.".to_owned(),
                });
            };
            if let Some(watch) = watches.remove(&unused).and_then(|cell| cell.get().cloned()) {
                watch.retire();
            }
        }
        let cell = Arc::new(OnceCell::new());
        watches.insert(spec.clone(), cell.clone());
        Ok(cell)
    }

    /// A watch that could not be made leaves no trace, unless another call is trying it right now.
    fn leave_if_empty(&self, spec: &WatchSpec, cell: &Arc<OnceCell<Arc<Shared>>>) {
        let mut watches = self.lock();
        let same = watches
            .get(spec)
            .is_some_and(|known| Arc::ptr_eq(known, cell));
        if same && cell.get().is_none() && Arc::strong_count(cell) <= 2 {
            watches.remove(spec);
        }
    }

    /// Takes an ended watch out.
    fn forget(&self, spec: &WatchSpec) {
        let mut watches = self.lock();
        let ended = |cell: &Arc<OnceCell<Arc<Shared>>>| {
            cell.get().is_some_and(|watch| watch.ring().is_closed())
        };
        if watches.get(spec).is_some_and(ended) {
            watches.remove(spec);
        }
    }
}

impl Watch {
    /// Reads on after a version, or from now on.
    pub fn reader(&self, from: Option<u64>) -> (WatchReadyEvent, WatchReader) {
        let using = Using::new(self.0.0.clone());
        let version = self.0.0.ring().version();
        let (path, path_base64) = shown_path(&self.0.0.path);
        let ready = WatchReadyEvent {
            version: from.unwrap_or(version),
            path,
            path_base64,
            directories: self.0.0.directories.load(Ordering::Relaxed),
            entries: self.0.0.entries.load(Ordering::Relaxed),
        };
        let reader = WatchReader {
            grown: self.0.0.grown.subscribe(),
            using,
            version: from.unwrap_or(version),
            over: false,
        };
        (ready, reader)
    }

    /// Whether anything changed since a version. What ended before the call is in the answer.
    pub async fn changes(&self, since: Option<u64>) -> ChangesReply {
        let using = Using::new(self.0.0.clone());
        let (answer, caught_up) = oneshot::channel();
        if self.0.0.questions.send(answer).await.is_ok() {
            // An error means that the watch has just ended, which is in the ring.
            let _ = caught_up.await;
        }
        let ring = using.0.ring();
        let version = ring.version();
        let told = match since {
            None => Ok(ChangesStatus::Unchanged),
            Some(since) => match ring.knows(since) {
                Err(reason) => Err(reason),
                Ok(()) if since == version => Ok(ChangesStatus::Unchanged),
                Ok(()) => ring
                    .rescan_after(since)
                    .map_or(Ok(ChangesStatus::Changed), Err),
            },
        };
        let (status, reason) = match told {
            Ok(status) => (status, None),
            Err(reason) => (ChangesStatus::Rescan, Some(reason)),
        };
        ChangesReply {
            status,
            version,
            reason,
        }
    }
}

impl WatchReader {
    /// The next events, each with the version after it; empty when the watch is over.
    ///
    /// CANCEL SAFETY: nothing is taken before it is given.
    pub async fn next(&mut self) -> Vec<(u64, Arc<Told>)> {
        while !self.over {
            self.grown.borrow_and_update();
            let (found, closed) = {
                let ring = self.using.0.ring();
                (ring.after(self.version, BATCH), ring.is_closed())
            };
            match found {
                Found::Events(events) if events.is_empty() => {
                    self.over = closed || self.grown.changed().await.is_err();
                }
                Found::Events(events) => {
                    if let Some((version, last)) = events.last() {
                        self.version = *version;
                        self.over = matches!(**last, Told::End(_));
                    }
                    return events;
                }
                Found::Missing(reason, version) => {
                    self.version = version;
                    return vec![(version, Arc::new(Told::Rescan(reason)))];
                }
            }
        }
        Vec::new()
    }
}

impl Using {
    fn new(shared: Arc<Shared>) -> Self {
        shared.users.fetch_add(1, Ordering::AcqRel);
        Self(shared)
    }
}

impl Drop for Using {
    fn drop(&mut self) {
        *self.0.last_used() = Instant::now();
        self.0.users.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Shared {
    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn last_used(&self) -> MutexGuard<'_, Instant> {
        self.last_used
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Since when nobody uses it; `None` while someone does.
    fn unused_since(&self) -> Option<Instant> {
        let since = *self.last_used();
        (self.users.load(Ordering::Acquire) == 0).then_some(since)
    }

    /// Has the owner end as if its time were over.
    fn retire(&self) {
        if let Some(past) = Instant::now().checked_sub(KEPT) {
            *self.last_used() = past;
        }
        // A question makes the owner look at the time.
        let _ = self.questions.try_send(oneshot::channel().0);
    }

    fn publish(&self, told: Vec<Told>) {
        if told.is_empty() {
            return;
        }
        let version = {
            let mut ring = self.ring();
            for told in told {
                ring.push(told);
            }
            ring.version()
        };
        self.grown.send_replace(version);
    }
}

/// The one task of a watch.
struct Owner {
    shared: Arc<Shared>,
    inside: Inside,
    who: Who,
    asked: mpsc::Receiver<oneshot::Sender<()>>,
}

impl Owner {
    /// Follows until the watch is over.
    async fn run(mut self, mut follower: Follower) {
        let queue_length = std::fs::read_to_string("/proc/sys/fs/inotify/max_queued_events")
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(QUEUE);
        let watched = |follower: &Follower| reactor::watch(follower.queue()?, Interest::READABLE);
        let Ok(mut queue) = watched(&follower) else {
            return self.failed("its queue cannot be waited for");
        };
        loop {
            let mut waiting = Vec::new();
            let unused_since = self.shared.unused_since();
            let kept_until = unused_since.unwrap_or_else(Instant::now) + KEPT;
            tokio::select! {
                ready = queue.readable() => match ready {
                    // Before reading: what comes while it is read makes it ready again.
                    Ok(mut ready) => ready.clear_ready(),
                    Err(_) => return self.failed("its queue cannot be waited for"),
                },
                question = self.asked.recv() => waiting.extend(question),
                () = tokio::time::sleep_until(kept_until) => {}
            }
            if self.is_expired() {
                return;
            }
            let mut read = 0;
            loop {
                while let Ok(question) = self.asked.try_recv() {
                    waiting.push(question);
                    read = 0;
                }
                let job = self.inside.run(&self.who, move |root| {
                    let found = follower.catch_up(root);
                    (follower, found)
                });
                let found = match job.await {
                    Ok((back, found)) => {
                        follower = back;
                        found
                    }
                    Err(error) => return self.failed(&error.to_string()),
                };
                let shared = &self.shared;
                shared
                    .directories
                    .store(follower.directories(), Ordering::Relaxed);
                shared.entries.store(follower.entries(), Ordering::Relaxed);
                shared.publish(found.told);
                if found.ended {
                    return;
                }
                if found.renewed {
                    match watched(&follower) {
                        Ok(renewed) => queue = renewed,
                        Err(_) => return self.failed("its queue cannot be waited for"),
                    }
                }
                read += found.read;
                // Once a whole queue was read, whatever was in it at the question is told.
                if found.drained || read > queue_length {
                    for question in waiting.drain(..) {
                        let _ = question.send(());
                    }
                }
                if found.drained {
                    break;
                }
            }
        }
    }

    fn is_expired(&self) -> bool {
        let unused = self.shared.unused_since();
        unused.is_some_and(|since| since.elapsed() >= KEPT)
    }

    fn failed(&self, why: &str) {
        self.shared.publish(vec![Told::End(WatchEndEvent {
            reason: WatchEndReason::Failed,
            detail: Some(why.to_owned()),
        })]);
    }
}
