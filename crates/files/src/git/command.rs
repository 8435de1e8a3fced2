//! One run of git: its words, environment and descriptors, and what came of it.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use sandshell_exec::output::Stream;
use sandshell_exec::{ExecError, ProcessHandle};
use sandshell_types::{Env, ProcessRequest, Truncate};

use super::credentials::{Credentials, FD};
use super::{GitError, Place, failure};
use crate::FileError;
use sandshell_sys::task;

/// Most bytes of an answer of git that are read; what it gives beyond is counted.
pub(super) const MAX_OUTPUT: u64 = 16 << 20;

/// Most bytes of what git says about a failure.
const MAX_COMPLAINT: u64 = 64 << 10;

/// Settings for every run. Output without colours and quotes, and no helper that asks.
const CONFIG: [&str; 6] = [
    "-c",
    "color.ui=false",
    "-c",
    "core.quotePath=false",
    "-c",
    "core.askPass=",
];

/// The environment of every run.
const ENVIRONMENT: [(&str, Option<&str>); 14] = [
    // The words that are looked for are English.
    ("LC_ALL", Some("C")),
    ("LANGUAGE", None),
    // Nobody is there to be asked.
    ("GIT_TERMINAL_PROMPT", Some("0")),
    ("GIT_ASKPASS", Some("")),
    ("SSH_ASKPASS", None),
    ("GIT_EDITOR", Some(":")),
    ("GIT_SEQUENCE_EDITOR", Some(":")),
    ("GIT_PAGER", Some("cat")),
    // Helpers such as `ext::` run any command; these five run none.
    ("GIT_ALLOW_PROTOCOL", Some("file:git:http:https:ssh")),
    ("GIT_LITERAL_PATHSPECS", Some("1")),
    // Traces would write heads of requests, credentials included.
    ("GIT_TRACE", None),
    ("GIT_TRACE_CURL", None),
    ("GIT_TRACE_PACKET", None),
    ("GIT_CURL_VERBOSE", None),
];

/// Longest run of a git that asks no other machine.
const LOCAL_MS: u64 = 600_000;

/// TERM to KILL for one that nobody waits for; git removes its locks in between.
const GRACE: Duration = Duration::from_secs(2);

/// What a run has beyond its words.
#[derive(Debug, Default)]
pub(super) struct With {
    pub(super) stdin: Option<String>,
    pub(super) env: Env,
    pub(super) credentials: Option<Credentials>,
    pub(super) timeout_ms: Option<u64>,
    /// It waits for another machine: without a timeout of the caller's it may take for ever.
    pub(super) remote: bool,
    /// Most bytes of the answer; [`MAX_OUTPUT`] when 0.
    pub(super) max_output: u64,
}

/// A run that has ended.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) code: i32,
    pub(super) stdout: Vec<u8>,
    /// Bytes of the answer that were not read.
    pub(super) omitted: u64,
    pub(super) stderr: String,
}

impl Done {
    /// The run, or what its failure means.
    pub(super) fn succeeded(self) -> Result<Self, GitError> {
        if self.code == 0 {
            return Ok(self);
        }
        Err(failure::of(&self))
    }

    /// The answer as one line.
    pub(super) fn line(&self) -> String {
        String::from_utf8_lossy(&self.stdout).trim_end().to_owned()
    }
}

impl Place {
    /// Runs git to its end. When nobody waits for that any more, git is ended: it may well hang, on a
    /// FIFO that is called .gitattributes for example.
    pub(super) async fn run(&self, words: &[&str], mut with: With) -> Result<Done, GitError> {
        if !with.remote {
            with.timeout_ms = with.timeout_ms.or(Some(LOCAL_MS));
        }
        let (timeout_ms, max_output) = (with.timeout_ms, with.max_output);
        let place = self.clone();
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        // By a task of its own: whoever asked may go while it starts, and then it still has an end.
        let starting = task::spawn(async move {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            place.start(&words, with).await.map(Attended)
        });
        let process = starting
            .await
            .unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?;
        outcome(&process.0, timeout_ms, max_output).await
    }

    /// Starts git.
    pub(super) async fn start(
        &self,
        words: &[&str],
        with: With,
    ) -> Result<ProcessHandle, GitError> {
        let mut argv: Vec<String> = vec!["git".to_owned()];
        argv.extend(CONFIG.iter().map(|word| (*word).to_owned()));
        let mut files: Vec<(OwnedFd, i32)> = Vec::new();
        if let Some(credentials) = with.credentials {
            argv.extend(credentials.config);
            files.push((credentials.pipe, FD));
        }
        argv.extend(words.iter().map(|word| (*word).to_owned()));
        let fixed = ENVIRONMENT.iter();
        let fixed = fixed.map(|(name, value)| ((*name).to_owned(), value.map(str::to_owned)));
        let mut spec = ProcessRequest {
            cwd: self.cwd.clone(),
            env: fixed.chain(with.env).collect(),
            stdin: with.stdin,
            user: self.user.clone(),
            timeout_ms: with.timeout_ms,
            ..ProcessRequest::default()
        };
        match &self.session {
            // A session's state lives in a shell, which then becomes git: no function or alias of
            // that name comes in between.
            Some(session) => {
                spec.session = Some(session.clone());
                spec.command = Some(format!("\\builtin exec {}", quoted(&argv)));
            }
            None => spec.argv = Some(argv),
        }
        let max = if with.max_output == 0 {
            MAX_OUTPUT
        } else {
            with.max_output
        };
        let started = self.executor.exec_with_files(spec, files, max).await;
        started.map_err(|error| match error {
            ExecError::ProgramNotFound { .. } => GitError::Missing,
            ExecError::Cwd { path, reason } if reason.contains("Permission denied") => {
                FileError::at(Path::new(&path))(Errno::ACCESS).into()
            }
            ExecError::Cwd { path, reason } => {
                GitError::NotFound(format!("cannot enter {path}: {reason}"))
            }
            other => GitError::Exec(other),
        })
    }
}

/// A run that somebody waits for.
struct Attended(ProcessHandle);

impl Drop for Attended {
    fn drop(&mut self) {
        if self.0.record().ended_at.is_none() {
            let process = self.0.clone();
            task::spawn(async move { process.kill(GRACE).await });
        }
    }
}

/// What came of a run.
pub(super) async fn outcome(
    process: &ProcessHandle,
    timeout_ms: Option<u64>,
    max_output: u64,
) -> Result<Done, GitError> {
    process.ended().await;
    let max = if max_output == 0 {
        MAX_OUTPUT
    } else {
        max_output
    };
    let record = process.record();
    if record.timed_out {
        return Err(GitError::TimedOut(timeout_ms.unwrap_or_default()));
    }
    let log = process.log();
    let stdout = log.excerpt(Stream::Stdout, max, Truncate::Tail).await;
    let stderr = log.excerpt(Stream::Stderr, MAX_COMPLAINT, Truncate::Head);
    let (stdout, stderr) = (
        stdout.map_err(ExecError::from)?,
        stderr.await.map_err(ExecError::from)?,
    );
    let done = Done {
        code: record.exit_code.unwrap_or(-1),
        stdout: stdout.bytes,
        omitted: stdout.omitted,
        stderr: String::from_utf8_lossy(&stderr.bytes).into_owned(),
    };
    if done.code == 127 && done.stderr.contains("git: not found") {
        return Err(GitError::Missing);
    }
    Ok(done)
}

fn quoted(argv: &[String]) -> String {
    let words = argv.iter();
    let words: Vec<String> = words
        .map(|word| format!("'{}'", word.replace('\'', "'\\''")))
        .collect();
    words.join(" ")
}
