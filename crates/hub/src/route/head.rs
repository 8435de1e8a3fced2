//! Heads on their way between clients and agents.

use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use sandshell_agent::parts::{OUTSIDE, Peer, REQUEST_ID, VISITOR, for_next_hop, strip_connection};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// What the outside of a request is to the agent.
#[derive(Debug, Clone)]
pub(crate) enum Outside {
    /// A route of the API.
    Api {
        /// What stands in place of `/v1`.
        base: String,
    },
    /// A server behind a port.
    Port {
        /// Where it is; `/` for one with a name of its own.
        prefix: String,
        /// How whoever asks was let in.
        by: Admission,
    },
}

/// How a request for a port was let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// By a token of the hub, in its head.
    Token,
    /// By the name it was asked for.
    Name,
    /// Not yet: the agent knows the port's own token.
    Visitor,
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
    for_next_hop(headers, protocol);
    // An HTTP/2 request names its host in the URI.
    if let Some(authority) = authority
        && let Ok(host) = HeaderValue::from_str(authority.as_str())
    {
        headers.insert(header::HOST, host);
    }
    headers.remove(VISITOR);
    let place = match outside {
        Outside::Api { base } => {
            headers.remove(header::AUTHORIZATION);
            // Checked here; the agent knows of no origins.
            headers.remove(header::ORIGIN);
            base
        }
        Outside::Port { prefix, by } => {
            match by {
                Admission::Token => drop(headers.remove(header::AUTHORIZATION)),
                Admission::Name => {}
                Admission::Visitor => {
                    headers.insert(VISITOR, HeaderValue::from_static("1"));
                }
            }
            forward(headers, peer);
            prefix
        }
    };
    if let Ok(place) = HeaderValue::from_str(place) {
        headers.insert(OUTSIDE, place);
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
