//! HTTP/1 between a sandbox and servers outside: each request is checked, none follows another's way.
//!
//! Messages are read and written anew, so that what we understood is what the server gets. Bodies pass
//! frame by frame. The connection to a server is kept for the next request to the same target.
//!
//! ```text
//! request ─► for whom? ─► allowed, Host equal? ─► kept or new connection ─► answer
//!   │ CONNECT: connection made, 200 ─► After::Tunnel
//!   └ Upgrade: websocket, answer 101 ─► After::Joined
//! ```

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioIo, TokioTimer};
use sandshell_sys::task;
use sandshell_types::RefusalReason;
use tokio::net::TcpStream;

use super::head::{self, Target};
use super::host::Host;
use super::outside::OpenError;
use super::sandbox::Sandbox;
use super::stream::Stream;

/// How long a client may take for the head of a request, and may leave a connection unused.
const HEAD: Duration = Duration::from_mins(1);
/// Most bytes of a head.
const MAX_HEAD: usize = 64 * 1024;

/// Names the reason of a refusal in an answer.
const REFUSED: &str = "x-sandshell-refused";

type Body = BoxBody<Bytes, hyper::Error>;

/// Whom the requests of a connection may be for.
pub(super) enum Scope {
    /// Each names its target in full, or asks for a tunnel.
    Any,
    /// This target, to which there is a connection already.
    Only(Target, Option<TcpStream>),
}

/// What the connection became when HTTP ended on it.
pub(super) enum After {
    /// A tunnel that was asked for by CONNECT.
    Tunnel(OnUpgrade, Target, TcpStream),
    /// A WebSocket: client and server.
    Joined(OnUpgrade, OnUpgrade),
}

/// One connection.
struct Exchange {
    sandbox: Arc<Sandbox>,
    /// The target of all requests, if there is only one.
    only: Option<Target>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// A connection that was made before the first request.
    opened: Option<TcpStream>,
    kept: Option<(Target, SendRequest<Incoming>)>,
    after: Option<After>,
}

/// Serves the requests of one connection until it ends or becomes something else.
pub(super) async fn serve(client: Stream, sandbox: Arc<Sandbox>, scope: Scope) -> Option<After> {
    let (only, opened) = match scope {
        Scope::Any => (None, None),
        Scope::Only(target, opened) => (Some(target), opened),
    };
    let exchange = Arc::new(Exchange {
        sandbox,
        only,
        state: Mutex::new(State {
            opened,
            ..State::default()
        }),
    });
    let service = {
        let exchange = Arc::clone(&exchange);
        service_fn(move |request| {
            let exchange = Arc::clone(&exchange);
            async move { Ok::<_, Infallible>(exchange.answer(request).await) }
        })
    };
    let served = hyper::server::conn::http1::Builder::new()
        .half_close(true)
        .preserve_header_case(true)
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(client), service)
        .with_upgrades()
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection of the egress proxy broke off");
    }
    exchange.state().after.take()
}

