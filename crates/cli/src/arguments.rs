//! The command line: every flag with its help.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use sandshell_agent::{Listen, Origin};
use sandshell_hub::PreviewDomain;

const EXAMPLES: &str = "\
Examples:
  sandshell serve                          keep sandboxes, and serve them on 127.0.0.1:4020
  sandshell agent                          serve one sandbox on 127.0.0.1:3000
";

const AGENT_EXAMPLES: &str = "\
Examples:
  sandshell agent --listen 127.0.0.1:0 --ready-file /tmp/ready
  sandshell agent --token-file /run/token --listen 0.0.0.0:3000 -- python3 -m http.server
";

const RUN_EXAMPLES: &str = "\
Examples:
  sandshell run -- python3 -c 'print(6 * 7)'
  sandshell run --user root -- bash < script.sh
";

const SERVE_EXAMPLES: &str = "\
Examples:
  sandshell serve --listen 127.0.0.1:0 --ready-file /tmp/ready
  sandshell serve --token-file /run/token --listen 0.0.0.0:4020 --warm 4
";

const VERSION_EXAMPLES: &str = "\
Examples:
  sandshell version
  sandshell version --json
";

const OPENAPI_EXAMPLES: &str = "\
Examples:
  sandshell openapi > openapi.json
  sandshell openapi --hub | jq '.paths | keys'
";

/// A safe computer for AI agents, driven over an API.
#[derive(Debug, Parser)]
#[command(name = "sandshell", before_help = EXAMPLES, disable_version_flag = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve one sandbox over HTTP.
    #[command(before_help = AGENT_EXAMPLES)]
    Agent(Box<AgentArguments>),
    /// Run one command in an isolated sandbox of its own; no server is needed.
    #[command(before_help = RUN_EXAMPLES)]
    Run(Box<RunArguments>),
    /// Keep many sandboxes and serve them over HTTP.
    #[command(before_help = SERVE_EXAMPLES)]
    Serve(Box<ServeArguments>),
    /// Show the version.
    #[command(before_help = VERSION_EXAMPLES)]
    Version {
        /// As the JSON object of `GET /version`.
        #[arg(long)]
        json: bool,
    },
    /// Print the `OpenAPI` document of the agent.
    #[command(before_help = OPENAPI_EXAMPLES)]
    Openapi {
        /// That of the hub.
        #[arg(long)]
        hub: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct AgentArguments {
    /// Address to serve: ADDRESS:PORT (port 0 picks a free one) or unix:PATH.
    #[arg(
        long,
        env = "SANDSHELL_LISTEN",
        default_value = "127.0.0.1:3000",
        value_name = "ADDRESS"
    )]
    pub(crate) listen: Listen,

    /// Directory for output logs [default: `$XDG_STATE_HOME/sandshell/agent`].
    #[arg(long, env = "SANDSHELL_STATE_DIR", value_name = "DIR")]
    pub(crate) state_dir: Option<PathBuf>,

    /// File with the token that clients must send; made with a fresh one when missing.
    #[arg(long, env = "SANDSHELL_TOKEN_FILE", value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,

    /// File to write {"url":…,"pid":…} to, once requests are served.
    #[arg(long, value_name = "FILE")]
    pub(crate) ready_file: Option<PathBuf>,

    /// Directory in which commands start [default: /].
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,

    /// User name or uid that commands run as [default: the agent's own].
    #[arg(long, value_name = "USER")]
    pub(crate) user: Option<String>,

    /// Variable in the environment of every command; may be given again.
    #[arg(long = "env", short = 'e', value_name = "KEY=VALUE", value_parser = variable)]
    pub(crate) environment: Vec<(String, String)>,

    /// Most bytes of output kept for each process [default: 268435456].
    #[arg(long, value_name = "BYTES")]
    pub(crate) log_bytes: Option<u64>,

    /// Origin whose web pages may use the API, such as `http://localhost:5173`; may be given again.
    #[arg(long = "cors-origin", value_name = "ORIGIN")]
    pub(crate) cors_origins: Vec<Origin>,

    /// Name in the Host header to answer to besides localhost and the address; may be given again.
    #[arg(long = "allow-host", value_name = "NAME")]
    pub(crate) allow_hosts: Vec<String>,

    /// What becomes of commands' rights: walls that need no namespace, or none.
    #[arg(
        long,
        env = "SANDSHELL_ISOLATION",
        value_name = "POLICY",
        value_enum,
        default_value_t = Isolation::BestEffort
    )]
    pub(crate) isolation: Isolation,

    /// Do without something even where it could be had, to look at the fallbacks.
    #[arg(
        long,
        value_name = "PART",
        value_delimiter = ',',
        hide_short_help = true
    )]
    pub(crate) without: Vec<Part>,

    /// Log as JSON, one object a line.
    #[arg(long, env = "SANDSHELL_JSON_LOGS")]
    pub(crate) json_logs: bool,

    /// A command to run along with the agent, which ends with its exit code when it ends.
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// Directory in which the command starts [default: /workspace].
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,

    /// User in the sandbox that it runs as [default: sandbox].
    #[arg(long, value_name = "USER")]
    pub(crate) user: Option<String>,

    /// Variable in its environment; may be given again.
    #[arg(long = "env", short = 'e', value_name = "KEY=VALUE", value_parser = variable)]
    pub(crate) environment: Vec<(String, String)>,

    /// Host that it may reach, `example.com`, `*.example.com` or `example.com:8443`; may be given again.
    /// Without any it reaches nothing.
    #[arg(long, value_name = "HOST")]
    pub(crate) allow: Vec<String>,

    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    /// Address to serve: ADDRESS:PORT (port 0 picks a free one) or unix:PATH.
    #[arg(
        long,
        env = "SANDSHELL_LISTEN",
        default_value = "127.0.0.1:4020",
        value_name = "ADDRESS"
    )]
    pub(crate) listen: Listen,

    /// Directory for records and sandboxes [default: `$XDG_STATE_HOME/sandshell/hub`].
    #[arg(long, env = "SANDSHELL_STATE_DIR", value_name = "DIR")]
    pub(crate) state_dir: Option<PathBuf>,

    /// File with the admin's token; made with a fresh one when missing [default: `token` in the
    /// state directory].
    #[arg(long, env = "SANDSHELL_TOKEN_FILE", value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,

    /// File to write {"url":…,"pid":…} to, once requests are served.
    #[arg(long, value_name = "FILE")]
    pub(crate) ready_file: Option<PathBuf>,

    /// Sandboxes of the default spec to keep ready.
    #[arg(long, default_value_t = 0, value_name = "COUNT")]
    pub(crate) warm: usize,

    /// Most sandboxes at a time.
    #[arg(long, default_value_t = sandshell_hub::MAX_SANDBOXES, value_name = "COUNT")]
    pub(crate) max_sandboxes: usize,

    /// Most sandboxes of one token at a time, unless the token says otherwise.
    #[arg(long, default_value_t = sandshell_hub::MAX_SANDBOXES, value_name = "COUNT")]
    pub(crate) max_sandboxes_per_token: usize,

    /// Most connections at a time; further ones wait.
    #[arg(long, default_value_t = sandshell_hub::MAX_CONNECTIONS, value_name = "COUNT")]
    pub(crate) max_connections: usize,

    /// Most requests a second of one token; 0 for no limit.
    #[arg(long, default_value_t = sandshell_hub::RATE, value_name = "COUNT")]
    pub(crate) rate: u32,

    /// Origin whose web pages may use the API, such as `http://localhost:5173`; may be given again.
    #[arg(long = "cors-origin", value_name = "ORIGIN")]
    pub(crate) cors_origins: Vec<Origin>,

    /// Name in the Host header to answer to besides localhost and the address; may be given again.
    #[arg(long = "allow-host", value_name = "NAME")]
    pub(crate) allow_hosts: Vec<String>,

    /// Domain under which ports get names of their own, such as `localhost:4020` or
    /// `https://preview.example.org`; all names below it must lead here.
    #[arg(long, value_name = "DOMAIN")]
    pub(crate) preview_domain: Option<PreviewDomain>,

    /// Destroy all sandboxes at the end; otherwise they go on, and the next hub finds them.
    #[arg(long)]
    pub(crate) destroy_on_exit: bool,

    /// Log as JSON, one object a line.
    #[arg(long, env = "SANDSHELL_JSON_LOGS")]
    pub(crate) json_logs: bool,
}

