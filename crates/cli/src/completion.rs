//! `sandshell completion SHELL`: the completions of a shell, made from the command line itself.

use std::process::ExitCode;

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::failure::Failure;
use crate::print;

#[derive(Debug, Args)]
pub(crate) struct CompletionArguments {
    /// The shell.
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

pub(crate) fn run(own: &CompletionArguments) -> Result<ExitCode, Failure> {
    let mut command = Arguments::command();
    let mut text = Vec::new();
    clap_complete::generate(own.shell, &mut command, "sandshell", &mut text);
    print(String::from_utf8_lossy(&text).trim_end())
}
