//! The document, made from the code.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use sandshell_types::{ErrorCode, Problem, TerminalClientFrame, TerminalFrame};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Components, InfoBuilder, OpenApi, OpenApiBuilder, SecurityRequirement};
use utoipa::{PartialSchema, ToSchema};
use utoipa_axum::router::OpenApiRouter;

use super::complete::complete;
use crate::Agent;

/// The name of the token in the document.
const TOKEN: &str = "token";

/// The document as pretty JSON.
pub(super) fn document() -> String {
    let empty = OpenApiRouter::<Arc<Agent>>::with_openapi(base());
    let rows = crate::api::documented().into_iter();
    let mut document = rows.fold(empty, OpenApiRouter::routes).into_openapi();
    complete(&mut document);
    document.to_pretty_json().unwrap()
}

pub(super) fn base() -> OpenApi {
    let info = InfoBuilder::new()
        .title("Sandshell agent")
        .version(crate::VERSION)
        .description(Some(
            "The API of one sandbox: exec, processes, sessions, terminals, code contexts, files (content, \
             changes, search, watches, archives), backups, git, ports, and the sandbox's environment, events \
             and figures. Failures are RFC 9457 problem documents with a stable `code`. Every POST takes an \
             `Idempotency-Key`.",
        ))
        .build();
    let mut components = Components::new();
    components.add_security_scheme(
        TOKEN,
        SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build()),
    );
    // Not bodies of any route, but of every failure and of a terminal's connection.
    add_schema::<Problem>(&mut components);
    add_schema::<ErrorCode>(&mut components);
    add_schema::<TerminalFrame>(&mut components);
    add_schema::<TerminalClientFrame>(&mut components);
    OpenApiBuilder::new()
        .info(info)
        .components(Some(components))
        .security(Some([SecurityRequirement::new::<&str, [&str; 0], &str>(
            TOKEN,
            [],
        )]))
        .build()
}

fn add_schema<T: ToSchema + PartialSchema>(components: &mut Components) {
    let mut more = Vec::new();
    T::schemas(&mut more);
    components
        .schemas
        .insert(T::name().into_owned(), T::schema());
    components.schemas.extend(more);
}
