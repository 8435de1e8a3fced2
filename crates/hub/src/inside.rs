//! The way back to the edge, for what speaks another protocol over our API.
//!
//! ```text
//! request ─► edge ─► another protocol ─► client ─► edge again, with the same token ─► …
//! ```
//!
//! Calls pass the edge once more, over a pipe within this process, as those of the token that came with the
//! request ([`Edge::for_caller`]): what a token may not do, no other protocol does for it.

use http::request::Parts;
use http::{HeaderValue, header};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use sandshell_client::{Client, Connector};

use crate::edge::Edge;
use sandshell_sys::task;

/// Bytes under way in each direction between such a protocol and the edge.
const PIPE: usize = 64 * 1024;

/// A client of this edge that says it is for the host of a request.
pub(crate) fn client(edge: Edge, head: &Parts) -> Option<Client> {
    let connector = Connector::new(move || {
        let (ours, theirs) = tokio::io::duplex(PIPE);
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .serve_connection(TokioIo::new(theirs), edge.clone())
            .with_upgrades();
        // Its end is that of the client's; what went wrong has been answered.
        task::spawn(async move { drop(connection.await) });
        ours
    });
    let authority = head.uri.authority().map(http::uri::Authority::as_str);
    let host = match head.headers.get(header::HOST) {
        Some(host) => host.clone(),
        // HTTP/2 has it in the address.
        None => HeaderValue::from_str(authority.unwrap_or("localhost")).ok()?,
    };
    Some(Client::in_process(connector, host))
}
