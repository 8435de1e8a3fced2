//! The output of a session's command: all of it at once, or as it comes.
//!
//! As it comes, each piece has three bytes before it that name its stream, and the client looks for these
//! three anywhere in what it gets. So that a piece with such bytes in it comes through unchanged, runs of
//! them are broken by marks that change nothing.

use std::collections::VecDeque;

use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use sandshell_client::EventStream;
use sandshell_client::types::{Encoded, OutputEvent, StreamName};
use sandshell_client::{ClientError, OutputStreamEvent};
use serde_json::{Value, json};

use super::error::Fault;
use crate::lease::Lease;
use crate::text::{gap, lost};

/// Most bytes of an output in one answer; the newest.
const MOST: usize = 10 * 1024 * 1024;

/// What names a stream is this byte three times.
const STDOUT: u8 = 1;
const STDERR: u8 = 2;

/// The newest part of an output, in the order in which it came. Where something is missing it says so.
#[derive(Debug, Default)]
pub(super) struct Log {
    pieces: VecDeque<(u8, Piece)>,
    bytes: usize,
    /// What came before the pieces: of standard output, and of standard error.
    dropped: [u64; 2],
}

#[derive(Debug)]
enum Piece {
    Bytes(Vec<u8>),
    /// So many are missing.
    Gap(u64),
}

fn stream_of(name: StreamName) -> u8 {
    match name {
        StreamName::Stdout | StreamName::LateStdout => STDOUT,
        StreamName::Stderr | StreamName::LateStderr => STDERR,
    }
}

fn bytes_of(output: &OutputEvent) -> Vec<u8> {
    Encoded::decode(&output.data, output.encoding).unwrap_or_default()
}

/// The place of a stream among both.
fn place(stream: u8) -> usize {
    usize::from(stream - STDOUT)
}

impl Log {
    /// Reads an output to its end. With the status, where there is one.
    pub(super) async fn read(events: &mut EventStream) -> Result<(Self, Option<i32>), ClientError> {
        let mut log = Self::default();
        while let Some(event) = events.next().await {
            match event?.event {
                OutputStreamEvent::Output(output) => {
                    let piece = Piece::Bytes(bytes_of(&output));
                    log.push(stream_of(output.stream), piece);
                }
                OutputStreamEvent::Truncated(gap) => {
                    log.push(stream_of(gap.stream), Piece::Gap(gap.bytes));
                }
                OutputStreamEvent::Exit(exit) => return Ok((log, exit.exit_code)),
                _ => {}
            }
        }
        Ok((log, None))
    }

    fn push(&mut self, stream: u8, piece: Piece) {
        if let Piece::Bytes(bytes) = &piece {
            self.bytes += bytes.len();
        }
        self.pieces.push_back((stream, piece));
        while self.bytes > MOST
            && let Some((stream, oldest)) = self.pieces.pop_front()
        {
            self.dropped[place(stream)] += match oldest {
                Piece::Bytes(bytes) => {
                    self.bytes -= bytes.len();
                    bytes.len() as u64
                }
                Piece::Gap(bytes) => bytes,
            };
        }
    }

    /// All of it, and each stream by itself.
    pub(super) fn shown(&self) -> Value {
        let text = |wanted: Option<u8>| {
            let is_wanted = |stream: u8| wanted.is_none_or(|one| one == stream);
            let dropped = [STDOUT, STDERR].into_iter().filter(|one| is_wanted(*one));
            let dropped: u64 = dropped.map(|one| self.dropped[place(one)]).sum();
            let mut all = Vec::new();
            if dropped > 0 {
                all.extend(gap(dropped).into_bytes());
            }
            for (stream, piece) in &self.pieces {
                match piece {
                    _ if !is_wanted(*stream) => {}
                    Piece::Bytes(bytes) => all.extend_from_slice(bytes),
                    Piece::Gap(bytes) => all.extend(gap(*bytes).into_bytes()),
                }
            }
            String::from_utf8_lossy(&all).into_owned()
        };
        json!({
            "output": text(None),
            "stdout": text(Some(STDOUT)),
            "stderr": text(Some(STDERR)),
        })
    }
}

/// Sends an output as it comes, until its end. Of what is no longer kept when it begins it says so; one that
/// is read too slowly to stay whole ends as a failure.
pub(super) async fn follow(socket: WebSocket, events: EventStream, lease: Lease) {
    lease.hold(pour(socket, events)).await;
}

async fn pour(mut socket: WebSocket, mut events: EventStream) {
    let mut begun = [false; 2];
    let (code, reason) = loop {
        let event = tokio::select! {
            said = socket.recv() => match said {
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => continue,
            },
            event = events.next() => event,
        };
        let (stream, bytes) = match event {
            Some(Ok(event)) => match event.event {
                OutputStreamEvent::Output(output) => {
                    let stream = stream_of(output.stream);
                    begun[place(stream)] = true;
                    (stream, bytes_of(&output))
                }
                OutputStreamEvent::Truncated(gone) => {
                    let stream = stream_of(gone.stream);
                    if begun[place(stream)] {
                        break (close_code::ERROR, lost(gone.bytes));
                    }
                    (stream, gap(gone.bytes).into_bytes())
                }
                OutputStreamEvent::Exit(_) => break (close_code::NORMAL, String::new()),
                _ => continue,
            },
            Some(Err(error)) => {
                let fault = Fault::from(error);
                break (close_code::ERROR, reason_of(fault.message()));
            }
            None => break (close_code::NORMAL, String::new()),
        };
        let framed = marked(stream, &bytes);
        if socket.send(Message::Binary(framed.into())).await.is_err() {
            return;
        }
    };
    close(socket, code, reason).await;
}

