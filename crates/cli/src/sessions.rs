//! `sandshell session`: shells that keep their state between commands.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use sandshell_client::OutputStreamEvent;
use sandshell_client::types::{
    CommandState, Encoded, Encoding, ForkRequest, SessionExecRequest, SessionId, SessionRecord,
    SessionRequest, SessionState,
};
use tokio::signal::unix::{SignalKind, signal};

use crate::arguments::examples;
use crate::connection::{Done, Hub, Remote, Sandbox, every, one_of};
use crate::exec::StartArguments;
use crate::failure::Failure;
use crate::names::Thing;
use crate::output::ago;
use crate::relay::{self, Screen, Shown};
use crate::sandboxes::OneArguments;
use crate::values;

#[derive(Debug, Args)]
pub(crate) struct SessionArguments {
    #[command(subcommand)]
    command: SessionCommand,
}

#[derive(Debug, Subcommand)]
enum SessionCommand {
    /// Make a session, and print its id.
    #[command(before_help = examples!("session create build-1 --name work", "session create -w /tmp -e DEBUG=1"))]
    Create(CreateSession),
    /// List sessions.
    #[command(before_help = examples!("session ls", "session ls build-1 --json"))]
    Ls(OneArguments),
    /// Show one session.
    #[command(before_help = examples!("session get build-1/work", "session get work --json"))]
    Get(OneSession),
    /// Run a command in a session; what it changes stays for the next one.
    #[command(before_help = examples!("session exec build-1/work -c 'cd /tmp && export A=1'", "session exec work -- make test"))]
    Exec(ExecInSession),
    /// List the commands of a session.
    #[command(before_help = examples!("session history build-1/work", "session history work --json"))]
    History(OneSession),
    /// Make a new session from the state of one.
    #[command(before_help = examples!("session fork build-1/work --name copy", "session fork work"))]
    Fork {
        #[command(flatten)]
        one: OneSession,
        /// Id of your choice for the new one.
        #[arg(long, value_name = "ID")]
        name: Option<SessionId>,
    },
    /// Interrupt the command that runs; the session and its state stay.
    #[command(before_help = examples!("session interrupt build-1/work", "session interrupt work --json"))]
    Interrupt(OneSession),
    /// End sessions and all that runs in them.
    #[command(before_help = examples!("session rm build-1/work", "session rm work copy"))]
    Rm {
        /// The sessions: their ids or the beginnings, in a sandbox as SANDBOX/ID.
        #[arg(value_name = "SESSION", required = true)]
        sessions: Vec<Thing>,
    },
}

#[derive(Debug, Args)]
struct CreateSession {
    /// The sandbox: its id or the beginning of it [default: the one that is set, or the only one].
    #[arg(value_name = "SANDBOX")]
    sandbox: Option<String>,

    /// Id of your choice.
    #[arg(long, value_name = "ID")]
    name: Option<SessionId>,

    #[command(flatten)]
    start: StartArguments,

    /// The shell [default: bash, else sh].
    #[arg(long, value_name = "SHELL")]
    shell: Option<String>,

    /// Time after which each command is ended, such as 30s [default: never].
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    timeout: Option<u64>,

    /// Time without a command after which it is ended [default: never].
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    idle: Option<u64>,
}

#[derive(Debug, Args)]
struct OneSession {
    /// The session: its id or the beginning of it, in a sandbox as SANDBOX/ID.
    #[arg(value_name = "SESSION")]
    session: Thing,
}

#[derive(Debug, Args)]
struct ExecInSession {
    #[command(flatten)]
    one: OneSession,

    /// Text for the shell, instead of CMD.
    #[arg(
        short = 'c',
        long = "command",
        value_name = "TEXT",
        conflicts_with = "argv"
    )]
    text: Option<String>,

    /// Variable for this command only, KEY=VALUE, or KEY for its value here; may be given again.
    #[arg(long = "env", short, value_name = "VARIABLE", value_parser = values::variable)]
    env: Vec<(String, Option<String>)>,

    /// Directory for this command only.
    #[arg(long, short, value_name = "DIR")]
    workdir: Option<String>,

    /// Time after which it is ended, such as 30s; the exit code is 124 then.
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    timeout: Option<u64>,

    /// Read our stdin to its end and give it to the command.
    #[arg(long, short)]
    interactive: bool,

    /// A program and its arguments, passed on unchanged.
    #[arg(last = true, value_name = "CMD")]
    argv: Vec<String>,
}

