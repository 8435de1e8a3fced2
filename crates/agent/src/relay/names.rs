//! Addresses of the loopback that stand for names outside, and the listeners on them.
//!
//! An address is given once and stays: programs keep what they resolved. A port that a server of the
//! sandbox has already taken on all addresses stays its own.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::net::TcpListener;

use super::Joiner;

/// Most names with an address.
const MAX_NAMES: usize = 256;
/// Most listeners on all of them.
const MAX_LISTENERS: usize = 1024;
/// The first address: 127.83.0.1.
const FIRST: Ipv4Addr = Ipv4Addr::new(127, 83, 0, 1);

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// This address.
    Address(Ipv4Addr),
    /// Nothing: it does not exist.
    Nothing,
    /// It cannot be told now.
    Unknown,
}

#[derive(Debug)]
pub(super) struct Names {
    joiner: Joiner,
    given: Mutex<HashMap<Box<str>, Given>>,
}

#[derive(Debug)]
struct Given {
    address: Ipv4Addr,
    /// Ports that are listened on.
    ports: Vec<u16>,
}

impl Names {
    pub(super) fn new(joiner: Joiner) -> Self {
        Self {
            joiner,
            given: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Given>> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a task until it or the relay ends.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.joiner.spawn(task);
    }

    /// Asks the hub about a name and listens for it if it is allowed.
    pub(super) async fn find(&self, name: &str) -> Found {
        match self.joiner.host.ports(name).await {
            Ok(ports) if ports.is_empty() => Found::Nothing,
            Ok(ports) => self.give(name, &ports),
            Err(error) => {
                tracing::debug!(%error, "the hub does not say whether a name is allowed");
                Found::Unknown
            }
        }
    }

    fn give(&self, name: &str, ports: &[u16]) -> Found {
        let mut names = self.lock();
        if !names.contains_key(name) {
            if names.len() >= MAX_NAMES {
                return Found::Unknown;
            }
            let address = Ipv4Addr::from_bits(FIRST.to_bits() + names.len() as u32);
            let ports = Vec::new();
            names.insert(name.into(), Given { address, ports });
        }
        let mut listeners: usize = names.values().map(|given| given.ports.len()).sum();
        let Some(given) = names.get_mut(name) else {
            return Found::Unknown;
        };
        for port in ports {
            if given.ports.contains(port) || listeners >= MAX_LISTENERS {
                continue;
            }
            match listen(SocketAddr::from((given.address, *port))) {
                Ok(listener) => {
                    let opening = format!("direct {name} {port}\n");
                    let joining = self.joiner.clone().join_all(listener, opening.into());
                    self.joiner.spawn(joining);
                    given.ports.push(*port);
                    listeners += 1;
                }
                Err(error) => tracing::debug!(%error, name, port, "not listened on for a name"),
            }
        }
        Found::Address(given.address)
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}
