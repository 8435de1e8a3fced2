//! What requests bring.

use axum::body::Body;
use axum::extract::FromRequest;
use bytes::BytesMut;
use futures_util::StreamExt as _;
use http::{HeaderMap, Request};
use sandshell_client::types::SessionId;
use serde::de::DeserializeOwned;

use super::error::Fault;

/// Largest body that is read as a whole. Files and archives are not.
const MOST: usize = 2 * 1024 * 1024;

/// So much of one that is larger is still taken, as a client hears nothing while it speaks.
const HEARD_OUT: usize = 16 * 1024 * 1024;

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
    let mut pieces = request.into_body().into_data_stream();
    let mut body = BytesMut::new();
    let mut length = 0;
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|_| Fault::invalid("Could not read request body"))?;
        length += piece.len();
        if length > HEARD_OUT {
            break;
        }
        if length <= MOST {
            body.extend_from_slice(&piece);
        }
    }
    if length > MOST {
        return Err(Fault::too_large(format!("the body is over {MOST} bytes")));
    }
    Ok(body.freeze())
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
