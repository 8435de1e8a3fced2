//! Calls of the `port` surface. Requests through the proxy are plain HTTP and not typed here.

use http::Method;
use sandshell_types::{
    List, PortExposure, PortRecord, PortUnexposed, PortWaitReply, PortWaitRequest,
};

use crate::query::Query;
use crate::{Client, ClientError, Page, SseStream};

impl Client {
    /// Lists listening ports.
    pub async fn list_ports(&self, page: &Page) -> Result<List<PortRecord>, ClientError> {
        self.get(&format!("/v1/ports{}", Query::default().page(page)))
            .await
    }

    /// Ports as they open and close: `ports` first, with all there are, then `opened` and `closed`.
    pub async fn port_events(&self) -> Result<SseStream, ClientError> {
        self.get_sse("/v1/ports").await
    }

    /// Makes a port reachable with a token of its own.
    pub async fn expose_port(&self, port: u16) -> Result<PortExposure, ClientError> {
        self.with_method(Method::PUT, &format!("/v1/ports/{port}"))
            .await
    }

    /// Takes the token of a port away.
    pub async fn unexpose_port(&self, port: u16) -> Result<PortUnexposed, ClientError> {
        self.with_method(Method::DELETE, &format!("/v1/ports/{port}"))
            .await
    }

    /// Waits until a port answers.
    pub async fn wait_port(
        &self,
        port: u16,
        request: &PortWaitRequest,
    ) -> Result<PortWaitReply, ClientError> {
        self.post(&format!("/v1/ports/{port}/wait"), request).await
    }
}
