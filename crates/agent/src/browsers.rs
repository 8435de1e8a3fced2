//! What browsers may do: the Host and Origin of a request, and CORS.
//!
//! Owns the rules against pages that try to use the agent of whoever looks at them. The token is the
//! real lock; these rules hold where there is none yet or where one leaked into a page:
//!
//! - **Host** (against DNS rebinding): an agent on a loopback address answers only to the names of
//!   loopback, to its own address and to `--allow-host`. On other addresses any name may be right, so
//!   there it is checked only when `--allow-host` is given; on a Unix socket never.
//! - **Origin**: a request that changes something, or opens a WebSocket, is refused when it comes from
//!   a page of another origin that `--cors-origin` does not name. Other reads are answered, and the
//!   browser keeps the answer from the page.
//! - **CORS**: preflights are answered and headers added for the named origins only, never for
//!   cookies.
//!
//! A proxied port is not the agent's: what a page may do with the server behind it is that server's
//! business. [`Browsers`] leaves the Origin of such requests alone ([`is_proxied`]).

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use sandshell_types::ErrorCode;

use crate::listen::Listen;
use crate::problem::ApiError;

/// How long a browser may keep the answer to a preflight, in seconds.
const PREFLIGHT_KEPT: HeaderValue = HeaderValue::from_static("600");

/// Headers of answers that a page may read.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "x-request-id, idempotency-replayed, retry-after, etag, content-range, accept-ranges, \
     last-modified, content-disposition, allow",
);

const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE");

/// An origin that pages may come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// `*`: every page.
    Any,
    /// `scheme://host[:port]`.
    Of(String),
}

impl FromStr for Origin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self::Any);
        }
        let text = text.to_ascii_lowercase();
        let valid = text.split_once("://").is_some_and(|(scheme, rest)| {
            !scheme.is_empty()
                && scheme
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
                && !rest.contains('@')
                && rest
                    .parse::<Authority>()
                    .is_ok_and(|name| name.as_str() == rest)
        });
        if valid {
            Ok(Self::Of(text))
        } else {
            Err("expected an origin such as https://app.example or http://localhost:5173, without a path, or *".to_owned())
        }
    }
}

/// The rules of one agent.
#[derive(Debug)]
pub struct Browsers {
    origins: Vec<Origin>,
    /// `None`: any host.
    hosts: Option<Vec<String>>,
}

/// What is to become of the answer, by where its request came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// Nothing to add: not a page, or a page of ours, or one that may not read it.
    Plain,
    /// A page of this origin may read it.
    Allowed(HeaderValue),
}

impl Browsers {
    /// The rules for a service at this address.
    pub fn new(listen: &Listen, origins: Vec<Origin>, allow_hosts: &[String]) -> Self {
        let own = match listen {
            Listen::Tcp(address) if address.ip().is_loopback() || !allow_hosts.is_empty() => {
                Some(own_names(*address))
            }
            Listen::Tcp(_) | Listen::Unix(_) => None,
        };
        let hosts = own.map(|mut names| {
            names.extend(allow_hosts.iter().map(|name| name.to_ascii_lowercase()));
            names
        });
        Self { origins, hosts }
    }

    /// Refuses what a foreign page must not do, and tells who asks.
    pub fn check(&self, request: &Request<Body>) -> Result<Caller, ApiError> {
        let host = host_of(request);
        self.check_host(host.as_deref())?;
        let Some(origin) = request.headers().get(header::ORIGIN) else {
            return Ok(Caller::Plain);
        };
        if is_proxied(request.uri().path()) {
            return Ok(Caller::Plain);
        }
        let text = origin.to_str().unwrap_or_default().to_ascii_lowercase();
        if self.names(&text) {
            return Ok(Caller::Allowed(origin.clone()));
        }
        let same = text
            .split_once("://")
            .is_some_and(|(_, place)| host.as_deref() == Some(place));
        let only_looks = matches!(*request.method(), Method::GET | Method::HEAD);
        if same || only_looks && !is_websocket(request.headers()) {
            return Ok(Caller::Plain);
        }
        Err(ApiError::new(
            ErrorCode::Forbidden,
            "the request comes from a web page of another origin",
        )
        .hint("Start the agent with `--cors-origin ORIGIN` to allow the pages of that origin."))
    }

