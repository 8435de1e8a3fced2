//! Ports as the edge sees them: which are exposed, and the proxy to them.
//!
//! ```text
//! /v1/ports/8000/proxy/a?b ─► who may (bearer or port token) ─► head rewritten ─► upstream ─► answer
//!                                                                   │ Upgrade
//!                                                                   └─► tunnel of raw bytes
//! ```
//!
//! Owns exposure, the rewriting of heads, kept connections and tunnels. Does not own which ports are
//! the sandbox's: every connection comes from `Executor::connect_port`, which connects to nothing
//! else. The agent's own port is refused by its number too, whatever address it is asked for by.
//!
//! Invariants: bodies pass frame by frame, never gathered; path, query and bodies are not changed,
//! but for the port token; neither the agent's token nor a port token reaches the server inside.

mod exposed;
pub(crate) mod head;
pub(crate) mod kept;
mod proxy;
mod tunnel;
mod upstream;

use std::net::IpAddr;

use sandshell_exec::Executor;
use sandshell_types::ErrorCode;
use tokio_util::sync::CancellationToken;

use crate::problem::ApiError;
pub(crate) use exposed::Exposed;
pub(crate) use proxy::{Proxied, Target};
use tunnel::Tunnels;
use upstream::Upstreams;

/// What the port routes and the proxy share.
pub(crate) struct Ports {
    pub(crate) exposed: Exposed,
    upstreams: Upstreams,
    tunnels: Tunnels,
    /// The agent's own port, when it listens on TCP.
    own: Option<u16>,
}

/// The address a connection came from.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub IpAddr);

impl Ports {
    pub(crate) fn new(executor: Executor, own: Option<u16>, shutdown: CancellationToken) -> Self {
        Self {
            exposed: Exposed::default(),
            upstreams: Upstreams::new(executor),
            tunnels: Tunnels::new(shutdown),
            own,
        }
    }

    /// Whether this is the agent's own port.
    pub(crate) fn is_own(&self, port: u16) -> bool {
        self.own == Some(port)
    }

    /// Refuses what is no port of the sandbox by its number alone.
    pub(crate) fn check(&self, port: u16) -> Result<(), ApiError> {
        if port == 0 {
            return Err(ApiError::new(
                ErrorCode::InvalidRequest,
                "a port is a number from 1 to 65535",
            )
            .pointer("/port"));
        }
        if self.is_own(port) {
            return Err(ApiError::new(
                ErrorCode::Forbidden,
                format!("port {port} is the agent's own and is never proxied"),
            )
            .pointer("/port"));
        }
        Ok(())
    }
}
