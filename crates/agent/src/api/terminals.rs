//! `/v1/terminals`: programs on a terminal, what is on its screen, and connections to it.

mod connection;

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::rejection::ExtensionRejection;
use axum::extract::ws::{WebSocketUpgrade, rejection::WebSocketUpgradeRejection};
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use http::{HeaderValue, header};
use sandshell_exec::{ExecError, TerminalHandle, terminal};
use sandshell_types::{
    ErrorCode, KillReply, List, ResizeRequest, TerminalFrame, TerminalRecord, TerminalRequest,
    TerminalRole, TerminalScreen,
};
use serde::Deserialize;

use super::document::{
    TerminalChangeProblems, TerminalConnectProblems, TerminalReadProblems, TerminalStartProblems,
};
use super::output::RawBytes;
use super::paging::{PageQuery, page};
use super::{AgentState, created};
use crate::Agent;
use crate::extract::{Json, OptionalJson, Path, Query};
use crate::problem::ApiError;
use crate::server::{Slot, to_the_end};

crate::table! {
    /// Its routes.
    pub(super) Arc<Agent> {
        self::create, self::list;
        self::get, self::destroy;
        self::resize;
        self::screen;
        self::recording;
        self::connect;
    }
}

/// Create a terminal.
///
/// Starts a login shell, or the given program, on a terminal of its own, with job control. It lives
/// on without viewers. Creating an existing id again gives the same terminal when the spec is the same.
#[utoipa::path(
    post, path = "/v1/terminals", operation_id = "create_terminal", tag = "terminals",
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes a retry safe for 10 minutes.")),
    request_body(content = Option<TerminalRequest>, description = "May be left out: a login shell."),
    responses(
        (status = 201, description = "It was started.", body = TerminalRecord, example = json!({
            "id": "edit", "pid": 12, "state": "running", "argv": ["vim", "notes.txt"],
            "cols": 100, "rows": 30, "output_bytes": 0, "viewers": 0,
            "started_at": "2026-01-01T00:00:00Z"
        })),
        (status = 200, description = "It was there already.", body = TerminalRecord),
        TerminalStartProblems,
    )
)]
pub(crate) async fn create(
    State(agent): AgentState,
    OptionalJson(request): OptionalJson<TerminalRequest>,
) -> Result<Response, ApiError> {
    let create = async move { agent.executor.create_terminal(request).await };
    let (terminal, now) = to_the_end(create).await??;
    Ok(created(now, terminal.record()))
}

/// List terminals, oldest first.
///
/// Those that run and those that ended lately.
#[utoipa::path(
    get, path = "/v1/terminals", operation_id = "list_terminals", tag = "terminals",
    params(PageQuery),
    responses(
        (status = 200, description = "A page.", body = List<TerminalRecord>, example = json!({"items": []})),
        TerminalReadProblems,
    )
)]
pub(crate) async fn list(
    State(agent): AgentState,
    Query(query): Query<PageQuery>,
) -> Result<axum::Json<List<TerminalRecord>>, ApiError> {
    page(
        agent.executor.terminals(),
        &query,
        |t| t.id().as_str(),
        TerminalHandle::record,
    )
    .map(axum::Json)
}

/// Get a terminal.
///
/// Its size, its title, and how its program ended once it has.
#[utoipa::path(
    get, path = "/v1/terminals/{id}", operation_id = "get_terminal", tag = "terminals",
    params(("id" = String, Path, description = "Id of the terminal.")),
    responses(
        (status = 200, description = "The terminal.", body = TerminalRecord, example = json!({
            "id": "edit", "pid": 12, "state": "exited", "argv": ["vim", "notes.txt"],
            "cols": 100, "rows": 30, "title": "notes.txt", "output_bytes": 5120, "viewers": 0,
            "started_at": "2026-01-01T00:00:00Z", "ended_at": "2026-01-01T00:01:00Z", "exit_code": 0
        })),
        TerminalReadProblems,
    )
)]
pub(crate) async fn get(
    State(agent): AgentState,
    Path(id): Path<String>,
) -> Result<axum::Json<TerminalRecord>, ApiError> {
    Ok(axum::Json(agent.executor.terminal(&id)?.record()))
}

