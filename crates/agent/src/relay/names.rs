//! Addresses of the loopback that stand for names outside, and the listeners on them.
//!
//! A name keeps its address for as long as it is among those used last, by a question or a connection.
//! The one used longest ago makes room for a new name: nothing listens on its address from then on, and
//! the address is not given again before all others of the range were. So whoever still holds it is
//! refused and asks again, and is never led to another name. Connections that are open go on.
//!
//! A port that a server of the sandbox has already taken on all addresses stays its own.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::Joiner;

/// Most names with an address.
const MAX_NAMES: usize = 256;
/// Most listeners on all of them.
const MAX_LISTENERS: usize = 1024;
/// The first address: 127.83.0.1.
const FIRST: Ipv4Addr = Ipv4Addr::new(127, 83, 0, 1);
/// How many there are from there on, up to 127.83.255.254.
const ADDRESSES: u32 = 0xfffe;

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
    table: Mutex<Table>,
    /// Counts questions and connections.
    clock: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct Table {
    given: HashMap<Box<str>, Given>,
    /// The address that is given next, counted from the first.
    next: u32,
}

#[derive(Debug)]
struct Given {
    address: Ipv4Addr,
    /// Ports that are listened on.
    ports: Vec<u16>,
    usage: Arc<Usage>,
    /// Ends the listeners.
    listening: CancellationToken,
    _ends: DropGuard,
}

/// When a name was last used.
#[derive(Debug)]
pub(super) struct Usage {
    clock: Arc<AtomicU64>,
    last: AtomicU64,
    connections: AtomicUsize,
}

impl Usage {
    fn touch(&self) {
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        self.last.store(now, Ordering::Relaxed);
    }

    /// What is least of all may go: those with connections last.
    fn rank(&self) -> (bool, u64) {
        let connected = self.connections.load(Ordering::Relaxed) > 0;
        (connected, self.last.load(Ordering::Relaxed))
    }
}

/// A connection to a name, counted until this is dropped.
#[derive(Debug)]
pub(super) struct Connected(Arc<Usage>);

impl Connected {
    pub(super) fn new(usage: &Arc<Usage>) -> Self {
        usage.connections.fetch_add(1, Ordering::Relaxed);
        usage.touch();
        Self(Arc::clone(usage))
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
        self.0.touch();
    }
}

impl Table {
    fn listeners(&self) -> usize {
        self.given.values().map(|given| given.ports.len()).sum()
    }

    /// Lets go of the names used longest ago until there is room for this one.
    fn make_room(&mut self, name: &str, ports: usize) {
        loop {
            let known = self.given.contains_key(name);
            let full = (!known && self.given.len() >= MAX_NAMES)
                || self.listeners() + ports > MAX_LISTENERS;
            let others = self.given.iter().filter(|(other, _)| &***other != name);
            let oldest = others.min_by_key(|(_, given)| given.usage.rank());
            match oldest.map(|(oldest, _)| oldest.clone()) {
                Some(oldest) if full => drop(self.given.remove(&oldest)),
                _ => return,
            }
        }
    }

    /// The next address that no name has. There are far more of them than names.
    fn next_address(&mut self) -> Ipv4Addr {
        loop {
            let address = Ipv4Addr::from_bits(FIRST.to_bits() + self.next);
            self.next = (self.next + 1) % ADDRESSES;
            if self.given.values().all(|given| given.address != address) {
                return address;
            }
        }
    }
}

impl Names {
    pub(super) fn new(joiner: Joiner) -> Self {
        Self {
            joiner,
            table: Mutex::default(),
            clock: Arc::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
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
        let mut table = self.lock();
        let known = table.given.get(name).map(|given| given.ports.as_slice());
        let missing = |port: &&u16| known.is_none_or(|known| !known.contains(port));
        let missing: Vec<u16> = ports.iter().filter(missing).copied().collect();
        table.make_room(name, missing.len());
        if !table.given.contains_key(name) {
            let address = table.next_address();
            table.given.insert(name.into(), self.fresh(address));
        }
        let Some(given) = table.given.get_mut(name) else {
            return Found::Unknown;
        };
        given.usage.touch();
        for port in missing {
            match listen(SocketAddr::from((given.address, port))) {
                Ok(listener) => {
                    let opening = format!("direct {name} {port}\n");
                    let usage = Some(Arc::clone(&given.usage));
                    let joining = self.joiner.clone();
                    let joining = joining.join_all(listener, opening.into(), usage);
                    let end = given.listening.clone();
                    self.joiner.spawn(async move {
                        tokio::select! {
                            () = joining => {}
                            () = end.cancelled() => {}
                        }
                    });
                    given.ports.push(port);
                }
                Err(error) => tracing::debug!(%error, name, port, "not listened on for a name"),
            }
        }
        Found::Address(given.address)
    }

    fn fresh(&self, address: Ipv4Addr) -> Given {
        let listening = CancellationToken::new();
        Given {
            address,
            ports: Vec::new(),
            usage: Arc::new(Usage {
                clock: Arc::clone(&self.clock),
                last: AtomicU64::new(0),
                connections: AtomicUsize::new(0),
            }),
            _ends: listening.clone().drop_guard(),
            listening,
        }
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn names() -> Names {
        Names::new(Joiner::to_nowhere())
    }

    fn address(names: &Names, name: &str) -> Ipv4Addr {
        match names.give(name, &[]) {
            Found::Address(address) => address,
            other => panic!("{name}: {other:?}"),
        }
    }

    #[tokio::test]
    async fn the_name_used_longest_ago_makes_room() {
        let names = names();
        let first = address(&names, "first.test");
        let busy = address(&names, "busy.test");
        let usage = Arc::clone(&names.lock().given["busy.test"].usage);
        let connection = Connected::new(&usage);
        for n in 0..1000 {
            address(&names, &format!("n{n}.test"));
            // Asked for again and again, it stays.
            assert_eq!(address(&names, "first.test"), first);
        }
        assert_eq!(names.lock().given.len(), MAX_NAMES);
        assert_eq!(address(&names, "busy.test"), busy, "it has a connection");
        drop(connection);
        for n in 0..1000 {
            address(&names, &format!("m{n}.test"));
        }
        assert_ne!(address(&names, "busy.test"), busy);
    }

    #[tokio::test]
    async fn an_address_is_not_given_again_before_all_others() {
        let names = names();
        let mut seen = std::collections::HashSet::new();
        for n in 0..ADDRESSES {
            assert!(seen.insert(address(&names, &format!("n{n}.test"))), "{n}");
        }
        assert!(!seen.insert(address(&names, "one.more")));
    }
}
