//! `GET /metrics`: figures for Prometheus.

use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use sandshell_exec::SessionHandle;
use sandshell_types::{ProcessKind, ProcessState, ProtectionStatus, SandboxStats, SessionState};

use super::AgentState;
use crate::Agent;
use crate::metrics::Exposition;

/// Figures of the service, for Prometheus.
///
/// Requests by route, method and status, how long their answers took to begin, what is open now, how
/// many processes and sessions there are, and what the agent itself uses. Needs the token: give it to
/// Prometheus as `authorization.credentials`.
#[utoipa::path(
    get, path = "/metrics", operation_id = "metrics", tag = "service",
    responses(
        (status = 200, description = "The figures, in the text form 0.0.4.", content_type = "text/plain",
            body = String, example = json!(
                "# HELP sandshell_http_connections Connections that are open.\n\
                 # TYPE sandshell_http_connections gauge\nsandshell_http_connections 1\n")),
    )
)]
pub(crate) async fn metrics(State(agent): AgentState) -> Response {
    let mut text = Exposition::of_this_program();
    agent.metrics.write(&mut text);
    protections(&agent, &mut text);
    processes(&agent, &mut text);
    sessions(&agent, &mut text);
    if let Ok(stats) = agent.executor.stats().await {
        sandbox(&stats, &mut text);
    }
    own(&mut text);
    text.into_response()
}

fn protections(agent: &Agent, text: &mut Exposition) {
    const NAME: &str = "sandshell_protection";
    text.family(
        NAME,
        "gauge",
        "Layers of isolation: 1 enforced, 0.5 partial, 0 off.",
    );
    for protection in &agent.protections {
        let labels = format!("name=\"{}\"", protection.name.name());
        let value = match protection.status {
            ProtectionStatus::Enforced => "1",
            ProtectionStatus::Partial => "0.5",
            ProtectionStatus::Off => "0",
        };
        text.sample(NAME, &labels, value);
    }
}

fn processes(agent: &Agent, text: &mut Exposition) {
    const NAME: &str = "sandshell_processes";
    text.family(
        NAME,
        "gauge",
        "Processes and execs with a record, by kind and state.",
    );
    let all: Vec<_> = agent
        .executor
        .processes()
        .iter()
        .map(|process| (process.kind(), process.record().state))
        .collect();
    for (kind, kind_label) in [
        (ProcessKind::Process, "process"),
        (ProcessKind::Exec, "exec"),
    ] {
        for (state, state_label) in [
            (ProcessState::Running, "running"),
            (ProcessState::Backoff, "backoff"),
            (ProcessState::Exited, "exited"),
        ] {
            let count = all.iter().filter(|found| **found == (kind, state)).count();
            let labels = format!("kind=\"{kind_label}\",state=\"{state_label}\"");
            text.sample(NAME, &labels, count);
        }
    }
}

fn sessions(agent: &Agent, text: &mut Exposition) {
    const NAME: &str = "sandshell_sessions";
    text.family(NAME, "gauge", "Sessions with a record, by state.");
    let records: Vec<_> = agent
        .executor
        .sessions()
        .iter()
        .map(SessionHandle::record)
        .collect();
    for (state, label) in [
        (SessionState::Idle, "idle"),
        (SessionState::Busy, "busy"),
        (SessionState::Restoring, "restoring"),
        (SessionState::Ended, "ended"),
    ] {
        let count = records
            .iter()
            .filter(|record| record.state == state)
            .count();
        text.sample(NAME, &format!("state=\"{label}\""), count);
    }
    let waiting: u64 = records
        .iter()
        .map(|record| u64::from(record.queue_length))
        .sum();
    text.gauge(
        "sandshell_session_commands_waiting",
        "Commands that wait in the queues of all sessions.",
        waiting,
    );
}

/// What the sandbox uses and may use; what cannot be told is left out.
fn sandbox(stats: &SandboxStats, text: &mut Exposition) {
    if let Some(ms) = stats.cpu.usage_ms {
        const NAME: &str = "sandshell_sandbox_cpu_seconds_total";
        text.family(NAME, "counter", "Processor time of the sandbox.");
        text.sample(NAME, "", Duration::from_millis(ms).as_secs_f64());
    }
    for (name, help, value) in [
        (
            "sandshell_sandbox_memory_bytes",
            "Memory of the sandbox.",
            stats.memory.used_bytes,
        ),
        (
            "sandshell_sandbox_memory_limit_bytes",
            "Memory that the sandbox may use.",
            stats.memory.limit_bytes,
        ),
        (
            "sandshell_sandbox_pids",
            "Processes of the sandbox.",
            stats.pids.count,
        ),
        (
            "sandshell_sandbox_pids_limit",
            "Processes and threads that the sandbox may have.",
            stats.pids.limit,
        ),
    ] {
        if let Some(value) = value {
            text.gauge(name, help, value);
        }
    }
}

/// What the agent itself uses. These are files of the kernel's own and answered from memory.
fn own(text: &mut Exposition) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    if let Some(kib) = resident {
        text.gauge(
            "process_resident_memory_bytes",
            "Memory of the agent itself.",
            kib * 1024,
        );
    }
    if let Ok(entries) = std::fs::read_dir("/proc/self/fd") {
        text.gauge(
            "process_open_fds",
            "File descriptors of the agent itself.",
            entries.count() as u64,
        );
    }
}
