//! Bodies of JSON, whose mistakes are told in the dialect's form.

use axum::body::{Body, to_bytes};
use axum::extract::FromRequest;
use http::Request;
use serde::de::DeserializeOwned;

use crate::error::{Code, Fault};

/// Largest body.
const LARGEST: usize = 16 * 1024 * 1024;

/// A body; an empty one is `{}`.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Fault;

    async fn from_request(request: Request<Body>, _: &S) -> Result<Self, Fault> {
        let bytes = to_bytes(request.into_body(), LARGEST).await.map_err(|_| {
            let message = format!("the body is over {LARGEST} bytes, or ended early");
            Fault::new(Code::InvalidArgument, message).with_status(413)
        })?;
        let bytes = if bytes.is_empty() { &b"{}"[..] } else { &bytes };
        serde_json::from_slice(bytes)
            .map(Self)
            .map_err(|error| Fault::invalid(format!("the body: {error}")))
    }
}
