//! `sandshell context`: code interpreters that keep their state.

use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use sandshell_client::types::{
    ContextId, ContextRecord, ContextRequest, ContextState, Encoded, KernelChoice, Language,
    RunEvent, RunRequest, RunResult, RunStatus, StreamName,
};

use crate::arguments::examples;
use crate::connection::{Done, Hub, Remote, Sandbox, every, one_of};
use crate::exec::StartArguments;
use crate::failure::Failure;
use crate::names::Thing;
use crate::output::ago;
use crate::relay::{Screen, Shown};
use crate::sandboxes::OneArguments;
use crate::values;

#[derive(Debug, Args)]
pub(crate) struct ContextArguments {
    #[command(subcommand)]
    command: ContextCommand,
}

/// The language of a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Speech {
    Python,
    Javascript,
    Typescript,
    Bash,
}

#[derive(Debug, Subcommand)]
enum ContextCommand {
    /// Make a context, and print its id.
    #[command(before_help = examples!("context create --language python --name calc", "context create build-1 --language javascript"))]
    Create(CreateContext),
    /// Run code in a context: after -c, or from stdin.
    #[command(before_help = examples!("context run build-1/calc -c 'x = 20; x + 1'", "context run calc < analysis.py"))]
    Run {
        #[command(flatten)]
        one: OneContext,
        /// The code, instead of stdin.
        #[arg(short = 'c', long = "code", value_name = "TEXT")]
        code: Option<String>,
        /// Time after which it is interrupted, such as 30s; the exit code is 124 then.
        #[arg(long, value_name = "TIME", value_parser = values::duration)]
        timeout: Option<u64>,
    },
    /// List contexts.
    #[command(before_help = examples!("context ls", "context ls build-1 --json"))]
    Ls(OneArguments),
    /// Interrupt the code that runs; the state stays where the interpreter allows it.
    #[command(before_help = examples!("context interrupt build-1/calc", "context interrupt calc --json"))]
    Interrupt(OneContext),
    /// Give a context a fresh interpreter.
    #[command(before_help = examples!("context restart build-1/calc", "context restart calc"))]
    Restart(OneContext),
    /// End contexts.
    #[command(before_help = examples!("context rm build-1/calc", "context rm calc plot"))]
    Rm {
        /// The contexts: their ids or the beginnings, in a sandbox as SANDBOX/ID.
        #[arg(value_name = "CONTEXT", required = true)]
        contexts: Vec<Thing>,
    },
}

#[derive(Debug, Args)]
struct CreateContext {
    /// The sandbox: its id or the beginning of it [default: the one that is set, or the only one].
    #[arg(value_name = "SANDBOX")]
    sandbox: Option<String>,

    /// The language.
    #[arg(long, short, value_name = "LANGUAGE", default_value = "python")]
    language: Speech,

    /// Id of your choice.
    #[arg(long, value_name = "ID")]
    name: Option<ContextId>,

    #[command(flatten)]
    start: StartArguments,

    /// Time after which each run is interrupted, such as 30s [default: never].
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    timeout: Option<u64>,
}

#[derive(Debug, Args)]
struct OneContext {
    /// The context: its id or the beginning of it, in a sandbox as SANDBOX/ID.
    #[arg(value_name = "CONTEXT")]
    context: Thing,
}

async fn context(hub: &Hub, thing: &Thing) -> Result<(Sandbox, ContextRecord), Failure> {
    one_of(
        hub,
        thing,
        "context",
        async |client, id: ContextId| client.context(&id).await,
        async |client, page| client.list_contexts(&page).await,
        |record| record.id.into(),
    )
    .await
}

