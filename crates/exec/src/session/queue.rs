//! The commands of a session that wait for their turn.
//!
//! Bounded, in order of arrival, with one taker: the session's owner. A command that was dropped while
//! it waited keeps its place until the taker reaches it or the place is needed, but it is not counted.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::command::CommandHandle;

#[derive(Debug)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    arrived: Notify,
    limit: usize,
}

#[derive(Debug, Default)]
struct Waiting {
    commands: VecDeque<CommandHandle>,
    closed: bool,
}

/// Why a command cannot wait here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    Full { limit: usize },
    Closed,
}

impl Queue {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            waiting: Mutex::default(),
            arrived: Notify::new(),
            limit: limit.max(1),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, command: CommandHandle) -> Result<(), Refused> {
        {
            let mut waiting = self.waiting();
            if waiting.closed {
                return Err(Refused::Closed);
            }
            if waiting.commands.len() >= self.limit {
                waiting.commands.retain(CommandHandle::is_waiting);
            }
            if waiting.commands.len() >= self.limit {
                return Err(Refused::Full { limit: self.limit });
            }
            waiting.commands.push_back(command);
        }
        self.arrived.notify_one();
        Ok(())
    }

    /// The next one, when there is one. Only the owner asks; dropping the future loses nothing.
    pub(super) async fn next(&self) -> CommandHandle {
        loop {
            let next = self.waiting().commands.pop_front();
            if let Some(command) = next {
                return command;
            }
            self.arrived.notified().await;
        }
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        let waiting = self.waiting();
        waiting.commands.iter().filter(|c| c.is_waiting()).count()
    }

    /// Takes no more and drops what waits.
    pub(super) fn close(&self) {
        let left = {
            let mut waiting = self.waiting();
            waiting.closed = true;
            std::mem::take(&mut waiting.commands)
        };
        for command in left {
            command.cancel();
        }
    }
}
