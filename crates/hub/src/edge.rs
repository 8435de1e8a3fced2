//! The edge: what happens to every request of the hub.
//!
//! ```text
//! request ─► id ─► Host, Origin ─► token or ticket ─► rate ─┬─► a sandbox's route ─► route
//!                                                          └─► (idempotency key) ─► router
//! answer  ◄─ id ◄─ CORS ◄─ problem document ◄────────────────────────┘
//! ```
//!
//! Owns admission and the form of answers, and does it as the agent's edge does, with its parts. What
//! comes from an agent is passed on as it is.

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
use http::{HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use sandshell_agent::parts::{
    ApiError, CAPACITY, Caller, Claim, IDEMPOTENCY_KEY, OPEN, REPLAYED, REQUEST_ID,
    TICKET_PARAMETER, TICKET_PREFIX, Ticket, digest_of, render_problem, take_parameter, taken,
    text_of, valid_key,
};
use sandshell_sys::task;
use sandshell_types::ErrorCode;
use tower::Service as _;

use crate::Hub;
use crate::api;
use crate::dialects::{self, Asked};
use crate::mcp;
use crate::preview::{self, Name};
use crate::route::{self, Admission, Forwarded, Outside, open_until};
use crate::sandbox::By;
use crate::tokens::Token;

/// The key of a request, for handlers whose work outlives this hub.
#[derive(Debug, Clone)]
pub(crate) struct GivenKey(pub(crate) String);

/// A small answer, kept for repeating.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    status: StatusCode,
    content_type: Option<HeaderValue>,
    body: Bytes,
}

/// What became of a request at the door.
enum Admitted {
    Request(Request<Body>, Option<Arc<Token>>),
    Answered(Response),
}

/// The service of every connection.
#[derive(Clone)]
pub(crate) struct Edge {
    hub: Arc<Hub>,
    router: Router,
    /// Whose calls these are, where that was found out before they came here.
    caller: Option<Arc<Token>>,
}

/// A path below one sandbox.
struct Below<'a> {
    sandbox: &'a str,
    rest: &'a str,
}

impl<'a> Below<'a> {
    /// The sandbox of a path and what follows it; `None` for the hub's own routes.
    fn of(path: &'a str) -> Option<Self> {
        let (sandbox, rest) = path.strip_prefix("/v1/sandboxes/")?.split_once('/')?;
        let preview = rest.starts_with("ports/") && rest.ends_with("/preview");
        let preview = preview && rest.matches('/').count() == 2;
        let ours = preview || matches!(rest, "pause" | "resume" | "keepalive" | "");
        (!sandbox.is_empty() && !ours).then_some(Self { sandbox, rest })
    }

    /// The port, when it belongs to the server behind one.
    fn port(&self) -> Option<&'a str> {
        let (port, rest) = self.rest.strip_prefix("ports/")?.split_once('/')?;
        (rest == "proxy" || rest.starts_with("proxy/")).then_some(port)
    }
}

impl Edge {
    pub(crate) fn new(hub: Arc<Hub>) -> Self {
        Self {
            router: api::router(Arc::clone(&hub)),
            hub,
            caller: None,
        }
    }

    /// This edge for the calls of whoever has a token.
    pub(crate) fn for_caller(&self, token: Arc<Token>) -> Self {
        Self {
            caller: Some(token),
            ..self.clone()
        }
    }

