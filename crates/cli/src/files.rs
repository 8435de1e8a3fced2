//! `sandshell file`: files of a sandbox.

use std::path::Path;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use sandshell_client::types::{
    CaseMode, ChangesRequest, ChmodRequest, Encoded, ErrorCode, FileEntry, FileKind, FileMode,
    FindRequest, MkdirRequest, MoveRequest, Problem, RemoveRequest, SearchMatch, SearchRequest,
    SearchSummary, SessionId,
};
use sandshell_client::{FileQuery, ListOptions, ReadOptions, WatchStreamEvent, WriteOptions};

use crate::arguments::examples;
use crate::connection::{Done, Hub, Remote, Sandbox, Wanted, every};
use crate::copy::pieces_of_file;
use crate::failure::Failure;
use crate::names::Place;
use crate::output::{ago, table};

#[derive(Debug, Args)]
pub(crate) struct FileArguments {
    #[command(subcommand)]
    command: FileCommand,
}

/// With whose rights, and from where.
#[derive(Debug, Clone, Default, Args)]
struct Rights {
    /// User whose rights are used [default: the sandbox's].
    #[arg(long, short, value_name = "USER")]
    user: Option<String>,

    /// Session at whose directory relative paths start [default: the sandbox's own].
    #[arg(long, value_name = "SESSION")]
    session: Option<SessionId>,
}

