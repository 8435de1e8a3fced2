//! Reads the entries of a tar archive, strictly.
//!
//! Owns the format: ustar, GNU long names, PAX records. An archive must have its end mark, two blocks
//! of zeros, with nothing but zeros behind it: one that was cut off anywhere is refused. Names and
//! PAX records are bounded; sparse files are refused, since they come without their true size.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::Timespec;
use tar::{EntryType, Header};

use super::codec::broken;
use crate::FileError;

const BLOCK: usize = 512;

/// Longest name or set of PAX records.
const MAX_EXTENSION: u64 = 1 << 20;

/// Most names and records before one entry: an archive of nothing else would be read for ever.
const MAX_BEFORE: u32 = 16;

/// Zeros behind the end mark: tools pad up to their block size.
const MAX_PADDING: u64 = 64 << 20;

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// With content.
    File,
    /// A directory.
    Directory,
    /// To this text.
    Symlink(Vec<u8>),
    /// To this path in the archive.
    HardLink(PathBuf),
    /// A FIFO or a device.
    Special,
}

/// One entry without its content.
#[derive(Debug, Clone)]
pub struct Head {
    /// Made of plain names only; empty for the top directory.
    pub path: PathBuf,
    /// What it is.
    pub kind: Kind,
    /// All bits of its mode.
    pub mode: u32,
    /// Whose it is.
    pub uid: u64,
    /// Whose group.
    pub gid: u64,
    /// When its content last changed.
    pub modified: Timespec,
    /// Bytes of its content.
    pub size: u64,
}

/// What stands before an entry and holds for it.
#[derive(Debug, Default)]
struct Extensions {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    uid: Option<u64>,
    gid: Option<u64>,
    modified: Option<Timespec>,
}

/// Reads entry by entry.
pub struct Reader<R> {
    input: R,
    /// Whether names may begin with a slash, which then stands for the top.
    rooted: bool,
    /// Bytes of the current entry's content that have not been read, and its padding.
    left: u64,
    padding: u64,
}

fn invalid(reason: impl Into<String>) -> FileError {
    FileError::Archive {
        reason: reason.into(),
    }
}

impl<R: Read> Reader<R> {
    /// Of bytes that are not compressed.
    pub fn new(input: R) -> Self {
        Self {
            input,
            rooted: false,
            left: 0,
            padding: 0,
        }
    }

    /// The same for the root of a file system, in which absolute names mean what they say.
    pub fn of_root(input: R) -> Self {
        Self {
            rooted: true,
            ..Self::new(input)
        }
    }

    /// What it read from.
    pub fn into_inner(self) -> R {
        self.input
    }

