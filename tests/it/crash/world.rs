//! One hub with its sandboxes, the model of it, and the steps that are taken with both.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use nix::errno::Errno;
use rustix::process::Signal;
use sandshell_client::types::{
    ErrorCode, ProcessRequest, SandboxId, SandboxRecord, Scope, SessionExecRequest, SessionId,
    SessionRequest, TokenCreated, TokenRequest,
};
use sandshell_client::{Client, ClientError, SandboxFilter};
use sandshell_sys::reactor;
use sandshell_testkit::{UnprivilegedUser, find_binary};
use tempfile::TempDir;
use tokio::io::Interest;

use super::machine::Machine;
use super::model::{self, Model, PRINTED, Wish};
use super::points::{ANY, Kind, Moment, Point, Trap, Victim};
use super::tracer::{Process, Tracer};
use crate::calls::{exec_of, in_time};

/// How long a launcher that is stopped stands still: longer than the next hub takes to start.
const LAG: Duration = Duration::from_millis(400);

/// Sandboxes that wait in the pool.
pub(super) const WARM: usize = 1;

/// How long what was armed may take after the answer.
const AFTERWARDS: Duration = Duration::from_millis(30);

/// The ids that are chosen from.
const NAMES: &[&str] = &["a", "b", "c"];

pub(super) struct World {
    pub(super) dir: TempDir,
    pub(super) machine: Machine,
    /// Who runs the hub; absent, whoever runs the test.
    user: Option<UnprivilegedUser>,
    tracer: Option<Tracer>,
    pub(super) client: Client,
    url: String,
    random: Random,
    pub(super) model: Model,
    /// What was done, for whoever must understand a violation.
    pub(super) trail: Vec<String>,
    /// The calls of each kind, and how often each at most.
    pub(super) heard: BTreeMap<Kind, BTreeMap<String, u32>>,
    /// Launchers whose hub is gone.
    orphans: Vec<Process>,
    sprung_last: bool,
    /// Sandboxes there were when the hub was last started.
    pub(super) started_with: usize,
}

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

/// Numbers that look random and are the same for the same seed (splitmix64).
#[derive(Debug, Clone)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        usize::try_from(mixed % u64::try_from(bound).unwrap()).unwrap()
    }
}

impl World {
    /// A hub that is not started yet.
    pub(super) fn new(seed: u64, user: Option<UnprivilegedUser>) -> Self {
        let dir = TempDir::with_prefix("sandshell-crash-").unwrap();
        if let Some(user) = user {
            user.own(dir.path());
        }
        let ranges = user.is_none() && rustix::process::geteuid().is_root();
        Self {
            machine: Machine::new(dir.path(), ranges),
            user,
            dir,
            tracer: None,
            client: Client::new("http://127.0.0.1:1", None).unwrap(),
            url: String::new(),
            random: Random(seed),
            model: Model::default(),
            trail: vec![format!("seed {seed}")],
            heard: BTreeMap::new(),
            orphans: Vec::new(),
            sprung_last: false,
            started_with: 0,
        }
    }

    /// Starts the hub, and says whether it came to serve: a trap may be in the way.
    pub(super) async fn start(
        &mut self,
        kind: Kind,
        trap: Option<Trap>,
        more: &[&str],
    ) -> Result<bool, Errno> {
        assert!(self.tracer.is_none(), "it runs");
        self.started_with = self.model.live.len();
        let dir = self.dir.path().to_owned();
        let path = |name: &str| dir.join(name).display().to_string();
        let _ = fs::remove_file(path("ready.json"));
        let warm = WARM.to_string();
        let (state, ready) = (path("s"), path("ready.json"));
        let args = [
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--state-dir",
            &state,
            "--ready-file",
            &ready,
            "--rate",
            "0",
            "--warm",
            &warm,
        ];
        let args: Vec<String> = args
            .iter()
            .chain(more)
            .map(|arg| (*arg).to_owned())
            .collect();
        let tracer = Tracer::start(&find_binary(), &args, self.user, self.dir.path(), trap)?;
        let mut seen = tracer.seen();
        let served = in_time(seen.wait_for(|seen| seen.ready || seen.ended.is_some()))
            .await
            .unwrap()
            .ended
            .is_none();
        self.hear(kind, tracer.heard());
        self.tracer = Some(tracer);
        if !served {
            return Ok(false);
        }
        let text = fs::read(path("ready.json")).unwrap();
        let told: serde_json::Value = serde_json::from_slice(&text).unwrap();
        told["url"].as_str().unwrap().clone_into(&mut self.url);
        let token = fs::read_to_string(path("s/token")).unwrap();
        self.client = self.client_with(token.trim_end());
        Ok(true)
    }

    pub(super) fn client_with(&self, token: &str) -> Client {
        Client::new(&self.url, Some(token)).unwrap()
    }

    fn hear(&mut self, kind: Kind, heard: BTreeMap<String, u32>) {
        let known = self.heard.entry(kind).or_default();
        for (call, count) in heard {
            let most = known.entry(call).or_default();
            *most = count.max(*most);
        }
    }

