//! One sandbox, assembled: the execution core, its HTTP API, and the life of the agent process.
//!
//! # Theory of operation
//!
//! ```text
//!  listen ─► server ─► edge ─► api ─► sandshell_exec ─► init ─► programs
//!            (tasks)  (id, token,  (routes =
//!                      problems,    OpenAPI)
//!                      keys)
//! ```
//!
//! [`serve`] takes a running init and the state directory, binds the socket, says that it is ready
//! and serves until it is told to end, its supervised command ends, or init is lost. Handlers hold no
//! state: whatever lives longer than a request belongs to the execution core.
//!
//! # Invariants
//!
//! - Every failure leaves as a problem document with the request's id; `problem` is the only place
//!   where an error of the core gets a code.
//! - The route table and the `OpenAPI` document are made from one list.
//! - What has been begun is finished when its client goes away, unless the client asked for a kill.
//! - Output is streamed, never gathered; a stream that ends early breaks off visibly.
//! - No channel, table or body is unbounded.

mod api;
mod auth;
mod browsers;
mod ebb;
mod edge;
mod extract;
pub mod front;
#[doc(hidden)]
pub mod fuzzing;
mod idempotency;
mod listen;
mod metrics;
mod naming;
mod ports;
mod problem;
mod ready;
pub mod relay;
mod request_id;
mod server;
mod sse;
mod state_dir;
mod supervise;
mod ticket;
mod token;
mod unread;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sandshell_contexts::{ContextError, Contexts};
use sandshell_exec::space::Space;
use sandshell_exec::{Config, ExecError, Executor, StartError};
use sandshell_files::watch::Watches;
use sandshell_files::{BACKUP_BYTES, Backups};
use sandshell_isolate::InitHandle;
use sandshell_isolate::plan::OUT_OF_MEMORY;
use sandshell_isolate::stage::{Outcome, Seat, Step};
use sandshell_sys::{task, turn};
use sandshell_types::{Happening, Protection, ProtectionStatus};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use api::{openapi_json, prepare};
pub use browsers::Origin;
pub use listen::Listen;
pub use state_dir::StateDirError;
pub use token::{Token, TokenError};

#[doc(hidden)]
pub use pastey;

/// What the hub's edge is made of too, so that both answer alike.
pub mod parts {
    pub use crate::api::document::complete::complete;
    pub use crate::api::document::{compact, responses, unpack};
    pub use crate::api::explorer::{docs, with_tag};
    pub use crate::api::paging::{PageQuery, page};
    pub use crate::api::routes::{Route, RouteFacts, Routes};
    pub use crate::api::service::{__path_healthz, __path_version, healthz, version};
    pub use crate::api::table::{Row, filter, router};
    pub use crate::auth::OPEN;
    pub use crate::browsers::{Browsers, Caller, is_websocket, take_parameter};
    pub use crate::edge::{IDEMPOTENCY_KEY, REPLAYED, render_problem, text_of, valid_key};
    pub use crate::extract::{Json, OptionalJson, Path, Query, fault_of_body, next_data};
    pub use crate::idempotency::{BodyDigest, CAPACITY, Claim, KEY_MAX, Keys, Ticket, digest_of};
    pub use crate::listen::{Connection, Listener};
    pub use crate::metrics::{Exposition, Metrics, Open};
    pub use crate::ports::Peer;
    pub use crate::ports::head::{OUTSIDE, VISITOR, for_next_hop, strip_connection, upgrade};
    pub use crate::ports::kept::{Kept, KeptBody, is_ready};
    pub use crate::problem::ApiError;
    pub use crate::ready::{remove as remove_ready_file, write as write_ready_file};
    pub use crate::request_id::{REQUEST_ID, RequestIds};
    pub use crate::server::{Answering, Slot, serve as serve_connections};
    pub use crate::state_dir::StateDir;
    pub use crate::supervise::told_to_end;
    pub use crate::ticket::{PARAMETER as TICKET_PARAMETER, PREFIX as TICKET_PREFIX, Tickets};
    pub use crate::unread::taken;
}

