//! `sandshell serve`: the hub.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rustix::process::{Pid, Resource, Signal, getrlimit, setrlimit};
use sandshell_agent::Listen;
use sandshell_client::types::{Protection, ProtectionStatus};
use sandshell_hub::{HubOptions, ServeError, Started, StateDirError};

use crate::agent::default_state_dir;
use crate::arguments::ServeArguments;
use crate::doctor;
use crate::doctor::report::Isolation;
use crate::failure::Failure;
use crate::sandboxes::Isolation as Policy;
use crate::{config, logs, own_name, values};

pub(crate) fn run(arguments: ServeArguments) -> Result<ExitCode, Failure> {
    if !arguments.listen.is_local() && arguments.token_file.is_none() {
        return Err(Failure::usage(format!(
            "{} can be reached from other machines, and there is no token file",
            arguments.listen
        ))
        .hint("add --token-file FILE, or listen on 127.0.0.1"));
    }
    if let (Some(previews), Some(e2b)) = (&arguments.preview_domain, &arguments.e2b_domain)
        && previews.shares_names_with(e2b)
    {
        return Err(
            Failure::usage("--preview-domain and --e2b-domain are the same domain")
                .hint("give each its own, such as preview.example.org and e2b.example.org"),
        );
    }
    let passing = arguments
        .end_with
        .map(|parent| Passing::begin(parent, arguments.state_dir.clone()))
        .transpose()?;
    logs::start(arguments.json_logs);
    raise_open_files();
    // One thread, as in the agent: a request passes through few tasks, and each hop to another thread
    // would cost more than the work itself.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::ours(&error))?;
    let here = passing.is_none().then(doctor::isolation_here);
    let strict = arguments.isolation == Policy::Strict;
    let say = |started: &Started| match &here {
        Some(here) => announce(started, here, strict),
        None => Passing::announce(started),
    };
    let served = runtime.block_on(sandshell_hub::serve(options(arguments), say));
    runtime.shutdown_background();
    let others = matches!(
        served,
        Err(ServeError::StateDir(StateDirError::InUse { .. }))
    );
    if let Some(passing) = passing.filter(|_| !others) {
        passing.end();
    }
    match served {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(failure(&error)),
    }
}

/// A hub that another program of ours keeps for as long as it lives itself, and that leaves nothing.
struct Passing {
    state_dir: Option<PathBuf>,
}

impl Passing {
    fn begin(parent: i32, state_dir: Option<PathBuf>) -> Result<Self, Failure> {
        let told = rustix::process::set_parent_process_death_signal(Some(Signal::TERM));
        told.map_err(|error| Failure::ours(&std::io::Error::from(error)))?;
        // It may have gone before it could be told of.
        if rustix::process::getppid().map(Pid::as_raw_pid) == Some(parent) {
            Ok(Self { state_dir })
        } else {
            Err(Failure::usage("the process to end with is not our parent"))
        }
    }

    /// Says that it is ready: one line with its address.
    fn announce(started: &Started) {
        let mut stdout = std::io::stdout().lock();
        // Whoever does not read it has gone, and we are about to hear of that.
        let _ = writeln!(stdout, "{}", started.address).and_then(|()| stdout.flush());
    }

    fn end(self) {
        if let Some(dir) = self.state_dir
            && let Err(error) = std::fs::remove_dir_all(&dir)
        {
            tracing::warn!(%error, dir = %dir.display(), "it cannot be removed");
        }
    }
}

fn options(arguments: ServeArguments) -> HubOptions {
    HubOptions {
        listen: arguments.listen,
        state_dir: arguments
            .state_dir
            .unwrap_or_else(|| default_state_dir("hub")),
        token_file: arguments.token_file,
        ready_file: arguments.ready_file,
        cors_origins: arguments.cors_origins,
        allow_hosts: arguments.allow_hosts,
        preview_domain: arguments.preview_domain,
        max_connections: arguments.max_connections,
        max_sandboxes: arguments.max_sandboxes,
        max_sandboxes_per_token: arguments.max_sandboxes_per_token,
        rate: arguments.rate,
        warm: arguments.warm,
        isolation: arguments.isolation.into(),
        dialects: arguments.dialects.into_iter().flatten().collect(),
        e2b_domain: arguments.e2b_domain,
        destroy_on_exit: arguments.destroy_on_exit,
    }
}

fn failure(error: &ServeError) -> Failure {
    let failure = Failure::ours(error);
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// A stream through the hub takes two descriptors, and the usual soft limit is for programs that call
/// `select`. What the hard limit allows is ours to take.
fn raise_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Without it the hub works, for fewer at a time.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Says where the hub is and how to try it: lines that can be pasted wherever one stands.
fn announce(started: &Started, here: &Isolation, strict: bool) {
    let Listen::Tcp(_) = started.address else {
        return;
    };
    let url = started.address.to_string();
    let file = started.token_file.as_deref();
    let file = file.map(|file| std::path::absolute(file).unwrap_or_else(|_| file.to_owned()));
    let line = match (&started.fresh_token, &file) {
        (Some(token), Some(file)) => {
            format!("token: {} (kept in {})\n", token.reveal(), file.display())
        }
        _ => String::new(),
    };
    // What the command line finds by itself need not be said to it.
    let variable = |name: &str| std::env::var(name).ok();
    let usual = file == Some(config::default_token_file(variable));
    let mut settings = String::new();
    if url != config::DEFAULT_URL {
        settings.push_str(&format!("  export SANDSHELL_URL={url}\n"));
    }
    if let (Some(file), false) = (&file, usual) {
        let file = quoted_path(file);
        settings.push_str(&format!("  export SANDSHELL_TOKEN_FILE={file}\n"));
    }
    let token = file.map_or_else(String::new, |file| format!("$(cat {})", quoted_path(&file)));
    let us = values::quoted(&[own_name()]);
    let (warning, flag) = weaker(here, strict);
    let text = format!(
        "Sandshell is served at {url}\n{line}{warning}\nTry it:\n{settings}  {us} create first{flag}\n  \
         {us} exec first -- echo hello\n\nOr over HTTP:\n  \
         curl -s {url}/v1/sandboxes/first/exec -H \"Authorization: Bearer {token}\" \
         -H 'Content-Type: application/json' -d '{{\"command\":\"echo hello\"}}'\n",
    );
    // A closed stdout is no reason not to serve.
    let mut stdout = std::io::stdout().lock();
    let _ = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
}

/// What is to be known when a sandbox of the strict policy cannot be made here, and what to add to `create`.
fn weaker(here: &Isolation, strict: bool) -> (String, &'static str) {
    if let Some(error) = &here.error {
        let line = format!(
            "warning: no sandbox can be made here: {error}; `sandshell doctor` tells more\n"
        );
        return (line, "");
    }
    let off = |one: &&Protection| one.status == ProtectionStatus::Off;
    let off: Vec<&Protection> = here.protections.iter().filter(off).collect();
    let Some(reason) = off.first().and_then(|first| first.reason.as_deref()) else {
        return (String::new(), "");
    };
    let names: Vec<&str> = off.iter().map(|one| one.name.name()).collect();
    if !strict {
        let line = format!(
            "warning: sandboxes here have no {} ({reason})\n",
            names.join(", ")
        );
        return (line, "");
    }
    let line = format!(
        "warning: sandboxes here must ask for `--isolation best-effort`: there is no {} ({reason}); \
         `sandshell doctor` names the remedies\n",
        names.join(", ")
    );
    (line, " --isolation best-effort")
}

fn quoted_path(path: &Path) -> String {
    values::quoted(&[path.display().to_string()])
}
