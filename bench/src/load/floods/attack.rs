//! The floods themselves: raw connections that do what no honest client does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use sandshell_testkit::Hub;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Connections that one flood makes at most: far fewer than there are ports on loopback.
const MOST: usize = 10_000;

/// Half of a head: a server that waits for the rest waits for ever.
const HALF: &str = "POST /v1/sandboxes HTTP/1.1\r\nhost: localhost\r\nx-slow: ";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attack {
    /// Connects and closes, as fast as it can.
    Churn,
    /// Connects and says nothing.
    Silence,
    /// Sends half a head, then a byte now and then.
    SlowLoris,
    /// Sends heads without an end.
    Heads,
    /// Sends bodies far above the limit.
    Bodies,
    /// Sends what is no HTTP.
    Noise,
}

impl Attack {
    pub(super) const ALL: [Self; 6] = [
        Self::Churn,
        Self::Silence,
        Self::SlowLoris,
        Self::Heads,
        Self::Bodies,
        Self::Noise,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Churn => "connections that close at once",
            Self::Silence => "3,000 silent connections",
            Self::SlowLoris => "3,000 connections with half a head",
            Self::Heads => "heads without end",
            Self::Bodies => "oversized bodies",
            Self::Noise => "noise",
        }
    }

    /// How many at a time.
    fn at_once(self) -> usize {
        match self {
            Self::Silence | Self::SlowLoris => 3_000,
            Self::Churn | Self::Noise => 64,
            Self::Heads => 32,
            Self::Bodies => 8,
        }
    }

    /// Begins, on a thread and a runtime of its own; it ends by itself.
    pub(super) fn against(self, hub: &Hub, length: Duration) -> Flood {
        let address = hub.url().trim_start_matches("http://").to_owned();
        let token = hub.token().to_owned();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(self.run(&address, &token, length))
        });
        Flood(thread)
    }

    async fn run(self, address: &str, token: &str, length: Duration) -> Result<String> {
        let made = Arc::new(AtomicUsize::new(0));
        let refused = Arc::new(AtomicUsize::new(0));
        let mut attackers = JoinSet::new();
        for _ in 0..self.at_once() {
            let (made, refused) = (Arc::clone(&made), Arc::clone(&refused));
            let (address, token) = (address.to_owned(), token.to_owned());
            attackers.spawn(async move {
                while made.fetch_add(1, Ordering::Relaxed) < MOST {
                    let Ok(stream) = TcpStream::connect(&address).await else {
                        refused.fetch_add(1, Ordering::Relaxed);
                        continue;
                    };
                    // Whatever the hub does, even closing in the middle, is an answer.
                    let _ = self.once(stream, &token).await;
                }
            });
        }
        tokio::time::sleep(length).await;
        attackers.shutdown().await;
        let (made, refused) = (
            made.load(Ordering::Relaxed),
            refused.load(Ordering::Relaxed),
        );
        Ok(format!("{made} connections, {refused} of them refused"))
    }

    async fn once(self, mut stream: TcpStream, token: &str) -> std::io::Result<()> {
        match self {
            Self::Churn => {}
            Self::Silence => {
                stream.read_u8().await?;
            }
            Self::SlowLoris => {
                stream.write_all(HALF.as_bytes()).await?;
                loop {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    stream.write_all(b"x").await?;
                }
            }
            Self::Heads => {
                let line = format!("x-{}: {}\r\n", "n".repeat(100), "v".repeat(8_000));
                stream
                    .write_all(b"GET /v1/sandboxes HTTP/1.1\r\nhost: localhost\r\n")
                    .await?;
                for _ in 0..1_000 {
                    stream.write_all(line.as_bytes()).await?;
                }
            }
            Self::Bodies => {
                let head = format!(
                    "POST /v1/sandboxes HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
                     content-type: application/json\r\ncontent-length: {}\r\n\r\n",
                    1_u64 << 30
                );
                stream.write_all(head.as_bytes()).await?;
                let piece = vec![b' '; 1 << 20];
                for _ in 0..64 {
                    stream.write_all(&piece).await?;
                }
            }
            Self::Noise => {
                stream.write_all(&[0xff; 4_096]).await?;
                stream.read_u8().await?;
            }
        }
        Ok(())
    }
}

/// A flood under way.
pub(super) struct Flood(JoinHandle<Result<String>>);

impl Flood {
    /// Waits for its end; gives what it did.
    pub(super) fn join(self) -> Result<String> {
        let outcome = self.0.join().map_err(|_| anyhow!("the flood panicked"))?;
        outcome.context("the flood")
    }
}
