//! `sandshell token`: who may use a hub.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use sandshell_client::types::{Scope, Timestamp, TokenRequest};

use crate::arguments::examples;
use crate::connection::{Done, Hub, Remote, every};
use crate::failure::Failure;
use crate::output::ago;
use crate::{names, values};

#[derive(Debug, Args)]
pub(crate) struct TokenArguments {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// Make a token and print it, this once.
    #[command(before_help = examples!("token create --scope create --name ci", "token create --scope sandbox:build-1 --expires 8h"))]
    Create {
        /// What it opens: admin, create, or sandbox:ID; may be given again.
        #[arg(long = "scope", value_name = "SCOPE", required = true, value_parser = scope)]
        scopes: Vec<Scope>,
        /// A name to know it by.
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        /// Time after which it opens nothing, such as 8h [default: never].
        #[arg(long, value_name = "TIME", value_parser = values::duration)]
        expires: Option<u64>,
        /// Most sandboxes at a time that it may have made.
        #[arg(long, value_name = "COUNT")]
        max_sandboxes: Option<u32>,
    },
    /// List tokens; the tokens themselves are not kept.
    #[command(before_help = examples!("token ls", "token ls --json"))]
    Ls,
    /// Take the right of tokens away.
    #[command(before_help = examples!("token rm tok_0192f0c1d2e3", "token rm tok_0192f0c1d2e3 tok_0192f0c1d2e4"))]
    Rm {
        /// The tokens: their ids or the beginnings, not the tokens themselves.
        #[arg(value_name = "TOKEN", required = true)]
        tokens: Vec<String>,
    },
}

fn scope(text: &str) -> Result<Scope, String> {
    Scope::try_from(text.to_owned())
}

pub(crate) fn run(remote: Remote, own: TokenArguments) -> Done {
    remote.drive(async |hub| {
        match own.command {
            TokenCommand::Create {
                scopes,
                name,
                expires,
                max_sandboxes,
            } => {
                let expires_at = expires
                    .map(|millis| {
                        let now = Timestamp::now().as_millisecond();
                        Timestamp::from_millisecond(now.saturating_add_unsigned(millis))
                    })
                    .transpose()
                    .map_err(|error| Failure::usage(error.to_string()))?;
                let request = TokenRequest {
                    name,
                    scopes,
                    expires_at,
                    max_sandboxes,
                };
                let created = hub.client.create_token(&request).await?;
                hub.out.made(&created, &created.token)?;
                hub.out.remark(&format!(
                    "this is shown once; `sandshell token rm {}` takes its right away",
                    created.record.id
                ));
            }
            TokenCommand::Ls => list(hub).await?,
            TokenCommand::Rm { tokens } => {
                let list = every(async |page| hub.client.tokens(&page).await).await?;
                let ids: Vec<String> = list.items.into_iter().map(|record| record.id).collect();
                for typed in &tokens {
                    let id = names::pick("token", typed, &ids, "sandshell token ls")?;
                    let revoked = hub.client.revoke_token(&id).await;
                    let record = revoked.map_err(|error| {
                        let failure = Failure::from(error);
                        if failure.line().contains("token file") {
                            return failure.hint(
                                "write another into that file, start `sandshell serve` anew, then \
                                 `sandshell login < FILE`",
                            );
                        }
                        failure
                    })?;
                    hub.out.made(&record, &record.id)?;
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

async fn list(hub: &Hub) -> Result<(), Failure> {
    let list = every(async |page| hub.client.tokens(&page).await).await?;
    hub.out.list(
        &list,
        &list.items,
        |record| record.id.clone(),
        &["ID", "NAME", "SCOPES", "CREATED", "STATE"],
        |record| {
            let scopes: Vec<String> = record.scopes.iter().cloned().map(String::from).collect();
            let state = match (record.revoked_at, record.expires_at) {
                (Some(at), _) => format!("revoked {}", ago(at)),
                (None, Some(at)) if at <= Timestamp::now() => format!("expired {}", ago(at)),
                (None, Some(at)) => format!("until {at}"),
                (None, None) => "valid".to_owned(),
            };
            vec![
                record.id.clone(),
                record.name.clone().unwrap_or_else(|| "-".to_owned()),
                scopes.join(","),
                ago(record.created_at),
                state,
            ]
        },
    )
}
