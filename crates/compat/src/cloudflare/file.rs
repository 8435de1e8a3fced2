//! Files, and archives of directories.

use axum::extract::Extension;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use futures_util::Stream;
use sandshell_client::types::{
    ArchiveFormat, FileEntry, FileKind, MkdirRequest, MoveRequest, RemoveRequest,
};
use sandshell_client::{
    ArchiveQuery, ByteStream, Client, ClientError, FileQuery, ListOptions, ReadOptions,
    WriteOptions,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::body::{Json, LargeJson, invalid};
use super::error::{Code, Fault};
use super::{session, success};
use crate::pages::all;
use crate::sse::events;
use crate::text::Text;

/// Largest file that is read in one answer.
const LARGEST: u64 = 32 * 1024 * 1024;

/// Bytes of a piece of a stream: a multiple of three, so that pieces of base64 can be joined.
const PIECE: usize = 65_535;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Target {
    path: String,
    session_id: Option<String>,
    encoding: Option<String>,
}

impl Target {
    /// Relative paths start where the session is, if there is one.
    async fn query(&self, sandbox: &Client) -> Result<FileQuery, Fault> {
        query(sandbox, &self.path, self.session_id.as_deref()).await
    }
}

async fn query(sandbox: &Client, path: &str, id: Option<&str>) -> Result<FileQuery, Fault> {
    if path.is_empty() || path.contains('\0') {
        return Err(invalid("path", "Path must be a name without NUL"));
    }
    let mut query = FileQuery::new(path);
    if !path.starts_with('/')
        && let Some(id) = session::named(id)?
    {
        session::record(sandbox, &id).await?;
        query.session = Some(id);
    }
    Ok(query)
}

/// A failure about one path names it.
fn about(path: &str) -> impl Fn(ClientError) -> Fault + '_ {
    move |error| Fault::from(error).context(json!({"path": path}))
}

/// Whether bytes are to be shown as text.
fn is_text(bytes: &[u8]) -> bool {
    !bytes.contains(&0) && std::str::from_utf8(bytes).is_ok()
}

/// What a file is, by its name where that says it.
fn mime_of(path: &str, text: bool) -> &'static str {
    let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
    match extension.to_ascii_lowercase().as_str() {
        "json" => "application/json",
        "html" | "htm" => "text/html",
        "css" => "text/css",
        "csv" => "text/csv",
        "md" => "text/markdown",
        "js" | "mjs" | "cjs" => "text/javascript",
        "ts" => "text/typescript",
        "py" => "text/x-python",
        "sh" => "text/x-shellscript",
        "xml" => "text/xml",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "pdf" => "application/pdf",
        "zip" => "application/zip",
        "gz" => "application/gzip",
        "tar" => "application/x-tar",
        _ if text => "text/plain",
        _ => "application/octet-stream",
    }
}

async fn content(
    sandbox: &Client,
    query: &FileQuery,
    path: &str,
) -> Result<(FileEntry, ByteStream), Fault> {
    let entry = sandbox.stat_file(query, true).await.map_err(about(path))?;
    if entry.kind == FileKind::Directory {
        return Err(
            Fault::new(Code::IsDirectory, format!("{path} is a directory"))
                .context(json!({"path": path})),
        );
    }
    let content = sandbox.read_file(query, &ReadOptions::default()).await;
    Ok((entry, content.map_err(about(path))?.bytes))
}

