//! A sandbox in this dialect's words, and ours for what is asked of one.
//!
//! | theirs | ours |
//! |---|---|
//! | name | the id, where it can be one; else a label, and an id is made |
//! | snapshot, or an image without further build steps | image |
//! | auto-stop, auto-pause | sleep when idle: the next call wakes it |
//! | auto-delete 0 (ephemeral) | destroyed when idle or stopped |
//! | ttl | lifetime |
//! | target `best_effort` | do without protections that cannot be had here |
//! | state stopped | paused |

use std::collections::BTreeMap;

use sandshell_client::types::{
    IsolationPolicy, IsolationSpec, NetworkMode, NetworkSpec, OnIdle, SandboxLimits, SandboxRecord,
    SandboxSpec, SandboxState,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::Fault;
use super::reach::Reached;

/// The label with a name that cannot be an id.
pub(super) const NAME: &str = "daytona/name";

/// The target of those who do without protections that cannot be had.
pub(super) const BEST_EFFORT: &str = "best_effort";

/// Who commands run as where nothing else is said.
const USER: &str = "sandbox";

const MINUTE_MS: u64 = 60_000;

/// After this long an ephemeral sandbox is idle when nothing else is said: the default of theirs.
const EPHEMERAL_MINUTES: u64 = 15;

const GIB: u64 = 1 << 30;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Create {
    pub(super) name: Option<String>,
    snapshot: Option<String>,
    user: Option<String>,
    env: Option<BTreeMap<String, String>>,
    labels: Option<BTreeMap<String, String>>,
    public: Option<bool>,
    network_block_all: Option<bool>,
    network_allow_list: Option<String>,
    domain_allow_list: Option<String>,
    outbound_proxy_url: Option<String>,
    otel_endpoint_override: Option<String>,
    kvm: Option<bool>,
    spot: Option<bool>,
    target: Option<String>,
    cpu: Option<u32>,
    gpu: Option<u32>,
    memory: Option<u64>,
    disk: Option<u64>,
    auto_stop_interval: Option<u64>,
    auto_pause_interval: Option<u64>,
    auto_delete_interval: Option<i64>,
    ttl_minutes: Option<u64>,
    volumes: Option<Vec<Value>>,
    secrets: Option<Vec<Value>>,
    build_info: Option<Build>,
    linked_sandbox: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Build {
    dockerfile_content: Option<String>,
    context_hashes: Option<Vec<String>>,
}

impl Create {
    /// What the hub is to make.
    pub(super) fn spec(self) -> Result<SandboxSpec, Fault> {
        self.check()?;
        let mut labels = self.labels.unwrap_or_default();
        let id = self.name.as_deref().and_then(|name| name.parse().ok());
        if let (None, Some(name)) = (&id, self.name) {
            labels.insert(NAME.to_owned(), name);
        }
        let idle = [self.auto_stop_interval, self.auto_pause_interval];
        let idle = idle.into_iter().flatten().find(|minutes| *minutes > 0);
        let ephemeral = ephemeral(self.auto_delete_interval)? == Some(true);
        let idle = idle.or(ephemeral.then_some(EPHEMERAL_MINUTES));
        let limits = SandboxLimits {
            cpus: self.cpu.map(f64::from),
            memory_bytes: self.memory.map(|gib| gib.saturating_mul(GIB)),
            disk_bytes: self.disk.map(|gib| gib.saturating_mul(GIB)),
            ..SandboxLimits::default()
        };
        let image = match (self.snapshot, self.build_info) {
            (Some(snapshot), _) => Some(snapshot),
            (None, Some(build)) => Some(build.image()?),
            (None, None) => None,
        };
        let best_effort = self.target.as_deref() == Some(BEST_EFFORT);
        Ok(SandboxSpec {
            id,
            labels,
            image,
            env: self.env.unwrap_or_default(),
            user: self.user,
            limits: (limits != SandboxLimits::default()).then_some(limits),
            network: network(
                self.network_block_all,
                self.network_allow_list.as_deref(),
                self.domain_allow_list.as_deref(),
            )?,
            isolation: best_effort.then(|| IsolationSpec {
                policy: IsolationPolicy::BestEffort,
                ..IsolationSpec::default()
            }),
            idle_timeout_ms: idle.map(|minutes| minutes.saturating_mul(MINUTE_MS)),
            on_idle: ephemeral.then_some(OnIdle::Destroy),
            max_lifetime_ms: self
                .ttl_minutes
                .filter(|minutes| *minutes > 0)
                .map(|minutes| minutes.saturating_mul(MINUTE_MS)),
            ..SandboxSpec::default()
        })
    }

    /// Refuses what would otherwise be left out silently.
    fn check(&self) -> Result<(), Fault> {
        let given = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
        let some = |list: &Option<Vec<Value>>| list.as_ref().is_some_and(|list| !list.is_empty());
        for (asked, what) in [
            (some(&self.volumes), "volumes"),
            (some(&self.secrets), "secrets of a vault"),
            (self.gpu.is_some_and(|count| count > 0), "GPUs"),
            (self.kvm == Some(true), "KVM in a sandbox"),
            (self.spot == Some(true), "spot sandboxes"),
            (self.public == Some(true), "public previews"),
            (given(&self.linked_sandbox), "linked sandboxes"),
            (given(&self.outbound_proxy_url), "outbound proxies"),
            (
                given(&self.otel_endpoint_override),
                "OpenTelemetry endpoints",
            ),
        ] {
            if asked {
                return Err(Fault::invalid(Fault::absent(what).message()));
            }
        }
        Ok(())
    }
}

impl Build {
    /// The image that a build only names. Images are brought to the hub ready made.
    fn image(self) -> Result<String, Fault> {
        let steps = self.dockerfile_content.unwrap_or_default();
        let mut steps = steps.lines().map(str::trim).filter(|line| !line.is_empty());
        let named = steps.next().and_then(|line| line.strip_prefix("FROM "));
        let context = self.context_hashes.is_some_and(|hashes| !hashes.is_empty());
        match (named, steps.next()) {
            (Some(image), None) if !context => Ok(image.trim().to_owned()),
            _ => Err(Fault::invalid(
                "Sandshell does not build images; `sandshell image import` brings one to the hub",
            )),
        }
    }
}

/// Whether what stops is deleted; `None` when nothing is said.
pub(super) fn ephemeral(minutes: Option<i64>) -> Result<Option<bool>, Fault> {
    match minutes {
        None => Ok(None),
        Some(0) => Ok(Some(true)),
        Some(..0) => Ok(Some(false)),
        Some(_) => Err(Fault::invalid(
            "Sandshell deletes a sandbox when it stops (0) or not (-1), not some time later",
        )),
    }
}

fn network(
    block: Option<bool>,
    addresses: Option<&str>,
    domains: Option<&str>,
) -> Result<Option<NetworkSpec>, Fault> {
    if block == Some(true) {
        return Ok(Some(NetworkSpec {
            mode: NetworkMode::None,
            allow: Vec::new(),
        }));
    }
    let listed = |list: Option<&str>| -> Vec<String> {
        let names = list.unwrap_or_default().split(',').map(str::trim);
        let names = names.filter(|name| !name.is_empty());
        names.map(str::to_owned).collect()
    };
    let mut allow = listed(domains);
    for address in listed(addresses) {
        let (host, wide) = match address.split_once('/') {
            None | Some((_, "32" | "128")) => (address.split('/').next(), false),
            Some(_) => (None, true),
        };
        if wide {
            let message = format!("Only single addresses can be allowed, not {address}");
            return Err(Fault::invalid(message));
        }
        allow.extend(host.map(str::to_owned));
    }
    Ok((!allow.is_empty()).then_some(NetworkSpec {
        mode: NetworkMode::Allow,
        allow,
    }))
}

/// The state in their words.
pub(super) fn state(record: &SandboxRecord) -> &'static str {
    match record.state {
        SandboxState::Creating => "creating",
        // One that sleeps answers when it is called.
        SandboxState::Ready | SandboxState::Asleep => "started",
        SandboxState::Paused => "stopped",
        SandboxState::Destroying => "destroying",
        SandboxState::Gone => "destroyed",
        SandboxState::Failed => "error",
    }
}

pub(super) fn name(record: &SandboxRecord) -> &str {
    let named = record.spec.labels.get(NAME);
    named.map_or(record.id.as_str(), String::as_str)
}

/// Labels but for the one that is a name.
pub(super) fn labels(record: &SandboxRecord) -> BTreeMap<String, String> {
    let mut labels = record.spec.labels.clone();
    labels.remove(NAME);
    labels
}

pub(super) fn shown(record: &SandboxRecord, reached: &Reached) -> Value {
    let spec = &record.spec;
    let limits = spec.limits.clone().unwrap_or_default();
    let gib = |bytes: Option<u64>| bytes.map_or(0, |bytes| bytes.div_ceil(GIB));
    let all = || std::thread::available_parallelism().map_or(1, usize::from);
    let cpus = limits
        .cpus
        .map_or_else(|| json!(all()), |cpus| json!(cpus.ceil() as i64));
    let minutes = |ms: Option<u64>| ms.map_or(0, |ms| ms.div_ceil(MINUTE_MS));
    let mode = spec.network.as_ref().map(|network| network.mode);
    let strict = spec.isolation.as_ref().map(|isolation| isolation.policy);
    let best_effort = strict == Some(IsolationPolicy::BestEffort);
    let allowed = spec.network.as_ref().map(|network| network.allow.join(","));
    let mut sandbox = json!({
        "id": record.id,
        "organizationId": record.owner,
        "name": name(record),
        "user": spec.user.as_deref().unwrap_or(USER),
        "env": spec.env,
        "labels": labels(record),
        "public": false,
        "networkBlockAll": mode == Some(NetworkMode::None),
        "kvm": false,
        "target": if best_effort { BEST_EFFORT } else { "strict" },
        "cpu": cpus,
        "gpu": 0,
        "memory": gib(limits.memory_bytes),
        "disk": gib(limits.disk_bytes),
        "state": state(record),
        "recoverable": false,
        "autoStopInterval": minutes(spec.idle_timeout_ms),
        "autoDeleteInterval": if is_ephemeral(record) { 0 } else { -1 },
        "volumes": [],
        "createdAt": record.created_at,
        "updatedAt": record.last_used_at,
        "lastActivityAt": record.last_used_at,
        "toolboxProxyUrl": reached.toolbox(),
    });
    for (field, value) in [
        ("snapshot", spec.image.clone()),
        ("errorReason", record.reason.clone()),
        ("domainAllowList", allowed.filter(|list| !list.is_empty())),
        ("autoDestroyAt", record.expires_at.map(|at| at.to_string())),
    ] {
        if let Some(value) = value {
            sandbox[field] = value.into();
        }
    }
    sandbox
}

pub(super) fn is_ephemeral(record: &SandboxRecord) -> bool {
    record.spec.on_idle == Some(OnIdle::Destroy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(body: Value) -> Result<SandboxSpec, Fault> {
        serde_json::from_value::<Create>(body).unwrap().spec()
    }

    #[test]
    fn a_name_is_the_id_where_it_can_be() {
        let plain = spec(json!({"name": "box-1"})).unwrap();
        assert_eq!(plain.id.unwrap().as_str(), "box-1");
        assert!(plain.labels.is_empty());
        let other = spec(json!({"name": "My box"})).unwrap();
        assert_eq!(other.id, None);
        assert_eq!(other.labels[NAME], "My box");
    }

    #[test]
    fn times_are_minutes() {
        let some = spec(json!({"autoStopInterval": 2, "ttlMinutes": 3, "autoDeleteInterval": -1}));
        let some = some.unwrap();
        assert_eq!(some.idle_timeout_ms, Some(120_000));
        assert_eq!(some.max_lifetime_ms, Some(180_000));
        assert_eq!(some.on_idle, None);
        let never = spec(json!({"autoStopInterval": 0, "ttlMinutes": 0})).unwrap();
        assert_eq!((never.idle_timeout_ms, never.max_lifetime_ms), (None, None));
        let ephemeral = spec(json!({"autoDeleteInterval": 0})).unwrap();
        assert_eq!(ephemeral.on_idle, Some(OnIdle::Destroy));
        assert!(ephemeral.idle_timeout_ms.is_some());
    }

    #[test]
    fn what_cannot_be_had_is_refused() {
        for body in [
            json!({"volumes": [{"volumeId": "v", "mountPath": "/v"}]}),
            json!({"gpu": 1}),
            json!({"public": true}),
            json!({"autoDeleteInterval": 5}),
            json!({"networkAllowList": "10.0.0.0/8"}),
            json!({"buildInfo": {"dockerfileContent": "FROM a\nRUN b\n"}}),
        ] {
            assert!(spec(body.clone()).is_err(), "{body}");
        }
        let image = spec(json!({"buildInfo": {"dockerfileContent": "FROM debian\n"}})).unwrap();
        assert_eq!(image.image.as_deref(), Some("debian"));
        let network = spec(json!({"networkAllowList": "192.0.2.1/32", "domainAllowList": "a.org"}));
        let allow = network.unwrap().network.unwrap().allow;
        assert_eq!(allow, ["a.org", "192.0.2.1"]);
    }
}
