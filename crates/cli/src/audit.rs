//! `sandshell audit`: what was done at a hub, and by which token.

use std::process::ExitCode;

use clap::Args;
use sandshell_client::AuditFilter;
use sandshell_client::types::List;

use crate::connection::{Done, PAGE, Remote};
use crate::output::ago;

#[derive(Debug, Args)]
pub(crate) struct AuditArguments {
    /// Only what was done to this sandbox or token.
    #[arg(long, value_name = "ID")]
    target: Option<String>,

    /// Only this action, such as sandbox.create.
    #[arg(long, value_name = "ACTION")]
    action: Option<String>,

    /// How many, the newest first.
    #[arg(long = "tail", short = 'n', value_name = "COUNT", default_value_t = 50)]
    count: usize,
}

pub(crate) fn run(remote: Remote, own: AuditArguments) -> Done {
    remote.drive(async |hub| {
        let mut filter = AuditFilter {
            target: own.target,
            action: own.action,
            ..AuditFilter::default()
        };
        let mut items = Vec::new();
        loop {
            let left = u32::try_from(own.count - items.len()).unwrap_or(PAGE);
            if left == 0 {
                break;
            }
            filter.page.limit = Some(left.min(PAGE));
            let page = hub.client.audit(&filter).await?;
            items.extend(page.items);
            match page.next_cursor {
                Some(cursor) => filter.page.cursor = Some(cursor),
                None => break,
            }
        }
        let list = List {
            items,
            next_cursor: None,
        };
        let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        hub.out.list(
            &list,
            &list.items,
            |entry| entry.id.to_string(),
            &[
                "ID", "WHEN", "ACTION", "TARGET", "TOKEN", "OUTCOME", "DETAIL",
            ],
            |entry| {
                vec![
                    entry.id.to_string(),
                    ago(entry.at),
                    entry.action.clone(),
                    or_dash(&entry.target),
                    or_dash(&entry.token),
                    entry.outcome.clone(),
                    or_dash(&entry.detail),
                ]
            },
        )?;
        Ok(ExitCode::SUCCESS)
    })
}