pub(super) async fn read(
    Extension(sandbox): Extension<Client>,
    Json(asked): Json<Target>,
) -> Result<Response, Fault> {
    let query = asked.query(&sandbox).await?;
    let (entry, bytes) = content(&sandbox, &query, &asked.path).await?;
    let mut whole = Vec::new();
    let mut bytes = bytes;
    // By what arrives, not by what it was said to be: the file may be another one by now.
    while entry.size <= LARGEST && whole.len() as u64 <= LARGEST {
        match bytes.next().await {
            Some(piece) => whole.extend_from_slice(&piece.map_err(about(&asked.path))?),
            None => break,
        }
    }
    if entry.size.max(whole.len() as u64) > LARGEST {
        let message = format!(
            "{} has {} bytes, more than {LARGEST}",
            asked.path, entry.size
        );
        return Err(Fault::new(Code::FileTooLarge, message)
            .context(json!({"path": asked.path, "size": entry.size})));
    }
    let text = is_text(&whole);
    let as_base64 = match asked.encoding.as_deref() {
        Some("base64") => true,
        Some("utf-8" | "utf8") => false,
        None => !text,
        Some(other) => return Err(invalid("encoding", &format!("{other:?} is not known"))),
    };
    let content = if as_base64 {
        BASE64.encode(&whole)
    } else {
        String::from_utf8_lossy(&whole).into_owned()
    };
    Ok(success(json!({
        "path": asked.path,
        "content": content,
        "encoding": if as_base64 { "base64" } else { "utf-8" },
        "isBinary": !text,
        "mimeType": mime_of(&asked.path, text),
        "size": whole.len(),
        "exitCode": 0,
    })))
}

