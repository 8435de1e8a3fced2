//! Entries of the audit log: who did what to which sandbox or token, and what came of it.
//!
//! An entry is written in the same transaction as the change it tells of.

use sandshell_types::{AuditEntry, Timestamp};

use crate::sandbox::By;

/// An entry about something that was done.
pub(crate) fn entry(action: &str, by: &By, target: &str) -> AuditEntry {
    AuditEntry {
        id: 0,
        at: Timestamp::now(),
        action: action.to_owned(),
        token: by.token.clone(),
        target: Some(target.to_owned()),
        outcome: "ok".to_owned(),
        detail: None,
        request_id: by.request_id.clone(),
    }
}
