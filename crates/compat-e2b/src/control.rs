//! The control plane: making sandboxes, finding them, and their lives.
//!
//! - The time of a sandbox is its lifetime, and it is destroyed at the end of it. With `autoPause` it is an
//!   idle time instead: the sandbox is put to sleep, and the next request wakes it.
//! - A template is the image of its name. Those that every account has stand for the host's programs where
//!   there is no image of their name.

mod list;
mod record;

use std::collections::BTreeMap;

use axum::Router;
use axum::extract::{Extension, Path};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use sandshell_client::types::{
    ErrorCode, ImageName, NetworkMode, NetworkSpec, OnIdle, SandboxId, SandboxPatch, SandboxRecord,
    SandboxSpec, SandboxState,
};
use sandshell_client::{Client, ClientError};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::{Code, Fault};
use crate::json::Json;
use crate::{Settings, stats};

/// The time of a sandbox for which none is given, in seconds.
const USUAL: u64 = 300;

/// The longest time, in seconds: a year.
const LONGEST: u64 = 366 * 24 * 60 * 60;

/// Where commands start, and the home of whoever runs them.
const HOME: &str = "/home/user";

/// Templates that every account of theirs has.
const USUAL_TEMPLATES: [&str; 2] = ["base", "code-interpreter-v1"];

/// The label that holds the template.
const TEMPLATE: &str = "e2b/template";

/// The label of a sandbox whose ports are open to all who know their names.
const PUBLIC: &str = "e2b/public";

/// What that label says.
const OPEN: &str = "true";

/// What is answered for all that is not here.
const ABSENT: &str = "this service has no such thing: templates, snapshots, forks, volumes, secrets, \
                      teams, logs, and a network that changes are not served";

/// The hub that is asked, and how.
#[derive(Clone)]
pub(crate) struct Outside {
    pub(crate) hub: Client,
    pub(crate) settings: Settings,
}

/// Whether the ports of a sandbox with these labels are open to all who know their names.
#[must_use]
pub fn is_public(labels: &BTreeMap<String, String>) -> bool {
    labels.get(PUBLIC).is_some_and(|said| said == OPEN)
}

pub(crate) fn router() -> Router {
    let absent = || async { Fault::new(Code::Unimplemented, ABSENT) };
    Router::new()
        .route(
            "/",
            get(|| async { "Sandshell speaks the API of E2B here.\n" }),
        )
        .route("/health", get(|| async { "OK" }))
        .route("/sandboxes", get(list::running).post(create))
        .route("/v2/sandboxes", get(list::page).post(create))
        .route("/sandboxes/{id}", get(show).delete(kill))
        .route("/sandboxes/{id}/connect", post(connect))
        .route("/v2/sandboxes/{id}/connect", post(connect))
        .route("/sandboxes/{id}/resume", post(resume))
        .route("/sandboxes/{id}/pause", post(pause))
        .route("/sandboxes/{id}/timeout", post(timeout))
        .route("/sandboxes/{id}/refreshes", post(refresh))
        .route("/sandboxes/{id}/metrics", get(metrics))
        .route("/sandboxes/{id}/network", put(absent))
        .fallback(absent)
}

/// A failure of the hub.
fn outside(error: ClientError) -> Fault {
    match error {
        ClientError::Problem(problem) => Fault::outside(*problem),
        other => other.into(),
    }
}

/// The id of a path; one that cannot be an id is that of no sandbox.
fn id_of(text: &str) -> Result<SandboxId, Fault> {
    text.parse()
        .map_err(|_| Fault::not_found(format!("sandbox {text:?} not found")))
}

#[derive(Deserialize)]
struct Create {
    #[serde(rename = "templateID")]
    template_id: String,
    timeout: Option<u64>,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
    #[serde(default, rename = "envVars")]
    env_vars: BTreeMap<String, String>,
    #[serde(default, rename = "autoPause")]
    auto_pause: bool,
    allow_internet_access: Option<bool>,
    network: Option<Network>,
    #[serde(default, rename = "volumeMounts")]
    volume_mounts: Vec<Value>,
    mcp: Option<Value>,
    iam: Option<Value>,
}

#[derive(Deserialize)]
struct Network {
    #[serde(default, rename = "allowOut")]
    allow_out: Option<Vec<String>>,
    #[serde(default, rename = "denyOut")]
    deny_out: Option<Vec<String>>,
    #[serde(default, rename = "allowPublicTraffic")]
    allow_public_traffic: Option<bool>,
    rules: Option<Value>,
    #[serde(rename = "egressProxy")]
    egress_proxy: Option<Value>,
}

fn unserved(what: &str) -> Fault {
    Fault::invalid(format!("{what} is not served here"))
}

