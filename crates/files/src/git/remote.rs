//! Pull and push.
//!
//! A pull is a fetch and then a merge or rebase of what came. Only the fetch has the credentials, so
//! nothing that the repository brings along for the second step runs beside them.

use std::time::{Duration, Instant};

use sandshell_exec::Executor;
use sandshell_types::{
    GitAuth, GitPullMode, GitPullReply, GitPullRequest, GitPushReply, GitPushRequest, GitPushState,
    GitPushedRef,
};

use super::command::With;
use super::credentials::Credentials;
use super::{GitError, Place, check_branch, check_optional};

/// Fetches, and brings both sides together. A conflict is left in the working tree, as git does.
pub async fn pull(executor: &Executor, request: GitPullRequest) -> Result<GitPullReply, GitError> {
    check_optional("/remote", request.remote.as_deref())?;
    check_branch(request.branch.as_deref())?;
    let deadline = Deadline::new(request.timeout_ms);
    let path = request.path.as_deref();
    let place = Place::of(executor, path, request.session, request.user)?;
    let branch = place.branch().await?;
    let remote = place.remote(request.remote, branch.as_deref()).await?;
    let theirs = match request.branch {
        Some(branch) => branch,
        None => place.followed(branch.as_deref()).await?,
    };
    let credentials = place
        .credentials(request.auth.as_ref(), &remote, false)
        .await?;
    let before = place.commit().await?;
    let with = With {
        credentials,
        timeout_ms: deadline.left()?,
        remote: true,
        ..With::default()
    };
    let words = ["fetch", "--quiet", "--", &remote, &theirs];
    place
        .run(&words, with)
        .await
        .map_err(|e| deadline.named(e))?
        .succeeded()?;
    let words: &[&str] = match request.mode {
        GitPullMode::Merge => &["merge", "--no-edit", "--ff", "FETCH_HEAD"],
        GitPullMode::FastForward => &["merge", "--ff-only", "FETCH_HEAD"],
        GitPullMode::Rebase => &["rebase", "FETCH_HEAD"],
    };
    let with = With {
        timeout_ms: deadline.left()?,
        ..With::default()
    };
    place
        .run(words, with)
        .await
        .map_err(|e| deadline.named(e))?
        .succeeded()?;
    let commit = place.commit().await?;
    Ok(GitPullReply {
        updated: commit != before,
        before,
        commit,
        branch,
    })
}

/// Pushes a branch.
pub async fn push(executor: &Executor, request: GitPushRequest) -> Result<GitPushReply, GitError> {
    check_optional("/remote", request.remote.as_deref())?;
    check_branch(request.branch.as_deref())?;
    let deadline = Deadline::new(request.timeout_ms);
    let path = request.path.as_deref();
    let place = Place::of(executor, path, request.session, request.user)?;
    let current = place.branch().await?;
    let remote = place.remote(request.remote, current.as_deref()).await?;
    let branch = request
        .branch
        .or(current)
        .ok_or_else(|| GitError::Invalid {
            pointer: "/branch".to_owned(),
            detail: "no branch is checked out".to_owned(),
            hint: Some("name the branch to push".to_owned()),
        })?;
    let credentials = place
        .credentials(request.auth.as_ref(), &remote, true)
        .await?;
    let mut words = vec!["push", "--porcelain", "--no-progress"];
    words.extend(request.set_upstream.then_some("--set-upstream"));
    words.extend(request.force.then_some("--force-with-lease"));
    words.extend(request.tags.then_some("--tags"));
    words.extend(["--", &remote, &branch]);
    let with = With {
        credentials,
        timeout_ms: deadline.left()?,
        remote: true,
        ..With::default()
    };
    let done = place
        .run(&words, with)
        .await
        .map_err(|e| deadline.named(e))?
        .succeeded()?;
    let text = String::from_utf8_lossy(&done.stdout);
    let refs = text.lines().filter_map(pushed).collect();
    Ok(GitPushReply { remote, refs })
}

impl Place {
    /// The remote that was asked for, or that of the branch, or `origin`.
    async fn remote(
        &self,
        asked: Option<String>,
        branch: Option<&str>,
    ) -> Result<String, GitError> {
        if let Some(remote) = asked {
            return Ok(remote);
        }
        let configured = match branch {
            Some(branch) => self.configured(&format!("branch.{branch}.remote")).await?,
            None => None,
        };
        let remote = configured.unwrap_or_else(|| "origin".to_owned());
        check_optional("/remote", Some(&remote))?;
        Ok(remote)
    }

    /// The branch there that ours follows.
    async fn followed(&self, branch: Option<&str>) -> Result<String, GitError> {
        let followed = match branch {
            Some(branch) => self.configured(&format!("branch.{branch}.merge")).await?,
            None => None,
        };
        let followed = followed.ok_or_else(|| GitError::Invalid {
            pointer: "/branch".to_owned(),
            detail: "the branch follows none of a remote".to_owned(),
            hint: Some("name the branch to pull, or push with `set_upstream`".to_owned()),
        })?;
        check_optional("/branch", Some(&followed))?;
        Ok(followed)
    }

    async fn configured(&self, key: &str) -> Result<Option<String>, GitError> {
        let words = ["config", "--get", key];
        let done = self.run(&words, With::default()).await?;
        Ok((done.code == 0).then(|| done.line()))
    }

    /// Credentials for the host that a remote is at now.
    async fn credentials(
        &self,
        auth: Option<&GitAuth>,
        remote: &str,
        push: bool,
    ) -> Result<Option<Credentials>, GitError> {
        let Some(auth) = auth else { return Ok(None) };
        let mut words = vec!["remote", "get-url"];
        words.extend(push.then_some("--push"));
        words.extend(["--", remote]);
        let done = self.run(&words, With::default()).await?.succeeded()?;
        Credentials::new(auth, &done.line()).map(Some)
    }
}

/// `flag TAB from:to TAB summary`.
pub(crate) fn pushed(line: &str) -> Option<GitPushedRef> {
    let mut fields = line.split('\t');
    let state = match fields.next()? {
        " " => GitPushState::Updated,
        "+" => GitPushState::Forced,
        "*" => GitPushState::Created,
        "-" => GitPushState::Deleted,
        "=" => GitPushState::UpToDate,
        _ => return None,
    };
    let (from, to) = fields.next()?.split_once(':')?;
    Some(GitPushedRef {
        from: from.to_owned(),
        to: to.to_owned(),
        state,
    })
}

/// The time of a call of several runs.
struct Deadline {
    asked: Option<u64>,
    began: Instant,
}

impl Deadline {
    fn new(asked: Option<u64>) -> Self {
        Self {
            asked,
            began: Instant::now(),
        }
    }

    /// What is left of it.
    fn left(&self) -> Result<Option<u64>, GitError> {
        let Some(asked) = self.asked else {
            return Ok(None);
        };
        let left = Duration::from_millis(asked).saturating_sub(self.began.elapsed());
        if left.is_zero() {
            return Err(GitError::TimedOut(asked));
        }
        Ok(Some(left.as_millis() as u64 + 1))
    }

    /// A timeout told as it was asked for.
    fn named(&self, error: GitError) -> GitError {
        match (error, self.asked) {
            (GitError::TimedOut(_), Some(asked)) => GitError::TimedOut(asked),
            (other, _) => other,
        }
    }
}
