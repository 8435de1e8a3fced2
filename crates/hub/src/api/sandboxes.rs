//! `/v1/sandboxes`: their making, finding and ending.

use axum::extract::{Extension, State};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use sandshell_agent::parts::{ApiError, Json, OptionalJson, Path, Query};
use sandshell_sys::task;
use sandshell_types::{
    ErrorCode, IsolationPolicy, IsolationSpec, List, SandboxId, SandboxPatch, SandboxRecord,
    SandboxSpec, SandboxState,
};
use sha2::{Digest as _, Sha256};

use super::document::{CreateProblems, ReadProblems, SandboxChangeProblems, SandboxPatchProblems};
use super::{HubState, Nothing, WithBy, WithToken, validate};
use crate::edge::GivenKey;
use crate::error::HubError;
use crate::registry::Found;
use crate::sandbox::Sandbox;
use crate::tokens::Token;

const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 1000;

/// Make a sandbox.
///
/// The answer comes when it takes commands. With an `id`, a second call with the same spec gives the
/// same sandbox (200), one with another spec is refused (409, naming the field), and of many at once
/// one makes it. With `isolation.policy` `strict`, the default, a protection that would be off makes
/// no sandbox.
#[utoipa::path(
    post, path = "/v1/sandboxes", operation_id = "create_sandbox", tag = "sandboxes",
    request_body(content = Option<SandboxSpec>, description = "What it is to be; may be left out.",
        example = json!({"id": "build-1", "labels": {"team": "web"}, "idle_timeout_ms": 600_000})),
    responses(
        (status = 201, description = "It was made.", body = SandboxRecord, example = json!({
            "id": "build-1", "state": "ready", "owner": "tok_admin", "labels": {"team": "web"},
            "protections": [{"name": "seccomp", "status": "enforced"}],
            "created_at": "2026-01-01T00:00:00Z", "last_used_at": "2026-01-01T00:00:00Z"
        })),
        (status = 200, description = "It was there.", body = SandboxRecord),
        CreateProblems,
    )
)]
pub(crate) async fn create(
    State(hub): HubState,
    Extension(token): WithToken,
    Extension(by): WithBy,
    key: Option<Extension<GivenKey>>,
    OptionalJson(mut spec): OptionalJson<SandboxSpec>,
) -> Result<Response, ApiError> {
    if !token.may_create() {
        return Err(forbidden("this token may not make sandboxes"));
    }
    validate::spec(&spec)?;
    if spec.isolation.is_none() && hub.isolation != IsolationPolicy::default() {
        spec.isolation = Some(IsolationSpec {
            policy: hub.isolation,
            ..IsolationSpec::default()
        });
    }
    if let (None, Some(Extension(GivenKey(key)))) = (&spec.id, key) {
        // So that a retry finds the same sandbox, even at a hub that was killed in between.
        spec.id = Some(id_of_key(&token, &key)?);
    }
    // The client may go away: what was begun is finished.
    let registry = std::sync::Arc::clone(&hub.registry);
    let work = async move { registry.create(&spec, &token, by).await };
    let (sandbox, now) = task::spawn(work)
        .await
        .map_err(|error| ApiError::internal("a task of the hub failed", &error))??;
    let status = if now {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok((status, axum::Json(sandbox.record())).into_response())
}

/// The id of a sandbox that was asked for with a key and no id.
fn id_of_key(token: &Token, key: &str) -> Result<SandboxId, ApiError> {
    let digest = Sha256::digest(format!("{} {key}", token.id()));
    let short = digest.get(..12).unwrap_or_default();
    format!("sb-{}", crate::hex(short))
        .parse()
        .map_err(|error| ApiError::internal("an id cannot be made", &error))
}

/// Query of the list.
#[derive(Debug, Default)]
struct ListQuery {
    limit: Option<usize>,
    cursor: Option<String>,
    labels: Vec<(String, String)>,
    states: Vec<SandboxState>,
    all: bool,
}

impl ListQuery {
    fn read(pairs: Vec<(String, String)>) -> Result<Self, HubError> {
        let mut query = Self::default();
        for (name, value) in pairs {
            match name.as_str() {
                "limit" => {
                    let limit = value.parse().ok();
                    let limit = limit.filter(|limit| (1..=MAX_LIMIT).contains(limit));
                    query.limit = Some(limit.ok_or_else(|| {
                        let detail = format!("a page has 1 to {MAX_LIMIT} items, not {value:?}");
                        HubError::invalid("/limit", detail)
                    })?);
                }
                "cursor" => query.cursor = Some(value),
                "label" => {
                    let (key, label) = value.split_once('=').ok_or_else(|| {
                        HubError::invalid("/label", "a label filter has the form KEY=VALUE")
                    })?;
                    query.labels.push((key.to_owned(), label.to_owned()));
                }
                "state" if value == "all" => query.all = true,
                "state" => {
                    let all = SandboxState::ALL.iter();
                    let state = all.copied().find(|state| state.name() == value);
                    query.states.push(state.ok_or_else(|| {
                        let detail = format!("there is no state {value:?}");
                        HubError::invalid("/state", detail)
                            .hint("States are creating, ready, paused, asleep, destroying, gone, failed; or all.")
                    })?);
                }
                other => {
                    let detail = format!("the query is not valid: unknown parameter {other:?}");
                    return Err(HubError::invalid(format!("/{other}"), detail));
                }
            }
        }
        Ok(query)
    }

    fn wants(&self, record: &SandboxRecord) -> bool {
        let labelled = |(key, value): &(String, String)| record.spec.labels.get(key) == Some(value);
        let state = self.all
            || if self.states.is_empty() {
                !record.state.is_over()
            } else {
                self.states.contains(&record.state)
            };
        state && self.labels.iter().all(labelled)
    }
}

/// List sandboxes.
///
/// Those that the token may use, oldest first. Sandboxes that are over are listed only when their
/// `state` is asked for.
#[utoipa::path(
    get, path = "/v1/sandboxes", operation_id = "list_sandboxes", tag = "sandboxes",
    params(
        ("limit" = Option<usize>, Query, description = "Most items in the page: 1 to 1000, 100 by default.",
            minimum = 1, maximum = 1000),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before."),
        ("label" = Option<String>, Query, description = "`KEY=VALUE`; may be given again, and all must hold."),
        ("state" = Option<String>, Query,
            description = "A state, or `all`; may be given again. What is not over, by default."),
    ),
    responses(
        (status = 200, description = "A page.", body = List<SandboxRecord>, example = json!({"items": [{
            "id": "build-1", "state": "ready", "owner": "tok_admin", "labels": {"team": "web"},
            "protections": [], "created_at": "2026-01-01T00:00:00Z", "last_used_at": "2026-01-01T00:00:00Z"
        }]})),
        ReadProblems,
    )
)]
pub(crate) async fn list(
    State(hub): HubState,
    Extension(token): WithToken,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Result<axum::Json<List<SandboxRecord>>, ApiError> {
    let query = ListQuery::read(pairs)?;
    let after = query.cursor.as_deref().map(position).transpose()?;
    let mut wanted = hub
        .registry
        .records(
            &token,
            query.all || query.states.iter().any(|s| s.is_over()),
        )
        .into_iter()
        .filter(|record| after.as_ref().is_none_or(|after| place(record) > *after))
        .filter(|record| query.wants(record));
    let items: Vec<SandboxRecord> = wanted
        .by_ref()
        .take(query.limit.unwrap_or(DEFAULT_LIMIT))
        .collect();
    let more = wanted.next().is_some();
    let last = items.last().filter(|_| more);
    let next_cursor = last.map(|record| {
        let (at, id) = place(record);
        format!("{at}.{id}")
    });
    Ok(axum::Json(List { items, next_cursor }))
}

/// Where a record stands in the list, whether it is still there or not.
fn place(record: &SandboxRecord) -> (i64, String) {
    (
        record.created_at.as_microsecond(),
        record.id.as_str().to_owned(),
    )
}

fn position(cursor: &str) -> Result<(i64, String), HubError> {
    let parsed = cursor.split_once('.').and_then(|(at, id)| {
        let id: SandboxId = id.parse().ok()?;
        Some((at.parse().ok()?, id.as_str().to_owned()))
    });
    parsed.ok_or_else(|| {
        HubError::invalid("/cursor", "that is no cursor of this list")
            .hint("Start again without a cursor.")
    })
}

/// Look at a sandbox.
///
/// One that is over is shown for a day, with the reason.
#[utoipa::path(
    get, path = "/v1/sandboxes/{sandbox}", operation_id = "get_sandbox", tag = "sandboxes",
    params(("sandbox" = SandboxId, Path, description = "The sandbox.")),
    responses(
        (status = 200, description = "The sandbox.", body = SandboxRecord, example = json!({
            "id": "build-1", "state": "ready", "owner": "tok_admin",
            "protections": [{"name": "seccomp", "status": "enforced"}],
            "created_at": "2026-01-01T00:00:00Z", "last_used_at": "2026-01-01T00:00:00Z"
        })),
        ReadProblems,
    )
)]
pub(crate) async fn get(
    State(hub): HubState,
    Extension(token): WithToken,
    Path(id): Path<String>,
) -> Result<axum::Json<SandboxRecord>, ApiError> {
    Ok(axum::Json(match hub.registry.find(&id, &token)? {
        Found::Live(sandbox) => sandbox.record(),
        Found::Over(record) => *record,
    }))
}

