//! What is said of one file: its entry, and its ETag.
//!
//! Owns the names of users and groups for the length of one call. They are read from the sandbox's
//! own /etc/passwd and /etc/group, with the rights of the call.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use rustix::fs::{FileType, OFlags, Stat, readlinkat};
use rustix::io::Errno;
use sandshell_exec::inside::{Follow, Root};
use sandshell_types::{FileEntry, FileKind, FileMode, Timestamp};

use crate::FileError;

/// More of an account file is not looked at.
const ACCOUNTS: usize = 1 << 20;

/// What tells one content of a file from another, and when it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// A strong ETag, quotes included: file, size, and the two times that every change touches.
    pub etag: String,
    /// Bytes in it.
    pub size: u64,
    /// When it was last modified, in whole seconds since 1970.
    pub modified: i64,
}

impl Facts {
    pub(crate) fn new(stat: &Stat) -> Self {
        let etag = format!(
            "\"{:x}-{:x}-{:x}.{:x}-{:x}.{:x}\"",
            stat.st_ino,
            stat.st_size,
            stat.st_mtime,
            stat.st_mtime_nsec,
            stat.st_ctime,
            stat.st_ctime_nsec
        );
        Self {
            etag,
            size: stat.st_size.cast_unsigned(),
            modified: stat.st_mtime,
        }
    }
}

/// What is at a path; see [`stat`].
#[derive(Debug, Clone)]
pub struct StatSpec {
    /// Absolute.
    pub path: std::path::PathBuf,
    /// Whether a link at its end is followed.
    pub follow: bool,
}

/// Looks at one path.
pub fn stat(root: &Root, spec: &StatSpec) -> Result<FileEntry, FileError> {
    let follow = if spec.follow { Follow::Yes } else { Follow::No };
    let found = root
        .find(&spec.path, follow)
        .map_err(FileError::at(&spec.path))?;
    entry_of(root, &spec.path, &found).map_err(FileError::at(&spec.path))
}

/// The entry of what was found or opened.
pub(crate) fn entry_of(root: &Root, path: &Path, found: impl AsFd) -> Result<FileEntry, Errno> {
    let stat = rustix::fs::fstat(&found)?;
    let target = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => Some(readlinkat(&found, "", Vec::new())?),
        _ => None,
    };
    let target = target.as_ref().map(|target| target.to_bytes());
    Ok(Owners::default().entry(root, path, &stat, target))
}

pub(crate) fn kind(kind: FileType) -> FileKind {
    match kind {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        FileType::Fifo => FileKind::Fifo,
        FileType::Socket => FileKind::Socket,
        FileType::BlockDevice => FileKind::BlockDevice,
        FileType::CharacterDevice => FileKind::CharDevice,
        FileType::Unknown => FileKind::Unknown,
    }
}

/// Names of users and groups, read when the first one is asked for.
#[derive(Debug, Default)]
pub(crate) struct Owners(Option<[HashMap<u32, String>; 2]>);

impl Owners {
    pub(crate) fn entry(
        &mut self,
        root: &Root,
        path: &Path,
        stat: &Stat,
        link_target: Option<&[u8]>,
    ) -> FileEntry {
        let [users, groups] = self.0.get_or_insert_with(|| {
            ["/etc/passwd", "/etc/group"].map(|path| accounts(root, path).unwrap_or_default())
        });
        let (name, name_base64) = shown(path.file_name().unwrap_or(OsStr::new("/")).as_bytes());
        let (path, path_base64) = shown_path(path);
        let (link_target, link_target_base64) = match link_target.map(shown) {
            Some((text, base64)) => (Some(text), base64),
            None => (None, None),
        };
        FileEntry {
            name,
            name_base64,
            path,
            path_base64,
            kind: kind(FileType::from_raw_mode(stat.st_mode)),
            size: stat.st_size.cast_unsigned(),
            mode: FileMode::new(stat.st_mode & 0o7777).unwrap_or_default(),
            uid: stat.st_uid,
            gid: stat.st_gid,
            owner: users.get(&stat.st_uid).cloned(),
            group: groups.get(&stat.st_gid).cloned(),
            modified_at: modified_at(stat),
            link_target,
            link_target_base64,
            error: None,
        }
    }
}

fn modified_at(stat: &Stat) -> Timestamp {
    // A file system may hold times that no calendar has.
    Timestamp::new(
        stat.st_mtime,
        i32::try_from(stat.st_mtime_nsec).unwrap_or(0),
    )
    .unwrap_or(Timestamp::UNIX_EPOCH)
}

/// A path as text, and as base64 too when it is no text.
pub(crate) fn shown_path(path: &Path) -> (String, Option<String>) {
    shown(path.as_os_str().as_bytes())
}

/// Bytes as text, and as base64 too when they are no text.
pub(crate) fn shown(bytes: &[u8]) -> (String, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (text.to_owned(), None),
        Err(_) => (
            String::from_utf8_lossy(bytes).into_owned(),
            Some(BASE64.encode(bytes)),
        ),
    }
}

/// The names by number in a file of lines such as `name:x:number:…`.
fn accounts(root: &Root, path: &str) -> Result<HashMap<u32, String>, Errno> {
    let found = root.find(Path::new(path), Follow::Yes)?;
    let file = root.open(&found, OFlags::RDONLY)?;
    let mut text = vec![0; ACCOUNTS];
    let mut length = 0;
    while let Some(rest) = text.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match rustix::io::read(&file, rest)? {
            0 => break,
            read => length += read,
        }
    }
    text.truncate(length);
    let text = String::from_utf8_lossy(&text);
    let mut names = HashMap::new();
    for line in text.lines() {
        let mut fields = line.split(':');
        if let (Some(name), _, Some(id)) = (fields.next(), fields.next(), fields.next())
            && let Ok(id) = id.parse()
        {
            names.entry(id).or_insert_with(|| name.to_owned());
        }
    }
    Ok(names)
}
