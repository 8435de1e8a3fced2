//! Ports: who listens, waiting for one, and the proxy to it.

mod exposure;
mod passing;
mod seeing;

use http::{HeaderMap, HeaderName, Method, StatusCode};
use sandshell_client::Client;
use sandshell_client::types::{ProcessId, ProcessRequest};
use sandshell_testkit::Agent;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::calls::{in_time, start, wait_for_text};

const SERVER: &str = include_str!("ports/server.py");

/// A server in the sandbox.
pub(crate) struct Server {
    pub(crate) id: ProcessId,
    pub(crate) port: u16,
}

impl Server {
    pub(crate) async fn start(client: &Client) -> Self {
        Self::at(client, &["127.0.0.1"]).await
    }

    async fn at(client: &Client, more: &[&str]) -> Self {
        let argv = ["python3", "-c", SERVER].iter().chain(more);
        let request = ProcessRequest {
            argv: Some(argv.map(|word| (*word).to_owned()).collect()),
            ..Default::default()
        };
        let id = start(client, &request).await;
        let line = wait_for_text(client, &id, "now").await.line.unwrap();
        let port = line.split(' ').nth(2).unwrap().parse().unwrap();
        Self { id, port }
    }

    pub(crate) fn path(&self, rest: &str) -> String {
        format!("/v1/ports/{}/proxy{rest}", self.port)
    }

    async fn get(&self, client: &Client, rest: &str) -> (StatusCode, HeaderMap, bytes::Bytes) {
        let path = self.path(rest);
        in_time(client.raw(Method::GET, &path, &HeaderMap::new(), ""))
            .await
            .unwrap()
    }

    pub(crate) async fn text(&self, client: &Client, rest: &str) -> String {
        let (status, _, body) = self.get(client, rest).await;
        assert_eq!(status, 200, "{rest}: {body:?}");
        String::from_utf8(body.to_vec()).unwrap()
    }
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let pairs = pairs.iter();
    pairs
        .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
        .collect()
}

fn address(agent: &Agent) -> &str {
    agent.url().strip_prefix("http://").unwrap()
}

fn own_port(agent: &Agent) -> u16 {
    address(agent).rsplit(':').next().unwrap().parse().unwrap()
}

/// A connection on which this was written.
async fn dial(agent: &Agent, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address(agent)).await.unwrap();
    let token = agent.token().unwrap();
    let request = request.replace('\n', "\r\n").replace("TOKEN", token);
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// Reads on until the text has come.
async fn until(stream: &mut TcpStream, seen: &mut Vec<u8>, text: &str) {
    let reading = async {
        while !String::from_utf8_lossy(seen).contains(text) {
            let n = stream.read_buf(seen).await.unwrap();
            assert!(
                n > 0,
                "{text:?} never came: {}",
                String::from_utf8_lossy(seen)
            );
        }
    };
    in_time(reading).await;
}
