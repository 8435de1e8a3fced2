//! `sandshell update`: labels, limits and times of a sandbox that is there.

use std::process::ExitCode;

use clap::Args;
use sandshell_client::types::{OnIdle, SandboxLimits, SandboxPatch};

use crate::connection::{Done, Remote};
use crate::failure::Failure;
use crate::sandboxes::{Idle, Most, OneArguments};
use crate::values;

#[derive(Debug, Args)]
pub(crate) struct UpdateArguments {
    #[command(flatten)]
    one: OneArguments,

    /// Label to set; may be given again.
    #[arg(long = "label", short, value_name = "KEY=VALUE", value_parser = values::pair)]
    labels: Vec<(String, String)>,

    /// Label to take away; may be given again.
    #[arg(long, value_name = "KEY")]
    remove_label: Vec<String>,

    #[command(flatten)]
    most: Most,

    /// Time without a request after which it is put to sleep, such as 10m, or never.
    #[arg(long, value_name = "TIME", value_parser = time)]
    idle: Option<u64>,

    /// What happens to it then.
    #[arg(long, value_name = "WHAT")]
    on_idle: Option<Idle>,

    /// Time since its making after which it is destroyed, such as 8h, or never.
    #[arg(long, value_name = "TIME", value_parser = time)]
    lifetime: Option<u64>,
}

/// A time, or 0 for never.
fn time(text: &str) -> Result<u64, String> {
    match text {
        "never" => Ok(0),
        _ => values::duration(text).map_err(|reason| format!("{reason}, or never")),
    }
}

impl UpdateArguments {
    fn patch(self) -> SandboxPatch {
        let limits = SandboxLimits::from(self.most);
        let set = self
            .labels
            .into_iter()
            .map(|(key, value)| (key, Some(value)));
        let gone = self.remove_label.into_iter().map(|key| (key, None));
        SandboxPatch {
            labels: set.chain(gone).collect(),
            idle_timeout_ms: self.idle,
            on_idle: self.on_idle.map(OnIdle::from),
            max_lifetime_ms: self.lifetime,
            limits: (limits != SandboxLimits::default()).then_some(limits),
        }
    }
}

pub(crate) fn run(remote: Remote, mut own: UpdateArguments) -> Done {
    remote.drive(async |hub| {
        let typed = own.one.sandbox.take();
        let patch = own.patch();
        if patch == SandboxPatch::default() {
            return Err(Failure::usage("there is nothing to change")
                .hint("say what, as in `sandshell update SANDBOX --memory 1g`"));
        }
        let id = hub.sandbox(typed.as_deref()).await?.id;
        let patched = hub.client.patch_sandbox(&id, &patch).await;
        let record = patched.map_err(|error| {
            let failure = Failure::from(error);
            if failure.line().contains("disk_bytes") {
                return failure.hint(
                    "what it may write holds from its making on; `sandshell create --memory SIZE` makes a smaller one",
                );
            }
            failure
        })?;
        hub.out.made(&record, id.as_str())?;
        Ok(ExitCode::SUCCESS)
    })
}
