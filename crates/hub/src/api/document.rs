//! The hub's `OpenAPI` document: its own routes, and the agent's below each sandbox.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use axum::body::Bytes;
use sandshell_agent::parts::{complete, responses};
use sandshell_types::{ErrorCode, Problem};
use serde_json::{Value, json};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{
    Components, InfoBuilder, OpenApi, OpenApiBuilder, RefOr, SecurityRequirement,
};
use utoipa::{IntoResponses, PartialSchema as _, ToSchema};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

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

/// The router and the document of a table.
pub(super) fn assemble(table: Vec<UtoipaMethodRouter<Arc<Hub>>>) -> OpenApiRouter<Arc<Hub>> {
    table
        .into_iter()
        .fold(OpenApiRouter::with_openapi(base()), OpenApiRouter::routes)
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

fn document() -> Value {
    let mut own = assemble(super::table()).into_openapi();
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
    document
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

/// The document as pretty JSON.
pub fn openapi_json() -> String {
    serde_json::to_string_pretty(&document()).unwrap_or_default()
}

/// The document as it is served, made once.
pub(crate) fn served() -> Bytes {
    static SERVED: OnceLock<Bytes> = OnceLock::new();
    SERVED.get_or_init(|| document().to_string().into()).clone()
}

/// A set of problems that a group of routes can give.
macro_rules! problems {
    ($($(#[$doc:meta])* $name:ident: $($code:ident)*;)*) => {$(
        $(#[$doc])*
        pub(super) struct $name;

        impl IntoResponses for $name {
            fn responses() -> BTreeMap<String, RefOr<utoipa::openapi::Response>> {
                responses(&[$(ErrorCode::$code),*])
            }
        }
    )*};
}

problems! {
    /// Of the making of a sandbox.
    CreateProblems: InvalidRequest Unauthorized Forbidden ImageNotFound IdConflict IdempotencyConflict BodyTooLarge
        UnsupportedMediaType IsolationUnavailable LimitReached Internal Unavailable;
    /// Of routes that look at sandboxes.
    ReadProblems: InvalidRequest Unauthorized SandboxNotFound Internal;
    /// Of routes that change one.
    SandboxChangeProblems: InvalidRequest Unauthorized Forbidden SandboxNotFound SandboxGone
        IdempotencyConflict BodyTooLarge UnsupportedMediaType LimitReached Internal Unavailable;
    /// Of routes that look at images.
    ImageProblems: InvalidRequest Unauthorized Forbidden ImageNotFound Internal;
    /// Of the removal of one.
    ImageRemoveProblems: InvalidRequest Unauthorized Forbidden ImageNotFound ImageInUse Internal;
    /// Of the making of one.
    ImageImportProblems: InvalidRequest Unauthorized Forbidden ImageInUse IdempotencyConflict
        BodyTooLarge UnsupportedMediaType InvalidImage LimitReached Internal NoSpace;
    /// Of a change of a sandbox's spec.
    SandboxPatchProblems: InvalidRequest Unauthorized Forbidden SandboxNotFound SandboxGone
        IdempotencyConflict BodyTooLarge UnsupportedMediaType LimitUnavailable LimitReached Internal
        Unavailable;
    /// Of routes for admins.
    AdminProblems: InvalidRequest Unauthorized Forbidden Internal;
    /// Of routes about one token.
    TokenProblems: InvalidRequest Unauthorized Forbidden TokenNotFound Internal;
    /// Of the making of a token.
    TokenChangeProblems: InvalidRequest Unauthorized Forbidden IdempotencyConflict BodyTooLarge
        UnsupportedMediaType LimitReached Internal;
    /// Of the making of a ticket.
    TicketProblems: InvalidRequest Unauthorized SandboxNotFound SandboxGone BodyTooLarge
        UnsupportedMediaType LimitReached;
    /// Of routes about previews.
    PreviewProblems: InvalidRequest Unauthorized Forbidden SandboxNotFound SandboxGone
        IdempotencyConflict BodyTooLarge UnsupportedMediaType LimitReached Internal Unavailable;
    /// Of the readiness probe.
    ReadyProblems: Unavailable;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_code_is_listed() {
        let document = document().to_string();
        let unlisted: Vec<&str> = ErrorCode::ALL
            .iter()
            .map(|code| code.as_str())
            .filter(|code| !document.contains(&format!("`{code}`: ")))
            .collect();
        assert!(unlisted.is_empty(), "no route lists {unlisted:?}");
    }
}
