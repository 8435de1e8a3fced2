//! One way to run a command, and all of them together.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use sandshell_client::Client;
use sandshell_exec::{Config, Executor, SessionHandle};
use sandshell_isolate::InitHandle;
use sandshell_testkit::{Agent, Hub};
use sandshell_types::{Encoding, SandboxId, SandboxSpec, SessionId, SessionRequest};
use tempfile::TempDir;

use super::e2b::E2b;
use super::{Kind, Peer, asked_by};
use crate::exec::{once, shell};
use crate::floor::{Program, Repl};
use crate::sessions::{command, exec};

pub(super) struct Way {
    name: String,
    by: By,
}

enum By {
    Floor(Program, Mutex<Repl>),
    Core(Box<Executor>, SessionHandle),
    Http(Client, SessionId),
    E2b(E2b),
}

/// All ways, and what must live as long as they are used.
pub(super) struct Ways {
    pub(super) all: Vec<Way>,
    _state: TempDir,
    _agents: Vec<Agent>,
    _hub: Hub,
}

impl Ways {
    pub(super) async fn start(init: InitHandle, peers: &[Peer]) -> Result<Self> {
        let state = TempDir::with_prefix("sandshell-bench-")?;
        let config = Config::new(state.path().to_owned());
        let executor = Executor::start(init, config).await?;
        let (session, _) = executor.create_session(SessionRequest::default()).await?;
        let off = Agent::builder().args(["--isolation", "off"]).start();
        let agent = Agent::start();
        let hub = Hub::start();
        let client = hub.client();
        let made = client.create_sandbox(&SandboxSpec::default()).await?;
        let mut all = vec![
            Way {
                name: "bash itself, vfork".to_owned(),
                by: By::Floor(Program::bash()?, Mutex::new(Repl::start()?)),
            },
            Way {
                name: "our core, in process".to_owned(),
                by: By::Core(Box::new(executor), session),
            },
            Way::http("agent, isolation off", off.client()).await?,
            Way::http("agent by itself", agent.client()).await?,
            Way::http("hub, strict sandbox", client.sandbox(&made.id)).await?,
        ];
        for peer in peers {
            all.push(
                Way::peer(peer)
                    .await
                    .with_context(|| format!("peer {}", peer.name))?,
            );
        }
        Ok(Self {
            all,
            _state: state,
            _agents: vec![off, agent],
            _hub: hub,
        })
    }

    /// Leaves nothing behind, at peers neither.
    pub(super) async fn end(self) -> Result<()> {
        for way in self.all {
            match way.by {
                By::Floor(..) => {}
                By::Core(executor, _) => executor.shutdown().await,
                By::Http(client, session) => client.delete_session(&session).await.map(drop)?,
                By::E2b(e2b) => e2b.end().await?,
            }
        }
        Ok(())
    }
}

impl Way {
    async fn http(name: &str, client: Client) -> Result<Self> {
        let session = client.create_session(&SessionRequest::default()).await?.id;
        Ok(Self {
            name: name.to_owned(),
            by: By::Http(client, session),
        })
    }

    async fn peer(peer: &Peer) -> Result<Self> {
        if peer.kind == Kind::E2b {
            return Ok(Self {
                name: peer.name.clone(),
                by: By::E2b(E2b::connect(&peer.url, peer.token.as_deref()).await?),
            });
        }
        let client = match peer.url.split_once("/v1/sandboxes/") {
            Some((hub, sandbox)) => {
                let id: SandboxId = sandbox.parse()?;
                Client::new(hub, peer.token.as_deref())?.sandbox(&id)
            }
            None => Client::new(&peer.url, peer.token.as_deref())?,
        };
        Self::http(&peer.name, client).await
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn is_floor(&self) -> bool {
        matches!(self.by, By::Floor(..))
    }

    pub(super) fn has_sessions(&self) -> bool {
        !matches!(self.by, By::E2b(_))
    }

    /// Runs `true` once: by `exec`, or in a session.
    pub(super) async fn once(&self, what: &str) -> Result<()> {
        let in_session = what == "session";
        match &self.by {
            By::Floor(program, _) if !in_session => program.run_with_pipes(),
            By::Floor(_, repl) => {
                let mut repl = repl.lock().ok().context("a bash behind a pipe")?;
                repl.once()
            }
            By::Core(executor, _) if !in_session => {
                let (process, _) = executor.exec(shell("true")).await?;
                ensure!(process.exec_result(Encoding::Auto).await?.exit_code == 0);
                Ok(())
            }
            By::Core(_, session) => {
                let (running, _) = session.exec(command("true"))?;
                ensure!(running.result(Encoding::Auto).await?.exit_code == 0);
                Ok(())
            }
            By::Http(client, _) if !in_session => once(client, &shell("true")).await,
            By::Http(client, session) => exec(client, session, "true").await.map(drop),
            By::E2b(e2b) => e2b.run("true").await,
        }
    }

    /// Commands a second with so many under way at once.
    pub(super) async fn rate(&self, at_once: usize, period: Duration) -> Result<f64> {
        match &self.by {
            By::Floor(program, _) => by_threads(program, at_once, period),
            _ => asked_by(self, at_once, period).await,
        }
    }
}

/// Bash itself knows no waiting without a thread.
fn by_threads(program: &Program, threads: usize, period: Duration) -> Result<f64> {
    let (count, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while start.elapsed() < period && !failed.load(Ordering::Relaxed) {
                    match program.run_with_pipes() {
                        Ok(()) => count.fetch_add(1, Ordering::Relaxed),
                        Err(_) => usize::from(failed.swap(true, Ordering::Relaxed)),
                    };
                }
            });
        }
    });
    ensure!(!failed.into_inner(), "bash failed");
    Ok(count.into_inner() as f64 / start.elapsed().as_secs_f64())
}
