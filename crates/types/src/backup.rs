//! Backups: saved directory trees.

use serde::{Deserialize, Serialize};

use crate::{ArchiveCounts, BackupId, SessionId};

/// `POST /v1/backups`: saves the tree at `path`, or takes in one from `download`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"id": "monday", "path": "/workspace", "exclude": ["node_modules"], "ttl_ms": 86_400_000}))]
pub struct BackupRequest {
    /// An id of your choice: creating it again with the same spec gives the same backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<BackupId>,
    /// The directory. With `download`: where a restore without a path puts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Instead of `path`, for names that are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// Globs of what to leave out. One without `/` is matched against the name, one with it against
    /// the path below `path`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// Whether what .gitignore files exclude is left out; `.git` itself is kept. False by default.
    #[serde(default)]
    pub gitignore: bool,
    /// Pass over and count what the user may not read. Otherwise the first such file is an error.
    #[serde(default)]
    pub skip_unreadable: bool,
    /// It is deleted this long after it was made. Kept until deleted by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub ttl_ms: Option<u64>,
    /// Where to send it. Nothing is then kept here but the record, unless `keep` says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload: Option<Upload>,
    /// Take the archive from here instead of making one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub download: Option<Download>,
    /// Relative paths start at this session's directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// Whose rights are used: a user name or uid; the sandbox's user by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// Where to send an archive: one presigned URL, or those of a multipart upload. URLs are used and
/// forgotten: they are neither stored nor logged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Upload {
    /// One PUT with everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// One PUT for each part, in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multipart: Option<Multipart>,
    /// Keep the archive here, too.
    #[serde(default)]
    pub keep: bool,
}

/// The presigned URLs of a multipart upload.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Multipart {
    /// URLs of the parts, from number 1 on; there may be more than are needed.
    pub part_urls: Vec<String>,
    /// Bytes in each part but the last; S3 wants 5 MiB at least.
    #[schema(minimum = 1)]
    pub part_bytes: u64,
    /// URL of the POST that completes the upload.
    pub complete_url: String,
    /// URL of the DELETE that abandons it when something fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abort_url: Option<String>,
}

/// Where to get an archive.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Download {
    /// A presigned URL for GET.
    pub url: String,
    /// SHA-256 that the archive must have, as 64 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// Where a backup is in its life.
///
/// ```text
/// creating ──► ready ──► (deleted, or its time is over)
///     └──► (failed: nothing of it is kept)
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BackupState {
    /// It is being made.
    Creating,
    /// It can be restored.
    Ready,
}

/// A saved directory tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BackupRecord {
    /// Its id.
    pub id: BackupId,
    /// Where it is in its life.
    pub state: BackupState,
    /// The directory it was made from.
    pub path: String,
    /// The exact path, when it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// What is in it; while it is being made, what is in it so far.
    pub contents: ArchiveCounts,
    /// Bytes of the archive.
    pub size: u64,
    /// SHA-256 of the archive, as hexadecimal digits; absent while it is being made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Whether the archive is kept here. If not, a restore needs `download`.
    pub stored: bool,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: jiff::Timestamp,
    /// When it will be deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<jiff::Timestamp>,
}

/// `POST /v1/backups/{id}/restore`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"path": "/workspace"}))]
pub struct RestoreRequest {
    /// The directory that is replaced; the one the backup was made from by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Instead of `path`, for names that are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// Take the archive from here, for a backup that is not kept here. It must be that very archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub download: Option<Download>,
    /// Relative paths start at this session's directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// Whose rights are used, and who owns what is restored: a user name or uid; the sandbox's user by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// What a restore did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RestoreReply {
    /// The directory that was replaced.
    pub path: String,
    /// The exact path, when it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// What is in it now.
    pub contents: ArchiveCounts,
}

/// What a backup or a restore is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BackupStage {
    /// The tree is read and packed.
    #[default]
    Packing,
    /// The archive is sent.
    Uploading,
    /// The archive is fetched.
    Downloading,
    /// The archive is unpacked beside the directory.
    Unpacking,
}

/// SSE `event: progress`. The last event is `backup` (a backup record), `restored` (the reply) or
/// `error` (a problem).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BackupProgress {
    /// What is being done.
    pub stage: BackupStage,
    /// Files so far.
    pub files: u64,
    /// Bytes in these files.
    pub bytes: u64,
    /// Bytes of the archive written, sent or fetched so far.
    pub archive_bytes: u64,
}