/// What fits into the reason of a close.
pub(super) fn reason_of(text: &str) -> String {
    text.chars()
        .scan(0, |bytes, c| {
            *bytes += c.len_utf8();
            (*bytes <= 123).then_some(c)
        })
        .collect()
}

/// Ends a socket, and waits for the other side to do so, lest the last words be lost with it.
pub(super) async fn close(mut socket: WebSocket, code: u16, reason: String) {
    let frame = CloseFrame {
        code,
        reason: reason.into(),
    };
    if socket.send(Message::Close(Some(frame))).await.is_err() {
        return;
    }
    let answered = async { while let Some(Ok(_)) = socket.recv().await {} };
    // One that does not answer has had its time.
    let _ = tokio::time::timeout(std::time::Duration::from_secs(5), answered).await;
}

/// A piece of a stream, such that what looks for marks finds all of its bytes and no other.
fn marked(stream: u8, bytes: &[u8]) -> Vec<u8> {
    let other = STDOUT + STDERR - stream;
    let mut framed = Vec::with_capacity(bytes.len() + 6);
    framed.extend([stream; 3]);
    let mut run = 0;
    let mut last = 0;
    for &byte in bytes {
        run = if byte == last { run + 1 } else { 1 };
        if run == 3 && (byte == STDOUT || byte == STDERR) {
            // Away and back; what is of the other's bytes only needs the way back.
            if byte == stream {
                framed.extend([other; 3]);
            }
            framed.extend([stream; 3]);
            run = 1;
        }
        framed.push(byte);
        last = byte;
    }
    // Lest its end be taken for the beginning of the next mark.
    if last == other {
        framed.extend([stream; 3]);
    } else if last == stream {
        framed.extend([other; 3]);
    }
    framed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a client makes of it: the first mark counts, what is before it belongs to the stream before.
    fn read(mut all: &[u8]) -> [Vec<u8>; 2] {
        let mut streams = [Vec::new(), Vec::new()];
        let mut current = None;
        loop {
            let find = |mark: u8| all.windows(3).position(|three| three == [mark; 3]);
            let next = [(find(STDOUT), 0), (find(STDERR), 1)];
            let next = next
                .into_iter()
                .filter_map(|(at, to)| Some((at?, to)))
                .min();
            let (end, to) = next.map_or((all.len(), None), |(at, to)| (at, Some(to)));
            if let Some(current) = current {
                let stream: &mut Vec<u8> = &mut streams[current];
                stream.extend(&all[..end]);
            }
            let Some(to) = to else {
                return streams;
            };
            current = Some(to);
            all = &all[end + 3..];
        }
    }

    #[test]
    fn every_byte_comes_through_in_its_stream() {
        // All short sequences of the bytes that matter, in two pieces of either stream.
        let letters = [b'a', STDOUT, STDERR];
        let words: Vec<Vec<u8>> = (0..=6_u32)
            .flat_map(|length| {
                (0..3_usize.pow(length)).map(move |mut number| {
                    let letter = |_| {
                        let letter = letters[number % 3];
                        number /= 3;
                        letter
                    };
                    (0..length).map(letter).collect()
                })
            })
            .collect();
        let tails: Vec<&Vec<u8>> = words.iter().filter(|word| word.len() <= 3).collect();
        for word in &words {
            for tail in &tails {
                for (first, second) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
                    let framed = [marked(first, word), marked(second, tail), marked(1, b"z")];
                    let mut expected = [Vec::new(), Vec::new()];
                    expected[usize::from(first) - 1].extend(word);
                    expected[usize::from(second) - 1].extend(*tail);
                    expected[0].push(b'z');
                    assert_eq!(read(&framed.concat()), expected, "{word:?} {tail:?}");
                }
            }
        }
    }

    #[test]
    fn the_newest_is_kept() {
        let mut log = Log::default();
        log.push(STDOUT, Piece::Gap(5));
        log.push(STDOUT, Piece::Bytes(vec![b'a'; MOST]));
        log.push(STDERR, Piece::Bytes(b"end".to_vec()));
        let said = gap(MOST as u64 + 5);
        assert_eq!(log.shown()["output"], format!("{said}end"));
        assert_eq!(log.shown()["stdout"], said);
        assert_eq!(log.shown()["stderr"], "end");
    }

    #[test]
    fn a_hole_is_told_where_it_is() {
        let mut log = Log::default();
        log.push(STDOUT, Piece::Bytes(b"one\n".to_vec()));
        log.push(STDERR, Piece::Bytes(b"aside\n".to_vec()));
        log.push(STDOUT, Piece::Gap(70));
        log.push(STDOUT, Piece::Bytes(b"two\n".to_vec()));
        let said = "[70 bytes of output are no longer kept]\n";
        assert_eq!(
            log.shown(),
            json!({
                "output": format!("one\naside\n{said}two\n"),
                "stdout": format!("one\n{said}two\n"),
                "stderr": "aside\n",
            })
        );
    }

    #[test]
    fn a_reason_fits() {
        assert_eq!(reason_of("short"), "short");
        assert_eq!(reason_of(&"ä".repeat(100)).len(), 122);
    }
}
