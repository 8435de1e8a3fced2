//! The document is complete and says each thing once.

#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use utoipa_axum::router::UtoipaMethodRouter;

use super::*;
use crate::Agent;

fn json() -> Value {
    serde_json::from_str(&made::document()).unwrap()
}

fn operations(document: &Value) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            all.push((format!("{method} {path}"), operation.clone()));
        }
    }
    all
}

#[test]
fn the_file_is_what_the_code_says() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../openapi/agent-v1.json");
    let made = made::document() + "\n";
    if std::env::var_os("SANDSHELL_UPDATE").is_some() {
        std::fs::write(&file, &made).unwrap();
    }
    let there = std::fs::read_to_string(&file).unwrap();
    assert!(
        there == made,
        "openapi/agent-v1.json is out of date; hint: make gen"
    );
}

#[test]
fn what_is_served_is_the_same_without_space() {
    let served: Value = serde_json::from_slice(&served()).unwrap();
    assert_eq!(served, json());
    assert_eq!(
        compact("{\n \"a \\\" b\": [1, 2]\n}"),
        "{\"a \\\" b\":[1,2]}"
    );
}

#[test]
fn is_openapi_3_1_with_every_route() {
    let document = json();
    assert_eq!(document["openapi"], "3.1.0");
    let operations = operations(&document);
    assert_eq!(
        operations.len(),
        crate::api::documented().iter().map(methods).sum::<usize>()
    );
    for route in [
        "post /v1/exec",
        "delete /v1/sessions/{id}",
        "get /v1/sessions/{id}/commands/{command_id}/output",
    ] {
        assert!(operations.iter().any(|(name, _)| name == route), "{route}");
    }
}

/// How many operations an entry of the table stands for.
fn methods((_, paths, _): &UtoipaMethodRouter<Arc<Agent>>) -> usize {
    paths
        .paths
        .values()
        .map(|item| serde_json::to_value(item).unwrap())
        .map(|item| item.as_object().unwrap().len())
        .sum()
}

/// Every line names a route and what it leaves unsaid.
#[test]
fn every_operation_is_fully_described() {
    let document = json();
    let mut missing = Vec::new();
    let mut ids: HashMap<String, String> = HashMap::new();
    for (route, operation) in operations(&document) {
        let mut lacks = |what: String| missing.push(format!("{route}: {what}"));
        let id = text(&operation, "operationId");
        if id.is_empty() {
            lacks("no operation_id".to_owned());
        } else if let Some(other) = ids.insert(id.to_owned(), route.clone()) {
            lacks(format!("the operation_id {id} is that of {other} too"));
        }
        if text(&operation, "summary").is_empty() {
            lacks("no summary (the first line of its doc comment)".to_owned());
        }
        if text(&operation, "description").is_empty() {
            lacks("no description (the doc comment after its first line)".to_owned());
        }
        match operation["tags"].as_array().map(Vec::as_slice) {
            Some([Value::String(tag)]) if !tag.starts_with("crate::") && tag != "default" => {}
            tags => lacks(format!("one tag is wanted, not {tags:?}")),
        }
        for parameter in list(&operation, "parameters") {
            let name = text(parameter, "name");
            if text(parameter, "description").is_empty() {
                lacks(format!("parameter {name} has no description"));
            }
        }
        for (kind, content) in map(&operation["requestBody"], "content") {
            if !has_example(content) {
                lacks(format!("the request ({kind}) has no example"));
            }
        }
        for (status, answer) in map(&operation, "responses") {
            describe_answer(&document, status, answer, &mut lacks);
        }
        for kind in kinds_without_example(&operation) {
            lacks(format!("no good answer of the kind {kind} has an example"));
        }
        let statuses = map(&operation, "responses").map(|(status, _)| status.as_str());
        for status in wanted_answers(&operation) {
            if !statuses.clone().any(|listed| listed == status) {
                lacks(format!("the answer {status} is not listed"));
            }
        }
    }
    assert!(
        missing.is_empty(),
        "{} to do:\n{}",
        missing.len(),
        missing.join("\n")
    );
}

fn describe_answer(document: &Value, status: &str, answer: &Value, lacks: &mut impl FnMut(String)) {
    if text(answer, "description").is_empty() {
        lacks(format!("the answer {status} has no description"));
    }
    for (kind, content) in map(answer, "content") {
        if kind == "text/event-stream" && !is_union(document, &content["schema"]) {
            lacks(format!(
                "the events of the answer {status} are no named union (see event_union! in \
                 document/events.rs)"
            ));
        }
    }
    let problem = map(answer, "content").any(|(kind, _)| kind == "application/problem+json");
    if status.starts_with(['4', '5']) && !problem {
        lacks(format!(
            "the answer {status} is no application/problem+json"
        ));
    }
}

