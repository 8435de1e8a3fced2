//! The command line: every command, and the flags of those that keep sandboxes. The flags of those that talk
//! to a hub stand with their code.

#[cfg(target_os = "linux")]
use std::path::PathBuf;

#[cfg(target_os = "linux")]
use clap::{Args, ValueEnum};
use clap::{Parser, Subcommand};
#[cfg(target_os = "linux")]
use sandshell_agent::{Listen, Origin};
#[cfg(target_os = "linux")]
use sandshell_hub::{Dialect, PreviewDomain};

use crate::connection::Asking;
#[cfg(target_os = "linux")]
use crate::exec::TerminalChoice;
#[cfg(target_os = "linux")]
use crate::run::bounds::Bounds;

/// What a help opens with.
macro_rules! examples {
    ($first:literal, $second:literal) => {
        concat!(
            "Examples:\n  sandshell ",
            $first,
            "\n  sandshell ",
            $second,
            "\n"
        )
    };
}
pub(crate) use examples;

const EXAMPLES: &str = "\
Examples:
  sandshell run -- python3 -c 'print(6 * 7)'   one command in a sandbox of its own
  sandshell serve                              keep sandboxes, and serve them on 127.0.0.1:4020
";

const AFTER: &str = "\
--hub, --url, --token-file, --json, -q and --color may stand before the command, too.
`sandshell help exit-codes`, `help environment` and `help names` tell what all commands share.";

