//! One connection from a sandbox's relay: its first line says what it is.
//!
//! ```text
//! proxy\n               a client of an HTTP proxy or of SOCKS5, told apart by its first byte
//! direct HOST PORT\n    a client that connected to the address the relay gave HOST
//! name HOST\n           may HOST be asked for? answered `ports 80 443\n` or `no\n`
//! events\n              refusals from now on, one JSON object a line
//! ```
//!
//! The relay is in the sandbox's network namespace and is not believed: whatever it says is checked
//! here, as if the sandbox itself had said it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper_util::rt::TokioIo;
use sandshell_types::RefusalReason;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::broadcast::error::RecvError;

use super::exchange::{self, After, Scope};
use super::head::Target;
use super::host::Host;
use super::outside::OpenError;
use super::sandbox::Sandbox;
use super::stream::{Stream, rewound};
use super::{socks, tunnel};

/// Most bytes of the first line.
const MAX_LINE: usize = 512;
/// How long the first line may take; the relay sends it at once.
const FIRST_LINE: Duration = Duration::from_secs(10);
/// How long a client of the proxy may take for its first byte.
const FIRST_BYTE: Duration = Duration::from_mins(1);

/// Serves one connection to its end.
pub(super) async fn run(mut client: Stream, sandbox: Arc<Sandbox>) -> io::Result<()> {
    let mut read = BytesMut::with_capacity(MAX_LINE);
    let line = tokio::time::timeout(FIRST_LINE, first_line(&mut client, &mut read)).await??;
    let client = rewound(read.freeze(), client);
    let mut words = line.split(' ');
    match (words.next(), words.next(), words.next(), words.next()) {
        (Some("proxy"), None, None, None) => proxy(client, sandbox).await,
        (Some("direct"), Some(host), Some(port), None) => {
            let port = port.parse().map_err(|_| bad_line())?;
            direct(client, host, port, sandbox).await
        }
        (Some("name"), Some(host), None, None) => name(client, host, &sandbox).await,
        (Some("events"), None, None, None) => events(client, &sandbox).await,
        _ => Err(bad_line()),
    }
}

fn bad_line() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the relay's first line is not one",
    )
}

/// Takes the first line off `read`; what came after it stays.
async fn first_line(client: &mut Stream, read: &mut BytesMut) -> io::Result<String> {
    loop {
        if let Some(end) = read.iter().position(|byte| *byte == b'\n') {
            let line = read.split_to(end + 1);
            let text = line.get(..end).unwrap_or_default().to_vec();
            return String::from_utf8(text).map_err(|_| bad_line());
        }
        if read.len() >= MAX_LINE || client.read_buf(read).await? == 0 {
            return Err(bad_line());
        }
    }
}

async fn proxy(mut client: Stream, sandbox: Arc<Sandbox>) -> io::Result<()> {
    let mut first = [0];
    if tokio::time::timeout(FIRST_BYTE, client.read(&mut first)).await?? == 0 {
        return Ok(());
    }
    let client = rewound(Bytes::copy_from_slice(&first), client);
    if first == [socks::VERSION] {
        return socks::run(client, sandbox).await;
    }
    match exchange::serve(client, Arc::clone(&sandbox), Scope::Any).await {
        Some(After::Tunnel(upgrade, target, server)) => {
            let client = TokioIo::new(upgrade.await.map_err(io::Error::other)?);
            tunnel::run(Box::new(client), target, server, sandbox).await
        }
        Some(After::Joined(client, server)) => tunnel::websocket(client, server).await,
        None => Ok(()),
    }
}

async fn direct(client: Stream, host: &str, port: u16, sandbox: Arc<Sandbox>) -> io::Result<()> {
    let Ok(host) = Host::parse(host) else {
        sandbox.refuse(host.to_owned(), Some(port), RefusalReason::BadName, None);
        return Ok(());
    };
    match sandbox.connect(&host, port).await {
        Ok(server) => {
            let target = Target {
                host,
                port,
                tls: false,
            };
            tunnel::run(client, target, server, sandbox).await
        }
        Err(OpenError::Refused { reason, address }) => {
            sandbox.refuse(host.to_string(), Some(port), reason, address);
            Ok(())
        }
        Err(error) => {
            tracing::debug!(%host, port, %error, "a host outside was not reached");
            Ok(())
        }
    }
}

async fn name(mut client: Stream, host: &str, sandbox: &Sandbox) -> io::Result<()> {
    let ports = match Host::parse(host) {
        Ok(parsed) => sandbox.ports(&parsed).await,
        Err(_) => Vec::new(),
    };
    let answer = if ports.is_empty() {
        if !sandbox.policy().is_open() {
            sandbox.refuse(host.to_owned(), None, RefusalReason::HostNotAllowed, None);
        }
        "no\n".to_owned()
    } else {
        let listed: Vec<String> = ports.iter().map(u16::to_string).collect();
        format!("ports {}\n", listed.join(" "))
    };
    client.write_all(answer.as_bytes()).await?;
    client.shutdown().await
}

async fn events(client: Stream, sandbox: &Sandbox) -> io::Result<()> {
    let mut refusals = sandbox.refusals.listen();
    let (mut input, mut output) = tokio::io::split(client);
    let mut byte = [0];
    let mut beat = tokio::time::interval(super::IDLE / 2);
    loop {
        let refused = tokio::select! {
            refused = refusals.recv() => refused,
            // An empty line, so that the connection does not count as idle. The first comes at once:
            // from then on the relay misses nothing.
            _ = beat.tick() => {
                output.write_all(b"\n").await?;
                continue;
            }
            // The relay says nothing more: this is its end.
            _ = input.read(&mut byte) => return Ok(()),
        };
        match refused {
            Ok(refused) => {
                let mut line = serde_json::to_vec(&refused)?;
                line.push(b'\n');
                output.write_all(&line).await?;
            }
            // A relay that does not read; the next one says more.
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return Ok(()),
        }
    }
}
