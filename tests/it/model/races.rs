//! Several clients at once on one id, or on one session: whatever the order, there must be one.
//!
//! Of calls about one id every answer is noted with the time it was asked for and given. There must be an order
//! of all calls that keeps those apart that did not overlap, and in which each answer is right
//! for the simplest model: nothing, or one thing with one pid. And at the end nothing may be left.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use proptest::prelude::*;
use sandshell_client::Client;
use sandshell_client::types::{
    ErrorCode, ProcessId, ProcessRequest, SessionExecRequest, SessionId, SessionRequest,
};

use super::drive::{Chosen, Driver};
use crate::calls::in_time;

/// A call about the one id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Create,
    Delete,
    Get,
}

/// What is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Process,
    Session,
}

/// A call with its answer.
#[derive(Debug, Clone)]
struct Noted {
    call: Call,
    /// The pid that a record has; of a deletion 0.
    answer: Option<i32>,
    asked: Instant,
    told: Instant,
}

pub(super) fn plans() -> impl Strategy<Value = (Kind, Vec<Vec<Call>>)> {
    let call = prop_oneof![4 => Just(Call::Create), 4 => Just(Call::Delete), 1 => Just(Call::Get)];
    (
        prop_oneof![Just(Kind::Process), Just(Kind::Session)],
        prop::collection::vec(prop::collection::vec(call, 0..5), 2..4),
    )
}

/// Runs the clients' calls at once.
pub(super) async fn race(
    client: &Client,
    prefix: &str,
    marker: &str,
    kind: Kind,
    plans: &[Vec<Call>],
) -> Result<(), String> {
    let one = Arc::new(One {
        client: client.clone(),
        kind,
        id: format!("{prefix}one"),
        marker: marker.to_owned(),
    });
    let clients: Vec<_> = plans
        .iter()
        .map(|calls| {
            let (one, calls) = (one.clone(), calls.clone());
            tokio::spawn(async move {
                let mut noted = Vec::new();
                for call in calls {
                    let asked = Instant::now();
                    let answer = one.call(call).await?;
                    let told = Instant::now();
                    noted.push(Noted {
                        call,
                        answer,
                        asked,
                        told,
                    });
                }
                Ok::<_, String>(noted)
            })
        })
        .collect();
    let mut noted = Vec::new();
    for client in clients {
        noted.extend(in_time(client).await.map_err(|error| error.to_string())??);
    }
    let _ = one.call(Call::Delete).await?;
    let pids: HashSet<i32> = noted
        .iter()
        .filter_map(|n| n.answer)
        .filter(|pid| *pid > 0)
        .collect();
    let chosen = Chosen::default();
    let mut driver = Driver::new(client.clone(), prefix, &chosen);
    driver.knows(pids);
    let outcome = if has_an_order(&noted) {
        driver.nothing_is_left("/nowhere", marker).await
    } else {
        Err(format!("there is no order of these calls: {noted:#?}"))
    };
    driver.clear().await;
    outcome
}

struct One {
    client: Client,
    kind: Kind,
    id: String,
    marker: String,
}

