//! Conditional requests and ranges (RFC 9110, sections 13 and 14).
//!
//! Owns the reading of the headers and the order in which they count. A header that makes no sense
//! is ignored where the RFC says so; a range that cannot be had is told apart from one that cannot
//! be read.

use std::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, header};
use sandshell_files::Facts;

/// What a request makes of the file that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    GoOn,
    /// 304.
    NotModified,
    /// 412.
    Failed,
}

/// The conditions of one request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Conditions {
    if_match: Option<Tags>,
    if_none_match: Option<Tags>,
    if_unmodified_since: Option<i64>,
    if_modified_since: Option<i64>,
    if_range: Option<IfRange>,
    range: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Tags {
    Any,
    These(Vec<String>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum IfRange {
    Tag(String),
    Date(i64),
}

/// Which bytes are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Bytes {
    All,
    Part(Range<u64>),
    /// 416.
    Outside,
}

impl Conditions {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let date = |name| text(name).and_then(parse_date);
        // Several headers of one name are one list.
        let tags = |name: HeaderName| {
            let all: Vec<&str> = headers
                .get_all(&name)
                .iter()
                .filter_map(|value| value.to_str().ok())
                .collect();
            (!all.is_empty()).then(|| Tags::parse(&all.join(",")))
        };
        Self {
            if_match: tags(header::IF_MATCH),
            if_none_match: tags(header::IF_NONE_MATCH),
            if_unmodified_since: date(header::IF_UNMODIFIED_SINCE),
            if_modified_since: date(header::IF_MODIFIED_SINCE),
            if_range: text(header::IF_RANGE).and_then(|value| {
                if value.starts_with('"') || value.starts_with("W/") {
                    Some(IfRange::Tag(value.to_owned()))
                } else {
                    parse_date(value).map(IfRange::Date)
                }
            }),
            range: text(header::RANGE).map(str::to_owned),
        }
    }

    /// Whether the request asks for a file that must not be there.
    pub(super) fn new_only(&self) -> bool {
        self.if_none_match == Some(Tags::Any)
    }

    /// Whether anything is asked that depends on the file.
    pub(super) fn any_for_writing(&self) -> bool {
        self.if_match.is_some()
            || self.if_none_match.is_some()
            || self.if_unmodified_since.is_some()
    }

    /// For a request that reads.
    pub(super) fn for_reading(&self, facts: &Facts) -> Verdict {
        if !self.preconditions(Some(facts)) {
            return Verdict::Failed;
        }
        let unchanged = match (&self.if_none_match, self.if_modified_since) {
            (Some(tags), _) => tags.weakly(&facts.etag),
            (None, Some(since)) => facts.modified <= since,
            (None, None) => false,
        };
        if unchanged {
            Verdict::NotModified
        } else {
            Verdict::GoOn
        }
    }

    /// For a request that writes: whether it may.
    pub(super) fn for_writing(&self, facts: Option<&Facts>) -> bool {
        let other = match (&self.if_none_match, facts) {
            (Some(tags), Some(facts)) => !tags.weakly(&facts.etag),
            _ => true,
        };
        self.preconditions(facts) && other
    }

    fn preconditions(&self, facts: Option<&Facts>) -> bool {
        match (&self.if_match, self.if_unmodified_since, facts) {
            (Some(tags), _, Some(facts)) => tags.strongly(&facts.etag),
            (Some(_), _, None) => false,
            (None, Some(since), Some(facts)) => facts.modified <= since,
            (None, _, _) => true,
        }
    }

    /// The bytes that are wanted of a file.
    pub(super) fn bytes(&self, facts: &Facts) -> Bytes {
        let Some(range) = &self.range else {
            return Bytes::All;
        };
        let same = match &self.if_range {
            None => true,
            Some(IfRange::Tag(tag)) => *tag == facts.etag,
            Some(IfRange::Date(date)) => *date == facts.modified,
        };
        if same {
            parse_range(range, facts.size)
        } else {
            Bytes::All
        }
    }
}

impl Tags {
    fn parse(list: &str) -> Self {
        if list.trim() == "*" {
            return Self::Any;
        }
        let mut tags = Vec::new();
        let mut rest = list;
        // Commas may be within the quotes.
        while let Some(open) = rest.find('"') {
            let weak = rest
                .get(..open)
                .is_some_and(|before| before.ends_with("W/"));
            let Some((tag, after)) = rest.get(open + 1..).and_then(|rest| rest.split_once('"'))
            else {
                break;
            };
            let prefix = if weak { "W/" } else { "" };
            tags.push(format!("{prefix}\"{tag}\""));
            rest = after;
        }
        Self::These(tags)
    }

    fn strongly(&self, etag: &str) -> bool {
        match self {
            Self::Any => true,
            Self::These(tags) => tags.iter().any(|tag| tag == etag),
        }
    }

    fn weakly(&self, etag: &str) -> bool {
        match self {
            Self::Any => true,
            Self::These(tags) => tags
                .iter()
                .any(|tag| tag.strip_prefix("W/").unwrap_or(tag) == etag),
        }
    }
}

pub(crate) fn parse_date(text: &str) -> Option<i64> {
    let time = httpdate::parse_http_date(text).ok()?;
    let seconds = time.duration_since(UNIX_EPOCH).ok()?.as_secs();
    i64::try_from(seconds).ok()
}

/// A time as `Last-Modified` has it; none for times before 1970, which HTTP cannot say.
pub(crate) fn http_date(seconds: i64) -> Option<String> {
    let seconds = u64::try_from(seconds).ok()?;
    // The format ends with the year 9999.
    let time: SystemTime = UNIX_EPOCH.checked_add(Duration::from_secs(seconds))?;
    (seconds < 253_402_300_800).then(|| httpdate::fmt_http_date(time))
}

/// One range. Several, and what is no range of bytes, give the whole file.
pub(crate) fn parse_range(text: &str, size: u64) -> Bytes {
    let Some((unit, set)) = text.split_once('=') else {
        return Bytes::All;
    };
    if !unit.trim().eq_ignore_ascii_case("bytes") || set.contains(',') {
        return Bytes::All;
    }
    let Some((first, last)) = set.trim().split_once('-') else {
        return Bytes::All;
    };
    let number = |text: &str| {
        (!text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit()))
            .then(|| text.parse().unwrap_or(u64::MAX))
    };
    match (number(first), number(last)) {
        (Some(first), Some(last)) if last < first => Bytes::All,
        (Some(first), _) if first >= size && (last.is_empty() || number(last).is_some()) => {
            Bytes::Outside
        }
        (Some(first), Some(last)) => Bytes::Part(first..last.saturating_add(1).min(size)),
        (Some(first), None) if last.is_empty() => Bytes::Part(first..size),
        (None, Some(0)) if first.is_empty() => Bytes::Outside,
        (None, Some(_)) if first.is_empty() && size == 0 => Bytes::Outside,
        (None, Some(last)) if first.is_empty() => Bytes::Part(size.saturating_sub(last)..size),
        _ => Bytes::All,
    }
}

#[cfg(test)]
#[path = "conditions_tests.rs"]
mod tests;
