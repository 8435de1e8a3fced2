//! `/v1/files/archive`: trees as tar archives.

use std::path::PathBuf;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use http::{HeaderValue, header};
use sandshell_files::{
    Compression, FileError, Named, Pack, PackRules, Stop, inlet, merge_into, outlet,
};
use sandshell_types::{ArchiveCounts, ArchiveFormat, ErrorCode, SessionId};

use super::AgentState;
use super::document::{PackProblems, UnpackProblems};
use super::output::RawBytes;
use super::search::LONG_WORK;
use crate::Agent;
use crate::extract::{Query, next_data};
use crate::problem::ApiError;
use sandshell_sys::task;

crate::table! {
    /// Its routes.
    pub(super) Arc<Agent> {
        self::pack, self::unpack;
    }
}

/// Query of the archive routes. `exclude` may be given several times, which the form of other queries
/// does not allow, so it is taken apart by hand.
#[derive(Debug, Default)]
struct ArchiveQuery {
    path: Option<String>,
    path_base64: Option<String>,
    session: Option<SessionId>,
    user: Option<String>,
    format: ArchiveFormat,
    rules: PackRules,
}

impl ArchiveQuery {
    /// Takes the pairs apart; `packing` says which names are known.
    fn new(pairs: Vec<(String, String)>, packing: bool) -> Result<Self, ApiError> {
        let mut query = Self::default();
        let mut seen: Vec<String> = Vec::new();
        for (name, value) in pairs {
            if name != "exclude" && seen.contains(&name) {
                return Err(wrong(&name, format!("`{name}` is given twice")));
            }
            match name.as_str() {
                "path" => query.path = Some(value),
                "path_base64" => query.path_base64 = Some(value),
                "session" => {
                    let session = value
                        .parse()
                        .map_err(|error| wrong(&name, format!("{error}")));
                    query.session = Some(session?);
                }
                "user" => query.user = Some(value),
                "format" if packing => {
                    query.format = [
                        ArchiveFormat::Tar,
                        ArchiveFormat::TarGz,
                        ArchiveFormat::TarZst,
                    ]
                    .into_iter()
                    .find(|format| format.as_str() == value)
                    .ok_or_else(|| {
                        wrong(
                            &name,
                            format!("{value:?} is none of tar, tar.gz and tar.zst"),
                        )
                    })?;
                }
                "exclude" if packing => query.rules.exclude.push(value),
                "gitignore" if packing => query.rules.gitignore = flag(&name, &value)?,
                "copy_links" if packing => query.rules.copy_links = flag(&name, &value)?,
                "skip_unreadable" if packing => {
                    query.rules.skip_unreadable = flag(&name, &value)?;
                }
                _ => return Err(wrong(&name, format!("unknown parameter `{name}`"))),
            }
            seen.push(name);
        }
        Ok(query)
    }

    /// The directory it names.
    fn directory(&self, agent: &Agent) -> Result<PathBuf, ApiError> {
        let named = Named {
            field: "path",
            text: self.path.as_deref(),
            base64: self.path_base64.as_deref(),
            session: self.session.as_ref(),
        };
        Ok(named.path(&agent.executor)?)
    }
}

fn wrong(name: &str, detail: impl Into<String>) -> ApiError {
    let detail = format!("the query is not valid: {}", detail.into());
    ApiError::new(ErrorCode::InvalidRequest, detail).pointer(format!("/{name}"))
}

fn flag(name: &str, value: &str) -> Result<bool, ApiError> {
    value
        .parse()
        .map_err(|_| wrong(name, format!("{value:?} is neither true nor false")))
}

