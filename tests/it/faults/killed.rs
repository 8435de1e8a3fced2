//! SIGKILL at random moments: of the agent, of init, of a session's shell, of the launcher.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use sandshell_client::types::{
    ErrorCode, ProcessId, SandboxState, SessionRecord, SessionRequest, StreamName, TerminalFrame,
    TerminalRequest,
};
use sandshell_client::{
    Client, ClientError, ConnectOptions, EventQuery, OutputQuery, OutputStreamEvent, TerminalEvent,
};
use sandshell_testkit::{Agent, Hub, children_deep, wait_for_exit_of, wait_until_gone};
use tokio::task::JoinSet;

use super::{Dice, agent_of, full, id_of, processes_of, sandbox, say, spec_of, until};
use crate::calls::{DEADLINE, Shell, exec, in_time, marker, process_of, start, text};

/// Prints a line for each number from 1 on, about a thousand a second.
const COUNTING: &str = "exec 9<> <(:); i=0; while :; do echo $((++i)); read -t 0.001 -u 9; done";

fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

/// Checks that lines count from 1 without a gap, the last one perhaps cut.
fn counts(bytes: &[u8], line_end: &str) {
    let text = String::from_utf8_lossy(bytes);
    let whole = text.rfind(line_end).map_or("", |end| &text[..end]);
    for (at, line) in whole
        .split(line_end)
        .enumerate()
        .filter(|(_, line)| !line.is_empty())
    {
        assert_eq!(
            line,
            (at + 1).to_string(),
            "line {at} of {} bytes",
            bytes.len()
        );
    }
}

