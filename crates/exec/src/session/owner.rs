//! The owner task of a session: runs its commands one after another and keeps its shell alive.
//!
//! ```text
//! idle ──command──► running ──done──► idle
//!  │ ▲                │ shell exited, was killed, or lost its completion
//!  │ └── restore ◄────┘
//!  └── end wish, idle timeout, lifetime, cannot be restored ──► ended
//! ```

mod upkeep;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use sandshell_isolate::protocol::Exit;
use sandshell_sys::task;
use sandshell_types::{CommandId, Encoded, Env, Happening, KillReply, SessionState, Truncate};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::channel::ChannelRoot;
use super::command::{CommandHandle, Outcome, SessionAfter};
use super::dialect::Dialect;
use super::interrupt::Interrupt;
use super::shell::{Message, Shell};
use super::snapshot::{Snapshot, lossless, restore_bytes};
use super::{Control, Session};
use crate::ExecError;
use crate::fence;
use crate::oom::Mark;
use crate::output::Stream;
use crate::pool::Pool;
use crate::process::{Pump, kill_all};

/// When the watchdog first looks for a lost completion, and how often after that. A look is one
/// system call on the script's pipe.
const WATCHDOG: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(500));

/// How many looks in a row must find a shell waiting for its next line. At the first it is sent an empty one; the
/// second finds that taken; what it said before it took it is heard before the third.
const LOOKS: u32 = 3;

/// A shell that has closed a command's output reports its completion within about this time.
const LINGER: Duration = Duration::from_micros(60);

/// How long a shell may take to save its state. One of 50,000 variables takes some ten seconds.
const SAVE_LIMIT: Duration = Duration::from_mins(1);

/// TERM to KILL when a session ends.
const END_GRACE: Duration = Duration::from_millis(100);

/// What the owner starts from.
pub(super) struct Start {
    pub(super) shell: Shell,
    pub(super) root: Arc<ChannelRoot>,
    pub(super) pool: Arc<Pool<Shell>>,
    pub(super) state: Option<Snapshot>,
    pub(super) controls: mpsc::Receiver<Control>,
}

struct Owner {
    session: Arc<Session>,
    shell: Shell,
    root: Arc<ChannelRoot>,
    pool: Arc<Pool<Shell>>,
    controls: mpsc::Receiver<Control>,
    /// Number of the last thing the shell was asked to report.
    seq: u64,
    /// Number under which it was last asked to save its state.
    saves: u64,
    /// When it can have begun with that.
    save_began: Instant,
    /// What the present shell was begun with, and the number under which it saves that.
    begun: (Begun, u64),
    /// Changes of the environment that were promised, and the number under which they are saved.
    owed: (Env, u64),
    /// Number of the saved state that was looked at, and whether it is plain.
    plain: Option<(u64, bool)>,
    /// Number under which what the last command changed is saved.
    changed: u64,
    /// The shell ended before that was saved, and the next command has not told of it yet.
    fell_back: bool,
    /// `$?` for the next command.
    last_status: i32,
}

/// What a shell is begun with: given again to the next, when it is killed before it has saved anything.
#[derive(Clone)]
enum Begun {
    Spec,
    State(Box<Snapshot>),
}

/// Why a session ends, and who wants to know when it has.
struct End {
    reason: String,
    reply: Option<oneshot::Sender<KillReply>>,
}

/// Who waits for a copy of the state.
type Copies = Vec<oneshot::Sender<Option<Snapshot>>>;

