//! The routes of one sandbox, one module for each surface, and what they share.
//!
//! Owns the route table, from which both the router and the `OpenAPI` document are made. Handlers
//! translate between the wire and the execution core and keep nothing.

mod archive;
mod backups;
mod contexts;
pub(crate) mod document;
mod exec;
pub(crate) mod explorer;
pub(crate) mod files;
mod git;
mod metrics;
mod output;
pub(crate) mod paging;
mod ports;
mod processes;
pub(crate) mod routes;
mod sandbox;
mod search;
pub(crate) mod service;
mod sessions;
pub(crate) mod table;
mod terminals;
mod tickets;
mod watch;

use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Extension;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use sandshell_exec::{CommandHandle, ProcessHandle};
use sandshell_types::Encoding;
use serde::Serialize;

use crate::Agent;
use crate::idempotency::Ticket;

pub use document::openapi_json;

type AgentState = axum::extract::State<Arc<Agent>>;

mod core {
    use super::{Agent, Arc, exec, processes, sessions};

    crate::table! {
        pub(super) Arc<Agent> {
            exec::exec;
            processes::start, processes::list;
            processes::get, processes::forget;
            processes::output;
            processes::write_stdin;
            processes::close_stdin;
            processes::signal;
            processes::kill;
            processes::wait;
            sessions::create, sessions::list;
            sessions::get, sessions::patch, sessions::end;
            sessions::exec;
            sessions::interrupt;
            sessions::fork;
            sessions::commands;
            sessions::command;
            sessions::command_output;
        }
    }
}

mod basics {
    use super::{Agent, Arc, explorer, metrics, service, tickets};

    crate::table! {
        pub(super) Arc<Agent> {
            service::healthz;
            service::readyz;
            service::version;
            service::openapi;
            explorer::docs;
            tickets::create;
            metrics::metrics;
        }
    }
}

/// All tables.
macro_rules! every {
    ($of:ident) => {
        [
            core::$of(),
            terminals::$of(),
            files::$of(),
            search::$of(),
            archive::$of(),
            watch::$of(),
            git::$of(),
            backups::$of(),
            ports::$of(),
            contexts::$of(),
            sandbox::$of(),
            basics::$of(),
        ]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
    };
}

pub(crate) fn router(agent: Arc<Agent>) -> Router {
    unassigned().clone().with_state(agent)
}

/// The router of no agent yet.
fn unassigned() -> &'static Router<Arc<Agent>> {
    static ROUTER: OnceLock<Router<Arc<Agent>>> = OnceLock::new();
    ROUTER.get_or_init(|| table::router(every!(table)))
}

#[cfg(test)]
fn documented() -> Vec<utoipa_axum::router::UtoipaMethodRouter<Arc<Agent>>> {
    every!(documented)
}

/// Makes what all agents of a process have in common, which those who fork agents need not spend on each.
pub fn prepare() {
    routes::own();
    unassigned();
    // In a virtual machine each such question to the processor takes as long as a dozen system calls.
    #[cfg(target_arch = "x86_64")]
    std::hint::black_box(std::is_x86_feature_detected!("avx2"));
}

/// The ticket of a request with an idempotency key.
pub(crate) type KeyTicket = Arc<Ticket<Answer>>;
type OptionalTicket = Option<Extension<KeyTicket>>;

/// What is needed to answer a request again.
#[derive(Clone)]
pub(crate) enum Answer {
    /// A small answer, whole.
    Whole(WholeAnswer),
    /// An exec: its answer is made anew from its log.
    Exec(ProcessHandle, Encoding),
    /// A session's command, the same.
    Command(CommandHandle, Encoding),
    /// A run in a context, the same.
    Run(sandshell_contexts::RunHandle, Encoding),
}

/// A small answer.
#[derive(Debug, Clone)]
pub(crate) struct WholeAnswer {
    pub(crate) status: StatusCode,
    pub(crate) content_type: Option<HeaderValue>,
    pub(crate) body: Bytes,
}

/// Whether the handlers of this path give [`Answer`]s themselves, as soon as the command has started.
pub(crate) fn answers_by_handle(path: &str) -> bool {
    path.ends_with("/exec") || (path.starts_with("/v1/contexts/") && path.ends_with("/run"))
}

/// Gives an answer again.
pub(crate) async fn repeat(agent: &Agent, answer: Answer, headers: &HeaderMap) -> Response {
    match answer {
        Answer::Whole(whole) => {
            let mut response = Response::new(Body::from(whole.body));
            *response.status_mut() = whole.status;
            if let Some(content_type) = whole.content_type {
                response
                    .headers_mut()
                    .insert(header::CONTENT_TYPE, content_type);
            }
            response
        }
        Answer::Exec(process, encoding) => exec::result(&process, encoding).await.into_response(),
        Answer::Run(run, encoding) => contexts::answer(agent, &run, encoding, headers)
            .await
            .into_response(),
        Answer::Command(command, encoding) => {
            sessions::result(agent, command, encoding, headers, None)
                .await
                .into_response()
        }
    }
}

/// 201 for what was made now, 200 for what was there.
fn created<T: Serialize>(now: bool, body: T) -> Response {
    let status = if now {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    (status, axum::Json(body)).into_response()
}

/// A body without any field, for routes that need none.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}
