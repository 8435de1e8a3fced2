//! Calls about processes.

use sandshell_client::types::{
    KillRequest, ProcessId, ProcessRecord, ProcessState, SignalRequest, StreamName, WaitOutcome,
    WaitRequest,
};
use sandshell_client::{EventQuery, OutputQuery};

use super::{Check, Driver, answer, bytes_are, ensure, exit_is, killed_is};
use crate::calls::{Heard, in_time};
use crate::model::act::{Act, Answer, ProcessFacts};

impl Driver<'_> {
    pub(super) async fn with_process(&mut self, act: &Act) -> Check {
        let client = self.client.clone();
        match act {
            Act::StartProcess {
                request,
                fresh,
                expect,
            } => {
                let reply = in_time(client.create_process(request)).await;
                let Some((record, ())) = answer(reply, expect)? else {
                    return Ok(());
                };
                ensure!(
                    Some(&record.id) == request.id.as_ref() && record.session == request.session,
                    "{record:?}"
                );
                ensure!(
                    self.pids.contains(&record.pid) != *fresh,
                    "fresh: {fresh}, and its pid is {}",
                    record.pid
                );
                self.pids.push(record.pid);
                Ok(())
            }
            Act::UntilOutput { id, stdout } => {
                let query = OutputQuery::follow(StreamName::Stdout);
                let body = in_time(client.process_output(&id.parse().unwrap(), query)).await;
                let mut body = body.map_err(|error| error.to_string())?;
                let mut read = Vec::new();
                while read.len() < stdout.len() {
                    let Some(piece) = in_time(body.next()).await else {
                        break;
                    };
                    read.extend_from_slice(&piece.map_err(|error| error.to_string())?);
                }
                bytes_are("stdout", &read, std::slice::from_ref(stdout))
            }
            Act::Process { id, expect } => {
                let reply = in_time(client.process(&id.parse().unwrap())).await;
                match answer(reply, expect)? {
                    Some((record, facts)) => process_is(&record, facts),
                    None => Ok(()),
                }
            }
            Act::Write {
                id,
                offset,
                bytes,
                expect,
            } => {
                let id = id.parse().unwrap();
                let reply = in_time(client.write_stdin(&id, *offset, bytes.clone())).await;
                let Some((reply, total)) = answer(reply, expect)? else {
                    return Ok(());
                };
                ensure!(reply.offset == *total, "{reply:?} instead of {total}");
                Ok(())
            }
            Act::CloseStdin { id, expect } => {
                let reply = in_time(client.close_stdin(&id.parse().unwrap())).await;
                let Some((reply, total)) = answer(reply, expect)? else {
                    return Ok(());
                };
                ensure!(reply.offset == *total, "{reply:?} instead of {total}");
                Ok(())
            }
            Act::Signal {
                id,
                signal,
                scope,
                expect,
            } => {
                let request = SignalRequest {
                    signal: (*signal).to_owned(),
                    scope: *scope,
                };
                let reply = in_time(client.signal_process(&id.parse().unwrap(), &request)).await;
                let Some((reply, counts)) = answer(reply, expect)? else {
                    return Ok(());
                };
                ensure!(
                    counts.contains(&reply.signalled),
                    "{reply:?} instead of {counts:?}"
                );
                Ok(())
            }
            Act::Kill {
                id,
                grace_ms,
                expect,
            } => {
                let request = KillRequest {
                    grace_ms: Some(*grace_ms),
                };
                let reply = in_time(client.kill_process(&id.parse().unwrap(), &request)).await;
                match answer(reply, expect)? {
                    Some((reply, killed)) => killed_is(&reply, killed),
                    None => Ok(()),
                }
            }
            Act::DeleteProcess { id, expect } => {
                let reply = in_time(client.delete_process(&id.parse().unwrap())).await;
                match answer(reply, expect)? {
                    Some((reply, killed)) => killed_is(&reply, killed),
                    None => Ok(()),
                }
            }
            Act::OpenOutput { id } => {
                let query = OutputQuery::follow(StreamName::Stdout);
                let body = in_time(client.process_output(&id.parse().unwrap(), query)).await;
                let body = body.map_err(|error| error.to_string())?;
                self.outputs.insert(id.clone(), body);
                Ok(())
            }
            Act::RestOfOutput { id, expect } => {
                let Some(body) = self.outputs.remove(id) else {
                    return Err("nothing was begun".to_owned());
                };
                let bytes = in_time(body.read_to_end()).await;
                let bytes = bytes.map_err(|error| error.to_string())?;
                bytes_are("the former output", &bytes, std::slice::from_ref(expect))
            }
            Act::Wait { id, ends, expect } => {
                let request = WaitRequest {
                    timeout_ms: (!ends).then_some(1),
                    ..WaitRequest::default()
                };
                let reply = in_time(client.wait_process(&id.parse().unwrap(), &request)).await;
                let Some((reply, facts)) = answer(reply, expect)? else {
                    return Ok(());
                };
                let outcome = if *ends {
                    WaitOutcome::Exit
                } else {
                    WaitOutcome::Timeout
                };
                ensure!(
                    reply.outcome == outcome && reply.timed_out != *ends,
                    "{reply:?} instead of {outcome:?}"
                );
                process_is(&reply.process, facts)
            }
            Act::Output {
                id,
                stream,
                offset,
                follow,
                expect,
            } => {
                let query = OutputQuery {
                    stream: *stream,
                    offset: *offset,
                    follow: *follow,
                };
                let reply = in_time(client.process_output(&id.parse().unwrap(), query)).await;
                let Some((body, allowed)) = answer(reply, expect)? else {
                    return Ok(());
                };
                let bytes = in_time(body.read_to_end()).await;
                let bytes = bytes.map_err(|error| error.to_string())?;
                bytes_are("the output", &bytes, allowed)
            }
            Act::Events {
                id,
                facts,
                stdout,
                stderr,
            } => {
                let heard = self.events(&id.parse().unwrap(), facts).await?;
                bytes_are("the events' stdout", &heard.stdout, stdout)?;
                bytes_are("the events' stderr", &heard.stderr, stderr)
            }
            _ => Err("this is not about processes".to_owned()),
        }
    }

    /// All events that there are, over two connections.
    async fn events(&self, id: &ProcessId, facts: &Answer<ProcessFacts>) -> Result<Heard, String> {
        let ended = matches!(facts, Ok(facts) if facts.state == ProcessState::Exited);
        let follow = if ended { None } else { Some(false) };
        let mut heard = Heard::default();
        for part in 0..2 {
            let query = EventQuery {
                from: heard.resume(),
                follow,
            };
            let events = in_time(self.client.process_events(id, query)).await;
            let mut events = events.map_err(|error| error.to_string())?;
            let more = heard.next(&mut events).await;
            if heard.exit.is_some() {
                break;
            }
            if part == 1 {
                while more && heard.next(&mut events).await {}
            }
        }
        let exit = heard.exit.as_ref();
        ensure!(exit.is_some() == ended, "the exit event is {exit:?}");
        if let (Some(exit), Ok(facts)) = (exit, facts) {
            exit_is(
                (exit.exit_code.unwrap_or(-1), exit.signal.as_deref()),
                &facts.exits,
            )?;
        }
        Ok(heard)
    }
}

fn process_is(record: &ProcessRecord, facts: &ProcessFacts) -> Check {
    let sizes = |allowed: &[u64], size: u64| allowed.is_empty() || allowed.contains(&size);
    ensure!(
        record.state == facts.state
            && sizes(&facts.stdout_bytes, record.stdout_bytes)
            && sizes(&facts.stderr_bytes, record.stderr_bytes)
            && record.ended_at.is_some() == (facts.state == ProcessState::Exited),
        "{record:?} instead of {facts:?}"
    );
    if let Some(code) = record.exit_code {
        return exit_is((code, record.signal.as_deref()), &facts.exits);
    }
    ensure!(facts.exits.is_empty(), "it runs: {record:?}");
    Ok(())
}
