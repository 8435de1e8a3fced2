//! Egress: what a sandbox may reach outside, decided here and nowhere else.
//!
//! # Theory of operation
//!
//! ```text
//!  sandbox's network namespace (loopback only)          │  host
//!  program ─► relay in the agent (proxy port, stub DNS) ─► proxy.sock ─► Egress ─► resolve ─► check ─► server
//!                                      bytes only       │        policy, secrets     address it got
//! ```
//!
//! The namespace has no link, so a program that goes round the relay reaches nothing. The relay joins
//! each connection to a Unix socket and understands nothing of it; one [`Egress`] for each sandbox
//! reads who is meant, asks the [`Policy`], resolves the name itself, checks the address it got, and
//! connects to that very address. What then goes through must be for that host: TLS by its server
//! name, HTTP by the Host of every request.
//!
//! # Invariants
//!
//! - Only an address that [`Guard`] has just let pass is connected to; a name is never resolved twice
//!   for one connection. No redirect is followed.
//! - A byte of the client goes to a server only after the host has been checked.
//! - Secrets are in the policy and in requests to their host, and nowhere else.
//! - Connections, heads, lookups and events are bounded; bodies are never gathered.

mod address;
mod authority;
mod exchange;
mod head;
mod host;
mod outside;
mod policy;
mod refusals;
mod resolve;
mod sandbox;
mod serve;
mod socks;
pub(crate) mod spoken;
mod stream;
mod tunnel;

use std::fs::Permissions;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::fs::{AtFlags, Mode, OFlags};
use sandshell_types::{NetworkRefused, RefusalReason};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, broadcast};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use address::{Denied, Guard, is_public};
pub use authority::{Authority, AuthorityError, Trust};
pub use host::{Host, HostError};
pub use outside::Outside;
pub use policy::{MAX_ALLOW, MAX_SECRET_VALUE, MAX_SECRETS, Policy, PolicyError};
pub use resolve::{Resolve, Resolving, SystemResolver};

use sandbox::Sandbox;
use stream::{Activity, Metered};

/// Name of the socket in the sandbox's directory.
pub const SOCKET: &str = "proxy.sock";

/// Connections of one sandbox at a time, those of the relay itself included.
pub const MAX_CONNECTIONS: usize = 512;

/// How long a connection may be silent in both directions.
pub const IDLE: Duration = Duration::from_mins(10);

/// How long to wait after the machine had no descriptor for another connection.
const EXHAUSTED: Duration = Duration::from_millis(100);

/// What a proxy is made of.
#[derive(Debug)]
pub struct EgressConfig {
    /// The sandbox's name, for the log.
    pub sandbox: String,
    /// What it may reach.
    pub policy: Policy,
    /// Needed where the policy has secrets: speaks for their hosts.
    pub authority: Option<Authority>,
    /// The way out.
    pub outside: Arc<Outside>,
}

/// Bytes and refusals since the proxy was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EgressStats {
    /// Bytes the sandbox sent.
    pub sent_bytes: u64,
    /// Bytes it received.
    pub received_bytes: u64,
    /// Connections and names it was refused.
    pub refused: u64,
    /// Connections there are now.
    pub connections: usize,
}

/// The proxy of one sandbox. It ends when this is dropped, and all its connections with it.
#[derive(Debug)]
pub struct Egress {
    sandbox: Arc<Sandbox>,
    tasks: TaskTracker,
    end: CancellationToken,
}

impl Egress {
    /// Serves [`SOCKET`] in this directory, in place of one that a former hub left there. Whoever can
    /// enter the directory can use the proxy, so it must be closed to all but the sandbox's agent.
    pub fn start(directory: &Path, config: EgressConfig) -> io::Result<Self> {
        let listener = bind(directory)?;
        let sandbox = Arc::new(Sandbox::new(
            config.sandbox,
            config.outside,
            config.policy,
            config.authority,
        ));
        let (tasks, end) = (TaskTracker::new(), CancellationToken::new());
        let accepting = accept(listener, Arc::clone(&sandbox), tasks.clone(), end.clone());
        tasks.spawn(accepting);
        Ok(Self {
            sandbox,
            tasks,
            end,
        })
    }

    /// Another policy from now on; connections that the former let through are ended.
    pub fn replace_policy(&self, policy: Policy) {
        self.sandbox.replace(policy);
    }

    /// Refusals from now on, in bounded number. The agent hears them too.
    pub fn refusals(&self) -> broadcast::Receiver<NetworkRefused> {
        self.sandbox.refusals.listen()
    }

    /// What went through.
    pub fn stats(&self) -> EgressStats {
        let meter = &self.sandbox.meter;
        EgressStats {
            sent_bytes: meter.sent.load(Ordering::Relaxed),
            received_bytes: meter.received.load(Ordering::Relaxed),
            refused: self.sandbox.refusals.total(),
            // One task accepts.
            connections: self.tasks.len().saturating_sub(1),
        }
    }

    /// Ends the proxy and waits until every connection is closed.
    pub async fn close(self) {
        self.end.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for Egress {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

/// Binds the socket by way of the directory's descriptor, so that its path may be of any length.
fn bind(directory: &Path) -> io::Result<UnixListener> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(directory, flags, Mode::empty())?;
    match rustix::fs::unlinkat(&directory, SOCKET, AtFlags::empty()) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let path = format!("/proc/self/fd/{}/{SOCKET}", directory.as_raw_fd());
    let listener = UnixListener::bind(&path)?;
    // The agent is another user; the directory is what keeps others out.
    std::fs::set_permissions(&path, Permissions::from_mode(0o666))?;
    Ok(listener)
}

async fn accept(
    listener: UnixListener,
    sandbox: Arc<Sandbox>,
    tasks: TaskTracker,
    end: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = end.cancelled() => return,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "the egress proxy cannot take a connection");
                tokio::time::sleep(EXHAUSTED).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            // The relay has fewer places and lets clients wait; this one does not keep to it.
            sandbox.refuse(String::new(), None, RefusalReason::TooManyConnections, None);
            continue;
        };
        let connection = connection(stream, Arc::clone(&sandbox), end.clone());
        tasks.spawn(async move {
            connection.await;
            drop(place);
        });
    }
}

/// One connection until it ends, is idle too long, or may no longer be.
async fn connection(stream: UnixStream, sandbox: Arc<Sandbox>, end: CancellationToken) {
    let activity = Activity::new();
    let over = sandbox.over();
    let client = Metered::new(stream, Arc::clone(&sandbox.meter), activity.clone());
    tokio::select! {
        served = serve::run(Box::new(client), sandbox) => {
            if let Err(error) = served {
                tracing::debug!(%error, "a connection of the egress proxy ended early");
            }
        }
        () = activity.idle_for(IDLE) => {}
        () = over.cancelled() => {}
        () = end.cancelled() => {}
    }
}