/// Change a sandbox.
///
/// Labels, times, what happens when it is idle, and the limits that can change while it runs; what is
/// left out stays. All of it is changed or nothing.
#[utoipa::path(
    patch, path = "/v1/sandboxes/{sandbox}", operation_id = "patch_sandbox", tag = "sandboxes",
    params(("sandbox" = SandboxId, Path, description = "The sandbox.")),
    request_body(content = SandboxPatch, description = "What is to change."),
    responses(
        (status = 200, description = "As it is now.", body = SandboxRecord, example = json!({
            "id": "build-1", "state": "ready", "owner": "tok_admin", "labels": {"team": "web"},
            "protections": [], "created_at": "2026-01-01T00:00:00Z", "last_used_at": "2026-01-01T00:00:00Z"
        })),
        SandboxPatchProblems,
    )
)]
pub(crate) async fn patch(
    State(hub): HubState,
    Extension(token): WithToken,
    Extension(by): WithBy,
    Path(id): Path<String>,
    Json(patch): Json<SandboxPatch>,
) -> Result<axum::Json<SandboxRecord>, ApiError> {
    let sandbox = hub.registry.live(&id, &token)?;
    manages(&token, &sandbox)?;
    validate::patch(&patch, &sandbox.labels())?;
    sandbox.patch(patch, by).await?;
    Ok(axum::Json(sandbox.record()))
}

