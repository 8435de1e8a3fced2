//! Documents that must say what the code says.

use std::path::{Path, PathBuf};

use sandshell_testkit::find_binary;
use sandshell_types::{ErrorCode, Layer};
use serde_json::Value;

use super::{files, output_of, read, root};

#[test]
fn the_openapi_file_is_what_the_binary_prints() {
    for (words, file) in [
        (&["openapi"][..], "openapi/agent-v1.json"),
        (&["openapi", "--hub"], "openapi/hub-v1.json"),
    ] {
        let printed = output_of(find_binary(), words);
        assert!(
            printed == read(file),
            "{file} is out of date; hint: make gen"
        );
    }
}

#[test]
fn every_error_code_is_explained() {
    let document = read("docs/reference/errors.md");
    let rows: Vec<&str> = document
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    for code in ErrorCode::ALL {
        let row = format!(
            "| `{}` | {} | {} |",
            code.as_str(),
            code.status(),
            code.title()
        );
        assert!(
            rows.iter().any(|line| line.starts_with(&row)),
            "docs/reference/errors.md has no row that starts with\n{row}"
        );
    }
    assert_eq!(rows.len(), ErrorCode::ALL.len(), "a row without a code");
}

#[test]
fn every_protection_is_explained() {
    let document = read("docs/reference/protections.md");
    for layer in Layer::ALL {
        let row = format!("| `{}` | ", layer.name());
        assert!(
            document.lines().any(|line| line.starts_with(&row)),
            "docs/reference/protections.md has no row that starts with\n{row}"
        );
    }
}

#[test]
fn every_route_is_in_the_reference() {
    let document: Value = serde_json::from_str(&read("openapi/agent-v1.json")).unwrap();
    let reference = read("docs/reference/api.md");
    let mut missing = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            let route = format!("`{} {path}`", method.to_uppercase());
            if !reference.contains(&route) {
                missing.push(route);
            }
        }
    }
    assert!(
        missing.is_empty(),
        "not in docs/reference/api.md: {missing:?}"
    );
}

#[test]
fn links_lead_somewhere() {
    let mut documents: Vec<PathBuf> = files("docs", "md");
    for name in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"] {
        documents.push(root().join(name));
    }
    let mut broken = Vec::new();
    for document in documents {
        let text = read(&document);
        for target in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let path = target.split('#').next().unwrap_or_default();
            if path.is_empty() || path.contains("://") {
                continue;
            }
            let dir = document.parent().unwrap_or(Path::new("/"));
            if !dir.join(path).exists() {
                broken.push(format!("{}: {target}", document.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}
