//! A sandbox in their words.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sandshell_client::types::{NetworkMode, SandboxRecord, SandboxState};
use serde_json::{Value, json};

use super::TEMPLATE;
use crate::{ENVD_VERSION, Settings};

/// The end of a sandbox that has none.
const NEVER: &str = "9999-12-31T23:59:59Z";

pub(super) fn template(record: &SandboxRecord) -> &str {
    let labels = &record.spec.labels;
    let named = labels.get(TEMPLATE).or(record.spec.image.as_ref());
    named.map_or("base", String::as_str)
}

pub(super) fn metadata(record: &SandboxRecord) -> BTreeMap<&str, &str> {
    let labels = record.spec.labels.iter();
    let theirs = labels.filter(|(name, _)| !name.starts_with("e2b/"));
    theirs
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect()
}

pub(super) fn state(record: &SandboxRecord) -> &'static str {
    match record.state {
        SandboxState::Paused | SandboxState::Asleep => "paused",
        _ => "running",
    }
}

/// What is needed to use it.
pub(super) fn connection(record: &SandboxRecord, settings: &Settings) -> Value {
    let token = settings.key.token_of(record);
    json!({
        "sandboxID": record.id,
        "templateID": template(record),
        "clientID": "sandshell",
        "alias": template(record),
        "envdVersion": ENVD_VERSION,
        "envdAccessToken": token,
        "trafficAccessToken": token,
        "domain": settings.domain,
    })
}

fn ends_at(record: &SandboxRecord) -> String {
    let idle = record.spec.idle_timeout_ms.and_then(|idle| {
        let idle = std::time::Duration::from_millis(idle);
        record.last_used_at.checked_add(idle).ok()
    });
    let end: Option<Timestamp> = record.expires_at.or(idle);
    end.map_or_else(|| NEVER.to_owned(), |end| end.to_string())
}

/// Whole processors, of a share of them.
#[expect(clippy::cast_sign_loss, reason = "a share is positive")]
fn processors(cpus: Option<f64>) -> u32 {
    cpus.unwrap_or_default().ceil() as u32
}

/// As it is listed. What has no limit is 0.
pub(super) fn listed(record: &SandboxRecord) -> Value {
    let limits = record.spec.limits.clone().unwrap_or_default();
    let mebibytes = |bytes: Option<u64>| bytes.unwrap_or_default() >> 20;
    json!({
        "sandboxID": record.id,
        "templateID": template(record),
        "clientID": "sandshell",
        "alias": template(record),
        "startedAt": record.created_at,
        "endAt": ends_at(record),
        "cpuCount": processors(limits.cpus),
        "memoryMB": mebibytes(limits.memory_bytes),
        "diskSizeMB": mebibytes(limits.disk_bytes),
        "state": state(record),
        "metadata": metadata(record),
        "envdVersion": ENVD_VERSION,
    })
}

/// All of it.
pub(super) fn detail(record: &SandboxRecord, settings: &Settings) -> Value {
    let mut detail = listed(record);
    let idle = record.spec.idle_timeout_ms.is_some();
    let network = record.spec.network.as_ref();
    detail["envdAccessToken"] = settings.key.token_of(record).into();
    detail["domain"] = json!(settings.domain);
    detail["allowInternetAccess"] = network
        .is_some_and(|network| network.mode != NetworkMode::None)
        .into();
    detail["lifecycle"] = json!({
        "autoResume": idle,
        "onTimeout": if idle { "pause" } else { "kill" },
    });
    detail
}
