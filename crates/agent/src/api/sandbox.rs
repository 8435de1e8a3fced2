//! `/v1/env`, `/v1/events`, `/v1/stats` and `/v1/protections`: the sandbox as a whole.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;
use sandshell_exec::events::{EventsReader, Heard};
use sandshell_types::{
    EnvPatch, EnvReply, ErrorCode, EventsTruncated, Happening, ProtectionsReply, SandboxEvent,
    SandboxStats,
};
use serde::Deserialize;

use super::AgentState;
use super::document::events::event_union;
use super::document::{SandboxChangeProblems, SandboxProblems};
use crate::Agent;
use crate::extract::{Json, Query};
use crate::problem::ApiError;
use crate::sse;

crate::table! {
    /// Its routes.
    pub(super) Arc<Agent> {
        self::env, self::patch_env;
        self::events;
        self::stats;
        self::protections;
    }
}

/// No parameters are taken.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoQuery {}

/// Get the sandbox's environment.
///
/// The variables that were set for all that is started, and those that it starts from.
#[utoipa::path(
    get, path = "/v1/env", operation_id = "get_env", tag = "sandbox",
    responses(
        (status = 200, description = "The variables.", body = EnvReply, example = json!({
            "env": {"API_URL": "http://127.0.0.1:8000", "LANG": null},
            "base": {"HOME": "/root", "LANG": "C.UTF-8"}
        })),
        SandboxProblems,
    )
)]
pub(crate) async fn env(
    State(agent): AgentState,
    Query(NoQuery {}): Query<NoQuery>,
) -> axum::Json<EnvReply> {
    axum::Json(agent.executor.environment())
}

/// Change the sandbox's environment.
///
/// Seen by every exec, process, session and terminal that is started from now on. Sessions that exist
/// keep the variables they have, and so do processes that are started again.
#[utoipa::path(
    patch, path = "/v1/env", operation_id = "patch_env", tag = "sandbox",
    request_body = EnvPatch,
    responses(
        (status = 200, description = "The variables now.", body = EnvReply, example = json!({
            "env": {"API_URL": "http://127.0.0.1:8000"}, "base": {"HOME": "/root"}
        })),
        SandboxChangeProblems,
    )
)]
pub(crate) async fn patch_env(
    State(agent): AgentState,
    Json(patch): Json<EnvPatch>,
) -> Result<axum::Json<EnvReply>, ApiError> {
    Ok(axum::Json(agent.executor.change_environment(&patch.env)?))
}

/// See how the sandbox is isolated.
///
/// Every layer of isolation and whether it holds, as tried from inside before the first command.
#[utoipa::path(
    get, path = "/v1/protections", operation_id = "protections", tag = "sandbox",
    responses(
        (status = 200, description = "The layers.", body = ProtectionsReply, example = json!({
            "protections": [
                {"name": "seccomp", "status": "enforced"},
                {"name": "net-ns", "status": "off", "reason": "shared with the outside: network"}
            ]
        })),
        SandboxProblems,
    )
)]
pub(crate) async fn protections(
    State(agent): AgentState,
    Query(NoQuery {}): Query<NoQuery>,
) -> axum::Json<ProtectionsReply> {
    axum::Json(ProtectionsReply {
        protections: agent.protections.clone(),
    })
}

/// Query of the events.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventsQuery {
    /// The `id` of the last event seen; 0 for all that are kept. Without it only what comes. The
    /// header `Last-Event-ID` wins.
    from: Option<u64>,
    /// Only these types, separated by commas.
    types: Option<String>,
}

event_union! {
    /// What happens in the sandbox, each event named by its `type`.
    SandboxEvents:
        "ready" => SandboxEvent, "ending" => SandboxEvent,
        "process_started" => SandboxEvent, "process_exited" => SandboxEvent,
        "process_restarted" => SandboxEvent, "process_killed" => SandboxEvent,
        "session_created" => SandboxEvent, "session_restored" => SandboxEvent,
        "session_ended" => SandboxEvent, "terminal_created" => SandboxEvent,
        "terminal_ended" => SandboxEvent, "port_opened" => SandboxEvent,
        "port_closed" => SandboxEvent, "backup_created" => SandboxEvent,
        "backup_restored" => SandboxEvent, "backup_deleted" => SandboxEvent,
        "oom" => SandboxEvent, "limit_reached" => SandboxEvent,
        "network_refused" => SandboxEvent,
        "truncated" => EventsTruncated;
}

