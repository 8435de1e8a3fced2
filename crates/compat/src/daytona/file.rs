//! Files: what is there, and what is done with it. Their content is [`transfer`](super::transfer)'s.

use axum::Json;
use axum::extract::Query;
use http::StatusCode;
use sandshell_client::types::{
    ChmodRequest, Encoded, ErrorCode, ExecRequest, FileEntry, FileKind, FileMode, FindRequest,
    MkdirRequest, MoveRequest, RemoveRequest, Room, SearchRequest,
};
use sandshell_client::{Client, ClientError, FileQuery, ListOptions, ReadOptions, WriteOptions};
use serde::Deserialize;
use serde_json::{Value, json};

use super::body::Given;
use super::error::Fault;
use super::reach::Sandbox;
use crate::pages::all;

/// Most entries of one list.
const ENTRIES: usize = 100_000;

/// Most lines found: each may be of 16 KiB.
const LINES: u32 = 10_000;

/// Most files found.
const FILES: u32 = 100_000;

/// Largest file in which text is replaced, before it and after.
const LARGEST: usize = 32 * 1024 * 1024;

type Shown = Result<Json<Value>, Fault>;

#[derive(Deserialize)]
pub(super) struct Target {
    path: Option<String>,
    depth: Option<u32>,
    recursive: Option<bool>,
    mode: Option<String>,
    owner: Option<String>,
    group: Option<String>,
    pattern: Option<String>,
}

impl Target {
    fn query(&self) -> Result<FileQuery, Fault> {
        query(self.path.as_deref().unwrap_or("."))
    }

    /// For what must name something.
    fn named(&self) -> Result<FileQuery, Fault> {
        query(self.path.as_deref().unwrap_or_default())
    }

    fn mode(&self) -> Result<Option<FileMode>, Fault> {
        let given = self.mode.as_deref().filter(|mode| !mode.is_empty());
        given.map(str::parse).transpose().map_err(Fault::invalid)
    }

    fn pattern(&self) -> Result<String, Fault> {
        let given = self.pattern.clone().filter(|pattern| !pattern.is_empty());
        given.ok_or_else(|| Fault::invalid("pattern is empty"))
    }
}

/// Relative paths start at the sandbox's directory.
pub(super) fn query(path: &str) -> Result<FileQuery, Fault> {
    if path.is_empty() || path.contains('\0') {
        return Err(Fault::new(
            StatusCode::BAD_REQUEST,
            "INVALID_FILE_PATH",
            "path is not the name of a file",
        ));
    }
    Ok(FileQuery::new(path))
}

fn shown(entry: &FileEntry) -> Value {
    let bits = entry.mode.bits();
    let kind = match entry.kind {
        FileKind::Directory => 'd',
        FileKind::Symlink => 'L',
        FileKind::Fifo => 'p',
        FileKind::Socket => 'S',
        FileKind::BlockDevice | FileKind::CharDevice => 'D',
        _ => '-',
    };
    let bit = |bit: usize| match bits & (0o400 >> bit) {
        0 => '-',
        _ => ['r', 'w', 'x'][bit % 3],
    };
    let mode: String = std::iter::once(kind).chain((0..9).map(bit)).collect();
    let id = |name: &Option<String>, id: u32| name.clone().unwrap_or_else(|| id.to_string());
    json!({
        "name": entry.name,
        "path": entry.path,
        "isDir": entry.kind == FileKind::Directory,
        "size": entry.size,
        "mode": mode,
        "permissions": entry.mode.to_string(),
        "owner": id(&entry.owner, entry.uid),
        "group": id(&entry.group, entry.gid),
        "modTime": entry.modified_at.strftime("%Y-%m-%d %H:%M:%S%.f +0000 UTC").to_string(),
        "modifiedAt": entry.modified_at,
    })
}

/// A directory, and those in it down to a depth.
pub(super) async fn list(Sandbox(sandbox): Sandbox, Query(asked): Query<Target>) -> Shown {
    let mut shown_entries = Vec::new();
    let mut room = Room::of_answer(ENTRIES);
    let mut level = vec![asked.query()?];
    for depth in (0..asked.depth.unwrap_or(1)).rev() {
        let mut below = Vec::new();
        for directory in level {
            let (client, directory) = (&sandbox, &directory);
            let options = ListOptions::default();
            let entries =
                all(|page| async move { client.list_files(directory, options, &page).await });
            for entry in entries.await? {
                if room.is_full() {
                    let message = "There are more entries than one answer holds";
                    return Err(Fault::invalid(message));
                }
                room.take(&entry);
                if depth > 0 && entry.kind == FileKind::Directory {
                    below.push(FileQuery {
                        path_base64: entry.path_base64.clone(),
                        ..FileQuery::new(&entry.path)
                    });
                }
                shown_entries.push(shown(&entry));
            }
        }
        // The depth is anybody's number; there are no more turns than levels.
        if below.is_empty() {
            break;
        }
        level = below;
    }
    Ok(Json(shown_entries.into()))
}

