//! Short forms of calls, and plain bash as the oracle.

use std::collections::BTreeMap;
use std::future::Future;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sandshell_client::types::{
    CommandId, Encoded, Encoding, ErrorCode, ExecRequest, ExecResult, ExitEvent, LogCondition,
    OutputEvent, ProcessId, ProcessRequest, SessionExecRequest, SessionExecResult, SessionId,
    SessionRecord, SessionRequest, StreamName, TruncatedEvent, WaitOutcome, WaitReply, WaitRequest,
};
use sandshell_client::{Client, ClientError, EventStream, OutputQuery, OutputStreamEvent};
use sandshell_testkit::Agent;
pub(crate) use sandshell_testkit::skipped;

/// The one deadline: far above any honest answer, also on a loaded machine whose disk stands still for a while.
pub(crate) const DEADLINE: Duration = Duration::from_secs(150);

/// Fails instead of hanging.
pub(crate) async fn in_time<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, what)
        .await
        .expect("there was no answer in time")
}

/// A text that no other process on the machine has.
pub(crate) fn marker() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut random = [0; 8];
    std::io::Read::read_exact(
        &mut std::fs::File::open("/dev/urandom").unwrap(),
        &mut random,
    )
    .unwrap();
    let random = u64::from_ne_bytes(random);
    format!("mark-{}-{n}-{random:x}", std::process::id())
}

/// What plain bash makes of a text, in the environment that commands get.
pub(crate) fn plain_bash(text: &str) -> Output {
    Command::new("bash")
        .args(["--norc", "--noprofile", "-c", text])
        .env_clear()
        .env(
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        )
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

pub(crate) fn exec_of(command: &str) -> ExecRequest {
    ExecRequest {
        command: Some(command.to_owned()),
        ..Default::default()
    }
}

pub(crate) fn process_of(command: &str) -> ProcessRequest {
    ProcessRequest {
        command: Some(command.to_owned()),
        ..Default::default()
    }
}

pub(crate) fn env(pairs: &[(&str, Option<&str>)]) -> BTreeMap<String, Option<String>> {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.map(str::to_owned)))
        .collect()
}

pub(crate) async fn exec(client: &Client, command: &str) -> ExecResult {
    in_time(client.exec(&exec_of(command))).await.unwrap()
}

/// The bytes of both streams of a result.
pub(crate) fn bytes_of(result: &ExecResult) -> (Vec<u8>, Vec<u8>) {
    (
        Encoded::decode(&result.stdout, result.stdout_encoding).unwrap(),
        Encoded::decode(&result.stderr, result.stderr_encoding).unwrap(),
    )
}

pub(crate) fn session_bytes_of(result: &SessionExecResult) -> (Vec<u8>, Vec<u8>) {
    (
        Encoded::decode(&result.stdout, result.stdout_encoding).unwrap(),
        Encoded::decode(&result.stderr, result.stderr_encoding).unwrap(),
    )
}

pub(crate) fn code_of<T: std::fmt::Debug>(reply: Result<T, ClientError>) -> ErrorCode {
    let error = reply.expect_err("a refusal was expected");
    error
        .code()
        .unwrap_or_else(|| panic!("no problem document: {error:?}"))
}

pub(crate) async fn start(client: &Client, request: &ProcessRequest) -> ProcessId {
    in_time(client.create_process(request)).await.unwrap().id
}

pub(crate) async fn wait_for_text(client: &Client, id: &ProcessId, text: &str) -> WaitReply {
    let request = WaitRequest {
        log: Some(LogCondition {
            pattern: text.to_owned(),
            ..Default::default()
        }),
        ..Default::default()
    };
    let reply = in_time(client.wait_process(id, &request)).await.unwrap();
    assert_eq!(
        reply.outcome,
        WaitOutcome::Log,
        "{text:?} never came: {reply:?}"
    );
    reply
}

pub(crate) async fn wait_for_exit(client: &Client, id: &ProcessId) -> WaitReply {
    let reply = in_time(client.wait_process(id, &WaitRequest::default()))
        .await
        .unwrap();
    assert_eq!(reply.outcome, WaitOutcome::Exit);
    reply
}

/// All of a process's stream until it ends.
pub(crate) async fn follow(client: &Client, id: &ProcessId, stream: StreamName) -> Vec<u8> {
    let body = client
        .process_output(id, OutputQuery::follow(stream))
        .await
        .unwrap();
    in_time(body.read_to_end()).await.unwrap().to_vec()
}

/// What an event stream said, put together. Checks that every stream has each byte once and in order, and that the
/// numbers of events never go back.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) late: Vec<u8>,
    pub(crate) truncated: Vec<TruncatedEvent>,
    /// Offset of the first byte in `stdout` and `stderr`.
    pub(crate) first: [Option<u64>; 2],
    pub(crate) command_id: Option<CommandId>,
    pub(crate) exit: Option<ExitEvent>,
    pub(crate) last_id: Option<u64>,
    /// The offset that comes next in each stream.
    next: [Option<u64>; 4],
    /// Whether a resume may have been to before the end of stdout and stderr.
    resumed: [bool; 2],
}

impl Heard {
    /// Where another connection goes on. While a part of a character is held back the number stays before it, so
    /// that what the other stream said since then comes again: what was said before, and nothing else.
    pub(crate) fn resume(&mut self) -> Option<u64> {
        self.resumed = [true; 2];
        self.last_id
    }