/// Destroy a sandbox.
///
/// When the answer comes, nothing of it runs and its files are gone. The record is kept for a day;
/// destroying it again gives the same.
#[utoipa::path(
    delete, path = "/v1/sandboxes/{sandbox}", operation_id = "destroy_sandbox", tag = "sandboxes",
    params(("sandbox" = SandboxId, Path, description = "The sandbox.")),
    responses(
        (status = 200, description = "It is gone.", body = SandboxRecord, example = json!({
            "id": "build-1", "state": "gone", "reason": "it was destroyed on request",
            "owner": "tok_admin", "protections": [], "created_at": "2026-01-01T00:00:00Z",
            "last_used_at": "2026-01-01T00:00:00Z", "ended_at": "2026-01-01T00:10:00Z"
        })),
        SandboxChangeProblems,
    )
)]
pub(crate) async fn destroy(
    State(hub): HubState,
    Extension(token): WithToken,
    Extension(by): WithBy,
    Path(id): Path<String>,
) -> Result<axum::Json<SandboxRecord>, ApiError> {
    let sandbox = match hub.registry.find(&id, &token)? {
        Found::Over(record) => return Ok(axum::Json(*record)),
        Found::Live(sandbox) => sandbox,
    };
    manages(&token, &sandbox)?;
    sandbox.destroy("it was destroyed on request", by).await?;
    Ok(axum::Json(sandbox.record()))
}

