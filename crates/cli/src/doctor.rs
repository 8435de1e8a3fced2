//! `sandshell doctor`: what this machine has for sandboxes, what it lacks, and what to do about it.
//!
//! ```text
//! facts of the kernel, files, a real sandbox ─► checks (rows of data) ─► text or JSON
//! ```
//!
//! Owns no policy: what is required, and what is only better to have, is said by each check. Changes
//! nothing on the machine.

mod checks;
mod host;
mod isolation;
mod render;
pub(crate) mod report;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use crate::arguments::DoctorArguments;
use crate::failure::Failure;
use report::Report;

/// What a hub that is started here is to say about isolation. A sandbox is made for the question only where
/// the kernel's own word leaves a doubt.
pub(crate) fn isolation_here() -> report::Isolation {
    if checks::nothing_is_missing() {
        report::Isolation::of(Ok(Vec::new()))
    } else {
        isolation::probe()
    }
}

/// A required check failed.
const FAILED: u8 = 1;

pub(crate) fn run(arguments: &DoctorArguments) -> Result<ExitCode, Failure> {
    if arguments.take_user_namespace {
        return Ok(ExitCode::from(checks::take_user_namespace()));
    }
    let report = Report::of(checks::all(arguments), isolation::probe());
    let text = if arguments.json {
        serde_json::to_string_pretty(&report).map_err(|error| Failure::ours(&error))?
    } else {
        let stdout = std::io::stdout();
        let coloured = stdout.is_terminal() && std::env::var_os("NO_COLOR").is_none();
        render::text(&report, coloured)
    };
    crate::print(text.trim_end())?;
    Ok(if report.is_good(arguments.strict) {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(FAILED)
    })
}
