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

/// `GET /healthz`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Health {
    /// `ok`.
    pub status: String,
}
