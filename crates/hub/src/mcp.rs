//! `/mcp`: the tools for AI agents, with the rights of whoever asks.
//!
//! The route is not in the `OpenAPI` document: what goes through it is another protocol.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use http::request::Parts;
use http::{HeaderValue, Request};
use sandshell_agent::Listen;
use sandshell_agent::parts::REQUEST_ID;
use sandshell_client::Client;
use sandshell_mcp::HttpService;
use tokio_util::sync::CancellationToken;

use crate::edge::Edge;
use crate::inside;
use crate::route::Forwarded;
use crate::tokens::Token;

/// Where it is.
pub(crate) const PATH: &str = "/mcp";

/// The edge, for the calls of whoever asks.
#[derive(Clone)]
struct LetIn(Edge);

/// What answers; it ends its streams with the hub.
pub(crate) fn service(address: &Listen, ended: CancellationToken) -> HttpService {
    let has_address = matches!(address, Listen::Tcp(_));
    HttpService::new(client_of, has_address, ended)
}

/// A client with the rights of a request.
fn client_of(head: &Parts) -> Option<Client> {
    let LetIn(edge) = head.extensions.get::<LetIn>()?.clone();
    inside::client(edge, head)
}

/// Answers a request that the edge has let in.
pub(crate) async fn answer(
    edge: &Edge,
    token: Option<Arc<Token>>,
    mut request: Request<Body>,
    id: &HeaderValue,
) -> Response {
    let inner = token.map_or_else(|| edge.clone(), |token| edge.for_caller(token));
    request.extensions_mut().insert(LetIn(inner));
    let mut response = edge.hub().mcp.answer(request).await.map(Body::new);
    // Failures have the form of that protocol, not that of our problems.
    response.extensions_mut().insert(Forwarded);
    response.headers_mut().insert(REQUEST_ID, id.clone());
    response
}
