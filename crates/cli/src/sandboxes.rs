//! Sandboxes as a whole: `create`, `ls`, `get`, `rm`, `pause`, `resume`.

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use sandshell_client::SandboxFilter;
use sandshell_client::types::{
    ErrorCode, IsolationPolicy, IsolationSpec, List, NetworkMode, NetworkSpec, OnIdle,
    ProtectionStatus, SandboxId, SandboxLimits, SandboxRecord, SandboxSpec, SandboxState,
};

use crate::connection::{Done, Hub, Remote};
use crate::failure::Failure;
use crate::output::{ago, size, span};
use crate::run::say_missing;
use crate::values;

/// What is done about a protection that cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Isolation {
    // There is no sandbox then.
    Strict,
    // There is one, and its record says what is off.
    #[value(alias = "best_effort")]
    BestEffort,
}

impl From<Isolation> for IsolationPolicy {
    fn from(isolation: Isolation) -> Self {
        match isolation {
            Isolation::Strict => Self::Strict,
            Isolation::BestEffort => Self::BestEffort,
        }
    }
}

/// What happens to an idle sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Idle {
    // It is frozen until the next request.
    Sleep,
    // It is destroyed.
    Destroy,
}

impl From<Idle> for OnIdle {
    fn from(what: Idle) -> Self {
        match what {
            Idle::Sleep => Self::Sleep,
            Idle::Destroy => Self::Destroy,
        }
    }
}

/// What a sandbox may use, and what can be changed of that while it is there.
#[derive(Debug, Args)]
pub(crate) struct Most {
    /// Most memory, such as 512m [usually: 2g].
    #[arg(long, value_name = "SIZE", value_parser = values::bytes)]
    memory: Option<u64>,

    /// Most processors, such as 0.5.
    #[arg(long, value_name = "COUNT")]
    cpus: Option<f64>,

    /// Most processes and threads [usually: 1024].
    #[arg(long, value_name = "COUNT")]
    pids: Option<u64>,
}

