//! `sandshell config` and `sandshell login`: the configuration shown and changed.
//!
//! Tokens are named by where they are, never shown.

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use sandshell_client::{Client, SandboxFilter};
use serde_json::{Value, json};

use crate::arguments::examples;
use crate::config::edit::{Editing, Key, keep_token};
use crate::config::{self, DEFAULT_URL, Settings, TokenPlace};
use crate::connection::{Done, Remote};
use crate::failure::Failure;
use crate::output::{Output, table};
use crate::{names, print};

const SCHEMA: &str = include_str!("../../../schema/config.schema.json");

#[derive(Debug, Args)]
pub(crate) struct ConfigArguments {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Show what is set.
    #[command(before_help = examples!("config show", "config show --origin"))]
    Show {
        /// Also where each value comes from.
        #[arg(long)]
        origin: bool,
    },
    /// Print the paths of the files, most important first.
    #[command(before_help = examples!("config path", "config path | head -n 1"))]
    Path,
    /// Set a value in your own file.
    #[command(before_help = examples!("config set sandbox build-1", "config set hubs.work.url http://hub.example.org:4020"))]
    Set {
        /// The key: hub, sandbox, color, `detach_keys`, hubs.NAME.url or `hubs.NAME.token_file`.
        #[arg(value_name = "KEY")]
        key: String,
        /// The value.
        #[arg(value_name = "VALUE")]
        value: String,
    },
    /// Take a value out of your own file.
    #[command(before_help = examples!("config unset sandbox", "config unset hubs.work.token_file"))]
    Unset {
        /// The key.
        #[arg(value_name = "KEY")]
        key: String,
    },
    /// Choose the hub that is used from now on.
    #[command(before_help = examples!("config use work", "config use local"))]
    Use {
        /// Its name in your configuration.
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Print the JSON Schema of the files.
    #[command(before_help = examples!("config schema", "config schema > config.schema.json"))]
    Schema,
}

pub(crate) fn run(remote: &Remote, own: ConfigArguments) -> Done {
    let json = remote.json;
    let done = match own.command {
        ConfigCommand::Show { origin } => show(remote, origin),
        ConfigCommand::Path => path(),
        ConfigCommand::Set { key, value } => set(&key, &value),
        ConfigCommand::Unset { key } => unset(&key),
        ConfigCommand::Use { name } => choose(remote, &name),
        ConfigCommand::Schema => print(SCHEMA.trim_end()),
    };
    done.map_err(|failure| failure.in_json(json))
}

fn show(remote: &Remote, origin: bool) -> Done {
    let settings = Settings::read(remote)?;
    let out = remote.output(&settings);
    let rows = rows(&settings);
    if out.json {
        let object: serde_json::Map<String, Value> = rows
            .into_iter()
            .map(|(key, value, from)| (key, json!({"value": value, "origin": from})))
            .collect();
        out.object(&object)?;
        return Ok(ExitCode::SUCCESS);
    }
    let cells: Vec<Vec<String>> = rows
        .into_iter()
        .map(|(key, value, from)| {
            if origin {
                vec![key, value, from]
            } else {
                vec![key, value]
            }
        })
        .collect();
    let header: &[&str] = if origin {
        &["KEY", "VALUE", "ORIGIN"]
    } else {
        &["KEY", "VALUE"]
    };
    out.bytes(table(header, &cells).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Key, value and origin of everything that is set.
fn rows(settings: &Settings) -> Vec<(String, String, String)> {
    let mut rows = Vec::new();
    let mut row = |key: &str, value: String, origin: &config::Origin| {
        rows.push((key.to_owned(), value, origin.to_string()));
    };
    if let Some(hub) = &settings.hub {
        row("hub", hub.value.clone(), &hub.origin);
    }
    row("url", settings.url.value.clone(), &settings.url.origin);
    if let Some(token) = &settings.token {
        let shown = match &token.value {
            TokenPlace::Given(_) => "(given, not shown)".to_owned(),
            TokenPlace::File(path) if path.exists() => format!("(in {})", path.display()),
            TokenPlace::File(path) => format!("(none: no {})", path.display()),
        };
        row("token", shown, &token.origin);
    }
    if let Some(sandbox) = &settings.sandbox {
        row("sandbox", sandbox.value.clone(), &sandbox.origin);
    }
    let color = format!("{:?}", settings.color.value).to_lowercase();
    row("color", color, &settings.color.origin);
    let keys = &settings.detach_keys;
    row("detach_keys", keys.value.clone(), &keys.origin);
    let file = config::Origin::User(
        config::user_file_path(|name| std::env::var(name).ok()).unwrap_or_default(),
    );
    for (name, hub) in &settings.user_file.hubs {
        for (key, value) in [("url", &hub.url), ("token_file", &hub.token_file)] {
            if let Some(value) = value {
                row(&format!("hubs.{name}.{key}"), value.clone(), &file);
            }
        }
    }
    rows
}

fn path() -> Done {
    let project = std::env::current_dir()
        .unwrap_or_default()
        .join(config::PROJECT_FILE);
    let user = config::user_file_path(|name| std::env::var(name).ok());
    let paths: Vec<String> = std::iter::once(project)
        .chain(user)
        .map(|path| path.display().to_string())
        .collect();
    print(&paths.join("\n"))
}

fn set(key: &str, value: &str) -> Done {
    let key = Key::parse(key)?;
    let checked: Result<(), String> = match &key {
        Key::Top(word) if word == "color" => match value {
            "auto" | "always" | "never" => Ok(()),
            _ => Err("color is auto, always or never".to_owned()),
        },
        Key::Top(word) if word == "detach_keys" => value.parse::<crate::detach::Keys>().map(drop),
        Key::Hub(_, word) if word == "url" => Client::new(value, None)
            .map(drop)
            .map_err(|error| error.to_string()),
        _ if value.is_empty() => Err("there is no value".to_owned()),
        _ => Ok(()),
    };
    checked.map_err(|reason| {
        Failure::usage(reason).hint("`sandshell config unset KEY` takes a value away")
    })?;
    let mut editing = Editing::open()?;
    editing.set(&key, value);
    editing.save()?;
    Ok(ExitCode::SUCCESS)
}

fn unset(key: &str) -> Done {
    let parsed = Key::parse(key)?;
    let mut editing = Editing::open()?;
    if !editing.unset(&parsed) {
        return Err(
            Failure::failed(format!("{key:?} is not set in your own file"))
                .hint("`sandshell config show --origin` tells where it comes from"),
        );
    }
    editing.save()?;
    Ok(ExitCode::SUCCESS)
}

fn choose(remote: &Remote, name: &str) -> Done {
    let settings = Settings::read(&Remote {
        url: Some(DEFAULT_URL.to_owned()),
        ..remote.clone()
    })?;
    let hubs = &settings.user_file.hubs;
    if !hubs.contains_key(name) {
        let hint = names::nearest(name, hubs.keys().map(String::as_str)).map_or_else(
            || format!("`sandshell login --name {name} --url URL` makes it known"),
            |meant| format!("did you mean {meant:?}?"),
        );
        return Err(
            Failure::failed(format!("there is no hub {name:?} in your configuration")).hint(hint),
        );
    }
    let mut editing = Editing::open()?;
    editing.set(&Key::Top("hub".to_owned()), name);
    editing.save()?;
    Ok(ExitCode::SUCCESS)
}

#[derive(Debug, Args)]
pub(crate) struct LoginArguments {
    /// Name for the hub in your configuration [default: the one in use, else local].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Keep the token without asking the hub whether it is valid.
    #[arg(long)]
    no_check: bool,
}

pub(crate) fn login(remote: &Remote, own: LoginArguments) -> Done {
    let json = remote.json;
    logged_in(remote, own).map_err(|failure| failure.in_json(json))
}

fn logged_in(remote: &Remote, own: LoginArguments) -> Done {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if let Some(name) = &own.name
        && (name.is_empty() || !name.chars().all(plain))
    {
        return Err(Failure::usage(format!("{name:?} is no name for a hub"))
            .hint("names are made of letters, digits, - and _"));
    }
    let known = match &own.name {
        // One that is known keeps its address; another gets the one that is in use, and its name.
        Some(name) if remote.url.is_none() && remote.hub.is_none() => {
            let used = Settings::read(remote)?;
            if used.user_file.hubs.contains_key(name) {
                Settings::read(&Remote {
                    hub: Some(name.clone()),
                    ..remote.clone()
                })?
            } else {
                used
            }
        }
        _ => Settings::read(remote)?,
    };
    if known.url.origin == config::Origin::Project {
        let url = known.url.value;
        return Err(Failure::usage(format!(
            "{url} comes from ./{}; a token is not sent there on its word",
            config::PROJECT_FILE
        ))
        .hint(format!(
            "if you trust it, name it yourself: `sandshell login --url {url}`"
        )));
    }
    let out = remote.output(&known);
    let name = own
        .name
        .or_else(|| known.hub.map(|hub| hub.value))
        .unwrap_or_else(|| "local".to_owned());
    let url = known.url.value;
    let token = read_token(out)?;
    if !own.no_check {
        check(&url, &token)?;
    }
    let file = keep_token(&name, &token)?;
    let mut editing = Editing::open()?;
    editing.set(&Key::Hub(name.clone(), "url".to_owned()), &url);
    let text = file.display().to_string();
    editing.set(&Key::Hub(name.clone(), "token_file".to_owned()), &text);
    editing.set(&Key::Top("hub".to_owned()), &name);
    let path = editing.save()?;
    out.remark(&format!(
        "the token for {url} is kept in {text}; {} uses it as {name:?}",
        path.display()
    ));
    Ok(ExitCode::SUCCESS)
}

/// The token from stdin; a person types it unseen.
fn read_token(out: Output) -> Result<String, Failure> {
    let stdin = std::io::stdin();
    let failed = |error: &dyn std::error::Error| Failure::local("the token cannot be read", error);
    let mut text = String::new();
    if stdin.is_terminal() {
        out.remark("token (not shown):");
        let before = tcgetattr(&stdin).map_err(|error| failed(&error))?;
        let mut unseen = before.clone();
        unseen.local_modes.remove(LocalModes::ECHO);
        tcsetattr(&stdin, OptionalActions::Drain, &unseen).map_err(|error| failed(&error))?;
        let read = stdin.read_line(&mut text);
        let _ = tcsetattr(&stdin, OptionalActions::Drain, &before);
        let _ = writeln!(std::io::stderr());
        read.map_err(|error| failed(&error))?;
    } else {
        stdin
            .lock()
            .take(64 * 1024)
            .read_to_string(&mut text)
            .map_err(|error| failed(&error))?;
    }
    let token = text.trim();
    if token.is_empty() || token.contains(char::is_whitespace) {
        return Err(Failure::usage("there is no token on stdin")
            .hint("`sandshell login < FILE`, or type it when asked; a token is one word"));
    }
    Ok(token.to_owned())
}

/// Whether the hub takes the token.
fn check(url: &str, token: &str) -> Result<(), Failure> {
    let client = Client::new(url, Some(token))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::ours(&error))?;
    let mut filter = SandboxFilter::default();
    filter.page.limit = Some(1);
    let asked = runtime.block_on(client.sandboxes(&filter));
    asked.map(drop).map_err(|error| {
        let failure = Failure::from(error);
        match failure.kind() {
            Some(_) => failure.hint("the hub does not take this token; nothing was kept"),
            None => failure,
        }
    })
}
