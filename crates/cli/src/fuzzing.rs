//! Doors for the fuzz targets (`fuzz/`): readers of bytes from outside that nobody else needs to reach.
//! Each is one call and adds nothing.

use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::config::{Settings, Surroundings, TokenPlace};
use crate::connection::Remote;
pub use crate::detach::{Detach, Keys};
pub use crate::terminal_screen::Replay;
pub use crate::values::{bytes, duration, quoted};

/// What was settled, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// The hub's address, and where it came from.
    pub url: (String, String),
    /// Whether a token goes along: the one that was given, or a file.
    pub token: Option<Option<PathBuf>>,
    /// What is wrong and does not stop us.
    pub warnings: Vec<String>,
}

/// Settles every value from the files in a directory (the user's in its `sandshell`), flags and the
/// environment; the message when they are refused.
pub fn settings(
    directory: &Path,
    variable: fn(&str) -> Option<String>,
    url: Option<String>,
    hub: Option<String>,
) -> Result<Settled, String> {
    let remote = Remote {
        hub,
        url,
        ..Remote::default()
    };
    let surroundings = Surroundings {
        variable,
        directory: directory.to_owned(),
    };
    let settings = Settings::read_in(&remote, &surroundings).map_err(|failure| failure.line())?;
    Ok(Settled {
        url: (settings.url.value, settings.url.origin.to_string()),
        token: settings.token.map(|token| match token.value {
            TokenPlace::Given(_) => None,
            TokenPlace::File(path) => Some(path),
        }),
        warnings: settings.warnings,
    })
}

/// Unpacks what `cp` got of a sandbox.
pub fn unpack(archive: Vec<u8>, target: &Path) -> io::Result<()> {
    let (sender, receiver) = mpsc::channel(1);
    let _ = sender.try_send(Bytes::from(archive));
    drop(sender);
    crate::copy::unpack(receiver, target)
}
