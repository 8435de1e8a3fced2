//! The `git` surface: what is asked of git in the sandbox, and what it answered, typed.

use serde::{Deserialize, Serialize};

use crate::{SessionId, TextEncoding, Timestamp};

/// Credentials for one call, over HTTP(S) only. Given to git through a pipe that can be read once;
/// never in its arguments, its environment, a file or a log.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GitAuth {
    /// User name; that of the URL, else `x-access-token`, when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// The password. Exactly one of this and `token` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// An access token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

impl std::fmt::Debug for GitAuth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GitAuth")
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}

/// `POST /v1/git/clone`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"url": "https://example.com/repo.git", "path": "repo", "depth": 1}))]
pub struct GitCloneRequest {
    /// Where from: `http`, `https`, `ssh`, `git` or `file` URLs, `host:path`, or a path in the sandbox.
    pub url: String,
    /// Branch or tag to check out; the remote's own by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Only this many commits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// Credentials for this call only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<GitAuth>,
    /// After this git is ended with all it started; `timed_out`. None by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Where to; nothing or an empty directory must be there. Named after the URL by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Git gets the environment of this session, and relative paths start at its directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// User name or uid to run git as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// Answer to a clone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct GitCloneReply {
    /// Where it is, absolute.
    pub path: String,
    /// The branch that is checked out; absent when detached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit that is checked out; absent in an empty repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

/// `event: progress` of a clone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct GitProgress {
    /// What is being done, in git's words.
    pub phase: String,
    /// How much of it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<u8>,
    /// How many are done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<u64>,
    /// Of how many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

/// `POST /v1/git/status`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"path": "repo"}))]
pub struct GitStatusRequest {
    /// Also list ignored files.
    #[serde(default)]
    pub ignored: bool,
    /// Directory of the repository, or one in it; relative ones start at the session's directory, or
    /// at the sandbox's. That directory by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Git gets the environment of this session, and relative paths start at its directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// User name or uid to run git as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// What has become of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum GitFileState {
    /// Nothing.
    Unmodified,
    /// Its content or mode changed.
    Modified,
    /// It became another kind of file.
    TypeChanged,
    /// It is new.
    Added,
    /// It is gone.
    Deleted,
    /// It has another name.
    Renamed,
    /// It is a copy.
    Copied,
    /// It is in a conflict.
    Unmerged,
    /// Git does not know it.
    Untracked,
    /// Git is told not to know it.
    Ignored,
}

/// What the two sides of a merge did to a file in conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum GitConflictKind {
    /// Both deleted it.
    BothDeleted,
    /// We added it.
    AddedByUs,
    /// They deleted it.
    DeletedByThem,
    /// They added it.
    AddedByThem,
    /// We deleted it.
    DeletedByUs,
    /// Both added it.
    BothAdded,
    /// Both changed it.
    BothModified,
}

/// A file that is not as in the last commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct GitStatusEntry {
    /// Path in the repository; with U+FFFD for what is not UTF-8.
    pub path: String,
    /// The exact bytes of a path that is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// The name before a rename or copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_path: Option<String>,
    /// Its exact bytes when it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_path_base64: Option<String>,
    /// What the index has of it.
    pub index: GitFileState,
    /// What the working tree has of it.
    pub worktree: GitFileState,
    /// The conflict it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflict: Option<GitConflictKind>,
}

/// Answer to a status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct GitStatusReply {
    /// The branch; absent when detached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit it is at; absent before the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The branch it follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// Commits that the upstream does not have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead: Option<u64>,
    /// Commits that only the upstream has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<u64>,
    /// Whether nothing is changed or untracked.
    pub clean: bool,
    /// What is changed; at most 10,000, or as many as an answer holds.
    pub entries: Vec<GitStatusEntry>,
    /// How many more there are.
    pub omitted_entries: u64,
}

