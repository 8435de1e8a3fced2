//! Backups: archives of directories, kept by the agent.
//!
//! Owns the directory they are kept in (one folder each, with the archive and a manifest), their ids,
//! their time, and the work of making and restoring them. Does not own how a tree becomes an archive
//! (`archive` does) nor how it travels (`storage` does).
//!
//! ```text
//! create: creating ─► packed ─► (uploaded) ─► manifest written: ready
//!             └── failed, deleted or the agent ends: its folder is removed
//! ```
//!
//! The tree is read and written on inside threads with the user's rights; the archive is opened by the
//! agent and handed over as a descriptor. The manifest is written last, so a folder without one is
//! what a crash left, and is removed at the next start. Finished backups outlive the agent.

mod error;
mod storage;
mod store;
mod tally;
mod task;

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use sandshell_exec::Executor;
use sandshell_exec::inside::Who;
use sandshell_exec::space::{Share, Space};
use sandshell_types::{
    ArchiveCounts, ArchiveFormat, BackupId, BackupProgress, BackupRecord, BackupRequest,
    BackupStage, BackupState, Download, Happening, RestoreReply, RestoreRequest, Timestamp,
};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::archive::{Compression, Pack, PackRules, Progress, replace, verify};
use crate::entry::shown_path;
use crate::{FileError, Named, Stop};
pub use error::BackupError;
use storage::Storage;
use store::{Spec, Store};
use tally::Tally;
pub use task::Task;

/// Backups and restores that are worked on at a time; further ones wait.
const AT_ONCE: usize = 4;

/// Most backups that are kept.
const MAX_BACKUPS: usize = 1000;

/// Bytes that the archives of all backups may have together, unless something else is said.
pub const BACKUP_BYTES: u64 = 4 << 30;

/// All backups of a sandbox; cheap to clone.
#[derive(Clone)]
pub struct Backups(Arc<Inner>);

struct Inner {
    store: Store,
    executor: Executor,
    storage: Storage,
    slots: Semaphore,
    /// Cancelled when the agent ends.
    shutdown: CancellationToken,
}

impl Backups {
    /// Those in a directory of the agent's; what a crash left there is removed.
    pub fn open(
        dir: PathBuf,
        space: Space,
        executor: Executor,
        shutdown: CancellationToken,
    ) -> std::io::Result<Self> {
        Ok(Self(Arc::new(Inner {
            store: Store::open(dir, space)?,
            executor,
            storage: Storage::default(),
            slots: Semaphore::new(AT_ONCE),
            shutdown,
        })))
    }

    /// Begins to make one, or gives the one that has this id. Says whether it was begun now.
    pub fn create(
        &self,
        mut request: BackupRequest,
    ) -> Result<(Task<BackupRecord>, bool), BackupError> {
        let inner = &self.0;
        storage::check(&request)?;
        check_ttl(request.ttl_ms)?;
        let who = inner.executor.who(request.user.as_deref())?;
        let named = Named {
            field: "path",
            text: request.path.as_deref(),
            base64: request.path_base64.as_deref(),
            session: request.session.as_ref(),
        };
        let path = named.path(&inner.executor)?;
        let spec = Spec::of(&request, &path);
        let rules = PackRules {
            exclude: spec.exclude.clone(),
            gitignore: spec.gitignore,
            skip_unreadable: spec.skip_unreadable,
            copy_links: false,
        };
        let pack = Pack::new(path, &rules)?;
        let id = request.id.take().unwrap_or_else(BackupId::generate);
        let cancel = inner.shutdown.child_token();
        let (begun, task) = task::begin();
        let share = Arc::new(inner.store.share());
        let making = (task.clone(), cancel.clone());
        let there = inner.store.claim(&id, spec, making, share.clone())?;
        if let Some(there) = there {
            return Ok((there, false));
        }
        let making = Making {
            inner: Arc::clone(inner),
            id,
            who,
            cancel,
            share,
            progress: begun.progress.clone(),
        };
        sandshell_sys::task::spawn(async move {
            let made = making.run(pack, request).await;
            let made = made.map_err(|error| making.why(error));
            match &made {
                Ok(record) => making.inner.tell(Happening::BackupCreated {
                    backup: record.id.clone(),
                }),
                Err(_) => making.inner.store.remove(&making.id).await,
            }
            begun.finish(made);
        });
        Ok((task, true))
    }

