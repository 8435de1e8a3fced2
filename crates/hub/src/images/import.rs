//! From an archive to an image: what it is is known by its content.
//!
//! An archive is unpacked as it comes, for the documents that tell an archive of layers from a root may
//! be its last entries. If it was a root, that is the image; else its layers are merged into one.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{Read, Seek as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use sandshell_files::archive::{Head, Reader, decompress};
use sandshell_types::ImageConfig;
use tokio_util::sync::CancellationToken;

use super::extract::{Extraction, check_size};
use super::layers::{self, Hashing, Layer, Layered};
use super::{ImageError, ROOT};

/// Where an archive of layers is while they are merged.
const ARCHIVE: &str = "archive";

/// Names in a layer that begin so take away what is below.
const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";

/// What is known of an image besides its files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Imported {
    /// What it says about commands.
    pub config: ImageConfig,
    /// Its digest, if it has one.
    pub digest: Option<String>,
    /// Device nodes, sockets and FIFOs that were left out.
    pub skipped: u64,
}

/// Makes an image of a tar archive, in `root` below a directory: `docker export` or another root,
/// `docker save`, or an OCI layout, each plain or compressed with gzip or zstd. After a failure the
/// directory is to be removed. Blocks.
pub fn import(
    input: impl Read,
    at: &Path,
    stop: &CancellationToken,
) -> Result<Imported, ImageError> {
    match unpack(input, at, stop) {
        // Whatever it was that failed.
        Err(_) if stop.is_cancelled() => Err(ImageError::BrokenOff),
        imported => imported,
    }
}

fn unpack(input: impl Read, at: &Path, stop: &CancellationToken) -> Result<Imported, ImageError> {
    let root = at.join(ROOT);
    let mut extraction = Extraction::new(&root, stop)?;
    let mut reader = Reader::of_root(decompress(input)?);
    while let Some(head) = reader.next()? {
        extraction.put(head, &mut |buffer| Ok(reader.content(buffer)?))?;
    }
    if extraction.is_empty() {
        return Err(ImageError::invalid("there is nothing in it"));
    }
    let Some(layered) = layers::find(extraction.top())? else {
        let skipped = extraction.skipped;
        extraction.finish()?;
        return Ok(Imported {
            skipped,
            ..Imported::default()
        });
    };
    let archive = at.join(ARCHIVE);
    fs::rename(&root, &archive).map_err(|error| ImageError::from_io(ROOT, &error))?;
    let imported = merge(&extraction, layered, &root, stop)?;
    fs::remove_dir_all(archive).map_err(|error| ImageError::from_io(ARCHIVE, &error))?;
    Ok(imported)
}

fn merge(
    archive: &Extraction<'_>,
    layered: Layered,
    root: &Path,
    stop: &CancellationToken,
) -> Result<Imported, ImageError> {
    let Layered {
        layers,
        config,
        digest,
    } = layered;
    let mut merged = Extraction::new(root, stop)?;
    for layer in &layers {
        let mut file = layer.open(archive.top(), stop)?;
        take_away(&mut merged, layer, &file, stop).map_err(|error| named(error, layer))?;
        file.rewind()
            .map_err(|error| ImageError::from_io(&layer.path, &error))?;
        add(&mut merged, &file).map_err(|error| named(error, layer))?;
    }
    let skipped = merged.skipped;
    merged.finish()?;
    Ok(Imported {
        config,
        digest,
        skipped,
    })
}

/// Removes what a layer takes away. Its own entries come later, so that nothing of them is removed in
/// whatever order they are; and by then it is known to be whole.
fn take_away(
    merged: &mut Extraction<'_>,
    layer: &Layer,
    file: &File,
    stop: &CancellationToken,
) -> Result<(), ImageError> {
    let mut reader = Reader::of_root(Hashing::new(decompress(file)?, stop));
    let mut gone = Vec::new();
    let (mut entries, mut bytes) = (0, 0);
    while let Some(head) = reader.next()? {
        (entries, bytes) = (entries + 1, bytes + head.size);
        check_size(entries, bytes)?;
        merged.check_stop()?;
        let taken = whiteout(&head);
        if taken.is_some() && head.path.as_os_str().len() > LONGEST_PATH {
            return Err(ImageError::invalid("a whiteout's name is too long"));
        }
        gone.extend(taken);
    }
    layer.check(&reader.into_inner().digest())?;
    for Whiteout { directory, name } in gone {
        merged.remove(&directory, name.as_deref())?;
    }
    Ok(())
}

fn add(merged: &mut Extraction<'_>, file: &File) -> Result<(), ImageError> {
    let mut reader = Reader::of_root(decompress(file)?);
    while let Some(head) = reader.next()? {
        if whiteout(&head).is_none() {
            merged.put(head, &mut |buffer| Ok(reader.content(buffer)?))?;
        }
    }
    Ok(())
}

/// The kernel takes no longer one.
const LONGEST_PATH: usize = 4096;

/// Something that is gone: a name in a directory, or all that is in it.
struct Whiteout {
    directory: PathBuf,
    name: Option<OsString>,
}

fn whiteout(head: &Head) -> Option<Whiteout> {
    let whole = head.path.file_name()?.as_bytes();
    let name = whole.strip_prefix(WHITEOUT)?;
    Some(Whiteout {
        directory: head.path.parent()?.to_owned(),
        name: (whole != OPAQUE).then(|| OsStr::from_bytes(name).to_owned()),
    })
}

/// Says which layer is broken.
fn named(error: ImageError, layer: &Layer) -> ImageError {
    match error {
        ImageError::Invalid { reason } => ImageError::Invalid {
            reason: format!("the layer {}: {reason}", layer.path.display()),
        },
        other => other,
    }
}
