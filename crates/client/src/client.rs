//! The client handle: requests in, replies out.
//!
//! Owns headers, retries and the reading of replies. The calls of each surface are in `process`,
//! `session` and `terminal`.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    ACCEPT, AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, response};
use sandshell_types::{ExecRequest, ExecResult, Health, TicketReply, TicketRequest, VersionInfo};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;

use crate::connection::{Connection, OutBody, OutRequest};
use crate::endpoint::{Endpoint, Transport};
use crate::pool::Pool;
use crate::{ByteStream, ClientError, EventStream, SseStream};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const OCTETS: HeaderValue = HeaderValue::from_static("application/octet-stream");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

/// What all clones of a client share.
pub(crate) struct Shared {
    endpoint: Endpoint,
    host: HeaderValue,
    authorization: Option<HeaderValue>,
    pub(crate) pool: Pool,
}

/// A handle on a server; cheap to clone, and safe to use from many tasks at once.
///
/// Its sockets belong to the Tokio runtime it is first used on.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    idempotency_key: Option<HeaderValue>,
    /// What stands in place of `/v1` in paths: of one sandbox at a hub.
    base: Option<Arc<str>>,
}

impl Client {
    /// A client for `http://host:port` or `unix:/path/to.sock`. Does not connect yet.
    pub fn new(base_url: &str, token: Option<&str>) -> Result<Self, ClientError> {
        let (endpoint, host) = Endpoint::parse(base_url)?;
        let authorization = token.map(bearer).transpose()?;
        Ok(Self::at(endpoint, host, authorization))
    }

    pub(crate) fn at(
        endpoint: Endpoint,
        host: HeaderValue,
        authorization: Option<HeaderValue>,
    ) -> Self {
        let shared = Shared {
            endpoint,
            host,
            authorization,
            pool: Pool::default(),
        };
        Self {
            shared: Arc::new(shared),
            idempotency_key: None,
            base: None,
        }
    }

    /// A handle whose `POST`s carry this idempotency key: for one call, and its repetitions.
    pub fn idempotent(&self, key: &str) -> Result<Self, ClientError> {
        let key = HeaderValue::from_str(key)
            .map_err(|error| ClientError::config("the idempotency key", &error))?;
        Ok(Self {
            shared: Arc::clone(&self.shared),
            idempotency_key: Some(key),
            base: self.base.clone(),
        })
    }

    /// The same client, for the routes below this path.
    pub(crate) fn below(&self, base: String) -> Self {
        Self {
            base: Some(base.into()),
            ..self.clone()
        }
    }

    /// Where a route of the API is.
    fn place(&self, path: &str) -> Result<Uri, ClientError> {
        let moved = self
            .base
            .as_ref()
            .and_then(|base| Some(format!("{base}{}", path.strip_prefix("/v1")?)));
        Uri::try_from(moved.as_deref().unwrap_or(path)).map_err(|error| {
            ClientError::protocol(format!("the path {path:?} cannot be requested"), error)
        })
    }

    /// Closes the connections that are not in use.
    pub fn close_idle(&self) {
        self.shared.pool.clear();
    }

    /// `GET /version`.
    pub async fn version(&self) -> Result<VersionInfo, ClientError> {
        self.get("/version").await
    }

    /// `GET /healthz`.
    pub async fn healthz(&self) -> Result<Health, ClientError> {
        self.get("/healthz").await
    }

    /// `GET /metrics`: the figures of the service, in the text form of Prometheus.
    pub async fn metrics(&self) -> Result<String, ClientError> {
        let bytes = self.get_bytes("/metrics").await?.read_to_end().await?;
        String::from_utf8(bytes.into())
            .map_err(|error| ClientError::protocol("the figures are not text", error))
    }

    /// Makes a ticket, with which a browser can open one stream of this path.
    pub async fn create_ticket(&self, path: &str) -> Result<TicketReply, ClientError> {
        let request = TicketRequest {
            path: path.to_owned(),
        };
        self.post("/v1/tickets", &request).await
    }

    /// Runs one command and waits for its result.
    pub async fn exec(&self, request: &ExecRequest) -> Result<ExecResult, ClientError> {
        self.post("/v1/exec", request).await
    }

    /// Sends anything and gives back whatever comes, errors included: for tests of bad input.
    ///
    /// Headers given here take the place of the client's own, `authorization` among them.
    pub async fn raw(
        &self,
        method: Method,
        path_and_query: &str,
        headers: &HeaderMap,
        body: impl Into<Bytes>,
    ) -> Result<(StatusCode, HeaderMap, Bytes), ClientError> {
        let mut request = self.request(method, path_and_query, body.into())?;
        for name in headers.keys() {
            request.headers_mut().remove(name);
        }
        request
            .headers_mut()
            .extend(headers.iter().map(|(k, v)| (k.clone(), v.clone())));
        let (head, body) = self.send(request).await?;
        Ok((head.status, head.headers, body.read_to_end().await?))
    }