/// What a client of a stream saw: its bytes, and how it ended.
type Seen = (Vec<u8>, &'static str, Option<ClientError>);

async fn raw(client: Client, id: ProcessId) -> Seen {
    let mut seen = Vec::new();
    let query = OutputQuery::follow(StreamName::Stdout);
    let mut stream = match client.process_output(&id, query).await {
        Ok(stream) => stream,
        Err(error) => return (seen, "\n", Some(error)),
    };
    loop {
        match stream.next().await {
            Some(Ok(piece)) => seen.extend_from_slice(&piece),
            Some(Err(error)) => return (seen, "\n", Some(error)),
            None => return (seen, "\n", None),
        }
    }
}

async fn events(client: Client, id: ProcessId) -> Seen {
    let mut seen = Vec::new();
    let mut stream = match client.process_events(&id, EventQuery::default()).await {
        Ok(stream) => stream,
        Err(error) => return (seen, "\n", Some(error)),
    };
    loop {
        match stream.next().await {
            Some(Ok(event)) => match event.event {
                OutputStreamEvent::Output(output) => {
                    assert_eq!(output.offset, seen.len() as u64);
                    seen.extend_from_slice(output.data.as_bytes());
                }
                // Without init its programs are killed, which is what happened to this one.
                OutputStreamEvent::Exit(exit) => {
                    assert_eq!(exit.signal.as_deref(), Some("SIGKILL"));
                    return (seen, "\n", None);
                }
                other => panic!("{other:?}"),
            },
            Some(Err(error)) => return (seen, "\n", Some(error)),
            None => panic!("the stream ended without an exit"),
        }
    }
}

async fn terminal(client: Client) -> Seen {
    let request = TerminalRequest {
        argv: Some(["bash", "-c", COUNTING].map(str::to_owned).to_vec()),
        ..TerminalRequest::default()
    };
    let connected = async {
        let made = client.create_terminal(&request).await?;
        client
            .connect_terminal(&made.id, ConnectOptions::default())
            .await
    };
    let mut connection = match connected.await {
        Ok(connection) => connection,
        Err(error) => return (Vec::new(), "\r\n", Some(error)),
    };
    let (mut seen, mut skip, mut before) = (Vec::new(), 0, 0);
    loop {
        match connection.next().await {
            Ok(Some(TerminalEvent::Bytes(bytes))) => {
                let known = skip.min(bytes.len());
                skip -= known;
                seen.extend_from_slice(&bytes[known..]);
            }
            Ok(Some(TerminalEvent::Frame(TerminalFrame::Ready {
                offset,
                redraw_bytes,
                ..
            }))) => {
                // What was written before we came is shown as a picture first.
                skip = usize::try_from(redraw_bytes).unwrap();
                before = offset;
            }
            Ok(Some(_)) => {}
            // A tunnel that was cut says no goodbye.
            Ok(None) => return (counted_from(before, seen), "\r\n", None),
            Err(error) => return (counted_from(before, seen), "\r\n", Some(error)),
        }
    }
}

/// The bytes from this offset of a terminal that counts, with those before them put back.
fn counted_from(offset: u64, seen: Vec<u8>) -> Vec<u8> {
    let all = (1..).flat_map(|n: u64| format!("{n}\r\n").into_bytes());
    let before = all.take(usize::try_from(offset).unwrap());
    before.chain(seen).collect()
}

/// Executes in a session until something fails, or a command is killed.
async fn commands(client: Client) -> Option<ClientError> {
    let made = match client.create_session(&SessionRequest::default()).await {
        Ok(made) => made,
        Err(error) => return Some(error),
    };
    let mut n = 0;
    loop {
        match client
            .session_exec(&made.id, &text("echo $((++ran))"))
            .await
        {
            Ok(done) if done.exit_code == 137 => return None,
            Ok(done) => {
                n += 1;
                assert_eq!(done.stdout, format!("{n}\n"));
            }
            Err(error) => return Some(error),
        }
    }
}

/// A sandbox whose agent or init is killed under load is lost with a reason, its clients are told, all
/// of it is gone, its id can be used anew, and its neighbour notices nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_sandbox_is_told_of_and_leaves_nothing() {
    let mut dice = Dice::new();
    let hub = Hub::start();
    let client = hub.client();
    let neighbour = sandbox(&client, "neighbour").await;
    let quiet = Shell::of(&neighbour).await;
    let lasting = start(&neighbour, &process_of(COUNTING)).await;
    let rounds = if full() { 20 } else { 2 };
    let mut places = Vec::new();
    for round in 0..rounds {
        let mark = marker();
        let victim = sandbox(&client, "victim").await;
        let place = newest_place(&hub, &places);
        places.push(place.clone());
        let agent = agent_of(&place);
        let init = children_deep(agent)[0];
        let left = exec(&victim, "ls /tmp").await.stdout;
        assert_eq!(left, "", "nothing of its predecessor");
        exec(
            &victim,
            &format!("touch /tmp/{mark}; MARK={mark} setsid sleep 1000 & echo"),
        )
        .await;
        let process = start(&victim, &process_of(COUNTING)).await;
        let own = || hub.client().sandbox(&id_of("victim"));
        let mut streams = JoinSet::new();
        streams.spawn(raw(own(), process.clone()));
        streams.spawn(events(own(), process.clone()));
        streams.spawn(terminal(own()));
        let ran = tokio::spawn(commands(own()));
        let long = tokio::spawn({
            let client = own();
            async move { client.exec(&crate::calls::exec_of("sleep 1000")).await }
        });
        let (whom, pid) = if round % 2 == 0 {
            ("agent", agent)
        } else {
            ("init", init)
        };
        let after = Duration::from_micros(dice.below(200_000));
        say(&format!("{whom} is killed after {after:?}"));
        tokio::time::sleep(after).await;
        kill(pid);
        while let Some(seen) = in_time(streams.join_next()).await {
            let (bytes, line_end, error) = seen.unwrap();
            counts(&bytes, line_end);
            let ended = whom == "init" || line_end == "\r\n";
            assert!(
                error.is_some() || ended,
                "a broken stream ended as if whole"
            );
            error.iter().for_each(told);
        }
        match in_time(ran).await.unwrap() {
            // Without init the shell may die before the agent does.
            Some(error) if error.code() == Some(ErrorCode::SessionEnded) => {
                assert_eq!(whom, "init", "{error:?}");
            }
            ran => ran.iter().for_each(told),
        }
        match in_time(long).await.unwrap() {
            Ok(done) => assert_eq!((whom, done.exit_code), ("init", 137)),
            Err(error) => told(&error),
        }
        let record = until(&client, "victim", SandboxState::Failed).await;
        let reason = record.reason.unwrap_or_default();
        assert!(reason.contains("its agent"), "{reason}");
        let refused = in_time(victim.exec(&crate::calls::exec_of("true")))
            .await
            .unwrap_err();
        assert_eq!(refused.code(), Some(ErrorCode::SandboxGone), "{refused:?}");
        assert!(refused.to_string().contains(&reason), "{refused}");
        assert_eq!(wait_until_gone(&mark, DEADLINE), Vec::<i32>::new());
        for pid in [agent, init] {
            assert!(wait_for_exit_of(pid, DEADLINE));
        }
        let removed = async {
            while place.exists() {
                tokio::task::yield_now().await;
            }
        };
        in_time(removed).await;
        assert_eq!(quiet.out("echo $((++n))").await, format!("{}\n", round + 1));
    }
    let mut follow = neighbour
        .process_output(&lasting, OutputQuery::all(StreamName::Stdout))
        .await
        .unwrap();
    let mut all = Vec::new();
    while let Some(piece) = in_time(follow.next()).await {
        all.extend_from_slice(&piece.unwrap());
    }
    counts(&all, "\n");
    // The two are not seen at the same moment, and the dead need one to go.
    let agree = async {
        while processes_of(&hub).len() != processes_expected(&hub) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let agree = tokio::time::timeout(DEADLINE, agree).await;
    assert!(
        agree.is_ok(),
        "{:?} instead of {}",
        processes_of(&hub),
        processes_expected(&hub)
    );
}

/// Those that failed know it: a refusal with a code, or a connection that visibly broke.
fn told(error: &ClientError) {
    if let Some(code) = error.code() {
        assert!(
            matches!(
                code,
                ErrorCode::SandboxGone | ErrorCode::SandboxUnreachable | ErrorCode::Unavailable
            ),
            "{error:?}"
        );
    }
}

fn places(hub: &Hub) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(hub.state_dir().join("sandboxes")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    // Places have names of 12 digits; others are made ahead.
    paths
        .filter(|path| path.file_name().is_some_and(|name| name.len() == 12))
        .collect()
}

/// The place that was made last.
fn newest_place(hub: &Hub, known: &[PathBuf]) -> PathBuf {
    let made = |path: &Path| {
        std::fs::metadata(path.join("agent.sock"))
            .unwrap()
            .modified()
            .unwrap()
    };
    let fresh = places(hub).into_iter().filter(|path| !known.contains(path));
    fresh.max_by_key(|path| made(path)).unwrap()
}

/// Agents that live, one for each place: an agent, its init and a warden have the hub's directory among
/// their mounts.
fn processes_expected(hub: &Hub) -> usize {
    let of_place = |path: PathBuf| {
        let agent = agent_of(&path);
        let ours = processes_of(hub);
        children_deep(agent)
            .into_iter()
            .chain([agent])
            .filter(|pid| ours.contains(pid))
            .count()
    };
    places(hub).into_iter().map(of_place).sum()
}

/// The launcher dies while sandboxes are being made: each is made or refused with a reason, and none is
/// left that nobody knows of.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_launcher_killed_at_work_leaves_no_half_made_sandbox() {
    let mut dice = Dice::new();
    let hub = Hub::start();
    let client = hub.client();
    let rounds = if full() { 30 } else { 3 };
    let (mut made, mut refused) = (0, 0);
    for round in 0..rounds {
        let before = sandbox(&client, "before").await;
        let launcher = launcher_of(&hub);
        let creating: Vec<_> = (0..4)
            .map(|n| {
                let client = hub.client();
                let spec = spec_of(&format!("box-{n}"));
                tokio::spawn(async move { client.create_sandbox(&spec).await })
            })
            .collect();
        let after = Duration::from_micros(dice.below(60_000));
        tokio::time::sleep(after).await;
        kill(launcher);
        for (n, one) in creating.into_iter().enumerate() {
            match in_time(one).await.unwrap() {
                Ok(record) => {
                    made += 1;
                    let inside = client.sandbox(&record.id);
                    assert_eq!(exec(&inside, "echo in").await.stdout, "in\n");
                }
                Err(error) => {
                    refused += 1;
                    assert_eq!(error.code(), Some(ErrorCode::Unavailable), "{error:?}");
                    say(&format!("round {round}, after {after:?}: {error}"));
                    // Its id can be had at once.
                    sandbox(&client, &format!("box-{n}")).await;
                }
            }
        }
        assert_eq!(exec(&before, "echo still").await.stdout, "still\n");
        for name in ["before", "box-0", "box-1", "box-2", "box-3"] {
            in_time(client.destroy_sandbox(&id_of(name))).await.unwrap();
        }
        let gone = async {
            while !(places(&hub).is_empty() && processes_of(&hub).is_empty()) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let gone = tokio::time::timeout(DEADLINE, gone).await.is_ok();
        assert!(gone, "left: {:?} {:?}", places(&hub), processes_of(&hub));
    }
    say(&format!("{made} made, {refused} refused"));
    // Most are made by the next launcher; one that died when all were made is never missed.
    let missed = hub.log().matches("the launcher is gone").count();
    assert!(missed > 0, "no launcher was missed");
}

/// The launcher of a hub: its one child that lives.
pub(super) fn launcher_of(hub: &Hub) -> i32 {
    let of_hub = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let rest = stat
            .rsplit_once(") ")
            .map_or("", |(_, rest)| rest)
            .to_owned();
        let mut fields = rest.split(' ');
        fields.next() != Some("Z") && fields.next() == Some(&hub.pid().to_string())
    };
    let found: Vec<i32> = children_deep(hub.pid())
        .into_iter()
        .filter(of_hub)
        .collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found[0]
}

