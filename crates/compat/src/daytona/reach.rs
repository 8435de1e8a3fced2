//! How a request reaches a sandbox, and how its client reached us.

use axum::extract::{FromRequestParts, RawPathParams};
use http::header::HOST;
use http::request::Parts;
use http::{HeaderName, StatusCode};
use sandshell_client::Client;
use sandshell_client::types::SandboxId;

use super::error::Fault;

const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// The client of the sandbox whose toolbox is asked.
pub(super) struct Sandbox(pub(super) Client);

impl<S: Send + Sync> FromRequestParts<S> for Sandbox {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Fault> {
        let params = RawPathParams::from_request_parts(parts, state)
            .await
            .map_err(|_| Fault::invalid("The path is not text"))?;
        let mut params = params.iter();
        let id = params.find_map(|(name, value)| (name == "sandbox").then(|| value.to_owned()));
        let id = id.unwrap_or_default();
        let hub = parts.extensions.get::<Client>();
        match (hub, id.parse::<SandboxId>()) {
            (Some(hub), Ok(id)) => Ok(Self(hub.sandbox(&id))),
            _ => Err(Fault::missing(format!("Sandbox {id} not found"))),
        }
    }
}

/// The address under which the client reached us, without a path.
pub(super) struct Reached(String);

impl Reached {
    /// Where the toolboxes are for it.
    pub(super) fn toolbox(&self) -> String {
        format!("{}/daytona/toolbox", self.0)
    }

    /// Where our own API has a path.
    pub(super) fn at(&self, path: &str) -> String {
        format!("{}{path}", self.0)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Reached {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Fault> {
        let text = |name: HeaderName| parts.headers.get(name).and_then(|host| host.to_str().ok());
        let host = text(HOST).ok_or_else(|| {
            let message = "The request has no Host header";
            Fault::new(StatusCode::BAD_REQUEST, "BAD_REQUEST", message)
        })?;
        // Only a proxy before us speaks TLS.
        let scheme = match text(FORWARDED_PROTO) {
            Some(proto) if proto.eq_ignore_ascii_case("https") => "https",
            _ => "http",
        };
        Ok(Self(format!("{scheme}://{host}")))
    }
}
