//! `sandshell help`: of commands, and of topics that belong to none. Also what is said about a line that is
//! not understood.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory as _};

use crate::arguments::Arguments;
use crate::failure::Failure;
use crate::{habits, names, print};

#[derive(Debug, Args)]
pub(crate) struct HelpArguments {
    /// A command such as `session create`, or a topic.
    #[arg(value_name = "COMMAND")]
    words: Vec<String>,
}

pub(crate) const TOPICS: &[(&str, &str)] = &[
    (
        "exit-codes",
        "\
Exit codes

  exec, run, shell, attach, wait, port wait, session exec, terminal attach:
    the command's own; 128+n when signal n killed it (130 Ctrl-C, 137 SIGKILL, 143 SIGTERM)
    124   it took longer than --timeout
    125   we failed, not the command
    126   the program cannot be executed
    127   the program does not exist
    141   whoever read our output went away
  all others:
      0   done
      1   it failed
    130   interrupted
  everywhere:
      2   the command line, or the configuration, is wrong
      4   there is no valid token

A command may end with any of these codes by itself. With --json the reason is told apart: a result has
`exit_code`, `signal` and `timed_out`, and a failure is a problem object on stderr.",
    ),
    (
        "environment",
        "\
Environment

  SANDSHELL_URL          address of the hub, http://HOST:PORT or unix:/PATH
  SANDSHELL_HUB          name of a hub of the configuration
  SANDSHELL_TOKEN        the token
  SANDSHELL_TOKEN_FILE   file with the token
  SANDSHELL_SANDBOX      sandbox to use where none is named
  SANDSHELL_DETACH_KEYS  keys that leave a terminal, such as ctrl-p,ctrl-q
  SANDSHELL_LOG          what `serve` and `agent` log
  XDG_CONFIG_HOME        where sandshell/config.toml is [~/.config]
  XDG_STATE_HOME         where `serve` keeps its records and token [~/.local/state]
  NO_COLOR, CLICOLOR_FORCE, TERM=dumb   whether to colour

Flags come before the environment, then ./sandshell.toml, then your own config.toml, then the defaults:
http://127.0.0.1:4020 with the token that `sandshell serve` made. `sandshell config show --origin` tells
where each value comes from.",
    ),
    (
        "names",
        "\
Names

  SANDBOX        an id, or the beginning of one that begins no other
  SANDBOX/ID     a process, session, terminal, context or backup in a sandbox
  SANDBOX:PATH   a path in a sandbox

Without SANDBOX, the one in SANDSHELL_SANDBOX or the configuration is meant; if none is set, the only one
there is. With several and none named, nothing is done.",
    ),
];

pub(crate) fn run(own: &HelpArguments) -> Result<ExitCode, Failure> {
    if let [word] = own.words.as_slice()
        && let Some((_, text)) = TOPICS.iter().find(|(name, _)| name == word)
    {
        return print(text);
    }
    let mut command = Arguments::command();
    for word in &own.words {
        let Some(next) = command.find_subcommand(word).cloned() else {
            let known = command.get_subcommands().map(clap::Command::get_name);
            let topics = TOPICS.iter().map(|(name, _)| *name);
            let path = command.get_bin_name().unwrap_or("sandshell");
            let elsewhere = || habits::meant(word, &command, path);
            let hint = names::nearest(word, known.chain(topics)).map_or_else(
                || {
                    elsewhere().unwrap_or_else(|| {
                        "`sandshell help` lists commands; topics are exit-codes, environment, names"
                            .to_owned()
                    })
                },
                |meant| format!("did you mean `sandshell help {meant}`?"),
            );
            return Err(
                Failure::usage(format!("there is no command or topic {word:?}")).hint(hint),
            );
        };
        command = next;
    }
    // The very help that the flag gives.
    let line = ["sandshell"]
        .into_iter()
        .chain(own.words.iter().map(String::as_str))
        .chain(["--help"]);
    match Arguments::command().try_get_matches_from(line) {
        Ok(_) => Ok(ExitCode::SUCCESS),
        Err(help) => print(help.render().to_string().trim_end()),
    }
}

