//! Watching files: what changed, and whether anything did.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::SessionId;

/// What happened to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileChange {
    /// Something is there that was not, by making or by moving it in.
    Created,
    /// The bytes of a file were written or cut.
    Modified,
    /// It is gone with everything below it, by removing or by moving it out.
    Removed,
    /// It has another path now, with everything below it; what was there before is gone.
    Moved,
    /// Mode, owner, times or extended attributes.
    Attributes,
}

impl FileChange {
    /// The name on the wire, also that of the event.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Modified => "modified",
            Self::Removed => "removed",
            Self::Moved => "moved",
            Self::Attributes => "attributes",
        }
    }
}

/// Events `created`, `modified`, `removed`, `moved` and `attributes`. Their `id` is the version of the
/// watch after them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct FileEvent {
    /// What happened.
    pub change: FileChange,
    /// Absolute path; U+FFFD stands for bytes that are not UTF-8.
    pub path: String,
    /// The exact path, when it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// With `moved`: the former path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The exact former path, when it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_base64: Option<String>,
    /// Whether it is a directory.
    pub directory: bool,
    /// When the agent learnt of it.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
}

/// First event of a watch: from now on every change is told. Its `id` is `version`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WatchReadyEvent {
    /// The version the events go on from.
    pub version: u64,
    /// The absolute path that is watched.
    pub path: String,
    /// The exact path, when it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// Directories that are watched.
    pub directories: u64,
    /// What lies in them.
    pub entries: u64,
}

/// Why the events do not tell everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RescanReason {
    /// Changes came faster than they could be read from the kernel.
    Overflow,
    /// Changes after the given version are no longer kept.
    Dropped,
    /// The version is not one of this watch: it expired, or the agent was started again.
    UnknownVersion,
}

/// Event `rescan`: some changes are missing here. List the directory again; the events after this one
/// hold from then on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RescanEvent {
    /// Why.
    pub reason: RescanReason,
}

/// Why a watch is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WatchEndReason {
    /// What is watched was removed, or its path leads nowhere now.
    Removed,
    /// It was moved, or its path leads elsewhere now.
    Moved,
    /// Its file system was unmounted.
    Unmounted,
    /// A limit was reached: see `detail`.
    LimitReached,
    /// Something of ours failed.
    Failed,
}

/// Event `end`: the last one. A new watch may be begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WatchEndEvent {
    /// Why.
    pub reason: WatchEndReason,
    /// More about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// `POST /v1/files/changes`: has anything changed since a version?
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"path": "/workspace", "exclude": ["node_modules"], "since": 1_767_225_600_000_012_u64}))]
pub struct ChangesRequest {
    /// What to watch: a directory or a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Instead of `path`, for names that are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// Also everything below. True by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recursive: Option<bool>,
    /// Only files that match one of these globs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    /// Nothing that matches one of these globs, nor anything below it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// The version of an earlier answer or event. Without it, the answer gives one to begin with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// Relative paths start at this session's directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// Whose rights are used: a user name or uid; the sandbox's user by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// Whether something changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangesStatus {
    /// Nothing changed since that version.
    Unchanged,
    /// Something did; the events after it tell what.
    Changed,
    /// It cannot be told: list again, and go on from the version in this answer.
    Rescan,
}

/// Answer to `POST /v1/files/changes`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ChangesReply {
    /// Whether something changed.
    pub status: ChangesStatus,
    /// The version now. Whatever ended before the request is in it.
    pub version: u64,
    /// With `rescan`: why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<RescanReason>,
}
