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

/// Most bytes of an output in one answer; the newest.
const MOST: usize = 10 * 1024 * 1024;

/// What names a stream is this byte three times.
const STDOUT: u8 = 1;
const STDERR: u8 = 2;

/// The newest part of an output, in the order in which it came.
#[derive(Debug, Default)]
pub(super) struct Log {
    pieces: VecDeque<(u8, Vec<u8>)>,
    bytes: usize,
}

fn piece_of(output: &OutputEvent) -> (u8, Vec<u8>) {
    let stream = match output.stream {
        StreamName::Stdout | StreamName::LateStdout => STDOUT,
        StreamName::Stderr | StreamName::LateStderr => STDERR,
    };
    let bytes = Encoded::decode(&output.data, output.encoding);
    (stream, bytes.unwrap_or_default())
}

impl Log {
    /// Reads an output to its end. With the status, where there is one.
    pub(super) async fn read(events: &mut EventStream) -> Result<(Self, Option<i32>), ClientError> {
        let mut log = Self::default();
        while let Some(event) = events.next().await {
            match event?.event {
                OutputStreamEvent::Output(output) => log.push(piece_of(&output)),
                OutputStreamEvent::Exit(exit) => return Ok((log, exit.exit_code)),
                _ => {}
            }
        }
        Ok((log, None))
    }

    fn push(&mut self, piece: (u8, Vec<u8>)) {
        self.bytes += piece.1.len();
        self.pieces.push_back(piece);
        while self.bytes > MOST
            && let Some((_, oldest)) = self.pieces.pop_front()
        {
            self.bytes -= oldest.len();
        }
    }

    /// All of it, and each stream by itself.
    pub(super) fn shown(&self) -> Value {
        let text = |wanted: Option<u8>| {
            let mut all = Vec::new();
            for (stream, bytes) in &self.pieces {
                if wanted.is_none_or(|one| one == *stream) {
                    all.extend_from_slice(bytes);
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

/// Sends an output as it comes, until its end.
pub(super) async fn follow(socket: WebSocket, events: EventStream, lease: Lease) {
    lease.hold(pour(socket, events)).await;
}

async fn pour(mut socket: WebSocket, mut events: EventStream) {
    let (code, reason) = loop {
        let event = tokio::select! {
            said = socket.recv() => match said {
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => continue,
            },
            event = events.next() => event,
        };
        match event {
            Some(Ok(event)) => match event.event {
                OutputStreamEvent::Output(output) => {
                    let (stream, bytes) = piece_of(&output);
                    let framed = marked(stream, &bytes);
                    if socket.send(Message::Binary(framed.into())).await.is_err() {
                        return;
                    }
                }
                OutputStreamEvent::Exit(_) => break (close_code::NORMAL, String::new()),
                _ => {}
            },
            Some(Err(error)) => {
                let fault = Fault::from(error);
                break (close_code::ERROR, reason_of(fault.message()));
            }
            None => break (close_code::NORMAL, String::new()),
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
        log.push((STDOUT, vec![b'a'; MOST]));
        log.push((STDERR, b"end".to_vec()));
        assert_eq!(log.shown()["output"], "end");
    }

    #[test]
    fn a_reason_fits() {
        assert_eq!(reason_of("short"), "short");
        assert_eq!(reason_of(&"ä".repeat(100)).len(), 122);
    }
}
