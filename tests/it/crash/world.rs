//! One hub with its sandboxes, and the model of it: starts, ends, and waits.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use nix::errno::Errno;
use rustix::process::Signal;
use sandshell_client::Client;
use sandshell_sys::reactor;
use sandshell_testkit::{UnprivilegedUser, find_binary};
use tempfile::TempDir;
use tokio::io::Interest;

use super::in_time;
use super::machine::Machine;
use super::model::Model;
use super::points::{Kind, Trap};
use super::tracer::{Process, Tracer};

/// How long a launcher that is stopped stands still: longer than the next hub takes to start.
const LAG: Duration = Duration::from_millis(400);

/// Sandboxes that wait in the pool.
pub(super) const WARM: usize = 1;

pub(super) struct World {
    pub(super) dir: TempDir,
    pub(super) machine: Machine,
    /// Who runs the hub; absent, whoever runs the test.
    pub(super) user: Option<UnprivilegedUser>,
    tracer: Option<Tracer>,
    pub(super) client: Client,
    url: String,
    pub(super) random: Random,
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

    pub(super) fn hear(&mut self, kind: Kind, heard: BTreeMap<String, u32>) {
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
    pub(super) fn wake_orphans(&self) {
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
            drop(in_time(gone.readable()).await);
        }
    }

    /// Starts the hub after its death; it must come to serve.
    pub(super) async fn start_again(&mut self) {
        let served = self.start(Kind::Start, None, &[]).await.unwrap();
        assert!(served, "a hub does not start again after a crash");
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
}
