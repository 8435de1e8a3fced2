//! Tickets: a browser cannot set headers on an `EventSource` or a WebSocket, so it gets a short-lived
//! word for the query instead of the token.
//!
//! ```text
//!            issue               redeem, right or wrong path
//!  (none) ─────────► waiting ──────────────────────────────► gone
//!                       └───────── 30 s ─────────────────────► gone
//! ```
//!
//! A ticket opens one stream, once: a GET of exactly the path it was made for (the query may be any),
//! with `Accept: text/event-stream` or as a WebSocket, whichever that path has; it never opens an answer
//! that is not a stream. Kept are hashes only; what is looked for is
//! compared in constant time. A ticket appears in no log: the edge takes it out of the address first.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, Method, StatusCode};
use sandshell_types::{ErrorCode, TicketReply, Timestamp};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use tokio::time::Instant;

use crate::api::routes::Routes;
use crate::problem::ApiError;

/// How long a ticket waits to be used.
const VALID_FOR: Duration = Duration::from_secs(30);

/// Most tickets that wait at a time.
pub(crate) const CAPACITY: usize = 1_000;

/// What a ticket begins with.
pub const PREFIX: &str = "tk_";

/// The parameter it is sent in.
pub const PARAMETER: &str = "ticket";

struct Waiting<T> {
    digest: [u8; 32],
    path: String,
    until: Instant,
    giver: T,
}

/// The tickets that wait, oldest first, for streams among these routes. Each has with it what is to be
/// known of its giver.
pub struct Tickets<T = ()> {
    waiting: Mutex<VecDeque<Waiting<T>>>,
    routes: &'static Routes,
}

/// Why no ticket was made.
#[derive(Debug, thiserror::Error)]
enum TicketError {
    /// As many wait as may.
    #[error("{CAPACITY} tickets are waiting to be used")]
    Full,
    /// There is nothing to make one from.
    #[error("there are no random bytes: {0}")]
    Random(getrandom::Error),
}

impl<T> Tickets<T> {
    /// None yet.
    pub fn new(routes: &'static Routes) -> Self {
        Self {
            waiting: Mutex::default(),
            routes,
        }
    }

    /// Makes a ticket for a path.
    fn issue(&self, path: String, giver: T) -> Result<String, TicketError> {
        let mut random = [0_u8; 24];
        getrandom::fill(&mut random).map_err(TicketError::Random)?;
        let ticket = random.iter().fold(PREFIX.to_owned(), |mut text, byte| {
            text.extend(char::from_digit(u32::from(byte >> 4), 16));
            text.extend(char::from_digit(u32::from(byte & 15), 16));
            text
        });
        let mut waiting = self.waiting();
        if waiting.len() >= CAPACITY {
            return Err(TicketError::Full);
        }
        waiting.push_back(Waiting {
            digest: Sha256::digest(&ticket).into(),
            path,
            until: Instant::now() + VALID_FOR,
            giver,
        });
        Ok(ticket)
    }

    /// Makes a ticket for a path, and the answer that gives it away.
    pub fn give(&self, path: &str, giver: T) -> Result<Response, ApiError> {
        let issued = self.issue(path.to_owned(), giver);
        let ticket = issued.map_err(|error| match error {
            TicketError::Full => ApiError::new(ErrorCode::LimitReached, error.to_string())
                .hint("Each is forgotten when it is used, or after 30 seconds."),
            TicketError::Random(_) => ApiError::internal("a ticket cannot be made", &error),
        })?;
        let reply = TicketReply {
            url: format!("{path}?{PARAMETER}={ticket}"),
            ticket,
            expires_at: Timestamp::now() + VALID_FOR,
        };
        Ok((StatusCode::CREATED, axum::Json(reply)).into_response())
    }

    /// Uses a ticket up. Whose it was, if it opens this request.
    pub fn redeem(
        &self,
        ticket: &str,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> Option<T> {
        let digest: [u8; 32] = Sha256::digest(ticket).into();
        let mut waiting = self.waiting();
        // All are looked at, so that time tells nothing.
        let found = waiting
            .iter()
            .enumerate()
            .fold(None, |found, (at, ticket)| {
                if bool::from(ticket.digest.ct_eq(&digest)) {
                    Some(at)
                } else {
                    found
                }
            });
        let ticket = found.and_then(|at| waiting.remove(at))?;
        let opens =
            *method == Method::GET && ticket.path == path && self.routes.streams(path, headers);
        opens.then_some(ticket.giver)
    }

    /// Those that are still valid.
    fn waiting(&self) -> std::sync::MutexGuard<'_, VecDeque<Waiting<T>>> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        while waiting.front().is_some_and(|oldest| oldest.until <= now) {
            waiting.pop_front();
        }
        waiting
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use http::header;

    use super::*;

    fn events() -> HeaderMap {
        HeaderMap::from_iter([(header::ACCEPT, "text/event-stream".parse().unwrap())])
    }

    #[tokio::test(start_paused = true)]
    async fn opens_its_path_once_and_not_for_long() {
        let tickets = Tickets::new(crate::api::routes::own());
        let open = |ticket: &str, path: &str| {
            let redeemed = tickets.redeem(ticket, &Method::GET, path, &events());
            redeemed.is_some()
        };
        let ticket = tickets.issue("/v1/events".to_owned(), ()).unwrap();
        assert!(ticket.starts_with(PREFIX) && ticket.len() == 51);
        assert!(!open("tk_0", "/v1/events"));
        assert!(open(&ticket, "/v1/events"));
        assert!(!open(&ticket, "/v1/events"), "used twice");
        let ticket = tickets.issue("/v1/events".to_owned(), ()).unwrap();
        assert!(!open(&ticket, "/v1/event"));
        assert!(!open(&ticket, "/v1/events"), "after a wrong path");
        let ticket = tickets.issue("/v1/events".to_owned(), ()).unwrap();
        tokio::time::advance(VALID_FOR).await;
        assert!(!open(&ticket, "/v1/events"), "too late");
    }

    #[tokio::test]
    async fn opens_streams_only() {
        let tickets = Tickets::new(crate::api::routes::own());
        let socket = HeaderMap::from_iter([(header::UPGRADE, "websocket".parse().unwrap())]);
        let (output, connect) = ("/v1/processes/x/output", "/v1/terminals/x/connect");
        for (method, path, headers, opens) in [
            (Method::GET, output, HeaderMap::new(), false),
            (Method::POST, output, events(), false),
            (Method::GET, output, events(), true),
            (Method::GET, output, socket.clone(), false),
            (Method::GET, connect, socket.clone(), true),
            (Method::GET, connect, events(), false),
            (Method::GET, "/v1/env", events(), false),
            (Method::GET, "/v1/files/content", events(), false),
            (Method::GET, "/v1/processes/x", socket, false),
        ] {
            let ticket = tickets.issue(path.to_owned(), ()).unwrap();
            assert_eq!(
                tickets.redeem(&ticket, &method, path, &headers).is_some(),
                opens,
                "{method} {path} {headers:?}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn are_bounded_and_make_room_with_time() {
        let tickets = Tickets::new(crate::api::routes::own());
        for _ in 0..CAPACITY {
            tickets.issue(String::new(), ()).unwrap();
        }
        assert!(matches!(
            tickets.issue(String::new(), ()),
            Err(TicketError::Full)
        ));
        tokio::time::advance(VALID_FOR).await;
        assert!(tickets.issue(String::new(), ()).is_ok());
    }
}
