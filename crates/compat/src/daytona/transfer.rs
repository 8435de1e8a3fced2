//! The content of files, one or many, in and out. It goes on as it comes: nothing is held whole.

use std::collections::HashMap;
use std::io;

use axum::Json;
use axum::body::Body;
use axum::extract::Query;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};
use http::Request;
use http::header::{CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE};
use multer::Field;
use sandshell_client::types::FileEntry;
use sandshell_client::{Client, ReadOptions, WriteOptions};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::body::Given;
use super::error::Fault;
use super::file::query;
use super::reach::Sandbox;
use crate::form::Form as Uploads;

const OCTETS: &str = "application/octet-stream";

/// Pieces under way to a client that does not read.
const WAITING: usize = 8;

/// Longest path in a form.
const LONGEST_PATH: usize = 8192;

/// Most files of one upload.
const MOST_FILES: usize = 10_000;

#[derive(Deserialize)]
pub(super) struct Target {
    path: String,
}

pub(super) async fn download(
    Sandbox(sandbox): Sandbox,
    Query(asked): Query<Target>,
) -> Result<Response, Fault> {
    let query = query(&asked.path)?;
    let content = sandbox.read_file(&query, &ReadOptions::default()).await?;
    let length = content.length;
    let mut response = Body::from_stream(content.bytes).into_response();
    let name = asked.path.rsplit('/').next().unwrap_or_default();
    let disposition = format!("attachment; {}", filename(name));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, http::HeaderValue::from_static(OCTETS));
    if let Ok(disposition) = disposition.parse() {
        headers.insert(CONTENT_DISPOSITION, disposition);
    }
    if let Some(length) = length {
        headers.insert(CONTENT_LENGTH, length.into());
    }
    Ok(response)
}

/// A name in a header: quoted, and where that does not do, also as RFC 8187 has it.
fn filename(name: &str) -> String {
    let mut quoted = String::new();
    let mut encoded = String::new();
    for c in name.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            ' '..='~' => quoted.push(c),
            _ => quoted.push('_'),
        }
        let mut bytes = [0; 4];
        for byte in c.encode_utf8(&mut bytes).bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                encoded.push(char::from(byte));
            } else {
                encoded += &format!("%{byte:02X}");
            }
        }
    }
    if name.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        format!("filename=\"{quoted}\"")
    } else {
        format!("filename=\"{quoted}\"; filename*=UTF-8''{encoded}")
    }
}

#[derive(Deserialize)]
pub(super) struct Downloads {
    paths: Vec<String>,
}

/// Many files as one form: `file` for each that can be read, `error` for each that cannot.
pub(super) async fn bulk_download(
    Sandbox(sandbox): Sandbox,
    Given(asked): Given<Downloads>,
) -> Result<Response, Fault> {
    if asked.paths.is_empty() {
        return Err(Fault::invalid("paths is empty"));
    }
    let boundary = format!("sandshell{}", uuid::Uuid::now_v7().simple());
    let kind = format!("multipart/form-data; boundary={boundary}");
    let (feed, pieces) = mpsc::channel(WAITING);
    // Ends with the client: then nobody takes the pieces.
    tokio::spawn(async move {
        let form = Form { boundary, feed };
        form.fill(&sandbox, &asked.paths).await
    });
    let pieces = stream::unfold(pieces, |mut pieces| async move {
        let piece: io::Result<Bytes> = pieces.recv().await?;
        Some((piece, pieces))
    });
    Ok(([(CONTENT_TYPE, kind)], Body::from_stream(pieces)).into_response())
}

/// A form in the making.
struct Form {
    boundary: String,
    feed: mpsc::Sender<io::Result<Bytes>>,
}

impl Form {
    /// `None` when the client is gone, or a file broke off: then the form has no end.
    async fn fill(&self, sandbox: &Client, paths: &[String]) -> Option<()> {
        for path in paths {
            let content = match query(path) {
                Ok(query) => sandbox
                    .read_file(&query, &ReadOptions::default())
                    .await
                    .map_err(Fault::from),
                Err(fault) => Err(fault),
            };
            match content {
                Ok(mut content) => {
                    self.head("file", path, OCTETS, content.length).await?;
                    while let Some(piece) = content.bytes.next().await {
                        let piece = piece.map_err(io::Error::other);
                        let broken = piece.is_err();
                        self.feed.send(piece).await.ok()?;
                        if broken {
                            return None;
                        }
                    }
                }
                Err(fault) => {
                    self.head("error", path, "application/json", None).await?;
                    self.say(fault.part().to_string()).await?;
                }
            }
            self.say("\r\n".to_owned()).await?;
        }
        self.say(format!("--{}--\r\n", self.boundary)).await
    }