/// Everything unless it is denied, as theirs.
fn network(asked: &Create) -> Result<NetworkSpec, Fault> {
    const ALL: &str = "0.0.0.0/0";
    let of = |mode, allow| Ok(NetworkSpec { mode, allow });
    let closed = asked.allow_internet_access == Some(false);
    let Some(network) = &asked.network else {
        let mode = if closed {
            NetworkMode::None
        } else {
            NetworkMode::Full
        };
        return of(mode, Vec::new());
    };
    if network.rules.is_some() {
        return Err(unserved("network.rules"));
    }
    if network.egress_proxy.is_some() {
        return Err(unserved("network.egressProxy"));
    }
    let denied = network.deny_out.as_deref().unwrap_or_default();
    if let Some(part) = denied.iter().find(|one| *one != ALL) {
        let message = format!("of denyOut, {ALL} is served, and {part:?} is not");
        return Err(Fault::invalid(message));
    }
    let allowed = network.allow_out.as_deref().unwrap_or_default();
    match (closed || !denied.is_empty(), allowed) {
        (false, _) => of(NetworkMode::Full, Vec::new()),
        (true, []) => of(NetworkMode::None, Vec::new()),
        (true, hosts) => of(NetworkMode::Allow, hosts.to_vec()),
    }
}

fn seconds(timeout: Option<u64>) -> Result<u64, Fault> {
    match timeout.unwrap_or(USUAL) {
        0 => Err(Fault::invalid("a timeout is at least one second")),
        long if long > LONGEST => {
            let message = format!("a timeout is at most {LONGEST} seconds");
            Err(Fault::invalid(message))
        }
        seconds => Ok(seconds),
    }
}

/// The image of a template.
async fn image_of(hub: &Client, template: &str) -> Result<Option<String>, Fault> {
    let name = template.split(':').next().unwrap_or_default();
    let usual = USUAL_TEMPLATES.contains(&name);
    let missing = || {
        let message = format!("template {template:?} not found: it is the name of an image");
        Fault::not_found(message)
    };
    let name: ImageName = match name.parse() {
        Ok(name) => name,
        Err(_) => return Err(missing()),
    };
    match hub.image(&name).await {
        Ok(image) => Ok(Some(image.name.to_string())),
        Err(error) if error.code() == Some(ErrorCode::ImageNotFound) && usual => Ok(None),
        Err(error) if error.code() == Some(ErrorCode::ImageNotFound) => Err(missing()),
        Err(error) => Err(outside(error)),
    }
}

async fn create(
    Extension(asks): Extension<Outside>,
    headers: HeaderMap,
    Json(asked): Json<Create>,
) -> Result<Response, Fault> {
    if !asked.volume_mounts.is_empty() {
        return Err(unserved("volumeMounts"));
    }
    if asked.mcp.as_ref().is_some_and(|mcp| !mcp.is_null()) {
        return Err(unserved("mcp"));
    }
    if asked.iam.as_ref().is_some_and(|iam| !iam.is_null()) {
        return Err(unserved("iam"));
    }
    let milliseconds = seconds(asked.timeout)? * 1000;
    let network = network(&asked)?;
    let image = image_of(&asks.hub, &asked.template_id).await?;
    let public = asked
        .network
        .as_ref()
        .and_then(|network| network.allow_public_traffic);
    let mut labels = asked.metadata;
    if let Some(ours) = labels.keys().find(|name| name.starts_with("e2b/")) {
        return Err(Fault::invalid(format!("{ours:?} is not for metadata")));
    }
    if public == Some(true) {
        labels.insert(PUBLIC.to_owned(), OPEN.to_owned());
    }
    labels.insert(TEMPLATE.to_owned(), asked.template_id);
    let mut env = BTreeMap::from([("HOME".to_owned(), HOME.to_owned())]);
    env.extend(asked.env_vars);
    let spec = SandboxSpec {
        labels,
        image,
        env,
        cwd: Some(HOME.to_owned()),
        network: Some(network),
        idle_timeout_ms: asked.auto_pause.then_some(milliseconds),
        on_idle: asked.auto_pause.then_some(OnIdle::Sleep),
        max_lifetime_ms: (!asked.auto_pause).then_some(milliseconds),
        ..SandboxSpec::default()
    };
    let hub = match headers.get("idempotency-key").map(|key| key.to_str()) {
        Some(Ok(key)) => asks.hub.idempotent(key).map_err(outside)?,
        Some(Err(_)) => return Err(Fault::invalid("the idempotency key is no text")),
        None => asks.hub.clone(),
    };
    let made = hub.create_sandbox(&spec).await.map_err(outside)?;
    let body = record::connection(&made, &asks.settings);
    Ok((StatusCode::CREATED, axum::Json(body)).into_response())
}

/// A sandbox that is not over.
async fn live(hub: &Client, id: &str) -> Result<SandboxRecord, Fault> {
    let record = hub.get_sandbox(&id_of(id)?).await.map_err(outside)?;
    if record.state.is_over() {
        return Err(Fault::not_found(format!("sandbox {id:?} not found")));
    }
    Ok(record)
}

