//! The way out: from a host that the policy allows to a connection with one address of it.
//!
//! Owns resolving, the check of what was resolved, and connecting to exactly that. Does not own which
//! hosts are allowed.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use sandshell_sys::task;
use sandshell_types::RefusalReason;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::address::{Denied, Guard};
use super::host::Host;
use super::resolve::{Resolve, SystemResolver};

/// How long a name may take to resolve, all servers of the machine's resolver included.
const RESOLVE: Duration = Duration::from_secs(10);
/// How long one address may take to answer.
const CONNECT: Duration = Duration::from_secs(10);
/// How long the two ends of TLS may take to agree.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Addresses of a name that are tried.
const TRIED: usize = 4;
/// Names being resolved at a time: each takes a thread of the runtime's blocking pool.
const LOOKUPS: usize = 64;

/// The outside as all proxies of a hub see it.
pub struct Outside {
    resolver: Arc<dyn Resolve>,
    guard: Guard,
    tls: TlsConnector,
    lookups: Arc<Semaphore>,
}

impl fmt::Debug for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outside")
            .field("guard", &self.guard)
            .finish_non_exhaustive()
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    /// It is not allowed.
    #[error("{reason}")]
    Refused {
        reason: RefusalReason,
        /// The address that was the reason.
        address: Option<IpAddr>,
    },
    /// The name has no address, or none could be found out.
    #[error("the name cannot be resolved: {0}")]
    Unresolved(io::Error),
    /// No address answered.
    #[error("the host cannot be reached: {0}")]
    Unreachable(io::Error),
    /// The server is not who it should be, or does not speak TLS.
    #[error("TLS with the host failed: {0}")]
    Tls(io::Error),
}

impl Outside {
    /// The real outside: the machine's resolver, public addresses, and the roots of the web.
    pub fn new() -> Result<Self, rustls::Error> {
        Self::with(SystemResolver, Guard::closed(), [])
    }

    /// For tests: an outside with another resolver, doors in the guard, and further roots.
    pub fn with(
        resolver: impl Resolve,
        guard: Guard,
        more_roots: impl IntoIterator<Item = CertificateDer<'static>>,
    ) -> Result<Self, rustls::Error> {
        let mut roots = RootCertStore {
            roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
        };
        for root in more_roots {
            roots.add(root)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            resolver: Arc::new(resolver),
            guard,
            tls: TlsConnector::from(Arc::new(config)),
            lookups: Arc::new(Semaphore::new(LOOKUPS)),
        })
    }

    /// Connects to a host. Every address is checked as the value that is then connected to. `turns`
    /// are the lookups that one sandbox may have under way.
    pub(super) async fn connect(
        &self,
        host: &Host,
        port: u16,
        turns: &Arc<Semaphore>,
    ) -> Result<TcpStream, OpenError> {
        let addresses = match host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => self.resolve(name, turns).await?,
        };
        let mut failed = io::Error::from(io::ErrorKind::NotFound);
        let mut denied = None;
        for address in addresses.into_iter().take(TRIED) {
            let target = SocketAddr::new(address.to_canonical(), port);
            let target = match self.guard.check(target) {
                Ok(target) => target,
                Err(Denied::NotPublic | Denied::Own) => {
                    denied = Some(target.ip());
                    continue;
                }
            };
            match tokio::time::timeout(CONNECT, TcpStream::connect(target)).await {
                Ok(Ok(stream)) => {
                    // Small messages in turn: waiting to fill a segment only costs time.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Ok(Err(error)) => failed = error,
                Err(_) => failed = io::ErrorKind::TimedOut.into(),
            }
        }
        match denied {
            Some(address) => Err(OpenError::Refused {
                reason: RefusalReason::AddressDenied,
                address: Some(address),
            }),
            None if failed.kind() == io::ErrorKind::NotFound => Err(OpenError::Unresolved(failed)),
            None => Err(OpenError::Unreachable(failed)),
        }
    }

    /// Whether a name has an address.
    pub(super) async fn exists(&self, host: &Host, turns: &Arc<Semaphore>) -> bool {
        match host {
            Host::Name(name) => {
                let found = self.resolve(name, turns).await;
                found.is_ok_and(|addresses| !addresses.is_empty())
            }
            Host::Address(_) => true,
        }
    }

    /// A lookup cannot be broken off: it keeps its turn to its end, also when nobody waits any longer.
    async fn resolve(&self, name: &str, turns: &Arc<Semaphore>) -> Result<Vec<IpAddr>, OpenError> {
        let lookup = async {
            let own = Arc::clone(turns).acquire_owned().await;
            let all = Arc::clone(&self.lookups).acquire_owned().await;
            let (resolver, name) = (Arc::clone(&self.resolver), name.to_owned());
            let looking = task::spawn(async move {
                let found = resolver.resolve(&name).await;
                drop((own, all));
                found
            });
            looking.await.unwrap_or_else(|error| Err(error.into()))
        };
        match tokio::time::timeout(RESOLVE, lookup).await {
            Ok(found) => found.map_err(OpenError::Unresolved),
            Err(_) => Err(OpenError::Unresolved(io::ErrorKind::TimedOut.into())),
        }
    }

    /// Speaks TLS as the client of a named host, whose certificate must be good.
    pub(super) async fn secure(
        &self,
        host: &Host,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, OpenError> {
        let invalid = || OpenError::Tls(io::ErrorKind::InvalidInput.into());
        let name = host.name().ok_or_else(invalid)?.to_owned();
        let name = ServerName::try_from(name).map_err(|_| invalid())?;
        match tokio::time::timeout(HANDSHAKE, self.tls.connect(name, stream)).await {
            Ok(secured) => secured.map_err(OpenError::Tls),
            Err(_) => Err(OpenError::Tls(io::ErrorKind::TimedOut.into())),
        }
    }
}
