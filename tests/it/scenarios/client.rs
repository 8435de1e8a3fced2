//! The calls of scenarios, made with the Rust client.

use std::collections::HashMap;
use std::rc::Rc;

use http::{HeaderMap, Method};
use sandshell_client::types::{
    Encoded, Encoding, OutputEvent, PreviewRequest, RunEvent, SandboxId, SandboxRecord,
    SandboxSpec, StreamName, TerminalFrame, TextEncoding, Truncated,
};
use sandshell_client::{
    ArchiveQuery, Client, ClientError, ConnectOptions, EventQuery, EventStream, FileQuery,
    ListOptions, OutputQuery, OutputStreamEvent, Page, ProcessFilter, ReadOptions, SandboxFilter,
    SandboxStreamEvent, TerminalConnection, TerminalEvent, WatchStream, WatchStreamEvent,
    WriteOptions,
};
use sandshell_testkit::Hub;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::likeness::unlike;
use super::{Args, Lack, Played, Player, Said, best_effort, lack};

const NO_ID: &str = "an id that is none";

/// A terminal that is looked at, and all that was seen.
struct Viewed {
    connection: TerminalConnection,
    seen: Vec<u8>,
    exit: Option<Value>,
}

/// Plays with the client.
pub(super) struct ByClient {
    hub: Client,
    sandbox: Client,
    id: SandboxId,
    watches: Mutex<HashMap<String, WatchStream>>,
    terminals: Mutex<HashMap<String, Viewed>>,
}

/// Why there is no result.
enum Fail {
    Refused(Box<ClientError>),
    /// Arguments that the types do not take.
    Unsaid(String),
}

impl From<ClientError> for Fail {
    fn from(error: ClientError) -> Self {
        Self::Refused(Box::new(error))
    }
}

type Outcome = Result<Value, Fail>;

impl Player for ByClient {
    const LACKS: &'static [Lack] = &[Lack {
        what: NO_ID,
        why: "the type of ids has none, so that it is refused before the call",
    }];
    const UNSEEN: &'static [(&'static str, &'static str, &'static str)] = &[(
        "session.stream",
        "session_state",
        "the end of a stream is told in the same type for processes and commands",
    )];

    async fn new(hub: &Hub, sandbox: &SandboxRecord) -> Self {
        Self {
            hub: hub.client(),
            sandbox: hub.client().sandbox(&sandbox.id),
            id: sandbox.id.clone(),
            watches: Mutex::default(),
            terminals: Mutex::default(),
        }
    }

    async fn call(self: Rc<Self>, call: String, args: Args) -> Played {
        match self.said(&call, args).await {
            Ok(said) => Played::Own(said),
            Err(reason) => {
                assert!(reason.contains("the id of a sandbox"), "{call}: {reason}");
                Played::Not(lack::<Self>(NO_ID))
            }
        }
    }
}

impl ByClient {
    /// The result or the problem of a call; or why it cannot be made.
    pub(super) async fn said(&self, call: &str, args: Args) -> Result<Said, String> {
        match self.make(call, Given(args)).await {
            Ok(result) => Ok(Ok(result)),
            Err(Fail::Unsaid(reason)) => Err(reason),
            Err(Fail::Refused(error)) => match error.problem() {
                Some(problem) => Ok(Err(json!(problem))),
                None => panic!("{call}: {error}"),
            },
        }
    }

    async fn make(&self, call: &str, args: Given) -> Outcome {
        let (surface, verb) = call.split_once('.').unwrap();
        match surface {
            "sandbox" | "token" => self.hub_call(verb, surface, args).await,
            "exec" | "process" => self.process_call(surface, verb, args).await,
            "session" => self.session_call(verb, args).await,
            "terminal" => self.terminal_call(verb, args).await,
            "file" => self.file_call(verb, args).await,
            "watch" => self.watch_call(verb, args).await,
            "git" => self.git_call(verb, args).await,
            "backup" => self.backup_call(verb, args).await,
            "port" => self.port_call(verb, args).await,
            "context" => self.context_call(verb, args).await,
            _ => self.other_call(call, args).await,
        }
    }

