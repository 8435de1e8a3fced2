//! What the service says of itself.

use serde::{Deserialize, Serialize};

/// Version of the wire contract.
pub const API_VERSION: &str = "v1";

/// `GET /version`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct VersionInfo {
    /// Version of the program.
    pub version: String,
    /// Version of the wire contract.
    pub api: String,
}

/// `POST /v1/tickets`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TicketRequest {
    /// The path of the stream, percent-encoded as it will be asked for, without a query.
    #[schema(pattern = "^/v1/[^?# ]*$")]
    pub path: String,
}

/// Answer to `POST /v1/tickets`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TicketReply {
    /// The ticket: the value of `?ticket=`.
    pub ticket: String,
    /// The path with the ticket in its query.
    pub url: String,
    /// When it is forgotten if it has not been used.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: jiff::Timestamp,
}

/// `GET /healthz`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Health {
    /// `ok`.
    pub status: String,
}
