//! What must hold for every reader of bytes from outside, whatever the bytes are.
//!
//! A target is a function of bytes. It reads them with the product's own code and compares what comes out
//! with an oracle: the same in pieces, the same after writing and reading it again, the same as a plain
//! model or the text of a standard says, nothing written outside. A panic is a find.
//!
//! ```text
//!  corpus/TARGET/* ─┬─► tests/replay.rs: as they are, then mutated by a seed     make test, plain Rust
//!                   └─► fuzz_targets/TARGET.rs: libFuzzer, guided by coverage    make fuzz
//! ```
//!
//! Owns the targets and their corpora. It is a member of the workspace, so that a test run compiles the
//! crates and their dependencies once; libFuzzer comes with the feature `libfuzzer` alone.
//!
//! A find is kept in the corpus under a name that tells it.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a target that fails is to fail loudly, and says what must hold as plainly as it can"
)]

mod archives;
mod bodies;
mod command_line;
mod dialects;
mod git;
mod init;
mod input;
mod kernels;
mod output;
mod paths;
mod patterns;
mod place;
mod screen;
mod session;
mod streams;
mod web;

/// A target's name and what it does with an input.
pub type Target = (&'static str, fn(&[u8]));

/// All of them. Each has a directory in `corpus` and a binary in `fuzz_targets`.
pub const TARGETS: &[Target] = &[
    ("archive_reader", archives::tar_reader),
    ("archive_unpack", archives::tar_unpack),
    ("bodies", bodies::bodies),
    ("command_text", session::command_text),
    ("config", command_line::config),
    ("connect", streams::connect),
    ("cp_unpack", archives::cp_unpack),
    ("dialects", dialects::requests),
    ("dns", web::dns),
    ("driver", kernels::driver),
    ("first_words", web::first_words),
    ("forms", web::forms),
    ("git", git::output),
    ("gitignore", patterns::gitignore),
    ("globs", patterns::globs),
    ("hosts", web::hosts),
    ("image_import", archives::image_import),
    ("init_socket", init::init_socket),
    ("kernel", kernels::kernel),
    ("output_log", output::log_files),
    ("output_order", output::order_of_output),
    ("output_text", streams::output_as_text),
    ("path_text", paths::path_text),
    ("paths", paths::resolver),
    ("proto", streams::proto),
    ("proxied_head", web::proxied_head),
    ("ranges", web::ranges),
    ("rights", web::rights),
    ("screen", screen::screen),
    ("session_messages", session::messages_of_a_shell),
    ("session_state", session::saved_state),
    ("socket", streams::socket),
    ("spawn_request", init::spawn_request),
    ("sse", streams::sse),
    ("typed", command_line::typed),
];

/// Runs a target by its name.
pub fn run(name: &str, data: &[u8]) {
    let (_, target) = TARGETS
        .iter()
        .find(|(known, _)| *known == name)
        .unwrap_or_else(|| panic!("there is no target {name}"));
    target(data);
}
