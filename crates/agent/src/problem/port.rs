//! Failures with ports.

use sandshell_exec::PortError;
use sandshell_types::ErrorCode;

use super::ApiError;

impl From<PortError> for ApiError {
    fn from(error: PortError) -> Self {
        match error {
            PortError::NotFound { port } => Self::new(
                ErrorCode::PortNotFound,
                format!("nothing in the sandbox listens on port {port}"),
            )
            .hint("POST /v1/ports/{port}/wait waits for it; GET /v1/ports lists those there are."),
            PortError::Lack(_) => Self::new(ErrorCode::Unavailable, error.to_string()),
            PortError::Unreachable { port, reason } => Self::new(
                ErrorCode::PortUnreachable,
                format!("port {port} does not take a connection: {reason}"),
            ),
        }
    }
}
