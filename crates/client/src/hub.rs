//! Calls of a hub. Those of one sandbox are made by the client that [`Client::sandbox`] gives.

use bytes::Bytes;
use futures_util::Stream;
use http::{HeaderMap, Method};
use sandshell_types::{
    AuditEntry, ImageName, ImageRecord, ImageRequest, List, PortUnexposed, Preview, PreviewRequest,
    SandboxId, SandboxPatch, SandboxRecord, SandboxSpec, TokenCreated, TokenRecord, TokenRequest,
};

use crate::connection::OutBody;
use crate::query::{Page, Query};
use crate::{Client, ClientError};

/// Which sandboxes to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxFilter {
    /// Only those with all of these labels.
    pub labels: Vec<(String, String)>,
    /// Only in this state, or `all`; those that are not over by default.
    pub state: Option<String>,
    /// Which page.
    pub page: Page,
}

/// Which entries of the audit log to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Only what was done to this sandbox or token.
    pub target: Option<String>,
    /// Only this action.
    pub action: Option<String>,
    /// Which page.
    pub page: Page,
}

impl Client {
    /// The client of one sandbox of a hub: all calls of an agent go to it.
    #[must_use]
    pub fn sandbox(&self, id: &SandboxId) -> Self {
        self.below(format!("/v1/sandboxes/{id}"))
    }

    /// Makes a sandbox, or gets the one with this id and spec.
    pub async fn create_sandbox(&self, spec: &SandboxSpec) -> Result<SandboxRecord, ClientError> {
        self.post("/v1/sandboxes", spec).await
    }

    /// Lists sandboxes, oldest first.
    pub async fn sandboxes(
        &self,
        filter: &SandboxFilter,
    ) -> Result<List<SandboxRecord>, ClientError> {
        let query = Query::default()
            .with("limit", filter.page.limit)
            .with("cursor", filter.page.cursor.as_ref())
            .with("state", filter.state.as_ref());
        let query = filter.labels.iter().fold(query, |query, (key, value)| {
            query.with("label", Some(format!("{key}={value}")))
        });
        self.get(&format!("/v1/sandboxes{query}")).await
    }

    /// One sandbox.
    pub async fn get_sandbox(&self, id: &SandboxId) -> Result<SandboxRecord, ClientError> {
        self.get(&format!("/v1/sandboxes/{id}")).await
    }

    /// Changes labels and times of a sandbox.
    pub async fn patch_sandbox(
        &self,
        id: &SandboxId,
        patch: &SandboxPatch,
    ) -> Result<SandboxRecord, ClientError> {
        self.patch(&format!("/v1/sandboxes/{id}"), patch).await
    }

    /// Destroys a sandbox; when this returns nothing of it runs.
    pub async fn destroy_sandbox(&self, id: &SandboxId) -> Result<SandboxRecord, ClientError> {
        self.without_body(Method::DELETE, &format!("/v1/sandboxes/{id}"))
            .await
    }

    /// Freezes a sandbox until it is resumed.
    pub async fn pause_sandbox(&self, id: &SandboxId) -> Result<SandboxRecord, ClientError> {
        self.post_empty(&format!("/v1/sandboxes/{id}/pause")).await
    }

    /// Lets a sandbox go on.
    pub async fn resume_sandbox(&self, id: &SandboxId) -> Result<SandboxRecord, ClientError> {
        self.post_empty(&format!("/v1/sandboxes/{id}/resume")).await
    }

    /// Starts the idle time of a sandbox anew.
    pub async fn keep_sandbox_alive(&self, id: &SandboxId) -> Result<SandboxRecord, ClientError> {
        self.post_empty(&format!("/v1/sandboxes/{id}/keepalive"))
            .await
    }

    /// Gives a port of a sandbox a name of its own.
    pub async fn create_preview(
        &self,
        id: &SandboxId,
        port: u16,
        request: &PreviewRequest,
    ) -> Result<Preview, ClientError> {
        self.post(&format!("/v1/sandboxes/{id}/ports/{port}/preview"), request)
            .await
    }

    /// Takes the names of a port away.
    pub async fn revoke_previews(
        &self,
        id: &SandboxId,
        port: u16,
    ) -> Result<PortUnexposed, ClientError> {
        let path = format!("/v1/sandboxes/{id}/ports/{port}/preview");
        self.without_body(Method::DELETE, &path).await
    }

    /// Imports an image from a tar archive: a root, `docker save` or an OCI layout; plain, gzip or zstd.
    /// When the stream fails, nothing is imported.
    pub async fn import_image(
        &self,
        name: &ImageName,
        archive: impl Stream<Item = std::io::Result<Bytes>> + Send + 'static,
    ) -> Result<ImageRecord, ClientError> {
        let body = OutBody::stream(archive);
        let path = format!("/v1/images/{name}");
        self.send_body(Method::PUT, &path, HeaderMap::new(), body)
            .await
    }

    /// Makes an image of a directory of the hub's machine, which is copied.
    pub async fn create_image(&self, request: &ImageRequest) -> Result<ImageRecord, ClientError> {
        self.post("/v1/images", request).await
    }

    /// Lists images by name.
    pub async fn images(&self, page: &Page) -> Result<List<ImageRecord>, ClientError> {
        let query = Query::default().page(page);
        self.get(&format!("/v1/images{query}")).await
    }

    /// One image.
    pub async fn image(&self, name: &ImageName) -> Result<ImageRecord, ClientError> {
        self.get(&format!("/v1/images/{name}")).await
    }

    /// Removes an image that no sandbox is made of.
    pub async fn remove_image(&self, name: &ImageName) -> Result<ImageRecord, ClientError> {
        self.without_body(Method::DELETE, &format!("/v1/images/{name}"))
            .await
    }

    /// Makes a token; the reply has it this once.
    pub async fn create_token(&self, request: &TokenRequest) -> Result<TokenCreated, ClientError> {
        self.post("/v1/tokens", request).await
    }

    /// Lists tokens, oldest first.
    pub async fn tokens(&self, page: &Page) -> Result<List<TokenRecord>, ClientError> {
        let query = Query::default()
            .with("limit", page.limit)
            .with("cursor", page.cursor.as_ref());
        self.get(&format!("/v1/tokens{query}")).await
    }

    /// Takes a token's right away.
    pub async fn revoke_token(&self, id: &str) -> Result<TokenRecord, ClientError> {
        self.without_body(Method::DELETE, &format!("/v1/tokens/{id}"))
            .await
    }

    /// Reads the audit log, newest first.
    pub async fn audit(&self, filter: &AuditFilter) -> Result<List<AuditEntry>, ClientError> {
        let query = Query::default()
            .with("limit", filter.page.limit)
            .with("cursor", filter.page.cursor.as_ref())
            .with("target", filter.target.as_ref())
            .with("action", filter.action.as_ref());
        self.get(&format!("/v1/audit{query}")).await
    }
}
