//! Repositories, by our git surface; what it does not have is in [`plain`].

pub(super) mod plain;

use axum::Json;
use axum::extract::Query;
use http::StatusCode;
use sandshell_client::types::{
    GitAddRequest, GitAuth, GitBranchesRequest, GitCheckoutRequest, GitCloneRequest,
    GitCommitRequest, GitFileState, GitIdentity, GitLogRequest, GitNewBranch, GitOldBranch,
    GitPullRequest, GitPushRequest, GitStatusRequest,
};
use sandshell_client::{Client, ClientError};
use serde::Deserialize;
use serde_json::{Value, json};

use super::body::Given;
use super::error::Fault;
use super::reach::Sandbox;

/// Most commits of a history.
const COMMITS: usize = 10_000;

type Shown = Result<Json<Value>, Fault>;

#[derive(Deserialize)]
pub(super) struct Of {
    path: String,
}

fn state(state: GitFileState) -> &'static str {
    match state {
        GitFileState::Modified | GitFileState::TypeChanged => "Modified",
        GitFileState::Added => "Added",
        GitFileState::Deleted => "Deleted",
        GitFileState::Renamed => "Renamed",
        GitFileState::Copied => "Copied",
        GitFileState::Unmerged => "Updated but unmerged",
        GitFileState::Untracked => "Untracked",
        _ => "Unmodified",
    }
}

pub(super) async fn status(Sandbox(sandbox): Sandbox, Query(of): Query<Of>) -> Shown {
    let request = GitStatusRequest {
        path: Some(of.path),
        ..GitStatusRequest::default()
    };
    let status = sandbox.git_status(&request).await?;
    let entry = |entry: &sandshell_client::types::GitStatusEntry| {
        json!({
            "name": entry.path,
            "extra": entry.original_path.as_deref().unwrap_or_default(),
            "staging": state(entry.index),
            "worktree": state(entry.worktree),
        })
    };
    let entries: Vec<Value> = status.entries.iter().map(entry).collect();
    Ok(Json(json!({
        "currentBranch": status.branch.as_deref().unwrap_or("HEAD"),
        "detached": status.branch.is_none(),
        "fileStatus": entries,
        "ahead": status.ahead.unwrap_or(0),
        "behind": status.behind.unwrap_or(0),
        "branchPublished": status.upstream.is_some(),
        "upstream": status.upstream.unwrap_or_default(),
    })))
}

async fn branches_of(sandbox: &Client, request: GitBranchesRequest) -> Result<Value, ClientError> {
    let reply = sandbox.git_branches(&request).await?;
    let own = reply.items.iter().filter(|branch| !branch.remote);
    let names: Vec<&str> = own.map(|branch| branch.name.as_str()).collect();
    Ok(json!({"branches": names, "current": reply.current.unwrap_or_default()}))
}

pub(super) async fn branches(Sandbox(sandbox): Sandbox, Query(of): Query<Of>) -> Shown {
    let request = GitBranchesRequest {
        path: Some(of.path),
        ..GitBranchesRequest::default()
    };
    Ok(Json(branches_of(&sandbox, request).await?))
}

#[derive(Deserialize)]
pub(super) struct Branch {
    path: String,
    name: String,
}

pub(super) async fn create_branch(
    Sandbox(sandbox): Sandbox,
    Given(asked): Given<Branch>,
) -> Result<StatusCode, Fault> {
    let request = GitBranchesRequest {
        path: Some(asked.path),
        create: Some(GitNewBranch {
            name: asked.name,
            start: None,
        }),
        ..GitBranchesRequest::default()
    };
    match branches_of(&sandbox, request).await {
        Err(error) if said(&error, "already exists") => {
            let message = Fault::from(error).message().to_owned();
            Err(Fault::new(
                StatusCode::CONFLICT,
                "GIT_BRANCH_EXISTS",
                message,
            ))
        }
        other => {
            other?;
            Ok(StatusCode::CREATED)
        }
    }
}

/// Whether git said this.
fn said(error: &ClientError, words: &str) -> bool {
    let problem = error.problem();
    problem.is_some_and(|problem| problem.detail.contains(words))
}

/// A failure for want of a branch, in a repository that is there.
fn branch_missing(error: ClientError) -> Fault {
    let repository = said(&error, "not a git repository");
    let absent = error.status() == Some(422) && said(&error, "not found");
    let fault = Fault::from(error);
    if repository {
        fault
    } else if absent {
        let message = fault.message().to_owned();
        Fault::new(StatusCode::NOT_FOUND, "GIT_BRANCH_NOT_FOUND", message)
    } else {
        fault.named(StatusCode::NOT_FOUND, "GIT_BRANCH_NOT_FOUND")
    }
}