/// A safe computer for AI agents, driven over an API.
#[derive(Debug, Parser)]
#[command(name = "sandshell", version, before_help = EXAMPLES, after_help = AFTER, disable_help_subcommand = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one command in an isolated sandbox of its own; no server is needed.
    #[cfg(target_os = "linux")]
    #[command(before_help = examples!("run -- python3 -c 'print(6 * 7)'", "run --memory 512M --timeout 30s --allow pypi.org -- bash < script.sh"))]
    Run(Box<RunArguments>),
    /// Make a sandbox.
    #[command(before_help = examples!("create", "create build-1 --label team=web --memory 512m --allow pypi.org"))]
    Create(Box<Asking<crate::sandboxes::CreateArguments>>),
    /// List sandboxes.
    #[command(before_help = examples!("ls", "ls --label team=web --json"), alias = "list")]
    Ls(Asking<crate::sandboxes::ListArguments>),
    /// Show one sandbox.
    #[command(before_help = examples!("get build-1", "get build-1 --json | jq .protections"), visible_alias = "inspect")]
    Get(Asking<crate::sandboxes::OneArguments>),
    /// Destroy sandboxes.
    #[command(before_help = examples!("rm build-1", "rm $(sandshell ls -q --label team=web)"))]
    Rm(Asking<crate::sandboxes::RmArguments>),
    /// Change labels, limits and times of a sandbox.
    #[command(before_help = examples!("update build-1 --label team=web --memory 1g", "update build-1 --idle 30m --lifetime never"))]
    Update(Box<Asking<crate::update::UpdateArguments>>),
    /// Start the idle time of sandboxes anew.
    #[command(before_help = examples!("keepalive build-1", "keepalive build-1 build-2"))]
    Keepalive(Asking<crate::sandboxes::ManyArguments>),
    /// Freeze sandboxes until they are resumed.
    #[command(before_help = examples!("pause build-1", "pause build-1 build-2"))]
    Pause(Asking<crate::sandboxes::ManyArguments>),
    /// Let frozen sandboxes go on.
    #[command(before_help = examples!("resume build-1", "resume --all"))]
    Resume(Asking<crate::sandboxes::ManyArguments>),
    /// Run a command in a sandbox, as if it ran here.
    #[command(before_help = examples!("exec build-1 -- ls -l", "exec -c 'sort | uniq -c' < words.txt"))]
    Exec(Box<Asking<crate::exec::ExecArguments>>),
    /// Open a shell in a sandbox, on this terminal; ctrl-p ctrl-q leaves it.
    #[command(before_help = examples!("shell build-1", "shell -u root -w /etc"))]
    Shell(Box<Asking<crate::terminals::ShellArguments>>),
    /// List processes.
    #[command(before_help = examples!("ps build-1", "ps -a --json"))]
    Ps(Asking<crate::processes::PsArguments>),
    /// Show the output of a process.
    #[command(before_help = examples!("logs build-1/web -f", "logs web -n 20 --since 10m"))]
    Logs(Asking<crate::processes::LogsArguments>),
    /// Go to a process: its output here, our stdin and Ctrl-C to it.
    #[command(before_help = examples!("attach build-1/web", "attach web --look"))]
    Attach(Asking<crate::processes::AttachArguments>),
    /// Wait for a process to end, for text in its output, or for a port.
    #[command(before_help = examples!("wait build-1/web --port 8000 --timeout 30s", "wait job"))]
    Wait(Asking<crate::processes::WaitArguments>),
    /// End processes and all they started.
    #[command(before_help = examples!("kill build-1/web", "kill web --signal HUP"))]
    Kill(Asking<crate::processes::KillArguments>),
    /// Copy files and directories between here and a sandbox.
    #[command(before_help = examples!("cp src build-1:/workspace", "cp build-1:/workspace/out.log ."))]
    Cp(Asking<crate::copy::CopyArguments>),
    /// Ports of a sandbox, and how they are reached.
    #[command(before_help = examples!("port ls build-1", "port expose build-1/8000"))]
    Port(Asking<crate::ports::PortArguments>),
    /// Shells that keep their state between commands.
    #[command(before_help = examples!("session create build-1 --name work", "session exec build-1/work -c 'cd /tmp && export A=1'"))]
    Session(Asking<crate::sessions::SessionArguments>),
    /// Programs on terminals that live on without a viewer.
    #[command(before_help = examples!("terminal create build-1 --name edit -- vim notes.txt", "terminal attach build-1/edit"))]
    Terminal(Asking<crate::terminals::TerminalArguments>),
    /// Files of a sandbox.
    #[command(before_help = examples!("file ls build-1:/etc", "file put build-1:notes.txt < notes.txt"))]
    File(Asking<crate::files::FileArguments>),
    /// Git repositories in a sandbox.
    #[command(before_help = examples!("git clone https://example.org/repo.git build-1:repo", "git status -C build-1:repo"))]
    Git(Box<Asking<crate::git::GitArguments>>),
    /// Saved directory trees of a sandbox.
    #[command(before_help = examples!("backup create build-1:/workspace --name monday", "backup restore build-1/monday"))]
    Backup(Asking<crate::backups::BackupArguments>),
    /// Variables that every command of a sandbox gets.
    #[command(before_help = examples!("env build-1", "env build-1 --set DEBUG=1 --unset API_URL"))]
    Env(Asking<crate::environment::EnvArguments>),
    /// Root file systems that a hub keeps.
    #[command(before_help = examples!("image import alpine.tar", "image ls"))]
    Image(Asking<crate::images::ImageArguments>),
    /// Code interpreters that keep their state.
    #[command(before_help = examples!("context create build-1 --language python --name calc", "context run build-1/calc -c '6 * 7'"))]
    Context(Asking<crate::contexts::ContextArguments>),
    /// Tell what happens in a sandbox, until Ctrl-C.
    #[command(before_help = examples!("events build-1", "events --type oom --json"))]
    Events(Asking<crate::watching::EventsArguments>),
    /// Show what a sandbox uses.
    #[command(before_help = examples!("stats build-1", "stats --json | jq .memory"))]
    Stats(Asking<crate::sandboxes::OneArguments>),
    /// Tokens of a hub.
    #[command(before_help = examples!("token create --scope create --name ci", "token ls"))]
    Token(Asking<crate::tokens::TokenArguments>),
    /// Show what was done at a hub, and by which token.
    #[command(before_help = examples!("audit", "audit --target build-1 --json"))]
    Audit(Asking<crate::audit::AuditArguments>),
    /// Show and change the configuration.
    #[command(before_help = examples!("config show --origin", "config set sandbox build-1"))]
    Config(Asking<crate::configure::ConfigArguments>),
    /// Keep a token for a hub, read from stdin.
    #[command(before_help = examples!("login < token", "login --name work --url http://hub.example.org:4020 < token"))]
    Login(Asking<crate::configure::LoginArguments>),
    /// Serve one sandbox over HTTP.
    #[cfg(target_os = "linux")]
    #[command(before_help = examples!("agent --listen 127.0.0.1:0 --ready-file /tmp/ready", "agent --token-file /run/token --listen 0.0.0.0:3000 -- python3 -m http.server"))]
    Agent(Box<AgentArguments>),
    /// Keep many sandboxes and serve them over HTTP.
    #[cfg(target_os = "linux")]
    #[command(before_help = examples!("serve --listen 127.0.0.1:0 --ready-file /tmp/ready", "serve --token-file /run/token --listen 0.0.0.0:4020 --warm 4"))]
    Serve(Box<ServeArguments>),
    /// Serve sandboxes to an AI agent as tools, over the Model Context Protocol.
    #[cfg(target_os = "linux")]
    #[command(before_help = examples!("mcp", "mcp config --client claude"))]
    Mcp(McpArguments),
    /// Look at this machine: what is missing, what to do about it, and how well sandboxes are isolated.
    #[cfg(target_os = "linux")]
    #[command(before_help = examples!("doctor", "doctor --json | jq '.checks[] | select(.status != \"ok\")'"))]
    Doctor(DoctorArguments),
    /// Show the version.
    #[command(before_help = examples!("version", "version --server --json"))]
    Version(Asking<crate::version::VersionArguments>),
    /// Print the `OpenAPI` document of the agent.
    #[cfg(target_os = "linux")]
    #[command(before_help = examples!("openapi > openapi.json", "openapi --hub | jq '.paths | keys'"))]
    Openapi {
        /// That of the hub.
        #[arg(long)]
        hub: bool,
    },
    /// Print the completions of a shell.
    #[command(before_help = examples!("completion bash > /etc/bash_completion.d/sandshell", "completion zsh > ~/.zfunc/_sandshell"))]
    Completion(crate::completion::CompletionArguments),
    /// Write the manual pages of all commands.
    #[command(before_help = examples!("man --dir ~/.local/share/man/man1", "man --dir build/man"))]
    Man(crate::manual::ManArguments),
    /// Show the help of a command, or of a topic: exit-codes, environment, names.
    #[command(before_help = examples!("help exec", "help exit-codes"))]
    Help(crate::help::HelpArguments),
}