#[derive(Debug, Subcommand)]
enum FileCommand {
    /// List a directory.
    #[command(before_help = examples!("file ls build-1:/etc", "file ls -R src"))]
    Ls {
        /// The directory: SANDBOX:PATH, or PATH.
        #[arg(value_name = "PLACE", default_value = ".")]
        place: Place,
        /// Also what is in its directories.
        #[arg(long, short = 'R')]
        recursive: bool,
        #[command(flatten)]
        rights: Rights,
    },
    /// Write files to stdout.
    #[command(before_help = examples!("file cat build-1:/etc/os-release", "file cat a.txt b.txt"))]
    Cat {
        /// The files: SANDBOX:PATH, or PATH.
        #[arg(value_name = "PLACE", required = true)]
        places: Vec<Place>,
        #[command(flatten)]
        rights: Rights,
    },
    /// Write stdin to a file.
    #[command(before_help = examples!("file put build-1:notes.txt < notes.txt", "file put --mode 0755 bin/tool < tool"))]
    Put {
        /// The file: SANDBOX:PATH, or PATH.
        #[arg(value_name = "PLACE")]
        place: Place,
        /// Add to its end.
        #[arg(long, short)]
        append: bool,
        /// Permission bits, such as 0644.
        #[arg(long, value_name = "MODE")]
        mode: Option<FileMode>,
        /// Answer only when it is on the disk.
        #[arg(long)]
        durable: bool,
        #[command(flatten)]
        rights: Rights,
    },
    /// Remove files, and directories with -r.
    #[command(before_help = examples!("file rm build-1:notes.txt", "file rm -r build dist"))]
    Rm {
        /// What is removed: SANDBOX:PATH, or PATH.
        #[arg(value_name = "PLACE", required = true)]
        places: Vec<Place>,
        /// Directories, with all that is in them.
        #[arg(long, short)]
        recursive: bool,
        /// Be content when there is nothing.
        #[arg(long, short)]
        force: bool,
        #[command(flatten)]
        rights: Rights,
    },
    /// Show what is at a path.
    #[command(before_help = examples!("file stat build-1:/bin/sh", "file stat -L /bin/sh --json"))]
    Stat {
        /// The path: SANDBOX:PATH, or PATH.
        #[arg(value_name = "PLACE")]
        place: Place,
        /// Follow a link at its end.
        #[arg(long, short = 'L')]
        follow: bool,
        #[command(flatten)]
        rights: Rights,
    },
    /// Make directories, and those above them.
    #[command(before_help = examples!("file mkdir build-1:/workspace/a/b", "file mkdir out logs"))]
    Mkdir {
        /// The directories: SANDBOX:PATH, or PATH.
        #[arg(value_name = "PLACE", required = true)]
        places: Vec<Place>,
        /// Taken for the sake of habit: those above are always made, and one that is there is fine.
        #[arg(long, short, hide = true)]
        parents: bool,
        #[command(flatten)]
        rights: Rights,
    },
    /// Move or rename within a sandbox.
    #[command(before_help = examples!("file mv build-1:a.txt build-1:b.txt", "file mv --force old new"))]
    Mv {
        /// What is moved: SANDBOX:PATH, or PATH.
        #[arg(value_name = "FROM")]
        from: Place,
        /// Its new path in the same sandbox, which may be named again; into it if it is a directory.
        #[arg(value_name = "TO")]
        to: Place,
        /// Replace what is there.
        #[arg(long, short)]
        force: bool,
        #[command(flatten)]
        rights: Rights,
    },
    /// Change permission bits.
    #[command(before_help = examples!("file chmod 0755 build-1:run.sh", "file chmod -R 0755 bin"))]
    Chmod {
        /// The bits, such as 0755.
        #[arg(value_name = "MODE")]
        mode: FileMode,
        /// The path: SANDBOX:PATH, or PATH.
        #[arg(value_name = "PLACE")]
        place: Place,
        /// Also of all that is in it.
        #[arg(long, short = 'R')]
        recursive: bool,
        #[command(flatten)]
        rights: Rights,
    },
    /// Find files by name.
    #[command(before_help = examples!("file find '*.rs' build-1:/src", "file find Makefile"))]
    Find {
        /// Glob that the name must match.
        #[arg(value_name = "GLOB")]
        pattern: String,
        /// The directory: SANDBOX:PATH, or PATH.
        #[arg(value_name = "PLACE", default_value = ".")]
        place: Place,
        /// Most files that are named.
        #[arg(long, short = 'n', value_name = "COUNT")]
        limit: Option<u32>,
        #[command(flatten)]
        rights: Rights,
    },
    /// Search in files.
    #[command(before_help = examples!("file search 'fn main' build-1:/src", "file search -i TODO --include '*.py'"))]
    Search {
        /// Regular expression to look for.
        #[arg(value_name = "PATTERN")]
        pattern: String,
        /// The directory: SANDBOX:PATH, or PATH.
        #[arg(value_name = "PLACE", default_value = ".")]
        place: Place,
        /// Take the pattern as plain text.
        #[arg(long, short = 'F')]
        literal: bool,
        /// Upper and lower case are the same.
        #[arg(long, short)]
        ignore_case: bool,
        /// Glob of the files to search; may be given again.
        #[arg(long, value_name = "GLOB")]
        include: Vec<String>,
        /// Most lines that are shown.
        #[arg(long, short = 'n', value_name = "COUNT")]
        limit: Option<u32>,
        #[command(flatten)]
        rights: Rights,
    },
    /// Tell what changes in a directory, until Ctrl-C.
    #[command(before_help = examples!("file watch build-1:/workspace", "file watch src --exclude target"))]
    Watch {
        /// The directory: SANDBOX:PATH, or PATH.
        #[arg(value_name = "PLACE", default_value = ".")]
        place: Place,
        /// Glob of what to leave out; may be given again.
        #[arg(long, value_name = "GLOB")]
        exclude: Vec<String>,
        #[command(flatten)]
        rights: Rights,
    },
}

fn query(path: &str, rights: &Rights) -> FileQuery {
    FileQuery {
        path: path.to_owned(),
        path_base64: None,
        user: rights.user.clone(),
        session: rights.session.clone(),
    }
}

pub(crate) fn run(remote: Remote, own: FileArguments) -> Done {
    remote.drive(async |hub| {
        let (command, place) = own.command.named();
        let lone = place
            .filter(|place| place.sandbox.is_none())
            .map(|place| place.path.clone());
        match (act(hub, own.command).await, lone) {
            (Ok(()), _) => Ok(ExitCode::SUCCESS),
            (Err(failure), Some(name)) => {
                Err(hub.lone(&name, failure, Wanted::Path(command)).await)
            }
            (Err(failure), None) => Err(failure),
        }
    })
}

