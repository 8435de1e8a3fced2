//! Ending the command a shell is busy with, in stages, keeping the shell as long as possible.
//!
//! ```text
//! int ──20 ms──► int ──130 ms──► term ──150 ms──► kill ──700 ms──► shell killed (state restored)
//! ```
//!
//! The shell gets a real-time signal whose trap unwinds it; what it waits for in the foreground gets
//! SIGINT first. The second SIGINT is for a child that was between fork and exec when the first one
//! came. A shell that comes back early, as out of a `$(…)`, leaves behind what resists: that goes
//! through the remaining stages all the same before the command is over.
//!
//! What a shell put in the background is spared. What it had started before the command is that, and
//! what bears the mark: a shell without job control starts background children with SIGINT and SIGQUIT
//! ignored. A script that ignores SIGINT bears it too, because bash ignores SIGQUIT for itself; but a
//! shell that waits has started nothing since, so what it started last is no background child.
//!
//! A shell holds SIGINT back while it forks, so a subshell can die of ours and leave a child that
//! was born too late to be seen: an orphan, which may hold the pipe that the session's shell reads.
//! Orphans that were there before the interrupt are daemons and are spared, with all below them; those
//! that appear during it belong to the command.
//!
//! The last stage takes what the command changed, so a shell comes to it only when it had a chance to
//! end the command ([`Patience`]).

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::Duration;

use sandshell_sys::{procfs, signal};

use super::dialect::Dialect;
use crate::host::Live;
use crate::patience::Patience;

const SIGINT: i32 = 2;
const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;
const SIGCONT: i32 = 18;

/// How often a shell that was starved gets the time of the last stage again.
const STARVED: u32 = 14;

/// How often what a shell waits for is killed, and the time for each: it may wait for several, of which only
/// the last is known to be no background child.
const KILLS: (u32, Duration) = (14, Duration::from_millis(50));

/// How far an interrupt had to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Int,
    IntAgain,
    Term,
    /// With how often it comes again.
    Kill(u32),
    ShellKilled,
}

impl Stage {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Int | Self::IntAgain => "int",
            Self::Term => "term",
            Self::Kill(_) => "kill",
            Self::ShellKilled => "shell_killed",
        }
    }

    /// How long it may take.
    fn time(self) -> Duration {
        match self {
            Self::Int => Duration::from_millis(20),
            Self::IntAgain => Duration::from_millis(130),
            Self::Term => Duration::from_millis(150),
            Self::Kill(_) => KILLS.1,
            Self::ShellKilled => KILLS.0 * KILLS.1,
        }
    }

    fn next(self) -> Self {
        match self {
            Self::Int => Self::IntAgain,
            Self::IntAgain => Self::Term,
            Self::Term => Self::Kill(KILLS.0 - 1),
            Self::Kill(0) | Self::ShellKilled => Self::ShellKilled,
            Self::Kill(again) => Self::Kill(again - 1),
        }
    }
}

/// An interrupt under way.
#[derive(Debug)]
pub(super) struct Interrupt {
    pub(super) stage: Stage,
    patience: Patience,
    dialect: Dialect,
    /// Children of the shell from before the command.
    background: HashSet<i32>,
    /// What was there before it and is not of the foreground.
    spared: HashSet<i32>,
    /// What was signalled and is of the foreground wherever it is now.
    signalled: HashSet<i32>,
    shell_waits: bool,
}

impl Interrupt {
    /// Begins with SIGINT.
    pub(super) fn begin(live: &Live, dialect: Dialect, background: HashSet<i32>) -> Self {
        // Before the foreground is looked at: what is born in between belongs to it.
        let mut spared: HashSet<i32> = alive(live).collect();
        if let Some(shell) = shell_of(live) {
            spared.remove(&shell);
            for pid in foreground(shell, &background) {
                spared.remove(&pid);
            }
        }
        let stage = Stage::Int;
        let mut interrupt = Self {
            stage,
            patience: Patience::with(&live.pidfd, stage.time(), 0),
            dialect,
            background,
            spared,
            signalled: HashSet::new(),
            shell_waits: true,
        };
        interrupt.act(live);
        interrupt
    }

