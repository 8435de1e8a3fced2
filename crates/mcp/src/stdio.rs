//! The server of one client, on standard input and output.

use std::time::Duration;

use rmcp::ServiceExt as _;
use rmcp::transport::io::stdio;
use sandshell_client::Client;
use tokio_util::sync::CancellationToken;

use crate::server::Server;

/// How long calls may take to tidy up after the client has gone.
const TIDY: Duration = Duration::from_secs(10);

/// Why the server could not begin.
#[derive(Debug, thiserror::Error)]
#[error("the client does not speak the Model Context Protocol: {0}")]
pub struct StdioError(String);

/// Serves the tools to whoever is at the other end of our standard input and output, until they close it
/// or `ended` says so. Then calls under way are cancelled, and what they started is ended.
pub async fn serve_stdio(hub: Client, ended: CancellationToken) -> Result<(), StdioError> {
    let server = Server::new(move |_| Ok(hub.clone()));
    let calls = server.calls().clone();
    let all = ended.child_token();
    let begun = tokio::select! {
        begun = server.serve_with_ct(stdio(), all.clone()) => begun,
        () = ended.cancelled() => return Ok(()),
    };
    let running = match begun {
        Ok(running) => running,
        // A client that looks whether we start and goes away is none to complain about.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(StdioError(error.to_string())),
    };
    // How it ended does not matter: nobody is there to be told.
    let _ = running.waiting().await;
    all.cancel();
    calls.close();
    let _ = tokio::time::timeout(TIDY, calls.wait()).await;
    Ok(())
}