impl FileCommand {
    /// How it is called, and the first place that it names.
    fn named(&self) -> (&'static str, Option<&Place>) {
        match self {
            Self::Ls { place, .. } => ("file ls", Some(place)),
            Self::Cat { places, .. } => ("file cat", places.first()),
            Self::Put { place, .. } => ("file put", Some(place)),
            Self::Rm { places, .. } => ("file rm", places.first()),
            Self::Stat { place, .. } => ("file stat", Some(place)),
            Self::Mkdir { places, .. } => ("file mkdir", places.first()),
            Self::Mv { from, .. } => ("file mv", Some(from)),
            Self::Chmod { place, .. } => ("file chmod 0755", Some(place)),
            Self::Find { place, .. } => ("file find '*'", Some(place)),
            Self::Search { place, .. } => ("file search TEXT", Some(place)),
            Self::Watch { place, .. } => ("file watch", Some(place)),
        }
    }
}

async fn act(hub: &Hub, command: FileCommand) -> Result<(), Failure> {
    let of = async |place: &Place| hub.sandbox(place.sandbox.as_deref()).await;
    match command {
        FileCommand::Ls {
            place,
            recursive,
            rights,
        } => {
            list(
                hub,
                &of(&place).await?,
                &query(&place.path, &rights),
                recursive,
            )
            .await
        }
        FileCommand::Cat { places, rights } => {
            for place in &places {
                let sandbox = of(place).await?;
                let query = query(&place.path, &rights);
                let content = sandbox
                    .client
                    .read_file(&query, &ReadOptions::default())
                    .await?;
                let mut bytes = content.bytes;
                while let Some(piece) = bytes.next().await {
                    hub.out.bytes(&piece?)?;
                }
            }
            Ok(())
        }
        FileCommand::Put {
            place,
            append,
            mode,
            durable,
            rights,
        } => {
            let sandbox = of(&place).await?;
            let options = WriteOptions {
                append,
                mode,
                durable,
                ..WriteOptions::default()
            };
            let content = pieces_of_file(tokio::io::stdin());
            let query = query(&place.path, &rights);
            let entry = sandbox
                .client
                .upload_file(&query, &options, content)
                .await?;
            hub.out.made(&entry, &entry.path)
        }
        FileCommand::Rm {
            places,
            recursive,
            force,
            rights,
        } => {
            for place in &places {
                let sandbox = of(place).await?;
                let request = RemoveRequest {
                    path: Some(place.path.clone()),
                    recursive,
                    missing_ok: force,
                    user: rights.user.clone(),
                    session: rights.session.clone(),
                    ..RemoveRequest::default()
                };
                let reply = sandbox
                    .client
                    .remove_file(&request)
                    .await
                    .map_err(|error| {
                        let failure = Failure::from(error);
                        match failure.kind() {
                            Some(ErrorCode::IsADirectory) => {
                                failure.hint("add -r to remove a directory with all that is in it")
                            }
                            _ => failure,
                        }
                    })?;
                if hub.out.json {
                    hub.out.object(&reply)?;
                }
            }
            Ok(())
        }
        FileCommand::Stat {
            place,
            follow,
            rights,
        } => {
            let sandbox = of(&place).await?;
            let entry = sandbox
                .client
                .stat_file(&query(&place.path, &rights), follow)
                .await?;
            show(hub, &entry)
        }
        FileCommand::Mkdir { places, rights, .. } => {
            for place in &places {
                let request = MkdirRequest {
                    path: Some(place.path.clone()),
                    exist_ok: true,
                    user: rights.user.clone(),
                    session: rights.session.clone(),
                    ..MkdirRequest::default()
                };
                let entry = of(place).await?.client.make_directory(&request).await?;
                hub.out.made(&entry, &entry.path)?;
            }
            Ok(())
        }
        FileCommand::Mv {
            from,
            to,
            force,
            rights,
        } => {
            let named = from.sandbox.as_ref().or(to.sandbox.as_ref());
            let sandbox = hub.sandbox(named.map(String::as_str)).await?;
            let to = hub.path_beside(&sandbox, to).await?;
            let there = sandbox.client.stat_file(&query(&to, &rights), true).await;
            let into = there.is_ok_and(|entry| entry.kind == FileKind::Directory);
            let name = Path::new(&from.path).file_name().filter(|_| into);
            let to = match name {
                Some(name) => format!("{}/{}", to.trim_end_matches('/'), name.to_string_lossy()),
                None => to,
            };
            let request = MoveRequest {
                from: Some(from.path),
                to: Some(to),
                overwrite: force,
                user: rights.user,
                session: rights.session,
                ..MoveRequest::default()
            };
            let moved = sandbox.client.move_file(&request).await;
            let entry = moved.map_err(|error| {
                let failure = Failure::from(error);
                match failure.kind() {
                    Some(ErrorCode::FileExists) => {
                        failure.hint("add --force to replace what is there")
                    }
                    _ => failure,
                }
            })?;
            hub.out.made(&entry, &entry.path)
        }
        FileCommand::Chmod {
            mode,
            place,
            recursive,
            rights,
        } => {
            let request = ChmodRequest {
                path: Some(place.path.clone()),
                path_base64: None,
                mode,
                recursive,
                user: rights.user,
                session: rights.session,
            };
            let reply = of(&place).await?.client.change_mode(&request).await?;
            if hub.out.json {
                hub.out.object(&reply)
            } else {
                Ok(())
            }
        }
        FileCommand::Find {
            pattern,
            place,
            limit,
            rights,
        } => {
            let request = FindRequest {
                path: Some(place.path.clone()),
                patterns: vec![pattern],
                limit,
                user: rights.user,
                session: rights.session,
                ..FindRequest::default()
            };
            let reply = of(&place).await?.client.find_files(&request).await?;
            if hub.out.json {
                return hub.out.object(&reply);
            }
            let paths: String = reply
                .items
                .iter()
                .map(|item| shown(&item.path) + "\n")
                .collect();
            hub.out.bytes(paths.as_bytes())?;
            if reply.truncated {
                hub.out
                    .remark("there are more; -n COUNT shows more of them");
            }
            Ok(())
        }
        FileCommand::Search {
            pattern,
            place,
            literal,
            ignore_case,
            include,
            limit,
            rights,
        } => {
            let request = SearchRequest {
                path: Some(place.path.clone()),
                pattern,
                literal,
                case: if ignore_case {
                    CaseMode::Insensitive
                } else {
                    CaseMode::Sensitive
                },
                include,
                limit,
                user: rights.user,
                session: rights.session,
                ..SearchRequest::default()
            };
            search(hub, &of(&place).await?, &request).await
        }
        FileCommand::Watch {
            place,
            exclude,
            rights,
        } => {
            let request = ChangesRequest {
                path: Some(place.path.clone()),
                exclude,
                user: rights.user,
                session: rights.session,
                ..ChangesRequest::default()
            };
            watch(hub, &of(&place).await?, &request).await
        }
    }
}

