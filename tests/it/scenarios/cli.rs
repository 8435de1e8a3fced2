//! The calls of scenarios, made with the command line: `--json` where there is a result.

use std::collections::HashMap;
use std::process::{Output, Stdio};
use std::rc::Rc;

use sandshell_client::types::{Encoding, RunEvent, SandboxId, SandboxRecord};
use sandshell_testkit::{Hub, find_binary};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::Mutex;

use super::client::{ByClient, Given, Joined, Run, bytes, decoded};
use super::likeness::unlike;
use super::{Args, Lack, Played, Player, Said, lack};

/// Plays with commands. What they cannot say is done by the client, so that what follows finds it done.
pub(super) struct ByCommands {
    home: TempDir,
    url: String,
    token: String,
    id: SandboxId,
    client: ByClient,
    watches: Mutex<HashMap<String, Watch>>,
}

/// A command that tells changes until it is ended.
struct Watch {
    _child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

const fn lacks(what: &'static str, why: &'static str) -> Lack {
    Lack { what, why }
}

impl Player for ByCommands {
    const LACKS: &'static [Lack] = &[
        lacks(
            "exec.run env: null",
            "`exec -e` sets variables; `-- env -u NAME` unsets one",
        ),
        lacks(
            "exec.run max_output_bytes",
            "a result has what the API gives by default",
        ),
        lacks("process.start tag", "`exec -d` names a process by its id"),
        lacks(
            "process.start stdin_open",
            "`exec -d` leaves nobody to type; `attach` is for those that people started",
        ),
        lacks(
            "process.start session",
            "a process from a session's state is for programs",
        ),
        lacks(
            "process.read",
            "`logs` shows both streams, by lines and times",
        ),
        lacks(
            "process.stdin",
            "`attach` types; writes at offsets are for programs",
        ),
        lacks(
            "process.close_stdin",
            "`attach` ends the input with its own",
        ),
        lacks("process.delete", "`kill` ends it; records go by themselves"),
        lacks("session.update", "`session exec -c export` does it"),
        lacks(
            "session.output",
            "`session history` lists commands; outputs of the past are for programs",
        ),
        lacks(
            "terminal.type",
            "`terminal attach` needs a terminal here; tests/it/cli/terminal.rs gives it one",
        ),
        lacks("terminal.read_until", "the same"),
        lacks("terminal.wait", "the same"),
        lacks("file.read range", "`file cat` shows all of a file"),
        lacks(
            "file.copy",
            "`cp` is between here and a sandbox; `exec -- cp` copies in it",
        ),
        lacks(
            "file.mkdir without exist_ok",
            "`file mkdir` is content with one that is there",
        ),
        lacks("file.mkdir mode", "`file chmod` is for it"),
        lacks("file.pack", "`cp` copies trees; archives are for programs"),
        lacks("file.unpack", "the same"),
        lacks(
            "git.commit committer",
            "`git commit` has --author; the committer is git's setting",
        ),
        lacks(
            "port.fetch",
            "`port expose` gives an address, for any client of HTTP",
        ),
        lacks(
            "port.wait http.status",
            "`port wait --http` takes any good answer",
        ),
        lacks(
            "context.create kernel",
            "`context create` takes what is there",
        ),
        lacks(
            "one that is not in the list",
            "there is no command for one of these but its list, which is silent about others",
        ),
    ];
    const UNSEEN: &'static [(&'static str, &'static str, &'static str)] = &[(
        "session.stream",
        "session_state",
        "a command that streams shows its output alone",
    )];

    async fn new(hub: &Hub, sandbox: &SandboxRecord) -> Self {
        Self {
            home: TempDir::with_prefix("sandshell-home-").unwrap(),
            url: hub.url().to_owned(),
            token: hub.token().to_owned(),
            id: sandbox.id.clone(),
            client: ByClient::new(hub, sandbox).await,
            watches: Mutex::default(),
        }
    }

    async fn call(self: Rc<Self>, call: String, args: Args) -> Played {
        let made = match unsaid(&call, &args) {
            Some(what) => Err(what),
            None => self.make(&call, Line::new(args.clone())).await,
        };
        match made {
            Ok(said) => Played::Own(said),
            Err(what) => {
                let said = self.client.said(&call, args).await.unwrap();
                Played::ByAnother(said, lack::<Self>(what))
            }
        }
    }
}

