//! Processes: programs with a record, an output log, signals, waits and a restart policy.
//!
//! Each process has one owner task (`run`), which alone changes its facts. Handles read published
//! facts and act on the live tree directly, so that a kill never waits behind anything.
//!
//! ```text
//!  start ─► running ── exit, output drained ──► exited ──► (leftovers: late output, tree empties)
//!              ▲                │ restart policy
//!              └── backoff ◄────┘
//! ```
//!
//! The result is published when the program has ended and everything it wrote is in the log. What
//! children left behind write later is appended too, but delays nothing.
//!
//! An `exec` is a process whose caller waits for it.

mod pump;
mod stdin;
mod wait;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use jiff::Timestamp;
use rustix::process::{Pid, getpgid};
use sandshell_isolate::protocol::Exit;
use sandshell_sys::{procfs, signal, task};
use sandshell_types::{
    Encoded, Encoding, ExecResult, ExitEvent, Happening, KillReply, ProcessId, ProcessKind,
    ProcessRecord, ProcessRequest, ProcessState, RestartMode, RestartPolicy, SignalReply,
    SignalRequest, SignalScope, Truncate, Truncated, WaitReply, WaitRequest,
};
use tokio::sync::{Notify, watch};

pub use pump::Pump;
pub(crate) use stdin::Stdin;

use crate::events::Events;
use crate::fence::Owner;
use crate::host::{Host, Live, Program, Running};
use crate::oom::Mark;
use crate::output::{LogLimits, OutputLog, Stream};
use crate::ports::Ports;
use crate::registry::{Entry, Registry};
use crate::tree::Tree;
use crate::{ExecError, host};

/// TERM to KILL when a timeout ends a tree: long enough to flush, short enough to be a timeout.
pub(crate) const TIMEOUT_GRACE: Duration = Duration::from_millis(250);

/// First pause before a restart.
const BACKOFF_START: Duration = Duration::from_millis(500);
/// Longest pause, and the run time after which the pause starts anew.
const BACKOFF_MAX: Duration = Duration::from_mins(1);

pub(crate) type Processes = Registry<ProcessId, ProcessHandle>;

/// A process; cheap to clone.
#[derive(Debug, Clone)]
pub struct ProcessHandle(Arc<Process>);

#[derive(Debug)]
struct Process {
    id: ProcessId,
    kind: ProcessKind,
    spec: ProcessRequest,
    result: ResultSpec,
    log: OutputLog,
    ports: Ports,
    events: Events,
    facts: Mutex<Facts>,
    stdin: Stdin,
    /// Set by kill and delete: no restart any more.
    stopping: AtomicBool,
    stop: Notify,
    over: watch::Sender<bool>,
}

/// How the result of an exec is to be cut.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResultSpec {
    pub(crate) max_bytes: u64,
    pub(crate) truncate: Truncate,
}

/// What is known of it so far.
#[derive(Debug)]
struct Facts {
    pid: i32,
    state: ProcessState,
    /// Absent once the whole tree is gone.
    live: Option<Arc<Live>>,
    /// Trees of earlier runs in which something still lives.
    former: Vec<Arc<Live>>,
    started_at: Timestamp,
    started: Instant,
    ended_at: Option<Timestamp>,
    duration: Duration,
    exit: Option<Exit>,
    timed_out: bool,
    oom: bool,
    restarts: u32,
    left_running: u32,
}

/// What a process is made of, once its first start has succeeded.
pub(crate) struct Birth {
    pub(crate) id: ProcessId,
    pub(crate) kind: ProcessKind,
    pub(crate) spec: ProcessRequest,
    pub(crate) result: ResultSpec,
    pub(crate) program: Program,
    pub(crate) running: Running,
    pub(crate) pump: Pump,
    /// For a shell that was waiting: the text it was told, to see whether it was read.
    pub(crate) told: Option<std::os::fd::OwnedFd>,
    pub(crate) stdin: Stdin,
    pub(crate) first_input: Bytes,
}

