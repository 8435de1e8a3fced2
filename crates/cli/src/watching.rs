//! `sandshell events` and `sandshell stats`: what happens in a sandbox, and what it uses.

use std::process::ExitCode;

use clap::Args;
use sandshell_client::SandboxStreamEvent;
use sandshell_client::types::{Happening, SandboxEvent, SandboxStats};

use crate::connection::{Done, Hub, Remote};
use crate::failure::Failure;
use crate::names;
use crate::output::{size, span};
use crate::sandboxes::OneArguments;

#[derive(Debug, Args)]
pub(crate) struct EventsArguments {
    #[command(flatten)]
    one: OneArguments,

    /// Only of this type, such as oom; may be given again.
    #[arg(long = "type", short, value_name = "TYPE", value_parser = kind)]
    types: Vec<String>,

    /// Those after this number that are still kept, too.
    #[arg(long, value_name = "NUMBER")]
    from: Option<u64>,
}

fn kind(text: &str) -> Result<String, String> {
    if Happening::TYPES.contains(&text) {
        return Ok(text.to_owned());
    }
    Err(
        match names::nearest(text, Happening::TYPES.iter().copied()) {
            Some(meant) => format!("did you mean {meant}?"),
            None => format!("types are {}", Happening::TYPES.join(", ")),
        },
    )
}

pub(crate) fn events(remote: Remote, own: &EventsArguments) -> Done {
    remote.drive(async |hub| {
        let sandbox = hub.sandbox(own.one.sandbox.as_deref()).await?;
        let types: Vec<&str> = own.types.iter().map(String::as_str).collect();
        let mut events = sandbox.client.sandbox_events(own.from, &types).await?;
        while let Some(event) = events.next().await {
            match event? {
                SandboxStreamEvent::Event(_, event) if hub.out.json => hub.out.object(&event)?,
                SandboxStreamEvent::Event(_, event) => hub.out.line(&line(&event))?,
                SandboxStreamEvent::Truncated(truncated) if hub.out.json => {
                    hub.out.object(&truncated)?;
                }
                SandboxStreamEvent::Truncated(_) => hub.out.remark("some events are missing here"),
                _ => {}
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// The time, the type, and what else it says.
fn line(event: &SandboxEvent) -> String {
    let object = serde_json::to_value(&event.what).unwrap_or_default();
    let mut text = format!("{}  {}", event.at, event.what.kind());
    for (key, value) in object.as_object().into_iter().flatten() {
        if key != "type" {
            let value = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            text.push_str(&format!("  {key}={}", value.escape_debug()));
        }
    }
    text
}

pub(crate) fn stats(remote: Remote, own: &OneArguments) -> Done {
    remote.drive(async |hub| {
        let sandbox = hub.sandbox(own.sandbox.as_deref()).await?;
        let stats = sandbox.client.stats().await?;
        show(hub, &stats)?;
        Ok(ExitCode::SUCCESS)
    })
}

fn show(hub: &Hub, stats: &SandboxStats) -> Result<(), Failure> {
    let of = |used: Option<String>, limit: Option<String>| {
        let used = used.unwrap_or_else(|| "unknown".to_owned());
        limit.map_or_else(|| used.clone(), |limit| format!("{used} of {limit}"))
    };
    let disk = stats.disk.as_ref().map(|disk| {
        let (used, total) = (size(disk.used_bytes), size(disk.total_bytes));
        format!("{used} of {total} at {}", disk.path)
    });
    let network = stats.network.as_ref().map(|network| {
        let (received, sent) = (size(network.received_bytes), size(network.sent_bytes));
        format!("{received} received, {sent} sent")
    });
    let cpu = stats.cpu.usage_ms.map(|millis| format!("{millis} ms"));
    let cpus = stats.cpu.limit.map(|limit| format!("{limit} processors"));
    hub.out.sides(
        stats,
        &[
            ("up for", span(stats.uptime_ms / 1000)),
            ("cpu time", cpu.unwrap_or_else(|| "unknown".to_owned())),
            ("cpu limit", cpus.unwrap_or_default()),
            (
                "memory",
                of(
                    stats.memory.used_bytes.map(size),
                    stats.memory.limit_bytes.map(size),
                ),
            ),
            (
                "pids",
                of(
                    stats.pids.count.map(|count| count.to_string()),
                    stats.pids.limit.map(|limit| limit.to_string()),
                ),
            ),
            ("disk", disk.unwrap_or_default()),
            ("network", network.unwrap_or_default()),
            ("processes", stats.processes.to_string()),
            ("execs", stats.execs.to_string()),
            ("sessions", stats.sessions.to_string()),
            ("terminals", stats.terminals.to_string()),
        ],
    )
}
