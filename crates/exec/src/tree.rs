//! A process tree: who belongs to it, and how all of it is signalled and ended.
//!
//! With cgroup v2 a tree is a group its program was born in. Without, it is what descends from a
//! keeper (see `sandshell_isolate`). Both can tell by an event when they are empty.
//!
//! Looking at a tree takes descriptors. Where there are none, nothing is known of it: it is neither taken for empty
//! nor given up, and a kill waits for them.
//!
//! "Gone" means reaped by the kernel from the group, or the keeper's end: never a guess. What a keeper
//! kept that was itself killed is ended by init, before it reports the program's end.

use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rustix::io::Errno;
use sandshell_isolate::limits::{Common, Controllers};
use sandshell_isolate::protocol::SpawnFlags;
use sandshell_sys::cgroup::{Group, Seat, Version};
use sandshell_sys::{is_lack, procfs, reactor, signal, task};
use sandshell_types::{KillReply, Limits, Survivor};
use tokio::io::Interest;
use tokio::time::{sleep, timeout, timeout_at};

use crate::ExecError;
use crate::events::Events;
use crate::fence::{self, Fence, Leftovers, Owner};
use crate::oom::{self, Ledger, Mark};

const SIGCONT: i32 = 18;
const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;

/// How long a killed tree may take to disappear before what is left is called a survivor, of the time in which
/// anything ran at all. Only uninterruptible sleep in the kernel takes longer than milliseconds.
const KILL_DEADLINE: Duration = Duration::from_secs(10);

/// When a tree that was told to end is looked at again for members it did not have then.
const TERM_AGAIN: [Duration; 3] = [
    Duration::from_millis(20),
    Duration::from_millis(100),
    Duration::from_millis(500),
];

/// Pause between two walks of a tree that is being killed without a group.
const WALK_PAUSE: Duration = Duration::from_millis(5);

/// Pause before it is tried again to look at a tree, or to end it, where descriptors or memory were lacking. No
/// event tells when there are some.
const LACK_PAUSE: Duration = Duration::from_millis(10);

/// A start that takes longer than this may have been stopped on its way.
const NUDGE: Duration = Duration::from_millis(100);

/// How often one that is found stopped is told to go on before it is ended.
const NUDGES: usize = 50;

/// How many members are held by descriptors at once while they are signalled.
const PINNED_AT_ONCE: usize = 256;

/// Most empty groups kept for the next trees. Making and removing one takes longer than the rest of
/// a short command's bookkeeping.
const STOCK: usize = 32;

/// Where trees that have no limits of their own are made, if controllers are passed on to groups.
const UNFENCED: &str = "free";

/// Makes places for trees, and takes groups back that can be used again.
#[derive(Debug)]
pub(crate) struct Nursery {
    /// The group of everything.
    group: Option<Group>,
    /// The group of trees without limits of their own: the same, or one in it.
    unfenced: Option<Group>,
    controllers: Controllers,
    common: Option<Common>,
    ledger: Option<Arc<Ledger>>,
    next: AtomicU64,
    /// Empty groups in which nothing was ever killed: one that `cgroup.kill` was written to kills
    /// whatever is born in it later.
    stock: Stock,
    leftovers: Leftovers,
}

type Stock = Arc<Mutex<Vec<Group>>>;

impl Nursery {
    pub(crate) fn new(cgroup: Result<Group, String>, mut controllers: Controllers) -> Self {
        controllers.enable();
        let group = cgroup.ok();
        let mut unfenced = group.clone();
        let mut common = controllers.common.clone();
        if let (Some(group), Ok(seat)) = (&group, &controllers.memory)
            && seat.version == Version::V2
            && let Ok(inner) = group.child(UNFENCED)
        {
            // Its account is that of all trees but those with limits of their own.
            common = Some(Common {
                memory: Seat {
                    version: Version::V2,
                    group: inner.clone(),
                },
                exclusive: true,
            });
            unfenced = Some(inner);
        }
        Self {
            group,
            unfenced,
            controllers,
            ledger: common.as_ref().and_then(Ledger::new).map(Arc::new),
            common,
            next: AtomicU64::new(0),
            stock: Arc::default(),
            leftovers: Arc::default(),
        }
    }

    /// The group of all trees, where there is one.
    pub(crate) fn group(&self) -> Option<&Group> {
        self.group.as_ref()
    }

    /// The groups in which limits can be set.
    pub(crate) fn controllers(&self) -> &Controllers {
        &self.controllers
    }

    /// The account of memory that commands share.
    pub(crate) fn common(&self) -> Option<&Common> {
        self.common.as_ref()
    }

