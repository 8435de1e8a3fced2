//! What a spec may say, beyond its form.

use std::collections::BTreeMap;

use sandshell_types::{SandboxLimits, SandboxPatch, SandboxSpec};

use crate::egress::Policy;
use crate::error::HubError;

const MOST_LABELS: usize = 64;
const LONGEST_LABEL: usize = 128;
const MOST_VARIABLES: usize = 1000;
/// Of all variables, as many as a sandbox can be given later.
const MOST_OF_ENVIRONMENT: usize = 128 << 10;
const LONGEST_TEXT: usize = 4096;

/// More processors than this is a slip of the pen.
const MOST_CPUS: f64 = 4096.0;

/// Refuses a spec that cannot be meant.
pub(super) fn spec(spec: &SandboxSpec) -> Result<(), HubError> {
    labels(spec.labels.iter().map(|(key, value)| (key, Some(value))))?;
    count(spec.labels.len(), MOST_LABELS, "/labels", "labels")?;
    environment(&spec.env)?;
    if let Some(image) = &spec.image {
        text(image, "/image")?;
    }
    if let Some(user) = &spec.user {
        text(user, "/user")?;
    }
    if let Some(cwd) = &spec.cwd {
        text(cwd, "/cwd")?;
        if !cwd.starts_with('/') {
            return Err(HubError::invalid("/cwd", "the path is not absolute"));
        }
    }
    if let Some(limits) = &spec.limits {
        check_limits(limits)?;
    }
    network_and_secrets(spec)?;
    positive(spec.idle_timeout_ms, "/idle_timeout_ms")?;
    positive(spec.max_lifetime_ms, "/max_lifetime_ms")?;
    if spec.on_idle.is_some() && spec.idle_timeout_ms.is_none() {
        return Err(
            HubError::invalid("/on_idle", "nothing happens without an idle timeout")
                .hint("Give `idle_timeout_ms` too."),
        );
    }
    Ok(())
}

/// Refuses a change that cannot be meant, or would leave too many labels.
pub(super) fn patch(
    patch: &SandboxPatch,
    before: &BTreeMap<String, String>,
) -> Result<(), HubError> {
    labels(
        patch
            .labels
            .iter()
            .map(|(key, value)| (key, value.as_ref())),
    )?;
    let added = patch.labels.iter().filter(|(key, value)| {
        let there = before.contains_key(*key);
        value.is_some() && !there
    });
    let removed = patch.labels.iter().filter(|(key, value)| {
        let there = before.contains_key(*key);
        value.is_none() && there
    });
    let after = (before.len() + added.count()).saturating_sub(removed.count());
    count(after, MOST_LABELS, "/labels", "labels")?;
    patch.limits.as_ref().map_or(Ok(()), check_limits)
}

fn labels<'a>(
    labels: impl Iterator<Item = (&'a String, Option<&'a String>)>,
) -> Result<(), HubError> {
    for (key, value) in labels {
        let pointer = || format!("/labels/{}", key.replace('~', "~0").replace('/', "~1"));
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-/".contains(&b);
        if key.is_empty() || key.len() > LONGEST_LABEL || !key.bytes().all(allowed) {
            let detail = format!(
                "the name of a label has 1 to {LONGEST_LABEL} letters, digits, '.', '_', '-' and '/'"
            );
            return Err(HubError::invalid(pointer(), detail));
        }
        if value.is_some_and(|value| value.len() > LONGEST_LABEL) {
            let detail = format!("the value of a label has at most {LONGEST_LABEL} bytes");
            return Err(HubError::invalid(pointer(), detail));
        }
    }
    Ok(())
}

fn environment(env: &BTreeMap<String, String>) -> Result<(), HubError> {
    count(env.len(), MOST_VARIABLES, "/env", "variables")?;
    for (name, value) in env {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            let pointer = format!("/env/{}", name.replace('~', "~0").replace('/', "~1"));
            let detail = "a variable has a name without '=', and no NUL";
            return Err(HubError::invalid(pointer, detail));
        }
    }
    environment_size(env.iter())
}

/// Refuses an environment that commands could not be started with.
pub(crate) fn environment_size<'a>(
    env: impl Iterator<Item = (&'a String, &'a String)>,
) -> Result<(), HubError> {
    // As the kernel counts them: NAME=VALUE and a NUL.
    let bytes: usize = env.map(|(name, value)| name.len() + value.len() + 2).sum();
    if bytes <= MOST_OF_ENVIRONMENT {
        return Ok(());
    }
    let detail = format!(
        "the variables have {bytes} bytes together, and at most {MOST_OF_ENVIRONMENT} are taken"
    );
    Err(HubError::invalid("/env", detail).hint("Put what is long into a file of the sandbox."))
}

