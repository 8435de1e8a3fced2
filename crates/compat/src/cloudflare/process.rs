//! Processes of a sandbox, whichever session they came from.

use axum::extract::{Extension, Path, Query};
use axum::response::Response;
use sandshell_client::types::{
    Encoded, KillRequest, ProcessId, ProcessRecord, ProcessState, StreamName,
};
use sandshell_client::{
    Client, ClientError, EventQuery, EventStream, OutputQuery, OutputStreamEvent, ProcessFilter,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::body::Json;
use super::error::{Code, Fault};
use super::exec::{Execute, started};
use super::success;
use crate::pages::all;
use crate::sse::{Feed, Gone, events};
use crate::text::{Text, gap, lost};

/// Most bytes of each stream in one answer; the newest.
const LOGS: u64 = 32 * 1024 * 1024;

/// Time between TERM and KILL.
const GRACE_MS: u64 = 5000;

pub(super) async fn start(
    Extension(sandbox): Extension<Client>,
    Json(asked): Json<Execute>,
) -> Result<Response, Fault> {
    asked.check()?;
    begin(&sandbox, asked).await
}

pub(super) async fn begin(sandbox: &Client, asked: Execute) -> Result<Response, Fault> {
    let command = asked.command.clone();
    let record = started(sandbox, asked).await?;
    Ok(success(json!({
        "processId": record.id,
        "pid": record.pid,
        "command": command,
    })))
}

#[derive(Deserialize)]
pub(super) struct Filter {
    status: Option<String>,
}

pub(super) async fn list(
    Extension(sandbox): Extension<Client>,
    Query(filter): Query<Filter>,
) -> Result<Response, Fault> {
    let records = records(&sandbox).await?;
    let shown = records.iter().map(shown);
    let wanted = |process: &Value| {
        let status = filter.status.as_deref();
        status.is_none_or(|status| process["status"] == status)
    };
    let processes: Vec<Value> = shown.filter(wanted).collect();
    Ok(success(json!({"processes": processes})))
}

async fn records(sandbox: &Client) -> Result<Vec<ProcessRecord>, ClientError> {
    all(|page| async move {
        let filter = ProcessFilter {
            page,
            ..ProcessFilter::default()
        };
        sandbox.list_processes(&filter).await
    })
    .await
}

fn status(record: &ProcessRecord) -> &'static str {
    match (record.state, record.exit_code) {
        (ProcessState::Running | ProcessState::Backoff, _) => "running",
        (ProcessState::Exited, Some(0)) => "completed",
        (ProcessState::Exited, _) if record.signal.is_some() => "killed",
        (ProcessState::Exited, Some(137 | 143)) => "killed",
        (ProcessState::Exited, _) => "failed",
    }
}

fn shown(record: &ProcessRecord) -> Value {
    let mut process = json!({
        "id": record.id,
        "pid": record.pid,
        "command": record.command,
        "status": status(record),
        "startTime": record.started_at,
    });
    if let Some(ended) = record.ended_at {
        process["endTime"] = ended.to_string().into();
    }
    if let Some(code) = record.exit_code {
        process["exitCode"] = code.into();
    }
    if let Some(session) = &record.session {
        process["sessionId"] = session.as_str().into();
    }
    process
}

/// The id of a path; one that cannot be an id is that of no process.
fn id_of(text: &str) -> Result<ProcessId, Fault> {
    text.parse().map_err(|_| missing(text))
}

fn missing(id: &str) -> Fault {
    Fault::new(Code::ProcessNotFound, format!("Process {id} not found"))
        .context(json!({"processId": id}))
}

async fn record_of(sandbox: &Client, id: &str) -> Result<ProcessRecord, Fault> {
    let id = id_of(id)?;
    sandbox
        .process(&id)
        .await
        .map_err(|error| found(error, &id))
}

/// A failure about one process names it.
fn found(error: ClientError, id: &ProcessId) -> Fault {
    match error.status() {
        Some(404) => missing(id.as_str()),
        _ => error.into(),
    }
}

pub(super) async fn get(
    Extension(sandbox): Extension<Client>,
    Path(id): Path<String>,
) -> Result<Response, Fault> {
    let record = record_of(&sandbox, &id).await?;
    Ok(success(json!({"process": shown(&record)})))
}

pub(super) async fn kill(
    Extension(sandbox): Extension<Client>,
    Path(id): Path<String>,
) -> Result<Response, Fault> {
    let id = id_of(&id)?;
    let request = KillRequest {
        grace_ms: Some(GRACE_MS),
    };
    let killed = sandbox.kill_process(&id, &request).await;
    killed.map_err(|error| found(error, &id))?;
    Ok(success(json!({"processId": id})))
}

pub(super) async fn kill_all(Extension(sandbox): Extension<Client>) -> Result<Response, Fault> {
    let all = records(&sandbox).await?;
    let running = all.iter().filter(|one| one.state != ProcessState::Exited);
    let request = KillRequest {
        grace_ms: Some(GRACE_MS),
    };
    let kills = running.map(|one| sandbox.kill_process(&one.id, &request));
    let mut count = 0;
    for killed in futures_util::future::join_all(kills).await {
        killed?;
        count += 1;
    }
    Ok(success(json!({"cleanedCount": count})))
}

