//! Tar archives in and out.

use serde::{Deserialize, Serialize};

/// The form of an archive that is given out. What comes in is recognised by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub enum ArchiveFormat {
    /// Not compressed.
    #[default]
    #[serde(rename = "tar")]
    Tar,
    /// Compressed with gzip.
    #[serde(rename = "tar.gz")]
    TarGz,
    /// Compressed with zstd.
    #[serde(rename = "tar.zst")]
    TarZst,
}

impl ArchiveFormat {
    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tar => "tar",
            Self::TarGz => "tar.gz",
            Self::TarZst => "tar.zst",
        }
    }

    /// Its media type.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Tar => "application/x-tar",
            Self::TarGz => "application/gzip",
            Self::TarZst => "application/zstd",
        }
    }
}

/// What came out of an archive, or went into one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ArchiveCounts {
    /// Regular files, hard links included.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Bytes in the files.
    pub bytes: u64,
    /// Entries passed over: FIFOs, sockets and devices, and what could not be read when that was
    /// allowed.
    pub skipped: u64,
}
