//! A small storage on the loopback that speaks enough of S3, and fails as it is told.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// What to do with the next request.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fail {
    /// Answers with this status.
    Status(u16),
    /// Closes the connection without an answer.
    Hangup,
    /// Gives so many bytes of the answer, then closes the connection.
    CutAfter(usize),
    /// Says 200, with an error in the body.
    LateError,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<String, Vec<u8>>,
    failures: VecDeque<Fail>,
    log: Vec<String>,
}

#[derive(Debug, Clone)]
pub(super) struct FakeStorage {
    url: String,
    state: Arc<Mutex<State>>,
}

impl FakeStorage {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State::default()));
        let served = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&served);
                tokio::spawn(async move {
                    let _ = serve(stream, &state).await;
                });
            }
        });
        Self { url, state }
    }

    pub(super) fn url(&self, name: &str) -> String {
        format!("{}/{name}?X-Amz-Signature=secret-signature", self.url)
    }

    pub(super) fn fail(&self, failures: &[Fail]) {
        self.state.lock().unwrap().failures.extend(failures);
    }

    pub(super) fn object(&self, name: &str) -> Option<Vec<u8>> {
        self.state
            .lock()
            .unwrap()
            .objects
            .get(&format!("/{name}"))
            .cloned()
    }

    pub(super) fn put(&self, name: &str, content: Vec<u8>) {
        self.state
            .lock()
            .unwrap()
            .objects
            .insert(format!("/{name}"), content);
    }

    /// Requests so far, and forgets them.
    pub(super) fn take_log(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().log)
    }
}

async fn serve(stream: TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        let mut words = line.split_whitespace().map(str::to_owned);
        let (method, target) = (words.next().unwrap(), words.next().unwrap());
        let name = target.split('?').next().unwrap().to_owned();
        let (mut length, mut start) = (0, None);
        loop {
            let mut header = String::new();
            stream.read_line(&mut header).await?;
            let Some((key, value)) = header.trim().split_once(':') else {
                break;
            };
            match key.to_ascii_lowercase().as_str() {
                "content-length" => length = value.trim().parse().unwrap(),
                "range" => {
                    let value = value.trim().strip_prefix("bytes=").unwrap();
                    start = value.strip_suffix('-').unwrap().parse::<usize>().ok();
                }
                "transfer-encoding" => panic!("S3 takes no chunked bodies"),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        let failure = {
            let mut state = state.lock().unwrap();
            let from = start.map_or(String::new(), |start| format!(" from {start}"));
            state.log.push(format!("{method} {name}{from}"));
            state.failures.pop_front()
        };
        match failure {
            Some(Fail::Hangup) => return Ok(()),
            Some(Fail::Status(status)) => {
                let text = "<Error><Code>SlowDown</Code><X>secret-signature</X></Error>";
                answer(&mut stream, status, "", text.as_bytes(), None).await?;
                continue;
            }
            Some(Fail::LateError) => {
                let text = "<Error><Code>InternalError</Code></Error>";
                answer(&mut stream, 200, "", text.as_bytes(), None).await?;
                continue;
            }
            Some(Fail::CutAfter(_)) | None => {}
        }
        match method.as_str() {
            "PUT" => {
                state.lock().unwrap().objects.insert(name.clone(), body);
                let tag = format!("etag: \"tag-of-{}\"\r\n", name.trim_start_matches('/'));
                answer(&mut stream, 200, &tag, b"", None).await?;
            }
            "POST" => {
                complete(state, name, &String::from_utf8(body).unwrap());
                answer(&mut stream, 200, "", b"<Done/>", None).await?;
            }
            "DELETE" => answer(&mut stream, 204, "", b"", None).await?,
            _ => {
                let object = state.lock().unwrap().objects.get(&name).cloned();
                let cut = match failure {
                    Some(Fail::CutAfter(bytes)) => Some(bytes),
                    _ => None,
                };
                match (object, start) {
                    (None, _) => answer(&mut stream, 404, "", b"", None).await?,
                    (Some(all), None) => answer(&mut stream, 200, "", &all, cut).await?,
                    (Some(all), Some(start)) => {
                        answer(&mut stream, 206, "", &all[start..], cut).await?;
                    }
                }
                if cut.is_some() {
                    return Ok(());
                }
            }
        }
    }
}

/// Joins the parts of an upload.
fn complete(state: &Mutex<State>, name: String, text: &str) {
    let mut state = state.lock().unwrap();
    let mut whole = Vec::new();
    for (number, part) in text.split("<PartNumber>").skip(1).enumerate() {
        assert!(part.starts_with(&(number + 1).to_string()), "{text}");
        let tag = part.split_once("tag-of-").unwrap().1;
        let tag = tag.split_once("&quot;").unwrap().0;
        whole.extend(state.objects.remove(&format!("/{tag}")).unwrap());
    }
    state.objects.insert(name, whole);
}

async fn answer(
    stream: &mut BufReader<TcpStream>,
    status: u16,
    headers: &str,
    body: &[u8],
    cut: Option<usize>,
) -> std::io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status} X\r\n{headers}content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream
        .write_all(&body[..cut.unwrap_or(body.len()).min(body.len())])
        .await?;
    stream.flush().await
}
