//! A server that plays a script: it owns sockets and bytes, and knows no HTTP but the end of a request.

use std::time::Duration;

use sandshell_client::Client;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// One deadline for everything a test waits for.
pub(crate) const DEADLINE: Duration = Duration::from_secs(150);

pub(crate) struct Scripted {
    listener: TcpListener,
}

impl Scripted {
    pub(crate) async fn start() -> (Self, Client) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        (
            Self { listener },
            Client::new(&url, Some("secret")).unwrap(),
        )
    }

    pub(crate) async fn accept(&self) -> Peer {
        let accepted = tokio::time::timeout(DEADLINE, self.listener.accept()).await;
        Peer {
            stream: accepted.unwrap().unwrap().0,
        }
    }
}

/// The server's end of one connection.
pub(crate) struct Peer {
    stream: TcpStream,
}

impl Peer {
    /// Reads one request to its end and gives its text; empty when the client has gone.
    pub(crate) async fn request(&mut self) -> String {
        tokio::time::timeout(DEADLINE, async {
            let mut bytes = Vec::new();
            while !complete(&bytes) {
                if self.stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
                    break;
                }
            }
            String::from_utf8(bytes).unwrap()
        })
        .await
        .unwrap()
    }

    pub(crate) async fn say(&mut self, text: &str) {
        self.say_bytes(text.as_bytes()).await;
    }

    pub(crate) async fn say_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    pub(crate) async fn reply(&mut self, status: &str, kind: &str, body: &str) {
        let length = body.len();
        self.say(&format!(
            "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}"
        ))
        .await;
    }

    pub(crate) async fn reply_health(&mut self) {
        self.reply("200 OK", "application/json", r#"{"status":"ok"}"#)
            .await;
    }
}

fn complete(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    body.len() >= length.map_or(0, |length| length.parse().unwrap())
}
