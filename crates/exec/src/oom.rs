//! Tells when the kernel kills for want of memory, and whose it was; and when a limit on processes was
//! met.
//!
//! Who has limits of his own has groups of his own, whose counters are exact. The others share one
//! account: there a kill is a program's when it ended by SIGKILL, not by us, while the account's number
//! of kills went up. Each kill is somebody's once.

use std::io;
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
use tokio::io::unix::AsyncFd;

use crate::ExecError;
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
    let killed = async || -> io::Result<bool> {
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
    if let Ok(kills) = Kills::new(common.memory.clone(), told).inspect_err(untold) {
        attend(kills.tell());
    }
    if let Ok(pids) = &controllers.pids
        && pids.pids_limit().is_some()
        && let Ok(refusals) = Refusals::watched(pids, None, None, events).inspect_err(untold)
    {
        attend(refusals.tell(LOOK_AT_SANDBOX));
    }
}

/// Watches the groups of a fence for as long as it lives. All that takes descriptors is done before it returns: what
/// is started in the fence afterwards finds those that were reserved for it.
pub(crate) fn watch_fence(
    fence: &Fence,
    controllers: &Controllers,
    ledger: Option<Arc<Ledger>>,
    events: &Events,
) -> Result<(), ExecError> {
    if let Ok(memory) = &fence.memory {
        let told = Told {
            events: events.clone(),
            owner: Some(fence.owner.clone()),
            ledger,
        };
        if let Some(kills) = unless_lacking(Kills::new(memory.clone(), told))? {
            fence.watched_by(attend(kills.tell()));
        }
    }
    if let Ok(pids) = &fence.pids {
        let above = controllers.pids.as_ref().ok().cloned();
        let owner = Some(fence.owner.clone());
        if let Some(watched) = unless_lacking(Refusals::watched(pids, above, owner, events))? {
            fence.tells(watched.refusals.clone());
            fence.watched_by(attend(watched.tell(LOOK_AT_FENCE)));
        }
    }
    Ok(())
}

/// What can be watched. What cannot be watched here at all is only not told; what cannot for now is refused.
fn unless_lacking<T>(watched: io::Result<T>) -> Result<Option<T>, ExecError> {
    match watched {
        Err(error) if reactor::is_full(&error) => {
            Err(ExecError::io("cannot watch a limit", &error))
        }
        watched => Ok(watched.inspect_err(untold).ok()),
    }
}

fn untold(error: &io::Error) {
    tracing::warn!(%error, "a limit is not watched");
}

fn attend(
    watching: impl Future<Output = io::Result<()>> + Send + 'static,
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

/// Kills in a group for want of memory, as they are watched.
struct Kills {
    seat: Seat,
    told: Told,
    counters: OwnedFd,
    source: OomSource,
    waker: AsyncFd<OwnedFd>,
    interest: Interest,
}

impl Kills {
    fn new(seat: Seat, told: Told) -> io::Result<Self> {
        let source = seat.oom_source()?;
        let (waker, with_priority) = source.waker();
        let interest = if with_priority {
            Interest::PRIORITY
        } else {
            Interest::READABLE
        };
        Ok(Self {
            told,
            counters: seat.oom_counters()?,
            waker: reactor::watch(waker.try_clone()?, interest)?,
            source,
            seat,
            interest,
        })
    }

    fn count(&self) -> u64 {
        counter(&self.counters, "oom_kill")
    }

    /// How often the limit above was met.
    fn above(&self) -> u64 {
        self.told.ledger.as_ref().map_or(0, |ledger| ledger.ooms())
    }

    async fn tell(self) -> io::Result<()> {
        let (mut known, mut met, mut met_above) =
            (self.count(), self.source.total(0), self.above());
        loop {
            // Cleared before reading: a change while it is read makes it ready again.
            self.waker.ready(self.interest).await?.clear_ready();
            let (met_now, met_above_now) = (self.source.total(met), self.above());
            let own = match self.seat.version {
                // Each time the sandbox's limit is met, this group hears of it too, after the sandbox.
                Version::V1 => {
                    self.seat.memory_limit().is_some() && met_now - met > met_above_now - met_above
                }
                Version::V2 => met_now > met,
            };
            (met, met_above) = (met_now, met_above_now);
            let mut now = self.count();
            if self.seat.version == Version::V1 {
                for pause in LOOKS {
                    if now > known {
                        break;
                    }
                    tokio::time::sleep(pause).await;
                    now = self.count();
                }
            }
            if now > known {
                self.told.publish(now - known, own);
            }
            known = now;
        }
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
    fn watched(
        seat: &Seat,
        above: Option<Seat>,
        owner: Option<Owner>,
        events: &Events,
    ) -> io::Result<Watched> {
        let count = seat.refusals()?;
        let changes = match seat.version {
            Version::V1 => None,
            Version::V2 => Some(reactor::watch(count.try_clone()?, Interest::PRIORITY)?),
        };
        let refusals = Arc::new(Self {
            told: Mutex::new(counter(&count, "max")),
            count,
            seat: seat.clone(),
            above,
            owner,
            events: events.clone(),
        });
        Ok(Watched { refusals, changes })
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

/// Refused forks, as they are watched.
struct Watched {
    refusals: Arc<Refusals>,
    /// Where the kernel says when to look.
    changes: Option<AsyncFd<OwnedFd>>,
}

impl Watched {
    /// Looks when the kernel says so, or, where it does not, from time to time.
    async fn tell(self, pause: Duration) -> io::Result<()> {
        loop {
            match &self.changes {
                Some(changes) => changes.ready(Interest::PRIORITY).await?.clear_ready(),
                None => tokio::time::sleep(pause).await,
            }
            if self.refusals.look() {
                tokio::time::sleep(QUIET).await;
            }
        }
    }
}
