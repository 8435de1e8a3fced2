//! The server of one client, on standard input and output.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use rmcp::ServiceExt as _;
use rmcp::transport::io::stdio;
use sandshell_client::Client;
use tokio::io::{AsyncRead, ReadBuf, Stdin};
use tokio_util::sync::CancellationToken;

use crate::call::Settings;
use crate::server::Server;

/// How long calls under way may go on after the input has ended: whoever pipes requests in wants answers,
/// and whoever has gone wants an end.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long calls may take to tidy up once they are cancelled.
const TIDY: Duration = Duration::from_secs(10);

/// Why the server could not begin.
#[derive(Debug, thiserror::Error)]
#[error("the client does not speak the Model Context Protocol: {0}")]
pub struct StdioError(String);

/// Serves the tools to whoever is at the other end of our standard input and output, until they close it
/// or `ended` says so. Then calls under way are cancelled, and what they started is ended.
pub async fn serve_stdio(
    hub: Client,
    settings: Settings,
    ended: CancellationToken,
) -> Result<(), StdioError> {
    let server = Server::new(settings, move |_| Ok(hub.clone()));
    let calls = server.calls().clone();
    let all = ended.child_token();
    let (stdin, stdout) = stdio();
    let input = Input {
        stdin,
        ended: CancellationToken::new(),
    };
    let input_ended = input.ended.clone();
    let begun = tokio::select! {
        begun = server.serve_with_ct((input, stdout), all.clone()) => begun,
        () = ended.cancelled() => return Ok(()),
    };
    let running = match begun {
        Ok(running) => running,
        // A client that looks whether we start and goes away is none to complain about.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(StdioError(error.to_string())),
    };
    let finishing = async {
        input_ended.cancelled().await;
        calls.close();
        let _ = tokio::time::timeout(PATIENCE, calls.wait()).await;
        all.cancel();
    };
    // How it ended does not matter: nobody is there to be told.
    let _ = tokio::join!(running.waiting(), async {
        tokio::select! {
            () = finishing => {}
            () = all.cancelled() => {}
        }
    });
    calls.close();
    let _ = tokio::time::timeout(TIDY, calls.wait()).await;
    Ok(())
}

/// Our standard input, which tells when it has ended.
struct Input {
    stdin: Stdin,
    ended: CancellationToken,
}

impl AsyncRead for Input {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stdin).poll_read(cx, buffer);
        if let Poll::Ready(result) = &read
            && (result.is_err() || buffer.filled().len() == before)
        {
            self.ended.cancel();
        }
        read
    }
}
