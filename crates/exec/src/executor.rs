//! The execution core as one thing: makes, finds and forgets processes, sessions and terminals.

mod request;
mod settings;

use std::collections::BTreeMap;
use std::future::Future;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use sandshell_isolate::InitHandle;
use sandshell_sys::{procfs, task};
use sandshell_types::{
    Env, EnvReply, ExecRequest, ForkRequest, KillReply, PortRecord, PortWaitRequest, ProcessId,
    ProcessKind, ProcessRequest, ProcessState, SandboxStats, SessionId, SessionRequest,
    SessionState, TerminalId, TerminalRequest, TerminalState,
};

use crate::account::Accounts;
use crate::error;
use crate::events::Events;
use crate::fence::{Fence, Owner};
use crate::host::{self, Host, Program};
use crate::inside::{Inside, Who};
use crate::output::{LogLimits, LogSpace, OutputLog};
use crate::pool::Pool;
use crate::pool::exec_shell::ExecShell;
use crate::ports::{self, Owned, PortError, PortWatcher, Ports, check_http};
use crate::process::{self, ProcessHandle, Processes, ResultSpec, Stdin, start_with_pipes};
use crate::session::{
    Birth as SessionBirth, ChannelRoot, SessionHandle, Sessions, Shell, Snapshot, check_environment,
};
use crate::spawner::Spawner;
use crate::terminal::{self, TerminalHandle, Terminals};
use crate::tree::Nursery;
use crate::variables::Variables;
use crate::wardens::Wardens;
use crate::{Config, ExecError, StartError, oom, stats};
use request::{check_process, decode_stdin, poolable};

/// TERM to KILL for everything at shutdown.
const SHUTDOWN_GRACE: Duration = Duration::from_millis(500);

/// When the first shell for a session is started unasked: the first exec of a fresh sandbox goes before.
const SESSIONS_LATER: Duration = Duration::from_millis(25);

/// Runs a text on top of a session's state, which comes as a script on descriptor 31.
const FROM_STATE: &str =
    ". /proc/self/fd/31 2>/dev/null;exec 31<&-;eval -- \"$BASH_EXECUTION_STRING\"";
const STATE_FD: i32 = 31;

/// Descriptors a program gets besides its streams, with their numbers there.
type Files = Vec<(Arc<OwnedFd>, i32)>;

/// The execution core; cheap to clone.
#[derive(Debug, Clone)]
pub struct Executor(Arc<Core>);

#[derive(Debug)]
struct Core {
    host: Arc<Host>,
    processes: Arc<Processes>,
    sessions: Arc<Sessions>,
    terminals: Arc<Terminals>,
    channels: Arc<ChannelRoot>,
    exec_shells: Option<Arc<Pool<ExecShell>>>,
    session_shells: Arc<Pool<Shell>>,
    started: Instant,
    /// Holds init alive in our table of children; its end is seen on the socket.
    init: Arc<OwnedFd>,
}