    /// All there are, oldest first.
    pub fn list(&self) -> Vec<BackupRecord> {
        self.0.store.list()
    }

    /// One of them.
    pub fn get(&self, id: &str) -> Result<BackupRecord, BackupError> {
        self.0.store.get(id).map(|entry| entry.record(id))
    }

    /// Its archive, for reading.
    pub async fn content(&self, id: &str) -> Result<(BackupRecord, tokio::fs::File), BackupError> {
        let record = self.ready(id)?;
        if !record.stored {
            return Err(BackupError::NotStored { id: id.to_owned() });
        }
        let file = tokio::fs::File::open(self.0.store.archive(id)).await?;
        Ok((record, file))
    }

    /// Deletes one; if it is being made, that ends.
    pub async fn delete(&self, id: &str) -> Result<BackupRecord, BackupError> {
        let store = &self.0.store;
        let entry = store.get(id)?;
        let record = entry.record(id);
        if let Some((mut task, cancel)) = entry.making() {
            cancel.cancel();
            if task.outcome().await.is_err() {
                // Whoever made it has removed what there was.
                return Ok(record);
            }
        }
        self.0.forget(record.id.clone()).await;
        Ok(record)
    }

    /// Deletes those whose time is over.
    pub async fn expire(&self) {
        for id in self.0.store.expired() {
            self.0.forget(id).await;
        }
    }

    /// Begins to restore one.
    pub fn restore(
        &self,
        id: &str,
        request: RestoreRequest,
    ) -> Result<Task<RestoreReply>, BackupError> {
        let inner = Arc::clone(&self.0);
        let record = self.ready(id)?;
        if !record.stored && request.download.is_none() {
            return Err(BackupError::NotStored { id: id.to_owned() });
        }
        if let Some(download) = &request.download {
            storage::check_download(download)?;
        }
        let who = inner.executor.who(request.user.as_deref())?;
        let (text, base64) = match (&request.path, &request.path_base64) {
            (None, None) if record.path_base64.is_none() => (Some(&record.path), None),
            (None, None) => (None, record.path_base64.as_ref()),
            (text, base64) => (text.as_ref(), base64.as_ref()),
        };
        let named = Named {
            field: "path",
            text: text.map(String::as_str),
            base64: base64.map(String::as_str),
            session: request.session.as_ref(),
        };
        let path = named.path(&inner.executor)?;
        let (begun, task) = task::begin();
        let cancel = inner.shutdown.child_token();
        sandshell_sys::task::spawn(async move {
            let restored = restore(
                &inner,
                &record,
                path,
                who,
                request.download,
                &begun.progress,
                cancel,
            )
            .await;
            if let Ok(reply) = &restored {
                inner.tell(Happening::BackupRestored {
                    backup: record.id.clone(),
                    path: reply.path.clone(),
                });
            }
            begun.finish(restored);
        });
        Ok(task)
    }

    fn ready(&self, id: &str) -> Result<BackupRecord, BackupError> {
        let record = self.get(id)?;
        match record.state {
            BackupState::Ready => Ok(record),
            BackupState::Creating => Err(BackupError::Creating { id: id.to_owned() }),
        }
    }
}

impl Inner {
    /// Removes one that was made.
    async fn forget(&self, backup: BackupId) {
        self.store.remove(&backup).await;
        self.tell(Happening::BackupDeleted { backup });
    }

    fn tell(&self, what: Happening) {
        self.executor.events().publish(what);
    }
}

/// One backup that is being made.
struct Making {
    inner: Arc<Inner>,
    id: BackupId,
    who: Who,
    cancel: CancellationToken,
    /// What its archive has of the room of all.
    share: Arc<Share>,
    progress: watch::Sender<BackupProgress>,
}

