//! `sandshell mcp`: sandboxes as tools of an AI agent, on standard input and output.
//!
//! The tools act on a hub: the one that `SANDSHELL_URL` names, else the one of this user on the usual
//! address, else one of our own that ends with us (`hub.rs`).

mod hub;
mod snippet;

use std::process::ExitCode;

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
        None => serve(),
    }
}

fn serve() -> Result<ExitCode, Failure> {
    logs::start(false);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::ours(&error))?;
    let served = runtime.block_on(async {
        let hub = Hub::find().await?;
        let served = attend(&hub).await;
        hub.end();
        served
    });
    // Our stdin may still be read; nobody waits for it.
    runtime.shutdown_background();
    served.map(|()| ExitCode::SUCCESS)
}

async fn attend(hub: &Hub) -> Result<(), Failure> {
    let failed = |error| Failure::ours(&error);
    let mut interrupts = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut ends = signal(SignalKind::terminate()).map_err(failed)?;
    let ended = CancellationToken::new();
    let serving = sandshell_mcp::serve_stdio(hub.client().clone(), ended.clone());
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
