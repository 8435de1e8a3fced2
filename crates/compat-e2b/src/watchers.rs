//! Watching directories: as a stream, and by asking again and again.
//!
//! Whoever asks again has an id, and we hold where they are. The changes themselves are the agent's, which
//! keeps a watch for ten minutes after its last use: a client that was away for longer is told that it
//! missed some.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sandshell_client::types::{
    ChangesRequest, ChangesStatus, FileChange, FileEvent, FileKind, SandboxId,
};
use sandshell_client::{FileQuery, WatchStreamEvent};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::{Code, Fault};
use crate::filesystem::{query, shown};
use crate::path;
use crate::wire::{Call, Feed, before};

/// Watchers of one sandbox; one more takes the place of the oldest.
const MOST_OF_ONE: usize = 64;

/// Watchers in all.
const MOST: usize = 16_384;

/// Most changes in one answer; the rest comes with the next.
const MOST_CHANGES: usize = 10_000;

#[derive(Deserialize)]
pub(crate) struct Watch {
    #[serde(default)]
    path: String,
    #[serde(default)]
    recursive: bool,
    #[serde(default, alias = "include_entry", rename = "includeEntry")]
    include_entry: bool,
}

#[derive(Deserialize)]
pub(crate) struct Watcher {
    #[serde(default, alias = "watcher_id", rename = "watcherId")]
    watcher_id: String,
}

/// Whoever asks again and again.
#[derive(Debug, Clone)]
struct Held {
    sandbox: SandboxId,
    request: ChangesRequest,
    root: String,
    include_entry: bool,
    /// In which order they were made.
    number: u64,
}

/// All of them, by id.
#[derive(Debug, Default)]
pub(crate) struct Watchers(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    made: u64,
    by_id: HashMap<String, Held>,
}

impl Watchers {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, mut held: Held) -> String {
        let id = format!("watcher-{}", uuid::Uuid::now_v7().simple());
        let mut table = self.table();
        table.made += 1;
        held.number = table.made;
        let own = |one: &&Held| one.sandbox == held.sandbox;
        let full = table.by_id.values().filter(own).count() >= MOST_OF_ONE;
        if full || table.by_id.len() >= MOST {
            let oldest = table
                .by_id
                .iter()
                .filter(|(_, one)| !full || one.sandbox == held.sandbox)
                .min_by_key(|(_, one)| one.number)
                .map(|(id, _)| id.clone());
            if let Some(oldest) = oldest {
                table.by_id.remove(&oldest);
            }
        }
        table.by_id.insert(id.clone(), held);
        id
    }

    fn get(&self, sandbox: &SandboxId, id: &str) -> Result<Held, Fault> {
        let held = self.table().by_id.get(id).cloned();
        held.filter(|held| held.sandbox == *sandbox)
            .ok_or_else(|| Fault::not_found(format!("watcher with id {id} not found")))
    }

    fn remember(&self, id: &str, since: u64) {
        if let Some(held) = self.table().by_id.get_mut(id) {
            held.request.since = Some(since);
        }
    }

    fn remove(&self, id: &str) {
        self.table().by_id.remove(id);
    }
}

/// What to ask for: a directory.
async fn request_of(call: &Call, asked: &Watch) -> Result<(ChangesRequest, String), Fault> {
    let query: FileQuery = query(&asked.path, call.user.as_deref());
    let entry = call.sandbox.stat_file(&query, true).await?;
    if entry.kind != FileKind::Directory {
        return Err(Fault::invalid(format!(
            "path is not a directory: {}",
            entry.path
        )));
    }
    let request = ChangesRequest {
        path: Some(query.path),
        user: query.user,
        recursive: Some(asked.recursive),
        ..ChangesRequest::default()
    };
    Ok((request, path::shown(&entry.path)))
}

/// What a file that is to take the place of another is called meanwhile.
const UNFINISHED: &str = ".sandshell-";

/// A change in their words: a move is two. A file that took the place of another was written.
async fn told(call: &Call, change: &FileEvent, root: &str, include_entry: bool) -> Vec<Value> {
    let unfinished = |path: &str| {
        let name = path.rsplit('/').next();
        name.is_some_and(|name| name.starts_with(UNFINISHED))
    };
    if unfinished(&change.path) {
        return Vec::new();
    }
    let replaced = change.from.as_deref().is_some_and(unfinished);
    let event = |kind: &str, path: &str| {
        let name = path.strip_prefix(root).unwrap_or(path);
        json!({"name": name.trim_start_matches('/'), "type": kind})
    };
    let mut events = match change.change {
        FileChange::Created => vec![event("EVENT_TYPE_CREATE", &change.path)],
        FileChange::Modified => vec![event("EVENT_TYPE_WRITE", &change.path)],
        FileChange::Moved if replaced => vec![event("EVENT_TYPE_WRITE", &change.path)],
        FileChange::Removed => vec![event("EVENT_TYPE_REMOVE", &change.path)],
        FileChange::Attributes => vec![event("EVENT_TYPE_CHMOD", &change.path)],
        FileChange::Moved => {
            let from = change.from.iter();
            let from = from.map(|from| event("EVENT_TYPE_RENAME", from));
            from.chain([event("EVENT_TYPE_CREATE", &change.path)])
                .collect()
        }
    };
    if include_entry
        && change.change != FileChange::Removed
        && let Some(last) = events.last_mut()
    {
        let query = FileQuery {
            path_base64: change.path_base64.clone(),
            user: call.user.clone(),
            ..FileQuery::new(change.path.clone())
        };
        if let Ok(entry) = call.sandbox.stat_file(&query, false).await {
            last["entry"] = shown(call, entry).await;
        }
    }
    events
}

