//! The image of `sandshell run`: a directory as it is, or an archive that is unpacked for this run.

use std::fs::File;
use std::path::{Path, PathBuf};

use sandshell_client::types::ImageConfig;
use sandshell_hub::images;
use sandshell_isolate::plan::Ids;
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;

/// The directory of the root, made below that of this run unless it is there, and what the image says
/// about commands.
pub(super) fn open(
    path: &Path,
    directory: &Path,
    ids: Ids,
) -> Result<(PathBuf, ImageConfig), Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        let failure = Failure::usage(format!("cannot use the image {}: {error}", path.display()));
        failure.code(125)
    };
    // Whoever opens it stands elsewhere.
    let found = path.canonicalize().map_err(|error| {
        failed(&error).hint("give a directory or a tar file; names are known to a server only")
    })?;
    if found.is_dir() {
        return Ok((found, ImageConfig::default()));
    }
    let file = File::open(&found).map_err(|error| failed(&error))?;
    let imported = images::import(file, directory, &CancellationToken::new());
    let mut config = imported.map_err(|error| failed(&error))?.config;
    if ids == Ids::Own {
        // There is one user only.
        config.user = None;
    }
    Ok((directory.join(images::ROOT), config))
}