    async fn hub_call(&self, verb: &str, surface: &str, mut args: Given) -> Outcome {
        if surface == "token" {
            return match verb {
                "create" => shown(self.hub.create_token(&args.all()?).await),
                "list" => items(async |page| self.hub.tokens(&page).await).await,
                "revoke" => shown(self.hub.revoke_token(&args.text("token")).await),
                _ => unknown("token", verb),
            };
        }
        if verb == "create" {
            let spec = SandboxSpec {
                isolation: Some(best_effort()),
                ..args.all()?
            };
            return shown(self.hub.create_sandbox(&spec).await);
        }
        if verb == "list" {
            let labels = args.take::<String>("label")?.into_iter();
            let labels = labels.map(|label| {
                let (key, value) = label.split_once('=').unwrap();
                (key.to_owned(), value.to_owned())
            });
            let filter = SandboxFilter {
                labels: labels.collect(),
                state: args.take("state")?,
                page: Page::default(),
            };
            return items(async |page| {
                let filter = SandboxFilter {
                    page,
                    ..filter.clone()
                };
                self.hub.sandboxes(&filter).await
            })
            .await;
        }
        let id = args.take("sandbox")?.unwrap_or_else(|| self.id.clone());
        match verb {
            "get" => shown(self.hub.get_sandbox(&id).await),
            "update" => shown(self.hub.patch_sandbox(&id, &args.all()?).await),
            "pause" => shown(self.hub.pause_sandbox(&id).await),
            "resume" => shown(self.hub.resume_sandbox(&id).await),
            "keepalive" => shown(self.hub.keep_sandbox_alive(&id).await),
            "destroy" => shown(self.hub.destroy_sandbox(&id).await),
            _ => unknown("sandbox", verb),
        }
    }

    async fn process_call(&self, surface: &str, verb: &str, mut args: Given) -> Outcome {
        let sandbox = &self.sandbox;
        match (surface, verb) {
            ("exec", "run") => return shown(sandbox.exec(&args.all()?).await),
            ("exec", "stream") => {
                let id = sandbox.create_process(&args.all()?).await?.id;
                let events = sandbox.process_events(&id, EventQuery::default()).await?;
                return joined(events).await;
            }
            ("process", "start") => return shown(sandbox.create_process(&args.all()?).await),
            ("process", "list") => {
                let filter = ProcessFilter {
                    kind: args.take("kind")?,
                    session: args.take("session")?,
                    page: Page::default(),
                };
                return items(async |page| {
                    let filter = ProcessFilter {
                        page,
                        ..filter.clone()
                    };
                    sandbox.list_processes(&filter).await
                })
                .await;
            }
            _ => {}
        }
        let id = args.one("process")?;
        match verb {
            "get" => shown(sandbox.process(&id).await),
            "kill" => shown(sandbox.kill_process(&id, &args.all()?).await),
            "signal" => shown(sandbox.signal_process(&id, &args.all()?).await),
            "wait" => shown(sandbox.wait_process(&id, &args.all()?).await),
            "delete" => shown(sandbox.delete_process(&id).await),
            "close_stdin" => shown(sandbox.close_stdin(&id).await),
            "output" => {
                let follow = Some(args.take("follow")?.unwrap_or(true));
                let query = EventQuery { from: None, follow };
                joined(sandbox.process_events(&id, query).await?).await
            }
            "read" => {
                let query = OutputQuery {
                    stream: args.take("stream")?.unwrap_or(StreamName::Stdout),
                    offset: args.take("offset")?.unwrap_or(0),
                    follow: false,
                };
                let bytes = sandbox.process_output(&id, query).await?;
                args.bytes(bytes.read_to_end().await?.into())
            }
            "stdin" => {
                let data = args.data();
                let offset = args.take("offset")?;
                shown(sandbox.write_stdin(&id, offset, data).await)
            }
            _ => unknown(surface, verb),
        }
    }

    async fn session_call(&self, verb: &str, mut args: Given) -> Outcome {
        let sandbox = &self.sandbox;
        match verb {
            "create" => return shown(sandbox.create_session(&args.all()?).await),
            "list" => return items(async |page| sandbox.list_sessions(&page).await).await,
            _ => {}
        }
        let id = args.one("session")?;
        match verb {
            "get" => shown(sandbox.session(&id).await),
            "update" => shown(sandbox.patch_session(&id, &args.all()?).await),
            "exec" => shown(sandbox.session_exec(&id, &args.all()?).await),
            "interrupt" => shown(sandbox.interrupt_session(&id).await),
            "fork" => shown(sandbox.fork_session(&id, &args.all()?).await),
            "delete" => shown(sandbox.delete_session(&id).await),
            "stream" => joined(sandbox.session_exec_stream(&id, &args.all()?).await?).await,
            "commands" => items(async |page| sandbox.list_commands(&id, &page).await).await,
            "output" => {
                let command = args.one("command")?;
                let stream = args.take("stream")?.unwrap_or(StreamName::Stdout);
                let bytes = sandbox.command_output(&id, &command, OutputQuery::all(stream));
                args.bytes(bytes.await?.read_to_end().await?.into())
            }
            _ => unknown("session", verb),
        }
    }

