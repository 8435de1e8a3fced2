//! Waiting for a port.

use std::time::Duration;

use axum::extract::Extension;
use axum::response::Response;
use http::uri::PathAndQuery;
use sandshell_client::Client;
use sandshell_client::types::{
    PortCondition, PortWaitRequest, ProcessId, WaitOutcome, WaitRequest,
};
use serde::Deserialize;
use serde_json::json;

use super::body::{Json, invalid};
use super::error::{Code, Fault};
use crate::sse::{Feed, Gone, events};

/// The longest that a server may think about its answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The longest that one call of ours waits; then it is asked again.
const TURN_MS: u64 = 60_000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Watch {
    port: u32,
    #[serde(default = "http")]
    mode: String,
    path: Option<String>,
    #[serde(default = "least")]
    status_min: u16,
    #[serde(default = "most")]
    status_max: u16,
    process_id: Option<String>,
    #[serde(default = "interval")]
    interval: u64,
}

fn http() -> String {
    "http".to_owned()
}

const fn least() -> u16 {
    200
}

const fn most() -> u16 {
    399
}

const fn interval() -> u64 {
    500
}

pub(super) async fn watch(
    Extension(sandbox): Extension<Client>,
    Json(asked): Json<Watch>,
) -> Result<Response, Fault> {
    let port = u16::try_from(asked.port).ok().filter(|port| *port > 0);
    let port = port.ok_or_else(|| {
        let message = format!("{} is not a port: 1 to 65535 are", asked.port);
        Fault::new(Code::InvalidPort, message).context(json!({"port": asked.port}))
    })?;
    let path = asked.path.as_deref().unwrap_or("/").trim_start_matches('/');
    let target = format!("/v1/ports/{port}/proxy/{path}");
    if target.parse::<PathAndQuery>().is_err() {
        return Err(invalid("path", &format!("{path:?} is not a path")));
    }
    let process = asked.process_id.as_deref().map(str::parse).transpose()?;
    if let Some(id) = &process {
        sandbox.process(id).await?;
    }
    Ok(events(|feed| async move {
        feed.tell(&json!({"type": "watching", "port": port}))
            .await?;
        follow(&sandbox, port, process, &target, &asked, &feed).await
    }))
}

async fn follow(
    sandbox: &Client,
    port: u16,
    process: Option<ProcessId>,
    target: &str,
    asked: &Watch,
    feed: &Feed,
) -> Result<(), Gone> {
    let pause = Duration::from_millis(asked.interval.clamp(100, 10_000));
    loop {
        let waited = match &process {
            None => listening(sandbox, port).await,
            Some(id) => listening_or_ended(sandbox, port, id).await,
        };
        match waited {
            Err(fault) => {
                let error = json!({"type": "error", "port": port, "error": fault.message()});
                return feed.tell(&error).await;
            }
            Ok(Seen::Nothing) => continue,
            Ok(Seen::Exit(code)) => {
                let exited = json!({"type": "process_exited", "port": port, "exitCode": code});
                return feed.tell(&exited).await;
            }
            Ok(Seen::Port) => {}
        }
        if asked.mode == "tcp" {
            return feed.tell(&json!({"type": "ready", "port": port})).await;
        }
        // Only its beginning is of interest: what follows may never end.
        let answer = tokio::time::timeout(PATIENCE, sandbox.status_of(target)).await;
        if let Ok(Ok(status)) = answer
            && (asked.status_min..=asked.status_max).contains(&status.as_u16())
        {
            let ready = json!({"type": "ready", "port": port, "statusCode": status.as_u16()});
            return feed.tell(&ready).await;
        }
        // Nobody tells when a server answers otherwise than before.
        tokio::time::sleep(pause).await;
    }
}

enum Seen {
    Port,
    Exit(i32),
    Nothing,
}

async fn listening(sandbox: &Client, port: u16) -> Result<Seen, Fault> {
    let request = PortWaitRequest {
        http: None,
        timeout_ms: Some(TURN_MS),
    };
    let reply = sandbox.wait_port(port, &request).await?;
    Ok(if reply.ready {
        Seen::Port
    } else {
        Seen::Nothing
    })
}

async fn listening_or_ended(sandbox: &Client, port: u16, id: &ProcessId) -> Result<Seen, Fault> {
    let request = WaitRequest {
        exit: Some(true),
        port: Some(PortCondition { port, http: None }),
        timeout_ms: Some(TURN_MS),
        ..WaitRequest::default()
    };
    let reply = sandbox.wait_process(id, &request).await?;
    Ok(match reply.outcome {
        WaitOutcome::Port => Seen::Port,
        WaitOutcome::Exit => Seen::Exit(reply.process.exit_code.unwrap_or(-1)),
        _ => Seen::Nothing,
    })
}
