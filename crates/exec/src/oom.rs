//! Tells when the kernel kills for want of memory, and whose it was; and when a limit on processes was
//! met.
//!
//! Who has limits of his own has groups of his own, whose counters are exact. The others share one
//! account: there a kill is a program's when it ended by SIGKILL, not by us, while the account's number
//! of kills went up. Each kill is somebody's once.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{WaitId, WaitIdOptions, waitid};
use sandshell_isolate::limits::{Common, Controllers};
use sandshell_isolate::protocol::Exit;
use sandshell_sys::reactor;
use sandshell_sys::{
    cgroup::{OomSource, Seat, Version, counter},
    task,
};
use sandshell_types::{Happening, LimitScope};
use tokio::io::Interest;

use crate::events::Events;
use crate::fence::{Fence, Owner};

const SIGKILL: i32 = 9;

/// Version 1 tells of memory used up before it kills and counts, and of the count not at all; so it is
/// looked at after these pauses.
const LOOKS: [Duration; 4] = [
    Duration::from_millis(1),
    Duration::from_millis(10),
    Duration::from_millis(100),
    Duration::from_secs(1),
];

/// Version 1 counts refused forks and tells nobody, so the count is looked at this often; and once more
/// at the end of a process or command.
const LOOK_AT_FENCE: Duration = Duration::from_millis(250);
const LOOK_AT_SANDBOX: Duration = Duration::from_secs(1);

/// A fork bomb meets its limit thousands of times a second; it is told of once in this time.
const QUIET: Duration = Duration::from_secs(1);

/// The account that commands without limits of their own share.
#[derive(Debug)]
pub(crate) struct Ledger {
    kills: OwnedFd,
    /// Whether kills in it are only ours.
    exclusive: bool,
    /// How many kills have been called somebody's.
    claimed: Mutex<u64>,
    /// Tells of the sandbox's own limit being met, and how often it has been.
    source: Option<Mutex<(OomSource, u64)>>,
}

impl Ledger {
    pub(crate) fn new(common: &Common) -> Option<Self> {
        let kills = common.memory.oom_counters().ok()?;
        let source = common.exclusive.then(|| common.memory.oom_source().ok());
        Some(Self {
            claimed: Mutex::new(counter(&kills, "oom_kill")),
            kills,
            exclusive: common.exclusive,
            source: source.flatten().map(|source| Mutex::new((source, 0))),
        })
    }

    /// The number of kills so far.
    pub(crate) fn kills(&self) -> u64 {
        counter(&self.kills, "oom_kill")
    }

    /// Whether there was a kill since there were `before` that is nobody's yet. It is somebody's now.
    fn claim(&self, before: u64) -> bool {
        let mut claimed = self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = (*claimed).max(before);
        if self.kills() <= taken {
            return false;
        }
        *claimed = taken + 1;
        true
    }

    /// How often the sandbox's own limit was met.
    fn ooms(&self) -> u64 {
        let Some(source) = &self.source else { return 0 };
        let mut source = source.lock().unwrap_or_else(PoisonError::into_inner);
        source.1 = source.0.total(source.1);
        source.1
    }
}

/// Where the accounts stood when something began.
#[derive(Debug)]
pub(crate) struct Mark {
    fence: Option<Arc<Fence>>,
    ledger: Option<Arc<Ledger>>,
    before: u64,
}

impl Mark {
    pub(crate) fn new(fence: Option<Arc<Fence>>, ledger: Option<Arc<Ledger>>) -> Self {
        let before = match (&fence, &ledger) {
            (Some(fence), _) => fence.oom_kills(),
            (None, Some(ledger)) => ledger.kills(),
            (None, None) => 0,
        };
        Self {
            fence,
            ledger,
            before,
        }
    }