    /// Answers one request. Never fails: what goes wrong is an answer too.
    async fn answer(&self, mut request: Request<Body>) -> Response {
        let began = Instant::now();
        let id = self.hub.ids.of(request.headers());
        let named = Asked::by_name(&mut request, &self.hub.dialects);
        let method = request.method().clone();
        let uri = request.uri().clone();
        if named.is_none()
            && let Some(name) = self.hub.previews.name_in(&request)
        {
            let shown = match name {
                preview::Asked::Name(name) => self.show(&name, request, &id).await,
                preview::Asked::Nothing => preview::nothing().into_response(),
            };
            return self.finish(shown, &id, &method, &uri, began, Caller::Plain);
        }
        if let Some(asked) = named.or_else(|| Asked::of(&uri, &self.hub.dialects)) {
            let shown = asked.shown();
            let answer = dialects::answer(self, asked, request, &id);
            let answer = AssertUnwindSafe(answer).catch_unwind().await;
            let (answer, caller) = answer.unwrap_or_else(|panic| {
                let failed = ApiError::internal("a dialect panicked", &text_of(&*panic));
                (failed.into_response(), Caller::Plain)
            });
            return self.finish(answer, &id, &method, &shown, began, caller);
        }
        let (response, caller) = match self.admit(request) {
            Err(refused) => (refused.into_response(), Caller::Plain),
            Ok((Admitted::Answered(response), caller)) => (response, caller),
            Ok((Admitted::Request(request, token), caller)) => {
                let ended = token.as_ref().map(|token| token.ended().clone());
                let answer = self.dispatch(request, token, &id);
                let answer = AssertUnwindSafe(answer).catch_unwind().await;
                let response = answer.unwrap_or_else(|panic| {
                    ApiError::internal("a handler panicked", &text_of(&*panic)).into_response()
                });
                match ended {
                    Some(ended) => (open_until(response, ended), caller),
                    None => (response, caller),
                }
            }
        };
        self.finish(response, &id, &method, &uri, began, caller)
    }

    /// Passes a request for the name of a port on.
    async fn show(&self, name: &Name, request: Request<Body>, id: &HeaderValue) -> Response {
        let passed = async {
            let sandbox = self.hub.registry.any_live(&name.sandbox);
            let sandbox = self.hub.previews.check(name, sandbox)?;
            let path = request.uri().path_and_query();
            let path = path.map_or("/", http::uri::PathAndQuery::as_str);
            let target = format!("/v1/ports/{}/proxy{path}", name.port);
            // The name is enough; a token of the hub's that came with it is not the sandbox's to see.
            let by = match self.hub.tokens.of(request.headers()) {
                Some(_) => Admission::Token,
                None => Admission::Name,
            };
            let prefix = "/".to_owned();
            let outside = Outside::Port { prefix, by };
            let until = None;
            let tunnels = &self.hub.tunnels;
            route::pass(&sandbox, &target, &outside, request, id, tunnels, until).await
        };
        passed.await.unwrap_or_else(IntoResponse::into_response)
    }

    /// Gives an answer the form all have, and counts it.
    fn finish(
        &self,
        mut response: Response,
        id: &HeaderValue,
        method: &Method,
        uri: &Uri,
        began: Instant,
        caller: Caller,
    ) -> Response {
        let forwarded = response.extensions().get::<Forwarded>().is_some();
        let failed = response.status().is_client_error() || response.status().is_server_error();
        if failed && !forwarded {
            response = render_problem(response, id, method, uri.path());
        }
        let status = response.status();
        tracing::debug!(%method, path = uri.path(), status = status.as_u16(), ?id, "request");
        let metrics = &self.hub.metrics;
        metrics.request(method, uri.path(), status, began.elapsed());
        let mut response = response.map(|body| metrics.stream(body));
        caller.mark(response.headers_mut());
        if !forwarded {
            response.headers_mut().insert(REQUEST_ID, id.clone());
        }
        response
    }

    /// Lets a request in, or answers it here: who asks, from where, and with what right.
    fn admit(&self, request: Request<Body>) -> Result<(Admitted, Caller), ApiError> {
        let open = OPEN.contains(&request.uri().path());
        let caller = match self.hub.browsers.check(&request) {
            Ok(caller) => caller,
            // Probes ask by any name, and there is nothing in these for a foreign page.
            Err(_) if open => Caller::Plain,
            Err(refused) => return Err(refused),
        };
        if let Some(response) = caller.preflight(&request) {
            return Ok((Admitted::Answered(response), caller));
        }
        if open {
            return Ok((Admitted::Request(request, None), caller));
        }
        let (mut parts, body) = request.into_parts();
        // Taken out before anything could log it, and used up whether it is needed or not.
        let ticket = take_parameter(&mut parts, TICKET_PARAMETER, TICKET_PREFIX);
        let by_ticket = ticket.as_ref().and_then(|given| {
            let path = parts.uri.path();
            let tickets = &self.hub.tickets;
            let ended = tickets.redeem(given, &parts.method, path, &parts.headers)?;
            let sandbox = Below::of(path)?.sandbox.parse().ok()?;
            (!ended.is_cancelled()).then(|| Token::for_sandbox(sandbox, ended))
        });
        let known = self.caller.clone();
        let known = known.filter(|token| !token.ended().is_cancelled());
        let token = known.or_else(|| self.hub.tokens.of(&parts.headers));
        let token = token.or(by_ticket);
        let request = Request::from_parts(parts, body);
        let Some(token) = token else {
            let proxied = Below::of(request.uri().path()).and_then(|below| below.port());
            if proxied.is_some() {
                // A port may have a token of its own, which its agent knows.
                return Ok((Admitted::Request(request, None), caller));
            }
            let refused = refusal(&request, ticket.is_some());
            // A page that may use the API may also learn why it was refused.
            return Ok((Admitted::Answered(refused.into_response()), caller));
        };
        if let Err(refused) = token.count() {
            return Ok((Admitted::Answered(refused.into_response()), caller));
        }
        Ok((Admitted::Request(request, Some(token)), caller))
    }

