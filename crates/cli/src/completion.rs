//! `sandshell completion SHELL`, and what its script asks when a person presses tab: commands and flags from
//! the command line itself, ids from the hub.
//!
//! ```text
//! tab ──► script ──► SANDSHELL_COMPLETE=SHELL sandshell -- WORDS ──► words that may follow
//! ```
//!
//! A shell waits for the answer, so a hub that does not give one soon is done without, and no failure is
//! ever told.

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, Args, CommandFactory as _};
use clap_complete::Shell;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};
use sandshell_client::types::{FileKind, List};
use sandshell_client::{
    Client, ClientError, FileQuery, ListOptions, Page, ProcessFilter, SandboxFilter,
};

use crate::arguments::Arguments;
use crate::config::Settings;
use crate::connection::{PAGE, Remote};
use crate::failure::Failure;
use crate::print;

/// What a script sets when it asks.
const VARIABLE: &str = "SANDSHELL_COMPLETE";

/// How long a person waits for a tab.
const PATIENCE: Duration = Duration::from_millis(500);

#[derive(Debug, Args)]
pub(crate) struct CompletionArguments {
    /// The shell.
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

pub(crate) fn run(own: &CompletionArguments) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    if let Some(shell) = Shells::builtins().completer(&own.shell.to_string()) {
        let name = "sandshell";
        shell
            .write_registration(VARIABLE, name, name, name, &mut script)
            .map_err(|error| Failure::ours(&error))?;
    }
    let mut script = String::from_utf8_lossy(&script).trim().to_owned();
    if own.shell == Shell::Zsh {
        // Loaded by its name from a directory, it is called at once.
        script.push_str(
            "\nif [ \"$funcstack[1]\" = _sandshell ]; then _clap_dynamic_completer_sandshell \"$@\"; fi",
        );
    }
    print(&script)
}

/// Answers a script, if one asks.
pub(crate) fn asked() -> Option<ExitCode> {
    std::env::var_os(VARIABLE).filter(|shell| !shell.is_empty())?;
    let answered = CompleteEnv::with_factory(command)
        .var(VARIABLE)
        .bin("sandshell")
        .completer("sandshell")
        .try_complete(std::env::args_os(), std::env::current_dir().ok().as_deref());
    Some(match answered {
        Ok(_) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    })
}

/// The command line, with what the hub knows for each argument that names something of it.
fn command() -> clap::Command {
    fn known(command: clap::Command) -> clap::Command {
        command.mut_args(with_candidates).mut_subcommands(known)
    }
    known(Arguments::command())
}

fn with_candidates(arg: Arg) -> Arg {
    let name = arg.get_value_names().and_then(<[_]>::first);
    let Some(kind) = name.and_then(|name| Kind::named(name)) else {
        return arg;
    };
    arg.add(ArgValueCompleter::new(move |current: &OsStr| {
        candidates(kind, current)
    }))
}

/// What an argument names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Sandbox,
    Process,
    Session,
    Terminal,
    Context,
    Backup,
    Port,
    Image,
    Token,
    /// A path in a sandbox, and one here if that may be meant, too.
    Path {
        here: bool,
    },
}

impl Kind {
    fn named(value: &str) -> Option<Self> {
        Some(match value {
            "SANDBOX" => Self::Sandbox,
            "PROCESS" => Self::Process,
            "SESSION" => Self::Session,
            "TERMINAL" => Self::Terminal,
            "CONTEXT" => Self::Context,
            "BACKUP" => Self::Backup,
            "PORT" => Self::Port,
            "IMAGE" => Self::Image,
            "TOKEN" => Self::Token,
            "PLACE" => Self::Path { here: false },
            "FROM" | "TO" => Self::Path { here: true },
            _ => return None,
        })
    }
}

fn candidates(kind: Kind, current: &OsStr) -> Vec<CompletionCandidate> {
    let mut found = Vec::new();
    if let Some(text) = current.to_str() {
        found = asking(kind, text).unwrap_or_default();
        found.retain(|word| word.starts_with(text));
    }
    let mut words: Vec<CompletionCandidate> =
        found.into_iter().map(CompletionCandidate::new).collect();
    if kind == (Kind::Path { here: true }) {
        use clap_complete::engine::{PathCompleter, ValueCompleter as _};
        words.extend(PathCompleter::any().complete(current));
    }
    words
}

