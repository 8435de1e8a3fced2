//! Logs: to stderr, for people or as JSON; those of a sandbox's agent to a file.

use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::path::Path;

use tracing_subscriber::EnvFilter;

/// Sets up logging for the rest of the process. `SANDSHELL_LOG` chooses what is shown.
pub(crate) fn start(json: bool) {
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter())
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none());
    if json {
        logs.json().init();
    } else {
        logs.init();
    }
}

/// The same into a file. It is opened now and not for the first line, which may be about descriptors that ran out. A
/// panic is a line too, for there is no stderr.
pub(crate) fn start_in_file(path: &Path) {
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter())
        .with_ansi(false);
    match File::options().create(true).append(true).open(path) {
        Ok(file) => logs.with_writer(file).init(),
        // There is nowhere to tell it.
        Err(_) => logs.with_writer(io::sink).init(),
    }
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
}

fn filter() -> EnvFilter {
    EnvFilter::try_from_env("SANDSHELL_LOG").unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER))
}

/// Our own crates say when something notable happens, all others only when something is wrong. For the
/// library of MCP every client that goes away is.
const DEFAULT_FILTER: &str =
    "warn,rmcp=off,sandshell=info,sandshell_agent=info,sandshell_exec=info,sandshell_hub=info";
