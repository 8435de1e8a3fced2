//! `sandshell run -- CMD`: one command in an isolated sandbox of its own, without a server.
//!
//! ```text
//! run ── launcher ── agent ── init ── CMD
//! ```
//!
//! The sandbox lives as long as this process: when it ends, by SIGKILL too, the launcher sees its
//! socket close, ends the sandbox and removes its directory.

pub(crate) mod bounds;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use sandshell_agent::Settings;
use sandshell_client::Client;
use sandshell_client::types::{
    Env, NetworkMode, NetworkRefused, ProcessRequest, Protection, ProtectionStatus, RefusalReason,
    TerminalRequest,
};
use sandshell_hub::egress::{Authority, Egress, EgressConfig, Outside, Policy};
use sandshell_isolate::image_root;
use sandshell_isolate::launcher::Launcher;
use sandshell_isolate::limits::{SandboxLimits, USUAL_INODES};
use sandshell_isolate::plan::{SANDBOX_USER, WORKSPACE};
use tokio::task::JoinHandle;

mod image;

use crate::arguments::RunArguments;
use crate::failure::Failure;
use crate::one_shot::{self, Wanted};
use crate::output::Output;
use crate::paint::Paint;
use crate::relay::{Manner, Network, Relay};
use crate::terminal_screen::Desk;
use crate::{exec, values};

pub(crate) fn run(arguments: RunArguments) -> Result<ExitCode, Failure> {
    if arguments.command.is_empty() && arguments.text.is_none() && arguments.image.is_none() {
        return Err(Failure::usage("there is no command to run").hint(
            "write it after `--`, as in `sandshell run -- ls -l`, or as text for a shell after -c",
        ));
    }
    let given = values::environment(&arguments.env_file, &arguments.env)?;
    let policy = arguments.bounds.policy()?;
    let limits = arguments.bounds.limits()?;
    let launcher = Launcher::start().map_err(|error| Failure::ours(&error))?;
    let code = run_in(&launcher, arguments, given, limits, policy);
    launcher.finish();
    code.map(ExitCode::from)
}

fn run_in(
    launcher: &Launcher,
    mut arguments: RunArguments,
    given: Env,
    limits: SandboxLimits,
    policy: Option<Policy>,
) -> Result<u8, Failure> {
    let directory = one_shot::own_directory(launcher, arguments.image.is_some())?;
    let ids = one_shot::ids();
    let state = directory.join("agent");
    let authority = match &policy {
        Some(policy) if policy.has_secrets() => {
            Some(Authority::generate().map_err(|error| Failure::ours(&error))?)
        }
        _ => None,
    };
    let image = arguments.image.as_deref();
    let image = image.map(|path| image::open(path, &directory, ids));
    let (image, config) = image.transpose()?.unzip();
    let config = config.unwrap_or_default();
    let what = Command::asked(&mut arguments, [config.entrypoint, config.cmd].concat());
    if matches!(&what, Command::Words(words) if words.is_empty()) {
        let failure = Failure::usage("the image does not say what to run".to_owned());
        return Err(failure.hint("add -- CMD"));
    }
    let usual = config.workdir.map(PathBuf::from);
    let usual = usual.unwrap_or_else(|| Path::new("/").join(WORKSPACE));
    let cwd = match &arguments.cwd {
        Some(cwd) => usual.join(cwd),
        None => usual,
    };
    let user = arguments.user.clone().or(config.user);
    let disk = arguments.bounds.disk()?;
    let mut root = if let Some(image) = &image {
        let (user, cwd) = (user.as_deref(), cwd.to_str());
        image_root::plan(image, user, cwd, ids, disk, USUAL_INODES)
            .map_err(|error| Failure::ours(&error))?
    } else {
        one_shot::default_root(&directory, ids, disk)?
    };
    let given = given
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?)));
    let mut settings = Settings {
        cwd: Some(cwd),
        user: Some(user.unwrap_or_else(|| SANDBOX_USER.to_owned())),
        env: config.env.into_iter().chain(given).collect(),
        log_bytes: None,
        egress: policy.is_some(),
        ..Settings::default()
    };
    if let Some(authority) = &authority {
        authority.trust().give(&mut root.files, &mut settings.env);
    }
    let url = format!("unix:{}", directory.join("agent.sock").display());
    let wanted = Wanted {
        ids,
        root,
        limits,
        settings,
    };
    let protections = one_shot::launch(launcher, directory, wanted)?;
    arguments.bounds.check_kept(&protections)?;
    say_missing(&protections);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::ours(&error))?;
    let code = runtime.block_on(async {
        let network = policy
            .as_ref()
            .map_or(NetworkMode::None, |_| NetworkMode::Allow);
        let way_out = policy
            .map(|policy| WayOut::open(&state, policy, authority))
            .transpose()?;
        let code = attend(&url, what, network, &arguments).await;
        if let Some(way_out) = way_out {
            way_out.close().await;
        }
        code.map_err(Failure::beside_a_command)
    });
    // Reading our stdin may still go on; nobody waits for it.
    runtime.shutdown_background();
    code
}

