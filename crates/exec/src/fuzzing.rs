//! Doors for the fuzz targets (`fuzz/`): readers of bytes from outside that nobody else needs to reach.
//! Each is one call and adds nothing.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::io::Errno;

use crate::inside::Root;
use crate::output::OutputLog;
use crate::session::dialect::Dialect;
use crate::session::shell::{self, Message};
use crate::session::snapshot::{self, Snapshot};
pub use crate::shell_text::{leaves_state_alone, suits_waiting_shell};
pub use crate::terminal::screen::Screen;

/// Most bytes of a session's message.
pub const MESSAGE_MAX: usize = shell::MESSAGE_MAX;

/// What a session's shell says: number, status and directory of a command that is over, or the number of
/// a state that is saved or could not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// A command is over.
    Done(u64, i32, String),
    /// A state is saved.
    Saved(u64),
    /// It could not be saved.
    NotSaved(u64),
}

/// Takes a message of a session's shell off what was read.
pub fn session_message(incoming: &mut Vec<u8>) -> Option<Said> {
    Some(match shell::take_message(incoming)? {
        Message::Done { seq, status, cwd } => Said::Done(seq, status, cwd),
        Message::Saved { seq } => Said::Saved(seq),
        Message::NotSaved { seq } => Said::NotSaved(seq),
    })
}

/// The script that puts a saved state of a session into a fresh shell; `None` when it is not whole.
pub fn session_state(dump: &[u8], bash: bool) -> Option<Vec<u8>> {
    let dialect = if bash { Dialect::Bash } else { Dialect::Posix };
    Snapshot::parse(dump, dialect).map(|state| state.restore_script())
}

/// Bytes after the way through text that they take in a state.
pub fn through_text(bytes: &[u8]) -> Vec<u8> {
    snapshot::restore_bytes(&snapshot::lossless(bytes))
}

/// The files of a directory as those of a sandbox.
pub fn root(dir: OwnedFd) -> Result<Root, Errno> {
    Root::new(dir)
}

/// A log that spills after a few bytes.
pub fn tiny_log(dir: &Path, cap: u64, keep_head: u64) -> OutputLog {
    crate::output::fuzzing::tiny_log(dir, cap, keep_head)
}

/// Waits until a log has written what it will.
pub async fn settled(log: &OutputLog) {
    crate::output::fuzzing::settled(log).await;
}

/// What a block of the order of output, read from a file, says.
pub fn order_block(bytes: &[u8], positions: &[u64]) -> Option<(u64, u64, Vec<Option<u64>>)> {
    crate::output::fuzzing::order_block(bytes, positions)
}
