//! Facts of the host, as small questions with plain answers.

use std::fs;
use std::path::{Path, PathBuf};

/// A number that the kernel tells in a file.
pub(super) fn number(file: &str) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// The release of the kernel, and its first two numbers.
pub(super) fn kernel() -> (String, Option<(u32, u32)>) {
    let release = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    let version = version(&release);
    (release, version)
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Where a program is, in the directories that commands of a sandbox look in.
pub(super) fn program(name: &str) -> Option<PathBuf> {
    ["/usr/local/bin", "/usr/bin", "/bin"]
        .iter()
        .map(|dir| Path::new(dir).join(name))
        .find(|path| {
            rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok() && path.is_file()
        })
}

/// The nearest directory above a path that exists.
pub(super) fn existing(path: &Path) -> &Path {
    path.ancestors()
        .find(|path| path.is_dir())
        .unwrap_or(Path::new("/"))
}

/// A number of bytes for people.
pub(super) fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut scaled = count;
    let mut unit = "bytes";
    for next in UNITS {
        if scaled < 1024 {
            break;
        }
        scaled /= 1024;
        unit = next;
    }
    format!("{scaled} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_versions_of_kernels() {
        assert_eq!(version("6.1.0-28-amd64"), Some((6, 1)));
        assert_eq!(version("5.15.167.4-microsoft-standard-WSL2"), Some((5, 15)));
        assert_eq!(version("6.12-rc1"), Some((6, 12)));
        assert_eq!(version("nonsense"), None);
    }

    #[test]
    fn scales_bytes() {
        assert_eq!(bytes(1023), "1023 bytes");
        assert_eq!(bytes(5 << 30), "5 GiB");
    }

    #[test]
    fn finds_the_nearest_directory() {
        assert_eq!(existing(Path::new("/usr/none/none")), Path::new("/usr"));
    }
}