    async fn dispatch(
        &self,
        mut request: Request<Body>,
        token: Option<Arc<Token>>,
        id: &HeaderValue,
    ) -> Response {
        let uri = request.uri().clone();
        if let Some(below) = Below::of(uri.path()) {
            let passed = self.pass(&below, request, token, id).await;
            return passed.unwrap_or_else(IntoResponse::into_response);
        }
        if uri.path() == mcp::PATH {
            return mcp::answer(self, token, request, id).await;
        }
        if let Err(refused) = self.hub.routes.check_query(request.method(), &uri) {
            return refused.into_response();
        }
        let Some(token) = token else {
            return self.route(request).await;
        };
        request.extensions_mut().insert(By {
            token: Some(token.id().to_owned()),
            request_id: id.to_str().ok().map(str::to_owned),
        });
        request.extensions_mut().insert(Arc::clone(&token));
        if request.method() == Method::POST
            && let Some(key) = request.headers().get(IDEMPOTENCY_KEY)
        {
            return match valid_key(key) {
                Ok(key) => self.keyed(&token, key, request).await,
                Err(refused) => refused.into_response(),
            };
        }
        self.route(request).await
    }

    /// Passes a request on to the agent of a sandbox.
    async fn pass(
        &self,
        below: &Below<'_>,
        request: Request<Body>,
        token: Option<Arc<Token>>,
        id: &HeaderValue,
    ) -> Result<Response, ApiError> {
        let until = token.as_ref().map(|token| token.ended().clone());
        let (sandbox, by) = match token {
            Some(token) => {
                let sandbox = self.hub.registry.live(below.sandbox, &token)?;
                (sandbox, Admission::Token)
            }
            // Nobody learns from a wrong token whether the sandbox is there.
            None => match self.hub.registry.any_live(below.sandbox) {
                Some(sandbox) if shows_port_token(&request) => (sandbox, Admission::Visitor),
                _ => return Err(refusal(&request, false)),
            },
        };
        if below.rest == "tickets" {
            return Err(ApiError::new(
                ErrorCode::NotFound,
                "the tickets of a sandbox are made by the hub",
            )
            .hint("POST /v1/tickets with the whole path, such as /v1/sandboxes/ID/events."));
        }
        let target = match request.uri().query() {
            Some(query) => format!("/v1/{}?{query}", below.rest),
            None => format!("/v1/{}", below.rest),
        };
        let base = format!("/v1/sandboxes/{}", below.sandbox);
        let outside = match below.port() {
            Some(port) => Outside::Port {
                prefix: format!("{base}/ports/{port}/proxy"),
                by,
            },
            None => Outside::Api { base },
        };
        let tunnels = &self.hub.tunnels;
        route::pass(&sandbox, &target, &outside, request, id, tunnels, until).await
    }

    pub(crate) fn hub(&self) -> &Hub {
        &self.hub
    }

    async fn route(&self, request: Request<Body>) -> Response {
        match self.router.clone().call(request).await {
            Ok(response) => response,
        }
    }

