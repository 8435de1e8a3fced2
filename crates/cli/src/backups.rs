//! `sandshell backup`: saved directory trees of a sandbox.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use sandshell_client::SseStream;
use sandshell_client::types::{
    BackupId, BackupProgress, BackupRecord, BackupRequest, BackupStage, BackupState, Problem,
    RestoreReply, RestoreRequest,
};
use serde::de::DeserializeOwned;

use crate::arguments::examples;
use crate::connection::{Done, Hub, Remote, Sandbox, every, one_of};
use crate::failure::Failure;
use crate::names::{Place, Thing};
use crate::output::{ago, size};
use crate::progress::Progress;
use crate::sandboxes::OneArguments;
use crate::values;

#[derive(Debug, Args)]
pub(crate) struct BackupArguments {
    #[command(subcommand)]
    command: BackupCommand,
}

#[derive(Debug, Subcommand)]
enum BackupCommand {
    /// Save a directory, and print the backup's id.
    #[command(before_help = examples!("backup create build-1:/workspace --name monday", "backup create /workspace --exclude node_modules --ttl 1d"))]
    Create {
        /// The directory: SANDBOX:PATH, or PATH.
        #[arg(value_name = "PLACE")]
        place: Place,
        /// Id of your choice.
        #[arg(long, value_name = "ID")]
        name: Option<BackupId>,
        /// Glob of what to leave out; may be given again.
        #[arg(long, value_name = "GLOB")]
        exclude: Vec<String>,
        /// Leave out what .gitignore files exclude.
        #[arg(long)]
        gitignore: bool,
        /// Time after which it is deleted, such as 1d [default: never].
        #[arg(long, value_name = "TIME", value_parser = values::duration)]
        ttl: Option<u64>,
        /// User whose rights are used.
        #[arg(long, short, value_name = "USER")]
        user: Option<String>,
    },
    /// List backups.
    #[command(before_help = examples!("backup ls", "backup ls build-1 --json"))]
    Ls(OneArguments),
    /// Put a backup in the place of a directory.
    #[command(before_help = examples!("backup restore build-1/monday", "backup restore monday --path /tmp/copy"))]
    Restore {
        /// The backup: its id or the beginning of it, in a sandbox as SANDBOX/ID.
        #[arg(value_name = "BACKUP")]
        backup: Thing,
        /// The directory that is replaced, PATH or SANDBOX:PATH [default: the one it was made from].
        #[arg(long, value_name = "PLACE")]
        path: Option<Place>,
        /// User whose rights are used, and who owns what is restored.
        #[arg(long, short, value_name = "USER")]
        user: Option<String>,
    },
    /// Write the archive of a backup, a zstd tar, to stdout.
    #[command(before_help = examples!("backup get build-1/monday > monday.tar.zst", "backup get monday | tar --zstd -t"))]
    Get {
        /// The backup: its id or the beginning of it, in a sandbox as SANDBOX/ID.
        #[arg(value_name = "BACKUP")]
        backup: Thing,
    },
    /// Delete backups.
    #[command(before_help = examples!("backup rm build-1/monday", "backup rm monday tuesday"))]
    Rm {
        /// The backups: their ids or the beginnings, in a sandbox as SANDBOX/ID.
        #[arg(value_name = "BACKUP", required = true)]
        backups: Vec<Thing>,
    },
}

async fn backup(hub: &Hub, thing: &Thing) -> Result<(Sandbox, BackupRecord), Failure> {
    one_of(
        hub,
        thing,
        "backup",
        async |client, id: BackupId| client.backup(&id).await,
        async |client, page| client.list_backups(&page).await,
        |record| record.id.into(),
    )
    .await
}

pub(crate) fn run(remote: Remote, own: BackupArguments) -> Done {
    remote.drive(async |hub| {
        match own.command {
            BackupCommand::Create {
                place,
                name,
                exclude,
                gitignore,
                ttl,
                user,
            } => {
                let sandbox = hub.sandbox(place.sandbox.as_deref()).await?;
                let request = BackupRequest {
                    id: name,
                    path: Some(place.path),
                    exclude,
                    gitignore,
                    ttl_ms: ttl,
                    user,
                    ..BackupRequest::default()
                };
                let events = sandbox.client.create_backup_events(&request).await?;
                let record: BackupRecord = last_of(hub, events, "backup").await?;
                hub.out.made(&record, record.id.as_str())?;
            }
            BackupCommand::Ls(one) => list(hub, one.sandbox.as_deref()).await?,
            BackupCommand::Restore {
                backup: thing,
                path,
                user,
            } => {
                let (sandbox, record) = backup(hub, &thing).await?;
                let path = match path {
                    Some(place) => Some(hub.path_beside(&sandbox, place).await?),
                    None => None,
                };
                let request = RestoreRequest {
                    path,
                    user,
                    ..RestoreRequest::default()
                };
                let events = sandbox
                    .client
                    .restore_backup_events(&record.id, &request)
                    .await?;
                let reply: RestoreReply = last_of(hub, events, "restored").await?;
                hub.out.made(&reply, &reply.path)?;
            }
            BackupCommand::Get { backup: thing } => {
                let (sandbox, record) = backup(hub, &thing).await?;
                let mut bytes = sandbox.client.backup_content(&record.id).await?;
                while let Some(piece) = bytes.next().await {
                    hub.out.bytes(&piece?)?;
                }
            }
            BackupCommand::Rm { backups } => {
                for thing in &backups {
                    let (sandbox, record) = backup(hub, thing).await?;
                    sandbox.client.delete_backup(&record.id).await?;
                    hub.out.made(&record, record.id.as_str())?;
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// What the last event of this name says; progress is shown meanwhile.
async fn last_of<T: DeserializeOwned>(
    hub: &Hub,
    mut events: SseStream,
    name: &str,
) -> Result<T, Failure> {
    let mut progress = Progress::new(hub.out, name, None);
    while let Some(event) = events.next().await {
        let event = event?;
        let wrong =
            |error: serde_json::Error| Failure::local("the answer is not understood", &error);
        match event.event.as_str() {
            "progress" => {
                let now: BackupProgress = serde_json::from_str(&event.data).map_err(wrong)?;
                let stage = match now.stage {
                    BackupStage::Packing => "packing",
                    BackupStage::Uploading => "uploading",
                    BackupStage::Downloading => "downloading",
                    BackupStage::Unpacking => "unpacking",
                };
                progress.say(&format!(
                    "{stage}: {} files, {}",
                    now.files,
                    size(now.bytes)
                ));
            }
            "error" => {
                let problem: Problem = serde_json::from_str(&event.data).map_err(wrong)?;
                return Err(problem.into());
            }
            other if other == name => return serde_json::from_str(&event.data).map_err(wrong),
            _ => {}
        }
    }
    Err(Failure::failed("the answer broke off").hint("`sandshell backup ls` tells what there is"))
}

async fn list(hub: &Hub, sandbox: Option<&str>) -> Result<(), Failure> {
    let sandbox = hub.sandbox(sandbox).await?;
    let list = every(async |page| sandbox.client.list_backups(&page).await).await?;
    hub.out.list(
        &list,
        &list.items,
        |record| record.id.to_string(),
        &["ID", "STATE", "SIZE", "FILES", "CREATED", "PATH"],
        |record| {
            let state = match record.state {
                BackupState::Creating => "creating",
                BackupState::Ready => "ready",
            };
            vec![
                record.id.to_string(),
                hub.out.paint.state(state),
                size(record.size),
                record.contents.files.to_string(),
                ago(record.created_at),
                record.path.clone(),
            ]
        },
    )
}
