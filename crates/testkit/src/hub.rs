//! A running hub, which may be killed and started again on the same directory.

use std::fs::{self, File};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Signal, pidfd_send_signal};
use sandshell_client::Client;
use tempfile::TempDir;

use crate::ready::{NotReady, Ready, ReadyFile};
use crate::user::UnprivilegedUser;
use crate::{binary, pidfd, proc};

/// Far above any honest start or stop, also on a loaded machine that stands still for a while.
const DEADLINE: Duration = Duration::from_secs(150);

/// A `sandshell serve` with a directory of its own. Dropping it ends it, its sandboxes and the
/// directory.
pub struct Hub {
    dir: TempDir,
    /// Who runs it; absent, whoever runs the test.
    user: Option<UnprivilegedUser>,
    env: Vec<(String, String)>,
    args: Vec<String>,
    /// Control groups it enters before it starts.
    groups: Vec<PathBuf>,
    /// Where it listens; fixed at the first start, so that clients find it again.
    listen: String,
    running: Option<Running>,
    /// What was below it when it was told to end.
    below: Vec<i32>,
    url: String,
    token: String,
}

struct Running {
    child: Child,
    pidfd: OwnedFd,
}

impl Hub {
    /// A hub on a free TCP port.
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// A hub with more arguments. Its clients may ask as often as they like, unless these say otherwise.
    pub fn with(args: &[&str]) -> Self {
        Self::run_by(None, args)
    }

    /// The same with more variables in its environment.
    pub fn with_env(env: Vec<(String, String)>, args: &[&str]) -> Self {
        let dir = TempDir::with_prefix("sandshell-hub-").expect("a temporary directory");
        Self::run_in(dir, "127.0.0.1:0".to_owned(), None, env, args)
    }

    /// A hub of an ordinary user.
    pub fn of(user: UnprivilegedUser) -> Self {
        Self::of_with(user, &[])
    }

    /// The same with more arguments.
    pub fn of_with(user: UnprivilegedUser, args: &[&str]) -> Self {
        Self::run_by(Some(user), args)
    }

    /// A hub on a Unix socket, where nobody needs a token.
    pub fn on_socket() -> Self {
        let dir = TempDir::with_prefix("sandshell-hub-").expect("a temporary directory");
        let listen = format!("unix:{}", dir.path().join("hub.sock").display());
        Self::run_in(dir, listen, None, Vec::new(), &[])
    }

    /// A hub that has all it keeps in this directory.
    pub fn in_dir(dir: TempDir, args: &[&str]) -> Self {
        Self::run_in(dir, "127.0.0.1:0".to_owned(), None, Vec::new(), args)
    }

    fn run_by(user: Option<UnprivilegedUser>, args: &[&str]) -> Self {
        let dir = TempDir::with_prefix("sandshell-hub-").expect("a temporary directory");
        Self::run_in(dir, "127.0.0.1:0".to_owned(), user, Vec::new(), args)
    }

    fn run_in(
        dir: TempDir,
        listen: String,
        user: Option<UnprivilegedUser>,
        env: Vec<(String, String)>,
        args: &[&str],
    ) -> Self {
        let unlimited: &[&str] = if args.contains(&"--rate") {
            &[]
        } else {
            &["--rate", "0"]
        };
        if let Some(user) = user {
            user.own(dir.path());
        }
        let mut hub = Self {
            dir,
            user,
            env,
            args: args
                .iter()
                .chain(unlimited)
                .map(|arg| (*arg).to_owned())
                .collect(),
            groups: Vec::new(),
            listen,
            running: None,
            below: Vec::new(),
            url: String::new(),
            token: String::new(),
        };
        hub.restart();
        hub
    }

    /// Has it be started in these control groups from now on.
    pub fn enter(&mut self, groups: &[PathBuf]) {
        self.groups = groups.to_vec();
    }

    /// Starts it again after its end, on the same address and directory.
    pub fn restart(&mut self) {
        assert!(self.running.is_none(), "it runs");
        let ready = self.begin(&[]).unwrap_or_else(|why| panic!("{why}"));
        self.listen = ready.url.trim_start_matches("http://").to_owned();
        self.url = ready.url;
        if self.listen.starts_with("unix:") {
            return;
        }
        let token = fs::read_to_string(self.state_dir().join("token")).expect("the token file");
        token.trim_end().clone_into(&mut self.token);
    }

    /// Starts it and waits until it serves; or says why it does not.
    fn begin(&mut self, more: &[&str]) -> Result<Ready, String> {
        let deadline = Instant::now() + DEADLINE;
        let mut told = false;
        loop {
            let known = self.log().len();
            match self.try_begin(more, deadline)? {
                Ok(ready) => return Ok(ready),
                Err(NotReady::Exited) => {
                    let status = self.wait();
                    let log = self.log();
                    let said = log.get(known..).unwrap_or_default();
                    if !said.contains("Address already in use") || Instant::now() >= deadline {
                        return Err(format!("the hub ended with {status}:\n{log}"));
                    }
                    // Meanwhile the port may have been given to a connection of somebody else, which ends. What the
                    // hub before started must not have it.
                    if let Some(heir) = self.heir() {
                        return Err(format!("{heir} listens on {}:\n{log}", self.listen));
                    }
                    if !told {
                        say(&format!(
                            "{} is in use by somebody else, so the hub is started again and again",
                            self.listen
                        ));
                        told = true;
                    }
                }
                Err(NotReady::Deadline) => {
                    return Err(format!("the hub was not ready:\n{}", self.log()));
                }
            }
        }
    }

