//! How a failure is told: what, why, and what to do next.
//!
//! ```text
//! error: cannot listen on http://127.0.0.1:3000
//!   cause: Address already in use (os error 98)
//!
//! hint: something listens there already; try --listen 127.0.0.1:0
//! ```

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

/// The line on the command line was wrong.
const USAGE: u8 = 2;

/// We failed, not the command.
const OURS: u8 = 125;

/// A failure with its exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    what: String,
    causes: Vec<String>,
    hint: Option<String>,
    code: u8,
}

impl Failure {
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            causes: Vec::new(),
            hint: None,
            code: USAGE,
        }
    }

    pub(crate) fn ours(error: &dyn Error) -> Self {
        let mut causes = Vec::new();
        let mut source = error.source();
        while let Some(cause) = source {
            causes.push(cause.to_string());
            source = cause.source();
        }
        Self {
            what: error.to_string(),
            causes,
            hint: None,
            code: OURS,
        }
    }

    pub(crate) fn code(mut self, code: u8) -> Self {
        self.code = code;
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// What and why, in one line.
    pub(crate) fn line(&self) -> String {
        let mut line = self.what.clone();
        // Some say their cause themselves.
        for cause in &self.causes {
            if !line.contains(cause.as_str()) {
                line.push_str(": ");
                line.push_str(cause);
            }
        }
        line
    }

    /// Tells it on stderr.
    pub(crate) fn report(self) -> ExitCode {
        // There is nowhere to tell that stderr is closed.
        let _ = std::io::stderr().lock().write_all(self.text().as_bytes());
        ExitCode::from(self.code)
    }

    fn text(&self) -> String {
        // Writing to a string cannot fail.
        let mut text = format!("error: {}\n", self.what);
        for cause in &self.causes {
            let _ = writeln!(text, "  cause: {cause}");
        }
        if let Some(hint) = &self.hint {
            let _ = writeln!(text, "\nhint: {hint}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_what_why_and_what_next() {
        let failure = Failure::ours(&std::io::Error::other("inner")).hint("try again");
        assert_eq!(failure.text(), "error: inner\n\nhint: try again\n");
        assert_eq!(Failure::usage("no").text(), "error: no\n");
    }
}
