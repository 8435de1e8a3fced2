//! Linux primitives, each as small as it can be, behind safe functions.
//!
//! This is the only crate of the workspace where `unsafe` may appear; every block says why it is
//! sound and why it is needed. Everything else in here is a thin, named use of `rustix` or tokio.
//!
//! It owns no policy: who is spawned, killed or moved where is decided by its callers.

pub mod attempt;
pub mod calls;
pub mod capability;
pub mod cgroup;
pub mod identity;
#[cfg(feature = "knock")]
pub mod knock;
mod lack;
pub mod landlock;
pub mod memory;
pub mod mounts;
pub mod namespace;
pub mod oom;
pub mod packet;
pub mod procfs;
pub mod pty;
pub mod quiet;
pub mod reactor;
pub mod rights;
pub mod seccomp;
pub mod signal;
pub mod spawn;
pub mod task;
pub mod turn;
pub mod wire;

pub use lack::is_lack;
pub use rustix::io::Errno;
