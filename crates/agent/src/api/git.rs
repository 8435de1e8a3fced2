//! `/v1/git`: git in the sandbox.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use http::HeaderMap;
use sandshell_files::git::{self, GitError};
use sandshell_sys::task;
use sandshell_types::{
    ErrorCode, GitAddRequest, GitBranchesReply, GitBranchesRequest, GitCheckoutRequest,
    GitCloneReply, GitCloneRequest, GitCommit, GitCommitReply, GitCommitRequest, GitDiffReply,
    GitDiffRequest, GitHeadReply, GitLogRequest, GitProgress, GitPullReply, GitPullRequest,
    GitPushReply, GitPushRequest, GitStatusReply, GitStatusRequest, List, Problem,
};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::AgentState;
use super::document::GitProblems;
use super::document::events::event_union;
use crate::Agent;
use crate::extract::Json;
use crate::problem::ApiError;
use crate::server::to_the_end;
use crate::sse;

/// Progress events under way; more are dropped, as the next one says more.
const PROGRESS: usize = 32;

crate::table! {
    /// Its routes.
    pub(super) Arc<Agent> {
        self::clone;
        self::status;
        self::diff;
        self::log;
        self::branches;
        self::checkout;
        self::add;
        self::commit;
        self::pull;
        self::push;
    }
}

event_union! {
    /// A clone: `done` or `error` is the last.
    GitCloneEvents: "progress" => GitProgress, "done" => GitCloneReply, "error" => Problem;
}

/// Clone a repository.
///
/// With `Accept: text/event-stream` the answer is `progress` events, then `done` with the reply or
/// `error` with a problem. It goes on when the client goes away. A clone that fails or takes too
/// long leaves nothing behind.
#[utoipa::path(
    post, path = "/v1/git/clone", operation_id = "git_clone", tag = "git",
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes a retry safe for 10 minutes.")),
    request_body = GitCloneRequest,
    responses(
        (status = 200, description = "It is there, or events.", content(
            (GitCloneReply = "application/json", example = json!({
                "path": "/root/repo", "branch": "main", "commit": "5f3c…"
            })),
            (GitCloneEvents = "text/event-stream", example = json!({
                "event": "progress",
                "data": r#"{"phase":"Receiving objects","percent":42,"current":420,"total":1000}"#
            })),
        )),
        GitProblems,
    )
)]
pub(crate) async fn clone(
    State(agent): AgentState,
    headers: HeaderMap,
    Json(request): Json<GitCloneRequest>,
) -> Result<Response, ApiError> {
    let executor = agent.executor.clone();
    let checked = git::check_clone(&executor, request)?;
    if !sse::wanted(&headers) {
        let clone = async move { git::clone(&executor, checked, None).await };
        return Ok(axum::Json(to_the_end(clone).await??).into_response());
    }
    let (sender, progress) = mpsc::channel(PROGRESS);
    let cloning = task::spawn(async move { git::clone(&executor, checked, Some(sender)).await });
    let feed = Feed {
        progress,
        cloning: Some(cloning),
        shutdown: agent.shutdown.clone(),
    };
    let rest = stream::unfold(feed, |mut feed| async move {
        let bytes = feed.next().await?;
        Some((Ok::<_, std::convert::Infallible>(bytes), feed))
    });
    let start = stream::iter([Ok(sse::preamble())]);
    let body = futures_util::StreamExt::chain(start, rest);
    Ok(sse::response(Body::from_stream(body)))
}

/// The events of a clone.
struct Feed {
    progress: mpsc::Receiver<GitProgress>,
    /// Absent once its end has been told.
    cloning: Option<JoinHandle<Result<GitCloneReply, GitError>>>,
    shutdown: CancellationToken,
}

