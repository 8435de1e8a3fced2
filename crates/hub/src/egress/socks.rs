//! SOCKS5 (RFC 1928): no authentication, CONNECT only. Names are preferred to addresses, as in `socks5h`.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use sandshell_types::RefusalReason;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::head::Target;
use super::host::Host;
use super::outside::OpenError;
use super::sandbox::Sandbox;
use super::stream::Stream;
use super::tunnel;

/// First byte of everything a client sends.
pub(super) const VERSION: u8 = 5;

const NO_AUTHENTICATION: u8 = 0;
const NONE_ACCEPTABLE: u8 = 0xff;
const CONNECT: u8 = 1;

const SUCCEEDED: u8 = 0;
const NOT_ALLOWED: u8 = 2;
const UNREACHABLE: u8 = 4;
const UNKNOWN_COMMAND: u8 = 7;
const UNKNOWN_ADDRESS: u8 = 8;

/// Serves one client; the first byte has not been taken.
pub(super) async fn run(mut client: Stream, sandbox: Arc<Sandbox>) -> io::Result<()> {
    let [_, count] = read(&mut client).await?;
    let mut methods = vec![0; usize::from(count)];
    client.read_exact(&mut methods).await?;
    if !methods.contains(&NO_AUTHENTICATION) {
        client.write_all(&[VERSION, NONE_ACCEPTABLE]).await?;
        return client.shutdown().await;
    }
    client.write_all(&[VERSION, NO_AUTHENTICATION]).await?;
    let [version, command, _, kind] = read(&mut client).await?;
    let host = match kind {
        1 => Some(Ok(IpAddr::from(Ipv4Addr::from(
            read::<4>(&mut client).await?,
        )))),
        4 => Some(Ok(IpAddr::from(Ipv6Addr::from(
            read::<16>(&mut client).await?,
        )))),
        3 => {
            let [length] = read(&mut client).await?;
            let mut name = vec![0; usize::from(length)];
            client.read_exact(&mut name).await?;
            Some(Err(String::from_utf8_lossy(&name).into_owned()))
        }
        _ => None,
    };
    let Some(host) = host.filter(|_| version == VERSION) else {
        return end(client, UNKNOWN_ADDRESS).await;
    };
    let port = u16::from_be_bytes(read(&mut client).await?);
    if command != CONNECT {
        return end(client, UNKNOWN_COMMAND).await;
    }
    let host = match host {
        Ok(address) => Host::Address(address.to_canonical()),
        Err(name) => {
            let Ok(host) = Host::parse(&name) else {
                sandbox.refuse(name, Some(port), RefusalReason::BadName, None);
                return end(client, NOT_ALLOWED).await;
            };
            host
        }
    };
    match sandbox.connect(&host, port).await {
        Ok(server) => {
            client.write_all(&reply(SUCCEEDED)).await?;
            let target = Target {
                host,
                port,
                tls: false,
            };
            tunnel::run(client, target, server, sandbox).await
        }
        Err(OpenError::Refused { reason, address }) => {
            sandbox.refuse(host.to_string(), Some(port), reason, address);
            end(client, NOT_ALLOWED).await
        }
        Err(error) => {
            tracing::debug!(%host, port, %error, "a host outside was not reached");
            end(client, UNREACHABLE).await
        }
    }
}

async fn read<const N: usize>(client: &mut Stream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    client.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// The address we connected from is nobody's business.
fn reply(code: u8) -> [u8; 10] {
    [VERSION, code, 0, 1, 0, 0, 0, 0, 0, 0]
}

async fn end(mut client: Stream, code: u8) -> io::Result<()> {
    client.write_all(&reply(code)).await?;
    client.shutdown().await
}
