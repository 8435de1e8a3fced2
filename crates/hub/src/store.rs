//! The records, durable: `SQLite`, written by one thread that owns the connection.
//!
//! ```text
//! task ── Job over a bounded channel ──► thread: one transaction a job ── reply ──► task
//! ```
//!
//! Owns the file, its form and its version. Does not own what records mean. What is live is also held
//! in memory by the registry and the tokens; the file is read at the start, and for the audit log.
//!
//! Invariants: a change is in the file before its caller goes on; the changes of one call, the audit
//! entry that tells of them included, are made together or not at all; the file and its directory are
//! private, as it holds the values of secrets. See `docs/adr/0008-records-in-sqlite.md`.

mod schema;

use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _, ToSql, params};
use sandshell_types::{AuditEntry, SandboxId, SandboxRecord, SandboxSpec, Timestamp, TokenRecord};
use tokio::sync::{mpsc, oneshot};

use crate::backend::Place;

/// Calls that may wait for the thread.
const QUEUE: usize = 256;

/// Entries of the audit log that are kept.
const AUDIT_KEPT: i64 = 100_000;

/// A sandbox as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Stored {
    /// The record, with the values of secrets.
    pub(crate) record: SandboxRecord,
    /// The spec it was made with, to which a create with the same id is compared.
    pub(crate) asked: SandboxSpec,
    pub(crate) place: Place,
    /// `None` once it is over.
    pub(crate) slot: Option<u32>,
}

/// A token as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredToken {
    pub(crate) record: TokenRecord,
    /// SHA-256 of the token.
    pub(crate) hash: [u8; 32],
}

/// A port that can be reached by a name of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exposure {
    pub(crate) place: Place,
    pub(crate) port: u16,
    /// What the tokens of its names are signed with.
    pub(crate) secret: [u8; 32],
}

/// One change. An audit entry's number is given by the store.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    PutSandbox(Box<Stored>),
    ForgetSandbox(SandboxId),
    PutToken(StoredToken),
    ForgetToken(String),
    PutExposure(Exposure),
    ForgetExposure(Place, u16),
    Audit(AuditEntry),
}

/// What is asked of the audit log: newest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct AuditQuery {
    /// Only entries with lower numbers.
    pub(crate) before: Option<u64>,
    pub(crate) target: Option<String>,
    pub(crate) action: Option<String>,
    pub(crate) limit: usize,
}

/// Everything the file holds but the audit log.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) sandboxes: Vec<Stored>,
    pub(crate) tokens: Vec<StoredToken>,
    pub(crate) exposures: Vec<Exposure>,
}

/// Why the store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// `SQLite` says so.
    #[error("the records cannot be read or written")]
    Sqlite(#[from] rusqlite::Error),
    /// A record cannot be encoded or decoded.
    #[error("a record cannot be understood")]
    Form(#[from] serde_json::Error),
    /// The file was written by a later program.
    #[error("the records have version {found}, and this program knows versions up to {known}")]
    Newer {
        /// Version of the file.
        found: i64,
        /// The latest we know.
        known: i64,
    },
    /// The thread could not be started, or is gone.
    #[error("the thread of the store is gone")]
    Stopped,
}

/// What the machine had too little of for a change of the records. Nothing of it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lack {
    /// Space on the disk.
    Space,
    /// Memory or descriptors.
    Other,
}

impl StoreError {
    /// What it is about, if the change can be tried again when there is more of it.
    pub(crate) fn lack(&self) -> Option<Lack> {
        use rusqlite::ErrorCode;
        let Self::Sqlite(rusqlite::Error::SqliteFailure(error, _)) = self else {
            return None;
        };
        match error.code {
            ErrorCode::DiskFull => Some(Lack::Space),
            ErrorCode::OutOfMemory | ErrorCode::CannotOpen => Some(Lack::Other),
            _ => None,
        }
    }
}

