//! Bytes between the runtime and inside threads, in bounded pieces.
//!
//! Owns the two directions and their ends. A reader or writer that stands still for [`STALL`] breaks
//! off, so that a peer that went to sleep does not hold a thread for ever; an end that is missing is
//! an error, so that a part is never taken for the whole.
//!
//! The inside end is a plain `Read` or `Write` and holds its thread until the end; that is what tar,
//! gzip and zstd need. What can do without takes a thread for each piece instead: `stream`.

use std::io::{self, Read, Write};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

/// How long either side waits for the other.
pub(crate) const STALL: Duration = Duration::from_mins(2);

/// Size of the pieces that are written, and how many may wait.
const PIECE: usize = 128 << 10;
const WAITING: usize = 4;

/// The taking end, on the runtime.
#[derive(Debug)]
pub struct Pieces(mpsc::Receiver<Fed>);

impl Pieces {
    /// The next piece; `None` at a proper end.
    pub async fn next(&mut self) -> io::Result<Option<Bytes>> {
        match self.0.recv().await {
            Some(Fed::Data(data)) => Ok(Some(data)),
            Some(Fed::End) => Ok(None),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// The writing end, for an inside thread.
#[derive(Debug)]
pub struct Outlet {
    pieces: mpsc::Sender<Fed>,
    buffer: Vec<u8>,
    runtime: Handle,
}

/// Bytes from an inside thread to the runtime. To be called on the runtime.
pub fn outlet() -> (Outlet, Pieces) {
    let (pieces, taken) = mpsc::channel(WAITING);
    let outlet = Outlet {
        pieces,
        buffer: Vec::with_capacity(PIECE),
        runtime: Handle::current(),
    };
    (outlet, Pieces(taken))
}

impl Outlet {
    /// Sends what is left, and that it was all. Dropped without this, the stream breaks off.
    pub fn finish(mut self) -> io::Result<()> {
        self.send_buffer()?;
        self.send(Fed::End)
    }

    fn send_buffer(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.buffer, Vec::with_capacity(PIECE));
        self.send(Fed::Data(piece.into()))
    }

    fn send(&self, piece: Fed) -> io::Result<()> {
        let sending = async { tokio::time::timeout(STALL, self.pieces.send(piece)).await };
        match self.runtime.block_on(sending) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(io::ErrorKind::BrokenPipe.into()),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

impl Write for Outlet {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let room = PIECE.saturating_sub(self.buffer.len());
        let taken = data.get(..room.min(data.len())).unwrap_or(data);
        self.buffer.extend_from_slice(taken);
        if self.buffer.len() >= PIECE {
            self.send_buffer()?;
        }
        Ok(taken.len())
    }

    /// Pieces are sent when they are full: a flush in the middle would only make them small.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
enum Fed {
    Data(Bytes),
    End,
}

/// The feeding end, on the runtime. Dropped without [`Feeder::end`], it breaks the stream off.
#[derive(Debug)]
pub struct Feeder(mpsc::Sender<Fed>);

/// The reading end, for an inside thread.
pub struct Inlet {
    fed: mpsc::Receiver<Fed>,
    piece: Bytes,
    ended: bool,
    runtime: Handle,
}

/// Bytes from the runtime to an inside thread. To be called on the runtime.
pub fn inlet() -> (Feeder, Inlet) {
    let (feeder, fed) = mpsc::channel(WAITING);
    let inlet = Inlet {
        fed,
        piece: Bytes::new(),
        ended: false,
        runtime: Handle::current(),
    };
    (Feeder(feeder), inlet)
}

impl Feeder {
    /// Passes a piece on; false when nobody reads any more.
    pub async fn feed(&self, data: Bytes) -> bool {
        self.0.send(Fed::Data(data)).await.is_ok()
    }

    /// Says that this was all.
    pub async fn end(self) {
        // A reader that has gone does not need to know.
        let _ = self.0.send(Fed::End).await;
    }
}

impl Read for Inlet {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() && !self.ended {
            let fed = &mut self.fed;
            let next = async { tokio::time::timeout(STALL, fed.recv()).await };
            match self.runtime.block_on(next) {
                Ok(Some(Fed::Data(data))) => self.piece = data,
                Ok(Some(Fed::End)) => self.ended = true,
                Ok(None) => {
                    return Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the body broke off",
                    ));
                }
                Err(_) => {
                    return Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        "no bytes came for too long",
                    ));
                }
            }
        }
        let taken = self.piece.len().min(buffer.len());
        if let Some(room) = buffer.get_mut(..taken) {
            self.piece.copy_to_slice(room);
        }
        Ok(taken)
    }
}