    async fn terminal_call(&self, verb: &str, mut args: Given) -> Outcome {
        let sandbox = &self.sandbox;
        match verb {
            "create" => return shown(sandbox.create_terminal(&args.all()?).await),
            "list" => return items(async |page| sandbox.list_terminals(&page).await).await,
            _ => {}
        }
        let name = args.text("terminal");
        let id = name.parse().unwrap();
        match verb {
            "get" => return shown(sandbox.terminal(&id).await),
            "screen" => return shown(sandbox.terminal_screen(&id).await),
            "delete" => return shown(sandbox.delete_terminal(&id).await),
            "resize" => {
                let (cols, rows) = (args.one("cols")?, args.one("rows")?);
                return shown(sandbox.resize_terminal(&id, cols, rows).await);
            }
            _ => {}
        }
        let mut terminals = self.terminals.lock().await;
        if !terminals.contains_key(&name) {
            let options = ConnectOptions {
                offset: Some(0),
                ..ConnectOptions::default()
            };
            let viewed = Viewed {
                connection: sandbox.connect_terminal(&id, options).await?,
                seen: Vec::new(),
                exit: None,
            };
            terminals.insert(name.clone(), viewed);
        }
        let viewed = terminals.get_mut(&name).unwrap();
        match verb {
            "type" => {
                viewed.connection.type_in(args.data()).await?;
                Ok(Value::Null)
            }
            "read_until" => {
                let text = args.text("text");
                let text = text.as_bytes();
                loop {
                    let mut places = viewed.seen.windows(text.len());
                    if let Some(at) = places.position(|place| place == text) {
                        return args.bytes(viewed.seen[..at + text.len()].to_vec());
                    }
                    viewed.look().await?;
                }
            }
            "wait" => loop {
                if let Some(exit) = &viewed.exit {
                    return Ok(exit.clone());
                }
                viewed.look().await?;
            },
            _ => unknown("terminal", verb),
        }
    }

    async fn file_call(&self, verb: &str, mut args: Given) -> Outcome {
        let sandbox = &self.sandbox;
        match verb {
            "find" => return shown(sandbox.find_files(&args.all()?).await),
            "search" => return shown(sandbox.search_files(&args.all()?).await),
            "mkdir" => return shown(sandbox.make_directory(&args.all()?).await),
            "move" => return shown(sandbox.move_file(&args.all()?).await),
            "copy" => return shown(sandbox.copy_file(&args.all()?).await),
            "remove" => return shown(sandbox.remove_file(&args.all()?).await),
            "chmod" => return shown(sandbox.change_mode(&args.all()?).await),
            _ => {}
        }
        let file = FileQuery {
            path: args.text("path"),
            user: args.take("user")?,
            session: args.take("session")?,
            ..FileQuery::default()
        };
        match verb {
            "write" => {
                let data = args.data();
                let options = WriteOptions {
                    parents: args.take("parents")?,
                    mode: args.take("mode")?,
                    append: args.take("append")?.unwrap_or(false),
                    ..WriteOptions::default()
                };
                args.end();
                shown(sandbox.write_file(&file, &options, data).await)
            }
            "read" => {
                let range = args.take::<[u64; 2]>("range")?;
                let options = ReadOptions {
                    range: range.map(|[first, last]| first..last + 1),
                    ..ReadOptions::default()
                };
                let content = sandbox.read_file(&file, &options).await?;
                args.bytes(content.bytes.read_to_end().await?.into())
            }
            "list" => {
                let options = ListOptions {
                    recursive: args.take("recursive")?.unwrap_or(false),
                    hidden: args.take("hidden")?,
                };
                items(async |page| sandbox.list_files(&file, options, &page).await).await
            }
            "stat" => {
                let follow = args.take("follow")?.unwrap_or(false);
                shown(sandbox.stat_file(&file, follow).await)
            }
            "pack" => {
                let query = ArchiveQuery {
                    directory: file,
                    format: args.take("format")?.unwrap_or_default(),
                    exclude: args.take("exclude")?.unwrap_or_default(),
                    ..ArchiveQuery::default()
                };
                let archive = sandbox.get_archive(&query).await?.read_to_end().await?;
                Ok(bytes(archive.into(), Encoding::Base64))
            }
            "unpack" => {
                let archive = args.data();
                shown(sandbox.put_archive(&file, archive).await)
            }
            _ => unknown("file", verb),
        }
    }

