//! The content of a file, in: complete or not at all.
//!
//! ```text
//! begin ─► write … write ─► finish: mode, owner, time ─► (fsync) ─► parents ─► name ─► (fsync)
//!     └────────┴──────────────┴─► dropped: nothing has changed
//! ```
//!
//! Pieces of the body are written on a thread of the inside while the next are gathered; no thread
//! waits for a slow sender. Appending writes to the file that is there and is the one thing in here
//! that is not all or nothing.

use std::io::{IoSlice, Write as _};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::stream::{Stream, StreamExt as _};
use rustix::fs::{
    Access, AtFlags, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT, Uid,
    accessat, fchmod, fchown, fstat, fsync, futimens,
};
use rustix::io::Errno;
use sandshell_exec::inside::{Inside, Root, Who};
use sandshell_types::{FileEntry, FileMode, Timestamp};

use crate::FileError;
use crate::entry::{Facts, entry_of};
use crate::place::{NewFile, Place, Replace};

/// Bytes, and pieces, that are gathered before a thread writes them.
const BATCH: usize = 1 << 20;
const PIECES: usize = 512;

/// Says whether the file may be written, from what is there now.
pub type Condition = Arc<dyn Fn(Option<&Facts>) -> bool + Send + Sync>;

/// What is to be written, and how.
#[derive(Clone)]
pub struct WriteSpec {
    /// Absolute.
    pub path: PathBuf,
    /// Make missing directories.
    pub parents: bool,
    /// Permission bits; those of the file that is there, else 0644.
    pub mode: Option<FileMode>,
    /// Time of modification; now.
    pub modified_at: Option<Timestamp>,
    /// Answer only when it is on the disk.
    pub durable: bool,
    /// Add to the file that is there.
    pub append: bool,
    /// Whether nothing may be there.
    pub new_only: bool,
    /// What must hold before.
    pub condition: Option<Condition>,
    /// The body is known to be small, so that all can be done at once when it is there.
    pub small: bool,
}

/// What was written.
#[derive(Debug)]
pub struct Written {
    /// The file.
    pub entry: FileEntry,
    /// Its ETag and size.
    pub facts: Facts,
    /// Whether there was none before.
    pub created: bool,
}

/// Writes a body to a file.
pub async fn write<E: From<FileError> + From<sandshell_exec::inside::InsideError>>(
    inside: &Inside,
    who: &Who,
    spec: WriteSpec,
    mut body: Pin<&mut (impl Stream<Item = Result<Bytes, E>> + Send)>,
) -> Result<Written, E> {
    let mut pieces = Vec::new();
    let mut ended = false;
    if spec.small {
        (pieces, ended) = gather(body.as_mut()).await?;
    }
    let begun = inside.run(who, move |root| {
        let mut upload = Upload::begin(root, spec)?;
        upload.write(&pieces)?;
        if ended {
            upload.finish(root).map(Step::Finished)
        } else {
            Ok::<_, FileError>(Step::Begun(upload))
        }
    });
    let mut upload = match begun.await?? {
        Step::Finished(written) => return Ok(written),
        Step::Begun(upload) => upload,
    };
    (pieces, ended) = gather(body.as_mut()).await?;
    while !ended {
        let writing = async {
            let writing = inside.run(who, move |_| {
                upload.write(&pieces)?;
                Ok::<_, FileError>(upload)
            });
            Ok::<_, E>(writing.await??)
        };
        // Whichever fails ends both at once.
        (upload, (pieces, ended)) = tokio::try_join!(writing, gather(body.as_mut()))?;
    }
    let finishing = inside.run(who, move |root| {
        upload.write(&pieces)?;
        upload.finish(root)
    });
    Ok(finishing.await??)
}

enum Step {
    Begun(Upload),
    Finished(Written),
}

