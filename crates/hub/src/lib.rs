//! The hub: who has which sandbox, and the way to it.
//!
//! # Theory of operation
//!
//! ```text
//!  connections ─► edge ─┬─► route ─► a sandbox's agent, on its socket
//!                       └─► api ─► registry ─► sandbox (one owner task each) ─► backend
//!                                      └────────────► store (SQLite, one thread) ◄──┘
//! ```
//!
//! [`serve`] opens the state directory, takes over what an earlier hub left, says that it is ready and
//! serves until it is told to end. Sandboxes are processes of their own: they go on while there is no
//! hub, and the next one finds them.
//!
//! # Invariants
//!
//! - No live state that matters: killed at any moment and started again, the hub knows every sandbox
//!   that was reported as made, and removes what was not.
//! - A record is in the store before anyone is told of it.
//! - The hub knows a sandbox through [`backend::Backend`] and its agent's API, never by host path.
//! - One hub has a state directory at a time.
//! - No channel, table or body is unbounded.

pub mod backend;
pub mod egress;
pub mod images;

mod api;
mod audit;
mod dialects;
mod edge;
mod error;
mod figures;
#[doc(hidden)]
pub mod fuzzing;
mod inside;
mod local;
mod mcp;
mod preview;
mod rate;
mod registry;
mod route;
mod sandbox;
mod store;
mod tokens;
mod warm;

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sandshell_agent::parts::{
    Browsers, CAPACITY, Keys, Listener, Metrics, RequestIds, RouteFacts, Routes, StateDir, Tickets,
    remove_ready_file, serve_connections, told_to_end, write_ready_file,
};
use sandshell_agent::{Listen, Origin, Token, TokenError};
use sandshell_compat_e2b::Key;
use sandshell_mcp::HttpService;
use sandshell_sys::{task, turn};
use sandshell_types::{IsolationPolicy, SandboxId};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use api::openapi_json;
pub use dialects::{Dialect, front};
pub use preview::PreviewDomain;
pub use sandshell_agent::StateDirError;
pub use store::StoreError;

use crate::backend::is_lack;
use crate::dialects::Dialects;
use crate::edge::{Answer, Edge};
use crate::images::Images;
use crate::local::LocalBackend;
use crate::preview::Previews;
use crate::registry::{Bounds, RecoverError, Registry};
use crate::route::Tunnels;
use crate::sandbox::By;
use crate::store::Store;
use crate::tokens::Tokens;

/// Connections served at a time; further ones wait.
pub const MAX_CONNECTIONS: usize = 10_240;

/// Sandboxes at a time.
pub const MAX_SANDBOXES: usize = 1000;

/// Longest path of the state directory: the socket of a sandbox lies 36 bytes deeper, and the path of a
/// socket has at most 107.
const LONGEST_STATE_DIR: usize = 70;

/// What to do where it is the hub that has too little of something.
const LACKING: &str = "no sandbox was given up; allow more open files (ulimit -n, LimitNOFILE=), processes or memory, \
     and start again";

/// Requests a second for each token.
pub const RATE: u32 = 5000;

/// How often idle connections and old keys are looked for.
const SWEEP: Duration = Duration::from_secs(30);

/// How long the ending of answers may take after that of connections.
const SHUTDOWN: Duration = Duration::from_secs(10);

/// What a hub is to do.
#[derive(Debug, Clone)]
pub struct HubOptions {
    /// Where to listen.
    pub listen: Listen,
    /// Directory for records and sandboxes.
    pub state_dir: PathBuf,
    /// File with the admin's token; made when missing. In the state directory by default.
    pub token_file: Option<PathBuf>,
    /// File to write once requests are served.
    pub ready_file: Option<PathBuf>,
    /// Origins whose pages may use the API.
    pub cors_origins: Vec<Origin>,
    /// Further names in the Host header that are answered to.
    pub allow_hosts: Vec<String>,
    /// Where ports get names of their own, such as `preview.example.org`.
    pub preview_domain: Option<PreviewDomain>,
    /// Connections served at a time.
    pub max_connections: usize,
    /// Sandboxes at a time.
    pub max_sandboxes: usize,
    /// Sandboxes of one token at a time.
    pub max_sandboxes_per_token: usize,
    /// Requests a second for each token; 0 for no limit.
    pub rate: u32,
    /// Sandboxes kept ready.
    pub warm: usize,
    /// How well a sandbox must be isolated whose spec does not say.
    pub isolation: IsolationPolicy,
    /// The services whose clients are served.
    pub dialects: Vec<Dialect>,
    /// Where clients of E2B find us by name: `api.` and `PORT-SANDBOX.` before this domain.
    pub e2b_domain: Option<PreviewDomain>,
    /// Whether sandboxes end with the hub.
    pub destroy_on_exit: bool,
}