    async fn watch_call(&self, verb: &str, mut args: Given) -> Outcome {
        let mut watches = self.watches.lock().await;
        match verb {
            "open" => {
                let name = args.text("as");
                let mut watch = self.sandbox.watch_files(&args.all()?).await?;
                let (_, ready) = watch.next().await.unwrap()?;
                let WatchStreamEvent::Ready(ready) = ready else {
                    panic!("{ready:?}")
                };
                watches.insert(name, watch);
                Ok(json!(ready))
            }
            "until" => {
                let watch = watches.get_mut(&args.text("watch")).unwrap();
                let wanted = args.value("event");
                let mut events = Vec::new();
                loop {
                    let (_, event) = watch.next().await.expect("the watch ended")?;
                    let WatchStreamEvent::Change(change) = event else {
                        continue;
                    };
                    events.push(json!(change));
                    if unlike(&json!(change), &wanted, "").is_ok() {
                        return Ok(json!({"events": events}));
                    }
                }
            }
            "close" => {
                watches.remove(&args.text("watch")).unwrap();
                Ok(Value::Null)
            }
            _ => unknown("watch", verb),
        }
    }

    async fn git_call(&self, verb: &str, args: Given) -> Outcome {
        let sandbox = &self.sandbox;
        match verb {
            "clone" => shown(sandbox.git_clone(&args.all()?).await),
            "status" => shown(sandbox.git_status(&args.all()?).await),
            "diff" => shown(sandbox.git_diff(&args.all()?).await),
            "log" => shown(sandbox.git_log(&args.all()?).await),
            "branches" => shown(sandbox.git_branches(&args.all()?).await),
            "checkout" => shown(sandbox.git_checkout(&args.all()?).await),
            "add" => shown(sandbox.git_add(&args.all()?).await),
            "commit" => shown(sandbox.git_commit(&args.all()?).await),
            "pull" => shown(sandbox.git_pull(&args.all()?).await),
            "push" => shown(sandbox.git_push(&args.all()?).await),
            _ => unknown("git", verb),
        }
    }

    async fn backup_call(&self, verb: &str, mut args: Given) -> Outcome {
        let sandbox = &self.sandbox;
        match verb {
            "create" => return shown(sandbox.create_backup(&args.all()?).await),
            "list" => return items(async |page| sandbox.list_backups(&page).await).await,
            _ => {}
        }
        let id = args.one("backup")?;
        match verb {
            "get" => shown(sandbox.backup(&id).await),
            "restore" => shown(sandbox.restore_backup(&id, &args.all()?).await),
            "delete" => shown(sandbox.delete_backup(&id).await),
            _ => unknown("backup", verb),
        }
    }

    async fn port_call(&self, verb: &str, mut args: Given) -> Outcome {
        let sandbox = &self.sandbox;
        if verb == "list" {
            return items(async |page| sandbox.list_ports(&page).await).await;
        }
        let port: u16 = args.one("port")?;
        match verb {
            "wait" => shown(sandbox.wait_port(port, &args.all()?).await),
            "expose" => shown(sandbox.expose_port(port).await),
            "unexpose" => shown(sandbox.unexpose_port(port).await),
            "preview" => {
                let request: PreviewRequest = args.all()?;
                shown(self.hub.create_preview(&self.id, port, &request).await)
            }
            "fetch" => {
                let path = format!("/v1/ports/{port}/proxy{}", args.text("path"));
                let reply = sandbox
                    .raw(Method::GET, &path, &HeaderMap::new(), "")
                    .await?;
                let body = String::from_utf8_lossy(&reply.2).into_owned();
                Ok(json!({"status": reply.0.as_u16(), "body": body}))
            }
            _ => unknown("port", verb),
        }
    }

