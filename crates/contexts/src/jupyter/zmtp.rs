//! The wire of `ZeroMQ` (ZMTP 3.0, mechanism NULL), as much as a client of a Jupyter kernel needs:
//! DEALER and SUB sockets over a stream that is connected already.
//!
//! Our own, because the stream must come from the inside of the sandbox: libraries connect by name,
//! from where the agent stands.

use std::io;

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

/// Largest message taken from a kernel.
const MESSAGE_MAX: usize = 128 * 1024 * 1024;

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// What a socket is to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Dealer,
    Subscriber,
}

/// A connected socket.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: UnixStream,
    buffer: BytesMut,
    /// Frames of a message whose last frame has not come.
    frames: Vec<Bytes>,
    size: usize,
}

impl Socket {
    /// Shakes hands.
    pub(crate) async fn open(mut stream: UnixStream, kind: Kind) -> io::Result<Self> {
        stream.write_all(&greeting()).await?;
        let mut theirs = [0; 64];
        stream.read_exact(&mut theirs).await?;
        let [0xFF, .., _] = theirs else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        if theirs.get(10).is_none_or(|major| *major < 3)
            || theirs.get(12..17) != Some(b"NULL\0".as_slice())
        {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let mut socket = Self {
            stream,
            buffer: BytesMut::new(),
            frames: Vec::new(),
            size: 0,
        };
        let name: &[u8] = match kind {
            Kind::Dealer => b"DEALER",
            Kind::Subscriber => b"SUB",
        };
        let mut ready = b"\x05READY\x0bSocket-Type".to_vec();
        ready.extend_from_slice(&(name.len() as u32).to_be_bytes());
        ready.extend_from_slice(name);
        if kind == Kind::Dealer {
            ready.extend_from_slice(b"\x08Identity\0\0\0\0");
        }
        let mut out = Vec::new();
        write_frame(&mut out, COMMAND, &ready);
        if kind == Kind::Subscriber {
            // To everything.
            write_frame(&mut out, 0, b"\x01");
        }
        socket.stream.write_all(&out).await?;
        // Their READY comes before any message.
        loop {
            if let Some((flags, _)) = split_frame(&mut socket.buffer)? {
                if flags & COMMAND == 0 {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                return Ok(socket);
            }
            socket.fill().await?;
        }
    }

    async fn fill(&mut self) -> io::Result<()> {
        self.buffer.reserve(64 * 1024);
        if self.stream.read_buf(&mut self.buffer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    /// The next message.
    ///
    /// CANCEL SAFETY: what has been read stays here.
    pub(crate) async fn next(&mut self) -> io::Result<Vec<Bytes>> {
        loop {
            while let Some((flags, body)) = split_frame(&mut self.buffer)? {
                if flags & COMMAND != 0 {
                    continue;
                }
                self.size += body.len();
                if self.size > MESSAGE_MAX {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                self.frames.push(body);
                if flags & MORE == 0 {
                    self.size = 0;
                    return Ok(std::mem::take(&mut self.frames));
                }
            }
            self.fill().await?;
        }
    }

    pub(crate) async fn send(&mut self, frames: &[Vec<u8>]) -> io::Result<()> {
        let mut out = Vec::new();
        let last = frames.len().saturating_sub(1);
        for (n, frame) in frames.iter().enumerate() {
            write_frame(&mut out, if n < last { MORE } else { 0 }, frame);
        }
        self.stream.write_all(&out).await
    }
}

fn greeting() -> [u8; 64] {
    let mut greeting = [0; 64];
    for (to, from) in greeting
        .iter_mut()
        .zip(b"\xff\0\0\0\0\0\0\0\0\x7f\x03\0NULL")
    {
        *to = *from;
    }
    greeting
}

pub(crate) fn write_frame(out: &mut Vec<u8>, flags: u8, body: &[u8]) {
    if let Ok(size) = u8::try_from(body.len()) {
        out.extend_from_slice(&[flags, size]);
    } else {
        out.push(flags | LONG);
        out.extend_from_slice(&(body.len() as u64).to_be_bytes());
    }
    out.extend_from_slice(body);
}

pub(crate) fn split_frame(buffer: &mut BytesMut) -> io::Result<Option<(u8, Bytes)>> {
    let Some(&flags) = buffer.first() else {
        return Ok(None);
    };
    let (head, size) = if flags & LONG == 0 {
        match buffer.get(1) {
            Some(&size) => (2, usize::from(size)),
            None => return Ok(None),
        }
    } else {
        match buffer.get(1..9).and_then(|size| size.try_into().ok()) {
            Some(size) => (9, u64::from_be_bytes(size) as usize),
            None => return Ok(None),
        }
    };
    if size > MESSAGE_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    if buffer.len() < head + size {
        buffer.reserve(head + size - buffer.len());
        return Ok(None);
    }
    buffer.advance(head);
    Ok(Some((flags, buffer.split_to(size).freeze())))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn frames_survive(body in proptest::collection::vec(any::<u8>(), 0..600), cut in 0usize..600) {
            let mut out = Vec::new();
            write_frame(&mut out, MORE, &body);
            let cut = cut.min(out.len());
            let mut buffer = BytesMut::from(&out[..cut]);
            if cut < out.len() {
                prop_assert!(split_frame(&mut buffer).unwrap().is_none());
            }
            buffer.extend_from_slice(&out[cut..]);
            let (flags, got) = split_frame(&mut buffer).unwrap().unwrap();
            prop_assert_eq!(flags & MORE, MORE);
            prop_assert_eq!(&got[..], &body[..]);
        }

        #[test]
        fn nonsense_is_refused_or_waits(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut buffer = BytesMut::from(bytes.as_slice());
            while let Ok(Some(_)) = split_frame(&mut buffer) {}
        }
    }
}
