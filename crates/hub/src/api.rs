//! The hub's own routes.
//!
//! Owns the route table, from which both the router and the `OpenAPI` document are made. Handlers
//! translate between the wire and the registry, and keep nothing.

mod audit;
mod document;
mod images;
mod previews;
mod sandboxes;
mod service;
mod tokens;
pub(crate) mod validate;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Extension, State};
use sandshell_agent::parts;

use crate::Hub;
use crate::sandbox::By;
use crate::tokens::Token;

pub use document::openapi_json;
pub(crate) use document::served;

type HubState = State<Arc<Hub>>;
type WithToken = Extension<Arc<Token>>;
type WithBy = Extension<By>;

sandshell_agent::table! {
    /// Every route.
    Arc<Hub> {
        sandboxes::create, sandboxes::list;
        sandboxes::get, sandboxes::patch, sandboxes::destroy;
        sandboxes::pause;
        sandboxes::resume;
        sandboxes::keepalive;
        previews::create, previews::revoke;
        images::create, images::list;
        images::import, images::get, images::remove;
        tokens::create, tokens::list;
        tokens::get, tokens::revoke;
        audit::list;
        service::tickets;
        parts::healthz;
        service::readyz;
        parts::version;
        service::openapi;
        service::docs;
        service::metrics;
    }
}

pub(crate) fn router(hub: Arc<Hub>) -> Router {
    parts::router(table()).with_state(hub)
}

/// A body without any field, for routes that need none.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}
