//! Streams of bytes, cut to what a model can take.
//!
//! A stream that is too long keeps its head and its tail; what lies between is named by offset and
//! count, so that it can be read later. Nothing is cut within a character.

use std::future::Future;

use sandshell_client::{ByteStream, Client, ClientError, OutputQuery};
use sandshell_types::{
    CommandId, Encoded, Encoding, ErrorCode, ProcessId, SessionId, StreamName, TextEncoding,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::refusal::Refusal;

/// Bytes of each stream in an answer, unless the caller says otherwise: some 5,000 tokens.
pub(crate) const USUAL_BYTES: u64 = 20_000;

/// Most bytes of each stream in an answer.
pub(crate) const MOST_BYTES: u64 = 500_000;

/// How long a call waits for the end of what it started, unless the caller says otherwise. Clients give
/// up on a call after a minute, the impatient ones.
pub(crate) const USUAL_WAIT_MS: u64 = 30_000;

/// The longest that a call may wait.
pub(crate) const MOST_WAIT_MS: u64 = 600_000;

pub(crate) fn bytes_of(wanted: Option<u64>) -> Result<u64, Refusal> {
    bounded("max_output_bytes", wanted, USUAL_BYTES, 1..=MOST_BYTES)
}

pub(crate) fn wait_of(wanted: Option<u64>) -> Result<u64, Refusal> {
    bounded("wait_ms", wanted, USUAL_WAIT_MS, 0..=MOST_WAIT_MS)
}

pub(crate) fn bounded(
    name: &str,
    wanted: Option<u64>,
    usual: u64,
    range: std::ops::RangeInclusive<u64>,
) -> Result<u64, Refusal> {
    let given = wanted.unwrap_or(usual);
    if range.contains(&given) {
        return Ok(given);
    }
    let (least, most) = range.into_inner();
    let reason = format!("{given} is not from {least} to {most}");
    Err(Refusal::argument(name, reason))
}

/// How `data` is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Written {
    Utf8,
    Base64,
}

impl From<TextEncoding> for Written {
    fn from(encoding: TextEncoding) -> Self {
        match encoding {
            TextEncoding::Utf8 => Self::Utf8,
            TextEncoding::Base64 => Self::Base64,
        }
    }
}

/// Bytes that were left out of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Omitted {
    /// Where they begin.
    pub(crate) offset: u64,
    /// How many they are.
    pub(crate) bytes: u64,
}

/// A part of one output stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Stream {
    /// The output from `offset` on; text, or base64 where it is not UTF-8.
    pub(crate) data: String,
    pub(crate) encoding: Written,
    /// Where `data` begins in the stream.
    pub(crate) offset: u64,
    /// Bytes that were left out after `data`. Read them with `read_output` from their offset on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) omitted: Option<Omitted>,
    /// The end of the output, after what was left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tail: Option<String>,
    /// Bytes of the stream so far: where to go on reading.
    pub(crate) next_offset: u64,
}

impl Stream {
    /// A stream that is there as a whole.
    pub(crate) fn whole(bytes: Vec<u8>) -> Self {
        let next_offset = bytes.len() as u64;
        Self::from_parts(0, bytes, None, next_offset)
    }

    fn from_parts(
        offset: u64,
        head: Vec<u8>,
        tail: Option<(u64, Vec<u8>)>,
        next_offset: u64,
    ) -> Self {
        let end = offset + head.len() as u64;
        let after = tail.as_ref().map_or(next_offset, |(start, _)| *start);
        let omitted = (after > end).then_some(Omitted {
            offset: end,
            bytes: after.saturating_sub(end),
        });
        let tail = tail.map(|(_, bytes)| bytes).filter(|tail| !tail.is_empty());
        let text = |bytes: &[u8]| std::str::from_utf8(bytes).is_ok();
        let readable = text(&head) && tail.as_deref().is_none_or(text);
        let wanted = if readable {
            Encoding::Utf8
        } else {
            Encoding::Base64
        };
        let head = Encoded::new(head, wanted);
        Self {
            data: head.data,
            encoding: head.encoding.into(),
            offset,
            omitted,
            tail: tail.map(|bytes| Encoded::new(bytes, wanted).data),
            next_offset,
        }
    }

    /// For a model to read; `how` says how the rest is read.
    pub(crate) fn text(&self, name: &str, how: &str) -> String {
        if self.data.is_empty() && self.omitted.is_none() {
            return String::new();
        }
        let mut text = format!("--- {name}");
        if self.encoding == Written::Base64 {
            text.push_str(" (base64)");
        }
        if self.offset > 0 {
            text.push_str(&format!(" from offset {}", self.offset));
        }
        text.push('\n');
        push_line(&mut text, &self.data);
        if let Some(Omitted { offset, bytes }) = self.omitted {
            text.push_str(&format!(
                "[{bytes} bytes left out here: {how} {name}_offset={offset}]\n"
            ));
        }
        if let Some(tail) = &self.tail {
            push_line(&mut text, tail);
        }
        text
    }
}

pub(crate) fn push_line(text: &mut String, more: &str) {
    text.push_str(more);
    if !more.is_empty() && !more.ends_with('\n') {
        text.push('\n');
    }
}

/// Whose output is read.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    Process(ProcessId),
    Command(SessionId, CommandId),
}

impl Source {
    async fn open(
        &self,
        sandbox: &Client,
        stream: StreamName,
        offset: u64,
    ) -> Result<ByteStream, ClientError> {
        let query = OutputQuery {
            stream,
            offset,
            follow: false,
        };
        match self {
            Self::Process(id) => sandbox.process_output(id, query).await,
            Self::Command(session, id) => sandbox.command_output(session, id, query).await,
        }
    }

