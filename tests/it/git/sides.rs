//! Two sides: clone, pull and push between repositories on disk.

use sandshell_client::Client;
use sandshell_client::ClientError;
use sandshell_client::types::{
    ErrorCode, GitBranchesRequest, GitCloneRequest, GitFileState, GitPullMode, GitPullReply,
    GitPullRequest, GitPushRequest, GitPushState,
};
use sandshell_testkit::Agent;

use super::{agent, commit_all, path, sh, status};
use crate::calls::{code_of, in_time};

async fn clone(agent: &Agent, client: &Client, name: &str) {
    let request = GitCloneRequest {
        url: path(agent, "bare"),
        path: Some(path(agent, name)),
        ..Default::default()
    };
    in_time(client.git_clone(&request)).await.unwrap();
}

async fn pull(
    agent: &Agent,
    client: &Client,
    name: &str,
    mode: GitPullMode,
) -> Result<GitPullReply, ClientError> {
    let request = GitPullRequest {
        path: Some(path(agent, name)),
        mode,
        ..Default::default()
    };
    in_time(client.git_pull(&request)).await
}

fn push_of(agent: &Agent, name: &str) -> GitPushRequest {
    GitPushRequest {
        path: Some(path(agent, name)),
        ..Default::default()
    }
}

/// A bare repository with one commit, and two clones.
async fn two_sides(agent: &Agent, client: &Client) {
    sh(agent, client, "git init -q --bare -b main bare; git init -q -b main s; cd s; echo 1 >a; git add .; git commit -qm one; git push -q ../bare main").await;
    clone(agent, client, "x").await;
    clone(agent, client, "y").await;
    // Merges are commits, too.
    sh(
        agent,
        client,
        "for r in x y; do git -C $r config user.name m; git -C $r config user.email m@x; done",
    )
    .await;
}

#[tokio::test]
async fn what_one_pushes_the_other_pulls() {
    let agent = agent();
    let client = agent.client();
    two_sides(&agent, &client).await;
    sh(&agent, &client, "echo 2 >x/a").await;
    let made = commit_all(&agent, &client, "x", "two").await.commit;
    let ahead = status(&agent, &client, "x").await;
    assert_eq!(
        (ahead.upstream.as_deref(), ahead.ahead, ahead.behind),
        (Some("origin/main"), Some(1), Some(0))
    );
    let pushed = in_time(client.git_push(&push_of(&agent, "x")))
        .await
        .unwrap();
    assert_eq!(
        (pushed.remote.as_str(), pushed.refs[0].state),
        ("origin", GitPushState::Updated)
    );
    let again = in_time(client.git_push(&push_of(&agent, "x")))
        .await
        .unwrap();
    assert_eq!(again.refs[0].state, GitPushState::UpToDate);
    let pulled = pull(&agent, &client, "y", GitPullMode::FastForward)
        .await
        .unwrap();
    assert_eq!((pulled.updated, &pulled.commit), (true, &made));
    assert!(
        !pull(&agent, &client, "y", GitPullMode::Merge)
            .await
            .unwrap()
            .updated
    );
    sh(&agent, &client, "git -C y checkout -qb fresh").await;
    let request = GitPushRequest {
        set_upstream: true,
        ..push_of(&agent, "y")
    };
    let pushed = in_time(client.git_push(&request)).await.unwrap();
    assert_eq!(pushed.refs[0].state, GitPushState::Created);
    let request = GitBranchesRequest {
        path: Some(path(&agent, "y")),
        ..Default::default()
    };
    let branches = in_time(client.git_branches(&request)).await.unwrap();
    let fresh = branches.items.iter().find(|b| b.name == "fresh").unwrap();
    assert_eq!(
        (fresh.upstream.as_deref(), fresh.ahead),
        (Some("origin/fresh"), Some(0))
    );
    assert!(
        branches
            .items
            .iter()
            .any(|b| b.remote && b.name == "origin/main")
    );
    assert!(branches.items.iter().all(|b| b.name != "origin/HEAD"));
}

#[tokio::test]
async fn both_sides_changed() {
    let agent = agent();
    let client = agent.client();
    two_sides(&agent, &client).await;
    sh(&agent, &client, "echo x >x/a; echo y >y/a").await;
    commit_all(&agent, &client, "x", "from x").await;
    commit_all(&agent, &client, "y", "from y").await;
    in_time(client.git_push(&push_of(&agent, "x")))
        .await
        .unwrap();
    let refused = in_time(client.git_push(&push_of(&agent, "y"))).await;
    assert_eq!(code_of(refused), ErrorCode::GitConflict);
    let refused = pull(&agent, &client, "y", GitPullMode::FastForward).await;
    assert_eq!(code_of(refused), ErrorCode::GitConflict);
    assert!(status(&agent, &client, "y").await.clean);
    let refused = pull(&agent, &client, "y", GitPullMode::Merge)
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::GitConflict));
    assert!(
        refused
            .problem()
            .unwrap()
            .detail
            .contains("CONFLICT (content): Merge conflict in a")
    );
    let conflicted = status(&agent, &client, "y").await;
    assert_eq!(conflicted.entries[0].index, GitFileState::Unmerged);
    sh(&agent, &client, "cd y; git merge --abort; git checkout -q -b other; git reset -q --hard HEAD~1; echo b >b; git add b; git commit -qm b").await;
    let request = GitPullRequest {
        path: Some(path(&agent, "y")),
        remote: Some("origin".to_owned()),
        branch: Some("main".to_owned()),
        mode: GitPullMode::Rebase,
        ..Default::default()
    };
    assert!(in_time(client.git_pull(&request)).await.unwrap().updated);
    assert_eq!(
        sh(&agent, &client, "cd y; git log --format=%s; cat a").await,
        "b\nfrom x\none\nx"
    );
    // A change that is not committed is not lost.
    sh(
        &agent,
        &client,
        "git -C y checkout -q main; git -C y reset -q --hard HEAD~1; echo mine >y/a",
    )
    .await;
    let refused = pull(&agent, &client, "y", GitPullMode::Merge).await;
    assert_eq!(code_of(refused), ErrorCode::GitConflict);
    assert_eq!(sh(&agent, &client, "cat y/a").await, "mine");
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let agent = agent();
    let client = agent.client();
    two_sides(&agent, &client).await;
    let request = |remote: Option<&str>, branch: Option<&str>| GitPullRequest {
        path: Some(path(&agent, "x")),
        remote: remote.map(str::to_owned),
        branch: branch.map(str::to_owned),
        ..Default::default()
    };
    let pull = async |request: GitPullRequest| code_of(in_time(client.git_pull(&request)).await);
    assert_eq!(
        pull(request(Some("nowhere"), Some("main"))).await,
        ErrorCode::GitNotFound
    );
    assert_eq!(
        pull(request(None, Some("nowhere"))).await,
        ErrorCode::GitNotFound
    );
    sh(&agent, &client, "git -C x checkout -qb alone").await;
    assert_eq!(pull(request(None, None)).await, ErrorCode::InvalidRequest);
    sh(&agent, &client, "git -C x checkout -q main; mv bare away").await;
    assert_eq!(pull(request(None, None)).await, ErrorCode::GitNotFound);
    let outside = GitPullRequest {
        path: Some(path(&agent, ".")),
        ..Default::default()
    };
    assert_eq!(pull(outside).await, ErrorCode::GitNotFound);
    let missing = GitPullRequest {
        path: Some(path(&agent, "missing")),
        ..Default::default()
    };
    assert_eq!(pull(missing).await, ErrorCode::GitNotFound);
}
