//! `sandshell image`: root file systems that a hub keeps under a name.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use sandshell_client::types::{ImageName, ImageRecord};

use crate::arguments::examples;
use crate::connection::{Done, Hub, Remote, every, found};
use crate::copy::{Stream, counted, pieces_of_file, pieces_of_tar};
use crate::failure::Failure;
use crate::output::{ago, size};
use crate::progress::Progress;
use crate::values;

#[derive(Debug, Args)]
pub(crate) struct ImageArguments {
    #[command(subcommand)]
    command: ImageCommand,
}

#[derive(Debug, Subcommand)]
enum ImageCommand {
    /// Give a hub an image, and print its name.
    #[command(before_help = examples!("image import alpine.tar.gz", "image import - --name web < web.tar"))]
    Import {
        /// A tar of a root (docker export), of docker save or of an OCI layout, plain, gzip or zstd; a directory
        /// that is a root; or - for stdin.
        #[arg(value_name = "FILE|DIR|-")]
        from: PathBuf,
        /// Its name [default: that of the file].
        #[arg(long, value_name = "NAME")]
        name: Option<ImageName>,
    },
    /// List images.
    #[command(before_help = examples!("image ls", "image ls -q"))]
    Ls,
    /// Show one image.
    #[command(before_help = examples!("image show alpine", "image show alpine --json | jq .config"), visible_alias = "get")]
    Show {
        /// The image: its name or the beginning of it.
        #[arg(value_name = "IMAGE")]
        image: String,
    },
    /// Remove images that no sandbox is made of.
    #[command(before_help = examples!("image rm alpine", "image rm $(sandshell image ls -q)"))]
    Rm {
        /// The images: their names or the beginnings.
        #[arg(value_name = "IMAGE", required = true)]
        images: Vec<String>,
    },
}

pub(crate) fn run(remote: Remote, own: ImageArguments) -> Done {
    remote.drive(async |hub| {
        match own.command {
            ImageCommand::Import { from, name } => import(hub, &from, name).await?,
            ImageCommand::Ls => list(hub).await?,
            ImageCommand::Show { image } => show(hub, &named(hub, &image).await?)?,
            ImageCommand::Rm { images } => {
                for image in &images {
                    let name = named(hub, image).await?.name;
                    let record = hub.client.remove_image(&name).await?;
                    hub.out.made(&record, record.name.as_str())?;
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

async fn named(hub: &Hub, typed: &str) -> Result<ImageRecord, Failure> {
    found(
        "image",
        typed,
        "sandshell image ls",
        async |name: ImageName| hub.client.image(&name).await,
        async || {
            let all = every(async |page| hub.client.images(&page).await).await?;
            Ok(all
                .items
                .into_iter()
                .map(|image| image.name.into())
                .collect())
        },
    )
    .await
}

async fn import(hub: &Hub, from: &Path, name: Option<ImageName>) -> Result<(), Failure> {
    let stdin = from == Path::new("-");
    let archive = archive(hub, from, stdin).await?;
    let name = match name {
        Some(name) => name,
        None => name_of(from).filter(|_| !stdin).ok_or_else(|| {
            Failure::usage(format!("{} gives no name for an image", from.display()))
                .hint("add --name NAME: lower-case letters, digits, '.', '_' and '-'")
        })?,
    };
    let record = hub.client.import_image(&name, archive).await?;
    hub.out.made(&record, record.name.as_str())?;
    if record.skipped > 0 {
        hub.out.remark(&format!(
            "{} devices, sockets and pipes were left out",
            record.skipped
        ));
    }
    Ok(())
}

async fn archive(hub: &Hub, from: &Path, stdin: bool) -> Result<Stream, Failure> {
    let what = from.display().to_string();
    if stdin {
        let progress = Progress::new(hub.out, "stdin", None);
        return Ok(counted(pieces_of_file(tokio::io::stdin()), progress));
    }
    let failed = |error: std::io::Error| {
        Failure::local(format!("{what} cannot be read"), &error).hint(
            "an image is a tar or a directory on this machine; `docker save NAME > FILE` makes one",
        )
    };
    let meta = std::fs::metadata(from).map_err(failed)?;
    if meta.is_dir() {
        let progress = Progress::new(hub.out, what.clone(), None);
        return Ok(counted(pieces_of_tar(from.to_owned()), progress));
    }
    let file = tokio::fs::File::open(from).await.map_err(failed)?;
    let length = meta.is_file().then_some(meta.len());
    let progress = Progress::new(hub.out, what.clone(), length);
    Ok(counted(pieces_of_file(file), progress))
}

/// The name that a file suggests: its own, without what says that it is a tar.
fn name_of(path: &Path) -> Option<ImageName> {
    let name = path
        .canonicalize()
        .ok()?
        .file_name()?
        .to_str()?
        .to_ascii_lowercase();
    let mut name = name.as_str();
    for ending in [".gz", ".zst", ".tgz", ".tar", ".oci"] {
        name = name.strip_suffix(ending).unwrap_or(name);
    }
    name.parse().ok()
}

async fn list(hub: &Hub) -> Result<(), Failure> {
    let list = every(async |page| hub.client.images(&page).await).await?;
    hub.out.list(
        &list,
        &list.items,
        |image| image.name.to_string(),
        &["NAME", "SIZE", "FILES", "CREATED", "COMMAND"],
        |image| {
            let config = &image.config;
            let command = [config.entrypoint.clone(), config.cmd.clone()].concat();
            vec![
                image.name.to_string(),
                size(image.size_bytes),
                image.files.to_string(),
                ago(image.created_at),
                values::quoted(&command),
            ]
        },
    )?;
    if list.items.is_empty() {
        hub.out
            .remark("no images; `sandshell image import FILE` gives the hub one");
    }
    Ok(())
}

fn show(hub: &Hub, image: &ImageRecord) -> Result<(), Failure> {
    let config = &image.config;
    let env: Vec<String> = config
        .env
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    hub.out.sides(
        image,
        &[
            ("name", image.name.to_string()),
            ("digest", image.digest.clone().unwrap_or_default()),
            ("size", size(image.size_bytes)),
            ("files", image.files.to_string()),
            ("left out", image.skipped.to_string()),
            ("entrypoint", values::quoted(&config.entrypoint)),
            ("cmd", values::quoted(&config.cmd)),
            ("user", config.user.clone().unwrap_or_default()),
            ("workdir", config.workdir.clone().unwrap_or_default()),
            ("env", env.join(" ")),
            (
                "created",
                format!("{} ({})", image.created_at, ago(image.created_at)),
            ),
        ],
    )
}
