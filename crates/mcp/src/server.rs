//! The server: what it says of itself, its list of tools, and their calls.
//!
//! Owns the bound on calls at a time. Does not know where messages come from.

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ErrorData, ServerHandler};
use sandshell_client::Client;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use crate::call::{Call, Progress};
use crate::refusal::Refusal;
use crate::tools;

/// Calls of one server at a time; over HTTP, of all its clients.
const CALLS: usize = 1024;

const INSTRUCTIONS: &str = "Sandshell gives you isolated Linux computers (sandboxes). create_sandbox \
    first, and pass its id as `sandbox` to the other tools. run_command runs one command in a clean \
    shell; run_in_session keeps directory and variables between commands; start_process runs servers and \
    long work in the background, and read_output reads them; run_code keeps an interpreter's variables. \
    Outputs are cut to a size you can set: what was left out is named with the id and the offset to read \
    it by. A command that outlives wait_ms goes on. remove_sandbox at the end.";

/// Whose rights a call has.
pub(crate) type ClientOf =
    dyn Fn(&RequestContext<RoleServer>) -> Result<Client, Refusal> + Send + Sync;

/// A server; clones are the same one.
#[derive(Clone)]
pub(crate) struct Server {
    client_of: Arc<ClientOf>,
    slots: Arc<Semaphore>,
    /// Calls under way, so that an end can wait for what they still have to tidy up.
    calls: TaskTracker,
}

impl Server {
    pub(crate) fn new(
        client_of: impl Fn(&RequestContext<RoleServer>) -> Result<Client, Refusal>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self {
            client_of: Arc::new(client_of),
            slots: Arc::new(Semaphore::new(CALLS)),
            calls: TaskTracker::new(),
        }
    }

    pub(crate) fn calls(&self) -> &TaskTracker {
        &self.calls
    }

    async fn call(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let entry = tools::all()
            .iter()
            .find(|entry| entry.listed.name == request.name);
        let Some(entry) = entry else {
            let message = format!("there is no tool {:?}", request.name);
            return Err(ErrorData::invalid_params(message, None));
        };
        let _under_way = self.calls.token();
        let answer = async {
            let _slot = self.slots.try_acquire().map_err(|_| Refusal::busy(CALLS))?;
            let hub = (self.client_of)(&context)?;
            let token = context.meta.get_progress_token();
            let call = Call {
                hub,
                progress: token.map(|token| Progress::new(context.peer.clone(), token)),
                cancelled: context.ct.clone(),
            };
            (entry.run)(request.arguments.unwrap_or_default(), &call).await
        };
        let mut result = CallToolResult::default();
        match answer.await {
            Ok(answered) => {
                result.content = answered.content;
                result.structured_content = Some(answered.value);
                result.is_error = Some(false);
            }
            Err(refusal) => {
                result.content = vec![ContentBlock::text(refusal.text())];
                result.structured_content = Some(refusal.value());
                result.is_error = Some(true);
            }
        }
        Ok(result)
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let mut implementation = Implementation::new("sandshell", env!("CARGO_PKG_VERSION"));
        implementation.title = Some("Sandshell".to_owned());
        let mut config = ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_instructions(INSTRUCTIONS);
        config.server_info = implementation;
        config
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(listed()))
    }

    fn get_tool(&self, name: &str) -> Option<rmcp::model::Tool> {
        let entry = tools::all().iter().find(|entry| entry.listed.name == name);
        entry.map(|entry| entry.listed.clone())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        // Boxed: the future of a call is large, and there are many tasks that hold one.
        Box::pin(self.call(request, context))
            .await
            .map(CallToolResponse::from)
    }
}

fn listed() -> Vec<rmcp::model::Tool> {
    tools::all()
        .iter()
        .map(|entry| entry.listed.clone())
        .collect()
}

/// The list of tools as clients get it, for documents and tests.
pub fn tools_json() -> serde_json::Value {
    serde_json::to_value(listed()).unwrap_or_default()
}
