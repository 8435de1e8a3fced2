//! What can go wrong between a call and its reply.

use std::io;

use http::StatusCode;
use sandshell_types::{ErrorCode, Problem};

/// A failed call.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The server refused, and said why.
    #[error(transparent)]
    Problem(Box<Problem>),
    /// The server refused without a problem document: something in between, or another server.
    #[error("the server answered {status}: {body}")]
    Http {
        /// The HTTP status.
        status: u16,
        /// The body, as text.
        body: String,
    },
    /// The address, token or idempotency key given to the client cannot be used.
    #[error("{what} cannot be used: {reason}")]
    Config {
        /// Which of them, without secrets.
        what: String,
        /// Why not.
        reason: String,
    },
    /// No connection could be made.
    #[error("cannot connect to {endpoint}")]
    Connect {
        /// The address.
        endpoint: String,
        /// Why.
        source: io::Error,
    },
    /// The connection broke, or what came over it is not the protocol.
    #[error("{context}")]
    Protocol {
        /// What was being done.
        context: String,
        /// Why it failed, when a lower layer said so.
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
}

impl ClientError {
    /// The problem document, when the server sent one.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Problem(problem) => Some(problem),
            _ => None,
        }
    }

    /// The stable code, when the server sent one.
    pub fn code(&self) -> Option<ErrorCode> {
        self.problem().map(|problem| problem.code)
    }

    /// The HTTP status, when there was an answer.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Problem(problem) => Some(problem.status),
            Self::Http { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// The error an unsuccessful reply stands for.
    pub(crate) fn from_reply(status: StatusCode, body: &[u8]) -> Self {
        match serde_json::from_slice::<Problem>(body) {
            Ok(problem) => Self::Problem(Box::new(problem)),
            Err(_) => Self::Http {
                status: status.as_u16(),
                body: String::from_utf8_lossy(body).into_owned(),
            },
        }
    }

    pub(crate) fn protocol(
        context: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Protocol {
            context: context.into(),
            source: Some(source.into()),
        }
    }

    pub(crate) fn config(what: impl Into<String>, reason: &impl ToString) -> Self {
        Self::Config {
            what: what.into(),
            reason: reason.to_string(),
        }
    }
}
