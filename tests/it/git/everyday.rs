//! One repository: status, diff, log, branches, checkout, add, commit.

use base64::Engine as _;
use sandshell_client::types::{
    ErrorCode, GitAddRequest, GitBranchesRequest, GitCheckoutRequest, GitCommitRequest,
    GitConflictKind, GitDiffRequest, GitFileState, GitLogRequest, GitNewBranch, GitOldBranch,
    GitStatusEntry, GitStatusRequest, SessionRequest,
};

use super::{agent, commit_all, me, one_commit, path, sh, status};
use crate::calls::{Shell, code_of, in_time};

#[tokio::test]
async fn a_commit_is_made_and_seen() {
    let agent = agent();
    let client = agent.client();
    sh(&agent, &client, "git init -q -b main r; echo one >r/a").await;
    let before = status(&agent, &client, "r").await;
    assert_eq!(
        (before.branch.as_deref(), before.commit, before.clean),
        (Some("main"), None, false)
    );
    let log = GitLogRequest {
        path: Some(path(&agent, "r")),
        ..Default::default()
    };
    assert_eq!(in_time(client.git_log(&log)).await.unwrap().items, []);
    let add = GitAddRequest {
        path: Some(path(&agent, "r")),
        paths: vec!["a".to_owned()],
        ..Default::default()
    };
    let added = in_time(client.git_add(&add)).await.unwrap();
    assert_eq!(added.entries[0].index, GitFileState::Added);
    // Nobody is configured here.
    let mut commit = GitCommitRequest {
        path: Some(path(&agent, "r")),
        message: "First\n\nWith \"quotes\", $(echo no) and ünïcode\n".to_owned(),
        ..Default::default()
    };
    let refused = in_time(client.git_commit(&commit)).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::GitFailed));
    assert!(
        refused
            .problem()
            .unwrap()
            .hint
            .as_deref()
            .unwrap()
            .contains("author")
    );
    commit.author = Some(me());
    let made = in_time(client.git_commit(&commit)).await.unwrap();
    let head = sh(&agent, &client, "git -C r rev-parse HEAD").await;
    assert_eq!(
        (made.committed, made.commit.as_deref()),
        (true, Some(head.as_str()))
    );
    let again = in_time(client.git_commit(&commit)).await.unwrap();
    assert_eq!(
        (again.committed, again.commit.as_deref()),
        (false, Some(head.as_str()))
    );
    let listed = in_time(client.git_log(&log)).await.unwrap().items;
    let [one] = &listed[..] else {
        panic!("{listed:?}")
    };
    assert_eq!(one.subject, "First");
    assert_eq!(one.message, commit.message.trim_end());
    assert_eq!(
        (one.author.name.as_str(), one.committer.email.as_str()),
        ("A U Thor", "a@example.org")
    );
    let at = sh(&agent, &client, "git -C r log -1 --format=%at").await;
    assert_eq!(one.author.at.as_second().to_string(), at);
    assert!(status(&agent, &client, "r").await.clean);
}

#[tokio::test]
async fn a_log_is_paged_and_narrowed() {
    let agent = agent();
    let client = agent.client();
    sh(&agent, &client, "git init -q -b main r; cd r; for n in $(seq 25); do echo $n >f$((n % 2)); git add .; git commit -qm \"c $n\"; done").await;
    let mut seen = Vec::new();
    let mut request = GitLogRequest {
        path: Some(path(&agent, "r")),
        limit: Some(10),
        ..Default::default()
    };
    loop {
        let page = in_time(client.git_log(&request)).await.unwrap();
        assert!(page.items.len() <= 10);
        seen.extend(page.items.into_iter().map(|commit| commit.hash));
        request.cursor = page.next_cursor;
        if request.cursor.is_none() {
            break;
        }
    }
    let oracle = sh(&agent, &client, "git -C r log --format=%H").await;
    assert_eq!(seen, oracle.lines().collect::<Vec<_>>());
    let request = GitLogRequest {
        path: Some(path(&agent, "r")),
        paths: vec!["f1".to_owned()],
        revision: Some("HEAD~5".to_owned()),
        ..Default::default()
    };
    let narrowed = in_time(client.git_log(&request)).await.unwrap().items;
    let oracle = sh(&agent, &client, "git -C r log --format=%s HEAD~5 -- f1").await;
    let subjects: Vec<&str> = narrowed
        .iter()
        .map(|commit| commit.subject.as_str())
        .collect();
    assert_eq!(subjects, oracle.lines().collect::<Vec<_>>());
    let missing = GitLogRequest {
        path: Some(path(&agent, "r")),
        revision: Some("nowhere".to_owned()),
        ..Default::default()
    };
    assert_eq!(
        code_of(client.git_log(&missing).await),
        ErrorCode::GitNotFound
    );
}

