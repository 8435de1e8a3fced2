//! Care for the shell between commands: its state saved, restored, changed and undone.
//!
//! Part of the owner; apart only so that running a command and keeping a shell can each be read in
//! one sitting.

use sandshell_types::{Env, Happening, SessionState};
use tokio::time::Instant;

use super::{Begun, Copies, Owner, Run, SAVE_LIMIT};
use crate::ExecError;
use crate::executor::fresh_shell;
use crate::session::command::CommandHandle;
use crate::session::dialect::Dialect;
use crate::session::snapshot::Snapshot;
use crate::shell_text::leaves_state_alone;
use sandshell_sys::task;

impl Owner {
    /// Ends the shell, if it has not ended already, and waits until it is gone.
    pub(super) async fn kill_shell(&mut self) {
        let _ = sandshell_sys::signal::send(&self.shell.running.live.pidfd, 9);
        let _ = crate::tree::ended(&self.shell.running.live.pidfd).await;
    }

    /// Has another shell take over from one that still runs.
    pub(super) async fn replace_shell(&mut self) -> Result<(), ExecError> {
        self.wait_until_saved().await;
        self.kill_shell().await;
        self.restore().await
    }

    /// Takes another shell and gives it the state of the one that ended.
    pub(super) async fn restore(&mut self) -> Result<(), ExecError> {
        let _ = self.shell.line.last_words();
        let saved = self.shell.line.saved();
        let state = self.shell.exit_snapshot().or_else(|| {
            self.fell_back |= saved.max(Some(self.begun.1)) < Some(self.changed);
            self.saved_state()
        });
        let state = match state {
            Some(state) => Some(Begun::State(Box::new(state))),
            // Killed before it had saved anything: the next begins as it did.
            None if saved < Some(self.begun.1) => Some(self.begun.0.clone()),
            None => None,
        };
        let owed = if saved < Some(self.owed.1) {
            std::mem::take(&mut self.owed.0)
        } else {
            Env::default()
        };
        let session = &self.session;
        let mut spec = session.spec.clone();
        spec.limits.clone_from(&session.facts().limits);
        let fence = session.fence.as_ref();
        let fresh = fresh_shell(&session.host, &spec, fence, &self.root, &self.pool).await?;
        let former = std::mem::replace(&mut self.shell, fresh);
        {
            let mut facts = self.session.facts();
            facts
                .trees
                .retain(|live| live.tree.members() != Ok(Vec::new()));
            facts.trees.push(self.shell.running.live.clone());
            facts.pid = self.shell.running.pid;
            facts.restores += 1;
        }
        self.session
            .host
            .events
            .publish(Happening::SessionRestored {
                session: self.session.id.clone(),
                restores: self.session.facts().restores,
            });
        drop(former);
        self.last_status = 0;
        self.seq = 0;
        self.saves = 0;
        self.owed = (Env::default(), 0);
        self.plain = None;
        self.changed = 0;
        match state {
            Some(state) => self.prepare(state).await?,
            None => return Err(ExecError::internal("its state was not saved")),
        }
        self.change_environment(owed).await;
        Ok(())
    }

    /// Undoes in a fresh shell what held for one command only.
    pub(super) async fn undo(&mut self, noted: &[u8], after: &str) -> Result<(), ExecError> {
        let system = |errno| ExecError::system("cannot reach the shell", errno);
        self.shell.channel.write("r", noted).map_err(system)?;
        self.wait_until_saved().await;
        self.seq = self.next_number();
        let lines = after.to_owned() + &self.shell.dialect.completion(self.seq);
        self.shell.line.send(&lines).await.map_err(system)?;
        let (_, cwd) = self
            .shell
            .answer(self.seq)
            .await
            .ok_or(ExecError::ShellLost)?;
        self.session.facts().cwd = cwd;
        self.save().await
    }

    pub(super) async fn put_state(&mut self, state: &Snapshot) -> Result<(), ExecError> {
        let system = |errno| ExecError::system("cannot reach the shell", errno);
        let session = &self.session;
        let account = session.host.account(session.spec.user.as_deref())?;
        let script = state.restore_script_over(&session.host.environment(&account));
        self.shell
            .channel
            .write("restore", &script)
            .map_err(system)?;
        self.shell
            .channel
            .write("d", state.debug_trap())
            .map_err(system)?;
        self.seq = self.next_number();
        let dialect = self.shell.dialect;
        let lines = dialect.source("restore") + &dialect.completion(self.seq);
        self.shell.line.send(&lines).await.map_err(system)?;
        let (_, cwd) = self
            .shell
            .answer(self.seq)
            .await
            .ok_or(ExecError::ShellLost)?;
        {
            let mut facts = self.session.facts();
            facts.state = SessionState::Idle;
            facts.cwd = cwd;
        }
        self.save().await
    }

    pub(super) async fn apply_environment(&mut self, changes: &Env) -> Result<(), ExecError> {
        if changes.is_empty() {
            return Ok(());
        }
        let system = |errno| ExecError::system("cannot reach the shell", errno);
        let script = self.shell.dialect.environment(changes.iter());
        self.shell
            .channel
            .write("u", script.as_bytes())
            .map_err(system)?;
        self.seq = self.next_number();
        let lines = self.shell.dialect.source("u") + &self.shell.dialect.completion(self.seq);
        self.shell.line.send(&lines).await.map_err(system)?;
        self.shell
            .answer(self.seq)
            .await
            .map(|_| ())
            .ok_or(ExecError::ShellLost)
    }