use crate::auth::Auth;
use crate::browsers::Browsers;
use crate::edge::{Edge, Fronted};
use crate::listen::Listener;
use crate::metrics::Metrics;
use crate::naming::Naming;
use crate::relay::{Relay, RelayConfig};
use crate::state_dir::StateDir;
use crate::ticket::Tickets;

/// The version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Connections served at a time; further ones wait.
pub const MAX_CONNECTIONS: usize = 1024;

/// The same for a hub, which has one for each request of all its clients.
pub const MAX_CONNECTIONS_OF_HUB: usize = 16 * 1024;

/// The code of an agent that failed.
const OUR_FAILURE: i32 = 125;

/// How long the ending of everything may take before init is left to do it.
const SHUTDOWN: Duration = Duration::from_secs(15);

/// How often old idempotency keys are looked for when no request comes.
const KEY_SWEEP: Duration = Duration::from_mins(1);

/// What an agent is to do.
#[derive(Debug, Clone)]
pub struct AgentOptions {
    /// Where to listen.
    pub listen: Listen,
    /// Directory for logs and session channels.
    pub state_dir: PathBuf,
    /// File with the token; made when missing.
    pub token_file: Option<PathBuf>,
    /// File to write once requests are served.
    pub ready_file: Option<PathBuf>,
    /// Where commands start; `/` by default.
    pub cwd: Option<PathBuf>,
    /// Who commands run as.
    pub user: Option<String>,
    /// Environment of every command.
    pub env: BTreeMap<String, String>,
    /// Most bytes of output kept for each process.
    pub log_bytes: Option<u64>,
    /// Most bytes that all output logs have on disk together.
    pub log_space: Option<u64>,
    /// Most bytes that the archives of all backups have together.
    pub backup_space: Option<u64>,
    /// Origins whose pages may use the API.
    pub cors_origins: Vec<Origin>,
    /// Further names in the Host header that are answered to.
    pub allow_hosts: Vec<String>,
    /// Connections served at a time.
    pub max_connections: usize,
    /// What is spoken at the root besides the API. Without a token file it needs no token.
    pub front: Option<Arc<dyn front::Front>>,
    /// A command to supervise: when it ends, so does the agent.
    pub command: Vec<String>,
}

/// What whoever has a sandbox made says to its agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Where commands start.
    pub cwd: Option<PathBuf>,
    /// Who commands run as.
    pub user: Option<String>,
    /// Environment of every command.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Most bytes of output kept for each process.
    pub log_bytes: Option<u64>,
    /// Whether the sandbox reaches outside by the hub's egress proxy, whose socket is in the agent's
    /// state directory.
    #[serde(default)]
    pub egress: bool,
    /// Whether the directory that commands start in may be missing or closed to their user.
    #[serde(default)]
    pub check_cwd: bool,
    /// Whether the sandbox waits to be used: it may be given another name, and is ready when all that it
    /// holds ready is.
    #[serde(default)]
    pub waits: bool,
}

/// Name of the egress proxy's socket in the agent's state directory.
pub const EGRESS_SOCKET: &str = "proxy.sock";

/// An agent that is being served.
#[derive(Debug, Clone)]
pub struct Started {
    /// Where.
    pub address: Listen,
    /// The token, when it was made for this run and stands in no file.
    pub generated_token: Option<Token>,
    /// What became of each layer of isolation.
    pub protections: Vec<Protection>,
}

