//! What requests bring.

use axum::body::{Body, to_bytes};
use axum::extract::FromRequest;
use http::Request;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::error::{Code, Fault};

/// Largest body: a file of 50 MB as base64, and more.
const LARGEST: usize = 128 * 1024 * 1024;

/// A JSON body whose mistakes are told in the dialect's form.
pub(super) struct Json<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Fault;

    async fn from_request(request: Request<Body>, _: &S) -> Result<Self, Fault> {
        let bytes = to_bytes(request.into_body(), LARGEST).await.map_err(|_| {
            Fault::new(
                Code::FileTooLarge,
                format!("The body is over {LARGEST} bytes, or ended early"),
            )
        })?;
        let given: Value = serde_json::from_slice(&bytes)
            .map_err(|error| invalid("body", &format!("it is not JSON: {error}")))?;
        let field = |error: &serde_json::Error| {
            let text = error.to_string();
            text.split('`').nth(1).unwrap_or("body").to_owned()
        };
        T::deserialize(given)
            .map(Self)
            .map_err(|error| invalid(&field(&error), &error.to_string()))
    }
}

/// A field that cannot be used.
pub(super) fn invalid(field: &str, message: &str) -> Fault {
    Fault::new(
        Code::ValidationFailed,
        format!("Invalid request: {message}"),
    )
    .context(json!({"validationErrors": [{"field": field, "message": message}]}))
}