    async fn context_call(&self, verb: &str, mut args: Given) -> Outcome {
        let sandbox = &self.sandbox;
        match verb {
            "create" => return shown(sandbox.create_context(&args.all()?).await),
            "list" => return items(async |page| sandbox.list_contexts(&page).await).await,
            _ => {}
        }
        let id = args.one("context")?;
        match verb {
            "get" => shown(sandbox.context(&id).await),
            "run" => shown(sandbox.run_code(&id, &args.all()?).await),
            "interrupt" => shown(sandbox.interrupt_context(&id).await),
            "restart" => shown(sandbox.restart_context(&id).await),
            "delete" => shown(sandbox.delete_context(&id).await),
            "stream" => {
                let mut events = sandbox.run_code_stream(&id, &args.all()?).await?;
                let mut run = Run::default();
                while let Some(event) = events.next().await {
                    run.take(event?);
                }
                Ok(run.end())
            }
            _ => unknown("context", verb),
        }
    }

    async fn other_call(&self, call: &str, mut args: Given) -> Outcome {
        let sandbox = &self.sandbox;
        match call {
            "env.get" => shown(sandbox.environment().await),
            "env.update" => shown(sandbox.patch_environment(&args.all()?).await),
            "stats.get" => shown(sandbox.stats().await),
            "protections.get" => shown(sandbox.protections().await),
            "events.until" => {
                let types: Vec<String> = args.take("types")?.unwrap_or_default();
                let types: Vec<&str> = types.iter().map(String::as_str).collect();
                let mut stream = sandbox.sandbox_events(args.take("from")?, &types).await?;
                let wanted = args.value("event");
                let mut events = Vec::new();
                loop {
                    let event = stream.next().await.expect("the events ended")?;
                    let SandboxStreamEvent::Event(_, event) = event else {
                        continue;
                    };
                    events.push(json!(event));
                    if unlike(&json!(event), &wanted, "").is_ok() {
                        return Ok(json!({"events": events}));
                    }
                }
            }
            _ => unknown(call, ""),
        }
    }
}

impl Viewed {
    /// Takes in what comes next.
    async fn look(&mut self) -> Result<(), ClientError> {
        match self.connection.next().await? {
            Some(TerminalEvent::Bytes(bytes)) => self.seen.extend_from_slice(&bytes),
            Some(TerminalEvent::Frame(TerminalFrame::Exit { exit_code, signal })) => {
                self.exit = Some(json!({"exit_code": exit_code, "signal": signal}));
            }
            Some(_) => {}
            None => panic!("the connection ended after {:?}", self.seen),
        }
        Ok(())
    }
}

/// The events of a run of code, put together.
#[derive(Default)]
pub(super) struct Run {
    stdout: String,
    stderr: String,
    results: Vec<Value>,
    error: Option<Value>,
    end: Option<Value>,
}

impl Run {
    pub(super) fn take(&mut self, event: RunEvent) {
        match event {
            RunEvent::Stdout(output) => self.stdout += &output.data,
            RunEvent::Stderr(output) => self.stderr += &output.data,
            RunEvent::Result(result) => self.results.push(json!(result)),
            RunEvent::Error(error) => self.error = Some(json!(error)),
            RunEvent::End(end) => self.end = Some(json!(end)),
            _ => {}
        }
    }

    pub(super) fn end(self) -> Value {
        let mut found = self.end.expect("the run has no end");
        found["stdout"] = self.stdout.into();
        found["stderr"] = self.stderr.into();
        found["results"] = self.results.into();
        found["error"] = self.error.into();
        found
    }
}

/// The pieces of an output, put together.
#[derive(Default)]
pub(super) struct Joined {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    lost: Option<Truncated>,
}

impl Joined {
    pub(super) fn take(&mut self, output: &OutputEvent) {
        let bytes = Encoded::decode(&output.data, output.encoding).unwrap();
        match output.stream {
            StreamName::Stdout => self.stdout.extend(bytes),
            StreamName::Stderr => self.stderr.extend(bytes),
            StreamName::LateStdout | StreamName::LateStderr => {}
        }
    }

