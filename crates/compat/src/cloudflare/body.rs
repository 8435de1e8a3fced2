//! What requests bring.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::FromRequest;
use http::Request;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::error::{Code, Fault};

/// Largest body of a file: one of 50 MB as base64.
pub(super) const LARGEST: usize = 72 * 1024 * 1024;

/// Largest body of anything else.
const USUAL: usize = 2 * 1024 * 1024;

/// Bytes that are read on the spot; more would hold everybody up.
pub(super) const QUICK: usize = 256 * 1024;

/// A JSON body whose mistakes are told in the dialect's form.
pub(super) struct Json<T>(pub(super) T);

/// The same with a file in it, and its turn: few are held at a time.
pub(super) struct LargeJson<T>(pub(super) T, pub(super) SemaphorePermit<'static>);

/// How many bodies with files are held at a time, by all who ask.
static LARGE: Semaphore = Semaphore::const_new(8);

/// How long one may take to arrive: others wait for its turn.
const ARRIVAL: Duration = Duration::from_mins(2);

impl<T: DeserializeOwned + Send + 'static, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Fault;

    async fn from_request(request: Request<Body>, _: &S) -> Result<Self, Fault> {
        read(request, USUAL).await.map(Self)
    }
}

impl<T: DeserializeOwned + Send + 'static, S: Send + Sync> FromRequest<S> for LargeJson<T> {
    type Rejection = Fault;

    async fn from_request(request: Request<Body>, _: &S) -> Result<Self, Fault> {
        let closed = |error| Fault::new(Code::InternalError, format!("{error}"));
        let turn = LARGE.acquire().await.map_err(closed)?;
        let body = tokio::time::timeout(ARRIVAL, read(request, LARGEST)).await;
        let late = |_| Fault::new(Code::FileTooLarge, "The body did not arrive in two minutes");
        Ok(Self(body.map_err(late)??, turn))
    }
}

async fn read<T: DeserializeOwned + Send + 'static>(
    request: Request<Body>,
    most: usize,
) -> Result<T, Fault> {
    let bytes = to_bytes(request.into_body(), most).await.map_err(|_| {
        Fault::new(
            Code::FileTooLarge,
            format!("The body is over {most} bytes, or ended early"),
        )
    })?;
    if bytes.len() <= QUICK {
        return parse(&bytes);
    }
    let parsed = tokio::task::spawn_blocking(move || parse(&bytes)).await;
    parsed.unwrap_or_else(|error| Err(Fault::new(Code::InternalError, error.to_string())))
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Fault> {
    let given: Value = serde_json::from_slice(bytes)
        .map_err(|error| invalid("body", &format!("it is not JSON: {error}")))?;
    T::deserialize(given).map_err(|error| {
        let text = error.to_string();
        invalid(text.split('`').nth(1).unwrap_or("body"), &text)
    })
}

/// A field that cannot be used.
pub(super) fn invalid(field: &str, message: &str) -> Fault {
    Fault::new(
        Code::ValidationFailed,
        format!("Invalid request: {message}"),
    )
    .context(json!({"validationErrors": [{"field": field, "message": message}]}))
}