/// Why an agent could not be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// The address is open to others and there is no token they could have got.
    #[error("{0} can be reached from other machines, and there is no token file")]
    Exposed(Listen),
    /// The state directory cannot be used.
    #[error(transparent)]
    StateDir(#[from] StateDirError),
    /// There is no token.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The execution core did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The drivers of code contexts cannot be kept.
    #[error("cannot prepare code contexts")]
    Contexts(#[source] ContextError),
    /// The backups in the state directory cannot be used.
    #[error("cannot use the backups in the state directory")]
    Backups(#[source] io::Error),
    /// The address cannot be had.
    #[error("cannot listen on {listen}")]
    Listen {
        /// The address.
        listen: Listen,
        /// Why not.
        source: io::Error,
    },
    /// The ready file cannot be written.
    #[error("cannot write the ready file {path}")]
    ReadyFile {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Whoever asked for the sandbox went away before it was made.
    #[error("whoever asked for the sandbox is gone")]
    Unheard(#[source] io::Error),
    /// The settings are not ours.
    #[error("cannot read the agent's settings")]
    Settings(#[source] serde_json::Error),
    /// The way to the egress proxy cannot be served.
    #[error("cannot listen for connections to the outside")]
    Relay(#[source] io::Error),
    /// What isolates the sandbox could not be built or proved.
    #[error("cannot isolate the commands")]
    NotIsolated(#[source] Step),
    /// Signals cannot be received.
    #[error("cannot receive signals")]
    Signals(#[source] io::Error),
    /// The supervised command did not start.
    #[error("cannot start {program:?}")]
    Command {
        /// The program.
        program: String,
        /// Why not.
        source: ExecError,
    },
}

impl AgentError {
    /// The code to exit with: 126 and 127 tell that the supervised command could not be run.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Command {
                source: ExecError::ProgramNotFound { .. },
                ..
            } => 127,
            Self::Command {
                source: ExecError::ProgramNotExecutable { .. },
                ..
            } => 126,
            _ => 125,
        }
    }

    /// What to do about it, when there is something to say.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Exposed(_) => Some("add --token-file FILE, or listen on 127.0.0.1".to_owned()),
            Self::StateDir(StateDirError::InUse { .. }) => {
                Some("give this agent a directory of its own with --state-dir DIR".to_owned())
            }
            Self::StateDir(_) => Some("choose another directory with --state-dir DIR".to_owned()),
            Self::Listen { source, .. } if source.kind() == io::ErrorKind::AddrInUse => {
                Some("something listens there already; try --listen 127.0.0.1:0".to_owned())
            }
            Self::Token(error) => error.hint(),
            _ => None,
        }
    }
}

/// What handlers share.
#[derive(Clone)]
pub(crate) struct Agent {
    pub(crate) executor: Executor,
    /// What browsers open streams with.
    pub(crate) tickets: Arc<Tickets>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) ports: Arc<ports::Ports>,
    pub(crate) watches: Watches,
    pub(crate) contexts: Contexts,
    pub(crate) backups: Backups,
    /// What became of each layer of isolation.
    pub(crate) protections: Vec<Protection>,
    pub(crate) naming: Arc<Naming>,
    /// Cancelled when the agent ends; every long stream ends with it.
    pub(crate) shutdown: CancellationToken,
    /// Connections that were upgraded; they end on the same token.
    pub(crate) upgraded: TaskTracker,
}

/// Serves an agent until its end and gives the code to exit with. `announce` is called once, when
/// requests are taken.
pub async fn serve(
    options: AgentOptions,
    init: InitHandle,
    announce: impl FnOnce(&Started),
) -> Result<i32, AgentError> {
    if !options.listen.is_local() && options.token_file.is_none() {
        return Err(AgentError::Exposed(options.listen));
    }
    let (token, generated) = match (&options.token_file, &options.listen) {
        (Some(file), _) => (Some(Token::from_file(file)?), false),
        (None, Listen::Tcp(_)) => (Some(Token::generate()?), true),
        (None, Listen::Unix(_)) => (None, false),
    };
    let listen_failed = |source| AgentError::Listen {
        listen: options.listen.clone(),
        source,
    };
    let listener = Listener::bind(&options.listen)
        .await
        .map_err(listen_failed)?;
    let announce = |started: &Started| {
        announce(started);
        let Some(path) = &options.ready_file else {
            return Ok(());
        };
        ready::write(path, &started.address.to_string()).map_err(|source| AgentError::ReadyFile {
            path: path.clone(),
            source,
        })
    };
    let token = token.map(|token| Opening { token, generated });
    let state_dir = StateDir::open(&options.state_dir, "agent")?;
    state_dir.clear()?;
    if let Some(path) = &options.ready_file {
        ready::remove(path);
    }
    let surroundings = Surroundings {
        state_dir,
        liveness: None,
        relay: None,
        check_cwd: false,
        waits: false,
    };
    let served = serve_on(listener, token, &options, init, surroundings, announce).await;
    if let Some(path) = &options.ready_file {
        ready::remove(path);
    }
    served
}

/// Serves the agent of a sandbox that a launcher has made.
pub async fn serve_seat(seat: Seat) -> Result<i32, AgentError> {
    let Seat {
        init,
        socket,
        state_dir,
        liveness,
        report,
        settings,
    } = seat;
    let settings: Settings = serde_json::from_value(settings).map_err(AgentError::Settings)?;
    let listen = Listen::Unix(PathBuf::new());
    let listener = Listener::given(socket).map_err(|source| AgentError::Listen {
        listen: listen.clone(),
        source,
    })?;
    let mut env = BTreeMap::new();
    let relay = settings.egress.then(|| {
        let found = relay::environment(relay::PROXY);
        env.extend(found.map(|(name, value)| (name.to_owned(), value)));
        RelayConfig::new(state_dir.join(EGRESS_SOCKET))
    });
    // What was asked for wins over what we know.
    env.extend(settings.env);
    let options = AgentOptions {
        listen,
        state_dir,
        token_file: None,
        ready_file: None,
        cwd: settings.cwd,
        user: settings.user,
        env,
        log_bytes: settings.log_bytes,
        log_space: None,
        backup_space: None,
        cors_origins: Vec::new(),
        allow_hosts: Vec::new(),
        max_connections: MAX_CONNECTIONS_OF_HUB,
        front: None,
        command: Vec::new(),
    };
    let report = Cell::new(Some(report));
    let tell = |outcome: &Outcome| report.take().map_or(Ok(()), |report| report.tell(outcome));
    // Without a record nobody would ever end it.
    let announce = |started: &Started| {
        let ready = Outcome::Ready(started.protections.clone());
        tell(&ready).map_err(AgentError::Unheard)
    };
    let surroundings = Surroundings {
        state_dir: StateDir::given(options.state_dir.clone()),
        liveness,
        relay,
        check_cwd: settings.check_cwd,
        waits: settings.waits,
    };
    let served = match init.arrive() {
        Ok(init) => serve_on(listener, None, &options, init, surroundings, announce).await,
        Err(step) => Err(AgentError::NotIsolated(step)),
    };
    let failed = match &served {
        Err(AgentError::Start(error)) => error.setting().map(|setting| Outcome::Refused {
            setting: setting.to_owned(),
            reason: error.reason.clone(),
        }),
        Err(AgentError::NotIsolated(step)) => Some(Outcome::Failed(step.clone())),
        _ => None,
    };
    if let Some(failed) = failed {
        // Nobody may be there to hear it; it is over either way.
        let _ = tell(&failed);
    }
    served
}

/// Where clients of what is spoken at the root look besides.
fn second_address(options: &AgentOptions, first: &Listen) -> Option<Listen> {
    let (front, Listen::Tcp(first)) = (options.front.as_ref()?, first) else {
        return None;
    };
    let port = front.second_port(first.port())?;
    Some(Listen::Tcp((first.ip(), port).into()))
}

/// A token, and whether it was made for this run.
struct Opening {
    token: Token,
    generated: bool,
}

/// What an agent has besides its init.
struct Surroundings {
    state_dir: StateDir,
    /// A pipe whose end is the agent's end.
    liveness: Option<OwnedFd>,
    /// The way outside.
    relay: Option<RelayConfig>,
    /// Whether the directory that commands start in is to be tried first.
    check_cwd: bool,
    /// Whether nobody asks for anything yet.
    waits: bool,
}

async fn serve_on(
    listener: Listener,
    opening: Option<Opening>,
    options: &AgentOptions,
    mut init: InitHandle,
    surroundings: Surroundings,
    announce: impl FnOnce(&Started) -> Result<(), AgentError>,
) -> Result<i32, AgentError> {
    let Surroundings {
        state_dir,
        liveness,
        relay,
        check_cwd,
        waits,
    } = surroundings;
    turn::ask_for_short_ones();
    let address = listener.address().map_err(|source| AgentError::Listen {
        listen: options.listen.clone(),
        source,
    })?;
    let second = match second_address(options, &address) {
        Some(listen) => match Listener::bind(&listen).await {
            Ok(listener) => Some(listener),
            Err(source) => return Err(AgentError::Listen { listen, source }),
        },
        None => None,
    };
    let mut proof = init.proof.take();
    let executor = Executor::start(init, core_config(options, &state_dir)).await?;
    // It has its first shell started now, beside all that follows.
    tokio::task::yield_now().await;
    if check_cwd {
        executor.check_cwd().await?;
    }
    let _relay = match relay {
        Some(config) => {
            let events = executor.events().clone();
            let told = move |refused| events.publish(Happening::from(refused));
            let relay = Relay::start(config, told).await;
            Some(relay.map_err(AgentError::Relay)?)
        }
        None => None,
    };
    let own_port = match &address {
        Listen::Tcp(address) => Some(address.port()),
        Listen::Unix(_) => None,
    };
    let kernels = state_dir.path().join("kernels");
    let contexts = Contexts::open(executor.clone(), kernels).await;
    let contexts = contexts.map_err(AgentError::Contexts)?;
    let shutdown = CancellationToken::new();
    let backup_space = Space::new(options.backup_space.unwrap_or(BACKUP_BYTES));
    let backups_dir = state_dir.path().join("backups");
    let backups = Backups::open(
        backups_dir,
        backup_space,
        executor.clone(),
        shutdown.clone(),
    );
    let protections = proof.settle().map_err(AgentError::NotIsolated)?.to_vec();
    let agent = Arc::new(Agent {
        ports: Arc::new(ports::Ports::new(
            executor.clone(),
            own_port,
            shutdown.clone(),
        )),
        watches: Watches::new(executor.clone()),
        executor: executor.clone(),
        tickets: Arc::new(Tickets::new(api::routes::own())),
        metrics: Arc::new(Metrics::new(api::routes::own())),
        shutdown,
        upgraded: TaskTracker::new(),
        contexts: contexts.clone(),
        backups: backups.map_err(AgentError::Backups)?,
        protections,
        naming: Arc::new(if waits {
            Naming::expected()
        } else {
            Naming::default()
        }),
    });
    if waits {
        executor.settled().await;
    }
    let browsers = Browsers::new(&address, options.cors_origins.clone(), &options.allow_hosts);
    let auth = Auth::new(opening.as_ref().map(|opening| opening.token.clone()));
    let begun = begin(options, &agent, liveness, || {
        announce(&Started {
            address,
            generated_token: opening
                .filter(|opening| opening.generated)
                .map(|opening| opening.token),
            protections: agent.protections.clone(),
        })
    })
    .await;
    // Who has heard of us by now waits in the listener's queue while the rest is built.
    let edge = Edge::new(
        Arc::clone(&agent),
        auth,
        browsers,
        options.front.clone().map(|front| Fronted {
            front,
            // A token that stands in no file is not for its clients.
            locked: options.token_file.is_some(),
        }),
    );
    let server = task::spawn(server::serve(
        listener,
        edge.clone(),
        Arc::clone(&agent.metrics),
        options.max_connections,
        agent.shutdown.clone(),
    ));
    let second = second.map(|listener| {
        task::spawn(server::serve(
            listener,
            edge.clone(),
            Arc::clone(&agent.metrics),
            options.max_connections,
            agent.shutdown.clone(),
        ))
    });
    let result = match begun {
        Ok(end) => attend(&agent, &edge, end, &state_dir).await,
        Err(error) => Err(error),
    };
    executor.events().publish(Happening::Ending {});
    agent.shutdown.cancel();
    // Ending the commands also ends the requests that wait for them, so both go on together.
    agent.upgraded.close();
    let ending = async {
        let all = async {
            contexts.shutdown().await;
            executor.shutdown().await;
        };
        let second = async {
            if let Some(second) = second {
                drop(second.await);
            }
        };
        tokio::join!(all, server, second, agent.upgraded.wait()).1
    };
    match tokio::time::timeout(SHUTDOWN, ending).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::error!(%error, "the serve loop failed"),
        Err(_) => tracing::warn!("not everything ended in time; init ends the rest"),
    }
    drop(state_dir);
    result
}

/// Resolves to the code to exit with.
type End = std::pin::Pin<Box<dyn Future<Output = i32> + Send>>;

/// Starts what is to be supervised, and says that requests are taken. Gives what the agent's end is.
async fn begin(
    options: &AgentOptions,
    agent: &Agent,
    liveness: Option<OwnedFd>,
    ready: impl FnOnce() -> Result<(), AgentError>,
) -> Result<End, AgentError> {
    let left_alone = supervise::end_of(liveness).map_err(AgentError::Signals)?;
    let ended: End = if let Some(program) = options.command.first() {
        let process = supervise::start(&agent.executor, options.command.clone())
            .await
            .map_err(|source| AgentError::Command {
                program: program.clone(),
                source,
            })?;
        Box::pin(supervise::attend(process))
    } else {
        let told = supervise::told_to_end().map_err(AgentError::Signals)?;
        Box::pin(async move {
            told.await;
            0
        })
    };
    ready()?;
    let off = |protection: &&Protection| protection.status == ProtectionStatus::Off;
    let off = agent.protections.iter().filter(off);
    agent.executor.events().publish(Happening::Ready {
        protections_off: off.map(|protection| protection.name).collect(),
    });
    Ok(Box::pin(async move {
        tokio::select! {
            code = ended => code,
            () = left_alone => 0,
        }
    }))
}

/// The time between start and shutdown.
async fn attend(
    agent: &Agent,
    edge: &Edge,
    end: End,
    state_dir: &StateDir,
) -> Result<i32, AgentError> {
    let lost = agent.executor.init_lost();
    let mut sweep = tokio::time::interval(KEY_SWEEP);
    let sweeping = async {
        loop {
            sweep.tick().await;
            edge.expire_keys();
            agent.backups.expire().await;
        }
    };
    tokio::select! {
        code = end => Ok(code),
        () = lost => {
            if agent.executor.init_was_lost_to_oom().await {
                tracing::error!("the kernel ended init for want of memory, and with it everything it started");
                leave_word(state_dir);
            } else {
                tracing::error!("init is gone, and with it everything it started");
            }
            Ok(OUR_FAILURE)
        }
        () = sweeping => Ok(OUR_FAILURE),
    }
}

/// Leaves word of why we end, for whoever finds us gone.
fn leave_word(state_dir: &StateDir) {
    if let Err(error) = std::fs::write(state_dir.path().join(OUT_OF_MEMORY), "") {
        tracing::warn!(%error, "nobody can be told why this is the end");
    }
}

fn core_config(options: &AgentOptions, state_dir: &StateDir) -> Config {
    let mut config = Config::new(state_dir.path().to_owned());
    if let Some(cwd) = &options.cwd {
        config.cwd.clone_from(cwd);
    }
    config.user.clone_from(&options.user);
    config.env.clone_from(&options.env);
    if let Some(log_bytes) = options.log_bytes {
        config.log_bytes = log_bytes;
    }
    if let Some(log_space) = options.log_space {
        config.log_space_bytes = log_space;
    }
    config
}
