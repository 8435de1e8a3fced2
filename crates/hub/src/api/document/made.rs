//! The document, made from the code.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use sandshell_agent::parts::{complete, responses};
use sandshell_types::{ErrorCode, Problem};
use serde_json::{Value, json};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Components, InfoBuilder, OpenApi, OpenApiBuilder, SecurityRequirement};
use utoipa::{PartialSchema as _, ToSchema};
use utoipa_axum::router::OpenApiRouter;

use crate::Hub;

/// The name of the token in the document.
const TOKEN: &str = "token";

/// Where the agent's routes are.
const BELOW: &str = "/v1/sandboxes/{sandbox}";

/// What the hub can answer in an agent's place.
const IN_ITS_PLACE: &[ErrorCode] = &[
    ErrorCode::Unauthorized,
    ErrorCode::Forbidden,
    ErrorCode::SandboxNotFound,
    ErrorCode::SandboxPaused,
    ErrorCode::SandboxGone,
    ErrorCode::LimitReached,
    ErrorCode::SandboxUnreachable,
    ErrorCode::Unavailable,
];

/// The document as pretty JSON.
pub(super) fn document() -> String {
    let empty = OpenApiRouter::<Arc<Hub>>::with_openapi(base());
    let rows = crate::api::documented().into_iter();
    let mut own = rows.fold(empty, OpenApiRouter::routes).into_openapi();
    complete(&mut own);
    let mut document = serde_json::to_value(own).unwrap_or_default();
    let agent: Value = serde_json::from_str(&sandshell_agent::openapi_json()).unwrap_or_default();
    for (path, item) in agent["paths"].as_object().into_iter().flatten() {
        if let Some(rest) = path.strip_prefix("/v1")
            && rest != "/tickets"
        {
            document["paths"][format!("{BELOW}{rest}")] = below(item);
        }
    }
    for (name, schema) in agent["components"]["schemas"]
        .as_object()
        .into_iter()
        .flatten()
    {
        document["components"]["schemas"][name] = schema.clone();
    }
    serde_json::to_string_pretty(&document).unwrap()
}

/// An agent's operations as they are at the hub.
fn below(item: &Value) -> Value {
    let mut item = item.clone();
    for operation in item
        .as_object_mut()
        .into_iter()
        .flat_map(serde_json::Map::values_mut)
    {
        let Some(fields) = operation.as_object_mut() else {
            continue;
        };
        let parameters = fields.entry("parameters").or_insert_with(|| json!([]));
        if let Some(parameters) = parameters.as_array_mut() {
            let sandbox = json!({
                "name": "sandbox", "in": "path", "required": true,
                "description": "The sandbox.",
                "schema": {"$ref": "#/components/schemas/SandboxId"},
            });
            parameters.insert(0, sandbox);
        }
        let answers = fields.entry("responses").or_insert_with(|| json!({}));
        for code in IN_ITS_PLACE {
            add_problem(answers, *code);
        }
    }
    item
}

fn add_problem(answers: &mut Value, code: ErrorCode) {
    for (status, response) in responses(&[code]) {
        let there = &mut answers[&status];
        let text = format!("`{}`: {}.", code.as_str(), code.title());
        if there.is_null() {
            *there = serde_json::to_value(response).unwrap_or_default();
        } else if let Some(known) = there["description"].as_str()
            && !known.contains(&text)
        {
            there["description"] = json!(format!("{known} {text}"));
        }
    }
}

fn base() -> OpenApi {
    let info = InfoBuilder::new()
        .title("Sandshell hub")
        .version(sandshell_agent::VERSION)
        .description(Some(
            "Many sandboxes: their making and ending, tokens, the audit log, and below \
             `/v1/sandboxes/{sandbox}` the whole API of each. Failures are RFC 9457 problem documents \
             with a stable `code`. Every POST takes an `Idempotency-Key`.",
        ))
        .build();
    let mut components = Components::new();
    components.add_security_scheme(
        TOKEN,
        SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build()),
    );
    let mut more = Vec::new();
    <Problem as ToSchema>::schemas(&mut more);
    <ErrorCode as ToSchema>::schemas(&mut more);
    components
        .schemas
        .insert(Problem::name().into_owned(), Problem::schema());
    components
        .schemas
        .insert(ErrorCode::name().into_owned(), ErrorCode::schema());
    components.schemas.extend(more);
    OpenApiBuilder::new()
        .info(info)
        .components(Some(components))
        .security(Some([SecurityRequirement::new::<&str, [&str; 0], &str>(
            TOKEN,
            [],
        )]))
        .build()
}