impl One {
    async fn call(&self, call: Call) -> Result<Option<i32>, String> {
        let answer = match self.kind {
            Kind::Process => {
                let id: ProcessId = self.id.parse().unwrap();
                let request = ProcessRequest {
                    id: Some(id.clone()),
                    argv: Some(vec!["sleep".to_owned(), self.marker.clone()]),
                    ..ProcessRequest::default()
                };
                match call {
                    Call::Create => in_time(self.client.create_process(&request))
                        .await
                        .map(|r| r.pid),
                    Call::Delete => in_time(self.client.delete_process(&id)).await.map(|_| 0),
                    Call::Get => in_time(self.client.process(&id)).await.map(|r| r.pid),
                }
            }
            Kind::Session => {
                let id: SessionId = self.id.parse().unwrap();
                let request = SessionRequest {
                    id: Some(id.clone()),
                    ..SessionRequest::default()
                };
                match call {
                    Call::Create => in_time(self.client.create_session(&request))
                        .await
                        .map(|r| r.pid),
                    Call::Delete => in_time(self.client.delete_session(&id)).await.map(|_| 0),
                    Call::Get => in_time(self.client.session(&id)).await.map(|r| r.pid),
                }
            }
        };
        match answer {
            Ok(pid) => Ok(Some(pid)),
            Err(error)
                if matches!(
                    error.code(),
                    Some(ErrorCode::ProcessNotFound | ErrorCode::SessionNotFound)
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(format!("{call:?}: {error}")),
        }
    }
}

/// Whether the calls can have happened one after another.
fn has_an_order(noted: &[Noted]) -> bool {
    fn go(
        noted: &[Noted],
        left: u32,
        there: Option<i32>,
        seen: &mut HashSet<(u32, Option<i32>)>,
    ) -> bool {
        if left == 0 {
            return true;
        }
        if !seen.insert((left, there)) {
            return false;
        }
        let is_left = |index: &usize| left & (1 << index) != 0;
        let first_told = (0..noted.len())
            .filter(is_left)
            .map(|i| noted[i].told)
            .min();
        let made_before = |pid| {
            let before = (0..noted.len()).filter(|index| !is_left(index));
            before
                .map(|index| &noted[index])
                .any(|one| (one.call, one.answer) == (Call::Create, Some(pid)))
        };
        (0..noted.len()).filter(is_left).any(|index| {
            let one = &noted[index];
            // Another was told before this one was asked: that comes first.
            if first_told.is_some_and(|told| told < one.asked) {
                return false;
            }
            let next = match (one.call, one.answer, there) {
                // What was deleted does not come back: another is made.
                (Call::Create, Some(pid), None) if !made_before(pid) => Some(pid),
                (Call::Create, Some(pid), Some(there)) if pid == there => Some(pid),
                (Call::Get, Some(pid), Some(there)) if pid == there => Some(pid),
                (Call::Get | Call::Delete, None, None) | (Call::Delete, Some(_), Some(_)) => None,
                // Those that delete the same at once are all told that it is gone.
                (Call::Delete, Some(_), None) if beside_another(noted, index) => None,
                _ => return false,
            };
            go(noted, left & !(1 << index), next, seen)
        })
    }
    go(noted, (1 << noted.len()) - 1, None, &mut HashSet::new())
}

/// Whether a deletion overlaps another that found the thing, too.
fn beside_another(noted: &[Noted], index: usize) -> bool {
    let one = &noted[index];
    noted.iter().enumerate().any(|(other, two)| {
        other != index
            && (two.call, two.answer) == (Call::Delete, Some(0))
            && one.asked < two.told
            && two.asked < one.told
    })
}

/// Commands of several clients in one session: each output is whole, and there is one order of all of them.
pub(super) async fn take_turns(client: &Client, prefix: &str, counts: &[u8]) -> Result<(), String> {
    let id: SessionId = format!("{prefix}turns").parse().unwrap();
    let request = SessionRequest {
        id: Some(id.clone()),
        ..SessionRequest::default()
    };
    in_time(client.create_session(&request))
        .await
        .map_err(|error| error.to_string())?;
    let clients: Vec<_> = counts
        .iter()
        .enumerate()
        .map(|(who, count)| {
            let (client, id, count) = (client.clone(), id.clone(), *count);
            tokio::spawn(async move {
                let mut turns = Vec::new();
                for turn in 0..count {
                    // It takes its number at the beginning and says it at the end, with programs between.
                    let request = SessionExecRequest {
                        command: format!(
                            "mine=$((n += 1)); echo begin {who} {turn}; /bin/echo middle; echo err >&2; echo end $mine $n"
                        ),
                        ..SessionExecRequest::default()
                    };
                    let asked = Instant::now();
                    let result = in_time(client.session_exec(&id, &request)).await;
                    let result = result.map_err(|error| error.to_string())?;
                    let told = Instant::now();
                    let expect = format!("begin {who} {turn}\nmiddle\nend ");
                    let number = result.stdout.strip_prefix(&expect).and_then(|rest| {
                        let (mine, n) = rest.trim_end().split_once(' ')?;
                        (mine == n).then(|| mine.parse::<u32>().ok())?
                    });
                    match number {
                        Some(number) if result.stderr == "err\n" => turns.push((number, asked, told)),
                        _ => return Err(format!("not whole: {result:?}")),
                    }
                }
                Ok::<_, String>(turns)
            })
        })
        .collect();
    let mut turns = Vec::new();
    for client in clients {
        turns.extend(in_time(client).await.map_err(|error| error.to_string())??);
    }
    in_time(client.delete_session(&id))
        .await
        .map_err(|error| error.to_string())?;
    turns.sort_by_key(|(number, ..)| *number);
    for (index, (number, ..)) in turns.iter().enumerate() {
        if *number as usize != index + 1 {
            return Err(format!("turn {number} is the {index}th"));
        }
    }
    // None was over before one with a smaller number was asked for.
    let mut latest_asked = None;
    for (number, asked, told) in &turns {
        if latest_asked.is_some_and(|latest| *told < latest) {
            return Err(format!(
                "turn {number} was over before an earlier one began"
            ));
        }
        latest_asked = latest_asked.max(Some(*asked));
    }
    Ok(())
}
