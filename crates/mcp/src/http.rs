//! The server of many clients, over streamable HTTP, for whoever has a listener.
//!
//! There are no sessions: each request says all there is to say, its credentials included, and a client
//! that goes away cancels what it asked for. Host, Origin and tokens are the business of whoever lets
//! requests in.

use std::convert::Infallible;
use std::fmt::Display;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use sandshell_client::Client;
use tokio_util::sync::CancellationToken;

use crate::call::Settings;
use crate::refusal::Refusal;
use crate::server::Server;

/// Largest message: a file to write, at most.
const MESSAGE: usize = 16 * 1024 * 1024;

/// Answers requests with messages of the protocol.
#[derive(Clone)]
pub struct HttpService(StreamableHttpService<Server, NeverSessionManager>);

impl HttpService {
    /// A service whose tools use the client that `client_of` makes from the head of a request: with the
    /// rights of that request. `has_address` tells whether the hub can be reached by an address, which
    /// names of ports need. Streams end with `ended`.
    pub fn new(
        client_of: impl Fn(&Parts) -> Option<Client> + Send + Sync + 'static,
        has_address: bool,
        ended: CancellationToken,
    ) -> Self {
        let settings = Settings {
            best_effort: false,
            has_address,
        };
        let server = Server::new(settings, move |context| {
            let parts = context.extensions.get::<Parts>();
            parts
                .and_then(&client_of)
                .ok_or_else(|| Refusal::arguments("the request has no head"))
        });
        // Who may ask has been settled before.
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_legacy_session_mode(false)
            .with_max_request_body_bytes(MESSAGE)
            .with_cancellation_token(ended);
        let sessions = Arc::new(NeverSessionManager::default());
        Self(StreamableHttpService::new(
            move || Ok(server.clone()),
            sessions,
            config,
        ))
    }

    /// Answers a request.
    pub async fn answer<B>(
        &self,
        request: Request<B>,
    ) -> Response<impl Body<Data = Bytes, Error = Infallible> + Send + Sync + 'static>
    where
        B: Body + Send + 'static,
        B::Error: Display,
    {
        self.0.handle(request).await
    }
}

impl std::fmt::Debug for HttpService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("HttpService").finish()
    }
}