/// `POST /v1/git/diff`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"path": "repo", "staged": true}))]
pub struct GitDiffRequest {
    /// What the next commit would change, instead of what `add` would.
    #[serde(default)]
    pub staged: bool,
    /// Compare with this commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Compare `from` with this commit, instead of with the working tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Only these paths, taken literally.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Most bytes of `diff`: 1 MiB by default, at most 16 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// Directory of the repository, or one in it; relative ones start at the session's directory, or
    /// at the sandbox's. That directory by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Git gets the environment of this session, and relative paths start at its directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// User name or uid to run git as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// A file in a diff.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct GitDiffFile {
    /// Path in the repository; with U+FFFD for what is not UTF-8.
    pub path: String,
    /// The exact bytes of a path that is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// The name before a rename or copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_path: Option<String>,
    /// Its exact bytes when it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_path_base64: Option<String>,
    /// Lines added; absent for a binary file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additions: Option<u64>,
    /// Lines deleted; absent for a binary file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletions: Option<u64>,
    /// Whether it is binary.
    pub binary: bool,
}

/// Answer to a diff.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct GitDiffReply {
    /// Each file with its figures; at most 10,000.
    pub files: Vec<GitDiffFile>,
    /// The patch.
    pub diff: String,
    /// How `diff` is encoded.
    pub diff_encoding: TextEncoding,
    /// Bytes of the patch that were left out at its end.
    pub omitted_bytes: u64,
}

/// `POST /v1/git/log`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"path": "repo", "limit": 20}))]
pub struct GitLogRequest {
    /// From which commit or branch back, or a range; the current one by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Only commits that touch these paths, taken literally.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Most commits in the page: 1 to 1000, 100 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// `next_cursor` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Directory of the repository, or one in it; relative ones start at the session's directory, or
    /// at the sandbox's. That directory by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Git gets the environment of this session, and relative paths start at its directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// User name or uid to run git as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// A person and a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct GitSignature {
    /// Name.
    pub name: String,
    /// Mail address.
    pub email: String,
    /// When.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
}

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct GitCommit {
    /// Its hash.
    pub hash: String,
    /// Hashes of its parents.
    pub parents: Vec<String>,
    /// Who wrote it.
    pub author: GitSignature,
    /// Who committed it.
    pub committer: GitSignature,
    /// The first line of its message.
    pub subject: String,
    /// The whole message.
    pub message: String,
}

/// A branch to be made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GitNewBranch {
    /// Its name.
    pub name: String,
    /// The commit or branch it starts at; the current one by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
}

/// A branch to be deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GitOldBranch {
    /// Its name.
    pub name: String,
    /// Also when its commits are on no other branch.
    #[serde(default)]
    pub force: bool,
}

/// `POST /v1/git/branches`. Lists, after making or deleting one if asked to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"path": "repo"}))]
pub struct GitBranchesRequest {
    /// Make this branch first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create: Option<GitNewBranch>,
    /// Delete this branch first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete: Option<GitOldBranch>,
    /// Directory of the repository, or one in it; relative ones start at the session's directory, or
    /// at the sandbox's. That directory by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Git gets the environment of this session, and relative paths start at its directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// User name or uid to run git as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// A branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct GitBranch {
    /// Its name; `origin/main` for one of a remote.
    pub name: String,
    /// Whether it is a remote's, as last fetched.
    pub remote: bool,
    /// Whether it is checked out.
    pub current: bool,
    /// The commit it is at.
    pub commit: String,
    /// The branch it follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// Commits that the upstream does not have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead: Option<u64>,
    /// Commits that only the upstream has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<u64>,
}

/// Answer to `branches`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct GitBranchesReply {
    /// The branch that is checked out; absent when detached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// All branches.
    pub items: Vec<GitBranch>,
}

