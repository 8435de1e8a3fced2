//! Calls of the `git` surface.

use sandshell_types::{
    GitAddRequest, GitBranchesReply, GitBranchesRequest, GitCheckoutRequest, GitCloneReply,
    GitCloneRequest, GitCommit, GitCommitReply, GitCommitRequest, GitDiffReply, GitDiffRequest,
    GitHeadReply, GitLogRequest, GitPullReply, GitPullRequest, GitPushReply, GitPushRequest,
    GitStatusReply, GitStatusRequest, List,
};

use crate::{Client, ClientError, SseStream};

impl Client {
    /// Clones a repository: `progress` events, then `done` or `error`.
    pub async fn git_clone_events(
        &self,
        request: &GitCloneRequest,
    ) -> Result<SseStream, ClientError> {
        self.post_sse("/v1/git/clone", request).await
    }

    /// Shows what has changed.
    pub async fn git_status(
        &self,
        request: &GitStatusRequest,
    ) -> Result<GitStatusReply, ClientError> {
        self.post("/v1/git/status", request).await
    }

    /// Shows differences.
    pub async fn git_diff(&self, request: &GitDiffRequest) -> Result<GitDiffReply, ClientError> {
        self.post("/v1/git/diff", request).await
    }

    /// Lists commits, newest first.
    pub async fn git_log(&self, request: &GitLogRequest) -> Result<List<GitCommit>, ClientError> {
        self.post("/v1/git/log", request).await
    }

    /// Lists branches, after making or deleting one if asked to.
    pub async fn git_branches(
        &self,
        request: &GitBranchesRequest,
    ) -> Result<GitBranchesReply, ClientError> {
        self.post("/v1/git/branches", request).await
    }

    /// Switches to a branch, tag or commit.
    pub async fn git_checkout(
        &self,
        request: &GitCheckoutRequest,
    ) -> Result<GitHeadReply, ClientError> {
        self.post("/v1/git/checkout", request).await
    }

    /// Adds to the index.
    pub async fn git_add(&self, request: &GitAddRequest) -> Result<GitStatusReply, ClientError> {
        self.post("/v1/git/add", request).await
    }

    /// Commits what was added.
    pub async fn git_commit(
        &self,
        request: &GitCommitRequest,
    ) -> Result<GitCommitReply, ClientError> {
        self.post("/v1/git/commit", request).await
    }

    /// Fetches, and merges or rebases.
    pub async fn git_pull(&self, request: &GitPullRequest) -> Result<GitPullReply, ClientError> {
        self.post("/v1/git/pull", request).await
    }

    /// Pushes a branch.
    pub async fn git_push(&self, request: &GitPushRequest) -> Result<GitPushReply, ClientError> {
        self.post("/v1/git/push", request).await
    }

    /// Clones a repository.
    pub async fn git_clone(&self, request: &GitCloneRequest) -> Result<GitCloneReply, ClientError> {
        self.post("/v1/git/clone", request).await
    }
}
