//! Another protocol at the root of an agent, over the agent's own API.
//!
//! ```text
//! request ─► edge ─┬─ /v1/…, probes ─► as ever
//!                  └─ all else ─► front ─► client ─► edge again, let in ─► …
//! ```
//!
//! Owns the way between the two. The agent does not know what is spoken; a [`Front`] does not know the agent
//! but through its API.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use http::request::Parts;
use http::{HeaderMap, Request};
use sandshell_types::Problem;
use tokio::io::DuplexStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::auth::OPEN;
use crate::server::Slot;

/// Opens a connection to the API of this agent, whose requests are let in.
pub type Opener = Arc<dyn Fn() -> DuplexStream + Send + Sync>;

/// What a front is given with a request.
pub struct Way {
    /// Leads to the API.
    pub open: Opener,
    /// Told when the agent ends, and with it what stays open.
    pub shutdown: CancellationToken,
    /// Held by what stays open.
    pub held: (Option<Slot>, TaskTrackerToken),
}

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Way").finish_non_exhaustive()
    }
}

/// The answer of a front.
pub type Answer = Pin<Box<dyn Future<Output = Response> + Send>>;

/// What speaks another protocol.
pub trait Front: fmt::Debug + Send + Sync {
    /// The secret that a request shows, in its own way.
    fn shown<'a>(&self, headers: &'a HeaderMap) -> Option<&'a [u8]>;

    /// A refusal, in its own form.
    fn refuse(&self, problem: Problem, head: &Parts) -> Response;

    /// A second port that its clients look for when they are served at this one.
    fn second_port(&self, _first: u16) -> Option<u16> {
        None
    }

    /// Answers a request that was let in.
    fn answer(&self, way: Way, request: Request<Body>) -> Answer;
}

/// Whether a path stays the agent's own.
pub(crate) fn is_ours(path: &str) -> bool {
    path.starts_with("/v1/") || OPEN.contains(&path)
}
