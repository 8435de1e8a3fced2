//! Interpreters held ready, so that the first result does not wait for one to start.
//!
//! None is started before the first context of its language: they cost memory. From then on a few
//! wait, with the default user, directory and environment; a context that wants another user or
//! environment, or a session's state, starts its own.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandshell_exec::Executor;
use sandshell_types::ContextRequest;

use crate::ContextError;
use crate::driver::{DriverKernel, Sources};
use crate::language::Interpreter;
use sandshell_sys::task;

/// How long a refill waits, so that it does not compete for the processor with the first run of the
/// context that has just taken one.
const SETTLE: Duration = Duration::from_millis(50);

/// All pools.
#[derive(Debug)]
pub(crate) struct Pools {
    sources: Sources,
    python: Mutex<Pool>,
    node: Mutex<Pool>,
}

#[derive(Debug, Default)]
struct Pool {
    ready: VecDeque<Spare>,
    /// Being started right now.
    filling: bool,
    closed: bool,
}

/// One that waits, and the environment it was started with.
#[derive(Debug)]
struct Spare {
    driver: DriverKernel,
    environment: BTreeMap<String, String>,
}

impl Pools {
    pub(crate) fn new() -> Result<Self, ContextError> {
        Ok(Self {
            sources: Sources::new()?,
            python: Mutex::default(),
            node: Mutex::default(),
        })
    }

    fn pool(&self, interpreter: Interpreter) -> MutexGuard<'_, Pool> {
        match interpreter {
            Interpreter::Python => &self.python,
            Interpreter::Node => &self.node,
        }
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
    }

    /// An interpreter for a context.
    pub(crate) async fn driver(
        self: &Arc<Self>,
        executor: &Executor,
        interpreter: Interpreter,
        spec: &ContextRequest,
    ) -> Result<DriverKernel, ContextError> {
        let plain = spec.user.is_none() && spec.env.is_empty() && spec.session.is_none();
        if plain && let Some(mut driver) = self.take(executor, interpreter) {
            self.refill(executor.clone(), interpreter);
            let Some(cwd) = spec.cwd.as_deref() else {
                return Ok(driver);
            };
            let cwd = executor.absolute(std::path::Path::new(cwd), None)?;
            match driver.enter(&cwd.to_string_lossy()).await {
                Ok(()) => return Ok(driver),
                // Someone inside has just killed it: a fresh one will do.
                Err(ContextError::Start { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let driver = DriverKernel::start(executor, &self.sources, interpreter, Some(spec)).await?;
        if plain {
            self.refill(executor.clone(), interpreter);
        }
        Ok(driver)
    }

    /// One that can be used: alive, and started with the environment there is now.
    fn take(&self, executor: &Executor, interpreter: Interpreter) -> Option<DriverKernel> {
        let environment = executor.command_environment();
        let mut pool = self.pool(interpreter);
        while let Some(spare) = pool.ready.pop_front() {
            if spare.driver.is_usable() && spare.environment == environment {
                return Some(spare.driver);
            }
        }
        None
    }

    /// Starts what is missing, in a task of its own.
    fn refill(self: &Arc<Self>, executor: Executor, interpreter: Interpreter) {
        {
            let mut pool = self.pool(interpreter);
            if pool.filling || pool.closed {
                return;
            }
            pool.filling = true;
        }
        let pools = self.clone();
        task::spawn(async move {
            tokio::time::sleep(SETTLE).await;
            while pools.wants(interpreter) {
                let environment = executor.command_environment();
                match DriverKernel::start(&executor, &pools.sources, interpreter, None).await {
                    Ok(driver) => {
                        let mut pool = pools.pool(interpreter);
                        if !pool.closed {
                            pool.ready.push_back(Spare {
                                driver,
                                environment,
                            });
                        }
                    }
                    Err(error) => {
                        tracing::debug!(%error, "cannot hold an interpreter ready");
                        break;
                    }
                }
            }
            pools.pool(interpreter).filling = false;
        });
    }

    fn wants(&self, interpreter: Interpreter) -> bool {
        let pool = self.pool(interpreter);
        !pool.closed && pool.ready.len() < interpreter.spares()
    }

    /// Ends all that wait, and starts no more.
    pub(crate) async fn close(&self) {
        for interpreter in [Interpreter::Python, Interpreter::Node] {
            let spares = {
                let mut pool = self.pool(interpreter);
                pool.closed = true;
                std::mem::take(&mut pool.ready)
            };
            for spare in spares {
                spare.driver.end().await;
            }
        }
    }
}
