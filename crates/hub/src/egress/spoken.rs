//! What a client speaks, told from its first bytes before any of them goes on.
//!
//! ```text
//!             first byte 0x16 ──► client hello complete ──► Tls { name }
//! listening ─ first line "… HTTP/1.x" ────────────────────► Http
//!             "PRI * HTTP/2.0" ───────────────────────────► Http2
//!             anything else ──────────────────────────────► Other
//!             the server speaks first ────────────────────► Other
//!             one side ends, or both are silent ──────────► Nothing
//! ```

use std::io;
use std::time::Duration;

use bytes::BytesMut;
use rustls::server::Acceptor;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::TcpStream;

use super::host::Host;

/// Most bytes of a client hello: rustls takes no longer message.
const MAX_HELLO: usize = 70 * 1024;
/// Most bytes of a first line that may be one of HTTP.
const MAX_LINE: usize = 16 * 1024;
/// How long the first bytes may take.
const FIRST_BYTES: Duration = Duration::from_secs(30);

/// What is spoken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Spoken {
    /// TLS to this server: its name, if it is told and is a host.
    Tls(Sni),
    /// HTTP/1.
    Http,
    /// HTTP/2 without TLS, in which each request may name another host.
    Http2,
    /// Something else.
    Other,
    /// Nothing that could be told before one side went away, or in good time.
    Nothing,
}

/// The name in a client hello.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Sni {
    Missing,
    /// Not a host.
    Bad,
    Named(Host),
}

/// Reads the client's first bytes into `head` until it is clear what they are.
pub(super) async fn listen(
    client: &mut (impl AsyncRead + Unpin),
    server: &TcpStream,
    head: &mut BytesMut,
) -> io::Result<Spoken> {
    let mut hello = Hello::default();
    let mut said = [0];
    let deciding = async {
        loop {
            if let Some(spoken) = decide(head, &mut hello) {
                return Ok(spoken);
            }
            tokio::select! {
                biased;
                read = client.read_buf(head) => {
                    if read? == 0 {
                        return Ok(if head.is_empty() { Spoken::Nothing } else { Spoken::Other });
                    }
                }
                // Servers of TLS and HTTP wait for the client.
                count = server.peek(&mut said) => {
                    return Ok(if count? == 0 { Spoken::Nothing } else { Spoken::Other });
                }
            }
        }
    };
    match tokio::time::timeout(FIRST_BYTES, deciding).await {
        Ok(spoken) => spoken,
        Err(_) => Ok(Spoken::Nothing),
    }
}

/// What the bytes are, once that is clear.
pub(crate) fn decide(head: &[u8], hello: &mut Hello) -> Option<Spoken> {
    match head.first()? {
        0x16 => hello.read(head),
        first if first.is_ascii_alphabetic() || first.is_ascii_whitespace() => first_line(head),
        _ => Some(Spoken::Other),
    }
}

/// Servers pass over empty lines before a request; so do we.
fn first_line(head: &[u8]) -> Option<Spoken> {
    let line = head.trim_ascii_start();
    let Some(end) = line.iter().position(|byte| *byte == b'\n') else {
        return (head.len() > MAX_LINE).then_some(Spoken::Other);
    };
    let line = line.get(..end).unwrap_or_default().trim_ascii_end();
    let version = line.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
    Some(if version.starts_with(b"HTTP/1.") {
        Spoken::Http
    } else if version.starts_with(b"HTTP/") {
        Spoken::Http2
    } else {
        Spoken::Other
    })
}

/// A client hello that is being put together.
#[derive(Default)]
pub(crate) struct Hello {
    acceptor: Acceptor,
    taken: usize,
}

impl Hello {
    fn read(&mut self, head: &[u8]) -> Option<Spoken> {
        while let Some(mut rest) = head.get(self.taken..).filter(|rest| !rest.is_empty()) {
            match self.acceptor.read_tls(&mut rest) {
                Ok(count) if count > 0 => self.taken += count,
                // It is full: more than any hello.
                _ => return Some(Spoken::Other),
            }
            match self.acceptor.accept() {
                Ok(Some(accepted)) => {
                    let hello = accepted.client_hello();
                    let sni = match hello.server_name().map(Host::parse) {
                        None => Sni::Missing,
                        Some(Err(_)) => Sni::Bad,
                        Some(Ok(host)) => Sni::Named(host),
                    };
                    return Some(Spoken::Tls(sni));
                }
                Ok(None) => {}
                Err(_) => return Some(Spoken::Other),
            }
        }
        (head.len() > MAX_HELLO).then_some(Spoken::Other)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, ClientConnection, RootCertStore};

    use super::*;

    fn hello(name: &'static str, sni: bool) -> Vec<u8> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        config.enable_sni = sni;
        let name = ServerName::try_from(name).unwrap();
        let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        bytes
    }

    /// Gives the bytes in pieces, as a network does.
    fn told(bytes: &[u8], piece: usize) -> Option<Spoken> {
        let mut hello = Hello::default();
        let mut end = 0;
        while end < bytes.len() {
            end = (end + piece).min(bytes.len());
            if let Some(spoken) = decide(&bytes[..end], &mut hello) {
                return Some(spoken);
            }
        }
        None
    }

    #[test]
    fn names_are_read_however_the_hello_arrives() {
        let named = |name: &str| Some(Spoken::Tls(Sni::Named(Host::parse(name).unwrap())));
        for piece in [1, 3, 100, 10_000] {
            assert_eq!(
                told(&hello("example.com", true), piece),
                named("example.com")
            );
            assert_eq!(
                told(&hello("example.com", false), piece),
                Some(Spoken::Tls(Sni::Missing))
            );
        }
        // The same message in records of ten bytes.
        let whole = hello("a.example.org", true);
        let cut: Vec<u8> = whole[5..]
            .chunks(10)
            .flat_map(|part| [&[0x16, 3, 1, 0, part.len() as u8][..], part].concat())
            .collect();
        assert_eq!(told(&cut, 7), named("a.example.org"));
    }

    #[test]
    fn first_lines_tell_the_protocol() {
        for (bytes, expected) in [
            ("GET / HTTP/1.1\r\n", Some(Spoken::Http)),
            ("get http://a/ HTTP/1.0\n", Some(Spoken::Http)),
            ("\r\n\r\nGET / HTTP/1.1\r\n", Some(Spoken::Http)),
            ("GET / HTTP/1.1  \r\n", Some(Spoken::Http)),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Some(Spoken::Http2)),
            ("SSH-2.0-client\r\n", Some(Spoken::Other)),
            ("*1\r\n$4\r\nPING\r\n", Some(Spoken::Other)),
            ("\0\0\0\u{8}", Some(Spoken::Other)),
            ("GET / HT", None),
            ("\r\n", None),
        ] {
            assert_eq!(told(bytes.as_bytes(), 4096), expected, "{bytes:?}");
        }
        assert_eq!(told(&vec![b'A'; MAX_LINE + 1], 4096), Some(Spoken::Other));
    }

    proptest! {
        /// Bytes that begin like TLS and are not never give a name, and never panic.
        #[test]
        fn broken_hellos_name_nobody(at in 0usize..200, value: u8, cut in 0usize..250) {
            let mut bytes = hello("example.com", true);
            let index = at % bytes.len();
            bytes[index] = value;
            bytes.truncate(cut.max(1));
            if let Some(Spoken::Tls(Sni::Named(host))) = told(&bytes, 64) {
                prop_assert!(host.name().is_some());
            }
        }

        #[test]
        fn no_bytes_are_too_odd(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = told(&bytes, 17);
        }
    }
}