    /// Answers a request that has a key: once for all that have it. Keys of one token are not those of
    /// another.
    async fn keyed(&self, token: &Token, key: String, mut request: Request<Body>) -> Response {
        let target = format!("{} {}", request.method(), request.uri());
        let whole = format!("{} {key}", token.id());
        match self.hub.keys.claim(&whole, &target).await {
            Claim::Full => {
                let detail = format!("{CAPACITY} requests with idempotency keys are in flight");
                ApiError::new(ErrorCode::LimitReached, detail).into_response()
            }
            Claim::Again(kept) => {
                let same = kept.target == target
                    && digest_of(request.into_body())
                        .await
                        .is_ok_and(|digest| digest == kept.digest);
                if !same {
                    let detail =
                        format!("the idempotency key {key:?} was used for another request");
                    return ApiError::new(ErrorCode::IdempotencyConflict, detail)
                        .hint("Use a fresh key for every new request, the same one only to retry.")
                        .into_response();
                }
                repeat(kept.answer.clone())
            }
            Claim::First(ticket) => {
                let ticket = Arc::new(ticket);
                request.extensions_mut().insert(GivenKey(key));
                let request = request.map(|body| ticket.watch_body(body));
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

fn refusal(request: &Request<Body>, with_ticket: bool) -> ApiError {
    if with_ticket {
        return ApiError::new(ErrorCode::Unauthorized, "the ticket does not open this").hint(
            "A ticket opens one stream of its path, once, within 30 seconds; POST /v1/tickets makes one.",
        );
    }
    let wrong = if request.headers().contains_key(header::AUTHORIZATION) {
        "the token is not a right one"
    } else {
        "there is no token"
    };
    ApiError::new(ErrorCode::Unauthorized, wrong)
        .hint("Send `Authorization: Bearer TOKEN` with a token of this hub.")
}

/// Whether a request shows what may be the token of a port; the agent knows.
fn shows_port_token(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    let cookies = request.headers().get_all(header::COOKIE).iter();
    query.contains("port_token=")
        || request.headers().contains_key("x-port-token")
        || cookies
            .filter_map(|cookies| cookies.to_str().ok())
            .any(|cookies| cookies.contains("sandshell_port_"))
}

/// Keeps a small answer for repeating. A failure changed nothing and is not kept.
async fn keep(response: Response, ticket: &Ticket<Answer>) -> Response {
    if !response.status().is_success() {
        return response;
    }
    let (head, body) = response.into_parts();
    let body: Bytes = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return ApiError::internal("an answer broke off", &error).into_response(),
    };
    ticket.answer(Answer {
        status: head.status,
        content_type: head.headers.get(header::CONTENT_TYPE).cloned(),
        body: body.clone(),
    });
    Response::from_parts(head, Body::from(body))
}

fn repeat(answer: Answer) -> Response {
    let mut response = Response::new(Body::from(answer.body));
    *response.status_mut() = answer.status;
    let headers = response.headers_mut();
    if let Some(content_type) = answer.content_type {
        headers.insert(header::CONTENT_TYPE, content_type);
    }
    headers.insert(REPLAYED, HeaderValue::from_static("true"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_which_paths_are_a_sandboxs() {
        let of = |path| Below::of(path).map(|below| (below.sandbox, below.rest));
        assert_eq!(of("/v1/sandboxes/a/exec"), Some(("a", "exec")));
        assert_eq!(
            of("/v1/sandboxes/a/files/content"),
            Some(("a", "files/content"))
        );
        assert_eq!(of("/v1/sandboxes/a/pausex"), Some(("a", "pausex")));
        for ours in [
            "/v1/sandboxes",
            "/v1/sandboxes/",
            "/v1/sandboxes/a",
            "/v1/sandboxes/a/",
            "/v1/sandboxes/a/pause",
            "/v1/sandboxes/a/ports/80/preview",
            "/v1/sandboxes//exec",
            "/v1/tokens/a/b",
        ] {
            assert_eq!(of(ours), None, "{ours}");
        }
        let port = |path| Below::of(path).and_then(|below| below.port());
        assert_eq!(port("/v1/sandboxes/a/ports/80/proxy/"), Some("80"));
        assert_eq!(port("/v1/sandboxes/a/ports/80/proxy"), Some("80"));
        assert_eq!(port("/v1/sandboxes/a/ports/80/proxy/x/preview"), Some("80"));
        assert_eq!(port("/v1/sandboxes/a/ports/80"), None);
        assert_eq!(port("/v1/sandboxes/a/ports/80/proxyx"), None);
    }
}