    /// Where the accounts of memory stand, before something begins.
    pub(crate) fn mark(&self, fence: Option<&Arc<Fence>>) -> Mark {
        Mark::new(fence.cloned(), self.ledger.clone())
    }

    /// Begins to tell of limits that are met.
    pub(crate) fn watch(&self, events: &Events) {
        oom::watch(&self.controllers, self.common.as_ref(), events);
    }

    /// Groups of its own for a process or session with these limits; none when none of them needs one.
    pub(crate) fn fence(
        &self,
        limits: Option<&Limits>,
        owner: Owner,
        events: &Events,
    ) -> Result<Option<Arc<Fence>>, ExecError> {
        fence::check(limits, &self.controllers)?;
        let Some(limits) = limits.filter(|limits| fence::needed(Some(limits))) else {
            return Ok(None);
        };
        let name = format!("p{}", self.next.fetch_add(1, Ordering::Relaxed));
        let fence = Fence::create(&name, limits, owner, &self.controllers, &self.leftovers)?;
        oom::watch_fence(&fence, &self.controllers, self.ledger.clone(), events)?;
        Ok(Some(fence))
    }

    /// A place for a program that is about to be started.
    pub(crate) fn place(&self) -> Result<Place, Errno> {
        let used = self
            .stock
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let group = match used {
            Some(group) => Some(group),
            None => self.fresh_group(self.unfenced.as_ref())?,
        };
        Place::new(group, Some(self.stock.clone()))
    }

    /// A place that no tree has had before, for those whose use of the processor is told.
    pub(crate) fn fresh_place(&self) -> Result<Place, Errno> {
        let group = self.fresh_group(self.unfenced.as_ref())?;
        Place::new(group, Some(self.stock.clone()))
    }

    /// A place within these limits, as far as the place decides.
    pub(crate) fn place_in(&self, fence: &Fence) -> Result<Place, Errno> {
        match fence.trees() {
            None => self.fresh_place(),
            Some(trees) => Place::new(self.fresh_group(Some(trees))?, None),
        }
    }

    fn fresh_group(&self, parent: Option<&Group>) -> Result<Option<Group>, Errno> {
        let Some(parent) = parent else {
            return Ok(None);
        };
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        // By name: of thousands of sessions that wait for a command, none needs its group open.
        parent.named_child(&format!("t{n}")).map(Some)
    }

    /// Removes the groups; everything in them must be gone.
    pub(crate) fn close(&self) {
        for group in self.group.iter().chain(self.controllers.groups()) {
            group.bury();
        }
    }
}

/// Where a tree will live. Dropped unused, it leaves nothing.
#[derive(Debug)]
pub(crate) struct Place {
    group: Option<Group>,
    /// The group's directory, for the birth.
    dir: Option<Arc<OwnedFd>>,
    /// Where its group may go afterwards.
    stock: Option<Stock>,
}

impl Place {
    fn new(group: Option<Group>, stock: Option<Stock>) -> Result<Self, Errno> {
        let mut place = Self {
            group,
            dir: None,
            stock,
        };
        place.dir = place.group.as_ref().map(Group::directory).transpose()?;
        Ok(place)
    }

    /// How init must start the program.
    pub(crate) fn flags(&self) -> SpawnFlags {
        SpawnFlags {
            into_cgroup: self.group.is_some(),
            keeper: self.group.is_none(),
            controlling_terminal: false,
            private: false,
        }
    }

    /// The group's directory, to be passed to init after the program's own descriptors.
    pub(crate) fn dir(&self) -> Option<BorrowedFd<'_>> {
        self.dir.as_ref().map(AsFd::as_fd)
    }

    /// The tree, now that its program runs.
    pub(crate) fn settle(mut self, keeper: Option<OwnedFd>, private: bool) -> Tree {
        match (self.group.take(), keeper) {
            (Some(group), reaper) => Tree::in_group(group, reaper, self.stock.clone()),
            (None, Some(pidfd)) => Tree::Keeper {
                pidfd,
                pid: OnceLock::new(),
                private,
            },
            (None, None) => Tree::Gone,
        }
    }
}

impl Place {
    /// Awaits the start of its program. Whoever may signal the program's user can stop the child between its last
    /// change of ids and its program, and init waits for that child: so it is told to go on, and where that does not
    /// help for long, to end.
    pub(crate) async fn attend<T>(&self, start: impl Future<Output = T>) -> T {
        let mut start = pin!(start);
        let mut nudges = 0;
        loop {
            if let Ok(done) = timeout(NUDGE, &mut start).await {
                return done;
            }
            let number = if nudges < NUDGES { SIGCONT } else { SIGKILL };
            nudges += self.nudge(number);
        }
    }