    /// The next entry; `None` at a proper end.
    #[allow(
        clippy::should_implement_trait,
        reason = "the content is read between two entries"
    )]
    pub fn next(&mut self) -> Result<Option<Head>, FileError> {
        let mut extensions = Extensions::default();
        let mut before = 0;
        loop {
            self.skip_rest()?;
            let Some(header) = self.header()? else {
                if before > 0 {
                    return Err(invalid("it ends within an entry"));
                }
                return Ok(None);
            };
            let size = header.entry_size().map_err(|error| broken(&error))?;
            match header.entry_type() {
                EntryType::XHeader => {
                    let records = self.extension(size)?;
                    pax(&records, &mut extensions)?;
                }
                EntryType::XGlobalHeader => {
                    let mut global = Extensions::default();
                    pax(&self.extension(size)?, &mut global)?;
                    if global.path.is_some() || global.link.is_some() || global.size.is_some() {
                        return Err(invalid("a global record names a path or a size"));
                    }
                }
                EntryType::GNULongName => {
                    let name = self.extension(size)?;
                    extensions.path.get_or_insert(until_nul(name));
                }
                EntryType::GNULongLink => {
                    let name = self.extension(size)?;
                    extensions.link.get_or_insert(until_nul(name));
                }
                _ => return self.entry(&header, size, extensions).map(Some),
            }
            before += 1;
            if before > MAX_BEFORE {
                return Err(invalid("too many records stand before an entry"));
            }
        }
    }

    fn entry(
        &mut self,
        header: &Header,
        size: u64,
        extensions: Extensions,
    ) -> Result<Head, FileError> {
        let name = extensions
            .path
            .unwrap_or_else(|| header.path_bytes().into_owned());
        let shown = String::from_utf8_lossy(&name).into_owned();
        let link = || {
            let link = extensions
                .link
                .clone()
                .or_else(|| header.link_name_bytes().map(Into::into))
                .filter(|link| !link.is_empty());
            link.ok_or_else(|| invalid(format!("the link {shown:?} has no target")))
        };
        let kind = match header.entry_type() {
            EntryType::Regular | EntryType::Continuous => {
                // Before there was a type for directories, a slash at the end told them.
                if name.ends_with(b"/") {
                    Kind::Directory
                } else {
                    Kind::File
                }
            }
            EntryType::Directory => Kind::Directory,
            EntryType::Symlink => Kind::Symlink(link()?),
            EntryType::Link => Kind::HardLink(self.plain(&link()?)?),
            EntryType::Fifo | EntryType::Char | EntryType::Block => Kind::Special,
            EntryType::GNUSparse => {
                return Err(invalid(format!(
                    "{shown:?} is a sparse entry, which is not taken"
                )));
            }
            other => {
                return Err(invalid(format!(
                    "{shown:?} has the unknown type {:?}",
                    char::from(other.as_byte())
                )));
            }
        };
        let size = extensions.size.unwrap_or(size);
        if size > super::MAX_BYTES {
            return Err(invalid(format!("{shown:?} says it has {size} bytes")));
        }
        self.left = size;
        self.padding = size.next_multiple_of(BLOCK as u64) - size;
        let path = self.plain(&name)?;
        if path.as_os_str().is_empty() && kind != Kind::Directory {
            return Err(invalid(format!("an entry has the name {shown:?}")));
        }
        Ok(Head {
            path,
            kind,
            mode: header.mode().map_err(|error| broken(&error))?,
            // Some tools leave these fields empty.
            uid: extensions.uid.or(header.uid().ok()).unwrap_or_default(),
            gid: extensions.gid.or(header.gid().ok()).unwrap_or_default(),
            modified: match extensions.modified {
                Some(modified) => modified,
                None => Timespec {
                    tv_sec: i64::try_from(header.mtime().map_err(|error| broken(&error))?)
                        .map_err(|_| invalid(format!("{shown:?} has an impossible time")))?,
                    tv_nsec: 0,
                },
            },
            size,
        })
    }

    fn plain(&self, name: &[u8]) -> Result<PathBuf, FileError> {
        match name {
            [b'/', rest @ ..] if self.rooted && !rest.is_empty() => self.plain(rest),
            [b'/'] if self.rooted => Ok(PathBuf::new()),
            name => plain(name),
        }
    }

    /// Reads the content of the current entry.
    pub fn content(&mut self, buffer: &mut [u8]) -> Result<usize, FileError> {
        let most = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        if most == 0 {
            return Ok(0);
        }
        let room = buffer.get_mut(..most).unwrap_or_default();
        let read = read_some(&mut self.input, room)?;
        if read == 0 {
            return Err(invalid("it ends within a file"));
        }
        self.left -= read as u64;
        Ok(read)
    }

    /// The next header; `None` at the end mark.
    fn header(&mut self) -> Result<Option<Header>, FileError> {
        let mut header = Header::new_old();
        self.block(header.as_mut_bytes())?;
        if is_zero(header.as_bytes()) {
            let mut second = [0_u8; BLOCK];
            self.block(&mut second)?;
            if !is_zero(&second) {
                return Err(invalid("there is a lone block of zeros in it"));
            }
            self.nothing_more()?;
            return Ok(None);
        }
        let bytes = header.as_bytes();
        let sum = bytes
            .iter()
            .enumerate()
            .map(|(at, byte)| match at {
                148..156 => u32::from(b' '),
                _ => u32::from(*byte),
            })
            .sum::<u32>();
        match header.cksum() {
            Ok(expected) if expected == sum => Ok(Some(header)),
            _ => Err(invalid(
                "the checksum of a header is wrong, or it is no tar archive",
            )),
        }
    }

    fn block(&mut self, block: &mut [u8; BLOCK]) -> Result<(), FileError> {
        let mut filled = 0;
        while filled < BLOCK {
            let room = block.get_mut(filled..).unwrap_or_default();
            match read_some(&mut self.input, room)? {
                0 => return Err(invalid("it ends without its end mark")),
                read => filled += read,
            }
        }
        Ok(())
    }

    fn nothing_more(&mut self) -> Result<(), FileError> {
        let mut buffer = [0_u8; 16 << 10];
        let mut padding = 0;
        loop {
            let read = read_some(&mut self.input, &mut buffer)?;
            if read == 0 {
                return Ok(());
            }
            padding += read as u64;
            if padding > MAX_PADDING || !is_zero(buffer.get(..read).unwrap_or_default()) {
                return Err(invalid("there is something behind its end mark"));
            }
        }
    }

    /// Passes over what has not been read of the current entry.
    fn skip_rest(&mut self) -> Result<(), FileError> {
        self.left += std::mem::take(&mut self.padding);
        let mut buffer = [0_u8; 16 << 10];
        while self.content(&mut buffer)? > 0 {}
        Ok(())
    }

    fn extension(&mut self, size: u64) -> Result<Vec<u8>, FileError> {
        if size > MAX_EXTENSION {
            return Err(invalid(format!(
                "a name or record of {size} bytes is too long"
            )));
        }
        self.left = size;
        self.padding = size.next_multiple_of(BLOCK as u64) - size;
        let mut bytes = vec![0_u8; usize::try_from(size).unwrap_or(0)];
        let mut filled = 0;
        while filled < bytes.len() {
            filled += self.content(bytes.get_mut(filled..).unwrap_or_default())?;
        }
        Ok(bytes)
    }
}

