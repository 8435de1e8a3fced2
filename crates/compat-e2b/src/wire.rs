//! The Connect protocol: calls with one answer, and streams of envelopes.
//!
//! Owns what a call is on the wire: JSON or binary, envelopes, deadlines, whose rights it asks for, and the
//! form of its failure. Handlers see JSON both ways.
//!
//! ```text
//! envelope: flags, one byte (2: the last one) │ length, four bytes, big-endian │ message
//! ```

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, post};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::{Buf as _, Bytes, BytesMut};
use futures_util::stream;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, header};
use http_body_util::BodyExt as _;
use sandshell_client::Client;
use sandshell_client::types::SandboxId;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::error::{Code, Fault};
use crate::known::Known;
use crate::proto;
use crate::schema::Message;
use crate::watchers::Watchers;

/// Largest message of a client.
const LARGEST: usize = 16 * 1024 * 1024;

/// Messages under way to a client that does not read.
const WAITING: usize = 16;

/// How long a stream is silent when the client does not say.
const SILENCE: Duration = Duration::from_secs(90);

/// The last envelope of a stream.
const LAST: u8 = 2;

/// How messages are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Codec {
    Json,
    Binary,
}

impl Codec {
    fn read<T: DeserializeOwned>(self, bytes: &[u8], message: Message) -> Result<T, Fault> {
        let value = match self {
            Self::Json if bytes.is_empty() => json!({}),
            Self::Json => serde_json::from_slice(bytes)
                .map_err(|error| Fault::invalid(format!("the message is not JSON: {error}")))?,
            Self::Binary => proto::read(bytes, message)
                .map_err(|_| Fault::invalid("the message is not a valid protocol buffer"))?,
        };
        T::deserialize(value).map_err(|error| Fault::invalid(format!("the message: {error}")))
    }

    fn write(self, value: &Value, message: Message) -> Vec<u8> {
        match self {
            Self::Json => value.to_string().into_bytes(),
            Self::Binary => proto::write(value, message),
        }
    }
}

/// The messages of a method.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Method {
    pub(crate) asks: Message,
    pub(crate) answers: Message,
}

/// Where a call goes and what came with it.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) sandbox: Client,
    pub(crate) id: SandboxId,
    pub(crate) user: Option<String>,
    /// How long it may take.
    pub(crate) timeout: Option<Duration>,
    /// After how long a silence a stream says that it lives.
    pub(crate) silence: Duration,
    pub(crate) watchers: Arc<Watchers>,
    pub(crate) known: Arc<Known>,
}

/// What a request brings along, from where it was let in.
#[derive(Clone)]
pub(crate) struct Inside {
    pub(crate) sandbox: Client,
    pub(crate) id: SandboxId,
    pub(crate) watchers: Arc<Watchers>,
    pub(crate) known: Arc<Known>,
}

impl Call {
    fn of(inside: &Inside, headers: &HeaderMap) -> Result<Self, Fault> {
        let number = |name: &str| -> Option<u64> { headers.get(name)?.to_str().ok()?.parse().ok() };
        Ok(Self {
            sandbox: inside.sandbox.clone(),
            id: inside.id.clone(),
            user: user_of(headers)?,
            timeout: number("connect-timeout-ms")
                .filter(|ms| *ms > 0)
                .map(Duration::from_millis),
            silence: number("keepalive-ping-interval")
                .filter(|seconds| *seconds > 0)
                .map_or(SILENCE, Duration::from_secs),
            watchers: Arc::clone(&inside.watchers),
            known: Arc::clone(&inside.known),
        })
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.timeout.map(|timeout| Instant::now() + timeout)
    }
}

/// Whose rights are asked for. Their `user` is whoever the sandbox's commands run as.
pub(crate) fn named(user: &str) -> Option<String> {
    (!matches!(user, "" | "user")).then(|| user.to_owned())
}

