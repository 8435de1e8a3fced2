//! The edge: what happens to every request before and after its handler.
//!
//! ```text
//! request ─► id ─► Host, Origin ─► token or ticket ─► (idempotency key) ─► router ─► handler
//! answer  ◄─ id ◄─ CORS ◄─ problem document ◄──────────────────────────────────────────┘
//! ```
//!
//! Owns the rendering of problems, the catching of panics and the repeating of answers.
//! It is one plain function rather than a stack of layers: requests are counted in microseconds.

use std::convert::Infallible;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt as _;
use http::{HeaderName, HeaderValue, Method, Request, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use sandshell_sys::task;
use sandshell_types::{ErrorCode, Problem};
use tower::Service as _;

use crate::Agent;
use crate::api::{self, Answer, KeyTicket, WholeAnswer};
use crate::auth::{Auth, OPEN};
use crate::browsers::{Browsers, Caller, take_parameter};
use crate::front::{self, Front, Opener, Way};
use crate::idempotency::{self, Claim, Keys};
use crate::ports::{Proxied, Target};
use crate::problem::ApiError;
use crate::request_id::{REQUEST_ID, RequestIds};
use crate::server::Slot;
use crate::ticket;
use crate::unread::taken;

/// The key of a request that may be sent again.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Marks an answer that was given before.
pub const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// What became of a request at the door.
enum Admitted {
    Request(Request<Body>),
    Answered(Response),
}

/// The service of every connection.
#[derive(Clone)]
pub(crate) struct Edge {
    inner: Arc<Inner>,
    /// Whether these are calls of our own, which were let in before.
    inside: bool,
}

struct Inner {
    agent: Arc<Agent>,
    router: Router,
    auth: Auth,
    browsers: Browsers,
    keys: Arc<Keys<Answer>>,
    ids: RequestIds,
    front: Option<Fronted>,
}

/// What is spoken at the root, and whether it needs the token.
pub(crate) struct Fronted {
    pub(crate) front: Arc<dyn Front>,
    pub(crate) locked: bool,
}

/// Bytes under way in each direction between a front and the API.
const PIPE: usize = 64 * 1024;

impl Edge {
    pub(crate) fn new(
        agent: Arc<Agent>,
        auth: Auth,
        browsers: Browsers,
        front: Option<Fronted>,
    ) -> Self {
        let inner = Arc::new(Inner {
            router: api::router(Arc::clone(&agent)),
            agent,
            auth,
            browsers,
            keys: Arc::new(Keys::new(idempotency::CAPACITY)),
            ids: RequestIds::new(),
            front,
        });
        Self {
            inner,
            inside: false,
        }
    }

    /// Opens connections of our own.
    fn opener(&self) -> Opener {
        let inside = Self {
            inside: true,
            ..self.clone()
        };
        Arc::new(move || {
            let (ours, theirs) = tokio::io::duplex(PIPE);
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(theirs), inside.clone())
                .with_upgrades();
            // Its end is that of the client's; what went wrong has been answered.
            task::spawn(async move { drop(connection.await) });
            ours
        })
    }

    /// Answers in another protocol.
    async fn answer_in_front(&self, fronted: &Fronted, request: Request<Body>) -> Response {
        let caller = self.inner.browsers.check(&request);
        let admitted = caller.and_then(|caller| {
            let shown = fronted.front.shown(request.headers());
            let preflight = caller.preflight(&request);
            if preflight.is_some() || !fronted.locked || self.inner.auth.opens(shown) {
                return Ok((caller, preflight));
            }
            let detail = "there is no token that is the right one";
            Err(ApiError::new(ErrorCode::Unauthorized, detail))
        });
        let (caller, preflight) = match admitted {
            Ok(admitted) => admitted,
            Err(refused) => {
                let (head, body) = request.into_parts();
                drop(body);
                return fronted.front.refuse(refused.into_problem(), &head);
            }
        };
        let agent = &self.inner.agent;
        let way = Way {
            open: self.opener(),
            shutdown: agent.shutdown.clone(),
            held: (
                request.extensions().get::<Slot>().cloned(),
                agent.upgraded.token(),
            ),
        };
        let mut response = match preflight {
            Some(response) => response,
            None => fronted.front.answer(way, request).await,
        };
        caller.mark(response.headers_mut());
        response
    }

    /// Forgets idempotency keys that are too old.
    pub(crate) fn expire_keys(&self) {
        self.inner.keys.expire();
    }

    /// Answers one request. Never fails: what goes wrong is an answer too.
    pub(crate) async fn answer(&self, request: Request<Body>) -> Response {
        let began = Instant::now();
        self.inner.agent.naming.settle(&self.inner.agent.executor);
        let id = self.inner.ids.of(request.headers());
        let method = request.method().clone();
        let uri = request.uri().clone();
        if let Some(fronted) = &self.inner.front
            && !self.inside
            && !front::is_ours(uri.path())
        {
            let answer = AssertUnwindSafe(self.answer_in_front(fronted, request)).catch_unwind();
            let mut answer = answer.await.unwrap_or_else(|panic| {
                ApiError::internal("a dialect panicked", &text_of(&*panic)).into_response()
            });
            answer.headers_mut().insert(REQUEST_ID, id);
            let metrics = &self.inner.agent.metrics;
            metrics.request(&method, uri.path(), answer.status(), began.elapsed());
            return answer.map(|body| metrics.stream(body));
        }
        let proxied = Target::of(uri.path()).is_some();
        let (mut response, caller) = match self.admit(request, proxied) {
            Err(refused) => (refused.into_response(), Caller::Plain),
            Ok((Admitted::Answered(response), caller)) => (response, caller),
            Ok((Admitted::Request(request), caller)) => {
                let answer = AssertUnwindSafe(self.dispatch(request, proxied)).catch_unwind();
                let response = answer.await.unwrap_or_else(|panic| {
                    ApiError::internal("a handler panicked", &text_of(&*panic)).into_response()
                });
                (response, caller)
            }
        };
        if response.extensions().get::<Proxied>().is_some() {
            return response;
        }
        if response.status().is_client_error() || response.status().is_server_error() {
            response = render_problem(response, &id, &method, uri.path());
        }
        tracing::debug!(%method, path = uri.path(), status = response.status().as_u16(), ?id, "request");
        let metrics = &self.inner.agent.metrics;
        metrics.request(&method, uri.path(), response.status(), began.elapsed());
        let mut response = response.map(|body| metrics.stream(body));
        caller.mark(response.headers_mut());
        response.headers_mut().insert(REQUEST_ID, id);
        response
    }

    /// Lets a request in, or answers it here: who asks, from where, and with what right.
    fn admit(&self, request: Request<Body>, proxied: bool) -> Result<(Admitted, Caller), ApiError> {
        let caller = match self.inner.browsers.check(&request) {
            Ok(caller) => caller,
            // Probes ask by any name, and there is nothing in these for a foreign page.
            Err(_) if OPEN.contains(&request.uri().path()) => Caller::Plain,
            Err(refused) => return Err(refused),
        };
        if proxied {
            // The proxy knows of port tokens and decides itself.
            return Ok((Admitted::Request(request), caller));
        }
        if let Some(response) = caller.preflight(&request) {
            return Ok((Admitted::Answered(response), caller));
        }
        let (mut parts, body) = request.into_parts();
        // Taken out before anything could log it, and used up whether it is needed or not.
        let by_ticket =
            take_parameter(&mut parts, ticket::PARAMETER, ticket::PREFIX).map(|given| {
                let tickets = &self.inner.agent.tickets;
                let redeemed =
                    tickets.redeem(&given, &parts.method, parts.uri.path(), &parts.headers);
                redeemed.is_some()
            });
        let by_token = if self.inside {
            Ok(())
        } else {
            self.inner.auth.check(parts.uri.path(), &parts.headers)
        };
        let admitted = match (by_ticket, by_token) {
            (Some(true), _) | (_, Ok(())) => Ok(()),
            (Some(false), Err(_)) => Err(ApiError::new(
                ErrorCode::Unauthorized,
                "the ticket does not open this",
            )
            .hint("A ticket opens one stream of its path, once, within 30 seconds; POST /v1/tickets makes one.")),
            (None, Err(refused)) => Err(refused),
        };
        match admitted {
            Ok(()) => Ok((Admitted::Request(Request::from_parts(parts, body)), caller)),
            // A page that may use the API may also learn why it was refused.
            Err(refused) => Ok((Admitted::Answered(refused.into_response()), caller)),
        }
    }

    async fn dispatch(&self, request: Request<Body>, proxied: bool) -> Response {
        if proxied {
            return self
                .inner
                .agent
                .ports
                .proxy(&self.inner.auth, request)
                .await;
        }
        if let Err(refused) = api::routes::own().check_query(request.method(), request.uri()) {
            return refused.into_response();
        }
        if request.method() == Method::POST
            && let Some(key) = request.headers().get(IDEMPOTENCY_KEY)
        {
            return match valid_key(key) {
                Ok(key) => self.keyed(&key, request).await,
                Err(refused) => refused.into_response(),
            };
        }
        self.route(request).await
    }

    async fn route(&self, request: Request<Body>) -> Response {
        match self.inner.router.clone().call(request).await {
            Ok(response) => response,
        }
    }

    /// Answers a request that has a key: once for all that have it.
    async fn keyed(&self, key: &str, request: Request<Body>) -> Response {
        let target = format!("{} {}", request.method(), request.uri());
        match self.inner.keys.claim(key, &target).await {
            Claim::Full => ApiError::new(
                ErrorCode::LimitReached,
                format!(
                    "{} requests with idempotency keys are in flight",
                    idempotency::CAPACITY
                ),
            )
            .into_response(),
            Claim::Again(kept) => {
                let headers = request.headers().clone();
                let same = kept.target == target
                    && idempotency::digest_of(request.into_body())
                        .await
                        .is_ok_and(|digest| digest == kept.digest);
                if !same {
                    return ApiError::new(
                        ErrorCode::IdempotencyConflict,
                        format!("the idempotency key {key:?} was used for another request"),
                    )
                    .hint("Use a fresh key for every new request, the same one only to retry.")
                    .into_response();
                }
                let mut response =
                    api::repeat(&self.inner.agent, kept.answer.clone(), &headers).await;
                response
                    .headers_mut()
                    .insert(REPLAYED, HeaderValue::from_static("true"));
                response
            }
            Claim::First(ticket) => {
                let ticket = Arc::new(ticket);
                let mut request = request.map(|body| ticket.watch_body(body));
                request.extensions_mut().insert(KeyTicket::clone(&ticket));
                if api::answers_by_handle(request.uri().path()) {
                    return self.route(request).await;
                }
                // The client may go away: the work is done to its end and the answer kept.
                let edge = self.clone();
                let work = async move {
                    let response = edge.route(request).await;
                    keep(response, &ticket).await
                };
                task::spawn(work).await.unwrap_or_else(|error| {
                    ApiError::internal("a handler panicked", &error).into_response()
                })
            }
        }
    }
}

