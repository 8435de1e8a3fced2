//! Sessions: the same as ours, and so are their commands, asynchronous ones too.
//!
//! An asynchronous command has a standard input that stays open: a pipe that its own shell made, so that
//! input is what is written to the shell's descriptor while that command runs. Others have none.

use axum::Json;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{Extension, Path, Query};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use sandshell_client::types::{
    CommandId, CommandRecord, CommandState, ErrorCode, ExecRequest, OnDisconnect,
    SessionExecRequest, SessionId, SessionRecord, SessionRequest, SessionState,
};
use sandshell_client::{Client, ClientError, EventQuery, OutputStreamEvent};
use serde::Deserialize;
use serde_json::{Value, json};

use super::body::Given;
use super::error::Fault;
use super::log::{self, Log};
use super::reach::Sandbox;
use crate::lease::Lease;
use crate::pages::all;

/// Gives a command of bash a pipe that nobody else can end. `.`, by which a session runs its commands,
/// undoes it.
const OPEN_STDIN: &str = "exec 0<> <(:); ";

/// Writes to the descriptor of a shell once it is a pipe. Nobody tells when the shell has got that far,
/// which takes it a moment; one that has not after a second has another input.
const WRITE: &str = r#"for i in $(seq 100); do [ -p "/proc/$0/fd/0" ] && exec cat >"/proc/$0/fd/0"; sleep 0.01; done; exit 1"#;

/// How long a command may leave its input unread.
const UNREAD_MS: u64 = 10_000;

/// The status of a command that never ran.
const NEVER_RAN: i32 = 130;

type Shown = Result<Json<Value>, Fault>;

#[derive(Deserialize)]
pub(super) struct Of {
    session: String,
}

#[derive(Deserialize)]
pub(super) struct OfCommand {
    session: String,
    command: String,
}

fn missing(id: &str) -> Fault {
    Fault::missing(format!("Session {id} not found"))
}

fn no_command(id: &str) -> Fault {
    Fault::missing(format!("Command {id} not found"))
}

/// A failure about one session names it.
fn about(id: &SessionId) -> impl Fn(ClientError) -> Fault + '_ {
    move |error| match error.code() {
        Some(ErrorCode::SessionNotFound) => missing(id.as_str()),
        _ => error.into(),
    }
}

impl Of {
    fn id(&self) -> Result<SessionId, Fault> {
        self.session.parse().map_err(|_| missing(&self.session))
    }
}

impl OfCommand {
    fn ids(&self) -> Result<(SessionId, CommandId), Fault> {
        let session = self.session.parse().map_err(|_| missing(&self.session))?;
        let command = self
            .command
            .parse()
            .map_err(|_| no_command(&self.command))?;
        Ok((session, command))
    }

    async fn record(&self, sandbox: &Client) -> Result<CommandRecord, Fault> {
        let (session, command) = self.ids()?;
        match sandbox.command(&session, &command).await {
            Err(error) if error.code() == Some(ErrorCode::CommandNotFound) => {
                Err(no_command(command.as_str()))
            }
            other => other.map_err(about(&session)),
        }
    }
}

fn shown_command(record: &CommandRecord) -> Value {
    let text = record.command.strip_prefix(OPEN_STDIN);
    let mut command = json!({
        "id": record.id,
        "command": text.unwrap_or(&record.command),
    });
    let dropped = (record.state == CommandState::Cancelled).then_some(NEVER_RAN);
    if let Some(code) = record.exit_code.or(dropped) {
        command["exitCode"] = code.into();
    }
    command
}

