//! What is in a directory, or in all below it.
//!
//! The order is that of the walk: names by their bytes, what is in a directory right after it. A
//! cursor is the path of the last entry given, from the directory that is listed, so that a list goes
//! on at the right place whatever was made or removed meanwhile. Nothing is gathered beyond a page,
//! or a piece of a stream.

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use bytes::Bytes;
use rustix::fs::{FileType, OFlags, readlinkat};
use rustix::io::Errno;
use sandshell_exec::inside::{Follow, Root};
use sandshell_types::{ErrorCode, FileEntry, List, Room};

use crate::FileError;
use crate::entry::Owners;
use crate::stream::Source;
use crate::tree::Tree;

/// A piece of a stream is sent when it has this many bytes.
const PIECE: usize = 256 * 1024;

/// What is to be listed.
#[derive(Debug, Clone)]
pub struct ListSpec {
    /// The directory, absolute.
    pub path: PathBuf,
    /// Also what is in its directories.
    pub recursive: bool,
    /// Also names that begin with a dot.
    pub hidden: bool,
}

/// A list in progress.
#[derive(Debug)]
pub struct Listing {
    spec: ListSpec,
    tree: Tree,
    owners: Owners,
    /// Of the current directory.
    path: PathBuf,
}

impl Listing {
    /// Opens the directory.
    pub fn open(root: &Root, spec: ListSpec) -> Result<Self, FileError> {
        let path: PathBuf = spec.path.components().collect();
        let tree = root
            .find(&path, Follow::Yes)
            .and_then(|found| root.open(found, OFlags::RDONLY | OFlags::DIRECTORY))
            .map_err(|errno| match errno {
                // Not a directory, whatever else it is.
                Errno::NXIO => Errno::NOTDIR,
                errno => errno,
            })
            .and_then(Tree::new)
            .map_err(FileError::at(&path))?;
        let tree = if spec.hidden {
            tree
        } else {
            tree.without_hidden()
        };
        Ok(Self {
            spec,
            tree,
            owners: Owners::default(),
            path,
        })
    }

    /// Goes on after the entry with this path.
    fn resume(&mut self, cursor: &str) -> Result<(), FileError> {
        let wrong = || FileError::invalid("/cursor", "this is not a cursor of a list of files");
        let bytes = BASE64.decode(cursor).map_err(|_| wrong())?;
        let path = Path::new(OsStr::from_bytes(&bytes));
        let mut names = path.components().peekable();
        if names.peek().is_none() || bytes.contains(&0) {
            return Err(wrong());
        }
        while let Some(name) = names.next() {
            let Component::Normal(name) = name else {
                return Err(wrong());
            };
            self.tree.skip_to(name);
            if !self.spec.recursive && names.peek().is_some() {
                return Err(wrong());
            }
            // What is no directory any more has nothing left to give.
            if !self.spec.recursive || self.enter(name).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn enter(&mut self, name: &OsStr) -> Result<(), Errno> {
        self.tree.enter(name)?;
        self.path.push(name);
        Ok(())
    }

    /// The next entry.
    fn next_entry(&mut self, root: &Root) -> Result<Option<FileEntry>, FileError> {
        loop {
            let Some(next) = self.tree.next().map_err(FileError::at(&self.path))? else {
                let left = self.tree.leave().map_err(FileError::at(&self.path))?;
                if left.is_none() {
                    return Ok(None);
                }
                self.path.pop();
                continue;
            };
            let stat = match root.stat_at(self.tree.dir(), &next.name) {
                Ok(stat) => stat,
                // Removed since its name was read.
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(FileError::at(&self.path.join(&next.name))(errno)),
            };
            let kind = FileType::from_raw_mode(stat.st_mode);
            let target = match kind {
                FileType::Symlink => readlinkat(self.tree.dir(), &next.name, Vec::new()).ok(),
                _ => None,
            };
            let target = target.as_ref().map(|target| target.to_bytes());
            self.path.push(&next.name);
            let mut entry = self.owners.entry(root, &self.path, &stat, target);
            self.path.pop();
            if self.spec.recursive && kind == FileType::Directory {
                match self.enter(&next.name) {
                    // Or another thing has its name by now.
                    Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                    Err(Errno::ACCESS | Errno::PERM) => {
                        entry.error = Some(ErrorCode::PermissionDenied);
                    }
                    Err(_) => entry.error = Some(ErrorCode::Unavailable),
                }
            }
            return Ok(Some(entry));
        }
    }

    /// Where the walk is after an entry: the cursor that goes on there.
    fn cursor(&self, entry: &FileEntry) -> Result<String, FileError> {
        let absolute = match &entry.path_base64 {
            Some(base64) => base64::engine::general_purpose::STANDARD
                .decode(base64)
                .map_err(|_| FileError::invalid("/cursor", "a name cannot be encoded"))?,
            None => entry.path.as_bytes().to_vec(),
        };
        let absolute = Path::new(OsStr::from_bytes(&absolute));
        let base: PathBuf = self.spec.path.components().collect();
        let relative = absolute.strip_prefix(base).unwrap_or(absolute);
        Ok(BASE64.encode(relative.as_os_str().as_bytes()))
    }
}

/// One page of a list.
pub fn page(
    root: &Root,
    spec: ListSpec,
    limit: usize,
    cursor: Option<&str>,
) -> Result<List<FileEntry>, FileError> {
    let mut listing = Listing::open(root, spec)?;
    if let Some(cursor) = cursor {
        listing.resume(cursor)?;
    }
    let mut items = Vec::new();
    let mut next_cursor = None;
    let mut room = Room::of_page(limit);
    while let Some(entry) = listing.next_entry(root)? {
        if room.is_full() {
            next_cursor = items.last().map(|last| listing.cursor(last)).transpose()?;
            break;
        }
        room.take(&entry);
        items.push(entry);
    }
    Ok(List { items, next_cursor })
}

/// One JSON object on each line.
impl Source for Listing {
    fn next(&mut self, root: &Root) -> Result<Option<Bytes>, FileError> {
        let mut lines = Vec::with_capacity(PIECE + PIECE / 8);
        while lines.len() < PIECE
            && let Some(entry) = self.next_entry(root)?
        {
            serde_json::to_writer(&mut lines, &entry)
                .map_err(std::io::Error::from)
                .and_then(|()| lines.write_all(b"\n"))
                .map_err(|_| FileError::at(&self.path)(Errno::NOMEM))?;
        }
        Ok((!lines.is_empty()).then(|| lines.into()))
    }
}
