//! Doors for the fuzz targets (`fuzz/`): readers of bytes from outside that nobody else needs to reach.
//! Each is one call and adds nothing.

use bytes::Bytes;

use crate::bridge::workspace;
use crate::text::Text;

/// The text of a stream that comes in pieces, and whether it was any.
pub fn text_of(pieces: &[&[u8]]) -> (String, bool) {
    let mut text = Text::default();
    let mut all: String = pieces.iter().map(|piece| text.push(piece)).collect();
    all.push_str(&text.end());
    (all, text.changed())
}

/// The path in the workspace that a client of the bridge means; `None` when it leads out.
pub fn workspace_path(path: &[u8]) -> Option<Vec<u8>> {
    workspace::resolve(path)
}

/// A path as it stands in an address.
pub fn unescaped(text: &str) -> Option<Vec<u8>> {
    workspace::unescape(text)
}

/// Id, method, path and body of a message on Cloudflare's socket.
pub fn socket_message(text: &Bytes) -> Option<(String, String, String, Bytes)> {
    crate::cloudflare::mux::message(text)
}