fn missed() -> Fault {
    Fault::new(
        Code::DataLoss,
        "some changes were missed; list the directory and watch it again",
    )
}

pub(crate) async fn watch_dir(call: Call, asked: Watch, feed: Feed) -> Result<(), Fault> {
    let work = async {
        let (request, _) = request_of(&call, &asked).await?;
        let mut changes = call.sandbox.watch_files(&request).await?;
        let alive = json!({"keepalive": {}});
        let mut root = String::new();
        loop {
            let event = feed.wait(call.silence, &alive, changes.next()).await?;
            match event.ok_or_else(crate::process::cut_off)??.1 {
                WatchStreamEvent::Ready(ready) => {
                    root = ready.path;
                    feed.tell(&json!({"start": {}})).await?;
                }
                WatchStreamEvent::Change(change) => {
                    for event in told(&call, &change, &root, asked.include_entry).await {
                        feed.tell(&json!({"filesystem": event})).await?;
                    }
                }
                WatchStreamEvent::Rescan(_) => return Err(missed()),
                WatchStreamEvent::End(_) => return Ok(()),
                _ => {}
            }
        }
    };
    before(call.deadline(), work).await
}

pub(crate) async fn create(call: Call, asked: Watch) -> Result<Value, Fault> {
    let (mut request, root) = request_of(&call, &asked).await?;
    request.since = Some(call.sandbox.check_changes(&request).await?.version);
    let id = call.watchers.put(Held {
        sandbox: call.id.clone(),
        request,
        root,
        include_entry: asked.include_entry,
        number: 0,
    });
    Ok(json!({"watcherId": id}))
}

/// What changed since the last time: whatever ended before this was asked.
pub(crate) async fn events(call: Call, asked: Watcher) -> Result<Value, Fault> {
    let held = call.watchers.get(&call.id, &asked.watcher_id)?;
    let now = call.sandbox.check_changes(&held.request).await?;
    match now.status {
        ChangesStatus::Unchanged => return Ok(json!({"events": []})),
        ChangesStatus::Rescan => {
            call.watchers.remember(&asked.watcher_id, now.version);
            return Err(missed());
        }
        ChangesStatus::Changed => {}
    }
    let mut changes = call.sandbox.watch_files(&held.request).await?;
    let mut events = Vec::new();
    while let Some(change) = changes.next().await {
        let (version, change) = change?;
        match change {
            WatchStreamEvent::Change(change) => {
                events.extend(told(&call, &change, &held.root, held.include_entry).await);
            }
            WatchStreamEvent::Rescan(_) => {
                call.watchers.remember(&asked.watcher_id, now.version);
                return Err(missed());
            }
            WatchStreamEvent::End(_) => break,
            _ => continue,
        }
        call.watchers.remember(&asked.watcher_id, version);
        if version >= now.version || events.len() >= MOST_CHANGES {
            break;
        }
    }
    Ok(json!({"events": events}))
}

pub(crate) async fn remove(call: Call, asked: Watcher) -> Result<Value, Fault> {
    call.watchers.get(&call.id, &asked.watcher_id)?;
    call.watchers.remove(&asked.watcher_id);
    Ok(json!({}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_has_so_many_watchers_and_only_its_own() {
        let watchers = Watchers::default();
        let of = |id: &str| Held {
            sandbox: id.parse().unwrap(),
            request: ChangesRequest::default(),
            root: "/".to_owned(),
            include_entry: false,
            number: 0,
        };
        let first = watchers.put(of("a"));
        let other = watchers.put(of("b"));
        let (a, b) = ("a".parse().unwrap(), "b".parse().unwrap());
        assert!(watchers.get(&a, &first).is_ok());
        assert!(watchers.get(&b, &first).is_err());
        for _ in 0..MOST_OF_ONE {
            watchers.put(of("a"));
        }
        assert!(watchers.get(&a, &first).is_err());
        assert!(watchers.get(&b, &other).is_ok());
        assert_eq!(watchers.table().by_id.len(), MOST_OF_ONE + 1);
    }
}
