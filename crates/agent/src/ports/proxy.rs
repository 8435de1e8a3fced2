//! One proxied request, from its admission to its answer.

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, StatusCode, Uri, Version, header};
use sandshell_types::ErrorCode;

use super::exposed::Shown;
use super::{Peer, Ports, head};
use crate::auth::Auth;
use crate::problem::ApiError;

/// Marks an answer that comes from a server inside: whatever its status, it is not ours to change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Proxied;

/// The port a path is proxied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target {
    pub(super) port: u16,
}

impl Target {
    /// The target of a path and what follows the prefix; `None` when it is no path of the proxy.
    pub(crate) fn of(path: &str) -> Option<(Self, &str)> {
        let (port, rest) = path.strip_prefix("/v1/ports/")?.split_once('/')?;
        let rest = rest.strip_prefix("proxy")?;
        let digits = port.bytes().all(|b| b.is_ascii_digit()) && !port.starts_with('0');
        let port = port.parse().ok().filter(|_| digits)?;
        (rest.is_empty() || rest.starts_with('/')).then_some((Self { port }, rest))
    }

    /// The path below which everything is the server's.
    pub(super) fn prefix(self) -> String {
        format!("/v1/ports/{}/proxy", self.port)
    }
}

impl Ports {
    /// Answers a request whose path is one of the proxy.
    pub(crate) async fn proxy(&self, auth: &Auth, request: Request<Body>) -> Response {
        self.pass(auth, request)
            .await
            .unwrap_or_else(axum::response::IntoResponse::into_response)
    }

    async fn pass(&self, auth: &Auth, mut request: Request<Body>) -> Result<Response, ApiError> {
        let uri = request.uri().clone();
        let Some((target, rest)) = Target::of(uri.path()) else {
            return Err(ApiError::from_status(
                StatusCode::NOT_FOUND,
                request.method().as_str(),
                uri.path(),
            ));
        };
        let shown = self
            .exposed
            .shown(target.port, uri.query(), request.headers());
        let admitted = auth.check(uri.path(), request.headers());
        // A hub has checked who asks, and tells when only the port's own token can let them in.
        let behind_hub = auth.is_open();
        if shown.is_none() {
            admitted?;
            if behind_hub && request.headers().contains_key(head::VISITOR) {
                return Err(ApiError::new(ErrorCode::Unauthorized, "there is no token")
                    .hint("Send `Authorization: Bearer TOKEN` with a token of this hub."));
            }
        }
        let outside = request.headers().get(head::OUTSIDE).filter(|_| behind_hub);
        let prefix = match outside.and_then(|prefix| prefix.to_str().ok()) {
            Some(prefix) => prefix.trim_end_matches('/').to_owned(),
            None => target.prefix(),
        };
        self.check(target.port)?;
        if rest.is_empty() {
            return Ok(with_slash(&uri, &prefix));
        }
        let with_our_token = auth.is_shown(request.headers());
        let upgrade = (request.version() == Version::HTTP_11)
            .then(|| head::upgrade(request.headers()))
            .flatten();
        let tunnel = match &upgrade {
            Some(_) => Some((self.tunnels.place()?, hyper::upgrade::on(&mut request))),
            None => None,
        };
        let (mut parts, body) = request.into_parts();
        let peer = parts.extensions.get::<Peer>().copied();
        head::to_inside(
            &mut parts.headers,
            &uri,
            (target, &prefix),
            peer,
            upgrade.as_ref(),
            with_our_token,
        );
        let path = head::inside_path(rest, uri.query());
        let mut inside = Request::new(body);
        *inside.method_mut() = parts.method;
        *inside.headers_mut() = parts.headers;
        *inside.uri_mut() = PathAndQuery::try_from(path)
            .map(Uri::from)
            .map_err(|error| ApiError::internal("a path cannot be passed on", &error))?;
        let mut answer = self.upstreams.send(target.port, inside).await?;
        let upgraded = answer.status() == StatusCode::SWITCHING_PROTOCOLS;
        match tunnel {
            Some((place, outside)) if upgraded => {
                let inside = hyper::upgrade::on(&mut answer);
                self.tunnels.join(place, outside, inside);
            }
            None if upgraded => return Err(unasked(target)),
            _ => {}
        }
        let (mut head, body) = answer.into_parts();
        head::to_outside(&mut head.headers, (target, &prefix), upgraded);
        if shown == Some(Shown::Query)
            && let Some(cookie) = self.exposed.cookie(target.port, &prefix)
            && let Ok(cookie) = HeaderValue::try_from(cookie)
        {
            head.headers.append(header::SET_COOKIE, cookie);
        }
        head.version = Version::HTTP_11;
        head.extensions.clear();
        head.extensions.insert(Proxied);
        Ok(Response::from_parts(head, Body::new(body)))
    }
}

fn unasked(target: Target) -> ApiError {
    let port = target.port;
    let detail = format!("the server on port {port} changed the protocol unasked");
    ApiError::new(ErrorCode::PortUnreachable, detail)
        .hint("Look at the output of the process that listens there.")
}

/// Relative links of a page work only below a path that ends in a slash.
fn with_slash(uri: &Uri, prefix: &str) -> Response {
    let mut location = format!("{prefix}/");
    if let Some(query) = uri.query() {
        location = format!("{location}?{query}");
    }
    (
        StatusCode::PERMANENT_REDIRECT,
        [(header::LOCATION, location)],
    )
        .into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_its_paths() {
        let of = |path: &'static str| Target::of(path).map(|(target, rest)| (target.port, rest));
        assert_eq!(of("/v1/ports/8000/proxy/"), Some((8000, "/")));
        assert_eq!(of("/v1/ports/8000/proxy"), Some((8000, "")));
        assert_eq!(of("/v1/ports/8000/proxy//a%2f"), Some((8000, "//a%2f")));
        for other in [
            "/v1/ports/8000/proxyx",
            "/v1/ports/8000",
            "/v1/ports/08000/proxy/",
            "/v1/ports/+80/proxy/",
            "/v1/ports/99999/proxy/",
            "/v1/ports//proxy/",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
