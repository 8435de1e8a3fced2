//! What a sandbox uses, in the two forms it is asked for.

use std::time::Duration;

use axum::extract::Extension;
use axum::response::{IntoResponse, Response};
use sandshell_client::types::SandboxStats;
use serde_json::{Value, json};

use crate::error::Fault;
use crate::wire::Inside;

/// The share of its processors that a sandbox has used since it was made, in hundredths.
fn used_share(stats: &SandboxStats) -> f64 {
    let seconds = |ms: u64| Duration::from_millis(ms).as_secs_f64();
    let used = seconds(stats.cpu.usage_ms.unwrap_or_default());
    let had = seconds(stats.uptime_ms.max(1)) * f64::from(stats.cpu.cpus.max(1));
    (used / had * 10_000.0).round() / 100.0
}

/// As the control plane tells it: the present, of which there is one sample.
pub(crate) fn sample(stats: &SandboxStats) -> Value {
    let disk = stats.disk.as_ref();
    json!({
        "timestamp": stats.at,
        "timestampUnix": stats.at.as_second(),
        "cpuCount": stats.cpu.cpus,
        "cpuUsedPct": used_share(stats),
        "memUsed": stats.memory.used_bytes.unwrap_or_default(),
        "memTotal": stats.memory.limit_bytes.unwrap_or_default(),
        "memCache": 0,
        "diskUsed": disk.map_or(0, |disk| disk.used_bytes),
        "diskTotal": disk.map_or(0, |disk| disk.total_bytes),
    })
}

pub(crate) async fn metrics(Extension(inside): Extension<Inside>) -> Result<Response, Fault> {
    let stats = inside.sandbox.stats().await?;
    let (used, total) = (stats.memory.used_bytes, stats.memory.limit_bytes);
    let mebibytes = |bytes: Option<u64>| bytes.unwrap_or_default() >> 20;
    let disk = stats.disk.as_ref();
    let shown = json!({
        "ts": stats.at.as_second(),
        "cpu_count": stats.cpu.cpus,
        "cpu_used_pct": used_share(&stats),
        "mem_total": total.unwrap_or_default(),
        "mem_used": used.unwrap_or_default(),
        "mem_cache": 0,
        "mem_total_mib": mebibytes(total),
        "mem_used_mib": mebibytes(used),
        "disk_used": disk.map_or(0, |disk| disk.used_bytes),
        "disk_total": disk.map_or(0, |disk| disk.total_bytes),
    });
    Ok(axum::Json(shown).into_response())
}

/// The environment of every command.
pub(crate) async fn envs(Extension(inside): Extension<Inside>) -> Result<Response, Fault> {
    let reply = inside.sandbox.environment().await?;
    let mut all = reply.base;
    for (name, value) in reply.env {
        match value {
            Some(value) => all.insert(name, value),
            None => all.remove(&name),
        };
    }
    Ok(axum::Json(all).into_response())
}
