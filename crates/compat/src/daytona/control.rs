//! The control plane: sandboxes and their lives.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Extension, Path, Query};
use http::StatusCode;
use sandshell_client::types::{
    ErrorCode, OnIdle, PreviewRequest, SandboxId, SandboxLimits, SandboxPatch, SandboxRecord,
    SandboxState,
};
use sandshell_client::{Client, SandboxFilter};
use serde::Deserialize;
use serde_json::{Value, json};

use super::body::Given;
use super::error::Fault;
use super::reach::Reached;
use super::record::{self, BEST_EFFORT, Create, NAME, shown};

const MINUTE_MS: u64 = 60_000;

/// How long a preview lasts that says nothing else: theirs last as long as the sandbox runs.
const PREVIEW_MS: u64 = 24 * 60 * MINUTE_MS;

/// The default of a signed preview in theirs.
const SIGNED_PREVIEW_S: u64 = 60;

type Shown = Result<Json<Value>, Fault>;

#[derive(Deserialize)]
pub(super) struct Of {
    id: String,
}

#[derive(Deserialize)]
pub(super) struct Numbered {
    id: String,
    number: i64,
}

impl Numbered {
    /// Minutes in milliseconds.
    fn ms(&self) -> Result<u64, Fault> {
        let minutes = u64::try_from(self.number)
            .map_err(|_| Fault::invalid(format!("{} is not a number of minutes", self.number)))?;
        Ok(minutes.saturating_mul(MINUTE_MS))
    }
}

#[derive(Deserialize)]
pub(super) struct Port {
    id: String,
    port: u32,
}

impl Port {
    fn number(&self) -> Result<u16, Fault> {
        let port = u16::try_from(self.port).ok().filter(|port| *port > 0);
        port.ok_or_else(|| Fault::invalid(format!("{} is not a port", self.port)))
    }
}

fn missing(text: &str) -> Fault {
    Fault::missing(format!("Sandbox with ID or name {text} not found"))
}

/// The sandbox with this id or name, unless it was destroyed.
async fn find(hub: &Client, text: &str) -> Result<SandboxRecord, Fault> {
    let Ok(id) = text.parse::<SandboxId>() else {
        return named(hub, text).await?.ok_or_else(|| missing(text));
    };
    match hub.get_sandbox(&id).await {
        Ok(record) if record.state == SandboxState::Gone => Err(missing(text)),
        Err(error) if matches!(error.status(), Some(404 | 410)) => Err(missing(text)),
        other => Ok(other?),
    }
}

/// The sandbox with a name that is not an id.
async fn named(hub: &Client, name: &str) -> Result<Option<SandboxRecord>, Fault> {
    let filter = SandboxFilter {
        labels: vec![(NAME.to_owned(), name.to_owned())],
        ..SandboxFilter::default()
    };
    let mut found = hub.sandboxes(&filter).await?.items;
    Ok((!found.is_empty()).then(|| found.swap_remove(0)))
}

pub(super) async fn create(
    Extension(hub): Extension<Client>,
    reached: Reached,
    Given(asked): Given<Create>,
) -> Shown {
    if let Some(name) = &asked.name
        && find(&hub, name).await.is_ok()
    {
        let message = format!("Sandbox with name {name} already exists");
        return Err(Fault::conflict(message));
    }
    let made = hub.create_sandbox(&asked.spec()?).await;
    let record = made.map_err(|error| match error.problem() {
        Some(problem) if problem.code == ErrorCode::IsolationUnavailable => Fault::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "UNPROCESSABLE_ENTITY",
            format!(
                "{}. The target {BEST_EFFORT:?} does without it",
                problem.detail
            ),
        ),
        _ => error.into(),
    })?;
    Ok(Json(shown(&record, &reached)))
}

pub(super) async fn get(
    Extension(hub): Extension<Client>,
    Path(of): Path<Of>,
    reached: Reached,
) -> Shown {
    Ok(Json(shown(&find(&hub, &of.id).await?, &reached)))
}

pub(super) async fn delete(
    Extension(hub): Extension<Client>,
    Path(of): Path<Of>,
    reached: Reached,
) -> Shown {
    let record = find(&hub, &of.id).await?;
    let record = hub.destroy_sandbox(&record.id).await?;
    Ok(Json(shown(&record, &reached)))
}

/// Parameters of a list that are honoured. Others would change what is in it.
#[derive(Default)]
struct Filter {
    id: String,
    name: String,
    states: Vec<String>,
    ours: SandboxFilter,
}

