//! What requests bring as JSON. Not all clients say that it is.

use axum::body::{Body, Bytes};
use axum::extract::FromRequest;
use axum::response::IntoResponse as _;
use http::{Request, StatusCode};
use serde::de::DeserializeOwned;

use super::error::Fault;

/// A JSON body, whatever type it says it has.
pub(super) struct Given<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Given<T> {
    type Rejection = Fault;

    async fn from_request(request: Request<Body>, state: &S) -> Result<Self, Fault> {
        let bytes = Bytes::from_request(request, state).await;
        let bytes = bytes.map_err(|refused| {
            let status = refused.into_response().status();
            Fault::unread(status, "The body is too large, or ended early".to_owned())
        })?;
        let read = serde_json::from_slice(&bytes).map_err(|error| {
            let message = format!("The body cannot be read: {error}");
            Fault::new(StatusCode::BAD_REQUEST, "INVALID_REQUEST_BODY", message)
        });
        read.map(Self)
    }
}
