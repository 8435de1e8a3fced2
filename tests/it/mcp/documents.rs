//! The list of tools is the one that is written down, and the snippets are what clients read.

use std::process::Command;

use sandshell_testkit::find_binary;
use serde_json::{Value, json};

use super::{Spoken, root};

fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(find_binary())
        .args(arguments)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

fn written() -> Value {
    let file = std::fs::read_to_string(root().join("openapi/mcp-tools.json")).unwrap();
    serde_json::from_str(&file).unwrap()
}

#[test]
fn tools_are_as_written_down() {
    let hint = "`make gen` writes it anew";
    let listed = Spoken::start().ask("tools/list", &json!({}))["result"]["tools"].clone();
    assert_eq!(listed, written(), "openapi/mcp-tools.json differs; {hint}");
    let (_, printed, _) = run(&["mcp", "tools"]);
    let printed: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(printed, listed);
}

#[test]
fn tools_say_what_a_model_needs() {
    for tool in written().as_array().unwrap() {
        let name = tool["name"].as_str().unwrap();
        assert!(tool["description"].as_str().unwrap().len() > 50, "{name}");
        for hint in [
            "readOnlyHint",
            "destructiveHint",
            "idempotentHint",
            "openWorldHint",
        ] {
            assert!(tool["annotations"][hint].is_boolean(), "{name} {hint}");
        }
        let text = tool.to_string();
        for noise in ["$ref", "$schema", "\"null\"", "\"format\""] {
            assert!(!text.contains(noise), "{name} has {noise}");
        }
        let schema = &tool["inputSchema"];
        assert_eq!(schema["additionalProperties"], false, "{name}");
        assert_eq!(tool["outputSchema"]["type"], "object", "{name}");
        for (argument, about) in schema["properties"].as_object().unwrap() {
            let described = about["description"].is_string() || about["enum"].is_array();
            assert!(described, "{name} {argument}");
        }
    }
}

/// The reference has a section for each tool, with its arguments and hints, and none too many.
#[test]
fn the_reference_has_each_tool_with_its_arguments() {
    let reference = std::fs::read_to_string(root().join("docs/reference/mcp.md")).unwrap();
    let mut rows = reference.lines().filter(|line| line.starts_with("| `"));
    for tool in written().as_array().unwrap() {
        let name = tool["name"].as_str().unwrap();
        let schema = &tool["inputSchema"];
        let needed: Vec<&str> = schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let mut arguments: Vec<String> = schema["properties"]
            .as_object()
            .unwrap()
            .keys()
            .map(|key| match needed.contains(&key.as_str()) {
                true => format!("`{key}`"),
                false => format!("`{key}?`"),
            })
            .collect();
        arguments.sort_by_key(|argument| argument.contains('?'));
        let arguments = match arguments.is_empty() {
            true => "–".to_owned(),
            false => arguments.join(", "),
        };
        let hints = &tool["annotations"];
        let effect = match (&hints["readOnlyHint"], &hints["destructiveHint"]) {
            (Value::Bool(true), _) => "reads",
            (_, Value::Bool(true)) => "changes",
            _ => "adds",
        };
        let expected = format!("| `{name}` | {arguments} | {effect} |");
        let row = rows.next().unwrap_or_default();
        assert!(
            row.starts_with(&expected),
            "expected\n{expected}\nfound\n{row}"
        );
    }
    assert_eq!(rows.next(), None);
}

#[test]
fn snippets_are_what_clients_read() {
    let program = find_binary().display().to_string();
    for (client, servers, kind) in [
        ("claude", "mcpServers", None),
        ("cursor", "mcpServers", None),
        ("vscode", "servers", Some("stdio")),
    ] {
        let (code, text, said) = run(&["mcp", "config", "--client", client]);
        assert_eq!(code, Some(0));
        let snippet: Value = serde_json::from_str(&text).unwrap();
        let ours = &snippet[servers]["sandshell"];
        assert_eq!(ours["command"], program, "{snippet}");
        assert_eq!(ours["args"], json!(["mcp"]));
        assert_eq!(ours["type"].as_str(), kind);
        assert!(said.contains("Add this to"), "{said}");
        let with_url = [
            "mcp",
            "config",
            "--client",
            client,
            "--url",
            "http://127.0.0.1:4020/",
        ];
        let (_, text, _) = run(&with_url);
        let snippet: Value = serde_json::from_str(&text).unwrap();
        let ours = &snippet[servers]["sandshell"];
        assert_eq!(ours["url"], "http://127.0.0.1:4020/mcp", "{snippet}");
        let authorization = ours["headers"]["Authorization"].as_str().unwrap();
        assert!(authorization.starts_with("Bearer ${"), "{snippet}");
    }
    let (_, text, _) = run(&["mcp", "config", "--client", "codex"]);
    let snippet: toml::Table = text.parse().unwrap();
    let ours = &snippet["mcp_servers"]["sandshell"];
    assert_eq!(ours["command"].as_str(), Some(program.as_str()));
    let (_, text, _) = run(&["mcp", "config", "--client", "codex", "--url", "http://h:1"]);
    let snippet: toml::Table = text.parse().unwrap();
    let ours = &snippet["mcp_servers"]["sandshell"];
    assert_eq!(ours["url"].as_str(), Some("http://h:1/mcp"));
    assert_eq!(
        ours["bearer_token_env_var"].as_str(),
        Some("SANDSHELL_TOKEN")
    );
    let (code, _, said) = run(&["mcp", "config", "--client", "codex", "--url", "h:1"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("hint: "), "{said}");
}
