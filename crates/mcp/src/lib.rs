//! The Sandshell API as tools of the Model Context Protocol.
//!
//! # Theory of operation
//!
//! ```text
//!  MCP client ─ stdio ─► serve_stdio ─┐
//!                                     ├─► server ─► tool (one struct each) ─► client of a hub
//!  MCP client ─ HTTP ──► HttpService ─┘
//! ```
//!
//! A tool is a struct: its fields are the arguments, its doc comments the schema that models read, its
//! `run` a few calls of the client. Over HTTP each request brings its own client, made from the
//! credentials of that request, so that a tool can do what its caller may do, and nothing else.
//!
//! # Invariants
//!
//! - Nothing is kept between calls: sandboxes, processes and sessions have ids and live in the hub. The
//!   HTTP service is without sessions.
//! - Every output has a bound. What was left out is counted, with the id and the offset to read it by.
//! - No call waits longer than it was allowed to: what still runs then goes on, and has an id.
//! - A call that is cancelled ends what it started.
//! - What goes wrong is an answer of the tool, with a hint, that the model can read; a protocol error is
//!   only for what is no call of a tool of ours.
//! - Types of the protocol's library do not leave this crate.

mod call;
mod http;
mod output;
mod refusal;
mod schema;
mod server;
mod stdio;
mod tool;
mod tools;

pub use http::HttpService;
pub use server::tools_json;
pub use stdio::{StdioError, serve_stdio};
