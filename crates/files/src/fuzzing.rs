//! Doors for the fuzz targets (`fuzz/`): readers of bytes from outside that nobody else needs to reach.
//! Each is one call and adds nothing.

use std::path::Path;

use sandshell_types::{
    GitBranch, GitCommit, GitDiffFile, GitProgress, GitPushedRef, GitStatusReply,
};

use crate::git;
use crate::walk::Globs;
use crate::walk::rules::{self, Verdict};
use crate::watch::filter::Filter;

/// Whether globs of a find or an archive name a path; `None` when they are refused.
pub fn globs_match(globs: &[String], path: &Path) -> Option<bool> {
    let globs = Globs::new(globs, "/exclude").ok()?;
    Some(globs.matches(path, path.file_name().unwrap_or_default()))
}

/// Whether the globs of a watch tell of a path; `None` when they are refused.
pub fn watch_tells(include: &[String], exclude: &[String], path: &Path) -> Option<bool> {
    Some(Filter::new(include, exclude).ok()?.tells(path, false))
}

/// What .gitignore files say of a path: ignored, kept, or nothing.
pub fn ignored(files: &[&[u8]], path: &Path, is_dir: bool) -> Option<bool> {
    let rules = rules::compiled(files.iter().map(|text| text.to_vec()))?;
    match rules::said(&rules, path, is_dir) {
        Verdict::Ignored => Some(true),
        Verdict::Kept => Some(false),
        Verdict::Silent => None,
    }
}

/// What `git status` printed.
pub fn git_status(output: &[u8]) -> GitStatusReply {
    git::status::parse(output)
}

/// What `git diff --numstat` printed.
pub fn git_diff(output: &[u8]) -> Vec<GitDiffFile> {
    git::diff::files(output)
}

/// What `git log` printed.
pub fn git_log(output: &[u8]) -> Vec<GitCommit> {
    git::log::commits(output)
}

/// What git says of its progress, in pieces.
pub fn git_progress(pieces: &[&[u8]]) -> Vec<GitProgress> {
    let mut lines = git::progress::Lines::default();
    pieces.iter().flat_map(|piece| lines.push(piece)).collect()
}

/// A line of `git branch`.
pub fn git_branch(line: &str) -> Option<GitBranch> {
    git::branches::branch(line)
}

/// A line of `git push`.
pub fn git_pushed(line: &str) -> Option<GitPushedRef> {
    git::remote::pushed(line)
}

/// Whether a clone takes this address.
pub fn git_url(url: &str) -> bool {
    git::credentials::check_url(url).is_ok()
}