fn user_of(headers: &HeaderMap) -> Result<Option<String>, Fault> {
    let Some(shown) = headers.get(header::AUTHORIZATION) else {
        return Ok(None);
    };
    let user = shown
        .to_str()
        .ok()
        .and_then(|shown| shown.strip_prefix("Basic "))
        .and_then(|basic| BASE64.decode(basic.trim()).ok())
        .and_then(|pair| String::from_utf8(pair).ok());
    let Some(user) = user else {
        return Err(Fault::new(
            Code::Unauthenticated,
            "the user is named by basic authentication",
        ));
    };
    Ok(named(user.split(':').next().unwrap_or_default()))
}

/// The kinds of content a call may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Unary(Codec),
    Stream(Codec),
}

impl Content {
    fn of(shown: Option<&HeaderValue>) -> Option<Self> {
        let shown = shown?.to_str().ok()?;
        match shown.split(';').next()?.trim() {
            "application/json" => Some(Self::Unary(Codec::Json)),
            "application/proto" => Some(Self::Unary(Codec::Binary)),
            "application/connect+json" => Some(Self::Stream(Codec::Json)),
            "application/connect+proto" => Some(Self::Stream(Codec::Binary)),
            _ => None,
        }
    }

    fn as_header(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Unary(Codec::Json) => "application/json",
            Self::Unary(Codec::Binary) => "application/proto",
            Self::Stream(Codec::Json) => "application/connect+json",
            Self::Stream(Codec::Binary) => "application/connect+proto",
        })
    }
}

fn content(headers: &HeaderMap) -> Option<Content> {
    Content::of(headers.get(header::CONTENT_TYPE))
}

/// A failure before a handler was asked, in the form that the kind of the request has.
pub(crate) fn refuse(content_type: Option<&HeaderValue>, fault: &Fault) -> Response {
    match Content::of(content_type) {
        Some(Content::Stream(codec)) => framed(codec, &[], Err(fault)),
        _ => fault.unary(),
    }
}

fn wrong_content() -> Fault {
    Fault::invalid("the content type is none of this method")
}

fn encoded(headers: &HeaderMap) -> Result<(), Fault> {
    let names = [
        header::CONTENT_ENCODING,
        header::HeaderName::from_static("connect-content-encoding"),
    ];
    let plain = |value: &HeaderValue| value == "identity";
    let plain = names
        .into_iter()
        .all(|name| headers.get(name).is_none_or(plain));
    if plain {
        return Ok(());
    }
    Err(Fault::new(
        Code::Unimplemented,
        "messages are taken uncompressed",
    ))
}

/// A method with one answer.
pub(crate) fn unary<T, F, S>(method: Method, handler: fn(Call, T) -> F) -> MethodRouter<S>
where
    T: DeserializeOwned + Send + 'static,
    F: Future<Output = Result<Value, Fault>> + Send + 'static,
    S: Clone + Send + Sync + 'static,
{
    post(move |request: Request<Body>| async move {
        let (head, body) = request.into_parts();
        let answer = async {
            // Read in any case, so that the connection can be used again.
            let bytes = to_bytes(body, LARGEST).await.map_err(|_| too_large())?;
            let Some(Content::Unary(codec)) = content(&head.headers) else {
                return Err(wrong_content());
            };
            let call = call_of(&head)?;
            let value = handler(call, codec.read(&bytes, method.asks)?).await?;
            let kind = [(header::CONTENT_TYPE, Content::Unary(codec).as_header())];
            Ok((kind, codec.write(&value, method.answers)).into_response())
        };
        answer.await.unwrap_or_else(|fault| fault.unary())
    })
}

/// Who calls, of a request whose encoding is known.
fn call_of(head: &Parts) -> Result<Call, Fault> {
    encoded(&head.headers)?;
    let nowhere = || Fault::new(Code::Internal, "the request is for no sandbox");
    let inside = head.extensions.get::<Inside>().ok_or_else(nowhere)?;
    Call::of(inside, &head.headers)
}

fn too_large() -> Fault {
    Fault::invalid(format!(
        "the message is over {LARGEST} bytes, or ended early"
    ))
}

