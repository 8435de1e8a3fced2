//! What a hub must know and do, as simple as it can be said.

use std::collections::{BTreeMap, BTreeSet};

use sandshell_client::types::{
    IsolationPolicy, IsolationSpec, ProcessId, SandboxId, SandboxLimits, SandboxPatch, SandboxSpec,
    SandboxState,
};

use super::points::Kind;

/// What is asked of a hub.
#[derive(Debug, Clone)]
pub(super) enum Wish {
    Create(Box<SandboxSpec>),
    /// The same spec once more.
    Again(SandboxId),
    Label(SandboxId, String),
    Limit(SandboxId, u64),
    Pause(SandboxId),
    Resume(SandboxId),
    /// Has it fall asleep by itself.
    Sleep(SandboxId),
    KeepAlive(SandboxId),
    MakeToken(SandboxId, String),
    RevokeToken(String),
    /// Appends a line to a file; one that sleeps wakes.
    Exec(SandboxId),
    /// The same in the background, and prints many lines.
    Process(SandboxId, ProcessId),
    /// The same in a session, and counts in a variable.
    Command(SandboxId),
    Delete(SandboxId),
    /// Has its lifetime end.
    Expire(SandboxId),
    List,
}

impl Wish {
    /// The key with which it may be sent again.
    pub(super) fn key(&self, model: &Model) -> String {
        let count = |id: &SandboxId| {
            let one = model.live.get(id).expect("commands run in live ones");
            format!("{id}-{}-{}", one.born, one.lines)
        };
        match self {
            Self::Exec(id) | Self::Command(id) | Self::Process(id, _) => count(id),
            _ => String::new(),
        }
    }
}

/// A sandbox that lives.
#[derive(Debug, Clone)]
pub(super) struct Living {
    /// As it was asked for, with its id.
    pub(super) spec: SandboxSpec,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) pids: Option<u64>,
    /// Ready, paused or asleep.
    pub(super) state: SandboxState,
    /// Lines that commands have appended to its file.
    pub(super) lines: u32,
    /// What its session has counted to; `None` before there is one.
    pub(super) counted: Option<u32>,
    pub(super) processes: Vec<ProcessId>,
    /// Which of all creates made it.
    pub(super) born: u32,
}

/// A token for one sandbox.
#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) id: String,
    pub(super) secret: String,
    pub(super) sandbox: SandboxId,
    /// The birth of the sandbox that it was made for.
    pub(super) born: u32,
    pub(super) revoked: bool,
}

#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) live: BTreeMap<SandboxId, Living>,
    /// Those whose end was told and that have not come back, with the birth of each.
    pub(super) gone: BTreeMap<SandboxId, u32>,
    pub(super) tokens: Vec<Token>,
    /// Names of sandboxes that the hub has thought of.
    pub(super) given: BTreeSet<SandboxId>,
    /// Makes names that were not used before.
    pub(super) next: u32,
}

/// Lines that a process prints.
pub(super) const PRINTED: u32 = 300;

impl Model {
    pub(super) fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    pub(super) fn born(&mut self, id: &SandboxId, spec: &SandboxSpec) {
        let born = self.number();
        self.gone.remove(id);
        let spec = SandboxSpec {
            id: Some(id.clone()),
            ..spec.clone()
        };
        let made = Living {
            labels: spec.labels.clone(),
            pids: None,
            state: SandboxState::Ready,
            lines: 0,
            counted: None,
            processes: Vec::new(),
            born,
            spec,
        };
        let before = self.live.insert(id.clone(), made);
        assert!(before.is_none(), "{id} was there already");
    }

    pub(super) fn died(&mut self, id: &SandboxId) {
        let one = self.live.remove(id).expect("what ends has lived");
        self.gone.insert(id.clone(), one.born);
    }

    pub(super) fn of(&mut self, id: &SandboxId) -> &mut Living {
        self.live.get_mut(id).expect("it lives")
    }

    pub(super) fn frozen(&self) -> usize {
        let states = self.live.values().map(|one| one.state);
        states.filter(|state| *state != SandboxState::Ready).count()
    }

    /// Whether a token that is not revoked shows what it was made for: one that is over can still be
    /// looked at, and another with the same id cannot.
    pub(super) fn shows(&self, token: &Token) -> bool {
        let live = self.live.get(&token.sandbox).map(|one| one.born);
        let born = live.or_else(|| self.gone.get(&token.sandbox).copied());
        born == Some(token.born)
    }
}

/// The numbers to this one, a line each.
pub(super) fn lines(last: u32) -> String {
    (1..=last).fold(String::new(), |text, line| text + &line.to_string() + "\n")
}

/// A spec that can be had on any machine; one that says what it is made of is not taken from the pool.
pub(super) fn spec(id: Option<SandboxId>, number: u32, warm: bool) -> SandboxSpec {
    let mut env = BTreeMap::new();
    if !warm {
        env.insert("MADE".to_owned(), "fresh".to_owned());
    }
    SandboxSpec {
        id,
        labels: BTreeMap::from([("n".to_owned(), number.to_string())]),
        env,
        isolation: Some(IsolationSpec {
            policy: IsolationPolicy::BestEffort,
            require: Vec::new(),
        }),
        ..SandboxSpec::default()
    }
}

pub(super) fn label(value: &str) -> SandboxPatch {
    SandboxPatch {
        labels: BTreeMap::from([("n".to_owned(), Some(value.to_owned()))]),
        ..SandboxPatch::default()
    }
}

pub(super) fn limit(pids: u64) -> SandboxPatch {
    SandboxPatch {
        limits: Some(SandboxLimits {
            pids: Some(pids),
            ..SandboxLimits::default()
        }),
        ..SandboxPatch::default()
    }
}

/// 0 takes the time away.
pub(super) fn idle_timeout(ms: u64) -> SandboxPatch {
    SandboxPatch {
        idle_timeout_ms: Some(ms),
        ..SandboxPatch::default()
    }
}

pub(super) fn lifetime(ms: u64) -> SandboxPatch {
    SandboxPatch {
        max_lifetime_ms: Some(ms),
        ..SandboxPatch::default()
    }
}

/// Which of the living a kind of wish can be about.
pub(super) fn fits(kind: Kind, one: &Living) -> bool {
    match kind {
        Kind::Resume => one.state == SandboxState::Paused,
        Kind::Wake => one.state == SandboxState::Asleep,
        Kind::Delete | Kind::Expire | Kind::Label | Kind::CreateAgain | Kind::MakeToken => true,
        _ => one.state == SandboxState::Ready,
    }
}
