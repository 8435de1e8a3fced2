//! Streams on the wire: server-sent events, output cut into text, and the Connect protocol.

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use sandshell_agent::fuzzing::{Holdback, event};
use sandshell_client::{SseEvent, SseParser};
use sandshell_compat::fuzzing::{socket_message, text_of};
use sandshell_compat_e2b::fuzzing::{connect_stream, proto_read, proto_write};
use sandshell_exec::output::Stream;
use serde_json::{Value, json};

use crate::input::Input;
use crate::place::runtime;

fn events(pieces: &[&[u8]]) -> Vec<SseEvent> {
    let mut parser = SseParser::new();
    let mut read = Vec::new();
    for piece in pieces {
        parser.push(piece);
        while let Some(event) = parser.next_event() {
            read.push(event);
        }
    }
    read
}

/// The same by the text of the standard: lines first, then fields.
fn events_by_the_standard(bytes: &[u8]) -> Vec<SseEvent> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut lines: Vec<&[u8]> = Vec::new();
    let mut rest = bytes;
    while let Some(end) = rest.iter().position(|b| matches!(b, b'\r' | b'\n')) {
        lines.push(&rest[..end]);
        let both = rest[end..].starts_with(b"\r\n");
        rest = &rest[end + 1 + usize::from(both)..];
    }
    let mut read = Vec::new();
    let (mut event, mut data) = (SseEvent::default(), Vec::<String>::new());
    for line in lines {
        if line.is_empty() {
            let whole = std::mem::take(&mut event);
            let data = std::mem::take(&mut data);
            if !data.is_empty() {
                read.push(SseEvent {
                    data: data.join("\n"),
                    ..whole
                });
            }
            continue;
        }
        let colon = line.iter().position(|b| *b == b':');
        let (name, value) = line.split_at(colon.unwrap_or(line.len()));
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = String::from_utf8_lossy(value.strip_prefix(b" ").unwrap_or(value));
        match name {
            b"data" => data.push(value.into_owned()),
            b"event" => event.event = value.into_owned(),
            b"id" if !value.contains('\0') => event.id = Some(value.into_owned()),
            _ => {}
        }
    }
    read
}

/// Events are read as the standard says, however they arrive; what we write is read as it was meant.
pub(crate) fn sse(data: &[u8]) {
    let (whole, pieces) = Input(data).pieces();
    let read = events(&[whole]);
    assert_eq!(read, events(&pieces));
    assert_eq!(read, events_by_the_standard(whole));

    let said = json!({ "data": String::from_utf8_lossy(whole) });
    let id = whole.len() as u64;
    let wire = event("output", Some(id), &said).unwrap();
    let [read] = &events(&[&wire])[..] else {
        panic!("one event became another number of them");
    };
    assert_eq!(
        (read.event.as_str(), &read.id),
        ("output", &Some(id.to_string()))
    );
    assert_eq!(serde_json::from_str::<Value>(&read.data).unwrap(), said);
}

/// Output that is cut anywhere goes out whole, in order, and cut within no character.
pub(crate) fn output_as_text(data: &[u8]) {
    let (whole, pieces) = Input(data).pieces();
    let mut holdback = Holdback::default();
    let (mut taken, mut out) = ([0_u64; 2], [Vec::new(), Vec::new()]);
    let (mut position, mut safe) = (0, 0);
    let mut written = [Vec::new(), Vec::new()];
    for (number, piece) in pieces.iter().enumerate() {
        let side = number % 3 % 2;
        let stream = [Stream::Stdout, Stream::Stderr][side];
        position += piece.len() as u64;
        let bytes = Bytes::copy_from_slice(piece);
        written[side].extend_from_slice(piece);
        if let Some((offset, bytes)) = holdback.push(stream, taken[side], bytes, position) {
            assert_eq!(offset, out[side].len() as u64);
            out[side].extend_from_slice(&bytes);
        }
        taken[side] += piece.len() as u64;
        assert!(
            taken[side] - out[side].len() as u64 <= 3,
            "too much is held back"
        );
        let now = holdback.safe_position(position);
        assert!(safe <= now && now <= position);
        safe = now;
        let (shown, is_text) = (
            std::str::from_utf8(&out[side]),
            std::str::from_utf8(&written[side]),
        );
        let begun = is_text.is_ok_and(|_| true) || is_text.is_err_and(|e| e.error_len().is_none());
        assert!(!begun || shown.is_ok(), "a character was cut");
    }
    for side in 0..2 {
        let stream = [Stream::Stdout, Stream::Stderr][side];
        out[side].extend(
            holdback
                .flush(stream)
                .map(|(_, bytes)| bytes)
                .unwrap_or_default(),
        );
    }
    assert_eq!(out, written);
    let (text, changed) = text_of(&pieces);
    assert_eq!(text, String::from_utf8_lossy(whole));
    assert_eq!(changed, std::str::from_utf8(whole).is_err());
}

