//! What a failed run of git means, by the words it says in the C locale.

use super::GitError;
use super::command::Done;

/// Longest excerpt of git's words in an error.
const MAX_DETAIL: usize = 2000;

const AUTH: &[&str] = &[
    "Authentication failed",
    "could not read Username",
    "could not read Password",
    "Permission denied (",
    "Host key verification failed",
    "returned error: 401",
    "returned error: 403",
    "HTTP Basic: Access denied",
    "Invalid username or ",
];
const NETWORK: &[&str] = &[
    "Could not resolve host", // and `hostname`, which ssh says
    "Couldn't resolve host",
    "Temporary failure in name resolution",
    "Failed to connect",
    "Couldn't connect to server",
    "Could not connect to server",
    "Connection refused",
    "Connection timed out",
    "Connection reset",
    "Operation timed out",
    "No route to host",
    "Network is unreachable",
    "unable to connect to",
    "SSL certificate problem",
    "server certificate verification failed",
    "gnutls_handshake() failed",
    "Empty reply from server",
    "returned error: 5",
    "remote end hung up unexpectedly",
    "early EOF",
];
const CONFLICT: &[&str] = &[
    "CONFLICT (",
    "Automatic merge failed",
    "would be overwritten by",
    "you have unmerged files",
    "you need to resolve your current index first",
    "Not possible to fast-forward",
    "[rejected]",
    "cannot rebase: You have unstaged changes",
    "cannot rebase: Your index contains uncommitted changes",
    "Please commit your changes or stash them",
    "could not apply",
    "already exists",
    "is not fully merged",
    "used by worktree at",
    "checked out at",
    "stale info",
];
const NOT_FOUND: &[&str] = &[
    "not a git repository",
    "does not appear to be a git repository",
    "not found in upstream",
    "' not found",
    "returned error: 404",
    "couldn't find remote ref",
    "No such remote",
    "did not match any file",
    "unknown revision",
    "bad revision",
    "invalid reference",
    "ambiguous argument",
    "not a valid object name",
    "Not a valid object name",
    "not a commit and a branch",
    "does not match any",
    "does not exist",
    "No such file or directory",
    "Repository not found",
];

/// The error of a run that did not succeed.
pub(super) fn of(done: &Done) -> GitError {
    let stdout = String::from_utf8_lossy(&done.stdout);
    let own: Vec<&str> = done
        .stderr
        .lines()
        .chain(stdout.lines())
        .filter(|line| is_gits(line))
        .collect();
    let said = |words: &[&str]| {
        let mut lines = own.iter();
        lines.any(|line| words.iter().any(|word| line.contains(word)))
    };
    let detail = detail(&done.stderr, &stdout, done.code);
    // Auth first: a failed login also ends with "could not read from remote repository". What is
    // missing comes after conflicts, whose lists of files may hold any word.
    if said(AUTH) {
        GitError::Auth(detail)
    } else if said(&["detected dubious ownership"]) {
        GitError::Failed {
            detail,
            hint: Some(
                "the repository belongs to another user; run git as that one with `user`"
                    .to_owned(),
            ),
        }
    } else if said(CONFLICT) {
        GitError::Conflict(detail)
    } else if said(NOT_FOUND) {
        GitError::NotFound(detail)
    } else if said(NETWORK) {
        GitError::Network(detail)
    } else {
        let unknown = [
            "Please tell me who you are",
            "empty ident name",
            "unable to auto-detect email address",
        ];
        let hint = said(&unknown).then(|| "say who it is by with `author`".to_owned());
        GitError::Failed { detail, hint }
    }
}

/// Whether a line is git's own, or ssh's, and not that of a hook, a filter or the server: those may
/// say anything.
fn is_gits(line: &str) -> bool {
    const STARTS: [&str; 9] = [
        "fatal: ",
        "error: ",
        "CONFLICT (",
        "Automatic merge failed",
        " ! [",
        "!\t",
        "ssh: ",
        "ERROR: ",
        "Host key verification failed",
    ];
    // ssh begins with the user and host here.
    STARTS.iter().any(|start| line.starts_with(start)) || line.contains(": Permission denied (")
}

/// The part of what git said that tells why.
fn detail(stderr: &str, stdout: &str, code: i32) -> String {
    let progress = |line: &&str| !line.contains('\r') && !line.trim().is_empty();
    let hint = |line: &&str| !line.starts_with("hint:") && !line.starts_with("Cloning into");
    let lines: Vec<&str> = stderr.lines().filter(progress).filter(hint).collect();
    let conflicts = stdout
        .lines()
        .filter(|line| line.contains("CONFLICT (") || line.contains("rejected]"));
    let mut text: Vec<&str> = conflicts.chain(lines).collect();
    if text.is_empty() {
        text = stdout.lines().filter(progress).collect();
    }
    let mut text = text.join("\n");
    if text.is_empty() {
        return format!("git ended with status {code}");
    }
    if text.len() > MAX_DETAIL {
        let end = text.floor_char_boundary(MAX_DETAIL);
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meaning(stderr: &str, stdout: &str) -> GitError {
        of(&Done {
            code: 1,
            stdout: stdout.as_bytes().to_vec(),
            omitted: 0,
            stderr: stderr.to_owned(),
        })
    }

    #[test]
    fn tells_failures_apart() {
        let auth = "fatal: Authentication failed for 'https://h/r/'";
        assert!(matches!(meaning(auth, ""), GitError::Auth(_)));
        let ssh = "git@h: Permission denied (publickey).\r\nfatal: Could not read from remote repository.";
        assert!(matches!(meaning(ssh, ""), GitError::Auth(_)));
        let name = "ssh: Could not resolve hostname h: Name or service not known";
        assert!(matches!(meaning(name, ""), GitError::Network(_)));
        let conflict = "CONFLICT (content): Merge conflict in a";
        assert!(matches!(meaning("", conflict), GitError::Conflict(text) if text == conflict));
        let rejected = "!\trefs/heads/main:refs/heads/main\t[rejected] (fetch first)";
        assert!(matches!(
            meaning("error: failed", rejected),
            GitError::Conflict(_)
        ));
        let missing = "fatal: repository 'http://h/r/' not found";
        assert!(matches!(meaning(missing, ""), GitError::NotFound(_)));
    }

    #[test]
    fn words_of_hooks_count_for_nothing() {
        for said in [
            "Connection refused",
            "CONFLICT in the plan",
            "remote: does not exist",
        ] {
            assert!(
                matches!(meaning(said, said), GitError::Failed { detail, .. } if detail == said)
            );
        }
        assert!(matches!(meaning("", ""), GitError::Failed { detail, .. } if detail.contains('1')));
    }
}
