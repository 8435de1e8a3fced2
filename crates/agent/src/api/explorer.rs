//! `GET /docs`: the explorer, a page that shows the `OpenAPI` document and sends requests.
//!
//! Owns how the page is served: from the binary, compressed beforehand, and with a policy under which a
//! browser runs its own script and talks to this agent, and nothing else. The page is in `explorer/`,
//! its making in `build.rs`. It has no secret in it, so it needs no token; what it sends does.

use std::fmt::Write as _;
use std::sync::OnceLock;

use axum::body::Bytes;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use sha2::{Digest as _, Sha256};

const PAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/explorer.html"));
const SMALL_PAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/explorer.html.gz"));
const POLICY: &str = include_str!(concat!(env!("OUT_DIR"), "/explorer.policy"));

/// The explorer of this API, a page for browsers.
///
/// It works without any network but the way to this agent, and needs no token itself; requests sent
/// from it take the token that is pasted there.
#[utoipa::path(
    get, path = "/docs", operation_id = "explorer", tag = "service", security(()),
    responses(
        (status = 200, description = "The page.", content_type = "text/html",
            body = String, example = json!("<!doctype html>…")),
        (status = 304, description = "The page that the client has (`If-None-Match`)."),
    )
)]
pub async fn docs(headers: HeaderMap) -> Response {
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    let mut response = if takes_gzip(&headers) {
        static TAG: OnceLock<HeaderValue> = OnceLock::new();
        let mut response = with_tag(&headers, SMALL_PAGE.into(), kind, &TAG);
        response
            .headers_mut()
            .insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        response
    } else {
        static TAG: OnceLock<HeaderValue> = OnceLock::new();
        with_tag(&headers, PAGE.into(), kind, &TAG)
    };
    let policy = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        (header::VARY, "accept-encoding"),
    ];
    for (name, value) in policy {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Answers with bytes that never change while this process runs; 304 to who has them.
pub fn with_tag(
    headers: &HeaderMap,
    body: Bytes,
    kind: HeaderValue,
    tag: &OnceLock<HeaderValue>,
) -> Response {
    let tag = tag.get_or_init(|| tag_of(&body));
    let caching = [
        (header::ETAG, tag.clone()),
        // Kept, and asked for anew each time: another version of the program has another page.
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    if has_already(headers, tag) {
        return (StatusCode::NOT_MODIFIED, caching).into_response();
    }
    (caching, [(header::CONTENT_TYPE, kind)], body).into_response()
}

/// A strong tag: the hash of the bytes as they are sent.
fn tag_of(body: &[u8]) -> HeaderValue {
    let digest = Sha256::digest(body);
    let mut tag = String::from("\"");
    for byte in digest.iter().take(16) {
        // Writing to a string cannot fail.
        let _ = write!(tag, "{byte:02x}");
    }
    tag.push('"');
    HeaderValue::try_from(tag).unwrap_or(HeaderValue::from_static("\"\""))
}

fn has_already(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|given| given.trim().trim_start_matches("W/"))
        .any(|given| given == "*" || given.as_bytes() == tag.as_bytes())
}

/// Whether gzip is named without `q=0`.
fn takes_gzip(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|coding| {
            let mut parts = coding.split(';').map(str::trim);
            let named = parts
                .next()
                .is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
            let refused = parts
                .filter_map(|parameter| parameter.strip_prefix("q="))
                .any(|quality| quality.parse::<f32>().is_ok_and(|quality| quality <= 0.0));
            named && !refused
        })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn headers(name: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, value.parse().unwrap())])
    }

    #[test]
    fn gzip_is_taken_where_it_is_named() {
        let takes = |value| takes_gzip(&headers(header::ACCEPT_ENCODING, value));
        assert!(takes("gzip") && takes("br, GZIP;q=0.5") && takes("deflate,gzip"));
        assert!(!takes("br") && !takes("gzip;q=0") && !takes("gzip; q=0.0") && !takes(""));
        assert!(!takes_gzip(&HeaderMap::new()));
    }

    #[test]
    fn tags_are_compared_as_http_says() {
        let tag = HeaderValue::from_static("\"a\"");
        let has = |value| has_already(&headers(header::IF_NONE_MATCH, value), &tag);
        assert!(has("\"a\"") && has("\"b\", W/\"a\"") && has("*"));
        assert!(!has("\"b\"") && !has("a"));
    }

    #[test]
    fn the_page_needs_nothing_from_elsewhere_and_is_small() {
        let page = std::str::from_utf8(PAGE).unwrap();
        assert!(!page.contains("{{"));
        for elsewhere in [
            "http://",
            "https://",
            "src=",
            "@import",
            "url(",
            "innerHTML",
        ] {
            assert!(!page.contains(elsewhere), "{elsewhere}");
        }
        assert!(SMALL_PAGE.len() < 16 << 10, "{} bytes", SMALL_PAGE.len());
        assert!(!POLICY.contains("-inline") && !POLICY.contains("-eval"));
    }
}