    fn take(&mut self, piece: &OutputEvent) {
        let mut data = Encoded::decode(&piece.data, piece.encoding).unwrap();
        let mut offset = piece.offset;
        let stream = piece.stream as usize;
        let kept = match piece.stream {
            StreamName::Stdout => &mut self.stdout,
            StreamName::Stderr => &mut self.stderr,
            StreamName::LateStdout | StreamName::LateStderr => &mut self.late,
        };
        let next = self.next[stream].get_or_insert(offset);
        if let Some(first) = self.first.get_mut(stream) {
            let first = *first.get_or_insert(offset);
            if self.resumed[stream] && offset < *next {
                let at = usize::try_from(offset - first).unwrap();
                let again = data.len().min(kept.len() - at);
                let known: Vec<u8> = data.drain(..again).collect();
                assert_eq!(known, kept[at..at + again], "{piece:?} was told otherwise");
                offset += again as u64;
                if data.is_empty() {
                    return;
                }
            }
            self.resumed[stream] = false;
        }
        assert_eq!(offset, *next, "a gap before {piece:?}, or it came twice");
        *next += data.len() as u64;
        kept.extend(data);
    }

    /// Reads on; false at the end of the stream.
    pub(crate) async fn next(&mut self, events: &mut EventStream) -> bool {
        let Some(event) = in_time(events.next()).await else {
            return false;
        };
        let event = event.unwrap();
        assert!(self.exit.is_none(), "{event:?} came after the exit");
        if let Some(id) = event.id {
            assert!(
                self.last_id <= Some(id),
                "{event:?} after {:?}",
                self.last_id
            );
            self.last_id = Some(id);
        }
        match event.event {
            OutputStreamEvent::Output(piece) => self.take(&piece),
            OutputStreamEvent::Truncated(gone) => self.truncated.push(gone),
            OutputStreamEvent::Exit(exit) => self.exit = Some(exit),
            OutputStreamEvent::Started { command_id } => {
                assert_eq!(self.command_id, None, "it started twice");
                self.command_id = Some(command_id);
            }
            other => panic!("{other:?}"),
        }
        true
    }

    pub(crate) async fn until_stdout_has(&mut self, events: &mut EventStream, text: &str) {
        while !String::from_utf8_lossy(&self.stdout).contains(text) {
            assert!(self.next(events).await, "{text:?} never came: {self:?}");
        }
    }

    pub(crate) async fn until_the_end(&mut self, events: &mut EventStream) {
        while self.next(events).await {}
        assert!(
            self.exit.is_some(),
            "the stream ended without an exit: {self:?}"
        );
    }
}

/// A session and the client that made it.
pub(crate) struct Shell {
    pub(crate) client: Client,
    pub(crate) id: SessionId,
}

/// A command that is known to run.
pub(crate) struct RunningCommand {
    pub(crate) request: SessionExecRequest,
    pub(crate) events: EventStream,
    pub(crate) heard: Heard,
}

impl Shell {
    pub(crate) async fn new(agent: &Agent) -> Self {
        Self::with(agent, &SessionRequest::default()).await
    }

    pub(crate) async fn with(agent: &Agent, request: &SessionRequest) -> Self {
        Self::made_by(agent.client(), request).await
    }

    /// A session in the sandbox of this client.
    pub(crate) async fn of(client: &Client) -> Self {
        Self::made_by(client.clone(), &SessionRequest::default()).await
    }

    async fn made_by(client: Client, request: &SessionRequest) -> Self {
        let id = in_time(client.create_session(request)).await.unwrap().id;
        Self { client, id }
    }

    pub(crate) async fn ask(&self, request: &SessionExecRequest) -> SessionExecResult {
        in_time(self.client.session_exec(&self.id, request))
            .await
            .unwrap()
    }

    pub(crate) async fn run(&self, command: &str) -> SessionExecResult {
        self.ask(&text(command)).await
    }

    /// The output of a command that must succeed and say nothing on stderr.
    pub(crate) async fn out(&self, command: &str) -> String {
        let result = self.run(command).await;
        assert_eq!(
            (result.exit_code, result.stderr.as_str()),
            (0, ""),
            "{command}: {result:?}"
        );
        result.stdout
    }

    /// Starts a command and waits until it has printed `go`.
    pub(crate) async fn go(&self, command: &str) -> RunningCommand {
        let request = SessionExecRequest {
            id: Some(CommandId::generate()),
            ..text(&format!("echo go; {command}"))
        };
        let mut events = self
            .client
            .session_exec_stream(&self.id, &request)
            .await
            .unwrap();
        let mut heard = Heard::default();
        heard.until_stdout_has(&mut events, "go\n").await;
        RunningCommand {
            request,
            events,
            heard,
        }
    }

    /// The result of a command that was started by `go`.
    pub(crate) async fn result(&self, command: &RunningCommand) -> SessionExecResult {
        self.ask(&command.request).await
    }

    pub(crate) async fn record(&self) -> SessionRecord {
        in_time(self.client.session(&self.id)).await.unwrap()
    }

    /// Bytes of one stream of a command, until they end.
    pub(crate) async fn follow(&self, id: &CommandId, stream: StreamName) -> Vec<u8> {
        let query = OutputQuery::follow(stream);
        let body = self
            .client
            .command_output(&self.id, id, query)
            .await
            .unwrap();
        in_time(body.read_to_end()).await.unwrap().to_vec()
    }
}

pub(crate) fn text(command: &str) -> SessionExecRequest {
    SessionExecRequest {
        command: command.to_owned(),
        ..Default::default()
    }
}

pub(crate) fn in_base64(command: &str) -> SessionExecRequest {
    SessionExecRequest {
        encoding: Encoding::Base64,
        ..text(command)
    }
}
