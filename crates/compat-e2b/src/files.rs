//! Files over plain HTTP: read with ranges and conditions, written as they arrive.

use std::io::{self, Write as _};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Extension;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use flate2::write::GzDecoder;
use futures_util::{Stream, StreamExt as _};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, header};
use http_body_util::BodyExt as _;
use sandshell_client::types::{ErrorCode, FileEntry};
use sandshell_client::{Client, ClientError, FileQuery, WriteOptions};
use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc};

use crate::drain::drain;
use crate::error::{Code, Fault};
use crate::filesystem::query;
use crate::path;
use crate::query::value;
use crate::wire::{Inside, named};

/// Files in one upload.
const MOST: usize = 1000;

/// Pieces of a file that wait to be written.
const WAITING: usize = 8;

/// What a reader may ask for besides the file.
const ASKED: [header::HeaderName; 5] = [
    header::RANGE,
    header::IF_RANGE,
    header::IF_NONE_MATCH,
    header::IF_MATCH,
    header::IF_MODIFIED_SINCE,
];

/// What is told of it.
const TOLD: [header::HeaderName; 6] = [
    header::CONTENT_LENGTH,
    header::CONTENT_RANGE,
    header::CONTENT_TYPE,
    header::ACCEPT_RANGES,
    header::ETAG,
    header::LAST_MODIFIED,
];

/// Which file of a request, with whose rights.
struct Target {
    path: Option<String>,
    user: Option<String>,
}

impl Target {
    fn of(query: Option<&str>) -> Self {
        Self {
            path: value(query, "path").filter(|path| !path.is_empty()),
            user: value(query, "username").and_then(|user| named(&user)),
        }
    }

    fn query(&self, path: &str) -> FileQuery {
        query(path, self.user.as_deref())
    }
}

/// A failure about a file: what is below no directory is not there.
fn about(error: ClientError) -> Fault {
    match error.code() {
        Some(ErrorCode::NotADirectory) => Fault::not_found(error.to_string()),
        _ => error.into(),
    }
}

pub(crate) async fn read(
    Extension(inside): Extension<Inside>,
    request: Request<Body>,
) -> Result<Response, Fault> {
    let target = Target::of(request.uri().query());
    let path = target.path.as_deref().ok_or_else(no_path)?;
    let file = target.query(path);
    let given = request.headers();
    let asked: HeaderMap = ASKED
        .into_iter()
        .filter_map(|name| Some((name.clone(), given.get(&name)?.clone())))
        .collect();
    let reply = inside.sandbox.file_response(&file, asked).await;
    let (head, bytes) = reply.map_err(about)?;
    let mut response = Response::new(Body::from_stream(
        bytes.map(|piece| piece.map_err(io::Error::other)),
    ));
    *response.status_mut() = head.status;
    let headers = response.headers_mut();
    for name in TOLD {
        if let Some(told) = head.headers.get(&name) {
            headers.insert(name, told.clone());
        }
    }
    headers.insert(header::CONTENT_DISPOSITION, disposition(path));
    Ok(response)
}

fn no_path() -> Fault {
    Fault::invalid("the query has no path")
}

fn disposition(path: &str) -> HeaderValue {
    let name = path.rsplit('/').next().unwrap_or_default();
    let quoted: String = name
        .chars()
        .filter(|c| c.is_ascii_graphic() || *c == ' ')
        .flat_map(|c| match c {
            '"' | '\\' => vec!['\\', c],
            _ => vec![c],
        })
        .collect();
    HeaderValue::from_str(&format!("inline; filename=\"{quoted}\""))
        .unwrap_or(HeaderValue::from_static("inline"))
}

pub(crate) async fn write(
    Extension(inside): Extension<Inside>,
    request: Request<Body>,
) -> Result<Response, Fault> {
    let (head, body) = request.into_parts();
    let (body, rest) = shared(body);
    let written = taken(&inside, &head, body).await;
    if written.is_err() {
        drain(rest).await;
    }
    Ok(axum::Json(written?).into_response())
}

/// A body whose rest can be read by another when its reader gave up.
fn shared(body: Body) -> (Body, Body) {
    let body = Arc::new(Mutex::new(body));
    let half = |body: Arc<Mutex<Body>>| {
        Body::from_stream(futures_util::stream::unfold(body, |body| async move {
            let frame = body.lock().await.frame().await?;
            let piece = frame.map(|frame| frame.into_data().unwrap_or_default());
            Some((piece, body))
        }))
    };
    (half(Arc::clone(&body)), half(body))
}