/// A hub that is being served.
#[derive(Debug, Clone)]
pub struct Started {
    /// Where.
    pub address: Listen,
    /// The admin's token, when it was made just now.
    pub fresh_token: Option<Token>,
    /// The file it stands in.
    pub token_file: Option<PathBuf>,
}

/// Why a hub could not be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address is open to others and no token file was chosen for them.
    #[error("{0} can be reached from other machines, and there is no token file")]
    Exposed(Listen),
    /// The state directory cannot be used.
    #[error(transparent)]
    StateDir(#[from] StateDirError),
    /// No socket could be made in the state directory.
    #[error("the path of the state directory, {}, is longer than {LONGEST_STATE_DIR} bytes", .0.display())]
    StateDirTooLong(PathBuf),
    /// The records cannot be used.
    #[error("cannot use the records in {path}")]
    Store {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: StoreError,
    },
    /// There is no token.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The images cannot be used.
    #[error("cannot use the images in the state directory")]
    Images(#[source] io::Error),
    /// There is nowhere to run sandboxes.
    #[error("cannot run sandboxes")]
    Backend(#[source] io::Error),
    /// A sandbox of an earlier hub would have to be given up, though it may well live.
    #[error("cannot take over the sandbox {id}")]
    TakeOver {
        /// Which.
        id: SandboxId,
        /// Whether it is the hub that has too little of something.
        lacks: bool,
        /// Why nobody knows.
        source: io::Error,
    },
    /// A sandbox of an earlier hub that no record names may well live, and cannot be ended.
    #[error("cannot end what is left of a sandbox in {}", .directory.display())]
    Leftover {
        /// Its directory.
        directory: PathBuf,
        /// Whether it is the hub that has too little of something.
        lacks: bool,
        /// Why nobody knows.
        source: io::Error,
    },
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
    /// Signals cannot be received.
    #[error("cannot receive signals")]
    Signals(#[source] io::Error),
    /// The admin's token cannot be written down.
    #[error("cannot write down the admin's token: {0}")]
    Admin(String),
}

impl ServeError {
    /// What to do about it, when there is something to say.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Exposed(_) => Some("add --token-file FILE, or listen on 127.0.0.1".to_owned()),
            Self::StateDir(StateDirError::InUse { .. }) => {
                Some(
                    "it goes on; to start another beside it, give that a directory of its own with --state-dir DIR"
                        .to_owned(),
                )
            }
            Self::StateDir(_) | Self::StateDirTooLong(_) => {
                Some("choose another directory with --state-dir DIR".to_owned())
            }
            Self::Store {
                source: StoreError::Newer { .. },
                ..
            } => Some("run the program that wrote them, or a later one".to_owned()),
            Self::Listen { source, .. } if source.kind() == io::ErrorKind::AddrInUse => {
                Some("something listens there already; try --listen 127.0.0.1:0".to_owned())
            }
            Self::Backend(source) if source.kind() == io::ErrorKind::StorageFull => Some(
                "the state directory's disk is full; free some space and start again: sandboxes live on"
                    .to_owned(),
            ),
            Self::TakeOver { lacks: true, .. } | Self::Leftover { lacks: true, .. } => Some(LACKING.to_owned()),
            Self::Backend(source) if is_lack(source) => Some(LACKING.to_owned()),
            Self::TakeOver { .. } => {
                Some("no sandbox was given up; mend that, or end this one, and start again".to_owned())
            }
            Self::Leftover { .. } => Some(
                "it may still run; start again from where its processes can be seen and are ours, or end them and \
                 remove the directory"
                    .to_owned(),
            ),
            Self::Token(error) => error.hint(),
            _ => None,
        }
    }
}

/// What handlers share.
pub(crate) struct Hub {
    pub(crate) registry: Arc<Registry>,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) images: Arc<Images>,
    pub(crate) browsers: Browsers,
    pub(crate) previews: Previews,
    pub(crate) tickets: Tickets<CancellationToken>,
    pub(crate) keys: Arc<Keys<Answer>>,
    pub(crate) ids: RequestIds,
    pub(crate) routes: &'static Routes,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) isolation: IsolationPolicy,
    pub(crate) tunnels: Tunnels,
    pub(crate) mcp: HttpService,
    pub(crate) dialects: Dialects,
}

