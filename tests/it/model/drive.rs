//! Makes the calls of a sequence against a real agent and compares each answer with what the model said.

mod events;
mod processes;
mod sessions;
mod terminals;

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Mutex;

use sandshell_client::types::{Encoded, ExecRequest, ExecResult, KillReply, TextEncoding};
use sandshell_client::{
    ByteStream, Client, ClientError, EventStream, Page, ProcessFilter, TerminalConnection,
};
use sandshell_testkit::wait_until_gone;

pub(super) use self::events::Events;
use super::act::{Act, Answer, Exit, Expected, Killed};
use crate::calls::{DEADLINE, Heard, exec_of, in_time};

/// What is wrong, in words.
pub(super) type Check = Result<(), String>;

/// Fails with a text when something does not hold.
macro_rules! ensure {
    ($holds:expr, $($text:tt)*) => {
        if !$holds {
            return Err(format!($($text)*));
        }
    };
}
pub(super) use ensure;

/// Ids that the agent chose in the whole run: none may come twice.
#[derive(Debug, Default)]
pub(super) struct Chosen(Mutex<std::collections::HashSet<String>>);

impl Chosen {
    fn is_new(&self, id: &str) -> bool {
        self.0.lock().unwrap().insert(id.to_owned())
    }
}

/// The client of one sequence.
pub(super) struct Driver<'a> {
    client: Client,
    /// Ids of the sequence begin with it.
    prefix: String,
    chosen: &'a Chosen,
    /// Streams of commands that run or wait.
    streams: HashMap<String, EventStream>,
    /// What they have said, also when the client has gone.
    heard: HashMap<String, Heard>,
    /// Outputs of processes that are being read.
    outputs: HashMap<String, ByteStream>,
    /// Connections to terminals, and the offset each is at.
    terminals: HashMap<String, (TerminalConnection, u64)>,
    /// The shell of each session, and how often it had been replaced.
    shells: HashMap<String, (i32, u32)>,
    /// Every process that an answer told of, by its pid in the sandbox.
    pids: Vec<i32>,
}

impl<'a> Driver<'a> {
    pub(super) fn new(client: Client, prefix: &str, chosen: &'a Chosen) -> Self {
        Self {
            client,
            prefix: prefix.to_owned(),
            chosen,
            streams: HashMap::new(),
            heard: HashMap::new(),
            outputs: HashMap::new(),
            terminals: HashMap::new(),
            shells: HashMap::new(),
            pids: Vec::new(),
        }
    }

    /// Processes that must not be left at the end.
    pub(super) fn knows(&mut self, pids: impl IntoIterator<Item = i32>) {
        self.pids.extend(pids);
    }

    /// Makes the sequence's directory.
    pub(super) async fn prepare(&self, dir: &str) -> Check {
        self.shell(&format!("mkdir -p {dir}")).await.map(|_| ())
    }

    pub(super) async fn perform(&mut self, act: &Act) -> Check {
        match act {
            Act::Exec { request, expect } => self.exec(request, expect).await,
            Act::Abandon { request, gate } => self.abandon(request, gate).await,
            Act::Open { gate } => self.shell(&format!("echo open >{gate}")).await.map(|_| ()),
            Act::List {
                sessions,
                processes,
                terminals,
            } => self.list(sessions, processes, terminals).await,
            Act::CreateSession { .. }
            | Act::Fork { .. }
            | Act::Session { .. }
            | Act::Run { .. }
            | Act::Begin { .. }
            | Act::UntilGo { .. }
            | Act::Finish { .. }
            | Act::Disconnect { .. }
            | Act::Interrupt { .. }
            | Act::KillShell { .. }
            | Act::Patch { .. }
            | Act::History { .. }
            | Act::CommandOutput { .. }
            | Act::CommandEvents { .. }
            | Act::DeleteSession { .. } => self.in_session(act).await,
            Act::StartProcess { .. }
            | Act::UntilOutput { .. }
            | Act::Process { .. }
            | Act::Write { .. }
            | Act::CloseStdin { .. }
            | Act::Signal { .. }
            | Act::Kill { .. }
            | Act::DeleteProcess { .. }
            | Act::OpenOutput { .. }
            | Act::RestOfOutput { .. }
            | Act::Wait { .. }
            | Act::Output { .. }
            | Act::Events { .. } => self.with_process(act).await,
            Act::CreateTerminal { .. }
            | Act::Terminal { .. }
            | Act::Resize { .. }
            | Act::Type { .. }
            | Act::Watch { .. }
            | Act::Attach { .. }
            | Act::Detach { .. }
            | Act::DeleteTerminal { .. } => self.at_terminal(act).await,
        }
    }