/// End a terminal with all that runs on it, and forget it.
///
/// Answers when nothing of it is left. Viewers are told the end; afterwards the id is free again.
#[utoipa::path(
    delete, path = "/v1/terminals/{id}", operation_id = "delete_terminal", tag = "terminals",
    params(("id" = String, Path, description = "Id of the terminal.")),
    responses(
        (status = 200, description = "It is gone.", body = KillReply,
            example = json!({"method": "cgroup_kill", "killed": 2, "survivors": []})),
        TerminalReadProblems,
    )
)]
pub(crate) async fn destroy(
    State(agent): AgentState,
    Path(id): Path<String>,
) -> Result<axum::Json<KillReply>, ApiError> {
    let destroy = async move { agent.executor.destroy_terminal(&id).await };
    Ok(axum::Json(to_the_end(destroy).await??))
}

/// Change the size of a terminal.
///
/// The program gets SIGWINCH, and every viewer a `resize` frame.
#[utoipa::path(
    post, path = "/v1/terminals/{id}/resize", operation_id = "resize_terminal", tag = "terminals",
    params(("id" = String, Path, description = "Id of the terminal.")),
    request_body = ResizeRequest,
    responses(
        (status = 200, description = "It has that size.", body = TerminalRecord, example = json!({
            "id": "edit", "pid": 12, "state": "running", "cols": 120, "rows": 40,
            "output_bytes": 5120, "viewers": 1, "started_at": "2026-01-01T00:00:00Z"
        })),
        TerminalChangeProblems,
    )
)]
pub(crate) async fn resize(
    State(agent): AgentState,
    Path(id): Path<String>,
    Json(size): Json<ResizeRequest>,
) -> Result<axum::Json<TerminalRecord>, ApiError> {
    let terminal = agent.executor.terminal(&id)?;
    terminal.resize(size)?;
    Ok(axum::Json(terminal.record()))
}

/// How a screen is given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ScreenFormat {
    /// As JSON.
    #[default]
    Text,
    /// As bytes that draw it.
    Ansi,
}

/// Query of a screen.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ScreenQuery {
    /// `text` (JSON) by default; `ansi` gives bytes that draw the same on a terminal of this size.
    #[param(inline)]
    format: Option<ScreenFormat>,
    /// Also the last lines, this many at most, that scrolled away at the top.
    #[param(minimum = 0, maximum = 1000)]
    scrollback: Option<usize>,
}

/// See the screen of a terminal.
///
/// What a person in front of it would see now: text, cursor, title and size, of the alternate screen
/// too. No connection is needed.
#[utoipa::path(
    get, path = "/v1/terminals/{id}/screen", operation_id = "get_terminal_screen", tag = "terminals",
    params(("id" = String, Path, description = "Id of the terminal."), ScreenQuery),
    responses(
        (status = 200, description = "The screen.", content(
            (TerminalScreen = "application/json", example = json!({
                "text": "$ echo hello\nhello\n$", "cursor": {"col": 2, "row": 2, "visible": true},
                "cols": 80, "rows": 3, "alternate": false, "offset": 29, "state": "running"
            })),
            (RawBytes = "text/plain; charset=utf-8", example = json!("\u{1b}[2J\u{1b}[H$ echo hello")),
        )),
        TerminalReadProblems,
    )
)]
pub(crate) async fn screen(
    State(agent): AgentState,
    Path(id): Path<String>,
    Query(query): Query<ScreenQuery>,
) -> Result<Response, ApiError> {
    let terminal = agent.executor.terminal(&id)?;
    if query.scrollback.is_some_and(|n| n > terminal::SCROLLBACK) {
        let most = terminal::SCROLLBACK;
        return Err(ApiError::new(
            ErrorCode::InvalidRequest,
            format!("{most} lines are kept at most"),
        )
        .pointer("/scrollback"));
    }
    Ok(match query.format.unwrap_or_default() {
        ScreenFormat::Text => axum::Json(terminal.screen(query.scrollback)).into_response(),
        ScreenFormat::Ansi => (
            plain("text/plain; charset=utf-8"),
            Body::from(terminal.redraw()),
        )
            .into_response(),
    })
}

/// Get the recording of a terminal.
///
/// Its output so far as an asciicast (version 2), which asciinema and its web player play. Bytes that
/// are no longer kept are named in a marker at their place.
#[utoipa::path(
    get, path = "/v1/terminals/{id}/recording", operation_id = "get_terminal_recording", tag = "terminals",
    params(("id" = String, Path, description = "Id of the terminal.")),
    responses(
        (status = 200, description = "The recording.", content(
            (RawBytes = "application/x-asciicast", example = json!(
                "{\"version\":2,\"width\":80,\"height\":24}\n[0.01,\"o\",\"$ \"]\n"
            )),
        )),
        TerminalReadProblems,
    )
)]
pub(crate) async fn recording(
    State(agent): AgentState,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let recording = agent.executor.terminal(&id)?.recording()?;
    let lines = stream::try_unfold(recording, |mut recording| async move {
        let lines = recording.next().await?;
        Ok::<_, ExecError>(lines.map(|lines: Bytes| (lines, recording)))
    });
    let body = Body::from_stream(lines);
    Ok((plain("application/x-asciicast"), body).into_response())
}

