//! `git log` in pages.

use jiff::Timestamp;
use sandshell_exec::Executor;
use sandshell_types::{GitCommit, GitLogRequest, GitSignature, List, Room};

use super::command::With;
use super::{GitError, Place, check_optional, check_paths};

const DEFAULT_LIMIT: u32 = 100;
const MAX_LIMIT: u32 = 1000;

/// Fields of a commit, each ended by a NUL, the last one by `-z`.
const FORMAT: &str = "--format=%H%x00%P%x00%an%x00%ae%x00%at%x00%cn%x00%ce%x00%ct%x00%B";
const FIELDS: usize = 9;

/// Commits, newest first.
pub async fn log(executor: &Executor, request: GitLogRequest) -> Result<List<GitCommit>, GitError> {
    check_optional("/revision", request.revision.as_deref())?;
    check_paths(&request.paths)?;
    let limit = request.limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        return Err(GitError::invalid(
            "/limit",
            format!("a page has 1 to {MAX_LIMIT} commits, not {limit}"),
        ));
    }
    let skip: u64 = match &request.cursor {
        None => 0,
        Some(cursor) => cursor
            .parse()
            .map_err(|_| GitError::invalid("/cursor", "this is not a cursor of a log"))?,
    };
    let path = request.path.as_deref();
    let place = Place::of(executor, path, request.session, request.user)?;
    // One more than wanted tells whether there is a next page.
    let (count, skipped) = (format!("-n{}", limit + 1), format!("--skip={skip}"));
    let mut words = vec!["log", "-z", "--encoding=UTF-8", "--no-show-signature"];
    words.extend([FORMAT, &count, &skipped]);
    words.push(request.revision.as_deref().unwrap_or("HEAD"));
    words.push("--");
    words.extend(request.paths.iter().map(String::as_str));
    let done = place.run(&words, With::default()).await?;
    let unborn = request.revision.is_none() && done.code != 0 && place.commit().await?.is_none();
    if unborn {
        return Ok(List {
            items: Vec::new(),
            next_cursor: None,
        });
    }
    let done = done.succeeded()?;
    Ok(page(&done.stdout, done.omitted > 0, limit as usize, skip))
}

/// What of git's answer is on the page; `cut` when not all of it was read.
fn page(output: &[u8], cut: bool, limit: usize, skip: u64) -> List<GitCommit> {
    let mut items = commits(output);
    // What was not read began in the last one, which the next page gives as a whole.
    if cut && items.len() > 1 {
        items.pop();
    }
    let kept = Room::of_page(limit).fitting(&items);
    let more = cut || kept < items.len();
    items.truncate(kept);
    List {
        items,
        next_cursor: more.then(|| (skip + kept as u64).to_string()),
    }
}

pub(crate) fn commits(output: &[u8]) -> Vec<GitCommit> {
    let fields: Vec<String> = output
        .split(|b| *b == 0)
        .map(|field| String::from_utf8_lossy(field).into_owned())
        .collect();
    fields.chunks_exact(FIELDS).filter_map(commit).collect()
}

fn commit(fields: &[String]) -> Option<GitCommit> {
    let [hash, parents, an, ae, at, cn, ce, ct, message] = fields else {
        return None;
    };
    let signature = |name: &String, email: &String, at: &String| {
        let seconds = at.parse().ok()?;
        Some(GitSignature {
            name: name.clone(),
            email: email.clone(),
            at: Timestamp::from_second(seconds).ok()?,
        })
    };
    let message = message.trim_end_matches('\n').to_owned();
    Some(GitCommit {
        hash: hash.clone(),
        parents: parents.split_whitespace().map(str::to_owned).collect(),
        author: signature(an, ae, at)?,
        committer: signature(cn, ce, ct)?,
        subject: message.lines().next().unwrap_or_default().to_owned(),
        message,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_goes_on_wherever_it_ends() {
        let one = |message: &str| format!("aa\0\0n\0e\x001\0n\0e\x001\0{message}\0");
        let found = |output: &str, cut, limit| {
            let page = page(output.as_bytes(), cut, limit, 10);
            (page.items.len(), page.next_cursor)
        };
        let on = |at: &str| Some(at.to_owned());
        let short = one("m").repeat(3);
        assert_eq!(found(&short, false, 3), (3, None));
        assert_eq!(found(&short, false, 2), (2, on("12")));
        // Git said more than was read: the last message may not be whole.
        assert_eq!(found(&short, true, 3), (2, on("12")));
        assert_eq!(found(&one("m"), true, 3), (1, on("11")));
        // Its first line is given twice, as the subject too.
        let long = one(&"\u{1}".repeat(sandshell_types::PAGE_BYTES / 24 + 1));
        assert_eq!(found(&long.repeat(5), false, 4), (2, on("12")));
    }
}
