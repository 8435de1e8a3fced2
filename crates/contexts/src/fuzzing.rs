//! Doors for the fuzz targets (`fuzz/`): readers of bytes from outside that nobody else needs to reach.
//! Each is one call and adds nothing.

use std::io;

use bytes::{Bytes, BytesMut};
use serde_json::Value;

use crate::frames;
use crate::jupyter::message::Sealer;
use crate::jupyter::zmtp;

/// Takes a driver's message off what was read.
pub fn driver_message(buffer: &mut BytesMut) -> io::Result<Option<Vec<String>>> {
    frames::split_message(buffer)
}

/// A message to a driver.
pub fn driver_message_of(strings: &[&str]) -> Vec<u8> {
    frames::encode(strings)
}

/// Takes a frame of a Jupyter kernel off what was read.
pub fn kernel_frame(buffer: &mut BytesMut) -> io::Result<Option<(u8, Bytes)>> {
    zmtp::split_frame(buffer)
}

/// A frame to a kernel.
pub fn kernel_frame_of(flags: u8, body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    zmtp::write_frame(&mut frame, flags, body);
    frame
}

/// Kind, parent and content of a kernel's message; `None` when it is not one, or not signed with the key.
pub fn kernel_message(key: &str, frames: &[Bytes]) -> Option<(String, String, Value)> {
    let message = Sealer::new(key.to_owned(), "s".to_owned()).open(frames)?;
    Some((message.kind, message.parent, message.content))
}

/// The frames of a message.
pub fn kernel_message_of(key: &str, kind: &str, content: &Value) -> Vec<Bytes> {
    let (frames, _) = Sealer::new(key.to_owned(), "s".to_owned()).seal(kind, content);
    frames.into_iter().map(Bytes::from).collect()
}
