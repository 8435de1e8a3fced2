//! Tests of the built binary, one module for each promise or surface.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed expectation is what a test is for"
)]

mod abuse;
mod archive;
mod backups;
mod bad_input;
mod browsers;
mod bytes;
mod calls;
mod cli;
mod compat;
mod completion;
mod contexts;
mod crash;
mod doctor;
mod explorer;
mod faults;
mod files;
mod git;
mod house;
mod hub;
mod killing;
mod lifecycle;
mod limits;
mod mcp;
mod metrics;
mod model;
mod network;
mod openapi;
mod packages;
mod ports;
mod processes;
mod run;
mod sandbox;
mod scenarios;
mod search;
mod sessions;
mod shell_cases;
mod signals;
mod signs;
mod terminals;
mod tree;
mod watch;