fn plain(content_type: &'static str) -> [(header::HeaderName, HeaderValue); 2] {
    [
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ]
}

/// Query of a connection.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ConnectQuery {
    /// Begin with the byte of output at this offset, without a redraw.
    offset: Option<u64>,
    /// `writer` by default; a `viewer` sees only.
    #[param(inline)]
    role: Option<TerminalRole>,
    /// With `rows`: take this size before the first frame. For writers.
    #[param(minimum = 1, maximum = 500)]
    cols: Option<u16>,
    /// With `cols`.
    #[param(minimum = 1, maximum = 300)]
    rows: Option<u16>,
    /// Whether this client answers what programs ask a terminal, such as where the cursor is, as
    /// terminal emulators do. Default: true for writers. While no client does, the agent answers.
    answers: Option<bool>,
}

impl ConnectQuery {
    fn is_writer(&self) -> bool {
        self.role.unwrap_or_default() == TerminalRole::Writer
    }

    /// The size to take first.
    fn size(&self) -> Result<Option<ResizeRequest>, ApiError> {
        let invalid = |detail: &str, pointer: &str| {
            ApiError::new(ErrorCode::InvalidRequest, detail).pointer(pointer)
        };
        match (self.cols, self.rows) {
            (None, None) => Ok(None),
            (Some(_), None) => Err(invalid("`cols` and `rows` go together", "/rows")),
            (None, Some(_)) => Err(invalid("`cols` and `rows` go together", "/cols")),
            (Some(_), Some(_)) if !self.is_writer() => {
                Err(invalid("only a writer can change the size", "/cols"))
            }
            (Some(cols), Some(rows)) => Ok(Some(ResizeRequest { cols, rows })),
        }
    }
}

/// Connect to a terminal (WebSocket).
///
/// Binary frames are bytes, both ways. Text frames are JSON: `TerminalFrame` from the server,
/// `TerminalClientFrame` from the client. The first is `ready`; without `offset` a binary frame
/// follows it that draws the screen as it is, then comes live output. A client that falls behind gets
/// `truncated` and another redraw. After the program's end comes `exit`, then the connection is closed.
///
/// Close codes: 1000 the program has ended, 1001 the agent ends, 1008 a text frame that is not
/// understood, 1009 a message above 256 KiB, 1011 output could not be read.
#[utoipa::path(
    get, path = "/v1/terminals/{id}/connect", operation_id = "connect_terminal", tag = "terminals",
    params(("id" = String, Path, description = "Id of the terminal."), ConnectQuery),
    responses(
        (status = 101, description = "A WebSocket; its text frames from the server.", body = TerminalFrame,
            example = json!({"type": "ready", "offset": 5120, "cols": 100, "rows": 30, "redraw_bytes": 812})),
        TerminalConnectProblems,
    )
)]
pub(crate) async fn connect(
    State(agent): AgentState,
    Path(id): Path<String>,
    Query(query): Query<ConnectQuery>,
    slot: Result<Extension<Slot>, ExtensionRejection>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ApiError> {
    let terminal = agent.executor.terminal(&id)?;
    let size = query.size()?;
    let upgrade = upgrade.map_err(|rejection| {
        ApiError::new(
            ErrorCode::InvalidRequest,
            format!("this route is a WebSocket: {}", rejection.body_text()),
        )
        .hint("Connect with a WebSocket client, over HTTP/1.1.")
    })?;
    if let Some(size) = size {
        match terminal.resize(size) {
            // One that has ended is shown as it was.
            Ok(()) | Err(ExecError::TerminalEnded { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let writer = query.is_writer();
    let viewer = terminal.connect(query.offset, query.answers.unwrap_or(writer))?;
    let token = agent.upgraded.token();
    let shutdown = agent.shutdown.clone();
    Ok(upgrade
        .max_message_size(connection::MAX_READ)
        .max_frame_size(connection::MAX_READ)
        .on_upgrade(move |socket| async move {
            connection::attend(socket, viewer, writer, shutdown).await;
            drop((slot, token));
        }))
}
