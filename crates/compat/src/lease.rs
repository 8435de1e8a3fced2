//! What lets a connection stay open.

use std::any::Any;
use std::future::Future;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

/// The right of a request to become a connection that stays: until when, and what it holds meanwhile,
/// such as its place among those that are served.
#[derive(Clone)]
pub struct Lease {
    until: [CancellationToken; 2],
    _held: Arc<dyn Any + Send + Sync>,
}

impl Lease {
    /// Ends when either is told.
    pub fn new(until: [CancellationToken; 2], held: impl Any + Send + Sync) -> Self {
        Self {
            until,
            _held: Arc::new(held),
        }
    }

    /// Does something that ends with the lease at the latest, whatever it waits for.
    pub(crate) async fn hold(&self, work: impl Future<Output = ()>) {
        tokio::select! {
            () = self.over() => {}
            () = work => {}
        }
    }

    /// Resolves when it is over.
    pub(crate) async fn over(&self) {
        let [one, other] = &self.until;
        tokio::select! {
            () = one.cancelled() => {}
            () = other.cancelled() => {}
        }
    }
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lease").finish_non_exhaustive()
    }
}
