//! The APIs of other services, for the clients people already have.
//!
//! Owns where each is and whose rights it gets; what it says is `sandshell-compat`'s. The routes are not
//! in the `OpenAPI` document: what goes through them is another's.
//!
//! `/cloudflare/{sandbox}/{token}/…`: that client sends no credential of ours, so that a token for this
//! one sandbox stands in the path. It never appears in a log, and a wider token is refused there: it
//! would be seen by whatever sees addresses.

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Request, Uri, header};
use sandshell_agent::parts::{ApiError, REQUEST_ID, Slot};
use sandshell_compat::{Cloudflare, Lease};
use sandshell_types::{ErrorCode, SandboxId};

use crate::edge::Edge;
use crate::inside;
use crate::route::Forwarded;

/// What is spoken.
#[derive(Debug, Clone, Default)]
pub(crate) struct Dialects {
    cloudflare: Cloudflare,
}

/// A path of a dialect, taken apart.
pub(crate) struct Asked {
    sandbox: String,
    token: String,
    rest: Uri,
}

impl Asked {
    /// `None` for our own paths.
    pub(crate) fn of(uri: &Uri) -> Option<Self> {
        let below = uri.path().strip_prefix("/cloudflare/")?;
        let mut parts = below.splitn(3, '/');
        let (sandbox, token) = (parts.next()?, parts.next()?);
        let path = parts.next().unwrap_or_default();
        let rest = match uri.query() {
            Some(query) => format!("/{path}?{query}"),
            None => format!("/{path}"),
        };
        Some(Self {
            sandbox: sandbox.to_owned(),
            token: token.to_owned(),
            rest: Uri::from(PathAndQuery::try_from(rest).ok()?),
        })
    }

    /// What may be logged of it.
    pub(crate) fn shown(&self) -> Uri {
        let path = format!("/cloudflare/{}/…{}", self.sandbox, self.rest.path());
        Uri::try_from(path).unwrap_or_default()
    }
}

/// Answers a request in its dialect.
pub(crate) async fn answer(
    edge: &Edge,
    asked: Asked,
    request: Request<Body>,
    id: &HeaderValue,
) -> Response {
    let mut response = match translate(edge, asked, request).await {
        Ok(response) => response,
        Err(refused) => return refused.into_response(),
    };
    // Failures have the form of the dialect.
    response.extensions_mut().insert(Forwarded);
    response.headers_mut().insert(REQUEST_ID, id.clone());
    response
}

async fn translate(
    edge: &Edge,
    asked: Asked,
    request: Request<Body>,
) -> Result<Response, ApiError> {
    edge.hub().browsers.check(&request)?;
    let unknown = || {
        ApiError::new(
            ErrorCode::Unauthorized,
            "there is no such sandbox for the token in this address",
        )
        .hint("`sandshell token create --scope sandbox:ID` makes a token for one sandbox.")
    };
    let sandbox: SandboxId = asked.sandbox.parse().map_err(|_| unknown())?;
    let authorization = HeaderValue::try_from(format!("Bearer {}", asked.token));
    let mut authorization = authorization.map_err(|_| unknown())?;
    authorization.set_sensitive(true);
    let shown = HeaderMap::from_iter([(header::AUTHORIZATION, authorization.clone())]);
    let token = edge.hub().tokens.of(&shown).ok_or_else(unknown)?;
    if !token.is_only_for(&sandbox) {
        return Err(ApiError::new(
            ErrorCode::Forbidden,
            "the token in this address may do more than use this sandbox",
        )
        .hint("`sandshell token create --scope sandbox:ID` makes a token for one sandbox."));
    }
    if !token.bucket.take() {
        let detail = format!("this token may ask {} times a second", token.bucket.rate());
        return Err(ApiError::new(ErrorCode::LimitReached, detail)
            .hint("Wait as long as `retry-after` says."));
    }
    edge.hub().registry.live(sandbox.as_str(), &token)?;
    let (mut head, body) = request.into_parts();
    let tunnels = &edge.hub().tunnels;
    let slot = head.extensions.get::<Slot>().cloned();
    let lease = Lease::new(
        [token.ended().clone(), tunnels.shutdown.clone()],
        (slot, tunnels.open.token()),
    );
    let client = inside::client(edge.clone(), &head, Some(authorization)).ok_or_else(unknown)?;
    head.uri = asked.rest;
    let request = Request::from_parts(head, body);
    let cloudflare = &edge.hub().dialects.cloudflare;
    let client = client.sandbox(&sandbox);
    Ok(cloudflare.answer(client, lease, request).await)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_taken_apart_and_its_token_not_shown() {
        let of = |text: &str| Asked::of(&Uri::try_from(text).unwrap());
        let asked = of("/cloudflare/box/sk_secret/api/execute?a=b").unwrap();
        assert_eq!(
            (
                asked.sandbox.as_str(),
                asked.token.as_str(),
                asked.rest.to_string().as_str()
            ),
            ("box", "sk_secret", "/api/execute?a=b")
        );
        assert!(!asked.shown().to_string().contains("secret"));
        assert_eq!(of("/cloudflare/box/t").unwrap().rest.to_string(), "/");
        assert!(of("/cloudflare/box").is_none());
        assert!(of("/v1/sandboxes").is_none());
    }
}
