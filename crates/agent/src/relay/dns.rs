//! A stub resolver: names that may be asked for have an address here, all others do not exist.
//!
//! Nothing is ever sent on, so that no question carries anything out. Only addresses of IPv4 are told;
//! questions of other types have no answer. A message is one question of at most 512 bytes, as every
//! resolver library sends it.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;

use super::names::{Found, Names};

/// Most bytes of a question; longer ones have no form we answer.
const MAX_MESSAGE: usize = 512;
/// Questions being answered at a time. Beyond that they are dropped; resolvers ask again.
const MAX_QUESTIONS: usize = 64;
/// Streams at a time; further ones wait.
const MAX_STREAMS: usize = 16;
/// How long a stream may be silent.
const SILENT: Duration = Duration::from_secs(10);
/// How long an answer may be kept, in seconds: an address stays while its name is among those used last.
const KEPT: u32 = 10;

const HEADER: usize = 12;
const TYPE_A: u16 = 1;
const TYPE_AAAA: u16 = 28;
const CLASS_IN: u16 = 1;

/// Answer codes.
const NO_ERROR: u8 = 0;
const FORMAT_ERROR: u8 = 1;
const SERVER_FAILURE: u8 = 2;
const NO_SUCH_NAME: u8 = 3;
const NOT_IMPLEMENTED: u8 = 4;
const REFUSED: u8 = 5;

/// Answers questions over UDP.
pub(super) async fn serve_datagrams(socket: UdpSocket, names: Arc<Names>) {
    let socket = Arc::new(socket);
    let places = Arc::new(Semaphore::new(MAX_QUESTIONS));
    let mut buffer = [0; MAX_MESSAGE];
    loop {
        // An error is that of an earlier answer, to somebody who is gone.
        let Ok((count, from)) = socket.recv_from(&mut buffer).await else {
            continue;
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            continue;
        };
        let message = buffer.get(..count).unwrap_or_default().to_vec();
        let (socket, of) = (Arc::clone(&socket), Arc::clone(&names));
        names.spawn(async move {
            if let Some(answer) = answer(&message, &of).await {
                let _ = socket.send_to(&answer, from).await;
            }
            drop(place);
        });
    }
}

/// Answers questions over TCP.
pub(super) async fn serve_streams(listener: TcpListener, names: Arc<Names>) {
    let places = Arc::new(Semaphore::new(MAX_STREAMS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let of = Arc::clone(&names);
        names.spawn(async move {
            // The end of a stream, good or bad, concerns nobody else.
            let _ = serve_stream(stream, &of).await;
            drop(place);
        });
    }
}

async fn serve_stream(mut stream: TcpStream, names: &Names) -> std::io::Result<()> {
    loop {
        let length = tokio::time::timeout(SILENT, stream.read_u16()).await??;
        let mut message = vec![0; usize::from(length)];
        tokio::time::timeout(SILENT, stream.read_exact(&mut message)).await??;
        let Some(answer) = answer(&message, names).await else {
            return Ok(());
        };
        let length = u16::try_from(answer.len()).unwrap_or_default();
        stream.write_all(&length.to_be_bytes()).await?;
        stream.write_all(&answer).await?;
    }
}

/// The answer to a message, if it is a question at all.
async fn answer(message: &[u8], names: &Names) -> Option<Vec<u8>> {
    let header: &[u8; HEADER] = message.first_chunk()?;
    let is_answer = header[2] & 0x80 != 0;
    if is_answer {
        return None;
    }
    let opcode = header[2] & 0x78;
    if opcode != 0 {
        return Some(reply(header, &[], NOT_IMPLEMENTED, None));
    }
    let one = u16::from_be_bytes([header[4], header[5]]) == 1;
    let question = Question::parse(message.get(HEADER..)?).filter(|_| one);
    let Some(question) = question else {
        return Some(reply(header, &[], FORMAT_ERROR, None));
    };
    let found = match (question.class, question.kind) {
        (CLASS_IN, TYPE_A | TYPE_AAAA) => match &question.name {
            Some(name) => names.find(name).await,
            None => Found::Nothing,
        },
        (CLASS_IN, _) => return Some(reply(header, question.bytes, NO_ERROR, None)),
        _ => return Some(reply(header, question.bytes, REFUSED, None)),
    };
    let (code, address) = match found {
        Found::Address(address) => (
            NO_ERROR,
            Some(address.octets()).filter(|_| question.kind == TYPE_A),
        ),
        Found::Nothing => (NO_SUCH_NAME, None),
        Found::Unknown => (SERVER_FAILURE, None),
    };
    Some(reply(header, question.bytes, code, address))
}

/// What is asked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Question<'a> {
    /// In lower case; none if it is no name of a host.
    pub(crate) name: Option<String>,
    kind: u16,
    class: u16,
    /// As it stands in the message.
    pub(crate) bytes: &'a [u8],
}

