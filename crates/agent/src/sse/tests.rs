//! The form of events, and that holding back loses nothing.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use proptest::prelude::*;
use sandshell_types::{Encoded, Encoding, TextEncoding};

use super::*;

#[test]
fn writes_an_event_on_three_lines() {
    let bytes = event("output", Some(7), &serde_json::json!({"data": "a\nb"})).unwrap();
    assert_eq!(
        bytes,
        "id: 7\nevent: output\ndata: {\"data\":\"a\\nb\"}\n\n"
    );
    assert_eq!(event("x", None, &1).unwrap(), "event: x\ndata: 1\n\n");
}

#[test]
fn knows_when_events_are_wanted() {
    for (accept, expected) in [
        ("text/event-stream", true),
        ("application/json, Text/Event-Stream;q=0.9", true),
        ("*/*", false),
        ("text/event-streams", false),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept.parse().unwrap());
        assert_eq!(wanted(&headers), expected, "{accept}");
    }
    assert!(!wanted(&HeaderMap::new()));
}

#[test]
fn finds_the_incomplete_character() {
    for (data, expected) in [
        (&b""[..], 0),
        (b"abc", 0),
        ("aä€😀".as_bytes(), 0),
        (b"a\xc3", 1),
        (b"a\xe2\x82", 2),
        (b"a\xf0\x9f\x98", 3),
        (b"\xf0", 1),
        // Not beginnings of anything.
        (b"a\xff", 0),
        (b"a\xc0", 0),
        (b"a\x80\x80\x80", 0),
        (b"a\xe2\x28", 0),
        (b"a\xed\xa0", 0),
    ] {
        assert_eq!(incomplete_tail(data), expected, "{data:?}");
    }
}

#[test]
fn joins_a_character_across_pieces() {
    let mut holdback = Holdback::default();
    let euro = "€".as_bytes();
    let push = |holdback: &mut Holdback, offset: u64, data: &[u8]| {
        holdback.push(
            Stream::Stdout,
            offset,
            Bytes::copy_from_slice(data),
            offset + data.len() as u64,
        )
    };
    assert_eq!(push(&mut holdback, 0, &euro[..1]), None);
    assert_eq!(holdback.safe_position(1), 0);
    assert_eq!(push(&mut holdback, 1, &euro[1..2]), None);
    assert_eq!(holdback.safe_position(2), 0);
    assert_eq!(
        push(&mut holdback, 2, &euro[2..]),
        Some(Piece {
            offset: 0,
            data: euro.to_vec()
        })
    );
    assert_eq!(holdback.safe_position(3), 3);
    assert_eq!(holdback.flush(Stream::Stdout), None);
}

/// Text with every length of character, and now and then a byte that is no text.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let character = prop_oneof![
        8 => prop::sample::select(vec!["a", "\n", "é", "€", "😀"]).prop_map(|c| c.as_bytes().to_vec()),
        1 => any::<u8>().prop_map(|b| vec![b]),
    ];
    prop::collection::vec(character, 0..20).prop_map(|parts| parts.concat())
}

/// One write: a stream and how many bytes.
fn writes() -> impl Strategy<Value = Vec<(bool, usize)>> {
    prop::collection::vec((any::<bool>(), 1_usize..6), 0..40)
}

/// What a client has, by stream.
type Received = [Vec<u8>; 2];

/// Plays a joint log from a position. Each event gives its stream, offset, bytes, encoding and id.
fn play(
    log: &[(Stream, u64, Vec<u8>)],
    from: u64,
) -> Vec<(Stream, u64, Vec<u8>, TextEncoding, u64)> {
    let mut holdback = Holdback::default();
    let mut events = Vec::new();
    let mut position = 0;
    let mut emit = |holdback: &Holdback, stream, piece: Option<Piece>, position| {
        if let Some(piece) = piece {
            let Encoded { data, encoding } = Encoded::new(piece.data, Encoding::Auto);
            let bytes = Encoded::decode(&data, encoding).unwrap();
            events.push((
                stream,
                piece.offset,
                bytes,
                encoding,
                holdback.safe_position(position),
            ));
        }
    };
    for (stream, offset, data) in log {
        let after = position + data.len() as u64;
        if after > from {
            // A reader may start within a piece.
            let skip = from.saturating_sub(position);
            let rest = Bytes::copy_from_slice(&data[usize::try_from(skip).unwrap()..]);
            let piece = holdback.push(*stream, offset + skip, rest, after);
            emit(&holdback, *stream, piece, after);
        }
        position = after;
    }
    for stream in [Stream::Stdout, Stream::Stderr] {
        let piece = holdback.flush(stream);
        emit(&holdback, stream, piece, position);
    }
    events
}

/// Puts an event where it belongs; a client that keeps offsets sees repeats for what they are.
fn place(received: &mut Received, stream: Stream, offset: u64, data: &[u8]) {
    let kept = &mut received[usize::from(stream == Stream::Stderr)];
    let offset = usize::try_from(offset).unwrap();
    assert!(offset <= kept.len(), "bytes are missing before {offset}");
    let seen = (kept.len() - offset).min(data.len());
    assert_eq!(kept[offset..offset + seen], data[..seen]);
    kept.extend_from_slice(&data[seen..]);
}

proptest! {
    #[test]
    fn loses_nothing_wherever_it_is_cut_and_resumed(
        stdout in bytes(), stderr in bytes(), writes in writes()
    ) {
        let mut log = Vec::new();
        let mut marks = [0_usize; 2];
        let rest = [(false, usize::MAX), (true, usize::MAX)];
        for (to_stderr, length) in writes.into_iter().chain(rest) {
            let (source, stream) =
                if to_stderr { (&stderr, Stream::Stderr) } else { (&stdout, Stream::Stdout) };
            let mark = &mut marks[usize::from(to_stderr)];
            let end = mark.saturating_add(length).min(source.len());
            if *mark < end {
                log.push((stream, *mark as u64, source[*mark..end].to_vec()));
                *mark = end;
            }
        }
        let whole = play(&log, 0);
        let mut received = Received::default();
        for (stream, offset, data, encoding, _) in &whole {
            place(&mut received, *stream, *offset, data);
            prop_assert!(*encoding == TextEncoding::Base64 || std::str::from_utf8(data).is_ok());
        }
        prop_assert_eq!(&received[0], &stdout);
        prop_assert_eq!(&received[1], &stderr);
        // Valid text never becomes base64 without a resume.
        for (stream, _, _, encoding, _) in &whole {
            let source = if *stream == Stream::Stdout { &stdout } else { &stderr };
            if std::str::from_utf8(source).is_ok() {
                prop_assert_eq!(*encoding, TextEncoding::Utf8);
            }
        }
        // A connection lost after any event, resumed from its id.
        for cut in 0..whole.len() {
            let mut received = Received::default();
            for (stream, offset, data, _, _) in &whole[..=cut] {
                place(&mut received, *stream, *offset, data);
            }
            for (stream, offset, data, _, _) in play(&log, whole[cut].4) {
                place(&mut received, stream, offset, &data);
            }
            prop_assert_eq!(&received[0], &stdout);
            prop_assert_eq!(&received[1], &stderr);
        }
    }
}
