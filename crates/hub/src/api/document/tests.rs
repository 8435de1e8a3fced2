#![allow(clippy::unwrap_used)]

use std::path::Path;

use super::*;

#[test]
fn the_file_is_what_the_code_says() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../openapi/hub-v1.json");
    let made = made::document() + "\n";
    if std::env::var_os("SANDSHELL_UPDATE").is_some() {
        std::fs::write(&file, &made).unwrap();
    }
    let there = std::fs::read_to_string(&file).unwrap();
    assert!(
        there == made,
        "openapi/hub-v1.json is out of date; hint: make gen"
    );
}

#[test]
fn every_error_code_is_listed() {
    let document = openapi_json();
    let unlisted: Vec<&str> = ErrorCode::ALL
        .iter()
        .map(|code| code.as_str())
        .filter(|code| !document.contains(&format!("`{code}`: ")))
        .collect();
    assert!(unlisted.is_empty(), "no route lists {unlisted:?}");
}