impl Feed {
    async fn next(&mut self) -> Option<Bytes> {
        let cloning = self.cloning.as_mut()?;
        tokio::select! {
            biased;
            Some(progress) = self.progress.recv() => sse::event("progress", None, &progress).ok(),
            ended = cloning => {
                self.cloning = None;
                let result = ended.unwrap_or_else(|error| {
                    tracing::error!(%error, "a clone broke off");
                    Err(GitError::Failed { detail: "the clone broke off".to_owned(), hint: None })
                });
                match result {
                    Ok(reply) => sse::event("done", None, &reply).ok(),
                    Err(error) => sse::event("error", None, &ApiError::from(error).into_problem()).ok(),
                }
            }
            () = self.shutdown.cancelled() => {
                self.cloning = None;
                let ending = ApiError::new(ErrorCode::Unavailable, "the agent is shutting down");
                sse::event("error", None, &ending.into_problem()).ok()
            }
        }
    }
}

/// Show what has changed.
///
/// Where the branch stands, and every file that is not as in the last commit. Paths that are not
/// UTF-8 come in base64 too.
#[utoipa::path(
    post, path = "/v1/git/status", operation_id = "git_status", tag = "git",
    request_body = GitStatusRequest,
    responses(
        (status = 200, description = "Done.", body = GitStatusReply, example = json!({
            "branch": "main", "commit": "5f3c…", "upstream": "origin/main", "ahead": 1, "behind": 0,
            "clean": false, "omitted_entries": 0,
            "entries": [{"path": "a.txt", "index": "unmodified", "worktree": "modified"}]
        })),
        GitProblems,
    )
)]
pub(crate) async fn status(
    State(agent): AgentState,
    Json(request): Json<GitStatusRequest>,
) -> Result<axum::Json<GitStatusReply>, ApiError> {
    Ok(axum::Json(git::status(&agent.executor, request).await?))
}

/// Show differences.
///
/// Figures for each file and the patch, cut at `max_bytes`.
#[utoipa::path(
    post, path = "/v1/git/diff", operation_id = "git_diff", tag = "git",
    request_body = GitDiffRequest,
    responses(
        (status = 200, description = "Done.", body = GitDiffReply, example = json!({
            "files": [{"path": "a.txt", "additions": 1, "deletions": 0, "binary": false}],
            "diff": "diff --git a/a.txt b/a.txt…", "diff_encoding": "utf8", "omitted_bytes": 0
        })),
        GitProblems,
    )
)]
pub(crate) async fn diff(
    State(agent): AgentState,
    Json(request): Json<GitDiffRequest>,
) -> Result<axum::Json<GitDiffReply>, ApiError> {
    Ok(axum::Json(git::diff(&agent.executor, request).await?))
}

/// List commits, newest first.
///
/// Those that a branch, tag or commit leads to, in pages.
#[utoipa::path(
    post, path = "/v1/git/log", operation_id = "git_log", tag = "git",
    request_body = GitLogRequest,
    responses(
        (status = 200, description = "Done.", body = List<GitCommit>, example = json!({"items": []})),
        GitProblems,
    )
)]
pub(crate) async fn log(
    State(agent): AgentState,
    Json(request): Json<GitLogRequest>,
) -> Result<axum::Json<List<GitCommit>>, ApiError> {
    Ok(axum::Json(git::log(&agent.executor, request).await?))
}

/// List branches, make or delete one.
///
/// The answer lists them as they are afterwards.
#[utoipa::path(
    post, path = "/v1/git/branches", operation_id = "git_branches", tag = "git",
    request_body = GitBranchesRequest,
    responses(
        (status = 200, description = "Done.", body = GitBranchesReply, example = json!({
            "current": "main", "items": [{"name": "main", "remote": false, "current": true, "commit": "5f3c…"}]
        })),
        GitProblems,
    )
)]
pub(crate) async fn branches(
    State(agent): AgentState,
    Json(request): Json<GitBranchesRequest>,
) -> Result<axum::Json<GitBranchesReply>, ApiError> {
    Ok(axum::Json(git::branches(&agent.executor, request).await?))
}

