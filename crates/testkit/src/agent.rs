//! A running agent and its end.

use std::fs;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Signal, pidfd_send_signal};
use sandshell_client::Client;
use tempfile::TempDir;

use crate::AgentBuilder;
use crate::pidfd::wait_readable;

/// How long an agent may take to end everything it runs.
const STOP_DEADLINE: Duration = Duration::from_secs(150);

/// Where things are in the temporary directory.
pub(crate) struct Layout {
    dir: TempDir,
}

impl Layout {
    pub(crate) const READY: &str = "ready.json";

    pub(crate) fn new(dir: TempDir) -> Self {
        Self { dir }
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn state_dir(&self) -> PathBuf {
        self.dir().join("state")
    }

    pub(crate) fn work_dir(&self) -> PathBuf {
        self.dir().join("work")
    }

    pub(crate) fn token_file(&self) -> PathBuf {
        self.dir().join("token")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir().join("agent.sock")
    }

    pub(crate) fn log_file(&self) -> PathBuf {
        self.dir().join("agent.log")
    }
}

/// A running `sandshell agent`. Dropping it ends it and removes its directory.
pub struct Agent {
    child: Child,
    pidfd: OwnedFd,
    /// Set once the child was reaped.
    ended: Option<ExitStatus>,
    url: String,
    token: Option<String>,
    layout: Layout,
}

impl Agent {
    /// An agent on a free TCP port, with a token.
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// An agent to be started in another way.
    pub fn builder() -> AgentBuilder {
        AgentBuilder::default()
    }

    pub(crate) fn new(child: Child, pidfd: OwnedFd, layout: Layout) -> Self {
        Self {
            child,
            pidfd,
            ended: None,
            url: String::new(),
            token: None,
            layout,
        }
    }

    pub(crate) fn set_ready(&mut self, url: String, token: Option<String>) {
        self.url = url;
        self.token = token;
    }

    /// The base URL it gave in its ready file.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The pid of the process that was started.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("pids are positive")
    }

    /// The bearer token, when the fixture knows it.
    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// The value of `--state-dir`.
    pub fn state_dir(&self) -> PathBuf {
        self.layout.state_dir()
    }

    /// The directory the agent was started in: empty, and owned by its user.
    pub fn work_dir(&self) -> PathBuf {
        self.layout.work_dir()
    }

    /// The value of `--token-file`, when it is passed.
    pub fn token_file(&self) -> PathBuf {
        self.layout.token_file()
    }

    /// What the agent has written to its standard output and error so far.
    pub fn log(&self) -> String {
        let bytes = fs::read(self.layout.log_file()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// A new client, with connections of its own.
    pub fn client(&self) -> Client {
        Client::new(&self.url, self.token())
            .unwrap_or_else(|error| panic!("the agent's URL {:?}: {error}", self.url))
    }

    /// Sends SIGTERM and waits for the end. Panics when it takes too long.
    pub fn stop_gracefully(mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        assert!(
            self.ends_in_time(),
            "the agent did not end {STOP_DEADLINE:?} after SIGTERM"
        );
        self.wait()
    }

    /// Sends SIGKILL and waits for the end, as when the machine's OOM killer strikes. The
    /// directory is removed.
    pub fn kill_hard(mut self) -> ExitStatus {
        self.signal(Signal::KILL);
        self.wait()
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        let status = self.child.wait().expect("our child can be waited for");
        self.ended = Some(status);
        status
    }

    fn signal(&self, signal: Signal) {
        match pidfd_send_signal(&self.pidfd, signal) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => panic!("cannot signal the agent: {error}"),
        }
    }

    fn ends_in_time(&self) -> bool {
        wait_readable(&[self.pidfd.as_fd()], Instant::now() + STOP_DEADLINE)
    }

    #[expect(
        clippy::print_stderr,
        reason = "the test harness captures it with the panic"
    )]
    fn show_log(&self, why: &str) {
        eprintln!(
            "--- {why}; agent {} wrote:\n{}--- end",
            self.pid(),
            self.log()
        );
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if self.ended.is_none() {
            self.signal(Signal::TERM);
            if !self.ends_in_time() {
                self.show_log("the agent ignored SIGTERM");
                self.signal(Signal::KILL);
            }
            // The status does not matter here, and a panic while panicking would hide the first.
            let _ = self.child.wait();
        }
        if std::thread::panicking() {
            self.show_log("the test panicked");
        }
    }
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent")
            .field("url", &self.url)
            .field("pid", &self.pid())
            .finish_non_exhaustive()
    }
}
