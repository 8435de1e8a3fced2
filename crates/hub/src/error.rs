//! What can go wrong with a sandbox or a token, and its one translation into a problem document.

use std::sync::Arc;

use rustix::io::Errno;
use sandshell_agent::parts::ApiError;
use sandshell_types::{ErrorCode, ImageName, Problem, Protection, SandboxId};

use crate::backend::BackendError;
use crate::images::ImageError;
use crate::store::{Lack, StoreError};

/// Why a request of the hub failed. Cheap to clone: all who wait for one create get the same.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum HubError {
    #[error("there is no sandbox {0:?}")]
    SandboxNotFound(String),
    #[error("the sandbox \"{id}\" is gone: {reason}")]
    SandboxGone { id: SandboxId, reason: String },
    #[error("the sandbox \"{0}\" is paused")]
    SandboxPaused(SandboxId),
    #[error("the id \"{id}\" is in use")]
    IdConflict {
        id: SandboxId,
        /// The field that differs; `None` when the sandbox is somebody else's.
        field: Option<String>,
    },
    #[error("{detail}")]
    Quota { detail: String },
    #[error("{detail}")]
    Isolation {
        detail: String,
        protections: Vec<Protection>,
    },
    #[error("{detail}")]
    Invalid {
        pointer: String,
        detail: String,
        hint: Option<&'static str>,
    },
    #[error("{0}")]
    Forbidden(&'static str),
    #[error("there is no token {0:?}")]
    TokenNotFound(String),
    #[error("there is no image {name:?}")]
    ImageNotFound {
        name: String,
        /// Those there are.
        known: Vec<String>,
    },
    #[error("the image \"{name}\" is in use by the sandbox \"{by}\"")]
    ImageInUse { name: ImageName, by: SandboxId },
    #[error("the image cannot be made: {0}")]
    Image(#[from] ImageError),
    #[error("the backend failed")]
    Backend(#[source] Arc<BackendError>),
    #[error("the store failed")]
    Store(#[source] Arc<StoreError>),
    #[error("there are no random bytes: {0}")]
    Random(getrandom::Error),
    #[error("the hub is shutting down")]
    Ending,
}

impl HubError {
    pub(crate) fn invalid(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Invalid {
            pointer: pointer.into(),
            detail: detail.into(),
            hint: None,
        }
    }

    pub(crate) fn hint(self, hint: &'static str) -> Self {
        match self {
            Self::Invalid {
                pointer, detail, ..
            } => Self::Invalid {
                pointer,
                detail,
                hint: Some(hint),
            },
            other => other,
        }
    }

    /// The code, for the audit log.
    pub(crate) fn code(&self) -> ErrorCode {
        match self {
            Self::SandboxNotFound(_) => ErrorCode::SandboxNotFound,
            Self::SandboxGone { .. } => ErrorCode::SandboxGone,
            Self::SandboxPaused(_) => ErrorCode::SandboxPaused,
            Self::IdConflict { .. } => ErrorCode::IdConflict,
            Self::Quota { .. } => ErrorCode::LimitReached,
            Self::Isolation { .. } => ErrorCode::IsolationUnavailable,
            Self::Invalid { .. } => ErrorCode::InvalidRequest,
            Self::Forbidden(_) => ErrorCode::Forbidden,
            Self::TokenNotFound(_) => ErrorCode::TokenNotFound,
            Self::ImageNotFound { .. } => ErrorCode::ImageNotFound,
            Self::ImageInUse { .. } => ErrorCode::ImageInUse,
            Self::Image(error) => match error {
                ImageError::Invalid { .. } | ImageError::BrokenOff => ErrorCode::InvalidImage,
                ImageError::At { errno, .. } => match *errno {
                    Errno::NOSPC | Errno::DQUOT => ErrorCode::NoSpace,
                    Errno::NAMETOOLONG => ErrorCode::InvalidImage,
                    _ => ErrorCode::Internal,
                },
            },
            Self::Backend(error) => match *error.cause() {
                BackendError::Invalid { .. } => ErrorCode::InvalidRequest,
                BackendError::NoImage { .. } => ErrorCode::ImageNotFound,
                BackendError::Limit { .. } => ErrorCode::LimitUnavailable,
                BackendError::Forbidden { .. } => ErrorCode::IsolationUnavailable,
                BackendError::Lack { errno, .. } => lacking(Some(errno)),
                BackendError::Failed { ref source, .. } => lacking(Errno::from_io_error(source)),
                BackendError::Dead(_) | BackendError::Remains(_) => ErrorCode::Unavailable,
            },
            Self::Store(error) => match error.lack() {
                Some(Lack::Space) => ErrorCode::NoSpace,
                Some(Lack::Other) => ErrorCode::Unavailable,
                None => ErrorCode::Internal,
            },
            Self::Random(_) => ErrorCode::Internal,
            Self::Ending => ErrorCode::Unavailable,
        }
    }
}

impl From<StoreError> for HubError {
    fn from(error: StoreError) -> Self {
        Self::Store(Arc::new(error))
    }
}

impl From<BackendError> for HubError {
    fn from(error: BackendError) -> Self {
        Self::Backend(Arc::new(error))
    }
}

impl From<HubError> for ApiError {
    fn from(error: HubError) -> Self {
        let code = error.code();
        let problem = Self::new(code, error.to_string());
        match error {
            HubError::SandboxNotFound(_) => {
                problem.hint("GET /v1/sandboxes lists those that this token may use.")
            }
            HubError::SandboxGone { .. } => problem.hint("Make another with POST /v1/sandboxes."),
            HubError::SandboxPaused(id) => {
                problem.hint(format!("POST /v1/sandboxes/{id}/resume lets it go on."))
            }
            HubError::IdConflict {
                id,
                field: Some(field),
            } => Self::new(
                ErrorCode::IdConflict,
                format!("the id \"{id}\" is in use with another `{field}`"),
            )
            .pointer(format!("/{field}"))
            .hint("Take another id, or send the same spec to get what is there."),
            HubError::IdConflict { field: None, .. } => {
                problem.pointer("/id").hint("Take another id.")
            }
            HubError::Quota { .. } => problem.hint("Destroy some first."),
            HubError::Isolation {
                detail,
                protections,
            } => {
                let mut problem = Problem::new(ErrorCode::IsolationUnavailable, detail)
                    .pointer("/isolation")
                    .hint(
                        "Run `sandshell doctor` on the machine for the remedies, or choose \
                         `isolation: {\"policy\": \"best_effort\"}` and do without.",
                    );
                problem.protections = protections;
                problem.into()
            }
            HubError::Invalid { pointer, hint, .. } => match hint {
                Some(hint) => problem.pointer(pointer).hint(hint),
                None => problem.pointer(pointer),
            },
            HubError::ImageNotFound { known, .. } => problem.hint(images_hint(&known)),
            HubError::ImageInUse { by, .. } => {
                problem.hint(format!("DELETE /v1/sandboxes/{by} first, or take another name."))
            }
            HubError::Image(error) => match error {
                ImageError::Invalid { .. } => problem.hint(
                    "An image is a tar of a root (docker export), of docker save, or of an OCI layout; plain, gzip or zstd.",
                ),
                _ => problem,
            },
            HubError::Backend(error) => match error.cause() {
                BackendError::NoImage { name, known } => {
                    Self::new(ErrorCode::ImageNotFound, format!("there is no image {name:?}"))
                        .pointer("/image")
                        .hint(images_hint(known))
                }
                BackendError::Invalid { pointer, detail } => {
                    Self::new(ErrorCode::InvalidRequest, detail.clone()).pointer(pointer.clone())
                }
                BackendError::Limit { pointer, detail } => {
                    Self::new(ErrorCode::LimitUnavailable, detail.clone()).pointer(pointer.clone())
                }
                forbidden @ BackendError::Forbidden {
                    protections,
                    remedy,
                    ..
                } => {
                    let detail = forbidden.to_string();
                    let mut problem = Problem::new(ErrorCode::IsolationUnavailable, detail)
                        .pointer("/isolation")
                        .hint(*remedy);
                    problem.protections.clone_from(protections);
                    problem.into()
                }
                other => {
                    tracing::error!(error = %other, "the backend failed");
                    Self::new(code, format!("the sandbox cannot be worked on: {other}"))
                }
            },
            HubError::Store(error) if error.lack() == Some(Lack::Space) => Self::new(
                ErrorCode::NoSpace,
                "no space is left for the hub's records; nothing was changed",
            ),
            HubError::Store(error) if error.lack().is_some() => Self::new(
                ErrorCode::Unavailable,
                "the hub cannot open its records now; nothing was changed",
            ),
            HubError::Store(error) => {
                let cause = std::error::Error::source(&*error).map(ToString::to_string);
                let cause = cause.unwrap_or_else(|| error.to_string());
                Self::internal("the records cannot be written", &cause)
            }
            HubError::Random(error) => Self::internal("there are no random bytes", &error),
            HubError::TokenNotFound(_) => problem.hint("GET /v1/tokens lists those there are."),
            HubError::Forbidden(_) | HubError::Ending => problem,
        }
    }
}

fn lacking(errno: Option<Errno>) -> ErrorCode {
    match errno {
        Some(Errno::NOSPC | Errno::DQUOT) => ErrorCode::NoSpace,
        _ => ErrorCode::Unavailable,
    }
}

/// Which images there are, the first of them.
fn images_hint(known: &[String]) -> String {
    const SHOWN: usize = 20;
    if known.is_empty() {
        return "There are no images yet; PUT /v1/images/NAME imports one.".to_owned();
    }
    let shown: Vec<&str> = known.iter().take(SHOWN).map(String::as_str).collect();
    let more = if known.len() > SHOWN { ", …" } else { "" };
    format!("There are: {}{more}.", shown.join(", "))
}