pub(crate) fn run(remote: Remote, own: ContextArguments) -> Done {
    remote.drive(async |hub| {
        match own.command {
            ContextCommand::Create(create) => create_one(hub, create).await?,
            ContextCommand::Run { one, code, timeout } => {
                let done = run_code(hub, &one.context, code, timeout).await;
                return done.map(ExitCode::from).map_err(Failure::beside_a_command);
            }
            ContextCommand::Ls(one) => list(hub, one.sandbox.as_deref()).await?,
            ContextCommand::Interrupt(one) => {
                let (sandbox, record) = context(hub, &one.context).await?;
                let reply = sandbox.client.interrupt_context(&record.id).await?;
                let text = match &reply.run_id {
                    Some(run) => format!("{run} interrupted"),
                    None => "no code ran".to_owned(),
                };
                hub.out.did(&reply, &text)?;
            }
            ContextCommand::Restart(one) => {
                let (sandbox, record) = context(hub, &one.context).await?;
                let record = sandbox.client.restart_context(&record.id).await?;
                hub.out.made(&record, record.id.as_str())?;
            }
            ContextCommand::Rm { contexts } => {
                for thing in &contexts {
                    let (sandbox, record) = context(hub, thing).await?;
                    let reply = sandbox.client.delete_context(&record.id).await?;
                    hub.out.made(&reply, record.id.as_str())?;
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

async fn create_one(hub: &Hub, own: CreateContext) -> Result<(), Failure> {
    let env = own.start.environment()?;
    let sandbox = hub.sandbox(own.sandbox.as_deref()).await?;
    let request = ContextRequest {
        id: own.name,
        language: match own.language {
            Speech::Python => Language::Python,
            Speech::Javascript => Language::Javascript,
            Speech::Typescript => Language::Typescript,
            Speech::Bash => Language::Bash,
        },
        cwd: own.start.workdir,
        env,
        user: own.start.user,
        session: None,
        timeout_ms: own.timeout,
        idle_timeout_ms: None,
        kernel: KernelChoice::Auto,
    };
    let record = sandbox.client.create_context(&request).await?;
    hub.out.made(&record, record.id.as_str())
}

async fn run_code(
    hub: &Hub,
    thing: &Thing,
    code: Option<String>,
    timeout: Option<u64>,
) -> Result<u8, Failure> {
    let code = match code {
        Some(code) => Ok(code),
        None => std::io::read_to_string(std::io::stdin()),
    };
    let code = code.map_err(|error| Failure::local("our standard input cannot be read", &error))?;
    let (sandbox, record) = context(hub, thing).await?;
    let request = RunRequest {
        code,
        timeout_ms: timeout,
        ..RunRequest::default()
    };
    let mut events = sandbox.client.run_code_stream(&record.id, &request).await?;
    let mut screen = Screen::new(hub.out);
    while let Some(event) = events.next().await {
        let event = event?;
        if hub.out.json {
            hub.out.object(&event)?;
        }
        let (stream, bytes) = match event {
            RunEvent::End(end) => {
                return Ok(match end.status {
                    RunStatus::Ok => 0,
                    RunStatus::TimedOut => 124,
                    RunStatus::Interrupted => 130,
                    RunStatus::Error => 1,
                });
            }
            _ if hub.out.json => continue,
            RunEvent::Stdout(output) => (
                StreamName::Stdout,
                Encoded::decode(&output.data, output.encoding).unwrap_or_default(),
            ),
            RunEvent::Stderr(output) => (
                StreamName::Stderr,
                Encoded::decode(&output.data, output.encoding).unwrap_or_default(),
            ),
            RunEvent::Result(result) => (StreamName::Stdout, shown(&result).into_bytes()),
            RunEvent::Error(error) => {
                let mut text = error.traceback.join("\n");
                if text.trim().is_empty() {
                    text = format!("{}: {}", error.name, error.value);
                }
                (
                    StreamName::Stderr,
                    format!("{}\n", text.trim_end()).into_bytes(),
                )
            }
            _ => continue,
        };
        if let Shown::Unread = screen.write(stream, &bytes).await? {
            sandbox.client.interrupt_context(&record.id).await?;
            return Ok(141);
        }
    }
    Err(Failure::failed("the output broke off").hint("`sandshell context ls` tells its state"))
}

/// A result as text, or which forms it has.
fn shown(result: &RunResult) -> String {
    let text = result
        .data
        .get("text/plain")
        .and_then(|value| value.as_str());
    let kinds = || {
        let kinds: Vec<&str> = result.data.keys().map(String::as_str).collect();
        format!("({}; --json shows it)\n", kinds.join(", "))
    };
    text.map_or_else(kinds, |text| format!("{text}\n"))
}

async fn list(hub: &Hub, sandbox: Option<&str>) -> Result<(), Failure> {
    let sandbox = hub.sandbox(sandbox).await?;
    let list = every(async |page| sandbox.client.list_contexts(&page).await).await?;
    hub.out.list(
        &list,
        &list.items,
        |record| record.id.to_string(),
        &["ID", "STATE", "INTERPRETER", "RUNS", "CREATED", "CWD"],
        |record| {
            let state = match record.state {
                ContextState::Idle => "idle",
                ContextState::Busy => "busy",
                ContextState::Ended => "ended",
            };
            vec![
                record.id.to_string(),
                hub.out.paint.state(state),
                record.interpreter.clone(),
                record.execution_count.to_string(),
                ago(record.created_at),
                record.cwd.clone(),
            ]
        },
    )
}