    /// Resolves when the present stage has had its time.
    pub(super) async fn stage_over(&self) {
        match self.stage {
            Stage::ShellKilled if self.shell_waits => std::future::pending().await,
            _ => self.patience.over().await,
        }
    }

    /// Goes on to the next stage.
    pub(super) fn advance(&mut self, live: &Live) {
        if !self.patience.is_lost(&live.pidfd) {
            return;
        }
        self.stage = self.stage.next();
        self.act(live);
        let again = match self.stage {
            Stage::Kill(_) => STARVED,
            _ => 0,
        };
        self.patience = Patience::with(&live.pidfd, self.stage.time(), again);
    }

    /// Now that the shell waits for nothing more: takes what of its foreground is left through the
    /// stages that remain. Only what cannot be killed outlives that.
    pub(super) async fn finish(&mut self, live: &Live) {
        self.shell_waits = false;
        while let Some(pid) = self.targets(live).into_iter().next() {
            tokio::select! {
                biased;
                () = ended(pid) => {}
                () = self.stage_over() => {
                    if self.stage.next() == Stage::ShellKilled {
                        return;
                    }
                    self.advance(live);
                }
            }
        }
    }

    fn act(&mut self, live: &Live) {
        // Looked at before the signal, while the shell still waits.
        let targets = self.targets(live);
        self.signalled.extend(self.left_by_shell(live, &targets));
        if self.stage != Stage::ShellKilled && self.shell_waits && self.dialect == Dialect::Bash {
            // The shell first: its trap is pending when the child it waits for ends. Again at each
            // stage: a signal that came just before the shell began to read wakes it from nothing.
            let _ = signal::send(&live.pidfd, signal::interrupt_signal());
        }
        match self.stage {
            Stage::Int | Stage::IntAgain => signal_each(&targets, &[SIGINT, SIGCONT]),
            Stage::Term => signal_each(&targets, &[SIGTERM, SIGCONT]),
            Stage::Kill(_) => signal_each(&targets, &[SIGKILL]),
            Stage::ShellKilled => {
                signal_each(&targets, &[SIGKILL]);
                let _ = signal::send(&live.pidfd, SIGKILL);
            }
        }
    }

    /// Those that are still of the foreground when the shell waits no more. Of the shell's own children only
    /// the last can be: it has seen the end of the others, or put them in the background.
    fn left_by_shell(&self, live: &Live, targets: &[i32]) -> Vec<i32> {
        let shell = shell_of(live).unwrap_or(0);
        let own = children(shell, &self.background);
        let is_left = |pid: &i32| {
            let can_be = own.last() == Some(pid) && (!is_marked(*pid) || is_read_by(shell, *pid));
            can_be || !own.contains(pid)
        };
        targets.iter().copied().filter(is_left).collect()
    }

    /// What is alive of the command's foreground, parents before children: a shell must not go on because its
    /// child was told first. What cannot be looked at for now is met later.
    fn targets(&self, live: &Live) -> Vec<i32> {
        let shell = shell_of(live);
        let mut found = match shell {
            Some(shell) if self.shell_waits => foreground(shell, &self.background),
            _ => Vec::new(),
        };
        if self.stage != Stage::Int || !self.shell_waits {
            for pid in alive(live).filter(|pid| self.is_left(*pid, shell)) {
                found.push(pid);
                found.extend(foreground(pid, &self.background));
            }
        }
        let mut known = HashSet::new();
        found.retain(|pid| known.insert(*pid));
        found
    }

