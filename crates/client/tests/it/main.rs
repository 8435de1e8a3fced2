//! The client against a server that says exactly what each test tells it to.
#![allow(
    clippy::unwrap_used,
    reason = "a broken fixture should fail the test loudly"
)]

mod connections;
mod replies;
mod scripted;
