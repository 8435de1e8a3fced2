//! Upgraded connections: raw bytes both ways until one side ends, or the agent does.

use std::sync::Arc;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use sandshell_sys::task;
use sandshell_types::ErrorCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::problem::ApiError;

/// Most tunnels at a time: they no longer count as connections of the server.
pub(crate) const MOST: usize = 1024;

/// Bytes under way in each direction of a tunnel.
const BUFFER: usize = 16 * 1024;

pub(super) struct Tunnels {
    places: Arc<Semaphore>,
    shutdown: CancellationToken,
}

/// The right to one tunnel.
pub(super) struct Place(#[expect(dead_code, reason = "held for its drop")] OwnedSemaphorePermit);

impl Tunnels {
    pub(super) fn new(shutdown: CancellationToken) -> Self {
        Self {
            places: Arc::new(Semaphore::new(MOST)),
            shutdown,
        }
    }

    pub(super) fn place(&self) -> Result<Place, ApiError> {
        let place = Arc::clone(&self.places).try_acquire_owned();
        place.map(Place).map_err(|_| {
            ApiError::new(
                ErrorCode::LimitReached,
                format!("{MOST} upgraded connections are open already"),
            )
        })
    }

    /// Joins both sides once both have been upgraded.
    pub(super) fn join(&self, place: Place, outside: OnUpgrade, inside: OnUpgrade) {
        let shutdown = self.shutdown.clone();
        task::spawn(async move {
            let tunnel = async {
                let (Ok(outside), Ok(inside)) = tokio::join!(outside, inside) else {
                    return;
                };
                let (mut outside, mut inside) = (TokioIo::new(outside), TokioIo::new(inside));
                // An error is the end of one side; there is nobody to tell but the other.
                let _ = tokio::io::copy_bidirectional_with_sizes(
                    &mut outside,
                    &mut inside,
                    BUFFER,
                    BUFFER,
                )
                .await;
            };
            tokio::select! {
                () = tunnel => {}
                () = shutdown.cancelled() => {}
            }
            drop(place);
        });
    }
}