impl Making {
    /// What breaks off because somebody wants it to fails in many ways; this is why.
    fn why(&self, error: BackupError) -> BackupError {
        if self.inner.shutdown.is_cancelled() {
            BackupError::Cancelled
        } else if self.cancel.is_cancelled() {
            BackupError::Deleted {
                id: self.id.to_string(),
            }
        } else {
            error
        }
    }

    async fn run(&self, pack: Pack, request: BackupRequest) -> Result<BackupRecord, BackupError> {
        let store = &self.inner.store;
        let _slot = self.inner.slots.acquire().await;
        let archive = store.archive(self.id.as_str());
        store.make_folder(self.id.as_str()).await?;
        let (contents, tally) = match &request.download {
            Some(download) => self.take_in(download, &archive).await?,
            None => self.pack(pack, &archive).await?,
        };
        let sha256 = tally.hex();
        let mut stored = true;
        if let Some(upload) = &request.upload {
            let storage = &self.inner.storage;
            storage
                .upload(&archive, tally.bytes, upload, &self.cancel, &self.progress)
                .await?;
            stored = upload.keep;
        }
        if !stored {
            tokio::fs::remove_file(&archive).await?;
            self.share.shrink(self.share.bytes());
        }
        let created_at = Timestamp::now();
        let record = BackupRecord {
            id: self.id.clone(),
            state: BackupState::Ready,
            path: String::new(),
            path_base64: None,
            contents,
            size: tally.bytes,
            sha256: Some(sha256),
            stored,
            created_at,
            expires_at: request.ttl_ms.and_then(|ttl| end_of(created_at, ttl)),
        };
        if self.cancel.is_cancelled() {
            return Err(BackupError::Cancelled);
        }
        store.finish(&self.id, record).await
    }

    /// Packs the tree into the archive.
    async fn pack(
        &self,
        pack: Pack,
        archive: &Path,
    ) -> Result<(ArchiveCounts, Tally), BackupError> {
        let file = tokio::fs::File::create(archive).await?.into_std().await;
        let stop = Stop::new(self.cancel.clone(), None);
        let progress = self.progress.clone();
        let share = self.share.clone();
        let job = move |root: &sandshell_exec::inside::Root| {
            let output = tally::Writer::new(&file, &share);
            let mut packed = Compression::new(ArchiveFormat::TarZst, output)
                .map_err(|error| output_failed(&error))?
                .in_background();
            let told = throttled(&progress, BackupStage::Packing);
            let counts = pack.run(root, &mut packed, &stop, &told)?;
            let tally = packed
                .finish()
                .map_err(|error| output_failed(&error))?
                .tally;
            file.sync_all().map_err(|error| output_failed(&error))?;
            Ok::<_, FileError>((counts, tally))
        };
        Ok(self
            .inner
            .executor
            .inside()
            .run(&self.who, job)
            .await
            .map_err(FileError::from)??)
    }

    /// Fetches an archive and reads it through.
    async fn take_in(
        &self,
        download: &Download,
        archive: &Path,
    ) -> Result<(ArchiveCounts, Tally), BackupError> {
        let storage = &self.inner.storage;
        storage
            .download(
                download,
                (archive, &self.share),
                &self.cancel,
                &self.progress,
            )
            .await?;
        let file = tokio::fs::File::open(archive).await?.into_std().await;
        let stop = Stop::new(self.cancel.clone(), None);
        let expected = download.sha256.clone();
        let checked = tokio::task::spawn_blocking(move || {
            let tally = Rc::new(RefCell::new(Tally::default()));
            let counts = verify(tally::Reader::new(&file, Rc::clone(&tally)), &stop)?;
            let tally = tally.take();
            let found = tally.hex();
            if expected.is_some_and(|expected| !expected.eq_ignore_ascii_case(&found)) {
                return Err(altered());
            }
            file.sync_all().map_err(|error| output_failed(&error))?;
            Ok((counts, tally))
        });
        Ok(checked.await.map_err(|_| BackupError::Broken)??)
    }
}

