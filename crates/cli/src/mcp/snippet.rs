//! `sandshell mcp config`: what a client's configuration needs to find us.
//!
//! stdout has the snippet and nothing else; where it goes is said on stderr. A token is never in it: each
//! client has its own way to take one from the environment, or to ask for it.

use std::io::Write as _;
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::arguments::McpClient;
use crate::failure::Failure;
use crate::own_name;

/// The variable that a token is taken from.
const TOKEN: &str = "SANDSHELL_TOKEN";

pub(crate) fn print(client: McpClient, url: Option<&str>) -> Result<ExitCode, Failure> {
    let (text, place) = match url {
        Some(url) => (over_http(client, &address(url)?), place(client)),
        None => (over_stdio(client, &own_name()), place(client)),
    };
    let mut note = format!("Add this to {place}:\n");
    if url.is_some() && client != McpClient::Vscode {
        note = format!("Set {TOKEN} in the client's environment, and add this to {place}:\n");
    }
    // There is nowhere to tell that stderr is closed.
    let _ = std::io::stderr().lock().write_all(note.as_bytes());
    crate::print(text.trim_end())
}

fn place(client: McpClient) -> &'static str {
    match client {
        McpClient::Claude => ".mcp.json in the project (or claude_desktop_config.json)",
        McpClient::Cursor => ".cursor/mcp.json in the project, or ~/.cursor/mcp.json",
        McpClient::Vscode => ".vscode/mcp.json in the project",
        McpClient::Codex => "~/.codex/config.toml",
    }
}

/// The address of the tools at a hub.
fn address(url: &str) -> Result<String, Failure> {
    let base = url.trim_end_matches('/').trim_end_matches("/mcp");
    let known = base.starts_with("http://") || base.starts_with("https://");
    if !known || base.contains(char::is_whitespace) {
        return Err(Failure::usage(format!("{url:?} is no address of a hub"))
            .hint("give one such as http://127.0.0.1:4020"));
    }
    Ok(format!("{base}/mcp"))
}

fn over_stdio(client: McpClient, program: &str) -> String {
    match client {
        McpClient::Claude | McpClient::Cursor => json_text(&json!({
            "mcpServers": {"sandshell": {"command": program, "args": ["mcp"]}}
        })),
        McpClient::Vscode => json_text(&json!({
            "servers": {"sandshell": {"type": "stdio", "command": program, "args": ["mcp"]}}
        })),
        McpClient::Codex => format!(
            "[mcp_servers.sandshell]\ncommand = {}\nargs = [\"mcp\"]\n",
            json!(program)
        ),
    }
}

fn over_http(client: McpClient, url: &str) -> String {
    let bearer = |token: String| json!({"Authorization": format!("Bearer {token}")});
    match client {
        McpClient::Claude => json_text(&json!({
            "mcpServers": {"sandshell": {
                "type": "http", "url": url, "headers": bearer(format!("${{{TOKEN}}}")),
            }}
        })),
        McpClient::Cursor => json_text(&json!({
            "mcpServers": {"sandshell": {
                "url": url, "headers": bearer(format!("${{env:{TOKEN}}}")),
            }}
        })),
        McpClient::Vscode => json_text(&json!({
            "inputs": [{
                "type": "promptString", "id": "sandshell-token",
                "description": "Token of the Sandshell hub", "password": true,
            }],
            "servers": {"sandshell": {
                "type": "http", "url": url,
                "headers": bearer("${input:sandshell-token}".to_owned()),
            }}
        })),
        McpClient::Codex => format!(
            "[mcp_servers.sandshell]\nurl = {}\nbearer_token_env_var = \"{TOKEN}\"\n",
            json!(url)
        ),
    }
}

fn json_text(value: &Value) -> String {
    format!("{value:#}")
}
