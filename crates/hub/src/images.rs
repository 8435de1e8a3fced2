//! Images: root file systems kept under a name.
//!
//! ```text
//! STATE/images/NAME/root        the files, which never change
//! STATE/images/NAME/image.json  the record
//! STATE/images/.ID              one that is being made or removed
//! ```
//!
//! Owns the directory and which images there are. An image is made in a hidden directory and gets its
//! name by one rename, so that there is all of it or nothing; what a killed hub left hidden is removed
//! at the next start. Does not own who may import (`api`) or how a sandbox is made of one (`isolate`).
//!
//! ```text
//! body ─► decompress ─► tar ─► extract ─► a root? ───────────────────────► NAME
//!                                     └► layers? ─► checked, merged in order ┘
//! ```
//!
//! Invariants: the files of an image that a sandbox is made of neither change nor go; nothing of an
//! archive is ever opened but beneath the image's own root; all that blocks is done where it may.

mod copy;
mod error;
mod extract;
mod import;
mod layers;
mod tree;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Mode, OFlags, RenameFlags, open, renameat_with};
use rustix::io::Errno;
use sandshell_types::{ImageName, ImageRecord, SandboxId, Timestamp};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use copy::{copy_directory, is_of_kernel};
pub use error::ImageError;
pub use import::{Imported, import};

use crate::error::HubError;

/// Most bytes of an image, and of an archive of layers.
pub const MAX_BYTES: u64 = 64 << 30;
/// Most files, links and directories in it.
pub const MAX_ENTRIES: u64 = 4_000_000;
/// Most directories, whose attributes are kept until the end.
pub const MAX_DIRECTORIES: usize = 500_000;
/// Most directories above one another.
pub const MAX_DEPTH: usize = 256;
/// Most layers of an image.
pub const MAX_LAYERS: usize = 256;
/// Most images of a hub.
pub const MAX_IMAGES: usize = 1000;

/// Imports that are worked on at a time; further ones wait.
const AT_A_TIME: usize = 2;

/// The root of an image in its directory.
pub const ROOT: &str = "root";
const RECORD: &str = "image.json";

/// The images of a hub.
#[derive(Debug)]
pub(crate) struct Images {
    path: PathBuf,
    dir: OwnedFd,
    known: Mutex<BTreeMap<ImageName, ImageRecord>>,
    work: Arc<Semaphore>,
}

/// A directory that goes away unless it gets a name.
struct Hidden<'a> {
    images: &'a Images,
    name: String,
}