pub(super) async fn info(Sandbox(sandbox): Sandbox, Query(asked): Query<Target>) -> Shown {
    Ok(Json(shown(
        &sandbox.stat_file(&asked.named()?, true).await?,
    )))
}

/// Lines in files. A pattern that is no regular expression is plain text.
pub(super) async fn find(Sandbox(sandbox): Sandbox, Query(asked): Query<Target>) -> Shown {
    let mut request = SearchRequest {
        path: Some(asked.query()?.path),
        pattern: asked.pattern()?,
        hidden: Some(true),
        gitignore: Some(false),
        limit: Some(LINES),
        ..SearchRequest::default()
    };
    let mut found = sandbox.search_files(&request).await;
    if is_about(&found, "/pattern") {
        request.literal = true;
        found = sandbox.search_files(&request).await;
    }
    let lines = found?.matches.into_iter().map(|line| {
        let text = Encoded::decode(&line.text, line.text_encoding).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        json!({"file": line.path, "line": line.line, "content": text})
    });
    Ok(Json(lines.collect::<Vec<Value>>().into()))
}

fn is_about<T>(result: &Result<T, ClientError>, pointer: &str) -> bool {
    let problem = result.as_ref().err().and_then(ClientError::problem);
    problem.is_some_and(|problem| {
        problem.code == ErrorCode::InvalidRequest && problem.pointer.as_deref() == Some(pointer)
    })
}

/// Files by name.
pub(super) async fn search(Sandbox(sandbox): Sandbox, Query(asked): Query<Target>) -> Shown {
    let request = FindRequest {
        path: Some(asked.query()?.path),
        patterns: vec![asked.pattern()?],
        limit: Some(FILES),
        ..FindRequest::default()
    };
    let found = sandbox.find_files(&request).await?.items;
    let files: Vec<&str> = found.iter().map(|entry| entry.path.as_str()).collect();
    Ok(Json(json!({"files": files})))
}

pub(super) async fn folder(
    Sandbox(sandbox): Sandbox,
    Query(asked): Query<Target>,
) -> Result<StatusCode, Fault> {
    let request = MkdirRequest {
        path: Some(asked.named()?.path),
        mode: asked.mode()?,
        parents: Some(true),
        exist_ok: true,
        ..MkdirRequest::default()
    };
    sandbox.make_directory(&request).await?;
    Ok(StatusCode::CREATED)
}

#[derive(Deserialize)]
pub(super) struct Move {
    source: String,
    destination: String,
}

pub(super) async fn relocate(
    Sandbox(sandbox): Sandbox,
    Query(asked): Query<Move>,
) -> Result<StatusCode, Fault> {
    let request = MoveRequest {
        from: Some(query(&asked.source)?.path),
        to: Some(query(&asked.destination)?.path),
        overwrite: true,
        ..MoveRequest::default()
    };
    sandbox.move_file(&request).await?;
    Ok(StatusCode::OK)
}

pub(super) async fn delete(
    Sandbox(sandbox): Sandbox,
    Query(asked): Query<Target>,
) -> Result<StatusCode, Fault> {
    let request = RemoveRequest {
        path: Some(asked.named()?.path),
        recursive: asked.recursive == Some(true),
        ..RemoveRequest::default()
    };
    match sandbox.remove_file(&request).await {
        Err(error) if error.code() == Some(ErrorCode::DirectoryNotEmpty) => {
            Err(Fault::from(error).named(StatusCode::CONFLICT, "CONFLICT"))
        }
        other => {
            other?;
            Ok(StatusCode::NO_CONTENT)
        }
    }
}

