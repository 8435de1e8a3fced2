//! `sandshell port`: listening ports of a sandbox, and how they are reached.

use std::process::ExitCode;
use std::str::FromStr;

use clap::{Args, Subcommand};
use sandshell_client::types::{HttpCheck, PortWaitRequest, PreviewRequest};

use crate::arguments::examples;
use crate::connection::{Done, Hub, Remote, every};
use crate::failure::Failure;
use crate::names::Thing;
use crate::sandboxes::OneArguments;
use crate::values;

#[derive(Debug, Args)]
pub(crate) struct PortArguments {
    #[command(subcommand)]
    command: PortCommand,
}

#[derive(Debug, Subcommand)]
enum PortCommand {
    /// List listening ports.
    #[command(before_help = examples!("port ls", "port ls build-1 --json"))]
    Ls(OneArguments),
    /// Give a port an address with a token of its own, and print it.
    #[command(before_help = examples!("port expose build-1/8000", "port expose 8000"))]
    Expose(OnePort),
    /// Take that token away.
    #[command(before_help = examples!("port unexpose build-1/8000", "port unexpose 8000"))]
    Unexpose(OnePort),
    /// Give a port a name of its own below the hub's preview domain, and print it.
    #[command(before_help = examples!("port preview build-1/8000", "port preview 8000 --ttl 2h"))]
    Preview {
        #[command(flatten)]
        port: OnePort,
        /// How long it leads there [default: 1h].
        #[arg(long, value_name = "TIME", value_parser = values::duration)]
        ttl: Option<u64>,
    },
    /// Wait until a port answers.
    #[command(before_help = examples!("port wait build-1/8000 --timeout 30s", "port wait 8000 --http /health"))]
    Wait {
        #[command(flatten)]
        port: OnePort,
        /// Also for an HTTP answer on this path; any status below 500 will do.
        #[arg(long, value_name = "PATH")]
        http: Option<String>,
        /// Give up after this time; the exit code is 124 then.
        #[arg(long, value_name = "TIME", value_parser = values::duration)]
        timeout: Option<u64>,
    },
}

#[derive(Debug, Args)]
struct OnePort {
    /// The port, in a sandbox as SANDBOX/PORT.
    #[arg(value_name = "PORT")]
    port: PortName,
}

/// A port and its sandbox.
#[derive(Debug, Clone)]
struct PortName {
    sandbox: Option<String>,
    port: u16,
}

impl FromStr for PortName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = || "expected PORT or SANDBOX/PORT, a port from 1 to 65535".to_owned();
        let thing: Thing = text.parse().map_err(|_| wanted())?;
        let name = |c: char| c.is_ascii_lowercase();
        if thing.sandbox.is_none() && thing.id.starts_with(name) {
            let (sandbox, port) = text.split_once(':').unwrap_or((text, "8000"));
            return Err(format!("{}, as in {sandbox}/{port}", wanted()));
        }
        let port = thing.id.parse().ok().filter(|port| *port > 0);
        Ok(Self {
            sandbox: thing.sandbox,
            port: port.ok_or_else(wanted)?,
        })
    }
}

pub(crate) fn run(remote: Remote, own: PortArguments) -> Done {
    remote.drive(async |hub| match own.command {
        PortCommand::Ls(one) => list(hub, one.sandbox.as_deref()).await,
        PortCommand::Expose(OnePort { port }) => {
            let sandbox = hub.sandbox(port.sandbox.as_deref()).await?;
            let exposure = sandbox.client.expose_port(port.port).await?;
            hub.out.made(&exposure, &exposure.url)?;
            Ok(ExitCode::SUCCESS)
        }
        PortCommand::Unexpose(OnePort { port }) => {
            let sandbox = hub.sandbox(port.sandbox.as_deref()).await?;
            let reply = sandbox.client.unexpose_port(port.port).await?;
            hub.out.made(&reply, &port.port.to_string())?;
            Ok(ExitCode::SUCCESS)
        }
        PortCommand::Preview {
            port: OnePort { port },
            ttl,
        } => {
            let sandbox = hub.sandbox(port.sandbox.as_deref()).await?;
            let request = PreviewRequest { ttl_ms: ttl };
            let made = hub.client.create_preview(&sandbox.id, port.port, &request);
            let preview = made.await.map_err(|error| {
                let failure = Failure::from(error);
                if failure.line().contains("--preview-domain") {
                    return failure.hint(format!(
                        "`sandshell port expose {}/{}` works without",
                        sandbox.id, port.port
                    ));
                }
                failure
            })?;
            hub.out.made(&preview, &preview.url)?;
            Ok(ExitCode::SUCCESS)
        }
        PortCommand::Wait {
            port: OnePort { port },
            http,
            timeout,
        } => {
            let sandbox = hub.sandbox(port.sandbox.as_deref()).await?;
            let request = PortWaitRequest {
                http: http.map(|path| HttpCheck {
                    path: Some(path),
                    status: None,
                }),
                timeout_ms: timeout,
            };
            let reply = sandbox.client.wait_port(port.port, &request).await?;
            if reply.timed_out {
                if hub.out.json {
                    hub.out.object(&reply)?;
                }
                hub.out.remark(&format!(
                    "sandshell: port {} did not answer in time; `sandshell port ls {}` lists those that listen",
                    port.port, sandbox.id
                ));
                return Ok(ExitCode::from(124));
            }
            hub.out.made(&reply, &port.port.to_string())?;
            Ok(ExitCode::SUCCESS)
        }
    })
}

async fn list(hub: &Hub, sandbox: Option<&str>) -> Done {
    let sandbox = hub.sandbox(sandbox).await?;
    let list = every(async |page| sandbox.client.list_ports(&page).await).await?;
    hub.out.list(
        &list,
        &list.items,
        |record| record.port.to_string(),
        &["PORT", "ADDRESSES", "PID", "EXPOSED", "OWNER", "COMMAND"],
        |record| {
            let owner = record.process.as_ref().map(ToString::to_string);
            let owner = owner.or_else(|| record.session.as_ref().map(ToString::to_string));
            vec![
                record.port.to_string(),
                record.addresses.join(","),
                record.pid.to_string(),
                if record.exposed { "yes" } else { "no" }.to_owned(),
                owner.unwrap_or_else(|| "-".to_owned()),
                record.command.clone(),
            ]
        },
    )?;
    Ok(ExitCode::SUCCESS)
}
