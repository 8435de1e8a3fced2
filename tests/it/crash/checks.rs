//! What must hold after a crash: first of the wish that was in flight, then of everything.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use sandshell_client::types::{
    ErrorCode, SandboxId, SandboxRecord, SandboxSpec, SandboxState, StreamName,
};
use sandshell_client::{AuditFilter, OutputQuery, Page, SandboxFilter};

use super::in_time;
use super::machine::Sight;
use super::model::{self, Living, PRINTED, Wish};
use super::steps::{Answer, session};
use super::world::{WARM, World};
use crate::calls::exec_of;

/// Processes a sandbox may have that says nothing of it.
const USUAL_PIDS: u64 = 1024;

/// How long the machine may take to show what the hub says.
const SOON: Duration = Duration::from_secs(150);

impl World {
    /// Sees to it that a wish that was cut short is done or not done, never half, and has it done.
    pub(super) async fn settle(&mut self, wish: &Wish) {
        match wish {
            Wish::Create(spec) => self.settle_create(spec).await,
            Wish::Label(id, value) => {
                let found = self.live_record(id).await.expect("it lives");
                let before = &self.model.live[id].labels;
                let after = BTreeMap::from([("n".to_owned(), value.clone())]);
                let labels = &found.spec.labels;
                assert!(labels == before || *labels == after, "{labels:?}");
            }
            Wish::Limit(id, pids) => {
                let found = self.live_record(id).await.expect("it lives");
                let recorded = found.spec.limits.and_then(|limits| limits.pids);
                let before = self.model.live[id].pids;
                assert!(
                    recorded == before || recorded == Some(*pids),
                    "{recorded:?}"
                );
                // What the kernel keeps is what the record says, before it is set again.
                self.model.of(id).pids = recorded;
                self.sight_agrees().await;
            }
            Wish::Pause(id) | Wish::Resume(id) | Wish::Exec(id) => {
                let found = self.live_record(id).await.expect("it lives");
                let before = self.model.live[id].state;
                let after = match wish {
                    Wish::Pause(_) => SandboxState::Paused,
                    _ => SandboxState::Ready,
                };
                assert!(
                    found.state == before || found.state == after,
                    "{id} was {before:?} and is {:?}",
                    found.state
                );
                // It is frozen if its record says so, before it is asked again.
                self.model.of(id).state = found.state;
                self.sight_agrees().await;
            }
            Wish::Sleep(id) => {
                // Its time may still be short, so that it falls asleep at any moment.
                let found = self.live_record(id).await.expect("it lives");
                assert!(
                    matches!(found.state, SandboxState::Ready | SandboxState::Asleep),
                    "{id} is {:?}",
                    found.state
                );
            }
            Wish::MakeToken(_, name) => {
                let page = Page::default();
                let tokens = in_time(self.client.tokens(&page)).await.unwrap().items;
                let named = tokens
                    .into_iter()
                    .filter(|token| token.name.as_ref() == Some(name));
                let made: Vec<String> = named.map(|token| token.id).collect();
                assert!(made.len() <= 1, "{made:?}");
                for id in made {
                    // Nobody knows its secret.
                    in_time(self.client.revoke_token(&id)).await.unwrap();
                }
            }
            Wish::Delete(id) => {
                let found = in_time(self.client.get_sandbox(id)).await.unwrap();
                match found.state {
                    SandboxState::Gone => assert!(found.reason.is_some(), "{found:?}"),
                    other => assert_eq!(other, self.model.live[id].state, "{id}"),
                }
            }
            Wish::Expire(id) => {
                let found = in_time(self.client.get_sandbox(id)).await.unwrap();
                match found.state {
                    // Nobody needs to ask again.
                    SandboxState::Destroying | SandboxState::Gone => {}
                    other => assert_eq!(other, self.model.live[id].state, "{id}"),
                }
            }
            Wish::Again(_)
            | Wish::KeepAlive(_)
            | Wish::RevokeToken(_)
            | Wish::Process(..)
            | Wish::Command(_)
            | Wish::List => {}
        }
        self.step(wish).await;
    }

    async fn settle_create(&mut self, spec: &SandboxSpec) {
        if let Some(id) = &spec.id {
            if let Some(found) = self.live_record(id).await {
                assert_eq!(found.state, SandboxState::Ready, "{found:?}");
                assert_eq!(found.spec.labels, spec.labels, "of a create cut short");
                assert_eq!(found.spec.env, spec.env, "of a create cut short");
            }
            return;
        }
        // Nobody was told its id; there is at most one.
        let known = &self.model.live;
        let records = self.records().await.into_iter();
        let strangers: Vec<SandboxId> = records
            .filter(|record| !record.state.is_over() && !known.contains_key(&record.id))
            .map(|record| record.id)
            .collect();
        assert!(strangers.len() <= 1, "{strangers:?}");
        for id in strangers {
            assert!(self.model.given.insert(id.clone()), "{id} was given before");
            self.model.born(&id, spec);
            self.step(&Wish::Delete(id)).await;
        }
    }