/// A name that cannot move the cursor.
pub(crate) fn shown(name: &str) -> String {
    let clean = |c: char| {
        if c.is_control() {
            c.escape_default().to_string()
        } else {
            c.to_string()
        }
    };
    name.chars().map(clean).collect()
}

fn letter(kind: FileKind) -> char {
    match kind {
        FileKind::File => '-',
        FileKind::Directory => 'd',
        FileKind::Symlink => 'l',
        FileKind::Fifo => 'p',
        FileKind::Socket => 's',
        FileKind::BlockDevice => 'b',
        FileKind::CharDevice => 'c',
        FileKind::Unknown => '?',
    }
}

fn owner(entry: &FileEntry) -> String {
    entry.owner.clone().unwrap_or_else(|| entry.uid.to_string())
}

async fn list(
    hub: &Hub,
    sandbox: &Sandbox,
    query: &FileQuery,
    recursive: bool,
) -> Result<(), Failure> {
    let options = ListOptions {
        recursive,
        hidden: None,
    };
    let list = every(async |page| sandbox.client.list_files(query, options, &page).await).await?;
    if hub.out.json {
        return hub.out.object(&list);
    }
    let name = |entry: &FileEntry| {
        let name = if recursive { &entry.path } else { &entry.name };
        match &entry.link_target {
            Some(target) if !hub.out.quiet => format!("{name} -> {target}"),
            _ => name.clone(),
        }
    };
    if hub.out.quiet {
        let names: String = list
            .items
            .iter()
            .map(|entry| shown(&name(entry)) + "\n")
            .collect();
        return hub.out.bytes(names.as_bytes());
    }
    let rows: Vec<Vec<String>> = list
        .items
        .iter()
        .map(|entry| {
            vec![
                format!("{}{}", letter(entry.kind), entry.mode),
                owner(entry),
                entry.size.to_string(),
                ago(entry.modified_at),
                name(entry),
            ]
        })
        .collect();
    hub.out
        .bytes(table(&["MODE", "OWNER", "SIZE", "MODIFIED", "NAME"], &rows).as_bytes())
}

