//! The ready file: says where the agent is served, once it is.
//!
//! It appears complete or not at all, and holds no secret.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

#[derive(Serialize)]
struct Ready<'a> {
    url: &'a str,
    pid: u32,
}

/// Writes the file beside its place and moves it there.
pub fn write(path: &Path, url: &str) -> io::Result<()> {
    clear_beside(path);
    let beside = beside(path);
    let mut text = serde_json::to_vec(&Ready {
        url,
        pid: std::process::id(),
    })?;
    text.push(b'\n');
    let mut file = std::fs::File::create(&beside)?;
    // Whoever waits for the agent may be another user.
    file.set_permissions(std::fs::Permissions::from_mode(0o644))?;
    file.write_all(&text)?;
    drop(file);
    std::fs::rename(&beside, path)
}

/// Removes the file of who is served no more, if there is one.
pub fn remove(path: &Path) {
    // Whoever reads it looks whether the process lives.
    let _ = std::fs::remove_file(path);
}

/// A name in the same directory, and so on the same file system, that only this process uses.
pub(crate) fn beside(path: &Path) -> PathBuf {
    let mut name = beginning(path);
    name.push(std::process::id().to_string());
    path.with_file_name(name)
}

/// How the names of all processes begin.
fn beginning(path: &Path) -> OsString {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".");
    name
}

/// Removes what processes that were killed had begun to write.
pub(crate) fn clear_beside(path: &Path) {
    let beginning = beginning(path);
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let entries = std::fs::read_dir(dir.unwrap_or(Path::new("."))).into_iter();
    for entry in entries.flatten().flatten() {
        let name = entry.file_name();
        let rest = name.as_bytes().strip_prefix(beginning.as_bytes());
        let pid = rest.and_then(|rest| str::from_utf8(rest).ok()?.parse::<u32>().ok());
        if let Some(pid) = pid
            && !Path::new(&format!("/proc/{pid}")).exists()
        {
            // It is in nobody's way.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn says_where_and_who() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ready");
        write(&path, "http://127.0.0.1:1").unwrap();
        let value: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(value["url"], "http://127.0.0.1:1");
        assert_eq!(value["pid"], std::process::id());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_the_dead_began_is_removed_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ready");
        // No process has such a number: the kernel's are below 2^22.
        let dead = ".ready.4194305";
        let others = [".ready.txt", ".ready.", ".ready", ".other.4194305"];
        let living = format!(".ready.{}", std::process::id());
        for name in others.iter().chain([&dead, &living.as_str()]) {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        clear_beside(&path);
        assert!(!dir.path().join(dead).exists());
        for name in others.iter().chain([&living.as_str()]) {
            assert!(dir.path().join(name).exists(), "{name}");
        }
    }
}