/// The content types of good answers of which none has an example. Made anew or there already, an
/// answer of the same kind needs only one.
fn kinds_without_example(operation: &Value) -> Vec<&String> {
    let contents = map(operation, "responses")
        .filter(|(status, _)| status.starts_with('2'))
        .flat_map(|(_, answer)| map(answer, "content"));
    let with_example: Vec<&String> = contents
        .clone()
        .filter(|(_, content)| has_example(content))
        .map(|(kind, _)| kind)
        .collect();
    contents
        .map(|(kind, _)| kind)
        .filter(|kind| !with_example.contains(kind))
        .collect()
}

/// What an operation can answer by its nature.
fn wanted_answers(operation: &Value) -> Vec<&'static str> {
    let mut wanted = Vec::new();
    if operation.get("security").is_none() {
        wanted.extend(["400", "401", "403", "500"]);
    }
    let named = list(operation, "parameters")
        .any(|parameter| parameter["in"] == "path" && text(parameter, "name").ends_with("id"));
    if named {
        wanted.push("404");
    }
    let json =
        map(&operation["requestBody"], "content").any(|(kind, _)| kind == "application/json");
    if json {
        wanted.extend(["413", "415"]);
    }
    wanted
}

/// Whether a schema is a named `oneOf` whose items are told apart by their `event`.
fn is_union(document: &Value, schema: &Value) -> bool {
    let named = schema["$ref"]
        .as_str()
        .and_then(|reference| document.pointer(reference.strip_prefix('#')?));
    named.is_some_and(|union| {
        let mapping = union
            .pointer("/discriminator/mapping")
            .and_then(Value::as_object);
        let items = union["oneOf"].as_array();
        union["discriminator"]["propertyName"] == "event"
            && mapping.map(serde_json::Map::len) == items.map(Vec::len)
    })
}

fn has_example(content: &Value) -> bool {
    content.get("example").is_some() || content.get("examples").is_some()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default().trim()
}

fn list<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value[field].as_array().into_iter().flatten()
}

fn map<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = (&'a String, &'a Value)> + Clone {
    value[field].as_object().into_iter().flatten()
}

#[test]
fn every_error_code_is_listed() {
    let document = json();
    let listed = document["components"]["schemas"]["ErrorCode"]["enum"]
        .as_array()
        .unwrap()
        .clone();
    let responses = made::document();
    for code in ErrorCode::ALL {
        assert!(
            listed.iter().any(|name| name == code.as_str()),
            "{}",
            code.as_str()
        );
    }
    let unlisted: Vec<&str> = ErrorCode::ALL
        .iter()
        .map(|code| code.as_str())
        .filter(|code| !responses.contains(&format!("`{code}`: ")))
        // The hub's; its own document is tested for all of them.
        .filter(|code| !code.starts_with("sandbox_") && !code.contains("image"))
        .filter(|code| *code != "token_not_found")
        .collect();
    assert!(unlisted.is_empty(), "no route lists {unlisted:?}");
}

#[test]
fn no_two_schemas_share_a_name() {
    let mut seen: HashMap<String, Value> = HashMap::new();
    let base = made::base().components.unwrap().schemas;
    let routes = crate::api::documented()
        .into_iter()
        .flat_map(|(schemas, _, _)| schemas);
    for (name, schema) in base.into_iter().chain(routes) {
        let schema = serde_json::to_value(schema).unwrap();
        if let Some(other) = seen.insert(name.clone(), schema.clone()) {
            assert_eq!(other, schema, "two schemas are called {name}");
        }
    }
    assert!(seen.contains_key("ExecRequest"));
}

#[test]
fn every_reference_leads_somewhere() {
    fn walk(value: &Value, document: &Value) {
        match value {
            Value::Object(map) => {
                if let Some(Value::String(reference)) = map.get("$ref") {
                    let pointer = reference.strip_prefix('#').unwrap();
                    assert!(document.pointer(pointer).is_some(), "{reference}");
                }
                map.values().for_each(|inner| walk(inner, document));
            }
            Value::Array(list) => list.iter().for_each(|inner| walk(inner, document)),
            _ => {}
        }
    }
    let document = json();
    walk(&document, &document);
}
