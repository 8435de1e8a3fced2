//! Files over plain HTTP: read with ranges and conditions, written as they arrive.

use std::io::{self, Write as _};

use axum::body::Body;
use axum::extract::Extension;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use flate2::write::GzDecoder;
use futures_util::{Stream, StreamExt as _};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, header};
use sandshell_client::types::{ErrorCode, FileEntry};
use sandshell_client::{Client, ClientError, FileQuery, WriteOptions};
use sandshell_compat::Form;
use serde_json::{Value, json};

use crate::error::{Code, Fault};
use crate::filesystem::query;
use crate::path;
use crate::query::value;
use crate::wire::{Inside, named};

/// Files in one upload.
const MOST: usize = 1000;

/// Bytes of a gzip that are unpacked at a time; at most about a thousand times as many come of them.
const BITE: usize = 4096;

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
    let written = taken(&inside, &head, body).await?;
    Ok(axum::Json(written).into_response())
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
    let body = match Form::of(&head.headers, body) {
        Ok(form) => return several(&inside.sandbox, &target, form).await,
        Err(body) => body,
    };
    let bytes = body
        .into_data_stream()
        .map(|piece| piece.map_err(io::Error::other));
    if kind.starts_with("application/octet-stream") {
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
        Ok(vec![shown(&entry)])
    } else {
        Err(Fault::invalid(
            "a file comes as multipart/form-data or application/octet-stream",
        ))
    }
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
async fn several(sandbox: &Client, target: &Target, mut form: Form) -> Result<Vec<Value>, Fault> {
    let mut written = Vec::new();
    loop {
        let next = form.next().await;
        let next = next.map_err(|error| Fault::invalid(format!("the form: {error}")))?;
        let Some(field) = next else { break };
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
        let entry = upload(sandbox, &file, form.pieces(field)).await?;
        written.push(shown(&entry));
    }
    if written.is_empty() {
        return Err(Fault::invalid("the form has no field `file`"));
    }
    Ok(written)
}

/// A gzip on its way to what is in it.
struct Unpacking<S> {
    packed: S,
    rest: Bytes,
    decoder: GzDecoder<Vec<u8>>,
}

/// What a gzip has in it, piece by piece. As a few bytes of it may stand for many, it is taken in small bites,
/// and what comes of each is given on before the next.
fn unpacked(
    packed: impl Stream<Item = io::Result<Bytes>> + Send + Unpin + 'static,
) -> impl Stream<Item = io::Result<Bytes>> + Send {
    let begun = Unpacking {
        packed,
        rest: Bytes::new(),
        decoder: GzDecoder::new(Vec::new()),
    };
    futures_util::stream::unfold(Some(begun), |now| async move {
        let mut now = now?;
        if now.rest.is_empty() {
            match now.packed.next().await {
                Some(Ok(piece)) => now.rest = piece,
                Some(Err(error)) => return Some((Err(error), None)),
                None => return Some((now.decoder.finish().map(Bytes::from), None)),
            }
        }
        let bite = now.rest.split_to(now.rest.len().min(BITE));
        if let Err(error) = now.decoder.write_all(&bite) {
            return Some((Err(error), None));
        }
        let piece = Bytes::from(std::mem::take(now.decoder.get_mut()));
        Some((Ok(piece), Some(now)))
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

    #[tokio::test]
    async fn a_gzip_of_much_comes_in_pieces_of_little() {
        const WHOLE: usize = 64 * 1024 * 1024;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(&vec![0; WHOLE]).unwrap();
        let packed = Bytes::from(encoder.finish().unwrap());
        let mut length = 0;
        let mut pieces = Box::pin(unpacked(futures_util::stream::iter([Ok(packed)])));
        while let Some(piece) = pieces.next().await {
            let piece = piece.unwrap();
            assert!(piece.len() <= 1100 * BITE, "{}", piece.len());
            length += piece.len();
        }
        assert_eq!(length, WHOLE);
    }

    #[test]
    fn a_name_cannot_end_its_header() {
        assert_eq!(
            disposition("/a/b\"c\r\nd\\ä.txt"),
            r#"inline; filename="b\"cd\\.txt""#
        );
    }
}
