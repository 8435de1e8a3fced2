//! Images: root file systems that a hub keeps under a name.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// Why a string is not the name of an image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the name of an image has 1 to {longest} lower-case letters, digits, '.', '_' and '-', and begins with \
     a letter or digit",
    longest = ImageName::LONGEST
)]
pub struct ImageNameError;

/// The name of an image. It is one name of a path, never hidden and never above.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schema(value_type = String, pattern = "^[a-z0-9][a-z0-9._-]{0,62}$")]
pub struct ImageName(String);

impl ImageName {
    /// Most characters of a name.
    pub const LONGEST: usize = 63;

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ImageName {
    type Err = ImageNameError;
    fn from_str(text: &str) -> Result<Self, ImageNameError> {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let rest = |b: u8| plain(b) || b"._-".contains(&b);
        let fine = text.len() <= Self::LONGEST
            && text.bytes().next().is_some_and(plain)
            && text.bytes().all(rest);
        if fine {
            Ok(Self(text.to_owned()))
        } else {
            Err(ImageNameError)
        }
    }
}

impl TryFrom<String> for ImageName {
    type Error = ImageNameError;
    fn try_from(text: String) -> Result<Self, ImageNameError> {
        text.parse()
    }
}

impl From<ImageName> for String {
    fn from(name: ImageName) -> String {
        name.0
    }
}

impl std::borrow::Borrow<str> for ImageName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `POST /v1/images`: a directory of the hub's machine becomes an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"name": "debian", "directory": "/srv/roots/debian"}))]
pub struct ImageRequest {
    /// Its name from then on.
    pub name: ImageName,
    /// The directory, which is copied.
    pub directory: String,
}

/// What an image says about the commands that run in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ImageConfig {
    /// Environment of every command, below the sandbox's own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Who commands run as, unless the sandbox says otherwise: a name or number, and `:GROUP` perhaps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Where commands start, unless the sandbox says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
    /// What is run when nothing else is asked for, after the entry point.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cmd: Vec<String>,
    /// What is run when nothing else is asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entrypoint: Vec<String>,
}

/// An image as the hub knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(example = json!({
    "name": "alpine", "size_bytes": 8_300_000, "files": 520, "skipped": 0,
    "config": {"env": {"PATH": "/usr/bin:/bin"}, "cmd": ["/bin/sh"]},
    "created_at": "2026-01-01T00:00:00Z"
}))]
pub struct ImageRecord {
    /// Its name.
    pub name: ImageName,
    /// Bytes of its files.
    pub size_bytes: u64,
    /// Files and links in it, without directories.
    pub files: u64,
    /// Device nodes, sockets and FIFOs that were left out.
    pub skipped: u64,
    /// The digest of its manifest, or of its configuration where there is no manifest; left out for a
    /// plain root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// What it says about commands.
    pub config: ImageConfig,
    /// When it was imported.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_plain_part_of_a_path() {
        let long = "a".repeat(63);
        for good in ["a", "0", "alpine-3.20", "a..b", "a_b", &long] {
            assert!(good.parse::<ImageName>().is_ok(), "{good}");
        }
        let longer = "a".repeat(64);
        for bad in [
            "", ".", "..", ".a", "-a", "A", "a/b", "a:b", "é", "a b", &longer,
        ] {
            assert!(bad.parse::<ImageName>().is_err(), "{bad}");
        }
    }
}