#[cfg(target_os = "linux")]
#[derive(Debug, Args)]
pub(crate) struct AgentArguments {
    /// Address to serve: ADDRESS:PORT (port 0 picks a free one) or unix:PATH.
    #[arg(
        long,
        env = "SANDSHELL_LISTEN",
        default_value = "127.0.0.1:3000",
        default_value_if("dialect", "e2b", "127.0.0.1:49983"),
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

    /// Most bytes that the output logs of all processes have on disk together [default: 2147483648].
    #[arg(long, value_name = "BYTES")]
    pub(crate) log_space: Option<u64>,

    /// Most bytes that the archives of all backups have together [default: 4294967296].
    #[arg(long, value_name = "BYTES")]
    pub(crate) backup_space: Option<u64>,

    /// Origin whose web pages may use the API, such as `http://localhost:5173`; may be given again.
    #[arg(long = "cors-origin", value_name = "ORIGIN")]
    pub(crate) cors_origins: Vec<Origin>,

    /// Name in the Host header to answer to besides localhost and the address; may be given again.
    #[arg(long = "allow-host", value_name = "NAME")]
    pub(crate) allow_hosts: Vec<String>,

    /// Service whose clients are served at the root, besides our API: `cloudflare` or `e2b`. Without a
    /// token file it needs no token, which is for loopback only.
    #[arg(long, env = "SANDSHELL_DIALECT", value_name = "NAME")]
    pub(crate) dialect: Option<Dialect>,

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

#[cfg(target_os = "linux")]
#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// Root file system: a directory, or a tar of one (docker export), of docker save or of an OCI
    /// layout [default: the programs of this machine].
    #[arg(long, value_name = "DIR|FILE")]
    pub(crate) image: Option<PathBuf>,

    /// Directory in which the command starts [default: /workspace].
    #[arg(long = "workdir", short = 'w', alias = "cwd", value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,

    /// User in the sandbox that it runs as [default: sandbox].
    #[arg(long, short, value_name = "USER")]
    pub(crate) user: Option<String>,

    /// Variable for it, KEY=VALUE, or KEY for its value here; may be given again.
    #[arg(long = "env", short, value_name = "VARIABLE", value_parser = crate::values::variable)]
    pub(crate) env: Vec<(String, Option<String>)>,