/// When something that is kept so long is over; `None` beyond what a calendar has.
fn end_of(begin: Timestamp, ttl_ms: u64) -> Option<Timestamp> {
    let ttl = i64::try_from(ttl_ms).ok()?;
    begin
        .checked_add(jiff::SignedDuration::from_millis(ttl))
        .ok()
}

fn check_ttl(ttl_ms: Option<u64>) -> Result<(), BackupError> {
    let invalid = |detail: &str| {
        Err(BackupError::Invalid {
            pointer: "/ttl_ms".to_owned(),
            detail: detail.to_owned(),
        })
    };
    match ttl_ms {
        Some(0) => invalid("a backup that is kept for 0 ms would be gone before it is answered"),
        Some(ttl) if end_of(Timestamp::now(), ttl).is_none() => {
            invalid("the time lies beyond the year 9999; leave it out to keep the backup")
        }
        _ => Ok(()),
    }
}

fn output_failed(error: &std::io::Error) -> FileError {
    FileError::Output {
        errno: rustix::io::Errno::from_io_error(error).unwrap_or(rustix::io::Errno::IO),
    }
}

fn altered() -> FileError {
    FileError::Archive {
        reason: "its SHA-256 is not that of the backup: it was altered or cut off".to_owned(),
    }
}

/// Tells of progress now and then, not for each file.
fn throttled(
    progress: &watch::Sender<BackupProgress>,
    stage: BackupStage,
) -> impl Fn(&ArchiveCounts) {
    let last = Cell::new((0_u64, 0_u64));
    move |counts| {
        let (files, bytes) = last.get();
        if counts.files < files + 64 && counts.bytes < bytes + (1 << 20) {
            return;
        }
        last.set((counts.files, counts.bytes));
        progress.send_modify(|progress| {
            progress.stage = stage;
            progress.files = counts.files;
            progress.bytes = counts.bytes;
        });
    }
}

async fn restore(
    inner: &Inner,
    record: &BackupRecord,
    path: PathBuf,
    who: Who,
    download: Option<Download>,
    progress: &watch::Sender<BackupProgress>,
    cancel: CancellationToken,
) -> Result<RestoreReply, BackupError> {
    let _slot = inner.slots.acquire().await;
    // Held until all is unpacked: so long it takes room.
    let (archive, _fetched) = match &download {
        Some(download) => {
            let file = inner.store.temporary().await?;
            let to = file.path().to_owned();
            inner
                .storage
                .download(download, (&to, file.share()), &cancel, progress)
                .await?;
            (to, Some(file))
        }
        None => (inner.store.archive(record.id.as_str()), None),
    };
    let file = tokio::fs::File::open(&archive).await?.into_std().await;
    let expected = record.clone();
    let stop = Stop::new(cancel, None);
    let progress = progress.clone();
    let target = path.clone();
    let job = move |root: &sandshell_exec::inside::Root| {
        let tally = Rc::new(RefCell::new(Tally::default()));
        let input = tally::Reader::new(&file, Rc::clone(&tally));
        let told = throttled(&progress, BackupStage::Unpacking);
        let told: Progress<'_> = &told;
        replace(root, &target, input, &stop, told, |counts| {
            let tally = tally.take();
            let same = tally.bytes == expected.size
                && Some(tally.hex()) == expected.sha256
                && counts.files == expected.contents.files
                && counts.bytes == expected.contents.bytes;
            if same { Ok(()) } else { Err(altered()) }
        })
    };
    let contents = inner
        .executor
        .inside()
        .run(&who, job)
        .await
        .map_err(FileError::from)??;
    let (path, path_base64) = shown_path(&path);
    Ok(RestoreReply {
        path,
        path_base64,
        contents,
    })
}

/// How often progress is told of at most.
pub const PROGRESS_EVERY: Duration = Duration::from_millis(200);