type InterruptReplies = Vec<oneshot::Sender<(Option<CommandId>, &'static str)>>;

/// Prepares the shell as the session's spec says and starts the task.
pub(super) async fn begin(session: Arc<Session>, start: Start) -> Result<(), ExecError> {
    let mut owner = Owner {
        session,
        shell: start.shell,
        root: start.root,
        pool: start.pool,
        controls: start.controls,
        seq: 0,
        saves: 0,
        save_began: Instant::now(),
        begun: (Begun::Spec, 0),
        owed: (Env::default(), 0),
        plain: None,
        changed: 0,
        fell_back: false,
        last_status: 0,
    };
    let with = start
        .state
        .map_or(Begun::Spec, |state| Begun::State(Box::new(state)));
    if let Err(error) = owner.prepare(with).await {
        // A failed create leaves nothing behind, not even for a moment.
        owner.shell.running.live.tree.kill(Duration::ZERO).await;
        return Err(error);
    }
    task::spawn(owner.run());
    Ok(())
}

impl Owner {
    /// Brings the shell into the state the session begins with.
    async fn prepare(&mut self, with: Begun) -> Result<(), ExecError> {
        let begun = match &with {
            Begun::State(state) => self.put_state(state).await,
            Begun::Spec => self.follow_spec().await,
        };
        self.begun = (with, self.saves);
        begun
    }

    async fn follow_spec(&mut self) -> Result<(), ExecError> {
        {
            let mut facts = self.session.facts();
            facts.state = SessionState::Idle;
            facts.cwd.clone_from(&self.shell.cwd);
        }
        let spec = self.session.spec.clone();
        self.apply_environment(&spec.env).await?;
        if let Some(cwd) = &spec.cwd {
            let cwd = self.enter(cwd).await?;
            self.session.facts().cwd = cwd;
        }
        if self.seq > 0 {
            self.save().await?;
        }
        Ok(())
    }

    async fn run(mut self) {
        let lifetime = self.session.spec.max_lifetime_ms.map(Duration::from_millis);
        let dies_at = lifetime.map(|time| Instant::now() + time);
        let mut idle_since = Instant::now();
        let end = loop {
            let idle_timeout = self.session.facts().settings.idle_timeout;
            let idle_at = idle_timeout.map(|time| idle_since + time);
            // The shell can take no command while it saves its state, and the time for that is not a command's.
            let save_over = (!self.has_tried_to_save()).then_some(self.save_began + SAVE_LIMIT);
            let ready = save_over.is_none_or(|over| over <= Instant::now());
            tokio::select! {
                biased;
                control = self.controls.recv() => {
                    if let Some(end) = self.idle_control(control).await { break end; }
                }
                () = at(dies_at) => break End::because("its maximum lifetime is over"),
                () = at(save_over), if !ready => {}
                command = self.session.queue.next(), if ready => {
                    if let Some(end) = self.execute(&command, dies_at).await { break end; }
                    idle_since = Instant::now();
                }
                _ = self.shell.line.message() => {}
                exit = &mut self.shell.running.exit => {
                    // Killed while idle, by a child or from outside.
                    let _ = exit;
                    if self.restore().await.is_err() {
                        break End::because("its shell was killed and could not be replaced");
                    }
                }
                () = at(idle_at), if ready => break End::because("it was idle for too long"),
            }
        };
        self.end(end).await;
    }

    async fn idle_control(&mut self, control: Option<Control>) -> Option<End> {
        match control? {
            Control::Interrupt { reply, .. } => {
                if let Some(reply) = reply {
                    let _ = reply.send((None, "none"));
                }
            }
            Control::Snapshot { reply } => {
                if self.wait_until_saved().await {
                    self.give(vec![reply]);
                } else if let Err(error) = self.restore().await {
                    return Some(End::because(&format!(
                        "its shell could not be replaced: {error}"
                    )));
                } else {
                    self.hand_out(vec![reply]).await;
                }
            }
            Control::Environment { changes } => self.change_environment(changes).await,
            Control::End { reason, reply } => {
                return Some(End {
                    reason,
                    reply: Some(reply),
                });
            }
        }
        None
    }

    /// Runs one command to its end. `Some` when the session ends with it.
    async fn execute(&mut self, command: &CommandHandle, dies_at: Option<Instant>) -> Option<End> {
        if !command.begin() {
            return None;
        }
        {
            let mut facts = self.session.facts();
            facts.state = SessionState::Busy;
            facts.foreground = Some(command.clone());
            facts.commands += 1;
        }
        // A shell that died unseen, or before it opened the text, ran nothing of the command:
        // another one takes over and the command is given to it, once. When it is we who lack
        // something, the shell is as it was: only the command is refused.
        for last_try in [false, true] {
            let mut copies = Copies::new();
            match self.start_command(command).await {
                Ok(mut run) => {
                    let over = self.attend(command, &mut run, dies_at).await;
                    if last_try || !matches!(over, Over::NeverStarted) {
                        return self.close(command, run, over).await;
                    }
                    copies = run.copies;
                }
                Err(error @ (ExecError::Cwd { .. } | ExecError::Unavailable { .. })) => {
                    {
                        let mut facts = self.session.facts();
                        facts.state = SessionState::Idle;
                        facts.foreground = None;
                        facts.commands -= 1;
                    }
                    self.session
                        .history()
                        .retain(|known| known.id() != command.id());
                    command.refuse(error);
                    return None;
                }
                Err(error) if last_try => {
                    // The command did not run: say so on its stderr, as a shell would.
                    let text = format!("sandshell: {error}\n");
                    command.log().append(Stream::Stderr, text.as_bytes()).await;
                    self.publish(
                        command,
                        Exit::Code(125),
                        &Run::default(),
                        SessionAfter::Kept,
                    );
                    return None;
                }
                Err(_) => {}
            }
            self.kill_shell().await;
            if let Err(error) = self.restore().await {
                self.publish(
                    command,
                    Exit::Signal(9),
                    &Run::default(),
                    SessionAfter::Ended,
                );
                return Some(End::because(&format!(
                    "its shell could not be replaced: {error}"
                )));
            }
            self.session.facts().state = SessionState::Busy;
            self.hand_out(copies).await;
        }
        None
    }

    /// Writes the text, sends the lines.
    async fn start_command(&mut self, command: &CommandHandle) -> Result<Run, ExecError> {
        let request = command.request();
        let system = |errno| ExecError::system("cannot reach the shell", errno);
        let dialect = self.shell.dialect;
        if self.shell.channel.interrupt_noted() {
            // A signal that was not ours met the idle shell; its trap would end the next command.
            self.tidy(true, "").await?;
        }
        let changes_variables = request.cwd.is_some() || !request.env.is_empty();
        let channel = &self.shell.channel;
        if changes_variables {
            let script = dialect.environment(request.env.iter());
            channel.write("v", script.as_bytes()).map_err(system)?;
        }
        if let Some(stdin) = &request.stdin {
            let bytes = Encoded::decode(stdin, request.stdin_encoding).unwrap_or_default();
            channel.replace("i", &bytes).map_err(system)?;
        }
        let debug_trap = Dialect::untuck(&lossless(&self.shell.debug_trap()));
        if let Some(script) = &debug_trap {
            channel.write("b", &restore_bytes(script)).map_err(system)?;
        }
        if self.last_status != 0 {
            let script = format!("return {}\n", self.last_status);
            channel.write("q", script.as_bytes()).map_err(system)?;
        }
        channel
            .write("command", request.command.as_bytes())
            .map_err(system)?;
        let pump = self.shell.outputs()?;
        // Up to here nothing was said to the shell, so that a command can be refused.
        let mut before = String::new();
        let mut after = String::new();
        if changes_variables {
            let mut names: Vec<&str> = request.env.keys().map(String::as_str).collect();
            if request.cwd.is_some() {
                names.push("OLDPWD");
            }
            self.shell
                .line
                .send(&dialect.note_variables(&names))
                .await
                .map_err(system)?;
            if let Some(cwd) = &request.cwd {
                let back = self.session.facts().cwd.clone();
                self.enter(cwd).await?;
                after.push_str(&dialect.back_to(&back));
            }
            before.push_str(&dialect.source("v"));
            after.push_str(&dialect.restore_variables(&names));
        }
        if debug_trap.is_some() {
            before.push_str(&dialect.source("b"));
        }
        let mark = self.session.host.nursery.mark(self.session.fence.as_ref());
        // The shell is idle: whatever it has started is in the background.
        self.session.facts().background = self.shell.children();
        self.seq = self.next_number();
        let saved_before = self.saves;
        let stays = self.stays_as_saved(&request.command) && before.is_empty();
        let mut lines =
            before + &dialect.command(self.seq, self.last_status, request.stdin.is_some());
        if !stays {
            lines.push_str(dialect.tuck());
            if after.is_empty() {
                self.saves = self.seq;
                lines.push_str(&dialect.snapshot(self.saves));
            }
        }
        self.shell.line.send(&lines).await.map_err(system)?;
        let timeout = request.timeout_ms.map(Duration::from_millis).or(self
            .session
            .facts()
            .settings
            .timeout);
        Ok(Run {
            mark: Some(mark),
            pump: Some(pump),
            deadline: timeout.map(|time| Instant::now() + time),
            saved_before,
            after,
            ..Run::default()
        })
    }

    /// Moves output and answers wishes until the command is over.
    async fn attend(
        &mut self,
        command: &CommandHandle,
        run: &mut Run,
        dies_at: Option<Instant>,
    ) -> Over {
        let Some(mut pump) = run.pump.take() else {
            return Over::Lost;
        };
        let mut watchdog = Instant::now() + WATCHDOG.0;
        let mut quiet_looks = 0;
        let over = loop {
            // The shell may still be saving the state from before this command.
            if self.shell.line.saved() >= Some(run.saved_before) {
                self.give(std::mem::take(&mut run.copies));
            }
            let live = &self.shell.running.live;
            let dialect = self.shell.dialect;
            let background = || self.session.facts().background.clone();
            let stage_over = async {
                match &run.interrupt {
                    Some(interrupt) => interrupt.stage_over().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                message = self.shell.line.message() => match message {
                    Message::Done { seq, status, cwd } if seq == self.seq => {
                        break Over::Done { status, cwd };
                    }
                    _ => {}
                },
                stream = pump.ready() => {
                    pump.transfer(stream, command.log()).await;
                    if pump.is_closed() {
                        self.shell.line.linger(LINGER);
                    }
                }
                exit = &mut self.shell.running.exit => {
                    break Over::Exited(exit.unwrap_or(Exit::Signal(9)));
                }
                control = self.controls.recv() => match control {
                    Some(Control::Interrupt { only, reply }) => {
                        if only.is_none_or(|id| id == *command.id()) {
                            run.interrupted = true;
                            run.replies.extend(reply);
                            run.interrupt.get_or_insert_with(|| Interrupt::begin(live, dialect, background()));
                        } else if let Some(reply) = reply {
                            let _ = reply.send((None, "none"));
                        }
                    }
                    Some(Control::Snapshot { reply }) => run.copies.push(reply),
                    Some(Control::Environment { changes }) => run.environment.extend(changes),
                    Some(Control::End { reason, reply }) => {
                        break Over::End(End { reason, reply: Some(reply) });
                    }
                    None => break Over::End(End::because("it was dropped")),
                },
                () = at(run.deadline) => {
                    run.deadline = None;
                    run.timed_out = true;
                    run.interrupt.get_or_insert_with(|| Interrupt::begin(live, dialect, background()));
                }
                () = stage_over => {
                    if let Some(interrupt) = &mut run.interrupt { interrupt.advance(live); }
                }
                () = at(dies_at) => break Over::End(End::because("its maximum lifetime is over")),
                () = tokio::time::sleep_until(watchdog) => {
                    // Everything read, nothing said and nothing to do: the completion is lost. One
                    // that only waits for a processor is not asleep, and one that reads its lines
                    // in advance and waits for a child does not take the empty line.
                    let quiet = self.shell.line.has_read_everything() && self.shell.is_asleep();
                    quiet_looks = if quiet { quiet_looks + 1 } else { 0 };
                    match quiet_looks {
                        // One that has gone takes no line; its end is told by itself.
                        1 => { let _ = self.shell.line.send("\n").await; }
                        LOOKS => break Over::Lost,
                        _ => {}
                    }
                    watchdog = Instant::now() + if quiet { WATCHDOG.0 / 2 } else { WATCHDOG.1 };
                }
            }
        };
        if let Some(interrupt) = &mut run.interrupt
            && !matches!(over, Over::End(_))
        {
            let finished = interrupt.finish(&self.shell.running.live);
            pump_until(finished, &mut pump, command).await;
        }
        pump.drain(command.log()).await;
        run.left_running = pump.open_streams();
        let opened = pump.was_opened();
        run.pump = Some(pump);
        match over {
            Over::Done { .. } | Over::Exited(_) | Over::Lost if !opened => Over::NeverStarted,
            over => over,
        }
    }

    /// Settles what the end of a command means for the session, then publishes its result.
    async fn close(&mut self, command: &CommandHandle, mut run: Run, over: Over) -> Option<End> {
        match over {
            Over::Done { status, cwd } => {
                self.last_status = status;
                self.save_began = Instant::now();
                if run.after.is_empty() && !cwd.is_empty() {
                    self.session.facts().cwd = cwd;
                }
                self.keep_late_output(command, &mut run);
                self.publish(command, Exit::Code(status), &run, SessionAfter::Kept);
                answer(&mut run, command);
                self.changed = if run.after.is_empty() {
                    self.saves
                } else {
                    self.seq
                };
                // The trap may also have run for a signal that the command sent to its own shell.
                let trapped = run.interrupt.is_some()
                    || (status == 130 && self.shell.channel.interrupt_noted());
                if self.tidy(trapped, &run.after).await.is_err() {
                    tracing::warn!(session = %self.session.id, "a shell died after a command");
                }
                if status == 2
                    && leaves_bash_broken(command).await
                    && let Err(error) = self.replace_shell().await
                {
                    let reason = format!("its shell could not be replaced: {error}");
                    return Some(End {
                        reason,
                        reply: None,
                    });
                }
                let changes = std::mem::take(&mut run.environment);
                self.change_environment(changes).await;
                self.hand_out(run.copies).await;
                None
            }
            Over::NeverStarted => {
                // The shell could not reach our directory, so not a byte of the command ran.
                self.kill_shell().await;
                self.settle(command, run, Exit::Code(125), true).await
            }
            Over::Lost => {
                self.kill_shell().await;
                self.settle(command, run, Exit::Signal(9), true).await
            }
            Over::Exited(exit) => self.settle(command, run, exit, false).await,
            Over::End(end) => {
                self.publish(command, Exit::Signal(9), &run, SessionAfter::Ended);
                answer(&mut run, command);
                Some(end)
            }
        }
    }

    /// The shell is gone: another one takes over its state.
    async fn settle(
        &mut self,
        command: &CommandHandle,
        mut run: Run,
        exit: Exit,
        before: bool,
    ) -> Option<End> {
        self.keep_late_output(command, &mut run);
        self.session.facts().state = SessionState::Restoring;
        let own_changes = !before && self.shell.exit_snapshot().is_some();
        let noted = self.shell.channel.read("r").unwrap_or_default();
        let mut restored = self.restore().await;
        if restored.is_ok() && own_changes && !run.after.is_empty() {
            // What held for the command only is in the state that it left.
            restored = self.undo(&noted, &run.after).await;
        }
        let after = match (&restored, own_changes) {
            (Err(_), _) => SessionAfter::Ended,
            (Ok(()), true) => SessionAfter::Restored,
            (Ok(()), false) => SessionAfter::RestoredBefore,
        };
        self.publish(command, exit, &run, after);
        answer(&mut run, command);
        match restored {
            Ok(()) => {
                let changes = std::mem::take(&mut run.environment);
                self.change_environment(changes).await;
                self.hand_out(run.copies).await;
                None
            }
            Err(error) => Some(End {
                reason: format!("its shell ended and could not be replaced: {error}"),
                reply: None,
            }),
        }
    }

    fn publish(&mut self, command: &CommandHandle, exit: Exit, run: &Run, after: SessionAfter) {
        // What the command before had changed was lost behind its answer: it ran without that.
        let after = match after {
            SessionAfter::Kept if self.fell_back => SessionAfter::RestoredBefore,
            after => after,
        };
        self.fell_back = false;
        let cwd = {
            let mut facts = self.session.facts();
            if after != SessionAfter::Ended {
                facts.state = SessionState::Idle;
            }
            facts.foreground = None;
            facts.last_used_at = Some(Timestamp::now());
            facts.cwd.clone()
        };
        // What we ended did not run out of memory.
        let by_us = run.timed_out || run.interrupted;
        let by_itself = if by_us { Exit::Code(0) } else { exit };
        let session = fence::Owner::Session(self.session.id.clone());
        let events = &self.session.host.events;
        let hit = |mark: &Mark| mark.was_hit(by_itself, events, &session);
        command.finish(Outcome {
            exit,
            timed_out: run.timed_out,
            oom: run.mark.as_ref().is_some_and(hit),
            interrupted: run.interrupted,
            left_running: run.left_running,
            cwd,
            session: after,
            duration: Duration::ZERO,
        });
    }

    /// Ends everything the session started and tells who waits.
    async fn end(self, end: End) {
        {
            let mut facts = self.session.facts();
            facts.state = SessionState::Ended;
            facts.foreground = None;
        }
        self.session.host.events.publish(Happening::SessionEnded {
            session: self.session.id.clone(),
            reason: end.reason.clone(),
        });
        self.session.ended.send_replace(Some(end.reason));
        self.session.queue.close();
        let trees = std::mem::take(&mut self.session.facts().trees);
        let total = kill_all(trees, END_GRACE).await;
        let session = self.session.clone();
        drop(self);
        if let Some(reply) = end.reply {
            let _ = reply.send(total);
        } else if let Some(sessions) = session.sessions.upgrade() {
            // Ended by itself: remembered for a while, so that its users learn why.
            sessions.finished(session.id.as_str());
        }
    }
}

/// However the owner goes, nobody is left in the queue waiting for it.
impl Drop for Owner {
    fn drop(&mut self) {
        self.session.queue.close();
    }
}

/// How a command's run came to its end.
enum Over {
    Done {
        status: i32,
        cwd: String,
    },
    Exited(Exit),
    /// The shell waits for its next line, but the completion never came.
    Lost,
    /// It came to its end without the text having been opened: nothing of it ran.
    NeverStarted,
    End(End),
}

/// A command under way.
#[derive(Default)]
struct Run {
    /// Where the accounts of memory stood before it.
    mark: Option<Mark>,
    pump: Option<Pump>,
    deadline: Option<Instant>,
    interrupt: Option<Interrupt>,
    interrupted: bool,
    timed_out: bool,
    replies: InterruptReplies,
    left_running: u32,
    /// Number under which the state from before it is saved.
    saved_before: u64,
    /// Who waits for that state.
    copies: Copies,
    /// Lines that undo what held for this command only.
    after: String,
    /// Changes that arrived meanwhile.
    environment: Env,
}

/// Moves a command's output until something else has come to its end.
async fn pump_until(over: impl Future<Output = ()>, pump: &mut Pump, command: &CommandHandle) {
    tokio::pin!(over);
    loop {
        tokio::select! {
            biased;
            () = &mut over => return,
            stream = pump.ready() => pump.transfer(stream, command.log()).await,
        }
    }
}

/// Whether a command ended in a way after which bash 5.2 aborts sooner or later: a `$(` without its
/// end, met in a sourced text, corrupts its memory. Can go when no bash before 5.3 is supported.
async fn leaves_bash_broken(command: &CommandHandle) -> bool {
    const MESSAGE: &[u8] = b"unexpected EOF while looking for matching `)'";
    let tail = command
        .log()
        .excerpt(Stream::Stderr, 1024, Truncate::Head)
        .await;
    tail.is_ok_and(|tail| {
        tail.bytes
            .windows(MESSAGE.len())
            .any(|window| window == MESSAGE)
    })
}

fn answer(run: &mut Run, command: &CommandHandle) {
    let method = run.interrupt.as_ref().map_or("none", |i| i.stage.as_str());
    for reply in run.replies.drain(..) {
        let _ = reply.send((Some(command.id().clone()), method));
    }
}

impl End {
    fn because(reason: &str) -> Self {
        Self {
            reason: reason.to_owned(),
            reply: None,
        }
    }
}

async fn at(when: Option<Instant>) {
    match when {
        Some(when) => tokio::time::sleep_until(when).await,
        None => std::future::pending().await,
    }
}