fn letter(state: GitFileState) -> char {
    match state {
        GitFileState::Unmodified => ' ',
        GitFileState::Modified => 'M',
        GitFileState::TypeChanged => 'T',
        GitFileState::Added => 'A',
        GitFileState::Deleted => 'D',
        GitFileState::Renamed => 'R',
        GitFileState::Copied => 'C',
        GitFileState::Unmerged => 'U',
        GitFileState::Untracked => '?',
        GitFileState::Ignored => '!',
    }
}

fn exact(text: &str, base64: Option<&String>) -> Vec<u8> {
    base64.map_or_else(
        || text.as_bytes().to_vec(),
        |coded| {
            base64::engine::general_purpose::STANDARD
                .decode(coded)
                .unwrap()
        },
    )
}

/// An entry as the older format of git writes it.
fn as_version_1(entry: &GitStatusEntry) -> Vec<u8> {
    let mut line = format!("{}{} ", letter(entry.index), letter(entry.worktree)).into_bytes();
    line.extend(exact(&entry.path, entry.path_base64.as_ref()));
    if let Some(original) = &entry.original_path {
        line.push(0);
        line.extend(exact(original, entry.original_path_base64.as_ref()));
    }
    line.push(0);
    line
}

/// Every state a file can be in, compared with what git itself says in another format.
#[tokio::test]
async fn a_status_is_what_git_says() {
    let agent = agent();
    let client = agent.client();
    let script = r#"
git init -q -b main r; cd r; git config status.renames copies
for f in modified staged both deleted gone renamed 'with space' typed $'tab\there' $'line\nbreak' ; do echo "$f" >"$f"; done
printf x >$'bad\xff\xfename'; seq 100 >moved; echo '*.ign' >.gitignore
git add -A; git commit -qm one; git branch other
echo 2 >>modified; echo 2 >>staged; git add staged; echo 2 >>both; git add both; echo 3 >>both
rm deleted; git rm -q gone; git mv renamed 'new name'; git mv $'bad\xff\xfename' $'worse\xfe'; git mv moved dir-less
echo z >>'with space'; rm typed; ln -s x typed; echo 5 >>$'tab\there'; echo 5 >>$'line\nbreak'
mkdir -p new/deep; echo u >new/deep/file; echo u >$'un\xffknown'; echo i >x.ign; echo a >added; git add added; rm added"#;
    sh(&agent, &client, script).await;
    for ignored in [false, true] {
        let request = GitStatusRequest {
            path: Some(path(&agent, "r")),
            ignored,
            ..Default::default()
        };
        let reply = in_time(client.git_status(&request)).await.unwrap();
        let ours: Vec<u8> = reply.entries.iter().flat_map(as_version_1).collect();
        let flag = if ignored { "--ignored" } else { "" };
        let oracle = format!("git -C r status --porcelain=v1 -z -uall {flag} | base64 -w0");
        let oracle = sh(&agent, &client, &oracle).await;
        let oracle = base64::engine::general_purpose::STANDARD
            .decode(oracle)
            .unwrap();
        assert_eq!(
            String::from_utf8_lossy(&ours),
            String::from_utf8_lossy(&oracle)
        );
        assert_eq!(ours, oracle);
        assert!(reply.entries.len() >= 12 && !reply.clean, "{reply:?}");
    }
}

