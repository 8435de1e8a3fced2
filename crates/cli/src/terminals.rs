//! `sandshell shell` and `sandshell terminal`: programs on a terminal of a sandbox.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use sandshell_client::types::{
    ProcessRequest, TerminalId, TerminalRecord, TerminalRequest, TerminalRole, TerminalState,
};

use crate::arguments::examples;
use crate::connection::{Done, Hub, Remote, Sandbox, every, one_of};
use crate::exec::{self, StartArguments, TerminalChoice};
use crate::failure::Failure;
use crate::names::Thing;
use crate::output::ago;
use crate::relay::{self, Manner, Relay};
use crate::sandboxes::OneArguments;
use crate::terminal_screen::{self, Desk};

#[derive(Debug, Args)]
pub(crate) struct ShellArguments {
    /// The sandbox: its id or the beginning of it [default: the one that is set, or the only one].
    #[arg(value_name = "SANDBOX")]
    sandbox: Option<String>,

    #[command(flatten)]
    start: StartArguments,

    #[command(flatten)]
    terminal: TerminalChoice,

    /// A program to run instead of a login shell.
    #[arg(last = true, value_name = "CMD")]
    argv: Vec<String>,
}

/// The shell that runs this, again as at a login: it reads our stdin to its end.
const LOGIN_SHELL: &str = "exec \"$0\" -l";

/// On a terminal; without one, as ssh, a shell that reads what is piped in and ends with it.
pub(crate) fn shell(remote: Remote, own: ShellArguments) -> Done {
    remote.drive(async |hub| {
        let stayed = async {
            let env = own.start.environment()?;
            let argv = (!own.argv.is_empty()).then_some(own.argv);
            if own.terminal.wants_one(false) {
                let sandbox = hub.sandbox(own.sandbox.as_deref()).await?;
                let request = TerminalRequest {
                    argv,
                    cwd: own.start.workdir,
                    env,
                    user: own.start.user,
                    ..TerminalRequest::default()
                };
                return Desk::of(hub, &sandbox)?.run(request).await;
            }
            let stdin = relay::has_stdin();
            let request = ProcessRequest {
                command: argv.is_none().then(|| LOGIN_SHELL.to_owned()),
                argv,
                cwd: own.start.workdir,
                env,
                stdin_open: stdin,
                user: own.start.user,
                ..ProcessRequest::default()
            };
            let (sandbox, record) = exec::start(hub, own.sandbox.as_deref(), &request).await?;
            let relay = Relay::of(hub, &sandbox, &record.id);
            relay.until_exit(None, Manner { stdin, own: true }).await
        };
        let done = stayed.await;
        done.map(ExitCode::from).map_err(Failure::beside_a_command)
    })
}

#[derive(Debug, Args)]
pub(crate) struct TerminalArguments {
    #[command(subcommand)]
    command: TerminalCommand,
}

#[derive(Debug, Subcommand)]
enum TerminalCommand {
    /// Start a program on a terminal, and print the terminal's id.
    #[command(before_help = examples!("terminal create build-1 --name edit -- vim notes.txt", "terminal create"))]
    Create(CreateTerminal),
    /// List terminals.
    #[command(before_help = examples!("terminal ls", "terminal ls build-1 -q"))]
    Ls(OneArguments),
    /// Go to a terminal; ctrl-p ctrl-q leaves it.
    #[command(before_help = examples!("terminal attach build-1/edit", "terminal attach edit --view"))]
    Attach {
        #[command(flatten)]
        one: OneTerminal,
        /// Look only: keys and size are not passed on.
        #[arg(long)]
        view: bool,
    },
    /// Print what is on the screen of a terminal.
    #[command(before_help = examples!("terminal screen build-1/edit", "terminal screen edit --scrollback 100"))]
    Screen {
        #[command(flatten)]
        one: OneTerminal,
        /// Also the last lines that scrolled away.
        #[arg(long, value_name = "LINES")]
        scrollback: Option<u32>,
    },
    /// Print the recording of a terminal, an asciicast.
    #[command(before_help = examples!("terminal recording build-1/edit > edit.cast", "terminal recording edit | asciinema play -"))]
    Recording {
        #[command(flatten)]
        one: OneTerminal,
    },
    /// Change the size of a terminal.
    #[command(before_help = examples!("terminal resize build-1/edit 120 40", "terminal resize edit 80 24"))]
    Resize {
        #[command(flatten)]
        one: OneTerminal,
        /// Columns.
        #[arg(value_name = "COLS")]
        cols: u16,
        /// Rows.
        #[arg(value_name = "ROWS")]
        rows: u16,
    },
    /// End terminals with all that runs on them.
    #[command(before_help = examples!("terminal rm build-1/edit", "terminal rm edit logs"))]
    Rm {
        /// The terminals: their ids or the beginnings, in a sandbox as SANDBOX/ID.
        #[arg(value_name = "TERMINAL", required = true)]
        terminals: Vec<Thing>,
    },
}

#[derive(Debug, Args)]
struct CreateTerminal {
    /// The sandbox: its id or the beginning of it [default: the one that is set, or the only one].
    #[arg(value_name = "SANDBOX")]
    sandbox: Option<String>,

    /// Id of your choice.
    #[arg(long, value_name = "ID")]
    name: Option<TerminalId>,

