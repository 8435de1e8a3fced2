//! Single requests to a storage.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, ETAG, IF_MATCH, RANGE};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt as _, Full, Limited, combinators::UnsyncBoxBody};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustix::io::Errno;
use sandshell_sys::task;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};
use tokio::sync::mpsc;

/// How long a storage may stand still: take no byte, give no byte, or not answer.
const STALL: Duration = Duration::from_mins(1);

/// Size of the pieces that are sent, and how many may wait.
const PIECE: usize = 256 << 10;
const WAITING: usize = 2;

/// Most bytes of an answer that are looked at.
const ANSWER: usize = 64 << 10;

type OutBody = UnsyncBoxBody<Bytes, io::Error>;
type HttpClient = Client<HttpsConnector<HttpConnector>, OutBody>;

/// The way to storages. It is made when it is first used.
#[derive(Debug, Default)]
pub(in crate::backup) struct Storage(OnceLock<HttpClient>);

/// Why a request did not succeed.
#[derive(Debug)]
pub(super) enum Failed {
    /// It may succeed later.
    Later(String),
    /// It will not.
    Final(String),
    /// Nobody wants it any more.
    Cancelled,
    /// Our own file cannot be used.
    Here(Errno),
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self::Here(Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }
}

/// A short answer.
#[derive(Debug)]
pub(in crate::backup) struct Reply {
    pub(super) etag: Option<String>,
    pub(super) body: String,
}

/// An answer that is read bit by bit.
pub(super) struct Stream {
    pub(super) etag: Option<String>,
    /// It begins where it was asked to, not at the beginning.
    pub(super) is_rest: bool,
    body: Incoming,
}

impl Stream {
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Failed> {
        loop {
            let frame = tokio::time::timeout(STALL, self.body.frame())
                .await
                .map_err(|_| Failed::Later("it stopped sending".to_owned()))?;
            match frame {
                None => return Ok(None),
                Some(Err(_)) => return Err(Failed::Later("the connection broke off".to_owned())),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }
}

impl Storage {
    fn client(&self) -> &HttpClient {
        self.0.get_or_init(|| {
            let connector = HttpsConnectorBuilder::new()
                .with_webpki_roots()
                .https_or_http()
                .enable_http1()
                .build();
            Client::builder(TokioExecutor::new()).build(connector)
        })
    }

    /// Puts a part of a file.
    pub(super) async fn put_file(
        &self,
        url: &str,
        path: &Path,
        range: std::ops::Range<u64>,
    ) -> Result<Reply, Failed> {
        let mut file = tokio::fs::File::open(path).await?;
        file.seek(io::SeekFrom::Start(range.start)).await?;
        let length = range.end - range.start;
        let (pieces, taken) = mpsc::channel(WAITING);
        let reading = task::spawn(read_pieces(file.take(length), pieces));
        let body = FileBody {
            pieces: taken,
            left: length,
        };
        let reply = self
            .request(Method::PUT, url, HeaderMap::new(), UnsyncBoxBody::new(body))
            .await;
        reading.abort();
        short(reply?).await
    }

    pub(super) async fn post(&self, url: &str, body: String) -> Result<Reply, Failed> {
        let mut headers = HeaderMap::new();
        headers.insert(
            CONTENT_TYPE,
            http::HeaderValue::from_static("application/xml"),
        );
        short(
            self.request(Method::POST, url, headers, whole(body))
                .await?,
        )
        .await
    }

    pub(super) async fn delete(&self, url: &str) -> Result<Reply, Failed> {
        let reply = self.request(Method::DELETE, url, HeaderMap::new(), whole(String::new()));
        short(reply.await?).await
    }

    /// Gets what is at a URL from an offset on, if it is still the same.
    pub(super) async fn get_from(
        &self,
        url: &str,
        offset: u64,
        tag: Option<&str>,
    ) -> Result<Stream, Failed> {
        let mut headers = HeaderMap::new();
        if offset > 0
            && let Ok(range) = format!("bytes={offset}-").parse()
        {
            headers.insert(RANGE, range);
            if let Some(tag) = tag.and_then(|tag| tag.parse().ok()) {
                headers.insert(IF_MATCH, tag);
            }
        }
        let response = self
            .request(Method::GET, url, headers, whole(String::new()))
            .await?;
        let response = accepted(response).await?;
        Ok(Stream {
            etag: etag_of(response.headers()),
            is_rest: response.status() == StatusCode::PARTIAL_CONTENT,
            body: response.into_body(),
        })
    }

    async fn request(
        &self,
        method: Method,
        url: &str,
        headers: HeaderMap,
        body: OutBody,
    ) -> Result<http::Response<Incoming>, Failed> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.headers_mut() = headers;
        *request.uri_mut() = url
            .parse()
            .map_err(|_| Failed::Final("the URL is not valid".to_owned()))?;
        let host = request.uri().host().unwrap_or_default().to_owned();
        let length = request.body().size_hint().exact().unwrap_or(0);
        // A slow line may take long, but no slower than this in all.
        let patience = STALL + Duration::from_secs(length / (64 << 10));
        match tokio::time::timeout(patience, self.client().request(request)).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) if error.is_connect() => {
                Err(Failed::Later(format!("{host} cannot be reached")))
            }
            Ok(Err(_)) => Err(Failed::Later(format!("the connection to {host} broke off"))),
            Err(_) => Err(Failed::Later(format!("{host} does not answer"))),
        }
    }
}

