//! Which hub the tools act on.
//!
//! ```text
//! an address that is set, by a variable or a file? ─ yes ─► that one; it must answer
//!      │ no
//! a hub of ours on 127.0.0.1:4020 that takes our token? ─ yes ─► that one
//!      │ no
//! a hub of our own: `sandshell serve` on a private socket, which ends with us and leaves nothing
//! ```
//!
//! What is set is what counts for every command that talks to a hub.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use sandshell_client::types::ErrorCode;
use sandshell_client::{Client, ClientError, Page, SandboxFilter};

use crate::config::{Origin, Settings};
use crate::connection::Remote;
use crate::failure::Failure;
use crate::listener::Listener;

/// Where `sandshell serve` listens when it is not told otherwise.
const USUAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 4020);

/// Not authenticated.
const UNAUTHORIZED: u8 = 4;

/// A hub, and whether it is our own.
#[derive(Debug)]
pub(crate) struct Hub {
    client: Client,
    /// Whether a browser reaches it.
    has_address: bool,
    own: Option<Child>,
}

impl Hub {
    pub(crate) async fn find() -> Result<Self, Failure> {
        let settings = Settings::read(&Remote::default())?;
        let url = &settings.url.value;
        let address_set = settings.url.origin != Origin::Default;
        // A token of ours is shown only to a program of ours.
        if !address_set && !Listener::at(USUAL).is_some_and(Listener::is_trusted) {
            return Self::start();
        }
        let token_set = settings
            .token
            .as_ref()
            .is_some_and(|token| token.origin != Origin::Default);
        let client = client_of(url, settings.read_token()?.as_deref())?;
        match check(&client).await {
            Ok(()) => Ok(Self {
                client,
                has_address: url.starts_with("http"),
                own: None,
            }),
            Err(error) if address_set || token_set => Err(unusable(url, &error)),
            Err(error) => {
                let line = format!(
                    "sandshell: {url} cannot be used ({error}), so a hub of its own is started; hint: \
                     `sandshell login` keeps a token for it\n"
                );
                // There is nowhere to tell that stderr is closed.
                let _ = io::stderr().lock().write_all(line.as_bytes());
                Self::start()
            }
        }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn has_address(&self) -> bool {
        self.has_address
    }

    /// Starts a hub of our own and waits until it answers.
    fn start() -> Result<Self, Failure> {
        let dir = own_directory().map_err(|error| Failure::ours(&error))?;
        let started = Self::start_in(&dir);
        if started.is_err() {
            // The hub may have removed it already.
            let _ = fs::remove_dir_all(&dir);
        }
        started
    }

    fn start_in(dir: &std::path::Path) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::ours(&error);
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command
            .arg("serve")
            .arg("--listen")
            .arg(format!("unix:{}", dir.join("hub.sock").display()))
            .arg("--state-dir")
            .arg(dir)
            .args(["--destroy-on-exit", "--end-with"])
            .arg(std::process::id().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            // What is sent to our group, Ctrl-C or worse, is not for it: it ends after us, and tidies up.
            .process_group(0);
        for name in [
            "SANDSHELL_LISTEN",
            "SANDSHELL_TOKEN_FILE",
            "SANDSHELL_STATE_DIR",
        ] {
            command.env_remove(name);
        }
        if variable("SANDSHELL_LOG").is_none() {
            command.env("SANDSHELL_LOG", "warn");
        }
        let mut child = command.spawn().map_err(failed)?;
        let mut url = String::new();
        // It writes one line when it is ready, and none when it ends before.
        let read = child
            .stdout
            .take()
            .map(|stdout| BufReader::new(stdout).read_line(&mut url));
        if !matches!(read, Some(Ok(1..))) {
            let status = child.wait().map_err(failed)?;
            let what = io::Error::other(format!("a hub of our own cannot be started ({status})"));
            return Err(Failure::ours(&what).hint("`sandshell doctor` shows what is missing here"));
        }
        Ok(Self {
            client: client_of(url.trim_end(), None)?,
            has_address: false,
            own: Some(child),
        })
    }

    /// Ends the hub that is our own, and all its sandboxes.
    pub(crate) fn end(self) {
        let Some(mut child) = self.own else {
            return;
        };
        // A child that was not waited for keeps its pid.
        if let Ok(pid) = i32::try_from(child.id())
            && let Some(pid) = Pid::from_raw(pid)
        {
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = child.wait();
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn client_of(url: &str, token: Option<&str>) -> Result<Client, Failure> {
    Client::new(url, token).map_err(|error| {
        Failure::usage(error.to_string())
            .hint("set SANDSHELL_URL to an address such as http://127.0.0.1:4020")
    })
}

/// Whether a hub answers there, and takes our token.
async fn check(client: &Client) -> Result<(), ClientError> {
    let one = SandboxFilter {
        page: Page {
            limit: Some(1),
            cursor: None,
        },
        ..SandboxFilter::default()
    };
    client.sandboxes(&one).await.map(drop)
}

fn unusable(url: &str, error: &ClientError) -> Failure {
    if error.code() == Some(ErrorCode::Unauthorized) {
        return Failure::ours(error)
            .code(UNAUTHORIZED)
            .hint("set SANDSHELL_TOKEN to a token of that hub");
    }
    let failure = Failure::ours(error);
    match error {
        ClientError::Connect { .. } => failure.hint(format!(
            "start a hub there with `sandshell serve`, or unset SANDSHELL_URL ({url}) to do without one"
        )),
        _ => failure.hint("see whether SANDSHELL_URL is the address of a hub"),
    }
}

/// A directory for our own hub, short enough for the sockets in it.
fn own_directory() -> io::Result<PathBuf> {
    let parent = std::env::var_os("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let pid = std::process::id();
    let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
    // An earlier process of this pid may have left one, if even its hub was killed.
    for attempt in 0..100 {
        let path = parent.join(format!("sandshell-mcp-{pid}-{attempt}"));
        match fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}