/// `POST /v1/git/checkout`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"path": "repo", "target": "fix", "create": true}))]
pub struct GitCheckoutRequest {
    /// Branch, tag or commit.
    pub target: String,
    /// Make it a new branch.
    #[serde(default)]
    pub create: bool,
    /// Where a new branch starts; the current commit by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// Throw away changes that are in the way.
    #[serde(default)]
    pub force: bool,
    /// Directory of the repository, or one in it; relative ones start at the session's directory, or
    /// at the sandbox's. That directory by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Git gets the environment of this session, and relative paths start at its directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// User name or uid to run git as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// Where the working tree is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct GitHeadReply {
    /// The branch; absent when detached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit; absent before the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

/// `POST /v1/git/add`. Answers with the status after it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"path": "repo", "paths": ["src/main.rs"]}))]
pub struct GitAddRequest {
    /// What to add, taken literally.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Everything, deletions included.
    #[serde(default)]
    pub all: bool,
    /// Directory of the repository, or one in it; relative ones start at the session's directory, or
    /// at the sandbox's. That directory by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Git gets the environment of this session, and relative paths start at its directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// User name or uid to run git as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// Who writes or commits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GitIdentity {
    /// Name.
    pub name: String,
    /// Mail address.
    pub email: String,
}

/// `POST /v1/git/commit`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"path": "repo", "message": "Fix it", "all": true}))]
pub struct GitCommitRequest {
    /// The message.
    pub message: String,
    /// Who wrote it; as configured by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<GitIdentity>,
    /// Who commits it; the author by default, else as configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub committer: Option<GitIdentity>,
    /// Add changes of tracked files first.
    #[serde(default)]
    pub all: bool,
    /// Replace the last commit.
    #[serde(default)]
    pub amend: bool,
    /// Also when nothing has changed.
    #[serde(default)]
    pub allow_empty: bool,
    /// Directory of the repository, or one in it; relative ones start at the session's directory, or
    /// at the sandbox's. That directory by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Git gets the environment of this session, and relative paths start at its directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// User name or uid to run git as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// Answer to a commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct GitCommitReply {
    /// Whether there was something to commit.
    pub committed: bool,
    /// The commit the branch is at now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The branch; absent when detached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
}

/// How a pull brings both sides together.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum GitPullMode {
    /// Fast-forward where possible, else a merge commit.
    #[default]
    Merge,
    /// Our commits on top of theirs.
    Rebase,
    /// Only if we have no commits of our own.
    FastForward,
}

/// `POST /v1/git/pull`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"path": "repo", "mode": "rebase"}))]
pub struct GitPullRequest {
    /// Name of the remote; that of the upstream, else `origin`, by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
    /// Branch there; the upstream by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// How.
    #[serde(default)]
    pub mode: GitPullMode,
    /// Credentials for this call only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<GitAuth>,
    /// After this git is ended with all it started; `timed_out`. None by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Directory of the repository, or one in it; relative ones start at the session's directory, or
    /// at the sandbox's. That directory by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Git gets the environment of this session, and relative paths start at its directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// User name or uid to run git as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// Answer to a pull.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct GitPullReply {
    /// Whether anything came.
    pub updated: bool,
    /// The commit before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The commit now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The branch; absent when detached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
}

/// `POST /v1/git/push`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"path": "repo", "set_upstream": true}))]
pub struct GitPushRequest {
    /// Name of the remote; that of the upstream, else `origin`, by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
    /// Branch to push; the current one by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Follow the pushed branch from now on.
    #[serde(default)]
    pub set_upstream: bool,
    /// Replace what is there, if it is what was last fetched.
    #[serde(default)]
    pub force: bool,
    /// Push tags too.
    #[serde(default)]
    pub tags: bool,
    /// Credentials for this call only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<GitAuth>,
    /// After this git is ended with all it started; `timed_out`. None by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Directory of the repository, or one in it; relative ones start at the session's directory, or
    /// at the sandbox's. That directory by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Git gets the environment of this session, and relative paths start at its directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// User name or uid to run git as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// What became of a pushed reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum GitPushState {
    /// Moved forward.
    Updated,
    /// Replaced.
    Forced,
    /// New there.
    Created,
    /// Gone there.
    Deleted,
    /// Was the same.
    UpToDate,
}

/// A pushed reference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct GitPushedRef {
    /// Ours.
    pub from: String,
    /// Theirs.
    pub to: String,
    /// What became of it.
    pub state: GitPushState,
}

/// Answer to a push.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct GitPushReply {
    /// Name of the remote.
    pub remote: String,
    /// The references.
    pub refs: Vec<GitPushedRef>,
}
