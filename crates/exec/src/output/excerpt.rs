//! The part of a stream that goes into a result.

use std::sync::Arc;

use sandshell_types::Truncate;

use super::log::Shared;
use super::reader::{Fetched, Source};
use super::{OutputError, Stream};

/// A stream, or the parts of it that were asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Excerpt {
    /// The bytes; with a head and a tail, the one directly after the other.
    pub bytes: Vec<u8>,
    /// How many bytes of the stream are not in `bytes`.
    pub omitted: u64,
}

/// Bytes needed beyond a cut to see whether a character lies across it.
const LOOK: u64 = 3;

pub(super) async fn excerpt(
    shared: &Arc<Shared>,
    stream: Stream,
    max: u64,
    truncate: Truncate,
) -> Result<Excerpt, OutputError> {
    let len = shared.lock().streams.get(stream).len();
    let (head, tail) = match truncate {
        _ if len <= max => (len, 0),
        Truncate::Head => (0, max),
        Truncate::Tail => (max, 0),
        Truncate::Both => (max / 2, max - max / 2),
    };
    let mut source = Source::new(Arc::clone(shared), stream);
    let mut bytes = Vec::new();
    let mut reached = 0;
    if head > 0 {
        bytes = prefix(&mut source, (head + LOOK).min(len)).await?;
        let cut = bytes.len().min(head as usize);
        reached = bytes.len() as u64;
        if (cut as u64) < len {
            bytes.truncate(end_before(&bytes, cut));
        }
    }
    // Everything was wanted and a hole is in the way: the part after the hole is wanted too.
    let tail = if len <= max {
        len - reached.min(len)
    } else {
        tail
    };
    if tail > 0 {
        let (after, cut) = suffix(&mut source, len - tail, len).await?;
        bytes.extend_from_slice(after.get(start_after(&after, cut)..).unwrap_or_default());
    }
    let omitted = len - bytes.len() as u64;
    Ok(Excerpt { bytes, omitted })
}

/// The bytes before `end`, or before the first hole.
async fn prefix(source: &mut Source, end: u64) -> Result<Vec<u8>, OutputError> {
    let mut bytes = Vec::with_capacity(end as usize);
    while (bytes.len() as u64) < end {
        let at = bytes.len() as u64;
        match source.fetch(at, end - at).await? {
            Fetched::Data(data) => bytes.extend_from_slice(&data),
            Fetched::Gone { .. } | Fetched::End => break,
        }
    }
    Ok(bytes)
}

/// The bytes from `start`, or from the end of the last hole, to `end`; and how many bytes of
/// context come before them in the result.
async fn suffix(
    source: &mut Source,
    start: u64,
    end: u64,
) -> Result<(Vec<u8>, usize), OutputError> {
    let whole = source.shared.lock().streams.get(source.stream).whole_from();
    let mut from = start.saturating_sub(LOOK).max(whole.min(end));
    let mut bytes = Vec::with_capacity((end - from) as usize);
    loop {
        let at = from + bytes.len() as u64;
        if at >= end {
            break;
        }
        match source.fetch(at, end - at).await? {
            Fetched::Data(data) => bytes.extend_from_slice(&data),
            // The cap overtook this read: begin again after what it dropped.
            Fetched::Gone { next } => {
                from = next.min(end);
                bytes.clear();
            }
            Fetched::End => break,
        }
    }
    Ok((bytes, start.saturating_sub(from) as usize))
}

fn continues(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

fn width(lead: u8) -> usize {
    match lead {
        0xC2..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF4 => 4,
        _ => 1,
    }
}

/// The character that may lie across `cut`: its first byte, its bytes as far as they are here.
fn across(bytes: &[u8], cut: usize) -> Option<(usize, &[u8])> {
    let before = bytes.get(..cut)?;
    let back = before
        .iter()
        .rev()
        .take(3)
        .position(|byte| !continues(*byte))?
        + 1;
    let start = cut - back;
    let width = width(*bytes.get(start)?);
    (width > back)
        .then(|| (start, bytes.get(start..bytes.len().min(start + width))))
        .and_then(|(start, part)| Some((start, part?)))
}

/// Where to end so that no character is split at `cut`; bytes after it are context.
fn end_before(bytes: &[u8], cut: usize) -> usize {
    match across(bytes, cut).map(|(start, part)| (start, std::str::from_utf8(part))) {
        Some((start, Ok(_))) => start,
        // The rest of the character is not kept, but so far it is one.
        Some((start, Err(error))) if error.error_len().is_none() => start,
        _ => cut,
    }
}

/// Where to begin so that no character is split at `cut`; bytes before it are context.
fn start_after(bytes: &[u8], cut: usize) -> usize {
    if let Some((start, part)) = across(bytes, cut) {
        let whole = std::str::from_utf8(part).is_ok();
        return if whole { start + part.len() } else { cut };
    }
    // The first byte of the character may lie in what is not kept.
    let rest = bytes
        .iter()
        .skip(cut)
        .take_while(|byte| continues(**byte))
        .count();
    let only_rests = bytes.iter().take(cut).all(|byte| continues(*byte));
    if only_rests && cut + rest <= LOOK as usize {
        cut + rest
    } else {
        cut
    }
}
