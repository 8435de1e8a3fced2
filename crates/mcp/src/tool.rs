//! What a tool is, and the form in which it is listed and called.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use rmcp::model::{ContentBlock, JsonObject, ToolAnnotations};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::call::Call;
use crate::refusal::Refusal;
use crate::schema;

/// What clients may assume before they let a model call a tool.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Effect {
    /// It only looks.
    Reads,
    /// It adds something; the same call again adds nothing more.
    Adds,
    /// It may add something each time.
    AddsMore,
    /// It may change or end what is there; again, it changes nothing more.
    Replaces,
    /// It may change anything in the sandbox.
    Runs,
}

/// A tool; its fields are its arguments.
pub(crate) trait Tool: DeserializeOwned + JsonSchema + Send + 'static {
    const NAME: &'static str;
    const TITLE: &'static str;
    /// What it does and when to use it, for a model.
    const ABOUT: &'static str;
    const EFFECT: Effect;
    /// Whether what it does may reach beyond the sandbox.
    const OPEN_WORLD: bool = false;

    type Output: Answer;

    fn run(self, call: &Call) -> impl Future<Output = Result<Self::Output, Refusal>> + Send;
}

/// What a tool answers: data, and the same as text.
pub(crate) trait Answer: Serialize + JsonSchema + Send {
    fn text(&self) -> String;

    /// Blocks besides the text.
    fn more(&self) -> Vec<ContentBlock> {
        Vec::new()
    }
}

/// An answer in the form in which it is sent.
pub(crate) struct Answered {
    pub(crate) content: Vec<ContentBlock>,
    pub(crate) value: Value,
}

type Running<'a> = Pin<Box<dyn Future<Output = Result<Answered, Refusal>> + Send + 'a>>;

/// A tool in the list.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) listed: rmcp::model::Tool,
    pub(crate) run: for<'a> fn(JsonObject, &'a Call) -> Running<'a>,
}

impl Entry {
    pub(crate) fn of<T: Tool>() -> Self {
        let listed = rmcp::model::Tool::new(T::NAME, T::ABOUT, Arc::new(schema::of::<T>()))
            .with_title(T::TITLE)
            .with_raw_output_schema(Arc::new(schema::of::<T::Output>()))
            .with_annotations(annotations(T::TITLE, T::EFFECT, T::OPEN_WORLD));
        Self {
            listed,
            run: |arguments, call| Box::pin(run::<T>(arguments, call)),
        }
    }
}

async fn run<T: Tool>(arguments: JsonObject, call: &Call) -> Result<Answered, Refusal> {
    let tool: T =
        serde_path_to_error::deserialize(Value::Object(arguments)).map_err(|error| match error
            .path()
            .to_string()
            .as_str()
        {
            "." => Refusal::arguments(error.inner()),
            path => Refusal::argument(path, error.inner()),
        })?;
    let output = tool.run(call).await?;
    let value = serde_json::to_value(&output).map_err(Refusal::arguments)?;
    let mut content = vec![ContentBlock::text(output.text())];
    content.extend(output.more());
    Ok(Answered { content, value })
}

fn annotations(title: &str, effect: Effect, open_world: bool) -> ToolAnnotations {
    let (reads, destroys, idempotent) = match effect {
        Effect::Reads => (true, false, true),
        Effect::Adds => (false, false, true),
        Effect::AddsMore => (false, false, false),
        Effect::Replaces => (false, true, true),
        Effect::Runs => (false, true, false),
    };
    ToolAnnotations::with_title(title)
        .read_only(reads)
        .destructive(destroys)
        .idempotent(idempotent)
        .open_world(open_world)
}