    /// Whether what began then, and ended so by itself, lost a process for want of memory. Tells of it
    /// where nobody else does.
    pub(crate) fn was_hit(&self, exit: Exit, events: &Events, owner: &Owner) -> bool {
        if let Some(fence) = &self.fence {
            fence.look();
            return fence.oom_kills() > self.before;
        }
        let Some(ledger) = &self.ledger else {
            return false;
        };
        // A shell says 137 for a command that was.
        if !matches!(exit, Exit::Signal(SIGKILL) | Exit::Code(137)) || !ledger.claim(self.before) {
            return false;
        }
        if !ledger.exclusive {
            events.publish(Happening::Oom {
                killed: 1,
                scope: LimitScope::Sandbox,
                process: owner.process(),
                session: owner.session(),
            });
        }
        true
    }
}

/// How long init may take to end when it was killed: all that it started ends before.
const DYING: Duration = Duration::from_secs(5);

/// Whether init was ended by the kernel for want of memory in this account: nobody else there can kill it.
pub(crate) async fn has_taken(memory: Option<&Seat>, init: &OwnedFd) -> bool {
    let killed = async || -> std::io::Result<bool> {
        let ended = reactor::watch(init.try_clone()?, Interest::READABLE)?;
        drop(ended.readable().await?);
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::PidFd(init.as_fd()), options)?;
        Ok(status.is_some_and(|status| status.terminating_signal() == Some(SIGKILL)))
    };
    let was_hit = memory
        .and_then(|memory| memory.oom_counters().ok())
        .is_some_and(|kills| counter(&kills, "oom_kill") > 0);
    was_hit && matches!(tokio::time::timeout(DYING, killed()).await, Ok(Ok(true)))
}

/// Watches what the whole sandbox shares, where that is ours alone.
pub(crate) fn watch(controllers: &Controllers, common: Option<&Common>, events: &Events) {
    let Some(common) = common.filter(|common| common.exclusive) else {
        tracing::debug!("OOM kills are told only of those that end by one");
        return;
    };
    let told = Told {
        events: events.clone(),
        owner: None,
        ledger: None,
    };
    attend(kills_of(common.memory.clone(), told));
    if let Ok(pids) = &controllers.pids
        && pids.pids_limit().is_some()
        && let Some(refusals) = Refusals::new(pids, None, None, events)
    {
        attend(attend_refusals(Arc::new(refusals), LOOK_AT_SANDBOX));
    }
}

/// Watches the groups of a fence for as long as it lives.
pub(crate) fn watch_fence(
    fence: &Fence,
    controllers: &Controllers,
    ledger: Option<Arc<Ledger>>,
    events: &Events,
) {
    if let Ok(memory) = &fence.memory {
        let told = Told {
            events: events.clone(),
            owner: Some(fence.owner.clone()),
            ledger,
        };
        fence.watched_by(Some(attend(kills_of(memory.clone(), told))));
    }
    if let Ok(pids) = &fence.pids {
        let above = controllers.pids.as_ref().ok().cloned();
        let owner = Some(fence.owner.clone());
        if let Some(refusals) = Refusals::new(pids, above, owner, events) {
            let refusals = Arc::new(refusals);
            let watching = attend_refusals(refusals.clone(), LOOK_AT_FENCE);
            fence.watched_by(Some(attend(watching)));
            fence.tells(refusals);
        }
    }
}

fn attend(
    watching: impl Future<Output = std::io::Result<()>> + Send + 'static,
) -> tokio::task::AbortHandle {
    let task = task::spawn(async move {
        if let Err(error) = watching.await {
            tracing::warn!(%error, "a limit is not watched any more");
        }
    });
    task.abort_handle()
}

/// How a kill is told.
struct Told {
    events: Events,
    /// Absent for the sandbox.
    owner: Option<Owner>,
    /// Of the sandbox, to see whether it was its limit.
    ledger: Option<Arc<Ledger>>,
}

impl Told {
    fn publish(&self, killed: u64, own: bool) {
        self.events.publish(Happening::Oom {
            killed,
            scope: scope(self.owner.as_ref().filter(|_| own)),
            process: self.owner.as_ref().and_then(Owner::process),
            session: self.owner.as_ref().and_then(Owner::session),
        });
    }
}

