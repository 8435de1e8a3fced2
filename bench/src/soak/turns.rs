//! What the users of a soak do, one turn after the other, each with an answer that is known beforehand.
//!
//! A turn leaves nothing behind that lives: whatever it starts ends by itself soon, or is ended by it. Some
//! turns end badly on purpose: the client is gone in the middle, a shell is killed, a sandbox is destroyed
//! under a command. What the others see then is part of what is checked.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use futures_util::future::try_join_all;
use sandshell_client::{
    Client, ClientError, ConnectOptions, EventQuery, FileQuery, ListOptions, OutputQuery,
    OutputStreamEvent, Page, ReadOptions, TerminalConnection, TerminalEvent, WriteOptions,
};
use sandshell_types::{
    ErrorCode, ExecRequest, ForkRequest, KillRequest, ProcessId, ProcessKind, ProcessRequest,
    RemoveRequest, SandboxSpec, SessionId, SessionRequest, StreamName, TerminalRequest,
};

use crate::dice::Dice;
use crate::exec::shell;
use crate::sessions::{self, command};

/// A client that goes away does so after this time.
const VANISH: Duration = Duration::from_millis(30);

/// Commands at once: more than an agent keeps groups.
const CROWD: usize = 48;

/// Lines of a process that talks, and its pause between two.
const LINES: usize = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    Exec,
    Session,
    Process,
    Terminal,
    Files,
    Sandbox,
}

impl Turn {
    pub(crate) const ALL: [Self; 6] = [
        Self::Exec,
        Self::Session,
        Self::Process,
        Self::Terminal,
        Self::Files,
        Self::Sandbox,
    ];

    /// How many users take such turns, all the time.
    pub(crate) fn users(self) -> usize {
        match self {
            Self::Exec | Self::Session => 3,
            Self::Process | Self::Terminal | Self::Files | Self::Sandbox => 2,
        }
    }

    /// The pause between two turns of a user, on average.
    pub(crate) fn pause(self) -> Duration {
        Duration::from_millis(match self {
            Self::Exec | Self::Session | Self::Files => 100,
            Self::Process | Self::Terminal => 200,
            // Two a second in all: records of what is over are full before the soak is a third over.
            Self::Sandbox => 700,
        })
    }

    /// One turn, in a sandbox that lives as long as the soak.
    pub(crate) async fn take(self, hub: &Client, sandbox: &Client, dice: &mut Dice) -> Result<()> {
        match self {
            Self::Exec => exec(sandbox, dice).await,
            Self::Session => session(sandbox, dice).await,
            Self::Process => process(sandbox, dice).await,
            Self::Terminal => terminal(sandbox, dice).await,
            Self::Files => files(sandbox, dice).await,
            Self::Sandbox => a_sandbox(hub, dice).await,
        }
        .with_context(|| format!("{self:?}"))
    }
}

