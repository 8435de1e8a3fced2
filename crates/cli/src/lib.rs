//! `sandshell`, the one binary: parses the command line and hands over.
//!
//! Owns arguments, messages and exit codes. Three programs live in it: `init` and the launcher, which
//! must stay tiny and single-threaded and so are looked for before anything else is set up, and
//! everything a person types. Of that, what keeps sandboxes is for Linux; what talks to a hub uses the client
//! alone and builds elsewhere too.
//!
//! stdout is data, stderr is everything else. Exit codes are those of `sandshell help exit-codes`.

#[cfg(target_os = "linux")]
mod agent;
mod arguments;
mod audit;
mod backups;
mod completion;
mod config;
mod configure;
mod connection;
mod contexts;
mod copy;
mod detach;
#[cfg(target_os = "linux")]
mod doctor;
mod environment;
mod exec;
mod failure;
mod files;
#[doc(hidden)]
pub mod fuzzing;
mod git;
mod habits;
mod help;
mod images;
#[cfg(target_os = "linux")]
mod launcher;
#[cfg(target_os = "linux")]
mod listener;
#[cfg(target_os = "linux")]
mod logs;
mod manual;
#[cfg(target_os = "linux")]
mod mcp;
mod names;
#[cfg(target_os = "linux")]
mod one_shot;
mod output;
mod paint;
mod ports;
mod processes;
mod progress;
mod relay;
#[cfg(target_os = "linux")]
mod run;
mod sandboxes;
#[cfg(target_os = "linux")]
mod serve;
mod sessions;
mod terminal_screen;
mod terminals;
mod tokens;
mod update;
mod values;
mod version;
mod watching;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;

use crate::arguments::{Arguments, Command};
use crate::failure::Failure;
use crate::sandboxes::Change;

/// All of the program: takes the process's own arguments, and gives its exit code.
pub fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    {
        let mut words = std::env::args_os().skip(1);
        match words.next() {
            Some(word) if word == "init" => return init(words),
            Some(word) if word == sandshell_isolate::launcher::WORD => return launcher::run(),
            _ => {}
        }
    }
    if let Some(code) = completion::asked() {
        return code;
    }
    let words = habits::put_right(std::env::args_os().collect());
    let arguments = match Arguments::try_parse_from(&words) {
        Ok(arguments) => arguments,
        Err(error) => return help::of_usage(&error, &words),
    };
    done(arguments.command).unwrap_or_else(Failure::report)
}

fn done(command: Command) -> Result<ExitCode, Failure> {
    match command {
        #[cfg(target_os = "linux")]
        Command::Agent(arguments) => agent::run(*arguments),
        #[cfg(target_os = "linux")]
        Command::Run(arguments) => run::run(*arguments),
        #[cfg(target_os = "linux")]
        Command::Serve(arguments) => serve::run(*arguments),
        #[cfg(target_os = "linux")]
        Command::Mcp(arguments) => mcp::run(arguments),
        #[cfg(target_os = "linux")]
        Command::Doctor(arguments) => doctor::run(&arguments),
        #[cfg(target_os = "linux")]
        Command::Openapi { hub: false } => print(&sandshell_agent::openapi_json()),
        #[cfg(target_os = "linux")]
        Command::Openapi { hub: true } => print(&sandshell_hub::openapi_json()),
        Command::Version(asking) => version::run(asking.remote, &asking.own),
        Command::Completion(arguments) => completion::run(&arguments),
        Command::Man(arguments) => manual::run(&arguments),
        Command::Help(arguments) => help::run(&arguments),
        Command::Config(asking) => configure::run(&asking.remote, asking.own),
        Command::Login(asking) => configure::login(&asking.remote, asking.own),
        Command::Create(asking) => sandboxes::create(asking.remote, asking.own),
        Command::Ls(asking) => sandboxes::list(asking.remote, asking.own),
        Command::Get(asking) => sandboxes::get(asking.remote, &asking.own),
        Command::Rm(asking) => sandboxes::remove(asking.remote, &asking.own),
        Command::Update(asking) => update::run(asking.remote, asking.own),
        Command::Keepalive(asking) => sandboxes::change(asking.remote, &asking.own, Change::Keep),
        Command::Pause(asking) => sandboxes::change(asking.remote, &asking.own, Change::Pause),
        Command::Resume(asking) => sandboxes::change(asking.remote, &asking.own, Change::Resume),
        Command::Exec(asking) => exec::run(asking.remote, asking.own),
        Command::Shell(asking) => terminals::shell(asking.remote, asking.own),
        Command::Ps(asking) => processes::ps(asking.remote, &asking.own),
        Command::Logs(asking) => processes::logs(asking.remote, &asking.own),
        Command::Attach(asking) => processes::attach(asking.remote, &asking.own),
        Command::Wait(asking) => processes::wait(asking.remote, asking.own),
        Command::Kill(asking) => processes::kill(asking.remote, &asking.own),
        Command::Cp(asking) => copy::run(asking.remote, &asking.own),
        Command::Port(asking) => ports::run(asking.remote, asking.own),
        Command::Session(asking) => sessions::run(asking.remote, asking.own),
        Command::Terminal(asking) => terminals::run(asking.remote, asking.own),
        Command::File(asking) => files::run(asking.remote, asking.own),
        Command::Git(asking) => git::run(asking.remote, asking.own),
        Command::Backup(asking) => backups::run(asking.remote, asking.own),
        Command::Context(asking) => contexts::run(asking.remote, asking.own),
        Command::Events(asking) => watching::events(asking.remote, &asking.own),
        Command::Stats(asking) => watching::stats(asking.remote, &asking.own),
        Command::Env(asking) => environment::run(asking.remote, asking.own),
        Command::Image(asking) => images::run(asking.remote, asking.own),
        Command::Audit(asking) => audit::run(asking.remote, asking.own),
        Command::Token(asking) => tokens::run(asking.remote, asking.own),
    }
}

/// Not for people: the spawner of a sandbox, started by the agent.
#[cfg(target_os = "linux")]
fn init(mut words: impl Iterator<Item = std::ffi::OsString>) -> ExitCode {
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

/// Writes data. A reader that has seen enough is no failure.
pub(crate) fn print(text: &str) -> Result<ExitCode, Failure> {
    writeln!(std::io::stdout().lock(), "{text}")
        .map(|()| ExitCode::SUCCESS)
        .map_err(|error| Failure::output(&error))
}

/// How we are called from anywhere: by our name where that finds this very program, else by our path.
#[cfg(target_os = "linux")]
pub(crate) fn own_name() -> String {
    const NAME: &str = "sandshell";
    let Ok(own) = std::env::current_exe() else {
        return NAME.to_owned();
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|dir| dir.join(NAME))
        .find(|file| file.is_file());
    match found.and_then(|file| file.canonicalize().ok()) {
        Some(file) if file == own => NAME.to_owned(),
        _ => own.display().to_string(),
    }
}