    /// Signals what was born there and is stopped; one that only waits for a processor is left alone. Nothing else
    /// joins before the start is done. Says how many got it.
    fn nudge(&self, number: i32) -> usize {
        let is_stopped = |pid: &i32| {
            let stat = procfs::stat(*pid).unwrap_or_default();
            stat.is_some_and(|stat| stat.state == 'T')
        };
        let members = self.group.as_ref().map(Group::members);
        let members = members.and_then(Result::ok).unwrap_or_default();
        let pinned = members
            .into_iter()
            .filter(is_stopped)
            .filter_map(|pid| procfs::pin(pid).ok());
        pinned
            .filter(|pinned| signal::send(pinned, number).is_ok())
            .count()
    }
}

impl Drop for Place {
    /// Ends what a start has left that was refused half-way, or that nobody awaits any more.
    fn drop(&mut self) {
        let Some(group) = self.group.take() else {
            return;
        };
        if group.is_populated() == Ok(false) {
            give_back(group, self.stock.as_deref(), true);
        } else {
            let tree = Tree::in_group(group, None, self.stock.clone());
            task::spawn(async move { tree.kill(Duration::ZERO).await });
        }
    }
}

/// Keeps an empty group for the next tree, or removes it. One that still lives stays; it goes with
/// the nursery's own.
fn give_back(group: Group, stock: Option<&Mutex<Vec<Group>>>, known_empty: bool) {
    let Some(stock) = stock else {
        let _ = group.remove();
        return;
    };
    let mut stock = stock.lock().unwrap_or_else(PoisonError::into_inner);
    if stock.len() < STOCK && (known_empty || group.is_populated() == Ok(false)) {
        stock.push(group);
    } else {
        let _ = group.remove();
    }
}

/// A group in use.
#[derive(Debug)]
pub(crate) struct Held {
    /// Present until it is dropped.
    group: Option<Group>,
    stock: Option<Stock>,
    /// PID 1 of a private tree, which is ours and counts for nobody.
    reaper: Option<i32>,
    killed: AtomicBool,
    /// Seen to be empty after its program had ended, which is for good.
    empty: AtomicBool,
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(group) = self.group.take() else {
            return;
        };
        if self.killed.load(Ordering::Acquire) {
            let _ = group.remove();
        } else {
            let empty = self.empty.load(Ordering::Acquire);
            give_back(group, self.stock.as_deref(), empty);
        }
    }
}

/// A tree that runs, or ran.
#[derive(Debug)]
pub(crate) enum Tree {
    Group(Held),
    Keeper {
        pidfd: OwnedFd,
        /// Asked for when it is first needed: to ask takes a descriptor.
        pid: OnceLock<i32>,
        /// It is PID 1 of their namespace: with it they all go.
        private: bool,
    },
    Gone,
}

impl Tree {
    fn in_group(group: Group, reaper: Option<OwnedFd>, stock: Option<Stock>) -> Self {
        Self::Group(Held {
            reaper: reaper.and_then(|pidfd| procfs::pid_of(&pidfd).unwrap_or_default()),
            group: Some(group),
            stock,
            killed: AtomicBool::new(false),
            empty: AtomicBool::new(false),
        })
    }

    /// Pids of its members as the agent sees them.
    pub(crate) fn members(&self) -> Result<Vec<i32>, Errno> {
        match self {
            Self::Group(held) => held.group.as_ref().map_or(Ok(Vec::new()), Group::members),
            Self::Keeper { pidfd, pid, .. } => {
                let pid = match pid.get() {
                    Some(pid) => Some(*pid),
                    None => procfs::pid_of(pidfd)?.map(|told| *pid.get_or_init(|| told)),
                };
                // Its pid is its own until it is reaped. To ask whether it is takes no descriptor.
                let lives = signal::send(pidfd, 0) != Err(Errno::SRCH);
                match pid.filter(|_| lives) {
                    Some(pid) => procfs::descendants(pid),
                    None => Ok(Vec::new()),
                }
            }
            Self::Gone => Ok(Vec::new()),
        }
    }

    /// Members that are alive.
    pub(crate) fn alive(&self) -> Result<Vec<i32>, Errno> {
        let reaper = match self {
            Self::Group(held) => held.reaper,
            _ => None,
        };
        let mut alive = Vec::new();
        for pid in self.members()? {
            if Some(pid) != reaper && procfs::is_alive(pid)? {
                alive.push(pid);
            }
        }
        Ok(alive)
    }

