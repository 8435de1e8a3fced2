//! `/mcp`: the tools for AI agents, with the rights of whoever asks.
//!
//! ```text
//! request ─► edge (token, rate) ─► MCP ─► tool ─► client ─► edge again, with the same token ─► …
//! ```
//!
//! A tool's calls pass the edge once more, over a pipe within this process, and show the token that came
//! with the request: what a token may not do, no tool does for it. The route is not in the `OpenAPI`
//! document: what goes through it is another protocol.

use axum::body::Body;
use axum::response::Response;
use http::request::Parts;
use http::{HeaderValue, Request, header};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use sandshell_agent::Listen;
use sandshell_agent::parts::REQUEST_ID;
use sandshell_client::{Client, Connector};
use sandshell_mcp::HttpService;
use tokio_util::sync::CancellationToken;

use crate::edge::Edge;
use crate::route::Forwarded;

/// Where it is.
pub(crate) const PATH: &str = "/mcp";

/// Bytes under way in each direction between a tool and the edge.
const PIPE: usize = 64 * 1024;

/// The way back to the edge that let a request in.
#[derive(Clone)]
struct Inside(Edge);

/// What answers; it ends its streams with the hub.
pub(crate) fn service(address: &Listen, ended: CancellationToken) -> HttpService {
    let has_address = matches!(address, Listen::Tcp(_));
    HttpService::new(client_of, has_address, ended)
}

/// A client with the rights of a request.
fn client_of(head: &Parts) -> Option<Client> {
    let Inside(edge) = head.extensions.get::<Inside>()?.clone();
    let connector = Connector::new(move || {
        let (ours, theirs) = tokio::io::duplex(PIPE);
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .serve_connection(TokioIo::new(theirs), edge.clone());
        // Its end is that of the client's; what went wrong has been answered.
        tokio::spawn(async move { drop(connection.await) });
        ours
    });
    let authority = head.uri.authority().map(http::uri::Authority::as_str);
    let host = match head.headers.get(header::HOST) {
        Some(host) => host.clone(),
        // HTTP/2 has it in the address.
        None => HeaderValue::from_str(authority.unwrap_or("localhost")).ok()?,
    };
    let authorization = head.headers.get(header::AUTHORIZATION).cloned();
    Some(Client::in_process(connector, host, authorization))
}

/// Answers a request that the edge has let in.
pub(crate) async fn answer(edge: &Edge, mut request: Request<Body>, id: &HeaderValue) -> Response {
    request.extensions_mut().insert(Inside(edge.clone()));
    let mut response = edge.hub().mcp.answer(request).await.map(Body::new);
    // Failures have the form of that protocol, not that of our problems.
    response.extensions_mut().insert(Forwarded);
    response.headers_mut().insert(REQUEST_ID, id.clone());
    response
}