/// Get a directory as an archive.
///
/// Streamed as it is read. FIFOs, sockets and devices are left out. When something cannot be read on
/// the way, the answer breaks off before its end.
#[utoipa::path(
    get, path = "/v1/files/archive", operation_id = "get_archive", tag = "files",
    params(
        ("path" = Option<String>, Query, description = "The directory."),
        ("path_base64" = Option<String>, Query, description = "Instead of `path`, for names that are not UTF-8."),
        ("format" = inline(Option<ArchiveFormat>), Query, description = "`tar` by default."),
        ("exclude" = Option<Vec<String>>, Query, description = "A glob of what to leave out; may be given several times."),
        ("gitignore" = Option<bool>, Query, description = "Leave out what .gitignore files exclude; false by default."),
        ("skip_unreadable" = Option<bool>, Query, description = "Leave out what the user may not read; false by default."),
        ("copy_links" = Option<bool>, Query, description = "Store each name of a hard-linked file as a file of its own, for readers that take no hard links; false by default."),
        ("session" = Option<String>, Query, description = "Relative paths start at this session's directory."),
        ("user" = Option<String>, Query, description = "Whose rights are used: a user name or uid; the sandbox's user by default."),
    ),
    responses(
        (status = 200, description = "The archive.", content(
            (RawBytes = "application/x-tar", example = json!("(bytes of a tar archive)")),
            (RawBytes = "application/gzip", example = json!("(the same, compressed)")),
            (RawBytes = "application/zstd", example = json!("(the same, compressed)")),
        )),
        PackProblems,
    )
)]
pub(crate) async fn pack(
    State(agent): AgentState,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Result<Response, ApiError> {
    let query = ArchiveQuery::new(pairs, true)?;
    let who = agent.executor.who(query.user.as_deref())?;
    let start = query.directory(&agent)?;
    let pack = Arc::new(Pack::new(start, &query.rules)?);
    let inside = agent.executor.inside().clone();
    let checked = Arc::clone(&pack);
    let check = inside.run(&who, move |root| checked.check(root));
    check.await.map_err(FileError::from)??;
    let slot = LONG_WORK.acquire().await;
    let (output, pieces) = outlet();
    let stop = Stop::new(agent.shutdown.clone(), None);
    let format = query.format;
    // Ends when the reader goes away: its pipe is then broken.
    task::spawn(async move {
        let job = inside.run(&who, move |root| {
            let packed = Compression::new(format, output);
            let Ok(mut packed) = packed else { return };
            match pack.run(root, &mut packed, &stop, &|_| {}) {
                Ok(_) => {
                    if let Ok(output) = packed.finish() {
                        let _ = output.finish();
                    }
                }
                // Without its end the answer breaks off.
                Err(error) => tracing::info!(%error, "an archive breaks off"),
            }
        });
        let _ = job.await;
        drop(slot);
    });
    let body = stream::try_unfold(pieces, |mut pieces| async move {
        let piece = pieces.next().await?;
        Ok::<_, std::io::Error>(piece.map(|piece| (piece, pieces)))
    });
    let headers = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static(query.format.media_type()),
        ),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((headers, Body::from_stream(body)).into_response())
}

/// Unpack an archive into a directory.
///
/// A tar archive, plain or compressed with gzip or zstd. It is unpacked beside what is there, and only
/// when all of it has arrived and is valid is it moved into place: a bad archive changes nothing.
/// Entries that would leave the directory are refused; FIFOs and devices are left out and counted;
/// what comes out belongs to the user. The directory is made if need be; what else is in it stays.
#[utoipa::path(
    put, path = "/v1/files/archive", operation_id = "put_archive", tag = "files",
    params(
        ("path" = Option<String>, Query, description = "The directory."),
        ("path_base64" = Option<String>, Query, description = "Instead of `path`, for names that are not UTF-8."),
        ("session" = Option<String>, Query, description = "Relative paths start at this session's directory."),
        ("user" = Option<String>, Query, description = "Whose rights are used, and who owns what comes out."),
    ),
    request_body(content = RawBytes, content_type = "application/x-tar",
        description = "The archive.", example = json!("(bytes of a tar archive)")),
    responses(
        (status = 200, description = "What came out.", body = ArchiveCounts, example = json!({
            "files": 2, "directories": 1, "symlinks": 0, "bytes": 120, "skipped": 0
        })),
        UnpackProblems,
    )
)]
pub(crate) async fn unpack(
    State(agent): AgentState,
    Query(pairs): Query<Vec<(String, String)>>,
    mut body: Body,
) -> Result<axum::Json<ArchiveCounts>, ApiError> {
    let query = ArchiveQuery::new(pairs, false)?;
    let who = agent.executor.who(query.user.as_deref())?;
    let target = query.directory(&agent)?;
    let _slot = LONG_WORK.acquire().await;
    let (feeder, input) = inlet();
    let stop = Stop::new(agent.shutdown.clone(), None);
    let job = agent
        .executor
        .inside()
        .run(&who, move |root| merge_into(root, &target, input, &stop));
    // Dropped with the handler when the client goes away, which breaks the input off.
    let feed = async {
        while let Some(data) = next_data(&mut body).await? {
            if !feeder.feed(data).await {
                return Ok(());
            }
        }
        feeder.end().await;
        Ok::<_, ApiError>(())
    };
    let (unpacked, fed) = tokio::join!(job, feed);
    let counts = unpacked.map_err(FileError::from)?;
    fed?;
    Ok(axum::Json(counts?))
}