impl From<Most> for SandboxLimits {
    fn from(most: Most) -> Self {
        Self {
            memory_bytes: most.memory,
            cpus: most.cpus,
            pids: most.pids,
            ..Self::default()
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct CreateArguments {
    /// Id of your choice: lower-case letters, digits and inner hyphens. Creating it again gives the same.
    #[arg(value_name = "ID")]
    id: Option<SandboxId>,

    /// The same as ID.
    #[arg(long, value_name = "ID", conflicts_with = "id")]
    name: Option<SandboxId>,

    /// Label to find it by; may be given again.
    #[arg(long = "label", short, value_name = "KEY=VALUE", value_parser = values::pair)]
    labels: Vec<(String, String)>,

    /// Root file system [default: the programs of the hub's machine].
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,

    /// Variable for every command, KEY=VALUE, or KEY for its value here; may be given again.
    #[arg(long = "env", short, value_name = "VARIABLE", value_parser = values::variable)]
    env: Vec<(String, Option<String>)>,

    /// File with a variable on each line; may be given again.
    #[arg(long, value_name = "FILE")]
    env_file: Vec<std::path::PathBuf>,

    /// Directory in which commands start.
    #[arg(long, short, value_name = "DIR")]
    workdir: Option<String>,

    /// User that commands run as.
    #[arg(long, short, value_name = "USER")]
    user: Option<String>,

    #[command(flatten)]
    most: Most,

    /// Most bytes it may write, such as 2g [usually: 1g, at most half of the memory].
    #[arg(long, value_name = "SIZE", value_parser = values::bytes)]
    disk: Option<u64>,

    /// Host it may reach, such as pypi.org or *.example.org:8443; may be given again.
    #[arg(long, value_name = "HOST", conflicts_with = "network")]
    allow: Vec<String>,

    /// What it may reach: none, or full for everything [default: none].
    #[arg(long, value_name = "MODE", value_parser = network)]
    network: Option<NetworkMode>,

    /// What is done about a protection that cannot be had [default: the hub's].
    #[arg(long, value_name = "POLICY")]
    isolation: Option<Isolation>,

    /// Time without a request after which it is put to sleep, such as 10m [default: never].
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    idle: Option<u64>,

    /// What happens to it then.
    #[arg(long, value_name = "WHAT")]
    on_idle: Option<Idle>,

    /// Time after which it is destroyed, idle or not, such as 8h [default: never].
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    lifetime: Option<u64>,
}

fn network(text: &str) -> Result<NetworkMode, String> {
    match text {
        "none" => Ok(NetworkMode::None),
        "full" => Ok(NetworkMode::Full),
        _ => Err("expected none or full; --allow HOST opens single hosts".to_owned()),
    }
}

impl CreateArguments {
    fn spec(self) -> Result<SandboxSpec, Failure> {
        let env = values::environment(&self.env_file, &self.env)?;
        let limits = SandboxLimits {
            disk_bytes: self.disk,
            ..self.most.into()
        };
        let network = if self.allow.is_empty() {
            self.network.map(|mode| NetworkSpec {
                mode,
                allow: Vec::new(),
            })
        } else {
            Some(NetworkSpec {
                mode: NetworkMode::Allow,
                allow: self.allow,
            })
        };
        Ok(SandboxSpec {
            id: self.id.or(self.name),
            labels: self.labels.into_iter().collect(),
            image: self.image,
            env: env
                .into_iter()
                .filter_map(|(key, value)| Some((key, value?)))
                .collect(),
            cwd: self.workdir,
            user: self.user,
            limits: (limits != SandboxLimits::default()).then_some(limits),
            network,
            secrets: Vec::new(),
            isolation: self.isolation.map(|policy| IsolationSpec {
                policy: policy.into(),
                require: Vec::new(),
            }),
            idle_timeout_ms: self.idle,
            on_idle: self.on_idle.map(OnIdle::from),
            max_lifetime_ms: self.lifetime,
        })
    }
}

pub(crate) fn create(remote: Remote, own: CreateArguments) -> Done {
    remote.drive(async |hub| {
        let strict = own.isolation;
        let created = hub.client.create_sandbox(&own.spec()?).await;
        let record = created.map_err(|error| {
            let failure = Failure::from(error);
            match failure.kind() {
                Some(ErrorCode::IsolationUnavailable) if strict.is_none() => failure.hint(format!(
                    "`{} --isolation best-effort` does without; `sandshell doctor` there names the remedies",
                    our_line()
                )),
                _ => failure,
            }
        })?;
        hub.out.made(&record, record.id.as_str())?;
        say_missing(&record.protections);
        Ok(ExitCode::SUCCESS)
    })
}

/// The line that we were started with, to be typed again.
fn our_line() -> String {
    let words: Vec<String> = std::env::args().skip(1).collect();
    format!("sandshell {}", values::quoted(&words))
}

#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    /// Only those with this label; may be given again, all must hold.
    #[arg(long = "label", short, value_name = "KEY=VALUE", value_parser = values::pair)]
    labels: Vec<(String, String)>,

    /// Those that are over, too.
    #[arg(long, short)]
    all: bool,

    /// Only in this state.
    #[arg(long, value_name = "STATE", conflicts_with = "all", value_parser = state)]
    state: Option<SandboxState>,
}

fn state(text: &str) -> Result<SandboxState, String> {
    let known = SandboxState::ALL;
    known
        .iter()
        .copied()
        .find(|state| state.name() == text)
        .ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(|state| state.name()).collect();
            format!("expected one of {}", names.join(", "))
        })
}

