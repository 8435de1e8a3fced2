//! The log of events beside a sequence: each thing begins, goes on and ends once, in this order.

use std::collections::{HashMap, HashSet};

use sandshell_client::types::{Happening, ProcessRequest};
use sandshell_client::{Client, SandboxStream, SandboxStreamEvent};

use super::{Check, ensure};
use crate::calls::in_time;
use crate::model::act::Act;

/// Where a thing is in its life, and how often it was begun.
#[derive(Debug, Default)]
struct Life {
    alive: bool,
    begun: u32,
    restores: u32,
}

pub(in crate::model) struct Events {
    client: Client,
    prefix: String,
    stream: SandboxStream,
}

impl Events {
    /// Listens from now on.
    pub(in crate::model) async fn listen(client: &Client, prefix: &str) -> Result<Self, String> {
        let stream = in_time(client.sandbox_events(None, &[])).await;
        Ok(Self {
            client: client.clone(),
            prefix: prefix.to_owned(),
            stream: stream.map_err(|error| error.to_string())?,
        })
    }

    /// Reads what was told of the sequence. A process of the test's own marks the end.
    pub(in crate::model) async fn are_those_of(mut self, acts: &[Act]) -> Check {
        let last = format!("{}last", self.prefix);
        let request = ProcessRequest {
            id: Some(last.parse().unwrap()),
            command: Some(":".to_owned()),
            ..ProcessRequest::default()
        };
        let made = in_time(self.client.create_process(&request)).await;
        let made = made.map_err(|error| error.to_string())?;
        let gone = in_time(self.client.delete_process(&made.id)).await;
        gone.map_err(|error| error.to_string())?;
        let mut lives: HashMap<String, Life> = HashMap::new();
        loop {
            let event = in_time(self.stream.next()).await.ok_or("the events end")?;
            let what = match event.map_err(|error| error.to_string())? {
                SandboxStreamEvent::Event(_, event) => event.what,
                other => return Err(format!("{other:?}")),
            };
            let Some((id, happened)) = self.of_ours(&what) else {
                continue;
            };
            if id == last {
                break;
            }
            let life = lives.entry(id.clone()).or_default();
            match happened {
                Happened::Began => {
                    ensure!(!life.alive, "{what:?}, and it is alive");
                    life.alive = true;
                    life.begun += 1;
                    life.restores = 0;
                }
                Happened::Restored(restores) => {
                    life.restores += 1;
                    ensure!(
                        life.alive && restores == life.restores,
                        "{what:?} after {life:?}"
                    );
                }
                Happened::Ended => {
                    ensure!(life.alive, "{what:?}, and it is not alive");
                    life.alive = false;
                }
            }
        }
        let alive: Vec<_> = lives.iter().filter(|(_, life)| life.alive).collect();
        ensure!(alive.is_empty(), "their ends were not told: {alive:?}");
        let begun = begun(acts);
        for id in lives.keys().chain(begun.keys()) {
            let told = lives.get(id).map_or(0, |life| life.begun);
            let begun = begun.get(id).copied().unwrap_or_default();
            ensure!(
                told == begun,
                "{id} began {begun} times, and {told} were told"
            );
        }
        Ok(())
    }

    fn of_ours(&self, what: &Happening) -> Option<(String, Happened)> {
        let (id, happened) = match what {
            Happening::ProcessStarted { process, .. } => (process.to_string(), Happened::Began),
            Happening::ProcessExited { process, .. } => (process.to_string(), Happened::Ended),
            Happening::SessionCreated { session } => (session.to_string(), Happened::Began),
            Happening::SessionRestored { session, restores } => {
                (session.to_string(), Happened::Restored(*restores))
            }
            Happening::SessionEnded { session, .. } => (session.to_string(), Happened::Ended),
            Happening::TerminalCreated { terminal } => (terminal.to_string(), Happened::Began),
            Happening::TerminalEnded { terminal, .. } => (terminal.to_string(), Happened::Ended),
            _ => return None,
        };
        id.starts_with(&self.prefix).then_some((id, happened))
    }
}

enum Happened {
    Began,
    Restored(u32),
    Ended,
}

/// How often each thing is begun.
fn begun(acts: &[Act]) -> HashMap<String, u32> {
    let mut begun = HashMap::new();
    // One that is there is given again to whoever asks for the same.
    let mut sessions = HashSet::new();
    for act in acts {
        let id = match act {
            Act::CreateSession {
                request,
                expect: Ok(_),
            } => {
                let id = request.id.as_ref().map(ToString::to_string);
                id.filter(|id| sessions.insert(id.clone()))
            }
            Act::Fork {
                to, expect: Ok(_), ..
            } => sessions.insert(to.clone()).then(|| to.clone()),
            Act::DeleteSession { id, expect: Ok(_) } => {
                sessions.remove(id);
                None
            }
            Act::StartProcess {
                request,
                fresh: true,
                expect: Ok(()),
            } => request.id.as_ref().map(ToString::to_string),
            Act::CreateTerminal {
                request,
                fresh: true,
                expect: Ok(()),
            } => request.id.as_ref().map(ToString::to_string),
            _ => None,
        };
        if let Some(id) = id {
            *begun.entry(id).or_default() += 1;
        }
    }
    begun
}
