//! Ending the command a shell is busy with, in stages, keeping the shell as long as possible.
//!
//! ```text
//! int ──20 ms──► int ──130 ms──► term ──150 ms──► kill ──700 ms──► shell killed (state restored)
//! ```
//!
//! The shell gets a real-time signal whose trap unwinds it; what it waits for in the foreground gets
//! SIGINT first. A shell without job control starts background children with SIGINT and SIGQUIT
//! ignored, which tells them apart: they are spared. The second SIGINT is for a child that was
//! between fork and exec when the first one came.
//!
//! A shell holds SIGINT back while it forks, so a subshell can die of ours and leave a child that
//! was born too late to be seen: an orphan, which may hold the pipe that the session's shell reads.
//! Orphans that were there before the interrupt are daemons and are spared; those that appear
//! during it belong to the command.
//!
//! The last stage takes what the command changed, so a shell comes to it only when it had a chance to
//! end the command ([`Patience`]).

use std::collections::HashSet;
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

/// How far an interrupt had to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Int,
    IntAgain,
    Term,
    Kill,
    ShellKilled,
}

impl Stage {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Int | Self::IntAgain => "int",
            Self::Term => "term",
            Self::Kill => "kill",
            Self::ShellKilled => "shell_killed",
        }
    }

    /// What comes next, and how long this stage may take.
    fn next(self) -> Option<(Duration, Self)> {
        match self {
            Self::Int => Some((Duration::from_millis(20), Self::IntAgain)),
            Self::IntAgain => Some((Duration::from_millis(130), Self::Term)),
            Self::Term => Some((Duration::from_millis(150), Self::Kill)),
            Self::Kill => Some((Duration::from_millis(700), Self::ShellKilled)),
            Self::ShellKilled => None,
        }
    }
}

/// An interrupt under way.
#[derive(Debug)]
pub(super) struct Interrupt {
    pub(super) stage: Stage,
    patience: Option<Patience>,
    dialect: Dialect,
    /// Orphans from before it.
    spared: HashSet<i32>,
}

impl Interrupt {
    /// Begins with SIGINT.
    pub(super) fn begin(live: &Live, dialect: Dialect) -> Self {
        let mut interrupt = Self {
            stage: Stage::Int,
            patience: None,
            dialect,
            spared: procfs::pid_of(&live.pidfd)
                .unwrap_or_default()
                .map(|shell| orphans(live, shell).collect())
                .unwrap_or_default(),
        };
        interrupt.act(live);
        interrupt
    }

    /// Resolves when the present stage has had its time.
    pub(super) async fn stage_over(&self) {
        match &self.patience {
            Some(patience) => patience.over().await,
            None => std::future::pending().await,
        }
    }

    /// Goes on to the next stage.
    pub(super) fn advance(&mut self, live: &Live) {
        if let Some(patience) = &mut self.patience
            && !patience.is_lost(&live.pidfd)
        {
            return;
        }
        if let Some((_, next)) = self.stage.next() {
            self.stage = next;
            self.act(live);
        }
    }

    fn act(&mut self, live: &Live) {
        if self.stage != Stage::ShellKilled && self.dialect == Dialect::Bash {
            // The shell first: its trap is pending when the child it waits for ends. Again at each
            // stage: a signal that came just before the shell began to read wakes it from nothing.
            let _ = signal::send(&live.pidfd, signal::interrupt_signal());
        }
        let shell = procfs::pid_of(&live.pidfd).unwrap_or_default();
        let mut children = shell.map(foreground).unwrap_or_default();
        if self.stage != Stage::Int
            && let Some(shell) = shell
        {
            children.extend(
                orphans(live, shell)
                    .filter(|pid| !self.spared.contains(pid) && !procfs::ignores_interrupt(*pid)),
            );
        }
        match self.stage {
            Stage::Int | Stage::IntAgain => signal_each(&children, &[SIGINT, SIGCONT]),
            Stage::Term => signal_each(&children, &[SIGTERM, SIGCONT]),
            Stage::Kill => signal_each(&children, &[SIGKILL]),
            Stage::ShellKilled => {
                signal_each(&children, &[SIGKILL]);
                let _ = signal::send(&live.pidfd, SIGKILL);
            }
        }
        self.patience = self.stage.next().map(|(time, next)| {
            let again = if next == Stage::ShellKilled {
                STARVED
            } else {
                0
            };
            Patience::with(&live.pidfd, time, again)
        });
    }
}

/// What a shell waits for: everything below it except what it started in the background. What cannot be looked
/// at for now is left out.
pub(crate) fn foreground(shell: i32) -> Vec<i32> {
    let mut found = Vec::new();
    let mut parents = vec![shell];
    while let Some(parent) = parents.pop() {
        for child in procfs::children(parent).unwrap_or_default() {
            if !procfs::ignores_interrupt(child) {
                found.push(child);
                parents.push(child);
            }
        }
    }
    found
}

/// What is in a shell's tree, but does not descend from it. What cannot be looked at for now is met at the next
/// stage.
fn orphans(live: &Live, shell: i32) -> impl Iterator<Item = i32> {
    let members = live.tree.members().unwrap_or_default().into_iter();
    members.filter(move |pid| *pid != shell && procfs::is_below(*pid, shell) == Ok(false))
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
