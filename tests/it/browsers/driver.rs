//! A headless browser, driven over its debugging protocol.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::calls::{in_time, skipped};

/// One page of a browser. Dropping it ends the browser.
pub(crate) struct Browser {
    child: Child,
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    page: Option<String>,
    calls: u64,
    _profile: TempDir,
}

impl Browser {
    /// Starts one; `None`, loudly, where there is none.
    pub(crate) async fn start() -> Option<Self> {
        let profile = tempfile::tempdir().unwrap();
        let started = Command::new("chromium")
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
            ])
            .args(["--remote-debugging-port=0", "--disable-dev-shm-usage"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = match started {
            Ok(child) => child,
            Err(error) => {
                skipped(&format!(
                    "chromium cannot be started ({error}); scripts/test installs it"
                ));
                return None;
            }
        };
        let errors = BufReader::new(child.stderr.take().unwrap());
        let address = errors
            .lines()
            .map_while(Result::ok)
            .find_map(|line| {
                line.strip_prefix("DevTools listening on ")
                    .map(str::to_owned)
            })
            .expect("the browser says where it listens");
        let (socket, _) = in_time(connect_async(address)).await.unwrap();
        let mut browser = Self {
            child,
            socket,
            page: None,
            calls: 0,
            _profile: profile,
        };
        let target = browser
            .call("Target.createTarget", json!({"url": "about:blank"}))
            .await;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = browser.call("Target.attachToTarget", attach).await;
        browser.page = attached["sessionId"].as_str().map(str::to_owned);
        Some(browser)
    }

    async fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.calls += 1;
        let mut message = json!({"id": self.calls, "method": method, "params": parameters});
        if let Some(page) = &self.page {
            message["sessionId"] = json!(page);
        }
        let socket = &mut self.socket;
        in_time(socket.send(Message::text(message.to_string())))
            .await
            .unwrap();
        loop {
            let answer = in_time(socket.next()).await.unwrap().unwrap();
            let Message::Text(text) = answer else {
                continue;
            };
            let answer: Value = serde_json::from_str(&text).unwrap();
            if answer["id"] == self.calls {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    /// Goes to an address and waits until the document is read.
    pub(crate) async fn open(&mut self, url: &str) {
        let navigated = self.call("Page.navigate", json!({"url": url})).await;
        assert!(navigated.get("errorText").is_none(), "{navigated}");
    }

    /// The value of an expression in the page, or of the promise it gives.
    pub(crate) async fn evaluate(&mut self, expression: &str) -> Value {
        let parameters = json!({
            "expression": expression, "awaitPromise": true, "returnByValue": true,
        });
        let answer = self.call("Runtime.evaluate", parameters).await;
        assert!(
            answer.get("exceptionDetails").is_none(),
            "{expression}: {answer}"
        );
        answer["result"]["value"].clone()
    }

    /// The value of an expression as soon as something fits the selector.
    pub(crate) async fn when(&mut self, selector: &str, expression: &str) -> Value {
        self.evaluate(&format!(
            "new Promise((found) => {{
                 const look = () => document.querySelector({selector:?}) && found({expression});
                 new MutationObserver(look).observe(document, {{subtree: true, childList: true, characterData: true}});
                 look();
             }})"
        ))
        .await
    }

    /// Ends the browser and all its processes.
    pub(crate) async fn close(mut self) {
        self.page = None;
        self.call("Browser.close", json!({})).await;
        self.child.wait().unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // After `close` it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
