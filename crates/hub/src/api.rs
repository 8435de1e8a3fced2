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
use utoipa_axum::router::UtoipaMethodRouter;
use utoipa_axum::routes;

use crate::Hub;
use crate::sandbox::By;
use crate::tokens::Token;

pub use document::openapi_json;
pub(crate) use document::served;

type HubState = State<Arc<Hub>>;
type WithToken = Extension<Arc<Token>>;
type WithBy = Extension<By>;

/// Every route.
fn table() -> Vec<UtoipaMethodRouter<Arc<Hub>>> {
    vec![
        routes!(sandboxes::create, sandboxes::list),
        routes!(sandboxes::get, sandboxes::patch, sandboxes::destroy),
        routes!(sandboxes::pause),
        routes!(sandboxes::resume),
        routes!(sandboxes::keepalive),
        routes!(previews::create, previews::revoke),
        routes!(images::create, images::list),
        routes!(images::import, images::get, images::remove),
        routes!(tokens::create, tokens::list),
        routes!(tokens::get, tokens::revoke),
        routes!(audit::list),
        routes!(service::tickets),
        routes!(parts::healthz),
        routes!(service::readyz),
        routes!(parts::version),
        routes!(service::openapi),
        routes!(service::docs),
        routes!(service::metrics),
    ]
}

pub(crate) fn router(hub: Arc<Hub>) -> Router {
    document::assemble(table())
        .split_for_parts()
        .0
        .with_state(hub)
}

/// A body without any field, for routes that need none.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}
