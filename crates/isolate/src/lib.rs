//! Sandboxes as the kernel sees them: how they are made, what is given up in them and proved, and `init`,
//! the one process that starts everything in each.
//!
//! # Making one
//!
//! A hub has a *launcher* (`launcher`) fork an agent and an init into namespaces (`stage`), with a root
//! of their own (`rootfs`, `host_root`, `image_root`), groups and limits (`limits`), hardened (`harden`) and looked at
//! from inside (`probe`). Where the agent runs alone, as in a container, it launches init itself
//! (`launch`), and what needs no namespace is done all the same.
//!
//! # Theory of operation
//!
//! The agent is a large, multi-threaded program, so it never forks. Init is there before its runtime
//! starts: a fork of the launcher's, or a re-exec of the agent's own binary; small, single-threaded, no
//! runtime. From then on whatever runs in the sandbox is started by init:
//!
//! ```text
//! agent ──SPAWN{id, argv, env, …} + fds──► init ──clone3──► program
//!       ◄─SPAWNED{id, pid} + pidfd─────────
//!       ◄─EXITED{id, status}───────────────     (after every reap)
//! ```
//!
//! Where it may, init is PID 1 of a PID namespace with a /proc of its own: if it ends, the kernel
//! ends everything. Elsewhere it is a child subreaper and ends its descendants itself. Either way,
//! the agent's death (end of file on the socket) is the end of all it started.
//!
//! # Trees
//!
//! To kill means to know who belongs to whom. With a writable cgroup v2 each spawn is born in a
//! group of its own. Without one, init gives each spawn a *keeper*: a child of init that is a
//! subreaper with that one program below it, so that orphans stay inside the tree and the keeper's
//! own end says that the tree is empty.
//!
//! Invariants: init opens no path a user named, except as the child of a clone; it never blocks on
//! the agent; it holds no secret.

pub mod harden;
pub mod host_root;
pub mod image_root;
pub mod init;
mod keeper;
pub mod launch;
pub mod launcher;
pub mod limits;
pub mod plan;
pub mod private;
pub mod probe;
mod proof;
pub mod protocol;
mod rootfs;
pub mod stage;

pub use launch::{
    InitHandle, LaunchError, LaunchOptions, Surroundings, Warden, WardenPlan, launch_warden,
};
pub use proof::Proof;
pub use protocol::{Event, SpawnFlags, SpawnRequest};