/// The routes of the hub.
fn routes() -> &'static Routes {
    static ROUTES: OnceLock<Routes> = OnceLock::new();
    ROUTES.get_or_init(|| Routes::new(include!(concat!(env!("OUT_DIR"), "/routes.rs"))))
}

/// Serves a hub until it is told to end. `announce` is called once, when requests are served.
pub async fn serve(options: HubOptions, announce: impl FnOnce(&Started)) -> Result<(), ServeError> {
    if !options.listen.is_local() && options.token_file.is_none() {
        return Err(ServeError::Exposed(options.listen));
    }
    turn::ask_for_short_ones();
    let state_dir = StateDir::open(&options.state_dir, "hub")?;
    if state_dir.path().as_os_str().len() > LONGEST_STATE_DIR {
        return Err(ServeError::StateDirTooLong(state_dir.path().to_owned()));
    }
    // Before a token is made: who cannot listen leaves none that nobody was told of.
    let listen_failed = |source| ServeError::Listen {
        listen: options.listen.clone(),
        source,
    };
    let listener = Listener::bind(&options.listen)
        .await
        .map_err(listen_failed)?;
    let address = listener.address().map_err(listen_failed)?;
    if let Some(path) = &options.ready_file {
        remove_ready_file(path);
    }
    let records = state_dir.path().join("hub.db");
    let (store, loaded) = Store::open(&records).map_err(|source| ServeError::Store {
        path: records,
        source,
    })?;
    let secret = admin_token(&options, &state_dir)?;
    let e2b = sandshell_compat_e2b::Settings {
        // Kept, so that access tokens outlive the hub.
        key: Key::new(Token::from_file(&state_dir.path().join("e2b-key"))?.reveal()),
        domain: options.e2b_domain.as_ref().map(ToString::to_string),
    };
    let images = Images::open(state_dir.path()).map_err(ServeError::Images)?;
    let images = Arc::new(images);
    let backend = LocalBackend::new(state_dir.path(), Arc::clone(&images)).await;
    let backend = backend.map_err(ServeError::Backend)?;
    let bounds = Bounds {
        sandboxes: options.max_sandboxes,
        per_token: options.max_sandboxes_per_token,
    };
    let registry = Registry::new(Arc::new(backend), store.clone(), bounds, options.warm);
    let open = secret.is_none();
    let domain = options.preview_domain.clone();
    let previews = Previews::new(store.clone(), domain, loaded.exposures);
    let tokens = Arc::new(Tokens::new(store, loaded.tokens, open, options.rate));
    if let Some(secret) = &secret {
        let set = tokens.set_admin(&secret.token).await;
        set.map_err(|error| ServeError::Admin(error.to_string()))?;
    }
    // Before requests are taken: who asks for a sandbox finds it.
    let recovered = registry.recover(loaded.sandboxes).await;
    recovered.map_err(|error| match error {
        RecoverError::Store(source) => ServeError::Store {
            path: state_dir.path().join("hub.db"),
            source,
        },
        RecoverError::NotTaken { id, lacks, source } => ServeError::TakeOver { id, lacks, source },
        RecoverError::NotEnded {
            place,
            lacks,
            source,
        } => ServeError::Leftover {
            directory: state_dir.path().join("sandboxes").join(place.as_str()),
            lacks,
            source,
        },
        RecoverError::NotSeen(source) => ServeError::Backend(source),
        RecoverError::CutShort(error) => ServeError::Backend(io::Error::other(error)),
    })?;
    let shutdown = CancellationToken::new();
    let hub = Arc::new(Hub {
        registry: Arc::clone(&registry),
        tokens,
        images,
        browsers: Browsers::new(&address, options.cors_origins.clone(), &options.allow_hosts),
        previews,
        tickets: Tickets::new(routes()),
        keys: Arc::new(Keys::new(CAPACITY)),
        ids: RequestIds::new(),
        routes: routes(),
        metrics: Arc::new(Metrics::new(routes())),
        isolation: options.isolation,
        tunnels: Tunnels {
            open: TaskTracker::new(),
            shutdown: shutdown.clone(),
        },
        mcp: mcp::service(&address, shutdown.clone()),
        dialects: Dialects::new(&options.dialects, e2b, options.e2b_domain.clone()),
    });
    let told = told_to_end().map_err(ServeError::Signals)?;
    let server = task::spawn(serve_connections(
        listener,
        Edge::new(Arc::clone(&hub)),
        Arc::clone(&hub.metrics),
        options.max_connections,
        shutdown.clone(),
    ));
    let tokens = Arc::clone(&hub.tokens);
    let ended = shutdown.clone();
    let watching = task::spawn(async move { tokens.watch(ended).await });
    let warming = task::spawn(warm::keep(Arc::clone(&registry), shutdown.clone()));
    let result = run(&options, &hub, &address, secret, told, announce).await;
    registry.close();
    shutdown.cancel();
    hub.tunnels.open.close();
    let ending = async { tokio::join!(server, hub.tunnels.open.wait()).0 };
    match tokio::time::timeout(SHUTDOWN, ending).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::error!(%error, "the serve loop failed"),
        Err(_) => tracing::warn!("not all answers ended in time"),
    }
    if let Err(error) = watching.await {
        tracing::error!(%error, "the watch over tokens failed");
    }
    if let Err(error) = warming.await {
        tracing::error!(%error, "the warm pool failed");
    }
    if options.destroy_on_exit {
        destroy_all(&registry).await;
    }
    if let Some(path) = &options.ready_file {
        remove_ready_file(path);
    }
    drop(state_dir);
    result
}