/// Takes some milliseconds, most of them before it counts.
const COMMAND: &str = "for ((j = 0; j < 3000; j++)); do :; done; echo $((++n))";

/// A session whose shell is killed at any moment has the state before that command or after it, and
/// says which.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shell_killed_at_any_moment_costs_at_most_its_command() {
    let mut dice = Dice::new();
    let agent = Agent::start();
    let shell = Shell::new(&agent).await;
    let killer = agent.client();
    let rounds = if full() { 300 } else { 25 };
    let (mut n, mut lost, mut unsaved) = (0_u64, 0, 0);
    for round in 0..rounds {
        let SessionRecord { pid, restores, .. } = shell.record().await;
        let after = Duration::from_micros(dice.below(10_000));
        let killing = async {
            tokio::time::sleep(after).await;
            exec(&killer, &format!("kill -9 {pid} 2>&-; true")).await
        };
        let (done, _) = tokio::join!(shell.run(COMMAND), killing);
        match (&*done.session_state, done.exit_code) {
            // Killed as it saved what nothing had changed since, and told of that by this command.
            ("kept" | "restored_before", 0) => {
                n += 1;
                assert_eq!(done.stdout, format!("{n}\n"), "round {round}: {done:?}");
            }
            ("restored_before", 137) => lost += 1,
            ("restored", 137) => n += 1,
            _ => panic!("round {round}, killed after {after:?}: {done:?}"),
        }
        let next = shell.run("echo $((n))").await;
        let told: u64 = next.stdout.trim().parse().unwrap();
        // The state is saved after the command has been answered. Killed in between, the shell is
        // replaced with the state before; the next command and the count of replacements tell of it.
        let replaced = shell.record().await.restores > restores;
        let fell_back = done.session_state == "kept" && next.session_state == "restored_before";
        if told + 1 == n && fell_back && replaced {
            (n, unsaved) = (told, unsaved + 1);
        } else {
            assert_eq!(next.session_state, "kept", "round {round}: {next:?}");
        }
        assert_eq!(told, n, "round {round}: {done:?}");
    }
    say(&format!(
        "{lost} of {rounds} commands were killed, {unsaved} before their state was saved"
    ));
    assert!(lost > 0);
}
