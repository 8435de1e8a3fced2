//! `sandshell`, the one binary: parses the command line and hands over.
//!
//! Owns arguments, messages and exit codes. Three programs live in it: `init` and the launcher, which
//! must stay tiny and single-threaded and so are looked for before anything else is set up, and
//! everything a person types.
//!
//! stdout is data, stderr is everything else. Exit codes: 2 usage, 125 our failure, else the
//! command's own.

mod agent;
mod arguments;
mod doctor;
mod failure;
mod launcher;
mod listener;
mod logs;
mod mcp;
mod one_shot;
mod run;
mod serve;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use sandshell_types::{API_VERSION, VersionInfo};

use crate::arguments::{Arguments, Command};
use crate::failure::Failure;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    match words.next() {
        Some(word) if word == "init" => return init(words),
        Some(word) if word == sandshell_isolate::launcher::WORD => return launcher::run(),
        _ => {}
    }
    let result = match Arguments::parse().command {
        Command::Agent(arguments) => agent::run(*arguments),
        Command::Run(arguments) => run::run(*arguments),
        Command::Serve(arguments) => serve::run(*arguments),
        Command::Mcp(arguments) => mcp::run(arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Version { json } => version(json),
        Command::Openapi { hub: false } => print(&sandshell_agent::openapi_json()),
        Command::Openapi { hub: true } => print(&sandshell_hub::openapi_json()),
    };
    result.unwrap_or_else(Failure::report)
}

/// Not for people: the spawner of a sandbox, started by the agent.
fn init(mut words: impl Iterator<Item = OsString>) -> ExitCode {
    let first = words.next();
    if first.as_ref().is_some_and(|word| word == "--probe") {
        return ExitCode::SUCCESS;
    }
    let options = sandshell_isolate::launch::parse_init_arguments(first.into_iter().chain(words));
    let socket = sandshell_sys::packet::inherited(sandshell_isolate::init::SOCKET_FD);
    let (Some(options), Some(socket)) = (options, socket) else {
        return Failure::usage("`sandshell init` is started by the agent, not by hand")
            .hint("run `sandshell agent`")
            .report();
    };
    match sandshell_isolate::init::run(&socket, &options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => Failure::ours(&error).report(),
    }
}

fn version(json: bool) -> Result<ExitCode, Failure> {
    let info = VersionInfo {
        version: sandshell_agent::VERSION.to_owned(),
        api: API_VERSION.to_owned(),
    };
    if json {
        print(&serde_json::to_string(&info).map_err(|error| Failure::ours(&error))?)
    } else {
        print(&format!("sandshell {} (API {})", info.version, info.api))
    }
}

/// Writes data. A reader that has seen enough is no failure.
fn print(text: &str) -> Result<ExitCode, Failure> {
    match writeln!(std::io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::ours(&error)),
        _ => Ok(ExitCode::SUCCESS),
    }
}
