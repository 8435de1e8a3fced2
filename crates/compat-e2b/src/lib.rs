//! The API of E2B: its control plane, `envd` and the code interpreter.
//!
//! ```text
//! request ─► whom it is for ─┬─► the hub ──────────────────────► control
//!                            └─► a sandbox, at port 49983 ─────► process, filesystem (wire), files, stats
//!                                               or 49999 ──────► interpreter
//! ```
//!
//! Owns that API's words. Whom a request is for and with what right it comes, is found out before: [`Reach`].
//! Where their server is wrong (output lost when nobody reads it, a kill that leaves children, last words cut
//! off by a signal), ours is right.
//!
//! State, bounded: the places of those who ask for changes again and again (`watchers`), and hints (`known`).

mod access;
mod control;
mod error;
mod files;
mod filesystem;
#[doc(hidden)]
pub mod fuzzing;
mod interpreter;
mod json;
mod known;
mod path;
mod process;
mod proto;
mod query;
mod schema;
mod stats;
mod terminal;
mod watchers;
mod wire;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::{HeaderValue, Request, StatusCode, header};
use sandshell_client::Client;
use sandshell_client::types::{Problem, SandboxId, SandboxState};
use tower::Service as _;

pub use access::{Key, Opens, Signature, Twice, named_in};
use control::Outside;
pub use control::is_public;
use error::{Code, Fault};
use known::Known;
use watchers::Watchers;
use wire::{Inside, Method, client_stream, server_stream, unary};

/// The version of `envd` whose features are served.
const ENVD_VERSION: &str = "0.6.13";

/// The port of `envd`.
pub const ENVD_PORT: u16 = 49983;

/// The port of the code interpreter.
pub const INTERPRETER_PORT: u16 = 49999;

/// What a hub that speaks this dialect settles.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What access tokens are made with.
    pub key: Key,
    /// The domain below which sandboxes have names.
    pub domain: Option<String>,
}

/// Whom a request is for.
#[derive(Debug, Clone)]
pub enum Reach {
    /// The hub.
    Control,
    /// A port of a sandbox.
    Sandbox {
        /// Which.
        id: SandboxId,
        /// Where it is in its life.
        state: SandboxState,
        /// The port.
        port: u16,
    },
}

/// Answers requests of the dialect.
#[derive(Debug, Clone)]
pub struct E2b {
    settings: Settings,
    control: Router,
    envd: Router,
    interpreter: Router,
    watchers: Arc<Watchers>,
    known: Arc<Known>,
}

impl E2b {
    /// What answers with the rights of any caller.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            control: control::router(),
            envd: envd(),
            interpreter: interpreter::router(),
            watchers: Arc::default(),
            known: Arc::default(),
        }
    }

    /// What access tokens are made with.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.settings.key
    }

    /// A refusal of our own, in the form that a request for this path with this content gets.
    #[must_use]
    pub fn refuse(
        problem: Problem,
        path: &str,
        content_type: Option<&HeaderValue>,
        inside: bool,
    ) -> Response {
        if !inside {
            return Fault::outside(problem).plain();
        }
        let fault = Fault::from(problem);
        if is_call(path) {
            wire::refuse(content_type, &fault)
        } else {
            fault.plain()
        }
    }

    /// Answers a request for the hub that this client reaches. There are no sockets: what goes on is an
    /// answer, and ends with the client's right.
    pub async fn answer(&self, hub: Client, reach: Reach, mut request: Request<Body>) -> Response {
        let router = match reach {
            Reach::Control => {
                request.extensions_mut().insert(Outside {
                    hub,
                    settings: self.settings.clone(),
                });
                &self.control
            }
            Reach::Sandbox { id, state, port } => {
                if let Some(fault) = not_running(state) {
                    return if is_call(request.uri().path()) {
                        wire::refuse(request.headers().get(header::CONTENT_TYPE), &fault)
                    } else {
                        fault.plain()
                    };
                }
                let sandbox = hub.sandbox(&id);
                return self.answer_inside(sandbox, id, port, request).await;
            }
        };
        match router.clone().call(request).await {
            Ok(response) => response,
        }
    }
}

