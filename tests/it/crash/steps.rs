//! Steps: what is asked of a hub, what came of it, and how the model follows.

use std::time::Duration;

use sandshell_client::types::{
    ErrorCode, ProcessRequest, SandboxId, SandboxRecord, SandboxState, Scope, SessionExecRequest,
    SessionId, TokenCreated, TokenRequest, WaitRequest,
};
use sandshell_client::{ClientError, SandboxFilter};

use super::in_time;
use super::model::{self, PRINTED, Wish};
use super::points::{ANY, Kind, Moment, Point, Trap, Victim};
use super::world::World;
use crate::calls::exec_of;

/// How long what was armed may take after the answer.
const AFTERWARDS: Duration = Duration::from_millis(30);

/// The idle time of what is to fall asleep.
const IDLE_MS: u64 = 20;

/// Between two looks at a record. Mostly the first look sees what is waited for, so that a hub makes as
/// many calls each time.
const LOOK: Duration = Duration::from_millis(150);

/// What came of a wish.
#[derive(Debug)]
pub(super) enum Answer {
    Done(Reply),
    /// The connection broke.
    Broken,
    Refused(ErrorCode, String),
}

#[derive(Debug)]
pub(super) enum Reply {
    Record(Box<SandboxRecord>),
    Token(Box<TokenCreated>),
    /// What a command printed.
    Printed(String),
    Nothing,
}

impl World {
    /// One step that nothing happens to.
    pub(super) async fn step(&mut self, wish: &Wish) {
        self.note(format!("{wish:?}"));
        match self.ask(wish).await {
            Answer::Done(reply) => self.done(wish, reply),
            other => panic!("{wish:?}: {other:?}"),
        }
        self.machine.note_places();
    }

    /// Has the hub die somewhere in a step of any kind; gives the wish that was cut short, if one was.
    pub(super) async fn die_somewhere(&mut self) -> Option<Wish> {
        let point = Point {
            during: self.any_kind(),
            trap: Trap {
                call: ANY.to_owned(),
                nth: 1 + u32::try_from(self.random.below(40)).unwrap(),
                moment: Moment::Before,
                victim: Victim::Hub,
            },
        };
        let (wish, answer, sprung) = self.trapped(&point).await;
        if !sprung {
            self.kill().await;
        }
        match answer {
            Answer::Done(reply) => {
                self.done(&wish, reply);
                None
            }
            Answer::Broken => Some(wish),
            Answer::Refused(code, text) => panic!("{wish:?}: {code:?}, {text}"),
        }
    }

    /// A step of this kind whose calls are listened to.
    pub(super) async fn listen(&mut self, kind: Kind) {
        let wish = self.wish(kind).await;
        self.pool_full().await;
        self.tracer().arm(None);
        self.step(&wish).await;
        let answered = self.tracer().heard();
        self.pool_full().await;
        // What goes over connections from now on is our own asking.
        let mut heard = self.tracer().heard();
        heard.retain(|call, _| !call.ends_with(" socket") || call.contains("msg"));
        heard.extend(
            answered
                .into_iter()
                .filter(|(call, _)| !heard.contains_key(call))
                .collect::<Vec<_>>(),
        );
        self.hear(kind, heard);
    }

    /// Takes a step with a trap in its way. Gives the wish, what came of it, and whether the trap sprang.
    pub(super) async fn trapped(&mut self, point: &Point) -> (Wish, Answer, bool) {
        let wish = self.wish(point.during).await;
        self.pool_full().await;
        self.note(format!("{wish:?}, {point}"));
        self.tracer().arm(Some(point.trap.clone()));
        let answer = self.ask(&wish).await;
        if !self.tracer().has_sprung() {
            // What is done after the answer: the pool is filled again, a connection is closed.
            self.pool_full().await;
            let _ = tokio::time::timeout(AFTERWARDS, self.tracer().sprung()).await;
        }
        let sprung = self.tracer().disarm();
        if sprung && point.trap.victim != Victim::Launcher {
            self.ended().await;
            self.wake_orphans();
        }
        (wish, answer, sprung)
    }

    /// Sends a wish.
    pub(super) async fn ask(&self, wish: &Wish) -> Answer {
        match in_time(self.send(wish)).await {
            Ok(reply) => Answer::Done(reply),
            Err(error) => match error.code() {
                Some(code) => Answer::Refused(code, error.to_string()),
                None => Answer::Broken,
            },
        }
    }

