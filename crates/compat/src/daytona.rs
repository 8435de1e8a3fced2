//! The API of Daytona: its control plane at `/api`, and at `/toolbox/{sandbox}` the toolbox of each sandbox.
//!
//! Owns that API's words, as its published clients speak them. The wire has their shapes; where their
//! server is known to be wrong (bytes dropped or moved to the other stream, a session that hangs, a timeout
//! that does not end the command), ours is right.
//!
//! - `toolboxProxyUrl` of a sandbox leads back here, by the name under which the client reached us.
//! - A session is ours, and its asynchronous commands are commands of it: state, order and output are those
//!   of one shell.
//! - A failure is a [`Fault`] on its way out, and gets its form, with the path, where the answer leaves.

mod body;
mod control;
mod error;
mod events;
mod exec;
mod file;
mod git;
mod interpreter;
mod log;
mod pty;
mod reach;
mod record;
mod session;
mod system;
mod transfer;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::DefaultBodyLimit;
use axum::response::Response;
use axum::routing::{delete, get, post, put};
use http::{Method, Request, StatusCode, Uri};
use sandshell_client::Client;
use sandshell_client::types::Problem;
use tower::Service as _;

use crate::lease::Lease;
use error::Fault;

/// Most bytes of a refusal that is put into words here.
const REFUSAL: usize = 4096;

/// Answers requests of the dialect.
#[derive(Debug, Clone)]
pub struct Daytona(Router);

impl Default for Daytona {
    fn default() -> Self {
        Self::new()
    }
}

impl Daytona {
    /// Where its clients listen for events. They show their token only within the socket.
    pub const EVENTS: &str = "/api/socket.io/";

    /// What answers with the rights of any caller.
    #[must_use]
    pub fn new() -> Self {
        let router = Router::new()
            .nest("/api", control_plane())
            .nest("/toolbox/{sandbox}", toolbox())
            .fallback(nothing);
        Self(router)
    }

    /// A refusal of our own, in this dialect's form.
    #[must_use]
    pub fn refuse(problem: Problem) -> Response {
        Fault::from(problem).told(&Method::GET, "/api")
    }

    /// Answers a request for [`Self::EVENTS`]. Whoever shows a token there gets the lease that goes with it.
    pub async fn listen(
        admit: impl Fn(&str) -> Option<Lease> + Send + 'static,
        request: Request<Body>,
    ) -> Response {
        let path = request.uri().path().to_owned();
        match events::listen(admit, request).await {
            Ok(response) => response,
            Err(fault) => fault.told(&Method::GET, &path),
        }
    }

    /// Answers a request for the hub that this client reaches. What becomes a socket keeps the lease.
    pub async fn answer(&self, hub: Client, lease: Lease, mut request: Request<Body>) -> Response {
        let method = request.method().clone();
        let path = request.uri().path().to_owned();
        request.extensions_mut().insert(hub);
        request.extensions_mut().insert(lease);
        let Ok(mut response) = self.0.clone().call(request).await;
        if let Some(fault) = response.extensions_mut().remove::<Fault>() {
            return fault.told(&method, &path);
        }
        let status = response.status();
        if !status.is_client_error() && !status.is_server_error() {
            return response;
        }
        // What a request brought could not be read.
        let words = to_bytes(response.into_body(), REFUSAL).await;
        let words = String::from_utf8_lossy(&words.unwrap_or_default()).into_owned();
        Fault::unread(status, words).told(&method, &path)
    }
}

fn control_plane() -> Router {
    Router::new()
        .route("/config", get(control::config))
        .route("/sandbox", get(control::list).post(control::create))
        .route("/sandbox/{id}", get(control::get).delete(control::delete))
        .route("/sandbox/{id}/start", post(control::start))
        .route("/sandbox/{id}/stop", post(control::stop))
        .route("/sandbox/{id}/pause", post(control::stop))
        .route("/sandbox/{id}/resize", post(control::resize))
        .route("/sandbox/{id}/labels", put(control::labels))
        .route("/sandbox/{id}/autostop/{number}", post(control::autostop))
        .route("/sandbox/{id}/autopause/{number}", post(control::autostop))
        .route(
            "/sandbox/{id}/autodelete/{number}",
            post(control::autodelete),
        )
        .route("/sandbox/{id}/ttl/{number}", post(control::lifetime))
        .route("/sandbox/{id}/last-activity", post(control::keep_alive))
        .route("/sandbox/{id}/toolbox-proxy-url", get(control::toolbox_url))
        .route(
            "/sandbox/{id}/ports/{port}/preview-url",
            get(control::preview),
        )
        .route(
            "/sandbox/{id}/ports/{port}/signed-preview-url",
            get(control::signed_preview),
        )
        .route(
            "/sandbox/{id}/ports/{port}/signed-preview-url/{token}/expire",
            post(control::expire_preview),
        )
        .fallback(absent)
}

