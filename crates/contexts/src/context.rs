//! A context: one interpreter, its queue of runs, and the task that owns both.
//!
//! ```text
//!            run, restart                     one at a time
//!  handle ───────────────► queue (bounded) ───────────────► owner ─► kernel
//!     └── interrupt, restart, delete: to the present run directly, past the queue
//! ```
//!
//! A restart ends the present run and drops those that wait; so does a delete. An interpreter that
//! had to be killed is replaced at once; one that ended by itself is not, so that nobody goes on in
//! the belief that its state is there.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandshell_exec::Executor;
use sandshell_exec::output::{LogLimits, OutputLog};
use sandshell_sys::task;
use sandshell_types::{
    ContextId, ContextInterruptReply, ContextOutcome, ContextRecord, ContextRequest, ContextState,
    KillReply, RunRequest, RunStatus, Timestamp,
};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::jupyter::Directories;
use crate::kernel::{Finished, Kernel, KernelFacts, Wake, already_ended};
use crate::pool::Pools;
use crate::run::{RunHandle, Stop};
use crate::{CODE_BYTES, ContextError, QUEUE};

const MIB: u64 = 1024 * 1024;

/// How much of its output a run keeps for readers that are slow or come late.
pub(crate) const LOG: LogLimits = LogLimits {
    cap: 64 * MIB,
    keep_head: 10 * MIB,
};

/// A context; cheap to clone.
#[derive(Debug, Clone)]
pub struct ContextHandle(Arc<Context>);

#[derive(Debug)]
struct Context {
    id: ContextId,
    spec: ContextRequest,
    created_at: Timestamp,
    facts: Mutex<Facts>,
    queue: mpsc::Sender<Work>,
    waiting: AtomicU32,
    runs: AtomicU64,
    /// Restarts asked for: runs queued before one do not run after it.
    epoch: AtomicU64,
    ending: CancellationToken,
    /// How the interpreter was ended, once the context is over.
    over: watch::Sender<Option<KillReply>>,
}

#[derive(Debug)]
struct Facts {
    kernel: KernelFacts,
    ended: Option<String>,
    present: Option<RunHandle>,
    execution_count: u64,
    restarts: u32,
    last_used_at: Option<Timestamp>,
}

#[derive(Debug)]
enum Work {
    Run(RunHandle),
    Restart(oneshot::Sender<Result<(), ContextError>>),
}

/// What the owner needs to start interpreters.
#[derive(Debug, Clone)]
pub(crate) struct Workshop {
    pub(crate) executor: Executor,
    pub(crate) pools: Arc<Pools>,
    pub(crate) directories: Directories,
}

impl ContextHandle {
    /// Starts the interpreter and the owner task. `forget` is called when the context is over.
    pub(crate) async fn begin(
        workshop: Workshop,
        id: ContextId,
        spec: ContextRequest,
        forget: impl FnOnce(&ContextId) + Send + 'static,
    ) -> Result<Self, ContextError> {
        let kernel = Kernel::start(&workshop, &spec).await?;
        let (queue, work) = mpsc::channel(QUEUE + 1);
        let context = Arc::new(Context {
            id,
            created_at: Timestamp::now(),
            facts: Mutex::new(Facts {
                kernel: kernel.facts(),
                ended: None,
                present: None,
                execution_count: 0,
                restarts: 0,
                last_used_at: None,
            }),
            spec,
            queue,
            waiting: AtomicU32::new(0),
            runs: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            ending: CancellationToken::new(),
            over: watch::Sender::new(None),
        });
        let owner = Owner {
            next_log: next_log(&workshop.executor, &context),
            context: context.clone(),
            workshop,
            kernel: Some(kernel),
            last_end: None,
        };
        task::spawn(async move {
            let context = owner.context.clone();
            let reply = owner.attend(work).await;
            forget(&context.id);
            context.over.send_replace(Some(reply));
        });
        Ok(Self(context))
    }

    /// Its id.
    pub fn id(&self) -> &ContextId {
        &self.0.id
    }

    pub(crate) fn spec(&self) -> &ContextRequest {
        &self.0.spec
    }

    /// What is known of it now.
    pub fn record(&self) -> ContextRecord {
        let context = &self.0;
        let facts = context.facts();
        ContextRecord {
            id: context.id.clone(),
            language: context.spec.language,
            kernel: facts.kernel.kind,
            interpreter: facts.kernel.interpreter.clone(),
            state: match (&facts.ended, &facts.present) {
                (Some(_), _) => ContextState::Ended,
                (None, Some(_)) => ContextState::Busy,
                (None, None) => ContextState::Idle,
            },
            ended_reason: facts.ended.clone(),
            cwd: facts.kernel.cwd.clone(),
            pid: facts.kernel.pid,
            execution_count: facts.execution_count,
            queue_length: context.waiting.load(Ordering::Acquire),
            restarts: facts.restarts,
            created_at: context.created_at,
            last_used_at: facts.last_used_at,
        }
    }

