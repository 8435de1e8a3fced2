//! Calls about terminals, and connections to them.

use sandshell_client::types::{
    ResizeRequest, TerminalFrame, TerminalRecord, TerminalRole, TerminalState,
};
use sandshell_client::{ConnectOptions, TerminalConnection, TerminalEvent};

use super::{Check, Driver, answer, bytes_are, ensure, exit_is, killed_is};
use crate::calls::in_time;
use crate::model::act::{Act, Answer, TerminalFacts};

impl Driver<'_> {
    pub(super) async fn at_terminal(&mut self, act: &Act) -> Check {
        let client = self.client.clone();
        match act {
            Act::CreateTerminal {
                request,
                fresh,
                expect,
            } => {
                let reply = in_time(client.create_terminal(request)).await;
                let Some((record, ())) = answer(reply, expect)? else {
                    return Ok(());
                };
                ensure!(
                    self.pids.contains(&record.pid) != *fresh,
                    "fresh: {fresh}, and its pid is {}",
                    record.pid
                );
                self.pids.push(record.pid);
                Ok(())
            }
            Act::Terminal { id, expect } => {
                let reply = in_time(client.terminal(&id.parse().unwrap())).await;
                match answer(reply, expect)? {
                    Some((record, facts)) => terminal_is(&record, facts),
                    None => Ok(()),
                }
            }
            Act::Resize {
                id,
                cols,
                rows,
                expect,
            } => {
                let request = ResizeRequest {
                    cols: *cols,
                    rows: *rows,
                };
                let id = id.parse().unwrap();
                let reply = in_time(client.resize_terminal(&id, request.cols, request.rows)).await;
                answer(reply, expect).map(|_| ())
            }
            Act::Type {
                id,
                bytes,
                at,
                expect,
            } => {
                let Ok(facts) = expect else {
                    return Err("typing needs a terminal".to_owned());
                };
                let (mut connection, mut offset) = match self.terminals.remove(id) {
                    Some(attached) => attached,
                    None => match self.connect(id, *at, TerminalRole::Writer, expect).await? {
                        Some(connection) => (connection, *at),
                        None => return Ok(()),
                    },
                };
                let typed = in_time(connection.type_in(bytes.clone())).await;
                typed.map_err(|error| error.to_string())?;
                read_to(&mut connection, &mut offset, facts).await?;
                if facts.exit.is_none() {
                    self.terminals.insert(id.clone(), (connection, offset));
                }
                Ok(())
            }
            Act::Watch { id, offset, expect } => {
                let connection = self
                    .connect(id, *offset, TerminalRole::Viewer, expect)
                    .await?;
                if let (Some(mut connection), Ok(facts)) = (connection, expect) {
                    read_to(&mut connection, &mut offset.clone(), facts).await?;
                }
                Ok(())
            }
            Act::Attach { id, offset, expect } => {
                let connection = self
                    .connect(id, *offset, TerminalRole::Writer, expect)
                    .await?;
                if let Some(connection) = connection {
                    self.terminals.insert(id.clone(), (connection, *offset));
                }
                Ok(())
            }
            Act::Detach { id } => {
                self.terminals.remove(id);
                Ok(())
            }
            Act::DeleteTerminal { id, expect } => {
                self.terminals.remove(id);
                let reply = in_time(client.delete_terminal(&id.parse().unwrap())).await;
                match answer(reply, expect)? {
                    Some((reply, killed)) => killed_is(&reply, killed),
                    None => Ok(()),
                }
            }
            _ => Err("this is not about terminals".to_owned()),
        }
    }

    async fn connect(
        &self,
        id: &str,
        offset: u64,
        role: TerminalRole,
        expect: &Answer<TerminalFacts>,
    ) -> Result<Option<TerminalConnection>, String> {
        let options = ConnectOptions {
            offset: Some(offset),
            role,
            ..ConnectOptions::default()
        };
        let id = id.parse().unwrap();
        let reply = in_time(self.client.connect_terminal(&id, options)).await;
        let Some((mut connection, _)) = answer(reply, expect)? else {
            return Ok(None);
        };
        let first = in_time(connection.next())
            .await
            .map_err(|error| error.to_string())?;
        let Some(TerminalEvent::Frame(TerminalFrame::Ready {
            offset: at,
            redraw_bytes: 0,
            ..
        })) = first
        else {
            return Err(format!("the first frame is {first:?}"));
        };
        ensure!(at == offset, "ready at {at} instead of {offset}");
        Ok(Some(connection))
    }
}

/// Reads until the output, and the end if there is one, are as the model has them.
async fn read_to(
    connection: &mut TerminalConnection,
    offset: &mut u64,
    facts: &TerminalFacts,
) -> Check {
    let begin = usize::try_from(*offset).unwrap_or_default();
    let rest = facts.output.get(begin..).unwrap_or_default();
    let mut read = Vec::new();
    let mut exit = None;
    while read.len() < rest.len() || (facts.exit.is_some() && exit.is_none()) {
        match in_time(connection.next())
            .await
            .map_err(|error| error.to_string())?
        {
            Some(TerminalEvent::Bytes(bytes)) => read.extend_from_slice(&bytes),
            Some(TerminalEvent::Frame(TerminalFrame::Resize { .. })) => {}
            Some(TerminalEvent::Frame(TerminalFrame::Exit { exit_code, signal })) => {
                exit = Some((exit_code, signal));
            }
            other => return Err(format!("{other:?} after {read:?}")),
        }
    }
    *offset += read.len() as u64;
    bytes_are("the terminal's output", &read, &[rest.to_vec()])?;
    match (exit, facts.exit) {
        (Some((code, signal)), Some(expect)) => exit_is((code, signal.as_deref()), &[expect]),
        (None, None) => Ok(()),
        (exit, expect) => Err(format!("the exit is {exit:?} instead of {expect:?}")),
    }
}

fn terminal_is(record: &TerminalRecord, facts: &TerminalFacts) -> Check {
    let state = match facts.exit {
        Some(_) => TerminalState::Exited,
        None => TerminalState::Running,
    };
    ensure!(
        record.state == state
            && (record.cols, record.rows) == facts.size
            && record.output_bytes == facts.output.len() as u64,
        "{record:?} instead of {facts:?}"
    );
    match (record.exit_code, facts.exit) {
        (Some(code), Some(expect)) => exit_is((code, record.signal.as_deref()), &[expect]),
        (None, None) => Ok(()),
        (code, expect) => Err(format!("the exit is {code:?} instead of {expect:?}")),
    }
}