/// Brings what an agent holds ready to its full size: shells for execs and sessions, which grow in number
/// when they are asked for at once, and empty control groups, of which those of ended commands are kept.
/// So a count before a soak and one after it can be compared.
pub(crate) async fn fill_pools(client: &Client) -> Result<()> {
    const GATE: &str = "/tmp/soak-gate";
    let visit = async || {
        client.exec(&shell("true")).await?;
        let made = client.create_session(&SessionRequest::default()).await?;
        sessions::exec(client, &made.id, "true").await?;
        client.delete_session(&made.id).await?;
        anyhow::Ok(())
    };
    try_join_all((0..CROWD).map(|_| visit())).await?;
    // All have begun before the first ends, so that as many groups become free at once.
    let waits = shell(&format!("until test -e {GATE}; do sleep 0.05; done"));
    let wait = async || anyhow::Ok(client.exec(&waits).await?);
    let open = async {
        while super::running(client, ProcessKind::Exec).await? < CROWD {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        client.exec(&shell(&format!("touch {GATE}"))).await?;
        anyhow::Ok(())
    };
    let (waited, opened) = tokio::join!(try_join_all((0..CROWD).map(|_| wait())), open);
    opened?;
    waited?;
    client.exec(&shell(&format!("rm {GATE}"))).await?;
    Ok(())
}

async fn exec(client: &Client, dice: &mut Dice) -> Result<()> {
    match dice.below(8) {
        0 => {
            let result = client
                .exec(&shell("head -c 200000 /dev/zero | tr '\\0' x"))
                .await?;
            ensure!(result.stdout.len() == 200_000, "{}", result.stdout.len());
        }
        1 => {
            let result = client.exec(&shell("exit 7")).await?;
            ensure!(result.exit_code == 7, "{result:?}");
        }
        2 => {
            let request = ExecRequest {
                timeout_ms: Some(30),
                ..shell("sleep 600")
            };
            let result = client.exec(&request).await?;
            ensure!(result.timed_out, "{result:?}");
        }
        3 => vanish(client.exec(&shell("sleep 0.2"))).await,
        4 => {
            let result = client.exec(&shell("sleep 0.1 & echo left")).await?;
            ensure!(result.stdout == "left\n", "{result:?}");
        }
        _ => {
            let number = dice.below(1_000_000);
            let result = client.exec(&shell(&format!("echo {number}"))).await?;
            ensure!(result.stdout == format!("{number}\n"), "{result:?}");
        }
    }
    Ok(())
}

/// Calls and does not wait for the answer.
async fn vanish<T>(call: impl Future<Output = T>) {
    let _ = tokio::time::timeout(VANISH, call).await;
}

async fn session(client: &Client, dice: &mut Dice) -> Result<()> {
    let made = client.create_session(&SessionRequest::default()).await?;
    let id = made.id;
    for count in 1..=2 + dice.below(6) {
        let said = sessions::exec(client, &id, "n=$((n + 1)); echo $n").await?;
        ensure!(said == format!("{count}\n"), "turn {count} said {said:?}");
    }
    let waits = command("sleep 600");
    match dice.below(8) {
        0 => {
            let result = client.session_exec(&id, &command("kill -9 $$")).await?;
            ensure!(result.exit_code == 137, "{result:?}");
            sessions::exec(client, &id, "test $n -ge 2").await?;
        }
        1 => {
            let pid = sessions::exec(client, &id, "echo $$").await?;
            client.exec(&shell(&format!("kill -9 {pid}"))).await?;
            sessions::exec(client, &id, "test $n -ge 2").await?;
        }
        2 => {
            let fork = client.fork_session(&id, &ForkRequest::default()).await?;
            sessions::exec(client, &fork.id, "test $n -ge 2").await?;
            client.delete_session(&fork.id).await?;
        }
        3 => {
            let (result, _) = tokio::join!(
                client.session_exec(&id, &waits),
                when_busy(client, &id, client.interrupt_session(&id)),
            );
            ensure!(result?.interrupted, "not interrupted");
            sessions::exec(client, &id, "test $n -ge 2").await?;
        }
        4 => {
            let (result, ended) = tokio::join!(
                client.session_exec(&id, &waits),
                when_busy(client, &id, client.delete_session(&id)),
            );
            ended?;
            ensure!(
                result.is_err() || result.is_ok_and(|result| result.exit_code != 0),
                "a command outlived its session"
            );
            return Ok(());
        }
        5 => vanish(client.session_exec(&id, &waits)).await,
        _ => {}
    }
    client.delete_session(&id).await?;
    Ok(())
}

/// Acts once a command runs in the session.
async fn when_busy<T>(
    client: &Client,
    id: &SessionId,
    act: impl Future<Output = Result<T, ClientError>>,
) -> Result<()> {
    while client.session(id).await?.foreground.is_none() {
        tokio::task::yield_now().await;
    }
    act.await?;
    Ok(())
}

async fn process(client: &Client, dice: &mut Dice) -> Result<()> {
    if dice.one_in(4) {
        return stdin(client, dice).await;
    }
    let talk = format!("for n in {{1..{LINES}}}; do echo line $n; sleep 0.005; done");
    let id = start(client, &talk).await?;
    match dice.below(6) {
        0 => {
            listen(client, &id, 5).await?;
            let now = KillRequest { grace_ms: Some(0) };
            client.kill_process(&id, &now).await?;
        }
        1 => {
            listen(client, &id, 3).await?;
        }
        2 => {
            listen(client, &id, 5).await?;
            client.delete_process(&id).await?;
            return Ok(());
        }
        3 => {
            let big = start(client, "head -c 1000000 /dev/zero").await?;
            let follow = OutputQuery::follow(StreamName::Stdout);
            let bytes = client
                .process_output(&big, follow)
                .await?
                .read_to_end()
                .await?;
            ensure!(bytes.len() == 1_000_000, "{} bytes", bytes.len());
            client.delete_process(&big).await?;
            listen(client, &id, usize::MAX).await?;
        }
        _ => {
            let lines = listen(client, &id, usize::MAX).await?;
            ensure!(lines == LINES, "{lines} lines");
        }
    }
    // Half of the records are left to be dropped by their age.
    if dice.one_in(2) {
        client.delete_process(&id).await?;
    }
    Ok(())
}

async fn start(client: &Client, text: &str) -> Result<ProcessId> {
    let request = ProcessRequest {
        command: Some(text.to_owned()),
        ..ProcessRequest::default()
    };
    Ok(client.create_process(&request).await?.id)
}

/// Reads lines until there are enough, or to the end; then the stream is dropped.
async fn listen(client: &Client, id: &ProcessId, enough: usize) -> Result<usize> {
    let mut events = client.process_events(id, EventQuery::default()).await?;
    let mut said = String::new();
    while let Some(event) = events.next().await {
        match event?.event {
            OutputStreamEvent::Output(output) => said.push_str(&output.data),
            OutputStreamEvent::Exit(_) => return Ok(said.lines().count()),
            _ => {}
        }
        if said.lines().count() >= enough {
            return Ok(said.lines().count());
        }
    }
    bail!("the stream ended without an exit")
}

async fn stdin(client: &Client, dice: &mut Dice) -> Result<()> {
    let request = ProcessRequest {
        argv: Some(vec!["cat".to_owned()]),
        stdin_open: true,
        ..ProcessRequest::default()
    };
    let id = client.create_process(&request).await?.id;
    let sent = vec![b'i'; 1 + dice.below(50_000)];
    client.write_stdin(&id, None, sent.clone()).await?;
    client.close_stdin(&id).await?;
    let follow = OutputQuery::follow(StreamName::Stdout);
    let came = client
        .process_output(&id, follow)
        .await?
        .read_to_end()
        .await?;
    ensure!(came == sent, "{} bytes of {}", came.len(), sent.len());
    client.delete_process(&id).await?;
    Ok(())
}

async fn terminal(client: &Client, dice: &mut Dice) -> Result<()> {
    let id = client
        .create_terminal(&TerminalRequest::default())
        .await?
        .id;
    let mut connection = client
        .connect_terminal(&id, ConnectOptions::default())
        .await?;
    for _ in 0..=dice.below(3) {
        let number = dice.below(100_000);
        connection
            .type_in(format!("echo $(({number} + 1))x\r"))
            .await?;
        see(&mut connection, &format!("{}x", number + 1)).await?;
    }
    match dice.below(4) {
        0 => connection.close().await?,
        1 => {
            connection.type_in("exit\r").await?;
            while connection.next().await?.is_some() {}
        }
        // Gone without a word, or still there while its terminal is deleted.
        2 => drop(connection),
        _ => {
            client.delete_terminal(&id).await?;
            return Ok(());
        }
    }
    client.delete_terminal(&id).await?;
    Ok(())
}

/// Reads a terminal until it shows a text.
async fn see(connection: &mut TerminalConnection, text: &str) -> Result<()> {
    let mut said = String::new();
    while !said.contains(text) {
        match connection.next().await?.context("the terminal closed")? {
            TerminalEvent::Bytes(bytes) => said.push_str(&String::from_utf8_lossy(&bytes)),
            TerminalEvent::Closed { code, reason } => bail!("closed with {code}: {reason}"),
            _ => {}
        }
    }
    Ok(())
}

async fn files(client: &Client, dice: &mut Dice) -> Result<()> {
    let directory = format!("/workspace/soak-{}", dice.below(1_000_000_000));
    let file = FileQuery::new(format!("{directory}/file"));
    let mark = b'a' + dice.below(26) as u8;
    let sent = vec![mark; dice.below(300_000)];
    client
        .write_file(&file, &WriteOptions::default(), sent.clone())
        .await?;
    let content = client.read_file(&file, &ReadOptions::default()).await?;
    if dice.one_in(5) {
        drop(content);
    } else {
        let came = content.bytes.read_to_end().await?;
        ensure!(came == sent, "{} bytes of {}", came.len(), sent.len());
    }
    if dice.one_in(5) {
        vanish(client.upload_file(
            &FileQuery::new(format!("{directory}/never")),
            &WriteOptions::default(),
            futures_util::stream::pending(),
        ))
        .await;
    }
    let listed = client
        .list_files(
            &FileQuery::new(&directory),
            ListOptions::default(),
            &Page::default(),
        )
        .await?;
    ensure!(
        listed.items.iter().any(|entry| entry.name == "file"),
        "{listed:?}"
    );
    client
        .remove_file(&RemoveRequest {
            path: Some(directory),
            recursive: true,
            ..RemoveRequest::default()
        })
        .await?;
    Ok(())
}

/// A sandbox from its making to its end, which half of the time comes while it works.
async fn a_sandbox(hub: &Client, dice: &mut Dice) -> Result<()> {
    let id = hub.create_sandbox(&SandboxSpec::default()).await?.id;
    let client = hub.sandbox(&id);
    let said = client.exec(&shell("echo here")).await?.stdout;
    ensure!(said == "here\n", "it said {said:?}");
    let session = client.create_session(&SessionRequest::default()).await?.id;
    sessions::exec(&client, &session, "x=1").await?;
    if dice.one_in(2) {
        start(&client, "sleep 600").await?;
        hub.destroy_sandbox(&id).await?;
        return Ok(());
    }
    let waits = command("sleep 600");
    let (waited, destroyed) = tokio::join!(
        client.session_exec(&session, &waits),
        when_busy(&client, &session, hub.destroy_sandbox(&id)),
    );
    destroyed?;
    match waited {
        Err(error) if error.code() == Some(ErrorCode::SandboxGone) => Ok(()),
        Err(error) => bail!("whoever waited was told: {error}"),
        Ok(result) => bail!("whoever waited was told: {result:?}"),
    }
}