fn read_some(input: &mut impl Read, buffer: &mut [u8]) -> Result<usize, FileError> {
    loop {
        match input.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read.map_err(|error| broken(&error)),
        }
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

fn until_nul(mut bytes: Vec<u8>) -> Vec<u8> {
    if let Some(end) = bytes.iter().position(|byte| *byte == 0) {
        bytes.truncate(end);
    }
    bytes
}

/// A path made of plain names only. Anything that could lead elsewhere is refused, not mended: whoever
/// wrote it meant something else than we would do.
fn plain(name: &[u8]) -> Result<PathBuf, FileError> {
    let shown = || String::from_utf8_lossy(name);
    if name.contains(&0) {
        return Err(invalid(format!("the name {:?} has a NUL in it", shown())));
    }
    let mut path = PathBuf::new();
    for component in Path::new(OsStr::from_bytes(name)).components() {
        match component {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(invalid(format!(
                    "the entry {:?} would leave the directory",
                    shown()
                )));
            }
        }
    }
    if name.is_empty() {
        return Err(invalid("an entry has no name"));
    }
    Ok(path)
}

/// Takes in PAX records: `length key=value\n`, the length counting itself.
fn pax(mut records: &[u8], extensions: &mut Extensions) -> Result<(), FileError> {
    let bad = || invalid("a PAX record is not well-formed");
    while !records.is_empty() {
        let space = records
            .iter()
            .position(|byte| *byte == b' ')
            .ok_or_else(bad)?;
        let digits = records.get(..space).unwrap_or_default();
        let length: usize = std::str::from_utf8(digits)
            .ok()
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()))
            .and_then(|digits| digits.parse().ok())
            .ok_or_else(bad)?;
        let record = records.get(space + 1..length).ok_or_else(bad)?;
        let record = record.strip_suffix(b"\n").ok_or_else(bad)?;
        let equals = record
            .iter()
            .position(|byte| *byte == b'=')
            .ok_or_else(bad)?;
        let (key, value) = record.split_at(equals);
        let value = value.get(1..).unwrap_or_default();
        match key {
            b"path" => extensions.path = Some(value.to_vec()),
            b"linkpath" => extensions.link = Some(value.to_vec()),
            b"size" => extensions.size = Some(number(value).ok_or_else(bad)?),
            b"uid" => extensions.uid = Some(number(value).ok_or_else(bad)?),
            b"gid" => extensions.gid = Some(number(value).ok_or_else(bad)?),
            b"mtime" => extensions.modified = Some(time(value).ok_or_else(bad)?),
            key if key.starts_with(b"GNU.sparse.") => {
                return Err(invalid("it has a sparse entry, which is not taken"));
            }
            _ => {}
        }
        records = records.get(length..).unwrap_or_default();
    }
    Ok(())
}

