//! Calls about sessions and their commands.

use std::collections::BTreeMap;
use std::time::Instant;

use sandshell_client::types::{
    CommandRecord, Encoded, ExitEvent, ForkRequest, ProcessRequest, SessionExecRequest,
    SessionExecResult, SessionPatch, SessionRecord, SessionState, StreamName,
};
use sandshell_client::{EventQuery, OutputQuery, Page};

use super::{Check, Driver, answer, bytes_are, ensure, exit_is, killed_is, text_is};
use crate::calls::{DEADLINE, Heard, in_time};
use crate::model::act::{Act, Answer, Entry, Expected, SessionFacts};

impl Driver<'_> {
    pub(super) async fn in_session(&mut self, act: &Act) -> Check {
        let client = self.client.clone();
        match act {
            Act::CreateSession { request, expect } => {
                let reply = in_time(client.create_session(request)).await;
                match answer(reply, expect)? {
                    Some((record, facts)) => self.session_is(&record, facts),
                    None => Ok(()),
                }
            }
            Act::Fork { from, to, expect } => {
                let request = ForkRequest {
                    id: Some(to.parse().unwrap()),
                };
                let reply = in_time(client.fork_session(&from.parse().unwrap(), &request)).await;
                match answer(reply, expect)? {
                    Some((record, facts)) => self.session_is(&record, facts),
                    None => Ok(()),
                }
            }
            Act::Session { id, expect } => {
                let began = Instant::now();
                loop {
                    let reply = in_time(client.session(&id.parse().unwrap())).await;
                    let Some((record, facts)) = answer(reply, expect)? else {
                        return Ok(());
                    };
                    // A child that was let go may not have got to its end. One that stays is found here.
                    let more = record.stats.as_ref().zip(facts.processes);
                    let more = more.is_some_and(|(stats, processes)| stats.processes > processes);
                    if !more || began.elapsed() > DEADLINE {
                        return self.session_is(&record, facts);
                    }
                }
            }
            Act::Patch { id, env, expect } => {
                let patch = SessionPatch {
                    env: BTreeMap::from([env.clone()]),
                    ..SessionPatch::default()
                };
                let reply = in_time(client.patch_session(&id.parse().unwrap(), &patch)).await;
                match answer(reply, expect)? {
                    Some((record, facts)) => self.session_is(&record, facts),
                    None => Ok(()),
                }
            }
            Act::Run {
                id,
                request,
                streamed,
                expect,
            } => self.run(id, request, *streamed, expect).await,
            Act::Begin {
                id,
                request,
                runs,
                expect,
            } => self.begin(id, request, *runs, expect).await,
            Act::UntilGo { id, command } => self.until_go(id, command).await,
            Act::Finish {
                id,
                request,
                kept,
                expect,
            } => self.finish(id, request, *kept, expect.as_ref()).await,
            Act::Disconnect { command } => {
                self.streams.remove(command);
                Ok(())
            }
            Act::Interrupt { id, expect } => {
                let reply = in_time(client.interrupt_session(&id.parse().unwrap())).await;
                let Some((reply, (command, methods))) = answer(reply, expect)? else {
                    return Ok(());
                };
                let ended = reply.command_id.as_ref().map(ToString::to_string);
                ensure!(
                    ended == *command && methods.contains(&reply.method.as_str()),
                    "{reply:?} instead of {command:?} by {methods:?}"
                );
                Ok(())
            }
            Act::KillShell { id, copied } => {
                if *copied {
                    self.copy_of(id).await?;
                }
                let record = in_time(client.session(&id.parse().unwrap())).await;
                let pid = record.map_err(|error| error.to_string())?.pid;
                self.shell(&format!("kill -KILL {pid}")).await.map(|_| ())
            }
            Act::History { id, expect } => {
                let page = Page {
                    limit: Some(1000),
                    cursor: None,
                };
                let reply = in_time(client.list_commands(&id.parse().unwrap(), &page)).await;
                match answer(reply, expect)? {
                    Some((list, entries)) => history_is(&list.items, entries),
                    None => Ok(()),
                }
            }
            Act::CommandOutput {
                id,
                command,
                stream,
                offset,
                expect,
            } => {
                let query = OutputQuery {
                    stream: *stream,
                    offset: *offset,
                    // What was left behind ends when its writer does; that of a command has ended.
                    follow: *stream == StreamName::LateStdout,
                };
                let (id, command) = (id.parse().unwrap(), command.parse().unwrap());
                let reply = in_time(client.command_output(&id, &command, query)).await;
                let Some((body, allowed)) = answer(reply, expect)? else {
                    return Ok(());
                };
                let bytes = in_time(body.read_to_end()).await;
                let bytes = bytes.map_err(|error| error.to_string())?;
                bytes_are("the output", &bytes, allowed)
            }
            Act::CommandEvents {
                id,
                command,
                expect,
            } => {
                let (id, command) = (id.parse().unwrap(), command.parse().unwrap());
                let query = EventQuery::default();
                let reply = in_time(client.command_events(&id, &command, query)).await;
                let Some((mut events, end)) = answer(reply, expect)? else {
                    return Ok(());
                };
                let mut heard = Heard::default();
                heard.until_the_end(&mut events).await;
                heard_is(&heard, end)
            }
            Act::DeleteSession { id, expect } => {
                let reply = in_time(client.delete_session(&id.parse().unwrap())).await;
                self.shells.remove(id);
                match answer(reply, expect)? {
                    Some((reply, killed)) => killed_is(&reply, killed),
                    None => Ok(()),
                }
            }
            _ => Err("this is not about sessions".to_owned()),
        }
    }

    async fn run(
        &self,
        id: &str,
        request: &SessionExecRequest,
        streamed: bool,
        expect: &Answer<Expected>,
    ) -> Check {
        let id = id.parse().unwrap();
        if streamed {
            let reply = in_time(self.client.session_exec_stream(&id, request)).await;
            let Some((mut events, end)) = answer(reply, expect)? else {
                return Ok(());
            };
            let mut heard = Heard::default();
            heard.until_the_end(&mut events).await;
            ensure!(heard.command_id == request.id, "{:?}", heard.command_id);
            heard_is(&heard, end)?;
        }
        // The same request again tells what the first did.
        let reply = in_time(self.client.session_exec(&id, request)).await;
        match answer(reply, expect)? {
            Some((result, end)) => result_is(&result, end),
            None => Ok(()),
        }
    }

    /// A process that starts from the session's state, and is forgotten.
    async fn copy_of(&self, id: &str) -> Check {
        let request = ProcessRequest {
            command: Some(":".to_owned()),
            session: Some(id.parse().unwrap()),
            ..ProcessRequest::default()
        };
        let made = in_time(self.client.create_process(&request)).await;
        let id = made.map_err(|error| error.to_string())?.id;
        ensure!(self.chosen.is_new(id.as_str()), "the id {id} came twice");
        let gone = in_time(self.client.delete_process(&id)).await;
        gone.map(|_| ()).map_err(|error| error.to_string())
    }

    async fn begin(
        &mut self,
        id: &str,
        request: &SessionExecRequest,
        runs: bool,
        expect: &Answer<()>,
    ) -> Check {
        let session = id.parse().unwrap();
        let reply = in_time(self.client.session_exec_stream(&session, request)).await;
        let Some((mut events, ())) = answer(reply, expect)? else {
            return Ok(());
        };
        let mut heard = Heard::default();
        while heard.command_id.is_none() {
            ensure!(heard.next(&mut events).await, "no first event");
        }
        ensure!(heard.command_id == request.id, "{:?}", heard.command_id);
        let command = heard.command_id.as_ref().map(ToString::to_string);
        let command = command.unwrap_or_default();
        self.streams.insert(command.clone(), events);
        self.heard.insert(command.clone(), heard);
        if runs {
            self.until_go(id, &command).await?;
        }
        Ok(())
    }

    /// The stream of a command: the one that is open, or a new one that goes on after what was heard.
    async fn attached(&mut self, id: &str, command: &str) -> Check {
        if self.streams.contains_key(command) {
            return Ok(());
        }
        let from = self.heard.get_mut(command).and_then(Heard::resume);
        let query = EventQuery { from, follow: None };
        let (id, command_id) = (id.parse().unwrap(), command.parse().unwrap());
        let events = in_time(self.client.command_events(&id, &command_id, query)).await;
        let events = events.map_err(|error| error.to_string())?;
        self.streams.insert(command.to_owned(), events);
        Ok(())
    }

    async fn until_go(&mut self, id: &str, command: &str) -> Check {
        self.attached(id, command).await?;
        let heard = self.heard.entry(command.to_owned()).or_default();
        if let Some(events) = self.streams.get_mut(command) {
            heard.until_stdout_has(events, "go\n").await;
        }
        Ok(())
    }

    async fn finish(
        &mut self,
        id: &str,
        request: &SessionExecRequest,
        kept: bool,
        expect: Option<&Expected>,
    ) -> Check {
        let command = request.id.as_ref().map(ToString::to_string);
        let command = command.unwrap_or_default();
        if !kept && !self.streams.contains_key(&command) {
            return Ok(());
        }
        self.attached(id, &command).await?;
        let mut heard = self.heard.remove(&command).unwrap_or_default();
        if let Some(mut events) = self.streams.remove(&command) {
            heard.until_the_end(&mut events).await;
        }
        let Some(end) = expect else {
            let exit = heard.exit.as_ref().and_then(|exit| exit.exit_code);
            ensure!(exit.is_none(), "it never ran, and ended with {exit:?}");
            return bytes_are("stdout", &heard.stdout, &[Vec::new()]);
        };
        heard_is(&heard, end)?;
        if kept {
            let result = in_time(self.client.session_exec(&id.parse().unwrap(), request)).await;
            result_is(&result.map_err(|error| error.to_string())?, end)?;
        }
        Ok(())
    }

    /// Compares a record, and the shell's pid with what was known.
    fn session_is(&mut self, record: &SessionRecord, facts: &SessionFacts) -> Check {
        let foreground = record.foreground.as_ref().map(|f| f.command_id.to_string());
        let state = match facts.foreground {
            Some(_) => SessionState::Busy,
            None => SessionState::Idle,
        };
        ensure!(
            record.cwd == facts.cwd
                && record.state == state
                && foreground == facts.foreground
                && record.queue_length == facts.waiting
                && record.restores == facts.restores,
            "{record:?} instead of {facts:?}"
        );
        if let Some(processes) = facts.processes {
            let told = record.stats.as_ref().map(|stats| stats.processes);
            ensure!(
                told == Some(processes),
                "{told:?} processes instead of {processes}"
            );
        }
        self.pids.push(record.pid);
        let now = (record.pid, record.restores);
        if let Some(before) = self.shells.insert(record.id.to_string(), now) {
            ensure!(
                (before.0 == now.0) == (before.1 == now.1),
                "the shell was {before:?} and is {now:?}"
            );
        }
        Ok(())
    }
}

