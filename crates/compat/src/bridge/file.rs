//! Files of the workspace, as bytes in a body.

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use futures_util::TryStreamExt as _;
use http::{HeaderMap, HeaderValue, Request, Uri, header};
use sandshell_client::types::ErrorCode;
use sandshell_client::{FileQuery, ReadOptions, WriteOptions};
use serde_json::json;

use super::body::session;
use super::error::{Code, Fault};
use super::sandbox::Named;
use super::workspace;

pub(super) async fn nothing() -> Fault {
    Fault::invalid("file path must not be empty")
}

pub(super) async fn read(uri: Uri, headers: HeaderMap, at: Named) -> Result<Response, Fault> {
    let file = named(&uri, &headers)?;
    let client = at.reach().await?.client;
    let content = client.read_file(&file, &ReadOptions::default()).await;
    let content = content.map_err(|error| match error.code() {
        Some(ErrorCode::FileNotFound) => Fault::no_file(&file.path),
        _ => Fault::of(Code::ExecTransport, "read")(error),
    })?;
    let mut response = Body::from_stream(content.bytes).into_response();
    let octets = HeaderValue::from_static("application/octet-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, octets);
    if let Some(length) = content.length {
        response
            .headers_mut()
            .insert(header::CONTENT_LENGTH, length.into());
    }
    Ok(response)
}

pub(super) async fn write(at: Named, request: Request<Body>) -> Result<Response, Fault> {
    let file = named(request.uri(), request.headers())?;
    let client = at.reach().await?.client;
    let content = request.into_body().into_data_stream();
    let content = content.map_err(std::io::Error::other);
    let options = WriteOptions::default();
    let written = client.upload_file(&file, &options, content).await;
    written.map_err(Fault::of(Code::ArchiveWrite, "write"))?;
    Ok(axum::Json(json!({"ok": true})).into_response())
}

/// The file that the address names. A session changes nothing of it: its path is absolute.
fn named(uri: &Uri, headers: &HeaderMap) -> Result<FileQuery, Fault> {
    session(headers)?;
    let path = uri.path().splitn(6, '/').nth(5).unwrap_or_default();
    let path =
        workspace::unescape(path).ok_or_else(|| Fault::invalid("the path is not readable"))?;
    let path = workspace::resolve(&[b"/", path.as_slice()].concat());
    Ok(workspace::file(path.ok_or_else(|| Fault::outside("path"))?))
}