    /// After the last call: no process is left, neither one that an answer told of nor one that those
    /// started. Removes the sequence's directory.
    pub(super) async fn nothing_is_left(&self, dir: &str, marker: &str) -> Check {
        let pids: Vec<String> = self.pids.iter().map(ToString::to_string).collect();
        let look = format!(
            "rm -rf {dir}; for p in {}; do grep -s '^State:\\s*[^ZX[:space:]]' /proc/$p/status && echo $p; done; :",
            pids.join(" ")
        );
        let left = self.shell(&look).await?;
        ensure!(left.stdout.is_empty(), "still alive: {}", left.stdout);
        let left = wait_until_gone(marker, std::time::Duration::ZERO);
        ensure!(left.is_empty(), "children are still alive: {left:?}");
        Ok(())
    }

    /// Whatever a failed sequence left is removed, so that the next begins with nothing.
    pub(super) async fn clear(&mut self) {
        self.streams.clear();
        self.terminals.clear();
        let (sessions, processes, terminals) = self.ids().await;
        for id in sessions.iter().filter(|id| id.starts_with(&self.prefix)) {
            let _ = self.client.delete_session(&id.parse().unwrap()).await;
        }
        for id in processes.iter().filter(|id| id.starts_with(&self.prefix)) {
            let _ = self.client.delete_process(&id.parse().unwrap()).await;
        }
        for id in terminals.iter().filter(|id| id.starts_with(&self.prefix)) {
            let _ = self.client.delete_terminal(&id.parse().unwrap()).await;
        }
    }

    async fn ids(&self) -> (Vec<String>, Vec<String>, Vec<String>) {
        let page = Page {
            limit: Some(1000),
            cursor: None,
        };
        let filter = ProcessFilter {
            page: page.clone(),
            ..ProcessFilter::default()
        };
        let sessions = in_time(self.client.list_sessions(&page)).await.unwrap();
        let processes = in_time(self.client.list_processes(&filter)).await.unwrap();
        let terminals = in_time(self.client.list_terminals(&page)).await.unwrap();
        (
            sessions.items.iter().map(|s| s.id.to_string()).collect(),
            processes.items.iter().map(|p| p.id.to_string()).collect(),
            terminals.items.iter().map(|t| t.id.to_string()).collect(),
        )
    }

    /// Other sequences run beside this one: theirs are left out.
    async fn list(&self, sessions: &[String], processes: &[String], terminals: &[String]) -> Check {
        let (s, p, t) = self.ids().await;
        for (what, have, want) in [
            ("sessions", s, sessions),
            ("processes", p, processes),
            ("terminals", t, terminals),
        ] {
            let own: Vec<_> = have
                .into_iter()
                .filter(|id| id.starts_with(&self.prefix))
                .collect();
            ensure!(own == want, "{what}: {own:?} instead of {want:?}");
        }
        Ok(())
    }

    /// A command of the test's own.
    async fn shell(&self, command: &str) -> Result<ExecResult, String> {
        let sent = in_time(self.client.exec(&exec_of(command))).await;
        let result = sent.map_err(|error| format!("{command}: {error}"))?;
        ensure!(result.exit_code == 0, "{command}: {result:?}");
        Ok(result)
    }