fn heard_is(heard: &Heard, end: &Expected) -> Check {
    bytes_are("the stream's stdout", &heard.stdout, &end.stdout)?;
    stderr_is(&heard.stderr, end)?;
    ensure!(heard.truncated.is_empty(), "{:?}", heard.truncated);
    let Some(ExitEvent {
        exit_code: Some(code),
        signal,
        timed_out,
        oom: false,
        ..
    }) = &heard.exit
    else {
        return Err(format!("the exit event is {:?}", heard.exit));
    };
    ensure!(*timed_out == end.timed_out, "timed out: {timed_out}");
    exit_is((*code, signal.as_deref()), &end.exits)
}

fn stderr_is(stderr: &[u8], end: &Expected) -> Check {
    let text = String::from_utf8_lossy(stderr);
    // Bash's own words: `NAME: line 1: PID Killed COMMAND`.
    let told = |line: &str| {
        let words = line.split_once(": line ").map_or("", |(_, after)| after);
        let words: Vec<&str> = words.split_ascii_whitespace().take(3).collect();
        matches!(words[..], [_, pid, "Terminated" | "Killed"] if pid.parse::<u32>().is_ok())
    };
    if end.told && !text.is_empty() && text.lines().all(told) {
        return Ok(());
    }
    bytes_are("stderr", stderr, &end.stderr)
}