impl Executor {
    /// Starts the core on top of a running init. To be called inside the runtime.
    #[expect(clippy::unused_async, reason = "only the runtime's tasks may start it")]
    pub async fn start(mut init: InitHandle, config: Config) -> Result<Self, StartError> {
        let failed = |step: &'static str| move |e: String| StartError { step, reason: e };
        let inside = Inside::of(&mut init)
            .map_err(|e| e.to_string())
            .map_err(failed("the sandbox's root"))?;
        let accounts = Accounts::new(inside.clone());
        let account = match &config.user {
            Some(user) => accounts
                .find(user)
                .map_err(|e| e.to_string())
                .map_err(failed(error::USER))?,
            None => accounts.own(),
        };
        let shell =
            host::find_program(&inside, "bash").or_else(|| host::find_program(&inside, "sh"));
        let has_bash = shell.as_ref().is_some_and(|path| path.ends_with("bash"));
        let init_pid = procfs::pid_of(&init.pidfd)
            .and_then(|pid| pid.ok_or(Errno::SRCH))
            .map_err(|errno| errno.to_string())
            .map_err(failed("init"))?;
        let surroundings = init.surroundings;
        let wardens = Arc::new(Wardens::new(
            surroundings.warden,
            surroundings.warden_plan,
            surroundings.pid_namespace,
        ));
        let host = Arc::new(Host {
            ports: Ports::new(init_pid, wardens.clone(), inside.clone()),
            wardens,
            events: Events::default(),
            log_space: LogSpace::new(config.log_space_bytes),
            variables: Variables::new(config.env.clone()),
            inside,
            spawner: Spawner::new(init.socket)?,
            nursery: Nursery::new(surroundings.cgroup, surroundings.controllers),
            null: host::open_null()
                .map_err(|e| e.to_string())
                .map_err(failed("/dev/null"))?,
            accounts,
            account,
            shell,
            config,
        });
        let channels = ChannelRoot::new(init.channels, &host.config.state_dir.join("sessions"))
            .map_err(|e| e.to_string())
            .map_err(failed("session channels"))?;
        let channels = Arc::new(channels);
        let exec_shells = has_bash.then(|| {
            let host = host.clone();
            Pool::new(host.config.exec_pool, Duration::ZERO, move || {
                let host = host.clone();
                async move { ExecShell::start(&host).await }
            })
        });
        let session_shells = {
            let (host, channels) = (host.clone(), channels.clone());
            Pool::new(host.config.session_pool, SESSIONS_LATER, move || {
                let (host, channels) = (host.clone(), channels.clone());
                async move {
                    let variables = host.variables.now();
                    let program = shell_program(&host, &SessionRequest::default())?;
                    Shell::start(&host, &channels, variables, program).await
                }
            })
        };
        let watched = host.clone();
        // When the first shell is being started: nothing can meet a limit before.
        task::spawn(async move { watched.nursery.watch(&watched.events) });
        let config = &host.config;
        let executor = Self(Arc::new(Core {
            processes: Arc::new(Processes::new(config.finished_records, config.finished_for)),
            sessions: Arc::new(Sessions::new(config.finished_records, config.finished_for)),
            terminals: Arc::new(Terminals::new(config.finished_records, config.finished_for)),
            host,
            channels,
            exec_shells,
            session_shells,
            started: Instant::now(),
            init: Arc::new(init.pidfd),
        }));
        task::spawn(ports::publish(executor.clone()));
        Ok(executor)
    }

    /// Waits until nothing is left of our start that would be in the way of the first command.
    pub async fn settled(&self) {
        if let Some(shells) = &self.0.exec_shells {
            shells.filled().await;
        }
        self.0.session_shells.filled().await;
    }

    pub(crate) fn host(&self) -> &Arc<Host> {
        &self.0.host
    }

    /// Whether the sandbox's shell is bash.
    pub fn has_bash(&self) -> bool {
        self.0.exec_shells.is_some()
    }

    /// A fresh output log under this name, kept as those of processes are.
    pub fn output_log(&self, name: &str, limits: LogLimits) -> OutputLog {
        self.0.host.output_log(name, limits)
    }

    /// The way to the sandbox's files and ports.
    pub fn inside(&self) -> &Inside {
        &self.0.host.inside
    }

    /// Everything that listens in the sandbox, lowest port first.
    pub async fn ports(&self) -> Result<Vec<PortRecord>, PortError> {
        let core = &self.0;
        let processes = core.processes.all().into_iter().map(|process| Owned {
            process: Some(process.id().clone()),
            session: process.record().session,
            trees: process.trees(),
        });
        let sessions = core.sessions.all().into_iter().map(|session| Owned {
            process: None,
            session: Some(session.id().clone()),
            trees: session.trees(),
        });
        let owned = processes.chain(sessions).collect();
        core.host.ports.list(owned).await
    }

    /// Connects to what listens on this port in the sandbox, and to nothing else.
    pub async fn connect_port(&self, port: u16) -> Result<tokio::net::TcpStream, PortError> {
        self.0.host.ports.connect(port).await
    }

    /// Waits until a port answers; says whether it did in time.
    pub async fn wait_port(&self, port: u16, request: &PortWaitRequest) -> Result<bool, ExecError> {
        check_http(request.http.as_ref(), "/http")?;
        let answers = self.0.host.ports.answers(port, request.http.as_ref());
        match request.timeout_ms {
            None => answers.await,
            Some(ms) => {
                let limit = Duration::from_millis(ms);
                return Ok(tokio::time::timeout(limit, answers).await.is_ok());
            }
        }
        Ok(true)
    }

    /// A stream of ports that open and close from now on.
    pub async fn watch_ports(&self) -> PortWatcher {
        PortWatcher::new(self.clone()).await
    }

    pub(crate) fn port_table(&self) -> &Ports {
        &self.0.host.ports
    }