/// Protection is never silently off.
pub(crate) fn say_missing(protections: &[Protection]) {
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for protection in protections {
        if protection.status == ProtectionStatus::Off {
            let reason = protection.reason.as_deref().unwrap_or("no reason is known");
            let names = by_reason.entry(reason).or_default();
            names.push(protection.name.name());
        }
    }
    for (reason, names) in by_reason {
        let line = format!("sandshell: without {}: {reason}\n", names.join(", "));
        // There is nowhere to tell that stderr is closed.
        let _ = std::io::stderr().lock().write_all(line.as_bytes());
    }
}

/// The way out, while the command runs. What is refused is said on stderr.
struct WayOut {
    egress: Egress,
    telling: JoinHandle<()>,
}

impl WayOut {
    fn open(state: &Path, policy: Policy, authority: Option<Authority>) -> Result<Self, Failure> {
        let outside = Outside::new().map_err(|error| Failure::ours(&error))?;
        let config = EgressConfig {
            sandbox: "run".to_owned(),
            policy,
            authority,
            outside: Arc::new(outside),
        };
        let egress = Egress::start(state, config).map_err(|error| Failure::ours(&error))?;
        let mut refusals = egress.refusals();
        let telling = tokio::spawn(async move {
            while let Ok(refused) = refusals.recv().await {
                say_refused(&refused);
            }
        });
        Ok(Self { egress, telling })
    }

    /// Everything that was refused has been said then.
    async fn close(self) {
        self.egress.close().await;
        let _ = self.telling.await;
    }
}

fn say_refused(refused: &NetworkRefused) {
    let host = &refused.host;
    let target = refused
        .port
        .map_or_else(|| host.clone(), |port| format!("{host}:{port}"));
    let hint = match refused.reason {
        RefusalReason::HostNotAllowed | RefusalReason::PortNotAllowed => {
            format!("add --allow {target}")
        }
        reason => reason.hint().to_owned(),
    };
    let line = format!(
        "sandshell: network: {target} refused: {}; hint: {hint}\n",
        refused.reason
    );
    // There is nowhere to tell that stderr is closed.
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

/// What is run.
enum Command {
    Words(Vec<String>),
    /// Text for a shell.
    Text(String, Option<String>),
}

impl Command {
    fn asked(arguments: &mut RunArguments, of_image: Vec<String>) -> Self {
        match arguments.text.take() {
            Some(text) => Self::Text(text, arguments.shell.take()),
            None if arguments.command.is_empty() => Self::Words(of_image),
            None => Self::Words(std::mem::take(&mut arguments.command)),
        }
    }
}

async fn attend(
    url: &str,
    command: Command,
    network: NetworkMode,
    arguments: &RunArguments,
) -> Result<u8, Failure> {
    let client = Client::new(url, None)?;
    let out = Output {
        json: false,
        quiet: false,
        paint: Paint::for_stdout(),
    };
    let (argv, text, shell) = match command {
        Command::Words(words) => (words, None, None),
        Command::Text(text, shell) => (Vec::new(), Some(text), shell),
    };
    let timeout = arguments.bounds.timeout;
    if arguments.terminal.wants_one(timeout.is_some()) {
        let (command, argv) = exec::for_terminal(text, shell, argv);
        let request = TerminalRequest {
            argv,
            command,
            ..TerminalRequest::default()
        };
        return Desk::of_our_own(&client, out).run(request).await;
    }
    let process = client
        .create_process(&ProcessRequest {
            argv: (!argv.is_empty()).then_some(argv),
            command: text,
            shell,
            stdin_open: true,
            timeout_ms: timeout.and_then(|time| u64::try_from(time.as_millis()).ok()),
            ..ProcessRequest::default()
        })
        .await?;
    let relay = Relay {
        client: &client,
        id: &process.id,
        name: None,
        network: Network::Known(network),
        out,
    };
    let all = Manner {
        stdin: true,
        own: true,
    };
    relay.until_exit(None, all).await
}
