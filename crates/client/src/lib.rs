//! Typed async client of the Sandshell API, over TCP, a Unix socket or within one process.
//!
//! # Theory of operation
//!
//! A [`Client`] is a cheap handle on an address, a token and a pool of idle keep-alive connections.
//! A request takes an idle connection or opens one. There is no background task: whoever awaits
//! the reply drives the connection itself, which saves two task switches per request, and makes
//! ownership plain: a reply future or stream *is* its connection.
//!
//! # Invariants
//!
//! - Dropping a reply future or a stream before its end closes its connection, so that the server
//!   sees the client go away. Only a connection whose reply was read to the end is used again.
//! - A request is repeated at most once, and only if the first attempt was on a pooled connection
//!   that failed before any reply, and only if that cannot run a command twice: it never left this
//!   process, is a `GET`, or has an idempotency key.
//! - A command's non-zero exit is data. Only [`ClientError`] is an error.
//!
//! # Example
//!
//! ```no_run
//! # async fn example() -> Result<(), sandshell_client::ClientError> {
//! use sandshell_client::{Client, types::ExecRequest};
//!
//! let client = Client::new("http://127.0.0.1:4020", Some("token"))?;
//! let request = ExecRequest { command: Some("echo hello".into()), ..Default::default() };
//! assert_eq!(client.exec(&request).await?.stdout, "hello\n");
//! # Ok(())
//! # }
//! ```

mod body;
mod client;
mod connection;
mod context;
mod endpoint;
mod error;
mod events;
mod file;
mod git;
mod hub;
mod in_process;
mod live;
mod pool;
mod port;
mod process;
mod query;
mod sandbox;
mod session;
mod sse;
mod terminal;
mod tree;
mod watch;

pub use body::ByteStream;
pub use client::Client;
pub use context::RunEventStream;
pub use error::ClientError;
pub use events::{EventStream, OutputStreamEvent, StreamEvent};
pub use file::{FileContent, FileQuery, ListOptions, ReadOptions, WriteOptions};
pub use hub::{AuditFilter, SandboxFilter};
pub use in_process::Connector;
pub use live::SseStream;
pub use query::{EventQuery, OutputQuery, Page, ProcessFilter};
pub use sandbox::{SandboxStream, SandboxStreamEvent};
pub use sse::{SseEvent, SseParser};
pub use terminal::{
    ConnectOptions, TerminalConnection, TerminalEvent, TerminalReader, TerminalWriter,
};
pub use tree::ArchiveQuery;
pub use watch::{WatchStream, WatchStreamEvent};

/// The wire types, so that a user of the client needs no second dependency.
pub use sandshell_types as types;