    /// A process of the hub before that has inherited its listener. One that is only about to become another program
    /// has it for a moment, and still the command line of a hub.
    fn heir(&self) -> Option<String> {
        let port = self.listen.rsplit_once(':')?.1.parse().ok()?;
        let name = self.dir.path().file_name()?.as_bytes().to_owned();
        proc::listeners(port).into_iter().find_map(|pid| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            let of_hub = |file: &str| {
                let text = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
                text.windows(name.len()).any(|part| part == name)
            };
            let ours =
                self.below.contains(&pid) || ["environ", "mountinfo"].into_iter().any(of_hub);
            let is_hub = words.split(|byte| *byte == 0).nth(1) == Some(b"serve");
            let words = String::from_utf8_lossy(&words).replace('\0', " ");
            (ours && !is_hub).then(|| format!("{pid} ({})", words.trim_end()))
        })
    }

    fn try_begin(
        &mut self,
        more: &[&str],
        deadline: Instant,
    ) -> Result<Result<Ready, NotReady>, String> {
        let _ = fs::remove_file(self.dir.path().join("ready.json"));
        let ready = ReadyFile::watch(self.dir.path(), "ready.json");
        let child = self.command(more).spawn();
        let child = child.map_err(|error| format!("the hub cannot be started: {error}"))?;
        let pid = i32::try_from(child.id()).expect("pids are positive");
        let pidfd = pidfd::open(pid).expect("our child is not reaped yet");
        let outcome = ready.wait(pidfd.as_fd(), deadline);
        self.running = Some(Running { child, pidfd });
        Ok(outcome)
    }

    /// Runs another one on the same directory, to its end.
    pub fn another(&self) -> (ExitStatus, String) {
        let output = Command::new(binary::find_binary())
            .args(["serve", "--listen", "127.0.0.1:0", "--state-dir"])
            .arg(self.state_dir())
            .stdin(Stdio::null())
            .output()
            .expect("the hub can be started");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status, text)
    }

    fn command(&self, more: &[&str]) -> Command {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.dir.path().join("hub.log"))
            .expect("the temporary directory can be written");
        let mut command = self.program();
        if let Some(user) = self.user {
            command.uid(user.uid).gid(user.gid);
        }
        command
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .args(["serve", "--listen", &self.listen, "--state-dir"])
            .arg(self.state_dir())
            .arg("--ready-file")
            .arg(self.dir.path().join("ready.json"))
            .args(&self.args)
            .args(more)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a descriptor"))
            .stderr(log);
        command
    }

    /// The binary, or a shell that becomes it once it is in the groups.
    fn program(&self) -> Command {
        if self.groups.is_empty() {
            return Command::new(binary::find_binary());
        }
        let enter = r#"until [ "$1" = -- ]; do echo $$ >"$1/cgroup.procs" || exit; shift; done; shift; exec "$@""#;
        let mut command = Command::new("sh");
        command.args(["-c", enter, "sh"]).args(&self.groups);
        command.arg("--").arg(binary::find_binary());
        command
    }

    /// The base URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The admin's token.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The value of `--state-dir`.
    pub fn state_dir(&self) -> PathBuf {
        self.dir.path().join("s")
    }

    /// The temporary directory.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Its pid.
    pub fn pid(&self) -> i32 {
        let running = self.running.as_ref().expect("it runs");
        i32::try_from(running.child.id()).expect("pids are positive")
    }

    /// What it has written to its standard output and error.
    pub fn log(&self) -> String {
        let bytes = fs::read(self.dir.path().join("hub.log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// A new client with the admin's token, where there is one.
    pub fn client(&self) -> Client {
        let token = Some(self.token.as_str()).filter(|token| !token.is_empty());
        self.client_with(token)
    }

    /// A new client with another token, or none.
    pub fn client_with(&self, token: Option<&str>) -> Client {
        Client::new(&self.url, token)
            .unwrap_or_else(|error| panic!("the hub's URL {:?}: {error}", self.url))
    }

    /// Kills it with SIGKILL; its sandboxes go on.
    pub fn kill_hard(&mut self) {
        self.signal(Signal::KILL);
        self.wait();
    }

    /// Ends it with SIGTERM; its sandboxes go on.
    pub fn stop(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait()
    }

    fn signal(&mut self, signal: Signal) {
        if let Some(running) = &self.running {
            self.below = proc::children_deep(self.pid());
            // One that has ended needs no signal.
            let _ = pidfd_send_signal(&running.pidfd, signal);
        }
    }

    fn wait(&mut self) -> ExitStatus {
        let mut running = self.running.take().expect("it runs");
        let ended = [running.pidfd.as_fd()];
        if !pidfd::wait_readable(&ended, Instant::now() + DEADLINE) {
            let _ = pidfd_send_signal(&running.pidfd, Signal::KILL);
            let _ = running.child.wait();
            // A panic while panicking would hide the first.
            assert!(
                std::thread::panicking(),
                "the hub did not end in {DEADLINE:?} and was killed; it wrote:\n{}",
                self.log()
            );
        }
        running.child.wait().expect("our child can be waited for")
    }
}

#[expect(
    clippy::print_stderr,
    reason = "the test harness shows it with the panic"
)]
fn say(what: &str) {
    eprintln!("{what}");
}

impl Drop for Hub {
    fn drop(&mut self) {
        if std::thread::panicking() {
            say(&format!(
                "--- the test panicked; the hub wrote:\n{}--- end",
                self.log()
            ));
        }
        if self.running.is_some() {
            self.kill_hard();
        }
        // A last one finds all sandboxes, and ends them with itself.
        if let Err(why) = self.begin(&["--destroy-on-exit"]) {
            say(&format!("nothing ends the sandboxes: {why}"));
        }
        if self.running.is_some() {
            self.stop();
        }
    }
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}