#[tokio::test]
async fn conflicts_are_named_by_kind() {
    let agent = agent();
    let client = agent.client();
    let script = r"
git init -q -b main r; cd r; for f in mm md dm; do echo 1 >$f; done; git add -A; git commit -qm one
git checkout -qb side; echo side >mm; git rm -q md; echo side >dm; echo side >aa; git add -A; git commit -qm side
git checkout -q main; echo main >mm; echo main >md; git rm -q dm; echo main >aa; git add -A; git commit -qm main
git merge -q side || true";
    sh(&agent, &client, script).await;
    let reply = status(&agent, &client, "r").await;
    let kinds: Vec<(&str, Option<GitConflictKind>)> = reply
        .entries
        .iter()
        .map(|entry| (entry.path.as_str(), entry.conflict))
        .collect();
    assert_eq!(
        kinds,
        [
            ("aa", Some(GitConflictKind::BothAdded)),
            ("dm", Some(GitConflictKind::DeletedByUs)),
            ("md", Some(GitConflictKind::DeletedByThem)),
            ("mm", Some(GitConflictKind::BothModified)),
        ]
    );
    let commit = GitCommitRequest {
        path: Some(path(&agent, "r")),
        message: "x".to_owned(),
        author: Some(me()),
        ..Default::default()
    };
    assert_eq!(
        code_of(client.git_commit(&commit).await),
        ErrorCode::GitConflict
    );
}

#[tokio::test]
async fn a_diff_has_figures_and_a_patch() {
    let agent = agent();
    let client = agent.client();
    let script = r"
git init -q -b main r; cd r; seq 100 >old; printf '\0\1' >bin; echo a >text; git add -A; git commit -qm one
git mv old new; printf '\0\2' >bin; printf 'b\nc\n' >text; git add new bin; git commit -qm two; echo d >>text";
    sh(&agent, &client, script).await;
    let diff = async |request: GitDiffRequest| {
        let request = GitDiffRequest {
            path: Some(path(&agent, "r")),
            ..request
        };
        in_time(client.git_diff(&request)).await.unwrap()
    };
    let plain = diff(GitDiffRequest::default()).await;
    assert_eq!(
        plain.diff,
        sh(&agent, &client, "git -C r diff").await + "\n"
    );
    assert_eq!(
        (plain.files[0].additions, plain.files[0].deletions),
        (Some(3), Some(1))
    );
    assert_eq!(
        diff(GitDiffRequest {
            staged: true,
            ..Default::default()
        })
        .await
        .files,
        []
    );
    let both = diff(GitDiffRequest {
        from: Some("HEAD~1".to_owned()),
        to: Some("HEAD".to_owned()),
        ..Default::default()
    })
    .await;
    let files: Vec<_> = both
        .files
        .iter()
        .map(|file| {
            (
                file.path.as_str(),
                file.original_path.as_deref(),
                file.binary,
                file.additions,
            )
        })
        .collect();
    assert_eq!(
        files,
        [
            ("bin", None, true, None),
            ("new", Some("old"), false, Some(0))
        ]
    );
    let narrow = diff(GitDiffRequest {
        from: Some("HEAD~1".to_owned()),
        paths: vec!["text".to_owned()],
        max_bytes: Some(20),
        ..Default::default()
    })
    .await;
    assert_eq!((narrow.files.len(), narrow.diff.len()), (1, 20));
    assert!(narrow.omitted_bytes > 0);
}

