//! What all connections of one sandbox share: its policy, its secrets' authority, its counts.

use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};

use sandshell_types::{NetworkRefused, RefusalReason};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::authority::Authority;
use super::host::Host;
use super::outside::{OpenError, Outside};
use super::policy::Policy;
use super::refusals::Refusals;
use super::stream::Meter;

/// Names of one sandbox being resolved at a time, so that one with slow names delays no other.
const LOOKUPS: usize = 8;

#[derive(Debug)]
pub(super) struct Sandbox {
    outside: Arc<Outside>,
    policy: RwLock<Current>,
    pub(super) authority: Option<Authority>,
    pub(super) refusals: Refusals,
    pub(super) meter: Arc<Meter>,
    lookups: Arc<Semaphore>,
}

/// A policy, and the end of every connection that was let through by it.
#[derive(Debug, Clone)]
struct Current {
    policy: Arc<Policy>,
    over: CancellationToken,
}

impl Sandbox {
    pub(super) fn new(
        name: String,
        outside: Arc<Outside>,
        policy: Policy,
        authority: Option<Authority>,
    ) -> Self {
        Self {
            outside,
            policy: RwLock::new(Current {
                policy: Arc::new(policy),
                over: CancellationToken::new(),
            }),
            authority,
            refusals: Refusals::new(name),
            meter: Arc::default(),
            lookups: Arc::new(Semaphore::new(LOOKUPS)),
        }
    }

    fn current(&self) -> Current {
        let current = self.policy.read().unwrap_or_else(PoisonError::into_inner);
        current.clone()
    }

    pub(super) fn policy(&self) -> Arc<Policy> {
        self.current().policy
    }

    /// Ends when the policy of now no longer holds.
    pub(super) fn over(&self) -> CancellationToken {
        self.current().over
    }

    /// Another policy from now on; what the former let through is ended.
    pub(super) fn replace(&self, policy: Policy) {
        let next = Current {
            policy: Arc::new(policy),
            over: CancellationToken::new(),
        };
        let former = {
            let mut current = self.policy.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *current, next)
        };
        former.over.cancel();
    }

    pub(super) fn outside(&self) -> &Outside {
        &self.outside
    }

    /// Connects to a host if the policy allows it and its address is one that may be reached.
    pub(super) async fn connect(&self, host: &Host, port: u16) -> Result<TcpStream, OpenError> {
        let allowed = self.policy().check(host, port);
        allowed.map_err(|reason| OpenError::Refused {
            reason,
            address: None,
        })?;
        self.outside.connect(host, port, &self.lookups).await
    }

    /// The ports on which to listen for a name; none if it may not be asked for. Where every name may
    /// be, it must exist: then nothing is given away by looking it up.
    pub(super) async fn ports(&self, host: &Host) -> Vec<u16> {
        let policy = self.policy();
        let exists = match host {
            Host::Name(_) if policy.is_open() => self.outside.exists(host, &self.lookups).await,
            Host::Name(_) => true,
            Host::Address(_) => false,
        };
        if exists {
            policy.ports(host)
        } else {
            Vec::new()
        }
    }

    /// Tells of a refusal.
    pub(super) fn refuse(
        &self,
        host: String,
        port: Option<u16>,
        reason: RefusalReason,
        address: Option<IpAddr>,
    ) {
        self.refusals.tell(NetworkRefused {
            host: shortened(host),
            port,
            reason,
            address: address.map(|address| address.to_string()),
            suppressed: 0,
        });
    }
}

/// What a sandbox calls a host goes into logs and events: no longer than a name can be, and in
/// characters that do nothing there.
fn shortened(host: String) -> String {
    const MOST: usize = 255;
    if host.len() <= MOST && host.bytes().all(|byte| byte.is_ascii_graphic()) {
        return host;
    }
    host.chars()
        .flat_map(char::escape_default)
        .take(MOST)
        .collect()
}
