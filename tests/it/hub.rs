//! The hub: `sandshell serve` and what it keeps.

mod bad_input;
mod bombs;
mod floods;
mod hostile;
mod idle;
mod images;
mod leftovers;
mod lifecycle;
mod limits;
mod preview;
mod restart;
mod routing;
mod service;
mod taken_over;
mod tokens;

use std::path::PathBuf;
use std::time::Instant;

use http::{HeaderMap, Method};
use sandshell_client::Client;
use sandshell_client::types::{
    IsolationPolicy, IsolationSpec, SandboxId, SandboxRecord, SandboxSpec, SandboxState,
};
use sandshell_testkit::Hub;
use serde_json::Value;

use crate::calls::{DEADLINE, in_time};
use crate::limits::groups_named;

/// A spec that can be had on any machine.
pub(crate) fn spec_of(id: &str) -> SandboxSpec {
    SandboxSpec {
        id: Some(id.parse().unwrap()),
        isolation: Some(IsolationSpec {
            policy: IsolationPolicy::BestEffort,
            require: Vec::new(),
        }),
        ..SandboxSpec::default()
    }
}

/// Makes a sandbox and gives the client of it.
pub(crate) async fn sandbox(client: &Client, id: &str) -> Client {
    let record = in_time(client.create_sandbox(&spec_of(id))).await.unwrap();
    assert_eq!(record.state, SandboxState::Ready);
    client.sandbox(&record.id)
}

pub(crate) fn id_of(id: &str) -> SandboxId {
    id.parse().unwrap()
}

pub(crate) async fn get(client: &Client, id: &str) -> SandboxRecord {
    in_time(client.get_sandbox(&id_of(id))).await.unwrap()
}

/// Sends anything; gives the status and the JSON that came.
async fn raw(client: &Client, method: Method, path: &str, body: &str) -> (u16, Value) {
    raw_with(client, method, path, &[], body).await
}

async fn raw_with(
    client: &Client,
    method: Method,
    path: &str,
    headers: &[(&'static str, &str)],
    body: &str,
) -> (u16, Value) {
    let headers: HeaderMap = headers
        .iter()
        .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
        .collect();
    let sent = client.raw(method, path, &headers, body.to_owned());
    let (status, _, body) = in_time(sent).await.unwrap();
    (
        status.as_u16(),
        serde_json::from_slice(&body).unwrap_or_default(),
    )
}

/// The control groups of a hub's only sandbox.
pub(crate) fn groups_of(hub: &Hub) -> Vec<PathBuf> {
    let mut places = std::fs::read_dir(hub.state_dir().join("sandboxes")).unwrap();
    let place = places.next().unwrap().unwrap().file_name();
    groups_named(&format!("sandshell-{}", place.display()))
}

/// The agent of the sandbox with this directory, a process that a hub of the test's own started: whoever
/// listens on its socket.
pub(crate) fn agent_of(place: &std::path::Path) -> i32 {
    let socket = std::os::unix::net::UnixStream::connect(place.join("agent.sock")).unwrap();
    let peer = rustix::net::sockopt::socket_peercred(&socket).unwrap();
    peer.pid.as_raw_nonzero().get()
}

/// Waits until a sandbox is in a state. There is no event to wait for at a hub, so it is asked again
/// and again, without a pause.
pub(crate) async fn until(client: &Client, id: &str, state: SandboxState) -> SandboxRecord {
    let began = Instant::now();
    loop {
        let record = in_time(client.get_sandbox(&id_of(id))).await.unwrap();
        if record.state == state {
            return record;
        }
        assert!(
            began.elapsed() < DEADLINE,
            "it is not {state:?} but {record:?}"
        );
        tokio::task::yield_now().await;
    }
}
