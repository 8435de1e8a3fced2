//! Waiting for the first of: the end, a pattern in the output, a port that answers, the timeout.

use std::time::Duration;

use regex::bytes::{Regex, RegexBuilder};
use sandshell_types::{
    LogCondition, PortCondition, StreamName, WaitOutcome, WaitReply, WaitRequest,
};

use super::ProcessHandle;
use crate::ExecError;
use crate::output::{JointPiece, OutputLog, Stream};
use crate::ports::{Ports, check_http};

/// A match that spans pieces is found when it is no longer than this.
const WINDOW: usize = 64 * 1024;

pub(super) async fn wait(
    process: &ProcessHandle,
    ports: &Ports,
    request: WaitRequest,
) -> Result<WaitReply, ExecError> {
    let pattern = request.log.as_ref().map(compile).transpose()?;
    if let Some(PortCondition { port: 0, .. }) = request.port {
        return Err(ExecError::invalid(
            "/port/port",
            "a port is a number from 1 to 65535",
        ));
    }
    check_http(
        request.port.as_ref().and_then(|port| port.http.as_ref()),
        "/port/http",
    )?;
    if request.exit == Some(false) && request.log.is_none() && request.port.is_none() {
        return Err(ExecError::invalid(
            "/exit",
            "with exit false there is nothing to wait for",
        ));
    }
    let found = async {
        match &pattern {
            Some((pattern, stream)) => find(process.log(), pattern, *stream).await,
            None => std::future::pending().await,
        }
    };
    let answers = async {
        match &request.port {
            Some(condition) => ports.answers(condition.port, condition.http.as_ref()).await,
            None => std::future::pending().await,
        }
    };
    let timeout = async {
        match request.timeout_ms {
            Some(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
            None => std::future::pending().await,
        }
    };
    let mut line = None;
    let outcome = tokio::select! {
        biased;
        // Before the end, so that a pattern in the last words counts.
        text = found => {
            line = text?;
            if line.is_some() {
                WaitOutcome::Log
            } else {
                process.ended().await;
                WaitOutcome::Exit
            }
        },
        () = answers => WaitOutcome::Port,
        () = process.ended(), if pattern.is_none() => WaitOutcome::Exit,
        () = timeout => WaitOutcome::Timeout,
    };
    Ok(WaitReply {
        outcome,
        timed_out: outcome == WaitOutcome::Timeout,
        line,
        process: process.record(),
    })
}

fn compile(condition: &LogCondition) -> Result<(Regex, Option<Stream>), ExecError> {
    let text = if condition.regex {
        condition.pattern.clone()
    } else {
        regex::escape(&condition.pattern)
    };
    let pattern = RegexBuilder::new(&text)
        .multi_line(true)
        .build()
        .map_err(|error| ExecError::Invalid {
            pointer: "/log/pattern".to_owned(),
            detail: format!("the pattern is not a regular expression: {error}"),
            hint: Some("set \"regex\": false to look for the text itself".to_owned()),
        })?;
    let stream = match condition.stream {
        None => None,
        Some(StreamName::Stdout) => Some(Stream::Stdout),
        Some(StreamName::Stderr) => Some(Stream::Stderr),
        Some(_) => {
            return Err(ExecError::invalid(
                "/log/stream",
                "a process has stdout and stderr",
            ));
        }
    };
    Ok((pattern, stream))
}

/// The line of the first match; `None` when the output ended without one.
async fn find(
    log: &OutputLog,
    pattern: &Regex,
    only: Option<Stream>,
) -> Result<Option<String>, ExecError> {
    let mut reader = log.joint_reader(0, true)?;
    // The text looked at, and whether it starts inside a line.
    let mut windows: [(Vec<u8>, bool); 2] = Default::default();
    while let Some(piece) = reader.next().await? {
        let JointPiece::Data { stream, data, .. } = piece else {
            continue;
        };
        if only.is_some_and(|only| only != stream) {
            continue;
        }
        let [out, err] = &mut windows;
        let (window, inside_line) = if stream == Stream::Stdout { out } else { err };
        window.extend_from_slice(&data);
        // From the second byte on, `^` looks at the one before it.
        let from = usize::from(*inside_line).min(window.len());
        if let Some(found) = pattern.find_at(window, from) {
            return Ok(Some(line_around(window, found.start())));
        }
        let excess = window.len().saturating_sub(WINDOW);
        if excess > 0 {
            // Cut at the end of a line where there is one, so that `^` means what it says.
            let line_end = window.iter().skip(excess).position(|b| *b == b'\n');
            let cut = line_end.map_or(excess, |i| excess + i + 1);
            *inside_line = line_end.is_none();
            window.drain(..cut);
        }
    }
    Ok(None)
}

fn line_around(window: &[u8], at: usize) -> String {
    let (before, after) = window.split_at_checked(at).unwrap_or((window, &[]));
    let start = before
        .iter()
        .rposition(|b| *b == b'\n')
        .map_or(0, |i| i + 1);
    let end = after
        .iter()
        .position(|b| *b == b'\n')
        .map_or(window.len(), |i| at + i);
    String::from_utf8_lossy(window.get(start..end).unwrap_or_default()).into_owned()
}
