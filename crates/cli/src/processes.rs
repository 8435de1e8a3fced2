//! Processes: `ps`, `logs`, `attach`, `wait`, `kill`.

use std::collections::VecDeque;
use std::process::ExitCode;

use clap::Args;
use sandshell_client::types::{
    Encoded, HttpCheck, KillRequest, LogCondition, OutputEvent, PortCondition, ProcessId,
    ProcessKind, ProcessRecord, ProcessState, SignalRequest, SignalScope, Timestamp, WaitOutcome,
    WaitRequest,
};
use sandshell_client::{Client, EventQuery, OutputStreamEvent, ProcessFilter};

use crate::connection::{Done, Hub, Remote, Sandbox, every, found, in_sandbox};
use crate::failure::Failure;
use crate::names::Thing;
use crate::output::ago;
use crate::relay::{self, Manner, Relay, Screen, Shown};
use crate::values;

/// The process that is meant, and its sandbox.
async fn process(hub: &Hub, thing: &Thing) -> Result<(Sandbox, ProcessRecord), Failure> {
    const LISTING: &str = "sandshell ps -a";
    in_sandbox(hub, thing, "a process", LISTING, async |client, listing| {
        found(
            "process",
            &thing.id,
            listing,
            async |id: ProcessId| client.process(&id).await,
            async || {
                let mut ids = Vec::new();
                for kind in [ProcessKind::Process, ProcessKind::Exec] {
                    let list = processes(client, Some(kind)).await?;
                    ids.extend(list.items.into_iter().map(|record| record.id.into()));
                }
                Ok(ids)
            },
        )
        .await
    })
    .await
}

async fn processes(
    client: &Client,
    kind: Option<ProcessKind>,
) -> Result<sandshell_client::types::List<ProcessRecord>, Failure> {
    every(async |page| {
        let filter = ProcessFilter {
            kind,
            page,
            ..ProcessFilter::default()
        };
        client.list_processes(&filter).await
    })
    .await
}

#[derive(Debug, Args)]
pub(crate) struct PsArguments {
    /// The sandbox: its id or the beginning of it [default: the one that is set, or the only one].
    #[arg(value_name = "SANDBOX")]
    sandbox: Option<String>,

    /// Those that ended, too.
    #[arg(long, short)]
    all: bool,

    /// Those of single execs instead of background processes.
    #[arg(long)]
    execs: bool,
}

pub(crate) fn ps(remote: Remote, own: &PsArguments) -> Done {
    remote.drive(async |hub| {
        let sandbox = hub.sandbox(own.sandbox.as_deref()).await?;
        let kind = own.execs.then_some(ProcessKind::Exec);
        let mut list = processes(&sandbox.client, kind).await?;
        if !own.all {
            list.items
                .retain(|record| record.state != ProcessState::Exited);
        }
        let paint = hub.out.paint;
        hub.out.list(
            &list,
            &list.items,
            |record| record.id.to_string(),
            &["ID", "PID", "STATE", "EXIT", "STARTED", "COMMAND"],
            |record| {
                let state = match record.state {
                    ProcessState::Running => "running",
                    ProcessState::Backoff => "backoff",
                    ProcessState::Exited => "exited",
                };
                vec![
                    record.id.to_string(),
                    record.pid.to_string(),
                    paint.state(state),
                    exit_of(record),
                    ago(record.started_at),
                    command_of(record),
                ]
            },
        )?;
        Ok(ExitCode::SUCCESS)
    })
}

fn exit_of(record: &ProcessRecord) -> String {
    match (&record.signal, record.exit_code) {
        (Some(signal), _) => signal.clone(),
        (None, Some(code)) => code.to_string(),
        (None, None) => "-".to_owned(),
    }
}

fn command_of(record: &ProcessRecord) -> String {
    let argv = record.argv.as_ref().map(|argv| values::quoted(argv));
    record.command.clone().or(argv).unwrap_or_default()
}

#[derive(Debug, Args)]
pub(crate) struct LogsArguments {
    /// The process: its id or the beginning of it, in a sandbox as SANDBOX/ID.
    #[arg(value_name = "PROCESS")]
    process: Thing,

    /// Go on until it ends.
    #[arg(long, short)]
    follow: bool,

    /// Only the last lines.
    #[arg(long, short = 'n', value_name = "LINES")]
    tail: Option<usize>,

    /// Only what came since: a time ago such as 10m, or one such as 2026-01-01T00:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = values::moment)]
    since: Option<Timestamp>,
}