    /// Whose rights a call has that names this user, or none.
    pub fn who(&self, user: Option<&str>) -> Result<Who, ExecError> {
        let account = self.0.host.account(user)?;
        Ok(Who(account.identity()))
    }

    /// The absolute form of a path: relative ones start at the session's directory, or at the
    /// sandbox's.
    pub fn absolute(&self, path: &Path, session: Option<&str>) -> Result<PathBuf, ExecError> {
        let base = match session {
            Some(id) => PathBuf::from(self.session(id)?.record().cwd),
            None => self.0.host.config.cwd.clone(),
        };
        Ok(Path::new("/").join(base).join(path))
    }

    /// What happens in the sandbox.
    pub fn events(&self) -> &Events {
        &self.0.host.events
    }

    /// The sandbox's environment.
    pub fn environment(&self) -> EnvReply {
        let host = &self.0.host;
        EnvReply {
            env: host.variables.values(),
            base: host.base_environment(&host.account),
        }
    }

    /// Changes the sandbox's environment for whatever is started from now on.
    pub fn change_environment(&self, changes: &Env) -> Result<EnvReply, ExecError> {
        let host = &self.0.host;
        let base = host.base_environment(&host.account);
        host.variables.change(changes, &base)?;
        Ok(self.environment())
    }

    /// What the sandbox uses.
    pub async fn stats(&self) -> Result<SandboxStats, ExecError> {
        let core = &self.0;
        let (host, init) = (core.host.clone(), core.init.clone());
        let figures = tokio::task::spawn_blocking(move || {
            let init = procfs::pid_of(&*init).unwrap_or_default();
            stats::figures(&host.nursery, init, host.wardens.pid())
        });
        let figures = figures
            .await
            .map_err(|error| ExecError::internal(error.to_string()))?;
        let cwd = core.host.config.cwd.clone();
        let who = self.who(None)?;
        let inside = &core.host.inside;
        let disk = inside.run(&who, move |root| stats::disk(root, &cwd)).await;
        let running = |kind| {
            let running = |process: &ProcessHandle| {
                process.kind() == kind && process.record().state != ProcessState::Exited
            };
            core.processes.all().iter().filter(|p| running(p)).count() as u32
        };
        let terminals = core.terminals.all().into_iter();
        let terminals =
            terminals.filter(|terminal| terminal.record().state == TerminalState::Running);
        let sessions = core.sessions.all();
        let alive = |session: &&SessionHandle| session.record().state != SessionState::Ended;
        Ok(SandboxStats {
            at: figures.at,
            uptime_ms: core.started.elapsed().as_millis() as u64,
            cpu: figures.cpu,
            memory: figures.memory,
            pids: figures.pids,
            disk: disk.ok().flatten(),
            network: figures.network,
            sessions: sessions.iter().filter(alive).count() as u32,
            processes: running(ProcessKind::Process),
            execs: running(ProcessKind::Exec),
            terminals: terminals.count() as u32,
        })
    }

    /// Starts an exec. Says whether it was started now.
    pub async fn exec(&self, request: ExecRequest) -> Result<(ProcessHandle, bool), ExecError> {
        let host = &self.0.host;
        let result = ResultSpec {
            max_bytes: request
                .max_output_bytes
                .unwrap_or(host.config.exec_output_bytes),
            truncate: request.truncate,
        };
        let spec = ProcessRequest {
            command: request.command,
            argv: request.argv,
            id: request.id,
            cwd: request.cwd,
            env: request.env,
            stdin: request.stdin,
            stdin_encoding: request.stdin_encoding,
            shell: request.shell,
            user: request.user,
            timeout_ms: request.timeout_ms,
            limits: request.limits,
            ..ProcessRequest::default()
        };
        self.begin(ProcessKind::Exec, spec, result, Vec::new())
            .await
    }

    /// Starts an exec that gets these descriptors besides its streams, each under a number of its
    /// own. They are closed here as soon as it has started.
    pub async fn exec_with_files(
        &self,
        spec: ProcessRequest,
        files: Vec<(OwnedFd, i32)>,
        max_output_bytes: u64,
    ) -> Result<ProcessHandle, ExecError> {
        let result = ResultSpec {
            max_bytes: max_output_bytes,
            truncate: sandshell_types::Truncate::Tail,
        };
        let files = files.into_iter().map(|(file, n)| (Arc::new(file), n));
        let (process, _) = self
            .begin(ProcessKind::Exec, spec, result, files.collect())
            .await?;
        Ok(process)
    }

