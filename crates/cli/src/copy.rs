//! `sandshell cp`: files and directories between here and a sandbox, or within one.
//!
//! As `cp` does it: onto a directory that is there means into it. A directory travels as a tar, packed or
//! unpacked on a thread of its own while it is sent. What comes from a sandbox is not trusted: nothing of
//! it lands outside of the directory it is copied to, and no file becomes setuid here.

use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bytes::Bytes;
use clap::Args;
use futures_util::stream;
use sandshell_client::types::{CopyRequest, FileKind, FileMode};
use sandshell_client::{ArchiveQuery, FileQuery, ReadOptions, WriteOptions};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;

use crate::connection::{Done, Hub, Remote, Sandbox};
use crate::failure::Failure;
use crate::names::Place;
use crate::progress::Progress;

/// Bytes read and sent at a time.
const PIECE: usize = 256 * 1024;
/// Pieces between the thread that packs and the connection.
const AHEAD: usize = 4;

#[derive(Debug, Args)]
pub(crate) struct CopyArguments {
    /// What is copied: a path here, or SANDBOX:PATH.
    #[arg(value_name = "FROM")]
    from: String,

    /// Where to: a path here, or SANDBOX:PATH. One of the two is in a sandbox.
    #[arg(value_name = "TO")]
    to: String,

    /// User in the sandbox whose rights are used.
    #[arg(long, short, value_name = "USER")]
    user: Option<String>,

    /// Taken for the sake of habit: directories are always copied whole.
    #[arg(short, long, hide = true)]
    recursive: bool,
}

