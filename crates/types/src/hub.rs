//! The hub's words: sandboxes and their lives, tokens, and the audit log.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};

use crate::object;
use crate::{Layer, Protection, Timestamp};

/// Why a string is not the id of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SandboxIdError {
    /// The string has no characters.
    #[error("the id of a sandbox must have at least one character")]
    Empty,
    /// The string is longer than 40 characters.
    #[error("the id of a sandbox has at most 40 characters, this one has {0}")]
    TooLong(usize),
    /// A character outside the allowed set, or a hyphen at an end.
    #[error(
        "the id of a sandbox is made of lower-case letters, digits and inner hyphens; found {0:?}"
    )]
    BadCharacter(char),
}

/// The id of a sandbox. It is a DNS label, so that it can stand in the name of a preview.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schema(value_type = String, pattern = "^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$")]
pub struct SandboxId(String);

impl SandboxId {
    /// Most characters of an id.
    pub const LONGEST: usize = 40;

    /// A fresh id that no one else has.
    pub fn generate() -> Self {
        Self(format!("sb-{}", uuid::Uuid::now_v7().simple()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn check(id: &str) -> Result<(), SandboxIdError> {
        if id.is_empty() {
            return Err(SandboxIdError::Empty);
        }
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if let Some(bad) = id.chars().find(|c| !allowed(*c)) {
            return Err(SandboxIdError::BadCharacter(bad));
        }
        if id.starts_with('-') || id.ends_with('-') {
            return Err(SandboxIdError::BadCharacter('-'));
        }
        if id.len() > Self::LONGEST {
            return Err(SandboxIdError::TooLong(id.len()));
        }
        Ok(())
    }
}

impl FromStr for SandboxId {
    type Err = SandboxIdError;
    fn from_str(text: &str) -> Result<Self, SandboxIdError> {
        Self::check(text).map(|()| Self(text.to_owned()))
    }
}

impl TryFrom<String> for SandboxId {
    type Error = SandboxIdError;
    fn try_from(text: String) -> Result<Self, SandboxIdError> {
        Self::check(&text).map(|()| Self(text))
    }
}

impl From<SandboxId> for String {
    fn from(id: SandboxId) -> String {
        id.0
    }
}

impl Borrow<str> for SandboxId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SandboxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `POST /v1/sandboxes`: what a sandbox is to be. Everything may be left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"id": "build-1", "labels": {"team": "web"}, "idle_timeout_ms": 600_000}))]
pub struct SandboxSpec {
    /// An id of your choice, which makes the call safe to send again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<SandboxId>,
    /// Words to find it by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The root file system; the host's programs by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Environment of every command.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Where commands start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Who commands run as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// What it may use.
    #[serde(
        default,
        deserialize_with = "object::or_null",
        skip_serializing_if = "Option::is_none"
    )]
    pub limits: Option<SandboxLimits>,
    /// What it may reach.
    #[serde(
        default,
        deserialize_with = "object::or_null",
        skip_serializing_if = "Option::is_none"
    )]
    pub network: Option<NetworkSpec>,
    /// Headers that are added on the way out, so that secrets never enter the sandbox.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<SecretSpec>,
    /// How well it must be isolated.
    #[serde(
        default,
        deserialize_with = "object::or_null",
        skip_serializing_if = "Option::is_none"
    )]
    pub isolation: Option<IsolationSpec>,
    /// After this long without a request `on_idle` happens. Never by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub idle_timeout_ms: Option<u64>,
    /// What happens to an idle sandbox; `sleep` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_idle: Option<OnIdle>,
    /// After this long it is destroyed, idle or not. Never by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_lifetime_ms: Option<u64>,
}

/// Limits of a whole sandbox.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SandboxLimits {
    /// Memory of all its commands together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub memory_bytes: Option<u64>,
    /// Processors, such as 0.5 or 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// Processes and threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub pids: Option<u64>,
    /// Bytes it may write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub disk_bytes: Option<u64>,
    /// Files it may make.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub inodes: Option<u64>,
    /// Files each of its processes may have open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub open_files: Option<u64>,
}

impl SandboxLimits {
    /// These, and of `others` what they leave out.
    #[must_use]
    pub fn or(&self, others: &Self) -> Self {
        Self {
            memory_bytes: self.memory_bytes.or(others.memory_bytes),
            cpus: self.cpus.or(others.cpus),
            pids: self.pids.or(others.pids),
            disk_bytes: self.disk_bytes.or(others.disk_bytes),
            inodes: self.inodes.or(others.inodes),
            open_files: self.open_files.or(others.open_files),
        }
    }
}

/// What a sandbox may reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NetworkSpec {
    /// Nothing, a list, or everything.
    pub mode: NetworkMode,
    /// With `allow`: the hosts, such as `pypi.org` or `*.example.org` (the names below it, not itself),
    /// each with an optional `:port`; without one 80 and 443. A public address stands for itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
}

/// How much of the network there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NetworkMode {
    /// Loopback only.
    None,
    /// The hosts of the list.
    Allow,
    /// All that the machine reaches.
    Full,
}

