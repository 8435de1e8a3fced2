//! Who sends the requests: workers that each have something of their own to send them to.
//!
//! An arrival takes the worker that has been idle for longest, so that all sessions and terminals are
//! used in turn. When all are busy it waits for one, which counts as latency: a session runs one
//! command at a time, whoever asks.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, bail, ensure};
use sandshell_client::{
    Client, ConnectOptions, OutputStreamEvent, TerminalConnection, TerminalEvent,
};
use sandshell_types::{SessionId, SessionRequest, TerminalRequest};
use tokio::sync::Semaphore;

use crate::hub::exec;
use crate::sessions::{self, command};

/// Sessions or terminals in each sandbox.
const EACH: usize = 16;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Exec,
    Session,
    Stream,
    Terminal,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Session, Self::Exec, Self::Stream, Self::Terminal];

    /// What the command line and the rows call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Exec => "exec",
            Self::Session => "session",
            Self::Stream => "stream",
            Self::Terminal => "terminal",
        }
    }

    pub(crate) fn what(self) -> &'static str {
        match self {
            Self::Exec => "exec of true",
            Self::Session => "session exec of true",
            Self::Stream => "session exec of ten lines as events",
            Self::Terminal => "keystroke to its echo by cat",
        }
    }
}

enum Worker {
    Exec(Client),
    Session(Client, SessionId),
    Stream(Client, SessionId),
    Terminal(Box<TerminalConnection>),
}

pub(crate) struct Crew {
    idle: Mutex<VecDeque<Worker>>,
    free: Semaphore,
}

impl Crew {
    /// Makes a crew for one kind of load, spread over sandboxes.
    pub(crate) async fn hire(kind: Kind, sandboxes: &[Client]) -> Result<Self> {
        let mut workers = VecDeque::new();
        for _ in 0..EACH {
            for sandbox in sandboxes {
                workers.push_back(Worker::hire(kind, sandbox).await?);
            }
        }
        let free = Semaphore::new(workers.len());
        Ok(Self {
            idle: Mutex::new(workers),
            free,
        })
    }

    /// One request, by whoever is free.
    pub(crate) async fn once(&self) -> Result<()> {
        let permit = self.free.acquire().await?;
        let mut worker = self.take().context("as many workers as permits")?;
        let outcome = worker.once().await;
        self.put(worker);
        drop(permit);
        outcome
    }

    fn take(&self) -> Option<Worker> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.pop_front()
    }

    fn put(&self, worker: Worker) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push_back(worker);
    }
}

impl Worker {
    async fn hire(kind: Kind, sandbox: &Client) -> Result<Self> {
        let client = sandbox.clone();
        Ok(match kind {
            Kind::Exec => Self::Exec(client),
            Kind::Session | Kind::Stream => {
                let id = client.create_session(&SessionRequest::default()).await?.id;
                sessions::exec(&client, &id, "true").await?;
                match kind {
                    Kind::Stream => Self::Stream(client, id),
                    _ => Self::Session(client, id),
                }
            }
            Kind::Terminal => Self::Terminal(Box::new(echoing(&client).await?)),
        })
    }

    async fn once(&mut self) -> Result<()> {
        match self {
            Self::Exec(client) => exec(client).await,
            Self::Session(client, id) => sessions::exec(client, id, "true").await.map(drop),
            Self::Stream(client, id) => ten_lines(client, id).await,
            Self::Terminal(connection) => {
                connection.type_in("k").await?;
                let said = bytes(connection).await?;
                ensure!(said == "k", "the echo is {said:?}");
                Ok(())
            }
        }
    }
}

async fn ten_lines(client: &Client, id: &SessionId) -> Result<()> {
    let text = "for n in 0 1 2 3 4 5 6 7 8 9; do echo line $n; done";
    let mut events = client.session_exec_stream(id, &command(text)).await?;
    let mut said = String::new();
    while let Some(event) = events.next().await {
        match event?.event {
            OutputStreamEvent::Output(output) => said.push_str(&output.data),
            OutputStreamEvent::Exit(exit) => {
                ensure!(exit.exit_code == Some(0), "it ended with {exit:?}");
                ensure!(said.lines().count() == 10, "it said {said:?}");
                // To the end, so that the connection can be used again.
                while events.next().await.is_some() {}
                return Ok(());
            }
            _ => {}
        }
    }
    bail!("the stream ended without an exit")
}

/// A terminal on which `cat` answers every key.
async fn echoing(client: &Client) -> Result<TerminalConnection> {
    const READY: &str = "ready";
    let made = client
        .create_terminal(&TerminalRequest {
            command: Some(format!("stty raw -echo; printf {READY}; exec cat")),
            ..TerminalRequest::default()
        })
        .await?;
    let from_the_start = ConnectOptions {
        offset: Some(0),
        ..ConnectOptions::default()
    };
    let mut connection = client.connect_terminal(&made.id, from_the_start).await?;
    let mut said = String::new();
    while said != READY {
        said.push_str(&bytes(&mut connection).await?);
        ensure!(READY.starts_with(&said), "the terminal said {said:?}");
    }
    Ok(connection)
}

/// The next bytes of a terminal.
async fn bytes(connection: &mut TerminalConnection) -> Result<String> {
    loop {
        match connection.next().await?.context("the terminal closed")? {
            TerminalEvent::Bytes(bytes) => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
            TerminalEvent::Closed { code, reason } => bail!("closed with {code}: {reason}"),
            _ => {}
        }
    }
}