pub(super) async fn delete_branch(
    Sandbox(sandbox): Sandbox,
    Given(asked): Given<Branch>,
) -> Result<StatusCode, Fault> {
    let request = GitBranchesRequest {
        path: Some(asked.path),
        delete: Some(GitOldBranch {
            name: asked.name,
            force: true,
        }),
        ..GitBranchesRequest::default()
    };
    let deleted = branches_of(&sandbox, request).await;
    deleted.map_err(branch_missing)?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn history(Sandbox(sandbox): Sandbox, Query(of): Query<Of>) -> Shown {
    let mut commits = Vec::new();
    let mut request = GitLogRequest {
        path: Some(of.path),
        ..GitLogRequest::default()
    };
    loop {
        let page = sandbox.git_log(&request).await?;
        commits.extend(page.items.iter().map(|commit| {
            json!({
                "hash": commit.hash,
                "author": commit.author.name,
                "email": commit.author.email,
                "message": commit.message,
                "timestamp": commit.author.at,
            })
        }));
        request.cursor = page.next_cursor;
        if request.cursor.is_none() || commits.len() >= COMMITS {
            return Ok(Json(commits.into()));
        }
    }
}

#[derive(Deserialize)]
pub(super) struct Add {
    path: String,
    files: Vec<String>,
}

pub(super) async fn add(
    Sandbox(sandbox): Sandbox,
    Given(asked): Given<Add>,
) -> Result<StatusCode, Fault> {
    let request = GitAddRequest {
        path: Some(asked.path),
        paths: asked.files,
        ..GitAddRequest::default()
    };
    sandbox.git_add(&request).await?;
    Ok(StatusCode::OK)
}

#[derive(Deserialize)]
pub(super) struct Commit {
    path: String,
    message: String,
    author: String,
    email: String,
    allow_empty: Option<bool>,
}

pub(super) async fn commit(Sandbox(sandbox): Sandbox, Given(asked): Given<Commit>) -> Shown {
    let identity = GitIdentity {
        name: asked.author,
        email: asked.email,
    };
    let request = GitCommitRequest {
        path: Some(asked.path),
        message: asked.message,
        author: Some(identity.clone()),
        committer: Some(identity),
        allow_empty: asked.allow_empty == Some(true),
        ..GitCommitRequest::default()
    };
    let reply = sandbox.git_commit(&request).await?;
    match reply.commit.filter(|_| reply.committed) {
        Some(hash) => Ok(Json(json!({"hash": hash}))),
        None => Err(Fault::invalid("There is nothing to commit")),
    }
}

fn auth_of(username: Option<String>, password: Option<String>) -> Option<GitAuth> {
    let given = |text: &String| !text.is_empty();
    password.filter(given).map(|password| GitAuth {
        username: username.filter(given),
        password: Some(password),
        token: None,
    })
}

#[derive(Deserialize)]
pub(super) struct Clone {
    url: String,
    path: String,
    branch: Option<String>,
    commit_id: Option<String>,
    username: Option<String>,
    password: Option<String>,
    depth: Option<u32>,
    insecure_skip_tls: Option<bool>,
}

pub(super) async fn clone(
    Sandbox(sandbox): Sandbox,
    Given(asked): Given<Clone>,
) -> Result<StatusCode, Fault> {
    if asked.insecure_skip_tls == Some(true) {
        return Err(Fault::invalid("Certificates of remotes are always checked"));
    }
    let given = |text: &String| !text.is_empty();
    let of_branch = asked.branch.filter(given);
    let request = GitCloneRequest {
        url: asked.url,
        path: Some(asked.path),
        depth: asked.depth.filter(|depth| *depth > 0),
        auth: auth_of(asked.username, asked.password),
        branch: of_branch.clone(),
        timeout_ms: None,
        session: None,
        user: None,
    };
    let cloned = sandbox
        .git_clone(&request)
        .await
        .map_err(|error| match of_branch {
            Some(_) if said(&error, "branch") => branch_missing(error),
            _ => error.into(),
        })?;
    if let Some(commit) = asked.commit_id.filter(given) {
        let request = GitCheckoutRequest {
            target: commit,
            path: Some(cloned.path),
            ..GitCheckoutRequest::default()
        };
        let checked_out = sandbox.git_checkout(&request).await;
        checked_out.map_err(branch_missing)?;
    }
    Ok(StatusCode::OK)
}

#[derive(Deserialize)]
pub(super) struct Checkout {
    path: String,
    branch: String,
}

pub(super) async fn checkout(
    Sandbox(sandbox): Sandbox,
    Given(asked): Given<Checkout>,
) -> Result<StatusCode, Fault> {
    let request = GitCheckoutRequest {
        target: asked.branch,
        path: Some(asked.path),
        ..GitCheckoutRequest::default()
    };
    let checked_out = sandbox.git_checkout(&request).await;
    checked_out
        .map_err(|error| branch_missing(error).named(StatusCode::CONFLICT, "GIT_DIRTY_WORKTREE"))?;
    Ok(StatusCode::OK)
}

#[derive(Deserialize)]
pub(super) struct Exchange {
    path: String,
    username: Option<String>,
    password: Option<String>,
    branch: Option<String>,
    remote: Option<String>,
    set_upstream: Option<bool>,
}

pub(super) async fn pull(
    Sandbox(sandbox): Sandbox,
    Given(asked): Given<Exchange>,
) -> Result<StatusCode, Fault> {
    let request = GitPullRequest {
        path: Some(asked.path),
        branch: asked.branch.filter(|name| !name.is_empty()),
        remote: asked.remote.filter(|name| !name.is_empty()),
        auth: auth_of(asked.username, asked.password),
        ..GitPullRequest::default()
    };
    sandbox.git_pull(&request).await?;
    Ok(StatusCode::OK)
}

pub(super) async fn push(
    Sandbox(sandbox): Sandbox,
    Given(asked): Given<Exchange>,
) -> Result<StatusCode, Fault> {
    let request = GitPushRequest {
        path: Some(asked.path),
        branch: asked.branch.filter(|name| !name.is_empty()),
        remote: asked.remote.filter(|name| !name.is_empty()),
        set_upstream: asked.set_upstream == Some(true),
        auth: auth_of(asked.username, asked.password),
        ..GitPushRequest::default()
    };
    let pushed = sandbox.git_push(&request).await;
    pushed.map_err(|error| Fault::from(error).named(StatusCode::CONFLICT, "GIT_PUSH_REJECTED"))?;
    Ok(StatusCode::OK)
}
