//! Queries of operations that take none.
//!
//! A handler that reads a query refuses parameters it does not know. One that reads none would never
//! see a mistyped `?folow=true`; so the edge asks here, and only for requests that have a query, which
//! operations take one according to the document.

use std::sync::OnceLock;

use http::{Method, Uri};
use sandshell_types::ErrorCode;
use serde_json::Value;

use super::document;
use crate::auth::OPEN;
use crate::browsers::is_proxied;
use crate::problem::ApiError;

/// An operation without parameters in the query.
struct Operation {
    method: Method,
    path: String,
}

/// Refuses a query where none is taken. Probes and pages may have any, as caches and monitors add
/// some; the query of a proxied request belongs to the server behind it.
pub(crate) fn check(method: &Method, uri: &Uri) -> Result<(), ApiError> {
    let Some(query) = uri.query().filter(|query| !query.is_empty()) else {
        return Ok(());
    };
    let path = uri.path();
    if OPEN.contains(&path) || is_proxied(path) {
        return Ok(());
    }
    static WITHOUT: OnceLock<Vec<Operation>> = OnceLock::new();
    let without = WITHOUT.get_or_init(operations_without_query);
    let refused = without
        .iter()
        .any(|operation| operation.method == method && fits(&operation.path, path));
    if !refused {
        return Ok(());
    }
    let name = query.split(['=', '&']).next().unwrap_or_default();
    Err(ApiError::new(
        ErrorCode::InvalidRequest,
        format!("the query is not valid: {method} {path} takes no parameters, not {name:?} either"),
    )
    .pointer(format!("/{name}")))
}

fn operations_without_query() -> Vec<Operation> {
    let document: Value = serde_json::from_slice(&document::served()).unwrap_or_default();
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in item.as_object().into_iter().flatten() {
            let mut parameters = operation["parameters"].as_array().into_iter().flatten();
            if parameters.any(|parameter| parameter["in"] == "query") {
                continue;
            }
            if let Ok(method) = method.to_uppercase().parse() {
                let path = path.clone();
                found.push(Operation { method, path });
            }
        }
    }
    found
}

/// Whether a path is one of a template's.
fn fits(template: &str, path: &str) -> bool {
    let mut parts = path.split('/');
    for expected in template.split('/') {
        if expected.starts_with("{*") {
            return true;
        }
        match parts.next() {
            Some(part) if expected == part => {}
            Some(part) if expected.starts_with('{') && !part.is_empty() => {}
            _ => return false,
        }
    }
    parts.next().is_none()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn refused(method: &str, uri: &str) -> bool {
        check(&method.parse().unwrap(), &uri.parse().unwrap()).is_err()
    }

    #[test]
    fn only_where_none_is_taken() {
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
    fn templates_fit() {
        assert!(fits("/a/{id}/b", "/a/x/b") && fits("/a/{*rest}", "/a/x/y"));
        assert!(
            !fits("/a/{id}", "/a/x/b") && !fits("/a/{id}/b", "/a/x") && !fits("/a/{id}", "/a/")
        );
    }
}
