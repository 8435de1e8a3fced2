//! Heads on their way through the proxy: what is taken off, put on and rewritten.
//!
//! To the server inside, the request comes from this machine for `localhost:PORT`; where it really
//! came from stands in `x-forwarded-*`. Fields that concern one connection only (RFC 9110 §7.6.1)
//! end here in both directions.

use http::{HeaderMap, HeaderName, HeaderValue, Uri, header};

use super::exposed::{COOKIE, HEADER, PARAMETER, cookies};
use super::{Peer, Target};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");
const FORWARDED_PORT: HeaderName = HeaderName::from_static("x-forwarded-port");

/// From a hub: what stands outside in place of `/v1`, or of the path of a port's proxy.
pub const OUTSIDE: HeaderName = HeaderName::from_static("x-sandshell-outside");

/// From a hub: whoever asks has shown it no token, so that only that of the port opens it.
pub const VISITOR: HeaderName = HeaderName::from_static("x-sandshell-visitor");

/// What a server inside would say of its whole origin, which is not its alone: a browser would let its
/// pages take over other routes, forget what others stored, or go elsewhere for all of them.
const OF_THE_ORIGIN: [HeaderName; 9] = [
    HeaderName::from_static("service-worker-allowed"),
    HeaderName::from_static("clear-site-data"),
    header::STRICT_TRANSPORT_SECURITY,
    header::ALT_SVC,
    header::PUBLIC_KEY_PINS,
    header::PUBLIC_KEY_PINS_REPORT_ONLY,
    HeaderName::from_static("report-to"),
    HeaderName::from_static("nel"),
    HeaderName::from_static("origin-agent-cluster"),
];

const HOP_BY_HOP: [HeaderName; 7] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHORIZATION,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::TE,
];

/// Takes off what concerns only the connection it came by.
pub fn strip_connection(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = tokens(headers, &header::CONNECTION)
        .filter_map(|name| name.parse().ok())
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

/// The comma-separated words of a field.
pub(super) fn tokens<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(','))
        .map(str::trim)
}

/// What a request wants to change its connection to, if it does. HTTP/2 is left out: further requests
/// would pass with the agent's token in their heads.
pub fn upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    let asked = tokens(headers, &header::CONNECTION)
        .any(|word| word.eq_ignore_ascii_case("upgrade"))
        && !tokens(headers, &header::UPGRADE).any(|word| word.eq_ignore_ascii_case("h2c"));
    asked.then(|| headers.get(header::UPGRADE).cloned())?
}

/// Replaces what concerns the client's connection by what concerns ours to the next server.
pub fn for_next_hop(headers: &mut HeaderMap, upgrade: Option<&HeaderValue>) {
    let trailers = tokens(headers, &header::TE).any(|word| word.eq_ignore_ascii_case("trailers"));
    strip_connection(headers);
    // Dealt with by our own server.
    headers.remove(header::EXPECT);
    if let Some(protocol) = upgrade {
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, protocol.clone());
    } else if trailers {
        headers.insert(header::CONNECTION, HeaderValue::from_static("te"));
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
}