/// A header that the egress proxy puts into requests for a host, in place of what the sandbox sends
/// under its name, so that its value never enters the sandbox.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretSpec {
    /// The host.
    pub host: String,
    /// The name of the header.
    pub header: String,
    /// Its value; needed in a request, and never in a reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

impl fmt::Debug for SecretSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretSpec")
            .field("host", &self.host)
            .field("header", &self.header)
            .finish_non_exhaustive()
    }
}

/// How well a sandbox must be isolated.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct IsolationSpec {
    /// What is done about a protection that is off.
    #[serde(default)]
    pub policy: IsolationPolicy,
    /// Protections that must be enforced, whatever the policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub require: Vec<Layer>,
}

/// What is done about a protection that is off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum IsolationPolicy {
    /// There is no sandbox then.
    #[default]
    Strict,
    /// There is one, and its record says what is off.
    BestEffort,
}

/// What happens to an idle sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnIdle {
    /// It is frozen until the next request.
    #[default]
    Sleep,
    /// It is destroyed.
    Destroy,
}

/// Where a sandbox is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SandboxState {
    /// It is being made.
    Creating,
    /// It answers.
    Ready,
    /// It is frozen until a resume.
    Paused,
    /// It is frozen until the next request.
    Asleep,
    /// It is being ended.
    Destroying,
    /// It was destroyed; the reason says why.
    Gone,
    /// It died by itself; the reason says of what.
    Failed,
}

impl SandboxState {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::Creating,
        Self::Ready,
        Self::Paused,
        Self::Asleep,
        Self::Destroying,
        Self::Gone,
        Self::Failed,
    ];

    /// Its name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Creating => "creating",
            Self::Ready => "ready",
            Self::Paused => "paused",
            Self::Asleep => "asleep",
            Self::Destroying => "destroying",
            Self::Gone => "gone",
            Self::Failed => "failed",
        }
    }

    /// Whether it is over.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Gone | Self::Failed)
    }
}

/// A sandbox as the hub knows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SandboxRecord {
    /// Its id.
    pub id: SandboxId,
    /// Where it is in its life.
    pub state: SandboxState,
    /// Why it is no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The id of the token that made it.
    pub owner: String,
    /// What it is to be, without the id and the values of secrets.
    #[serde(flatten)]
    pub spec: SandboxSpec,
    /// What became of each layer of isolation.
    pub protections: Vec<Protection>,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When it last had a request, as far as this hub has seen.
    #[schema(value_type = String, format = DateTime)]
    pub last_used_at: Timestamp,
    /// When its lifetime ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<Timestamp>,
}

/// `PATCH /v1/sandboxes/{sandbox}`: what is left out stays; null means nothing but in `labels`, and is refused.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"labels": {"team": "web", "old": null}, "idle_timeout_ms": 60_000}))]
pub struct SandboxPatch {
    /// Labels to set; `null` removes one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, Option<String>>)]
    pub labels: BTreeMap<String, Option<String>>,
    /// The time without a request after which `on_idle` happens; 0 for never.
    #[serde(
        default,
        deserialize_with = "object::not_null",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false)]
    pub idle_timeout_ms: Option<u64>,
    /// What happens to it when idle.
    #[serde(
        default,
        deserialize_with = "object::not_null",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false)]
    pub on_idle: Option<OnIdle>,
    /// The time since its making after which it is destroyed; 0 for never.
    #[serde(
        default,
        deserialize_with = "object::not_null",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false)]
    pub max_lifetime_ms: Option<u64>,
    /// Limits to change while it runs: `memory_bytes`, `cpus` and `pids`. The others hold from its making
    /// to its end.
    #[serde(
        default,
        deserialize_with = "given_limits",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false)]
    pub limits: Option<SandboxLimits>,
}

/// Limits of a change, where null is refused.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenLimits {
    #[serde(default, deserialize_with = "object::not_null")]
    memory_bytes: Option<u64>,
    #[serde(default, deserialize_with = "object::not_null")]
    cpus: Option<f64>,
    #[serde(default, deserialize_with = "object::not_null")]
    pids: Option<u64>,
    #[serde(default, deserialize_with = "object::not_null")]
    disk_bytes: Option<u64>,
    #[serde(default, deserialize_with = "object::not_null")]
    inodes: Option<u64>,
    #[serde(default, deserialize_with = "object::not_null")]
    open_files: Option<u64>,
}

fn given_limits<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SandboxLimits>, D::Error> {
    let given: Option<GivenLimits> = object::only(from)?;
    Ok(given.map(|given| SandboxLimits {
        memory_bytes: given.memory_bytes,
        cpus: given.cpus,
        pids: given.pids,
        disk_bytes: given.disk_bytes,
        inodes: given.inodes,
        open_files: given.open_files,
    }))
}

/// `POST /v1/sandboxes/{sandbox}/ports/{port}/preview`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"ttl_ms": 3_600_000}))]
pub struct PreviewRequest {
    /// How long the name opens the port; an hour by default, a year at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 31_536_000_000_u64)]
    pub ttl_ms: Option<u64>,
}