    #[command(flatten)]
    start: StartArguments,

    /// Columns and rows, such as 80x24 [default: those of this terminal].
    #[arg(long, value_name = "SIZE", value_parser = size)]
    size: Option<(u16, u16)>,

    /// A program to run instead of a login shell.
    #[arg(last = true, value_name = "CMD")]
    argv: Vec<String>,
}

fn size(text: &str) -> Result<(u16, u16), String> {
    text.split_once('x')
        .and_then(|(cols, rows)| Some((cols.parse().ok()?, rows.parse().ok()?)))
        .ok_or_else(|| "expected COLUMNSxROWS, such as 80x24".to_owned())
}

#[derive(Debug, Args)]
struct OneTerminal {
    /// The terminal: its id or the beginning of it, in a sandbox as SANDBOX/ID.
    #[arg(value_name = "TERMINAL")]
    terminal: Thing,
}

async fn terminal(hub: &Hub, thing: &Thing) -> Result<(Sandbox, TerminalRecord), Failure> {
    one_of(
        hub,
        thing,
        "terminal",
        async |client, id: TerminalId| client.terminal(&id).await,
        async |client, page| client.list_terminals(&page).await,
        |record| record.id.into(),
    )
    .await
}

pub(crate) fn run(remote: Remote, own: TerminalArguments) -> Done {
    remote.drive(async |hub| {
        match own.command {
            TerminalCommand::Create(create) => create_one(hub, create).await?,
            TerminalCommand::Ls(one) => list(hub, one.sandbox.as_deref()).await?,
            TerminalCommand::Attach { one, view } => {
                let attached = async {
                    let (sandbox, record) = terminal(hub, &one.terminal).await?;
                    let role = if view {
                        TerminalRole::Viewer
                    } else {
                        TerminalRole::Writer
                    };
                    Desk::of(hub, &sandbox)?.attach(&record.id, role).await
                };
                let done = attached.await;
                return done.map(ExitCode::from).map_err(Failure::beside_a_command);
            }
            TerminalCommand::Screen { one, scrollback } => {
                let (sandbox, record) = terminal(hub, &one.terminal).await?;
                let screen = match scrollback {
                    Some(lines) => {
                        sandbox
                            .client
                            .terminal_scrollback(&record.id, lines)
                            .await?
                    }
                    None => sandbox.client.terminal_screen(&record.id).await?,
                };
                if hub.out.json {
                    hub.out.object(&screen)?;
                } else {
                    let before = screen.scrollback.as_deref().filter(|text| !text.is_empty());
                    if let Some(before) = before {
                        hub.out.line(before.trim_end_matches('\n'))?;
                    }
                    hub.out.line(screen.text.trim_end_matches('\n'))?;
                }
            }
            TerminalCommand::Recording { one } => {
                let (sandbox, record) = terminal(hub, &one.terminal).await?;
                let mut bytes = sandbox.client.terminal_recording(&record.id).await?;
                while let Some(piece) = bytes.next().await {
                    hub.out.bytes(&piece?)?;
                }
            }
            TerminalCommand::Resize { one, cols, rows } => {
                let (sandbox, record) = terminal(hub, &one.terminal).await?;
                let record = sandbox
                    .client
                    .resize_terminal(&record.id, cols, rows)
                    .await?;
                hub.out.made(&record, record.id.as_str())?;
            }
            TerminalCommand::Rm { terminals } => {
                for thing in &terminals {
                    let (sandbox, record) = terminal(hub, thing).await?;
                    let reply = sandbox.client.delete_terminal(&record.id).await?;
                    hub.out.made(&reply, record.id.as_str())?;
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

async fn create_one(hub: &Hub, own: CreateTerminal) -> Result<(), Failure> {
    let env = own.start.environment()?;
    let sandbox = hub.sandbox(own.sandbox.as_deref()).await?;
    let plain = TerminalRequest::default();
    let (cols, rows) = own
        .size
        .or_else(terminal_screen::our_size)
        .unwrap_or((plain.cols, plain.rows));
    let request = TerminalRequest {
        id: own.name,
        argv: (!own.argv.is_empty()).then_some(own.argv),
        cwd: own.start.workdir,
        env,
        user: own.start.user,
        cols,
        rows,
        ..plain
    };
    let record = sandbox.client.create_terminal(&request).await?;
    hub.out.made(&record, record.id.as_str())
}

async fn list(hub: &Hub, sandbox: Option<&str>) -> Result<(), Failure> {
    let sandbox = hub.sandbox(sandbox).await?;
    let list = every(async |page| sandbox.client.list_terminals(&page).await).await?;
    let paint = hub.out.paint;
    hub.out.list(
        &list,
        &list.items,
        |record| record.id.to_string(),
        &["ID", "STATE", "SIZE", "VIEWERS", "STARTED", "COMMAND"],
        |record| {
            let state = match record.state {
                TerminalState::Running => "running",
                TerminalState::Exited => "exited",
            };
            let argv = record.argv.as_ref().map(|argv| argv.join(" "));
            let command = record.command.clone().or(argv);
            vec![
                record.id.to_string(),
                paint.state(state),
                format!("{}x{}", record.cols, record.rows),
                record.viewers.to_string(),
                ago(record.started_at),
                command.unwrap_or_else(|| "login shell".to_owned()),
            ]
        },
    )
}
