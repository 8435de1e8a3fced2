//! The published document, made ready for a binary: compressed, and its routes as a table, so that nothing
//! has to be read at start.

use std::io::Write as _;
use std::path::Path;
use std::{env, fs, io};

use flate2::{Compression, GzBuilder};
use serde_json::Value;

/// Writes `document.json.gz` and `routes.rs` for a file in `openapi`.
pub(crate) fn embed(name: &str) -> io::Result<()> {
    let file = Path::new("../../openapi").join(name);
    println!("cargo::rerun-if-changed={}", file.display());
    let text = fs::read(file)?;
    let mut small = GzBuilder::new().write(Vec::new(), Compression::best());
    small.write_all(&text)?;
    let routes = routes(&serde_json::from_slice(&text)?);
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo sets OUT_DIR"))?;
    let out = Path::new(&out);
    fs::write(out.join("document.json.gz"), small.finish()?)?;
    fs::write(out.join("routes.rs"), routes)
}

/// The routes as an expression of type `&[RouteFacts]`.
fn routes(document: &Value) -> String {
    let mut all = String::from("&[\n");
    let paths = document["paths"].as_object().into_iter().flatten();
    for (template, item) in paths {
        let operations = item.as_object().into_iter().flatten();
        let without_query: Vec<String> = operations
            .filter(|(_, operation)| {
                let mut parameters = operation["parameters"].as_array().into_iter().flatten();
                !parameters.any(|parameter| parameter["in"] == "query")
            })
            .map(|(method, _)| method.to_uppercase())
            .collect();
        let get = &item["get"]["responses"];
        let events = !get["200"]["content"]["text/event-stream"].is_null();
        let websocket = !get["101"].is_null();
        let facts = format!(
            "template: {template:?}, without_query: &{without_query:?}, events: {events}, websocket: {websocket}"
        );
        all.push_str(&format!("RouteFacts {{ {facts} }},\n"));
    }
    all.push(']');
    all
}
