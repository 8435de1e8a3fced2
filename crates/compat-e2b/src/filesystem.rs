//! `filesystem.Filesystem`: what is there, and changes to it.

use sandshell_client::types::{
    ErrorCode, FileEntry, FileKind, MkdirRequest, MoveRequest, RemoveRequest, Room,
};
use sandshell_client::{ClientError, FileQuery, ListOptions};
use sandshell_compat::{MOST, all};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::{Code, Fault};
use crate::path;
use crate::wire::Call;

#[derive(Deserialize)]
pub(crate) struct At {
    #[serde(default)]
    path: String,
}

#[derive(Deserialize)]
pub(crate) struct Move {
    #[serde(default)]
    source: String,
    #[serde(default)]
    destination: String,
}

#[derive(Deserialize)]
pub(crate) struct List {
    #[serde(default)]
    path: String,
    #[serde(default)]
    depth: u32,
}

pub(crate) fn query(path: &str, user: Option<&str>) -> FileQuery {
    FileQuery {
        user: user.map(str::to_owned),
        ..FileQuery::new(path::of(path, user))
    }
}

fn at(call: &Call, path: &str) -> FileQuery {
    query(path, call.user.as_deref())
}

/// Nothing is below what is no directory.
fn lookup(error: ClientError) -> Fault {
    match error.code() {
        Some(ErrorCode::NotADirectory) => Fault::not_found(error.to_string()),
        _ => error.into(),
    }
}

pub(crate) async fn stat(call: Call, asked: At) -> Result<Value, Fault> {
    let query = at(&call, &asked.path);
    let entry = call.sandbox.stat_file(&query, false).await;
    let entry = shown(&call, entry.map_err(lookup)?).await;
    Ok(json!({"entry": entry}))
}

/// An entry in their words. What a link is, is what it leads to.
pub(crate) async fn shown(call: &Call, entry: FileEntry) -> Value {
    let link = entry.kind == FileKind::Symlink;
    let leads_to = if link {
        let query = FileQuery {
            path_base64: entry.path_base64.clone(),
            user: call.user.clone(),
            ..FileQuery::new(entry.path.clone())
        };
        let followed = call.sandbox.stat_file(&query, true).await;
        followed.map_or(entry.kind, |followed| followed.kind)
    } else {
        entry.kind
    };
    let mut shown = json!({
        "name": entry.name,
        "type": match leads_to {
            FileKind::File => "FILE_TYPE_FILE",
            FileKind::Directory => "FILE_TYPE_DIRECTORY",
            FileKind::Symlink => "FILE_TYPE_SYMLINK",
            _ => "FILE_TYPE_UNSPECIFIED",
        },
        "path": path::shown(&entry.path),
        // Numbers that may be longer than those of JavaScript are text.
        "size": entry.size.to_string(),
        "mode": entry.mode.bits() & 0o777,
        "permissions": permissions(&entry),
        "owner": entry.owner.unwrap_or_else(|| entry.uid.to_string()),
        "group": entry.group.unwrap_or_else(|| entry.gid.to_string()),
        "modifiedTime": entry.modified_at,
        "metadata": {},
        "isSymlink": link,
    });
    if link {
        let to = entry.link_target.unwrap_or_default();
        shown["symlinkTarget"] = path::led_to(&entry.path, &to).into();
    }
    shown
}

fn permissions(entry: &FileEntry) -> String {
    let first = match entry.kind {
        FileKind::Directory => 'd',
        FileKind::Symlink => 'L',
        FileKind::Fifo => 'p',
        FileKind::Socket => 'S',
        FileKind::BlockDevice => 'D',
        FileKind::CharDevice => 'c',
        FileKind::File | FileKind::Unknown => '-',
    };
    let bits = entry.mode.bits();
    let letters = (0..9).map(|bit| match bits & (0o400 >> bit) {
        0 => '-',
        _ => ['r', 'w', 'x'][bit % 3],
    });
    std::iter::once(first).chain(letters).collect()
}

