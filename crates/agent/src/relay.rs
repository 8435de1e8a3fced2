//! The relay: the sandbox's only way out when its network is an allow list.
//!
//! ```text
//!  127.0.0.1:4021   HTTP proxy and SOCKS5 ─► "proxy\n"            ┐
//!  127.0.0.1:53     stub DNS, UDP and TCP ─► "name HOST\n"        ├─► the hub's socket
//!  127.83.x.y:port  HOST for programs that know no proxy          │
//!                                         ─► "direct HOST PORT\n" │
//!  refusals ◄───────────────────────────────  "events\n"          ┘
//! ```
//!
//! It runs in the sandbox's network namespace, which has only a loopback, and passes bytes. All policy
//! is in the hub's proxy (`sandshell_hub::egress`), which checks whatever comes from here as if the
//! sandbox had said it. A name that may be asked for gets an address of the loopback on which the
//! relay listens; other names do not exist.
//!
//! Owns the listeners and the connections; does not own what is allowed, nor the sandbox's environment
//! and `/etc/resolv.conf`, which the launcher makes. Its sockets are the agent's, so that they are no
//! ports of the sandbox. Invariants: connections, names and listeners are bounded; a hub that was
//! started again is found again.

pub(crate) mod dns;
mod host;
mod names;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use sandshell_types::NetworkRefused;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use host::HostProxy;
use names::{Connected, Names, Usage};

/// Where programs find the proxy.
pub const PROXY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 4021);

/// Where programs find the resolver.
pub const DNS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 53);

/// Connections at a time; further ones wait. The hub takes some more, for the relay's own.
pub const MAX_CONNECTIONS: usize = 256;

/// Bytes under way in each direction of a connection.
const BUFFER: usize = 16 * 1024;

/// Most bytes of one refusal on its way here.
const MAX_EVENT: u64 = 4096;

/// The longest pause before the hub is tried again to hear of refusals.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Hosts that programs reach without the proxy.
const NO_PROXY: &str = "localhost,127.0.0.1,::1";

/// What a relay needs.
#[derive(Debug, Clone)]
pub struct RelayConfig {
    /// The hub's socket, as the agent reaches it: a path in a directory it holds.
    pub socket: PathBuf,
    /// Address of the proxy; [`PROXY`] but in tests.
    pub proxy: SocketAddr,
    /// Address of the resolver; [`DNS`] but in tests.
    pub dns: SocketAddr,
}

impl RelayConfig {
    /// The usual addresses.
    pub const fn new(socket: PathBuf) -> Self {
        Self {
            socket,
            proxy: PROXY,
            dns: DNS,
        }
    }
}

/// A running relay; it ends when this is dropped.
#[derive(Debug)]
pub struct Relay {
    end: CancellationToken,
    proxy: SocketAddr,
    dns: SocketAddr,
}

impl Relay {
    /// Listens in the network namespace of the calling thread. `refused` is called for each refusal.
    pub async fn start(
        config: RelayConfig,
        refused: impl Fn(NetworkRefused) + Send + 'static,
    ) -> io::Result<Self> {
        let proxy = TcpListener::bind(config.proxy).await?;
        let dns = UdpSocket::bind(config.dns).await?;
        let dns_address = dns.local_addr()?;
        let dns_stream = TcpListener::bind(dns_address).await?;
        let joiner = Joiner {
            host: HostProxy::new(config.socket),
            places: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            tasks: TaskTracker::new(),
            end: CancellationToken::new(),
        };
        let relay = Self {
            end: joiner.end.clone(),
            proxy: proxy.local_addr()?,
            dns: dns_address,
        };
        let names = Arc::new(Names::new(joiner.clone()));
        joiner.spawn(tell(joiner.host.clone(), refused));
        joiner.spawn(dns::serve_datagrams(dns, Arc::clone(&names)));
        joiner.spawn(dns::serve_streams(dns_stream, names));
        joiner.spawn(joiner.clone().join_all(proxy, "proxy\n".into(), None));
        Ok(relay)
    }

    /// Where the proxy is.
    pub const fn proxy(&self) -> SocketAddr {
        self.proxy
    }

    /// Where the resolver is.
    pub const fn dns(&self) -> SocketAddr {
        self.dns
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

/// The variables by which programs find the proxy, in both cases: some know only one.
pub fn environment(proxy: SocketAddr) -> impl Iterator<Item = (&'static str, String)> {
    // Not socks5: some clients fail at the very sight of it, and all know HTTP's CONNECT.
    let url = format!("http://{proxy}");
    let proxies = [
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "http_proxy",
        "https_proxy",
        "all_proxy",
    ];
    let without = ["NO_PROXY", "no_proxy"];
    proxies
        .into_iter()
        .map(move |name| (name, url.clone()))
        .chain(without.into_iter().map(|name| (name, NO_PROXY.to_owned())))
}

/// Joins connections inside to the hub's proxy.
#[derive(Debug, Clone)]
struct Joiner {
    host: HostProxy,
    places: Arc<Semaphore>,
    tasks: TaskTracker,
    end: CancellationToken,
}

impl Joiner {
    /// Runs a task until it or the relay ends.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.spawn_boxed(Box::pin(task));
    }

    /// Compiled once for all of them.
    fn spawn_boxed(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        let end = self.end.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = task => {}
                () = end.cancelled() => {}
            }
        });
    }

    /// Joins every connection of a listener; `opening` tells the hub what they are. Those to a name count
    /// as its use.
    async fn join_all(self, listener: TcpListener, opening: Arc<str>, usage: Option<Arc<Usage>>) {
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "the relay cannot take a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            // Those who come now wait in the listener's queue.
            let Ok(place) = Arc::clone(&self.places).acquire_owned().await else {
                return;
            };
            let (host, opening) = (self.host.clone(), Arc::clone(&opening));
            let used = usage.as_ref().map(Connected::new);
            self.spawn(async move {
                if let Err(error) = join(stream, &host, &opening).await {
                    tracing::debug!(%error, "a relayed connection ended early");
                }
                drop((place, used));
            });
        }
    }

    #[cfg(test)]
    fn to_nowhere() -> Self {
        Self {
            host: HostProxy::new(PathBuf::from("/nowhere")),
            places: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            tasks: TaskTracker::new(),
            end: CancellationToken::new(),
        }
    }
}

async fn join(mut inside: TcpStream, host: &HostProxy, opening: &str) -> io::Result<()> {
    // Small messages in turn: waiting to fill a segment only costs time.
    inside.set_nodelay(true)?;
    let mut outside = host.open(opening).await?;
    tokio::io::copy_bidirectional_with_sizes(&mut inside, &mut outside, BUFFER, BUFFER)
        .await
        .map(drop)
}

/// Tells of refusals, for as long as there is a hub to hear them from.
async fn tell(host: HostProxy, told: impl Fn(NetworkRefused)) {
    let mut pause = Duration::ZERO;
    loop {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).clamp(Duration::from_millis(50), LONGEST_PAUSE);
        let Ok(stream) = host.open("events\n").await else {
            continue;
        };
        let mut lines = BufReader::new(stream);
        let mut line = Vec::new();
        while let Ok(1..) = (&mut lines)
            .take(MAX_EVENT)
            .read_until(b'\n', &mut line)
            .await
        {
            if let Ok(refused) = serde_json::from_slice::<NetworkRefused>(&line) {
                told(refused);
            }
            line.clear();
            pause = Duration::ZERO;
        }
    }
}