async fn shown(sandbox: &Client, id: &SessionId) -> Result<Value, Fault> {
    let commands = all(|page| async move { sandbox.list_commands(id, &page).await }).await?;
    let commands: Vec<Value> = commands.iter().map(shown_command).collect();
    Ok(json!({"sessionId": id, "commands": commands}))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Create {
    session_id: String,
}

pub(super) async fn create(
    Sandbox(sandbox): Sandbox,
    Given(asked): Given<Create>,
) -> Result<StatusCode, Fault> {
    let id: SessionId = asked.session_id.parse()?;
    if !crate::session::is_free(&sandbox, &id).await? {
        return Err(Fault::conflict(format!("Session {id} already exists")));
    }
    let request = SessionRequest {
        id: Some(id),
        ..SessionRequest::default()
    };
    sandbox.create_session(&request).await?;
    Ok(StatusCode::CREATED)
}

pub(super) async fn list(Sandbox(sandbox): Sandbox) -> Shown {
    let client = &sandbox;
    let records = all(|page| async move { client.list_sessions(&page).await }).await?;
    let live = records
        .iter()
        .filter(|one| one.state != SessionState::Ended);
    let mut sessions = Vec::new();
    for record in live {
        sessions.push(shown(&sandbox, &record.id).await?);
    }
    Ok(Json(sessions.into()))
}

/// The record of a session that lives.
async fn live(sandbox: &Client, id: &SessionId) -> Result<SessionRecord, Fault> {
    let record = sandbox.session(id).await.map_err(about(id))?;
    if record.state == SessionState::Ended {
        return Err(missing(id.as_str()));
    }
    Ok(record)
}

pub(super) async fn get(Sandbox(sandbox): Sandbox, Path(of): Path<Of>) -> Shown {
    let id = of.id()?;
    live(&sandbox, &id).await?;
    Ok(Json(shown(&sandbox, &id).await?))
}

pub(super) async fn delete(
    Sandbox(sandbox): Sandbox,
    Path(of): Path<Of>,
) -> Result<StatusCode, Fault> {
    let id = of.id()?;
    sandbox.delete_session(&id).await.map_err(about(&id))?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Execute {
    command: String,
    #[serde(default)]
    run_async: Option<bool>,
    #[serde(default, rename = "async")]
    asynchronous: Option<bool>,
}

pub(super) async fn execute(
    Sandbox(sandbox): Sandbox,
    Path(of): Path<Of>,
    Given(asked): Given<Execute>,
) -> Result<Response, Fault> {
    let id = of.id()?;
    if asked.command.trim().is_empty() {
        return Err(Fault::invalid("command is empty"));
    }
    let record = live(&sandbox, &id).await?;
    let apart = asked.run_async.or(asked.asynchronous) == Some(true);
    let mut request = SessionExecRequest {
        command: asked.command,
        on_disconnect: OnDisconnect::Continue,
        ..SessionExecRequest::default()
    };
    if apart && record.shell.ends_with("bash") {
        request.command.insert_str(0, OPEN_STDIN);
        request.stdin = Some(String::new());
    }
    let begun = sandbox.session_exec_stream(&id, &request).await;
    let mut events = begun.map_err(about(&id))?;
    let first = events.next().await.transpose()?.map(|event| event.event);
    let Some(OutputStreamEvent::Started { command_id }) = first else {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        let message = "The session did not take the command";
        return Err(Fault::new(status, "INTERNAL_SERVER_ERROR", message));
    };
    if apart {
        let begun = Json(json!({"cmdId": command_id}));
        return Ok((StatusCode::ACCEPTED, begun).into_response());
    }
    let (log, exit_code) = Log::read(&mut events).await?;
    let mut answer = log.shown();
    answer["cmdId"] = command_id.as_str().into();
    answer["exitCode"] = exit_code.unwrap_or(NEVER_RAN).into();
    Ok(Json(answer).into_response())
}

pub(super) async fn command(Sandbox(sandbox): Sandbox, Path(of): Path<OfCommand>) -> Shown {
    Ok(Json(shown_command(&of.record(&sandbox).await?)))
}

#[derive(Deserialize)]
pub(super) struct Logs {
    follow: Option<bool>,
}

/// All output there is now, or over a socket all until the end.
pub(super) async fn logs(
    Sandbox(sandbox): Sandbox,
    Path(of): Path<OfCommand>,
    Query(asked): Query<Logs>,
    Extension(lease): Extension<Lease>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Fault> {
    of.record(&sandbox).await?;
    let (session, command) = of.ids()?;
    let follow = asked.follow == Some(true) && upgrade.is_ok();
    let query = EventQuery {
        from: None,
        follow: Some(follow),
    };
    let mut events = sandbox.command_events(&session, &command, query).await?;
    match upgrade {
        Ok(upgrade) if follow => {
            Ok(upgrade.on_upgrade(|socket| log::follow(socket, events, lease)))
        }
        _ => {
            let (log, _) = Log::read(&mut events).await?;
            Ok(Json(log.shown()).into_response())
        }
    }
}

#[derive(Deserialize)]
pub(super) struct Input {
    data: String,
}

pub(super) async fn input(
    Sandbox(sandbox): Sandbox,
    Path(of): Path<OfCommand>,
    Given(asked): Given<Input>,
) -> Result<StatusCode, Fault> {
    let record = of.record(&sandbox).await?;
    if matches!(record.state, CommandState::Done | CommandState::Cancelled) {
        return Err(completed(&record));
    }
    let (session, command) = of.ids()?;
    let session = live(&sandbox, &session).await?;
    let runs = session.foreground.as_ref().map(|one| &one.command_id);
    // The shell takes a moment to save the state from before: nothing runs then, and this comes next.
    let has_turn = runs == Some(&command) || (runs.is_none() && session.queue_length == 1);
    if !has_turn || !record.command.starts_with(OPEN_STDIN) {
        let message = "The command takes no input: it waits for its turn, or is not asynchronous";
        return Err(Fault::conflict(message));
    }
    let argv = ["sh", "-c", WRITE, &session.pid.to_string()];
    let request = ExecRequest {
        argv: Some(argv.map(str::to_owned).to_vec()),
        stdin: Some(asked.data),
        timeout_ms: Some(UNREAD_MS),
        on_disconnect: OnDisconnect::Kill,
        ..ExecRequest::default()
    };
    let written = sandbox.exec(&request).await?;
    if written.timed_out {
        let message = "The command does not read its input";
        return Err(Fault::new(
            StatusCode::REQUEST_TIMEOUT,
            "REQUEST_TIMEOUT",
            message,
        ));
    }
    if written.exit_code != 0 {
        return Err(completed(&record));
    }
    Ok(StatusCode::NO_CONTENT)
}

fn completed(record: &CommandRecord) -> Fault {
    let message = format!("Command {} takes no input any more", record.id);
    Fault::new(StatusCode::GONE, "COMMAND_ALREADY_COMPLETED", message)
}