async fn session(hub: &Hub, thing: &Thing) -> Result<(Sandbox, SessionRecord), Failure> {
    one_of(
        hub,
        thing,
        "session",
        async |client, id: SessionId| client.session(&id).await,
        async |client, page| client.list_sessions(&page).await,
        |record| record.id.into(),
    )
    .await
}

pub(crate) fn run(remote: Remote, own: SessionArguments) -> Done {
    remote.drive(async |hub| {
        match own.command {
            SessionCommand::Create(create) => create_one(hub, create).await?,
            SessionCommand::Ls(one) => list(hub, one.sandbox.as_deref()).await?,
            SessionCommand::Get(one) => {
                let (_, record) = session(hub, &one.session).await?;
                show(hub, &record)?;
            }
            SessionCommand::Exec(exec) => {
                let done = exec_in(hub, exec).await;
                return done.map(ExitCode::from).map_err(Failure::beside_a_command);
            }
            SessionCommand::History(one) => history(hub, &one.session).await?,
            SessionCommand::Fork { one, name } => {
                let (sandbox, record) = session(hub, &one.session).await?;
                let request = ForkRequest { id: name };
                let made = sandbox.client.fork_session(&record.id, &request).await?;
                hub.out.made(&made, made.id.as_str())?;
            }
            SessionCommand::Interrupt(one) => {
                let (sandbox, record) = session(hub, &one.session).await?;
                let reply = sandbox.client.interrupt_session(&record.id).await?;
                let text = match &reply.command_id {
                    Some(command) => format!("{command} interrupted by {}", reply.method),
                    None => "no command ran".to_owned(),
                };
                hub.out.did(&reply, &text)?;
            }
            SessionCommand::Rm { sessions } => {
                for thing in &sessions {
                    let (sandbox, record) = session(hub, thing).await?;
                    let reply = sandbox.client.delete_session(&record.id).await?;
                    hub.out.made(&reply, record.id.as_str())?;
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

async fn create_one(hub: &Hub, own: CreateSession) -> Result<(), Failure> {
    let env = own.start.environment()?;
    let sandbox = hub.sandbox(own.sandbox.as_deref()).await?;
    let request = SessionRequest {
        id: own.name,
        cwd: own.start.workdir,
        env,
        shell: own.shell,
        user: own.start.user,
        timeout_ms: own.timeout,
        idle_timeout_ms: own.idle,
        ..SessionRequest::default()
    };
    let record = sandbox.client.create_session(&request).await?;
    hub.out.made(&record, record.id.as_str())
}

fn state(record: &SessionRecord) -> &'static str {
    match record.state {
        SessionState::Idle => "idle",
        SessionState::Busy => "busy",
        SessionState::Restoring => "restoring",
        SessionState::Ended => "ended",
    }
}

async fn list(hub: &Hub, sandbox: Option<&str>) -> Result<(), Failure> {
    let sandbox = hub.sandbox(sandbox).await?;
    let list = every(async |page| sandbox.client.list_sessions(&page).await).await?;
    let paint = hub.out.paint;
    hub.out.list(
        &list,
        &list.items,
        |record| record.id.to_string(),
        &["ID", "STATE", "SHELL", "QUEUE", "CREATED", "CWD"],
        |record| {
            vec![
                record.id.to_string(),
                paint.state(state(record)),
                record.shell.clone(),
                record.queue_length.to_string(),
                ago(record.created_at),
                record.cwd.clone(),
            ]
        },
    )
}

fn show(hub: &Hub, record: &SessionRecord) -> Result<(), Failure> {
    let foreground = record
        .foreground
        .as_ref()
        .map(|running| running.command.clone());
    hub.out.sides(
        record,
        &[
            ("id", record.id.to_string()),
            ("state", hub.out.paint.state(state(record))),
            ("cwd", record.cwd.clone()),
            ("shell", record.shell.clone()),
            ("running", foreground.unwrap_or_default()),
            ("queue", record.queue_length.to_string()),
            ("restores", record.restores.to_string()),
            ("degraded", record.degraded.join(", ")),
            (
                "created",
                format!("{} ({})", record.created_at, ago(record.created_at)),
            ),
        ],
    )
}

async fn history(hub: &Hub, thing: &Thing) -> Result<(), Failure> {
    let (sandbox, record) = session(hub, thing).await?;
    let list = every(async |page| sandbox.client.list_commands(&record.id, &page).await).await?;
    hub.out.list(
        &list,
        &list.items,
        |command| command.id.to_string(),
        &["ID", "STATE", "EXIT", "TIME", "COMMAND"],
        |command| {
            let state = match command.state {
                CommandState::Queued => "queued",
                CommandState::Running => "running",
                CommandState::Done => "done",
                CommandState::Cancelled => "cancelled",
            };
            let time = command.duration_ms.map(|millis| format!("{millis} ms"));
            vec![
                command.id.to_string(),
                state.to_owned(),
                command
                    .exit_code
                    .map_or_else(|| "-".to_owned(), |code| code.to_string()),
                time.unwrap_or_else(|| "-".to_owned()),
                command.command.clone(),
            ]
        },
    )
}

async fn exec_in(hub: &Hub, own: ExecInSession) -> Result<u8, Failure> {
    let command = match own.text {
        Some(text) => text,
        None if own.argv.is_empty() => {
            return Err(Failure::usage("there is no command to run").hint(
                "write it as text after -c, as in `sandshell session exec work -c 'cd /tmp'`, or after `--`",
            ));
        }
        None => values::quoted(&own.argv),
    };
    let stdin = if own.interactive {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut std::io::stdin(), &mut bytes)
            .map_err(|error| Failure::local("our standard input cannot be read", &error))?;
        Some(Encoded::new(bytes, Encoding::Auto))
    } else {
        None
    };
    let (sandbox, record) = session(hub, &own.one.session).await?;
    let request = SessionExecRequest {
        command,
        cwd: own.workdir,
        env: own.env.into_iter().collect(),
        stdin_encoding: stdin
            .as_ref()
            .map(|stdin| stdin.encoding)
            .unwrap_or_default(),
        stdin: stdin.map(|stdin| stdin.data),
        timeout_ms: own.timeout,
        ..SessionExecRequest::default()
    };
    if hub.out.json {
        let result = sandbox.client.session_exec(&record.id, &request).await?;
        hub.out.object(&result)?;
        return Ok(if result.timed_out {
            124
        } else {
            relay::exit_code(Some(result.exit_code))
        });
    }
    stream(hub, &sandbox, &record.id, &request).await
}

async fn stream(
    hub: &Hub,
    sandbox: &Sandbox,
    id: &SessionId,
    request: &SessionExecRequest,
) -> Result<u8, Failure> {
    let mut events = sandbox.client.session_exec_stream(id, request).await?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| Failure::ours(&error))?;
    let mut interrupted = false;
    let mut screen = Screen::new(hub.out);
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            _ = interrupt.recv() => {
                if interrupted {
                    let name = format!("{}/{id}", sandbox.id);
                    hub.out.remark(&format!(
                        "\nleft running: `sandshell session history {name}` shows it"
                    ));
                    return Ok(130);
                }
                interrupted = true;
                let (client, id) = (sandbox.client.clone(), id.clone());
                // Apart, so that a second Ctrl-C is heard meanwhile.
                tokio::spawn(async move { client.interrupt_session(&id).await });
                continue;
            }
        };
        let Some(event) = event else {
            return Err(Failure::failed("the output broke off").hint(format!(
                "`sandshell session history {}/{id}` tells what became of it",
                sandbox.id
            )));
        };
        let event = event?.event;
        if let OutputStreamEvent::Started { .. } = event {
            continue;
        }
        match screen.show(event).await? {
            Shown::More => {}
            Shown::Exit(exit) if exit.timed_out => {
                hub.out.remark("sandshell: it took too long and was ended");
                return Ok(124);
            }
            Shown::Exit(exit) => return Ok(relay::exit_code(exit.exit_code)),
            Shown::Unread => {
                sandbox.client.interrupt_session(id).await?;
                return Ok(141);
            }
        }
    }
}
