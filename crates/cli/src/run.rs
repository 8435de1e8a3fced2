//! `sandshell run -- CMD`: one command in an isolated sandbox of its own, without a server.
//!
//! ```text
//! run ── launcher ── agent ── init ── CMD
//! ```
//!
//! The sandbox lives as long as this process: when it ends, by SIGKILL too, the launcher sees its
//! socket close, ends the sandbox and removes its directory.

use std::io::IsTerminal as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::process::ExitCode;

use sandshell_agent::Settings;
use sandshell_client::types::{
    KillRequest, ProcessId, ProcessRecord, ProcessRequest, SignalRequest, SignalScope, StreamName,
    WaitRequest,
};
use sandshell_client::{Client, ClientError, OutputQuery};
use sandshell_isolate::host_root;
use sandshell_isolate::launcher::{Launcher, read_outcome};
use sandshell_isolate::limits::SandboxLimits;
use sandshell_isolate::plan::{Ids, SANDBOX_USER, SandboxPlan};
use sandshell_isolate::stage::Outcome;
use tokio::io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::signal::unix::{SignalKind, signal};

use crate::arguments::RunArguments;
use crate::failure::Failure;

/// Ids of the host that sandboxes of `run` take, far above those of people. Two at once may share them:
/// they share nothing else.
const FIRST_ID: u32 = 0x7000_0000;

/// Bytes and files that can be written.
const SIZE: u64 = 1024 * 1024 * 1024;
const INODES: u64 = 200_000;
const PIDS: u64 = 1024;

/// Most bytes of stdin sent at a time.
const PIECE: usize = 64 * 1024;

pub(crate) fn run(arguments: RunArguments) -> Result<ExitCode, Failure> {
    let launcher = Launcher::start().map_err(|error| Failure::ours(&error))?;
    let directory = own_directory().map_err(|error| Failure::ours(&error))?;
    let code = run_in(&launcher, directory, arguments);
    launcher.finish();
    code.map(ExitCode::from)
}

fn run_in(launcher: &Launcher, directory: PathBuf, arguments: RunArguments) -> Result<u8, Failure> {
    let ids = if rustix::process::geteuid().is_root() {
        Ids::Range(FIRST_ID)
    } else {
        Ids::Own
    };
    let etc = directory.join("etc");
    host_root::make_etc(&etc).map_err(|error| Failure::ours(&error))?;
    let settings = Settings {
        cwd: Some(arguments.cwd.unwrap_or_else(|| PathBuf::from("/workspace"))),
        user: Some(arguments.user.unwrap_or_else(|| SANDBOX_USER.to_owned())),
        env: arguments.environment.into_iter().collect(),
        log_bytes: None,
    };
    let url = format!("unix:{}", directory.join("agent.sock").display());
    let plan = SandboxPlan {
        root: host_root::plan(&etc, ids, SIZE, INODES),
        ids,
        hostname: "sandbox".to_owned(),
        group: format!("sandshell-run-{}", rustix::process::getpid().as_raw_pid()),
        limits: SandboxLimits {
            pids: Some(PIDS),
            ..SandboxLimits::default()
        },
        one_shot: true,
        agent: serde_json::to_value(settings).map_err(|error| Failure::ours(&error))?,
        directory,
    };
    let launched = launcher
        .launch(&plan)
        .map_err(|error| Failure::ours(&error))?;
    match read_outcome(launched.report).map_err(|error| Failure::ours(&error))? {
        Outcome::Ready(_) => {}
        Outcome::Failed(step) => return Err(Failure::ours(&step)),
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::ours(&error))?;
    let code = runtime.block_on(attend(&url, arguments.command));
    // Reading our stdin may still go on; nobody waits for it.
    runtime.shutdown_background();
    code.map_err(|error| Failure::ours(&error))
}

/// A directory of this run alone, removed by the launcher.
fn own_directory() -> std::io::Result<PathBuf> {
    let parent = std::env::var_os("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let pid = rustix::process::getpid().as_raw_pid();
    let path = parent.join(format!("sandshell-run-{pid}"));
    std::fs::DirBuilder::new().mode(0o700).create(&path)?;
    Ok(path)
}

async fn attend(url: &str, argv: Vec<String>) -> Result<u8, ClientError> {
    let client = Client::new(url, None)?;
    let process = client
        .create_process(&ProcessRequest {
            argv: Some(argv),
            stdin_open: true,
            ..ProcessRequest::default()
        })
        .await?;
    let id = process.id;
    let forwarding = tokio::spawn(forward_signals(client.clone(), id.clone()));
    let feeding = tokio::spawn(feed(client.clone(), id.clone()));
    let (out, err) = tokio::join!(
        copy(&client, &id, StreamName::Stdout, tokio::io::stdout()),
        copy(&client, &id, StreamName::Stderr, tokio::io::stderr()),
    );
    out?;
    err?;
    client.wait_process(&id, &WaitRequest::default()).await?;
    forwarding.abort();
    feeding.abort();
    Ok(exit_code(&client.process(&id).await?))
}

/// The command's own code, or 128 and the signal that ended it.
fn exit_code(record: &ProcessRecord) -> u8 {
    let signal = record
        .signal
        .as_deref()
        .and_then(sandshell_sys::signal::parse);
    let code = record
        .exit_code
        .or_else(|| signal.map(|number| 128 + number));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(125)
}

/// Copies one stream of the command to ours until it ends. A reader of ours that went away is no
/// reason to fail: the command goes on.
async fn copy(
    client: &Client,
    id: &ProcessId,
    stream: StreamName,
    mut to: impl AsyncWrite + Unpin,
) -> Result<(), ClientError> {
    let mut bytes = client
        .process_output(id, OutputQuery::follow(stream))
        .await?;
    let mut open = true;
    while let Some(piece) = bytes.next().await {
        let piece = piece?;
        open = open && to.write_all(&piece).await.is_ok() && to.flush().await.is_ok();
    }
    Ok(())
}

/// Copies our stdin to the command's, and its end.
async fn feed(client: Client, id: ProcessId) {
    let mut stdin = tokio::io::stdin();
    let mut buffer = vec![0; PIECE];
    let mut offset = 0;
    while let Ok(n @ 1..) = stdin.read(&mut buffer).await {
        let piece = buffer.get(..n).unwrap_or_default().to_vec();
        match client.write_stdin(&id, Some(offset), piece).await {
            Ok(_) => offset += n as u64,
            // It reads no more.
            Err(_) => return,
        }
    }
    let _ = client.close_stdin(&id).await;
}

/// Passes on what a person at the terminal, or whoever runs us, sends. The second one means it.
async fn forward_signals(client: Client, id: ProcessId) {
    let (Ok(mut interrupts), Ok(mut ends)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
    ) else {
        return;
    };
    let mut patience = 3;
    loop {
        let name = tokio::select! {
            _ = interrupts.recv() => "SIGINT",
            _ = ends.recv() => "SIGTERM",
        };
        patience -= 1;
        let sent = if patience == 0 {
            let now = KillRequest { grace_ms: Some(0) };
            client.kill_process(&id, &now).await.map(drop)
        } else {
            let request = SignalRequest {
                signal: name.to_owned(),
                scope: SignalScope::Tree,
            };
            client.signal_process(&id, &request).await.map(drop)
        };
        if sent.is_err() && !std::io::stderr().is_terminal() {
            return;
        }
    }
}