/// A method that answers with a stream. It ends with its handler, and the handler with its reader.
pub(crate) fn server_stream<T, F, S>(
    method: Method,
    handler: fn(Call, T, Feed) -> F,
) -> MethodRouter<S>
where
    T: DeserializeOwned + Send + 'static,
    F: Future<Output = Result<(), Fault>> + Send + 'static,
    S: Clone + Send + Sync + 'static,
{
    post(move |request: Request<Body>| async move {
        let (head, body) = request.into_parts();
        let begun = async {
            let bytes = to_bytes(body, LARGEST).await.map_err(|_| too_large())?;
            let Some(Content::Stream(codec)) = content(&head.headers) else {
                return Err(wrong_content());
            };
            let call = call_of(&head)?;
            let mut inbox = Inbox::new(bytes.into(), codec, method.asks);
            let asked = inbox.next().await?;
            let asked = asked.ok_or_else(|| Fault::invalid("there is no message"))?;
            let (sender, receiver) = mpsc::channel(WAITING);
            let feed = Feed {
                sender: sender.clone(),
                codec,
                message: method.answers,
            };
            let work = handler(call, asked, feed);
            tokio::spawn(async move {
                tokio::select! {
                    ended = work => {
                        let last = ended.as_ref().map(drop);
                        drop(sender.send(last_envelope(last)).await);
                    }
                    () = sender.closed() => {}
                }
            });
            let envelopes = stream::unfold(receiver, |mut receiver| async move {
                let envelope = receiver.recv().await?;
                Some((Ok::<_, std::convert::Infallible>(envelope), receiver))
            });
            let kind = [(header::CONTENT_TYPE, Content::Stream(codec).as_header())];
            Ok((kind, Body::from_stream(envelopes)).into_response())
        };
        let begun = begun.await;
        begun.unwrap_or_else(|fault| refuse(head.headers.get(header::CONTENT_TYPE), &fault))
    })
}

/// A method that takes a stream.
pub(crate) fn client_stream<T, F, S>(
    method: Method,
    handler: fn(Call, Inbox<T>) -> F,
) -> MethodRouter<S>
where
    T: DeserializeOwned + Send + 'static,
    F: Future<Output = Result<Value, Fault>> + Send + 'static,
    S: Clone + Send + Sync + 'static,
{
    post(move |request: Request<Body>| async move {
        let (head, body) = request.into_parts();
        let Some(Content::Stream(codec)) = content(&head.headers) else {
            return wrong_content().unary();
        };
        let answer = async {
            let call = call_of(&head)?;
            let deadline = call.deadline();
            let inbox = Inbox::new(body, codec, method.asks);
            before(deadline, handler(call, inbox)).await
        };
        match answer.await {
            Ok(value) => {
                let message = codec.write(&value, method.answers);
                framed(codec, &envelope(0, &message), Ok(()))
            }
            Err(fault) => framed(codec, &[], Err(&fault)),
        }
    })
}

/// What comes of work before a deadline.
pub(crate) async fn before<T>(
    deadline: Option<Instant>,
    work: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    let Some(deadline) = deadline else {
        return work.await;
    };
    let late = || Fault::new(Code::DeadlineExceeded, "the time of the call is over");
    let ended = tokio::time::timeout_at(deadline, work).await;
    ended.unwrap_or_else(|_| Err(late()))
}

/// A whole answer of envelopes.
fn framed(codec: Codec, messages: &[u8], ended: Result<(), &Fault>) -> Response {
    let mut body = BytesMut::from(messages);
    body.extend_from_slice(&last_envelope(ended));
    let kind = [(header::CONTENT_TYPE, Content::Stream(codec).as_header())];
    (kind, body.freeze()).into_response()
}

fn last_envelope(ended: Result<(), &Fault>) -> Bytes {
    let end = match ended {
        Ok(()) => json!({}),
        Err(fault) => json!({"error": fault.body()}),
    };
    envelope(LAST, end.to_string().as_bytes())
}

fn envelope(flags: u8, message: &[u8]) -> Bytes {
    let mut bytes = Vec::with_capacity(message.len() + 5);
    bytes.push(flags);
    // Messages of ours are far smaller.
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(message);
    bytes.into()
}

