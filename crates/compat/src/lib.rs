//! The APIs of other services, spoken over ours, so that the clients people already have work unchanged.
//!
//! # Theory of operation
//!
//! ```text
//! their client ─► hub or agent ─► dialect ─► typed client, within this process ─► the API, /v1
//! ```
//!
//! A dialect owns the form of its requests, answers, events and errors, and nothing else: no process, no
//! file and no state of a sandbox. What it is asked for it asks of our own API through a [`Client`] that
//! carries the caller's rights, so that no dialect can do what its caller may not.
//!
//! # Invariants
//!
//! - A failure has the dialect's own form and code, whatever failed below.
//! - Where a dialect promises text, bytes that are not UTF-8 become U+FFFD, and a character that arrives
//!   in two pieces is whole.
//! - An answer that is dropped drops what was asked for it below.
//!
//! [`Client`]: sandshell_client::Client

mod bridge;
mod cloudflare;
mod daytona;
mod form;
#[doc(hidden)]
pub mod fuzzing;
mod lease;
mod pages;
mod pty;
#[cfg(test)]
mod scripted;
mod session;
mod sse;
mod text;

pub use bridge::Bridge;
pub use cloudflare::Cloudflare;
pub use daytona::Daytona;
pub use form::Form;
pub use lease::Lease;
pub use pages::{MOST, all};