/// A line that is not understood, told as other failures are; or the help that was asked for.
pub(crate) fn of_usage(error: &clap::Error, words: &[OsString]) -> ExitCode {
    let code = u8::try_from(error.exit_code()).unwrap_or(2);
    if code == 0 || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // A reader that has seen enough is no failure.
        let _ = error.print();
        return ExitCode::from(code);
    }
    let text = error.render().to_string();
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let mut what = first.strip_prefix("error: ").unwrap_or(first).to_owned();
    let mut tip = None;
    for line in lines {
        if let Some(told) = line.trim().strip_prefix("tip: ") {
            tip = tip.or(Some(told.to_owned()));
        } else if line.starts_with("  ") && !line.trim().is_empty() && tip.is_none() {
            what.push('\n');
            what.push_str(line);
        }
    }
    let (path, command) = command_of(words.iter().skip(1));
    let help = format!("{path} --help");
    let known_elsewhere = unknown_word(error).and_then(|word| {
        let names = || command.get_subcommands().map(clap::Command::get_name);
        habits::meant(word, &command, &path).or_else(|| {
            names::nearest(word, names()).map(|meant| format!("did you mean `{path} {meant}`?"))
        })
    });
    let flag = unknown_flag(error).and_then(habits::instead_of);
    let hint = match known_elsewhere
        .or(flag.map(str::to_owned))
        .or(tip)
        .or_else(|| one_word_too_many(error, words, &command, &path))
    {
        Some(tip) if tip.ends_with('?') => format!("{tip} `{help}` tells more"),
        Some(tip) => format!("{tip}; `{help}` tells more"),
        None => format!("`{help}` shows what can be given"),
    };
    let json = words
        .iter()
        .take_while(|word| *word != "--")
        .any(|word| word == "--json");
    Failure::usage(what).hint(hint).in_json(json).report()
}

/// The command that the first words name, and how it is called.
fn command_of<'a>(words: impl Iterator<Item = &'a OsString>) -> (String, clap::Command) {
    let mut path = "sandshell".to_owned();
    let mut command = Arguments::command();
    for word in words {
        let Some(next) = command.find_subcommand(word).cloned() else {
            break;
        };
        path = format!("{path} {}", next.get_name());
        command = next;
    }
    (path, command)
}

/// The word that is no command.
fn unknown_word(error: &clap::Error) -> Option<&str> {
    match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(word)) => Some(word),
        _ => None,
    }
}

/// The flag that is none.
fn unknown_flag(error: &clap::Error) -> Option<&str> {
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(flag)) if error.kind() == ErrorKind::UnknownArgument => {
            Some(flag)
        }
        _ => None,
    }
}

/// A word that is none of the command's own: what it may have been meant for.
fn one_word_too_many(
    error: &clap::Error,
    words: &[OsString],
    command: &clap::Command,
    path: &str,
) -> Option<String> {
    let meant = [
        two_words_for_one(error, words, command, path),
        forgotten_dashes(error, command),
    ];
    let meant: Vec<String> = meant.into_iter().flatten().collect();
    (!meant.is_empty()).then(|| meant.join("; "))
}

/// Where a command goes after `--` and was written without.
fn forgotten_dashes(error: &clap::Error, command: &clap::Command) -> Option<String> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let takes_one = command.get_positionals().any(clap::Arg::is_last_set);
    let plain = error.kind() == ErrorKind::UnknownArgument && !word.starts_with('-');
    let takes_image = command
        .get_opts()
        .any(|flag| flag.get_long() == Some("image"));
    (takes_one && plain).then(|| {
        let image = if takes_image {
            format!("; an image is `--image {word}`")
        } else {
            String::new()
        };
        format!("the command goes after `--`, as in `-- {word}`{image}")
    })
}

/// Where something in a sandbox is one word, SANDBOX/ID, and was written as two.
fn two_words_for_one(
    error: &clap::Error,
    words: &[OsString],
    command: &clap::Command,
    path: &str,
) -> Option<String> {
    const IN_SANDBOXES: &[&str] = &[
        "PORT", "PROCESS", "SESSION", "TERMINAL", "CONTEXT", "BACKUP",
    ];
    let Some(ContextValue::String(id)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let first = command
        .get_positionals()
        .next()?
        .get_value_names()?
        .first()?;
    let at = words.iter().position(|word| word == id.as_str())?;
    let sandbox = words.get(at.checked_sub(1)?)?.to_str()?;
    let plain = error.kind() == ErrorKind::UnknownArgument && !sandbox.starts_with('-');
    (plain && IN_SANDBOXES.contains(&first.as_str()))
        .then(|| format!("`{path} {sandbox}/{id}` names it in one word, SANDBOX/{first}"))
}
