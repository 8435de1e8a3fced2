//! The past of a terminal as an asciicast (version 2): a line of facts, then one for each event.
//!
//! Made from the output log and the size changes while it is read; nothing is gathered. Characters
//! cut by a read come whole in the event that completes them; bytes that are no text become U+FFFD.

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::json;

use super::{SizeChange, TerminalHandle};
use crate::ExecError;
use crate::output::{JointPiece, JointReader};

/// See the module.
#[derive(Debug)]
pub struct Recording {
    header: Option<String>,
    reader: JointReader,
    began: Timestamp,
    /// Seconds of the last event: time does not go back.
    elapsed: f64,
    sizes: std::vec::IntoIter<SizeChange>,
    next_size: Option<SizeChange>,
    /// The beginning of a character.
    partial: Vec<u8>,
}

impl Recording {
    pub(super) fn new(terminal: &TerminalHandle) -> Result<Self, ExecError> {
        let began = terminal.0.facts().started_at;
        let spec = &terminal.0.spec;
        let model = terminal.0.model();
        let mut sizes = Vec::from(model.sizes.clone()).into_iter();
        let term = spec.env.get("TERM").cloned().flatten();
        let mut header = json!({
            "version": 2,
            "width": spec.cols,
            "height": spec.rows,
            "timestamp": began.as_second(),
            "env": {"TERM": term.unwrap_or_else(|| super::TERM.to_owned())},
        });
        if let (Some(title), Some(fields)) = (model.screen.title(), header.as_object_mut()) {
            fields.insert("title".to_owned(), title.into());
        }
        Ok(Self {
            header: Some(format!("{header}\n")),
            reader: terminal.0.log.joint_reader(0, false)?,
            began,
            elapsed: 0.0,
            next_size: sizes.next(),
            sizes,
            partial: Vec::new(),
        })
    }

    /// The next lines; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ExecError> {
        if let Some(header) = self.header.take() {
            return Ok(Some(header.into()));
        }
        let mut lines = String::new();
        while lines.is_empty() {
            match self.reader.next().await? {
                Some(JointPiece::Data {
                    offset, data, at, ..
                }) => {
                    self.output(&mut lines, offset, &data, at);
                }
                Some(JointPiece::Gap { bytes, .. }) => {
                    self.partial.clear();
                    let text = format!("{bytes} bytes are no longer kept");
                    self.event(&mut lines, None, "m", &text);
                }
                None => {
                    self.sizes_until(&mut lines, u64::MAX);
                    if !self.partial.is_empty() {
                        self.partial.clear();
                        self.event(&mut lines, None, "o", "\u{fffd}");
                    }
                    return Ok(Some(lines)
                        .filter(|lines| !lines.is_empty())
                        .map(Bytes::from));
                }
            }
        }
        Ok(Some(lines.into()))
    }

    fn output(&mut self, lines: &mut String, mut offset: u64, data: &[u8], at: Timestamp) {
        let mut rest = data;
        while !rest.is_empty() {
            self.sizes_until(lines, offset);
            let until = self.next_size.map_or(u64::MAX, |size| size.offset);
            let n = (until - offset).min(rest.len() as u64) as usize;
            let (now, later) = rest.split_at_checked(n).unwrap_or((rest, &[]));
            let text = self.decode(now);
            if !text.is_empty() {
                self.event(lines, Some(at), "o", &text);
            }
            offset += n as u64;
            rest = later;
        }
    }

    /// Size changes at or before an offset.
    fn sizes_until(&mut self, lines: &mut String, offset: u64) {
        while let Some(size) = self.next_size.filter(|size| size.offset <= offset) {
            let text = format!("{}x{}", size.cols, size.rows);
            self.event(lines, Some(size.at), "r", &text);
            self.next_size = self.sizes.next();
        }
    }

    fn event(&mut self, lines: &mut String, at: Option<Timestamp>, kind: &str, text: &str) {
        if let Some(at) = at {
            let seconds = at.duration_since(self.began).as_secs_f64();
            self.elapsed = self.elapsed.max(seconds);
        }
        let rounded = (self.elapsed * 1e6).round() / 1e6;
        lines.push_str(&json!([rounded, kind, text]).to_string());
        lines.push('\n');
    }

    fn decode(&mut self, bytes: &[u8]) -> String {
        let mut whole = std::mem::take(&mut self.partial);
        whole.extend_from_slice(bytes);
        let mut text = String::with_capacity(whole.len());
        let mut chunks = whole.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.push_str(chunk.valid());
            let bad = chunk.invalid();
            let unfinished = chunks.peek().is_none()
                && std::str::from_utf8(bad).is_err_and(|error| error.error_len().is_none());
            if unfinished {
                self.partial = bad.to_vec();
            } else if !bad.is_empty() {
                text.push('\u{fffd}');
            }
        }
        text
    }
}
