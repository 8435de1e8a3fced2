//! Heads of HTTP requests and answers on their way through: whom they are for, and what ends here.

use http::uri::Scheme;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version, header};
use sandshell_types::RefusalReason;

use super::host::Host;
use super::policy::Policy;

/// Whom a request or a tunnel is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) host: Host,
    pub(super) port: u16,
    /// Whether the proxy itself speaks TLS with it, and with the client in its name.
    pub(super) tls: bool,
}

/// Fields that concern one connection only (RFC 9110 §7.6.1), and those for proxies.
const HOP_BY_HOP: [HeaderName; 9] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHORIZATION,
    header::PROXY_AUTHENTICATE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::TE,
    HeaderName::from_static("http2-settings"),
];

/// The host and port of a CONNECT request; the port must be there.
pub(super) fn connect_target(uri: &Uri) -> Result<Target, RefusalReason> {
    let authority = uri.authority().ok_or(RefusalReason::BadRequest)?;
    let (host, port) =
        Host::parse_with_port(authority.as_str()).map_err(|_| RefusalReason::BadName)?;
    Ok(Target {
        host,
        port: port.ok_or(RefusalReason::BadRequest)?,
        tls: false,
    })
}

/// The host and port that a request to a proxy names in full.
pub(super) fn absolute_target(uri: &Uri) -> Result<Target, RefusalReason> {
    let authority = uri.authority().ok_or(RefusalReason::BadRequest)?;
    // A client that wants HTTPS asks for a tunnel; one that trusts us with its text is mistaken.
    if uri.scheme() != Some(&Scheme::HTTP) {
        return Err(RefusalReason::BadRequest);
    }
    let (host, port) =
        Host::parse_with_port(authority.as_str()).map_err(|_| RefusalReason::BadName)?;
    Ok(Target {
        host,
        port: port.unwrap_or(80),
        tls: false,
    })
}

/// Refuses a request whose Host is not the target's. Framings that could be read in two ways do not
/// come this far: the parser settles them, and the message is written anew.
pub(super) fn check<B>(request: &Request<B>, target: &Target) -> Result<(), RefusalReason> {
    let headers = request.headers();
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(named), None) = (hosts.next(), hosts.next()) else {
        return Err(RefusalReason::HostMismatch);
    };
    let (host, port) = named
        .to_str()
        .ok()
        .and_then(|text| Host::parse_with_port(text).ok())
        .ok_or(RefusalReason::HostMismatch)?;
    if host != target.host || port.is_some_and(|port| port != target.port) {
        return Err(RefusalReason::HostMismatch);
    }
    if request.method() == Method::CONNECT {
        return Err(RefusalReason::BadRequest);
    }
    Ok(())
}

/// Makes the head one for the server: in origin form, with the secrets of the host, and with what
/// concerned the connection to us taken off. `websocket` keeps its upgrade.
pub(super) fn to_server<B>(
    request: &mut Request<B>,
    target: &Target,
    policy: &Policy,
    websocket: bool,
) -> Result<(), RefusalReason> {
    // A server that answers with the head it got would show the secrets.
    let echoes = request.method() == Method::TRACE;
    if echoes && policy.has_secret(&target.host, target.port) {
        return Err(RefusalReason::BadRequest);
    }
    let path = request.uri().path_and_query().cloned();
    *request.uri_mut() = path.map_or_else(|| Uri::from_static("/"), Uri::from);
    *request.version_mut() = Version::HTTP_11;
    let headers = request.headers_mut();
    strip_connection(headers);
    // Answered by our own server, when the body is asked for.
    headers.remove(header::EXPECT);
    if websocket {
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    }
    let default_port = if target.tls { 443 } else { 80 };
    let host = if target.port == default_port {
        target.host.to_string()
    } else {
        format!("{}:{}", target.host, target.port)
    };
    let host = HeaderValue::from_str(&host).map_err(|_| RefusalReason::BadName)?;
    headers.insert(header::HOST, host);
    for (name, value) in policy.secrets(&target.host, target.port) {
        headers.insert(name, value.clone());
    }
    Ok(())
}

/// Makes the head of an answer one for the client.
pub(super) fn to_client(headers: &mut HeaderMap, websocket: bool) {
    if headers.contains_key(header::TRANSFER_ENCODING) {
        // Chunks win over a length (RFC 9112), and the body was read by them.
        headers.remove(header::CONTENT_LENGTH);
    }
    strip_connection(headers);
    if websocket {
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    }
}

/// Whether the request wants a WebSocket. No other upgrade is passed on: HTTP/2 would carry requests
/// for other hosts.
pub(super) fn wants_websocket(headers: &HeaderMap) -> bool {
    let has = |name: &HeaderName, word: &str| {
        tokens(headers, name).any(|token| token.eq_ignore_ascii_case(word))
    };
    has(&header::CONNECTION, "upgrade")
        && has(&header::UPGRADE, "websocket")
        && tokens(headers, &header::UPGRADE).count() == 1
}

fn strip_connection(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = tokens(headers, &header::CONNECTION)
        .filter_map(|name| name.parse().ok())
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

/// The comma-separated words of a field.
fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(','))
        .map(str::trim)
}