impl Filter {
    fn of(parameters: Vec<(String, String)>) -> Result<Self, Fault> {
        let mut filter = Self::default();
        for (name, value) in parameters {
            match name.as_str() {
                "id" => filter.id = value.to_lowercase(),
                "name" => filter.name = value.to_lowercase(),
                "states" => filter.states.extend(value.split(',').map(str::to_owned)),
                "cursor" => filter.ours.page.cursor = Some(value),
                "limit" => {
                    let limit = value.parse().ok().filter(|limit| *limit > 0);
                    let wrong = || Fault::invalid(format!("{value:?} is not a limit"));
                    filter.ours.page.limit = Some(limit.ok_or_else(wrong)?);
                }
                "labels" => {
                    let labels: BTreeMap<String, String> = serde_json::from_str(&value)
                        .map_err(|_| Fault::invalid("labels is not a JSON object of texts"))?;
                    filter.ours.labels = labels.into_iter().collect();
                }
                other => {
                    let message = format!("Sandshell does not filter or sort by {other:?}");
                    return Err(Fault::invalid(message));
                }
            }
        }
        let over = |state: &String| matches!(state.as_str(), "error" | "destroyed");
        if filter.states.iter().any(over) {
            filter.ours.state = Some("all".to_owned());
        }
        Ok(filter)
    }

    fn takes(&self, record: &SandboxRecord) -> bool {
        let begins = |text: &str, with: &str| text.to_lowercase().starts_with(with);
        let state = record::state(record);
        begins(record.id.as_str(), &self.id)
            && begins(record::name(record), &self.name)
            && (self.states.is_empty() || self.states.iter().any(|wanted| wanted == state))
    }
}

pub(super) async fn list(
    Extension(hub): Extension<Client>,
    Query(parameters): Query<Vec<(String, String)>>,
    reached: Reached,
) -> Shown {
    let filter = Filter::of(parameters)?;
    let page = hub.sandboxes(&filter.ours).await?;
    let taken = page.items.iter().filter(|record| filter.takes(record));
    let items: Vec<Value> = taken.map(|record| shown(record, &reached)).collect();
    Ok(Json(
        json!({"items": items, "nextCursor": page.next_cursor}),
    ))
}

pub(super) async fn start(
    Extension(hub): Extension<Client>,
    Path(of): Path<Of>,
    reached: Reached,
) -> Shown {
    let mut record = find(&hub, &of.id).await?;
    if record.state == SandboxState::Paused {
        record = hub.resume_sandbox(&record.id).await?;
    }
    Ok(Json(shown(&record, &reached)))
}

/// Freezes a sandbox; one that is not to outlive its stop is destroyed.
pub(super) async fn stop(
    Extension(hub): Extension<Client>,
    Path(of): Path<Of>,
    reached: Reached,
) -> Shown {
    let record = find(&hub, &of.id).await?;
    let record = if record::is_ephemeral(&record) {
        hub.destroy_sandbox(&record.id).await?
    } else {
        hub.pause_sandbox(&record.id).await?
    };
    Ok(Json(shown(&record, &reached)))
}

#[derive(Deserialize)]
pub(super) struct Resize {
    cpu: Option<u32>,
    memory: Option<u64>,
    disk: Option<u64>,
}

pub(super) async fn resize(
    Extension(hub): Extension<Client>,
    Path(of): Path<Of>,
    reached: Reached,
    Given(asked): Given<Resize>,
) -> Shown {
    if asked.disk.is_some() {
        return Err(Fault::invalid(
            "The size of a disk holds from its making on",
        ));
    }
    let limits = SandboxLimits {
        cpus: asked.cpu.map(f64::from),
        memory_bytes: asked.memory.map(|gib| gib.saturating_mul(1 << 30)),
        ..SandboxLimits::default()
    };
    let patch = SandboxPatch {
        limits: Some(limits),
        ..SandboxPatch::default()
    };
    changed(&hub, &of.id, &patch, &reached).await
}

async fn changed(hub: &Client, id: &str, patch: &SandboxPatch, reached: &Reached) -> Shown {
    let record = find(hub, id).await?;
    let record = hub.patch_sandbox(&record.id, patch).await?;
    Ok(Json(shown(&record, reached)))
}

#[derive(Deserialize)]
pub(super) struct Labels {
    labels: BTreeMap<String, String>,
}

/// Puts these labels in the place of all there were.
pub(super) async fn labels(
    Extension(hub): Extension<Client>,
    Path(of): Path<Of>,
    Given(asked): Given<Labels>,
) -> Shown {
    let record = find(&hub, &of.id).await?;
    let gone = record::labels(&record).into_keys().map(|key| (key, None));
    let mut labels: BTreeMap<String, Option<String>> = gone.collect();
    labels.extend(
        asked
            .labels
            .into_iter()
            .map(|(key, value)| (key, Some(value))),
    );
    labels.remove(NAME);
    let patch = SandboxPatch {
        labels,
        ..SandboxPatch::default()
    };
    let record = hub.patch_sandbox(&record.id, &patch).await?;
    Ok(Json(json!({"labels": record::labels(&record)})))
}

