//! The execution core: `exec`, processes, persistent sessions and terminals.
//!
//! # Theory of operation
//!
//! Everything is started by init ([`spawner`]) in a tree of its own ([`tree`]). What it writes goes
//! into an [`output`] log, from which any number of readers read at their own pace. Each process
//! and each session has one owner task; handles send it wishes and read what it publishes. Kill and
//! interrupt act on the tree directly and wait in no queue.
//!
//! [`pool`]s of shells that have already started take bash's own start-up out of the way.
//!
//! Invariants: the agent never forks; no descriptor of ours reaches a user's program; a result is
//! published only when all its output is in the log; nothing waits without an event or a deadline.

mod account;
mod attached;
mod config;
mod error;
pub mod events;
mod executor;
mod fence;
#[doc(hidden)]
pub mod fuzzing;
mod host;
pub mod inside;
mod oom;
pub mod output;
mod patience;
mod pool;
mod ports;
mod process;
mod registry;
mod session;
mod shell_text;
pub mod space;
mod spawner;
mod stats;
pub mod terminal;
mod tree;
mod variables;
mod wardens;

pub use attached::{AttachRequest, Attached, Ended, Target, sealed_file};
pub use config::Config;
pub use error::{ExecError, StartError};
pub use executor::Executor;
pub use patience::Patience;
pub use ports::{PortError, PortEvent, PortWatcher, Ports};
pub use process::{ProcessHandle, Pump};
pub use session::{CommandHandle, SessionHandle};
pub use terminal::TerminalHandle;
