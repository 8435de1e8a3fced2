//! Code interpreters that keep their state between runs.
//!
//! # Theory of operation
//!
//! ```text
//!  create ─► registry ─► context (owner task, queue of runs) ─► kernel ─► interpreter
//!                                     │                           driver   our own, python and node
//!                                     ▼                           bash     a session of the executor
//!                                    run (log, results, end)      jupyter  a kernel that is installed
//! ```
//!
//! A [`ContextHandle`] has one owner task, which runs one piece of code at a time. What the code
//! writes goes into an output log; results and errors stand beside it with their place in the log, so
//! that any number of readers see one order. Interrupts wait in no queue.
//!
//! Owns: contexts, their runs, the drivers' source, the interpreters held ready. Does not own: how a
//! program is started and ended (`sandshell_exec`), nor the wire form.
//!
//! Invariants: a run is over only when all it wrote is in its log; every queue is bounded; an
//! interpreter never outlives its context.

mod bash;
mod context;
mod driver;
mod error;
mod frames;
#[doc(hidden)]
pub mod fuzzing;
mod javascript;
mod jupyter;
mod kernel;
mod language;
mod pool;
mod registry;
mod run;
mod stages;

pub use context::ContextHandle;
pub use error::ContextError;
pub use registry::Contexts;
pub use run::{RunHandle, RunItem, RunReader};

/// Runs that may wait in one context.
pub const QUEUE: usize = 100;
/// Contexts at a time.
pub const CONTEXTS: usize = 100;
/// Bytes of results kept for one run; what is more is left out and counted.
pub const RESULT_BYTES: usize = 32 * 1024 * 1024;
/// Largest code of a run.
pub const CODE_BYTES: usize = 16 * 1024 * 1024;
