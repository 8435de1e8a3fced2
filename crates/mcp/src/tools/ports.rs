//! Ports: how a server in a sandbox is reached from outside.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::call::Call;
use crate::refusal::Refusal;
use crate::tool::{Answer, Effect, Tool};

/// Arguments of `expose_port`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExposePort {
    /// The sandbox's id.
    sandbox: String,
    /// The TCP port that a server in the sandbox listens on.
    port: u16,
}

/// How a port is reached.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Exposed {
    port: u16,
    /// For a browser: the address of the hub, with a token that opens this port and nothing else.
    url: String,
}

impl Answer for Exposed {
    fn text(&self) -> String {
        format!("port {} is reached at {}", self.port, self.url)
    }
}

impl Tool for ExposePort {
    const NAME: &'static str = "expose_port";
    const TITLE: &'static str = "Expose a port";
    const ABOUT: &'static str = "Get an address under which a person's browser reaches a server in the \
        sandbox. Whoever has the address can use the server. In the sandbox itself, curl \
        localhost:PORT needs none.";
    const EFFECT: Effect = Effect::Adds;
    type Output = Exposed;

    async fn run(self, call: &Call) -> Result<Exposed, Refusal> {
        let sandbox = call.sandbox(&self.sandbox)?;
        let exposed = sandbox.expose_port(self.port).await?;
        Ok(Exposed {
            port: exposed.port,
            url: exposed.url,
        })
    }
}
