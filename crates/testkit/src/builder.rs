//! How an agent is to be started.
//!
//! Owns the command line, the temporary directory and its rights; the running agent is in `agent`.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::agent::{Agent, Layout};
use crate::ready::{NotReady, ReadyFile};
use crate::{UnprivilegedUser, binary, pidfd};

/// Far above any honest start, also on a loaded machine.
const START_DEADLINE: Duration = Duration::from_secs(150);

#[derive(Debug, Clone)]
enum Token {
    /// The agent makes one and writes it to the file.
    Made,
    Given(String),
    /// No `--token-file`: the agent does as it does for everyone.
    Unset,
}

/// How an agent is to be started; see [`Agent::builder`].
#[derive(Debug, Clone)]
pub struct AgentBuilder {
    unix: bool,
    token: Token,
    user: Option<UnprivilegedUser>,
    args: Vec<OsString>,
    env: Vec<(OsString, Option<OsString>)>,
    binary: Option<PathBuf>,
    bubblewrap: bool,
}

impl Default for AgentBuilder {
    fn default() -> Self {
        Self {
            unix: false,
            token: Token::Made,
            user: None,
            args: Vec::new(),
            env: Vec::new(),
            binary: None,
            bubblewrap: false,
        }
    }
}

impl AgentBuilder {
    /// Listens on a Unix socket in the temporary directory, which needs no token.
    #[must_use]
    pub fn unix_socket(mut self) -> Self {
        self.unix = true;
        self.token = Token::Unset;
        self
    }

    /// Uses this token instead of one the agent makes.
    #[must_use]
    pub fn token(mut self, token: &str) -> Self {
        self.token = Token::Given(token.to_owned());
        self
    }

    /// Passes no `--token-file`. Over TCP the client then has no token; see [`Agent::log`].
    #[must_use]
    pub fn without_token_file(mut self) -> Self {
        self.token = Token::Unset;
        self
    }

    /// Runs the agent as another user.
    #[must_use]
    pub fn run_as(mut self, user: UnprivilegedUser) -> Self {
        self.user = Some(user);
        self
    }

    /// Adds an argument after `agent`.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments after `agent`.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args
            .extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets a variable of the agent's environment.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env
            .push((name.as_ref().to_owned(), Some(value.as_ref().to_owned())));
        self
    }

    /// Removes a variable from the agent's environment.
    #[must_use]
    pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Self {
        self.env.push((name.as_ref().to_owned(), None));
        self
    }

    /// Starts this binary instead of the one found by [`find_binary`](crate::find_binary).
    #[must_use]
    pub fn binary(mut self, path: impl Into<PathBuf>) -> Self {
        self.binary = Some(path.into());
        self
    }

    /// Starts it within bubblewrap: the system's programs read-only, everything else empty, no rights,
    /// no network but its own loopback, its own processes. It is reached by its Unix socket.
    #[must_use]
    pub fn in_bubblewrap(mut self) -> Self {
        self.bubblewrap = true;
        self.unix_socket()
    }

    /// Starts the agent and waits until it serves requests. Panics with its output when it does not.
    pub fn start(self) -> Agent {
        let started = Instant::now();
        let layout = self.lay_out();
        let ready = ReadyFile::watch(layout.dir(), Layout::READY);
        let mut command = self.command(&layout);
        let child = spawn(&mut command, started + START_DEADLINE);
        let pid = i32::try_from(child.id()).expect("pids are positive");
        let pidfd = pidfd::open(pid).expect("our child is not reaped yet");
        let outcome = ready.wait(pidfd.as_fd(), started + START_DEADLINE);
        let mut agent = Agent::new(child, pidfd, layout);
        match outcome {
            Ok(ready) => agent.set_ready(ready.url, self.known_token(&agent)),
            Err(NotReady::Exited) => {
                let status = agent.wait();
                panic!("{command:?} ended with {status} before it was ready");
            }
            Err(NotReady::Deadline) => panic!("{command:?} was not ready in {START_DEADLINE:?}"),
        }
        agent
    }

    fn lay_out(&self) -> Layout {
        let dir = TempDir::with_prefix("sandshell-test-").expect("a temporary directory");
        let layout = Layout::new(dir);
        for path in [layout.state_dir(), layout.work_dir()] {
            fs::create_dir(&path).expect("the temporary directory can be written");
            self.give(&path);
        }
        if let Token::Given(token) = &self.token {
            let path = layout.token_file();
            fs::write(&path, token).expect("the temporary directory can be written");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("chmod");
            self.give(&path);
        }
        self.give(layout.dir());
        layout
    }

    fn give(&self, path: &Path) {
        if let Some(user) = self.user {
            user.own(path);
        }
    }

    fn command(&self, layout: &Layout) -> Command {
        let log = File::create(layout.log_file()).expect("the temporary directory can be written");
        let listen = if self.unix {
            let mut listen = OsString::from("unix:");
            listen.push(layout.socket());
            listen
        } else {
            "127.0.0.1:0".into()
        };
        let binary = self.reachable_binary(layout);
        let mut command = if self.bubblewrap {
            bubblewrap(layout.dir(), &binary)
        } else {
            Command::new(binary)
        };
        command
            .arg("agent")
            .arg("--listen")
            .arg(listen)
            .arg("--state-dir")
            .arg(layout.state_dir())
            .arg("--ready-file")
            .arg(layout.dir().join(Layout::READY));
        if !matches!(self.token, Token::Unset) {
            command.arg("--token-file").arg(layout.token_file());
        }
        command
            .args(&self.args)
            .current_dir(layout.work_dir())
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a descriptor"))
            .stderr(log);
        if let Some(user) = self.user {
            command
                .uid(user.uid)
                .gid(user.gid)
                .env("HOME", layout.work_dir());
        }
        for (name, value) in &self.env {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }

    /// Another user may not be able to enter the build directory; then the binary is linked or
    /// copied to where it can.
    fn reachable_binary(&self, layout: &Layout) -> PathBuf {
        let binary = self.binary.clone().unwrap_or_else(binary::find_binary);
        if self.user.is_none() || open_to_all(&binary) {
            return binary;
        }
        let copy = layout.dir().join("sandshell");
        if fs::hard_link(&binary, &copy).is_err() || !executable_by_all(&copy) {
            let _ = fs::remove_file(&copy);
            fs::copy(&binary, &copy).expect("the binary can be copied");
            fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).expect("chmod");
        }
        copy
    }

    fn known_token(&self, agent: &Agent) -> Option<String> {
        match &self.token {
            Token::Unset => None,
            Token::Given(token) => Some(token.clone()),
            Token::Made => {
                let text = fs::read_to_string(agent.token_file());
                let text = text.unwrap_or_else(|error| panic!("the token file: {error}"));
                Some(text.trim_end().to_owned())
            }
        }
    }
}