    /// Whether it is known to be empty, without waiting. To be asked once its program has ended: then
    /// empty is for good.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Group(held) => {
                let empty = held.empty.load(Ordering::Acquire)
                    || held
                        .group
                        .as_ref()
                        .is_none_or(|group| group.is_populated() == Ok(false));
                held.empty.store(empty, Ordering::Release);
                empty
            }
            Self::Keeper { .. } => false,
            Self::Gone => true,
        }
    }

    /// Sends a signal to each member that is wanted; says how many got it. Where it fails, some may have.
    pub(crate) fn signal(&self, number: i32, wanted: impl Fn(i32) -> bool) -> Result<u32, Errno> {
        let mut told = HashSet::new();
        self.signal_others(number, wanted, &mut told)?;
        Ok(told.len() as u32)
    }

    /// The same for those who were not told before.
    fn signal_others(
        &self,
        number: i32,
        wanted: impl Fn(i32) -> bool,
        told: &mut HashSet<i32>,
    ) -> Result<(), Errno> {
        let mut others = self.members()?;
        others.retain(|pid| !told.contains(pid) && wanted(*pid));
        let (mut rest, mut at_once) = (others.as_slice(), PINNED_AT_ONCE);
        while !rest.is_empty() {
            let (some, later) = rest.split_at(at_once.min(rest.len()));
            match self.signal_these(number, some, &wanted) {
                Ok(got_it) => {
                    told.extend(got_it);
                    rest = later;
                }
                // There may be descriptors for fewer.
                Err(errno) if is_lack(errno) && at_once > 1 => at_once /= 2,
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// Signals these at once; says who got it. Where it fails, nobody has.
    fn signal_these(
        &self,
        number: i32,
        pids: &[i32],
        wanted: impl Fn(i32) -> bool,
    ) -> Result<Vec<i32>, Errno> {
        // Pinned first, then checked to be members still: a pid that a stranger took over before
        // it was pinned is no member any more, so a stranger is never hit.
        let mut pinned = Vec::with_capacity(pids.len());
        for pid in pids {
            match procfs::pin(*pid) {
                Ok(held) => pinned.push((*pid, held)),
                Err(errno) if is_lack(errno) => return Err(errno),
                Err(_) => {}
            }
        }
        if pinned.is_empty() {
            return Ok(Vec::new());
        }
        let members: HashSet<i32> = self.members()?.into_iter().collect();
        let is_told = |(pid, held): &(i32, OwnedFd)| {
            members.contains(pid) && wanted(*pid) && signal::send(held, number).is_ok()
        };
        pinned.retain(is_told);
        Ok(pinned.into_iter().map(|(pid, _)| pid).collect())
    }

    /// Resolves when no member is left.
    pub(crate) async fn empty(&self) {
        loop {
            let waited = match self {
                Self::Group(held) => match &held.group {
                    Some(group) => empty_group(group).await,
                    None => Ok(()),
                },
                Self::Keeper { pidfd, .. } => ended(pidfd).await,
                Self::Gone => Ok(()),
            };
            match waited {
                Ok(()) => return,
                Err(error) if reactor::is_full(&error) => sleep(LACK_PAUSE).await,
                Err(error) => {
                    tracing::warn!(%error, "cannot watch a process tree");
                    return;
                }
            }
        }
    }

    /// TERM, grace, KILL for the whole tree. Returns when it is gone, or says what is not. Whoever cannot look
    /// because descriptors or memory are used up cannot kill either: it waits until there are some.
    pub(crate) async fn kill(&self, grace: Duration) -> KillReply {
        if grace.is_zero()
            && let Self::Group(held) = self
            && let Some(group) = &held.group
        {
            // First of all, so that a fork bomb leaves us the processor to do the rest. A frozen
            // group is not used again.
            held.killed.store(true, Ordering::Release);
            let _ = group.freeze();
        }
        let members = unless_lacking(|| self.members()).await;
        let before = members.as_ref().map_or(0, |members| members.len() as u32);
        let reply = |method: &str| KillReply {
            method: method.to_owned(),
            killed: before,
            survivors: Vec::new(),
        };
        if members.is_ok_and(|members| members.is_empty()) {
            return reply("already_ended");
        }
        if !grace.is_zero() && self.end_gently(grace).await {
            return reply("term");
        }
        let (method, gone) = match self {
            Self::Group(held) => {
                held.killed.store(true, Ordering::Release);
                let killed = unless_lacking(|| {
                    held.group.as_ref().map_or(Ok(()), |group| {
                        // Freezing first keeps a fork bomb from outrunning the kill. It may fail
                        // without harm: kill alone is enough for anything that does not fork.
                        let _ = group.freeze();
                        group.kill()
                    })
                });
                if let Err(errno) = killed.await {
                    tracing::warn!(%errno, "cgroup.kill failed, signalling members instead");
                    let _ = unless_lacking(|| self.signal(SIGKILL, |_| true)).await;
                }
                ("cgroup_kill", self.empties().await)
            }
            Self::Keeper {
                pidfd,
                private: true,
                ..
            } => {
                let _ = signal::send(pidfd, SIGKILL);
                ("namespace_kill", self.empties().await)
            }
            Self::Keeper { .. } => ("subreaper_walk", self.walk_and_kill().await),
            Self::Gone => ("already_ended", true),
        };
        let mut reply = reply(method);
        if !gone {
            reply.survivors = unless_lacking(|| self.alive())
                .await
                .unwrap_or_default()
                .into_iter()
                .map(|pid| Survivor {
                    pid,
                    command: procfs::command_line(pid),
                })
                .collect();
        }
        reply
    }

    /// Whether the killed are gone in time.
    async fn empties(&self) -> bool {
        tokio::select! {
            biased;
            () = self.empty() => true,
            () = task::own_time(KILL_DEADLINE) => false,
        }
    }

    /// TERM for every member, also for those born while the others were being told. Says whether
    /// the tree is empty within the time.
    async fn end_gently(&self, grace: Duration) -> bool {
        let deadline = tokio::time::Instant::now() + grace;
        let mut told = HashSet::new();
        for look_again in TERM_AGAIN {
            // Who cannot be told for now is told in a later round.
            let _ = self.signal_others(SIGTERM, |_| true, &mut told);
            // A stopped process acts on TERM only once it runs again.
            let _ = self.signal(SIGCONT, |_| true);
            let until = deadline.min(tokio::time::Instant::now() + look_again);
            if timeout_at(until, self.empty()).await.is_ok() {
                return true;
            }
        }
        let _ = self.signal_others(SIGTERM, |_| true, &mut told);
        timeout_at(deadline, self.empty()).await.is_ok()
    }

    /// Without a group: kill what is found, until nothing is. The pause is needed because
    /// no event tells of a fork.
    async fn walk_and_kill(&self) -> bool {
        let killing = async {
            loop {
                let _ = unless_lacking(|| self.signal(SIGKILL, |_| true)).await;
                if timeout(WALK_PAUSE, self.empty()).await.is_ok() {
                    break;
                }
            }
        };
        tokio::select! {
            biased;
            () = killing => true,
            () = task::own_time(KILL_DEADLINE) => false,
        }
    }

    /// CPU time of all members in milliseconds.
    pub(crate) fn cpu_ms(&self) -> u64 {
        match self {
            Self::Group(held) => {
                held.group.as_ref().and_then(Group::cpu_micros).unwrap_or(0) / 1000
            }
            Self::Keeper { .. } | Self::Gone => {
                let ticks: u64 = self
                    .members()
                    .unwrap_or_default()
                    .into_iter()
                    .filter_map(|pid| procfs::stat(pid).unwrap_or_default())
                    .map(|stat| stat.cpu_ticks)
                    .sum();
                ticks * 1000 / procfs::ticks_per_second()
            }
        }
    }
}

/// What an attempt says once it does not lack descriptors or memory.
async fn unless_lacking<T>(mut attempt: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match attempt() {
            Err(errno) if is_lack(errno) => sleep(LACK_PAUSE).await,
            said => return said,
        }
    }
}

async fn empty_group(group: &Group) -> std::io::Result<()> {
    if !group.is_populated()? {
        return Ok(());
    }
    let events = reactor::watch(group.events()?, Interest::PRIORITY)?;
    loop {
        // Reading arms the descriptor for the next change.
        let mut text = [0; 128];
        let n = rustix::io::pread(events.get_ref(), &mut text, 0)?;
        let read = text.get(..n).unwrap_or_default();
        if read.windows(11).any(|w| w == b"populated 0") {
            return Ok(());
        }
        events.ready(Interest::PRIORITY).await?.clear_ready();
    }
}

/// Resolves when the process of a pidfd has ended.
pub(crate) async fn ended(pidfd: &OwnedFd) -> std::io::Result<()> {
    let pidfd = reactor::watch(pidfd.try_clone()?, Interest::READABLE)?;
    pidfd.readable().await?.retain_ready();
    Ok(())
}
