//! Waiting until a port answers: by taking a connection, or with an HTTP status.

use std::time::Duration;

use sandshell_types::HttpCheck;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::Ports;
use crate::ExecError;

/// First and longest pause between two tries at a port. The kernel has no event for "somebody
/// listens now", so whoever waits asks again.
const PAUSE: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(50));

/// How long one HTTP try at a port may take.
const HTTP_TRY: Duration = Duration::from_secs(1);

/// Refuses what cannot stand in a request line. `pointer` is that of the check.
pub(crate) fn check_http(check: Option<&HttpCheck>, pointer: &str) -> Result<(), ExecError> {
    let Some(check) = check else { return Ok(()) };
    if let Some(path) = &check.path
        && (!path.starts_with('/') || path.contains(|c: char| c.is_ascii_control() || c == ' '))
    {
        return Err(ExecError::invalid(
            &format!("{pointer}/path"),
            "a path starts with '/' and has neither spaces nor control characters",
        ));
    }
    if check
        .status
        .is_some_and(|status| !(100..1000).contains(&status))
    {
        return Err(ExecError::invalid(
            &format!("{pointer}/status"),
            "a status has three digits",
        ));
    }
    Ok(())
}

impl Ports {
    /// Resolves when the port answers as asked.
    pub(crate) async fn answers(&self, port: u16, http: Option<&HttpCheck>) {
        let mut pause = PAUSE.0;
        loop {
            if let Ok(stream) = self.connect(port).await {
                match http {
                    None => return,
                    Some(check) if answers_in_time(stream, check).await => return,
                    Some(_) => {}
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }
}

/// A server that accepts and stays silent is asked again.
async fn answers_in_time(stream: TcpStream, check: &HttpCheck) -> bool {
    let answer = tokio::time::timeout(HTTP_TRY, http_answers(stream, check)).await;
    matches!(answer, Ok(Ok(true)))
}

/// Asks once and reads only the status line.
async fn http_answers(mut stream: TcpStream, check: &HttpCheck) -> std::io::Result<bool> {
    let path = check.path.as_deref().unwrap_or("/");
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut head = Vec::new();
    while head.len() < 12 {
        if stream.read_buf(&mut head).await? == 0 {
            return Ok(false);
        }
    }
    let status = std::str::from_utf8(head.get(9..12).unwrap_or_default())
        .ok()
        .and_then(|digits| digits.parse::<u16>().ok());
    Ok(status.is_some_and(|status| match check.status {
        Some(wanted) => status == wanted,
        None => status < 500,
    }))
}
