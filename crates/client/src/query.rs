//! Query parameters of lists and outputs.

use std::fmt::{Display, Write as _};

use sandshell_types::{ProcessKind, SessionId, StreamName};

/// Which processes to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessFilter {
    /// Only of this kind. Without it the server lists no execs.
    pub kind: Option<ProcessKind>,
    /// Only those started from this session.
    pub session: Option<SessionId>,
    /// Which page.
    pub page: Page,
}

/// Which page of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// Most items in it.
    pub limit: Option<u32>,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
}

/// Which bytes of an output to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputQuery {
    /// Of which stream.
    pub stream: StreamName,
    /// From which byte on.
    pub offset: u64,
    /// Whether to go on until the process ends.
    pub follow: bool,
}

impl OutputQuery {
    /// All of a stream that there is now.
    pub fn all(stream: StreamName) -> Self {
        Self {
            stream,
            offset: 0,
            follow: false,
        }
    }

    /// All of a stream until it ends.
    pub fn follow(stream: StreamName) -> Self {
        Self {
            stream,
            offset: 0,
            follow: true,
        }
    }
}

/// Which events of an output to read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventQuery {
    /// Resume after the event with this id.
    pub from: Option<u64>,
    /// Whether to go on until the process ends; the server decides when not said.
    pub follow: Option<bool>,
}

/// A query string in the making: empty, or `?a=b&c=d`.
#[derive(Default)]
pub(crate) struct Query(String);

impl Query {
    pub(crate) fn with(mut self, key: &str, value: Option<impl Display>) -> Self {
        if let Some(value) = value {
            self.0.push(if self.0.is_empty() { '?' } else { '&' });
            self.0.push_str(key);
            self.0.push('=');
            push_encoded(&mut self.0, &value.to_string());
        }
        self
    }

    pub(crate) fn page(self, page: &Page) -> Self {
        self.with("limit", page.limit)
            .with("cursor", page.cursor.as_ref())
    }
}

impl Display for Query {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&ProcessFilter> for Query {
    fn from(filter: &ProcessFilter) -> Self {
        let kind = filter.kind.map(|kind| match kind {
            ProcessKind::Exec => "exec",
            ProcessKind::Process => "process",
        });
        Self::default()
            .with("kind", kind)
            .with("session", filter.session.as_ref())
            .page(&filter.page)
    }
}

impl From<OutputQuery> for Query {
    fn from(query: OutputQuery) -> Self {
        let stream = match query.stream {
            StreamName::Stdout => "stdout",
            StreamName::Stderr => "stderr",
            StreamName::LateStdout => "late_stdout",
            StreamName::LateStderr => "late_stderr",
        };
        Self::default()
            .with("stream", Some(stream))
            .with("offset", (query.offset > 0).then_some(query.offset))
            .with("follow", query.follow.then_some(true))
    }
}

impl From<EventQuery> for Query {
    fn from(query: EventQuery) -> Self {
        Self::default()
            .with("from", query.from)
            .with("follow", query.follow)
    }
}

fn push_encoded(out: &mut String, value: &str) {
    for &byte in value.as_bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_values_and_leaves_out_what_is_not_asked() {
        assert_eq!(Query::from(&ProcessFilter::default()).to_string(), "");
        let page = Page {
            limit: Some(5),
            cursor: Some("a&b=ä".into()),
        };
        assert_eq!(
            Query::default().page(&page).to_string(),
            "?limit=5&cursor=a%26b%3D%C3%A4"
        );
        let filter = ProcessFilter {
            kind: Some(ProcessKind::Exec),
            ..Default::default()
        };
        assert_eq!(Query::from(&filter).to_string(), "?kind=exec");
    }

    #[test]
    fn names_streams_as_the_wire_does() {
        let query = OutputQuery {
            stream: StreamName::LateStderr,
            offset: 3,
            follow: true,
        };
        assert_eq!(
            Query::from(query).to_string(),
            "?stream=late_stderr&offset=3&follow=true"
        );
        let query = OutputQuery::all(StreamName::Stdout);
        assert_eq!(Query::from(query).to_string(), "?stream=stdout");
    }
}
