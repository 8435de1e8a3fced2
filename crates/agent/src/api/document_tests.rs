//! The document is complete and says each thing once.

#![allow(clippy::unwrap_used)]

use std::collections::HashMap;

use serde_json::Value;

use super::*;

fn json() -> Value {
    serde_json::from_str(&openapi_json()).unwrap()
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
fn is_openapi_3_1_with_every_route() {
    let document = json();
    assert_eq!(document["openapi"], "3.1.0");
    let operations = operations(&document);
    assert_eq!(operations.len(), 36);
    for route in [
        "post /v1/exec",
        "delete /v1/sessions/{id}",
        "get /v1/sessions/{id}/commands/{command_id}/output",
    ] {
        assert!(operations.iter().any(|(name, _)| name == route), "{route}");
    }
}

#[test]
fn every_operation_has_its_own_id_a_summary_and_an_example() {
    let document = json();
    let mut ids = Vec::new();
    for (route, operation) in operations(&document) {
        ids.push(operation["operationId"].as_str().unwrap().to_owned());
        assert!(
            !operation["summary"].as_str().unwrap_or_default().is_empty(),
            "{route}"
        );
        let answers = operation["responses"].as_object().unwrap();
        let good = answers.iter().filter(|(status, _)| status.starts_with('2'));
        let example = good
            .filter_map(|(_, answer)| answer["content"].as_object())
            .flat_map(|content| content.values())
            .any(|content| content.get("example").is_some());
        assert!(example, "{route} has no example");
    }
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), count);
}

#[test]
fn every_error_code_is_listed() {
    let document = json();
    let listed = document["components"]["schemas"]["ErrorCode"]["enum"]
        .as_array()
        .unwrap()
        .clone();
    let responses = openapi_json();
    for code in ErrorCode::ALL {
        assert!(
            listed.iter().any(|name| name == code.as_str()),
            "{}",
            code.as_str()
        );
        assert!(
            responses.contains(&format!("`{}`: ", code.as_str())),
            "no route lists {}",
            code.as_str()
        );
    }
}

#[test]
fn no_two_schemas_share_a_name() {
    let mut seen: HashMap<String, Value> = HashMap::new();
    let base = base().components.unwrap().schemas;
    let routes = super::super::table()
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
