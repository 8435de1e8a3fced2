//! Watching files.

use axum::extract::Extension;
use axum::response::Response;
use sandshell_client::types::{ChangesRequest, ChangesStatus, FileChange, FileEvent, RescanReason};
use sandshell_client::{Client, WatchStreamEvent};
use serde::Deserialize;
use serde_json::{Value, json};

use super::body::{Json, invalid};
use super::error::Fault;
use super::success;
use crate::sse::events;

/// What is left out unless something else is asked for.
const USUAL: [&str; 3] = [".git", "node_modules", ".DS_Store"];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Watch {
    path: String,
    recursive: Option<bool>,
    include: Option<Vec<String>>,
    exclude: Option<Vec<String>>,
    events: Option<Vec<String>>,
    since: Option<String>,
}

impl Watch {
    fn request(&self) -> Result<ChangesRequest, Fault> {
        if self.path.is_empty() || self.path.contains('\0') {
            return Err(invalid("path", "Path must be a name without NUL"));
        }
        let usual = || USUAL.map(str::to_owned).to_vec();
        let since = match &self.since {
            None => None,
            Some(text) => Some(
                text.parse()
                    .map_err(|_| invalid("since", &format!("{text:?} is not a version")))?,
            ),
        };
        Ok(ChangesRequest {
            path: Some(self.path.clone()),
            path_base64: None,
            recursive: Some(self.recursive.unwrap_or(true)),
            include: self.include.clone().unwrap_or_default(),
            exclude: match &self.exclude {
                Some(globs) => globs.clone(),
                None if self.include.is_some() => Vec::new(),
                None => usual(),
            },
            since,
            session: None,
            user: None,
        })
    }
}

pub(super) async fn watch(
    Extension(sandbox): Extension<Client>,
    Json(asked): Json<Watch>,
) -> Result<Response, Fault> {
    let request = asked.request()?;
    let mut changes = sandbox
        .watch_files(&request)
        .await
        .map_err(|error| Fault::from(error).context(json!({"path": asked.path})))?;
    Ok(events(|feed| async move {
        let wanted = |kind: &str| {
            let kinds = asked.events.as_ref();
            kinds.is_none_or(|kinds| kinds.iter().any(|one| one == kind))
        };
        while let Some(event) = changes.next().await {
            let told = match event {
                Ok((version, WatchStreamEvent::Ready(ready))) => vec![json!({
                    "type": "watching",
                    "path": ready.path,
                    "watchId": format!("watch-{version}"),
                })],
                Ok((_, WatchStreamEvent::Change(change))) => shown(&change)
                    .into_iter()
                    .filter(|event| event["eventType"].as_str().is_some_and(wanted))
                    .collect(),
                // They have no word for changes that were missed: whoever watches must look again.
                Ok((_, WatchStreamEvent::Rescan(_))) => {
                    vec![json!({"type": "error", "error": "Some changes were missed; list again"})]
                }
                Ok((_, WatchStreamEvent::End(end))) => {
                    let reason = end.detail.unwrap_or_else(|| format!("{:?}", end.reason));
                    vec![json!({"type": "stopped", "reason": reason})]
                }
                Ok(_) => Vec::new(),
                Err(error) => vec![json!({"type": "error", "error": error.to_string()})],
            };
            for event in &told {
                feed.tell(event).await?;
            }
        }
        Ok(())
    }))
}

/// A change in their words: a move is two.
fn shown(change: &FileEvent) -> Vec<Value> {
    let event = |kind: &str, path: &str| {
        json!({
            "type": "event",
            "eventType": kind,
            "path": path,
            "isDirectory": change.directory,
            "timestamp": change.at,
        })
    };
    match change.change {
        FileChange::Created => vec![event("create", &change.path)],
        FileChange::Modified => vec![event("modify", &change.path)],
        FileChange::Removed => vec![event("delete", &change.path)],
        FileChange::Attributes => vec![event("attrib", &change.path)],
        FileChange::Moved => {
            let from = change.from.iter().map(|from| event("move_from", from));
            from.chain([event("move_to", &change.path)]).collect()
        }
    }
}

pub(super) async fn check(
    Extension(sandbox): Extension<Client>,
    Json(asked): Json<Watch>,
) -> Result<Response, Fault> {
    let request = asked.request()?;
    let reply = sandbox
        .check_changes(&request)
        .await
        .map_err(|error| Fault::from(error).context(json!({"path": asked.path})))?;
    let version = reply.version.to_string();
    Ok(success(match reply.status {
        ChangesStatus::Unchanged => json!({"status": "unchanged", "version": version}),
        ChangesStatus::Changed => json!({"status": "changed", "version": version}),
        ChangesStatus::Rescan => {
            let reason = match reply.reason {
                Some(RescanReason::UnknownVersion) => "restarted",
                _ => "expired",
            };
            json!({"status": "resync", "reason": reason, "version": version})
        }
    }))
}