    async fn send(&self, wish: &Wish) -> Result<Reply, ClientError> {
        let client = &self.client;
        let record = |record: SandboxRecord| Reply::Record(Box::new(record));
        let keyed = |id: &SandboxId| {
            let keyed = client.sandbox(id).idempotent(&wish.key(&self.model));
            keyed.expect("the key is a header's value")
        };
        Ok(match wish {
            Wish::Create(spec) => record(client.create_sandbox(spec).await?),
            Wish::Again(id) => {
                let spec = &self.model.live[id].spec;
                record(client.create_sandbox(spec).await?)
            }
            Wish::Label(id, value) => record(client.patch_sandbox(id, &model::label(value)).await?),
            Wish::Limit(id, pids) => record(client.patch_sandbox(id, &model::limit(*pids)).await?),
            Wish::Pause(id) => record(client.pause_sandbox(id).await?),
            Wish::Resume(id) => record(client.resume_sandbox(id).await?),
            Wish::Sleep(id) => {
                let short = model::idle_timeout(IDLE_MS);
                client.patch_sandbox(id, &short).await?;
                self.until(id, |state| state == SandboxState::Asleep)
                    .await?;
                // Once it is awake, it is not to sleep again by itself.
                let never = model::idle_timeout(0);
                record(client.patch_sandbox(id, &never).await?)
            }
            Wish::KeepAlive(id) => record(client.keep_sandbox_alive(id).await?),
            Wish::MakeToken(id, name) => {
                let request = TokenRequest {
                    name: Some(name.clone()),
                    scopes: vec![Scope::Sandbox(id.clone())],
                    expires_at: None,
                    max_sandboxes: None,
                };
                Reply::Token(Box::new(client.create_token(&request).await?))
            }
            Wish::RevokeToken(id) => {
                client.revoke_token(id).await?;
                Reply::Nothing
            }
            Wish::Exec(id) => {
                let command = append(self.model.live[id].lines + 1);
                Reply::Printed(keyed(id).exec(&exec_of(&command)).await?.stdout)
            }
            Wish::Process(id, process) => {
                let command = append(self.model.live[id].lines + 1);
                let request = ProcessRequest {
                    id: Some(process.clone()),
                    command: Some(format!("{command}; seq 1 {PRINTED}")),
                    ..ProcessRequest::default()
                };
                client.sandbox(id).create_process(&request).await?;
                // It has appended its line once it is over.
                let request = WaitRequest::default();
                client.sandbox(id).wait_process(process, &request).await?;
                Reply::Nothing
            }
            Wish::Command(id) => {
                let command = append(self.model.live[id].lines + 1);
                let request = SessionExecRequest {
                    command: format!("{command}; echo $((++counted))"),
                    ..SessionExecRequest::default()
                };
                let ran = keyed(id).session_exec(&session(), &request).await?;
                Reply::Printed(ran.stdout)
            }
            Wish::Delete(id) => record(client.destroy_sandbox(id).await?),
            Wish::Expire(id) => {
                match client.patch_sandbox(id, &model::lifetime(1)).await {
                    // It was asked before, and is over meanwhile.
                    Err(error) if error.code() == Some(ErrorCode::SandboxGone) => {}
                    answer => drop(answer?),
                }
                record(self.until(id, SandboxState::is_over).await?)
            }
            Wish::List => {
                client.sandboxes(&SandboxFilter::default()).await?;
                Reply::Nothing
            }
        })
    }

    /// The record, once its state is that.
    async fn until(
        &self,
        id: &SandboxId,
        is_so: impl Fn(SandboxState) -> bool,
    ) -> Result<SandboxRecord, ClientError> {
        loop {
            tokio::time::sleep(LOOK).await;
            let record = self.client.get_sandbox(id).await?;
            if is_so(record.state) {
                return Ok(record);
            }
        }
    }

    /// Has the model follow what was answered.
    pub(super) fn done(&mut self, wish: &Wish, reply: Reply) {
        let model = &mut self.model;
        match (wish, reply) {
            (Wish::Create(spec), Reply::Record(record)) => {
                if spec.id.is_none() {
                    let fresh = model.given.insert(record.id.clone());
                    assert!(fresh, "the id {} was given before", record.id);
                }
                model.born(&record.id, spec);
            }
            (Wish::Label(id, value), Reply::Record(record)) => {
                let labels = &mut model.of(id).labels;
                labels.insert("n".to_owned(), value.clone());
                assert_eq!(record.spec.labels, *labels);
            }
            (Wish::Limit(id, pids), _) => model.of(id).pids = Some(*pids),
            (Wish::Pause(id), _) => model.of(id).state = SandboxState::Paused,
            (Wish::Resume(id), _) => model.of(id).state = SandboxState::Ready,
            (Wish::Sleep(id), Reply::Record(record)) => {
                assert_eq!(record.state, SandboxState::Asleep, "{record:?}");
                model.of(id).state = record.state;
            }
            (Wish::MakeToken(id, _), Reply::Token(made)) => {
                let born = model.of(id).born;
                model.tokens.push(model::Token {
                    id: made.record.id,
                    secret: made.token,
                    sandbox: id.clone(),
                    born,
                    revoked: false,
                });
            }
            (Wish::RevokeToken(id), _) => {
                let token = model.tokens.iter_mut().find(|token| token.id == *id);
                token.expect("it was made").revoked = true;
            }
            (Wish::Exec(id), Reply::Printed(text)) => {
                assert_eq!(text, "", "of {wish:?}");
                let one = model.of(id);
                one.lines += 1;
                one.state = SandboxState::Ready;
            }
            (Wish::Process(id, process), _) => {
                let one = model.of(id);
                one.lines += 1;
                one.processes.push(process.clone());
            }
            (Wish::Command(id), Reply::Printed(text)) => {
                let one = model.of(id);
                one.lines += 1;
                let counted = one.counted.map_or(1, |counted| counted + 1);
                assert_eq!(text, format!("{counted}\n"), "of {wish:?}");
                one.counted = Some(counted);
            }
            (Wish::Delete(id), _) => model.died(id),
            (Wish::Expire(id), Reply::Record(record)) => {
                let reason = record.reason.as_deref();
                assert_eq!(reason, Some("its lifetime is over"), "{record:?}");
                model.died(id);
            }
            (Wish::Again(_) | Wish::KeepAlive(_) | Wish::List, _) => {}
            (wish, reply) => panic!("{wish:?} was answered with {reply:?}"),
        }
    }
}

/// Appends a line, in one write.
fn append(line: u32) -> String {
    format!("echo {line} >> /tmp/lines")
}

pub(super) fn session() -> SessionId {
    "s".parse().unwrap()
}