    /// File with a variable on each line; may be given again.
    #[arg(long, value_name = "FILE")]
    pub(crate) env_file: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) bounds: Bounds,

    #[command(flatten)]
    pub(crate) terminal: TerminalChoice,

    /// Taken for the sake of habit: nothing of it is ever left.
    #[arg(long, hide = true)]
    pub(crate) rm: bool,

    /// Text for a shell in the sandbox, instead of CMD.
    #[arg(
        short = 'c',
        long = "command",
        value_name = "TEXT",
        conflicts_with = "command"
    )]
    pub(crate) text: Option<String>,

    /// Shell for -c [default: bash, else sh].
    #[arg(long, value_name = "SHELL", requires = "text")]
    pub(crate) shell: Option<String>,

    /// The command and its arguments [default: what the image says].
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
}

#[cfg(target_os = "linux")]
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

    /// What is done about a protection that cannot be had, for a sandbox that does not say.
    #[arg(long, value_name = "POLICY", value_enum, default_value_t = crate::sandboxes::Isolation::Strict)]
    pub(crate) isolation: crate::sandboxes::Isolation,

    /// Services whose clients are served besides our own, at a path of their name; `none` for none.
    #[arg(
        long,
        env = "SANDSHELL_DIALECTS",
        value_delimiter = ',',
        default_value = "cloudflare,bridge,e2b,daytona",
        value_parser = dialect,
        value_name = "NAME"
    )]
    pub(crate) dialects: Vec<Option<Dialect>>,

    /// Domain that clients of E2B are given as `E2B_DOMAIN`; all names below it must lead here, over TLS
    /// that something before us ends.
    #[arg(long, env = "SANDSHELL_E2B_DOMAIN", value_name = "DOMAIN")]
    pub(crate) e2b_domain: Option<PreviewDomain>,

    /// Destroy all sandboxes at the end; otherwise they go on, and the next hub finds them.
    #[arg(long)]
    pub(crate) destroy_on_exit: bool,

    /// Log as JSON, one object a line.
    #[arg(long, env = "SANDSHELL_JSON_LOGS")]
    pub(crate) json_logs: bool,

    /// Not for people: end with the process of this id, our parent, and remove the state directory.
    #[arg(long, value_name = "PID", hide = true)]
    pub(crate) end_with: Option<i32>,
}

/// A dialect to serve, or none.
fn dialect(text: &str) -> Result<Option<Dialect>, String> {
    match text {
        "none" => Ok(None),
        name => name.parse().map(Some),
    }
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct McpArguments {
    #[command(subcommand)]
    pub(crate) command: Option<McpCommand>,

    /// Make sandboxes also where a protection cannot be had; the agent is told which.
    #[arg(long)]
    pub(crate) best_effort: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Print what to add to the configuration of a client.
    #[command(before_help = examples!("mcp config --client claude > .mcp.json", "mcp config --client codex --url http://127.0.0.1:4020"))]
    Config {
        /// The client.
        #[arg(long, value_name = "CLIENT")]
        client: McpClient,
        /// Connect to the hub at this address instead of starting `sandshell mcp`.
        #[arg(long, value_name = "URL")]
        url: Option<String>,
    },
    /// Print the list of tools, as clients get it.
    #[command(before_help = examples!("mcp tools | jq -r '.[].name'", "mcp tools | jq '.[] | select(.name == \"run_command\").inputSchema'"))]
    Tools,
}

/// A client of the Model Context Protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum McpClient {
    /// Claude Code, and Claude Desktop for `sandshell mcp`.
    #[value(alias = "claude-code", alias = "claude-desktop")]
    Claude,
    /// Cursor.
    Cursor,
    /// Visual Studio Code.
    #[value(alias = "vs-code", alias = "code")]
    Vscode,
    /// Codex.
    Codex,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArguments {
    /// As JSON.
    #[arg(long)]
    pub(crate) json: bool,

    /// End with 1 for warnings too.
    #[arg(long)]
    pub(crate) strict: bool,

    /// Not for people: take a user namespace for ourselves, and end with the error of that.
    #[arg(long, hide = true)]
    pub(crate) take_user_namespace: bool,

    /// Directory for records and sandboxes [default: `$XDG_STATE_HOME/sandshell/hub`].
    #[arg(long, env = "SANDSHELL_STATE_DIR", value_name = "DIR")]
    pub(crate) state_dir: Option<PathBuf>,

    /// File with the admin's token [default: `token` in the state directory].
    #[arg(long, env = "SANDSHELL_TOKEN_FILE", value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,

    /// Address that the hub is to be served at.
    #[arg(
        long,
        env = "SANDSHELL_LISTEN",
        default_value = "127.0.0.1:4020",
        value_name = "ADDRESS"
    )]
    pub(crate) listen: Listen,
}