pub(crate) fn logs(remote: Remote, own: &LogsArguments) -> Done {
    remote.drive(async |hub| {
        let (sandbox, record) = process(hub, &own.process).await?;
        let relay = Relay::of(hub, &sandbox, &record.id);
        let so_far = so_far(&relay, own.since, own.tail).await?;
        if let (true, Some(last)) = (own.follow, so_far) {
            relay.until_exit(last, Manner::default()).await?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Shows what there is. Gives the place to go on from, unless it has ended or nobody reads.
async fn so_far(
    relay: &Relay<'_>,
    since: Option<Timestamp>,
    tail: Option<usize>,
) -> Result<Option<Option<u64>>, Failure> {
    let query = EventQuery {
        from: None,
        follow: Some(false),
    };
    let mut events = relay.client.process_events(relay.id, query).await?;
    let mut screen = Screen::new(relay.out);
    let mut kept = tail.map(Tail::new);
    let mut last = None;
    let mut exit = None;
    while let Some(event) = events.next().await {
        let event = event?;
        last = event.id.or(last);
        match event.event {
            OutputStreamEvent::Output(output) => {
                if since.is_some_and(|since| output.at < since) {
                    continue;
                }
                if let Some(kept) = &mut kept {
                    kept.push(output);
                    continue;
                }
                let event = OutputStreamEvent::Output(output);
                if let Shown::Unread = screen.show(event).await? {
                    return Ok(None);
                }
            }
            OutputStreamEvent::Exit(event) => exit = Some(event),
            other => {
                screen.show(other).await?;
            }
        }
    }
    for output in kept.into_iter().flat_map(Tail::into_events) {
        if let Shown::Unread = screen.show(OutputStreamEvent::Output(output)).await? {
            return Ok(None);
        }
    }
    match exit {
        Some(exit) => {
            screen.show(OutputStreamEvent::Exit(exit)).await?;
            Ok(None)
        }
        None => Ok(Some(last)),
    }
}

/// The last lines of an output, as pieces of it. No more is held than they need.
struct Tail {
    lines: usize,
    /// Each piece with the lines that end in it.
    pieces: VecDeque<(OutputEvent, usize)>,
    ends: usize,
}

impl Tail {
    fn new(lines: usize) -> Self {
        Self {
            lines,
            pieces: VecDeque::new(),
            ends: 0,
        }
    }

    fn push(&mut self, output: OutputEvent) {
        let bytes = Encoded::decode(&output.data, output.encoding).unwrap_or_default();
        let ends = bytes.split(|byte| *byte == b'\n').count() - 1;
        self.ends += ends;
        self.pieces.push_back((output, ends));
        while let Some((_, first)) = self.pieces.front()
            && self.ends - first > self.lines
        {
            self.ends -= first;
            self.pieces.pop_front();
        }
    }

    fn into_events(self) -> Vec<OutputEvent> {
        let last = self.pieces.back().map(|(output, _)| {
            let bytes = Encoded::decode(&output.data, output.encoding).unwrap_or_default();
            bytes.ends_with(b"\n")
        });
        // A line without its end counts as one.
        let wanted = self.lines.saturating_sub(usize::from(last == Some(false)));
        let mut spare = self.ends.saturating_sub(wanted);
        if self.lines == 0 {
            return Vec::new();
        }
        let mut events = Vec::new();
        for (mut output, _) in self.pieces {
            let bytes = Encoded::decode(&output.data, output.encoding).unwrap_or_default();
            let mut at = 0;
            while spare > 0
                && let Some(end) = bytes
                    .get(at..)
                    .and_then(|rest| rest.iter().position(|b| *b == b'\n'))
            {
                at += end + 1;
                spare -= 1;
            }
            if spare > 0 {
                continue;
            }
            let rest = bytes.get(at..).unwrap_or_default().to_vec();
            if rest.is_empty() {
                continue;
            }
            output.offset += at as u64;
            let rest = Encoded::new(rest, sandshell_client::types::Encoding::Auto);
            (output.data, output.encoding) = (rest.data, rest.encoding);
            events.push(output);
        }
        events
    }
}

#[derive(Debug, Args)]
pub(crate) struct AttachArguments {
    /// The process: its id or the beginning of it, in a sandbox as SANDBOX/ID.
    #[arg(value_name = "PROCESS")]
    process: Thing,

    /// Leave its stdin and signals alone.
    #[arg(long)]
    look: bool,
}

pub(crate) fn attach(remote: Remote, own: &AttachArguments) -> Done {
    remote.drive(async |hub| {
        let attached = async {
            let (sandbox, record) = process(hub, &own.process).await?;
            let relay = Relay::of(hub, &sandbox, &record.id);
            let manner = Manner {
                stdin: !own.look && relay::has_stdin(),
                own: !own.look,
            };
            relay.until_exit(None, manner).await
        };
        let done = attached.await;
        done.map(ExitCode::from).map_err(Failure::beside_a_command)
    })
}

#[derive(Debug, Args)]
pub(crate) struct WaitArguments {
    /// The process: its id or the beginning of it, in a sandbox as SANDBOX/ID.
    #[arg(value_name = "PROCESS")]
    process: Thing,

    /// Wait for this text in its output; the line with it is printed.
    #[arg(long, value_name = "TEXT")]
    log: Option<String>,

    /// Take the text as a regular expression.
    #[arg(long, requires = "log")]
    regex: bool,

    /// Wait until this port answers.
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,

    /// Also for an HTTP answer on this path; any status below 500 will do.
    #[arg(long, value_name = "PATH", requires = "port")]
    http: Option<String>,

    /// Give up after this time, such as 30s; the exit code is 124 then.
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    timeout: Option<u64>,
}

pub(crate) fn wait(remote: Remote, own: WaitArguments) -> Done {
    remote.drive(async |hub| {
        let done = waited(hub, own).await;
        done.map(ExitCode::from).map_err(Failure::beside_a_command)
    })
}

async fn waited(hub: &Hub, own: WaitArguments) -> Result<u8, Failure> {
    let (sandbox, record) = process(hub, &own.process).await?;
    let request = WaitRequest {
        exit: None,
        log: own.log.map(|pattern| LogCondition {
            pattern,
            regex: own.regex,
            stream: None,
        }),
        port: own.port.map(|port| PortCondition {
            port,
            http: own.http.map(|path| HttpCheck {
                path: Some(path),
                status: None,
            }),
        }),
        timeout_ms: own.timeout,
    };
    let early = request.log.is_some() || request.port.is_some();
    let reply = sandbox.client.wait_process(&record.id, &request).await?;
    if hub.out.json {
        hub.out.object(&reply)?;
    } else if let Some(line) = &reply.line {
        hub.out.line(line.trim_end_matches('\n'))?;
    }
    match reply.outcome {
        WaitOutcome::Log | WaitOutcome::Port => Ok(0),
        WaitOutcome::Timeout => {
            hub.out.remark("sandshell: it took too long");
            Ok(relay::TIMED_OUT)
        }
        WaitOutcome::Exit if reply.process.timed_out => {
            hub.out.remark("sandshell: it took too long and was ended");
            Ok(relay::TIMED_OUT)
        }
        WaitOutcome::Exit => {
            if early {
                hub.out.remark("sandshell: the process ended first");
            }
            let code = relay::exit_code(reply.process.exit_code);
            Ok(if early { code.max(1) } else { code })
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct KillArguments {
    /// The processes: their ids or the beginnings, in a sandbox as SANDBOX/ID.
    #[arg(value_name = "PROCESS", required = true)]
    processes: Vec<Thing>,

    /// Send this signal to it and all it started, and nothing more, such as HUP.
    #[arg(long, short, value_name = "SIGNAL")]
    signal: Option<String>,

    /// Time between TERM and KILL [default: 5s].
    #[arg(long, value_name = "TIME", value_parser = values::duration, conflicts_with = "signal")]
    grace: Option<u64>,
}

pub(crate) fn kill(remote: Remote, own: &KillArguments) -> Done {
    remote.drive(async |hub| {
        for thing in &own.processes {
            let (sandbox, record) = process(hub, thing).await?;
            if let Some(signal) = &own.signal {
                let request = SignalRequest {
                    signal: signal.clone(),
                    scope: SignalScope::Tree,
                };
                let reply = sandbox.client.signal_process(&record.id, &request).await?;
                hub.out.made(&reply, record.id.as_str())?;
                continue;
            }
            let request = KillRequest {
                grace_ms: own.grace,
            };
            let reply = sandbox.client.kill_process(&record.id, &request).await?;
            hub.out.made(&reply, record.id.as_str())?;
            if let Some(survivor) = reply.survivors.first() {
                return Err(Failure::failed(format!(
                    "{} processes of {} could not be ended: {} ({})",
                    reply.survivors.len(),
                    record.id,
                    survivor.pid,
                    survivor.command
                ))
                .hint(format!(
                    "`sandshell rm {}` ends the whole sandbox",
                    sandbox.id
                )));
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

#[cfg(test)]
mod tests {
    use sandshell_client::types::{StreamName, TextEncoding};

    use super::*;

    fn tail_of(lines: usize, pieces: &[&str]) -> String {
        let mut tail = Tail::new(lines);
        for piece in pieces {
            tail.push(OutputEvent {
                stream: StreamName::Stdout,
                offset: 0,
                data: (*piece).to_owned(),
                encoding: TextEncoding::Utf8,
                at: Timestamp::UNIX_EPOCH,
            });
        }
        tail.into_events()
            .into_iter()
            .map(|event| event.data)
            .collect()
    }

    #[test]
    fn the_last_lines_wherever_the_pieces_end() {
        let pieces = ["a\nb", "\nc\n", "d\n"];
        assert_eq!(tail_of(2, &pieces), "c\nd\n");
        assert_eq!(tail_of(3, &pieces), "b\nc\nd\n");
        assert_eq!(tail_of(9, &pieces), "a\nb\nc\nd\n");
        assert_eq!(tail_of(0, &pieces), "");
        assert_eq!(tail_of(1, &["a\nb\n", "c"]), "c");
        assert_eq!(tail_of(2, &["a\nb\n", "c"]), "b\nc");
        assert_eq!(tail_of(1, &["abc"]), "abc");
    }
}
