//! The ready file: says where the agent is served, once it is.
//!
//! It appears complete or not at all, and holds no secret.

use std::ffi::OsString;
use std::io::{self, Write as _};
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

/// A name in the same directory, and so on the same file system, that only this process uses.
pub(crate) fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}", std::process::id()));
    path.with_file_name(name)
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
}
