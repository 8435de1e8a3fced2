//! Files: content, listings, changes, search, archives.
//!
//! Owns what all of them share: whose rights a call has, and which path it names. Nothing in here
//! touches a file; `sandshell_files` does, on the threads of the inside.

mod changes;
mod conditions;
mod content;
mod listing;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use sandshell_exec::inside::{Root, Who};
use sandshell_files::FileError;
use sandshell_types::{Encoded, ErrorCode, SessionId, TextEncoding};
use utoipa_axum::router::UtoipaMethodRouter;
use utoipa_axum::routes;

use crate::Agent;
use crate::problem::ApiError;

/// Its routes.
pub(super) fn table() -> Vec<UtoipaMethodRouter<Arc<Agent>>> {
    vec![
        routes!(content::read, content::write),
        routes!(listing::list),
        routes!(listing::stat),
        routes!(changes::mkdir),
        routes!(changes::rename),
        routes!(changes::copy),
        routes!(changes::remove),
        routes!(changes::chmod),
    ]
}

/// A path as a request names it: as text, or as base64 of its bytes.
struct Named<'a> {
    /// The field with the text.
    field: &'static str,
    text: Option<&'a str>,
    base64: Option<&'a str>,
    session: Option<&'a SessionId>,
}

impl Named<'_> {
    /// The absolute path it stands for.
    fn path(&self, agent: &Agent) -> Result<PathBuf, ApiError> {
        let field = self.field;
        let invalid = |pointer: String, detail: String| {
            ApiError::new(ErrorCode::InvalidRequest, detail).pointer(pointer)
        };
        let (pointer, bytes) = match (self.text, self.base64) {
            (Some(text), None) => (format!("/{field}"), text.as_bytes().to_vec()),
            (None, Some(base64)) => {
                let pointer = format!("/{field}_base64");
                match Encoded::decode(base64, TextEncoding::Base64) {
                    Some(bytes) => (pointer, bytes),
                    None => return Err(invalid(pointer, "this is not base64".to_owned())),
                }
            }
            (None, None) => {
                return Err(invalid(
                    format!("/{field}"),
                    format!("`{field}` is missing"),
                ));
            }
            (Some(_), Some(_)) => {
                return Err(invalid(
                    format!("/{field}_base64"),
                    format!("give `{field}` or `{field}_base64`, not both"),
                ));
            }
        };
        if bytes.is_empty() {
            return Err(invalid(pointer, "a path cannot be empty".to_owned())
                .hint("`.` is the directory that relative paths start at."));
        }
        if bytes.contains(&0) {
            return Err(invalid(
                pointer,
                "a path cannot contain a NUL byte".to_owned(),
            ));
        }
        let path = PathBuf::from(OsString::from_vec(bytes));
        let session = self.session.map(SessionId::as_str);
        Ok(agent.executor.absolute(&path, session)?)
    }
}

/// Runs a job on the inside with the rights of this user.
async fn run<T: Send + 'static>(
    agent: &Agent,
    who: &Who,
    job: impl FnOnce(&Root) -> Result<T, FileError> + Send + 'static,
) -> Result<T, ApiError> {
    Ok(agent.executor.inside().run(who, job).await??)
}
