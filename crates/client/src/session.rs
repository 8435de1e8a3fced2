//! Calls of the `session` surface.

use http::Method;
use sandshell_types::{
    CommandId, CommandRecord, ForkRequest, InterruptReply, KillReply, List, SessionExecRequest,
    SessionExecResult, SessionId, SessionPatch, SessionRecord, SessionRequest,
};

use crate::query::Query;
use crate::{ByteStream, Client, ClientError, EventQuery, EventStream, OutputQuery, Page};

impl Client {
    /// Makes a session.
    pub async fn create_session(
        &self,
        request: &SessionRequest,
    ) -> Result<SessionRecord, ClientError> {
        self.post("/v1/sessions", request).await
    }

    /// Lists sessions.
    pub async fn list_sessions(&self, page: &Page) -> Result<List<SessionRecord>, ClientError> {
        self.get(&format!("/v1/sessions{}", Query::default().page(page)))
            .await
    }

    /// The record of a session, with its figures.
    pub async fn session(&self, id: &SessionId) -> Result<SessionRecord, ClientError> {
        self.get(&format!("/v1/sessions/{id}")).await
    }

    /// Changes a session.
    pub async fn patch_session(
        &self,
        id: &SessionId,
        patch: &SessionPatch,
    ) -> Result<SessionRecord, ClientError> {
        self.patch(&format!("/v1/sessions/{id}"), patch).await
    }

    /// Ends a session and all that runs in it.
    pub async fn delete_session(&self, id: &SessionId) -> Result<KillReply, ClientError> {
        self.without_body(Method::DELETE, &format!("/v1/sessions/{id}"))
            .await
    }

    /// Runs a command in a session and waits for its result.
    pub async fn session_exec(
        &self,
        id: &SessionId,
        request: &SessionExecRequest,
    ) -> Result<SessionExecResult, ClientError> {
        self.post(&format!("/v1/sessions/{id}/exec"), request).await
    }

    /// Runs a command in a session and streams its output: started, output, exit.
    pub async fn session_exec_stream(
        &self,
        id: &SessionId,
        request: &SessionExecRequest,
    ) -> Result<EventStream, ClientError> {
        self.post_events(&format!("/v1/sessions/{id}/exec"), request)
            .await
    }

    /// The history of a session.
    pub async fn list_commands(
        &self,
        id: &SessionId,
        page: &Page,
    ) -> Result<List<CommandRecord>, ClientError> {
        self.get(&format!(
            "/v1/sessions/{id}/commands{}",
            Query::default().page(page)
        ))
        .await
    }

    /// The record of one command of a session.
    pub async fn command(
        &self,
        id: &SessionId,
        command: &CommandId,
    ) -> Result<CommandRecord, ClientError> {
        self.get(&format!("/v1/sessions/{id}/commands/{command}"))
            .await
    }

    /// The bytes of one stream of a command, the late ones included.
    pub async fn command_output(
        &self,
        id: &SessionId,
        command: &CommandId,
        query: OutputQuery,
    ) -> Result<ByteStream, ClientError> {
        let query = Query::from(query);
        self.get_bytes(&format!(
            "/v1/sessions/{id}/commands/{command}/output{query}"
        ))
        .await
    }

    /// The streams of a command in order of arrival, then its exit.
    pub async fn command_events(
        &self,
        id: &SessionId,
        command: &CommandId,
        query: EventQuery,
    ) -> Result<EventStream, ClientError> {
        let query = Query::from(query);
        self.get_events(&format!(
            "/v1/sessions/{id}/commands/{command}/output{query}"
        ))
        .await
    }

    /// Interrupts the running command of a session; answers when it is really over.
    pub async fn interrupt_session(&self, id: &SessionId) -> Result<InterruptReply, ClientError> {
        self.post_empty(&format!("/v1/sessions/{id}/interrupt"))
            .await
    }

    /// Makes a new session from the state of this one.
    pub async fn fork_session(
        &self,
        id: &SessionId,
        request: &ForkRequest,
    ) -> Result<SessionRecord, ClientError> {
        self.post(&format!("/v1/sessions/{id}/fork"), request).await
    }
}
