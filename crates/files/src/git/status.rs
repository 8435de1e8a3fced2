//! `git status`, from porcelain v2 with NULs.

use sandshell_exec::Executor;
use sandshell_types::{
    Env, GitConflictKind, GitFileState, GitStatusEntry, GitStatusReply, GitStatusRequest, Room,
};

use super::command::With;
use super::{GitError, MAX_ENTRIES, Place};
use crate::entry::shown;

/// What has changed, and where the branch stands.
pub async fn status(
    executor: &Executor,
    request: GitStatusRequest,
) -> Result<GitStatusReply, GitError> {
    let path = request.path.as_deref();
    let place = Place::of(executor, path, request.session, request.user)?;
    of(&place, request.ignored).await
}

pub(super) async fn of(place: &Place, ignored: bool) -> Result<GitStatusReply, GitError> {
    let mut words = vec![
        "status",
        "--porcelain=v2",
        "-z",
        "--branch",
        "--untracked-files=all",
    ];
    words.extend(ignored.then_some("--ignored"));
    let with = With {
        // Looking takes no lock that a commit in progress would run into.
        env: Env::from([("GIT_OPTIONAL_LOCKS".to_owned(), Some("0".to_owned()))]),
        ..With::default()
    };
    let done = place.run(&words, with).await?.succeeded()?;
    Ok(parse(&done.stdout))
}

pub(crate) fn parse(output: &[u8]) -> GitStatusReply {
    let mut reply = GitStatusReply {
        branch: None,
        commit: None,
        upstream: None,
        ahead: None,
        behind: None,
        clean: true,
        entries: Vec::new(),
        omitted_entries: 0,
    };
    let mut room = Room::of_answer(MAX_ENTRIES);
    let mut records = output
        .split(|b| *b == 0)
        .filter(|record| !record.is_empty());
    while let Some(record) = records.next() {
        if let Some(header) = record.strip_prefix(b"# ") {
            take_header(&mut reply, &String::from_utf8_lossy(header));
            continue;
        }
        // A rename has its former name in a record of its own.
        let original = record.starts_with(b"2 ").then(|| records.next()).flatten();
        let Some(entry) = entry(record, original) else {
            continue;
        };
        reply.clean &= entry.worktree == GitFileState::Ignored;
        if room.is_full() {
            reply.omitted_entries += 1;
        } else {
            room.take(&entry);
            reply.entries.push(entry);
        }
    }
    reply
}

fn take_header(reply: &mut GitStatusReply, header: &str) {
    let Some((name, value)) = header.split_once(' ') else {
        return;
    };
    let known = |value: &str| (!value.starts_with('(')).then(|| value.to_owned());
    match name {
        "branch.oid" => reply.commit = known(value),
        "branch.head" => reply.branch = known(value),
        "branch.upstream" => reply.upstream = Some(value.to_owned()),
        "branch.ab" => {
            let mut counts = value.split(' ').map(|n| n.get(1..)?.parse().ok());
            reply.ahead = counts.next().flatten();
            reply.behind = counts.next().flatten();
        }
        _ => {}
    }
}

fn entry(record: &[u8], original: Option<&[u8]>) -> Option<GitStatusEntry> {
    // Fields before the path, which may itself have spaces.
    let (fields, state) = match record.first()? {
        b'1' => (8, None),
        b'2' => (9, None),
        b'u' => (10, None),
        b'?' => (1, Some(GitFileState::Untracked)),
        b'!' => (1, Some(GitFileState::Ignored)),
        _ => return None,
    };
    let mut parts = record.splitn(fields + 1, |b| *b == b' ');
    let codes = parts.nth(1);
    let (path, codes) = match state {
        Some(_) => (codes?, None),
        None => (parts.nth(fields - 2)?, codes),
    };
    let unmerged = record.first() == Some(&b'u');
    let (index, worktree) = match (state, codes) {
        (Some(state), _) => (state, state),
        (None, Some([index, worktree])) => (file_state(*index)?, file_state(*worktree)?),
        _ => return None,
    };
    let (path, path_base64) = shown(path);
    let (original_path, original_path_base64) = match original.map(shown) {
        Some((path, exact)) => (Some(path), exact),
        None => (None, None),
    };
    Some(GitStatusEntry {
        path,
        path_base64,
        original_path,
        original_path_base64,
        index,
        worktree,
        conflict: codes.filter(|_| unmerged).and_then(conflict),
    })
}

fn file_state(code: u8) -> Option<GitFileState> {
    Some(match code {
        b'.' => GitFileState::Unmodified,
        b'M' => GitFileState::Modified,
        b'T' => GitFileState::TypeChanged,
        b'A' => GitFileState::Added,
        b'D' => GitFileState::Deleted,
        b'R' => GitFileState::Renamed,
        b'C' => GitFileState::Copied,
        b'U' => GitFileState::Unmerged,
        _ => return None,
    })
}

fn conflict(codes: &[u8]) -> Option<GitConflictKind> {
    Some(match codes {
        b"DD" => GitConflictKind::BothDeleted,
        b"AU" => GitConflictKind::AddedByUs,
        b"UD" => GitConflictKind::DeletedByThem,
        b"UA" => GitConflictKind::AddedByThem,
        b"DU" => GitConflictKind::DeletedByUs,
        b"AA" => GitConflictKind::BothAdded,
        b"UU" => GitConflictKind::BothModified,
        _ => return None,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_kind_of_record() {
        let output = b"# branch.oid abc\0# branch.head main\0# branch.upstream origin/main\0# branch.ab +2 -1\0\
            1 .M N... 100644 100644 100644 aa bb with space\0\
            2 R. N... 100644 100644 100644 aa bb R100 new name\0old\xff name\0\
            u UU N... 100644 100644 100644 100644 aa bb cc both\0\
            ? un known\0! ig\0";
        let reply = parse(output);
        assert_eq!(
            (
                reply.branch.as_deref(),
                reply.ahead,
                reply.behind,
                reply.clean
            ),
            (Some("main"), Some(2), Some(1), false)
        );
        let paths: Vec<&str> = reply.entries.iter().map(|e| e.path.as_str()).collect();
        assert_eq!(paths, ["with space", "new name", "both", "un known", "ig"]);
        assert_eq!(reply.entries[0].worktree, GitFileState::Modified);
        assert_eq!(
            reply.entries[1].original_path_base64.as_deref(),
            Some("b2xk/yBuYW1l")
        );
        assert_eq!(
            reply.entries[2].conflict,
            Some(GitConflictKind::BothModified)
        );
        let empty = parse(b"# branch.oid (initial)\0# branch.head (detached)\0");
        assert_eq!(
            (empty.branch, empty.commit, empty.clean),
            (None, None, true)
        );
    }
}
