//! Tests of the built binary, one module for each promise or surface.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed expectation is what a test is for"
)]

mod archive;
mod backups;
mod bad_input;
mod bytes;
mod calls;
mod completion;
mod house;
mod killing;
mod lifecycle;
mod processes;
mod search;
mod sessions;
mod shell_cases;
mod tree;
