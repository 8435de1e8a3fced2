//! The `port` surface: listening TCP ports, their exposure, and waiting for one.

use serde::{Deserialize, Serialize};

use crate::{HttpCheck, ProcessId, SessionId};

/// A port that something in the sandbox listens on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PortRecord {
    /// The TCP port.
    pub port: u16,
    /// The addresses it is bound to; `0.0.0.0` and `::` mean all.
    pub addresses: Vec<String>,
    /// The process that listens, as the sandbox counts. The first of several that share the socket.
    pub pid: i32,
    /// Its command line; of a longer one the first KiB.
    pub command: String,
    /// The process or exec it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessId>,
    /// The session it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// Whether a port token opens it.
    #[serde(default)]
    pub exposed: bool,
}

/// Answer to `PUT /v1/ports/{port}`: how it is reached without the agent's token.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PortExposure {
    /// The TCP port.
    pub port: u16,
    /// For a browser: the address by which the agent was asked, with the token.
    pub url: String,
    /// Path of the proxy, without the token.
    pub path: String,
    /// Opens this port and nothing else, until it is unexposed or the agent ends: as `?port_token=`,
    /// as the header `x-port-token`, or as the cookie that the first answer sets.
    pub token: String,
}

impl std::fmt::Debug for PortExposure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PortExposure")
            .field("port", &self.port)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// Answer to `DELETE /v1/ports/{port}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PortUnexposed {
    /// The TCP port.
    pub port: u16,
    /// Whether it was exposed until now.
    pub was_exposed: bool,
}

/// `POST /v1/ports/{port}/wait`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"http": {"path": "/health", "status": 200}, "timeout_ms": 10000}))]
pub struct PortWaitRequest {
    /// Also wait for an HTTP answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpCheck>,
    /// Give up after this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// Answer to a wait for a port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PortWaitReply {
    /// Whether it answers.
    pub ready: bool,
    /// Whether the time was over first.
    pub timed_out: bool,
    /// The port, when it answers and its owner could still be seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<PortRecord>,
}

/// First of the events of `GET /v1/ports`: all ports there are. What is more than 8 MiB of them follows as `opened`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PortsEvent {
    /// The ports.
    pub items: Vec<PortRecord>,
}
