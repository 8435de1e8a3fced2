//! The report for people: one line for each check, then what isolation there is.

use std::collections::BTreeMap;

use sandshell_client::types::ProtectionStatus;

use super::report::{Report, Status};

const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const RED: &str = "\x1b[31m";
const RESET: &str = "\x1b[0m";

pub(crate) fn text(report: &Report, coloured: bool) -> String {
    let mut text = String::new();
    let width = report.checks.iter().map(|check| check.name.len()).max();
    let width = width.unwrap_or_default();
    for check in &report.checks {
        let word = word(check.status, coloured);
        text.push_str(&format!("{word}  {:width$}  {}\n", check.name, check.value));
        if let Some(remedy) = &check.remedy {
            text.push_str(&format!("      {:width$}  hint: {remedy}\n", ""));
        }
    }
    text.push_str("\nWhat isolation you get here, as a sandbox made just now tells:\n");
    text.push_str(&isolation(report));
    text.push_str(&summary(report));
    text
}

/// Four characters, and a colour that says no more than they do.
fn word(status: Status, coloured: bool) -> String {
    let (word, colour) = match status {
        Status::Ok => ("ok  ", GREEN),
        Status::Warn => ("warn", YELLOW),
        Status::Fail => ("fail", RED),
    };
    if coloured {
        format!("{colour}{word}{RESET}")
    } else {
        word.to_owned()
    }
}

fn isolation(report: &Report) -> String {
    let isolation = &report.isolation;
    if let Some(error) = &isolation.error {
        return format!("  none: no sandbox could be made: {error}\n");
    }
    let mut text = String::new();
    let enforced: Vec<&str> = isolation
        .protections
        .iter()
        .filter(|one| one.status == ProtectionStatus::Enforced)
        .map(|one| one.name.name())
        .collect();
    text.push_str(&format!("  enforced  {}\n", enforced.join(", ")));
    for (status, word) in [
        (ProtectionStatus::Partial, "partial "),
        (ProtectionStatus::Off, "off     "),
    ] {
        // Layers often share a reason; it is said once.
        let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for one in isolation
            .protections
            .iter()
            .filter(|one| one.status == status)
        {
            let reason = one.reason.as_deref().unwrap_or("no reason is known");
            by_reason.entry(reason).or_default().push(one.name.name());
        }
        for (reason, names) in by_reason {
            text.push_str(&format!("  {word}  {}: {reason}\n", names.join(", ")));
        }
    }
    text.push_str(&format!("  policies  {}\n", isolation.policies.join(", ")));
    text
}

fn summary(report: &Report) -> String {
    let with = |status| {
        let all = report.checks.iter();
        all.filter(|check| check.status == status).count()
    };
    let (warned, failed) = (with(Status::Warn), with(Status::Fail));
    let checks = report.checks.len();
    format!("\n{checks} checks: {failed} failed, {warned} with a warning\n")
}