    /// Puts code into the queue.
    pub fn run(&self, request: RunRequest) -> Result<RunHandle, ContextError> {
        let context = &self.0;
        check_run(&request)?;
        if let Some(reason) = &context.facts().ended {
            return Err(context.has_ended(reason));
        }
        if context.ending.is_cancelled() {
            return Err(context.has_ended("it was deleted"));
        }
        if context.waiting.load(Ordering::Acquire) as usize >= QUEUE {
            return Err(ContextError::Busy { limit: QUEUE });
        }
        let number = context.runs.fetch_add(1, Ordering::AcqRel) + 1;
        let epoch = context.epoch.load(Ordering::Acquire);
        let run = RunHandle::new(format!("run_{number}"), request, epoch);
        context.waiting.fetch_add(1, Ordering::AcqRel);
        match context.queue.try_send(Work::Run(run.clone())) {
            Ok(()) => Ok(run),
            Err(error) => {
                context.waiting.fetch_sub(1, Ordering::AcqRel);
                Err(match error {
                    mpsc::error::TrySendError::Full(_) => ContextError::Busy { limit: QUEUE },
                    mpsc::error::TrySendError::Closed(_) => context.has_ended("it was deleted"),
                })
            }
        }
    }

    /// Interrupts the present run; answers when it is over.
    pub async fn interrupt(&self) -> ContextInterruptReply {
        let present = self.0.facts().present.clone();
        let mut outcome = ContextOutcome::Kept;
        if let Some(run) = &present {
            run.stop(Stop::Interrupt);
            outcome = run.ended().await.context;
        }
        ContextInterruptReply {
            run_id: present.map(|run| run.id().to_owned()),
            outcome,
            context: self.record(),
        }
    }

    /// Replaces the interpreter by a fresh one. Runs that wait are dropped.
    pub async fn restart(&self) -> Result<ContextRecord, ContextError> {
        let context = &self.0;
        context.epoch.fetch_add(1, Ordering::AcqRel);
        if let Some(run) = &context.facts().present {
            run.stop(Stop::Discard);
        }
        let (tell, done) = oneshot::channel();
        let gone = |_| context.has_ended("it was deleted");
        context
            .queue
            .send(Work::Restart(tell))
            .await
            .map_err(|_| context.has_ended("it was deleted"))?;
        done.await.map_err(gone)??;
        Ok(self.record())
    }

    /// Ends it with all it started; answers when nothing is left, or says what is.
    pub async fn end(&self) -> KillReply {
        self.0.ending.cancel();
        if let Some(run) = &self.0.facts().present {
            run.stop(Stop::Discard);
        }
        let mut over = self.0.over.subscribe();
        let reply = over.wait_for(Option::is_some).await;
        // The sender lives as long as we do.
        let reply = reply.ok().and_then(|reply| reply.clone());
        reply.unwrap_or_else(already_ended)
    }
}

impl Context {
    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_ended(&self, reason: &str) -> ContextError {
        ContextError::Ended {
            id: self.id.to_string(),
            reason: reason.to_owned(),
        }
    }
}

fn check_run(request: &RunRequest) -> Result<(), ContextError> {
    if request.code.contains('\0') {
        return Err(ContextError::invalid("/code", "code has no NUL character"));
    }
    if request.code.len() > CODE_BYTES {
        return Err(ContextError::invalid(
            "/code",
            format!("code has at most {CODE_BYTES} bytes"),
        ));
    }
    check_env(&request.env)
}

/// Refuses variables that no environment can hold.
pub(crate) fn check_env(env: &sandshell_types::Env) -> Result<(), ContextError> {
    for (name, value) in env {
        let bad_name = name.is_empty() || name.contains(['=', '\0']);
        if bad_name || value.as_deref().is_some_and(|value| value.contains('\0')) {
            let escaped = name.replace('~', "~0").replace('/', "~1");
            return Err(ContextError::invalid(
                &format!("/env/{escaped}"),
                "a variable has a name, without '=', and no NUL anywhere",
            ));
        }
    }
    Ok(())
}

/// The log of the next run, which also gets what is written until then.
fn next_log(executor: &Executor, context: &Context) -> OutputLog {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    executor.output_log(&format!("{}-run-{number}", context.id), LOG)
}

/// The one task that talks to the interpreter.
struct Owner {
    context: Arc<Context>,
    workshop: Workshop,
    /// `None` when the interpreter has ended.
    kernel: Option<Kernel>,
    /// How the one before was ended.
    last_end: Option<KillReply>,
    next_log: OutputLog,
}

enum Next {
    Work(Option<Work>),
    Wake(Wake),
    Idle,
    End,
}