fn toolbox() -> Router {
    Router::new()
        .route("/process/execute", post(exec::execute))
        .route("/process/code-run", post(exec::code))
        .route("/process/session", get(session::list).post(session::create))
        .route(
            "/process/session/{session}",
            get(session::get).delete(session::delete),
        )
        .route("/process/session/{session}/exec", post(session::execute))
        .route(
            "/process/session/{session}/command/{command}",
            get(session::command),
        )
        .route(
            "/process/session/{session}/command/{command}/logs",
            get(session::logs),
        )
        .route(
            "/process/session/{session}/command/{command}/input",
            post(session::input),
        )
        .route("/process/pty", get(pty::list).post(pty::create))
        .route("/process/pty/create-connect", get(pty::create_connect))
        .route("/process/pty/{pty}", get(pty::get).delete(pty::delete))
        .route("/process/pty/{pty}/connect", get(pty::connect))
        .route("/process/pty/{pty}/resize", post(pty::resize))
        .route(
            "/process/interpreter/context",
            get(interpreter::list).post(interpreter::create),
        )
        .route(
            "/process/interpreter/context/{context}",
            delete(interpreter::delete),
        )
        .route("/process/interpreter/execute", get(interpreter::execute))
        .route("/files", get(file::list).delete(file::delete))
        .route("/files/info", get(file::info))
        .route("/files/find", get(file::find))
        .route("/files/search", get(file::search))
        .route("/files/folder", post(file::folder))
        .route("/files/move", post(file::relocate))
        .route("/files/permissions", post(file::permissions))
        .route("/files/replace", post(file::replace))
        .route("/files/download", get(transfer::download))
        .route("/files/bulk-download", post(transfer::bulk_download))
        .merge(uploads())
        .route("/git/status", get(git::status))
        .route(
            "/git/branches",
            get(git::branches)
                .post(git::create_branch)
                .delete(git::delete_branch),
        )
        .route("/git/history", get(git::history))
        .route("/git/add", post(git::add))
        .route("/git/commit", post(git::commit))
        .route("/git/clone", post(git::clone))
        .route("/git/checkout", post(git::checkout))
        .route("/git/pull", post(git::pull))
        .route("/git/push", post(git::push))
        .route("/git/init", post(git::plain::init))
        .route("/git/reset", post(git::plain::reset))
        .route("/git/restore", post(git::plain::restore))
        .route(
            "/git/remotes",
            get(git::plain::remotes).post(git::plain::add_remote),
        )
        .route(
            "/git/config",
            get(git::plain::config).post(git::plain::set_config),
        )
        .route("/git/config/user", post(git::plain::set_user))
        .route("/port", get(system::ports))
        .route("/port/{port}/in-use", get(system::in_use))
        .route("/work-dir", get(system::work_dir))
        .route("/user-home-dir", get(system::home_dir))
        .route("/version", get(system::version))
        .route("/env", post(system::env))
        .route("/system/metrics", get(system::metrics))
        .fallback(absent)
}

/// What brings files, of any size: they go on as they come.
fn uploads() -> Router {
    Router::new()
        .route("/files/upload", post(transfer::upload))
        .route("/files/upload-v2", post(transfer::upload))
        .route("/files/bulk-upload", post(transfer::bulk_upload))
        .layer(DefaultBodyLimit::disable())
}

/// What their API has and ours does not: archives, volumes, language servers, computer use and more.
async fn absent(method: Method, uri: Uri) -> Fault {
    Fault::absent(&format!("{method} {}", uri.path()))
}

async fn nothing() -> Fault {
    Fault::new(
        StatusCode::NOT_FOUND,
        "NOT_FOUND",
        "This is not served here",
    )
}
