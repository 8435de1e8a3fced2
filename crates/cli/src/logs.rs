//! Logs: to stderr, for people or as JSON; those of a sandbox's agent to a file.

use std::fs::File;
use std::io::{self, IsTerminal as _, Write};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

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

/// The same into a file that is made for the first line: most agents never say anything. A panic is a line
/// too, for there is no stderr.
pub(crate) fn start_in_file(path: PathBuf) {
    let log = LateFile {
        path: Arc::new(path),
        file: Arc::default(),
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter())
        .with_writer(move || log.clone())
        .with_ansi(false)
        .init();
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
}

fn filter() -> EnvFilter {
    EnvFilter::try_from_env("SANDSHELL_LOG").unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER))
}

/// Our own crates say when something notable happens, all others only when something is wrong. For the
/// library of MCP every client that goes away is.
const DEFAULT_FILTER: &str =
    "warn,rmcp=off,sandshell=info,sandshell_agent=info,sandshell_exec=info,sandshell_hub=info";

/// A file that is opened when something is written.
#[derive(Clone)]
struct LateFile {
    path: Arc<PathBuf>,
    file: Arc<OnceLock<Option<File>>>,
}

impl Write for LateFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let open = || {
            let mut options = File::options();
            options.create(true).append(true).open(&*self.path).ok()
        };
        match self.file.get_or_init(open).as_ref() {
            Some(mut file) => file.write(line),
            // There is nowhere to tell it.
            None => Ok(line.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
