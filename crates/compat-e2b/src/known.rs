//! What had which pid when it was started, so that whoever types need not wait for a search.
//!
//! A hint and no more: it is asked after, and counts while the process it names runs. Bounded; the oldest go
//! first.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use sandshell_client::types::{ProcessId, SandboxId, TerminalId};

/// Hints in all.
const MOST: usize = 10_000;

/// What a pid stood for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Started {
    Process(ProcessId),
    Terminal(TerminalId),
}

type Pid = (SandboxId, i32);

/// All hints.
#[derive(Debug, Default)]
pub(crate) struct Known(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    by_pid: HashMap<Pid, Started>,
    order: VecDeque<Pid>,
}

impl Known {
    pub(crate) fn put(&self, sandbox: &SandboxId, pid: i32, started: Started) {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let pid = (sandbox.clone(), pid);
        if table.by_pid.insert(pid.clone(), started).is_some() {
            return;
        }
        table.order.push_back(pid);
        if table.order.len() > MOST
            && let Some(oldest) = table.order.pop_front()
        {
            table.by_pid.remove(&oldest);
        }
    }

    pub(crate) fn get(&self, sandbox: &SandboxId, pid: i32) -> Option<Started> {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.by_pid.get(&(sandbox.clone(), pid)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_forgotten_and_the_last_counts() {
        let known = Known::default();
        let sandbox: SandboxId = "a".parse().unwrap();
        let process = |name: &str| Started::Process(name.parse().unwrap());
        for pid in 0..=10_000 {
            known.put(&sandbox, pid, process("one"));
        }
        assert_eq!(known.get(&sandbox, 0), None);
        assert_eq!(known.get(&sandbox, 1), Some(process("one")));
        known.put(&sandbox, 1, process("two"));
        assert_eq!(known.get(&sandbox, 1), Some(process("two")));
        assert_eq!(known.get(&"b".parse().unwrap(), 1), None);
    }
}
