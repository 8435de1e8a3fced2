//! Makes a tar archive of a tree.
//!
//! Owns what an entry looks like: ustar headers, with PAX records for exact times and for long names.
//! A file that is hard-linked more than once in the tree is stored once, unless copies are asked for. FIFOs, sockets and devices
//! are passed over and counted.

use std::cell::Cell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Stat, fstat, readlinkat};
use rustix::io::Errno;
use sandshell_exec::inside::{Follow, Root};
use sandshell_types::ArchiveCounts;
use tar::{EntryType, Header};

use super::reader::time_text;
use super::{MAX_BYTES, Progress};
use crate::walk::{Entry, Globs, Next, Visitor, WalkOptions, below, walk};
use crate::{FileError, Stop};

const BLOCK: usize = 512;
const BUFFER: usize = 128 << 10;

/// Longest name in a header; longer ones stand in a PAX record.
const NAME_BYTES: usize = 100;

/// Largest size that every reader finds in a header.
const PLAIN_SIZE: u64 = 1 << 33;

/// Most hard-linked files that are remembered; of further ones each name gets a copy.
const MAX_LINKS: usize = 100_000;

/// What goes into an archive.
#[derive(Debug, Clone, Default)]
pub struct PackRules {
    /// Globs of what is left out.
    pub exclude: Vec<String>,
    /// Leave out what .gitignore files say; `.git` itself is kept.
    pub gitignore: bool,
    /// Pass over what cannot be read.
    pub skip_unreadable: bool,
    /// Each name of a hard-linked file gets a copy.
    pub copy_links: bool,
}

/// A checked wish for an archive.
#[derive(Debug)]
pub struct Pack {
    start: PathBuf,
    options: WalkOptions,
    skip_unreadable: bool,
    copy_links: bool,
}

impl Pack {
    /// Checks the rules; `start` is an absolute path.
    pub fn new(start: PathBuf, rules: &PackRules) -> Result<Self, FileError> {
        Ok(Self {
            start,
            options: WalkOptions {
                exclude: Globs::new(&rules.exclude, "/exclude")?,
                gitignore: rules.gitignore,
                skip_git: false,
                hidden: true,
                max_depth: None,
            },
            skip_unreadable: rules.skip_unreadable,
            copy_links: rules.copy_links,
        })
    }

    /// Fails as packing would at once: nothing there, no directory, no right to read it.
    pub fn check(&self, root: &Root) -> Result<(), FileError> {
        let at = || FileError::at(&self.start);
        let found = root.find(&self.start, Follow::Yes).map_err(at())?;
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
        root.open(found, flags).map(drop).map_err(at())
    }

    /// Writes the archive; on an inside thread.
    pub fn run<W: Write>(
        &self,
        root: &Root,
        output: &mut W,
        stop: &Stop,
        progress: Progress<'_>,
    ) -> Result<ArchiveCounts, FileError> {
        let mut packing = Packing {
            root,
            pack: self,
            output,
            stop,
            progress,
            links: HashMap::new(),
            buffer: vec![0; BUFFER],
            counts: ArchiveCounts::default(),
        };
        packing.top()?;
        walk(root, &self.start, &self.options, &mut packing)?;
        packing.put(&[0; 2 * BLOCK])?;
        Ok(packing.counts)
    }
}

struct Packing<'a, W> {
    root: &'a Root,
    pack: &'a Pack,
    output: &'a mut W,
    stop: &'a Stop,
    progress: Progress<'a>,
    /// Where a file with several names was stored.
    links: HashMap<(u64, u64), PathBuf>,
    buffer: Vec<u8>,
    counts: ArchiveCounts,
}

impl<W: Write> Visitor for Packing<'_, W> {
    fn entry(&mut self, entry: &Entry<'_>) -> Result<Next, FileError> {
        if self.stop.is_over() {
            return Err(self.broken_off());
        }
        match self.pack_entry(entry) {
            Err(FileError::At { errno, path }) => self.cannot_read(path, errno)?,
            other => other?,
        }
        (self.progress)(&self.counts);
        Ok(Next::Go)
    }

    fn unreadable(&mut self, path: &Path, errno: Errno) -> Result<(), FileError> {
        self.cannot_read(below(&self.pack.start, path), errno)
    }
}

