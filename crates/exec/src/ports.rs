//! Listening TCP ports of the sandbox: who listens, and connections to them.
//!
//! A port belongs to the sandbox when a process below init holds its listening socket. Only such
//! ports are listed and connected to, so that the machine's own services and the agent itself stay
//! out of reach even where the sandbox shares the machine's network.
//!
//! ```text
//! connect ─► holder known? ──no──► scan: table of sockets × descriptors of init's descendants
//!               │ yes                 │ found, pinned
//!               ▼                     ▼
//!            connect to the address of the holder's socket ─► does it still hold it? ─► stream
//! ```
//!
//! Invariants: a connection is handed out only when the same process held the same listening socket
//! before and after it was made, so nobody else can have taken its place in between. A process is
//! pinned by a pidfd before it is believed to be below init. Who lacks the descriptors to look at a
//! port takes it neither for open nor for closed.

mod ready;
mod scan;
mod table;
mod watch;

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::io::Errno;
use sandshell_sys::{is_lack, procfs};
use sandshell_types::{PortRecord, ProcessId, SessionId};
use tokio::net::TcpStream;

pub(crate) use ready::check_http;
use scan::{Found, Holder};
pub(crate) use watch::publish;
pub use watch::{PortEvent, PortWatcher};

use crate::host::Live;
use crate::inside::Inside;
use crate::wardens::Wardens;

/// How long a connect may take. Loopback answers at once unless the server's queue is full.
const CONNECT: Duration = Duration::from_secs(5);

/// Most ports whose holder is remembered.
const KNOWN: usize = 1024;

/// The ports of a sandbox; cheap to clone.
#[derive(Debug, Clone)]
pub struct Ports(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    init: i32,
    /// Private process trees are not below init.
    wardens: Arc<Wardens>,
    inside: Inside,
    known: Mutex<HashMap<u16, Arc<Holder>>>,
}

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// Nothing in the sandbox listens there.
    #[error("nothing in the sandbox listens on port {port}")]
    NotFound {
        /// The port.
        port: u16,
    },
    /// Who listens cannot be seen for now, or not be reached, for want of descriptors or memory.
    #[error("cannot look at the ports: {0}")]
    Lack(Errno),
    /// Something listens and does not take the connection.
    #[error("port {port} does not take a connection: {reason}")]
    Unreachable {
        /// The port.
        port: u16,
        /// Why not.
        reason: String,
    },
}

/// A tree and whose it is, to tell the owner of a port.
#[derive(Debug)]
pub(crate) struct Owned {
    pub(crate) process: Option<ProcessId>,
    pub(crate) session: Option<SessionId>,
    pub(crate) trees: Vec<Arc<Live>>,
}

impl Ports {
    pub(crate) fn new(init: i32, wardens: Arc<Wardens>, inside: Inside) -> Self {
        Self(Arc::new(Inner {
            init,
            wardens,
            inside,
            known: Mutex::default(),
        }))
    }

    /// All ports, lowest first, with their owners as far as `owned` tells.
    pub(crate) async fn list(&self, owned: Vec<Owned>) -> Result<Vec<PortRecord>, PortError> {
        let roots = self.roots();
        let listed = tokio::task::spawn_blocking(move || {
            let mut found = Vec::new();
            for root in roots {
                found.extend(scan::all(root)?);
            }
            records(found, &owned)
        });
        listed
            .await
            .unwrap_or(Ok(Vec::new()))
            .map_err(PortError::Lack)
    }

    /// Connects to what listens on this port in the sandbox.
    pub async fn connect(&self, port: u16) -> Result<TcpStream, PortError> {
        if let Some(holder) = self.known(port)
            && let Ok(stream) = self.connect_to(&holder).await
        {
            return Ok(stream);
        }
        let roots = self.roots();
        let found = tokio::task::spawn_blocking(move || {
            for root in roots {
                if let Some(holder) = scan::one(root, port)? {
                    return Ok(Some(holder));
                }
            }
            Ok(None)
        });
        let Some(holder) = found.await.unwrap_or(Ok(None)).map_err(PortError::Lack)? else {
            self.lock().remove(&port);
            return Err(PortError::NotFound { port });
        };
        let holder = Arc::new(holder);
        let stream = self.connect_to(&holder).await?;
        let mut known = self.lock();
        if known.len() >= KNOWN {
            known.clear();
        }
        known.insert(port, holder);
        Ok(stream)
    }

    async fn connect_to(&self, holder: &Holder) -> Result<TcpStream, PortError> {
        let port = holder.port();
        let unreachable = |reason: String| PortError::Unreachable { port, reason };
        let mut refused = String::new();
        for target in holder.targets() {
            let connected = tokio::time::timeout(CONNECT, self.0.inside.connect_to(*target)).await;
            match connected {
                Ok(Ok(stream)) if holder.still_holds() => {
                    // Small messages in turn: waiting to fill a segment only costs time.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Ok(Ok(_)) => return Err(PortError::NotFound { port }),
                Ok(Err(error)) => match Errno::from_io_error(&error) {
                    Some(errno) if is_lack(errno) => return Err(PortError::Lack(errno)),
                    _ => refused = error.to_string(),
                },
                Err(_) => {
                    refused = format!("no answer within {} s", CONNECT.as_secs());
                }
            }
        }
        Err(unreachable(refused))
    }

    /// Whose descendants the sandbox's processes are.
    fn roots(&self) -> Vec<i32> {
        let warden = self.0.wardens.pid();
        [Some(self.0.init), warden].into_iter().flatten().collect()
    }

    fn known(&self, port: u16) -> Option<Arc<Holder>> {
        let holder = self.lock().get(&port)?.clone();
        holder.still_holds().then_some(holder)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u16, Arc<Holder>>> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts together what belongs to one port.
fn records(found: Vec<Found>, owned: &[Owned]) -> Result<Vec<PortRecord>, Errno> {
    let mut by_port: std::collections::BTreeMap<u16, (i32, BTreeSet<SocketAddr>)> =
        std::collections::BTreeMap::new();
    for one in found {
        let entry = by_port
            .entry(one.row.address.port())
            .or_insert_with(|| (one.pid, BTreeSet::new()));
        entry.1.insert(one.row.address);
    }
    let mut members: Vec<(&Owned, Vec<i32>)> = Vec::new();
    if !by_port.is_empty() {
        for owned in owned {
            let mut pids = Vec::new();
            for live in &owned.trees {
                pids.extend(live.tree.members()?);
            }
            members.push((owned, pids));
        }
    }
    by_port
        .into_iter()
        .map(|(port, (pid, addresses))| {
            let owner = members.iter().find(|(_, pids)| pids.contains(&pid));
            Ok(PortRecord {
                port,
                addresses: addresses.iter().map(|a| a.ip().to_string()).collect(),
                pid: procfs::innermost_pid(pid)?.unwrap_or(pid),
                command: procfs::command_line(pid),
                process: owner.and_then(|(owned, _)| owned.process.clone()),
                session: owner.and_then(|(owned, _)| owned.session.clone()),
                exposed: false,
            })
        })
        .collect()
}
