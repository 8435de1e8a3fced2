//! Files: content, listings, changes, search, archives.
//!
//! Owns what all of them share. Nothing in here touches a file; `sandshell_files` does, on the threads
//! of the inside.

mod changes;
mod conditions;
mod content;
mod listing;

use std::sync::Arc;

use sandshell_exec::inside::{Root, Who};
use sandshell_files::FileError;
use utoipa_axum::router::UtoipaMethodRouter;
use utoipa_axum::routes;

use crate::Agent;
use crate::problem::ApiError;

/// Its routes.
pub(super) fn table() -> Vec<UtoipaMethodRouter<Arc<Agent>>> {
    vec![
        routes!(content::read, content::write),
        routes!(listing::list),
        routes!(listing::stat),
        routes!(changes::mkdir),
        routes!(changes::rename),
        routes!(changes::copy),
        routes!(changes::remove),
        routes!(changes::chmod),
    ]
}

/// Runs a job on the inside with the rights of this user.
async fn run<T: Send + 'static>(
    agent: &Agent,
    who: &Who,
    job: impl FnOnce(&Root) -> Result<T, FileError> + Send + 'static,
) -> Result<T, ApiError> {
    Ok(agent.executor.inside().run(who, job).await??)
}