fn result_is(result: &SessionExecResult, end: &Expected) -> Check {
    exit_is((result.exit_code, result.signal.as_deref()), &end.exits)?;
    text_is(
        "stdout",
        &result.stdout,
        result.stdout_encoding,
        &end.stdout,
    )?;
    let stderr = Encoded::decode(&result.stderr, result.stderr_encoding);
    stderr_is(&stderr.unwrap_or_default(), end)?;
    ensure!(
        (result.timed_out, result.interrupted, result.oom)
            == (end.timed_out, end.interrupted, false)
            && end.left.contains(&result.left_running)
            && result.truncated.is_none()
            && result.cwd == end.cwd
            && result.session_state == end.after,
        "{result:?} instead of {end:?}"
    );
    Ok(())
}

fn history_is(records: &[CommandRecord], entries: &[Entry]) -> Check {
    let ids: Vec<String> = records.iter().map(|record| record.id.to_string()).collect();
    let want: Vec<&str> = entries.iter().map(|entry| entry.id.as_str()).collect();
    ensure!(ids == want, "the history is {ids:?} instead of {want:?}");
    for (record, entry) in records.iter().zip(entries) {
        ensure!(
            record.command == entry.text && record.state == entry.state,
            "{record:?} instead of {entry:?}"
        );
        let Some(end) = &entry.end else {
            ensure!(record.exit_code.is_none(), "it has not run: {record:?}");
            continue;
        };
        exit_is(
            (record.exit_code.unwrap_or(-1), record.signal.as_deref()),
            &end.exits,
        )?;
        let sizes =
            |allowed: &[Vec<u8>], size: u64| allowed.iter().any(|value| value.len() as u64 == size);
        ensure!(
            sizes(&end.stdout, record.stdout_bytes)
                && (end.told || sizes(&end.stderr, record.stderr_bytes))
                && record.cwd.as_ref() == Some(&end.cwd)
                && (record.timed_out, record.interrupted) == (end.timed_out, end.interrupted),
            "{record:?} instead of {end:?}"
        );
    }
    Ok(())
}