/// What of a call no command says.
fn unsaid(call: &str, args: &Args) -> Option<&'static str> {
    let whole = ByCommands::LACKS.iter().find(|lack| lack.what == call);
    let argument = ByCommands::LACKS.iter().find(|lack| {
        let named = lack
            .what
            .strip_prefix(call)
            .and_then(|rest| rest.strip_prefix(' '));
        named.is_some_and(|name| args.contains_key(name))
    });
    if let Some(lack) = whole.or(argument) {
        return Some(lack.what);
    }
    let unset = |value: &Value| {
        let mut values = value.as_object().into_iter().flatten();
        values.any(|(_, value)| value.is_null())
    };
    match call {
        "exec.run" if args.get("env").is_some_and(unset) => Some("exec.run env: null"),
        "file.mkdir" if args.get("exist_ok") != Some(&Value::Bool(true)) => {
            Some("file.mkdir without exist_ok")
        }
        "port.wait"
            if args
                .get("http")
                .is_some_and(|http| !http["status"].is_null()) =>
        {
            Some("port.wait http.status")
        }
        _ => None,
    }
}

/// A command line in the making, out of the arguments of a call.
struct Line {
    words: Vec<String>,
    /// What comes after `--`.
    last: Vec<String>,
    args: Given,
}

impl Line {
    fn new(args: Args) -> Self {
        Self {
            words: Vec::new(),
            last: Vec::new(),
            args: Given(args),
        }
    }

    fn say(mut self, words: &[&str]) -> Self {
        self.words
            .extend(words.iter().map(|word| (*word).to_owned()));
        self
    }

    fn opt(mut self, flag: &str, name: &str) -> Self {
        match self.args.0.remove(name) {
            Some(Value::String(value)) => self.say(&[flag, &value]),
            Some(value) => self.say(&[flag, &value.to_string()]),
            None => self,
        }
    }

    fn switch(mut self, flag: &str, name: &str) -> Self {
        match self.args.0.remove(name) {
            Some(Value::Bool(true)) => self.say(&[flag]),
            _ => self,
        }
    }

    fn time(mut self, flag: &str, name: &str) -> Self {
        match self.args.0.remove(name) {
            Some(time) => self.say(&[flag, &format!("{time}ms")]),
            None => self,
        }
    }

    /// Pairs of an object, each with the flag.
    fn pairs(mut self, flag: &str, name: &str) -> Self {
        let pairs = self.args.0.remove(name).unwrap_or_default();
        pairs
            .as_object()
            .into_iter()
            .flatten()
            .fold(self, |words, (key, value)| {
                words.say(&[flag, &format!("{key}={}", value.as_str().unwrap())])
            })
    }

    fn each(mut self, flag: &str, name: &str) -> Self {
        let items = self.args.0.remove(name).unwrap_or_default();
        items
            .as_array()
            .into_iter()
            .flatten()
            .fold(self, |words, item| {
                words.say(&[flag, item.as_str().unwrap()])
            })
    }

    fn word(mut self, name: &str) -> Self {
        let word = self.args.text(name);
        self.say(&[&word])
    }

    /// Surroundings in which a program starts, and the program.
    fn program(mut self) -> Self {
        if let Some(argv) = self.args.0.remove("argv") {
            let argv = argv.as_array().unwrap().iter();
            self.last = argv.map(|word| word.as_str().unwrap().to_owned()).collect();
        }
        self.opt("-c", "command")
            .pairs("-e", "env")
            .opt("-w", "cwd")
    }

    fn done(self) -> Vec<String> {
        self.args.end();
        let mut words = self.words;
        if !self.last.is_empty() {
            words.push("--".to_owned());
            words.extend(self.last);
        }
        words
    }

    fn json(self) -> Vec<String> {
        self.say(&["--json"]).done()
    }
}

/// The result of a call, or what could not be said.
type Outcome = Result<Said, &'static str>;

