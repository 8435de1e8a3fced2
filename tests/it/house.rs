//! The rules of the house: what the tree, the documents and the dependencies promise.
//!
//! Each rule is read from the files themselves, so that breaking it fails here and not in review.

mod dependencies;
mod documents;
mod readme;
mod sources;

use std::path::{Path, PathBuf};

/// The root of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests/ is in the workspace")
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All files with this extension below a directory of the workspace.
fn files(below: &str, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![root().join(below)];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The standard output of a program that must succeed.
fn output_of(program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> String {
    let output = std::process::Command::new(program.as_ref())
        .args(arguments)
        .current_dir(root())
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", program.as_ref().display()));
    assert!(
        output.status.success(),
        "{} {arguments:?}: {}",
        program.as_ref().display(),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("text")
}
