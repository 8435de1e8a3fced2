//! What doctor found, as data: the object of `--json`.

use sandshell_client::types::{Protection, ProtectionStatus};
use serde::Serialize;

/// How a check went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    /// As it should be.
    Ok,
    /// Sandboxes work, but something is weaker, slower or missing.
    Warn,
    /// Something that is required does not work.
    Fail,
}

/// One row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    /// What was looked at; stable.
    pub(crate) name: &'static str,
    pub(crate) status: Status,
    /// What was measured.
    pub(crate) value: String,
    /// What to do, when there is something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) remedy: Option<String>,
}

impl Check {
    pub(crate) fn ok(name: &'static str, value: impl Into<String>) -> Self {
        Self {
            name,
            status: Status::Ok,
            value: value.into(),
            remedy: None,
        }
    }

    pub(crate) fn warn(
        name: &'static str,
        value: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            status: Status::Warn,
            remedy: Some(remedy.into()),
            ..Self::ok(name, value)
        }
    }

    pub(crate) fn fail(
        name: &'static str,
        value: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            status: Status::Fail,
            remedy: Some(remedy.into()),
            ..Self::ok(name, value)
        }
    }
}

/// What a sandbox on this machine is protected by, as one that was made just now tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Isolation {
    /// The policies that a sandbox can be made with here: `strict` and `best_effort`, the latter alone,
    /// or none.
    pub(crate) policies: Vec<&'static str>,
    /// What became of each layer; empty when no sandbox could be made.
    pub(crate) protections: Vec<Protection>,
    /// Why none could be made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

impl Isolation {
    pub(crate) fn of(probed: Result<Vec<Protection>, String>) -> Self {
        match probed {
            Ok(protections) => {
                let off = |one: &Protection| one.status == ProtectionStatus::Off;
                let policies = if protections.iter().any(off) {
                    vec!["best_effort"]
                } else {
                    vec!["strict", "best_effort"]
                };
                Self {
                    policies,
                    protections,
                    error: None,
                }
            }
            Err(error) => Self {
                policies: Vec::new(),
                protections: Vec::new(),
                error: Some(error),
            },
        }
    }

    /// As a row: a sandbox of the default policy can be made, a weaker one, or none.
    fn check(&self) -> Check {
        const NAME: &str = "sandbox";
        if let Some(error) = &self.error {
            let remedy = "see the failed checks above; in a container, run `sandshell agent` in it";
            return Check::fail(NAME, error.clone(), remedy);
        }
        let with = |status| {
            let all = self.protections.iter();
            all.filter(move |one| one.status == status).count()
        };
        let value = format!(
            "made one: {} protections enforced, {} partial, {} off",
            with(ProtectionStatus::Enforced),
            with(ProtectionStatus::Partial),
            with(ProtectionStatus::Off)
        );
        if self.policies.contains(&"strict") {
            return Check::ok(NAME, value);
        }
        let remedy = "sandboxes need `\"isolation\": {\"policy\": \"best_effort\"}` here, unless what is \
                      off below is remedied";
        Check::warn(NAME, value, remedy)
    }
}

/// Everything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Report {
    /// The worst of the checks.
    pub(crate) status: Status,
    pub(crate) checks: Vec<Check>,
    pub(crate) isolation: Isolation,
}

impl Report {
    pub(crate) fn of(mut checks: Vec<Check>, isolation: Isolation) -> Self {
        checks.push(isolation.check());
        let worst = checks.iter().map(|check| check.status).max();
        Self {
            status: worst.unwrap_or(Status::Ok),
            checks,
            isolation,
        }
    }

    /// Whether nothing stands in the way; with `strict`, nothing at all is to be said.
    pub(crate) fn is_good(&self, strict: bool) -> bool {
        let most = if strict { Status::Ok } else { Status::Warn };
        self.status <= most
    }
}
