//! The command given after `--`: the agent as the entrypoint of a container.
//!
//! Owns its start, the copying of its output to ours, the forwarding of our signals, and the code
//! the agent ends with. The command is a process like any other and can be looked at by its id.

use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;

use sandshell_exec::output::{OutputLog, Stream};
use sandshell_exec::{ExecError, Executor, ProcessHandle};
use sandshell_sys::reactor;
use sandshell_types::{ProcessRequest, SignalRequest, SignalScope};
use tokio::io::{AsyncWrite, AsyncWriteExt as _, Interest};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The id and tag of the command's process.
const MAIN: &str = "main";

/// What our signals are called on the way to the command.
fn forwarded() -> [(&'static str, SignalKind); 5] {
    [
        ("SIGTERM", SignalKind::terminate()),
        ("SIGINT", SignalKind::interrupt()),
        ("SIGHUP", SignalKind::hangup()),
        ("SIGUSR1", SignalKind::user_defined1()),
        ("SIGUSR2", SignalKind::user_defined2()),
    ]
}

/// Resolves when the other end of a pipe is closed, by its end too; never without one.
pub(crate) fn end_of(pipe: Option<OwnedFd>) -> io::Result<impl Future<Output = ()>> {
    let pipe = pipe
        .map(|pipe| reactor::watch(pipe, Interest::READABLE))
        .transpose()?;
    Ok(async move {
        match pipe {
            // Nothing is ever written, so whatever wakes us is the end.
            Some(pipe) => drop(pipe.readable().await),
            None => std::future::pending().await,
        }
    })
}

/// Starts the command.
pub(crate) async fn start(
    executor: &Executor,
    argv: Vec<String>,
) -> Result<ProcessHandle, ExecError> {
    let request = ProcessRequest {
        argv: Some(argv),
        id: MAIN.parse().ok(),
        tag: Some(MAIN.to_owned()),
        ..ProcessRequest::default()
    };
    executor
        .start_process(request)
        .await
        .map(|(process, _)| process)
}

/// Stays with the command until it is over and its output is copied; gives its exit code. Signals are forwarded from
/// the call on.
pub(crate) fn attend(process: ProcessHandle) -> impl Future<Output = i32> + Send {
    let mut forwarders = tokio::task::JoinSet::new();
    for (name, kind) in forwarded() {
        match signal(kind) {
            Ok(signals) => {
                forwarders.spawn(forward(name, signals, process.clone()));
            }
            Err(error) => tracing::warn!(%error, "{name} is not forwarded"),
        }
    }
    async move {
        let _forwarders = forwarders;
        tokio::join!(
            copy(process.log(), Stream::Stdout, tokio::io::stdout()),
            copy(process.log(), Stream::Stderr, tokio::io::stderr()),
            process.ended(),
        );
        process
            .exit_event()
            .and_then(|exit| exit.exit_code)
            .unwrap_or(125)
    }
}

async fn forward(name: &'static str, mut signals: Signal, process: ProcessHandle) {
    while signals.recv().await.is_some() {
        let request = SignalRequest {
            signal: name.to_owned(),
            scope: SignalScope::Process,
        };
        if let Err(error) = process.signal(&request) {
            tracing::debug!(%error, "{name} was not forwarded");
        }
    }
}

async fn copy(log: &OutputLog, stream: Stream, mut to: impl AsyncWrite + Unpin) {
    let mut from = match log.reader(stream, 0, true) {
        Ok(reader) => reader,
        Err(error) => return tracing::warn!(%error, "the command's output is not copied"),
    };
    loop {
        match from.next().await {
            Ok(Some(bytes)) => {
                if to.write_all(&bytes).await.is_err() || to.flush().await.is_err() {
                    // Nobody listens any more; the log still has everything.
                    return;
                }
            }
            Ok(None) => return,
            Err(error) => return tracing::warn!(%error, "the command's output is not copied on"),
        }
    }
}

/// Resolves when the agent is told to end: SIGTERM or SIGINT.
pub fn told_to_end() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
