//! What handlers take from a request, with failures as problems.
//!
//! Owns the reading and checking of JSON bodies, query strings and path parameters. Invariants: a
//! body is never buffered beyond [`JSON_BODY_LIMIT`]; every refusal says what, where and why.

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Request};
use bytes::{BufMut as _, BytesMut};
use http::request::Parts;
use http::{HeaderMap, header};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use sandshell_types::ErrorCode;
use serde::de::DeserializeOwned;
use serde_path_to_error::Segment;

use crate::problem::ApiError;

/// Largest JSON body: room for a large `stdin`; more goes through the stdin route, which streams.
pub(crate) const JSON_BODY_LIMIT: usize = 16 << 20;

/// How long the next piece of a JSON body may take: whoever vanished must not hold its place for ever.
const BODY_STALL: std::time::Duration = std::time::Duration::from_secs(30);

/// A JSON body.
#[derive(Debug)]
pub struct Json<T>(pub T);

impl<T: DeserializeOwned, S: Sync> FromRequest<S> for Json<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        check_content_type(request.headers())?;
        parse(&read(request.into_body()).await?).map(Self)
    }
}

/// A JSON body that may be left out.
#[derive(Debug)]
pub struct OptionalJson<T>(pub T);

impl<T: DeserializeOwned + Default, S: Sync> FromRequest<S> for OptionalJson<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let content_type = check_content_type(request.headers());
        let body = read(request.into_body()).await?;
        if body.is_empty() {
            return Ok(Self(T::default()));
        }
        content_type?;
        parse(&body).map(Self)
    }
}

/// The parameters after the question mark.
#[derive(Debug)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let axum::extract::Query(query) =
            axum::extract::Query::try_from_uri(&parts.uri).map_err(|rejection| {
                let why = std::error::Error::source(&rejection)
                    .map_or_else(|| rejection.to_string(), ToString::to_string);
                query_problem(&why)
            })?;
        Ok(Self(query))
    }
}

/// The parameters of the path.
#[derive(Debug)]
pub struct Path<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        axum::extract::Path::from_request_parts(parts, state)
            .await
            .map(|axum::extract::Path(path)| Self(path))
            .map_err(|rejection| ApiError::new(ErrorCode::InvalidRequest, rejection.body_text()))
    }
}

fn check_content_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let Some(value) = headers.get(header::CONTENT_TYPE) else {
        return Ok(());
    };
    let full = value.to_str().unwrap_or_default();
    let essence = full.split(';').next().unwrap_or_default().trim();
    let json = essence.eq_ignore_ascii_case("application/json")
        || (essence.len() > 5
            && essence
                .get(essence.len() - 5..)
                .is_some_and(|s| s.eq_ignore_ascii_case("+json")));
    if json {
        return Ok(());
    }
    Err(ApiError::new(
        ErrorCode::UnsupportedMediaType,
        format!("the body is said to be {full:?}, and this route takes JSON"),
    )
    .hint("Send `content-type: application/json`."))
}

/// Reads a body up to the limit; a body that came in one piece is not copied.
async fn read(mut body: Body) -> Result<Bytes, ApiError> {
    if body.size_hint().lower() > JSON_BODY_LIMIT as u64 {
        return Err(too_large());
    }
    let Some(first) = next_in_time(&mut body).await? else {
        return Ok(Bytes::new());
    };
    let Some(second) = next_in_time(&mut body).await? else {
        return within_limit(first);
    };
    let expected = usize::try_from(body.size_hint().lower()).unwrap_or(0);
    let mut whole =
        BytesMut::with_capacity((first.len() + second.len() + expected).min(JSON_BODY_LIMIT));
    let mut next = Some(first);
    let mut after = Some(second);
    while let Some(piece) = next {
        if whole.len() + piece.len() > JSON_BODY_LIMIT {
            return Err(too_large());
        }
        whole.put(piece);
        next = match after.take() {
            Some(second) => Some(second),
            None => next_in_time(&mut body).await?,
        };
    }
    Ok(whole.freeze())
}

/// The next piece of a body that is not to stand still.
async fn next_in_time(body: &mut Body) -> Result<Option<Bytes>, ApiError> {
    let next = tokio::time::timeout(BODY_STALL, next_data(body)).await;
    next.unwrap_or_else(|_| {
        let seconds = BODY_STALL.as_secs();
        let detail = format!("nothing more of the body came for {seconds} s");
        Err(ApiError::new(ErrorCode::InvalidRequest, detail).hint("Send the request again, whole."))
    })
}