/// Makes the head of a request one for the server inside.
pub(super) fn to_inside(
    headers: &mut HeaderMap,
    uri: &Uri,
    (target, prefix): (Target, &str),
    peer: Option<Peer>,
    upgrade: Option<&HeaderValue>,
    with_our_token: bool,
) {
    for_next_hop(headers, upgrade);
    if with_our_token {
        headers.remove(header::AUTHORIZATION);
    }
    headers.remove(HEADER);
    headers.remove(OUTSIDE);
    headers.remove(VISITOR);
    strip_cookie(headers);
    let inside = inside_host(target.port);
    // An HTTP/2 request names its host in the URI.
    let outside = headers.remove(header::HOST).or_else(|| {
        let authority = uri.authority()?;
        HeaderValue::from_str(authority.as_str()).ok()
    });
    if let Some(outside) = outside {
        rewrite_origin(headers, &outside, &inside);
        headers.entry(FORWARDED_HOST).or_insert(outside);
    }
    headers.insert(header::HOST, inside);
    headers
        .entry(FORWARDED_PROTO)
        .or_insert(HeaderValue::from_static("http"));
    if let Ok(prefix) = HeaderValue::from_str(prefix) {
        headers.insert(FORWARDED_PREFIX, prefix);
    }
    headers.remove(FORWARDED_PORT);
    if let Some(Peer(address)) = peer {
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
}

/// Makes the head of an answer one for the client outside.
pub(super) fn to_outside(headers: &mut HeaderMap, target: (Target, &str), upgraded: bool) {
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
    for name in &OF_THE_ORIGIN {
        headers.remove(name);
    }
    confine_cookies(headers, target.1);
    let moved = headers
        .get(header::LOCATION)
        .and_then(|location| moved(location.to_str().ok()?, target));
    if let Some(moved) = moved.and_then(|moved| HeaderValue::try_from(moved).ok()) {
        headers.insert(header::LOCATION, moved);
    }
}

fn inside_host(port: u16) -> HeaderValue {
    HeaderValue::try_from(format!("localhost:{port}"))
        .unwrap_or(HeaderValue::from_static("localhost"))
}

/// A page of ours stays one of the same origin for servers that compare it with the host.
fn rewrite_origin(headers: &mut HeaderMap, outside: &HeaderValue, inside: &HeaderValue) {
    let same = headers.get(header::ORIGIN).is_some_and(|origin| {
        let origin = origin.as_bytes();
        let rest = origin
            .strip_prefix(b"http://")
            .or_else(|| origin.strip_prefix(b"https://"));
        rest == Some(outside.as_bytes())
    });
    let origin = inside.to_str().map(|host| format!("http://{host}"));
    if same && let Ok(Ok(origin)) = origin.map(HeaderValue::try_from) {
        headers.insert(header::ORIGIN, origin);
    }
}

/// Leaves out our own cookies. HTTP/2 may bring one field for each cookie; HTTP/1.1 has one field.
pub(crate) fn strip_cookie(headers: &mut HeaderMap) {
    let whole = headers.get_all(header::COOKIE).iter().count() < 2;
    let is_ours = |cookie: &[u8]| cookie.starts_with(COOKIE.as_bytes());
    if whole && !cookies(headers).any(is_ours) {
        return;
    }
    let kept: Vec<&[u8]> = cookies(headers)
        .filter(|cookie| !cookie.is_empty() && !is_ours(cookie))
        .collect();
    let kept = HeaderValue::from_bytes(&kept.join(&b"; "[..]));
    headers.remove(header::COOKIE);
    if let Ok(kept) = kept
        && !kept.is_empty()
    {
        headers.insert(header::COOKIE, kept);
    }
}

/// Keeps the cookies of a server inside to what is its own: none with a name of ours, for no domain, and
/// for paths below the prefix.
fn confine_cookies(headers: &mut HeaderMap, prefix: &str) {
    let header::Entry::Occupied(given) = headers.entry(header::SET_COOKIE) else {
        return;
    };
    let given: Vec<HeaderValue> = given.remove_entry_mult().1.collect();
    for cookie in given {
        let confined = confined(cookie.as_bytes(), prefix);
        if let Some(Ok(cookie)) = confined.map(|cookie| HeaderValue::from_bytes(&cookie)) {
            headers.append(header::SET_COOKIE, cookie);
        }
    }
}

/// A cookie as it may leave; `None` for one of ours.
fn confined(cookie: &[u8], prefix: &str) -> Option<Vec<u8>> {
    let mut parts = cookie.split(|b| *b == b';');
    let pair = parts.next()?;
    // One without a name is sent back as its value alone.
    let shown = pair.trim_ascii_start().strip_prefix(b"=").unwrap_or(pair);
    if shown.trim_ascii_start().starts_with(COOKIE.as_bytes()) {
        return None;
    }
    let mut confined = pair.to_vec();
    for attribute in parts {
        let mut sides = attribute.splitn(2, |b| *b == b'=').map(<[u8]>::trim_ascii);
        let (name, value) = (sides.next()?, sides.next().unwrap_or_default());
        if name.eq_ignore_ascii_case(b"domain") {
            continue;
        }
        confined.push(b';');
        let path = std::str::from_utf8(value).ok();
        let path = path.filter(|path| name.eq_ignore_ascii_case(b"path") && path.starts_with('/'));
        match path {
            Some(path) if !is_below(path, prefix) => {
                confined.extend_from_slice(format!(" Path={prefix}{path}").as_bytes());
            }
            _ => confined.extend_from_slice(attribute),
        }
    }
    Some(confined)
}

/// Whether a path is the prefix or below it: a server that minds the prefix has put it there itself.
fn is_below(path: &str, prefix: &str) -> bool {
    let below = path.strip_prefix(prefix);
    below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Where a redirect of the server inside leads to through the proxy; `None` when it is right as it is.
fn moved(location: &str, (target, prefix): (Target, &str)) -> Option<String> {
    let own = [
        format!("http://localhost:{}", target.port),
        format!("http://127.0.0.1:{}", target.port),
    ];
    let path = own
        .iter()
        .find_map(|own| location.strip_prefix(own.as_str()))
        .unwrap_or(location);
    if path.is_empty() {
        return Some(format!("{prefix}/"));
    }
    if prefix.is_empty() {
        return Some(path.to_owned()).filter(|path| path != location);
    }
    // `//host` is another host.
    if !path.starts_with('/') || path.starts_with("//") || is_below(path, prefix) {
        return None;
    }
    Some(format!("{prefix}{path}"))
}

/// The path and query as the server inside gets them: byte for byte, without the port token.
pub(crate) fn inside_path(rest: &str, query: Option<&str>) -> String {
    let Some(query) = query else {
        return rest.to_owned();
    };
    if !query.contains(PARAMETER) {
        return format!("{rest}?{query}");
    }
    // Some servers take `;` for a separator too.
    let separators = ['&', ';'];
    let mut kept: String = query
        .split_inclusive(separators)
        .filter(|pair| !pair.starts_with(PARAMETER))
        .collect();
    let last = query.rsplit(separators).next();
    if last.is_some_and(|last| last.starts_with(PARAMETER)) {
        kept.pop();
    }
    if kept.is_empty() {
        rest.to_owned()
    } else {
        format!("{rest}?{kept}")
    }
}

#[cfg(test)]
#[path = "head_tests.rs"]
mod tests;