/// The next pieces of a body, and whether it has ended.
async fn gather<E>(
    mut body: Pin<&mut (impl Stream<Item = Result<Bytes, E>> + Send)>,
) -> Result<(Vec<Bytes>, bool), E> {
    let mut pieces: Vec<Bytes> = Vec::new();
    let mut bytes = 0;
    while bytes < BATCH && pieces.len() < PIECES {
        let Some(piece) = body.next().await else {
            return Ok((pieces, true));
        };
        let piece = piece?;
        bytes += piece.len();
        pieces.push(piece);
    }
    Ok((pieces, false))
}

/// A file that is being written.
struct Upload {
    spec: WriteSpec,
    place: Place,
    before: Option<Stat>,
    file: Sink,
}

enum Sink {
    New(NewFile),
    Existing(std::fs::File),
}

impl Upload {
    fn begin(root: &Root, spec: WriteSpec) -> Result<Self, FileError> {
        let (place, before) = find(root, &spec)?;
        let failed = |errno| FileError::At {
            path: spec.path.clone(),
            errno,
        };
        let mode = wanted_mode(&spec, before.as_ref()).unwrap_or(Mode::from_raw_mode(0o666));
        let file = match (&before, spec.append) {
            (Some(_), true) => {
                let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = rustix::fs::openat(&place.dir, &place.name, flags, Mode::empty())
                    .and_then(|found| root.open(found, OFlags::WRONLY | OFlags::APPEND))
                    .map_err(failed)?;
                Sink::Existing(file.into())
            }
            _ => Sink::New(
                NewFile::make(
                    rustix::fd::AsFd::as_fd(&place.dir),
                    mode & !Mode::SUID & !Mode::SGID,
                )
                .map_err(failed)?,
            ),
        };
        Ok(Self {
            spec,
            place,
            before,
            file,
        })
    }

    fn write(&mut self, pieces: &[Bytes]) -> Result<(), FileError> {
        let mut file = match &self.file {
            Sink::New(new) => &new.file,
            Sink::Existing(file) => file,
        };
        let mut slices: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        let mut left: &mut [IoSlice<'_>] = &mut slices;
        IoSlice::advance_slices(&mut left, 0);
        while !left.is_empty() {
            match file.write_vectored(left) {
                Ok(written) => IoSlice::advance_slices(&mut left, written),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(errno_of(&error))),
            }
        }
        Ok(())
    }

    fn finish(self, root: &Root) -> Result<Written, FileError> {
        let path = self.spec.path.clone();
        match self.place_it(root) {
            Ok(written) => Ok(written),
            Err(Unplaced::Condition) => Err(FileError::Precondition { path }),
            Err(Unplaced::Errno(errno)) => Err(FileError::At { path, errno }),
        }
    }

    fn place_it(self, root: &Root) -> Result<Written, Unplaced> {
        let Self {
            spec,
            place,
            before,
            file,
        } = self;
        let handle = match &file {
            Sink::New(new) => new.file.try_clone(),
            Sink::Existing(file) => file.try_clone(),
        };
        let handle = handle.map_err(|error| errno_of(&error))?;
        if let (Some(before), Sink::New(_)) = (&before, &file) {
            keep_owner(&handle, before)?;
        }
        let mode = match file {
            Sink::New(_) => wanted_mode(&spec, before.as_ref()),
            Sink::Existing(_) => spec.mode.map(bits),
        };
        if let Some(mode) = mode {
            fchmod(&handle, mode)?;
        }
        if let Some(at) = spec.modified_at {
            futimens(&handle, &modification(at))?;
        }
        if spec.durable {
            fsync(&handle)?;
        }
        let created = match file {
            Sink::Existing(_) => false,
            Sink::New(new) => {
                let made = place.make_missing()?;
                let placed = place_new(root, &spec, &place, new, made.last());
                if placed.is_err() {
                    made.take_back();
                } else if spec.durable {
                    made.sync(root)?;
                }
                placed?
            }
        };
        Ok(Written {
            facts: Facts::new(&fstat(&handle)?),
            entry: entry_of(root, &spec.path, &handle)?,
            created,
        })
    }