#[tokio::test]
async fn branches_come_and_go() {
    let agent = agent();
    let client = agent.client();
    one_commit(&agent, &client).await;
    let branches = async |create: Option<&str>, delete: Option<(&str, bool)>| {
        let request = GitBranchesRequest {
            path: Some(path(&agent, "r")),
            create: create.map(|name| GitNewBranch {
                name: name.to_owned(),
                start: None,
            }),
            delete: delete.map(|(name, force)| GitOldBranch {
                name: name.to_owned(),
                force,
            }),
            ..Default::default()
        };
        in_time(client.git_branches(&request)).await
    };
    let listed = branches(Some("side"), None).await.unwrap();
    let names: Vec<_> = listed
        .items
        .iter()
        .map(|b| (b.name.as_str(), b.current))
        .collect();
    assert_eq!(names, [("main", true), ("side", false)]);
    assert_eq!(listed.current.as_deref(), Some("main"));
    assert_eq!(
        code_of(branches(Some("side"), None).await),
        ErrorCode::GitConflict
    );
    let checkout = async |target: &str, create: bool| {
        let request = GitCheckoutRequest {
            path: Some(path(&agent, "r")),
            target: target.to_owned(),
            create,
            ..Default::default()
        };
        in_time(client.git_checkout(&request)).await
    };
    assert_eq!(
        checkout("side", false).await.unwrap().branch.as_deref(),
        Some("side")
    );
    sh(&agent, &client, "echo 2 >r/a").await;
    let made = commit_all(&agent, &client, "r", "two").await;
    assert_eq!(made.branch.as_deref(), Some("side"));
    // A change that would be lost.
    sh(&agent, &client, "echo 3 >r/a").await;
    assert_eq!(
        code_of(checkout("main", false).await),
        ErrorCode::GitConflict
    );
    assert_eq!(sh(&agent, &client, "cat r/a").await, "3");
    sh(&agent, &client, "git -C r checkout -q a").await;
    let detached = checkout("HEAD~1", false).await.unwrap();
    assert_eq!(
        (detached.branch, detached.commit),
        (None, listed.items.first().map(|b| b.commit.clone()))
    );
    assert_eq!(
        code_of(checkout("nowhere", false).await),
        ErrorCode::GitNotFound
    );
    // A file's name is never taken for a branch.
    assert_eq!(code_of(checkout("a", false).await), ErrorCode::GitNotFound);
    assert_eq!(
        checkout("third", true).await.unwrap().branch.as_deref(),
        Some("third")
    );
    assert_eq!(
        code_of(branches(None, Some(("side", false))).await),
        ErrorCode::GitConflict
    );
    assert_eq!(
        branches(None, Some(("side", true)))
            .await
            .unwrap()
            .items
            .len(),
        2
    );
    assert_eq!(
        code_of(branches(None, Some(("side", true))).await),
        ErrorCode::GitNotFound
    );
}

/// With a session, git has its directory and environment, whatever functions it has.
#[tokio::test]
async fn a_session_gives_directory_and_environment() {
    let agent = agent();
    let client = agent.client();
    sh(
        &agent,
        &client,
        "git init -q -b main r; mkdir r/sub; echo 1 >r/sub/a",
    )
    .await;
    let shell = Shell::with(&agent, &SessionRequest::default()).await;
    let dir = path(&agent, "r/sub");
    shell.out(&format!("cd {dir}; export GIT_AUTHOR_NAME='In Session' GIT_AUTHOR_EMAIL=s@x GIT_COMMITTER_NAME=S GIT_COMMITTER_EMAIL=s@x; git() {{ echo no; }}; shopt -s expand_aliases; alias git='echo no'")).await;
    let add = GitAddRequest {
        paths: vec!["a".to_owned()],
        session: Some(shell.id.clone()),
        ..Default::default()
    };
    let added = in_time(client.git_add(&add)).await.unwrap();
    assert_eq!(added.entries[0].path, "sub/a");
    let commit = GitCommitRequest {
        message: "it's from 'a' session".to_owned(),
        session: Some(shell.id.clone()),
        ..Default::default()
    };
    assert!(in_time(client.git_commit(&commit)).await.unwrap().committed);
    let made = sh(&agent, &client, "git -C r log -1 --format='%an %s'").await;
    assert_eq!(made, "In Session it's from 'a' session");
    shell.out("PATH=/nowhere").await;
    let missing = in_time(client.git_commit(&commit)).await;
    assert_eq!(code_of(missing), ErrorCode::ProgramNotFound);
}