fn show(hub: &Hub, entry: &FileEntry) -> Result<(), Failure> {
    let kind = serde_json::to_value(entry.kind).unwrap_or_default();
    hub.out.sides(
        entry,
        &[
            ("path", shown(&entry.path)),
            ("kind", kind.as_str().unwrap_or_default().to_owned()),
            (
                "leads to",
                shown(entry.link_target.as_deref().unwrap_or_default()),
            ),
            ("size", entry.size.to_string()),
            ("mode", entry.mode.to_string()),
            ("owner", format!("{} ({})", owner(entry), entry.uid)),
            (
                "modified",
                format!("{} ({})", entry.modified_at, ago(entry.modified_at)),
            ),
        ],
    )
}

async fn search(hub: &Hub, sandbox: &Sandbox, request: &SearchRequest) -> Result<(), Failure> {
    if hub.out.json {
        let reply = sandbox.client.search_files(request).await?;
        return hub.out.object(&reply);
    }
    let mut events = sandbox.client.search_events(request).await?;
    let wrong = |error: serde_json::Error| Failure::local("the answer is not understood", &error);
    while let Some(event) = events.next().await {
        let event = event?;
        match event.event.as_str() {
            "match" => {
                let found: SearchMatch = serde_json::from_str(&event.data).map_err(wrong)?;
                let text = Encoded::decode(&found.text, found.text_encoding).unwrap_or_default();
                let text = shown(String::from_utf8_lossy(&text).trim_end());
                hub.out
                    .line(&format!("{}:{}:{text}", shown(&found.path), found.line))?;
            }
            "error" => {
                let problem: Problem = serde_json::from_str(&event.data).map_err(wrong)?;
                return Err(problem.into());
            }
            "done" => {
                let summary: SearchSummary = serde_json::from_str(&event.data).map_err(wrong)?;
                if summary.truncated {
                    hub.out
                        .remark("there are more; -n COUNT shows more of them");
                }
                return Ok(());
            }
            _ => {}
        }
    }
    Err(Failure::failed("the answer broke off").hint("send the command again"))
}

async fn watch(hub: &Hub, sandbox: &Sandbox, request: &ChangesRequest) -> Result<(), Failure> {
    let mut events = sandbox.client.watch_files(request).await?;
    while let Some(event) = events.next().await {
        let (_, event) = event?;
        match event {
            WatchStreamEvent::Ready(ready) => {
                hub.out.remark(&format!("watching {}", ready.path));
                if hub.out.json {
                    hub.out.object(&ready)?;
                }
            }
            WatchStreamEvent::Change(change) if hub.out.json => hub.out.object(&change)?,
            WatchStreamEvent::Change(change) => {
                let from = change
                    .from
                    .as_ref()
                    .map(|from| format!("{} -> ", shown(from)));
                let from = from.unwrap_or_default();
                let path = shown(&change.path);
                hub.out
                    .line(&format!("{} {from}{path}", change.change.as_str()))?;
            }
            WatchStreamEvent::Rescan(rescan) if hub.out.json => hub.out.object(&rescan)?,
            WatchStreamEvent::Rescan(_) => {
                hub.out
                    .remark("some changes are missing: list the directory again");
            }
            WatchStreamEvent::End(end) => {
                if hub.out.json {
                    hub.out.object(&end)?;
                }
                let reason = serde_json::to_value(end.reason).unwrap_or_default();
                let reason = reason.as_str().unwrap_or_default().replace('_', " ");
                return Err(Failure::failed(format!("the watch is over: {reason}"))
                    .hint("`sandshell file ls SANDBOX:DIR` shows what is there"));
            }
            _ => {}
        }
    }
    Err(Failure::failed("the watch broke off").hint("send the command again"))
}
