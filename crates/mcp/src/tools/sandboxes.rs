//! Sandboxes: making, finding and removing them.

use std::collections::BTreeMap;

use sandshell_client::{Page, SandboxFilter};
use sandshell_types::{
    NetworkMode, NetworkSpec, ProtectionStatus, SandboxLimits, SandboxRecord, SandboxSpec,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::call::{Call, sandbox_id};
use crate::refusal::Refusal;
use crate::tool::{Answer, Effect, Tool};

/// Most sandboxes in one answer.
const LISTED: u32 = 100;

/// A sandbox, in what matters to a model.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Sandbox {
    /// Its id: the `sandbox` argument of all other tools.
    id: String,
    /// `ready`, `asleep` (the next call wakes it), `paused`, `creating`, `destroying`, `gone` or `failed`.
    state: String,
    /// When it was made.
    created_at: String,
    /// Hosts that it may reach. None: it has no network but its own.
    allow_hosts: Vec<String>,
    /// Protections that are off or partial here, each with the reason. None: all of them hold.
    weak_protections: Vec<String>,
}

impl From<SandboxRecord> for Sandbox {
    fn from(record: SandboxRecord) -> Self {
        let weak = record.protections.iter().filter_map(|protection| {
            let status = match protection.status {
                ProtectionStatus::Enforced => return None,
                ProtectionStatus::Partial => "partial",
                ProtectionStatus::Off => "off",
            };
            let reason = protection.reason.as_deref().unwrap_or("no reason is known");
            Some(format!("{}: {status}, {reason}", protection.name.name()))
        });
        Self {
            weak_protections: weak.collect(),
            id: record.id.to_string(),
            state: record.state.name().to_owned(),
            created_at: record.created_at.to_string(),
            allow_hosts: match record.spec.network {
                Some(NetworkSpec {
                    mode: NetworkMode::Full,
                    ..
                }) => vec!["*".to_owned()],
                Some(network) => network.allow,
                None => Vec::new(),
            },
        }
    }
}

impl Answer for Sandbox {
    fn text(&self) -> String {
        let mut text = format!("sandbox {} is {}", self.id, self.state);
        if !self.allow_hosts.is_empty() {
            text.push_str("; it may reach ");
            text.push_str(&self.allow_hosts.join(", "));
        }
        text
    }
}

/// Arguments of `create_sandbox`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateSandbox {
    /// An id of your choice, such as `build-1`: lower-case letters, digits and inner hyphens. The same
    /// call again gives the same sandbox. Without it one is made up.
    id: Option<String>,
    /// Hosts that programs may reach over HTTP and HTTPS, such as `pypi.org` or `*.github.com`. None by
    /// default.
    #[serde(default)]
    allow_hosts: Vec<String>,
    /// Environment variables of every command.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Most memory of all programs together, in MiB.
    memory_mib: Option<u64>,
    /// Most processor time, in processors: 0.5 is half of one.
    cpus: Option<f64>,
    /// After this long without a call the sandbox sleeps until the next one.
    idle_timeout_ms: Option<u64>,
}

impl Tool for CreateSandbox {
    const NAME: &'static str = "create_sandbox";
    const TITLE: &'static str = "Create a sandbox";
    const ABOUT: &'static str = "Make an isolated Linux computer, in which all other tools work. It has \
        files of its own (start in /workspace), its own processes, and no network unless allow_hosts \
        names hosts. Make one for a task and keep using it; remove it at the end.";
    const EFFECT: Effect = Effect::AddsMore;
    type Output = Sandbox;

    async fn run(self, call: &Call) -> Result<Sandbox, Refusal> {
        let id = self
            .id
            .map(|id| id.parse())
            .transpose()
            .map_err(|error| Refusal::argument("id", error))?;
        let memory_bytes = match self.memory_mib {
            None => None,
            Some(mib) => Some(
                mib.checked_mul(1 << 20)
                    .filter(|bytes| *bytes > 0)
                    .ok_or_else(|| Refusal::argument("memory_mib", "out of range"))?,
            ),
        };
        let limited = memory_bytes.is_some() || self.cpus.is_some();
        let spec = SandboxSpec {
            id,
            env: self.env,
            limits: limited.then(|| SandboxLimits {
                memory_bytes,
                cpus: self.cpus,
                ..SandboxLimits::default()
            }),
            network: (!self.allow_hosts.is_empty()).then_some(NetworkSpec {
                mode: NetworkMode::Allow,
                allow: self.allow_hosts,
            }),
            idle_timeout_ms: self.idle_timeout_ms,
            ..SandboxSpec::default()
        };
        Ok(call.hub.create_sandbox(&spec).await?.into())
    }
}

/// Arguments of `list_sandboxes`: none.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListSandboxes {}

/// Sandboxes that there are.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Sandboxes {
    sandboxes: Vec<Sandbox>,
    /// Whether there are more than are listed.
    truncated: bool,
}

impl Answer for Sandboxes {
    fn text(&self) -> String {
        if self.sandboxes.is_empty() {
            return "there is no sandbox; create_sandbox makes one".to_owned();
        }
        let mut lines: Vec<String> = self.sandboxes.iter().map(Answer::text).collect();
        if self.truncated {
            lines.push(format!("[only the first {LISTED} are listed]"));
        }
        lines.join("\n")
    }
}

impl Tool for ListSandboxes {
    const NAME: &'static str = "list_sandboxes";
    const TITLE: &'static str = "List sandboxes";
    const ABOUT: &'static str = "The sandboxes that there are and that you may use, oldest first.";
    const EFFECT: Effect = Effect::Reads;
    type Output = Sandboxes;

    async fn run(self, call: &Call) -> Result<Sandboxes, Refusal> {
        let filter = SandboxFilter {
            page: Page {
                limit: Some(LISTED),
                cursor: None,
            },
            ..SandboxFilter::default()
        };
        let list = call.hub.sandboxes(&filter).await?;
        Ok(Sandboxes {
            truncated: list.next_cursor.is_some(),
            sandboxes: list.items.into_iter().map(Sandbox::from).collect(),
        })
    }
}

/// Arguments of `remove_sandbox`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RemoveSandbox {
    /// The sandbox's id.
    sandbox: String,
}

impl Tool for RemoveSandbox {
    const NAME: &'static str = "remove_sandbox";
    const TITLE: &'static str = "Remove a sandbox";
    const ABOUT: &'static str =
        "End a sandbox, with all its processes and files. They cannot be had back.";
    const EFFECT: Effect = Effect::Replaces;
    type Output = Sandbox;

    async fn run(self, call: &Call) -> Result<Sandbox, Refusal> {
        let id = sandbox_id(&self.sandbox)?;
        Ok(call.hub.destroy_sandbox(&id).await?.into())
    }
}
