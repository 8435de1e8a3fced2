//! Git in the sandbox, against real repositories.

mod everyday;
mod over_http;
mod refusals;
mod sides;

use sandshell_client::Client;
use sandshell_client::types::{
    GitAddRequest, GitCommitReply, GitCommitRequest, GitIdentity, GitStatusReply, GitStatusRequest,
};
use sandshell_testkit::Agent;

use crate::calls::{exec, in_time};

/// A sandbox in whose working directory everything happens. Nothing of the machine's own
/// configuration of git counts.
fn agent() -> Agent {
    let home = tempfile::tempdir().unwrap();
    let home = format!("HOME={}", home.path().display());
    Agent::builder()
        .args(["--env", &home, "--env", "GIT_CONFIG_NOSYSTEM=1"])
        .start()
}

fn me() -> GitIdentity {
    GitIdentity {
        name: "A U Thor".to_owned(),
        email: "a@example.org".to_owned(),
    }
}

/// Runs a script in the working directory; it must succeed. Its output without the last line break.
async fn sh(agent: &Agent, client: &Client, script: &str) -> String {
    let dir = agent.work_dir();
    let names = "export GIT_AUTHOR_NAME=o GIT_AUTHOR_EMAIL=o@x GIT_COMMITTER_NAME=o GIT_COMMITTER_EMAIL=o@x";
    let text = format!("set -e; {names}; cd {}\n{script}", dir.display());
    let done = exec(client, &text).await;
    assert_eq!(
        done.exit_code, 0,
        "{script}: {}{}",
        done.stdout, done.stderr
    );
    done.stdout.trim_end().to_owned()
}

/// The repository `r`, with a file `a` in its one commit.
async fn one_commit(agent: &Agent, client: &Client) {
    let script = "git init -q -b main r; cd r; echo 1 >a; git add .; git commit -qm one";
    sh(agent, client, script).await;
}

fn path(agent: &Agent, name: &str) -> String {
    agent.work_dir().join(name).display().to_string()
}

async fn status(agent: &Agent, client: &Client, name: &str) -> GitStatusReply {
    let request = GitStatusRequest {
        path: Some(path(agent, name)),
        ..Default::default()
    };
    in_time(client.git_status(&request)).await.unwrap()
}

/// Adds everything and commits it.
async fn commit_all(agent: &Agent, client: &Client, name: &str, message: &str) -> GitCommitReply {
    let add = GitAddRequest {
        path: Some(path(agent, name)),
        all: true,
        ..Default::default()
    };
    in_time(client.git_add(&add)).await.unwrap();
    let commit = GitCommitRequest {
        path: Some(path(agent, name)),
        message: message.to_owned(),
        author: Some(me()),
        ..Default::default()
    };
    in_time(client.git_commit(&commit)).await.unwrap()
}