    /// The status of a GET; what follows it is not read.
    pub async fn status_of(&self, path_and_query: &str) -> Result<StatusCode, ClientError> {
        let request = self.request(Method::GET, path_and_query, Bytes::new())?;
        Ok(self.send(request).await?.0.status)
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        let request = self.request(Method::GET, path, Bytes::new())?;
        read_json(self.accepted(request).await?).await
    }

    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &(impl Serialize + Sync),
    ) -> Result<T, ClientError> {
        self.with_json(Method::POST, path, body).await
    }

    pub(crate) async fn patch<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &(impl Serialize + Sync),
    ) -> Result<T, ClientError> {
        self.with_json(Method::PATCH, path, body).await
    }

    async fn with_json<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &(impl Serialize + Sync),
    ) -> Result<T, ClientError> {
        let request = self.json_request(method, path, body)?;
        read_json(self.accepted(request).await?).await
    }

    pub(crate) async fn with_method<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
    ) -> Result<T, ClientError> {
        let request = self.request(method, path, Bytes::new())?;
        read_json(self.accepted(request).await?).await
    }

    pub(crate) async fn post_empty<T: DeserializeOwned>(
        &self,
        path: &str,
    ) -> Result<T, ClientError> {
        let request = self.request(Method::POST, path, Bytes::new())?;
        read_json(self.accepted(request).await?).await
    }

    pub(crate) async fn post_bytes<T: DeserializeOwned>(
        &self,
        path: &str,
        body: Bytes,
    ) -> Result<T, ClientError> {
        let mut request = self.request(Method::POST, path, body)?;
        request.headers_mut().insert(CONTENT_TYPE, OCTETS);
        read_json(self.accepted(request).await?).await
    }

    pub(crate) async fn without_body<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
    ) -> Result<T, ClientError> {
        let request = self.request(method, path, Bytes::new())?;
        read_json(self.accepted(request).await?).await
    }

    /// A request for a WebSocket, and a fresh connection to send it on.
    pub(crate) async fn upgrade(
        &self,
        path: &str,
    ) -> Result<(Request<()>, Transport), ClientError> {
        let mut request = self.request(Method::GET, path, Bytes::new())?.map(drop);
        let headers = request.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        let key = HeaderValue::try_from(generate_key())
            .map_err(|error| ClientError::protocol("the request cannot be encoded", error))?;
        headers.insert(SEC_WEBSOCKET_KEY, key);
        // The WebSocket library wants to be told the host in the URL too.
        let host = self.shared.host.to_str().unwrap_or("localhost");
        let place = self.place(path)?;
        *request.uri_mut() = Uri::try_from(format!("ws://{host}{place}")).map_err(|error| {
            ClientError::protocol(format!("the path {path:?} cannot be requested"), error)
        })?;
        Ok((request, self.shared.endpoint.connect().await?))
    }

    pub(crate) async fn put_bytes<T: DeserializeOwned>(
        &self,
        path: &str,
        body: Bytes,
    ) -> Result<T, ClientError> {
        let mut request = self.request(Method::PUT, path, body)?;
        request.headers_mut().insert(CONTENT_TYPE, OCTETS);
        read_json(self.accepted(request).await?).await
    }

    pub(crate) async fn get_bytes(&self, path: &str) -> Result<ByteStream, ClientError> {
        let request = self.request(Method::GET, path, Bytes::new())?;
        Ok(self.accepted(request).await?.1)
    }

    /// A `GET` with headers of its own. "Not modified" is a good reply to it.
    pub(crate) async fn get_with(
        &self,
        path: &str,
        headers: HeaderMap,
    ) -> Result<(response::Parts, ByteStream), ClientError> {
        let mut request = self.request(Method::GET, path, Bytes::new())?;
        request.headers_mut().extend(headers);
        let (head, body) = self.send(request).await?;
        if head.status.is_success() || head.status == StatusCode::NOT_MODIFIED {
            return Ok((head, body));
        }
        Err(ClientError::from_reply(
            head.status,
            &body.read_to_end().await?,
        ))
    }

    /// Sends bytes, perhaps as a stream.
    pub(crate) async fn send_body<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: OutBody,
    ) -> Result<T, ClientError> {
        let mut request = self.request(method, path, Bytes::new())?;
        *request.body_mut() = body;
        request.headers_mut().insert(CONTENT_TYPE, OCTETS);
        request.headers_mut().extend(headers);
        read_json(self.accepted(request).await?).await
    }

    pub(crate) async fn get_events(&self, path: &str) -> Result<EventStream, ClientError> {
        self.get_sse(path).await.map(EventStream::new)
    }

    pub(crate) async fn post_events(
        &self,
        path: &str,
        body: &(impl Serialize + Sync),
    ) -> Result<EventStream, ClientError> {
        self.post_sse(path, body).await.map(EventStream::new)
    }

    pub(crate) async fn get_sse(&self, path: &str) -> Result<SseStream, ClientError> {
        let request = self.request(Method::GET, path, Bytes::new())?;
        self.event_body(request).await.map(SseStream::new)
    }

    pub(crate) async fn post_sse(
        &self,
        path: &str,
        body: &(impl Serialize + Sync),
    ) -> Result<SseStream, ClientError> {
        let request = self.json_request(Method::POST, path, body)?;
        self.event_body(request).await.map(SseStream::new)
    }

    /// The body of an answer that is made of events.
    async fn event_body(&self, mut request: OutRequest) -> Result<ByteStream, ClientError> {
        request.headers_mut().insert(ACCEPT, EVENTS);
        let (head, body) = self.accepted(request).await?;
        let kind = head
            .headers
            .get(CONTENT_TYPE)
            .map_or(&[][..], HeaderValue::as_bytes);
        if kind.starts_with(EVENTS.as_bytes()) {
            Ok(body)
        } else {
            let kind = String::from_utf8_lossy(kind);
            let context = format!("an event stream was asked for, {kind:?} came");
            Err(ClientError::Protocol {
                context,
                source: None,
            })
        }
    }

    fn json_request(
        &self,
        method: Method,
        path: &str,
        body: &(impl Serialize + Sync),
    ) -> Result<OutRequest, ClientError> {
        let body = serde_json::to_vec(body)
            .map_err(|error| ClientError::protocol("the request cannot be encoded", error))?;
        let mut request = self.request(method, path, body.into())?;
        request.headers_mut().insert(CONTENT_TYPE, JSON);
        Ok(request)
    }

    fn request(&self, method: Method, path: &str, body: Bytes) -> Result<OutRequest, ClientError> {
        let uri = self.place(path)?;
        let keyed = method == Method::POST;
        let mut request = Request::new(OutBody::Whole(body));
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        let headers = request.headers_mut();
        headers.insert(HOST, self.shared.host.clone());
        if let Some(authorization) = &self.shared.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        if let Some(key) = &self.idempotency_key
            && keyed
        {
            headers.insert(IDEMPOTENCY_KEY, key.clone());
        }
        Ok(request)
    }

    /// Sends a request; a refusal becomes an error.
    async fn accepted(
        &self,
        request: OutRequest,
    ) -> Result<(response::Parts, ByteStream), ClientError> {
        let (head, body) = self.send(request).await?;
        if head.status.is_success() {
            return Ok((head, body));
        }
        Err(ClientError::from_reply(
            head.status,
            &body.read_to_end().await?,
        ))
    }

    /// Sends a request over an idle connection or a new one.
    async fn send(
        &self,
        mut request: OutRequest,
    ) -> Result<(response::Parts, ByteStream), ClientError> {
        if let Some(mut connection) = self.shared.pool.take() {
            let spare = repeatable(&request).then(|| again(&request)).flatten();
            match connection.send(request).await {
                Ok(reply) => return Ok(self.opened(reply, connection)),
                Err(failure) => match failure.unsent.or(spare.filter(|_| failure.no_reply)) {
                    Some(again) => request = again,
                    None => return Err(failure.error),
                },
            }
        }
        let mut connection = Connection::open(&self.shared.endpoint).await?;
        let reply = connection
            .send(request)
            .await
            .map_err(|failure| failure.error)?;
        Ok(self.opened(reply, connection))
    }

    fn opened(
        &self,
        reply: http::Response<hyper::body::Incoming>,
        connection: Connection,
    ) -> (response::Parts, ByteStream) {
        let (head, body) = reply.into_parts();
        (
            head,
            ByteStream::new(body, connection, Arc::clone(&self.shared)),
        )
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("endpoint", &self.shared.endpoint)
            .field("idle", &self.shared.pool.len())
            .finish_non_exhaustive()
    }
}

fn bearer(token: &str) -> Result<HeaderValue, ClientError> {
    let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
        .map_err(|error| ClientError::config("the token", &error))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Whether the server may get the request twice without doing it twice.
fn repeatable(request: &OutRequest) -> bool {
    matches!(*request.method(), Method::GET | Method::HEAD)
        || request.headers().contains_key(IDEMPOTENCY_KEY)
}

/// The same request again, if its body can be had again.
fn again(request: &OutRequest) -> Option<OutRequest> {
    let mut copy = Request::new(request.body().again()?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    Some(copy)
}

async fn read_json<T: DeserializeOwned>(
    (_, body): (response::Parts, ByteStream),
) -> Result<T, ClientError> {
    let bytes = body.read_to_end().await?;
    serde_json::from_slice(&bytes)
        .map_err(|error| ClientError::protocol("the reply is not understood", error))
}