    async fn live_record(&self, id: &SandboxId) -> Option<SandboxRecord> {
        match in_time(self.client.get_sandbox(id)).await {
            Ok(record) => Some(record).filter(|record| !record.state.is_over()),
            Err(error) => {
                assert_eq!(error.code(), Some(ErrorCode::SandboxNotFound), "{error}");
                None
            }
        }
    }

    async fn records(&self) -> Vec<SandboxRecord> {
        let filter = SandboxFilter {
            state: Some("all".to_owned()),
            ..SandboxFilter::default()
        };
        in_time(self.client.sandboxes(&filter)).await.unwrap().items
    }

    /// Everything the hub has said is so.
    pub(super) async fn check(&mut self) {
        self.orphans_gone().await;
        self.records_agree().await;
        for (id, one) in &self.model.live {
            match one.state {
                SandboxState::Ready => self.answers(id, one).await,
                SandboxState::Paused => self.is_paused(id).await,
                // Being asked would wake it.
                _ => {}
            }
        }
        self.tokens_agree().await;
        self.audit_agrees().await;
        self.pool_full().await;
        self.sight_agrees().await;
        self.state_is_tidy();
        let launchers = self.tracer().launchers().len();
        // One that was killed is replaced when it is needed.
        assert!(launchers <= 1, "{launchers} launchers of one hub");
        self.wake_some().await;
    }

    /// Half of those that sleep are woken and have what was done in them. The others sleep on, so that
    /// what comes next finds some.
    async fn wake_some(&mut self) {
        let living = self.model.live.values();
        let asleep = living.filter(|one| one.state == SandboxState::Asleep);
        let ids: Vec<SandboxId> = asleep.filter_map(|one| one.spec.id.clone()).collect();
        for id in ids {
            if self.random.below(2) == 0 {
                self.step(&Wish::Exec(id.clone())).await;
                self.answers(&id, &self.model.live[&id]).await;
            }
        }
    }

    async fn records_agree(&self) {
        let mut live = BTreeSet::new();
        for record in self.records().await {
            if record.state.is_over() {
                assert!(
                    record.reason.is_some(),
                    "it is over without a reason: {record:?}"
                );
                assert!(record.ended_at.is_some(), "{record:?}");
                assert_eq!(record.state, SandboxState::Gone, "{record:?}");
                continue;
            }
            let one = self.model.live.get(&record.id);
            let one = one.unwrap_or_else(|| panic!("nobody made {record:?}"));
            assert_eq!(record.state, one.state, "{record:?}");
            assert_eq!(record.spec.labels, one.labels, "{record:?}");
            assert_eq!(record.spec.env, one.spec.env, "{record:?}");
            let limits = record.spec.limits.as_ref();
            assert_eq!(
                limits.and_then(|limits| limits.pids),
                one.pids,
                "{record:?}"
            );
            live.insert(record.id);
        }
        let expected: BTreeSet<SandboxId> = self.model.live.keys().cloned().collect();
        assert_eq!(live, expected, "what lives");
        for id in self.model.gone.keys() {
            let gone = in_time(self.client.sandbox(id).exec(&exec_of("echo"))).await;
            let code = gone.expect_err("it is gone").code();
            assert_eq!(code, Some(ErrorCode::SandboxGone), "{id}");
        }
    }

    async fn is_paused(&self, id: &SandboxId) {
        let refused = in_time(self.client.sandbox(id).exec(&exec_of("echo"))).await;
        let code = refused.expect_err("it is paused").code();
        assert_eq!(code, Some(ErrorCode::SandboxPaused), "{id}");
    }

    /// A sandbox has what was done in it, once.
    async fn answers(&self, id: &SandboxId, one: &Living) {
        let inside = self.client.sandbox(id);
        let seen = in_time(inside.exec(&exec_of("hostname; cat /tmp/lines; true")))
            .await
            .unwrap_or_else(|error| panic!("{id} does not answer: {error}"));
        let expected = format!("{id}\n{}", model::lines(one.lines));
        assert_eq!(seen.stdout, expected, "the lines in {id}; {}", seen.stderr);
        if let Some(counted) = one.counted {
            let request = sandshell_client::types::SessionExecRequest {
                command: "echo ${counted-0}".to_owned(),
                ..Default::default()
            };
            let seen = in_time(inside.session_exec(&session(), &request)).await;
            assert_eq!(
                seen.unwrap().stdout,
                format!("{counted}\n"),
                "counted in {id}"
            );
        }
        let whole = model::lines(PRINTED);
        for process in one.processes.iter().rev().take(2) {
            for offset in [0, whole.len() / 2] {
                let query = OutputQuery {
                    offset: offset as u64,
                    ..OutputQuery::follow(StreamName::Stdout)
                };
                let output = in_time(inside.process_output(process, query))
                    .await
                    .unwrap();
                let output = in_time(output.read_to_end()).await.unwrap();
                assert_eq!(
                    String::from_utf8_lossy(&output),
                    whole[offset..],
                    "{process} of {id} from {offset} on"
                );
            }
        }
    }

