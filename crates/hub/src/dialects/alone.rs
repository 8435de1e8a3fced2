//! Dialects of an agent that has no hub, spoken at its root.
//!
//! There is one sandbox, the agent's own, and one token, if any: E2B's clients show it as `X-Access-Token`,
//! Cloudflare's have no way to, so that theirs is a bearer like ours.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, header};
use sandshell_agent::front::{Answer, Front, Way};
use sandshell_client::{Client, Connector};
use sandshell_compat::{Cloudflare, Lease};
use sandshell_compat_e2b::{E2b, ENVD_PORT, INTERPRETER_PORT, Key, Settings};
use sandshell_types::{ErrorCode, Problem, SandboxId};

use super::Dialect;

/// What speaks a dialect at the root of an agent; `None` for those that are about many sandboxes.
pub fn front(dialect: Dialect) -> Option<Arc<dyn Front>> {
    match dialect {
        Dialect::Cloudflare => Some(Arc::new(OfCloudflare(Cloudflare::new()))),
        Dialect::E2b => {
            let settings = Settings {
                // There is nothing to sign for: an agent has one token, or none.
                key: Key::new(Vec::new()),
                domain: None,
            };
            Some(Arc::new(OfE2b(E2b::new(settings))))
        }
        Dialect::Bridge | Dialect::Daytona => None,
    }
}

#[derive(Debug)]
struct OfCloudflare(Cloudflare);

#[derive(Debug)]
struct OfE2b(E2b);

/// A client of the agent, and the right to stay.
fn inside(way: Way, headers: &HeaderMap) -> (Client, Lease) {
    let open = way.open;
    let local = || HeaderValue::from_static("localhost");
    let host = headers.get(header::HOST).cloned().unwrap_or_else(local);
    let client = Client::in_process(Connector::new(move || open()), host);
    let until = [way.shutdown.clone(), way.shutdown];
    (client, Lease::new(until, way.held))
}

impl Front for OfCloudflare {
    fn shown<'a>(&self, headers: &'a HeaderMap) -> Option<&'a [u8]> {
        let shown = headers.get(header::AUTHORIZATION)?.as_bytes();
        shown.strip_prefix(b"Bearer ")
    }

    fn refuse(&self, problem: Problem, _: &Parts) -> Response {
        Cloudflare::refuse(problem)
    }

    fn answer(&self, way: Way, request: Request<Body>) -> Answer {
        let (client, lease) = inside(way, request.headers());
        let dialect = self.0.clone();
        Box::pin(async move { dialect.answer(client, lease, request).await })
    }
}

impl Front for OfE2b {
    fn shown<'a>(&self, headers: &'a HeaderMap) -> Option<&'a [u8]> {
        let mut names = ["x-access-token", "x-api-key"].into_iter();
        let shown = names.find_map(|name| headers.get(name))?.as_bytes();
        Some(shown.strip_prefix(b"e2b_").unwrap_or(shown))
    }

    fn second_port(&self, first: u16) -> Option<u16> {
        (first == ENVD_PORT).then_some(INTERPRETER_PORT)
    }

    fn refuse(&self, problem: Problem, head: &Parts) -> Response {
        let kind = head.headers.get(header::CONTENT_TYPE);
        E2b::refuse(problem, head.uri.path(), kind, true)
    }

    fn answer(&self, way: Way, request: Request<Body>) -> Answer {
        // It has no sockets to hold.
        let (client, _) = inside(way, request.headers());
        let port = request.headers().get("e2b-sandbox-port");
        let port = port.and_then(|port| port.to_str().ok()?.parse().ok());
        let port = port.unwrap_or(ENVD_PORT);
        let Ok(id) = "agent".parse::<SandboxId>() else {
            let problem = Problem::new(ErrorCode::Internal, "the agent has no name");
            return Box::pin(async move { E2b::refuse(problem, "/", None, true) });
        };
        let dialect = self.0.clone();
        Box::pin(async move {
            let answer = dialect.answer_inside(client, id, port, request);
            answer.await
        })
    }
}