/// Asks the hub that the line names, for as long as a person waits.
fn asking(kind: Kind, current: &str) -> Option<Vec<String>> {
    let settings = Settings::read(&remote(std::env::args_os())).ok()?;
    let token = settings.read_token().ok()?;
    let client = Client::new(&settings.url.value, token.as_deref()).ok()?;
    let set = settings.sandbox.map(|set| set.value);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .ok()?;
    let asked = async {
        let words = words(&client, kind, current, set);
        tokio::time::timeout(PATIENCE, words).await
    };
    let answer = runtime.block_on(asked);
    // A name that is still looked up holds nobody.
    runtime.shutdown_background();
    answer.ok()?.ok()
}

/// The flags of the line that say which hub.
fn remote(words: impl Iterator<Item = OsString>) -> Remote {
    let mut remote = Remote::default();
    let mut words = words
        .skip_while(|word| word != "--")
        .filter_map(|word| word.into_string().ok());
    while let Some(word) = words.next() {
        let (flag, value) = match word.split_once('=') {
            Some((flag, value)) => (flag.to_owned(), Some(value.to_owned())),
            None => (word, None),
        };
        let mut value = || value.clone().or_else(|| words.next());
        match flag.as_str() {
            "--hub" => remote.hub = value(),
            "--url" => remote.url = value(),
            "--token-file" => remote.token_file = value().map(Into::into),
            _ => {}
        }
    }
    remote
}

const ALL: Page = Page {
    limit: Some(PAGE),
    cursor: None,
};

async fn words(
    client: &Client,
    kind: Kind,
    current: &str,
    set: Option<String>,
) -> Result<Vec<String>, ClientError> {
    let ids = async || -> Result<Vec<String>, ClientError> {
        let filter = SandboxFilter {
            page: ALL,
            ..SandboxFilter::default()
        };
        let list = client.sandboxes(&filter).await?;
        Ok(list.items.into_iter().map(|one| one.id.into()).collect())
    };
    match kind {
        Kind::Sandbox => return ids().await,
        Kind::Image => {
            return client
                .images(&ALL)
                .await
                .map(|all| named(all, |one| one.name.into()));
        }
        Kind::Token => {
            return client
                .tokens(&ALL)
                .await
                .map(|all| named(all, |one| one.id));
        }
        _ => {}
    }
    let mark = if matches!(kind, Kind::Path { .. }) {
        ':'
    } else {
        '/'
    };
    if let Some((sandbox, rest)) = current.split_once(mark) {
        let inside = inside(client, kind, sandbox, rest).await?;
        return Ok(prefixed(sandbox, mark, inside));
    }
    let ids = ids().await?;
    let meant = set.or_else(|| match ids.as_slice() {
        [one] => Some(one.clone()),
        _ => None,
    });
    let mut words = match meant {
        Some(sandbox) => inside(client, kind, &sandbox, current).await?,
        None => Vec::new(),
    };
    words.extend(ids.into_iter().map(|id| format!("{id}{mark}")));
    Ok(words)
}

fn prefixed(sandbox: &str, mark: char, words: Vec<String>) -> Vec<String> {
    let whole = |word| format!("{sandbox}{mark}{word}");
    words.into_iter().map(whole).collect()
}

fn named<T>(list: List<T>, name: impl Fn(T) -> String) -> Vec<String> {
    list.items.into_iter().map(name).collect()
}

/// What is in a sandbox.
async fn inside(
    client: &Client,
    kind: Kind,
    sandbox: &str,
    current: &str,
) -> Result<Vec<String>, ClientError> {
    let Ok(id) = sandbox.parse() else {
        return Ok(Vec::new());
    };
    let client = client.sandbox(&id);
    Ok(match kind {
        Kind::Process => {
            let filter = ProcessFilter {
                page: ALL,
                ..ProcessFilter::default()
            };
            named(client.list_processes(&filter).await?, |one| one.id.into())
        }
        Kind::Session => named(client.list_sessions(&ALL).await?, |one| one.id.into()),
        Kind::Terminal => named(client.list_terminals(&ALL).await?, |one| one.id.into()),
        Kind::Context => named(client.list_contexts(&ALL).await?, |one| one.id.into()),
        Kind::Backup => named(client.list_backups(&ALL).await?, |one| one.id.into()),
        Kind::Port => named(client.list_ports(&ALL).await?, |one| one.port.to_string()),
        Kind::Path { .. } => {
            let end = current.rfind('/').map_or(0, |at| at + 1);
            let above = current.get(..end).unwrap_or_default();
            let place = if above.is_empty() { "." } else { above };
            let query = FileQuery::new(place);
            let list = client
                .list_files(&query, ListOptions::default(), &ALL)
                .await?;
            named(list, |entry| {
                let end = if entry.kind == FileKind::Directory {
                    "/"
                } else {
                    ""
                };
                format!("{above}{}{end}", entry.name)
            })
        }
        Kind::Sandbox | Kind::Image | Kind::Token => Vec::new(),
    })
}