fn check_limits(limits: &SandboxLimits) -> Result<(), HubError> {
    for (name, limit) in [
        ("memory_bytes", limits.memory_bytes),
        ("pids", limits.pids),
        ("disk_bytes", limits.disk_bytes),
        ("inodes", limits.inodes),
        ("open_files", limits.open_files),
    ] {
        positive(limit, &format!("/limits/{name}"))?;
    }
    let sound = |cpus: f64| cpus.is_finite() && cpus > 0.0 && cpus <= MOST_CPUS;
    if limits.cpus.is_some_and(|cpus| !sound(cpus)) {
        let detail = format!("cpus must be a number above 0 and up to {MOST_CPUS}");
        return Err(HubError::invalid("/limits/cpus", detail));
    }
    Ok(())
}

/// The proxy's own judgement, so that what is taken here is what it enforces.
fn network_and_secrets(spec: &SandboxSpec) -> Result<(), HubError> {
    Policy::of(spec).map(drop).map_err(|error| {
        let refused = HubError::invalid(error.pointer, error.detail);
        match error.hint {
            Some(hint) => refused.hint(hint),
            None => refused,
        }
    })
}

fn positive(value: Option<u64>, pointer: &str) -> Result<(), HubError> {
    match value {
        Some(0) => {
            let name = pointer.rsplit('/').next().unwrap_or_default();
            let detail = format!("{name} must be at least 1");
            Err(HubError::invalid(pointer, detail).hint("Leave it out for what is usual."))
        }
        _ => Ok(()),
    }
}

fn text(value: &str, pointer: &str) -> Result<(), HubError> {
    let fine = (1..=LONGEST_TEXT).contains(&value.len()) && !value.contains('\0');
    if fine {
        return Ok(());
    }
    let detail = format!("must have 1 to {LONGEST_TEXT} bytes and no NUL");
    Err(HubError::invalid(pointer, detail))
}

fn count(found: usize, most: usize, pointer: &str, of: &str) -> Result<(), HubError> {
    if found <= most {
        return Ok(());
    }
    let detail = format!("there are at most {most} {of}, not {found}");
    Err(HubError::invalid(pointer, detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused_at(json: &str) -> Option<String> {
        match spec(&serde_json::from_str(json).unwrap()) {
            Ok(()) => None,
            Err(HubError::Invalid { pointer, .. }) => Some(pointer),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn names_the_place_of_what_cannot_be_meant() {
        for (json, pointer) in [
            (r#"{"labels":{"a b":"c"}}"#, "/labels/a b"),
            (r#"{"labels":{"":"c"}}"#, "/labels/"),
            (r#"{"env":{"A=B":"c"}}"#, "/env/A=B"),
            (r#"{"cwd":"tmp"}"#, "/cwd"),
            (r#"{"user":""}"#, "/user"),
            (r#"{"image":""}"#, "/image"),
            (r#"{"limits":{"pids":0}}"#, "/limits/pids"),
            (r#"{"limits":{"cpus":0}}"#, "/limits/cpus"),
            (r#"{"limits":{"cpus":-1.5}}"#, "/limits/cpus"),
            (r#"{"network":{"mode":"allow"}}"#, "/network/allow"),
            (
                r#"{"network":{"mode":"none","allow":["a"]}}"#,
                "/network/allow",
            ),
            (
                r#"{"network":{"mode":"allow","allow":["a.example","*.com"]}}"#,
                "/network/allow/1",
            ),
            (
                r#"{"secrets":[{"host":"a.example","header":"b","value":"c"}]}"#,
                "/secrets",
            ),
            (r#"{"idle_timeout_ms":0}"#, "/idle_timeout_ms"),
            (r#"{"max_lifetime_ms":0}"#, "/max_lifetime_ms"),
            (r#"{"on_idle":"sleep"}"#, "/on_idle"),
        ] {
            assert_eq!(refused_at(json).as_deref(), Some(pointer), "{json}");
        }
        for fine in [
            "{}",
            r#"{"network":{"mode":"allow","allow":["*.example.org"]}}"#,
            r#"{"limits":{"cpus":0.5,"memory_bytes":1}}"#,
            r#"{"idle_timeout_ms":1,"on_idle":"destroy"}"#,
        ] {
            assert_eq!(refused_at(fine), None, "{fine}");
        }
    }
}
