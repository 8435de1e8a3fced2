//! The /etc that sandboxes are shown: each hub makes one, for the host may have changed.
//!
//! ```text
//! STATE/etc/N                numbered by the hubs that made them
//! STATE/sandboxes/PLACE/etc  a link that says which one it shows: `N`
//! ```
//!
//! A sandbox that outlives its hub goes on with the one it has, so each is kept as long as there is
//! such a sandbox, and no longer: a hub that starts again and again leaves no pile of them.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use sandshell_isolate::host_root::{self, MadeFor};

/// The link in a sandbox's directory.
const LINK: &str = "etc";

/// Those in one state directory.
#[derive(Debug, Clone)]
pub(super) struct Etcs {
    dir: PathBuf,
    /// Ours.
    number: u64,
}

impl Etcs {
    /// Makes a fresh one in this directory.
    pub(super) fn make(dir: PathBuf) -> io::Result<Self> {
        let made = Self {
            number: numbers(&dir)?.last().map_or(1, |last| last + 1),
            dir,
        };
        host_root::make_etc(&made.current(), MadeFor::Many)?;
        Ok(made)
    }

    /// Ours.
    pub(super) fn current(&self) -> PathBuf {
        self.of(self.number)
    }

    fn of(&self, number: u64) -> PathBuf {
        self.dir.join(number.to_string())
    }

    /// Notes in a sandbox's directory, unless it was noted ahead, that it shows ours.
    pub(super) fn note(&self, sandbox: &Path) -> io::Result<()> {
        match symlink(self.number.to_string(), sandbox.join(LINK)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            done => done,
        }
    }

    /// Removes those that no sandbox with one of these directories shows.
    pub(super) fn forget_others(&self, sandboxes: impl Iterator<Item = PathBuf>) {
        let mut kept = BTreeSet::from([self.number]);
        for sandbox in sandboxes {
            let shown = fs::read_link(sandbox.join(LINK)).ok();
            match shown.and_then(|shown| shown.to_str()?.parse().ok()) {
                Some(number) => drop(kept.insert(number)),
                // It does not say, so it may be any.
                None => return,
            }
        }
        for number in numbers(&self.dir).unwrap_or_default() {
            if !kept.contains(&number)
                && let Err(error) = fs::remove_dir_all(self.of(number))
            {
                tracing::warn!(%error, "an old /etc of sandboxes stays");
            }
        }
    }
}

fn numbers(dir: &Path) -> io::Result<BTreeSet<u64>> {
    let entries = fs::read_dir(dir)?.flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Ok(numbers.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_kept_while_a_sandbox_shows_it() {
        let state = tempfile::tempdir().unwrap();
        let dir = state.path().join("etc");
        fs::create_dir(&dir).unwrap();
        let places = ["a", "b"].map(|name| state.path().join(name));
        for place in &places {
            fs::create_dir(place).unwrap();
            Etcs::make(dir.clone()).unwrap().note(place).unwrap();
        }
        let third = Etcs::make(dir.clone()).unwrap();
        let left = || numbers(&dir).unwrap().into_iter().collect::<Vec<u64>>();
        third.forget_others(places.clone().into_iter());
        assert_eq!(left(), [1, 2, 3]);
        third.forget_others(places[1..].iter().cloned());
        assert_eq!(left(), [2, 3]);
        let silent = state.path().join("c");
        third.forget_others([silent].into_iter());
        assert_eq!(left(), [2, 3], "who says nothing may show any");
        third.forget_others(std::iter::empty());
        assert_eq!(left(), [3]);
        assert!(third.current().join("passwd").exists());
    }
}