/// Switch to a branch, tag or commit.
///
/// Changes that would be lost give `git_conflict` and nothing happens.
#[utoipa::path(
    post, path = "/v1/git/checkout", operation_id = "git_checkout", tag = "git",
    request_body = GitCheckoutRequest,
    responses(
        (status = 200, description = "Done.", body = GitHeadReply, example = json!({"branch": "fix", "commit": "5f3c…"})),
        GitProblems,
    )
)]
pub(crate) async fn checkout(
    State(agent): AgentState,
    Json(request): Json<GitCheckoutRequest>,
) -> Result<axum::Json<GitHeadReply>, ApiError> {
    let checkout = async move { git::checkout(&agent.executor, request).await };
    Ok(axum::Json(to_the_end(checkout).await??))
}

/// Add to the index.
///
/// Answers with the status after it.
#[utoipa::path(
    post, path = "/v1/git/add", operation_id = "git_add", tag = "git",
    request_body = GitAddRequest,
    responses(
        (status = 200, description = "Done.", body = GitStatusReply, example = json!({
            "branch": "main", "clean": false, "omitted_entries": 0,
            "entries": [{"path": "a.txt", "index": "added", "worktree": "unmodified"}]
        })),
        GitProblems,
    )
)]
pub(crate) async fn add(
    State(agent): AgentState,
    Json(request): Json<GitAddRequest>,
) -> Result<axum::Json<GitStatusReply>, ApiError> {
    let add = async move { git::add(&agent.executor, request).await };
    Ok(axum::Json(to_the_end(add).await??))
}

/// Commit what was added.
///
/// With nothing to commit the answer says `committed: false`.
#[utoipa::path(
    post, path = "/v1/git/commit", operation_id = "git_commit", tag = "git",
    request_body = GitCommitRequest,
    responses(
        (status = 200, description = "Done.", body = GitCommitReply, example = json!({
            "committed": true, "commit": "5f3c…", "branch": "main"
        })),
        GitProblems,
    )
)]
pub(crate) async fn commit(
    State(agent): AgentState,
    Json(request): Json<GitCommitRequest>,
) -> Result<axum::Json<GitCommitReply>, ApiError> {
    let commit = async move { git::commit(&agent.executor, request).await };
    Ok(axum::Json(to_the_end(commit).await??))
}

/// Fetch, and merge or rebase.
///
/// A conflict gives `git_conflict` and stays in the working tree, as git leaves it; changes that
/// would be lost give it too, and nothing happens.
#[utoipa::path(
    post, path = "/v1/git/pull", operation_id = "git_pull", tag = "git",
    request_body = GitPullRequest,
    responses(
        (status = 200, description = "Done.", body = GitPullReply, example = json!({
            "updated": true, "before": "5f3c…", "commit": "9a1b…", "branch": "main"
        })),
        GitProblems,
    )
)]
pub(crate) async fn pull(
    State(agent): AgentState,
    Json(request): Json<GitPullRequest>,
) -> Result<axum::Json<GitPullReply>, ApiError> {
    let pull = async move { git::pull(&agent.executor, request).await };
    Ok(axum::Json(to_the_end(pull).await??))
}

/// Push a branch.
///
/// A remote that has commits we do not have gives `git_conflict`.
#[utoipa::path(
    post, path = "/v1/git/push", operation_id = "git_push", tag = "git",
    request_body = GitPushRequest,
    responses(
        (status = 200, description = "Done.", body = GitPushReply, example = json!({
            "remote": "origin",
            "refs": [{"from": "refs/heads/main", "to": "refs/heads/main", "state": "updated"}]
        })),
        GitProblems,
    )
)]
pub(crate) async fn push(
    State(agent): AgentState,
    Json(request): Json<GitPushRequest>,
) -> Result<axum::Json<GitPushReply>, ApiError> {
    let push = async move { git::push(&agent.executor, request).await };
    Ok(axum::Json(to_the_end(push).await??))
}