impl Entry for ProcessHandle {
    type Spec = ProcessRequest;
    fn spec(&self) -> &ProcessRequest {
        &self.0.spec
    }
    fn is_held(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Starts a program with pipes of its own: the way in for everything but pooled shells. All that can
/// fail of ours comes before the start, which nobody would undo.
pub(crate) async fn start_with_pipes(
    host: &Host,
    program: &Program,
    wants_stdin: bool,
) -> Result<(Running, Pump, Stdin), ExecError> {
    use std::os::fd::AsFd as _;
    let (out, out_theirs) = host::output_pipe()?;
    let (err, err_theirs) = host::output_pipe()?;
    let pump = Pump::new(out, err)?;
    let (theirs, ours) = wants_stdin.then(host::input_pipe).transpose()?.unzip();
    let stdin = Stdin::new(ours)?;
    let theirs = theirs.as_ref().map_or(host.null(), |read| read.as_fd());
    let fds = [
        (theirs, 0),
        (out_theirs.as_fd(), 1),
        (err_theirs.as_fd(), 2),
    ];
    let running = host.start(program, &fds).await?;
    Ok((running, pump, stdin))
}

impl ProcessHandle {
    /// Makes the record and starts the owner task.
    pub(crate) fn begin(
        host: Arc<Host>,
        processes: std::sync::Weak<Processes>,
        birth: Birth,
    ) -> Self {
        let log_bytes = birth.spec.max_output_bytes.unwrap_or(host.config.log_bytes);
        let (cap, keep_head) = match birth.kind {
            ProcessKind::Exec => (host.config.log_bytes, birth.result.max_bytes),
            ProcessKind::Process => (log_bytes, 0),
        };
        let log = host.output_log(birth.id.as_str(), LogLimits { cap, keep_head });
        let keep_open = birth.spec.stdin_open;
        let has_stdin = birth.spec.stdin.is_some() || keep_open;
        let process = Arc::new(Process {
            id: birth.id,
            kind: birth.kind,
            spec: birth.spec,
            result: birth.result,
            log,
            ports: host.ports.clone(),
            events: host.events.clone(),
            facts: Mutex::new(Facts {
                pid: birth.running.pid,
                state: ProcessState::Running,
                live: Some(birth.running.live.clone()),
                former: Vec::new(),
                started_at: Timestamp::now(),
                started: Instant::now(),
                ended_at: None,
                duration: Duration::ZERO,
                exit: None,
                timed_out: false,
                oom: false,
                restarts: 0,
                left_running: 0,
            }),
            stdin: birth.stdin,
            stopping: AtomicBool::new(false),
            stop: Notify::new(),
            over: watch::Sender::new(false),
        });
        process.tell(|process| Happening::ProcessStarted {
            process,
            pid: birth.running.pid,
        });
        if has_stdin && (!birth.first_input.is_empty() || !keep_open) {
            task::spawn(feed(process.clone(), birth.first_input, keep_open));
        }
        task::spawn(run(
            host,
            processes,
            process.clone(),
            birth.program,
            birth.told,
            birth.running,
            birth.pump,
        ));
        Self(process)
    }

    /// Its id.
    pub fn id(&self) -> &ProcessId {
        &self.0.id
    }

    pub(crate) fn result_spec(&self) -> ResultSpec {
        self.0.result
    }

    /// What made it.
    pub fn kind(&self) -> ProcessKind {
        self.0.kind
    }

    /// Everything it wrote.
    pub fn log(&self) -> &OutputLog {
        &self.0.log
    }

    /// What is known of it now.
    pub fn record(&self) -> ProcessRecord {
        let p = &self.0;
        let facts = p.facts();
        ProcessRecord {
            id: p.id.clone(),
            pid: facts.pid,
            state: facts.state,
            kind: p.kind,
            command: p.spec.command.clone(),
            argv: p.spec.argv.clone(),
            tag: p.spec.tag.clone(),
            session: p.spec.session.clone(),
            started_at: facts.started_at,
            ended_at: facts.ended_at,
            exit_code: facts.exit.map(exit_code),
            signal: facts.exit.and_then(signal_name),
            timed_out: facts.timed_out,
            oom: facts.oom,
            restarts: facts.restarts,
            stdout_bytes: p.log.len(Stream::Stdout),
            stderr_bytes: p.log.len(Stream::Stderr),
        }
    }

    /// Resolves when it is over and its output is complete.
    pub async fn ended(&self) {
        let mut over = self.0.over.subscribe();
        // An error would mean that the sender is gone, which we hold.
        let _ = over.wait_for(|over| *over).await;
    }

    /// How it ended, once it has.
    pub fn exit_event(&self) -> Option<ExitEvent> {
        let facts = self.0.facts();
        (facts.state == ProcessState::Exited).then(|| ExitEvent {
            exit_code: facts.exit.map(exit_code),
            signal: facts.exit.and_then(signal_name),
            timed_out: facts.timed_out,
            oom: facts.oom,
            cwd: None,
            duration_ms: facts.duration.as_millis() as u64,
        })
    }

    /// The result of an exec, once it is over.
    pub async fn exec_result(&self, encoding: Encoding) -> Result<ExecResult, ExecError> {
        self.ended().await;
        let ResultSpec {
            max_bytes,
            truncate,
        } = self.0.result;
        let stdout = self
            .0
            .log
            .excerpt(Stream::Stdout, max_bytes, truncate)
            .await?;
        let stderr = self
            .0
            .log
            .excerpt(Stream::Stderr, max_bytes, truncate)
            .await?;
        let truncated = (stdout.omitted > 0 || stderr.omitted > 0).then_some(Truncated {
            stdout_bytes: stdout.omitted,
            stderr_bytes: stderr.omitted,
        });
        let stdout = Encoded::new(stdout.bytes, encoding);
        let stderr = Encoded::new(stderr.bytes, encoding);
        let facts = self.0.facts();
        Ok(ExecResult {
            id: self.0.id.clone(),
            exit_code: facts.exit.map_or(-1, exit_code),
            signal: facts.exit.and_then(signal_name),
            stdout: stdout.data,
            stderr: stderr.data,
            stdout_encoding: stdout.encoding,
            stderr_encoding: stderr.encoding,
            duration_ms: facts.duration.as_millis() as u64,
            timed_out: facts.timed_out,
            oom: facts.oom,
            truncated,
            left_running: facts.left_running,
        })
    }

    /// Writes to its standard input; the answer is the offset after the write.
    pub async fn write_stdin(&self, offset: Option<u64>, data: Bytes) -> Result<u64, ExecError> {
        self.0.stdin.write(offset, &data).await
    }

    /// Ends its standard input.
    pub async fn close_stdin(&self) -> Result<u64, ExecError> {
        self.0.stdin.close().await
    }

    /// Sends a signal to it, its group or its tree.
    pub fn signal(&self, request: &SignalRequest) -> Result<SignalReply, ExecError> {
        let number = signal::parse(&request.signal).ok_or_else(|| ExecError::Invalid {
            pointer: "/signal".to_owned(),
            detail: format!("{:?} is not a signal", request.signal),
            hint: Some("use a name such as SIGTERM or HUP, or a number from 1 to 64".to_owned()),
        })?;
        let ended = || ExecError::ProcessEnded {
            id: self.0.id.to_string(),
        };
        let unseen = |errno| ExecError::system("cannot see who is to be signalled", errno);
        let live = self.0.facts().live.clone().ok_or_else(ended)?;
        let signalled = match request.scope {
            SignalScope::Process => {
                signal::send(&live.pidfd, number).map_err(|_| ended())?;
                1
            }
            SignalScope::Tree => live.tree.signal(number, |_| true).map_err(unseen)?,
            SignalScope::Group => {
                let leader = procfs::pid_of(&live.pidfd)
                    .map_err(unseen)?
                    .ok_or_else(ended)?;
                let in_group = |pid| {
                    getpgid(Pid::from_raw(pid)).is_ok_and(|group| group.as_raw_pid() == leader)
                };
                live.tree.signal(number, in_group).map_err(unseen)?
            }
        };
        if signalled == 0 {
            Err(ended())
        } else {
            Ok(SignalReply { signalled })
        }
    }

    /// TERM, grace, KILL for the whole tree. No restart follows.
    pub async fn kill(&self, grace: Duration) -> KillReply {
        self.0.stopping.store(true, Ordering::Release);
        self.0.stop.notify_waiters();
        let mut reply = kill_all(self.trees(), grace).await;
        if reply.survivors.is_empty() {
            self.ended().await;
            // A run that began meanwhile was not among those trees, and its end is only its leader's.
            absorb(&mut reply, kill_all(self.trees(), Duration::ZERO).await);
        }
        if reply.method != "already_ended" {
            let method = reply.method.clone();
            self.0
                .tell(|process| Happening::ProcessKilled { process, method });
        }
        reply
    }

    /// Its tree, and those of earlier runs in which something still lives.
    pub(crate) fn trees(&self) -> Vec<Arc<Live>> {
        let facts = self.0.facts();
        facts.live.iter().chain(&facts.former).cloned().collect()
    }

    /// Waits for its end, a pattern in its output, or a port.
    pub async fn wait(&self, request: WaitRequest) -> Result<WaitReply, ExecError> {
        wait::wait(self, &self.0.ports, request).await
    }
}

impl Process {
    /// Tells of it, unless it is an exec: those come and go too fast to be news.
    fn tell(&self, what: impl FnOnce(ProcessId) -> Happening) {
        if self.kind == ProcessKind::Process {
            self.events.publish(what(self.id.clone()));
        }
    }

    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the run that ended so lost a process for want of memory. What we ended did not.
    fn note_oom(&self, mark: &Mark, exit: Exit) {
        let ours = self.stopping.load(Ordering::Acquire);
        let exit = if ours { Exit::Code(0) } else { exit };
        let owner = Owner::Process(self.id.clone());
        self.facts().oom = mark.was_hit(exit, &self.events, &owner);
    }
}

/// Writes the bytes a request brought, then closes unless more may come.
async fn feed(process: Arc<Process>, input: Bytes, keep_open: bool) {
    let fed = process.stdin.write(None, &input).await;
    if !keep_open && fed.is_ok() {
        let _ = process.stdin.close().await;
    }
}

/// The owner task.
async fn run(
    host: Arc<Host>,
    processes: std::sync::Weak<Processes>,
    process: Arc<Process>,
    program: Program,
    mut told: Option<std::os::fd::OwnedFd>,
    mut running: Running,
    mut pump: Pump,
) {
    let policy = process.spec.restart.unwrap_or_default();
    let mut backoff = first_backoff(policy);
    let mut deadline = process
        .spec
        .timeout_ms
        .map(|ms| tokio::time::Instant::now() + Duration::from_millis(ms));
    loop {
        let live = running.live.clone();
        let began = Instant::now();
        let mark = host.nursery.mark(live.fence.as_ref());
        let exit = supervise(&process, &mut running, &mut pump, &mut deadline).await;
        process.note_oom(&mark, exit);
        if let Some(text) = told.take()
            && matches!(exit, Exit::Signal(_))
            && rustix::fs::tell(&text) == Ok(0)
            && !process.stopping.load(Ordering::Acquire)
            && let Some(again) = start_fresh(&host, &process).await
        {
            (running, pump) = again;
            continue;
        }
        if !wants_restart(&process, policy, exit) {
            finish(&process, &live, exit);
            // Whoever waits for the result goes first; cleaning up can wait.
            tokio::task::yield_now().await;
            leftovers(pump, &live, &process.log).await;
            process.facts().live = None;
            break;
        }
        let log = process.log.clone();
        let gone = live.clone();
        process.facts().former.push(live.clone());
        let owner = process.clone();
        task::spawn(async move {
            leftovers(pump, &live, &log).await;
            owner
                .facts()
                .former
                .retain(|former| !Arc::ptr_eq(former, &live));
        });
        if began.elapsed() > BACKOFF_MAX {
            backoff = first_backoff(policy);
        }
        process.facts().state = ProcessState::Backoff;
        let Some(again) = start_again(&host, &process, &program, backoff).await else {
            finish(&process, &gone, exit);
            break;
        };
        (running, pump) = again;
        backoff = (backoff * 2).min(BACKOFF_MAX);
    }
    let id = process.id.clone();
    drop(process);
    if let Some(processes) = processes.upgrade() {
        processes.finished(id.as_str());
    }
}

/// A waiting shell was killed before it read its text, so nothing of it ran: a fresh one runs it.
async fn start_fresh(host: &Host, process: &Process) -> Option<(Running, Pump)> {
    let text = process.spec.command.as_deref().unwrap_or_default();
    let program = host.command(text, &process.spec).ok()?;
    let (running, pump, _) = start_with_pipes(host, &program, false).await.ok()?;
    let mut facts = process.facts();
    facts.pid = running.pid;
    facts.live = Some(running.live.clone());
    drop(facts);
    end_if_stopping(process, &running);
    Some((running, pump))
}

/// A kill that came while the program was being started again did not see its new tree.
fn end_if_stopping(process: &Process, running: &Running) {
    if process.stopping.load(Ordering::Acquire) {
        let live = running.live.clone();
        task::spawn(async move { live.tree.kill(Duration::ZERO).await });
    }
}

/// Pumps output until the program has ended and all it wrote is in the log.
async fn supervise(
    process: &Process,
    running: &mut Running,
    pump: &mut Pump,
    deadline: &mut Option<tokio::time::Instant>,
) -> Exit {
    let mut killing = None;
    let exit = loop {
        let timeout = async {
            match *deadline {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            stream = pump.ready() => pump.transfer(stream, &process.log).await,
            // Init gone means that everything is; SIGKILL is the truth.
            exit = &mut running.exit => break exit.unwrap_or(Exit::Signal(9)),
            () = timeout => {
                *deadline = None;
                process.facts().timed_out = true;
                process.stopping.store(true, Ordering::Release);
                let live = running.live.clone();
                killing = Some(task::spawn(async move { live.tree.kill(TIMEOUT_GRACE).await }));
            }
        }
    };
    pump.drain(&process.log).await;
    if let Some(killing) = killing {
        let _ = killing.await;
    }
    exit
}

fn finish(process: &Process, live: &Live, exit: Exit) {
    {
        let left_running = if live.tree.is_empty() {
            0
        } else {
            live.tree.alive().map_or(0, |alive| alive.len() as u32)
        };
        let mut facts = process.facts();
        facts.state = ProcessState::Exited;
        facts.exit = Some(exit);
        facts.ended_at = Some(Timestamp::now());
        facts.duration = facts.started.elapsed();
        facts.left_running = left_running;
    }
    process.log.end();
    let (timed_out, oom) = {
        let facts = process.facts();
        (facts.timed_out, facts.oom)
    };
    process.tell(|process| Happening::ProcessExited {
        process,
        exit_code: exit_code(exit),
        signal: signal_name(exit),
        timed_out,
        oom,
    });
    process.over.send_replace(true);
}

/// After the end: what children left behind still write, until they too are gone.
async fn leftovers(mut pump: Pump, live: &Live, log: &OutputLog) {
    let pumping = async {
        while let Some(stream) = pump.ready_or_closed().await {
            pump.transfer(stream, log).await;
        }
    };
    if live.tree.is_empty() {
        pumping.await;
    } else {
        tokio::join!(pumping, live.tree.empty());
    }
}

/// Kills several trees as one.
pub(crate) async fn kill_all(trees: Vec<Arc<Live>>, grace: Duration) -> KillReply {
    let mut total = Tree::Gone.kill(grace).await;
    let mut killing = tokio::task::JoinSet::new();
    for live in trees {
        killing.spawn(async move { live.tree.kill(grace).await });
    }
    while let Some(reply) = killing.join_next().await {
        if let Ok(reply) = reply {
            absorb(&mut total, reply);
        }
    }
    total
}

fn absorb(total: &mut KillReply, reply: KillReply) {
    if reply.method != "already_ended" {
        total.method = reply.method;
    }
    total.killed += reply.killed;
    total.survivors.extend(reply.survivors);
}

fn first_backoff(policy: RestartPolicy) -> Duration {
    policy
        .backoff_ms
        .map_or(BACKOFF_START, Duration::from_millis)
}

fn wants_restart(process: &Process, policy: RestartPolicy, exit: Exit) -> bool {
    let by_mode = match policy.mode {
        RestartMode::Never => false,
        RestartMode::OnFailure => exit != Exit::Code(0),
        RestartMode::Always => true,
    };
    let left = policy
        .max_restarts
        .is_none_or(|max| process.facts().restarts < max);
    by_mode && left && !process.stopping.load(Ordering::Acquire)
}

/// Waits for the backoff and starts the program again; `None` when it was stopped meanwhile or
/// cannot be started any more. What the machine lacks for it may be there after another pause.
async fn start_again(
    host: &Host,
    process: &Process,
    program: &Program,
    mut backoff: Duration,
) -> Option<(Running, Pump)> {
    let mut stopped = std::pin::pin!(process.stop.notified());
    if process.stopping.load(Ordering::Acquire) {
        return None;
    }
    let wants_stdin = process.spec.stdin_open;
    let started = loop {
        tokio::select! {
            () = tokio::time::sleep(backoff) => {}
            () = stopped.as_mut() => return None,
        }
        match start_with_pipes(host, program, wants_stdin).await {
            Err(error @ ExecError::Unavailable { .. }) => {
                tracing::warn!(id = %process.id, %error, "a process is not restarted yet");
                backoff = (backoff * 2).min(BACKOFF_MAX);
            }
            started => break started,
        }
    };
    match started {
        Ok((running, pump, stdin)) => {
            process.stdin.replace(stdin).await;
            let mut facts = process.facts();
            facts.pid = running.pid;
            facts.state = ProcessState::Running;
            facts.live = Some(running.live.clone());
            facts.restarts += 1;
            let (pid, restarts) = (running.pid, facts.restarts);
            drop(facts);
            process.tell(|process| Happening::ProcessRestarted {
                process,
                pid,
                restarts,
            });
            end_if_stopping(process, &running);
            Some((running, pump))
        }
        Err(error) => {
            tracing::warn!(id = %process.id, %error, "cannot restart a process");
            None
        }
    }
}

/// The status as a shell would show it.
pub(crate) fn exit_code(exit: Exit) -> i32 {
    match exit {
        Exit::Code(code) => code,
        Exit::Signal(number) => 128 + number,
    }
}

pub(crate) fn signal_name(exit: Exit) -> Option<String> {
    match exit {
        Exit::Code(_) => None,
        Exit::Signal(number) => Some(signal::name(number)),
    }
}
