//! Finding files by name.

use std::path::{Path, PathBuf};

use rustix::fs::{FileType, readlinkat};
use rustix::io::Errno;
use sandshell_exec::inside::Root;
use sandshell_types::{FileKind, FindReply, FindRequest, Room};

use crate::entry::{self, Owners};
use crate::walk::{Entry, Globs, Next, Visitor, WalkOptions, below, walk};
use crate::{FileError, Stop};

/// Most entries of an answer, when nothing is said and at all.
const DEFAULT_LIMIT: u32 = 1000;
pub(crate) const MAX_LIMIT: u32 = 100_000;

/// A checked request to find files.
#[derive(Debug)]
pub struct Find {
    start: PathBuf,
    patterns: Globs,
    kind: Option<FileKind>,
    limit: usize,
    options: WalkOptions,
}

/// The limit that was asked for, when it can be had.
pub(crate) fn checked_limit(asked: Option<u32>) -> Result<usize, FileError> {
    let limit = asked.unwrap_or(DEFAULT_LIMIT);
    if (1..=MAX_LIMIT).contains(&limit) {
        Ok(limit as usize)
    } else {
        let detail = format!("the limit is 1 to {MAX_LIMIT}, not {limit}");
        Err(FileError::invalid("/limit", detail))
    }
}

impl Find {
    /// Checks a request; `start` is its path, absolute.
    pub fn new(start: PathBuf, request: &FindRequest) -> Result<Self, FileError> {
        let gitignore = request.gitignore.unwrap_or(false);
        if request.max_depth == Some(0) {
            return Err(FileError::invalid("/max_depth", "the depth is at least 1"));
        }
        Ok(Self {
            start,
            patterns: Globs::new(&request.patterns, "/patterns")?,
            kind: request.kind,
            limit: checked_limit(request.limit)?,
            options: WalkOptions {
                exclude: Globs::new(&request.exclude, "/exclude")?,
                gitignore,
                skip_git: gitignore,
                hidden: request.hidden.unwrap_or(true),
                max_depth: request.max_depth,
            },
        })
    }

    /// Finds; on an inside thread.
    pub fn run(&self, root: &Root, stop: &Stop) -> Result<FindReply, FileError> {
        let mut finding = Finding {
            root,
            find: self,
            stop,
            seen: 0,
            room: Room::of_answer(self.limit),
            owners: Owners::default(),
            reply: FindReply::default(),
        };
        walk(root, &self.start, &self.options, &mut finding)?;
        Ok(finding.reply)
    }
}

struct Finding<'a> {
    root: &'a Root,
    find: &'a Find,
    stop: &'a Stop,
    seen: u32,
    room: Room,
    owners: Owners,
    reply: FindReply,
}

impl Visitor for Finding<'_> {
    fn entry(&mut self, entry: &Entry<'_>) -> Result<Next, FileError> {
        self.seen = self.seen.wrapping_add(1);
        if self.seen.is_multiple_of(64) && self.stop.is_over() {
            self.reply.timed_out = true;
            self.reply.truncated = true;
            return Ok(Next::Stop);
        }
        let find = self.find;
        let wanted = find.kind.is_none_or(|kind| kind == entry::kind(entry.kind))
            && (find.patterns.is_empty() || find.patterns.matches(entry.path, entry.name));
        if !wanted {
            return Ok(Next::Go);
        }
        let stat = match entry.stat(self.root) {
            Ok(stat) => stat,
            // It went away meanwhile.
            Err(Errno::NOENT) => return Ok(Next::Go),
            Err(errno) => {
                let path = below(&find.start, entry.path);
                return Err(FileError::At { path, errno });
            }
        };
        if self.room.is_full() {
            self.reply.truncated = true;
            return Ok(Next::Stop);
        }
        let path = below(&find.start, entry.path);
        let target = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => readlinkat(entry.dir(), entry.name, Vec::new()).ok(),
            _ => None,
        };
        let target = target.as_ref().map(|target| target.to_bytes());
        let found = self.owners.entry(self.root, &path, &stat, target);
        self.room.take(&found);
        self.reply.items.push(found);
        Ok(Next::Go)
    }

    fn unreadable(&mut self, _: &Path, _: Errno) -> Result<(), FileError> {
        self.reply.unreadable += 1;
        Ok(())
    }
}
