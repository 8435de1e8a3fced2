//! What a tool could not do, in words for the model that asked.

use std::error::Error as _;
use std::fmt::Display;

use sandshell_client::ClientError;
use serde_json::{Value, json};

/// A failed call: what, why, and what to do next.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// Stable, to branch on: that of the API, or one of our own.
    code: &'static str,
    detail: String,
    hint: Option<String>,
}

impl Refusal {
    /// The arguments are wrong.
    pub(crate) fn arguments(detail: impl Display) -> Self {
        Self {
            code: "invalid_arguments",
            detail: detail.to_string(),
            hint: Some("See the tool's input schema in tools/list.".to_owned()),
        }
    }

    /// One argument is wrong.
    pub(crate) fn argument(name: &str, reason: impl Display) -> Self {
        Self::arguments(format!("{name}: {reason}"))
    }

    /// The client took its request back.
    pub(crate) fn cancelled(what_became: &str) -> Self {
        Self {
            code: "cancelled",
            detail: format!("the call was cancelled; {what_became}"),
            hint: None,
        }
    }

    /// Too much at a time.
    pub(crate) fn busy(most: usize) -> Self {
        Self {
            code: "limit_reached",
            detail: format!("{most} calls are under way already"),
            hint: Some("Wait for one of them to end.".to_owned()),
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn text(&self) -> String {
        let mut text = format!("error: {} ({})", self.detail, self.code);
        if let Some(hint) = &self.hint {
            text.push_str("\nhint: ");
            text.push_str(hint);
        }
        text
    }

    pub(crate) fn value(&self) -> Value {
        let mut error = json!({"code": self.code, "detail": self.detail});
        if let Some(hint) = &self.hint {
            error["hint"] = json!(hint);
        }
        json!({ "error": error })
    }
}

/// Hints that name tools, where those of the API name routes.
fn hint_for(code: &str) -> Option<&'static str> {
    Some(match code {
        "sandbox_not_found" | "sandbox_gone" => {
            "list_sandboxes shows the ones there are; create_sandbox makes one."
        }
        "process_not_found" => {
            "Use the process_id that run_command or start_process gave; ended ones are kept for a while only."
        }
        "session_not_found" | "session_ended" => {
            "run_in_session makes a session on its first use; another name gives a fresh one."
        }
        "file_not_found" => "list_files shows what is in a directory.",
        "port_not_found" => {
            "Start a server with start_process, then read_output with until_port waits for it."
        }
        "stdin_closed" => "Start the process with start_process and stdin_open.",
        _ => return None,
    })
}

impl From<ClientError> for Refusal {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Problem(problem) => Self {
                code: problem.code.as_str(),
                hint: hint_for(problem.code.as_str())
                    .map(str::to_owned)
                    .or(problem.hint),
                detail: match problem.pointer.filter(|pointer| !pointer.is_empty()) {
                    Some(pointer) => format!("{} (at {pointer})", problem.detail),
                    None => problem.detail,
                },
            },
            other => {
                let mut detail = other.to_string();
                let mut source = other.source();
                while let Some(cause) = source {
                    detail.push_str(": ");
                    detail.push_str(&cause.to_string());
                    source = cause.source();
                }
                Self {
                    code: "hub_unreachable",
                    detail,
                    hint: Some(
                        "See whether the hub runs: `sandshell serve` starts one.".to_owned(),
                    ),
                }
            }
        }
    }
}
