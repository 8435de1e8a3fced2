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

/// Stands for our stdin, or our stdout.
const STANDARD: &str = "-";

#[derive(Debug, Args)]
pub(crate) struct CopyArguments {
    /// What is copied: paths here, or SANDBOX:PATH; - for stdin.
    #[arg(value_name = "FROM", required = true)]
    from: Vec<String>,

    /// Where to: a path here, or SANDBOX:PATH; - for stdout. One of the two sides is in a sandbox.
    #[arg(value_name = "TO")]
    to: String,

    /// User in the sandbox whose rights are used.
    #[arg(long, short, value_name = "USER")]
    user: Option<String>,

    /// Taken for the sake of habit: directories are always copied whole, links stay links.
    #[arg(short, long, hide = true)]
    recursive: bool,

    /// The same.
    #[arg(short, long, hide = true)]
    archive: bool,
}

/// Where the copies go.
struct Target<'a> {
    to: &'a str,
    user: Option<&'a str>,
    /// There are several, so that it has to be a directory.
    several: bool,
}

pub(crate) fn run(remote: Remote, own: &CopyArguments) -> Done {
    remote.drive(async |hub| {
        let target = Target {
            to: &own.to,
            user: own.user.as_deref(),
            several: own.from.len() > 1,
        };
        for from in &own.from {
            copy(hub, from, &target).await?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

async fn copy(hub: &Hub, from: &str, target: &Target<'_>) -> Result<(), Failure> {
    match (Place::split(from), Place::split(target.to)) {
        (None, Some((name, path))) => {
            let sandbox = of(hub, name).await?;
            let to = Remotely::new(&sandbox, path, target).await?;
            if from == STANDARD {
                to.take_stdin(hub).await
            } else {
                to.upload(hub, Path::new(from)).await
            }
        }
        (Some((name, path)), None) => {
            let sandbox = of(hub, name).await?;
            download(hub, &sandbox, path, target).await
        }
        (Some((one, path)), Some((other, to))) => {
            let (one, other) = (of(hub, one).await?, of(hub, other).await?);
            if one.id != other.id {
                return Err(Failure::usage("both are in a sandbox, and not in the same")
                    .hint("copy it here first, then to the other sandbox"));
            }
            let to = Remotely::new(&one, to, target).await?;
            let request = CopyRequest {
                from: Some(path.to_owned()),
                to: Some(to.place_of(name_of(Path::new(path)))),
                recursive: true,
                overwrite: true,
                user: target.user.map(str::to_owned),
                ..CopyRequest::default()
            };
            let reply = one.client.copy_file(&request).await?;
            if hub.out.json {
                hub.out.object(&reply)?;
            }
            Ok(())
        }
        (None, None) => Err(Failure::usage("neither is in a sandbox").hint(
            "write the one that is as SANDBOX:PATH, as in `sandshell cp a.txt build-1:/workspace`",
        )),
    }
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

fn no_directory(to: &str) -> Failure {
    Failure::usage(format!(
        "{to} is not a directory, and several are to be copied to it"
    ))
}

/// A path in a sandbox that is copied to.
struct Remotely<'a> {
    sandbox: &'a Sandbox,
    path: &'a str,
    /// It is a directory: what is copied goes into it.
    into: bool,
    user: Option<&'a str>,
}

impl<'a> Remotely<'a> {
    async fn new(
        sandbox: &'a Sandbox,
        path: &'a str,
        target: &Target<'a>,
    ) -> Result<Self, Failure> {
        let path = if path.is_empty() { "." } else { path };
        let there = sandbox
            .client
            .stat_file(&query(path, target.user), true)
            .await;
        let directory = there.is_ok_and(|entry| entry.kind == FileKind::Directory);
        if target.several && !directory {
            return Err(no_directory(target.to).hint(format!(
                "`sandshell file mkdir {}:{path}` makes it",
                sandbox.id
            )));
        }
        Ok(Self {
            sandbox,
            path,
            into: directory || path.ends_with('/'),
            user: target.user,
        })
    }

    /// Where something of this name goes.
    fn place_of(&self, name: Option<String>) -> String {
        match name {
            Some(name) if self.into => format!("{}/{name}", self.path.trim_end_matches('/')),
            _ => self.path.to_owned(),
        }
    }

    async fn take_stdin(&self, hub: &Hub) -> Result<(), Failure> {
        if self.into {
            return Err(Failure::usage(format!(
                "{} is a directory, and what comes from stdin has no name",
                self.path
            ))
            .hint(format!(
                "name the file, as in {}:{}/file",
                self.sandbox.id,
                self.path.trim_end_matches('/')
            )));
        }
        let progress = Progress::new(hub.out, self.path, None);
        let content = counted(pieces_of_file(tokio::io::stdin()), progress);
        self.put(hub, self.path, &WriteOptions::default(), content)
            .await
    }

    async fn upload(&self, hub: &Hub, from: &Path) -> Result<(), Failure> {
        let meta = std::fs::metadata(from).map_err(|error| local("read", from, &error))?;
        // `.` and `..` have names, too; a pipe such as that of <(…) has none but its own.
        let name = name_of(from).or_else(|| name_of(&std::fs::canonicalize(from).ok()?));
        let target = self.place_of(name);
        if meta.is_dir() {
            let progress = Progress::new(hub.out, &target, None);
            let archive = counted(pieces_of_tar(from.to_owned()), progress);
            let counts = self
                .sandbox
                .client
                .upload_archive(&query(&target, self.user), archive)
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
        let plain = meta.is_file();
        let options = WriteOptions {
            mode: FileMode::new(meta.permissions().mode() & 0o777).filter(|_| plain),
            ..WriteOptions::default()
        };
        let progress = Progress::new(hub.out, &target, plain.then_some(meta.len()));
        let content = counted(pieces_of_file(file), progress);
        self.put(hub, &target, &options, content).await
    }

    async fn put(
        &self,
        hub: &Hub,
        path: &str,
        options: &WriteOptions,
        content: Stream,
    ) -> Result<(), Failure> {
        let entry = self
            .sandbox
            .client
            .upload_file(&query(path, self.user), options, content)
            .await?;
        if hub.out.json {
            hub.out.object(&entry)
        } else {
            Ok(())
        }
    }
}

async fn download(
    hub: &Hub,
    sandbox: &Sandbox,
    from: &str,
    target: &Target<'_>,
) -> Result<(), Failure> {
    let entry = sandbox
        .client
        .stat_file(&query(from, target.user), true)
        .await?;
    let directory = entry.kind == FileKind::Directory;
    if target.to == STANDARD {
        return to_stdout(hub, sandbox, from, directory, target).await;
    }
    let to = Path::new(target.to);
    if target.several && !to.is_dir() {
        return Err(no_directory(target.to).hint(format!("`mkdir {}` makes it", to.display())));
    }
    let place = match name_of(Path::new(&entry.path)) {
        Some(name) if to.is_dir() => to.join(name),
        _ => to.to_owned(),
    };
    if directory {
        download_tree(hub, sandbox, from, &place, target.user).await?;
    } else {
        let content = sandbox
            .client
            .read_file(&query(from, target.user), &ReadOptions::default())
            .await?;
        let progress = Progress::new(hub.out, place.display().to_string(), content.length);
        write_file(&place, content.bytes, entry.mode.bits() & 0o777, progress).await?;
    }
    if hub.out.json {
        hub.out.object(&entry)
    } else {
        Ok(())
    }
}

/// A file as it is, a directory as a tar.
async fn to_stdout(
    hub: &Hub,
    sandbox: &Sandbox,
    from: &str,
    directory: bool,
    target: &Target<'_>,
) -> Result<(), Failure> {
    use std::io::IsTerminal as _;
    let mut bytes = if directory {
        if target.several || io::stdout().is_terminal() {
            return Err(Failure::usage(format!(
                "{from} is a directory, which goes to stdout as a tar, and alone"
            ))
            .hint("pipe it, as in `sandshell cp build-1:src - | tar -tv`"));
        }
        let archive = ArchiveQuery {
            directory: query(from, target.user),
            ..ArchiveQuery::default()
        };
        sandbox.client.get_archive(&archive).await?
    } else {
        let asked = query(from, target.user);
        let options = ReadOptions::default();
        sandbox.client.read_file(&asked, &options).await?.bytes
    };
    while let Some(piece) = bytes.next().await {
        hub.out.bytes(&piece?)?;
    }
    Ok(())
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
        Ok(there) if there.is_file() => there.permissions().mode() & 0o777,
        Ok(_) => {
            options.truncate(true);
            return pour(bytes, &options, target, target, progress).await;
        }
        Err(_) => mode,
    };
    let mut beside = target.as_os_str().to_owned();
    beside.push(format!(".{}.part", std::process::id()));
    let beside = PathBuf::from(beside);
    options.create_new(true).mode(0o600);
    let written = pour(bytes, &options, &beside, target, progress).await;
    let done = written.and_then(|()| {
        // Whatever the umask says of new files: this one has its mode from the one it replaces or copies.
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&beside, mode)
            .map_err(|error| local("written", target, &error))?;
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

pub(crate) fn unpack(receiver: mpsc::Receiver<Bytes>, target: &Path) -> io::Result<()> {
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
pub(crate) type Stream = std::pin::Pin<Box<dyn futures_util::Stream<Item = Piece> + Send>>;

/// A directory as the pieces of a tar.
pub(crate) fn pieces_of_tar(dir: PathBuf) -> Stream {
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

pub(crate) fn counted(pieces: Stream, mut progress: Progress) -> Stream {
    use futures_util::StreamExt as _;
    Box::pin(pieces.inspect(move |piece| {
        if let Ok(piece) = piece {
            progress.add(piece.len() as u64);
        }
    }))
}
