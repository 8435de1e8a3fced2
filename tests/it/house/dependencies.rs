//! Who may depend on whom, under which licence, and from where.

use std::collections::BTreeMap;

use serde_json::Value;

use super::output_of;

/// Each crate of the workspace and the others it may depend on: `types`, `sys` ← `isolate` ← `exec`
/// ← {`files`, `contexts`} ← `agent` ← `hub` ← `cli`. The client knows only the wire types, so that it builds where `sys` does not.
/// Below the edge (`testkit`, `bench`, `tests`) nothing depends on the edge.
const MAY_DEPEND_ON: &[(&str, &[&str])] = &[
    ("sandshell-types", &[]),
    ("sandshell-sys", &[]),
    ("sandshell-isolate", &["types", "sys"]),
    ("sandshell-exec", &["types", "sys", "isolate"]),
    ("sandshell-files", &["types", "sys", "isolate", "exec"]),
    ("sandshell-contexts", &["types", "sys", "isolate", "exec"]),
    (
        "sandshell-agent",
        &["types", "sys", "isolate", "exec", "files", "contexts"],
    ),
    (
        "sandshell-hub",
        &[
            "types",
            "sys",
            "isolate",
            "files",
            "agent",
            "client",
            "mcp",
            "compat",
            "compat-e2b",
        ],
    ),
    ("sandshell-client", &["types"]),
    ("sandshell-compat", &["client"]),
    ("sandshell-compat-e2b", &["client", "compat"]),
    ("sandshell-mcp", &["types", "client"]),
    (
        "sandshell",
        &[
            "types", "sys", "isolate", "exec", "agent", "hub", "client", "mcp",
        ],
    ),
    ("sandshell-testkit", &["types", "client"]),
    (
        "sandshell-bench",
        &["types", "sys", "isolate", "exec", "client", "testkit"],
    ),
    ("sandshell-tests", &["types", "sys", "client", "testkit"]),
    (
        "sandshell-fuzz",
        &[
            "types",
            "sys",
            "isolate",
            "exec",
            "files",
            "contexts",
            "agent",
            "hub",
            "client",
            "compat",
            "compat-e2b",
        ],
    ),
];

/// Crates that speak HTTP do not go below the agent.
const HTTP: &[&str] = &[
    "axum",
    "http",
    "http-body",
    "hyper",
    "hyper-util",
    "tower",
    "utoipa-axum",
];
const WITHOUT_HTTP: &[&str] = &[
    "sandshell-types",
    "sandshell-sys",
    "sandshell-isolate",
    "sandshell-exec",
];

/// Licences we can ship under; the same list as in deny.toml.
const LICENCES: &[&str] = &[
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-3-Clause",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MPL-2.0",
    "Unicode-3.0",
    "Zlib",
];

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

fn metadata(more: &[&str]) -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = [
        &["metadata", "--format-version", "1", "--offline", "--locked"],
        more,
    ]
    .concat();
    serde_json::from_str(&output_of(cargo, &arguments)).unwrap()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

#[test]
fn dependencies_point_one_way() {
    let metadata = metadata(&["--no-deps"]);
    let packages = metadata["packages"].as_array().unwrap();
    let rules: BTreeMap<&str, &[&str]> = MAY_DEPEND_ON.iter().copied().collect();
    let mut wrong = Vec::new();
    for package in packages {
        let name = text(package, "name");
        let Some(allowed) = rules.get(name) else {
            wrong.push(format!("{name} has no rule in MAY_DEPEND_ON"));
            continue;
        };
        for dependency in package["dependencies"].as_array().unwrap() {
            let on = text(dependency, "name");
            if HTTP.contains(&on) && WITHOUT_HTTP.contains(&name) {
                wrong.push(format!("{name} uses {on}"));
            }
            let Some(ours) = on.strip_prefix("sandshell-") else {
                continue;
            };
            // Tests of a crate may start the built binary.
            let in_tests = dependency["kind"] == "dev" && ours == "testkit";
            if !in_tests && !allowed.contains(&ours) {
                wrong.push(format!("{name} uses {on}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(packages.len(), rules.len(), "a rule without a crate");
}

#[test]
fn every_dependency_has_a_known_source_and_licence() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = output_of(rustc, &["-vV"]);
    let host = version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .unwrap();
    let metadata = metadata(&["--filter-platform", host]);
    let mut wrong = Vec::new();
    for package in metadata["packages"].as_array().unwrap() {
        let name = text(package, "name");
        let source = package["source"].as_str();
        if source.is_some_and(|source| source != REGISTRY) {
            wrong.push(format!("{name} comes from {source:?}"));
        }
        let licence = text(package, "license");
        if !is_allowed(licence) {
            wrong.push(format!("{name} has the licence {licence:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Whether an SPDX expression leaves a choice we can take. Both forms of "or" occur.
fn is_allowed(expression: &str) -> bool {
    expression.split(" AND ").all(|part| {
        let part = part.trim_matches(['(', ')']).replace('/', " OR ");
        part.split(" OR ")
            .any(|licence| LICENCES.contains(&licence.trim()))
    })
}

#[test]
fn licence_expressions_are_understood() {
    assert!(is_allowed("Apache-2.0 / MIT"));
    assert!(is_allowed("GPL-3.0 OR MIT"));
    assert!(is_allowed("(MIT OR Apache-2.0) AND Unicode-3.0"));
    assert!(!is_allowed("MIT AND GPL-3.0"));
    assert!(!is_allowed("GPL-3.0") && !is_allowed(""));
}

#[test]
fn both_lists_of_licences_are_equal() {
    let deny: toml::Table = super::read("deny.toml").parse().unwrap();
    let allowed: Vec<&str> = deny["licenses"]["allow"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(toml::Value::as_str)
        .collect();
    assert_eq!(allowed, LICENCES);
}
