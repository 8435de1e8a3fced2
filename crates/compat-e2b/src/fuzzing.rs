//! Doors for the fuzz targets (`fuzz/`): readers of bytes from outside that nobody else needs to reach.
//! Each is one call and adds nothing.

use axum::body::Body;
use serde_json::Value;

use crate::schema::{
    LIST_DIR, MOVE, Message, PATH, SELECTED, SEND_INPUT, SEND_SIGNAL, START, STREAM_INPUT, UPDATE,
    WATCH, WATCHER,
};
use crate::wire::{Codec, Inbox};
use crate::{path, proto, query};

/// All messages of clients.
const MESSAGES: &[Message] = &[
    START,
    SELECTED,
    UPDATE,
    SEND_INPUT,
    SEND_SIGNAL,
    STREAM_INPUT,
    PATH,
    MOVE,
    LIST_DIR,
    WATCH,
    WATCHER,
];

fn message(number: usize) -> Message {
    MESSAGES
        .get(number % MESSAGES.len())
        .copied()
        .unwrap_or(START)
}

/// The JSON of a binary message.
pub fn proto_read(bytes: &[u8], number: usize) -> Option<Value> {
    proto::read(bytes, message(number)).ok()
}

/// The binary message of a JSON.
pub fn proto_write(value: &Value, number: usize) -> Vec<u8> {
    proto::write(value, message(number))
}

/// The messages of a stream, and whether it ended as it should.
pub async fn connect_stream(body: Body, number: usize, binary: bool) -> (Vec<Value>, bool) {
    let codec = if binary { Codec::Binary } else { Codec::Json };
    let mut inbox = Inbox::<Value>::new(body, codec, message(number));
    let mut read = Vec::new();
    loop {
        match inbox.next().await {
            Ok(Some(value)) => read.push(value),
            Ok(None) => return (read, true),
            Err(_) => return (read, false),
        }
    }
}

/// The pairs of a query.
pub fn query_pairs(text: &str) -> Vec<(String, String)> {
    query::pairs(text).collect()
}

/// Where a link leads, by its text.
pub fn led_to(link: &str, target: &str) -> String {
    path::led_to(link, target)
}
