//! `/v1/ports`: ports and the proxy to them.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use http::{HeaderMap, StatusCode, header};
use sandshell_exec::{PortEvent, PortWatcher};
use sandshell_types::{
    ErrorCode, List, PortExposure, PortRecord, PortUnexposed, PortWaitReply, PortWaitRequest,
    PortsEvent, Room,
};
use tokio_util::sync::CancellationToken;

use super::document::events::event_union;
use super::document::{PortProblems, ProxyProblems};
use super::output::RawBytes;
use super::paging::{PageQuery, page};
use super::{AgentState, Nothing};
use crate::Agent;
use crate::extract::{OptionalJson, Path, Query};
use crate::ports::head::OUTSIDE;
use crate::problem::ApiError;
use crate::sse;

/// Shorter than the idle timeouts of common proxies.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

crate::table! {
    /// Its routes.
    pub(super) Arc<Agent> {
        self::list;
        self::expose, self::unexpose;
        self::wait;
        self::proxy;
    }
}

event_union! {
    /// Ports as they come and go: `ports` first, with all there are; what is more than a page follows as `opened`.
    PortEvents: "ports" => PortsEvent, "opened" => PortRecord, "closed" => PortRecord;
}

/// List listening ports, or watch them.
///
/// TCP ports that processes of this sandbox listen on, lowest first. With `Accept:
/// text/event-stream` the answer begins with `ports`, all there are, and goes on with `opened` and
/// `closed` as they come and go.
#[utoipa::path(
    get, path = "/v1/ports", operation_id = "list_ports", tag = "ports",
    params(PageQuery),
    responses(
        (status = 200, description = "A page, or events.", content(
            (List<PortRecord> = "application/json", example = json!({"items": [{
                "port": 8000, "addresses": ["0.0.0.0"], "pid": 12,
                "command": "python3 -m http.server 8000", "process": "web", "exposed": false
            }]})),
            (PortEvents = "text/event-stream", example = json!({
                "event": "opened",
                "data": r#"{"port":8000,"addresses":["0.0.0.0"],"pid":12,"command":"python3 -m http.server 8000","process":"web","exposed":false}"#
            })),
        )),
        PortProblems,
    )
)]
pub(crate) async fn list(
    State(agent): AgentState,
    Query(query): Query<PageQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    if sse::wanted(&headers) {
        let paged = query.limit.map(|_| "/limit");
        if let Some(pointer) = paged.or(query.cursor.as_ref().map(|_| "/cursor")) {
            let detail = "events have no pages";
            return Err(ApiError::new(ErrorCode::InvalidRequest, detail).pointer(pointer));
        }
        return Ok(events(agent).await);
    }
    let ports: Vec<(String, PortRecord)> = agent
        .executor
        .ports()
        .await?
        .into_iter()
        .filter_map(|record| shown(&agent, record))
        .map(|record| (record.port.to_string(), record))
        .collect();
    let listed = page(
        ports,
        &query,
        |(port, _)| port,
        |(_, record)| record.clone(),
    )?;
    Ok(axum::Json(listed).into_response())
}

/// A record with what the edge knows of it; `None` for the agent's own port.
fn shown(agent: &Agent, mut record: PortRecord) -> Option<PortRecord> {
    if agent.ports.is_own(record.port) {
        return None;
    }
    record.exposed = agent.ports.exposed.is_exposed(record.port);
    Some(record)
}

async fn events(agent: Arc<Agent>) -> Response {
    let watcher = agent.executor.watch_ports().await;
    let open = watcher.open().cloned();
    let mut items: Vec<_> = open.filter_map(|record| shown(&agent, record)).collect();
    let further = items.split_off(Room::of_page(usize::MAX).fitting(&items));
    let first = sse::event("ports", None, &PortsEvent { items }).unwrap_or_default();
    let further = further.into_iter();
    let further = further.filter_map(|record| sse::event("opened", None, &record).ok());
    let start = [sse::preamble(), first].into_iter().chain(further);
    let start = start.map(Ok::<_, std::convert::Infallible>);
    let shutdown = agent.shutdown.clone();
    let rest = stream::unfold((agent, watcher), move |(agent, mut watcher)| {
        let shutdown = shutdown.clone();
        async move {
            let bytes = next_event(&agent, &mut watcher, &shutdown).await?;
            Some((Ok(bytes), (agent, watcher)))
        }
    });
    let body = futures_util::StreamExt::chain(stream::iter(start), rest);
    sse::response(Body::from_stream(body))
}

/// The next piece of the stream; `None` when the agent ends.
async fn next_event(
    agent: &Agent,
    watcher: &mut PortWatcher,
    shutdown: &CancellationToken,
) -> Option<Bytes> {
    loop {
        let event = tokio::select! {
            event = watcher.next() => event,
            () = tokio::time::sleep(KEEP_ALIVE) => {
                return Some(Bytes::from_static(sse::KEEP_ALIVE.as_bytes()));
            }
            () = shutdown.cancelled() => return None,
        };
        let (name, record) = match event {
            PortEvent::Opened(record) => ("opened", record),
            PortEvent::Closed(record) => ("closed", record),
        };
        if let Some(record) = shown(agent, record) {
            return sse::event(name, None, &record).ok();
        }
    }
}

