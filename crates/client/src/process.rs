//! Calls of the `process` surface.

use bytes::Bytes;
use http::Method;
use sandshell_types::{
    KillReply, KillRequest, List, ProcessId, ProcessRecord, ProcessRequest, SignalReply,
    SignalRequest, StdinReply, WaitReply, WaitRequest,
};

use crate::query::Query;
use crate::{ByteStream, Client, ClientError, EventQuery, EventStream, OutputQuery, ProcessFilter};

impl Client {
    /// Starts a process.
    pub async fn create_process(
        &self,
        request: &ProcessRequest,
    ) -> Result<ProcessRecord, ClientError> {
        self.post("/v1/processes", request).await
    }

    /// Lists processes.
    pub async fn list_processes(
        &self,
        filter: &ProcessFilter,
    ) -> Result<List<ProcessRecord>, ClientError> {
        self.get(&format!("/v1/processes{}", Query::from(filter)))
            .await
    }

    /// The record of a process.
    pub async fn process(&self, id: &ProcessId) -> Result<ProcessRecord, ClientError> {
        self.get(&format!("/v1/processes/{id}")).await
    }

    /// The bytes of one stream of a process.
    pub async fn process_output(
        &self,
        id: &ProcessId,
        query: OutputQuery,
    ) -> Result<ByteStream, ClientError> {
        self.get_bytes(&format!("/v1/processes/{id}/output{}", Query::from(query)))
            .await
    }

    /// Both streams of a process in order of arrival, then its exit.
    pub async fn process_events(
        &self,
        id: &ProcessId,
        query: EventQuery,
    ) -> Result<EventStream, ClientError> {
        self.get_events(&format!("/v1/processes/{id}/output{}", Query::from(query)))
            .await
    }

    /// Writes to the standard input of a process. With an offset, a write that was already taken
    /// in is refused instead of doubled.
    pub async fn write_stdin(
        &self,
        id: &ProcessId,
        offset: Option<u64>,
        bytes: impl Into<Bytes>,
    ) -> Result<StdinReply, ClientError> {
        let query = Query::default().with("offset", offset);
        self.post_bytes(&format!("/v1/processes/{id}/stdin{query}"), bytes.into())
            .await
    }

    /// Ends the standard input of a process.
    pub async fn close_stdin(&self, id: &ProcessId) -> Result<StdinReply, ClientError> {
        self.post_empty(&format!("/v1/processes/{id}/stdin/close"))
            .await
    }

    /// Sends a signal to a process, its group or its tree.
    pub async fn signal_process(
        &self,
        id: &ProcessId,
        request: &SignalRequest,
    ) -> Result<SignalReply, ClientError> {
        self.post(&format!("/v1/processes/{id}/signal"), request)
            .await
    }

    /// Ends a process and all that descends from it; the record stays.
    pub async fn kill_process(
        &self,
        id: &ProcessId,
        request: &KillRequest,
    ) -> Result<KillReply, ClientError> {
        self.post(&format!("/v1/processes/{id}/kill"), request)
            .await
    }

    /// Kills a process and forgets its record.
    pub async fn delete_process(&self, id: &ProcessId) -> Result<KillReply, ClientError> {
        self.without_body(Method::DELETE, &format!("/v1/processes/{id}"))
            .await
    }

    /// Waits for the end of a process, a line of its output or a port, whichever comes first.
    pub async fn wait_process(
        &self,
        id: &ProcessId,
        request: &WaitRequest,
    ) -> Result<WaitReply, ClientError> {
        self.post(&format!("/v1/processes/{id}/wait"), request)
            .await
    }
}