/// A name under which a port can be reached without a token.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Preview {
    /// The TCP port.
    pub port: u16,
    /// Whoever has it reaches the port, and nothing else.
    pub url: String,
    /// From then on it opens nothing.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
}

impl fmt::Debug for Preview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Preview")
            .field("port", &self.port)
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}

/// What a token opens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Scope {
    /// Everything.
    Admin,
    /// Making sandboxes, and everything with those it made.
    Create,
    /// The use of one sandbox, but not its end.
    Sandbox(SandboxId),
}

impl TryFrom<String> for Scope {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "admin" => Ok(Self::Admin),
            "create" => Ok(Self::Create),
            other => other
                .strip_prefix("sandbox:")
                .ok_or_else(|| format!("a scope is admin, create or sandbox:ID, not {other:?}"))?
                .parse()
                .map(Self::Sandbox)
                .map_err(|error: SandboxIdError| error.to_string()),
        }
    }
}

impl From<Scope> for String {
    fn from(scope: Scope) -> String {
        match scope {
            Scope::Admin => "admin".to_owned(),
            Scope::Create => "create".to_owned(),
            Scope::Sandbox(id) => format!("sandbox:{id}"),
        }
    }
}

/// `POST /v1/tokens`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"name": "ci", "scopes": ["create"], "max_sandboxes": 10}))]
pub struct TokenRequest {
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it opens: `admin`, `create` or `sandbox:ID`; at least one.
    #[schema(value_type = Vec<String>, min_items = 1)]
    pub scopes: Vec<Scope>,
    /// From then on it opens nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    /// Most sandboxes it may have at a time; the hub's own limit by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_sandboxes: Option<u32>,
}

/// A token as the hub knows it; the secret itself is kept nowhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TokenRecord {
    /// Its id, which is no secret.
    #[schema(example = "tok_0192f0c1d2e3")]
    pub id: String,
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it opens: `admin`, `create` or `sandbox:ID`.
    #[schema(value_type = Vec<String>)]
    pub scopes: Vec<Scope>,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// From then on it opens nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub revoked_at: Option<Timestamp>,
    /// Most sandboxes it may have at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_sandboxes: Option<u32>,
}

/// Answer to `POST /v1/tokens`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TokenCreated {
    /// The record.
    #[serde(flatten)]
    pub record: TokenRecord,
    /// The token, shown this once.
    pub token: String,
}

impl fmt::Debug for TokenCreated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenCreated")
            .field("record", &self.record)
            .finish_non_exhaustive()
    }
}

/// Something that was done, or refused, and by whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AuditEntry {
    /// Its number; later ones are higher.
    pub id: u64,
    /// When.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// What was done, such as `sandbox.create`.
    #[schema(example = "sandbox.create")]
    pub action: String,
    /// The token that asked; left out when the hub did it by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The sandbox or token it was done to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// `ok`, or the code of the problem.
    pub outcome: String,
    /// What else there is to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The id of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_dns_labels() {
        let long = "a".repeat(40);
        for good in ["a", "a-b", "0", &long, SandboxId::generate().as_str()] {
            assert!(good.parse::<SandboxId>().is_ok(), "{good}");
        }
        let longer = "a".repeat(41);
        for bad in ["", "-a", "a-", "A", "a.b", "a_b", "é", &longer] {
            assert!(bad.parse::<SandboxId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_record_is_flat_and_reads_back() {
        let record = SandboxRecord {
            id: SandboxId::generate(),
            state: SandboxState::Ready,
            reason: None,
            owner: "tok_1".to_owned(),
            spec: SandboxSpec {
                idle_timeout_ms: Some(5),
                ..SandboxSpec::default()
            },
            protections: Vec::new(),
            created_at: Timestamp::UNIX_EPOCH,
            last_used_at: Timestamp::UNIX_EPOCH,
            expires_at: None,
            ended_at: None,
        };
        let value = serde_json::to_value(&record).unwrap();
        assert_eq!(value["idle_timeout_ms"], 5);
        assert_eq!(value["id"], record.id.as_str());
        assert_eq!(
            serde_json::from_value::<SandboxRecord>(value).unwrap(),
            record
        );
    }

    #[test]
    fn scopes_are_words() {
        for text in ["admin", "create", "sandbox:a-1"] {
            let scope: Scope = serde_json::from_value(text.into()).unwrap();
            assert_eq!(serde_json::to_value(scope).unwrap(), text);
        }
        for text in ["", "Admin", "sandbox:", "sandbox:A"] {
            assert!(
                serde_json::from_value::<Scope>(text.into()).is_err(),
                "{text}"
            );
        }
    }

    #[test]
    fn secrets_do_not_show_themselves() {
        let secret = SecretSpec {
            host: "h".to_owned(),
            header: "x".to_owned(),
            value: Some("hidden".to_owned()),
        };
        assert!(!format!("{secret:?}").contains("hidden"));
    }
}