async fn read_pieces(
    mut file: tokio::io::Take<tokio::fs::File>,
    pieces: mpsc::Sender<io::Result<Bytes>>,
) {
    loop {
        let mut piece = bytes::BytesMut::with_capacity(PIECE);
        let read = file.read_buf(&mut piece).await;
        let piece = match read {
            Ok(0) => return,
            Ok(_) => Ok(piece.freeze()),
            Err(error) => Err(error),
        };
        if pieces.send(piece).await.is_err() {
            return;
        }
    }
}

/// A body of known length, read from a file by another task.
struct FileBody {
    pieces: mpsc::Receiver<io::Result<Bytes>>,
    left: u64,
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match self.pieces.poll_recv(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(error))),
            Poll::Ready(Some(Ok(data))) => {
                self.left = self.left.saturating_sub(data.len() as u64);
                Poll::Ready(Some(Ok(Frame::data(data))))
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

fn whole(text: String) -> OutBody {
    UnsyncBoxBody::new(Full::new(Bytes::from(text)).map_err(|never| match never {}))
}

fn etag_of(headers: &HeaderMap) -> Option<String> {
    Some(headers.get(ETAG)?.to_str().ok()?.to_owned())
}

/// Sorts refusals into those that may pass and those that will not.
async fn accepted(response: http::Response<Incoming>) -> Result<http::Response<Incoming>, Failed> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let later = status.is_server_error()
        || matches!(
            status,
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS
        );
    let detail = format!("it answered {status}{}", code_in(&text(response).await));
    Err(if later {
        Failed::Later(detail)
    } else {
        Failed::Final(detail)
    })
}

async fn short(response: http::Response<Incoming>) -> Result<Reply, Failed> {
    let response = accepted(response).await?;
    Ok(Reply {
        etag: etag_of(response.headers()),
        body: text(response).await,
    })
}

/// The beginning of a body; what cannot be read is left out.
async fn text(response: http::Response<Incoming>) -> String {
    let body = Limited::new(response.into_body(), ANSWER).collect();
    match tokio::time::timeout(STALL, body).await {
        Ok(Ok(body)) => String::from_utf8_lossy(&body.to_bytes()).into_owned(),
        _ => String::new(),
    }
}

/// The code of an error as S3 writes it. The rest may quote the signature, and is left out.
pub(super) fn code_in(body: &str) -> String {
    let code = body
        .split_once("<Code>")
        .and_then(|(_, rest)| rest.split_once("</Code>"))
        .map(|(code, _)| code)
        .filter(|code| code.len() <= 64 && code.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    code.map_or(String::new(), |code| format!(" {code}"))
}