/// Envelopes by their form alone: the messages, and whether the stream ends as it should.
fn envelopes(mut bytes: &[u8]) -> (Vec<&[u8]>, bool) {
    let mut found = Vec::new();
    loop {
        let Some((head, rest)) = bytes.split_first_chunk::<5>() else {
            return (found, bytes.is_empty());
        };
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if head[0] & 1 != 0 || length > rest.len() {
            return (found, false);
        }
        if head[0] & 2 != 0 {
            return (found, true);
        }
        let (message, rest) = rest.split_at(length);
        found.push(message);
        bytes = rest;
    }
}

/// A stream of the Connect protocol is read the same however it arrives, and as its form says.
pub(crate) fn connect(data: &[u8]) {
    let mut input = Input(data);
    let (number, binary) = (usize::from(input.byte()), input.byte() & 1 == 1);
    let (whole, pieces) = input.pieces();
    let pieces: Vec<_> = pieces
        .into_iter()
        .map(|piece| Ok::<_, std::io::Error>(Bytes::copy_from_slice(piece)))
        .collect();
    let (at_once, in_pieces) = runtime(|runtime| {
        runtime.block_on(async {
            let body = Body::from(whole.to_vec());
            let at_once = connect_stream(body, number, binary).await;
            let body = Body::from_stream(stream::iter(pieces));
            (at_once, connect_stream(body, number, binary).await)
        })
    });
    assert_eq!(at_once, in_pieces);
    let (messages, right) = envelopes(whole);
    let mut expected = Vec::new();
    let mut good = right;
    for message in messages {
        let value = match binary {
            true => proto_read(message, number),
            false if message.is_empty() => Some(json!({})),
            false => serde_json::from_slice(message).ok(),
        };
        let Some(value) = value else {
            good = false;
            break;
        };
        expected.push(value);
    }
    assert_eq!(at_once, (expected, good));
}

/// A binary message that was read is written and read again as the same one.
pub(crate) fn proto(data: &[u8]) {
    let mut input = Input(data);
    let number = usize::from(input.byte());
    let Some(value) = proto_read(input.0, number) else {
        return;
    };
    assert!(value.to_string().len() <= 64 + 32 * input.0.len());
    let written = proto_write(&value, number);
    let again = proto_read(&written, number);
    // Numbers that name nothing are not kept.
    if !data.is_empty() && again.as_ref() != Some(&value) {
        assert!(
            value.to_string().contains("\"signal\":"),
            "{value} {again:?}"
        );
    }
}

/// A message of Cloudflare's socket: its body is a part of it, as it stands there. Frames of text are text
/// before they come here.
pub(crate) fn socket(data: &[u8]) {
    if std::str::from_utf8(data).is_err() {
        return;
    }
    let text = Bytes::copy_from_slice(data);
    let Some((id, method, path, body)) = socket_message(&text) else {
        return;
    };
    let whole: Value = serde_json::from_slice(data).unwrap();
    if let Some(object) = whole.as_object() {
        let named = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
        assert_eq!(
            (id.as_str(), method.as_str(), path.as_str()),
            (named("id"), named("method"), named("path"))
        );
        let right = object.get("body").filter(|body| !body.is_null());
        assert_eq!(serde_json::from_slice::<Value>(&body).ok().as_ref(), right);
    }
    assert!(body.is_empty() || data.windows(body.len()).any(|window| window == body));
}
