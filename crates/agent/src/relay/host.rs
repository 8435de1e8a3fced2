//! The hub's end of the relay: a socket that may be away while the hub is started again.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::Instant;

/// How long a connection waits for a hub that is away: about as long as one takes to start.
const AWAY: Duration = Duration::from_secs(5);
/// Pause before the first new attempt; each is twice the one before.
const PAUSE: Duration = Duration::from_millis(20);
/// How long the hub may take to say whether a name is allowed.
const ANSWER: Duration = Duration::from_secs(5);
/// Most bytes of that answer.
const MAX_ANSWER: u64 = 4096;

/// The socket of the hub's proxy; cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct HostProxy(Arc<PathBuf>);

impl HostProxy {
    pub(super) fn new(socket: PathBuf) -> Self {
        Self(Arc::new(socket))
    }

    /// A connection that has said what it is.
    pub(super) async fn open(&self, opening: &str) -> io::Result<UnixStream> {
        let mut stream = self.connect().await?;
        stream.write_all(opening.as_bytes()).await?;
        Ok(stream)
    }

    async fn connect(&self) -> io::Result<UnixStream> {
        let until = Instant::now() + AWAY;
        let mut pause = PAUSE;
        loop {
            let error = match UnixStream::connect(&*self.0).await {
                Ok(stream) => return Ok(stream),
                Err(error) => error,
            };
            // Not there, not served, or its queue is full: all may pass.
            let may_pass = matches!(
                error.kind(),
                io::ErrorKind::NotFound
                    | io::ErrorKind::ConnectionRefused
                    | io::ErrorKind::WouldBlock
            );
            if !may_pass || Instant::now() + pause > until {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }

    /// The ports on which a name may be asked for; none if it may not. The name has no spaces.
    pub(super) async fn ports(&self, name: &str) -> io::Result<Vec<u16>> {
        let asking = async {
            let stream = self.open(&format!("name {name}\n")).await?;
            let mut answer = String::new();
            stream.take(MAX_ANSWER).read_to_string(&mut answer).await?;
            let ports = answer.strip_prefix("ports ").unwrap_or_default();
            Ok(ports
                .split_ascii_whitespace()
                .filter_map(|port| port.parse().ok())
                .collect())
        };
        tokio::time::timeout(ANSWER, asking).await?
    }
}