pub(crate) fn run(remote: Remote, own: CopyArguments) -> Done {
    remote.drive(async |hub| {
        let from = Place::split(&own.from);
        let to = Place::split(&own.to);
        match (from, to) {
            (None, Some((name, path))) => {
                let sandbox = of(hub, name).await?;
                upload(hub, &sandbox, Path::new(&own.from), path, own.user.as_deref()).await?;
            }
            (Some((name, path)), None) => {
                let sandbox = of(hub, name).await?;
                download(hub, &sandbox, path, Path::new(&own.to), own.user.as_deref()).await?;
            }
            (Some((one, from)), Some((other, to))) => {
                let (one, other) = (of(hub, one).await?, of(hub, other).await?);
                if one.id != other.id {
                    return Err(Failure::usage("both are in a sandbox, and not in the same")
                        .hint("copy it here first, then to the other sandbox"));
                }
                let request = CopyRequest {
                    from: Some(from.to_owned()),
                    to: Some(to.to_owned()),
                    recursive: true,
                    overwrite: true,
                    user: own.user,
                    ..CopyRequest::default()
                };
                let reply = one.client.copy_file(&request).await?;
                if hub.out.json {
                    hub.out.object(&reply)?;
                }
            }
            (None, None) => {
                return Err(Failure::usage("neither is in a sandbox")
                    .hint("write the one that is as SANDBOX:PATH, as in `sandshell cp a.txt build-1:/workspace`"));
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

async fn of(hub: &Hub, name: &str) -> Result<Sandbox, Failure> {
    hub.sandbox(Some(name).filter(|name| !name.is_empty()))
        .await
}

fn query(path: &str, user: Option<&str>) -> FileQuery {
    FileQuery {
        user: user.map(str::to_owned),
        ..FileQuery::new(path)
    }
}

fn local(what: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::local(format!("{} cannot be {what}", path.display()), error)
        .hint("this one is on this machine; one in a sandbox is written SANDBOX:PATH")
}

/// The last name of a path.
fn name_of(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_string_lossy().into_owned())
}

async fn upload(
    hub: &Hub,
    sandbox: &Sandbox,
    from: &Path,
    to: &str,
    user: Option<&str>,
) -> Result<(), Failure> {
    let meta = std::fs::metadata(from).map_err(|error| local("read", from, &error))?;
    let to = if to.is_empty() { "." } else { to };
    let there = sandbox.client.stat_file(&query(to, user), true).await;
    let into = to.ends_with('/') || there.is_ok_and(|entry| entry.kind == FileKind::Directory);
    let canonical = std::fs::canonicalize(from).map_err(|error| local("read", from, &error))?;
    let target = match name_of(&canonical) {
        Some(name) if into => format!("{}/{name}", to.trim_end_matches('/')),
        _ => to.to_owned(),
    };
    if meta.is_dir() {
        let progress = Progress::new(hub.out, &target, None);
        let archive = counted(pieces_of_tar(from.to_owned()), progress);
        let counts = sandbox
            .client
            .upload_archive(&query(&target, user), archive)
            .await?;
        return if hub.out.json {
            hub.out.object(&counts)
        } else {
            Ok(())
        };
    }
    let file = tokio::fs::File::open(from)
        .await
        .map_err(|error| local("read", from, &error))?;
    let options = WriteOptions {
        mode: FileMode::new(meta.permissions().mode() & 0o777),
        ..WriteOptions::default()
    };
    let progress = Progress::new(hub.out, &target, Some(meta.len()));
    let content = counted(pieces_of_file(file), progress);
    let entry = sandbox
        .client
        .upload_file(&query(&target, user), &options, content)
        .await?;
    if hub.out.json {
        hub.out.object(&entry)
    } else {
        Ok(())
    }
}

async fn download(
    hub: &Hub,
    sandbox: &Sandbox,
    from: &str,
    to: &Path,
    user: Option<&str>,
) -> Result<(), Failure> {
    let entry = sandbox.client.stat_file(&query(from, user), true).await?;
    let target = match name_of(Path::new(&entry.path)) {
        Some(name) if to.is_dir() => to.join(name),
        _ => to.to_owned(),
    };
    if entry.kind == FileKind::Directory {
        download_tree(hub, sandbox, from, &target, user).await?;
    } else {
        let content = sandbox
            .client
            .read_file(&query(from, user), &ReadOptions::default())
            .await?;
        let progress = Progress::new(hub.out, target.display().to_string(), content.length);
        write_file(&target, content.bytes, entry.mode.bits() & 0o777, progress).await?;
    }
    if hub.out.json {
        hub.out.object(&entry)
    } else {
        Ok(())
    }
}

/// Writes a file beside its place, then puts it there: whole or not at all. What is no plain file, such as
/// a device, a pipe or a link, is written into.
async fn write_file(
    target: &Path,
    bytes: sandshell_client::ByteStream,
    mode: u32,
    progress: Progress,
) -> Result<(), Failure> {
    let mut options = tokio::fs::OpenOptions::new();
    options.write(true);
    let mode = match std::fs::symlink_metadata(target) {
        Ok(there) if there.is_file() => there.permissions().mode() & 0o7777,
        Ok(_) => {
            options.truncate(true);
            return pour(bytes, &options, target, target, progress).await;
        }
        Err(_) => mode,
    };
    let mut beside = target.as_os_str().to_owned();
    beside.push(format!(".{}.part", std::process::id()));
    let beside = PathBuf::from(beside);
    options.create_new(true).mode(mode);
    let written = pour(bytes, &options, &beside, target, progress).await;
    let done = written.and_then(|()| {
        std::fs::rename(&beside, target).map_err(|error| local("written", target, &error))
    });
    if done.is_err() {
        // It is of no use to anyone.
        let _ = std::fs::remove_file(&beside);
    }
    done
}

/// Writes what comes to a path; a failure is told of the target.
async fn pour(
    mut bytes: sandshell_client::ByteStream,
    options: &tokio::fs::OpenOptions,
    path: &Path,
    target: &Path,
    mut progress: Progress,
) -> Result<(), Failure> {
    let failed = |error: io::Error| local("written", target, &error);
    let mut file = options.open(path).await.map_err(failed)?;
    while let Some(piece) = bytes.next().await {
        let piece = piece?;
        file.write_all(&piece).await.map_err(failed)?;
        progress.add(piece.len() as u64);
    }
    file.flush().await.map_err(failed)
}

async fn download_tree(
    hub: &Hub,
    sandbox: &Sandbox,
    from: &str,
    target: &Path,
    user: Option<&str>,
) -> Result<(), Failure> {
    let archive = ArchiveQuery {
        directory: query(from, user),
        ..ArchiveQuery::default()
    };
    let mut bytes = sandbox.client.get_archive(&archive).await?;
    let mut progress = Progress::new(hub.out, target.display().to_string(), None);
    let (sender, receiver) = mpsc::channel::<Bytes>(AHEAD);
    let place = target.to_owned();
    let unpacking = tokio::task::spawn_blocking(move || unpack(receiver, &place));
    let mut failed = None;
    while let Some(piece) = bytes.next().await {
        match piece {
            Ok(piece) => {
                progress.add(piece.len() as u64);
                // The other side says why it stopped.
                if sender.send(piece).await.is_err() {
                    break;
                }
            }
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
    }
    drop(sender);
    let unpacked = unpacking.await.map_err(|error| Failure::ours(&error))?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    unpacked.map_err(|error| local("written", target, &error))
}

fn unpack(receiver: mpsc::Receiver<Bytes>, target: &Path) -> io::Result<()> {
    std::fs::create_dir_all(target)?;
    let mut archive = tar::Archive::new(Pieces {
        receiver,
        piece: Bytes::new(),
    });
    archive.set_preserve_permissions(false);
    archive.set_preserve_mtime(true);
    archive.set_overwrite(true);
    archive.unpack(target)
}

/// Pieces as they arrive, to be read.
struct Pieces {
    receiver: mpsc::Receiver<Bytes>,
    piece: Bytes,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.receiver.blocking_recv() {
                Some(piece) => self.piece = piece,
                None => return Ok(0),
            }
        }
        let n = buffer.len().min(self.piece.len());
        let taken = self.piece.split_to(n);
        if let Some(place) = buffer.get_mut(..n) {
            place.copy_from_slice(&taken);
        }
        Ok(n)
    }
}

type Piece = io::Result<Bytes>;
type Stream = std::pin::Pin<Box<dyn futures_util::Stream<Item = Piece> + Send>>;

/// A directory as the pieces of a tar.
fn pieces_of_tar(dir: PathBuf) -> Stream {
    let (sender, receiver) = mpsc::channel::<Piece>(AHEAD);
    tokio::task::spawn_blocking(move || {
        let mut builder = tar::Builder::new(Sending {
            sender: sender.clone(),
            piece: Vec::with_capacity(PIECE),
        });
        builder.follow_symlinks(false);
        let packed = builder
            .append_dir_all(".", &dir)
            .and_then(|()| builder.into_inner()?.flush());
        if let Err(error) = packed {
            // A reader that has gone away knows why.
            let _ = sender.blocking_send(Err(error));
        }
    });
    Box::pin(stream::unfold(receiver, async |mut receiver| {
        receiver.recv().await.map(|piece| (piece, receiver))
    }))
}

/// What is written goes on in pieces.
struct Sending {
    sender: mpsc::Sender<Piece>,
    piece: Vec<u8>,
}

impl Write for Sending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE));
        self.sender
            .blocking_send(Ok(piece.into()))
            .map_err(|_| io::Error::new(io::ErrorKind::BrokenPipe, "the hub takes no more"))
    }
}

/// A reader as pieces.
pub(crate) fn pieces_of_file(file: impl tokio::io::AsyncRead + Send + Unpin + 'static) -> Stream {
    Box::pin(stream::unfold(Some(file), async |file| {
        let mut file = file?;
        let mut piece = vec![0; PIECE];
        match file.read(&mut piece).await {
            Ok(0) => None,
            Ok(n) => {
                piece.truncate(n);
                Some((Ok(Bytes::from(piece)), Some(file)))
            }
            Err(error) => Some((Err(error), None)),
        }
    }))
}

fn counted(pieces: Stream, mut progress: Progress) -> Stream {
    use futures_util::StreamExt as _;
    Box::pin(pieces.inspect(move |piece| {
        if let Ok(piece) = piece {
            progress.add(piece.len() as u64);
        }
    }))
}
