//! The egress proxy against servers on the loopback that stand for ones of the Internet, with a
//! resolver that answers as it is told; and the relay in a network namespace of its own.
//!
//! Tests speak to the proxy's socket byte by byte, as a hostile program would, or run curl, Python and
//! Node in the namespace.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::indexing_slicing,
    reason = "a failed expectation is what a test is for, and a skipped one says so"
)]

mod inside;
mod passing;
mod refused;
mod secrets;
mod world;