enum Job {
    Apply(Vec<Change>, oneshot::Sender<Result<(), StoreError>>),
    Audit(
        AuditQuery,
        oneshot::Sender<Result<Vec<AuditEntry>, StoreError>>,
    ),
}

/// A handle on the store; cheap to clone. The thread ends when the last one is dropped.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    jobs: mpsc::Sender<Job>,
}

impl Store {
    /// Opens the file, makes or migrates its tables, and reads what is there.
    pub(crate) fn open(path: &Path) -> Result<(Self, Loaded), StoreError> {
        let mut connection = schema::open(path)?;
        let loaded = load(&connection)?;
        let (jobs, mut queue) = mpsc::channel::<Job>(QUEUE);
        let work = move || {
            while let Some(job) = queue.blocking_recv() {
                // A caller that went away has its change all the same.
                match job {
                    Job::Apply(changes, reply) => {
                        drop(reply.send(apply(&mut connection, changes)));
                    }
                    Job::Audit(query, reply) => drop(reply.send(audit(&connection, &query))),
                }
            }
        };
        std::thread::Builder::new()
            .name("store".to_owned())
            .spawn(work)
            .map_err(|_| StoreError::Stopped)?;
        Ok((Self { jobs }, loaded))
    }

    /// Makes changes, together; they are in the file when this returns.
    pub(crate) async fn apply(&self, changes: Vec<Change>) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        let sent = self.jobs.send(Job::Apply(changes, reply)).await;
        sent.map_err(|_| StoreError::Stopped)?;
        answer.await.unwrap_or(Err(StoreError::Stopped))
    }

    /// Reads the audit log.
    pub(crate) async fn audit(&self, query: AuditQuery) -> Result<Vec<AuditEntry>, StoreError> {
        let (reply, answer) = oneshot::channel();
        let sent = self.jobs.send(Job::Audit(query, reply)).await;
        sent.map_err(|_| StoreError::Stopped)?;
        answer.await.unwrap_or(Err(StoreError::Stopped))
    }
}

/// Sandboxes die with the machine, so their records need to outlive the hub only. A token that was
/// revoked must stay so after a power cut, too.
fn needs_disk(changes: &[Change]) -> bool {
    changes
        .iter()
        .any(|change| matches!(change, Change::PutToken(_) | Change::ForgetToken(_)))
}

fn apply(connection: &mut Connection, changes: Vec<Change>) -> Result<(), StoreError> {
    let to_disk = needs_disk(&changes);
    if to_disk {
        connection.pragma_update(None, "synchronous", "FULL")?;
    }
    let done = transact(connection, changes);
    if to_disk {
        connection.pragma_update(None, "synchronous", "NORMAL")?;
    }
    done
}

fn transact(connection: &mut Connection, changes: Vec<Change>) -> Result<(), StoreError> {
    let transaction = connection.transaction()?;
    for change in changes {
        make(&transaction, change)?;
    }
    transaction.commit()?;
    Ok(())
}

