//! What .gitignore files say.
//!
//! The matching is `ignore`'s; its walker is not used, since it opens paths by name. Files are read
//! through [`Root`], and a rule that does not parse is passed over, as git does.

use std::ffi::OsStr;
use std::io::Read as _;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::OFlags;
use sandshell_exec::inside::{Follow, Root};

use super::found_at;

/// Longest file of rules that is read; the rest is passed over.
const MAX_BYTES: u64 = 1 << 20;

/// What the rules say of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Ignored,
    /// A rule with `!`.
    Kept,
    /// No rule is about it.
    Silent,
}

/// The rules of one directory.
pub(super) struct Rules {
    own: Option<Gitignore>,
    /// Those of the directories above the start, the nearest first, with the path from there.
    above: Vec<(Gitignore, PathBuf)>,
    repository: bool,
}

impl Rules {
    pub(super) fn none() -> Self {
        Self {
            own: None,
            above: Vec::new(),
            repository: false,
        }
    }

    /// The rules in a directory.
    pub(super) fn of(root: &Root, dir: BorrowedFd<'_>) -> Self {
        let git = found_at(dir, OsStr::new(".git")).ok();
        Self {
            own: read(root, dir, git.as_ref()),
            above: Vec::new(),
            repository: git.is_some(),
        }
    }

    /// The rules of the directory a walk starts in, and of those above it in the same repository.
    pub(super) fn at_start(root: &Root, start: &Path, dir: BorrowedFd<'_>) -> Self {
        let mut rules = Self::of(root, dir);
        if rules.repository {
            return rules;
        }
        let mut above = Vec::new();
        for parent in start.ancestors().skip(1) {
            let Ok(dir) = root.find_dir(parent) else {
                return rules;
            };
            let git = root.find(&parent.join(".git"), Follow::No).ok();
            if let Some(own) = read(root, dir.as_fd(), git.as_ref())
                && let Ok(way) = start.strip_prefix(parent)
            {
                above.push((own, way.to_owned()));
            }
            if git.is_some() {
                rules.above = above;
                rules.repository = true;
                return rules;
            }
        }
        // Not in a repository: only what is below the start counts.
        rules
    }

    /// Whether rules above this directory are not its own.
    pub(super) fn is_repository(&self) -> bool {
        self.repository
    }

    /// What they say of a path below this directory.
    pub(super) fn verdict(&self, below: &[u8], is_dir: bool) -> Verdict {
        let below = Path::new(OsStr::from_bytes(below));
        let own = self.own.iter().map(|own| said(own, below, is_dir));
        let above = self.above.iter();
        own.chain(above.map(|(rules, way)| said(rules, &way.join(below), is_dir)))
            .find(|verdict| *verdict != Verdict::Silent)
            .unwrap_or(Verdict::Silent)
    }
}

/// What the rules of one directory say of a path below it.
pub(crate) fn said(rules: &Gitignore, path: &Path, is_dir: bool) -> Verdict {
    match rules.matched(path, is_dir) {
        Match::Ignore(_) => Verdict::Ignored,
        Match::Whitelist(_) => Verdict::Kept,
        Match::None => Verdict::Silent,
    }
}

/// Reads the rules in a directory; those in `.git/info/exclude` come first, so that they lose.
fn read(root: &Root, dir: BorrowedFd<'_>, git: Option<&OwnedFd>) -> Option<Gitignore> {
    let info = git
        .and_then(|git| found_at(git.as_fd(), OsStr::new("info")).ok())
        .and_then(|info| text(root, info.as_fd(), "exclude"));
    compiled([info, text(root, dir, ".gitignore")].into_iter().flatten())
}

/// Rules of files; those of later ones win.
pub(crate) fn compiled(files: impl Iterator<Item = Vec<u8>>) -> Option<Gitignore> {
    let mut builder = GitignoreBuilder::new("");
    let mut any = false;
    for text in files {
        let text = String::from_utf8_lossy(&text);
        for line in text.strip_prefix('\u{feff}').unwrap_or(&text).lines() {
            // A line that is no rule says nothing.
            let _ = builder.add_line(None, line);
            any = true;
        }
    }
    any.then(|| builder.build().ok()).flatten()
}

fn text(root: &Root, dir: BorrowedFd<'_>, name: &str) -> Option<Vec<u8>> {
    let found = found_at(dir, OsStr::new(name)).ok()?;
    let file = root.open(found, OFlags::RDONLY).ok()?;
    let mut bytes = Vec::new();
    std::fs::File::from(file)
        .take(MAX_BYTES)
        .read_to_end(&mut bytes)
        .ok()?;
    Some(bytes)
}
