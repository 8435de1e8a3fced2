//! x
use crate::arguments::DoctorArguments;
use crate::failure::Failure;
use std::process::ExitCode;
pub(crate) fn run(_: &DoctorArguments) -> Result<ExitCode, Failure> { Ok(ExitCode::SUCCESS) }