impl ByCommands {
    async fn make(&self, call: &str, mut words: Line) -> Outcome {
        let id = self.id.as_str();
        let (surface, verb) = call.split_once('.').unwrap();
        let stdin = words.args.0.contains_key("stdin");
        let stdin = stdin.then(|| decoded(&mut words.args.0, "stdin"));
        match surface {
            "sandbox" => return Ok(self.sandbox_call(verb, words).await),
            "token" => return Ok(self.token_call(verb, words).await),
            "exec" | "process" => return self.process_call(call, words, stdin).await,
            "session" => return self.session_call(verb, words, stdin).await,
            "terminal" => return self.terminal_call(verb, words).await,
            "file" => return Ok(self.file_call(verb, words).await),
            "watch" => return Ok(self.watch_call(verb, words).await),
            "git" => return Ok(self.git_call(verb, words).await),
            "backup" => return self.backup_call(verb, words).await,
            "port" => return Ok(self.port_call(verb, words).await),
            "context" => return self.context_call(verb, words).await,
            _ => {}
        }
        let words = match call {
            "env.get" => words.say(&["env", id, "-a"]),
            "env.update" => words.say(&["env", id]).pairs("--set", "env"),
            "stats.get" => words.say(&["stats", id]),
            "protections.get" => words.say(&["get", id]),
            "events.until" => {
                let wanted = words.args.0.remove("event").unwrap();
                let words = words.say(&["events", id]).opt("--from", "from");
                let mut watch = self.watching(&words.each("-t", "types").json());
                return Ok(Ok(watch.until(&wanted).await));
            }
            _ => panic!("there is no call {call}"),
        };
        Ok(self.object(&words.json(), None).await)
    }

    async fn sandbox_call(&self, verb: &str, mut words: Line) -> Said {
        let words = match verb {
            "create" => words
                .say(&["create", "--isolation", "best-effort"])
                .word("id")
                .pairs("-l", "labels"),
            "list" => words
                .say(&["ls"])
                .opt("-l", "label")
                .opt("--state", "state"),
            verb => {
                let id = words.args.0.remove("sandbox");
                let id =
                    id.map_or_else(|| self.id.to_string(), |id| id.as_str().unwrap().to_owned());
                let verb = if verb == "destroy" { "rm" } else { verb };
                words.say(&[verb, &id]).pairs("-l", "labels")
            }
        };
        self.object(&words.json(), None).await
    }

    async fn token_call(&self, verb: &str, words: Line) -> Said {
        let words = match verb {
            "create" => words
                .say(&["token", "create"])
                .opt("--name", "name")
                .each("--scope", "scopes"),
            "list" => words.say(&["token", "ls"]),
            "revoke" => words.say(&["token", "rm"]).word("token"),
            _ => panic!("there is no call token.{verb}"),
        };
        self.object(&words.json(), None).await
    }

    async fn process_call(&self, call: &str, mut words: Line, stdin: Option<Vec<u8>>) -> Outcome {
        let id = self.id.as_str();
        match call {
            "exec.run" => {
                let words = words.say(&["exec", id]).program();
                let words = words.time("--timeout", "timeout_ms").say(&["--json"]);
                return Ok(self.object(&words.done(), stdin).await);
            }
            "exec.stream" => {
                let output = self
                    .run(&words.say(&["exec", id]).program().done(), stdin)
                    .await;
                return Ok(Ok(streamed(&output)));
            }
            "process.start" => {
                let words = words.say(&["exec", id, "-d", "--json"]).program();
                return Ok(self.object(&words.opt("--name", "id").done(), None).await);
            }
            "process.list" => {
                let execs = words.args.0.remove("kind") == Some("exec".into());
                let flag: &[&str] = if execs { &["--execs"] } else { &[] };
                let words = words.say(&["ps", id, "-a"]).say(flag);
                return Ok(self.object(&words.json(), None).await);
            }
            "process.get" => {
                let name = words.args.text("process");
                return self.listed(&["ps", id, "-a"], &name).await;
            }
            _ => {}
        }
        let one = format!("{id}/{}", words.args.text("process"));
        match call {
            "process.kill" => {
                let words = words.say(&["kill", &one]).time("--grace", "grace_ms");
                Ok(self.object(&words.json(), None).await)
            }
            "process.signal" => {
                let words = words.say(&["kill", &one]).opt("-s", "signal");
                Ok(self.object(&words.json(), None).await)
            }
            "process.wait" => {
                let words = words.say(&["wait", &one]);
                Ok(self.object(&condition(words).json(), None).await)
            }
            "process.output" => {
                let output = self
                    .run(&words.say(&["logs", &one, "-f"]).json(), None)
                    .await;
                let lines = lines(&output);
                let mut found = Joined::default();
                let mut end = json!({});
                for line in lines {
                    match serde_json::from_value(line.clone()) {
                        Ok(piece) => found.take(&piece),
                        Err(_) => end = line,
                    }
                }
                Ok(Ok(found.end(end)))
            }
            _ => panic!("there is no call {call}"),
        }
    }