impl<'a> Question<'a> {
    /// Reads the first question. A name in it is never compressed.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut name = Some(String::new());
        let mut at = 0;
        loop {
            let length = usize::from(*bytes.get(at)?);
            at += 1;
            if length == 0 {
                break;
            }
            if length > 63 {
                return None;
            }
            let label = bytes.get(at..at + length)?;
            at += length;
            let plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-' || *byte == b'_';
            name = name.filter(|_| label.iter().all(plain)).map(|mut name| {
                if !name.is_empty() {
                    name.push('.');
                }
                name.extend(
                    label
                        .iter()
                        .map(|byte| char::from(byte.to_ascii_lowercase())),
                );
                name
            });
            if at > 255 {
                return None;
            }
        }
        let tail = bytes.get(at..at + 4)?;
        let number = |at: usize| Some(u16::from_be_bytes([*tail.get(at)?, *tail.get(at + 1)?]));
        Some(Self {
            name: name.filter(|name| !name.is_empty()),
            kind: number(0)?,
            class: number(2)?,
            bytes: bytes.get(..at + 4)?,
        })
    }
}

/// Puts an answer together.
fn reply(header: &[u8; HEADER], question: &[u8], code: u8, address: Option<[u8; 4]>) -> Vec<u8> {
    let mut message = Vec::with_capacity(HEADER + question.len() + 16);
    message.extend_from_slice(&header[..2]);
    // An answer to this kind of question, recursion as wished and as available.
    message.push(0x80 | (header[2] & 0x79));
    message.push(0x80 | code);
    let questions = u16::from(!question.is_empty());
    let answers = u16::from(address.is_some());
    for count in [questions, answers, 0, 0] {
        message.extend_from_slice(&count.to_be_bytes());
    }
    message.extend_from_slice(question);
    if let Some(address) = address {
        // The name of the question, which begins after the header.
        message.extend_from_slice(&[0xc0, HEADER as u8]);
        message.extend_from_slice(&TYPE_A.to_be_bytes());
        message.extend_from_slice(&CLASS_IN.to_be_bytes());
        message.extend_from_slice(&KEPT.to_be_bytes());
        message.extend_from_slice(&4u16.to_be_bytes());
        message.extend_from_slice(&address);
    }
    message
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn question(name: &str, kind: u16) -> Vec<u8> {
        let mut bytes = Vec::new();
        for label in name.split('.').filter(|label| !label.is_empty()) {
            bytes.push(label.len() as u8);
            bytes.extend_from_slice(label.as_bytes());
        }
        bytes.push(0);
        bytes.extend_from_slice(&kind.to_be_bytes());
        bytes.extend_from_slice(&CLASS_IN.to_be_bytes());
        bytes
    }

    #[test]
    fn questions_are_read() {
        let bytes = question("WWW.Example.com", TYPE_A);
        let read = Question::parse(&bytes).unwrap();
        assert_eq!(read.name.as_deref(), Some("www.example.com"));
        assert_eq!((read.kind, read.class), (TYPE_A, CLASS_IN));
        assert_eq!(read.bytes, bytes);
        // The root, and labels that would be more than a name in a line of text.
        assert_eq!(Question::parse(&question("", TYPE_A)).unwrap().name, None);
        for odd in ["a b.test", "a\nb.test", "\u{fc}.test"] {
            assert_eq!(Question::parse(&question(odd, TYPE_A)).unwrap().name, None);
        }
        // Compressed, cut short, too long.
        assert_eq!(Question::parse(&[0xc0, 0x0c, 0, 1, 0, 1]), None);
        assert_eq!(Question::parse(&bytes[..bytes.len() - 1]), None);
        let long = vec!["a".repeat(63); 5].join(".");
        assert_eq!(Question::parse(&question(&long, TYPE_A)), None);
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_odd(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Some(read) = Question::parse(&bytes) {
                let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
                prop_assert!(read.name.is_none_or(|name| name.chars().all(plain)));
            }
        }
    }
}
