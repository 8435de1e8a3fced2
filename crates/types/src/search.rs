//! Finding files by name, and lines in files.

use serde::{Deserialize, Serialize};

use crate::{FileEntry, FileKind, SessionId, TextEncoding};

/// `POST /v1/files/find`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"path": "/src", "patterns": ["*.rs"], "kind": "file"}))]
pub struct FindRequest {
    /// The directory to look in. Relative paths start at the session's directory, or the sandbox's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Instead of `path`, for names that are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// Globs, of which one must match; all entries when left out. One without `/` is matched
    /// against the name, one with it against the path below `path`; `**` stands for any number of
    /// directories.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patterns: Vec<String>,
    /// Entries to leave out, and directories not to enter, as globs of the same kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// Only entries of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<FileKind>,
    /// Whether names that begin with a dot are looked at; true by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<bool>,
    /// Whether what .gitignore files exclude is left out, and `.git` with it; false by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gitignore: Option<bool>,
    /// How many levels down; 1 is the directory itself. No limit by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_depth: Option<u32>,
    /// Most entries in the answer: 1,000 by default, 100,000 at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100_000)]
    pub limit: Option<u32>,
    /// After this the answer has what was found so far; 60 s by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Relative paths start at this session's directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// Whose rights are used: a user name or uid; the sandbox's user by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// What was found, in the order of a walk: sorted within each directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct FindReply {
    /// The entries.
    pub items: Vec<FileEntry>,
    /// There are more than `limit`, or than an answer holds, or the time ran out.
    pub truncated: bool,
    /// The time ran out.
    pub timed_out: bool,
    /// Directories that the user may not read.
    pub unreadable: u64,
}

/// How upper and lower case are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CaseMode {
    /// They differ.
    #[default]
    Sensitive,
    /// They are the same.
    Insensitive,
    /// They differ when the pattern has an upper-case letter.
    Smart,
}

/// `POST /v1/files/search`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"path": "/src", "pattern": "fn main", "include": ["*.rs"]}))]
pub struct SearchRequest {
    /// The directory, or the one file, to search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Instead of `path`, for names that are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// A regular expression (Rust's syntax: linear time, no look-around or back-references),
    /// matched within one line.
    pub pattern: String,
    /// The pattern is plain text.
    #[serde(default)]
    pub literal: bool,
    /// Upper and lower case.
    #[serde(default)]
    pub case: CaseMode,
    /// Globs of the files to search, as in find; all when left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    /// Globs of files and directories to leave out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// Whether what .gitignore files exclude is left out; true by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gitignore: Option<bool>,
    /// Whether names that begin with a dot are looked at; false by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<bool>,
    /// Lines to give before and after each match: 0 by default, 100 at most.
    #[serde(default)]
    #[schema(maximum = 100)]
    pub context: u32,
    /// Most matching lines in the answer: 1,000 by default, 100,000 at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100_000)]
    pub limit: Option<u32>,
    /// Larger files are passed over and counted; 64 MiB by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_file_bytes: Option<u64>,
    /// After this the answer has what was found so far; 60 s by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Relative paths start at this session's directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// Whose rights are used: a user name or uid; the sandbox's user by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// A part of a line, in bytes from its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Span {
    /// The first byte.
    pub start: u64,
    /// The byte after the last.
    pub end: u64,
}

/// A line beside a match.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ContextLine {
    /// Its number, from 1.
    pub line: u64,
    /// The line without its end.
    pub text: String,
    /// How `text` is encoded.
    pub text_encoding: TextEncoding,
}

/// SSE `event: match`: one line that matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SearchMatch {
    /// The file's absolute path; what is not UTF-8 in it is replaced.
    pub path: String,
    /// The exact bytes of the path, when it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// Number of the line, from 1.
    pub line: u64,
    /// Where the line begins in the file, in bytes.
    pub offset: u64,
    /// What matched in the line, 1,000 at most.
    pub spans: Vec<Span>,
    /// The line without its end.
    pub text: String,
    /// How `text` is encoded.
    pub text_encoding: TextEncoding,
    /// The line is longer than 16 KiB, and `text` is only its beginning.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub text_truncated: bool,
    /// Lines before it, as far as they were asked for and belong to no other match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<ContextLine>,
    /// Lines after it, the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<ContextLine>,
}

/// SSE `event: done`: what was searched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SearchSummary {
    /// Lines that matched and are in the answer.
    pub matched_lines: u64,
    /// Files with a match.
    pub matched_files: u64,
    /// Files that were searched.
    pub searched_files: u64,
    /// Files passed over because a NUL byte was found in them; matches before it are given.
    pub binary_files: u64,
    /// Files passed over because they, or a line of theirs, are too large.
    pub large_files: u64,
    /// Files and directories that the user may not read.
    pub unreadable: u64,
    /// There are more matches than `limit`, or than an answer holds, or the time ran out.
    pub truncated: bool,
    /// The time ran out.
    pub timed_out: bool,
}

/// What a search found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SearchReply {
    /// The lines, sorted by path within each directory.
    pub matches: Vec<SearchMatch>,
    /// What was searched.
    pub summary: SearchSummary,
}