    async fn session_call(&self, verb: &str, mut words: Line, stdin: Option<Vec<u8>>) -> Outcome {
        let id = self.id.as_str();
        let words = match verb {
            "create" => words
                .say(&["session", "create", id])
                .opt("--name", "id")
                .pairs("-e", "env")
                .opt("-w", "cwd"),
            "list" => words.say(&["session", "ls", id]),
            verb => {
                let one = format!("{id}/{}", words.args.text("session"));
                let words = match verb {
                    "get" => words.say(&["session", "get", &one]),
                    "interrupt" => words.say(&["session", "interrupt", &one]),
                    "delete" => words.say(&["session", "rm", &one]),
                    "commands" => words.say(&["session", "history", &one]),
                    "fork" => words.say(&["session", "fork", &one]).opt("--name", "id"),
                    "exec" | "stream" => {
                        let flag: &[&str] = if stdin.is_some() { &["-i"] } else { &[] };
                        let words = words.say(&["session", "exec", &one]).say(flag).program();
                        words.time("--timeout", "timeout_ms")
                    }
                    _ => panic!("there is no call session.{verb}"),
                };
                if verb == "stream" {
                    let mut found = streamed(&self.run(&words.done(), stdin).await);
                    let history = Line::new(Args::new()).say(&["session", "history", &one]);
                    let history = self.object(&history.json(), None).await.unwrap();
                    let last = history["items"].as_array().unwrap().last().unwrap();
                    found["command_id"] = last["id"].clone();
                    found["cwd"] = last["cwd"].clone();
                    return Ok(Ok(found));
                }
                words
            }
        };
        Ok(self.object(&words.json(), stdin).await)
    }

    async fn terminal_call(&self, verb: &str, mut words: Line) -> Outcome {
        let id = self.id.as_str();
        let words = match verb {
            "create" => {
                let mut side = |name: &str| words.args.0.remove(name).unwrap();
                let size = format!("{}x{}", side("cols"), side("rows"));
                let words = words.say(&["terminal", "create", id, "--size", &size, "--json"]);
                let words = words.opt("--name", "id").program().done();
                return Ok(self.object(&words, None).await);
            }
            "list" => words.say(&["terminal", "ls", id]),
            verb => {
                let name = words.args.text("terminal");
                let one = format!("{id}/{name}");
                match verb {
                    "get" => return self.listed(&["terminal", "ls", id], &name).await,
                    "screen" => words.say(&["terminal", "screen", &one]),
                    "delete" => words.say(&["terminal", "rm", &one]),
                    "resize" => {
                        let mut side = |name: &str| words.args.0.remove(name).unwrap().to_string();
                        let (cols, rows) = (side("cols"), side("rows"));
                        words.say(&["terminal", "resize", &one, &cols, &rows])
                    }
                    _ => panic!("there is no call terminal.{verb}"),
                }
            }
        };
        Ok(self.object(&words.json(), None).await)
    }

