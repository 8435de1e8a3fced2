//! Files: content, listings, changes, search, archives.
//!
//! Owns what all of them share. Nothing in here touches a file; `sandshell_files` does, on the threads
//! of the inside.

mod changes;
pub(crate) mod conditions;
mod content;
mod listing;

use std::sync::Arc;

use sandshell_exec::inside::{Root, Who};
use sandshell_files::FileError;

use crate::Agent;
use crate::problem::ApiError;

crate::table! {
    /// Its routes.
    pub(super) Arc<Agent> {
        content::read, content::write;
        listing::list;
        listing::stat;
        changes::mkdir;
        changes::rename;
        changes::copy;
        changes::remove;
        changes::chmod;
    }
}

/// Runs a job on the inside with the rights of this user.
async fn run<T: Send + 'static>(
    agent: &Agent,
    who: &Who,
    job: impl FnOnce(&Root) -> Result<T, FileError> + Send + 'static,
) -> Result<T, ApiError> {
    Ok(agent.executor.inside().run(who, job).await??)
}