    async fn exec(&self, request: &ExecRequest, expect: &Answer<Expected>) -> Check {
        let reply = in_time(self.client.exec(request)).await;
        let Some((result, expect)) = answer(reply, expect)? else {
            return Ok(());
        };
        let id = result.id.to_string();
        match &request.id {
            Some(chosen) => ensure!(chosen.as_str() == id, "the id is {id}"),
            None => ensure!(self.chosen.is_new(&id), "the id {id} came twice"),
        }
        let omitted = result.truncated.map(|t| (t.stdout_bytes, t.stderr_bytes));
        ensure!(
            omitted == expect.omitted,
            "omitted: {omitted:?} instead of {:?}",
            expect.omitted
        );
        exit_is((result.exit_code, result.signal.as_deref()), &expect.exits)?;
        ensure!(
            (result.timed_out, result.oom) == (expect.timed_out, false)
                && expect.left.contains(&result.left_running),
            "{result:?}"
        );
        text_is(
            "stdout",
            &result.stdout,
            result.stdout_encoding,
            &expect.stdout,
        )?;
        text_is(
            "stderr",
            &result.stderr,
            result.stderr_encoding,
            &expect.stderr,
        )
    }

    async fn abandon(&self, request: &ExecRequest, gate: &str) -> Check {
        self.shell(&format!("mkfifo {gate}")).await?;
        let client = self.client.clone();
        let abandoned = request.clone();
        let sent = tokio::spawn(async move { client.exec(&abandoned).await });
        self.shell(&format!("cat {gate}")).await?;
        sent.abort();
        let _ = sent.await;
        Ok(())
    }
}

/// The answer and what it should be; `None` when a refusal was expected and came.
fn answer<T: Debug, U>(
    reply: Result<T, ClientError>,
    expect: &Answer<U>,
) -> Result<Option<(T, &U)>, String> {
    match (reply, expect) {
        (Ok(reply), Ok(expect)) => Ok(Some((reply, expect))),
        (Err(error), Err(code)) if error.code() == Some(*code) => Ok(None),
        (Ok(reply), Err(code)) => Err(format!("{code:?} was expected: {reply:?}")),
        (Err(error), Ok(_)) => Err(format!("refused: {error}")),
        (Err(error), Err(code)) => Err(format!("{code:?} was expected: {error}")),
    }
}

fn exit_is(exit: (i32, Option<&str>), allowed: &[Exit]) -> Check {
    ensure!(
        allowed.contains(&(exit.0, exit.1.map(known_signal))),
        "the exit is {exit:?} instead of {allowed:?}"
    );
    Ok(())
}

/// The same name with a long life.
fn known_signal(name: &str) -> &'static str {
    const KNOWN: &[&str] = &["SIGHUP", "SIGINT", "SIGUSR1", "SIGTERM", "SIGKILL"];
    KNOWN
        .iter()
        .find(|known| **known == name)
        .unwrap_or(&"another signal")
}

fn text_is(what: &str, text: &str, encoding: TextEncoding, allowed: &[Vec<u8>]) -> Check {
    let Some(bytes) = Encoded::decode(text, encoding) else {
        return Err(format!("{what} is not {encoding:?}: {text}"));
    };
    bytes_are(what, &bytes, allowed)
}

/// No value at all allows everything.
fn bytes_are(what: &str, bytes: &[u8], allowed: &[Vec<u8>]) -> Check {
    ensure!(
        allowed.is_empty() || allowed.iter().any(|value| value == bytes),
        "{what} is {} instead of {}",
        shown(bytes),
        allowed
            .iter()
            .map(|value| shown(value))
            .collect::<Vec<_>>()
            .join(" or ")
    );
    Ok(())
}

fn shown(bytes: &[u8]) -> String {
    let start = bytes.get(..bytes.len().min(200)).unwrap_or_default();
    format!(
        "{:?} ({} bytes)",
        String::from_utf8_lossy(start),
        bytes.len()
    )
}

fn killed_is(reply: &KillReply, expect: &Killed) -> Check {
    ensure!(
        expect.methods.contains(&reply.method.as_str())
            && expect.count.contains(&reply.killed)
            && reply.survivors.is_empty(),
        "{reply:?} instead of {expect:?}"
    );
    Ok(())
}

/// One deadline for a whole act.
pub(super) async fn act_in_time(driver: &mut Driver<'_>, act: &Act) -> Check {
    tokio::time::timeout(DEADLINE, driver.perform(act))
        .await
        .unwrap_or_else(|_| Err(format!("there was no answer in {DEADLINE:?}")))
}