/// Hear what happens in the sandbox.
///
/// The name of each event is its `type`. `truncated` says that events are missing before the next one.
#[utoipa::path(
    get, path = "/v1/events", operation_id = "sandbox_events", tag = "sandbox",
    params(
        EventsQuery,
        ("Last-Event-ID" = Option<u64>, Header, description = "Resumes events after this one."),
    ),
    responses(
        (status = 200, description = "The events.", content(
            (SandboxEvents = "text/event-stream", example = json!({
                "event": "process_started", "id": "7",
                "data": r#"{"at":"2026-01-01T00:00:00Z","type":"process_started","process":"web","pid":12}"#
            })),
        )),
        SandboxProblems,
    )
)]
pub(crate) async fn events(
    State(agent): AgentState,
    Query(query): Query<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let from = sse::resume_from(&headers, query.from)?;
    let types = query.types.map(|types| wanted(&types)).transpose()?;
    let reader = agent.executor.events().reader(from);
    let feed = Feed { reader, types };
    Ok(sse::live(Bytes::new(), feed, agent.shutdown.clone()))
}

fn wanted(types: &str) -> Result<Vec<&'static str>, ApiError> {
    let find = |name: &str| {
        let known = Happening::TYPES.iter().find(|known| **known == name);
        known.copied().ok_or_else(|| {
            ApiError::new(
                ErrorCode::InvalidRequest,
                format!("{name:?} is not a type of event"),
            )
            .pointer("/types")
            .hint(format!("There are {}.", Happening::TYPES.join(", ")))
        })
    };
    types.split(',').map(find).collect()
}

/// The events of one listener.
struct Feed {
    reader: EventsReader,
    types: Option<Vec<&'static str>>,
}

impl sse::Source for Feed {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let mut text = Vec::new();
            for heard in self.reader.next().await {
                let event = match heard {
                    Heard::Event(number, event) => {
                        let kind = event.what.kind();
                        let skipped = |types: &Vec<&str>| !types.contains(&kind);
                        if self.types.as_ref().is_some_and(skipped) {
                            continue;
                        }
                        sse::event(kind, Some(number), &*event)
                    }
                    Heard::Truncated(first) => {
                        sse::event("truncated", None, &EventsTruncated { first })
                    }
                };
                // A number or a text can always be written.
                text.extend_from_slice(&event.ok()?);
            }
            if !text.is_empty() {
                return Some(text.into());
            }
        }
    }
}

/// What the sandbox uses.
///
/// What cannot be told here is `null`; `source` says where a figure comes from.
#[utoipa::path(
    get, path = "/v1/stats", operation_id = "stats", tag = "sandbox",
    responses(
        (status = 200, description = "The figures.", body = SandboxStats, example = json!({
            "at": "2026-01-01T00:00:00Z", "uptime_ms": 60000,
            "cpu": {"usage_ms": 1200, "cpus": 2, "source": "cgroup"},
            "memory": {"used_bytes": 41_943_040, "limit_bytes": null, "source": "proc"},
            "pids": {"count": 9, "limit": null},
            "disk": {"path": "/", "total_bytes": 100_000_000_000_u64, "used_bytes": 40_000_000_000_u64,
                "available_bytes": 60_000_000_000_u64, "total_inodes": 6_000_000, "available_inodes": 5_000_000},
            "network": {"received_bytes": 1024, "sent_bytes": 512, "shared": true},
            "sessions": 1, "processes": 1, "execs": 0, "terminals": 0
        })),
        SandboxProblems,
    )
)]
pub(crate) async fn stats(
    State(agent): AgentState,
    Query(NoQuery {}): Query<NoQuery>,
) -> Result<axum::Json<SandboxStats>, ApiError> {
    Ok(axum::Json(agent.executor.stats().await?))
}

#[cfg(test)]
mod tests {
    use super::super::document::events::EventSchema;
    use super::*;

    #[test]
    fn every_type_of_event_is_in_the_document() {
        let named: Vec<&str> = SandboxEvents::events()
            .iter()
            .map(EventSchema::name)
            .filter(|name| *name != "truncated")
            .collect();
        assert_eq!(named, Happening::TYPES);
    }
}