async fn taken(inside: &Inside, head: &Parts, body: Body) -> Result<Vec<Value>, Fault> {
    let target = Target::of(head.uri.query());
    let text = |name| head.headers.get(name).and_then(|value| value.to_str().ok());
    if head
        .headers
        .keys()
        .any(|name| name.as_str().starts_with("x-metadata-"))
    {
        return Err(Fault::new(
            Code::Unimplemented,
            "metadata of files is not kept here",
        ));
    }
    let kind = text(header::CONTENT_TYPE).unwrap_or_default();
    let bytes = body
        .into_data_stream()
        .map(|piece| piece.map_err(io::Error::other));
    let written = if let Ok(boundary) = multer::parse_boundary(kind) {
        several(
            &inside.sandbox,
            &target,
            multer::Multipart::new(bytes, boundary),
        )
        .await?
    } else if kind.starts_with("application/octet-stream") {
        let path = target.path.as_deref().ok_or_else(no_path)?;
        let file = target.query(path);
        let entry = match text(header::CONTENT_ENCODING) {
            None | Some("identity") => upload(&inside.sandbox, &file, bytes).await?,
            Some("gzip") => upload(&inside.sandbox, &file, unpacked(bytes)).await?,
            Some(other) => {
                let message = format!("the content encoding {other:?} is not known");
                return Err(Fault::invalid(message));
            }
        };
        vec![shown(&entry)]
    } else {
        return Err(Fault::invalid(
            "a file comes as multipart/form-data or application/octet-stream",
        ));
    };
    Ok(written)
}

async fn upload(
    sandbox: &Client,
    file: &FileQuery,
    bytes: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
) -> Result<FileEntry, Fault> {
    let options = WriteOptions::default();
    sandbox
        .upload_file(file, &options, bytes)
        .await
        .map_err(about)
}

/// The files of a form: one at the path of the query, or each at that of its own name.
async fn several(
    sandbox: &Client,
    target: &Target,
    mut form: multer::Multipart<'static>,
) -> Result<Vec<Value>, Fault> {
    let broken = |error: multer::Error| Fault::invalid(format!("the form: {error}"));
    let mut written = Vec::new();
    while let Some(mut field) = form.next_field().await.map_err(broken)? {
        if field.name() != Some("file") {
            continue;
        }
        if written.len() >= MOST {
            return Err(Fault::invalid(format!("a form has at most {MOST} files")));
        }
        let path = match (&target.path, field.file_name()) {
            (Some(path), _) if written.is_empty() => path.clone(),
            (Some(_), _) => {
                return Err(Fault::invalid(
                    "a form with a path in its query has one file",
                ));
            }
            (None, Some(name)) => name.to_owned(),
            (None, None) => return Err(no_path()),
        };
        let file = target.query(&path);
        let (sender, receiver) = mpsc::channel(WAITING);
        let pour = async move {
            while let Some(piece) = field.chunk().await.transpose() {
                // When nobody takes it, the upload has failed and says why.
                if sender.send(piece.map_err(io::Error::other)).await.is_err() {
                    break;
                }
            }
        };
        let (entry, ()) = tokio::join!(upload(sandbox, &file, received(receiver)), pour);
        written.push(shown(&entry?));
    }
    if written.is_empty() {
        return Err(Fault::invalid("the form has no field `file`"));
    }
    Ok(written)
}

fn received<T: Send + 'static>(receiver: mpsc::Receiver<T>) -> impl Stream<Item = T> + Send {
    futures_util::stream::unfold(receiver, |mut receiver| async move {
        let piece = receiver.recv().await?;
        Some((piece, receiver))
    })
}

/// What a gzip has in it, piece by piece.
fn unpacked(
    bytes: impl Stream<Item = io::Result<Bytes>> + Send + Unpin + 'static,
) -> impl Stream<Item = io::Result<Bytes>> + Send {
    let state = Some((bytes, GzDecoder::new(Vec::new())));
    futures_util::stream::unfold(state, |state| async move {
        let (mut bytes, mut decoder) = state?;
        let Some(piece) = bytes.next().await else {
            return Some((decoder.finish().map(Bytes::from), None));
        };
        let step = piece.and_then(|piece| {
            decoder.write_all(&piece)?;
            Ok(Bytes::from(std::mem::take(decoder.get_mut())))
        });
        Some((step, Some((bytes, decoder))))
    })
}

fn shown(entry: &FileEntry) -> Value {
    json!({"name": entry.name, "path": path::shown(&entry.path), "type": "file"})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_gzip_is_unpacked_however_it_arrives() {
        let text: Vec<u8> = (0..100_000u32).flat_map(u32::to_be_bytes).collect();
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&text).unwrap();
        let packed = encoder.finish().unwrap();
        for size in [1, 7, 4096, packed.len()] {
            let pieces: Vec<_> = packed
                .chunks(size)
                .map(|piece| Ok(Bytes::copy_from_slice(piece)))
                .collect();
            let pieces: Vec<_> = unpacked(futures_util::stream::iter(pieces)).collect().await;
            let whole: io::Result<Vec<Bytes>> = pieces.into_iter().collect();
            assert_eq!(whole.unwrap().concat(), text);
        }
        let cut = futures_util::stream::iter([Ok(Bytes::copy_from_slice(&packed[..99]))]);
        let pieces: Vec<_> = unpacked(cut).collect().await;
        assert!(pieces.into_iter().any(|piece| piece.is_err()));
    }

    #[test]
    fn a_name_cannot_end_its_header() {
        assert_eq!(
            disposition("/a/b\"c\r\nd\\ä.txt"),
            r#"inline; filename="b\"cd\\.txt""#
        );
    }
}