impl Owner {
    async fn attend(mut self, mut work: mpsc::Receiver<Work>) -> KillReply {
        loop {
            match self.next(&mut work).await {
                Next::Work(Some(Work::Run(run))) => {
                    self.context.waiting.fetch_sub(1, Ordering::AcqRel);
                    self.run(run).await;
                }
                Next::Work(Some(Work::Restart(tell))) => {
                    let done = self.restart().await;
                    let _ = tell.send(done);
                }
                Next::Wake(Wake::Output(stream)) => {
                    if let Some(kernel) = &mut self.kernel {
                        kernel.transfer(stream, &self.next_log).await;
                    }
                }
                Next::Wake(Wake::Ended(reason)) => self.lose(reason).await,
                Next::Work(None) | Next::Idle | Next::End => break,
            }
        }
        self.context.ending.cancel();
        let reply = match self.kernel.take() {
            Some(kernel) => kernel.end().await,
            None => self.last_end.take().unwrap_or_else(already_ended),
        };
        work.close();
        while let Ok(left) = work.try_recv() {
            if let Work::Run(run) = left {
                run.end(RunStatus::Interrupted, ContextOutcome::Ended, None);
            }
        }
        reply
    }

    /// What is to be done next.
    async fn next(&mut self, work: &mut mpsc::Receiver<Work>) -> Next {
        let idle = self.context.spec.idle_timeout_ms;
        let wake = async {
            match &mut self.kernel {
                Some(kernel) => kernel.wake().await,
                None => std::future::pending().await,
            }
        };
        let idle = async {
            match idle {
                Some(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.context.ending.cancelled() => Next::End,
            work = work.recv() => Next::Work(work),
            wake = wake => Next::Wake(wake),
            () = idle => Next::Idle,
        }
    }

    async fn run(&mut self, run: RunHandle) {
        let context = self.context.clone();
        if run.epoch() < context.epoch.load(Ordering::Acquire) {
            run.end(RunStatus::Interrupted, ContextOutcome::Lost, None);
            return;
        }
        let Some(kernel) = &mut self.kernel else {
            run.end(RunStatus::Interrupted, ContextOutcome::Ended, None);
            return;
        };
        let count = {
            let mut facts = context.facts();
            facts.execution_count += 1;
            facts.present = Some(run.clone());
            facts.execution_count
        };
        // Whoever restarts or deletes looks at the present run after it has said what it wants.
        if context.ending.is_cancelled() || run.epoch() < context.epoch.load(Ordering::Acquire) {
            run.stop(Stop::Discard);
        }
        let log = std::mem::replace(
            &mut self.next_log,
            next_log(&self.workshop.executor, &context),
        );
        let timeout = run.request().timeout_ms.or(context.spec.timeout_ms);
        let running = kernel.run(&run, log, count);
        let Finished {
            status,
            outcome,
            reason,
            exit_code,
        } = with_timeout(running, timeout, &run).await;
        if outcome != ContextOutcome::Kept {
            self.lose(reason.unwrap_or_default()).await;
        }
        // A restart that is on its way brings its own.
        let wanted = outcome == ContextOutcome::Lost
            && !context.ending.is_cancelled()
            && run.epoch() == context.epoch.load(Ordering::Acquire);
        if wanted && let Err(error) = self.renew().await {
            tracing::warn!(id = %context.id, %error, "cannot start an interpreter again");
        }
        {
            let mut facts = context.facts();
            facts.present = None;
            facts.last_used_at = Some(Timestamp::now());
            if let Some(kernel) = &self.kernel {
                facts.kernel = kernel.facts();
            }
        }
        run.end(status, outcome, exit_code);
    }

    /// The interpreter is over: what it left behind ends too.
    async fn lose(&mut self, reason: String) {
        self.context.facts().ended = Some(reason);
        if let Some(kernel) = self.kernel.take() {
            self.last_end = Some(kernel.end().await);
        }
    }

    async fn restart(&mut self) -> Result<(), ContextError> {
        self.lose("it is being restarted".to_owned()).await;
        self.next_log = next_log(&self.workshop.executor, &self.context);
        self.renew().await
    }

    /// A fresh interpreter in place of one that is gone.
    async fn renew(&mut self) -> Result<(), ContextError> {
        let kernel = Kernel::start(&self.workshop, &self.context.spec).await;
        let mut facts = self.context.facts();
        match kernel {
            Ok(kernel) => {
                facts.kernel = kernel.facts();
                facts.ended = None;
                facts.execution_count = 0;
                facts.restarts += 1;
                drop(facts);
                self.kernel = Some(kernel);
                Ok(())
            }
            Err(error) => {
                facts.ended = Some(format!("it could not be started again: {error}"));
                Err(error)
            }
        }
    }
}

/// Runs to the end; after the time the run is told to stop.
async fn with_timeout(
    running: impl Future<Output = Finished>,
    timeout_ms: Option<u64>,
    run: &RunHandle,
) -> Finished {
    let mut running = std::pin::pin!(running);
    if let Some(ms) = timeout_ms {
        tokio::select! {
            finished = &mut running => return finished,
            () = tokio::time::sleep(Duration::from_millis(ms)) => run.stop(Stop::Timeout),
        }
    }
    running.await
}
