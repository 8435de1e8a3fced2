//! The container API of `@cloudflare/sandbox` 0.12: its HTTP routes, `/ws` and `/ws/pty`.
//!
//! Owns that API's words. The wire has their shapes; where their server is wrong (lost tails, changed
//! bytes, a timeout that does not end the command, a kill that leaves children), ours is right.
//!
//! - An unknown session is made when it is first named, with `default` for none;
//!   `__DISABLE_SESSION__` runs without one.
//! - `execute/stream` and `process/start` begin with a copy of the session's state and do not hold it up.

mod body;
mod context;
mod error;
mod exec;
mod file;
mod git;
pub(crate) mod mux;
mod port;
mod process;
mod pty;
mod session;
mod watch;

use axum::Router;
use axum::body::Body;
use axum::extract::Extension;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use http::Request;
use sandshell_client::Client;
use sandshell_client::types::Problem;
use serde_json::{Value, json};
use tower::Service as _;

use crate::lease::Lease;
use error::{Code, Fault};

/// The version whose clients are served.
const VERSION: &str = "0.12.10";

/// Answers requests of the dialect.
#[derive(Debug, Clone)]
pub struct Cloudflare(Router);

impl Default for Cloudflare {
    fn default() -> Self {
        Self::new()
    }
}

impl Cloudflare {
    /// What answers for any sandbox.
    #[must_use]
    pub fn new() -> Self {
        let router = Router::new()
            .route(
                "/",
                get(|| async { "Sandshell speaks the Cloudflare Sandbox API here.\n" }),
            )
            .route("/api/ping", get(ping))
            .route("/api/version", get(version))
            .route("/api/commands", get(commands))
            .route("/api/session/create", post(session::create))
            .route("/api/session/list", get(session::list))
            .route("/api/session/delete", post(session::delete))
            .route("/api/execute", post(exec::execute))
            .route("/api/execute/stream", post(exec::stream))
            .route("/api/process/start", post(process::start))
            .route("/api/process/list", get(process::list))
            .route("/api/process/kill-all", delete(process::kill_all))
            .route("/api/process/{id}", get(process::get).delete(process::kill))
            .route("/api/process/{id}/logs", get(process::logs))
            .route("/api/process/{id}/stream", get(process::stream))
            .route("/api/read", post(file::read))
            .route("/api/read/stream", post(file::stream))
            .route("/api/write", post(file::write))
            .route("/api/delete", post(file::delete))
            .route("/api/rename", post(file::relocate))
            .route("/api/move", post(file::relocate))
            .route("/api/mkdir", post(file::mkdir))
            .route("/api/exists", post(file::exists))
            .route("/api/list-files", post(file::list))
            .route("/api/backup/create", post(file::backup))
            .route("/api/backup/restore", post(file::restore))
            .route("/api/port-watch", post(port::watch))
            .route("/api/git/checkout", post(git::checkout))
            .route("/api/interpreter/health", get(ping))
            .route("/api/contexts", get(context::list).post(context::create))
            .route("/api/contexts/{id}", delete(context::delete))
            .route("/api/execute/code", post(context::execute))
            .route("/api/watch", post(watch::watch))
            .route("/api/watch/check", post(watch::check))
            .route("/ws/pty", get(pty::connect))
            .fallback(|| async { Fault::new(Code::UnknownError, "There is no such route") });
        // What comes over the socket is answered by the routes that are not sockets.
        let routes = router.clone();
        let upgrade = get(mux::connect);
        let router = router
            .route("/ws", upgrade.clone())
            .route("/api/ws", upgrade)
            .layer(Extension(mux::Routes(routes)));
        Self(router)
    }

    /// A refusal of our own, in this dialect's form.
    #[must_use]
    pub fn refuse(problem: Problem) -> Response {
        Fault::from(problem).into_response()
    }

    /// Answers a request for the sandbox that this client reaches. What becomes a socket keeps the lease.
    pub async fn answer(
        &self,
        sandbox: Client,
        lease: Lease,
        mut request: Request<Body>,
    ) -> Response {
        request.extensions_mut().insert(sandbox);
        request.extensions_mut().insert(lease);
        match self.0.clone().call(request).await {
            Ok(response) => response,
        }
    }
}

/// What every success has, beside its own fields.
fn success(mut fields: Value) -> Response {
    if let Some(object) = fields.as_object_mut() {
        object.entry("success").or_insert(Value::Bool(true));
        object.insert("timestamp".to_owned(), now().into());
    }
    axum::Json(fields).into_response()
}

fn now() -> String {
    jiff::Timestamp::now().to_string()
}

async fn ping() -> Response {
    success(json!({"status": "healthy", "message": "pong"}))
}

async fn version() -> Response {
    success(json!({"version": VERSION}))
}

/// The programs that can be named.
async fn commands(Extension(sandbox): Extension<Client>) -> Result<Response, Fault> {
    let names = exec::plain(&sandbox, "compgen -c | sort -u").await?;
    let names: Vec<&str> = names.lines().collect();
    Ok(success(
        json!({"availableCommands": names, "count": names.len()}),
    ))
}
