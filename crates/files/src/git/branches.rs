//! `git branch`: list, make, delete.

use sandshell_exec::Executor;
use sandshell_types::{GitBranch, GitBranchesReply, GitBranchesRequest};

use super::command::With;
use super::{GitError, Place, check_name, check_optional};

/// Names have no line breaks and no NULs, so lines of NUL-separated fields are exact.
const FORMAT: &str = "--format=%(refname)%00%(objectname)%00%(HEAD)%00%(symref)%00\
    %(upstream:short)%00%(upstream:track,nobracket)";

/// Lists branches, after making or deleting one if asked to.
pub async fn branches(
    executor: &Executor,
    request: GitBranchesRequest,
) -> Result<GitBranchesReply, GitError> {
    if let Some(create) = &request.create {
        check_name("/create/name", &create.name)?;
        check_optional("/create/start", create.start.as_deref())?;
    }
    if let Some(delete) = &request.delete {
        check_name("/delete/name", &delete.name)?;
    }
    if request.create.is_some() && request.delete.is_some() {
        return Err(GitError::invalid(
            "/delete",
            "one call makes a branch or deletes one, not both",
        ));
    }
    let path = request.path.as_deref();
    let place = Place::of(executor, path, request.session, request.user)?;
    if let Some(create) = &request.create {
        let mut words = vec!["branch", "--", &create.name];
        words.extend(create.start.as_deref());
        place.run(&words, With::default()).await?.succeeded()?;
    }
    if let Some(delete) = &request.delete {
        let how = if delete.force { "-D" } else { "-d" };
        let words = ["branch", how, "--", &delete.name];
        place.run(&words, With::default()).await?.succeeded()?;
    }
    let words = ["for-each-ref", FORMAT, "refs/heads", "refs/remotes"];
    let done = place.run(&words, With::default()).await?.succeeded()?;
    let text = String::from_utf8_lossy(&done.stdout);
    Ok(GitBranchesReply {
        current: place.branch().await?,
        items: text.lines().filter_map(branch).collect(),
    })
}

pub(crate) fn branch(line: &str) -> Option<GitBranch> {
    let fields: Vec<&str> = line.split('\0').collect();
    let [name, commit, head, symref, upstream, track] = fields.as_slice() else {
        return None;
    };
    // `origin/HEAD` is another name, not a branch.
    if !symref.is_empty() {
        return None;
    }
    let (name, remote) = match name.strip_prefix("refs/heads/") {
        Some(name) => (name, false),
        None => (name.strip_prefix("refs/remotes/")?, true),
    };
    let gone = *track == "gone";
    let count = |word: &str| -> Option<u64> {
        let mut parts = track.split(", ");
        let found = parts.find_map(|part| part.strip_prefix(word)?.trim().parse().ok());
        (!upstream.is_empty() && !gone).then(|| found.unwrap_or(0))
    };
    Some(GitBranch {
        name: name.to_owned(),
        remote,
        current: *head == "*",
        commit: (*commit).to_owned(),
        upstream: (!upstream.is_empty()).then(|| (*upstream).to_owned()),
        ahead: count("ahead"),
        behind: count("behind"),
    })
}
