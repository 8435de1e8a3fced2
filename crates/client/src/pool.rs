//! Idle connections, kept for the next request.
//!
//! Owns connections between uses only; one in use belongs to its future or stream.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::connection::Connection;

/// Enough for the concurrency of one busy client; more idle sockets would only cost the server.
const MAX_IDLE: usize = 64;

#[derive(Default)]
pub(crate) struct Pool {
    /// The last one used is taken first, so that a burst's extra connections age at the front.
    idle: Mutex<Vec<Connection>>,
}

impl Pool {
    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An idle connection that the server has not closed, as far as is known here.
    pub(crate) fn take(&self) -> Option<Connection> {
        loop {
            let mut connection = self.idle().pop()?;
            if connection.is_usable() {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection whose reply was read to the end.
    pub(crate) fn put(&self, connection: Connection) {
        let mut idle = self.idle();
        if idle.len() < MAX_IDLE {
            idle.push(connection);
        }
    }

    pub(crate) fn clear(&self) {
        self.idle().clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.idle().len()
    }
}
