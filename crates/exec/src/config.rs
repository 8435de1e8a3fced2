//! What an operator may set, with the stated defaults.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

const MIB: u64 = 1024 * 1024;

/// Settings of the execution core.
#[derive(Debug, Clone)]
pub struct Config {
    /// Directory for output logs and, without a tmpfs of our own, session channels.
    pub state_dir: PathBuf,
    /// Where commands start.
    pub cwd: PathBuf,
    /// Who commands run as; ourselves when absent.
    pub user: Option<String>,
    /// Environment of every command, over the base one.
    pub env: BTreeMap<String, String>,
    /// Most bytes of each stream in a result.
    pub exec_output_bytes: u64,
    /// Most bytes of output kept for each process or command.
    pub log_bytes: u64,
    /// Most bytes that all output logs have on disk together.
    pub log_space_bytes: u64,
    /// Finished processes kept, and finished commands kept in each session.
    pub finished_records: usize,
    /// How long finished processes are kept.
    pub finished_for: Duration,
    /// Commands that may wait in a session.
    pub session_queue: usize,
    /// Most shells held ready for `exec`. Each costs about 0.3 MiB.
    pub exec_pool: usize,
    /// Most shells held ready for new sessions.
    pub session_pool: usize,
}

impl Config {
    /// The defaults with this state directory.
    pub fn new(state_dir: PathBuf) -> Self {
        Self {
            state_dir,
            cwd: PathBuf::from("/"),
            user: None,
            env: BTreeMap::new(),
            exec_output_bytes: 10 * MIB,
            log_bytes: 256 * MIB,
            log_space_bytes: 2048 * MIB,
            finished_records: 1000,
            finished_for: Duration::from_hours(1),
            session_queue: 1000,
            exec_pool: 4,
            session_pool: 3,
        }
    }
}