/// What an agent by itself does about isolation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Isolation {
    /// No start unless each wall stands that an agent can build by itself.
    Strict,
    /// Whatever can be had; GET /v1/protections says what.
    #[value(alias = "best_effort")]
    BestEffort,
    /// Commands keep all rights of the agent.
    Off,
}

/// A part of init's surroundings.
#[cfg(target_os = "linux")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// The PID namespace.
    PidNamespace,
    /// The cgroup of each process.
    Cgroup,
    /// The clone3 system call.
    Clone3,
}

#[cfg(target_os = "linux")]
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
    fn an_agents_policy_is_spelled_either_way() {
        for policy in ["best-effort", "best_effort"] {
            let line = ["sandshell", "agent", "--isolation", policy];
            let Command::Agent(agent) = Arguments::try_parse_from(line).unwrap().command else {
                panic!("not the agent")
            };
            assert_eq!(agent.isolation, Isolation::BestEffort);
        }
    }

    #[test]
    fn every_help_opens_with_two_examples() {
        fn check(command: &mut clap::Command) {
            let help = command.render_help().to_string();
            let examples: Vec<&str> = help
                .lines()
                .skip(1)
                .take_while(|line| line.starts_with("  sandshell"))
                .collect();
            assert!(help.starts_with("Examples:"), "{help}");
            assert_eq!(examples.len(), 2, "{help}");
            for command in command.get_subcommands_mut() {
                if command.get_name() != "help" {
                    check(command);
                }
            }
        }
        let mut root = Arguments::command();
        root.build();
        check(&mut root);
    }

    #[test]
    fn no_argument_is_taken_for_a_flag_of_all() {
        fn check(command: &clap::Command) {
            for flag in ["hub", "url", "token-file", "json", "quiet", "color"] {
                let id = flag.replace('-', "_");
                for argument in command.get_arguments().filter(|a| *a.get_id() == *id) {
                    let name = command.get_name();
                    assert_eq!(argument.get_long(), Some(flag), "{id} of {name} is another");
                }
            }
            command.get_subcommands().for_each(check);
        }
        let mut root = Arguments::command();
        root.build();
        check(&root);
    }

    #[test]
    fn every_example_is_taken() {
        fn check(command: &clap::Command) {
            let text = command.get_before_help().map(ToString::to_string);
            for line in text.iter().flat_map(|text| text.lines()).skip(1) {
                // What a shell takes away before us.
                let line = line.split(" | ").next().unwrap_or_default();
                let line = line.split(" < ").next().unwrap_or_default();
                let line = line.split(" > ").next().unwrap_or_default();
                let line = line.split("   ").next().unwrap_or_default();
                let line = match (line.find("$("), line.rfind(')')) {
                    (Some(from), Some(to)) => line.replace(&line[from..=to], "x"),
                    _ => line.to_owned(),
                };
                let words = words(line.trim());
                if let Err(error) = Arguments::try_parse_from(&words) {
                    let wanted = error.kind() == clap::error::ErrorKind::DisplayHelp;
                    assert!(wanted, "{words:?}: {error}");
                }
            }
            for command in command.get_subcommands() {
                check(command);
            }
        }
        /// As a shell would split it, quotes taken off.
        fn words(line: &str) -> Vec<String> {
            let mut words = vec![String::new()];
            let mut quoted = false;
            for c in line.chars() {
                match c {
                    '\'' => quoted = !quoted,
                    ' ' if !quoted => words.push(String::new()),
                    c => words.last_mut().unwrap().push(c),
                }
            }
            words
        }
        let mut root = Arguments::command();
        root.build();
        check(&root);
    }
}
