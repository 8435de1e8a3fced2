//! The tables, and how an older file becomes a newer one.
//!
//! Each migration is applied once, in order, with the number it brings the file to. A migration that
//! has been released is never changed.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

use super::{StoreError, version};

const MIGRATIONS: &[&str] = &["
    CREATE TABLE sandboxes (
        id TEXT PRIMARY KEY,
        place TEXT NOT NULL UNIQUE,
        slot INTEGER UNIQUE,
        owner TEXT NOT NULL,
        state TEXT NOT NULL,
        asked TEXT NOT NULL,
        record TEXT NOT NULL
    ) STRICT;
    CREATE TABLE tokens (
        id TEXT PRIMARY KEY,
        hash BLOB NOT NULL UNIQUE,
        record TEXT NOT NULL
    ) STRICT;
    CREATE TABLE exposures (
        place TEXT NOT NULL,
        port INTEGER NOT NULL,
        secret BLOB NOT NULL,
        PRIMARY KEY (place, port)
    ) STRICT;
    CREATE TABLE audit (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        at TEXT NOT NULL,
        action TEXT NOT NULL,
        token TEXT,
        target TEXT,
        outcome TEXT NOT NULL,
        detail TEXT,
        request_id TEXT
    ) STRICT;
    CREATE INDEX audit_by_target ON audit (target, id);
"];

/// Opens the file with its tables as they should be.
pub(super) fn open(path: &Path) -> Result<Connection, StoreError> {
    // Made here, so that it is private from its first moment; a failure is told by SQLite.
    let _ = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path);
    let mut connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "foreign_keys", "ON")?;
    migrate(&mut connection)?;
    Ok(connection)
}

fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    let found = version(connection)?;
    if found > known {
        return Err(StoreError::Newer { found, known });
    }
    let done = usize::try_from(found).unwrap_or(0);
    for (number, migration) in (1_i64..).zip(MIGRATIONS).skip(done) {
        let transaction = connection.transaction()?;
        transaction.execute_batch(migration)?;
        transaction.pragma_update(None, "user_version", number)?;
        transaction.commit()?;
    }
    Ok(())
}