/// Expose a port.
///
/// Gives a URL with a token of its own that opens the proxy of this port, and nothing else, to
/// whoever has it: for a browser, which cannot send the agent's token. Nothing need listen yet.
/// Exposing again gives the same token; unexposing takes it away.
#[utoipa::path(
    put, path = "/v1/ports/{port}", operation_id = "expose_port", tag = "ports",
    params(("port" = u16, Path, description = "The TCP port.", minimum = 1)),
    responses(
        (status = 200, description = "How it is reached.", body = PortExposure, example = json!({
            "port": 8000, "path": "/v1/ports/8000/proxy/", "token": "pt_0123",
            "url": "http://127.0.0.1:3000/v1/ports/8000/proxy/?port_token=pt_0123"
        })),
        PortProblems,
    )
)]
pub(crate) async fn expose(
    State(agent): AgentState,
    Path(port): Path<u16>,
    headers: HeaderMap,
    OptionalJson(Nothing {}): OptionalJson<Nothing>,
) -> Result<axum::Json<PortExposure>, ApiError> {
    agent.ports.check(port)?;
    let token = agent.ports.exposed.expose(port)?;
    let path = match headers
        .get(OUTSIDE)
        .and_then(|outside| outside.to_str().ok())
    {
        Some(outside) => format!("{outside}/ports/{port}/proxy/"),
        None => format!("/v1/ports/{port}/proxy/"),
    };
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok())
        .unwrap_or("localhost");
    Ok(axum::Json(PortExposure {
        port,
        url: format!("http://{host}{path}?port_token={token}"),
        path,
        token,
    }))
}

/// Unexpose a port.
///
/// Its token opens nothing any more. Requests and upgraded connections in progress go on.
#[utoipa::path(
    delete, path = "/v1/ports/{port}", operation_id = "unexpose_port", tag = "ports",
    params(("port" = u16, Path, description = "The TCP port.", minimum = 1)),
    responses(
        (status = 200, description = "It is not exposed.", body = PortUnexposed,
            example = json!({"port": 8000, "was_exposed": true})),
        PortProblems,
    )
)]
pub(crate) async fn unexpose(
    State(agent): AgentState,
    Path(port): Path<u16>,
) -> Result<axum::Json<PortUnexposed>, ApiError> {
    agent.ports.check(port)?;
    let was_exposed = agent.ports.exposed.unexpose(port);
    Ok(axum::Json(PortUnexposed { port, was_exposed }))
}

/// Wait until a port is ready.
///
/// Ready means that something in the sandbox takes a connection there, or with `http` that it gives
/// the status asked for.
#[utoipa::path(
    post, path = "/v1/ports/{port}/wait", operation_id = "wait_for_port", tag = "ports",
    params(("port" = u16, Path, description = "The TCP port.", minimum = 1)),
    request_body(content = Option<PortWaitRequest>, description = "May be left out: waits for a connection."),
    responses(
        (status = 200, description = "It is ready, or the time was over.", body = PortWaitReply,
            example = json!({"ready": true, "timed_out": false, "port": {
                "port": 8000, "addresses": ["0.0.0.0"], "pid": 12,
                "command": "python3 -m http.server 8000", "process": "web", "exposed": false
            }})),
        PortProblems,
    )
)]
pub(crate) async fn wait(
    State(agent): AgentState,
    Path(port): Path<u16>,
    OptionalJson(request): OptionalJson<PortWaitRequest>,
) -> Result<axum::Json<PortWaitReply>, ApiError> {
    agent.ports.check(port)?;
    let ready = tokio::select! {
        ready = agent.executor.wait_port(port, &request) => ready?,
        () = agent.shutdown.cancelled() => {
            return Err(ApiError::new(
                ErrorCode::Unavailable,
                "the agent is shutting down",
            ));
        }
    };
    let record = if ready {
        let all = agent.executor.ports().await?;
        all.into_iter().find(|record| record.port == port)
    } else {
        None
    };
    Ok(axum::Json(PortWaitReply {
        ready,
        timed_out: !ready,
        port: record.and_then(|record| shown(&agent, record)),
    }))
}

/// Send a request to a port.
///
/// Every method is passed on, not only GET: path, query and body as they are, streaming both ways,
/// with `Upgrade` (`WebSocket`) and server-sent events. The answer is that of the server inside,
/// whatever its status; a problem document comes only when there is no such answer. Opened by the
/// agent's token or by that of the exposed port.
#[utoipa::path(
    get, path = "/v1/ports/{port}/proxy/{rest}", operation_id = "proxy_port", tag = "ports",
    params(
        ("port" = u16, Path, description = "The TCP port.", minimum = 1),
        ("rest" = String, Path, description = "The path for the server inside."),
        ("port_token" = Option<String>, Query, description = "The token of the exposed port."),
    ),
    responses(
        (status = "default", description = "Whatever the server inside answers.",
            content((RawBytes = "application/octet-stream"))),
        (status = 200, description = "As an example of what the server inside may answer.",
            content((RawBytes = "application/octet-stream", example = json!("hello")))),
        ProxyProblems,
    )
)]
pub(crate) async fn proxy() -> StatusCode {
    // The edge takes these paths before the router: any method, and the path byte for byte.
    StatusCode::NOT_FOUND
}
