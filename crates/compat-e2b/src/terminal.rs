//! Processes on a terminal.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sandshell_client::types::{
    ErrorCode, ExecRequest, TerminalFrame, TerminalRecord, TerminalRequest,
};
use sandshell_client::{Client, ConnectOptions, FileQuery, TerminalConnection, TerminalEvent};
use serde_json::json;

use crate::error::{Code, Fault};
use crate::known::Started;
use crate::process::{Config, Pty, alive, ended, started};
use crate::wire::{Call, Feed, before};

pub(crate) async fn start(
    call: Call,
    config: Config,
    pty: Pty,
    tag: Option<String>,
    feed: Feed,
) -> Result<(), Fault> {
    let mut request = TerminalRequest {
        id: tag
            .map(|tag| tag.parse())
            .transpose()
            .map_err(|error| Fault::invalid(format!("the tag of a terminal is an id: {error}")))?,
        argv: Some(config.argv()?),
        cwd: config.directory(call.user.as_deref()),
        env: config.env(),
        user: call.user.clone(),
        ..TerminalRequest::default()
    };
    if let Some(size) = pty.size {
        (request.cols, request.rows) = (size.cols, size.rows);
    }
    let record = call.sandbox.create_terminal(&request).await?;
    call.known
        .put(&call.id, record.pid, Started::Terminal(record.id.clone()));
    let ended = before(call.deadline(), connect(&call, &record, &feed)).await;
    if let Err(fault) = &ended
        && fault.code == Code::DeadlineExceeded
    {
        call.sandbox.delete_terminal(&record.id).await?;
    }
    ended
}

/// Sends all a terminal has shown and shows, until its end.
pub(crate) async fn connect(
    call: &Call,
    record: &TerminalRecord,
    feed: &Feed,
) -> Result<(), Fault> {
    let options = ConnectOptions {
        offset: Some(0),
        ..ConnectOptions::default()
    };
    let connection = call.sandbox.connect_terminal(&record.id, options).await?;
    // The other half stays, as whoever sees this terminal also answers what programs ask it.
    let (_keys, mut screen) = connection.split();
    feed.tell(&started(record.pid)).await?;
    let alive = alive();
    loop {
        match feed.wait(call.silence, &alive, screen.next()).await?? {
            Some(TerminalEvent::Bytes(bytes)) => {
                let data = json!({"pty": BASE64.encode(bytes)});
                feed.tell(&json!({"event": {"data": data}})).await?;
            }
            Some(TerminalEvent::Frame(TerminalFrame::Exit { exit_code, signal })) => {
                return feed.tell(&ended(exit_code, signal.as_deref())).await;
            }
            Some(TerminalEvent::Frame(_)) => {}
            Some(_) | None => return over(call, record, feed).await,
        }
    }
}

/// The connection has ended, and nobody said how the terminal did.
async fn over(call: &Call, record: &TerminalRecord, feed: &Feed) -> Result<(), Fault> {
    match call.sandbox.terminal(&record.id).await {
        Err(error) if error.code() == Some(ErrorCode::TerminalNotFound) => {
            feed.tell(&ended(-1, Some("SIGKILL"))).await
        }
        Err(error) => Err(error.into()),
        Ok(_) => Err(crate::process::cut_off()),
    }
}

/// A connection to type with.
pub(crate) struct Keys(TerminalConnection);

impl Keys {
    pub(crate) async fn of(sandbox: &Client, record: &TerminalRecord) -> Result<Self, Fault> {
        let options = ConnectOptions {
            offset: Some(record.output_bytes),
            ..ConnectOptions::default()
        };
        let connection = sandbox.connect_terminal(&record.id, options).await?;
        Ok(Self(connection))
    }

    pub(crate) async fn type_in(&mut self, bytes: Vec<u8>) -> Result<(), Fault> {
        Ok(self.0.type_in(bytes).await?)
    }

    /// Waits until all that was typed has been taken in.
    pub(crate) async fn done(self) -> Result<(), Fault> {
        Ok(self.0.close().await?)
    }
}

/// Ends all that runs on a terminal, or tells its program to.
pub(crate) async fn signal(
    sandbox: &Client,
    record: &TerminalRecord,
    name: &str,
) -> Result<(), Fault> {
    if name == "SIGKILL" {
        sandbox.delete_terminal(&record.id).await?;
        return Ok(());
    }
    let word = name.trim_start_matches("SIG");
    // A program may be told by its own user.
    let program = FileQuery::new(format!("/proc/{}", record.pid));
    let program = sandbox.stat_file(&program, true).await?;
    let request = ExecRequest {
        command: Some(format!("kill -s {word} {}", record.pid)),
        user: Some(program.uid.to_string()),
        ..ExecRequest::default()
    };
    let told = sandbox.exec(&request).await?;
    if told.exit_code != 0 {
        let message = format!("{name} was not sent: {}", told.stderr.trim());
        return Err(Fault::new(Code::FailedPrecondition, message));
    }
    Ok(())
}
