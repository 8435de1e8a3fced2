//! Where backups are kept: one folder each, with the archive and a manifest.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandshell_exec::space::{Share, Space};
use sandshell_types::{
    ArchiveCounts, BackupId, BackupRecord, BackupRequest, BackupState, Timestamp,
};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::{BackupError, MAX_BACKUPS, Task};
use crate::entry::shown_path;

const ARCHIVE: &str = "archive.tar.zst";
const MANIFEST: &str = "manifest.json";

/// Begins the names of archives that are only passing through. No id begins so.
const TEMPORARY: &str = ".fetched-";

/// Form of the manifest and of the archive.
const VERSION: u32 = 1;

/// What a backup was asked to be. URLs are not in it: they are secrets, and differ in a retry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Spec {
    pub(super) path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
    pub(super) exclude: Vec<String>,
    pub(super) gitignore: bool,
    pub(super) skip_unreadable: bool,
    pub(super) ttl_ms: Option<u64>,
}

impl Spec {
    pub(super) fn of(request: &BackupRequest, path: &Path) -> Self {
        let (path, path_base64) = shown_path(path);
        Self {
            path,
            path_base64,
            exclude: request.exclude.clone(),
            gitignore: request.gitignore,
            skip_unreadable: request.skip_unreadable,
            ttl_ms: request.ttl_ms,
        }
    }

    /// The first field that differs.
    fn difference(&self, other: &Self) -> Option<&'static str> {
        [
            (self.path != other.path, "path"),
            (self.path_base64 != other.path_base64, "path_base64"),
            (self.exclude != other.exclude, "exclude"),
            (self.gitignore != other.gitignore, "gitignore"),
            (
                self.skip_unreadable != other.skip_unreadable,
                "skip_unreadable",
            ),
            (self.ttl_ms != other.ttl_ms, "ttl_ms"),
        ]
        .into_iter()
        .find_map(|(differs, field)| differs.then_some(field))
    }
}

/// What is written down of a backup.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Manifest {
    version: u32,
    spec: Spec,
    record: BackupRecord,
}

/// A backup in the table.
#[derive(Clone)]
pub(super) struct Entry {
    spec: Spec,
    begun_at: Timestamp,
    /// What its archive has of the room of all; held for its drop.
    _share: Arc<Share>,
    /// While it is being made.
    making: Option<(Task<BackupRecord>, CancellationToken)>,
    ready: Option<BackupRecord>,
}

impl Entry {
    /// Its record now.
    pub(super) fn record(&self, id: &str) -> BackupRecord {
        if let Some(ready) = &self.ready {
            return ready.clone();
        }
        let progress = self.making.as_ref().map(|(task, _)| task.progress());
        let progress = progress.unwrap_or_default();
        BackupRecord {
            id: id.parse().unwrap_or_else(|_| BackupId::generate()),
            state: BackupState::Creating,
            path: self.spec.path.clone(),
            path_base64: self.spec.path_base64.clone(),
            contents: ArchiveCounts {
                files: progress.files,
                bytes: progress.bytes,
                ..ArchiveCounts::default()
            },
            size: progress.archive_bytes,
            sha256: None,
            stored: false,
            created_at: self.begun_at,
            expires_at: None,
        }
    }

    /// The work on it, and how to end that, while it is being made.
    pub(super) fn making(&self) -> Option<(Task<BackupRecord>, CancellationToken)> {
        self.making.clone()
    }

    fn is_expired(&self, now: Timestamp) -> bool {
        let expires_at = self.ready.as_ref().and_then(|ready| ready.expires_at);
        expires_at.is_some_and(|end| end <= now)
    }
}

pub(super) struct Store {
    dir: PathBuf,
    /// The room of all archives.
    space: Space,
    table: Mutex<HashMap<String, Entry>>,
    /// Names of what is there and cannot be read: not ours to replace.
    unreadable: HashSet<String>,
    temporaries: AtomicU64,
}