    /// Up to `most` bytes from `offset` on, or from the first byte that is still kept; and where they
    /// begin.
    async fn read(
        &self,
        sandbox: &Client,
        stream: StreamName,
        offset: u64,
        most: u64,
    ) -> Result<(u64, Vec<u8>), ClientError> {
        let mut start = offset;
        let mut bytes = match self.open(sandbox, stream, start).await {
            Err(error) if error.code() == Some(ErrorCode::OffsetGone) => {
                let kept = error.problem().and_then(|problem| problem.first_offset);
                start = kept.ok_or(error)?;
                self.open(sandbox, stream, start).await?
            }
            other => other?,
        };
        let mut read = Vec::new();
        while (read.len() as u64) < most {
            let Some(piece) = bytes.next().await.transpose()? else {
                break;
            };
            read.extend_from_slice(&piece);
        }
        read.truncate(most as usize);
        Ok((start, read))
    }

    /// A stream of so many bytes: all of it when it is short enough, else its head and its tail.
    pub(crate) async fn excerpt(
        &self,
        sandbox: &Client,
        stream: StreamName,
        total: u64,
        most: u64,
    ) -> Result<Stream, ClientError> {
        if total <= most {
            return self.from(sandbox, stream, 0, total, most).await;
        }
        let half = most / 2;
        let (offset, head) = self.read(sandbox, stream, 0, half).await?;
        let head = without_broken_end(head);
        let from = (total - (most - half)).max(offset + head.len() as u64);
        let (start, tail) = self.read(sandbox, stream, from, total - from).await?;
        let cut = broken_start(&tail);
        let tail = tail.get(cut..).unwrap_or_default().to_vec();
        let next = start + (cut + tail.len()) as u64;
        Ok(Stream::from_parts(
            offset,
            head,
            Some((start + cut as u64, tail)),
            next,
        ))
    }

    /// What follows an offset of a stream that had `total` bytes a moment ago.
    pub(crate) async fn from(
        &self,
        sandbox: &Client,
        stream: StreamName,
        offset: u64,
        total: u64,
        most: u64,
    ) -> Result<Stream, ClientError> {
        if offset >= total {
            return Ok(Stream::from_parts(offset, Vec::new(), None, offset));
        }
        let wanted = most.min(total - offset);
        let (start, bytes) = self.read(sandbox, stream, offset, wanted).await?;
        // A character whose end has not been written yet is left for the next time as well.
        let bytes = without_broken_end(bytes);
        let end = start + bytes.len() as u64;
        let mut part = Stream::from_parts(start, bytes, None, total.max(end));
        // The rest is what is to be read next, not a gap.
        part.next_offset = end;
        Ok(part)
    }
}

/// The same for both streams at once.
pub(crate) async fn both<E>(
    stdout: impl Future<Output = Result<Stream, E>>,
    stderr: impl Future<Output = Result<Stream, E>>,
) -> Result<(Stream, Stream), E> {
    let (stdout, stderr) = tokio::join!(stdout, stderr);
    Ok((stdout?, stderr?))
}

/// Bytes without the beginning of a character at their end. What is no text stays as it is.
pub(crate) fn without_broken_end(mut bytes: Vec<u8>) -> Vec<u8> {
    if let Err(error) = std::str::from_utf8(&bytes)
        && error.error_len().is_none()
        && error.valid_up_to() > 0
    {
        bytes.truncate(error.valid_up_to());
    }
    bytes
}

/// How many bytes at the start belong to a character that began before. None where that would not be
/// text either.
fn broken_start(bytes: &[u8]) -> usize {
    let rest = bytes.iter().take(3);
    let cut = rest.take_while(|byte| (0x80..0xc0).contains(*byte)).count();
    match bytes.get(cut..) {
        Some(rest) if std::str::from_utf8(rest).is_ok() => cut,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_between_characters() {
        let text = "aé€😀".as_bytes();
        for end in 1..=text.len() {
            let head = without_broken_end(text[..end].to_vec());
            assert!(std::str::from_utf8(&head).is_ok(), "{end}");
            assert!(end - head.len() < 4);
        }
        for start in 0..text.len() {
            let cut = broken_start(&text[start..]);
            assert!(std::str::from_utf8(&text[start + cut..]).is_ok(), "{start}");
        }
    }

    #[test]
    fn leaves_bytes_alone_that_are_no_text() {
        assert_eq!(
            without_broken_end(vec![b'a', 0xff, b'b']),
            [b'a', 0xff, b'b']
        );
        assert_eq!(broken_start(&[0x80, 0xff, b'a']), 0);
    }

    #[test]
    fn names_what_is_left_out() {
        let stream = Stream::from_parts(0, b"head".to_vec(), Some((90, b"tail".to_vec())), 94);
        assert_eq!(
            stream.omitted,
            Some(Omitted {
                offset: 4,
                bytes: 86
            })
        );
        let text = stream.text("stdout", "read_output process_id=p");
        let expected = "--- stdout\nhead\n[86 bytes left out here: read_output process_id=p \
                        stdout_offset=4]\ntail\n";
        assert_eq!(text, expected);
        assert_eq!(Stream::whole(b"x\xff".to_vec()).encoding, Written::Base64);
        assert_eq!(Stream::whole(Vec::new()).text("stderr", ""), "");
    }
}