pub(super) async fn logs(
    Extension(sandbox): Extension<Client>,
    Path(id): Path<String>,
) -> Result<Response, Fault> {
    let record = record_of(&sandbox, &id).await?;
    let newest = async |stream, bytes: u64| -> Result<String, ClientError> {
        let query = OutputQuery {
            offset: bytes.saturating_sub(LOGS),
            ..OutputQuery::all(stream)
        };
        let output = sandbox.process_output(&record.id, query).await?;
        let bytes = output.read_to_end().await?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let stdout = newest(StreamName::Stdout, record.stdout_bytes).await?;
    let stderr = newest(StreamName::Stderr, record.stderr_bytes).await?;
    Ok(success(
        json!({"processId": record.id, "stdout": stdout, "stderr": stderr}),
    ))
}

pub(super) async fn stream(
    Extension(sandbox): Extension<Client>,
    Path(id): Path<String>,
) -> Result<Response, Fault> {
    let record = record_of(&sandbox, &id).await?;
    let output = Output::of(&sandbox, &record.id).await?;
    Ok(events(|feed| async move {
        feed.tell(&json!({
            "type": "process_info",
            "processId": record.id,
            "command": record.command,
            "status": status(&record),
            "timestamp": super::now(),
        }))
        .await?;
        output
            .pour(&feed, |stream, data| {
                json!({
                    "type": stream,
                    "data": data,
                    "processId": record.id,
                    "timestamp": super::now(),
                })
            })
            .await?
            .tell(&feed, |exit_code| {
                json!({
                    "type": "exit",
                    "processId": record.id,
                    "exitCode": exit_code,
                    "data": format!("Process completed with exit code {exit_code}"),
                    "timestamp": super::now(),
                })
            })
            .await
    }))
}

/// The output of a process from its beginning to its end.
pub(super) struct Output(EventStream);

/// How the output came to its end.
pub(super) enum End {
    Exit(i32),
    Broken(Fault),
}

impl Output {
    pub(super) async fn of(sandbox: &Client, id: &ProcessId) -> Result<Self, Fault> {
        let query = EventQuery {
            from: None,
            follow: Some(true),
        };
        Ok(Self(sandbox.process_events(id, query).await?))
    }

    /// Tells each piece in the form given, and how it ended. Of what is no longer kept when it begins it says
    /// so; one that is read too slowly to stay whole is broken.
    pub(super) async fn pour(
        mut self,
        feed: &Feed,
        shown: impl Fn(&str, String) -> Value,
    ) -> Result<End, Gone> {
        let (mut stdout, mut stderr) = (Text::default(), Text::default());
        let mut begun = [false; 2];
        let end = loop {
            let event = match self.0.next().await {
                Some(Ok(event)) => event.event,
                Some(Err(error)) => break End::Broken(error.into()),
                None => {
                    let message = "The stream ended before its process";
                    break End::Broken(Fault::new(Code::InternalError, message));
                }
            };
            match event {
                OutputStreamEvent::Output(output) => {
                    let bytes = Encoded::decode(&output.data, output.encoding);
                    let (name, text, begun) = match output.stream {
                        StreamName::Stdout | StreamName::LateStdout => {
                            ("stdout", &mut stdout, &mut begun[0])
                        }
                        StreamName::Stderr | StreamName::LateStderr => {
                            ("stderr", &mut stderr, &mut begun[1])
                        }
                    };
                    *begun = true;
                    let piece = text.push(&bytes.unwrap_or_default());
                    if !piece.is_empty() {
                        feed.tell(&shown(name, piece)).await?;
                    }
                }
                OutputStreamEvent::Truncated(gone) => {
                    let (name, begun) = match gone.stream {
                        StreamName::Stdout | StreamName::LateStdout => ("stdout", begun[0]),
                        StreamName::Stderr | StreamName::LateStderr => ("stderr", begun[1]),
                    };
                    if begun {
                        let fault = Fault::new(Code::InternalError, lost(gone.bytes));
                        break End::Broken(fault);
                    }
                    feed.tell(&shown(name, gap(gone.bytes))).await?;
                }
                OutputStreamEvent::Exit(exit) => break End::Exit(exit.exit_code.unwrap_or(-1)),
                _ => {}
            }
        };
        for (name, text) in [("stdout", &mut stdout), ("stderr", &mut stderr)] {
            let rest = text.end();
            if !rest.is_empty() {
                feed.tell(&shown(name, rest)).await?;
            }
        }
        Ok(end)
    }
}

impl End {
    pub(super) async fn tell(self, feed: &Feed, shown: impl Fn(i32) -> Value) -> Result<(), Gone> {
        match self {
            Self::Exit(code) => feed.tell(&shown(code)).await,
            Self::Broken(fault) => {
                let error = json!({
                    "type": "error",
                    "error": fault.message(),
                    "timestamp": super::now(),
                });
                feed.tell(&error).await
            }
        }
    }
}