    /// Starts a background process. Says whether it was started now.
    pub async fn start_process(
        &self,
        request: ProcessRequest,
    ) -> Result<(ProcessHandle, bool), ExecError> {
        let result = ResultSpec {
            max_bytes: self.0.host.config.exec_output_bytes,
            truncate: sandshell_types::Truncate::Both,
        };
        self.begin(ProcessKind::Process, request, result, Vec::new())
            .await
    }

    async fn begin(
        &self,
        kind: ProcessKind,
        spec: ProcessRequest,
        result: ResultSpec,
        files: Files,
    ) -> Result<(ProcessHandle, bool), ExecError> {
        check_process(&spec)?;
        let id = spec.id.clone().unwrap_or_else(ProcessId::generate);
        let make = self.make_process(kind, id.clone(), spec.clone(), result, files);
        let processes = &self.0.processes;
        let (process, made) = processes.get_or_make(&id, &spec, Box::pin(make)).await?;
        // An exec and a process may look alike; what only an exec can say is not in their common spec.
        let differs = match process.result_spec() {
            _ if process.kind() != kind => Some("id"),
            there if there.max_bytes != result.max_bytes => Some("max_output_bytes"),
            there if there.truncate != result.truncate => Some("truncate"),
            _ => None,
        };
        match differs {
            Some(field) => Err(ExecError::IdConflict {
                id: id.to_string(),
                field: field.to_owned(),
            }),
            None => Ok((process, made)),
        }
    }

    async fn make_process(
        &self,
        kind: ProcessKind,
        id: ProcessId,
        spec: ProcessRequest,
        result: ResultSpec,
        files: Files,
    ) -> Result<ProcessHandle, ExecError> {
        let core = &self.0;
        let weak = Arc::downgrade(&core.processes);
        if kind == ProcessKind::Exec
            && files.is_empty()
            && let (Some(pool), Some(text)) = (&core.exec_shells, poolable(&spec))
        {
            // One that was killed a moment ago is passed over.
            let shell = loop {
                let shell = pool.take().await?;
                if shell.tell(text)? {
                    break shell;
                }
            };
            let ExecShell {
                program,
                running,
                pump,
                text,
                ..
            } = shell;
            let birth = process::Birth {
                id,
                kind,
                spec,
                result,
                program,
                running,
                pump,
                told: Some(text),
                stdin: Stdin::closed(),
                first_input: Bytes::new(),
            };
            return Ok(ProcessHandle::begin(core.host.clone(), weak, birth));
        }
        let mut program = self.settle_program(&spec).await?;
        program.files.extend(files);
        let (host, owner) = (&core.host, Owner::Process(id.clone()));
        program.fence = host
            .nursery
            .fence(spec.limits.as_ref(), owner, &host.events)?;
        let first_input = match &spec.stdin {
            None => Bytes::new(),
            Some(text) => decode_stdin(text, spec.stdin_encoding)?,
        };
        let wants_stdin = spec.stdin.is_some() || spec.stdin_open;
        let (running, pump, stdin) = start_with_pipes(&core.host, &program, wants_stdin).await?;
        if kind == ProcessKind::Exec {
            // Never started again, so nobody needs them here.
            program.files.clear();
        }
        let birth = process::Birth {
            id,
            kind,
            spec,
            result,
            program,
            running,
            pump,
            told: None,
            stdin,
            first_input,
        };
        Ok(ProcessHandle::begin(core.host.clone(), weak, birth))
    }

    /// The program a spec asks for.
    pub(crate) async fn settle_program(&self, spec: &ProcessRequest) -> Result<Program, ExecError> {
        let host = &self.0.host;
        let account = host.account(spec.user.as_deref())?;
        if let Some(argv) = &spec.argv {
            let cwd = spec.cwd.as_deref();
            return host.program(argv, &account, cwd, &spec.env, spec.limits.as_ref());
        }
        let text = spec.command.clone().unwrap_or_default();
        let state = match &spec.session {
            Some(id) => {
                let session = self.session(id.as_str())?;
                if session.record().private_processes {
                    // What it started would be seen by all others.
                    return Err(ExecError::invalid(
                        "/session",
                        "the processes of that session are private, and only its own commands can \
                         start some: execute `COMMAND &` in it",
                    ));
                }
                Some(session.snapshot().await?)
            }
            None => None,
        };
        let Some(state) = state else {
            return host.command(&text, spec);
        };
        let mut program = host.command(FROM_STATE, spec)?;
        add_state(
            &mut program,
            &state,
            &host.environment(&account),
            spec,
            &text,
        )?;
        Ok(program)
    }