/// The time between start and shutdown.
async fn run(
    options: &HubOptions,
    hub: &Arc<Hub>,
    address: &Listen,
    secret: Option<Admin>,
    told: impl Future<Output = ()>,
    announce: impl FnOnce(&Started),
) -> Result<(), ServeError> {
    let (fresh_token, token_file) = match secret {
        Some(admin) => (Some(admin.token).filter(|_| admin.fresh), Some(admin.file)),
        None => (None, None),
    };
    announce(&Started {
        address: address.clone(),
        fresh_token,
        token_file,
    });
    if let Some(path) = &options.ready_file {
        let written = write_ready_file(path, &address.to_string());
        written.map_err(|source| ServeError::ReadyFile {
            path: path.clone(),
            source,
        })?;
    }
    let mut told = pin!(told);
    let mut sweep = tokio::time::interval(SWEEP);
    loop {
        tokio::select! {
            () = &mut told => return Ok(()),
            _ = sweep.tick() => {
                hub.keys.expire();
                let live = hub.registry.all_live();
                for sandbox in &live {
                    sandbox.upstream().sweep();
                }
                hub.previews.keep_only(|place| live.iter().any(|one| one.place() == place));
            }
        }
    }
}

async fn destroy_all(registry: &Registry) {
    let all = registry.all_live();
    let ends = all.iter().map(|sandbox| async move {
        let reason = "the hub was stopped";
        if let Err(error) = sandbox.destroy(reason, By::default()).await {
            tracing::error!(%error, sandbox = %sandbox.id(), "it cannot be destroyed");
        }
    });
    futures_util::future::join_all(ends).await;
}

/// The admin's token and where it stands.
struct Admin {
    token: Token,
    file: PathBuf,
    fresh: bool,
}

/// The token of the token file; `None` on a Unix socket without one, which needs none.
fn admin_token(options: &HubOptions, state_dir: &StateDir) -> Result<Option<Admin>, ServeError> {
    let file = match (&options.token_file, &options.listen) {
        (Some(file), _) => file.clone(),
        (None, Listen::Tcp(_)) => state_dir.path().join("token"),
        (None, Listen::Unix(_)) => return Ok(None),
    };
    let fresh = !file.exists();
    let token = Token::from_file(&file)?;
    Ok(Some(Admin { token, file, fresh }))
}

/// Bytes as hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits
        .filter_map(|digit| char::from_digit(u32::from(digit), 16))
        .collect()
}