fn scope(owner: Option<&Owner>) -> LimitScope {
    owner.map_or(LimitScope::Sandbox, Owner::scope)
}

async fn kills_of(seat: Seat, told: Told) -> std::io::Result<()> {
    let counters = seat.oom_counters()?;
    let kills = || counter(&counters, "oom_kill");
    let source = seat.oom_source()?;
    let above = || told.ledger.as_ref().map_or(0, |ledger| ledger.ooms());
    let (mut known, mut met, mut met_above) = (kills(), source.total(0), above());
    let (waker, with_priority) = source.waker();
    let interest = if with_priority {
        Interest::PRIORITY
    } else {
        Interest::READABLE
    };
    let waker = reactor::watch(waker.try_clone()?, interest)?;
    loop {
        // Cleared before reading: a change while it is read makes it ready again.
        waker.ready(interest).await?.clear_ready();
        let (met_now, met_above_now) = (source.total(met), above());
        let own = match seat.version {
            // Each time the sandbox's limit is met, this group hears of it too, after the sandbox.
            Version::V1 => {
                seat.memory_limit().is_some() && met_now - met > met_above_now - met_above
            }
            Version::V2 => met_now > met,
        };
        (met, met_above) = (met_now, met_above_now);
        let mut now = kills();
        if seat.version == Version::V1 {
            for pause in LOOKS {
                if now > known {
                    break;
                }
                tokio::time::sleep(pause).await;
                now = kills();
            }
        }
        if now > known {
            told.publish(now - known, own);
        }
        known = now;
    }
}

/// Forks that a limit on processes refused, and how many of them have been told.
#[derive(Debug)]
pub(crate) struct Refusals {
    count: OwnedFd,
    seat: Seat,
    /// The sandbox's, which may be the one that refused.
    above: Option<Seat>,
    /// Absent for the sandbox.
    owner: Option<Owner>,
    events: Events,
    told: Mutex<u64>,
}

impl Refusals {
    fn new(
        seat: &Seat,
        above: Option<Seat>,
        owner: Option<Owner>,
        events: &Events,
    ) -> Option<Self> {
        let count = seat.refusals().ok()?;
        Some(Self {
            told: Mutex::new(counter(&count, "max")),
            count,
            seat: seat.clone(),
            above,
            owner,
            events: events.clone(),
        })
    }

    /// Tells of those that have not been told; says whether there were any.
    pub(crate) fn look(&self) -> bool {
        let now = counter(&self.count, "max");
        let before = {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *told, now)
        };
        if now <= before {
            return false;
        }
        // Version 1 counts where the fork was, whosever limit refused it.
        let full = |seat: &Seat| {
            seat.pids_limit()
                .is_some_and(|most| seat.pids_used() >= Some(most))
        };
        let by_above = self.above.as_ref().is_some_and(full) && !full(&self.seat);
        let own = self.seat.pids_limit().is_some() && !by_above;
        self.events.publish(Happening::LimitReached {
            limit: "pids".to_owned(),
            scope: scope(self.owner.as_ref().filter(|_| own)),
            process: self.owner.as_ref().and_then(Owner::process),
            session: self.owner.as_ref().and_then(Owner::session),
            times: now - before,
        });
        true
    }
}

/// Looks when the kernel says so, or, where it does not, from time to time.
async fn attend_refusals(refusals: Arc<Refusals>, pause: Duration) -> std::io::Result<()> {
    if refusals.seat.version == Version::V1 {
        loop {
            tokio::time::sleep(pause).await;
            if refusals.look() {
                tokio::time::sleep(QUIET).await;
            }
        }
    }
    let changes = reactor::watch(refusals.count.try_clone()?, Interest::PRIORITY)?;
    loop {
        changes.ready(Interest::PRIORITY).await?.clear_ready();
        if refusals.look() {
            tokio::time::sleep(QUIET).await;
        }
    }
}