pub(crate) async fn make_dir(call: Call, asked: At) -> Result<Value, Fault> {
    let query = at(&call, &asked.path);
    let request = MkdirRequest {
        path: Some(query.path.clone()),
        user: query.user.clone(),
        parents: Some(true),
        ..MkdirRequest::default()
    };
    match call.sandbox.make_directory(&request).await {
        Ok(entry) => Ok(json!({"entry": shown(&call, entry).await})),
        Err(error) if error.code() == Some(ErrorCode::FileExists) => {
            let there = call.sandbox.stat_file(&query, true).await?;
            Err(match there.kind {
                FileKind::Directory => {
                    let message = format!("directory already exists: {}", there.path);
                    Fault::new(Code::AlreadyExists, message)
                }
                _ => Fault::invalid(format!("{} exists and is no directory", there.path)),
            })
        }
        Err(error) => Err(error.into()),
    }
}

pub(crate) async fn relocate(call: Call, asked: Move) -> Result<Value, Fault> {
    let from = at(&call, &asked.source);
    let to = at(&call, &asked.destination);
    let request = MoveRequest {
        from: Some(from.path),
        to: Some(to.path),
        user: from.user,
        overwrite: true,
        parents: Some(true),
        ..MoveRequest::default()
    };
    let entry = call.sandbox.move_file(&request).await?;
    Ok(json!({"entry": shown(&call, entry).await}))
}

pub(crate) async fn remove(call: Call, asked: At) -> Result<Value, Fault> {
    let query = at(&call, &asked.path);
    let request = RemoveRequest {
        path: Some(query.path),
        user: query.user,
        recursive: true,
        missing_ok: true,
        ..RemoveRequest::default()
    };
    call.sandbox.remove_file(&request).await?;
    Ok(json!({}))
}

/// Directory by directory, down to the depth asked for and not beyond.
pub(crate) async fn list_dir(call: Call, asked: List) -> Result<Value, Fault> {
    let sandbox = &call.sandbox;
    let mut entries: Vec<FileEntry> = Vec::new();
    let mut room = Room::of_answer(MOST);
    let mut level = vec![at(&call, &asked.path)];
    for depth in 0..asked.depth.max(1) {
        // The depth is any number; the tree has an end.
        if level.is_empty() {
            break;
        }
        let mut below = Vec::new();
        for directory in &level {
            let found = all(|page| async move {
                sandbox
                    .list_files(directory, ListOptions::default(), &page)
                    .await
            });
            let found = match found.await {
                Ok(found) => found,
                // One that cannot be entered, or went away meanwhile, is listed itself.
                Err(error) if depth > 0 && is_closed(&error) => continue,
                Err(error) => return Err(error.into()),
            };
            let deeper = found.iter().filter(|one| one.kind == FileKind::Directory);
            below.extend(deeper.map(|one| FileQuery {
                path: one.path.clone(),
                path_base64: one.path_base64.clone(),
                ..directory.clone()
            }));
            if room.is_full() && !found.is_empty() {
                let message = "there are more entries than one answer holds; list with less depth";
                return Err(Fault::new(Code::ResourceExhausted, message));
            }
            for one in &found {
                room.take(one);
            }
            entries.extend(found);
        }
        level = below;
    }
    entries.sort_by(|a, b| a.path.split('/').cmp(b.path.split('/')));
    let mut told = Vec::with_capacity(entries.len());
    for entry in entries {
        told.push(shown(&call, entry).await);
    }
    Ok(json!({"entries": told}))
}

/// Whether a directory is none any more, or not for this user.
fn is_closed(error: &ClientError) -> bool {
    matches!(
        error.code(),
        Some(ErrorCode::FileNotFound | ErrorCode::PermissionDenied | ErrorCode::NotADirectory)
    )
}