    /// Enters a directory; the answer is what the shell calls it.
    pub(super) async fn enter(&mut self, dir: &str) -> Result<String, ExecError> {
        self.seq = self.next_number();
        let line = self.shell.dialect.enter(dir, self.seq);
        self.shell
            .line
            .send(&line)
            .await
            .map_err(|errno| ExecError::system("cannot reach the shell", errno))?;
        let (status, cwd) = self
            .shell
            .answer(self.seq)
            .await
            .ok_or(ExecError::ShellLost)?;
        if status != 0 {
            return Err(ExecError::Cwd {
                path: dir.to_owned(),
                reason: "it does not exist or cannot be entered".to_owned(),
            });
        }
        Ok(cwd)
    }

    /// The next number: one under which a state does not go into the file of the last that was saved.
    pub(super) fn next_number(&self) -> u64 {
        let next = self.seq + 1;
        let saved = self.shell.line.saved().unwrap_or_default();
        next + u64::from(next % 2 == saved % 2)
    }

    /// Has the state saved under the present number; does not wait for it.
    pub(super) async fn save(&mut self) -> Result<(), ExecError> {
        self.saves = self.seq;
        self.save_began = Instant::now();
        let line = self.shell.dialect.snapshot(self.saves);
        self.shell
            .line
            .send(&line)
            .await
            .map_err(|errno| ExecError::system("cannot reach the shell", errno))
    }

    /// The last state that is safe: the one the shell has saved, or was given.
    pub(super) fn saved_state(&self) -> Option<Snapshot> {
        if self.shell.line.saved() >= Some(self.begun.1) {
            return self.shell.snapshot();
        }
        match &self.begun.0 {
            Begun::State(state) => Some((**state).clone()),
            Begun::Spec => None,
        }
    }

    /// Gives the state after the last command to those who wait for it.
    pub(super) async fn hand_out(&mut self, copies: Copies) {
        if copies.is_empty() {
            return;
        }
        self.wait_until_saved().await;
        self.give(copies);
    }

    /// Gives them what is saved now.
    pub(super) fn give(&self, copies: Copies) {
        for reply in copies {
            let _ = reply.send(self.saved_state());
        }
    }

    /// Changes variables for good: what a shell has not saved when it dies, the next is told again.
    pub(super) async fn change_environment(&mut self, changes: Env) {
        if changes.is_empty() {
            return;
        }
        if self.shell.line.saved() >= Some(self.owed.1) {
            self.owed.0.clear();
        }
        self.owed.0.extend(changes.clone());
        self.wait_until_saved().await;
        let changed = self.apply_environment(&changes).await;
        self.owed.1 = self.seq;
        if changed.is_err() || self.save().await.is_err() {
            tracing::warn!(session = %self.session.id, "a change of the environment met a dead shell");
        }
    }

    /// Whether the shell is done with saving the state after the last command.
    pub(super) fn has_tried_to_save(&self) -> bool {
        self.shell.line.tried() >= Some(self.saves)
    }

    /// Waits until the state after the last command is saved; `false` when the shell is gone instead.
    /// What takes too long is not waited for: then the last state that was saved is taken.
    pub(super) async fn wait_until_saved(&mut self) -> bool {
        let live = self.shell.running.live.clone();
        let over = self.save_began + SAVE_LIMIT;
        while !self.has_tried_to_save() {
            tokio::select! {
                biased;
                _ = self.shell.line.message() => {}
                _ = crate::tree::ended(&live.pidfd) => return false,
                () = tokio::time::sleep_until(over) => return true,
            }
        }
        true
    }

    /// Puts back what the interrupt trap overwrote and what held for the command only, then saves
    /// the state.
    pub(super) async fn tidy(&mut self, trapped: bool, after: &str) -> Result<(), ExecError> {
        if !trapped && after.is_empty() {
            return Ok(());
        }
        let system = |errno| ExecError::system("cannot reach the shell", errno);
        let dialect = self.shell.dialect;
        let mut lines = String::new();
        if trapped {
            let noted = self.shell.channel.read("t").unwrap_or_default();
            let noted = String::from_utf8_lossy(&noted);
            let script = dialect.after_interrupt(&noted);
            // Apart from the one that the shell may have begun with what the interrupt left.
            self.seq = self.next_number();
            self.shell
                .channel
                .write("u", script.as_bytes())
                .map_err(system)?;
            lines.push_str(&dialect.end_interrupt(&noted));
            if Dialect::has_debug_trap(&noted) {
                lines.push_str(dialect.tuck());
            }
        }
        lines.push_str(after);
        self.shell.line.send(&lines).await.map_err(system)?;
        self.save().await
    }

    /// A child left behind holds the output: it keeps that pipe, as the command's late output, and
    /// the next command gets fresh ones.
    pub(super) fn keep_late_output(&self, command: &CommandHandle, run: &mut Run) {
        let Some(mut pump) = run.pump.take() else {
            return;
        };
        if pump.is_closed() {
            return;
        }
        if let Err(errno) = self.shell.channel.rotate() {
            tracing::warn!(%errno, session = %self.session.id, "cannot make fresh output channels");
        }
        let session = self.session.clone();
        let late = command
            .late_log_or(|| session.log(&format!("{}.{}.late", session.id, command.id()), 0));
        let command = command.clone();
        task::spawn(async move {
            while let Some(stream) = pump.ready_or_closed().await {
                pump.transfer(stream, &late).await;
            }
            late.end();
            drop(command);
        });
    }

    /// Whether the saved state will still hold after this text, so that saving again can be spared.
    pub(super) fn stays_as_saved(&mut self, text: &str) -> bool {
        let saved = self.shell.line.saved();
        if saved != Some(self.saves) || !leaves_state_alone(text) {
            return false;
        }
        match self.plain {
            Some((number, plain)) if number == self.saves => plain,
            _ => {
                let plain = self.shell.snapshot().is_some_and(|state| state.is_plain());
                self.plain = Some((self.saves, plain));
                plain
            }
        }
    }
}
