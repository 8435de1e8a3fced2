//! Logs: to stderr, for people or as JSON.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

/// Sets up logging for the rest of the process. `SANDSHELL_LOG` chooses what is shown.
pub(crate) fn start(json: bool) {
    let filter =
        EnvFilter::try_from_env("SANDSHELL_LOG").unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none());
    if json {
        logs.json().init();
    } else {
        logs.init();
    }
}

/// Our own crates say when something notable happens, all others only when something is wrong. For the
/// library of MCP every client that goes away is.
const DEFAULT_FILTER: &str =
    "warn,rmcp=off,sandshell=info,sandshell_agent=info,sandshell_exec=info,sandshell_hub=info";