fn within_limit(body: Bytes) -> Result<Bytes, ApiError> {
    if body.len() > JSON_BODY_LIMIT {
        Err(too_large())
    } else {
        Ok(body)
    }
}

/// The next piece of a body; trailers and empty pieces are passed over.
pub async fn next_data(body: &mut Body) -> Result<Option<Bytes>, ApiError> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| broke_off(&error))?;
        if let Ok(data) = frame.into_data()
            && !data.is_empty()
        {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

fn broke_off(error: &axum::Error) -> ApiError {
    let detail = format!("the body broke off: {error}");
    ApiError::new(ErrorCode::InvalidRequest, detail)
}

/// What a request that was passed on failed with, when that was the body it came with.
pub fn fault_of_body(error: &hyper::Error) -> Option<ApiError> {
    let cause = std::error::Error::source(error)?;
    cause.downcast_ref().map(broke_off)
}

fn too_large() -> ApiError {
    ApiError::new(
        ErrorCode::BodyTooLarge,
        format!("a JSON body has at most {JSON_BODY_LIMIT} bytes"),
    )
    .hint("Send large input through POST /v1/processes/{id}/stdin, which has no limit.")
}

pub(crate) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    // Serde would take the fields of an object from an array, too.
    if body.trim_ascii_start().first() == Some(&b'[') {
        return Err(ApiError::new(
            ErrorCode::InvalidRequest,
            "the body is a JSON array, and this route takes an object",
        )
        .pointer(""));
    }
    // Tracking the path costs time, so it is done only for a body that is known to be wrong.
    serde_json::from_slice(body).map_err(|error| explain::<T>(body, error))
}

/// Finds the place of the mistake.
fn explain<T: DeserializeOwned>(body: &[u8], error: serde_json::Error) -> ApiError {
    let (pointer, error) = if error.is_data() {
        let mut input = serde_json::Deserializer::from_slice(body);
        match serde_path_to_error::deserialize::<_, T>(&mut input) {
            Err(tracked) => (pointer_of(&tracked), tracked.into_inner()),
            Ok(_) => (String::new(), error),
        }
    } else {
        (String::new(), error)
    };
    let invalid = ApiError::new(
        ErrorCode::InvalidRequest,
        match error.classify() {
            serde_json::error::Category::Data => error.to_string(),
            _ if body.is_empty() => {
                "the body is empty, and this route needs a JSON object".to_owned()
            }
            _ => format!("the body is not valid JSON: {error}"),
        },
    )
    .pointer(pointer);
    let text = error.to_string();
    if text.starts_with("unknown field") {
        invalid.hint("Check the spelling; GET /openapi.json describes every field.")
    } else {
        invalid
    }
}

/// The JSON pointer (RFC 6901) of a mistake. A field that is missing has no place of its own, so
/// its name is taken from the message.
fn pointer_of(tracked: &serde_path_to_error::Error<serde_json::Error>) -> String {
    let mut pointer = String::new();
    let mut push = |token: &str| {
        pointer.push('/');
        pointer.push_str(&token.replace('~', "~0").replace('/', "~1"));
    };
    let mut last = None;
    for segment in tracked.path() {
        match segment {
            Segment::Seq { index } => push(&index.to_string()),
            Segment::Map { key } => {
                push(key);
                last = Some(key.as_str());
            }
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    let message = tracked.inner().to_string();
    let named = ["missing field `", "unknown field `", "duplicate field `"]
        .iter()
        .find_map(|start| message.strip_prefix(start)?.split('`').next());
    if let Some(name) = named
        && last != Some(name)
    {
        push(name);
    }
    pointer
}

/// Query errors read `field: reason`, or only a reason.
fn query_problem(why: &str) -> ApiError {
    let named = ["missing field `", "unknown field `", "duplicate field `"]
        .iter()
        .find_map(|start| why.split_once(start)?.1.split('`').next());
    let field = named.or_else(|| why.split_once(": ").map(|(field, _)| field));
    let invalid = ApiError::new(
        ErrorCode::InvalidRequest,
        format!("the query is not valid: {why}"),
    );
    match field {
        Some(field) => invalid.pointer(format!("/{field}")),
        None => invalid,
    }
}

#[cfg(test)]
#[path = "extract/tests.rs"]
mod tests;
