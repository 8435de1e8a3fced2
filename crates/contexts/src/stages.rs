//! Interrupting an interpreter in stages, keeping its state as long as possible.
//!
//! ```text
//! ask ─150 ms─► int to children ─250─► ask, term to children ─600─► ask, kill children ─1 s─► kill
//! ```
//!
//! What the code waits for is spared at first: most interpreters end that themselves, and a server
//! that an earlier run left running is not to be hit.
//!
//! The kill takes all that the interpreter knows, so one comes to it only when it had a chance to end its
//! code ([`Patience`]).

use std::time::Duration;

use sandshell_exec::{Attached, Patience, Target};
use tokio::sync::watch;

use crate::run::{RunHandle, Stop};

const SIGINT: i32 = 2;
const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;

/// How often an interpreter that was starved gets the time of the last stage again.
const STARVED: u32 = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Ask,
    Children,
    Again,
    Last,
    Kill,
}

/// How a run is stopped, once that is wanted.
#[derive(Debug)]
pub(crate) struct Stopping {
    wanted: watch::Receiver<Option<Stop>>,
    stages: Stages,
    /// Why, as it was first said.
    reason: Option<Stop>,
}

impl Stopping {
    pub(crate) fn of(run: &RunHandle) -> Self {
        Self {
            wanted: run.stops(),
            stages: Stages::default(),
            reason: None,
        }
    }

    /// Why the run was stopped, if it was.
    pub(crate) fn reason(&self) -> Option<Stop> {
        self.reason
    }

    /// Resolves when the interpreter is to be asked to interrupt its code. All else that a stop takes
    /// is done on the way.
    ///
    /// CANCEL SAFETY: nothing is lost when the future is dropped.
    pub(crate) async fn ask(&mut self, program: &Attached) {
        loop {
            tokio::select! {
                biased;
                stop = heard(&mut self.wanted) => {
                    self.reason = self.reason.or(Some(stop));
                    if stop == Stop::Discard {
                        kill(program);
                    } else if !self.stages.has_begun() && self.stages.advance(program) {
                        return;
                    }
                }
                () = self.stages.over() => {
                    if self.stages.advance(program) {
                        return;
                    }
                }
            }
        }
    }
}

/// Resolves when another stop is wanted than before.
async fn heard(wanted: &mut watch::Receiver<Option<Stop>>) -> Stop {
    loop {
        if wanted.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        if let Some(stop) = *wanted.borrow() {
            return stop;
        }
    }
}

/// An interrupt, not begun or under way.
#[derive(Debug, Default)]
struct Stages(Option<(Stage, Patience)>);

impl Stages {
    /// Resolves when the present stage has had its time.
    ///
    /// CANCEL SAFETY: changes nothing.
    async fn over(&self) {
        match &self.0 {
            Some((_, patience)) => patience.over().await,
            None => std::future::pending().await,
        }
    }

    /// Begins, or goes on to the next stage. Says whether the interpreter is to be asked now.
    #[must_use]
    fn advance(&mut self, program: &Attached) -> bool {
        if let Some((_, patience)) = &mut self.0
            && !program.is_lost(patience)
        {
            return false;
        }
        let (stage, time, again) = match self.0 {
            None => (Stage::Ask, 150, 0),
            Some((Stage::Ask, _)) => (Stage::Children, 250, 0),
            Some((Stage::Children, _)) => (Stage::Again, 600, 0),
            Some((Stage::Again, _)) => (Stage::Last, 1000, STARVED),
            Some((Stage::Last | Stage::Kill, _)) => (Stage::Kill, 1000, 0),
        };
        self.0 = Some((stage, program.patience(Duration::from_millis(time), again)));
        match stage {
            Stage::Ask => {}
            Stage::Children => program.signal(Target::Children, SIGINT),
            Stage::Again => program.signal(Target::Children, SIGTERM),
            Stage::Last => program.signal(Target::Children, SIGKILL),
            Stage::Kill => kill(program),
        }
        matches!(stage, Stage::Ask | Stage::Again | Stage::Last)
    }

    /// Whether it has begun.
    fn has_begun(&self) -> bool {
        self.0.is_some()
    }
}

/// Asks a program as a terminal would.
pub(crate) fn ask_by_signal(program: &Attached) {
    program.signal(Target::Program, SIGINT);
}

/// Ends a program at once.
pub(crate) fn kill(program: &Attached) {
    program.signal(Target::Program, SIGKILL);
}
