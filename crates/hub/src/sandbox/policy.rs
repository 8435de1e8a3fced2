//! Whether the isolation that was had is the isolation that was asked for.

use sandshell_types::{IsolationPolicy, IsolationSpec, Layer, Protection, ProtectionStatus};

use crate::error::HubError;

/// Refuses a sandbox that is less isolated than its spec allows. Partial protections pass `strict`:
/// the record says what is missing; `require` wants them whole.
pub(crate) fn check(
    asked: Option<&IsolationSpec>,
    protections: &[Protection],
) -> Result<(), HubError> {
    let default = IsolationSpec::default();
    let asked = asked.unwrap_or(&default);
    let off = |protection: &&Protection| {
        let required = asked.require.contains(&protection.name);
        match protection.status {
            ProtectionStatus::Enforced => false,
            ProtectionStatus::Partial => required,
            ProtectionStatus::Off => required || asked.policy == IsolationPolicy::Strict,
        }
    };
    let mut missing: Vec<String> = protections
        .iter()
        .filter(off)
        .map(|protection| {
            let name = protection.name.name();
            match &protection.reason {
                Some(reason) => format!("{name} ({reason})"),
                None => name.to_owned(),
            }
        })
        .collect();
    let unknown = |layer: &&Layer| !protections.iter().any(|found| found.name == **layer);
    let unknown = asked.require.iter().filter(unknown);
    missing.extend(unknown.map(|layer| format!("{} (not reported)", layer.name())));
    if missing.is_empty() {
        return Ok(());
    }
    Err(HubError::Isolation {
        detail: format!(
            "the sandbox would lack {} of the protections asked for: {}",
            missing.len(),
            missing.join(", ")
        ),
        protections: protections.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(status: ProtectionStatus) -> Vec<Protection> {
        let with = |name, status| Protection {
            name,
            status,
            reason: Some("because".to_owned()),
        };
        vec![
            with(Layer::Seccomp, ProtectionStatus::Enforced),
            with(Layer::LandlockFs, status),
        ]
    }

    #[test]
    fn what_is_asked_for_is_had_or_refused() {
        use IsolationPolicy::{BestEffort, Strict};
        use ProtectionStatus::{Enforced, Off, Partial};
        for (policy, require, status, passes) in [
            (Strict, false, Enforced, true),
            (Strict, false, Partial, true),
            (Strict, false, Off, false),
            (Strict, true, Partial, false),
            (BestEffort, false, Off, true),
            (BestEffort, true, Off, false),
            (BestEffort, true, Partial, false),
            (BestEffort, true, Enforced, true),
        ] {
            let require = if require {
                vec![Layer::LandlockFs]
            } else {
                Vec::new()
            };
            let asked = IsolationSpec { policy, require };
            let outcome = check(Some(&asked), &report(status));
            assert_eq!(outcome.is_ok(), passes, "{asked:?} with {status:?}");
            if let Err(HubError::Isolation { detail, .. }) = outcome {
                assert!(detail.contains("landlock-fs (because)"), "{detail}");
            }
        }
        assert!(check(None, &report(Off)).is_err(), "strict by default");
        let unheard = IsolationSpec {
            policy: BestEffort,
            require: vec![Layer::PidNs],
        };
        assert!(check(Some(&unheard), &report(Enforced)).is_err());
    }
}
