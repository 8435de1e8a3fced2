//! What runs the code of a context: one interface over drivers, sessions and Jupyter kernels.

use sandshell_exec::Ended;
use sandshell_exec::output::{OutputLog, Stream};
use sandshell_types::{
    ContextOutcome, ContextRequest, KernelChoice, KillReply, Language, RunError, RunStatus,
};

use crate::ContextError;
use crate::bash::BashKernel;
use crate::context::Workshop;
use crate::driver::{DriverKernel, said};
use crate::jupyter::{JupyterKernel, KernelSpec};
use crate::language::Interpreter;
use crate::run::{RunHandle, Stop};

/// An interpreter that waits for code.
#[derive(Debug)]
pub(crate) enum Kernel {
    Driver(Box<DriverKernel>),
    Bash(BashKernel),
    Jupyter(Box<JupyterKernel>),
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

/// The answer to the end of what has ended before.
pub(crate) fn already_ended() -> KillReply {
    KillReply {
        method: "already_ended".to_owned(),
        killed: 0,
        survivors: Vec::new(),
    }
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

    /// The interpreter is gone: killed because the run had to stop, or by itself.
    pub(crate) fn lost(run: &RunHandle, ended: &Ended, stopped: Option<Stop>) -> Self {
        let reason = said(ended);
        let Some(stop) = stopped else {
            return Self {
                exit_code: Some(ended.exit_code),
                ..Self::ended(run, reason)
            };
        };
        Self {
            status: Self::status_of(stop),
            outcome: ContextOutcome::Lost,
            reason: Some(reason),
            exit_code: None,
        }
    }

    /// The interpreter ended by itself, which is the run's error.
    pub(crate) fn ended(run: &RunHandle, reason: String) -> Self {
        run.add_error(RunError {
            name: "InterpreterEnded".to_owned(),
            value: reason.clone(),
            traceback: vec![format!("InterpreterEnded: {reason}")],
        });
        Self {
            status: RunStatus::Error,
            outcome: ContextOutcome::Ended,
            reason: Some(reason),
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
        workshop: &Workshop,
        spec: &ContextRequest,
    ) -> Result<Self, ContextError> {
        let executor = &workshop.executor;
        if let Some(kernel) = Self::start_jupyter(workshop, spec).await? {
            return Ok(Self::Jupyter(Box::new(kernel)));
        }
        let Some(interpreter) = Interpreter::of(spec.language) else {
            return Ok(Self::Bash(BashKernel::start(executor, spec).await?));
        };
        let typescript = spec.language == Language::Typescript;
        let driver = workshop.pools.driver(executor, interpreter, spec).await?;
        let driver = driver.speaking_typescript(typescript);
        Ok(Self::Driver(Box::new(driver)))
    }

    /// A Jupyter kernel, where one is wanted and installed.
    async fn start_jupyter(
        workshop: &Workshop,
        spec: &ContextRequest,
    ) -> Result<Option<JupyterKernel>, ContextError> {
        let executor = &workshop.executor;
        let automatic = match spec.kernel {
            KernelChoice::Builtin => return Ok(None),
            // A session keeps more promises than any kernel for bash.
            KernelChoice::Auto if spec.language == Language::Bash => return Ok(None),
            KernelChoice::Auto => true,
            KernelChoice::Jupyter => false,
        };
        let Some(found) = KernelSpec::find(executor, spec).await? else {
            return if automatic {
                Ok(None)
            } else {
                Err(KernelSpec::missing(spec.language))
            };
        };
        match JupyterKernel::start(executor, &workshop.directories, spec, found).await {
            Ok(kernel) => Ok(Some(kernel)),
            Err(ContextError::Start { reason }) if automatic => {
                tracing::warn!(%reason, "a Jupyter kernel does not start; the built-in driver is used");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) fn facts(&self) -> KernelFacts {
        match self {
            Self::Driver(driver) => driver.facts(),
            Self::Bash(bash) => bash.facts(),
            Self::Jupyter(kernel) => kernel.facts(),
        }
    }

    /// Resolves when something happens while no code runs.
    ///
    /// CANCEL SAFETY: takes nothing.
    pub(crate) async fn wake(&mut self) -> Wake {
        match self {
            Self::Driver(driver) => driver.wake().await,
            Self::Jupyter(kernel) => kernel.wake().await,
            // A session takes care of itself.
            Self::Bash(_) => std::future::pending().await,
        }
    }

    /// Moves what was written between runs. Must be awaited to the end.
    pub(crate) async fn transfer(&mut self, stream: Stream, log: &OutputLog) {
        match self {
            Self::Driver(driver) => driver.transfer(stream, log).await,
            Self::Jupyter(kernel) => kernel.transfer(log).await,
            Self::Bash(_) => {}
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
            Self::Jupyter(kernel) => {
                run.start(log.clone(), count);
                kernel.run(run, &log).await
            }
        }
    }

    /// Ends it with all it started.
    pub(crate) async fn end(self) -> KillReply {
        match self {
            Self::Driver(driver) => driver.end().await,
            Self::Bash(bash) => bash.end().await,
            Self::Jupyter(kernel) => kernel.end().await,
        }
    }
}
