//! E2B's clients, in Python and JavaScript, at `/e2b` of a hub.

use std::path::PathBuf;
use std::process::Command;

use sandshell_testkit::{Hub, UnprivilegedUser};

use super::{must_pass, python, root, suite};

/// Sandboxes here may lack a protection that this machine cannot give.
const ARGUMENTS: [&str; 4] = ["--isolation", "best-effort", "--e2b-domain", "e2b.test"];

/// Variables of a suite that must find a sandbox to be paused.
const PAUSES: [(&str, &str); 1] = [("MUST_PAUSE", "1")];

/// A hub's address and key, as the clients are told them.
fn told<'a>(command: &'a mut Command, hub: &Hub, more: &'a [(&str, &str)]) -> &'a mut Command {
    let url = format!("{}/e2b", hub.url());
    command
        .env("E2B_API_URL", &url)
        .env("E2B_SANDBOX_URL", &url)
        .env("E2B_API_KEY", format!("e2b_{}", hub.token()))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .envs(more.iter().copied())
}

fn in_python(hub: &Hub, file: &str, more: &[(&str, &str)]) {
    if let Some(python) = python("e2b") {
        let suite: PathBuf = root().join("tests/compat/e2b");
        must_pass(told(
            Command::new(python).arg(file).current_dir(suite),
            hub,
            more,
        ));
    }
}

fn in_javascript(hub: &Hub, more: &[(&str, &str)]) {
    if let Some(place) = suite("e2b") {
        must_pass(told(
            Command::new("node")
                .args([
                    "--test",
                    "--test-force-exit",
                    "--test-reporter=spec",
                    "suite.test.mjs",
                ])
                .current_dir(place),
            hub,
            more,
        ));
    }
}

#[test]
fn its_python_client_does_everything() {
    in_python(&Hub::with(&ARGUMENTS), "suite.py", &PAUSES);
}

#[test]
fn its_asynchronous_python_client_does_everything() {
    in_python(&Hub::with(&ARGUMENTS), "suite_async.py", &PAUSES);
}

#[test]
fn its_javascript_client_does_everything() {
    in_javascript(&Hub::with(&ARGUMENTS), &PAUSES);
}

#[test]
fn bad_input_gets_its_errors_and_binary_messages_are_understood() {
    in_python(&Hub::with(&ARGUMENTS), "wire.py", &PAUSES);
}

#[test]
fn its_clients_do_everything_for_an_ordinary_user() {
    if let Some(user) = UnprivilegedUser::get() {
        let hub = Hub::of_with(user, &ARGUMENTS);
        in_python(&hub, "suite.py", &[]);
        in_javascript(&hub, &[]);
    }
}
