//! Heads on their way between clients and agents.

use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use sandshell_agent::parts::{Peer, REQUEST_ID, strip_connection, tokens};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// What the outside of a request is to the agent.
#[derive(Debug, Clone)]
pub(crate) enum Outside {
    /// A route of the API.
    Api,
    /// A server behind a port.
    Port {
        /// Whether the `authorization` header was for us.
        with_our_token: bool,
    },
}

/// Makes the head of a request one for an agent.
pub(super) fn to_agent(
    parts: &mut Parts,
    outside: &Outside,
    protocol: Option<&HeaderValue>,
    request_id: &HeaderValue,
) {
    let peer = parts.extensions.get::<Peer>().copied();
    let authority = parts.uri.authority().cloned();
    let headers = &mut parts.headers;
    let trailers = tokens(headers, &header::TE).any(|word| word.eq_ignore_ascii_case("trailers"));
    strip_connection(headers);
    // Dealt with by our own server.
    headers.remove(header::EXPECT);
    if let Some(protocol) = protocol {
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, protocol.clone());
    } else if trailers {
        headers.insert(header::CONNECTION, HeaderValue::from_static("te"));
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    // An HTTP/2 request names its host in the URI.
    if let Some(authority) = authority
        && let Ok(host) = HeaderValue::from_str(authority.as_str())
    {
        headers.insert(header::HOST, host);
    }
    match outside {
        Outside::Api => {
            headers.remove(header::AUTHORIZATION);
            // Checked here; the agent knows of no origins.
            headers.remove(header::ORIGIN);
        }
        Outside::Port { with_our_token } => {
            if *with_our_token {
                headers.remove(header::AUTHORIZATION);
            }
            forward(headers, peer);
        }
    }
    headers.insert(REQUEST_ID, request_id.clone());
}

/// Says where the request came from.
fn forward(headers: &mut HeaderMap, peer: Option<Peer>) {
    let Some(Peer(address)) = peer else {
        return;
    };
    let mut chain: Vec<String> = headers
        .get_all(FORWARDED_FOR)
        .iter()
        .filter_map(|value| value.to_str().ok().map(str::to_owned))
        .collect();
    chain.push(address.to_string());
    if let Ok(chain) = HeaderValue::from_str(&chain.join(", ")) {
        headers.insert(FORWARDED_FOR, chain);
    }
}

/// Makes the head of an answer one for a client.
pub(super) fn to_client(headers: &mut HeaderMap, upgraded: bool) {
    let protocol = headers.get(header::UPGRADE).filter(|_| upgraded).cloned();
    if headers.contains_key(header::TRANSFER_ENCODING) {
        // Chunks win over a length (RFC 9112), and the body was read by them.
        headers.remove(header::CONTENT_LENGTH);
    }
    strip_connection(headers);
    if let Some(protocol) = protocol {
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, protocol);
    }
}