    async fn head(&self, name: &str, path: &str, kind: &str, length: Option<u64>) -> Option<()> {
        let length = length.map_or_else(String::new, |length| {
            format!("Content-Length: {length}\r\n")
        });
        let head = format!(
            "--{}\r\nContent-Disposition: form-data; name=\"{name}\"; {}\r\n\
             Content-Type: {kind}\r\n{length}\r\n",
            self.boundary,
            filename(path),
        );
        self.say(head).await
    }

    async fn say(&self, text: String) -> Option<()> {
        self.feed.send(Ok(text.into())).await.ok()
    }
}

fn broken(error: &multer::Error) -> Fault {
    Fault::invalid(format!("The form cannot be read: {error}"))
}

async fn written(
    sandbox: &Client,
    path: &str,
    content: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
) -> Result<FileEntry, Fault> {
    let query = query(path)?;
    let options = WriteOptions::default();
    Ok(sandbox.upload_file(&query, &options, content).await?)
}

fn shown(entry: &FileEntry) -> Value {
    json!({"name": entry.name, "path": entry.path, "bytes": entry.size, "type": "file"})
}

/// One file, as the body or as the first file of a form.
pub(super) async fn upload(
    Sandbox(sandbox): Sandbox,
    Query(asked): Query<Target>,
    request: Request<Body>,
) -> Result<Json<Value>, Fault> {
    let (head, body) = request.into_parts();
    let mut form = match Uploads::of(&head.headers, body) {
        Ok(form) => form,
        Err(body) => {
            let content = body.into_data_stream().map_err(io::Error::other);
            let entry = written(&sandbox, &asked.path, content).await?;
            return Ok(Json(shown(&entry)));
        }
    };
    while let Some(field) = form.next().await.map_err(|error| broken(&error))? {
        if field.file_name().is_some() || field.name() == Some("file") {
            let entry = written(&sandbox, &asked.path, form.pieces(field)).await?;
            return Ok(Json(shown(&entry)));
        }
    }
    Err(Fault::invalid("The form has no file"))
}

/// Many files: `files[N].path` says where `files[N].file` goes.
pub(super) async fn bulk_upload(
    Sandbox(sandbox): Sandbox,
    request: Request<Body>,
) -> Result<Json<Value>, Fault> {
    let (head, body) = request.into_parts();
    let Ok(mut form) = Uploads::of(&head.headers, body) else {
        return Err(Fault::invalid("The body is not a form"));
    };
    let mut paths: HashMap<String, String> = HashMap::new();
    let mut files = Vec::new();
    let mut failed: Option<Fault> = None;
    loop {
        let field = match form.next().await {
            Ok(Some(field)) => field,
            Ok(None) => break,
            // After a file that was not taken, this comes of it.
            Err(error) => return Err(failed.unwrap_or_else(|| broken(&error))),
        };
        let name = field.name().unwrap_or_default().to_owned();
        if paths.len() > MOST_FILES || files.len() > MOST_FILES {
            let message = format!("There are more than {MOST_FILES} files");
            return Err(Fault::invalid(message));
        }
        if let Some(one) = name.strip_suffix(".path") {
            paths.insert(one.to_owned(), text_of(field).await?);
        } else if let Some(one) = name.strip_suffix(".file") {
            let named = paths.remove(one);
            let named = named.or_else(|| field.file_name().map(str::to_owned));
            let path = named.ok_or_else(|| Fault::invalid(format!("{one} has no path")))?;
            match written(&sandbox, &path, form.pieces(field)).await {
                Ok(entry) => files.push(shown(&entry)),
                // The others may still be written; the first reason is told.
                Err(fault) => failed = failed.or(Some(fault)),
            }
        }
    }
    match failed {
        Some(fault) => Err(fault),
        None if files.is_empty() => Err(Fault::invalid("The form has no files")),
        None => Ok(Json(json!({"files": files}))),
    }
}

async fn text_of(mut field: Field<'static>) -> Result<String, Fault> {
    let mut bytes = Vec::new();
    while let Some(piece) = field.next().await {
        bytes.extend_from_slice(&piece.map_err(|error| broken(&error))?);
        if bytes.len() > LONGEST_PATH {
            let message = format!("A path has more than {LONGEST_PATH} bytes");
            return Err(Fault::invalid(message));
        }
    }
    String::from_utf8(bytes).map_err(|_| Fault::invalid("A path is not text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_in_headers() {
        assert_eq!(filename("/a b"), "filename=\"/a b\"");
        assert_eq!(filename("a\"\\b"), "filename=\"a\\\"\\\\b\"");
        assert_eq!(
            filename("/ä\r\n"),
            "filename=\"/___\"; filename*=UTF-8''%2F%C3%A4%0D%0A"
        );
    }
}