/// Pause a sandbox.
///
/// Everything in it is frozen until `resume`; requests for it are refused meanwhile.
#[utoipa::path(
    post, path = "/v1/sandboxes/{sandbox}/pause", operation_id = "pause_sandbox", tag = "sandboxes",
    params(("sandbox" = SandboxId, Path, description = "The sandbox.")),
    responses(
        (status = 200, description = "It is paused.", body = SandboxRecord, example = json!({
            "id": "build-1", "state": "paused", "owner": "tok_admin", "protections": [],
            "created_at": "2026-01-01T00:00:00Z", "last_used_at": "2026-01-01T00:00:00Z"
        })),
        SandboxChangeProblems,
    )
)]
pub(crate) async fn pause(
    State(hub): HubState,
    Extension(token): WithToken,
    Extension(by): WithBy,
    Path(id): Path<String>,
    OptionalJson(Nothing {}): OptionalJson<Nothing>,
) -> Result<axum::Json<SandboxRecord>, ApiError> {
    let sandbox = hub.registry.live(&id, &token)?;
    sandbox.pause(by).await?;
    Ok(axum::Json(sandbox.record()))
}

/// Resume a sandbox.
///
/// Whether it was paused or asleep; one that runs is left as it is.
#[utoipa::path(
    post, path = "/v1/sandboxes/{sandbox}/resume", operation_id = "resume_sandbox", tag = "sandboxes",
    params(("sandbox" = SandboxId, Path, description = "The sandbox.")),
    responses(
        (status = 200, description = "It runs.", body = SandboxRecord, example = json!({
            "id": "build-1", "state": "ready", "owner": "tok_admin", "protections": [],
            "created_at": "2026-01-01T00:00:00Z", "last_used_at": "2026-01-01T00:00:00Z"
        })),
        SandboxChangeProblems,
    )
)]
pub(crate) async fn resume(
    State(hub): HubState,
    Extension(token): WithToken,
    Extension(by): WithBy,
    Path(id): Path<String>,
    OptionalJson(Nothing {}): OptionalJson<Nothing>,
) -> Result<axum::Json<SandboxRecord>, ApiError> {
    let sandbox = hub.registry.live(&id, &token)?;
    sandbox.resume(by).await?;
    Ok(axum::Json(sandbox.record()))
}

/// Keep a sandbox alive.
///
/// Its idle time starts anew, and it is woken if it sleeps; as with any request for it.
#[utoipa::path(
    post, path = "/v1/sandboxes/{sandbox}/keepalive", operation_id = "keep_sandbox_alive", tag = "sandboxes",
    params(("sandbox" = SandboxId, Path, description = "The sandbox.")),
    responses(
        (status = 200, description = "It was.", body = SandboxRecord, example = json!({
            "id": "build-1", "state": "ready", "owner": "tok_admin", "protections": [],
            "created_at": "2026-01-01T00:00:00Z", "last_used_at": "2026-01-01T00:00:00Z"
        })),
        SandboxChangeProblems,
    )
)]
pub(crate) async fn keepalive(
    State(hub): HubState,
    Extension(token): WithToken,
    Path(id): Path<String>,
    OptionalJson(Nothing {}): OptionalJson<Nothing>,
) -> Result<axum::Json<SandboxRecord>, ApiError> {
    let sandbox = hub.registry.live(&id, &token)?;
    sandbox.keep_alive().await?;
    Ok(axum::Json(sandbox.record()))
}

fn manages(token: &Token, sandbox: &Sandbox) -> Result<(), ApiError> {
    if token.may_manage(sandbox.owner()) {
        return Ok(());
    }
    Err(forbidden(
        "this token may use the sandbox, but not change or end it",
    ))
}

fn forbidden(detail: &'static str) -> ApiError {
    ApiError::new(ErrorCode::Forbidden, detail)
        .hint("Ask with the token that made the sandbox, or with an admin's.")
}
