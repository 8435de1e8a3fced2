//! `sandshell mcp`: sandboxes as tools of an AI agent, on standard input and output.
//!
//! The tools act on a hub: the one that `SANDSHELL_URL` names, else the one of this user on the usual
//! address, else one of our own that ends with us (`hub.rs`).

mod hub;
mod snippet;

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

use sandshell_mcp::Settings;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::arguments::{McpArguments, McpCommand};
use crate::failure::Failure;
use crate::logs;
use hub::Hub;

pub(crate) fn run(arguments: McpArguments) -> Result<ExitCode, Failure> {
    match arguments.command {
        Some(McpCommand::Config { client, url }) => snippet::print(client, url.as_deref()),
        Some(McpCommand::Tools) => crate::print(&format!("{:#}", sandshell_mcp::tools_json())),
        None => serve(arguments.best_effort),
    }
}

fn serve(best_effort: bool) -> Result<ExitCode, Failure> {
    logs::start(false);
    if std::io::stdin().is_terminal() {
        let line = "sandshell: an MCP client starts this and speaks JSON to it; hint: `sandshell mcp config` prints what \
                    to give to clients, and Ctrl-C ends this\n";
        // There is nowhere to tell that stderr is closed.
        let _ = std::io::stderr().lock().write_all(line.as_bytes());
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::ours(&error))?;
    let served = runtime.block_on(async {
        let hub = Hub::find().await?;
        let served = attend(&hub, best_effort).await;
        hub.end();
        served
    });
    // Our stdin may still be read; nobody waits for it.
    runtime.shutdown_background();
    served.map(|()| ExitCode::SUCCESS)
}

async fn attend(hub: &Hub, best_effort: bool) -> Result<(), Failure> {
    let failed = |error| Failure::ours(&error);
    let mut interrupts = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut ends = signal(SignalKind::terminate()).map_err(failed)?;
    let ended = CancellationToken::new();
    let settings = Settings {
        best_effort,
        has_address: hub.has_address(),
    };
    let serving = sandshell_mcp::serve_stdio(hub.client().clone(), settings, ended.clone());
    let told = async {
        tokio::select! {
            _ = interrupts.recv() => {}
            _ = ends.recv() => {}
        }
        ended.cancel();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        served = serving => served.map_err(|error| Failure::ours(&error)),
        () = told => Ok(()),
    }
}