    pub(super) fn tracer(&self) -> &Tracer {
        self.tracer.as_ref().expect("it runs")
    }

    pub(super) fn log(&self) -> String {
        let bytes = fs::read(self.dir.path().join("hub.log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Notes where the hub and what it started stand, for whoever must understand why nothing moves.
    pub(super) fn look_at_processes(&mut self) {
        let Some(tracer) = &self.tracer else {
            return;
        };
        let hub = tracer.pid;
        let tasks = fs::read_dir(format!("/proc/{hub}/task"))
            .into_iter()
            .flatten();
        let mut dirs: Vec<std::path::PathBuf> = tasks.flatten().map(|task| task.path()).collect();
        let below = sandshell_testkit::children_deep(hub);
        dirs.extend(below.iter().map(|pid| format!("/proc/{pid}").into()));
        for dir in dirs {
            let read = |name| fs::read_to_string(dir.join(name)).unwrap_or_default();
            let status = read("status");
            let state = status.lines().find(|line| line.starts_with("State"));
            let line = format!(
                "{}: {}, {}, in {}",
                dir.display(),
                read("comm").trim(),
                state.unwrap_or_default(),
                read("syscall").trim()
            );
            self.note(line);
        }
    }

    pub(super) fn note(&mut self, what: impl Into<String>) {
        self.trail.push(what.into());
    }

    /// Waits for the end of a hub that was killed, or told to end.
    pub(super) async fn ended(&mut self) -> String {
        let mut tracer = self.tracer.take().expect("it runs");
        let how = in_time(tracer.ended()).await;
        self.orphans.extend(tracer.orphans());
        self.machine.note_places();
        how
    }

    /// Waits for the end of a hub that was told to end.
    pub(super) async fn stopped(&mut self) {
        let mut seen = self.tracer().seen();
        in_time(seen.wait_for(|seen| seen.ended.is_some()))
            .await
            .unwrap();
        self.hear(Kind::Stop, self.tracer().heard());
        self.sprung_last = self.tracer().disarm();
        let how = self.ended().await;
        if !self.sprung_last {
            assert_eq!(how, "exit code 0");
        }
    }

    /// Whether the last trap on the way to an end sprang.
    pub(super) fn sprung_last(&self) -> bool {
        self.sprung_last
    }

    pub(super) fn is_down(&self) -> bool {
        self.tracer.is_none()
    }

    /// After a start with a trap: what comes after the ready file may still set it off.
    pub(super) async fn settled_trap(&mut self) -> bool {
        self.pool_full().await;
        let sprung = self.tracer().disarm();
        if sprung {
            self.ended().await;
        }
        sprung
    }

    /// Kills the hub where it stands.
    pub(super) async fn kill(&mut self) {
        if self.tracer.is_some() {
            self.orphans.extend(self.tracer().launchers());
            self.tracer().signal(Signal::KILL);
            self.ended().await;
        }
    }

    /// Has a launcher that was stopped go on, later.
    fn wake_orphans(&self) {
        for orphan in &self.orphans {
            let fd = orphan.fd.try_clone().unwrap();
            tokio::spawn(async move {
                tokio::time::sleep(LAG).await;
                let _ = rustix::process::pidfd_send_signal(&fd, Signal::CONT);
            });
        }
    }

    /// Waits until the launchers of earlier hubs are gone.
    pub(super) async fn orphans_gone(&mut self) {
        for orphan in self.orphans.drain(..) {
            let gone = reactor::watch(orphan.fd, Interest::READABLE).unwrap();
            let gone = tokio::time::timeout(Duration::from_secs(15), gone.readable()).await;
            assert!(
                gone.is_ok(),
                "the old launcher {} is still there",
                orphan.pid
            );
        }
    }

    /// Starts the hub after its death; it must come to serve.
    pub(super) async fn start_again(&mut self) {
        let served = self.start(Kind::Start, None, &[]).await.unwrap();
        assert!(served, "a hub does not start again after a crash");
    }

    /// What can be asked for of this kind; steps that make it possible are taken first.
    pub(super) async fn wish(&mut self, kind: Kind) -> Wish {
        match kind {
            Kind::CreateFresh | Kind::CreateWarm => {
                let id = self.free_name().await;
                let number = self.model.number();
                let warm = kind == Kind::CreateWarm;
                Wish::Create(model::spec(Some(id), number, warm))
            }
            Kind::CreateNameless => {
                if self.model.live.len() > NAMES.len() {
                    let id = self.any(Kind::Delete).await;
                    self.step(&Wish::Delete(id)).await;
                }
                let number = self.model.number();
                Wish::Create(model::spec(None, number, true))
            }
            Kind::CreateAgain => Wish::Again(self.any(kind).await),
            Kind::Label => {
                let value = self.model.number().to_string();
                Wish::Label(self.any(kind).await, value)
            }
            Kind::Limit => {
                let pids = 500 + u64::from(self.model.number());
                Wish::Limit(self.any(kind).await, pids)
            }
            Kind::Pause => Wish::Pause(self.any(kind).await),
            Kind::Resume => Wish::Resume(self.any(kind).await),
            Kind::KeepAlive => Wish::KeepAlive(self.any(kind).await),
            Kind::MakeToken => {
                let name = format!("t{}", self.model.number());
                Wish::MakeToken(self.any(kind).await, name)
            }
            Kind::RevokeToken => {
                let valid = |model: &Model| {
                    let mut valid = model.tokens.iter().filter(|token| !token.revoked);
                    valid.next().map(|token| token.id.clone())
                };
                if valid(&self.model).is_none() {
                    let name = format!("t{}", self.model.number());
                    let id = self.any(Kind::MakeToken).await;
                    self.step(&Wish::MakeToken(id, name)).await;
                }
                Wish::RevokeToken(valid(&self.model).expect("one was made"))
            }
            Kind::Exec => Wish::Exec(self.any(kind).await),
            Kind::Process => {
                let id = format!("p{}", self.model.number());
                Wish::Process(self.any(kind).await, id.parse().unwrap())
            }
            Kind::Command => {
                let id = self.any(kind).await;
                if self.model.of(&id).counted.is_none() {
                    let request = SessionRequest {
                        id: Some(session()),
                        ..SessionRequest::default()
                    };
                    let inside = self.client.sandbox(&id);
                    in_time(inside.create_session(&request)).await.unwrap();
                    self.model.of(&id).counted = Some(0);
                }
                Wish::Command(id)
            }
            Kind::Delete => Wish::Delete(self.any(kind).await),
            Kind::List | Kind::Start | Kind::Stop | Kind::FirstStart => Wish::List,
        }
    }

    /// A name that nobody has.
    async fn free_name(&mut self) -> SandboxId {
        let names = NAMES.iter().map(|name| name.parse::<SandboxId>().unwrap());
        let free: Vec<SandboxId> = names
            .filter(|id| !self.model.live.contains_key(id))
            .collect();
        if !free.is_empty() {
            return free[self.random.below(free.len())].clone();
        }
        let id: SandboxId = NAMES[self.random.below(NAMES.len())].parse().unwrap();
        self.step(&Wish::Delete(id.clone())).await;
        id
    }

    /// One of the living that this can be asked of.
    async fn any(&mut self, kind: Kind) -> SandboxId {
        let fitting: Vec<SandboxId> = self
            .model
            .live
            .iter()
            .filter(|(_, one)| model::fits(kind, one))
            .map(|(id, _)| id.clone())
            .collect();
        if !fitting.is_empty() {
            return fitting[self.random.below(fitting.len())].clone();
        }
        let frozen = self.model.live.keys().next().cloned();
        match (kind, frozen) {
            // Nothing is paused yet.
            (Kind::Resume, Some(id)) => {
                self.step(&Wish::Pause(id.clone())).await;
                id
            }
            (_, Some(id)) => {
                self.step(&Wish::Resume(id.clone())).await;
                id
            }
            (_, None) => {
                let id: SandboxId = NAMES[0].parse().unwrap();
                let number = self.model.number();
                let spec = model::spec(Some(id.clone()), number, true);
                self.step(&Wish::Create(spec)).await;
                if kind == Kind::Resume {
                    self.step(&Wish::Pause(id.clone())).await;
                }
                id
            }
        }
    }

    /// One step that nothing happens to.
    pub(super) async fn step(&mut self, wish: &Wish) {
        self.note(format!("{wish:?}"));
        match self.ask(wish).await {
            Answer::Done(reply) => self.done(wish, reply),
            other => panic!("{wish:?}: {other:?}"),
        }
        self.machine.note_places();
    }

    /// Something that can be asked of this hub.
    fn any_kind(&mut self) -> Kind {
        let can = |kind: &Kind| self.user.is_none() || !kind.needs_groups();
        let kinds: Vec<Kind> = Kind::asked().filter(can).collect();
        kinds[self.random.below(kinds.len())]
    }

    /// A few steps of any kind.
    pub(super) async fn wander(&mut self) {
        for _ in 0..self.random.below(3) {
            let kind = self.any_kind();
            let wish = self.wish(kind).await;
            self.step(&wish).await;
        }
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

    /// Waits until the pool is full, or the hub is gone.
    pub(super) async fn pool_full(&mut self) {
        let full = format!("sandshell_sandboxes_warm {WARM}\n");
        let filled = async {
            while let Ok(figures) = self.client.metrics().await
                && !figures.contains(&full)
            {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        in_time(filled).await;
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
                let request = Default::default();
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
            Wish::List => {
                client.sandboxes(&SandboxFilter::default()).await?;
                Reply::Nothing
            }
        })
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
            (Wish::Pause(id), _) => model.of(id).paused = true,
            (Wish::Resume(id), _) => model.of(id).paused = false,
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
                model.of(id).lines += 1;
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