/// What an agent by itself does about isolation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Isolation {
    /// No start unless each wall stands that an agent can build by itself.
    Strict,
    /// Whatever can be had; GET /v1/protections says what.
    BestEffort,
    /// Commands keep all rights of the agent.
    Off,
}

/// A part of init's surroundings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// The PID namespace.
    PidNamespace,
    /// The cgroup of each process.
    Cgroup,
    /// The clone3 system call.
    Clone3,
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn passes_the_command_on_unchanged() {
        let line = [
            "sandshell",
            "agent",
            "-e",
            "A=b=c",
            "--without",
            "cgroup,clone3",
            "--",
            "x",
            "--env",
            "-y",
        ];
        let Command::Agent(agent) = Arguments::try_parse_from(line).unwrap().command else {
            panic!("not the agent")
        };
        assert_eq!(agent.command, ["x", "--env", "-y"]);
        assert_eq!(agent.environment, [("A".to_owned(), "b=c".to_owned())]);
        assert_eq!(agent.without, [Part::Cgroup, Part::Clone3]);
    }

    #[test]
    fn every_help_opens_with_two_examples() {
        let mut root = Arguments::command();
        root.build();
        let check = |command: &mut clap::Command| {
            let help = command.render_help().to_string();
            let examples: Vec<&str> = help
                .lines()
                .skip(1)
                .take_while(|line| line.starts_with("  sandshell"))
                .collect();
            assert!(help.starts_with("Examples:"), "{help}");
            assert_eq!(examples.len(), 2, "{help}");
        };
        check(&mut root.clone());
        for command in root
            .get_subcommands_mut()
            .filter(|c| c.get_name() != "help")
        {
            check(command);
        }
    }
}
