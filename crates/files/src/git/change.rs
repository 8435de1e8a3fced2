//! What changes a repository without a remote: checkout, add, commit.

use sandshell_exec::Executor;
use sandshell_types::{
    Env, GitAddRequest, GitCheckoutRequest, GitCommitReply, GitCommitRequest, GitHeadReply,
    GitIdentity, GitStatusReply,
};

use super::command::With;
use super::{GitError, Place, check_name, check_optional, check_paths, status};

/// Switches to a branch, tag or commit.
pub async fn checkout(
    executor: &Executor,
    request: GitCheckoutRequest,
) -> Result<GitHeadReply, GitError> {
    check_name("/target", &request.target)?;
    check_optional("/start", request.start.as_deref())?;
    if request.start.is_some() && !request.create {
        return Err(GitError::invalid("/start", "`start` needs `create`"));
    }
    let path = request.path.as_deref();
    let place = Place::of(executor, path, request.session, request.user)?;
    let mut words = vec!["checkout", "--quiet"];
    words.extend(request.force.then_some("--force"));
    words.extend(request.create.then_some("-b"));
    words.push(&request.target);
    words.extend(request.start.as_deref());
    // What stands before it is never a path.
    words.push("--");
    place.run(&words, With::default()).await?.succeeded()?;
    Ok(GitHeadReply {
        branch: place.branch().await?,
        commit: place.commit().await?,
    })
}

/// Adds to the index; answers with the status after it.
pub async fn add(executor: &Executor, request: GitAddRequest) -> Result<GitStatusReply, GitError> {
    check_paths(&request.paths)?;
    if request.all != request.paths.is_empty() {
        return Err(GitError::invalid(
            "/paths",
            "either `paths` or `all` is needed",
        ));
    }
    let path = request.path.as_deref();
    let place = Place::of(executor, path, request.session, request.user)?;
    let mut words = vec!["add"];
    words.extend(request.all.then_some("--all"));
    words.push("--");
    words.extend(request.paths.iter().map(String::as_str));
    place.run(&words, With::default()).await?.succeeded()?;
    status::of(&place, false).await
}

/// Commits what was added.
pub async fn commit(
    executor: &Executor,
    request: GitCommitRequest,
) -> Result<GitCommitReply, GitError> {
    if request.message.trim().is_empty() || request.message.contains('\0') {
        return Err(GitError::invalid(
            "/message",
            "a message is not empty and has no NUL byte",
        ));
    }
    let mut env = Env::new();
    let committer = request.committer.as_ref().or(request.author.as_ref());
    name(&mut env, "AUTHOR", "/author", request.author.as_ref())?;
    name(&mut env, "COMMITTER", "/committer", committer)?;
    let path = request.path.as_deref();
    let place = Place::of(executor, path, request.session, request.user)?;
    // The message may be long, so it does not stand among the arguments.
    let mut words = vec!["commit", "--file=-"];
    words.extend(request.all.then_some("--all"));
    words.extend(request.amend.then_some("--amend"));
    words.extend(request.allow_empty.then_some("--allow-empty"));
    let with = With {
        stdin: Some(request.message),
        env,
        ..With::default()
    };
    let done = place.run(&words, with).await?;
    let nothing = done.code == 1 && {
        let said = String::from_utf8_lossy(&done.stdout);
        [
            "nothing to commit",
            "nothing added to commit",
            "no changes added to commit",
        ]
        .iter()
        .any(|words| said.contains(words))
    };
    if !nothing {
        done.succeeded()?;
    }
    Ok(GitCommitReply {
        committed: !nothing,
        commit: place.commit().await?,
        branch: place.branch().await?,
    })
}

fn name(
    env: &mut Env,
    role: &str,
    pointer: &str,
    who: Option<&GitIdentity>,
) -> Result<(), GitError> {
    let Some(who) = who else { return Ok(()) };
    for (field, text) in [("name", &who.name), ("email", &who.email)] {
        if text.trim().is_empty() || text.contains(['\0', '\n', '<', '>']) {
            return Err(GitError::invalid(
                &format!("{pointer}/{field}"),
                "it is not empty and has no line break, NUL, '<' or '>'",
            ));
        }
        let variable = format!("GIT_{role}_{}", field.to_uppercase());
        env.insert(variable, Some(text.clone()));
    }
    Ok(())
}