impl E2b {
    /// Answers a request for what this client reaches, at a port of it.
    pub async fn answer_inside(
        &self,
        sandbox: Client,
        id: SandboxId,
        port: u16,
        mut request: Request<Body>,
    ) -> Response {
        request.extensions_mut().insert(Inside {
            sandbox,
            id,
            watchers: Arc::clone(&self.watchers),
            known: Arc::clone(&self.known),
        });
        let router = match port {
            INTERPRETER_PORT => &self.interpreter,
            _ => &self.envd,
        };
        match router.clone().call(request).await {
            Ok(response) => response,
        }
    }
}

/// Whether a path is one of the Connect protocol.
fn is_call(path: &str) -> bool {
    path.starts_with("/process.Process/") || path.starts_with("/filesystem.Filesystem/")
}

/// Why nothing inside a sandbox in this state answers; one that is asleep wakes.
fn not_running(state: SandboxState) -> Option<Fault> {
    match state {
        SandboxState::Creating | SandboxState::Ready | SandboxState::Asleep => None,
        other => Some(Fault::gone(&format!("it is {}", other.name()))),
    }
}

fn envd() -> Router {
    use schema::{
        CHANGES, EMPTY, FOUND, FOUND_MANY, LIST_DIR, LISTED, MOVE, OUTPUT, PATH, SELECTED,
        SEND_INPUT, SEND_SIGNAL, START, STREAM_INPUT, UPDATE, WATCH, WATCHED, WATCHER,
    };
    let of = |asks, answers| Method { asks, answers };
    let process = Router::new()
        .route("/Start", server_stream(of(START, OUTPUT), process::start))
        .route(
            "/Connect",
            server_stream(of(SELECTED, OUTPUT), process::connect),
        )
        .route("/List", unary(of(EMPTY, LISTED), process::list))
        .route("/Update", unary(of(UPDATE, EMPTY), process::update))
        .route(
            "/SendInput",
            unary(of(SEND_INPUT, EMPTY), process::send_input),
        )
        .route(
            "/StreamInput",
            client_stream(of(STREAM_INPUT, EMPTY), process::stream_input),
        )
        .route(
            "/CloseStdin",
            unary(of(SELECTED, EMPTY), process::close_stdin),
        )
        .route(
            "/SendSignal",
            unary(of(SEND_SIGNAL, EMPTY), process::send_signal),
        );
    let filesystem = Router::new()
        .route("/Stat", unary(of(PATH, FOUND), filesystem::stat))
        .route("/MakeDir", unary(of(PATH, FOUND), filesystem::make_dir))
        .route("/Move", unary(of(MOVE, FOUND), filesystem::relocate))
        .route(
            "/ListDir",
            unary(of(LIST_DIR, FOUND_MANY), filesystem::list_dir),
        )
        .route("/Remove", unary(of(PATH, EMPTY), filesystem::remove))
        .route(
            "/WatchDir",
            server_stream(of(WATCH, WATCHED), watchers::watch_dir),
        )
        .route(
            "/CreateWatcher",
            unary(of(WATCH, WATCHER), watchers::create),
        )
        .route(
            "/GetWatcherEvents",
            unary(of(WATCHER, CHANGES), watchers::events),
        )
        .route(
            "/RemoveWatcher",
            unary(of(WATCHER, EMPTY), watchers::remove),
        );
    Router::new()
        .nest("/process.Process", process)
        .nest("/filesystem.Filesystem", filesystem)
        .route(
            "/health",
            get(|| async { StatusCode::NO_CONTENT.into_response() }),
        )
        .route("/metrics", get(stats::metrics))
        .route("/envs", get(stats::envs))
        .route("/files", get(files::read).post(files::write))
        .fallback(|| async { Fault::new(Code::Unimplemented, "there is no such route").unary() })
}