    async fn file_call(&self, verb: &str, mut words: Line) -> Said {
        let place = |path: String| format!("{}:{path}", self.id);
        if verb == "move" {
            let (from, to) = (place(words.args.text("from")), place(words.args.text("to")));
            let words = words.say(&["file", "mv", &from, &to]);
            return self.object(&words.json(), None).await;
        }
        let at = place(words.args.text("path"));
        let words = match verb {
            "write" => {
                let data = decoded(&mut words.args.0, "data");
                let words = words.say(&["file", "put", &at]);
                let words = words.switch("-a", "append").opt("--mode", "mode");
                return self.object(&words.json(), Some(data)).await;
            }
            "read" => {
                let output = self
                    .run(&words.say(&["file", "cat", &at]).json(), None)
                    .await;
                if output.status.success() {
                    return Ok(bytes(output.stdout, Encoding::Auto));
                }
                return Err(problem(&output));
            }
            "list" => words.say(&["file", "ls", &at]).switch("-R", "recursive"),
            "stat" => words.say(&["file", "stat", &at]),
            "mkdir" => words.say(&["file", "mkdir", &at]).switch("", "exist_ok"),
            "remove" => words.say(&["file", "rm", &at]).switch("-r", "recursive"),
            "chmod" => words.say(&["file", "chmod"]).word("mode").say(&[&at]),
            "find" => {
                let patterns = words.args.0.remove("patterns").unwrap();
                let [pattern] = patterns.as_array().unwrap().as_slice() else {
                    panic!("a find has one glob: {patterns}")
                };
                words.say(&["file", "find", pattern.as_str().unwrap(), &at])
            }
            "search" => words.say(&["file", "search"]).word("pattern").say(&[&at]),
            _ => panic!("there is no call file.{verb}"),
        };
        let mut words = words.json();
        words.retain(|word| !word.is_empty());
        self.object(&words, None).await
    }

    async fn watch_call(&self, verb: &str, mut words: Line) -> Said {
        let mut watches = self.watches.lock().await;
        match verb {
            "open" => {
                let name = words.args.text("as");
                let at = format!("{}:{}", self.id, words.args.text("path"));
                let mut watch = self.watching(&words.say(&["file", "watch", &at]).json());
                let ready = watch.next().await;
                watches.insert(name, watch);
                Ok(ready)
            }
            "until" => {
                let watch = watches.get_mut(&words.args.text("watch")).unwrap();
                Ok(watch.until(&words.args.0.remove("event").unwrap()).await)
            }
            "close" => {
                watches.remove(&words.args.text("watch")).unwrap();
                Ok(Value::Null)
            }
            _ => panic!("there is no call watch.{verb}"),
        }
    }

    async fn git_call(&self, verb: &str, mut words: Line) -> Said {
        let at = format!("{}:{}", self.id, words.args.text("path"));
        let words = match verb {
            "clone" => words.say(&["git", "clone"]).word("url").say(&[&at]),
            verb => {
                let mut words = words.say(&["git", verb, "-C", &at]);
                match verb {
                    "checkout" => words.word("target").switch("-b", "create"),
                    "add" => words.switch("-A", "all"),
                    "diff" => words.switch("--staged", "staged"),
                    "commit" => words.opt("-m", "message"),
                    "push" => {
                        let branch = words.args.text("branch");
                        words
                            .say(&["origin", &branch])
                            .switch("--set-upstream", "set_upstream")
                    }
                    _ => words,
                }
            }
        };
        self.object(&words.json(), None).await
    }

    async fn backup_call(&self, verb: &str, mut words: Line) -> Outcome {
        let id = self.id.as_str();
        let words = match verb {
            "create" => {
                let at = format!("{id}:{}", words.args.text("path"));
                let words = words.say(&["backup", "create", &at]).opt("--name", "id");
                words.each("--exclude", "exclude")
            }
            "list" => words.say(&["backup", "ls", id]),
            verb => {
                let name = words.args.text("backup");
                let one = format!("{id}/{name}");
                match verb {
                    "get" => return self.listed(&["backup", "ls", id], &name).await,
                    "restore" => words
                        .say(&["backup", "restore", &one])
                        .opt("--path", "path"),
                    "delete" => words.say(&["backup", "rm", &one]),
                    _ => panic!("there is no call backup.{verb}"),
                }
            }
        };
        Ok(self.object(&words.json(), None).await)
    }

    async fn port_call(&self, verb: &str, mut words: Line) -> Said {
        let id = self.id.as_str();
        let words = if verb == "list" {
            words.say(&["port", "ls", id])
        } else {
            let one = format!("{id}/{}", words.args.0.remove("port").unwrap());
            let words = words.say(&["port", verb, &one]);
            words.time("--timeout", "timeout_ms")
        };
        self.object(&words.json(), None).await
    }

