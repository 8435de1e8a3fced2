//! A server in this very process, reached without a socket.

use std::fmt;
use std::sync::Arc;

use http::HeaderValue;
use tokio::io::DuplexStream;

use crate::Client;
use crate::endpoint::Endpoint;

/// Opens connections to a server in this process: hands one end of a pipe to it, and gives the other.
#[derive(Clone)]
pub struct Connector(Arc<dyn Fn() -> DuplexStream + Send + Sync>);

impl Connector {
    /// A connector that calls this for each connection.
    pub fn new(open: impl Fn() -> DuplexStream + Send + Sync + 'static) -> Self {
        Self(Arc::new(open))
    }

    pub(crate) fn open(&self) -> DuplexStream {
        (self.0)()
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connector").finish()
    }
}

impl Client {
    /// A client for a server in this process, which knows whose calls these are. `host` is what its
    /// requests say they are for.
    #[must_use]
    pub fn in_process(connector: Connector, host: HeaderValue) -> Self {
        Self::at(Endpoint::InProcess(connector), host, None)
    }
}
