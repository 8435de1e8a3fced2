//! `git clone`, with progress; a failed one leaves nothing behind.
//!
//! ```text
//! look at the target ─► clone ──ok──► reply
//!   │ taken: refused      └─failed─► remove what is there now, and parents it made if empty
//! ```

use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType, OFlags, fstat};
use rustix::io::Errno;
use sandshell_exec::inside::{Follow, Root};
use sandshell_exec::output::{JointPiece, Stream};
use sandshell_exec::{Executor, ProcessHandle};
use sandshell_types::{GitCloneReply, GitCloneRequest, GitProgress, ProcessRequest};
use tokio::sync::mpsc;

use super::command::{With, outcome};
use super::credentials::{Credentials, check_url};
use super::progress::Lines;
use super::{GitError, Place, check_optional};
use crate::FileError;

/// Where progress goes. What finds no room is dropped: the next one says more.
pub type Progress = mpsc::Sender<GitProgress>;

/// What is at the target before a clone.
#[derive(Debug)]
enum Before {
    Nothing {
        /// Directories above it that are missing too, the deepest first.
        parents: Vec<PathBuf>,
    },
    EmptyDirectory,
    Taken,
}

/// A clone that was found possible as far as its request tells; nothing is done yet.
#[derive(Debug)]
pub struct CheckedClone {
    request: GitCloneRequest,
    target: Place,
    credentials: Option<Credentials>,
}

/// Checks the request of a clone, so that it can be refused before anything is answered.
pub fn check_clone(
    executor: &Executor,
    request: GitCloneRequest,
) -> Result<CheckedClone, GitError> {
    check_url(&request.url)?;
    check_optional("/branch", request.branch.as_deref())?;
    if request.depth == Some(0) {
        return Err(GitError::invalid(
            "/depth",
            "a clone has at least one commit",
        ));
    }
    let path = match &request.path {
        Some(path) => path.clone(),
        None => name_of(&request.url)?,
    };
    let session = request.session.clone();
    let target = Place::of(executor, Some(&path), session, request.user.clone())?;
    let credentials = request.auth.as_ref();
    let credentials = credentials.map(|auth| Credentials::new(auth, &request.url));
    let credentials = credentials.transpose()?;
    Ok(CheckedClone {
        request,
        target,
        credentials,
    })
}

/// Clones a repository.
pub async fn clone(
    executor: &Executor,
    checked: CheckedClone,
    progress: Option<Progress>,
) -> Result<GitCloneReply, GitError> {
    let CheckedClone {
        request,
        target,
        credentials,
    } = checked;
    let absolute = target.cwd.clone().unwrap_or_default();
    let who = executor.who(request.user.as_deref())?;
    let there = PathBuf::from(&absolute);
    let looked = executor.inside().run(&who, move |root| look(root, &there));
    let before = looked.await.map_err(FileError::from)?.map_err(|errno| {
        let at = FileError::at(Path::new(&absolute));
        at(errno)
    })?;
    if matches!(before, Before::Taken) {
        return Err(GitError::Exists(absolute));
    }
    // Relative URLs start where relative paths do.
    let place = Place {
        cwd: None,
        ..target.clone()
    };
    let depth = request.depth.map(|depth| format!("--depth={depth}"));
    let mut words = vec!["clone", "--progress"];
    words.extend(depth.as_deref());
    if let Some(branch) = &request.branch {
        words.extend(["--branch", branch]);
    }
    words.extend(["--", &request.url, &absolute]);
    let with = With {
        credentials,
        timeout_ms: request.timeout_ms,
        ..With::default()
    };
    let process = place.start(&words, with).await?;
    if let Some(progress) = progress {
        follow(&process, &progress).await;
    }
    let ended = outcome(&process, request.timeout_ms, 0).await;
    if let Err(error) = ended.and_then(super::command::Done::succeeded) {
        clean_up(&target, &absolute, before).await;
        return Err(error);
    }
    Ok(GitCloneReply {
        branch: target.branch().await?,
        commit: target.commit().await?,
        path: absolute,
    })
}