impl<W: Write> Packing<'_, W> {
    fn broken_off(&self) -> FileError {
        FileError::At {
            path: self.pack.start.clone(),
            errno: Errno::CANCELED,
        }
    }

    fn cannot_read(&mut self, path: PathBuf, errno: Errno) -> Result<(), FileError> {
        match errno {
            // It went away before it was looked at.
            Errno::NOENT => Ok(()),
            Errno::ACCESS | Errno::PERM if self.pack.skip_unreadable => {
                self.counts.skipped += 1;
                Ok(())
            }
            errno => Err(FileError::At { path, errno }),
        }
    }

    /// The directory itself, so that its mode comes back.
    fn top(&mut self) -> Result<(), FileError> {
        let start = &self.pack.start;
        let found = self.root.find(start, Follow::Yes);
        let stat = found.and_then(fstat).map_err(FileError::at(start))?;
        let mut header = head(EntryType::Directory, &stat);
        self.put_header(&mut header, b"./", None, &stat)
    }

    fn pack_entry(&mut self, entry: &Entry<'_>) -> Result<(), FileError> {
        let path = below(&self.pack.start, entry.path);
        let at = || FileError::at(&path);
        let name = entry.path.as_os_str().as_bytes();
        match entry.kind {
            FileType::RegularFile => {
                let file = match entry.open(self.root) {
                    Ok(file) => file,
                    // It became something else since its directory was read.
                    Err(Errno::NXIO | Errno::LOOP) => return Ok(()),
                    Err(errno) => return Err(at()(errno)),
                };
                let stat = fstat(&file).map_err(at())?;
                if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
                    return Ok(());
                }
                self.file(entry, &stat, file.into(), &path)
            }
            FileType::Directory => {
                let stat = entry.stat(self.root).map_err(at())?;
                let mut header = head(EntryType::Directory, &stat);
                self.put_header(&mut header, &[name, b"/"].concat(), None, &stat)?;
                self.counts.directories += 1;
                Ok(())
            }
            FileType::Symlink => {
                let stat = entry.stat(self.root).map_err(at())?;
                let target = match readlinkat(entry.dir(), entry.name, Vec::new()) {
                    Ok(target) => target,
                    Err(Errno::INVAL) => return Ok(()),
                    Err(errno) => return Err(at()(errno)),
                };
                let mut header = head(EntryType::Symlink, &stat);
                self.put_header(&mut header, name, Some(target.as_bytes()), &stat)?;
                self.counts.symlinks += 1;
                Ok(())
            }
            _ => {
                self.counts.skipped += 1;
                Ok(())
            }
        }
    }

    fn file(
        &mut self,
        entry: &Entry<'_>,
        stat: &Stat,
        mut file: File,
        path: &Path,
    ) -> Result<(), FileError> {
        let name = entry.path.as_os_str().as_bytes();
        let inode = (stat.st_dev, stat.st_ino);
        if stat.st_nlink > 1 && !self.pack.copy_links {
            if let Some(first) = self.links.get(&inode) {
                let first = first.clone();
                let mut header = head(EntryType::Link, stat);
                let target = first.as_os_str().as_bytes();
                self.put_header(&mut header, name, Some(target), stat)?;
                self.counts.files += 1;
                return Ok(());
            }
            if self.links.len() < MAX_LINKS {
                self.links.insert(inode, entry.path.to_owned());
            }
        }
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        let mut header = head(EntryType::Regular, stat);
        header.set_size(size);
        // The first bytes are read before the header goes out: a file that cannot be read at all is
        // then not in the archive.
        let mut buffer = std::mem::take(&mut self.buffer);
        let result = self.content(&mut file, size, &mut header, name, stat, path, &mut buffer);
        self.buffer = buffer;
        result
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one step of `file`, split for its buffer"
    )]
    fn content(
        &mut self,
        file: &mut File,
        size: u64,
        header: &mut Header,
        name: &[u8],
        stat: &Stat,
        path: &Path,
        buffer: &mut [u8],
    ) -> Result<(), FileError> {
        let mut left = size;
        let begun = Cell::new(false);
        loop {
            let most = usize::try_from(left)
                .unwrap_or(usize::MAX)
                .min(buffer.len());
            let read = if most == 0 {
                0
            } else {
                match file.read(buffer.get_mut(..most).unwrap_or_default()) {
                    // It became shorter while it was read. What is missing is not invented.
                    Ok(0) => return Err(unreadable(path, Errno::STALE, begun.get())),
                    Ok(read) => read,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => {
                        let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                        return Err(unreadable(path, errno, begun.get()));
                    }
                }
            };
            if !begun.replace(true) {
                self.put_header(header, name, None, stat)?;
            }
            self.put_slice(buffer.get(..read).unwrap_or_default())?;
            self.counts.bytes += read as u64;
            left -= read as u64;
            if left == 0 {
                break;
            }
            if self.stop.is_over() {
                return Err(self.broken_off());
            }
            if self.counts.bytes > MAX_BYTES {
                // It could not be taken in again.
                return Err(unreadable(path, Errno::FBIG, true));
            }
            (self.progress)(&self.counts);
        }
        let used = usize::try_from(size % BLOCK as u64).unwrap_or(0);
        if used > 0 {
            self.put_slice([0_u8; BLOCK].get(used..).unwrap_or_default())?;
        }
        self.counts.files += 1;
        Ok(())
    }

    /// Writes a header, with PAX records before it when they are needed.
    fn put_header(
        &mut self,
        header: &mut Header,
        name: &[u8],
        link: Option<&[u8]>,
        stat: &Stat,
    ) -> Result<(), FileError> {
        let mut records = Vec::new();
        let nanoseconds = i64::try_from(stat.st_mtime_nsec).unwrap_or(0);
        if nanoseconds != 0 || stat.st_mtime < 0 {
            let time = time_text(stat.st_mtime, nanoseconds);
            record(&mut records, "mtime", time.as_bytes());
        }
        if name.len() > NAME_BYTES {
            record(&mut records, "path", name);
        }
        if let Some(link) = link
            && link.len() > NAME_BYTES
        {
            record(&mut records, "linkpath", link);
        }
        let size = header.entry_size().unwrap_or(0);
        if size >= PLAIN_SIZE {
            record(&mut records, "size", size.to_string().as_bytes());
        }
        if !records.is_empty() {
            let mut extension = Header::new_ustar();
            extension.set_entry_type(EntryType::XHeader);
            extension.set_mode(0o644);
            extension.set_size(records.len() as u64);
            fill(&mut extension.as_old_mut().name, b"pax");
            extension.set_cksum();
            self.put(extension.as_bytes())?;
            records.resize(records.len().next_multiple_of(BLOCK), 0);
            self.put_slice(&records)?;
        }
        let old = header.as_old_mut();
        fill(&mut old.name, name);
        fill(&mut old.linkname, link.unwrap_or_default());
        header.set_cksum();
        self.put(header.as_bytes())
    }

    fn put<const N: usize>(&mut self, bytes: &[u8; N]) -> Result<(), FileError> {
        self.put_slice(bytes)
    }

    fn put_slice(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        self.output.write_all(bytes).map_err(|error| {
            // The output is not the user's: a pipe to a client, or a file of the agent's.
            let errno = match error.kind() {
                io::ErrorKind::BrokenPipe | io::ErrorKind::TimedOut => Errno::CANCELED,
                _ => Errno::from_io_error(&error).unwrap_or(Errno::IO),
            };
            FileError::Output { errno }
        })
    }
}

/// A file that cannot be read to its end. Once its header is out, it cannot be passed over any more.
fn unreadable(path: &Path, errno: Errno, begun: bool) -> FileError {
    let errno = match errno {
        Errno::ACCESS | Errno::PERM if begun => Errno::IO,
        errno => errno,
    };
    FileError::At {
        path: path.to_owned(),
        errno,
    }
}

fn head(kind: EntryType, stat: &Stat) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(stat.st_mode & 0o7777);
    header.set_uid(stat.st_uid.into());
    header.set_gid(stat.st_gid.into());
    header.set_mtime(u64::try_from(stat.st_mtime).unwrap_or(0));
    header.set_size(0);
    header
}

fn fill(field: &mut [u8; NAME_BYTES], bytes: &[u8]) {
    field.fill(0);
    for (to, from) in field.iter_mut().zip(bytes) {
        *to = *from;
    }
}

/// Adds a PAX record, whose length counts the digits of the length, too.
fn record(records: &mut Vec<u8>, key: &str, value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    records.extend_from_slice(format!("{length} {key}=").as_bytes());
    records.extend_from_slice(value);
    records.push(b'\n');
}