    async fn context_call(&self, verb: &str, mut words: Line) -> Outcome {
        let id = self.id.as_str();
        let words = match verb {
            "create" => words
                .say(&["context", "create", id])
                .opt("--name", "id")
                .opt("-l", "language"),
            "list" => words.say(&["context", "ls", id]),
            verb => {
                let name = words.args.text("context");
                let one = format!("{id}/{name}");
                match verb {
                    "get" => return self.listed(&["context", "ls", id], &name).await,
                    "delete" => words.say(&["context", "rm", &one]),
                    "interrupt" | "restart" => words.say(&["context", verb, &one]),
                    "run" | "stream" => {
                        let words = words.say(&["context", "run", &one]).opt("-c", "code");
                        let words = words.time("--timeout", "timeout_ms").json();
                        let output = self.run(&words, None).await;
                        if output.stdout.is_empty() {
                            return Ok(Err(problem(&output)));
                        }
                        let mut run = Run::default();
                        for line in lines(&output) {
                            run.take(serde_json::from_value::<RunEvent>(line).unwrap());
                        }
                        return Ok(Ok(run.end()));
                    }
                    _ => panic!("there is no call context.{verb}"),
                }
            }
        };
        Ok(self.object(&words.json(), None).await)
    }

    /// One of a list, where no command shows it alone.
    async fn listed(&self, words: &[&str], id: &str) -> Outcome {
        let words = Line::new(Args::new()).say(words).json();
        let list = self.object(&words, None).await.unwrap();
        let mut items = list["items"].as_array().unwrap().iter();
        let found = items.find(|item| item["id"] == id).cloned();
        found.map(Ok).ok_or("one that is not in the list")
    }

    /// Runs a command whose answer is one object.
    async fn object(&self, words: &[String], stdin: Option<Vec<u8>>) -> Said {
        let output = self.run(words, stdin).await;
        if output.stdout.is_empty() {
            return Err(problem(&output));
        }
        let mut lines = lines(&output);
        assert_eq!(lines.len(), 1, "{words:?}: {lines:?}");
        Ok(lines.remove(0))
    }

    async fn run(&self, words: &[String], stdin: Option<Vec<u8>>) -> Output {
        let mut command = self.command(words);
        command.stdin(if stdin.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        });
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        if let Some(bytes) = stdin {
            let mut pipe = child.stdin.take().unwrap();
            // Who reads no more has seen enough.
            let _ = pipe.write_all(&bytes).await;
        }
        child.wait_with_output().await.unwrap()
    }

    /// Starts a command that tells one object a line.
    fn watching(&self, words: &[String]) -> Watch {
        let mut command = self.command(words);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        Watch {
            lines: BufReader::new(stdout).lines(),
            _child: child,
        }
    }

    fn command(&self, words: &[String]) -> Command {
        let mut command = Command::new(find_binary());
        command
            .args(words)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home.path())
            .env("SANDSHELL_URL", &self.url)
            .env("SANDSHELL_TOKEN", &self.token)
            .current_dir(self.home.path())
            .kill_on_drop(true);
        command
    }
}

impl Watch {
    async fn next(&mut self) -> Value {
        let line = self.lines.next_line().await.unwrap();
        serde_json::from_str(&line.expect("the command ended")).unwrap()
    }

    async fn until(&mut self, wanted: &Value) -> Value {
        let mut events = Vec::new();
        loop {
            let event = self.next().await;
            events.push(event);
            if events
                .last()
                .is_some_and(|event| unlike(event, wanted, "").is_ok())
            {
                return json!({"events": events});
            }
        }
    }
}

/// What `wait` waits for.
fn condition(mut words: Line) -> Line {
    words.args.0.remove("exit");
    if let Some(log) = words.args.0.remove("log") {
        words = words.say(&["--log", log["pattern"].as_str().unwrap()]);
        if log["regex"] == true {
            words = words.say(&["--regex"]);
        }
    }
    if let Some(port) = words.args.0.remove("port") {
        words = words.say(&["--port", &port["port"].to_string()]);
    }
    words.time("--timeout", "timeout_ms")
}

/// The problem that a command failed with.
fn problem(output: &Output) -> Value {
    let told = String::from_utf8_lossy(&output.stderr);
    serde_json::from_str(told.trim()).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn lines(output: &Output) -> Vec<Value> {
    let text = std::str::from_utf8(&output.stdout).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The result of a command whose output came as it was.
fn streamed(output: &Output) -> Value {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    json!({
        "stdout": text(&output.stdout),
        "stderr": text(&output.stderr),
        "exit_code": output.status.code(),
    })
}