/// The directory git would name after a URL.
fn name_of(url: &str) -> Result<String, GitError> {
    let trimmed = url.trim_end_matches('/');
    let trimmed = trimmed.strip_suffix("/.git").unwrap_or(trimmed);
    let name = trimmed.rsplit(['/', ':']).next().unwrap_or_default();
    let name = name.strip_suffix(".git").unwrap_or(name);
    if name.is_empty() || name == "." || name == ".." {
        return Err(GitError::invalid("/path", "the URL gives no name for it"));
    }
    Ok(name.to_owned())
}

fn look(root: &Root, target: &Path) -> Result<Before, Errno> {
    let found = match root.find(target, Follow::Yes) {
        Ok(found) => found,
        Err(Errno::NOENT) => {
            // A link that leads nowhere is something, too.
            if root.find(target, Follow::No).is_ok() {
                return Ok(Before::Taken);
            }
            let above = target.ancestors().skip(1);
            let missing =
                above.take_while(|dir| matches!(root.find(dir, Follow::No), Err(Errno::NOENT)));
            let parents = missing.map(Path::to_owned).collect();
            return Ok(Before::Nothing { parents });
        }
        Err(errno) => return Err(errno),
    };
    if FileType::from_raw_mode(fstat(&found)?.st_mode) != FileType::Directory {
        return Ok(Before::Taken);
    }
    let opened = root.open(&found, OFlags::RDONLY | OFlags::DIRECTORY)?;
    let mut entries = Dir::new(opened)?;
    let other = entries.find(|entry| {
        entry.as_ref().map_or(true, |entry| {
            !matches!(entry.file_name().to_bytes(), b"." | b"..")
        })
    });
    Ok(if other.is_some() {
        Before::Taken
    } else {
        Before::EmptyDirectory
    })
}

/// Passes on what git says of its progress until its output ends.
async fn follow(process: &ProcessHandle, progress: &Progress) {
    let Ok(mut reader) = process.log().joint_reader(0, true) else {
        return;
    };
    let mut lines = Lines::default();
    while let Ok(Some(piece)) = reader.next().await {
        if let JointPiece::Data {
            stream: Stream::Stderr,
            data,
            ..
        } = piece
        {
            let mut told = lines.push(&data).into_iter().peekable();
            while let Some(one) = told.next() {
                // Of what came together, the last of each phase says all.
                let later = told.peek();
                if later.is_none_or(|later| later.phase != one.phase) {
                    let _ = progress.try_send(one);
                }
            }
        }
    }
}

/// Removes what a failed clone left, with the rights it had. Git does so itself unless it was killed.
async fn clean_up(target: &Place, absolute: &str, before: Before) {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let steps: Vec<Vec<String>> = match before {
        Before::Taken => return,
        Before::EmptyDirectory => vec![words(&[
            "find",
            "-H",
            absolute,
            "-mindepth",
            "1",
            "-delete",
        ])],
        Before::Nothing { parents } => {
            let mut steps = vec![words(&["rm", "-rf", "--", absolute])];
            let parents = parents.iter().map(|dir| dir.to_string_lossy());
            // Fails where something else has come to live there, which is right.
            steps.extend(parents.map(|dir| words(&["rmdir", "--", &dir])));
            steps
        }
    };
    for argv in steps {
        let spec = ProcessRequest {
            argv: Some(argv),
            cwd: Some("/".to_owned()),
            user: target.user.clone(),
            ..ProcessRequest::default()
        };
        match target
            .executor
            .exec_with_files(spec, Vec::new(), 4096)
            .await
        {
            Ok(process) => process.ended().await,
            Err(error) => tracing::warn!(%error, "cannot remove what a failed clone left"),
        }
    }
}
