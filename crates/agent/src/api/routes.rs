//! Which route a path belongs to, as the edge needs to know it: for figures, for queries, and for tickets.
//!
//! Made from the document, so that it cannot differ from the router. A lookup is a walk in the same
//! kind of tree as the router's and takes a fraction of a microsecond.
//!
//! A handler that reads a query refuses parameters it does not know. One that reads none would never
//! see a mistyped `?folow=true`; so a query is refused here where the document lists no parameter.

use std::sync::OnceLock;

use http::{HeaderMap, Method, Uri};
use sandshell_types::ErrorCode;

use crate::auth::OPEN;
use crate::browsers::{self, is_proxied};
use crate::problem::ApiError;
use crate::sse;

/// What the document says of a path.
#[derive(Debug)]
pub struct RouteFacts {
    /// As in the document, such as `/v1/processes/{id}`.
    pub template: &'static str,
    /// The methods that take no parameters in the query.
    pub without_query: &'static [&'static str],
    /// A GET can be answered by a stream of events.
    pub events: bool,
    /// A GET becomes a WebSocket.
    pub websocket: bool,
}

/// A path with its operations.
#[derive(Debug)]
pub struct Route {
    /// Its number, from 0.
    pub index: usize,
    facts: &'static RouteFacts,
}

impl Route {
    /// As in the document, such as `/v1/processes/{id}`.
    pub fn template(&self) -> &'static str {
        self.facts.template
    }
}

/// All paths of a document.
#[derive(Debug)]
pub struct Routes {
    tree: matchit::Router<usize>,
    all: Vec<Route>,
}

/// The routes of the agent.
pub(crate) fn own() -> &'static Routes {
    static ROUTES: OnceLock<Routes> = OnceLock::new();
    ROUTES.get_or_init(|| Routes::new(include!(concat!(env!("OUT_DIR"), "/routes.rs"))))
}

impl Routes {
    /// Those of a document.
    pub fn new(facts: &'static [RouteFacts]) -> Self {
        let mut tree = matchit::Router::new();
        let mut all = Vec::new();
        for facts in facts {
            let index = all.len();
            match tree.insert(facts.template, index) {
                Ok(()) => all.push(Route { index, facts }),
                Err(error) => {
                    tracing::error!(%error, facts.template, "a route cannot be looked up");
                }
            }
        }
        Self { tree, all }
    }

    /// All of them, by their number.
    pub fn all(&self) -> &[Route] {
        &self.all
    }

    /// The route of a path.
    pub fn find(&self, path: &str) -> Option<&Route> {
        let index = *self.tree.at(path).ok()?.value;
        self.all.get(index)
    }

    /// Whether a GET of a path can be answered by a stream.
    pub fn can_stream(&self, path: &str) -> bool {
        self.find(path)
            .is_some_and(|route| route.facts.events || route.facts.websocket)
    }

    /// Whether a GET that asks in this way is answered by a stream.
    pub(crate) fn streams(&self, path: &str, headers: &HeaderMap) -> bool {
        self.find(path).is_some_and(|route| {
            (route.facts.events && sse::wanted(headers))
                || (route.facts.websocket && browsers::is_websocket(headers))
        })
    }

    /// Refuses a query where none is taken. Probes and pages may have any, as caches and monitors add
    /// some; the query of a proxied request belongs to the server behind it.
    pub fn check_query(&self, method: &Method, uri: &Uri) -> Result<(), ApiError> {
        let Some(query) = uri.query().filter(|query| !query.is_empty()) else {
            return Ok(());
        };
        let path = uri.path();
        if OPEN.contains(&path) || is_proxied(path) {
            return Ok(());
        }
        if !self
            .find(path)
            .is_some_and(|route| route.facts.without_query.contains(&method.as_str()))
        {
            return Ok(());
        }
        let name = query.split(['=', '&']).next().unwrap_or_default();
        Err(ApiError::new(
            ErrorCode::InvalidRequest,
            format!(
                "the query is not valid: {method} {path} takes no parameters, and got {name:?}"
            ),
        )
        .pointer(format!("/{name}")))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn refused(method: &str, uri: &str) -> bool {
        own()
            .check_query(&method.parse().unwrap(), &uri.parse().unwrap())
            .is_err()
    }

    #[test]
    fn a_query_is_refused_where_none_is_taken() {
        assert!(refused("GET", "/v1/processes/a?folow=true"));
        assert!(refused("POST", "/v1/exec?wait=1"));
        assert!(!refused("GET", "/v1/processes/a"));
        assert!(!refused("GET", "/v1/processes?limit=1"));
        assert!(!refused("GET", "/v1/processes/a/output?follow=true"));
        assert!(!refused("POST", "/v1/processes/a/stdin?offset=0"));
        assert!(!refused("GET", "/healthz?probe=1"));
        assert!(!refused("GET", "/v1/ports/80/proxy/?q=1"));
        assert!(!refused("GET", "/v1/nothing?a"), "the router says 404");
    }

    #[test]
    fn streams_are_told_from_the_rest() {
        let paths = own().all().iter().map(Route::template);
        let streaming: Vec<&str> = paths.filter(|path| own().can_stream(path)).collect();
        let expected = [
            "/v1/events",
            "/v1/files/watch",
            "/v1/ports",
            "/v1/processes/{id}/output",
            "/v1/sessions/{id}/commands/{command_id}/output",
            "/v1/terminals/{id}/connect",
        ];
        assert_eq!(streaming, expected);
    }

    #[test]
    fn every_route_is_found() {
        for (index, route) in own().all().iter().enumerate() {
            let path = route.template().replace(['{', '}'], "");
            let found = own().find(&path).unwrap();
            assert_eq!((found.index, found.template()), (index, route.template()));
        }
        assert!(own().find("/v1/nothing").is_none());
    }
}
