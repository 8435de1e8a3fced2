//! `sandshell env`: the variables that every command of a sandbox gets, shown and changed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use sandshell_client::types::{EnvPatch, EnvReply};

use crate::connection::{Done, Hub, Remote};
use crate::failure::Failure;
use crate::files::shown as shown_value;
use crate::sandboxes::OneArguments;
use crate::values;

#[derive(Debug, Args)]
pub(crate) struct EnvArguments {
    #[command(flatten)]
    one: OneArguments,

    /// Variable to set for what is started from now on, KEY=VALUE, or KEY for its value here; may be given
    /// again.
    #[arg(long, value_name = "VARIABLE", value_parser = values::variable)]
    set: Vec<(String, Option<String>)>,

    /// File with a variable to set on each line; may be given again.
    #[arg(long, value_name = "FILE")]
    env_file: Vec<PathBuf>,

    /// Variable to take away; may be given again.
    #[arg(long, value_name = "KEY")]
    unset: Vec<String>,

    /// Also those that every sandbox has.
    #[arg(long, short)]
    all: bool,
}

pub(crate) fn run(remote: Remote, own: EnvArguments) -> Done {
    remote.drive(async |hub| {
        let mut env = values::environment(&own.env_file, &own.set)?;
        env.extend(own.unset.into_iter().map(|key| (key, None)));
        let sandbox = hub.sandbox(own.one.sandbox.as_deref()).await?;
        let reply = if env.is_empty() {
            sandbox.client.environment().await?
        } else {
            sandbox.client.patch_environment(&EnvPatch { env }).await?
        };
        show(hub, &reply, own.all)?;
        Ok(ExitCode::SUCCESS)
    })
}

/// As a file that `--env-file` takes.
fn show(hub: &Hub, reply: &EnvReply, all: bool) -> Result<(), Failure> {
    if hub.out.json {
        return hub.out.object(reply);
    }
    let mut shown = if all {
        reply.base.clone()
    } else {
        BTreeMap::new()
    };
    for (key, value) in &reply.env {
        match value {
            Some(value) => shown.insert(key.clone(), value.clone()),
            None => shown.remove(key),
        };
    }
    for (key, value) in &shown {
        hub.out.line(&format!("{key}={}", shown_value(value)))?;
    }
    Ok(())
}
