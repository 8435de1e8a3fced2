//! `sandshell agent`: launches init, then serves.
//!
//! Order matters: init is launched while this process has one thread, before the runtime and the
//! logs.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use sandshell_agent::front::Front;
use sandshell_agent::{
    AgentError, AgentOptions, Listen, MAX_CONNECTIONS, MAX_CONNECTIONS_OF_HUB, Started,
};
use sandshell_isolate::LaunchOptions;
use sandshell_isolate::launch::launch;
use sandshell_types::{Layer, Protection, ProtectionStatus};

use crate::arguments::{AgentArguments, Isolation, Part};
use crate::failure::Failure;
use crate::logs;

pub(crate) fn run(arguments: AgentArguments) -> Result<ExitCode, Failure> {
    if !arguments.listen.is_local() && arguments.token_file.is_none() {
        return Err(Failure::usage(format!(
            "{} can be reached from other machines, and there is no token file",
            arguments.listen
        ))
        .hint("add --token-file FILE, or listen on 127.0.0.1"));
    }
    let front = match arguments.dialect {
        None => None,
        Some(dialect) => Some(sandshell_hub::front(dialect).ok_or_else(|| {
            Failure::usage("an agent is one sandbox: it speaks cloudflare or e2b")
        })?),
    };
    let without = |part| arguments.without.contains(&part);
    sandshell_sys::memory::share_one_heap();
    let mut init = launch(LaunchOptions {
        without_pid_namespace: without(Part::PidNamespace),
        without_cgroup: without(Part::Cgroup),
        without_clone3: without(Part::Clone3),
        without_hardening: arguments.isolation == Isolation::Off,
        user: arguments.user.as_deref().and_then(uid_of),
    })
    .map_err(|error| Failure::ours(&error))?;
    logs::start(arguments.json_logs);
    for (part, missing) in [
        (
            "PID namespace",
            init.surroundings.pid_namespace.as_ref().err(),
        ),
        ("cgroup", init.surroundings.cgroup.as_ref().err()),
    ] {
        if let Some(reason) = missing {
            tracing::info!(reason, "no {part} for commands");
        }
    }
    let protections = init.proof.settle();
    check(
        arguments.isolation,
        protections.map_err(|error| Failure::ours(&error))?,
    )?;
    let supervising = !arguments.command.is_empty();
    let token_file = arguments.token_file.clone();
    let options = options(arguments, front);
    // One thread: a request hops between tasks a handful of times, and each hop to another thread
    // would cost more than the work itself. Disk writes and other blocking work have their own pool.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::ours(&error))?;
    let served = runtime.block_on(sandshell_agent::serve(options, init, move |started| {
        announce(started, token_file.as_deref(), supervising);
    }));
    // Blocking reads of files may still run; nobody waits for them.
    runtime.shutdown_background();
    match served {
        Ok(code) => Ok(ExitCode::from(u8::try_from(code).unwrap_or(125))),
        Err(error) => Err(failure(&error)),
    }
}

/// What an agent can build by itself, whatever the place.
const UNAIDED: &[Layer] = &[
    Layer::NoNewPrivs,
    Layer::LandlockFs,
    Layer::LandlockScope,
    Layer::Seccomp,
];

/// Says what is off that need not be, and fails where it was not to be. What the place does not give is
/// told by `GET /v1/protections`.
fn check(isolation: Isolation, protections: &[Protection]) -> Result<(), Failure> {
    let off =
        |said: &&Protection| said.status == ProtectionStatus::Off && UNAIDED.contains(&said.name);
    let missing: Vec<String> = protections
        .iter()
        .filter(off)
        .map(|said| {
            let reason = said.reason.as_deref().unwrap_or("no reason is known");
            format!("{} ({reason})", said.name.name())
        })
        .collect();
    if missing.is_empty() || isolation == Isolation::Off {
        return Ok(());
    }
    let text = format!("commands would lack {}", missing.join(", "));
    if isolation == Isolation::BestEffort {
        tracing::warn!("{text}");
        return Ok(());
    }
    Err(Failure::usage(text)
        .code(125)
        .hint("choose --isolation best-effort and do without"))
}

/// The number of a user, by number or by name. One that is not there is refused later, by name.
fn uid_of(user: &str) -> Option<u32> {
    if let Ok(uid) = user.parse() {
        return Some(uid);
    }
    let table = std::fs::read_to_string("/etc/passwd").ok()?;
    table.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let uid = fields.nth(1)?;
        (name == user).then(|| uid.parse().ok())?
    })
}

fn options(arguments: AgentArguments, front: Option<Arc<dyn Front>>) -> AgentOptions {
    // Who connects to a Unix socket is a hub, which bounds its requests itself.
    let max_connections = match arguments.listen {
        Listen::Tcp(_) => MAX_CONNECTIONS,
        Listen::Unix(_) => MAX_CONNECTIONS_OF_HUB,
    };
    AgentOptions {
        listen: arguments.listen,
        state_dir: arguments
            .state_dir
            .unwrap_or_else(|| default_state_dir("agent")),
        token_file: arguments.token_file,
        ready_file: arguments.ready_file,
        cwd: arguments.cwd,
        user: arguments.user,
        env: arguments.environment.into_iter().collect(),
        log_bytes: arguments.log_bytes,
        log_space: arguments.log_space,
        backup_space: arguments.backup_space,
        cors_origins: arguments.cors_origins,
        allow_hosts: arguments.allow_hosts,
        max_connections,
        front,
        command: arguments.command,
    }
}

fn failure(error: &AgentError) -> Failure {
    let failure = Failure::ours(error).code(error.exit_code());
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// A directory in the XDG state directory, or one in /tmp for a user without a home.
pub(crate) fn default_state_dir(whose: &str) -> PathBuf {
    let set = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    set("XDG_STATE_HOME")
        .or_else(|| set("HOME").map(|home| home.join(".local/state")))
        .map_or_else(
            || {
                PathBuf::from(format!(
                    "/tmp/sandshell-{whose}-{}",
                    rustix::process::getuid().as_raw()
                ))
            },
            |state| state.join("sandshell").join(whose),
        )
}

/// Says where the agent is and how to try it. A supervised command has stdout to itself.
fn announce(started: &Started, token_file: Option<&Path>, supervising: bool) {
    let Listen::Tcp(_) = started.address else {
        return;
    };
    let url = &started.address;
    let (line, token) = match (&started.generated_token, token_file) {
        (Some(token), _) => (
            format!("token: {}\n", token.reveal()),
            token.reveal().to_owned(),
        ),
        (None, Some(file)) => (String::new(), format!("$(cat '{}')", file.display())),
        (None, None) => (String::new(), String::new()),
    };
    let text = format!(
        "Sandshell agent is served at {url}\n{line}\nTry it:\n  curl -s {url}/v1/exec \
         -H \"Authorization: Bearer {token}\" -H 'Content-Type: application/json' \
         -d '{{\"command\":\"echo hello\"}}'\n",
    );
    // A closed stdout is no reason not to serve.
    let _ = if supervising {
        std::io::stderr().write_all(text.as_bytes())
    } else {
        let mut stdout = std::io::stdout().lock();
        stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush())
    };
}
