//! Files: what is there, what is to be done with it.
//!
//! Paths are text. Names that are not UTF-8 come with a `*_base64` field beside the text, which then
//! only shows them; requests take either.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{ErrorCode, SessionId};

/// Permission bits. On the wire octal text such as `"0644"`; a number is taken as the bits themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, utoipa::ToSchema)]
#[schema(value_type = String, example = "0644", pattern = "^(0o)?[0-7]{1,5}$")]
pub struct FileMode(u16);

impl FileMode {
    /// The bits, from 0 to 07777.
    pub fn new(bits: u32) -> Option<Self> {
        u16::try_from(bits)
            .ok()
            .filter(|bits| *bits <= 0o7777)
            .map(Self)
    }

    /// The bits.
    pub fn bits(self) -> u32 {
        self.0.into()
    }
}

impl std::fmt::Display for FileMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

impl std::str::FromStr for FileMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.strip_prefix("0o").unwrap_or(text);
        let octal = (1..=5).contains(&digits.len())
            && digits.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
        octal
            .then(|| u32::from_str_radix(digits, 8).ok().and_then(Self::new))
            .flatten()
            .ok_or_else(|| format!("{text:?} is not a mode: octal digits up to 7777 are"))
    }
}

impl Serialize for FileMode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for FileMode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = FileMode;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a mode: octal text such as \"0644\", or the bits as a number")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<FileMode, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_u64<E: serde::de::Error>(self, bits: u64) -> Result<FileMode, E> {
                u32::try_from(bits)
                    .ok()
                    .and_then(FileMode::new)
                    .ok_or_else(|| E::custom(format!("{bits} is more than the bits of a mode")))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A block device.
    BlockDevice,
    /// A character device.
    CharDevice,
    /// Something the agent does not know.
    Unknown,
}

/// One file, directory or other thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(example = json!({
    "name": "notes.txt", "path": "/workspace/notes.txt", "kind": "file", "size": 12, "mode": "0644",
    "uid": 1000, "gid": 1000, "owner": "user", "group": "user",
    "modified_at": "2026-01-01T00:00:00Z"
}))]
pub struct FileEntry {
    /// The last name of the path.
    pub name: String,
    /// The name's bytes, when they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_base64: Option<String>,
    /// The absolute path.
    pub path: String,
    /// The path's bytes, when they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// What it is.
    pub kind: FileKind,
    /// Bytes in it.
    pub size: u64,
    /// Its permission bits.
    pub mode: FileMode,
    /// Id of its owner.
    pub uid: u32,
    /// Id of its group.
    pub gid: u32,
    /// Name of its owner, when it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Name of its group, when it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// When its content was last changed.
    #[schema(value_type = String, format = DateTime)]
    pub modified_at: jiff::Timestamp,
    /// Where a symbolic link leads, as it is written in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_target: Option<String>,
    /// The link's bytes, when they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_target_base64: Option<String>,
    /// In a recursive list: why what is in this directory could not be listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorCode>,
}

/// `POST /v1/files/mkdir`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"path": "/workspace/a/b", "exist_ok": true}))]
pub struct MkdirRequest {
    /// The directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Instead of `path`, for names that are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// Make what is missing above it; true by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parents: Option<bool>,
    /// Be content with a directory that is there already; false by default.
    #[serde(default)]
    pub exist_ok: bool,
    /// Its permission bits; 0755 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<FileMode>,
    /// Whose rights are used: a user name or uid; the sandbox's user by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Relative paths start at this session's directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub session: Option<SessionId>,
}

/// `POST /v1/files/move`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"from": "/workspace/a", "to": "/workspace/b"}))]
pub struct MoveRequest {
    /// What is moved. A symbolic link is moved itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Instead of `from`, for names that are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_base64: Option<String>,
    /// Its new path; never a directory to put it in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Instead of `to`, for names that are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_base64: Option<String>,
    /// Replace a file or an empty directory that is there; false by default.
    #[serde(default)]
    pub overwrite: bool,
    /// Make missing directories above `to`; true by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parents: Option<bool>,
    /// Whose rights are used: a user name or uid; the sandbox's user by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Relative paths start at this session's directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub session: Option<SessionId>,
}

/// `POST /v1/files/copy`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"from": "/workspace/a", "to": "/workspace/b", "recursive": true}))]
pub struct CopyRequest {
    /// What is copied. A symbolic link here is followed; those below a directory are copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Instead of `from`, for names that are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_base64: Option<String>,
    /// The path of the copy; never a directory to put it in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Instead of `to`, for names that are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_base64: Option<String>,
    /// Needed for a directory.
    #[serde(default)]
    pub recursive: bool,
    /// Replace a file or an empty directory that is there; false by default.
    #[serde(default)]
    pub overwrite: bool,
    /// Make missing directories above `to`; true by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parents: Option<bool>,
    /// Whose rights are used: a user name or uid; the sandbox's user by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Relative paths start at this session's directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub session: Option<SessionId>,
}

/// What was copied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CopyReply {
    /// The copy.
    pub entry: FileEntry,
    /// Files, directories and links made.
    pub copied: u64,
    /// Bytes of files copied.
    pub bytes: u64,
}

/// `POST /v1/files/remove`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"path": "/workspace/build", "recursive": true, "missing_ok": true}))]
pub struct RemoveRequest {
    /// What is removed. A symbolic link is removed itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Instead of `path`, for names that are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// Needed for a directory that is not empty.
    #[serde(default)]
    pub recursive: bool,
    /// Be content when there is nothing; false by default.
    #[serde(default)]
    pub missing_ok: bool,
    /// Whose rights are used: a user name or uid; the sandbox's user by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Relative paths start at this session's directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub session: Option<SessionId>,
}

/// What was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RemoveReply {
    /// Files, directories and links removed.
    pub removed: u64,
}

/// `POST /v1/files/chmod`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"path": "/workspace/run.sh", "mode": "0755"}))]
pub struct ChmodRequest {
    /// What is changed. A symbolic link is followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Instead of `path`, for names that are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// The permission bits: octal text such as `"0755"`, or the bits as a number (493).
    pub mode: FileMode,
    /// Also everything below; symbolic links are left alone. False by default.
    #[serde(default)]
    pub recursive: bool,
    /// Whose rights are used: a user name or uid; the sandbox's user by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Relative paths start at this session's directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub session: Option<SessionId>,
}

/// What was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ChmodReply {
    /// Files and directories changed.
    pub changed: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_octal_text_or_bits() {
        let mode = |json: &str| serde_json::from_str::<FileMode>(json).map(FileMode::bits);
        for (json, bits) in [
            ("\"0644\"", 0o644),
            ("\"755\"", 0o755),
            ("\"0o7777\"", 0o7777),
            ("420", 0o644),
        ] {
            assert_eq!(mode(json).ok(), Some(bits), "{json}");
        }
        for json in [
            "\"\"",
            "\"8\"",
            "\"+7\"",
            "\"10000\"",
            "\"u+x\"",
            "4096",
            "-1",
            "1.5",
            "null",
        ] {
            assert!(mode(json).is_err(), "{json}");
        }
        let shown = serde_json::to_string(&FileMode::new(0o755).unwrap()).unwrap();
        assert_eq!(shown, "\"0755\"");
    }
}