impl hyper::service::Service<Request<Incoming>> for Edge {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let edge = self.clone();
        Box::pin(async move { Ok(edge.answer(taken(request)).await) })
    }
}

/// The text of an idempotency key.
pub fn valid_key(key: &HeaderValue) -> Result<String, ApiError> {
    key.to_str()
        .ok()
        .filter(|key| (1..=idempotency::KEY_MAX).contains(&key.len()))
        .filter(|key| key.bytes().all(|byte| byte.is_ascii_graphic()))
        .map(str::to_owned)
        .ok_or_else(|| {
            ApiError::new(
                ErrorCode::InvalidRequest,
                format!(
                    "an idempotency key has 1 to {} visible ASCII characters",
                    idempotency::KEY_MAX
                ),
            )
            .hint("A UUID is a good key.")
        })
}

/// Keeps a small answer for repeating. A failure changed nothing and is not kept.
async fn keep(response: Response, ticket: &KeyTicket) -> Response {
    if !response.status().is_success() || ticket.is_answered() {
        return response;
    }
    let (head, body) = response.into_parts();
    let body: Bytes = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return ApiError::internal("an answer broke off", &error).into_response(),
    };
    ticket.answer(Answer::Whole(WholeAnswer {
        status: head.status,
        content_type: head.headers.get(header::CONTENT_TYPE).cloned(),
        body: body.clone(),
    }));
    Response::from_parts(head, Body::from(body))
}

/// Gives a failed answer its body.
pub fn render_problem(
    mut response: Response,
    id: &HeaderValue,
    method: &Method,
    path: &str,
) -> Response {
    if response.extensions().get::<Problem>().is_none() {
        // Not a failure of ours but of the router; its headers, such as `allow`, are right.
        let headers = std::mem::take(response.headers_mut());
        response = ApiError::from_status(response.status(), method.as_str(), path).into_response();
        response.headers_mut().extend(headers);
    }
    let Some(mut problem) = response.extensions_mut().remove::<Problem>() else {
        return response;
    };
    id.to_str()
        .unwrap_or_default()
        .clone_into(&mut problem.request_id);
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/problem+json"),
    );
    *response.body_mut() = Body::from(serde_json::to_vec(&problem).unwrap_or_default());
    response
}

/// What a panic said.
pub fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    if let Some(text) = panic.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text.clone()
    } else {
        "no message".to_owned()
    }
}