    /// The process with this id.
    pub fn process(&self, id: &str) -> Result<ProcessHandle, ExecError> {
        self.0
            .processes
            .get(id)
            .ok_or_else(|| ExecError::ProcessNotFound { id: id.to_owned() })
    }

    /// All processes, execs included, oldest first.
    pub fn processes(&self) -> Vec<ProcessHandle> {
        self.0.processes.all()
    }

    /// Kills a process, then forgets it.
    pub async fn forget_process(&self, id: &str) -> Result<KillReply, ExecError> {
        let process = self.process(id)?;
        let reply = process.kill(Duration::ZERO).await;
        if reply.survivors.is_empty() {
            self.0.processes.remove(id, &process);
        }
        Ok(reply)
    }

    /// Makes a session. Says whether it was made now.
    pub async fn create_session(
        &self,
        request: SessionRequest,
    ) -> Result<(SessionHandle, bool), ExecError> {
        check_environment(&request.env)?;
        self.0.host.cwd(request.cwd.as_deref())?;
        self.make_session(request, None).await
    }

    async fn make_session(
        &self,
        spec: SessionRequest,
        state: Option<Snapshot>,
    ) -> Result<(SessionHandle, bool), ExecError> {
        let core = &self.0;
        let id = spec.id.clone().unwrap_or_else(SessionId::generate);
        let make = async {
            let (host, owner) = (&core.host, Owner::Session(id.clone()));
            let fence = host
                .nursery
                .fence(spec.limits.as_ref(), owner, &host.events)?;
            let (channels, pool) = (&core.channels, &core.session_shells);
            let shell = fresh_shell(host, &spec, fence.as_ref(), channels, pool).await?;
            let birth = SessionBirth {
                id: id.clone(),
                spec: spec.clone(),
                fence,
                shell,
                root: core.channels.clone(),
                pool: core.session_shells.clone(),
                state,
            };
            SessionHandle::begin(core.host.clone(), Arc::downgrade(&core.sessions), birth).await
        };
        core.sessions.get_or_make(&id, &spec, Box::pin(make)).await
    }

    /// Makes a session that starts with the state of another.
    pub async fn fork_session(
        &self,
        id: &str,
        request: ForkRequest,
    ) -> Result<(SessionHandle, bool), ExecError> {
        let source = self.session(id)?;
        let state = source.snapshot().await?;
        let mut spec = source.request().clone();
        spec.id = request.id;
        self.make_session(spec, Some(state)).await
    }

    /// The session with this id.
    pub fn session(&self, id: &str) -> Result<SessionHandle, ExecError> {
        self.0
            .sessions
            .get(id)
            .ok_or_else(|| ExecError::SessionNotFound { id: id.to_owned() })
    }

    /// All sessions, oldest first.
    pub fn sessions(&self) -> Vec<SessionHandle> {
        self.0.sessions.all()
    }

    /// Ends a session with everything it started, then forgets it.
    pub async fn end_session(&self, id: &str) -> Result<KillReply, ExecError> {
        let session = self.session(id)?;
        let reply = session.end("it was deleted").await;
        self.0.sessions.remove(id, &session);
        Ok(reply)
    }

    /// Makes a terminal. Says whether it was made now.
    pub async fn create_terminal(
        &self,
        spec: TerminalRequest,
    ) -> Result<(TerminalHandle, bool), ExecError> {
        let core = &self.0;
        let program = terminal::program(&core.host, &spec)?;
        let id = spec.id.clone().unwrap_or_else(TerminalId::generate);
        let make = async {
            let running = core.terminals.all().into_iter();
            if running.filter(TerminalHandle::is_running).count() >= terminal::MAX_TERMINALS {
                let limit = terminal::MAX_TERMINALS;
                return Err(ExecError::TooManyTerminals { limit });
            }
            let weak = Arc::downgrade(&core.terminals);
            TerminalHandle::begin(core.host.clone(), weak, id.clone(), spec.clone(), program).await
        };
        core.terminals.get_or_make(&id, &spec, Box::pin(make)).await
    }

    /// The terminal with this id.
    pub fn terminal(&self, id: &str) -> Result<TerminalHandle, ExecError> {
        self.0
            .terminals
            .get(id)
            .ok_or_else(|| ExecError::TerminalNotFound { id: id.to_owned() })
    }

