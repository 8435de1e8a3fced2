//! The image of `sandshell run`: a directory as it is, or an archive that is unpacked for this run.

use std::fs::File;
use std::path::{Path, PathBuf};

use sandshell_client::types::ImageConfig;
use sandshell_hub::images;
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;

/// A root, and what it says about commands.
pub(super) struct Image {
    pub(super) root: PathBuf,
    pub(super) config: ImageConfig,
}

/// Finds it, or makes it below the directory of this run.
pub(super) fn open(path: &Path, directory: &Path) -> Result<Image, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        let failure = Failure::usage(format!("cannot use the image {}: {error}", path.display()));
        failure.code(125)
    };
    // Whoever reads it later stands elsewhere.
    let root = path.canonicalize().map_err(|error| {
        failed(&error).hint("give a directory or a tar file; names are known to a server only")
    })?;
    if root.is_dir() {
        let config = ImageConfig::default();
        return Ok(Image { root, config });
    }
    let file = File::open(&root).map_err(|error| failed(&error))?;
    let imported = images::import(file, directory, &CancellationToken::new());
    let imported = imported.map_err(|error| failed(&error))?;
    Ok(Image {
        root: directory.join(images::ROOT),
        config: imported.config,
    })
}
