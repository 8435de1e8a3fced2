//! What requests bring.

use axum::body::{Body, to_bytes};
use axum::extract::FromRequest;
use http::{HeaderMap, Request};
use sandshell_client::types::SessionId;
use serde::de::DeserializeOwned;

use super::error::Fault;

/// Largest body that is read as a whole. Files and archives are not.
const MOST: usize = 2 * 1024 * 1024;

/// A JSON body whose mistakes are told in the dialect's form.
pub(super) struct Json<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Fault;

    async fn from_request(request: Request<Body>, _: &S) -> Result<Self, Fault> {
        let bytes = whole(request).await?;
        serde_json::from_slice(&bytes).map(Self).map_err(|error| {
            if error.is_data() {
                Fault::invalid(error.to_string())
            } else {
                Fault::invalid(format!("Invalid JSON body: {error}"))
            }
        })
    }
}

/// The same, which may be left out.
pub(super) struct OptionalJson<T>(pub(super) T);

impl<T: DeserializeOwned + Default, S: Send + Sync> FromRequest<S> for OptionalJson<T> {
    type Rejection = Fault;

    async fn from_request(request: Request<Body>, state: &S) -> Result<Self, Fault> {
        let bytes = whole(request).await?;
        if bytes.trim_ascii().is_empty() {
            return Ok(Self(T::default()));
        }
        let Json(given) = Json::from_request(Request::new(bytes.into()), state).await?;
        Ok(Self(given))
    }
}

async fn whole(request: Request<Body>) -> Result<bytes::Bytes, Fault> {
    to_bytes(request.into_body(), MOST)
        .await
        .map_err(|_| Fault::invalid(format!("the body is over {MOST} bytes, or ended early")))
}

/// The session a request names.
pub(super) fn session(headers: &HeaderMap) -> Result<Option<SessionId>, Fault> {
    match headers.get("session-id") {
        None => Ok(None),
        Some(id) => id.to_str().map_or(Err(wrong_session()), named).map(Some),
    }
}

/// The id of a session, by its text.
pub(super) fn named(id: &str) -> Result<SessionId, Fault> {
    id.parse().map_err(|_| wrong_session())
}

fn wrong_session() -> Fault {
    Fault::invalid(
        "Invalid session ID format: letters, digits, dots, hyphens and underscores, the first a \
         letter or digit, 64 at most",
    )
}