impl Images {
    /// Those in the state directory of a hub. What is left of an import that did not end is removed.
    pub(crate) fn open(state: &Path) -> io::Result<Self> {
        let path = state.join("images");
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = open(&path, flags, Mode::empty())?;
        let mut known = BTreeMap::new();
        for entry in fs::read_dir(&path)? {
            let entry = entry?;
            let name = entry.file_name();
            let record = fs::read(entry.path().join(RECORD)).ok();
            let record: Option<ImageRecord> =
                record.and_then(|text| serde_json::from_slice(&text).ok());
            match record {
                Some(record) if name == record.name.as_str() => {
                    known.insert(record.name.clone(), record);
                }
                // Sandboxes that outlived a hub may still be made of it, and a later version may read it.
                _ if !name.as_encoded_bytes().starts_with(b".") => {
                    tracing::warn!(?name, "an image cannot be read and is left alone");
                }
                _ => {
                    tracing::info!(?name, "removing what is left of an image");
                    if let Err(errno) = tree::remove(dir.as_fd(), &name) {
                        tracing::warn!(%errno, ?name, "it is not wholly removed");
                    }
                }
            }
        }
        Ok(Self {
            path,
            dir,
            known: Mutex::new(known),
            work: Arc::new(Semaphore::new(AT_A_TIME)),
        })
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<ImageName, ImageRecord>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A turn at making one.
    pub(crate) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.work).acquire_owned().await.ok()
    }

    /// All of them, by name.
    pub(crate) fn records(&self) -> Vec<ImageRecord> {
        self.known().values().cloned().collect()
    }

    pub(crate) fn find(&self, name: &str) -> Result<ImageRecord, HubError> {
        let known = self.known();
        known.get(name).cloned().ok_or_else(|| {
            let known = known.keys().map(ToString::to_string).collect();
            HubError::ImageNotFound {
                name: name.to_owned(),
                known,
            }
        })
    }

    /// The directory of an image's files.
    pub(crate) fn root_of(&self, name: &ImageName) -> PathBuf {
        self.path.join(name.as_str()).join(ROOT)
    }

    /// Whether a directory of the machine has ours in it.
    pub(crate) fn lies_in(&self, directory: &Path) -> bool {
        self.path.starts_with(directory)
    }

    /// Makes an image of what `make` puts into a directory, in place of the one with its name unless
    /// that is in use. The flag tells whether there was none. Blocks.
    pub(crate) fn add(
        &self,
        name: &ImageName,
        user: impl Fn() -> Option<SandboxId>,
        make: impl FnOnce(&Path) -> Result<Imported, ImageError>,
    ) -> Result<(ImageRecord, bool), HubError> {
        self.check_room(&self.known(), name, &user)?;
        let hidden = Hidden::new(self)?;
        let at = self.path.join(&hidden.name);
        let imported = make(&at)?;
        let (files, size_bytes) = tree::measure(&at.join(ROOT)).map_err(ImageError::at("."))?;
        let record = ImageRecord {
            name: name.clone(),
            size_bytes,
            files,
            skipped: imported.skipped,
            digest: imported.digest,
            config: imported.config,
            created_at: Timestamp::now(),
        };
        let text = serde_json::to_vec_pretty(&record).map_err(io::Error::other);
        let written = text.and_then(|text| fs::write(at.join(RECORD), text));
        written.map_err(|error| ImageError::from_io(RECORD, &error))?;
        // A name is for what is on the disk. All at once: it may be many files.
        rustix::fs::syncfs(&self.dir).map_err(ImageError::at("images"))?;
        let mut known = self.known();
        self.check_room(&known, name, &user)?;
        let fresh = !known.contains_key(name);
        let way = if fresh {
            RenameFlags::NOREPLACE
        } else {
            // The old one has the hidden name then, and goes with it.
            RenameFlags::EXCHANGE
        };
        renameat_with(&self.dir, &hidden.name, &self.dir, name.as_str(), way)
            .map_err(ImageError::at(name.as_str()))?;
        known.insert(name.clone(), record.clone());
        drop(known);
        rustix::fs::fsync(&self.dir).map_err(ImageError::at("images"))?;
        Ok((record, fresh))
    }

    /// Removes an image that nobody uses. Blocks.
    pub(crate) fn remove(
        &self,
        name: &str,
        user: impl Fn() -> Option<SandboxId>,
    ) -> Result<ImageRecord, HubError> {
        let record = self.find(name)?;
        let hidden = Hidden::new(self)?;
        let mut known = self.known();
        // With the table held: a sandbox is in the registry before it asks for its image.
        if let Some(by) = user() {
            return Err(HubError::ImageInUse {
                name: record.name,
                by,
            });
        }
        let way = RenameFlags::EXCHANGE;
        renameat_with(&self.dir, name, &self.dir, &hidden.name, way)
            .and_then(|()| rustix::fs::unlinkat(&self.dir, name, rustix::fs::AtFlags::REMOVEDIR))
            .map_err(ImageError::at(name))?;
        known.remove(name);
        Ok(record)
    }

    fn check_room(
        &self,
        known: &BTreeMap<ImageName, ImageRecord>,
        name: &ImageName,
        user: &impl Fn() -> Option<SandboxId>,
    ) -> Result<(), HubError> {
        if known.contains_key(name) {
            return user().map_or(Ok(()), |by| {
                let name = name.clone();
                Err(HubError::ImageInUse { name, by })
            });
        }
        if known.len() >= MAX_IMAGES {
            return Err(HubError::Quota {
                detail: format!("there are {MAX_IMAGES} images already"),
            });
        }
        Ok(())
    }
}

impl<'a> Hidden<'a> {
    fn new(images: &'a Images) -> Result<Self, HubError> {
        let mut random = [0_u8; 8];
        getrandom::fill(&mut random).map_err(HubError::Random)?;
        let name = format!(".{}", crate::hex(&random));
        rustix::fs::mkdirat(&images.dir, &name, Mode::RWXU).map_err(ImageError::at("images"))?;
        Ok(Self { images, name })
    }
}

impl Drop for Hidden<'_> {
    fn drop(&mut self) {
        match tree::remove(self.images.dir.as_fd(), OsStr::new(&self.name)) {
            // It got a name.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => tracing::warn!(%errno, "an image is not wholly removed"),
        }
    }
}