pub(super) async fn autostop(
    Extension(hub): Extension<Client>,
    Path(asked): Path<Numbered>,
    reached: Reached,
) -> Shown {
    let patch = SandboxPatch {
        idle_timeout_ms: Some(asked.ms()?),
        ..SandboxPatch::default()
    };
    changed(&hub, &asked.id, &patch, &reached).await
}

pub(super) async fn autodelete(
    Extension(hub): Extension<Client>,
    Path(asked): Path<Numbered>,
    reached: Reached,
) -> Shown {
    let on_idle = record::ephemeral(Some(asked.number))?.map(|ephemeral| {
        if ephemeral {
            OnIdle::Destroy
        } else {
            OnIdle::Sleep
        }
    });
    let patch = SandboxPatch {
        on_idle,
        ..SandboxPatch::default()
    };
    changed(&hub, &asked.id, &patch, &reached).await
}

pub(super) async fn lifetime(
    Extension(hub): Extension<Client>,
    Path(asked): Path<Numbered>,
    reached: Reached,
) -> Shown {
    let patch = SandboxPatch {
        max_lifetime_ms: Some(asked.ms()?),
        ..SandboxPatch::default()
    };
    changed(&hub, &asked.id, &patch, &reached).await
}

pub(super) async fn keep_alive(
    Extension(hub): Extension<Client>,
    Path(of): Path<Of>,
) -> Result<StatusCode, Fault> {
    let record = find(&hub, &of.id).await?;
    hub.keep_sandbox_alive(&record.id).await?;
    Ok(StatusCode::OK)
}

pub(super) async fn toolbox_url(
    Extension(hub): Extension<Client>,
    Path(of): Path<Of>,
    reached: Reached,
) -> Shown {
    find(&hub, &of.id).await?;
    Ok(Json(json!({"url": reached.toolbox()})))
}

/// A name for a port, and what in it is the right to use it.
async fn name(
    hub: &Client,
    id: &SandboxId,
    port: u16,
    ttl_ms: u64,
) -> Result<(String, String), sandshell_client::ClientError> {
    let request = PreviewRequest {
        ttl_ms: Some(ttl_ms),
    };
    let preview = hub.create_preview(id, port, &request).await?;
    let url = preview.url.trim_end_matches('/').to_owned();
    let label = url.split('.').next().unwrap_or_default();
    let token = label.rsplit('-').next().unwrap_or_default().to_owned();
    Ok((url, token))
}

/// The address of a port: a name of its own where the hub has a domain for them, else a path with a token.
pub(super) async fn preview(
    Extension(hub): Extension<Client>,
    Path(asked): Path<Port>,
    reached: Reached,
) -> Shown {
    let port = asked.number()?;
    let id = find(&hub, &asked.id).await?.id;
    let (url, token) = match name(&hub, &id, port, PREVIEW_MS).await {
        Err(error) if error.code() == Some(ErrorCode::Forbidden) => {
            let exposed = hub.sandbox(&id).expose_port(port).await?;
            let path = format!("/v1/sandboxes/{id}/ports/{port}/proxy/");
            let url = format!("{}?port_token={}", reached.at(&path), exposed.token);
            (url, exposed.token)
        }
        other => other?,
    };
    Ok(Json(json!({"sandboxId": id, "url": url, "token": token})))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Expiry {
    expires_in_seconds: Option<u64>,
}

pub(super) async fn signed_preview(
    Extension(hub): Extension<Client>,
    Path(asked): Path<Port>,
    Query(expiry): Query<Expiry>,
) -> Shown {
    let port = asked.number()?;
    let id = find(&hub, &asked.id).await?.id;
    let seconds = expiry.expires_in_seconds.unwrap_or(SIGNED_PREVIEW_S);
    let (url, token) = name(&hub, &id, port, seconds.saturating_mul(1000)).await?;
    Ok(Json(json!({
        "sandboxId": id,
        "port": port,
        "token": token,
        "url": url,
    })))
}

/// Takes the names of a port away: all of them, as they have one key.
pub(super) async fn expire_preview(
    Extension(hub): Extension<Client>,
    Path(asked): Path<Port>,
) -> Result<StatusCode, Fault> {
    let port = asked.number()?;
    let id = find(&hub, &asked.id).await?.id;
    hub.revoke_previews(&id, port).await?;
    Ok(StatusCode::OK)
}

/// What a client may ask about the service as a whole.
pub(super) async fn config(reached: Reached) -> Json<Value> {
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "oidc": {"issuer": "", "clientId": "", "audience": "", "provider": "none"},
        "linkedAccountsEnabled": false,
        "announcements": {},
        "proxyTemplateUrl": "",
        "proxyToolboxUrl": reached.toolbox(),
        "defaultSnapshot": "",
        "dashboardUrl": "",
        "maxAutoArchiveInterval": 0,
        "maintananceMode": false,
        "environment": "sandshell",
    }))
}
