//! The path that a request names: as text, or as base64 of its bytes.
//!
//! Owns the rules that hold for every request with a path: one of the two forms, not empty, no NUL
//! byte, relative to the session's directory or the sandbox's. Does not look at what is there.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use sandshell_exec::Executor;
use sandshell_types::{Encoded, SessionId, TextEncoding};

use crate::FileError;

/// A path as a request names it.
#[derive(Debug, Clone, Copy)]
pub struct Named<'a> {
    /// The field with the text; that of the bytes is called `…_base64`.
    pub field: &'static str,
    /// The text.
    pub text: Option<&'a str>,
    /// Base64 of the bytes.
    pub base64: Option<&'a str>,
    /// Where relative paths start; at the sandbox's directory without one.
    pub session: Option<&'a SessionId>,
}

impl Named<'_> {
    /// The absolute path it stands for.
    pub fn path(&self, executor: &Executor) -> Result<PathBuf, FileError> {
        let field = self.field;
        let (pointer, bytes) = match (self.text, self.base64) {
            (Some(text), None) => (format!("/{field}"), text.as_bytes().to_vec()),
            (None, Some(base64)) => {
                let pointer = format!("/{field}_base64");
                match Encoded::decode(base64, TextEncoding::Base64) {
                    Some(bytes) => (pointer, bytes),
                    None => return Err(FileError::invalid(&pointer, "this is not base64")),
                }
            }
            (None, None) => {
                let detail = format!("`{field}` is missing");
                return Err(FileError::invalid(&format!("/{field}"), detail));
            }
            (Some(_), Some(_)) => {
                let detail = format!("give `{field}` or `{field}_base64`, not both");
                return Err(FileError::invalid(&format!("/{field}_base64"), detail));
            }
        };
        if bytes.is_empty() {
            let detail =
                "a path cannot be empty; `.` is the directory that relative paths start at";
            return Err(FileError::invalid(&pointer, detail));
        }
        if bytes.contains(&0) {
            let detail = "a path cannot contain a NUL byte";
            return Err(FileError::invalid(&pointer, detail));
        }
        let path = PathBuf::from(OsString::from_vec(bytes));
        Ok(executor.absolute(&path, self.session.map(SessionId::as_str))?)
    }
}
