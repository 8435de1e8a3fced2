//! Daytona's clients, in Python and TypeScript, at `/daytona/api` of a hub.

use std::path::{Path, PathBuf};
use std::process::Command;

use sandshell_testkit::{Hub, UnprivilegedUser};

use super::{must_pass, root, suite};
use crate::calls::skipped;

/// The interpreter with that client's packages; a test without them says so and does nothing.
fn python() -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let venv = root().join(target).join("venv/daytona");
    if venv.join("installed").exists() {
        return Some(venv.join("bin/python"));
    }
    skipped(&format!(
        "{} has no packages; scripts/test installs them",
        venv.display()
    ));
    None
}

/// What a suite is told of the hub. Not every machine has all protections, so it does without.
fn told<'a>(command: &'a mut Command, hub: &Hub, place: &Path) -> &'a mut Command {
    command
        .current_dir(place)
        .env("API_URL", format!("{}/daytona/api", hub.url()))
        .env("API_KEY", hub.token())
        .env("TARGET", "best_effort")
        .env("PYTHONDONTWRITEBYTECODE", "1")
}

fn drive_python(hub: &Hub) {
    let Some(python) = python() else {
        return;
    };
    let place = root().join("tests/compat/daytona");
    must_pass(told(Command::new(python).arg("suite.py"), hub, &place));
}

fn drive_typescript(hub: &Hub) {
    let Some(place) = suite("daytona") else {
        return;
    };
    let mut node = Command::new("node");
    node.args(["--test", "--test-reporter=spec", "suite.test.mjs"]);
    must_pass(told(&mut node, hub, &place));
}

#[test]
fn its_python_client_does_everything() {
    drive_python(&Hub::with(&["--preview-domain", "localhost"]));
}

#[test]
fn its_python_client_does_everything_for_an_ordinary_user() {
    if let Some(user) = UnprivilegedUser::get() {
        drive_python(&Hub::of(user));
    }
}

#[test]
fn its_typescript_client_does_everything() {
    drive_typescript(&Hub::start());
}

#[test]
fn its_typescript_client_does_everything_for_an_ordinary_user() {
    if let Some(user) = UnprivilegedUser::get() {
        drive_typescript(&Hub::of(user));
    }
}