fn make(connection: &Connection, change: Change) -> Result<(), StoreError> {
    // Statements are compiled once.
    let run = |text: &str, values: &[&dyn ToSql]| -> Result<usize, rusqlite::Error> {
        connection.prepare_cached(text)?.execute(values)
    };
    match change {
        Change::PutSandbox(stored) => {
            run(
                "INSERT OR REPLACE INTO sandboxes (id, place, slot, owner, state, asked, record)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                params![
                    stored.record.id.as_str(),
                    stored.place.as_str(),
                    stored.slot,
                    stored.record.owner,
                    stored.record.state.name(),
                    serde_json::to_string(&stored.asked)?,
                    serde_json::to_string(&stored.record)?,
                ],
            )?;
            if stored.record.state.is_over() {
                run(
                    "DELETE FROM exposures WHERE place = ?1",
                    params![stored.place.as_str()],
                )?;
            }
        }
        Change::ForgetSandbox(id) => {
            run("DELETE FROM sandboxes WHERE id = ?1", params![id.as_str()])?;
        }
        Change::PutToken(token) => {
            run(
                "INSERT OR REPLACE INTO tokens (id, hash, record) VALUES (?1, ?2, ?3)",
                params![
                    token.record.id,
                    token.hash,
                    serde_json::to_string(&token.record)?
                ],
            )?;
        }
        Change::ForgetToken(id) => {
            run("DELETE FROM tokens WHERE id = ?1", params![id])?;
        }
        Change::PutExposure(exposure) => {
            run(
                "INSERT OR REPLACE INTO exposures (place, port, secret) VALUES (?1, ?2, ?3)",
                params![exposure.place.as_str(), exposure.port, exposure.secret],
            )?;
        }
        Change::ForgetExposure(place, port) => {
            run(
                "DELETE FROM exposures WHERE place = ?1 AND port = ?2",
                params![place.as_str(), port],
            )?;
        }
        Change::Audit(entry) => {
            run(
                "INSERT INTO audit (at, action, token, target, outcome, detail, request_id)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                params![
                    entry.at.to_string(),
                    entry.action,
                    entry.token,
                    entry.target,
                    entry.outcome,
                    entry.detail,
                    entry.request_id
                ],
            )?;
            let newest = connection.last_insert_rowid();
            run(
                "DELETE FROM audit WHERE id <= ?1",
                params![newest - AUDIT_KEPT],
            )?;
        }
    }
    Ok(())
}

fn audit(connection: &Connection, query: &AuditQuery) -> Result<Vec<AuditEntry>, StoreError> {
    let mut statement = connection.prepare(
        "SELECT id, at, action, token, target, outcome, detail, request_id FROM audit
         WHERE (?1 IS NULL OR id < ?1) AND (?2 IS NULL OR target = ?2)
           AND (?3 IS NULL OR action = ?3)
         ORDER BY id DESC LIMIT ?4",
    )?;
    let before = query.before.and_then(|id| i64::try_from(id).ok());
    let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
    let rows = statement.query_map(params![before, query.target, query.action, limit], |row| {
        let at: String = row.get(1)?;
        Ok(AuditEntry {
            id: row.get::<_, i64>(0)?.unsigned_abs(),
            at: at.parse().unwrap_or(Timestamp::UNIX_EPOCH),
            action: row.get(2)?,
            token: row.get(3)?,
            target: row.get(4)?,
            outcome: row.get(5)?,
            detail: row.get(6)?,
            request_id: row.get(7)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn load(connection: &Connection) -> Result<Loaded, StoreError> {
    let mut loaded = Loaded::default();
    let mut statement = connection.prepare("SELECT place, slot, asked, record FROM sandboxes")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let place: String = row.get(0)?;
        let asked: String = row.get(2)?;
        let record: String = row.get(3)?;
        loaded.sandboxes.push(Stored {
            place: Place::read(&place)
                .ok_or_else(|| rusqlite::Error::InvalidColumnName("place".to_owned()))?,
            slot: row.get(1)?,
            asked: serde_json::from_str(&asked)?,
            record: serde_json::from_str(&record)?,
        });
    }
    let mut statement = connection.prepare("SELECT hash, record FROM tokens")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let record: String = row.get(1)?;
        loaded.tokens.push(StoredToken {
            hash: row.get(0)?,
            record: serde_json::from_str(&record)?,
        });
    }
    let mut statement = connection.prepare("SELECT place, port, secret FROM exposures")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let place: String = row.get(0)?;
        if let Some(place) = Place::read(&place) {
            loaded.exposures.push(Exposure {
                place,
                port: row.get(1)?,
                secret: row.get(2)?,
            });
        }
    }
    Ok(loaded)
}

/// The version of a file, for tests and for the schema.
fn version(connection: &Connection) -> Result<i64, StoreError> {
    let found = connection
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .optional()?;
    Ok(found.unwrap_or(0))
}

#[cfg(test)]
mod tests;
