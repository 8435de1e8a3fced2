//! Incremental reader of server-sent events (WHATWG HTML, §9.2.6).
//!
//! Owns the text format only: chunk boundaries may fall anywhere, also within a character or a
//! CRLF. Does not know what the events mean, and does not reconnect: `retry` is ignored.

use std::collections::VecDeque;

/// One event as it stands on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SseEvent {
    /// The `event` field; empty when there was none.
    pub event: String,
    /// The `id` field of this very event.
    pub id: Option<String>,
    /// The `data` lines, joined by line feeds.
    pub data: String,
}

/// Turns bytes into events.
#[derive(Debug, Default)]
pub struct SseParser {
    /// The beginning of a line whose end has not arrived.
    line: Vec<u8>,
    event: SseEvent,
    has_data: bool,
    /// The last byte was a CR: an LF that follows belongs to the same line end.
    after_cr: bool,
    past_first_line: bool,
    ready: VecDeque<SseEvent>,
}

impl SseParser {
    /// A parser at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in the next bytes.
    pub fn push(&mut self, mut bytes: &[u8]) {
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = bytes.iter().position(|&b| b == b'\n' || b == b'\r') {
            let line = &bytes[..end];
            let carriage_return = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            if carriage_return {
                self.after_cr = bytes.is_empty();
                bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
            }
            if self.line.is_empty() {
                self.take_line(line);
            } else {
                let mut whole = std::mem::take(&mut self.line);
                whole.extend_from_slice(line);
                self.take_line(&whole);
            }
        }
        self.line.extend_from_slice(bytes);
    }

    /// The next complete event.
    pub fn next_event(&mut self) -> Option<SseEvent> {
        self.ready.pop_front()
    }

    fn take_line(&mut self, mut line: &[u8]) {
        if !self.past_first_line {
            self.past_first_line = true;
            line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        }
        if line.is_empty() {
            return self.dispatch();
        }
        let (field, value) = match line.iter().position(|&b| b == b':') {
            Some(colon) => {
                let value = &line[colon + 1..];
                (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
            }
            None => (line, &[][..]),
        };
        let value = String::from_utf8_lossy(value);
        match field {
            b"data" => {
                if self.has_data {
                    self.event.data.push('\n');
                    self.event.data.push_str(&value);
                } else {
                    self.event.data = value.into_owned();
                }
                self.has_data = true;
            }
            b"event" => self.event.event = value.into_owned(),
            b"id" if !value.contains('\0') => self.event.id = Some(value.into_owned()),
            // Comments have an empty field name; unknown fields are to be ignored as well.
            _ => {}
        }
    }

    fn dispatch(&mut self) {
        let event = std::mem::take(&mut self.event);
        if std::mem::take(&mut self.has_data) {
            self.ready.push_back(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(parser: &mut SseParser) -> Vec<SseEvent> {
        std::iter::from_fn(|| parser.next_event()).collect()
    }

    fn parse(text: &[u8]) -> Vec<SseEvent> {
        let mut parser = SseParser::new();
        parser.push(text);
        all(&mut parser)
    }

    fn event(event: &str, id: Option<&str>, data: &str) -> SseEvent {
        SseEvent {
            event: event.into(),
            id: id.map(Into::into),
            data: data.into(),
        }
    }

    #[test]
    fn reads_fields_and_joins_data_lines() {
        assert_eq!(
            parse(b"event: output\nid: 7\ndata: a\ndata:b\ndata:  c\n\ndata\n\n"),
            [event("output", Some("7"), "a\nb\n c"), event("", None, "")]
        );
    }

    #[test]
    fn ignores_comments_unknown_fields_and_events_without_data() {
        assert_eq!(
            parse(b"\xef\xbb\xbf: hello\n\nretry: 5\nevent: lost\n\nfoo: x\ndata: 1\n\n:\n\n"),
            [event("", None, "1")]
        );
    }

    #[test]
    fn ignores_an_id_with_nul_and_an_event_without_its_blank_line() {
        assert_eq!(
            parse(b"id: a\0b\ndata: 1\n\ndata: 2\n"),
            [event("", None, "1")]
        );
    }

    #[test]
    fn reads_every_line_ending_at_every_chunk_boundary() {
        let expected = [event("e", Some("1"), "häß 😀"), event("", None, "x\n\ny")];
        for ending in ["\n", "\r\n", "\r"] {
            let text = "event: e\nid: 1\ndata: häß 😀\n\n: c\ndata: x\ndata:\ndata: y\n\n"
                .replace('\n', ending);
            let bytes = text.as_bytes();
            for first in 0..=bytes.len() {
                for second in first..=bytes.len() {
                    let mut parser = SseParser::new();
                    parser.push(&bytes[..first]);
                    parser.push(&bytes[first..second]);
                    parser.push(&bytes[second..]);
                    assert_eq!(
                        all(&mut parser),
                        expected,
                        "{ending:?} at {first}, {second}"
                    );
                }
            }
        }
    }

    #[test]
    fn reads_byte_by_byte() {
        let mut parser = SseParser::new();
        for byte in b"data: one\r\ndata: two\r\n\r\ndata: three\n\n" {
            parser.push(std::slice::from_ref(byte));
        }
        assert_eq!(
            all(&mut parser),
            [event("", None, "one\ntwo"), event("", None, "three")]
        );
    }

    #[test]
    fn gives_an_event_before_the_lf_of_its_last_crlf() {
        assert_eq!(parse(b"data: now\r\n\r"), [event("", None, "now")]);
    }
}
