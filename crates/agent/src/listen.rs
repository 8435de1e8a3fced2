//! Where an agent listens: a TCP address or a Unix socket.
//!
//! Owns the reading of addresses, binding, and the socket file: private, taken over only from an
//! agent that is gone, removed at the end.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use sandshell_sys::quiet::QuietStream;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_util::either::Either;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;

/// An address to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// `ADDRESS:PORT`; port 0 picks a free one.
    Tcp(SocketAddr),
    /// `unix:PATH`.
    Unix(PathBuf),
}

impl Listen {
    /// Whether only this machine, or this user, can connect.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().is_loopback(),
            Self::Unix(_) => true,
        }
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            if path.is_empty() {
                return Err("a path is missing after `unix:`".to_owned());
            }
            return Ok(Self::Unix(PathBuf::from(path)));
        }
        text.to_socket_addrs()
            .ok()
            .and_then(|mut addresses| addresses.next())
            .map(Self::Tcp)
            .ok_or_else(|| "expected ADDRESS:PORT or unix:PATH".to_owned())
    }
}

impl fmt::Display for Listen {
    /// The URL of the service.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "http://{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A bound socket.
#[derive(Debug)]
pub enum Listener {
    /// For `ADDRESS:PORT`.
    Tcp(TcpListener),
    /// For `unix:PATH`.
    Unix {
        /// The socket.
        listener: UnixListener,
        /// Its file, removed at the end.
        path: PathBuf,
    },
    /// Bound by whoever started us, at a path we do not see.
    Given(UnixListener),
}

/// An accepted connection.
#[derive(Debug)]
pub struct Connection {
    /// Its bytes.
    pub stream: Either<TcpStream, QuietStream>,
    /// Where it comes from, if that has an address.
    pub peer: Option<IpAddr>,
}

impl Listener {
    /// Binds the address. Needs a runtime.
    pub async fn bind(listen: &Listen) -> io::Result<Self> {
        match listen {
            Listen::Tcp(address) => Ok(Self::Tcp(TcpListener::bind(address).await?)),
            Listen::Unix(path) => {
                clear_stale_socket(path).await?;
                // Private from its first moment. The mask is the whole process's; at this point of an
                // agent's start nothing else makes files.
                let mask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
                let bound = UnixListener::bind(path);
                rustix::process::umask(mask);
                let listener = bound?;
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
                Ok(Self::Unix {
                    listener,
                    path: path.clone(),
                })
            }
        }
    }

    /// Listens on a socket that is bound already. Needs a runtime.
    pub(crate) fn given(socket: OwnedFd) -> io::Result<Self> {
        rustix::net::listen(&socket, BACKLOG)?;
        let listener = std::os::unix::net::UnixListener::from(socket);
        listener.set_nonblocking(true)?;
        UnixListener::from_std(listener).map(Self::Given)
    }

    /// Where it is bound; the port is the real one.
    pub fn address(&self) -> io::Result<Listen> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(Listen::Tcp),
            Self::Unix { path, .. } => Ok(Listen::Unix(path.clone())),
            Self::Given(_) => Ok(Listen::Unix(PathBuf::new())),
        }
    }

    /// The next connection.
    ///
    /// CANCEL SAFETY: a dropped call loses no connection.
    pub async fn accept(&self) -> io::Result<Connection> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                // Answers are small and complete: waiting to fill a segment only costs time.
                stream.set_nodelay(true)?;
                watch_peer(&stream)?;
                Ok(Connection {
                    stream: Either::Left(stream),
                    peer: Some(peer.ip()),
                })
            }
            Self::Unix { listener, .. } | Self::Given(listener) => {
                let (stream, _) = listener.accept().await?;
                Ok(Connection {
                    stream: Either::Right(QuietStream::new(stream)?),
                    peer: None,
                })
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix { path, .. } = self {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Has the kernel look whether a quiet peer is still there: one that vanished without a word, in the
/// middle of a body or of a stream, is found within two minutes.
fn watch_peer(stream: &TcpStream) -> io::Result<()> {
    use rustix::net::sockopt;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, Duration::from_mins(1))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(15))?;
    sockopt::set_tcp_keepcnt(stream, 4)?;
    Ok(())
}

/// Removes a socket nobody listens on any more.
async fn clear_stale_socket(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "the path is not a socket",
            ));
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
        }
        Err(error) => Err(error),
        Ok(_) => Err(io::ErrorKind::AddrInUse.into()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn reads_addresses() {
        assert_eq!("unix:/a b".parse(), Ok(Listen::Unix("/a b".into())));
        let tcp: Listen = "127.0.0.1:0".parse().unwrap();
        assert!(tcp.is_local());
        assert_eq!(tcp.to_string(), "http://127.0.0.1:0");
        assert!(!"0.0.0.0:1".parse::<Listen>().unwrap().is_local());
        assert_eq!(
            "[::1]:5".parse::<Listen>().unwrap().to_string(),
            "http://[::1]:5"
        );
        for wrong in ["", "unix:", "127.0.0.1", "127.0.0.1:99999"] {
            assert!(wrong.parse::<Listen>().is_err(), "{wrong}");
        }
    }

    #[tokio::test]
    async fn takes_over_a_stale_socket_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listen = Listen::Unix(path.clone());
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let first = Listener::bind(&listen).await.unwrap();
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        let second = Listener::bind(&listen).await.unwrap_err();
        assert_eq!(second.kind(), io::ErrorKind::AddrInUse);
        drop(first);
        assert!(!path.exists());
        std::fs::write(&path, "mine").unwrap();
        assert!(Listener::bind(&listen).await.is_err());
        assert!(path.exists());
    }
}