fn number(value: &[u8]) -> Option<u64> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// Seconds with a fraction, which may be negative.
fn time(value: &[u8]) -> Option<Timespec> {
    let text = std::str::from_utf8(value).ok()?;
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole: i64 = seconds.parse().ok()?;
    if !fraction.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let digits = fraction.get(..fraction.len().min(9))?;
    let nanoseconds: i64 = format!("{digits:0<9}").parse().ok()?;
    Some(if seconds.starts_with('-') && nanoseconds > 0 {
        Timespec {
            tv_sec: whole.checked_sub(1)?,
            tv_nsec: 1_000_000_000 - nanoseconds,
        }
    } else {
        Timespec {
            tv_sec: whole,
            tv_nsec: nanoseconds,
        }
    })
}

/// The same as text.
pub(super) fn time_text(seconds: i64, nanoseconds: i64) -> String {
    if seconds < 0 && nanoseconds > 0 {
        // Counted back from the next second.
        let whole = seconds + 1;
        let sign = if whole == 0 { "-" } else { "" };
        format!("{sign}{whole}.{:09}", 1_000_000_000 - nanoseconds)
    } else {
        format!("{seconds}.{nanoseconds:09}")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn times_are_the_same_after_the_way_through_text() {
        for (seconds, nanoseconds) in [
            (0, 0),
            (1, 999_999_999),
            (-1, 0),
            (-1, 1),
            (-2, 500_000_000),
            (4_000_000_000, 7),
        ] {
            let text = time_text(seconds, nanoseconds);
            let read = time(text.as_bytes()).unwrap();
            assert_eq!(
                (read.tv_sec, read.tv_nsec),
                (seconds, nanoseconds),
                "{text}"
            );
        }
    }

    #[test]
    fn only_plain_names_are_paths() {
        assert_eq!(plain(b"./a//b/").unwrap(), Path::new("a/b"));
        assert_eq!(plain(b"./").unwrap(), Path::new(""));
        for bad in [&b"/a"[..], b"../a", b"a/../b", b"a/..", b"", b"a\0b"] {
            assert!(plain(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_slash_is_the_top_of_a_root() {
        let reader = Reader::of_root(io::empty());
        assert_eq!(reader.plain(b"//usr/bin").unwrap(), Path::new("usr/bin"));
        assert_eq!(reader.plain(b"/").unwrap(), Path::new(""));
        assert!(reader.plain(b"/../a").is_err());
    }

    #[test]
    fn records_that_lie_about_their_length_are_refused() {
        for bad in ["", "5 a=\n", "99 a=b\n", "x a=b\n", "6 a=bc", "2 \n"] {
            let mut extensions = Extensions::default();
            let result = pax(bad.as_bytes(), &mut extensions);
            assert_eq!(
                result.is_err(),
                !bad.is_empty() && bad != "5 a=\n",
                "{bad:?}"
            );
        }
    }
}