/// A root with the system's programs and the agent's directory, up to the program to be run in it.
fn bubblewrap(dir: &Path, binary: &Path) -> Command {
    let mut command = throw_away_root();
    command
        .arg("--bind")
        .args([dir, dir])
        .arg("--ro-bind")
        .args([binary, Path::new("/opt/sandshell")])
        .args(["--", "/opt/sandshell"]);
    command
}

/// Bubblewrap with a root of the system's programs, read-only, and everything else empty and gone at the end: no
/// rights, no network but its own loopback, its own processes. What it runs is added by the caller.
pub fn throw_away_root() -> Command {
    let mut command = Command::new("bwrap");
    command
        .args(["--unshare-all", "--die-with-parent", "--new-session"])
        .args(["--uid", "1000", "--gid", "1000", "--clearenv"])
        .args(["--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin"])
        .args(["--setenv", "HOME", "/home/user"])
        .args(["--ro-bind", "/usr", "/usr"])
        .args(["--ro-bind-try", "/bin", "/bin"])
        .args(["--ro-bind-try", "/lib", "/lib"])
        .args(["--ro-bind-try", "/lib64", "/lib64"])
        .args(["--ro-bind", "/etc/passwd", "/etc/passwd"])
        .args(["--ro-bind", "/etc/group", "/etc/group"])
        .args(["--proc", "/proc", "--dev", "/dev"])
        .args(["--tmpfs", "/tmp", "--tmpfs", "/home", "--dir", "/home/user"]);
    command
}

fn spawn(command: &mut Command, deadline: Instant) -> Child {
    loop {
        match command.spawn() {
            Ok(child) => return child,
            // A child that another test thread has just forked may still hold the descriptor our
            // copy was written through; it closes it when it execs.
            Err(error)
                if error.kind() == ErrorKind::ExecutableFileBusy && Instant::now() < deadline =>
            {
                std::thread::yield_now();
            }
            Err(error) => panic!("cannot start {command:?}: {error}"),
        }
    }
}

/// Whether everyone may execute a file and enter every directory above it.
fn open_to_all(path: &Path) -> bool {
    path.ancestors().all(executable_by_all)
}

fn executable_by_all(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o001 != 0)
}