/// The writing end of a stream.
pub(crate) struct Feed {
    sender: mpsc::Sender<Bytes>,
    codec: Codec,
    message: Message,
}

impl Feed {
    /// Sends a message. It fails when nobody reads any more.
    pub(crate) async fn tell(&self, value: &Value) -> Result<(), Fault> {
        let message = self.codec.write(value, self.message);
        let sent = self.sender.send(envelope(0, &message)).await;
        sent.map_err(|_| Fault::new(Code::Canceled, "nobody reads any more"))
    }

    /// Waits, and says at times that the stream lives.
    pub(crate) async fn wait<T>(
        &self,
        silence: Duration,
        alive: &Value,
        next: impl Future<Output = T>,
    ) -> Result<T, Fault> {
        let mut next = std::pin::pin!(next);
        loop {
            match tokio::time::timeout(silence, next.as_mut()).await {
                Ok(come) => return Ok(come),
                Err(_) => self.tell(alive).await?,
            }
        }
    }
}

/// The messages of a client, as they come.
pub(crate) struct Inbox<T> {
    body: Body,
    held: BytesMut,
    codec: Codec,
    message: Message,
    read: std::marker::PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Inbox<T> {
    pub(crate) fn new(body: Body, codec: Codec, message: Message) -> Self {
        Self {
            body,
            held: BytesMut::new(),
            codec,
            message,
            read: std::marker::PhantomData,
        }
    }

    /// The next one; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<T>, Fault> {
        loop {
            if let Some(head) = self.held.first_chunk::<5>() {
                let [flags, length @ ..] = *head;
                let length = u32::from_be_bytes(length) as usize;
                if flags & 1 != 0 {
                    return Err(Fault::new(
                        Code::Unimplemented,
                        "messages are taken uncompressed",
                    ));
                }
                if length > LARGEST {
                    return Err(too_large());
                }
                if self.held.len() >= length + 5 {
                    self.held.advance(5);
                    let message = self.held.split_to(length);
                    if flags & LAST != 0 {
                        return Ok(None);
                    }
                    return self.codec.read(&message, self.message).map(Some);
                }
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        self.held.extend_from_slice(&bytes);
                    }
                }
                None if self.held.is_empty() => return Ok(None),
                Some(Err(_)) | None => {
                    return Err(Fault::invalid("the stream ended within a message"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema;

    #[tokio::test]
    async fn envelopes_are_read_however_they_arrive() {
        let whole = [
            envelope(0, br#"{"path":"a"}"#),
            envelope(0, b""),
            envelope(0, br#"{"path":"b"}"#),
        ]
        .concat();
        for size in 1..whole.len() {
            let pieces: Vec<_> = whole
                .chunks(size)
                .map(|piece| Ok::<_, std::io::Error>(Bytes::copy_from_slice(piece)))
                .collect();
            let body = Body::from_stream(stream::iter(pieces));
            let mut inbox = Inbox::<Value>::new(body, Codec::Json, schema::PATH);
            assert_eq!(inbox.next().await.unwrap(), Some(json!({"path": "a"})));
            assert_eq!(inbox.next().await.unwrap(), Some(json!({})));
            assert_eq!(inbox.next().await.unwrap(), Some(json!({"path": "b"})));
            assert_eq!(inbox.next().await.unwrap(), None);
        }
        let cut = Body::from(whole[..7].to_vec());
        let mut inbox = Inbox::<Value>::new(cut, Codec::Json, schema::PATH);
        assert!(inbox.next().await.is_err());
    }

    #[test]
    fn a_user_is_named_by_basic_authentication() {
        let of = |text: &str| {
            let value = HeaderValue::from_str(text).unwrap();
            let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value)]);
            user_of(&headers).ok()
        };
        assert_eq!(of("Basic cm9vdDo="), Some(Some("root".to_owned())));
        assert_eq!(of("Basic dXNlcjo="), Some(None));
        assert_eq!(of("Bearer x"), None);
        assert_eq!(user_of(&HeaderMap::new()).ok(), Some(None));
    }
}