    /// All terminals, oldest first.
    pub fn terminals(&self) -> Vec<TerminalHandle> {
        self.0.terminals.all()
    }

    /// Ends all that was started on a terminal, then forgets it.
    pub async fn destroy_terminal(&self, id: &str) -> Result<KillReply, ExecError> {
        let terminal = self.terminal(id)?;
        let reply = terminal.kill(Duration::ZERO).await;
        if reply.survivors.is_empty() {
            self.0.terminals.remove(id, &terminal);
        }
        Ok(reply)
    }

    /// Resolves when init is gone, and with it everything that ran.
    pub fn init_lost(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut lost = self.0.host.spawner.lost();
        async move {
            let _ = lost.wait_for(|lost| *lost).await;
        }
    }

    /// Whether init, which is gone, was ended for want of memory.
    pub async fn init_was_lost_to_oom(&self) -> bool {
        let memory = self.0.host.nursery.controllers().memory.as_ref();
        oom::has_taken(memory.ok(), &self.0.init).await
    }

    /// Ends everything. What init still has to end, it ends when we are gone.
    pub async fn shutdown(&self) {
        let core = &self.0;
        let mut ending = tokio::task::JoinSet::new();
        for session in core.sessions.all() {
            ending.spawn(async move {
                session.end("the agent is shutting down").await;
            });
        }
        for process in core.processes.all() {
            ending.spawn(async move {
                process.kill(SHUTDOWN_GRACE).await;
            });
        }
        for terminal in core.terminals.all() {
            ending.spawn(async move {
                terminal.kill(SHUTDOWN_GRACE).await;
            });
        }
        while ending.join_next().await.is_some() {}
        if let Some(pool) = &core.exec_shells {
            pool.close().await;
        }
        core.session_shells.close().await;
        core.host.nursery.close();
    }
}

/// Gives a program the state of a session, and what the call changes on top of it.
fn add_state(
    program: &mut Program,
    state: &Snapshot,
    started_with: &BTreeMap<String, String>,
    spec: &ProcessRequest,
    text: &str,
) -> Result<(), ExecError> {
    let system = |errno| ExecError::system("cannot pass a session's state", errno);
    let mut script = state.restore_script_over(started_with);
    let quote = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
    if spec.cwd.is_some() {
        script.extend_from_slice(format!("builtin cd -- {}\n", quote(&program.cwd)).as_bytes());
    }
    check_environment(&spec.env)?;
    for (name, value) in &spec.env {
        let line = match value {
            Some(value) => format!("builtin export {name}={}\n", quote(value)),
            None => format!("builtin unset {name}\n"),
        };
        script.extend_from_slice(line.as_bytes());
    }
    script.extend_from_slice(format!("BASH_EXECUTION_STRING={}\n", quote(text)).as_bytes());
    let file = memfd_create("state", MemfdFlags::CLOEXEC).map_err(system)?;
    let mut rest = script.as_slice();
    while !rest.is_empty() {
        let n = rustix::io::write(&file, rest).map_err(system)?;
        rest = rest.get(n..).unwrap_or_default();
    }
    program.files.push((Arc::new(file), STATE_FD));
    Ok(())
}

/// The program of a session's shell.
fn shell_program(host: &Host, spec: &SessionRequest) -> Result<Program, ExecError> {
    let account = host.account(spec.user.as_deref())?;
    let shell = host.shell(spec.shell.as_deref())?;
    let argv = [shell.to_string_lossy().into_owned()];
    let none = BTreeMap::new();
    host.program(&argv, &account, None, &none, spec.limits.as_ref())
}

/// A shell for a session: from the pool when nothing special is asked of it.
pub(crate) async fn fresh_shell(
    host: &Host,
    spec: &SessionRequest,
    fence: Option<&Arc<Fence>>,
    channels: &Arc<ChannelRoot>,
    pool: &Pool<Shell>,
) -> Result<Shell, ExecError> {
    host.shell(spec.shell.as_deref())?;
    if spec.user.is_none()
        && spec.shell.is_none()
        && spec.limits.is_none()
        && !spec.private_processes
    {
        return pool.take().await;
    }
    let variables = host.variables.now();
    let mut program = shell_program(host, spec)?;
    program.fence = fence.cloned();
    program.private = spec.private_processes;
    Shell::start(host, channels, variables, program).await
}
