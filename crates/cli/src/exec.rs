//! `sandshell exec`: one command in a sandbox, as if it ran here.

use std::io::{IsTerminal as _, Read as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use sandshell_client::types::{
    Encoded, Encoding, Env, ErrorCode, ExecRequest, ProcessId, ProcessRecord, ProcessRequest,
    TerminalRequest,
};

use crate::connection::{Done, Hub, Remote, Sandbox};
use crate::failure::Failure;
use crate::relay::{self, Manner, Relay};
use crate::terminal_screen::Desk;
use crate::values;

#[derive(Debug, Args)]
pub(crate) struct ExecArguments {
    /// The sandbox: its id or the beginning of it [default: the one that is set, or the only one].
    #[arg(value_name = "SANDBOX")]
    sandbox: Option<String>,

    /// Text for a shell in the sandbox, instead of CMD.
    #[arg(
        short = 'c',
        long = "command",
        value_name = "TEXT",
        conflicts_with = "argv"
    )]
    text: Option<String>,

    /// Shell for -c [default: bash, else sh].
    #[arg(long, value_name = "SHELL", requires = "text")]
    shell: Option<String>,

    #[command(flatten)]
    start: StartArguments,

    /// Time after which it is ended, such as 30s; the exit code is 124 then.
    #[arg(long, value_name = "TIME", value_parser = values::duration, conflicts_with = "tty")]
    timeout: Option<u64>,

    /// Leave it running and print its id only.
    #[arg(long, short, conflicts_with = "tty")]
    detach: bool,

    /// Id of your choice for the process.
    #[arg(long, value_name = "ID")]
    name: Option<ProcessId>,

    #[command(flatten)]
    terminal: TerminalChoice,

    /// The program and its arguments, passed on unchanged.
    #[arg(last = true, value_name = "CMD")]
    argv: Vec<String>,
}

/// Whether a command has a terminal.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct TerminalChoice {
    /// A terminal for it [default: when our stdin, stdout and stderr are one].
    #[arg(long, short)]
    pub(crate) tty: bool,

    /// No terminal for it.
    #[arg(long, short = 'T', conflicts_with = "tty")]
    no_tty: bool,

    /// Taken for the sake of habit: stdin is always passed on.
    #[arg(long, short, hide = true)]
    interactive: bool,
}

impl TerminalChoice {
    /// Whether it gets one, unless something else speaks against it.
    pub(crate) fn wants_one(self, otherwise: bool) -> bool {
        let people = || {
            std::io::stdin().is_terminal()
                && std::io::stdout().is_terminal()
                && std::io::stderr().is_terminal()
        };
        self.tty || (!self.no_tty && !otherwise && people())
    }
}

/// In what surroundings a command starts.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct StartArguments {
    /// Variable for it, KEY=VALUE, or KEY for its value here; may be given again.
    #[arg(long = "env", short, value_name = "VARIABLE", value_parser = values::variable)]
    env: Vec<(String, Option<String>)>,

    /// File with a variable on each line; may be given again.
    #[arg(long, value_name = "FILE")]
    env_file: Vec<PathBuf>,

    /// Directory in which it starts.
    #[arg(long, short, value_name = "DIR")]
    pub(crate) workdir: Option<String>,

    /// User that it runs as.
    #[arg(long, short, value_name = "USER")]
    pub(crate) user: Option<String>,
}

impl StartArguments {
    pub(crate) fn environment(&self) -> Result<Env, Failure> {
        values::environment(&self.env_file, &self.env)
    }
}

pub(crate) fn run(remote: Remote, own: ExecArguments) -> Done {
    if own.text.is_none() && own.argv.is_empty() {
        let json = remote.json;
        return Err(Failure::usage("there is no command to run")
            .hint(
                "write it after `--`, as in `sandshell exec SANDBOX -- ls -l`, or as text after -c",
            )
            .in_json(json));
    }
    remote.drive(async |hub| {
        let done = exec(hub, own).await;
        done.map(ExitCode::from).map_err(Failure::beside_a_command)
    })
}

async fn exec(hub: &Hub, own: ExecArguments) -> Result<u8, Failure> {
    let env = own.start.environment()?;
    if own
        .terminal
        .wants_one(own.detach || own.timeout.is_some() || hub.out.json)
    {
        let request = TerminalRequest {
            command: own.text,
            argv: (!own.argv.is_empty()).then_some(own.argv),
            env,
            cwd: own.start.workdir,
            user: own.start.user,
            ..TerminalRequest::default()
        };
        let sandbox = hub.sandbox(own.sandbox.as_deref()).await?;
        return Desk::of(hub, &sandbox)?.run(request).await;
    }
    if hub.out.json && !own.detach {
        let sandbox = hub.sandbox(own.sandbox.as_deref()).await?;
        return whole(hub, &sandbox, own, env).await;
    }
    let stdin = !own.detach && relay::has_stdin();
    let request = ProcessRequest {
        command: own.text,
        argv: (!own.argv.is_empty()).then_some(own.argv),
        id: own.name,
        cwd: own.start.workdir,
        env,
        stdin_open: stdin,
        shell: own.shell,
        user: own.start.user,
        timeout_ms: own.timeout,
        ..ProcessRequest::default()
    };
    let (sandbox, record) = start(hub, own.sandbox.as_deref(), &request).await?;
    if own.detach {
        hub.out.made(&record, record.id.as_str())?;
        return Ok(0);
    }
    let relay = Relay::of(hub, &sandbox, &record.id);
    relay.until_exit(None, Manner { stdin, own: true }).await
}

/// Starts it in the sandbox that is meant: with the id as typed, and only if there is none looking for another.
pub(crate) async fn start(
    hub: &Hub,
    typed: Option<&str>,
    request: &ProcessRequest,
) -> Result<(Sandbox, ProcessRecord), Failure> {
    if let Some(sandbox) = hub.sandbox_unasked(typed) {
        match sandbox.client.create_process(request).await {
            Ok(record) => return Ok((sandbox, record)),
            Err(error) if error.code() == Some(ErrorCode::SandboxNotFound) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let sandbox = hub.sandbox(typed).await?;
    let record = sandbox.client.create_process(request).await?;
    Ok((sandbox, record))
}

/// As one JSON result at the end.
async fn whole(hub: &Hub, sandbox: &Sandbox, own: ExecArguments, env: Env) -> Result<u8, Failure> {
    let stdin = if relay::has_stdin() && !std::io::stdin().is_terminal() {
        let mut bytes = Vec::new();
        std::io::stdin()
            .read_to_end(&mut bytes)
            .map_err(|error| Failure::local("our standard input cannot be read", &error))?;
        Some(Encoded::new(bytes, Encoding::Auto))
    } else {
        None
    };
    let request = ExecRequest {
        command: own.text,
        argv: (!own.argv.is_empty()).then_some(own.argv),
        id: own.name,
        cwd: own.start.workdir,
        env,
        stdin_encoding: stdin
            .as_ref()
            .map(|stdin| stdin.encoding)
            .unwrap_or_default(),
        stdin: stdin.map(|stdin| stdin.data),
        shell: own.shell,
        user: own.start.user,
        timeout_ms: own.timeout,
        ..ExecRequest::default()
    };
    let result = sandbox.client.exec(&request).await?;
    hub.out.object(&result)?;
    Ok(if result.timed_out {
        124
    } else {
        relay::exit_code(Some(result.exit_code))
    })
}