    /// With what is told of the end.
    pub(super) fn end(self, mut end: Value) -> Value {
        end["stdout"] = String::from_utf8(self.stdout).unwrap().into();
        end["stderr"] = String::from_utf8(self.stderr).unwrap().into();
        if let Some(lost) = self.lost {
            end["truncated"] = json!(lost);
        }
        end
    }
}

async fn joined(mut events: EventStream) -> Outcome {
    let mut found = Joined::default();
    let mut end = json!({});
    while let Some(event) = events.next().await {
        match event?.event {
            OutputStreamEvent::Started { command_id } => end["command_id"] = json!(command_id),
            OutputStreamEvent::Output(output) => found.take(&output),
            OutputStreamEvent::Truncated(lost) => {
                let counts = found.lost.get_or_insert(Truncated {
                    stdout_bytes: 0,
                    stderr_bytes: 0,
                });
                match lost.stream {
                    StreamName::Stdout => counts.stdout_bytes += lost.bytes,
                    _ => counts.stderr_bytes += lost.bytes,
                }
            }
            OutputStreamEvent::Exit(exit) => {
                let exit = json!(exit);
                for (name, value) in exit.as_object().unwrap() {
                    end[name] = value.clone();
                }
            }
            _ => {}
        }
    }
    Ok(found.end(end))
}

/// The arguments of a call, taken one by one.
pub(super) struct Given(pub(super) Args);

impl Given {
    /// All that are left, as the request of the API.
    fn all<T: DeserializeOwned>(self) -> Result<T, Fail> {
        serde_json::from_value(Value::Object(self.0))
            .map_err(|error| Fail::Unsaid(error.to_string()))
    }

    fn take<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>, Fail> {
        let taken = self.0.remove(name).map(serde_json::from_value).transpose();
        taken.map_err(|error| Fail::Unsaid(error.to_string()))
    }

    fn one<T: DeserializeOwned>(&mut self, name: &str) -> Result<T, Fail> {
        let taken = self.take(name)?;
        taken.ok_or_else(|| Fail::Unsaid(format!("there is no {name:?}")))
    }

    fn value(&mut self, name: &str) -> Value {
        let value = self.0.remove(name);
        value.unwrap_or_else(|| panic!("there is no {name:?}"))
    }

    pub(super) fn text(&mut self, name: &str) -> String {
        let value = self.value(name);
        value.as_str().unwrap().to_owned()
    }

    /// The bytes in `data`.
    fn data(&mut self) -> Vec<u8> {
        decoded(&mut self.0, "data")
    }

    /// Bytes as the result of a call, in the encoding that is asked for.
    fn bytes(mut self, found: Vec<u8>) -> Outcome {
        let encoding = self.take("encoding")?.unwrap_or(Encoding::Auto);
        self.end();
        Ok(bytes(found, encoding))
    }

    /// Nothing is left.
    pub(super) fn end(&self) {
        assert!(
            self.0.is_empty(),
            "these arguments are not known: {:?}",
            self.0
        );
    }
}

/// The bytes of an argument, whose encoding stands beside it.
pub(super) fn decoded(args: &mut Args, name: &str) -> Vec<u8> {
    let encoding = args.remove(&format!("{name}_encoding"));
    let encoding = encoding.map_or(TextEncoding::Utf8, |encoding| {
        serde_json::from_value(encoding).unwrap()
    });
    let data = args.remove(name).unwrap();
    Encoded::decode(data.as_str().unwrap(), encoding).unwrap()
}

pub(super) fn bytes(found: Vec<u8>, encoding: Encoding) -> Value {
    let encoded = Encoded::new(found, encoding);
    json!({"data": encoded.data, "encoding": encoded.encoding})
}

fn shown<T: Serialize>(reply: Result<T, ClientError>) -> Outcome {
    Ok(json!(reply?))
}

/// All pages of a list.
async fn items<T: Serialize>(
    pages: impl AsyncFn(Page) -> Result<sandshell_client::types::List<T>, ClientError>,
) -> Outcome {
    let mut all = Vec::new();
    let mut page = Page::default();
    loop {
        let list = pages(page).await?;
        all.extend(list.items.iter().map(|item| json!(item)));
        if list.next_cursor.is_none() {
            return Ok(json!({"items": all}));
        }
        page = Page {
            cursor: list.next_cursor,
            ..Page::default()
        };
    }
}

fn unknown(surface: &str, verb: &str) -> Outcome {
    panic!("there is no call {surface}.{verb}")
}