    /// Whether it is of the foreground, though perhaps no longer below the shell.
    fn is_left(&self, pid: i32, shell: Option<i32>) -> bool {
        if self.signalled.contains(&pid) {
            return true;
        }
        // Whatever cannot be looked at for now is spared until it can.
        let is_below = |above: &i32| procfs::is_below(pid, *above) != Ok(false);
        shell != Some(pid)
            && !self.spared.contains(&pid)
            && !is_marked(pid)
            && !shell.as_ref().is_some_and(is_below)
            && !self.spared.difference(&self.signalled).any(is_below)
    }
}

/// What a shell waits for: everything below it except what was put in the background, by itself before
/// or by any below it. What cannot be looked at for now is left out.
pub(crate) fn foreground(shell: i32, background: &HashSet<i32>) -> Vec<i32> {
    let mut found = Vec::new();
    let mut parents = vec![shell];
    while let Some(parent) = parents.pop() {
        let children = children(parent, background);
        let last = children.last().copied();
        // One that runs may be about to read, or do something else while its last child is in the background.
        let waits_for = |child| state(parent) == Some('S') || is_read_by(parent, child);
        for child in children {
            if !is_marked(child) || last == Some(child) && waits_for(child) {
                found.push(child);
                parents.push(child);
            }
        }
    }
    found
}

/// Living children of a process, the oldest first, without those known to be in the background.
fn children(parent: i32, background: &HashSet<i32>) -> Vec<i32> {
    let mut children = procfs::children(parent).unwrap_or_default();
    children.retain(|child| !background.contains(child) && is_alive(*child));
    children
}

/// Whether it bears the mark of a background child. One that has taken SIGQUIT for itself bears it still.
fn is_marked(pid: i32) -> bool {
    procfs::ignores_interrupt(pid)
}

/// Whether a process can write to a pipe that its shell can read, as one in `$(…)` does.
fn is_read_by(shell: i32, pid: i32) -> bool {
    const READ: u32 = 0o400;
    const WRITE: u32 = 0o200;
    let read = pipes(shell, READ);
    pipes(pid, WRITE).iter().any(|pipe| read.contains(pipe))
}

/// The pipes that a process has open for this, whatever their numbers: a builtin that is redirected moves them.
fn pipes(pid: i32, access: u32) -> HashSet<PathBuf> {
    let open = std::fs::read_dir(format!("/proc/{pid}/fd"));
    let open = open.into_iter().flatten().flatten();
    // The link itself tells how it was opened.
    open.filter(|fd| fd.metadata().is_ok_and(|link| link.mode() & access != 0))
        .filter_map(|fd| std::fs::read_link(fd.path()).ok())
        .filter(|target| target.to_string_lossy().starts_with("pipe:"))
        .collect()
}

/// The shell's pid, unless it is gone or cannot be looked at for now.
fn shell_of(live: &Live) -> Option<i32> {
    procfs::pid_of(&live.pidfd).unwrap_or_default()
}

fn state(pid: i32) -> Option<char> {
    let stat = procfs::stat(pid).unwrap_or_default();
    stat.map(|stat| stat.state)
}

fn is_alive(pid: i32) -> bool {
    procfs::is_alive(pid) == Ok(true)
}

/// What is alive in a shell's tree. What cannot be looked at for now is met at the next stage.
fn alive(live: &Live) -> impl Iterator<Item = i32> {
    live.tree.alive().unwrap_or_default().into_iter()
}

/// Resolves when a process has ended; never when it cannot be watched for now.
async fn ended(pid: i32) {
    let ended = match procfs::pin(pid) {
        Ok(pinned) => crate::tree::ended(&pinned).await.is_ok(),
        Err(errno) => !sandshell_sys::is_lack(errno),
    };
    if !ended {
        std::future::pending::<()>().await;
    }
}

fn signal_each(pids: &[i32], signals: &[i32]) {
    for pid in pids {
        if let Ok(pinned) = procfs::pin(*pid) {
            for number in signals {
                let _ = signal::send(&pinned, *number);
            }
        }
    }
}
