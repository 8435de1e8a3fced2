//! Messages on the control channel of a driver: a length, then strings with a length each.
//!
//! The other side is code in the sandbox, which user code can take over: a message that is not well
//! formed, or too large, ends the channel and harms nobody else.

use std::io;

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

/// Largest message taken from a driver.
const MESSAGE_MAX: usize = 64 * 1024 * 1024;

/// Both directions of a channel.
#[derive(Debug)]
pub(crate) struct Frames {
    reader: OwnedReadHalf,
    writer: OwnedWriteHalf,
    buffer: BytesMut,
}

impl Frames {
    pub(crate) fn new(stream: UnixStream) -> Self {
        let (reader, writer) = stream.into_split();
        Self {
            reader,
            writer,
            buffer: BytesMut::new(),
        }
    }

    /// The next message.
    ///
    /// CANCEL SAFETY: what has been read stays in the buffer.
    pub(crate) async fn next(&mut self) -> io::Result<Vec<String>> {
        loop {
            if let Some(message) = split_message(&mut self.buffer)? {
                return Ok(message);
            }
            self.buffer.reserve(64 * 1024);
            if self.reader.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    pub(crate) async fn send(&mut self, strings: &[&str]) -> io::Result<()> {
        self.writer.write_all(&encode(strings)).await
    }
}

pub(crate) fn encode(strings: &[&str]) -> Vec<u8> {
    let size: usize = strings.iter().map(|text| 4 + text.len()).sum();
    let mut message = Vec::with_capacity(4 + size);
    message.extend_from_slice(&(size as u32).to_be_bytes());
    for text in strings {
        message.extend_from_slice(&(text.len() as u32).to_be_bytes());
        message.extend_from_slice(text.as_bytes());
    }
    message
}

pub(crate) fn split_message(buffer: &mut BytesMut) -> io::Result<Option<Vec<String>>> {
    let Some(size) = length(buffer) else {
        return Ok(None);
    };
    if size > MESSAGE_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    if buffer.len() < 4 + size {
        buffer.reserve(4 + size - buffer.len());
        return Ok(None);
    }
    buffer.advance(4);
    let mut body = buffer.split_to(size);
    let mut strings = Vec::new();
    while !body.is_empty() {
        let size = length(&body).ok_or(io::ErrorKind::InvalidData)?;
        body.advance(4);
        if size > body.len() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        strings.push(String::from_utf8_lossy(&body.split_to(size)).into_owned());
    }
    Ok(Some(strings))
}

fn length(bytes: &[u8]) -> Option<usize> {
    let head: [u8; 4] = bytes.get(..4)?.try_into().ok()?;
    Some(u32::from_be_bytes(head) as usize)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_sent_arrives(strings in proptest::collection::vec(".*", 0..5), cut in 0usize..64) {
            let words: Vec<&str> = strings.iter().map(String::as_str).collect();
            let whole = encode(&words);
            let cut = cut.min(whole.len());
            let mut buffer = BytesMut::from(&whole[..cut]);
            if cut < whole.len() {
                prop_assert!(split_message(&mut buffer).unwrap().is_none());
            }
            buffer.extend_from_slice(&whole[cut..]);
            prop_assert_eq!(split_message(&mut buffer).unwrap().unwrap(), strings);
        }

        #[test]
        fn nonsense_is_refused_or_waits(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut buffer = BytesMut::from(bytes.as_slice());
            let _ = split_message(&mut buffer);
        }
    }
}
