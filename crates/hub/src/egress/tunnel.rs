//! Tunnels: a client that was joined to a host, and the check that it speaks to that host only.
//!
//! No byte of the client goes on before it is clear what is spoken. TLS must name the host; HTTP is
//! read request by request; anything else passes only on ports that the policy names and that are not
//! the web's. TLS to a host with a secret ends here and begins anew.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use hyper_util::rt::TokioIo;
use sandshell_types::RefusalReason;
use tokio::io::{AsyncWriteExt, copy_bidirectional_with_sizes};
use tokio::net::TcpStream;

use super::exchange::{self, After, Scope};
use super::head::Target;
use super::host::Host;
use super::policy::WEB_PORTS;
use super::sandbox::Sandbox;
use super::spoken::{self, Sni, Spoken};
use super::stream::{Stream, rewound};

/// Bytes under way in each direction.
const BUFFER: usize = 32 * 1024;
/// How long a client may take for its part of a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(30);

/// A fatal alert that says `unrecognized_name`, for clients that wait for an answer to their hello.
const ALERT: [u8; 7] = [0x15, 3, 3, 0, 2, 2, 112];

/// Serves a tunnel to its end.
pub(super) async fn run(
    mut client: Stream,
    target: Target,
    server: TcpStream,
    sandbox: Arc<Sandbox>,
) -> io::Result<()> {
    // Where every host may be asked for, it does not matter which of them is named.
    if sandbox.policy().is_open() {
        return join(client, Box::new(server)).await;
    }
    let mut head = BytesMut::new();
    let spoken = spoken::listen(&mut client, &server, &mut head).await?;
    let refusal = match &spoken {
        Spoken::Nothing => return Ok(()),
        Spoken::Http => None,
        Spoken::Tls(sni) => check_name(sni, &target.host).err(),
        Spoken::Http2 => Some(RefusalReason::Protocol),
        Spoken::Other => WEB_PORTS
            .contains(&target.port)
            .then_some(RefusalReason::Protocol),
    };
    if let Some(reason) = refusal {
        sandbox.refuse(target.host.to_string(), Some(target.port), reason, None);
        if matches!(spoken, Spoken::Tls(_)) {
            client.write_all(&ALERT).await?;
        }
        return client.shutdown().await;
    }
    let client = rewound(head.freeze(), client);
    let secret = sandbox.policy().has_secret(&target.host, target.port);
    match spoken {
        Spoken::Http => http(client, target, server, sandbox).await,
        Spoken::Tls(_) if secret => terminated(client, target, server, sandbox).await,
        _ => join(client, Box::new(server)).await,
    }
}

/// A host that was asked for by its name must be named; one that was asked for by its address cannot be.
fn check_name(sni: &Sni, host: &Host) -> Result<(), RefusalReason> {
    match (sni, host) {
        (Sni::Missing, Host::Address(_)) => Ok(()),
        (Sni::Missing, Host::Name(_)) => Err(RefusalReason::SniMissing),
        (Sni::Named(named), host) if named == host => Ok(()),
        (Sni::Named(_) | Sni::Bad, _) => Err(RefusalReason::SniMismatch),
    }
}

/// HTTP to one target, and what may come of it.
async fn http(
    client: Stream,
    target: Target,
    server: TcpStream,
    sandbox: Arc<Sandbox>,
) -> io::Result<()> {
    match exchange::serve(client, sandbox, Scope::Only(target, Some(server))).await {
        Some(After::Joined(client, server)) => websocket(client, server).await,
        // CONNECT is refused within a tunnel.
        Some(After::Tunnel(..)) | None => Ok(()),
    }
}

/// TLS that the proxy speaks itself on both sides, so that it can put the secrets in.
async fn terminated(
    client: Stream,
    mut target: Target,
    server: TcpStream,
    sandbox: Arc<Sandbox>,
) -> io::Result<()> {
    let (Some(authority), Some(name)) = (&sandbox.authority, target.host.name()) else {
        // Without its secret the request would fail anyway, and less clearly.
        tracing::error!("a host has a secret, and there is no authority to speak for it");
        return Ok(());
    };
    let acceptor = authority.acceptor(name).map_err(io::Error::other)?;
    let client = tokio::time::timeout(HANDSHAKE, acceptor.accept(client)).await??;
    target.tls = true;
    http(Box::new(client), target, server, sandbox).await
}

/// Joins the two sides of a WebSocket.
pub(super) async fn websocket(
    client: hyper::upgrade::OnUpgrade,
    server: hyper::upgrade::OnUpgrade,
) -> io::Result<()> {
    let (client, server) = tokio::try_join!(client, server).map_err(io::Error::other)?;
    let (client, server) = (TokioIo::new(client), TokioIo::new(server));
    join(Box::new(client), Box::new(server)).await
}

/// Passes bytes both ways; each side's end is passed on by itself.
async fn join(mut client: Stream, mut server: Stream) -> io::Result<()> {
    copy_bidirectional_with_sizes(&mut client, &mut server, BUFFER, BUFFER)
        .await
        .map(drop)
}
