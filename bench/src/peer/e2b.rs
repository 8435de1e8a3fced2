//! A service that speaks E2B's API: commands by its Connect protocol, in JSON, as its own clients send them.

use anyhow::{Context as _, Result, bail, ensure};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use sandshell_client::Client;
use serde_json::{Value, json};

/// The port of the API inside a sandbox.
const ENVD: &str = "49983";
/// Seconds after which a sandbox that was left behind ends.
const LIFE: u64 = 1800;
/// Flag of the envelope that ends a stream.
const LAST: u8 = 2;

pub(super) struct E2b {
    client: Client,
    /// What stands before every path.
    prefix: String,
    headers: HeaderMap,
    /// What has to be ended afterwards.
    made: Option<Made>,
}

struct Made {
    sandbox: String,
    headers: HeaderMap,
}

impl E2b {
    /// Has a control plane make a sandbox. What knows no sandboxes is taken for an envd, which is one.
    pub(super) async fn connect(url: &str, token: Option<&str>) -> Result<Self> {
        let host = url.strip_prefix("http://").context("an http:// address")?;
        let (host, path) = host.split_once('/').unwrap_or((host, ""));
        let client = Client::new(&format!("http://{host}"), None)?;
        let prefix = if path.is_empty() {
            String::new()
        } else {
            format!("/{path}")
        };
        let mut headers = HeaderMap::new();
        insert(&mut headers, "content-type", "application/json")?;
        if let Some(token) = token {
            insert(&mut headers, "x-api-key", token)?;
        }
        let asked = json!({"templateID": "base", "timeout": LIFE});
        let (status, _, body) = client
            .raw(
                Method::POST,
                &format!("{prefix}/v2/sandboxes"),
                &headers,
                asked.to_string(),
            )
            .await?;
        let (made, access) = match status {
            StatusCode::CREATED => {
                let record: Value = serde_json::from_slice(&body)?;
                let text = |name: &str| record.get(name).and_then(Value::as_str);
                let sandbox = text("sandboxID").context("sandboxID")?.to_owned();
                let access = text("envdAccessToken").map(str::to_owned);
                (Some(Made { sandbox, headers }), access)
            }
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => {
                (None, token.map(str::to_owned))
            }
            _ => bail!("{status}: {}", String::from_utf8_lossy(&body)),
        };
        let mut headers = HeaderMap::new();
        insert(&mut headers, "content-type", "application/connect+json")?;
        insert(&mut headers, "connect-protocol-version", "1")?;
        if let Some(access) = &access {
            insert(&mut headers, "x-access-token", access)?;
        }
        if let Some(made) = &made {
            insert(&mut headers, "e2b-sandbox-id", &made.sandbox)?;
            insert(&mut headers, "e2b-sandbox-port", ENVD)?;
        }
        Ok(Self {
            client,
            prefix,
            headers,
            made,
        })
    }

    /// Runs a command to its end, as `commands.run` does.
    pub(super) async fn run(&self, command: &str) -> Result<()> {
        let process = json!({"cmd": "/bin/bash", "args": ["-l", "-c", command]});
        let message = json!({"process": process, "stdin": false}).to_string();
        let mut body = vec![0];
        body.extend_from_slice(&u32::try_from(message.len())?.to_be_bytes());
        body.extend_from_slice(message.as_bytes());
        let path = format!("{}/process.Process/Start", self.prefix);
        let (status, _, answer) = self
            .client
            .raw(Method::POST, &path, &self.headers, body)
            .await?;
        ensure!(
            status == StatusCode::OK,
            "{status}: {}",
            String::from_utf8_lossy(&answer)
        );
        let code = exit_code(&answer)?;
        ensure!(code == 0, "{command:?} ended with {code}");
        Ok(())
    }

    pub(super) async fn end(self) -> Result<()> {
        let Some(made) = self.made else {
            return Ok(());
        };
        let path = format!("{}/sandboxes/{}", self.prefix, made.sandbox);
        let (status, _, _) = self
            .client
            .raw(Method::DELETE, &path, &made.headers, "")
            .await?;
        ensure!(status.is_success(), "the sandbox was not ended: {status}");
        Ok(())
    }
}

fn insert(headers: &mut HeaderMap, name: &'static str, value: &str) -> Result<()> {
    headers.insert(HeaderName::from_static(name), HeaderValue::from_str(value)?);
    Ok(())
}

/// The status in the `end` event of a stream; 0 may be left out of it.
fn exit_code(mut stream: &[u8]) -> Result<i64> {
    let mut code = None;
    while let Some((head, rest)) = stream.split_first_chunk::<5>() {
        let [flags, size @ ..] = *head;
        let size = u32::from_be_bytes(size) as usize;
        let (message, rest) = rest
            .split_at_checked(size)
            .context("a piece of a message")?;
        let message: Value = serde_json::from_slice(message)?;
        if flags & LAST != 0 {
            if let Some(error) = message.get("error") {
                bail!("{error}");
            }
            return code.context("the stream has no end event");
        }
        if let Some(end) = message.pointer("/event/end") {
            let told = end.get("exitCode").and_then(Value::as_i64);
            code = Some(told.unwrap_or(0));
        }
        stream = rest;
    }
    bail!("the stream broke off")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(messages: &[(u8, &str)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (flags, text) in messages {
            bytes.push(*flags);
            bytes.extend((text.len() as u32).to_be_bytes());
            bytes.extend(text.as_bytes());
        }
        bytes
    }

    #[test]
    fn the_end_of_a_stream_tells_the_status() {
        let start = (0, r#"{"event":{"start":{"pid":7}}}"#);
        let seven = (0, r#"{"event":{"end":{"exitCode":7,"exited":true}}}"#);
        let zero = (0, r#"{"event":{"end":{"exited":true}}}"#);
        assert_eq!(exit_code(&stream(&[start, seven, (2, "{}")])).unwrap(), 7);
        assert_eq!(exit_code(&stream(&[start, zero, (2, "{}")])).unwrap(), 0);
        let error = (2, r#"{"error":{"code":"unavailable"}}"#);
        for broken in [&[start][..], &[start, error], &[start, (2, "{}")]] {
            exit_code(&stream(broken)).unwrap_err();
        }
    }
}
