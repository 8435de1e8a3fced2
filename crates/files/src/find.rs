//! Finding files by name.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;
use sandshell_exec::inside::Root;
use sandshell_types::{
    Encoded, Encoding, EntryKind, FindReply, FindRequest, FoundEntry, Timestamp,
};

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
    kind: Option<EntryKind>,
    limit: usize,
    options: WalkOptions,
}

/// A path of a request, when it can be one.
pub fn checked_path(text: &str) -> Result<&Path, FileError> {
    if text.is_empty() {
        return Err(FileError::invalid("/path", "the path is empty"));
    }
    if text.contains('\0') {
        return Err(FileError::invalid(
            "/path",
            "the path has a NUL character in it",
        ));
    }
    Ok(Path::new(text))
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
        let wanted = find.kind.is_none_or(|kind| kind == kind_of(entry.kind))
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
        if self.reply.items.len() == find.limit {
            self.reply.truncated = true;
            return Ok(Next::Stop);
        }
        let (path, path_base64) = path_text(&below(&find.start, entry.path));
        self.reply.items.push(FoundEntry {
            path,
            path_base64,
            kind: kind_of(FileType::from_raw_mode(stat.st_mode)),
            size: u64::try_from(stat.st_size).unwrap_or(0),
            mode: format!("{:04o}", stat.st_mode & 0o7777),
            modified_at: modified_at(&stat),
        });
        Ok(Next::Go)
    }

    fn unreadable(&mut self, _: &Path, _: Errno) -> Result<(), FileError> {
        self.reply.unreadable += 1;
        Ok(())
    }
}

pub(crate) fn kind_of(kind: FileType) -> EntryKind {
    match kind {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => EntryKind::Symlink,
        FileType::Fifo => EntryKind::Fifo,
        FileType::Socket => EntryKind::Socket,
        FileType::BlockDevice => EntryKind::BlockDevice,
        FileType::CharacterDevice => EntryKind::CharDevice,
        FileType::Unknown => EntryKind::Unknown,
    }
}

/// A path as text, and its exact bytes when the text is not exact.
pub(crate) fn path_text(path: &Path) -> (String, Option<String>) {
    match path.to_str() {
        Some(text) => (text.to_owned(), None),
        None => (
            path.to_string_lossy().into_owned(),
            Some(Encoded::new(path.as_os_str().as_bytes().to_vec(), Encoding::Base64).data),
        ),
    }
}

fn modified_at(stat: &Stat) -> Timestamp {
    let nanoseconds = i32::try_from(stat.st_mtime_nsec).unwrap_or(0);
    Timestamp::new(stat.st_mtime, nanoseconds).unwrap_or(Timestamp::UNIX_EPOCH)
}
