//! Where the server is, and the byte transport to it.
//!
//! Owns the reading of base URLs and the opening of sockets. Knows nothing of HTTP messages.

use std::fmt;
use std::io;
#[cfg(unix)]
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{HeaderValue, Uri};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::io::DuplexStream;
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;

use crate::ClientError;
use crate::in_process::Connector;

/// An address to connect to.
#[derive(Debug)]
pub(crate) enum Endpoint {
    Tcp {
        host: String,
        port: u16,
    },
    #[cfg(unix)]
    Unix {
        path: PathBuf,
    },
    InProcess(Connector),
}

impl Endpoint {
    /// Reads `http://host:port` or `unix:/path`; gives the value of the `Host` header too.
    pub(crate) fn parse(url: &str) -> Result<(Self, HeaderValue), ClientError> {
        let refuse = |reason: &str| ClientError::config(format!("the base URL {url:?}"), &reason);
        #[cfg(unix)]
        if let Some(rest) = url.strip_prefix("unix:") {
            let path = rest.strip_prefix("//").unwrap_or(rest);
            if !path.starts_with('/') {
                return Err(refuse(
                    "a socket path starts with '/', as in unix:/run/sandshell.sock",
                ));
            }
            return Ok((
                Self::Unix { path: path.into() },
                HeaderValue::from_static("localhost"),
            ));
        }
        let uri: Uri = url.parse().map_err(|_| refuse("it is not a URL"))?;
        if uri.scheme_str() != Some("http") {
            return Err(refuse("it starts with http:// or unix:/"));
        }
        if uri.path() != "/" || uri.query().is_some() {
            return Err(refuse("it has no path and no query"));
        }
        let authority = uri.authority().ok_or_else(|| refuse("it names no host"))?;
        if authority.as_str().contains('@') {
            return Err(refuse("a token goes beside the URL, not into it"));
        }
        let host = authority
            .host()
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        let header = HeaderValue::from_str(authority.as_str())
            .map_err(|_| refuse("its host cannot be put into a header"))?;
        Ok((
            Self::Tcp {
                host,
                port: authority.port_u16().unwrap_or(80),
            },
            header,
        ))
    }

    pub(crate) async fn connect(&self) -> Result<Transport, ClientError> {
        let opened = match self {
            Self::Tcp { host, port } => match TcpStream::connect((host.as_str(), *port)).await {
                // Small requests and replies in turn: Nagle would only add delayed-ACK pauses.
                Ok(stream) => stream
                    .set_nodelay(true)
                    .map(|()| Transport::Tcp(TokioIo::new(stream))),
                Err(error) => Err(error),
            },
            #[cfg(unix)]
            Self::Unix { path } => UnixStream::connect(path)
                .await
                .map(|s| Transport::Unix(TokioIo::new(s))),
            Self::InProcess(connector) => Ok(Transport::InProcess(TokioIo::new(connector.open()))),
        };
        opened.map_err(|source| ClientError::Connect {
            endpoint: self.to_string(),
            source,
        })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            #[cfg(unix)]
            Self::Unix { path } => write!(f, "unix:{}", path.display()),
            Self::InProcess(_) => f.write_str("this process"),
        }
    }
}

/// An open socket of either kind.
#[derive(Debug)]
pub(crate) enum Transport {
    Tcp(TokioIo<TcpStream>),
    #[cfg(unix)]
    Unix(TokioIo<UnixStream>),
    InProcess(TokioIo<DuplexStream>),
}

macro_rules! on_either {
    ($self:expr, $io:ident => $call:expr) => {
        match $self {
            Transport::Tcp($io) => $call,
            #[cfg(unix)]
            Transport::Unix($io) => $call,
            Transport::InProcess($io) => $call,
        }
    };
}

impl Read for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        on_either!(self.get_mut(), io => Pin::new(io).poll_read(cx, buf))
    }
}

impl Write for Transport {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        on_either!(self.get_mut(), io => Pin::new(io).poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_either!(self.get_mut(), io => Pin::new(io).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_either!(self.get_mut(), io => Pin::new(io).poll_shutdown(cx))
    }

    fn is_write_vectored(&self) -> bool {
        on_either!(self, io => io.is_write_vectored())
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on_either!(self.get_mut(), io => Pin::new(io).poll_write_vectored(cx, bufs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> Option<(String, String)> {
        let (endpoint, host) = Endpoint::parse(url).ok()?;
        Some((endpoint.to_string(), host.to_str().ok()?.to_owned()))
    }

    #[test]
    fn reads_both_forms() {
        for (url, endpoint, host) in [
            ("http://127.0.0.1:4020", "127.0.0.1:4020", "127.0.0.1:4020"),
            ("http://127.0.0.1:4020/", "127.0.0.1:4020", "127.0.0.1:4020"),
            ("http://box.local", "box.local:80", "box.local"),
            ("http://[::1]:7", "[::1]:7", "[::1]:7"),
        ] {
            assert_eq!(
                parsed(url),
                Some((endpoint.to_owned(), host.to_owned())),
                "{url}"
            );
        }
    }

    #[cfg(unix)]
    #[test]
    fn reads_a_socket_path() {
        let expected = Some(("unix:/run/a b.sock".to_owned(), "localhost".to_owned()));
        assert_eq!(parsed("unix:/run/a b.sock"), expected);
        assert_eq!(parsed("unix:///run/a b.sock"), expected);
    }

    #[test]
    fn refuses_the_rest() {
        for url in [
            "",
            "localhost:1",
            "https://a",
            "http://a/b",
            "http://a?b",
            "http://u:p@a",
            "unix:a",
        ] {
            assert!(
                matches!(Endpoint::parse(url), Err(ClientError::Config { .. })),
                "{url} should be refused"
            );
        }
    }
}