    fn failed(&self, errno: Errno) -> FileError {
        FileError::At {
            path: self.spec.path.clone(),
            errno,
        }
    }
}

enum Unplaced {
    Condition,
    Errno(Errno),
}

impl From<Errno> for Unplaced {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

/// Two conditional writes of one file must not both find it as it was.
static CONDITIONAL: Mutex<()> = Mutex::new(());

fn place_new(
    root: &Root,
    spec: &WriteSpec,
    place: &Place,
    new: NewFile,
    dir: std::os::fd::BorrowedFd<'_>,
) -> Result<bool, Unplaced> {
    if spec.new_only {
        return match new.place(root, dir, &place.name, Replace::No) {
            Err(Errno::EXIST) => Err(Unplaced::Condition),
            placed => Ok(placed?),
        };
    }
    let _one_at_a_time = spec
        .condition
        .as_ref()
        .map(|_| CONDITIONAL.lock().unwrap_or_else(PoisonError::into_inner));
    if let Some(condition) = &spec.condition {
        let now = match place.what_is_there(root) {
            Ok(stat) => Some(Facts::new(&stat)),
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(errno.into()),
        };
        if !condition(now.as_ref()) {
            return Err(Unplaced::Condition);
        }
    }
    Ok(new.place(root, dir, &place.name, Replace::Yes)?)
}

/// Finds where the file is to be, and looks at what is there.
fn find(root: &Root, spec: &WriteSpec) -> Result<(Place, Option<Stat>), FileError> {
    let path = &spec.path;
    let place = Place::through_links(root, path, spec.parents).map_err(FileError::at(path))?;
    let before = match place.what_is_there(root) {
        Ok(stat) => Some(stat),
        Err(Errno::NOENT) => None,
        Err(errno) => return Err(FileError::at(path)(errno)),
    };
    let facts = before.as_ref().map(Facts::new);
    let refused = spec.new_only && facts.is_some()
        || spec
            .condition
            .as_ref()
            .is_some_and(|condition| !condition(facts.as_ref()));
    if refused {
        return Err(FileError::Precondition { path: path.clone() });
    }
    if let Some(stat) = &before {
        let usable = match FileType::from_raw_mode(stat.st_mode) {
            // Its directory could be enough to replace it, but whoever made it read-only meant it.
            FileType::RegularFile => {
                accessat(&place.dir, &place.name, Access::WRITE_OK, AtFlags::EACCESS)
            }
            FileType::Directory => Err(Errno::ISDIR),
            _ => Err(Errno::NXIO),
        };
        usable.map_err(FileError::at(path))?;
    }
    Ok((place, before))
}

/// The bits that are set in the end, if not those a new file gets.
fn wanted_mode(spec: &WriteSpec, before: Option<&Stat>) -> Option<Mode> {
    let kept = before.map(|stat| Mode::from_raw_mode(stat.st_mode & 0o1777));
    spec.mode.map(bits).or(kept)
}

pub(crate) fn bits(mode: FileMode) -> Mode {
    Mode::from_raw_mode(mode.bits())
}

/// The new file belongs to whom the old one did, where that can be.
fn keep_owner(file: &std::fs::File, before: &Stat) -> Result<(), Errno> {
    let now = fstat(file)?;
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid) {
        let (uid, gid) = (Uid::from_raw(before.st_uid), Gid::from_raw(before.st_gid));
        // Only root may give files away; others at most to a group of theirs.
        if fchown(file, Some(uid), Some(gid)).is_err() {
            let _ = fchown(file, None, Some(gid));
        }
    }
    Ok(())
}

fn modification(at: Timestamp) -> Timestamps {
    let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
    Timestamps {
        last_access: time(0, UTIME_OMIT),
        // Before 1970 jiff counts both parts down, the kernel only the seconds.
        last_modification: time(
            at.as_nanosecond().div_euclid(1_000_000_000) as i64,
            at.as_nanosecond().rem_euclid(1_000_000_000) as i64,
        ),
    }
}

fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