impl Exchange {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let asked = request.uri().authority().map(ToString::to_string);
        let result = if request.method() == Method::CONNECT && self.only.is_none() {
            self.tunnel(request).await
        } else {
            self.pass_on(request).await
        };
        result.unwrap_or_else(|failure| self.failed(asked, failure))
    }

    /// CONNECT: the connection is made first, so that the answer is true.
    async fn tunnel(&self, mut request: Request<Incoming>) -> Result<Response<Body>, Failure> {
        let target = head::connect_target(request.uri())?;
        let server = self
            .sandbox
            .connect(&target.host, target.port)
            .await
            .map_err(|error| Failure::open(&target, error))?;
        let client = hyper::upgrade::on(&mut request);
        self.state().after = Some(After::Tunnel(client, target, server));
        Ok(Response::new(empty()))
    }

    async fn pass_on(&self, mut request: Request<Incoming>) -> Result<Response<Body>, Failure> {
        let target = self.target(&request)?;
        let refused = |reason| Failure::refused(&target, reason);
        head::check(&request, &target).map_err(refused)?;
        let websocket = head::wants_websocket(request.headers());
        let client = websocket.then(|| hyper::upgrade::on(&mut request));
        let policy = self.sandbox.policy();
        head::to_server(&mut request, &target, &policy, websocket).map_err(refused)?;
        let mut answer = self.send(request, &target).await?;
        let switched = answer.status() == StatusCode::SWITCHING_PROTOCOLS;
        match client {
            Some(client) if switched => {
                let server = hyper::upgrade::on(&mut answer);
                self.state().after = Some(After::Joined(client, server));
            }
            // A server must not switch to what it was not asked for.
            _ if switched => return Err(Failure::Unreachable("it switched protocols".to_owned())),
            _ => {}
        }
        head::to_client(answer.headers_mut(), switched);
        Ok(answer.map(BodyExt::boxed))
    }

    /// Whom a request is for. In a tunnel the target is settled, and a full URI must agree.
    fn target(&self, request: &Request<Incoming>) -> Result<Target, Failure> {
        let Some(only) = &self.only else {
            return Ok(head::absolute_target(request.uri())?);
        };
        if let Some(authority) = request.uri().authority() {
            let same = Host::parse_with_port(authority.as_str()).is_ok_and(|(host, port)| {
                host == only.host && port.is_none_or(|port| port == only.port)
            });
            if !same {
                return Err(Failure::refused(only, RefusalReason::HostMismatch));
            }
        }
        Ok(only.clone())
    }

    /// Sends on the kept connection if it is for the same target and still there, else on a new one.
    async fn send(
        &self,
        mut request: Request<Incoming>,
        target: &Target,
    ) -> Result<Response<Incoming>, Failure> {
        let kept = self.state().kept.take();
        if let Some((of, mut sender)) = kept
            && of == *target
            && sender.ready().await.is_ok()
        {
            match sender.try_send_request(request).await {
                Ok(answer) => {
                    self.state().kept = Some((of, sender));
                    return Ok(answer);
                }
                // The server closed it meanwhile and has seen nothing of the request.
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(Failure::Unreachable(error.error().to_string())),
                },
            }
        }
        let mut sender = self.open(target).await?;
        let answer = sender
            .send_request(request)
            .await
            .map_err(|error| Failure::Unreachable(error.to_string()))?;
        self.state().kept = Some((target.clone(), sender));
        Ok(answer)
    }

    async fn open(&self, target: &Target) -> Result<SendRequest<Incoming>, Failure> {
        let opened = self.state().opened.take();
        let failed = |error| Failure::open(target, error);
        let stream = if let Some(stream) = opened {
            stream
        } else {
            let connecting = self.sandbox.connect(&target.host, target.port);
            connecting.await.map_err(failed)?
        };
        if target.tls {
            let securing = self.sandbox.outside().secure(&target.host, stream);
            handshake(Box::new(securing.await.map_err(failed)?)).await
        } else {
            handshake(Box::new(stream)).await
        }
    }

    fn failed(&self, asked: Option<String>, failure: Failure) -> Response<Body> {
        let (status, reason, text) = match failure {
            Failure::Refused {
                target,
                reason,
                address,
            } => {
                let (host, port) = match target {
                    Some(target) => (target.host.to_string(), Some(target.port)),
                    None => (asked.unwrap_or_default(), None),
                };
                let text = format!("{host} refused: {reason}; {}", reason.hint());
                self.sandbox.refuse(host, port, reason, address);
                let status = match reason {
                    RefusalReason::BadRequest | RefusalReason::BadName => StatusCode::BAD_REQUEST,
                    _ => StatusCode::FORBIDDEN,
                };
                (status, Some(reason), text)
            }
            Failure::Unreachable(text) => (StatusCode::BAD_GATEWAY, None, text),
        };
        let mut answer = Response::new(full(format!("sandshell: {text}\n")));
        *answer.status_mut() = status;
        let headers = answer.headers_mut();
        let plain = http::HeaderValue::from_static("text/plain; charset=utf-8");
        headers.insert(header::CONTENT_TYPE, plain);
        // What was left of the request is not read: nothing on this connection can be believed.
        headers.insert(header::CONNECTION, http::HeaderValue::from_static("close"));
        if let Some(reason) = reason {
            headers.insert(REFUSED, http::HeaderValue::from_static(reason.as_str()));
        }
        answer
    }
}

/// Why a request was not answered by its server.
enum Failure {
    Refused {
        /// None where not even that was clear.
        target: Option<Target>,
        reason: RefusalReason,
        address: Option<std::net::IpAddr>,
    },
    Unreachable(String),
}

impl Failure {
    fn refused(target: &Target, reason: RefusalReason) -> Self {
        Self::Refused {
            target: Some(target.clone()),
            reason,
            address: None,
        }
    }

    fn open(target: &Target, error: OpenError) -> Self {
        match error {
            OpenError::Refused { reason, address } => Self::Refused {
                target: Some(target.clone()),
                reason,
                address,
            },
            other => Self::Unreachable(format!("{}: {other}", target.host)),
        }
    }
}

impl From<RefusalReason> for Failure {
    fn from(reason: RefusalReason) -> Self {
        Self::Refused {
            target: None,
            reason,
            address: None,
        }
    }
}

/// Begins HTTP/1 with a server. The connection ends with its last sender.
async fn handshake(stream: Stream) -> Result<SendRequest<Incoming>, Failure> {
    let (sender, connection) = hyper::client::conn::http1::Builder::new()
        .preserve_header_case(true)
        .max_buf_size(MAX_HEAD)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| Failure::Unreachable(error.to_string()))?;
    task::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "a connection to a server outside broke off");
        }
    });
    Ok(sender)
}

fn empty() -> Body {
    full(Bytes::new())
}

fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into())
        .map_err(|never| match never {})
        .boxed()
}