async fn show(
    Extension(asks): Extension<Outside>,
    Path(id): Path<String>,
) -> Result<Response, Fault> {
    let found = live(&asks.hub, &id).await?;
    Ok(axum::Json(record::detail(&found, &asks.settings)).into_response())
}

async fn kill(
    Extension(asks): Extension<Outside>,
    Path(id): Path<String>,
) -> Result<Response, Fault> {
    let found = live(&asks.hub, &id).await?;
    let ended = asks.hub.destroy_sandbox(&found.id).await;
    ended.map_err(outside)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

#[derive(Deserialize)]
struct Times {
    timeout: Option<u64>,
    duration: Option<u64>,
}

/// Lets a sandbox end so long from now; with `longer`, not sooner than it would.
async fn end_in(
    hub: &Client,
    record: &SandboxRecord,
    seconds: u64,
    longer: bool,
) -> Result<SandboxRecord, Fault> {
    let milliseconds = seconds * 1000;
    let mut patch = SandboxPatch::default();
    if let Some(idle) = record.spec.idle_timeout_ms {
        if longer && idle >= milliseconds {
            return Ok(record.clone());
        }
        patch.idle_timeout_ms = Some(milliseconds);
    } else {
        let now = Timestamp::now();
        let wanted = now + std::time::Duration::from_millis(milliseconds);
        if longer && record.expires_at.is_none_or(|end| end >= wanted) {
            return Ok(record.clone());
        }
        let lived = now.duration_since(record.created_at).as_millis();
        let lived = u64::try_from(lived).unwrap_or_default();
        patch.max_lifetime_ms = Some(lived + milliseconds);
    }
    hub.patch_sandbox(&record.id, &patch).await.map_err(outside)
}

async fn connect(
    Extension(asks): Extension<Outside>,
    Path(id): Path<String>,
    Json(asked): Json<Times>,
) -> Result<Response, Fault> {
    let record = live(&asks.hub, &id).await?;
    let paused = matches!(record.state, SandboxState::Paused | SandboxState::Asleep);
    let record = end_in(&asks.hub, &record, seconds(asked.timeout)?, true).await?;
    let record = match record.state {
        SandboxState::Paused => {
            let resumed = asks.hub.resume_sandbox(&record.id).await;
            resumed.map_err(outside)?
        }
        SandboxState::Asleep => {
            let woken = asks.hub.keep_sandbox_alive(&record.id).await;
            woken.map_err(outside)?
        }
        _ => record,
    };
    let status = if paused {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    let body = record::connection(&record, &asks.settings);
    Ok((status, axum::Json(body)).into_response())
}

async fn resume(
    Extension(asks): Extension<Outside>,
    Path(id): Path<String>,
    Json(asked): Json<Times>,
) -> Result<Response, Fault> {
    let record = live(&asks.hub, &id).await?;
    if record.state != SandboxState::Paused {
        let message = format!("sandbox {id:?} is running already");
        return Err(Fault::new(Code::AlreadyExists, message));
    }
    let record = end_in(&asks.hub, &record, seconds(asked.timeout)?, true).await?;
    let resumed = asks.hub.resume_sandbox(&record.id).await;
    let body = record::connection(&resumed.map_err(outside)?, &asks.settings);
    Ok((StatusCode::CREATED, axum::Json(body)).into_response())
}

async fn pause(
    Extension(asks): Extension<Outside>,
    Path(id): Path<String>,
    Json(_): Json<Value>,
) -> Result<Response, Fault> {
    let record = live(&asks.hub, &id).await?;
    if record.state == SandboxState::Paused {
        let message = format!("sandbox {id:?} is paused already");
        return Err(Fault::new(Code::AlreadyExists, message));
    }
    let paused = asks.hub.pause_sandbox(&record.id).await;
    paused.map_err(outside)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn timeout(
    Extension(asks): Extension<Outside>,
    Path(id): Path<String>,
    Json(asked): Json<Times>,
) -> Result<Response, Fault> {
    let given = asked
        .timeout
        .ok_or_else(|| Fault::invalid("there is no timeout"))?;
    let record = live(&asks.hub, &id).await?;
    if given == 0 {
        asks.hub
            .destroy_sandbox(&record.id)
            .await
            .map_err(outside)?;
    } else {
        end_in(&asks.hub, &record, seconds(Some(given))?, false).await?;
    }
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn refresh(
    Extension(asks): Extension<Outside>,
    Path(id): Path<String>,
    Json(asked): Json<Times>,
) -> Result<Response, Fault> {
    let record = live(&asks.hub, &id).await?;
    end_in(&asks.hub, &record, seconds(asked.duration)?, true).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn metrics(
    Extension(asks): Extension<Outside>,
    Path(id): Path<String>,
) -> Result<Response, Fault> {
    let record = live(&asks.hub, &id).await?;
    let stats = asks.hub.sandbox(&record.id).stats().await;
    let sample = stats::sample(&stats.map_err(outside)?);
    Ok(axum::Json(json!([sample])).into_response())
}
