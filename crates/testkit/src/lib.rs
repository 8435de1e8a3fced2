//! Fixtures for integration tests and benchmarks of the built binary. Linux only.
//!
//! [`Agent`] is a running `sandshell agent` with a temporary directory of its own; dropping it ends
//! the agent and removes the directory. [`Hub`] is a running `sandshell serve`, which can also be
//! killed and started again. The free functions look at processes from outside, by
//! `/proc` and pidfds, so that tests can prove what the agent says of itself.
//!
//! Nothing here sleeps or polls by time: every wait is on a kernel event with a deadline. The waits
//! block their thread, which is fine in a test; where futures must go on meanwhile, use
//! `spawn_blocking`.
//!
//! ```no_run
//! # async fn example() {
//! let agent = sandshell_testkit::Agent::start();
//! assert_eq!(agent.client().healthz().await.unwrap().status, "ok");
//! # }
//! ```
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a broken fixture should fail the test loudly"
)]

mod agent;
mod binary;
mod builder;
mod hub;
mod pidfd;
mod proc;
mod ready;
mod skips;
mod user;

pub use agent::Agent;
pub use binary::find_binary;
pub use builder::{AgentBuilder, throw_away_root};
pub use hub::Hub;
pub use pidfd::wait_for_exit_of;
pub use proc::{
    alive_with_marker, children, children_deep, open_fds, pss_bytes, rss_bytes, wait_until_gone,
};
pub use skips::skipped;
pub use user::UnprivilegedUser;
