//! Code contexts: one scenario for all languages and drivers, then what is particular to each.

mod hostile;
mod life;
mod python;
mod scenario;

use sandshell_client::Client;
use sandshell_client::types::{
    ContextId, ContextRecord, ContextRequest, KernelChoice, Language, RunReply, RunRequest,
};

use crate::calls::in_time;

/// A context with the built-in driver.
fn context_of(language: Language) -> ContextRequest {
    ContextRequest {
        id: None,
        language,
        cwd: None,
        env: std::collections::BTreeMap::new(),
        user: None,
        session: None,
        timeout_ms: None,
        idle_timeout_ms: None,
        kernel: KernelChoice::Builtin,
    }
}

async fn create(client: &Client, request: &ContextRequest) -> ContextRecord {
    in_time(client.create_context(request)).await.unwrap()
}

fn code_of(text: &str) -> RunRequest {
    RunRequest {
        code: text.to_owned(),
        ..Default::default()
    }
}

async fn run(client: &Client, id: &ContextId, code: &str) -> RunReply {
    in_time(client.run_code(id, &code_of(code))).await.unwrap()
}

/// The text of the last value.
fn main_text(reply: &RunReply) -> Option<&str> {
    let main = reply.results.iter().find(|result| result.is_main)?;
    main.data.get("text/plain")?.as_str()
}
