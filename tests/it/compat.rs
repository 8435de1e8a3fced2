//! The clients of other services, as they were published, against our server.
//!
//! Each has a directory below `tests/compat` with its own suite, in its own language; here are only the
//! server and what the suite is told of it.

mod alone;
mod bridge;
mod cloudflare;
mod daytona;
mod e2b;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::calls::skipped;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Where the packages of a suite are, with a copy of it; a test without them says so and does nothing.
fn suite(name: &str) -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let place = root().join(target).join("node").join(name);
    if place.join("installed").exists() {
        return Some(place);
    }
    skipped(&format!(
        "{} has no packages; scripts/test installs them",
        place.display()
    ));
    None
}

/// The same for a suite in Python: its interpreter, with the packages.
fn python(name: &str) -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let place = root().join(target).join("venv").join(name);
    if place.join("installed").exists() {
        return Some(place.join("bin/python"));
    }
    skipped(&format!(
        "{} has no packages; scripts/test installs them",
        place.display()
    ));
    None
}

/// Runs a command to its end, which must be a good one; what it said is shown.
#[expect(clippy::print_stderr, reason = "the suite's own report")]
fn must_pass(command: &mut Command) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    eprintln!("{said}");
    assert!(output.status.success(), "{}", output.status);
}
