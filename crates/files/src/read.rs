//! The content of a file, out.
//!
//! Owns the opening and the pieces. Does not own ranges and conditions: whoever asks decides on them
//! in the same visit to the inside, so that a small file costs one.
//!
//! A file that ends before it should breaks the stream off with an error; one that grows gives what
//! was promised.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::Path;

use bytes::Bytes;
use rustix::fs::{FileType, OFlags, fstat};
use rustix::io::{Errno, pread};
use sandshell_exec::inside::{Follow, Root};

use crate::FileError;
use crate::entry::Facts;
use crate::kernels_own::is_kernels_own;
use crate::stream::{Buffers, Source};

/// Bytes read at a time.
const PIECE: usize = 512 * 1024;

/// What is to be given of a file.
#[derive(Debug)]
pub enum Wanted<T> {
    /// All of it.
    All(T),
    /// These bytes.
    Part(T, Range<u64>),
    /// Nothing but the answer.
    Nothing(T),
}

/// A file that was opened.
#[derive(Debug)]
pub struct Content<T> {
    /// The answer of whoever decided.
    pub head: T,
    /// How many bytes come, where that is known.
    pub length: Option<u64>,
    /// The first of them.
    pub first: Bytes,
    /// The others.
    pub rest: Option<FileBytes>,
}

/// Opens a file and reads its first bytes, if any are wanted.
pub fn open<T>(
    root: &Root,
    path: &Path,
    decide: impl FnOnce(&Facts) -> Wanted<T>,
) -> Result<Content<T>, FileError> {
    read_first(root, path, decide).map_err(FileError::at(path))
}

fn read_first<T>(
    root: &Root,
    path: &Path,
    decide: impl FnOnce(&Facts) -> Wanted<T>,
) -> Result<Content<T>, Errno> {
    let found = root.find(path, Follow::Yes)?;
    let file = root.open(&found, OFlags::RDONLY)?;
    let stat = fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        return Err(Errno::ISDIR);
    }
    let facts = Facts::new(&stat);
    let (head, range, whole) = match decide(&facts) {
        Wanted::All(head) => (head, 0..facts.size, true),
        Wanted::Part(head, range) => (head, range, false),
        Wanted::Nothing(head) => {
            return Ok(Content {
                head,
                length: None,
                first: Bytes::new(),
                rest: None,
            });
        }
    };
    // The kernel's own files have content but no size, or less content than size.
    let sizeless = whole && facts.size == 0;
    let size = if sizeless {
        PIECE
    } else {
        usize::try_from(range.end - range.start).map_or(PIECE, |size| size.min(PIECE))
    };
    let mut rest = FileBytes {
        file,
        at: range.start,
        end: (!sizeless).then_some(range.end),
        buffers: Buffers::new(size.max(1)),
    };
    let first = rest.piece().map_err(|errno| match errno {
        // What calls itself a file and cannot be read as one: a pipe, a device, memory.
        Errno::SPIPE | Errno::IO | Errno::INVAL | Errno::OPNOTSUPP
            if is_kernels_own(&rest.file) =>
        {
            Errno::AGAIN
        }
        errno => errno,
    })?;
    let complete = first.len() < size || rest.end == Some(rest.at);
    let length = match rest.end {
        Some(end) if whole && complete && end <= PIECE as u64 => Some(first.len() as u64),
        Some(end) => Some(end - range.start),
        None => complete.then_some(first.len() as u64),
    };
    let all_there = length == Some(first.len() as u64);
    Ok(Content {
        head,
        length,
        first,
        rest: (!all_there).then_some(rest),
    })
}

/// The bytes of an open file, or of a part of it.
#[derive(Debug)]
pub struct FileBytes {
    file: OwnedFd,
    at: u64,
    /// `None`: as far as it goes.
    end: Option<u64>,
    buffers: Buffers,
}

impl FileBytes {
    fn piece(&mut self) -> Result<Bytes, Errno> {
        let left = self.end.map_or(u64::MAX, |end| end - self.at);
        let bytes = self.buffers.fill(|buffer| {
            let most = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
            let buffer = buffer.get_mut(..most).unwrap_or_default();
            let mut filled = 0;
            while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
                match pread(&self.file, rest, self.at + filled as u64) {
                    Ok(0) => break,
                    Ok(read) => filled += read,
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(filled)
        })?;
        self.at += bytes.len() as u64;
        Ok(bytes)
    }
}

impl Source for FileBytes {
    fn next(&mut self, _: &Root) -> Result<Option<Bytes>, FileError> {
        if self.end == Some(self.at) {
            return Ok(None);
        }
        let bytes = self.piece().map_err(FileError::at(Path::new("the file")))?;
        match (bytes.is_empty(), self.end) {
            (false, _) => Ok(Some(bytes)),
            (true, None) => Ok(None),
            (true, Some(end)) => Err(FileError::Shrunk {
                missing: end - self.at,
            }),
        }
    }
}
