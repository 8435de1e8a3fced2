//! Output on the wire: encodings and the events of an output stream.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};

/// Which encoding a client wants for bytes in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// Text when the bytes are valid UTF-8, else base64.
    #[default]
    Auto,
    /// Always text; invalid sequences become U+FFFD.
    Utf8,
    /// Always base64.
    Base64,
}

/// How the bytes next to it are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TextEncoding {
    /// The string is the bytes, as UTF-8.
    #[default]
    Utf8,
    /// The string is the base64 of the bytes.
    Base64,
}

/// Bytes as a JSON string, and how to read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    /// The text, or the base64 of the bytes.
    pub data: String,
    /// Which of the two it is.
    pub encoding: TextEncoding,
}

impl Encoded {
    /// Encodes bytes in the way the client asked for.
    pub fn new(bytes: Vec<u8>, wanted: Encoding) -> Self {
        match wanted {
            Encoding::Base64 => Self::base64(&bytes),
            Encoding::Auto => match String::from_utf8(bytes) {
                Ok(data) => Self {
                    data,
                    encoding: TextEncoding::Utf8,
                },
                Err(error) => Self::base64(error.as_bytes()),
            },
            Encoding::Utf8 => Self {
                data: match String::from_utf8(bytes) {
                    Ok(text) => text,
                    Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
                },
                encoding: TextEncoding::Utf8,
            },
        }
    }

    fn base64(bytes: &[u8]) -> Self {
        Self {
            data: BASE64.encode(bytes),
            encoding: TextEncoding::Base64,
        }
    }

    /// The bytes again; `None` when the base64 is broken.
    pub fn decode(data: &str, encoding: TextEncoding) -> Option<Vec<u8>> {
        match encoding {
            TextEncoding::Utf8 => Some(data.as_bytes().to_vec()),
            TextEncoding::Base64 => BASE64.decode(data).ok(),
        }
    }
}

/// One of the byte streams of a process or command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StreamName {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// What children left behind wrote to standard output after their command was over.
    LateStdout,
    /// The same for standard error.
    LateStderr,
}

/// SSE `event: output`: a piece of one stream. The event's `id` is the position after it in the
/// joint log, to be sent back as `Last-Event-ID`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OutputEvent {
    /// Which stream.
    pub stream: StreamName,
    /// Byte offset of the piece in its stream.
    pub offset: u64,
    /// The bytes.
    pub data: String,
    /// How `data` is encoded.
    pub encoding: TextEncoding,
    /// When the bytes arrived.
    #[schema(value_type = String, format = DateTime)]
    pub at: jiff::Timestamp,
}

/// SSE `event: truncated`: bytes that are no longer kept, or that a cap dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TruncatedEvent {
    /// Which stream.
    pub stream: StreamName,
    /// First byte that is missing.
    pub offset: u64,
    /// How many bytes are missing.
    pub bytes: u64,
}

/// SSE `event: exit`: the process or command is over. Always the last event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ExitEvent {
    /// Exit status; 128 + n when killed by signal n. Absent when it never ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Name of the signal that killed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Whether its timeout ended it.
    #[serde(default)]
    pub timed_out: bool,
    /// Whether the kernel killed one of its processes because memory was used up.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub oom: bool,
    /// For a session's command: the working directory after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Wall time from start to end.
    pub duration_ms: u64,
}

/// Answer to a stdin write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct StdinReply {
    /// Bytes accepted since the process started: the offset of the next write.
    pub offset: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_says_what_it_did() {
        assert_eq!(
            Encoded::new(b"a\0b".to_vec(), Encoding::Auto),
            Encoded {
                data: "a\0b".into(),
                encoding: TextEncoding::Utf8
            }
        );
        let binary = Encoded::new(vec![0xff, 0], Encoding::Auto);
        assert_eq!(binary.encoding, TextEncoding::Base64);
        assert_eq!(
            Encoded::decode(&binary.data, binary.encoding),
            Some(vec![0xff, 0])
        );
    }
}
