//! `git diff`: figures for each file, and the patch up to a limit.

use sandshell_exec::Executor;
use sandshell_types::{Encoded, Encoding, Env, GitDiffFile, GitDiffReply, GitDiffRequest};

use super::command::{MAX_OUTPUT, With};
use super::{GitError, MAX_ENTRIES, Place, check_optional, check_paths};
use crate::entry::shown;

/// Most bytes of a patch when none is said.
const DEFAULT_MAX: u64 = 1 << 20;

/// What differs.
pub async fn diff(executor: &Executor, request: GitDiffRequest) -> Result<GitDiffReply, GitError> {
    check_optional("/from", request.from.as_deref())?;
    check_optional("/to", request.to.as_deref())?;
    check_paths(&request.paths)?;
    if request.to.is_some() && request.from.is_none() {
        return Err(GitError::invalid("/to", "`to` needs `from`"));
    }
    if request.to.is_some() && request.staged {
        return Err(GitError::invalid(
            "/staged",
            "two commits are compared without the index",
        ));
    }
    let max = request.max_bytes.unwrap_or(DEFAULT_MAX);
    if max > MAX_OUTPUT {
        return Err(GitError::invalid(
            "/max_bytes",
            format!("a patch has at most {MAX_OUTPUT} bytes"),
        ));
    }
    let path = request.path.as_deref();
    let place = Place::of(executor, path, request.session, request.user)?;
    let mut rest: Vec<&str> = Vec::new();
    rest.extend(request.staged.then_some("--cached"));
    rest.extend(request.from.as_deref());
    rest.extend(request.to.as_deref());
    rest.push("--");
    rest.extend(request.paths.iter().map(String::as_str));
    let with = |max_output| With {
        env: Env::from([("GIT_OPTIONAL_LOCKS".to_owned(), Some("0".to_owned()))]),
        max_output,
        ..With::default()
    };
    let figures = [
        &["diff", "--numstat", "-z", "-M", "--no-ext-diff"][..],
        &rest,
    ]
    .concat();
    let figures = place.run(&figures, with(0)).await?.succeeded()?;
    let patch = [&["diff", "-M", "--no-ext-diff", "--no-color"][..], &rest].concat();
    // A limit of 0 asks for the figures only.
    let patch = place.run(&patch, with(max.max(1))).await?.succeeded()?;
    let (bytes, omitted_bytes) = if max == 0 {
        (Vec::new(), patch.omitted + patch.stdout.len() as u64)
    } else {
        (patch.stdout, patch.omitted)
    };
    let text = Encoded::new(bytes, Encoding::Auto);
    Ok(GitDiffReply {
        files: files(&figures.stdout),
        diff: text.data,
        diff_encoding: text.encoding,
        omitted_bytes,
    })
}

/// `added TAB deleted TAB path NUL`, or for a rename an empty path and two more records.
pub(crate) fn files(output: &[u8]) -> Vec<GitDiffFile> {
    let mut records = output.split(|b| *b == 0);
    let mut found = Vec::new();
    while let Some(record) = records.next()
        && found.len() < MAX_ENTRIES
    {
        let mut fields = record.splitn(3, |b| *b == b'\t');
        let (Some(added), Some(deleted), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let (original, path) = if path.is_empty() {
            (records.next(), records.next().unwrap_or_default())
        } else {
            (None, path)
        };
        let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse().ok();
        let (path, path_base64) = shown(path);
        let (original_path, original_path_base64) = match original.map(shown) {
            Some((path, exact)) => (Some(path), exact),
            None => (None, None),
        };
        found.push(GitDiffFile {
            path,
            path_base64,
            original_path,
            original_path_base64,
            additions: number(added),
            deletions: number(deleted),
            binary: added == b"-",
        });
    }
    found
}