pub(super) async fn permissions(
    Sandbox(sandbox): Sandbox,
    Query(asked): Query<Target>,
) -> Result<StatusCode, Fault> {
    let query = asked.named()?;
    if let Some(mode) = asked.mode()? {
        let request = ChmodRequest {
            path: Some(query.path.clone()),
            path_base64: None,
            mode,
            recursive: false,
            user: None,
            session: None,
        };
        sandbox.change_mode(&request).await?;
    }
    let owner = asked.owner.unwrap_or_default();
    let group = asked.group.unwrap_or_default();
    if !owner.is_empty() || !group.is_empty() {
        let path = sandbox.stat_file(&query, true).await?.path;
        let whose = match group.as_str() {
            "" => owner,
            group => format!("{owner}:{group}"),
        };
        let argv = ["chown", "--", &whose, &path];
        let request = ExecRequest {
            argv: Some(argv.map(str::to_owned).to_vec()),
            ..ExecRequest::default()
        };
        let changed = sandbox.exec(&request).await?;
        if changed.exit_code != 0 {
            return Err(Fault::new(
                StatusCode::FORBIDDEN,
                "FILE_ACCESS_DENIED",
                changed.stderr.trim(),
            ));
        }
    }
    Ok(StatusCode::OK)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Replace {
    files: Vec<String>,
    pattern: String,
    new_value: String,
}

/// Replaces plain text in each file, all of it or nothing.
pub(super) async fn replace(Sandbox(sandbox): Sandbox, Given(asked): Given<Replace>) -> Shown {
    if asked.pattern.is_empty() {
        return Err(Fault::invalid("pattern is empty"));
    }
    let mut results = Vec::new();
    for file in &asked.files {
        let replaced = replaced(&sandbox, file, &asked.pattern, &asked.new_value).await;
        results.push(match replaced {
            Ok(()) => json!({"file": file, "success": true}),
            Err(fault) => json!({"file": file, "success": false, "error": fault.message()}),
        });
    }
    Ok(Json(results.into()))
}

async fn replaced(sandbox: &Client, file: &str, from: &str, to: &str) -> Result<(), Fault> {
    let query = query(file)?;
    let content = sandbox.read_file(&query, &ReadOptions::default()).await?;
    if content.length.is_none_or(|length| length > LARGEST as u64) {
        return Err(too_large());
    }
    let (etag, bytes) = (content.etag, content.bytes.read_to_end().await?);
    let (from, to) = (from.to_owned(), to.to_owned());
    // A large one would hold others up.
    let change = tokio::task::spawn_blocking(move || changed(&bytes, &from, &to));
    let changed = change.await.map_err(|error| {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Fault::new(status, "INTERNAL_SERVER_ERROR", error.to_string())
    })??;
    let options = WriteOptions {
        if_match: etag,
        ..WriteOptions::default()
    };
    sandbox.write_file(&query, &options, changed).await?;
    Ok(())
}

fn too_large() -> Fault {
    Fault::invalid(format!("It has more than {LARGEST} bytes"))
}

/// A text with all of a pattern replaced. Its length is known before there is any of it: many short
/// matches and one long value are more than there is memory.
fn changed(bytes: &[u8], from: &str, to: &str) -> Result<String, Fault> {
    let text = std::str::from_utf8(bytes).map_err(|_| Fault::invalid("It is not text"))?;
    let matches = text.matches(from).count();
    let taken = matches.checked_mul(from.len());
    let kept = taken.and_then(|taken| text.len().checked_sub(taken));
    let given = matches.checked_mul(to.len());
    let length = kept
        .zip(given)
        .and_then(|(kept, given)| kept.checked_add(given));
    if length.is_none_or(|length| length > LARGEST) {
        return Err(too_large());
    }
    Ok(text.replace(from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_text_has_its_bound() {
        let changed = |text: &str, from, to: &str| changed(text.as_bytes(), from, to).ok();
        assert_eq!(
            changed("a needle aa", "a", "bc").as_deref(),
            Some("bc needle bcbc")
        );
        assert_eq!(changed("aaa", "aa", "").as_deref(), Some("a"));
        assert_eq!(
            changed("ä", "x", &"y".repeat(LARGEST + 1)).as_deref(),
            Some("ä")
        );
        // As large as may be, and one byte more.
        let value = "y".repeat(LARGEST / 4);
        let text = changed("xxxx", "x", &value);
        assert_eq!(text.map(|text| text.len()), Some(LARGEST));
        assert_eq!(changed("xxxx.", "x", &value), None);
        // Terabytes, were they made.
        assert_eq!(
            changed(&"x".repeat(1 << 20), "x", &"y".repeat(1 << 21)),
            None
        );
        assert!(super::changed(b"\xff", "x", "y").is_err());
    }
}