/// A file that is removed when it is dropped, and with it what it has of the room.
pub(super) struct Temporary {
    path: PathBuf,
    share: Share,
}

impl Temporary {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn share(&self) -> &Share {
        &self.share
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Store {
    pub(super) fn open(dir: PathBuf, space: Space) -> io::Result<Self> {
        let mut table = HashMap::new();
        let mut unreadable = HashSet::new();
        let found = match std::fs::read_dir(&dir) {
            // None was ever made.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            found => Some(found?),
        };
        for entry in found.into_iter().flatten() {
            let path = entry?.path();
            match read_manifest(&path) {
                Ok(manifest) => {
                    let share = space.share();
                    if manifest.record.stored {
                        share.add(manifest.record.size);
                    }
                    let entry = Entry {
                        _share: Arc::new(share),
                        spec: manifest.spec,
                        begun_at: manifest.record.created_at,
                        making: None,
                        ready: Some(manifest.record.clone()),
                    };
                    table.insert(manifest.record.id.to_string(), entry);
                }
                // It was never finished.
                Err(error) if error.kind() == io::ErrorKind::NotFound && path.is_dir() => {
                    std::fs::remove_dir_all(&path)?;
                }
                Err(_) if is_temporary(&path) => std::fs::remove_file(&path)?,
                // A later version wrote it, the disk fails, somebody changed it: it may still be all
                // that is left of the user's files.
                Err(error) => {
                    tracing::warn!(%error, path = %path.display(), "a backup cannot be read and is left alone");
                    let name = path.file_name().unwrap_or_default();
                    unreadable.insert(name.to_string_lossy().into_owned());
                }
            }
        }
        Ok(Self {
            dir,
            space,
            table: Mutex::new(table),
            unreadable,
            temporaries: AtomicU64::new(0),
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For an archive that is to be made.
    pub(super) fn share(&self) -> Share {
        self.space.share()
    }

    /// Takes an id for a backup that is to be made. Gives the one that has it, if its spec is the
    /// same.
    pub(super) fn claim(
        &self,
        id: &BackupId,
        spec: Spec,
        making: (Task<BackupRecord>, CancellationToken),
        share: Arc<Share>,
    ) -> Result<Option<Task<BackupRecord>>, BackupError> {
        if self.unreadable.contains(id.as_str()) {
            return Err(BackupError::Unreadable { id: id.to_string() });
        }
        let mut table = self.lock();
        let now = Timestamp::now();
        if let Some(there) = table.get(id.as_str())
            && !there.is_expired(now)
        {
            if let Some(field) = spec.difference(&there.spec) {
                let id = id.to_string();
                return Err(BackupError::IdConflict { id, field });
            }
            return Ok(match (&there.ready, &there.making) {
                (Some(ready), _) => Some(Task::done(ready.clone())),
                (None, Some((task, _))) => Some(task.clone()),
                (None, None) => None,
            });
        }
        if table.len() >= MAX_BACKUPS {
            return Err(BackupError::TooMany { limit: MAX_BACKUPS });
        }
        let entry = Entry {
            spec,
            begun_at: now,
            _share: share,
            making: Some(making),
            ready: None,
        };
        table.insert(id.to_string(), entry);
        Ok(None)
    }

    pub(super) fn get(&self, id: &str) -> Result<Entry, BackupError> {
        self.lock()
            .get(id)
            .filter(|entry| !entry.is_expired(Timestamp::now()))
            .cloned()
            .ok_or_else(|| BackupError::NotFound { id: id.to_owned() })
    }

    pub(super) fn list(&self) -> Vec<BackupRecord> {
        let now = Timestamp::now();
        let mut records: Vec<BackupRecord> = self
            .lock()
            .iter()
            .filter(|(_, entry)| !entry.is_expired(now))
            .map(|(id, entry)| entry.record(id))
            .collect();
        records.sort_by(|a, b| (a.created_at, a.id.as_str()).cmp(&(b.created_at, b.id.as_str())));
        records
    }

    pub(super) fn expired(&self) -> Vec<BackupId> {
        let now = Timestamp::now();
        let table = self.lock();
        let expired = table.iter().filter(|(_, entry)| entry.is_expired(now));
        expired.filter_map(|(id, _)| id.parse().ok()).collect()
    }

    fn folder(&self, id: &str) -> PathBuf {
        self.dir.join(id)
    }

    /// Where the archive of a backup is.
    pub(super) fn archive(&self, id: &str) -> PathBuf {
        self.folder(id).join(ARCHIVE)
    }

    fn make_dir(&self) -> io::Result<()> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.dir)
    }

    pub(super) async fn make_folder(&self, id: &str) -> io::Result<()> {
        self.make_dir()?;
        let folder = self.folder(id);
        // An expired one of the same id may still be there.
        match tokio::fs::remove_dir_all(&folder).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        tokio::fs::create_dir(&folder).await
    }

    /// A file for an archive that is only passing through.
    pub(super) async fn temporary(&self) -> io::Result<Temporary> {
        self.make_dir()?;
        let number = self.temporaries.fetch_add(1, Ordering::Relaxed);
        let path = self.dir.join(format!("{TEMPORARY}{number}"));
        tokio::fs::File::create(&path).await?;
        Ok(Temporary {
            path,
            share: self.share(),
        })
    }

    /// Writes the manifest; from now on the backup can be restored.
    pub(super) async fn finish(
        &self,
        id: &BackupId,
        mut record: BackupRecord,
    ) -> Result<BackupRecord, BackupError> {
        let spec = self.get(id.as_str())?.spec;
        record.path.clone_from(&spec.path);
        record.path_base64.clone_from(&spec.path_base64);
        let manifest = Manifest {
            version: VERSION,
            spec,
            record: record.clone(),
        };
        let text = serde_json::to_vec_pretty(&manifest).map_err(io::Error::other)?;
        let folder = self.folder(id.as_str());
        let written = tokio::task::spawn_blocking(move || write_manifest(&folder, &text));
        written.await.map_err(|_| BackupError::Broken)??;
        match self.lock().get_mut(id.as_str()) {
            Some(entry) => {
                entry.ready = Some(record.clone());
                entry.making = None;
                Ok(record)
            }
            None => Err(BackupError::Cancelled),
        }
    }

    /// Removes a backup that is not being made any more. Its id is free when its files are gone.
    pub(super) async fn remove(&self, id: &BackupId) {
        let folder = self.folder(id.as_str());
        match tokio::fs::remove_dir_all(&folder).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, %id, "a backup cannot be removed");
            }
            _ => {}
        }
        self.lock().remove(id.as_str());
    }
}

fn is_temporary(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with(TEMPORARY))
}

fn read_manifest(folder: &Path) -> io::Result<Manifest> {
    let text = std::fs::read(folder.join(MANIFEST))?;
    let version: serde_json::Value = serde_json::from_slice(&text)?;
    match version.get("version").and_then(serde_json::Value::as_u64) {
        Some(version) if version == u64::from(VERSION) => {}
        Some(version) => {
            let other = format!("it has version {version}, not {VERSION}");
            return Err(io::Error::new(io::ErrorKind::Unsupported, other));
        }
        None => return Err(io::ErrorKind::InvalidData.into()),
    }
    let manifest: Manifest = serde_json::from_slice(&text)?;
    let named = folder.file_name().and_then(|name| name.to_str());
    if named != Some(manifest.record.id.as_str()) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(manifest)
}

/// Whole or not at all.
fn write_manifest(folder: &Path, text: &[u8]) -> io::Result<()> {
    let unfinished = folder.join("manifest.part");
    let mut file = std::fs::File::create(&unfinished)?;
    io::Write::write_all(&mut file, text)?;
    file.sync_all()?;
    std::fs::rename(&unfinished, folder.join(MANIFEST))?;
    std::fs::File::open(folder)?.sync_all()
}