    async fn tokens_agree(&self) {
        for token in &self.model.tokens {
            let client = self.client_with(&token.secret);
            let answer = in_time(client.get_sandbox(&token.sandbox)).await;
            let code = answer.err().map(|error| error.code());
            let expected = match (token.revoked, self.model.shows(token)) {
                (true, _) => Some(Some(ErrorCode::Unauthorized)),
                (false, true) => None,
                (false, false) => Some(Some(ErrorCode::SandboxNotFound)),
            };
            assert_eq!(code, expected, "{token:?}");
        }
    }

    /// Births and ends take turns in the log, and it ends as things are.
    async fn audit_agrees(&self) {
        let filter = AuditFilter {
            page: Page {
                limit: Some(1000),
                cursor: None,
            },
            ..AuditFilter::default()
        };
        let log = in_time(self.client.audit(&filter)).await.unwrap();
        assert!(log.next_cursor.is_none(), "a world is shorter than that");
        let mut alive = BTreeSet::new();
        for entry in log.items.iter().rev().filter(|entry| entry.outcome == "ok") {
            let target = entry.target.clone().unwrap_or_default();
            match entry.action.as_str() {
                "sandbox.create" => assert!(alive.insert(target), "born twice: {entry:?}"),
                "sandbox.destroy" | "sandbox.fail" => {
                    assert!(alive.remove(&target), "ended twice: {entry:?}");
                }
                _ => {}
            }
        }
        let live: BTreeSet<String> = self.model.live.keys().map(ToString::to_string).collect();
        assert_eq!(alive, live, "by the audit log");
    }

    /// The machine shows what the model says: soon, for the pool fills by itself and the dead need a
    /// moment.
    pub(super) async fn sight_agrees(&mut self) {
        let count = self.model.live.len() + WARM;
        let frozen = self.model.frozen();
        let limits = self.model.live.values().map(|one| one.pids);
        let mut pids: Vec<String> = limits
            .chain([None; WARM])
            .map(|pids| pids.unwrap_or(USUAL_PIDS).to_string())
            .collect();
        pids.sort();
        // An ordinary user's hub may have no groups, and then it has nothing to freeze or to limit by. Any
        // other is asked to pause and to limit, so it has them.
        let groupless = self.user.is_some();
        let agrees = |sight: &Sight| {
            let whole = sight.directories.len() == count
                && sight.agents == sight.directories
                && sight.shared_ids == 0;
            let grouped =
                sight.grouped == sight.directories && sight.frozen == frozen && sight.pids == pids;
            whole && (grouped || (groupless && sight.grouped.is_empty()))
        };
        let deadline = tokio::time::Instant::now() + SOON;
        loop {
            let sight = self.machine.look();
            if agrees(&sight) {
                return;
            }
            assert!(
                tokio::time::Instant::now() < deadline,
                "the machine shows {sight:#?}\nexpected: {count} sandboxes ({WARM} warm), {frozen} frozen, \
                 pids {pids:?}"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Ends the hub with all its sandboxes, and sees that nothing is left.
    pub(super) async fn finish(&mut self) {
        self.kill().await;
        self.orphans_gone().await;
        let more = ["--destroy-on-exit"];
        match self.start(super::points::Kind::Start, None, &more).await {
            Ok(served) => assert!(served, "a hub does not start again at the end"),
            // Where nothing can be traced, no hub was started before either.
            Err(errno) if super::forbidden(errno) => return,
            Err(errno) => panic!("{errno}"),
        }
        self.tracer().signal(rustix::process::Signal::TERM);
        let how = self.ended().await;
        assert_eq!(how, "exit code 0");
        let deadline = tokio::time::Instant::now() + SOON;
        loop {
            let (sight, processes) = (self.machine.look(), self.machine.processes());
            if sight == Sight::default() && processes.is_empty() {
                break;
            }
            assert!(
                tokio::time::Instant::now() < deadline,
                "left: {sight:#?}, processes {processes:?}"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.state_is_tidy();
    }

    /// The state directory has what belongs there.
    fn state_is_tidy(&self) {
        let (strays, etcs) = self.machine.strays();
        assert!(strays.is_empty(), "left in the state directory: {strays:?}");
        // One for each that lived when the hub started, one of a create cut short, and the hub's own.
        assert!(etcs <= self.started_with + 2, "{etcs} copies of /etc");
    }

    /// A launcher was killed: the hub may have refused the wish, and goes on.
    pub(super) async fn settle_with_hub(&mut self, wish: &Wish, answer: Answer) {
        match answer {
            Answer::Done(reply) => self.done(wish, reply),
            Answer::Refused(..) => self.settle(wish).await,
            Answer::Broken => panic!("the hub broke a connection though only its launcher died"),
        }
    }
}
