//! Finding the binary under test.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

const VARIABLE: &str = "SANDSHELL_BIN";
const PROFILES: [&str; 3] = ["tested", "release", "debug"];

/// `$SANDSHELL_BIN`, else the newest `sandshell` in the target directory of the current executable.
pub fn find_binary() -> PathBuf {
    if let Some(path) = env::var_os(VARIABLE) {
        let path = PathBuf::from(path);
        return fs::canonicalize(&path)
            .unwrap_or_else(|error| panic!("{VARIABLE} is {}: {error}", path.display()));
    }
    let current = env::current_exe().expect("the current executable has a path");
    newest_beside(&current).unwrap_or_else(|| {
        panic!(
            "no sandshell binary above {}: build one, or set {VARIABLE} to its path",
            current.display()
        )
    })
}

fn newest_beside(executable: &Path) -> Option<PathBuf> {
    executable.ancestors().skip(1).find_map(|target| {
        PROFILES
            .iter()
            .map(|profile| target.join(profile).join("sandshell"))
            .filter_map(|path| Some((modified(&path)?, path)))
            .max()
            .map(|(_, path)| path)
    })
}

fn modified(path: &Path) -> Option<SystemTime> {
    let metadata = fs::metadata(path).ok()?;
    metadata.is_file().then(|| metadata.modified().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn takes_the_newest_of_the_profiles() {
        let target = tempfile::tempdir().unwrap();
        let executable = target.path().join("debug/deps/it-1234");
        assert_eq!(newest_beside(&executable), None);
        let now = SystemTime::now();
        for (profile, age) in [("tested", 20), ("release", 10), ("debug", 30)] {
            let dir = target.path().join(profile);
            fs::create_dir_all(&dir).unwrap();
            let file = fs::File::create(dir.join("sandshell")).unwrap();
            file.set_modified(now - Duration::from_secs(age)).unwrap();
        }
        assert_eq!(
            newest_beside(&executable),
            Some(target.path().join("release/sandshell"))
        );
    }
}
