//! A server for tests, in this process, which answers what it is told to.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use http::HeaderValue;
use sandshell_client::types::{ErrorCode, Problem};
use sandshell_client::{Client, Connector};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::io::{DuplexStream, duplex};
use tokio::sync::mpsc;

type Answers = Arc<Mutex<VecDeque<(u16, Value)>>>;

/// A client whose requests are answered in order.
pub(crate) struct Scripted {
    pub(crate) client: Client,
    asked: mpsc::Receiver<String>,
}

impl Scripted {
    pub(crate) fn new<const N: usize>(answers: [(u16, Value); N]) -> Self {
        let answers: Answers = Arc::new(Mutex::new(answers.into()));
        let (tell, asked) = mpsc::channel(100);
        let connector = Connector::new(move || {
            let (ours, theirs) = duplex(64 * 1024);
            tokio::spawn(serve(theirs, answers.clone(), tell.clone()));
            ours
        });
        Self {
            client: Client::in_process(connector, HeaderValue::from_static("scripted")),
            asked,
        }
    }

    /// The method and the path of the next request, which may still be to come.
    pub(crate) async fn asked(&mut self) -> Option<String> {
        self.asked.recv().await
    }

    /// The methods of all requests so far.
    pub(crate) fn methods(&mut self) -> Vec<String> {
        let asked = std::iter::from_fn(|| self.asked.try_recv().ok());
        let method = |line: String| line.split(' ').next().unwrap_or_default().to_owned();
        asked.map(method).collect()
    }
}

/// The problem of this code.
pub(crate) fn problem(code: ErrorCode) -> Problem {
    Problem {
        kind: String::new(),
        title: String::new(),
        status: code.status(),
        code,
        detail: "As the script says".to_owned(),
        hint: None,
        pointer: None,
        first_offset: None,
        expected_offset: None,
        protections: Vec::new(),
        request_id: String::new(),
    }
}

/// The same as an answer.
pub(crate) fn refusal(code: ErrorCode) -> (u16, Value) {
    (code.status(), json!(problem(code)))
}

async fn serve(io: DuplexStream, answers: Answers, tell: mpsc::Sender<String>) -> io::Result<()> {
    let mut io = BufReader::new(io);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if io.read_line(&mut head).await? == 0 {
                return Ok(());
            }
        }
        let mut lines = head.lines();
        let line = lines.next().unwrap_or_default();
        let length = lines.find_map(|line| {
            let (name, value) = line.split_once(':')?;
            let is_length = name.eq_ignore_ascii_case("content-length");
            is_length.then(|| value.trim().parse().ok())?
        });
        let mut body = vec![0; length.unwrap_or(0)];
        io.read_exact(&mut body).await?;
        let path = line.rsplit_once(' ').map_or(line, |(path, _)| path);
        let _ = tell.try_send(path.to_owned());
        let next = answers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front();
        let (status, body) = next.unwrap_or_else(|| refusal(ErrorCode::Internal));
        let kind = match status {
            400.. => "application/problem+json",
            _ => "application/json",
        };
        let body = body.to_string();
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {status} Said\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        io.write_all(answer.as_bytes()).await?;
    }
}
