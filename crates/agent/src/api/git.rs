//! Git.

use std::sync::Arc;

use utoipa_axum::router::UtoipaMethodRouter;

use crate::Agent;

/// Its routes.
pub(super) fn table() -> Vec<UtoipaMethodRouter<Arc<Agent>>> {
    vec![]
}
