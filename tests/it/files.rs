//! Files: their content, listings and changes, compared with what the file system itself says.

mod atomic;
mod attacker;
mod changes;
mod content;
mod full;
mod listing;
mod named;
mod refused;
mod rights;

use std::path::Path;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use sandshell_client::types::FileEntry;
use sandshell_client::{Client, FileQuery, ReadOptions, WriteOptions};
use sandshell_testkit::Agent;

use crate::calls::in_time;

/// An agent, its client, and a directory to work in.
struct Desk {
    client: Client,
    dir: std::path::PathBuf,
    agent: Agent,
}

impl Desk {
    fn new() -> Self {
        Self::of(Agent::start())
    }

    fn of(agent: Agent) -> Self {
        Self {
            client: agent.client(),
            dir: agent.work_dir(),
            agent,
        }
    }

    fn path(&self, name: &str) -> String {
        self.dir.join(name).to_str().unwrap().to_owned()
    }

    fn query(&self, name: &str) -> FileQuery {
        FileQuery::new(self.path(name))
    }

    async fn put(&self, name: &str, content: impl Into<Bytes>) -> FileEntry {
        let (query, options) = (self.query(name), WriteOptions::default());
        in_time(self.client.write_file(&query, &options, content))
            .await
            .unwrap()
    }

    async fn get(&self, name: &str) -> Bytes {
        read(&self.client, &self.query(name)).await.unwrap()
    }
}

async fn read(client: &Client, file: &FileQuery) -> Result<Bytes, sandshell_client::ClientError> {
    let content = in_time(client.read_file(file, &ReadOptions::default())).await?;
    in_time(content.bytes.read_to_end()).await
}

/// Asks with headers of its own.
async fn ask(
    client: &Client,
    method: Method,
    path: &str,
    headers: &[(&'static str, &str)],
    body: impl Into<Bytes>,
) -> (StatusCode, HeaderMap, Bytes) {
    let mut all = HeaderMap::new();
    for (name, value) in headers {
        all.append(*name, value.parse().unwrap());
    }
    in_time(client.raw(method, path, &all, body)).await.unwrap()
}

/// A path as a value in a query.
fn encoded(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    let mut text = String::new();
    for byte in path.as_os_str().as_bytes() {
        text.push_str(&format!("%{byte:02X}"));
    }
    text
}

/// What the reader of a test run should know.
#[expect(
    clippy::print_stderr,
    reason = "a check that was not made must be seen"
)]
fn say(text: &str) {
    eprintln!("{text}");
}

/// Bytes that nobody could guess, the same every time.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Every path below a directory with its kind, mode, owner, size and content or target: by `find`.
fn tree_of(dir: &Path) -> String {
    let found = std::process::Command::new("bash")
        .arg("-c")
        .arg(
            "cd \"$1\" && find . -printf '%P %y %m %U:%G %s %l\\n' | sort && \
             find . -type f -print0 | sort -z | xargs -0r sha256sum",
        )
        .args(["bash".as_ref(), dir.as_os_str()])
        .output()
        .unwrap();
    assert!(found.status.success(), "{found:?}");
    String::from_utf8_lossy(&found.stdout).into_owned()
}
