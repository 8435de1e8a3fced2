//! Shared pieces of the tests that drive the built binary. The tests themselves are in `it/`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a broken fixture fails the test loudly"
)]

pub mod cases;