    fn check_host(&self, host: Option<&str>) -> Result<(), ApiError> {
        let (Some(allowed), Some(host)) = (&self.hosts, host) else {
            return Ok(());
        };
        if allowed.iter().any(|name| name == without_port(host)) {
            return Ok(());
        }
        Err(ApiError::new(
            ErrorCode::Forbidden,
            format!("this agent does not answer to the host name {host:?}"),
        )
        .hint("Use localhost or the agent's address, or start it with `--allow-host NAME`."))
    }

    fn names(&self, origin: &str) -> bool {
        self.origins.iter().any(|allowed| match allowed {
            Origin::Any => true,
            Origin::Of(allowed) => allowed == origin,
        })
    }
}

impl Caller {
    /// The answer to a preflight; `None` when the request is none, or not one of ours to answer.
    pub fn preflight(&self, request: &Request<Body>) -> Option<Response> {
        let Self::Allowed(_) = self else {
            return None;
        };
        let asked = request.headers();
        if request.method() != Method::OPTIONS
            || !asked.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
        {
            return None;
        }
        let mut response = StatusCode::NO_CONTENT.into_response();
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, PREFLIGHT_KEPT);
        // The token is in a header the page sets itself, so every header may be allowed.
        if let Some(wanted) = asked.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
            headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
        }
        Some(response)
    }

    /// Lets the page read the answer.
    pub fn mark(self, headers: &mut HeaderMap) {
        let Self::Allowed(origin) = self else {
            return;
        };
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        headers.append(header::VARY, HeaderValue::from_static("origin"));
    }
}

/// Whether a path belongs to a server behind a port of the sandbox, here or at the hub.
pub(crate) fn is_proxied(path: &str) -> bool {
    let at_the_hub = path
        .strip_prefix("/v1/sandboxes/")
        .and_then(|rest| rest.split_once("/ports/"))
        .filter(|(sandbox, _)| !sandbox.contains('/'))
        .map(|(_, rest)| rest);
    at_the_hub
        .or_else(|| path.strip_prefix("/v1/ports/"))
        .and_then(|rest| rest.split_once('/'))
        .is_some_and(|(_, rest)| rest == "proxy" || rest.starts_with("proxy/"))
}

/// Whether a request asks for a WebSocket, in HTTP/1.1 or (RFC 8441) HTTP/2.
pub fn is_websocket(headers: &HeaderMap) -> bool {
    headers
        .get(header::UPGRADE)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
        || headers.contains_key(HeaderName::from_static("sec-websocket-version"))
}

/// The name the client used, lower-case, with its port: of the request line (HTTP/2, or the absolute
/// form) or else of the header.
fn host_of(request: &Request<Body>) -> Option<String> {
    let named = request.uri().authority().map(Authority::as_str);
    let header = || {
        let value = request.headers().get(header::HOST)?;
        // A name of other bytes than text is no name of ours.
        Some(value.to_str().unwrap_or("?"))
    };
    named.or_else(header).map(str::to_ascii_lowercase)
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    }
}

fn own_names(address: SocketAddr) -> Vec<String> {
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "[::1]"]
        .map(str::to_owned)
        .into();
    names.push(match address.ip() {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    });
    names
}

/// Takes a parameter out of a request's query, wherever it stands.
pub fn take_parameter(parts: &mut Parts, name: &str, prefix: &str) -> Option<String> {
    let query = parts.uri.query()?;
    let ours = |pair: &str| {
        pair.strip_prefix(name)
            .and_then(|rest| rest.strip_prefix('='))
            .filter(|value| value.starts_with(prefix))
            .map(str::to_owned)
    };
    let found = query.split('&').find_map(ours)?;
    let rest: Vec<&str> = query
        .split('&')
        .filter(|pair| ours(pair).is_none())
        .collect();
    let path = parts.uri.path();
    let target = if rest.is_empty() {
        path.to_owned()
    } else {
        format!("{path}?{}", rest.join("&"))
    };
    let mut uri = std::mem::take(&mut parts.uri).into_parts();
    uri.path_and_query = target.parse().ok();
    parts.uri = http::Uri::from_parts(uri).unwrap_or_default();
    Some(found)
}

#[cfg(test)]
#[path = "browsers/tests.rs"]
mod tests;
