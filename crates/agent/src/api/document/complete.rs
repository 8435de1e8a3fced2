//! What is true of every operation and therefore written by none.
//!
//! The edge answers before and around the handlers: it refuses requests without a token or from a
//! foreign page, takes idempotency keys, and catches panics; the reading of JSON bodies has its own
//! refusals. These answers and parameters are added here to each operation that does not list them.

use sandshell_types::ErrorCode;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{SchemaType, Type};
use utoipa::openapi::{
    Components, Content, ObjectBuilder, OpenApi, PathItem, RefOr, Required, Response, Schema,
};

use super::responses;
use crate::idempotency::KEY_MAX;

/// What the edge can answer to any request that needs a token.
const EDGE: &[ErrorCode] = &[
    ErrorCode::InvalidRequest,
    ErrorCode::Unauthorized,
    ErrorCode::Forbidden,
    ErrorCode::Internal,
];

/// What it can answer to a POST besides.
const KEYED: &[ErrorCode] = &[ErrorCode::IdempotencyConflict, ErrorCode::LimitReached];

/// What the reading of a JSON body can answer, in any handler.
const JSON_BODY: &[ErrorCode] = &[ErrorCode::BodyTooLarge, ErrorCode::UnsupportedMediaType];

/// Adds to every operation what the edge does, and to every request the example of its schema.
pub fn complete(document: &mut OpenApi) {
    let components = document.components.clone().unwrap_or_default();
    for item in document.paths.paths.values_mut() {
        for (is_post, operation) in operations(item) {
            if let Some(RefOr::T(body)) = &mut operation.request_body {
                body.content
                    .values_mut()
                    .for_each(|content| add_example(content, &components));
            }
            // `security(())` marks the routes that are open to all.
            if operation.security.is_some() {
                continue;
            }
            add_problems(operation, EDGE);
            if let Some(RefOr::T(body)) = &operation.request_body
                && body.content.contains_key("application/json")
            {
                add_problems(operation, JSON_BODY);
            }
            if is_post {
                add_problems(operation, KEYED);
                add_key(operation);
            }
        }
    }
}

/// A request without an example of its own has that of its schema.
fn add_example(content: &mut RefOr<Content>, components: &Components) {
    let RefOr::T(content) = content else { return };
    if content.example.is_none() && content.examples.is_empty() {
        let schema = content.schema.as_ref();
        content.example = schema.and_then(|schema| example_of(schema, components));
    }
}

fn example_of(schema: &RefOr<Schema>, components: &Components) -> Option<serde_json::Value> {
    match schema {
        RefOr::Ref(reference) => {
            let name = reference.ref_location.rsplit('/').next()?;
            example_of(components.schemas.get(name)?, components)
        }
        RefOr::T(Schema::Object(object)) => object.example.clone(),
        // A body that may be left out: the schema or null.
        RefOr::T(Schema::OneOf(one)) => one
            .items
            .iter()
            .find_map(|item| example_of(item, components)),
        RefOr::T(_) => None,
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = (bool, &mut Operation)> {
    [
        (false, &mut item.get),
        (false, &mut item.put),
        (true, &mut item.post),
        (false, &mut item.delete),
        (false, &mut item.options),
        (false, &mut item.head),
        (false, &mut item.patch),
    ]
    .into_iter()
    .filter_map(|(is_post, operation)| Some((is_post, operation.as_mut()?)))
}

fn add_problems(operation: &mut Operation, codes: &[ErrorCode]) {
    for code in codes {
        for (status, response) in responses(&[*code]) {
            match operation.responses.responses.get_mut(&status) {
                Some(RefOr::T(there)) => mention(there, *code),
                Some(RefOr::Ref(_)) => {}
                None => {
                    operation.responses.responses.insert(status, response);
                }
            }
        }
    }
}

/// Adds a code to the list in an answer's description.
fn mention(response: &mut Response, code: ErrorCode) {
    let text = format!("`{}`: {}.", code.as_str(), code.title());
    if !response.description.contains(&text) {
        response.description.push(' ');
        response.description.push_str(&text);
    }
}

fn add_key(operation: &mut Operation) {
    let parameters = operation.parameters.get_or_insert_default();
    // Written by a route or not, it is described once, here.
    parameters.retain(|parameter| {
        !matches!(parameter, RefOr::T(Parameter { name, .. }) if name.eq_ignore_ascii_case("idempotency-key"))
    });
    let key = ObjectBuilder::new()
        .schema_type(SchemaType::new(Type::String))
        .min_length(Some(1))
        .max_length(Some(KEY_MAX))
        .pattern(Some("^[!-~]+$"));
    let key = ParameterBuilder::new()
        .name("Idempotency-Key")
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some("Makes a retry safe for 10 minutes."))
        .schema(Some(key))
        .build();
    parameters.push(RefOr::T(key));
}