pub(crate) fn list(remote: Remote, own: ListArguments) -> Done {
    remote.drive(async |hub| {
        let state = own.state.map(|state| state.name().to_owned());
        let items = hub
            .all_sandboxes(SandboxFilter {
                labels: own.labels,
                state: state.or_else(|| own.all.then(|| "all".to_owned())),
                ..SandboxFilter::default()
            })
            .await?;
        let list = List {
            items,
            next_cursor: None,
        };
        let paint = hub.out.paint;
        hub.out.list(
            &list,
            &list.items,
            |record| record.id.to_string(),
            &["ID", "STATE", "IMAGE", "CREATED", "USED", "LABELS"],
            |record| {
                vec![
                    record.id.to_string(),
                    paint.state(record.state.name()),
                    record.spec.image.clone().unwrap_or_else(|| "-".to_owned()),
                    ago(record.created_at),
                    ago(record.last_used_at),
                    labels_of(record),
                ]
            },
        )?;
        if list.items.is_empty() {
            hub.out.remark("no sandboxes; `sandshell create` makes one");
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn labels_of(record: &SandboxRecord) -> String {
    let pairs = record.spec.labels.iter();
    let pairs: Vec<String> = pairs.map(|(key, value)| format!("{key}={value}")).collect();
    pairs.join(",")
}

#[derive(Debug, Args)]
pub(crate) struct OneArguments {
    /// The sandbox: its id or the beginning of it [default: the one that is set, or the only one].
    #[arg(value_name = "SANDBOX")]
    pub(crate) sandbox: Option<String>,
}

pub(crate) fn get(remote: Remote, own: &OneArguments) -> Done {
    remote.drive(async |hub| {
        let id = hub.sandbox(own.sandbox.as_deref()).await?.id;
        let record = hub.client.get_sandbox(&id).await?;
        show(hub, &record)?;
        Ok(ExitCode::SUCCESS)
    })
}

fn show(hub: &Hub, record: &SandboxRecord) -> Result<(), Failure> {
    let paint = hub.out.paint;
    let limits = record.spec.limits.clone().unwrap_or_default();
    let mut limited = Vec::new();
    for (name, limit) in [
        ("memory", limits.memory_bytes.map(size)),
        ("cpus", limits.cpus.map(|cpus| cpus.to_string())),
        ("pids", limits.pids.map(|pids| pids.to_string())),
        ("disk", limits.disk_bytes.map(size)),
    ] {
        limited.extend(limit.map(|limit| format!("{name} {limit}")));
    }
    let network = record
        .spec
        .network
        .as_ref()
        .map(|network| match network.mode {
            NetworkMode::None => "none".to_owned(),
            NetworkMode::Full => "full".to_owned(),
            NetworkMode::Allow => network.allow.join(", "),
        });
    let lasting =
        |millis: Option<u64>| millis.map(|millis| span(millis / 1000)).unwrap_or_default();
    let not_enforced: Vec<(&str, String)> = record
        .protections
        .iter()
        .filter_map(|protection| {
            let status = match protection.status {
                ProtectionStatus::Enforced => return None,
                ProtectionStatus::Partial => "  partial",
                ProtectionStatus::Off => "  off",
            };
            let reason = protection.reason.as_deref().unwrap_or_default();
            Some((status, format!("{}: {reason}", protection.name.name())))
        })
        .collect();
    let enforced = record.protections.len() - not_enforced.len();
    let mut sides = vec![
        ("id", record.id.to_string()),
        ("state", paint.state(record.state.name())),
        ("reason", record.reason.clone().unwrap_or_default()),
        ("image", record.spec.image.clone().unwrap_or_default()),
        ("labels", labels_of(record)),
        ("user", record.spec.user.clone().unwrap_or_default()),
        ("workdir", record.spec.cwd.clone().unwrap_or_default()),
        ("limits", limited.join(", ")),
        ("network", network.unwrap_or_else(|| "none".to_owned())),
        ("idle after", lasting(record.spec.idle_timeout_ms)),
        ("lives for", lasting(record.spec.max_lifetime_ms)),
        ("owner", record.owner.clone()),
        (
            "created",
            format!("{} ({})", record.created_at, ago(record.created_at)),
        ),
        (
            "last used",
            format!("{} ({})", record.last_used_at, ago(record.last_used_at)),
        ),
        (
            "expires",
            record
                .expires_at
                .map(|at| at.to_string())
                .unwrap_or_default(),
        ),
        (
            "ended",
            record.ended_at.map(|at| at.to_string()).unwrap_or_default(),
        ),
        (
            "protections",
            format!("{enforced} of {} enforced", record.protections.len()),
        ),
    ];
    sides.extend(not_enforced);
    hub.out.sides(record, &sides)
}

#[derive(Debug, Args)]
pub(crate) struct ManyArguments {
    /// The sandboxes: ids or their beginnings.
    #[arg(value_name = "SANDBOX", required_unless_present = "all")]
    sandboxes: Vec<String>,

    /// All that this token may use.
    #[arg(long, conflicts_with = "sandboxes")]
    all: bool,
}

/// What is done to each of several.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Change {
    Destroy,
    Pause,
    Resume,
    Keep,
}

#[derive(Debug, Args)]
pub(crate) struct RmArguments {
    #[command(flatten)]
    many: ManyArguments,

    /// Be content when there is none of this name.
    #[arg(long, short)]
    force: bool,

    /// Do not ask, with --all on a terminal.
    #[arg(long, short)]
    yes: bool,
}

/// Destroys sandboxes; a person is asked before all of them go.
pub(crate) fn remove(remote: Remote, own: &RmArguments) -> Done {
    remote.drive(async |hub| {
        let names = own.many.names(hub).await?;
        let people = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        if own.many.all && people && !own.yes && !own.force && !names.is_empty() {
            let question = format!("destroy all sandboxes ({})? [y/N] ", names.len());
            if !agreed(&question)? {
                return Err(Failure::failed("nothing was destroyed")
                    .hint("answer y, or add -y not to be asked"));
            }
        }
        each(hub, &names, async |name| {
            if !own.force {
                return change_one(hub, name, Change::Destroy).await;
            }
            // A script says which one it means: if it is gone, no other of that beginning goes.
            let Ok(id) = name.parse::<SandboxId>() else {
                return Ok(());
            };
            match hub.client.destroy_sandbox(&id).await {
                Ok(record) => hub.out.made(&record, id.as_str()),
                Err(error) if matches!(error.status(), Some(404 | 410)) => Ok(()),
                Err(error) => Err(error.into()),
            }
        })
        .await
    })
}

fn agreed(question: &str) -> Result<bool, Failure> {
    let failed = |error: std::io::Error| Failure::local("the answer cannot be read", &error);
    std::io::stderr()
        .write_all(question.as_bytes())
        .map_err(failed)?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(failed)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

pub(crate) fn change(remote: Remote, own: &ManyArguments, change: Change) -> Done {
    remote.drive(async |hub| {
        let names = own.names(hub).await?;
        each(hub, &names, async |name| {
            change_one(hub, name, change).await
        })
        .await
    })
}

impl ManyArguments {
    async fn names(&self, hub: &Hub) -> Result<Vec<String>, Failure> {
        if self.all {
            let all = hub.all_sandboxes(SandboxFilter::default()).await?;
            Ok(all.into_iter().map(|record| record.id.into()).collect())
        } else {
            Ok(self.sandboxes.clone())
        }
    }
}

/// Does it to each; the first failure is told after the others have had their turn.
async fn each(hub: &Hub, names: &[String], act: impl AsyncFn(&str) -> Result<(), Failure>) -> Done {
    let mut failed = None;
    for name in names {
        if let Err(failure) = act(name).await {
            // All but the first are told at once; that one is our own end.
            if let Some(earlier) = failed.replace(failure) {
                earlier.in_json(hub.out.json).report();
            }
        }
    }
    failed.map_or(Ok(ExitCode::SUCCESS), Err)
}

async fn change_one(hub: &Hub, name: &str, change: Change) -> Result<(), Failure> {
    let id = hub.sandbox(Some(name)).await?.id;
    let record = match change {
        Change::Destroy => hub.client.destroy_sandbox(&id).await?,
        Change::Pause => hub.client.pause_sandbox(&id).await?,
        Change::Resume => hub.client.resume_sandbox(&id).await?,
        Change::Keep => hub.client.keep_sandbox_alive(&id).await?,
    };
    hub.out.made(&record, id.as_str())
}
