//! Connections that became streams of raw bytes.
//!
//! Owns a tunnel from the upgrade to its end. It understands nothing of what it passes but where frames of
//! a WebSocket begin, so that it can say goodbye between two of them when its right has ended.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use sandshell_agent::parts::Slot;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio_util::sync::CancellationToken;

use super::Tunnels;
use crate::sandbox::activity::InUse;

/// Bytes under way in each direction of a tunnel.
const BUFFER: usize = 16 * 1024;

/// How long a client may take to hear that its right has ended.
const GOODBYE: Duration = Duration::from_secs(2);

/// A frame that closes a WebSocket: policy violation, with the reason.
const CLOSE: &[u8] = b"\x88\x11\x03\xf0the token ended";

/// Two sides that are about to be upgraded.
pub(super) struct Tunnel {
    pub(super) client: OnUpgrade,
    pub(super) agent: OnUpgrade,
    /// Whether the client reads frames of a WebSocket.
    pub(super) websocket: bool,
    /// Told when the right to it ends.
    pub(super) until: Option<CancellationToken>,
}

impl Tunnel {
    /// Joins both sides once both have been upgraded. The sandbox is in use, and the connection in its
    /// place, for as long as that lasts.
    pub(super) fn start(self, tunnels: &Tunnels, held: (Option<InUse>, Option<Slot>)) {
        let shutdown = tunnels.shutdown.clone();
        tunnels.open.spawn(async move {
            tokio::select! {
                () = self.run() => {}
                () = shutdown.cancelled() => {}
            }
            drop(held);
        });
    }

    async fn run(self) {
        let (Ok(client), Ok(agent)) = tokio::join!(self.client, self.agent) else {
            return;
        };
        let mut client = Watched {
            stream: TokioIo::new(client),
            frames: Frames::default(),
        };
        let mut agent = TokioIo::new(agent);
        let joined =
            tokio::io::copy_bidirectional_with_sizes(&mut client, &mut agent, BUFFER, BUFFER);
        let right_ended = async {
            match &self.until {
                Some(until) => until.cancelled().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // An error is the end of one side; there is nobody to tell but the other.
            _ = joined => return,
            () = right_ended => {}
        }
        drop(agent);
        if self.websocket && client.frames.between() {
            // Nobody waits for a client that does not listen.
            let _ = tokio::time::timeout(GOODBYE, say_goodbye(client.stream)).await;
        }
    }
}

/// Closes a WebSocket, and reads what the client still sends: a connection that is closed with bytes
/// unread takes back what it sent last.
async fn say_goodbye(mut client: TokioIo<Upgraded>) -> io::Result<()> {
    client.write_all(CLOSE).await?;
    client.shutdown().await?;
    tokio::io::copy(&mut client, &mut tokio::io::sink()).await?;
    Ok(())
}

/// A stream that knows where it is in what is written to it.
struct Watched {
    stream: TokioIo<Upgraded>,
    frames: Frames,
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = std::task::ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        self.frames.pass(bytes.get(..written).unwrap_or_default());
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Where a stream of WebSocket frames is (RFC 6455, 5.2).
#[derive(Debug, Default)]
struct Frames {
    /// The head of the next frame, as far as it has come.
    head: Vec<u8>,
    /// Bytes left of the frame.
    left: u64,
}

impl Frames {
    fn pass(&mut self, mut bytes: &[u8]) {
        while let Some((first, rest)) = bytes.split_first() {
            if self.left > 0 {
                let many = usize::try_from(self.left)
                    .unwrap_or(usize::MAX)
                    .min(bytes.len());
                self.left -= many as u64;
                bytes = bytes.get(many..).unwrap_or_default();
                continue;
            }
            self.head.push(*first);
            bytes = rest;
            if let Some(length) = payload(&self.head) {
                self.left = length;
                self.head.clear();
            }
        }
    }

    fn between(&self) -> bool {
        self.head.is_empty() && self.left == 0
    }
}

/// The bytes that follow a head, once it is whole.
fn payload(head: &[u8]) -> Option<u64> {
    let second = *head.get(1)?;
    let mask = if second & 0x80 == 0 { 0 } else { 4 };
    let wide: usize = match second & 0x7f {
        126 => 2,
        127 => 8,
        short => return (head.len() == 2 + mask).then_some(short.into()),
    };
    let length = head.get(2..2 + wide)?;
    let length = length
        .iter()
        .fold(0, |sum, byte| (sum << 8) | u64::from(*byte));
    (head.len() == 2 + wide + mask).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_each_frame_is_known() {
        let frame = |head: &[u8], payload: usize| [head, &vec![b'x'; payload]].concat();
        for frame in [
            frame(&[0x81, 0], 0),
            frame(&[0x81, 5], 5),
            frame(&[0x82, 126, 1, 0], 256),
            frame(&[0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0], 65536),
            frame(&[0x81, 0x83, 1, 2, 3, 4], 3),
            CLOSE.to_vec(),
        ] {
            for piece in [1, 3, 1000, frame.len()] {
                let mut frames = Frames::default();
                assert!(frames.between());
                for _ in 0..2 {
                    let mut passed = 0;
                    for bytes in frame.chunks(piece) {
                        assert!(passed == 0 || !frames.between(), "{frame:?}");
                        frames.pass(bytes);
                        passed += bytes.len();
                    }
                    assert!(frames.between(), "{frame:?}");
                }
            }
        }
    }
}
