//! Big outputs: how fast they reach a client that throws them away, and what the agent holds of
//! them meanwhile.
//!
//! The time runs from the request that starts the program to the last byte. Events are read twice:
//! by the typed client, which decodes every one, and by a socket that only counts.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use sandshell_client::{
    ByteStream, Client, EventQuery, EventStream, OutputQuery, OutputStreamEvent,
};
use sandshell_testkit::{Agent, rss_bytes};
use sandshell_types::{
    CommandId, ErrorCode, ProcessRequest, SessionExecRequest, SessionId, SessionRequest, StreamName,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::measure::{largest, median};
use crate::report::Report;

const SECTION: &str = "output";
const MEGABYTES_100: u64 = 100_000_000;
const GIBIBYTE: u64 = 1 << 30;
/// Above a gibibyte, so that nothing is dropped.
pub(crate) const LOG_BYTES: &str = "2147483648";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Process,
    Session,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum As {
    /// `GET output?follow=true`, the bytes themselves.
    Raw,
    /// Events, decoded by the client.
    Events,
    /// Events, counted and thrown away.
    EventBytes,
}

pub(crate) async fn run(
    report: &mut Report,
    agent: &Agent,
    runs: usize,
    quick: bool,
) -> Result<()> {
    let client = agent.client();
    let sizes: &[u64] = if quick {
        &[MEGABYTES_100]
    } else {
        &[MEGABYTES_100, GIBIBYTE]
    };
    let mut growths = Vec::new();
    let mut bars = Vec::new();
    for &size in sizes {
        for (how, what, limit) in [
            (As::Raw, "raw", 500.0),
            (As::EventBytes, "SSE", 150.0),
            (As::Events, "SSE, decoded", f64::NAN),
        ] {
            for by in [By::Process, By::Session] {
                let whose = if by == By::Process {
                    "process"
                } else {
                    "session"
                };
                let amount = if size == GIBIBYTE { "1 GiB" } else { "100 MB" };
                let name = format!("{amount} {what}, {whose}");
                for _ in 0..runs {
                    let rss = Peak::start(agent)?;
                    let took = transfer(agent, &client, by, how, size)
                        .await
                        .with_context(|| name.clone())?;
                    growths.push(rss.growth_mib()?);
                    let rate = size as f64 / took.as_secs_f64() / 1e6;
                    report.add(SECTION, &name, "MB/s", rate);
                }
                if size == GIBIBYTE && !limit.is_nan() {
                    bars.push((name, limit));
                }
            }
        }
    }
    report.add(SECTION, "agent RSS growth, median", "MiB", median(&growths));
    report.add(
        SECTION,
        "agent RSS growth, largest",
        "MiB",
        largest(&growths),
    );
    for (name, limit) in bars {
        let rate = report.median(SECTION, &name);
        report.at_least(&format!("{name}, MB/s"), rate, limit);
    }
    let growth = largest(&growths);
    report.at_most("big outputs, agent RSS growth in MiB", growth, 64.0);
    Ok(())
}

/// Zeros for bytes; text for events, so that it is text they carry.
fn program(how: As, size: u64) -> String {
    match how {
        As::Raw => format!("head -c {size} /dev/zero"),
        As::Events | As::EventBytes => {
            format!("yes abcdefghijklmnopqrstuvwxyz | head -c {size}")
        }
    }
}

async fn transfer(agent: &Agent, client: &Client, by: By, how: As, size: u64) -> Result<Duration> {
    let text = program(how, size);
    match by {
        By::Process => {
            let request = ProcessRequest {
                command: Some(text),
                max_output_bytes: Some(2 * GIBIBYTE),
                ..Default::default()
            };
            let start = Instant::now();
            let id = client.create_process(&request).await?.id;
            let follow = OutputQuery::follow(StreamName::Stdout);
            let path = format!("/v1/processes/{id}/output?follow=true");
            let got = match how {
                As::Raw => count_bytes(client.process_output(&id, follow).await?).await?,
                As::Events => count_data(client.process_events(&id, FOLLOW).await?).await?,
                As::EventBytes => {
                    count_wire(agent, &path).await?;
                    client.process(&id).await?.stdout_bytes
                }
            };
            let took = start.elapsed();
            ensure!(got == size, "{got} bytes came");
            client.delete_process(&id).await?;
            Ok(took)
        }
        By::Session => {
            let session = client.create_session(&SessionRequest::default()).await?.id;
            let took = from_session(agent, client, &session, how, text, size).await;
            client.delete_session(&session).await?;
            took
        }
    }
}

const FOLLOW: EventQuery = EventQuery {
    from: None,
    follow: Some(true),
};

async fn from_session(
    agent: &Agent,
    client: &Client,
    session: &SessionId,
    how: As,
    text: String,
    size: u64,
) -> Result<Duration> {
    let id: CommandId = "big".parse()?;
    let request = SessionExecRequest {
        command: text,
        id: Some(id.clone()),
        // The result itself is not what is measured.
        max_output_bytes: Some(1024),
        ..Default::default()
    };
    let start = Instant::now();
    let running = {
        let (client, session) = (client.clone(), session.clone());
        tokio::spawn(async move { client.session_exec(&session, &request).await })
    };
    until_known(client, session, &id).await?;
    let follow = OutputQuery::follow(StreamName::Stdout);
    let path = format!("/v1/sessions/{session}/commands/{id}/output?follow=true");
    let got = match how {
        As::Raw => count_bytes(client.command_output(session, &id, follow).await?).await?,
        As::Events => count_data(client.command_events(session, &id, FOLLOW).await?).await?,
        As::EventBytes => {
            count_wire(agent, &path).await?;
            client.command(session, &id).await?.stdout_bytes
        }
    };
    let took = start.elapsed();
    ensure!(got == size, "{got} bytes came");
    ensure!(running.await??.exit_code == 0, "the command failed");
    Ok(took)
}

/// The request that starts a command is on its way; soon its output can be asked for.
async fn until_known(client: &Client, session: &SessionId, id: &CommandId) -> Result<()> {
    loop {
        match client.command(session, id).await {
            Ok(_) => return Ok(()),
            Err(error) if error.code() == Some(ErrorCode::CommandNotFound) => {
                tokio::task::yield_now().await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

async fn count_bytes(mut stream: ByteStream) -> Result<u64> {
    let mut count = 0;
    while let Some(bytes) = stream.next().await {
        count += bytes?.len() as u64;
    }
    Ok(count)
}

async fn count_data(mut stream: EventStream) -> Result<u64> {
    let mut count = 0;
    while let Some(event) = stream.next().await {
        if let OutputStreamEvent::Output(output) = event?.event {
            count += output.data.len() as u64;
        }
    }
    Ok(count)
}

/// Asks for events and reads the connection to its end; the last event must be the exit.
async fn count_wire(agent: &Agent, path: &str) -> Result<u64> {
    let host = agent
        .url()
        .strip_prefix("http://")
        .context("a TCP address")?;
    let token = agent.token().unwrap_or_default();
    let mut socket = TcpStream::connect(host).await?;
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\
         Accept: text/event-stream\r\nConnection: close\r\n\r\n"
    );
    socket.write_all(request.as_bytes()).await?;
    let mut buffer = vec![0; 256 * 1024];
    let mut count = 0;
    let mut tail = Vec::new();
    loop {
        let read = socket.read(&mut buffer).await?;
        if read == 0 {
            break;
        }
        count += read as u64;
        let end = buffer
            .get(read.saturating_sub(512)..read)
            .unwrap_or_default();
        tail.extend_from_slice(end);
        tail.drain(..tail.len().saturating_sub(512));
    }
    let tail = String::from_utf8_lossy(&tail);
    ensure!(
        tail.contains("event: exit"),
        "the stream ended with {tail:?}"
    );
    Ok(count)
}

/// The most memory the agent has held since a moment.
struct Peak {
    pid: i32,
    before: u64,
}

impl Peak {
    fn start(agent: &Agent) -> Result<Self> {
        let pid = agent.pid();
        // Makes the kernel forget the former peak.
        fs::write(format!("/proc/{pid}/clear_refs"), "5")?;
        Ok(Self {
            pid,
            before: rss_bytes(pid),
        })
    }

    fn growth_mib(&self) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid))?;
        let peak: u64 = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"))
            .context("VmHWM")?
            .parse()?;
        Ok((peak as f64 - self.before as f64 / 1024.0) / 1024.0)
    }
}