pub(super) async fn stream(
    Extension(sandbox): Extension<Client>,
    Json(asked): Json<Target>,
) -> Result<Response, Fault> {
    let query = asked.query(&sandbox).await?;
    let (entry, mut bytes) = content(&sandbox, &query, &asked.path).await?;
    Ok(events(|feed| async move {
        // Its beginning says what it is.
        let mut held = Vec::new();
        let mut failed = None;
        let mut ended = false;
        let mut told = None;
        let mut text = Text::default();
        let mut sent = 0u64;
        loop {
            while held.len() < PIECE && !ended {
                match bytes.next().await {
                    Some(Ok(piece)) => held.extend_from_slice(&piece),
                    Some(Err(error)) => {
                        failed = Some(error.to_string());
                        ended = true;
                    }
                    None => ended = true,
                }
            }
            let as_text = if let Some(as_text) = told {
                as_text
            } else {
                let mut trial = Text::default();
                trial.push(&held);
                let as_text = !held.contains(&0) && !trial.changed();
                feed.tell(&json!({
                    "type": "metadata",
                    "mimeType": mime_of(&asked.path, as_text),
                    "size": entry.size,
                    "isBinary": !as_text,
                    "encoding": if as_text { "utf-8" } else { "base64" },
                }))
                .await?;
                *told.insert(as_text)
            };
            if held.is_empty() {
                break;
            }
            let piece = held.drain(..held.len().min(PIECE)).collect::<Vec<u8>>();
            sent += piece.len() as u64;
            let data = if as_text {
                text.push(&piece)
            } else {
                BASE64.encode(&piece)
            };
            if text.changed() {
                failed = Some(format!(
                    "it is text no more before byte {sent}; read it as base64"
                ));
                break;
            }
            feed.tell(&json!({"type": "chunk", "data": data})).await?;
        }
        if !text.end().is_empty() {
            failed = Some("it ends within a character; read it as base64".to_owned());
        }
        match failed {
            Some(error) => feed.tell(&json!({"type": "error", "error": error})).await,
            None => {
                feed.tell(&json!({"type": "complete", "bytesRead": sent}))
                    .await
            }
        }
    }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Write {
    path: String,
    content: String,
    encoding: Option<String>,
    session_id: Option<String>,
}

pub(super) async fn write(
    Extension(sandbox): Extension<Client>,
    LargeJson(asked, _turn): LargeJson<Write>,
) -> Result<Response, Fault> {
    let query = query(&sandbox, &asked.path, asked.session_id.as_deref()).await?;
    let bytes = match asked.encoding.as_deref() {
        None | Some("utf-8" | "utf8") => asked.content.into_bytes(),
        Some("base64") => BASE64
            .decode(asked.content)
            .map_err(|_| invalid("content", "it is not base64"))?,
        Some(other) => return Err(invalid("encoding", &format!("{other:?} is not known"))),
    };
    let options = WriteOptions::default();
    let written = sandbox.write_file(&query, &options, bytes).await;
    written.map_err(about(&asked.path))?;
    Ok(success(json!({"path": asked.path, "exitCode": 0})))
}

pub(super) async fn delete(
    Extension(sandbox): Extension<Client>,
    Json(asked): Json<Target>,
) -> Result<Response, Fault> {
    let query = asked.query(&sandbox).await?;
    let entry = sandbox.stat_file(&query, false).await;
    if entry.map_err(about(&asked.path))?.kind == FileKind::Directory {
        let message = format!("Cannot delete directory with deleteFile: {}", asked.path);
        return Err(Fault::new(Code::IsDirectory, message).context(json!({"path": asked.path})));
    }
    let request = RemoveRequest {
        path: Some(query.path),
        session: query.session,
        ..RemoveRequest::default()
    };
    let removed = sandbox.remove_file(&request).await;
    removed.map_err(about(&asked.path))?;
    Ok(success(json!({"path": asked.path, "exitCode": 0})))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Rename {
    #[serde(alias = "sourcePath")]
    old_path: String,
    #[serde(alias = "destinationPath")]
    new_path: String,
    session_id: Option<String>,
}

pub(super) async fn relocate(
    Extension(sandbox): Extension<Client>,
    Json(asked): Json<Rename>,
) -> Result<Response, Fault> {
    let from = query(&sandbox, &asked.old_path, asked.session_id.as_deref()).await?;
    let to = query(&sandbox, &asked.new_path, asked.session_id.as_deref()).await?;
    let request = MoveRequest {
        from: Some(from.path),
        to: Some(to.path),
        session: from.session.or(to.session),
        overwrite: true,
        parents: Some(false),
        ..MoveRequest::default()
    };
    let moved = sandbox.move_file(&request).await;
    moved.map_err(about(&asked.old_path))?;
    Ok(success(json!({
        "path": asked.old_path,
        "oldPath": asked.old_path,
        "newPath": asked.new_path,
        "exitCode": 0,
    })))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Mkdir {
    path: String,
    #[serde(default)]
    recursive: bool,
    session_id: Option<String>,
}

pub(super) async fn mkdir(
    Extension(sandbox): Extension<Client>,
    Json(asked): Json<Mkdir>,
) -> Result<Response, Fault> {
    let query = query(&sandbox, &asked.path, asked.session_id.as_deref()).await?;
    let request = MkdirRequest {
        path: Some(query.path),
        session: query.session,
        parents: Some(asked.recursive),
        exist_ok: asked.recursive,
        ..MkdirRequest::default()
    };
    let made = sandbox.make_directory(&request).await;
    made.map_err(about(&asked.path))?;
    Ok(success(
        json!({"path": asked.path, "recursive": asked.recursive, "exitCode": 0}),
    ))
}

pub(super) async fn exists(
    Extension(sandbox): Extension<Client>,
    Json(asked): Json<Target>,
) -> Result<Response, Fault> {
    let query = asked.query(&sandbox).await?;
    let exists = match sandbox.stat_file(&query, true).await {
        Ok(_) => true,
        Err(error) if error.status() == Some(404) || is_no_directory(&error) => false,
        Err(error) => return Err(about(&asked.path)(error)),
    };
    Ok(success(json!({"path": asked.path, "exists": exists})))
}

fn is_no_directory(error: &ClientError) -> bool {
    error.code() == Some(sandshell_client::types::ErrorCode::NotADirectory)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct List {
    path: String,
    #[serde(default)]
    options: Listed,
    session_id: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Listed {
    recursive: bool,
    include_hidden: bool,
}

pub(super) async fn list(
    Extension(sandbox): Extension<Client>,
    Json(asked): Json<List>,
) -> Result<Response, Fault> {
    let query = query(&sandbox, &asked.path, asked.session_id.as_deref()).await?;
    let options = ListOptions {
        recursive: asked.options.recursive,
        hidden: Some(asked.options.include_hidden),
    };
    let root = sandbox.stat_file(&query, true).await;
    let root = root.map_err(about(&asked.path))?.path;
    let (sandbox, directory) = (&sandbox, &query);
    let found = all(|page| async move { sandbox.list_files(directory, options, &page).await });
    let found = found.await.map_err(about(&asked.path))?;
    let files: Vec<Value> = found.iter().map(|entry| shown(entry, &root)).collect();
    Ok(success(json!({
        "path": asked.path,
        "count": files.len(),
        "files": files,
        "exitCode": 0,
    })))
}

fn shown(entry: &FileEntry, root: &str) -> Value {
    let kind = match entry.kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symlink",
        _ => "other",
    };
    let bits = entry.mode.bits();
    let mode: String = (0..9)
        .map(|bit| match bits & (0o400 >> bit) {
            0 => '-',
            _ => ['r', 'w', 'x'][bit % 3],
        })
        .collect();
    let relative = entry.path.strip_prefix(root).unwrap_or(&entry.path);
    json!({
        "name": entry.name,
        "absolutePath": entry.path,
        "relativePath": relative.trim_start_matches('/'),
        "type": kind,
        "size": entry.size,
        "modifiedAt": entry.modified_at,
        "mode": mode,
        "permissions": {
            "readable": bits & 0o444 != 0,
            "writable": bits & 0o222 != 0,
            "executable": bits & 0o111 != 0,
        },
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Backup {
    dir: String,
    archive_path: String,
    #[serde(default)]
    gitignore: bool,
    #[serde(default)]
    excludes: Vec<String>,
}

/// Writes an archive of a directory into a file beside it. Its form is ours: only `restore` reads it.
pub(super) async fn backup(
    Extension(sandbox): Extension<Client>,
    Json(asked): Json<Backup>,
) -> Result<Response, Fault> {
    let archive = ArchiveQuery {
        directory: FileQuery::new(&asked.dir),
        format: ArchiveFormat::TarZst,
        exclude: asked.excludes,
        gitignore: asked.gitignore,
        ..ArchiveQuery::default()
    };
    let bytes = sandbox
        .get_archive(&archive)
        .await
        .map_err(about(&asked.dir))?;
    let pieces = pieces(bytes);
    let target = FileQuery::new(&asked.archive_path);
    let options = WriteOptions::default();
    let written = sandbox.upload_file(&target, &options, pieces).await;
    let entry = written.map_err(about(&asked.archive_path))?;
    Ok(success(
        json!({"sizeBytes": entry.size, "archivePath": asked.archive_path}),
    ))
}

pub(super) async fn restore(
    Extension(sandbox): Extension<Client>,
    Json(asked): Json<Backup>,
) -> Result<Response, Fault> {
    let source = FileQuery::new(&asked.archive_path);
    let content = sandbox.read_file(&source, &ReadOptions::default()).await;
    let bytes = content.map_err(about(&asked.archive_path))?.bytes;
    let pieces = pieces(bytes);
    let made = MkdirRequest {
        path: Some(asked.dir.clone()),
        parents: Some(true),
        exist_ok: true,
        ..MkdirRequest::default()
    };
    let made = sandbox.make_directory(&made).await;
    made.map_err(about(&asked.dir))?;
    let target = FileQuery::new(&asked.dir);
    let restored = sandbox.upload_archive(&target, pieces).await;
    restored.map_err(about(&asked.dir))?;
    Ok(success(json!({"dir": asked.dir})))
}

/// What comes from one place, as it is given to another.
fn pieces(bytes: ByteStream) -> impl Stream<Item = std::io::Result<Bytes>> {
    futures_util::stream::unfold(bytes, |mut bytes| async move {
        let piece = bytes.next().await?.map_err(std::io::Error::other);
        Some((piece, bytes))
    })
}
