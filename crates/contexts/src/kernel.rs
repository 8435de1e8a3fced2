//! What runs the code of a context: one interface over drivers, sessions and Jupyter kernels.

use std::sync::Arc;

use sandshell_exec::Executor;
use sandshell_exec::output::{OutputLog, Stream};
use sandshell_types::{ContextOutcome, ContextRequest, KernelChoice, Language, RunStatus};

use crate::ContextError;
use crate::bash::BashKernel;
use crate::driver::DriverKernel;
use crate::language::Interpreter;
use crate::pool::Pools;
use crate::run::{RunHandle, Stop};

/// An interpreter that waits for code.
#[derive(Debug)]
pub(crate) enum Kernel {
    Driver(DriverKernel),
    Bash(BashKernel),
}

/// What is told of it.
#[derive(Debug, Clone)]
pub(crate) struct KernelFacts {
    pub(crate) kind: KernelChoice,
    pub(crate) interpreter: String,
    pub(crate) pid: i32,
    pub(crate) cwd: String,
}

/// Something that happened while no code ran.
#[derive(Debug)]
pub(crate) enum Wake {
    /// A thread or child that was left behind wrote something.
    Output(Stream),
    /// The interpreter ended, and why.
    Ended(String),
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) status: RunStatus,
    pub(crate) outcome: ContextOutcome,
    /// Why the interpreter ended, when it did.
    pub(crate) reason: Option<String>,
    pub(crate) exit_code: Option<i32>,
}

impl Finished {
    pub(crate) fn kept(status: RunStatus) -> Self {
        Self {
            status,
            outcome: ContextOutcome::Kept,
            reason: None,
            exit_code: None,
        }
    }

    /// The status a run has after a stop.
    pub(crate) fn status_of(stop: Stop) -> RunStatus {
        match stop {
            Stop::Timeout => RunStatus::TimedOut,
            Stop::Interrupt | Stop::Discard => RunStatus::Interrupted,
        }
    }
}

impl Kernel {
    /// Starts what the spec asks for, from those held ready where one fits.
    pub(crate) async fn start(
        executor: &Executor,
        pools: &Arc<Pools>,
        spec: &ContextRequest,
    ) -> Result<Self, ContextError> {
        let Some(interpreter) = Interpreter::of(spec.language) else {
            return Ok(Self::Bash(BashKernel::start(executor, spec).await?));
        };
        let typescript = spec.language == Language::Typescript;
        let driver = pools.driver(executor, interpreter, spec).await?;
        Ok(Self::Driver(driver.speaking_typescript(typescript)))
    }

    pub(crate) fn facts(&self) -> KernelFacts {
        match self {
            Self::Driver(driver) => driver.facts(),
            Self::Bash(bash) => bash.facts(),
        }
    }

    /// Resolves when something happens while no code runs.
    ///
    /// CANCEL SAFETY: takes nothing.
    pub(crate) async fn wake(&mut self) -> Wake {
        match self {
            Self::Driver(driver) => driver.wake().await,
            // A session takes care of itself.
            Self::Bash(_) => std::future::pending().await,
        }
    }

    /// Moves what was written between runs. Must be awaited to the end.
    pub(crate) async fn transfer(&mut self, stream: Stream, log: &OutputLog) {
        if let Self::Driver(driver) = self {
            driver.transfer(stream, log).await;
        }
    }

    /// Runs code to its end. `log` has what was written since the last run.
    pub(crate) async fn run(&mut self, run: &RunHandle, log: OutputLog, count: u64) -> Finished {
        match self {
            Self::Driver(driver) => {
                run.start(log.clone(), count);
                driver.run(run, &log).await
            }
            Self::Bash(bash) => bash.run(run, count).await,
        }
    }

    /// Ends it with all it started.
    pub(crate) async fn end(self) {
        match self {
            Self::Driver(driver) => driver.end().await,
            Self::Bash(bash) => bash.end().await,
        }
    }
}
