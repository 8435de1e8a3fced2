//! Sandboxes on this machine, each in namespaces of its own, made by the launcher.
//!
//! ```text
//! STATE/etc/N            the /etc that sandboxes of this hub are shown
//! STATE/sandboxes/PLACE  agent.sock, agent/, etc
//! STATE/next             what becomes such a directory
//! STATE/launcher         locked while there is a launcher (`turn`); where groups were made
//! ```
//!
//! Owns the launcher and the ends of agents. A sandbox is its agent: it is known by whoever listens on
//! its socket, which the kernel tells, so nothing need be remembered to find it again.

mod etc;
mod made_of;
mod reach;
mod turn;

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::io::Errno;
use sandshell_isolate::launcher::{Launcher, LauncherError, Naming, collect};
use sandshell_isolate::limits::{self as group_limit, SandboxLimits, USUAL_INODES, USUAL_MEMORY};
use sandshell_isolate::plan::OUT_OF_MEMORY;
use sandshell_isolate::stage::{Outcome, REMEDY, Step};
use sandshell_sys::{reactor, signal, task};
use sandshell_types::{NetworkMode, Protection, SandboxId, SandboxSpec};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt as _, Interest};

use crate::backend::{
    Backend, BackendError, Created, Endpoint, NotSwept, Pending, Place, SandboxPlan, is_lack,
};
use crate::egress::{Authority, AuthorityError, Egress, EgressConfig, Outside, Policy, Trust};
use crate::images::Images;
use etc::Etcs;
use made_of::{disk_of, group_limits, odd_image, pointer_of};

/// An agent's process, watched from the first: later there may be no descriptor left to do it with.
type Agent = Arc<AsyncFd<OwnedFd>>;

/// Whether there is a way outside, and the certificates to trust on it.
type WayOut = Option<Option<Trust>>;

/// How long the next one's directory waits, so that its making does not compete for the processor.
const AHEAD_AFTER: Duration = Duration::from_millis(5);

/// The groups of our sandboxes begin so.
const GROUP: &str = "sandshell-";

pub(crate) struct LocalBackend {
    sandboxes: PathBuf,
    /// The directory of the next sandbox.
    ahead: PathBuf,
    etcs: Etcs,
    images: Arc<Images>,
    ids: IdRule,
    launcher: Arc<Mutex<Option<Launcher>>>,
    /// The lock that our launchers hold with us.
    turn: Arc<File>,
    live: Mutex<HashMap<Place, Agent>>,
    /// What can name those that wait.
    unnamed: Mutex<HashMap<Place, Naming>>,
    /// The proxies of those that reach outside.
    ways_out: Mutex<HashMap<Place, Egress>>,
    outside: Arc<Outside>,
}

#[derive(Debug, Clone, Copy)]
enum IdRule {
    /// A range for each.
    Ranges,
    /// Our own for all.
    Own,
}

impl LocalBackend {
    /// A backend that keeps what it has below this directory, once nobody launches there any more.
    pub(crate) async fn new(state: &Path, images: Arc<Images>) -> io::Result<Self> {
        let sandboxes = state.join("sandboxes");
        let etcs = state.join("etc");
        for dir in [&sandboxes, &etcs] {
            make_private(dir)?;
        }
        let turn = turn::take(&state.join("launcher")).await?;
        let etcs = Etcs::make(etcs)?;
        let ahead = state.join("next");
        // It says that it shows the /etc of an earlier hub.
        match fs::remove_dir_all(&ahead) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let ids = if rustix::process::geteuid().is_root() {
            IdRule::Ranges
        } else {
            IdRule::Own
        };
        Ok(Self {
            ahead,
            sandboxes,
            etcs,
            images,
            ids,
            launcher: Arc::default(),
            turn: Arc::new(turn),
            live: Mutex::default(),
            unnamed: Mutex::default(),
            ways_out: Mutex::default(),
            outside: Arc::new(Outside::new().map_err(io::Error::other)?),
        })
    }

    fn dir(&self, place: &Place) -> PathBuf {
        self.sandboxes.join(place.as_str())
    }

    fn live(&self) -> MutexGuard<'_, HashMap<Place, Agent>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the way outside that a spec asks for. Says whether there is one, and the certificates that
    /// programs must trust where it speaks for a host.
    fn open_way_out(&self, place: &Place, spec: &SandboxSpec) -> Result<WayOut, BackendError> {
        let policy = Policy::of(spec).map_err(|error| BackendError::Invalid {
            detail: error.to_string(),
            pointer: error.pointer,
        })?;
        let mode = spec.network.as_ref().map(|network| network.mode);
        if matches!(mode, None | Some(NetworkMode::None)) {
            return Ok(None);
        }
        let failed = |source| BackendError::of_machine("open the way outside", source);
        let dir = self.dir(place);
        let authority = policy
            .has_secrets()
            .then(|| Authority::load_or_generate(&dir.join("authority.pem")))
            .transpose()
            .map_err(|error| match error {
                AuthorityError::File(source) => failed(source),
                error => failed(io::Error::other(error)),
            })?;
        let trust = authority.as_ref().map(Authority::trust);
        let state = dir.join("agent");
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&state)
            .map_err(failed)?;
        let config = EgressConfig {
            sandbox: place.to_string(),
            policy,
            authority,
            outside: Arc::clone(&self.outside),
        };
        let egress = Egress::start(&state, config).map_err(failed)?;
        self.ways_out().insert(place.clone(), egress);
        Ok(Some(trust))
    }

    fn unnamed(&self) -> MutexGuard<'_, HashMap<Place, Naming>> {
        self.unnamed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ways_out(&self) -> MutexGuard<'_, HashMap<Place, Egress>> {
        self.ways_out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the launcher, on a thread where that may block. One that is gone is started again.
    async fn ask<T: Send + 'static>(
        &self,
        question: impl Fn(&Launcher) -> Result<T, LauncherError> + Send + 'static,
    ) -> Result<T, BackendError> {
        let held = Arc::clone(&self.launcher);
        let turn = Arc::clone(&self.turn);
        let asked = tokio::task::spawn_blocking(move || {
            let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(launcher) = &*held {
                match question(launcher) {
                    Err(LauncherError::Gone(errno)) => {
                        tracing::warn!(%errno, "the launcher is gone; starting another");
                    }
                    answer => return answer,
                }
            }
            *held = None;
            let launcher = Launcher::start()?;
            // One that does not hold it would do its work behind the next hub's back, and find no older groups.
            if let Err(error) = launcher.hold(turn.as_fd()) {
                launcher.finish();
                return Err(error);
            }
            let launcher = held.insert(launcher);
            let watched = launcher
                .process()
                .and_then(|process| reactor::watch(process, Interest::READABLE));
            match watched {
                Ok(process) => drop(task::spawn(attend(process))),
                Err(error) => tracing::warn!(%error, "the launcher's end will not be seen"),
            }
            question(launcher)
        });
        let answer = asked.await.map_err(|error| BackendError::Failed {
            action: "ask the launcher",
            source: io::Error::other(error),
        })?;
        answer.map_err(|error| match error {
            LauncherError::Limit { limit, reason } => BackendError::Limit {
                pointer: pointer_of(&limit),
                detail: reason,
            },
            LauncherError::Step(step) => failed_at(step),
            LauncherError::Lack(errno) => BackendError::Lack {
                action: "ask the launcher".to_owned(),
                errno,
            },
            error => BackendError::Failed {
                action: "make the sandbox",
                source: io::Error::other(error),
            },
        })
    }

    async fn change_limits(
        &self,
        place: &Place,
        from: &sandshell_types::SandboxLimits,
        to: &sandshell_types::SandboxLimits,
    ) -> Result<(), BackendError> {
        let fixed = [
            (
                "disk_bytes",
                from.disk_bytes,
                to.disk_bytes,
                disk_of(from).ok(),
            ),
            ("inodes", from.inodes, to.inodes, Some(USUAL_INODES)),
            ("open_files", from.open_files, to.open_files, None),
        ];
        for (name, from, to, default) in fixed {
            if from.or(default) != to.or(default) {
                return Err(BackendError::Limit {
                    pointer: pointer_of(name),
                    detail: format!(
                        "{name} holds from the making of a sandbox to its end; memory_bytes, cpus \
                         and pids can be changed while it runs"
                    ),
                });
            }
        }
        let (before, after) = (group_limits(from)?, group_limits(to)?);
        let memory = to.memory_bytes.unwrap_or(USUAL_MEMORY);
        if let Err(error) = group_limit::disk_in_memory(disk_of(from).ok(), memory) {
            return Err(BackendError::Limit {
                pointer: pointer_of("memory_bytes"),
                detail: error.to_string(),
            });
        }
        let changes = SandboxLimits {
            memory_bytes: after
                .memory_bytes
                .filter(|_| after.memory_bytes != before.memory_bytes),
            cpus: after.cpus.filter(|_| after.cpus != before.cpus),
            pids: after.pids.filter(|_| after.pids != before.pids),
        };
        if changes == SandboxLimits::default() {
            return Ok(());
        }
        let name = group(place);
        self.ask(move |launcher| launcher.limit(&name, changes))
            .await
    }

    /// Gives a place its directory: the one that was made ahead, or where there is none a fresh one. The
    /// making takes a millisecond on a disk where much was deleted lately, a rename does not.
    fn make_dir(&self, place: &Place) -> io::Result<()> {
        let dir = self.dir(place);
        match fs::rename(&self.ahead, &dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => make_private(&dir),
            done => done,
        }?;
        self.etcs.note(&dir)
    }

    /// Makes the directory of the next one, a little later, when nobody waits for it.
    fn work_ahead(&self) {
        let (ahead, etcs) = (self.ahead.clone(), self.etcs.clone());
        task::spawn(async move {
            tokio::time::sleep(AHEAD_AFTER).await;
            drop(tokio::task::spawn_blocking(move || {
                // What is missing is made when it is needed.
                let _ = make_private(&ahead);
                let _ = make_private(&ahead.join("agent"));
                let _ = etcs.note(&ahead);
            }));
        });
    }

    async fn start(&self, wanted: &SandboxPlan) -> Result<Created, BackendError> {
        self.make_dir(&wanted.place).map_err(|source| {
            BackendError::of_machine("make the directory of the sandbox", source)
        })?;
        let way_out = self.open_way_out(&wanted.place, &wanted.spec)?;
        let plan = self.plan(wanted, way_out).await?;
        let launched = self.ask(move |launcher| launcher.launch(&plan)).await?;
        let agent = watch(launched.agent)?;
        self.live().insert(wanted.place.clone(), agent);
        if wanted.waits {
            self.unnamed().insert(wanted.place.clone(), launched.naming);
        }
        let protections = match (outcome(launched.report).await, &wanted.spec.image) {
            (Err(NotMade::Failed(step)), Some(image)) if step.is_of_root() => {
                return Err(odd_image(image, &step.to_string()));
            }
            (made, _) => made?,
        };
        self.work_ahead();
        Ok(Created { protections })
    }

    async fn end(&self, place: &Place) -> Result<(), BackendError> {
        self.kill(place).await?;
        let cleared = self.clear(place).await;
        cleared.map_err(|error| BackendError::Remains(Box::new(error)))
    }

    /// Ends the agent of a place. Its end is the end of its namespaces, and so of everything in them.
    async fn kill(&self, place: &Place) -> Result<(), BackendError> {
        let agent = match self.find(place).await {
            Ok(agent) => agent,
            Err(BackendError::Dead(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        match signal::send(agent.get_ref(), 9) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(errno) => return Err(BackendError::of_machine("end the agent", errno.into())),
        }
        // Where only version 1 freezes, a frozen one dies when it is thawed; one that cannot be is not waited for.
        let name = group(place);
        self.ask(move |launcher| launcher.thaw(&name)).await?;
        exit_of(&agent).await;
        Ok(())
    }

    /// Removes what there is of a sandbox whose agent is dead.
    async fn clear(&self, place: &Place) -> Result<(), BackendError> {
        self.live().remove(place);
        self.unnamed().remove(place);
        let way_out = self.ways_out().remove(place);
        if let Some(way_out) = way_out {
            way_out.close().await;
        }
        let name = group(place);
        self.ask(move |launcher| launcher.remove(&name)).await?;
        let dir = self.dir(place);
        let removed = tokio::task::spawn_blocking(move || fs::remove_dir_all(dir)).await;
        let removed = removed.unwrap_or_else(|error| Err(io::Error::other(error)));
        match removed {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(
                BackendError::of_machine("remove the directory of the sandbox", source),
            ),
            _ => Ok(()),
        }
    }

    /// The places that have a directory.
    fn places(&self) -> io::Result<Vec<Place>> {
        let mut places = Vec::new();
        for entry in fs::read_dir(&self.sandboxes)? {
            places.extend(entry?.file_name().to_str().and_then(Place::read));
        }
        Ok(places)
    }

    /// Has the limits be those of the record: a hub may have died between a change and writing it down.
    async fn settle_limits(&self, place: &Place, spec: &SandboxSpec) -> Result<(), BackendError> {
        let recorded = spec.limits.clone().unwrap_or_default();
        let Ok(limits) = group_limits(&recorded) else {
            // The machine is smaller than it was; the sandbox is not to die of that.
            return Ok(());
        };
        let name = group(place);
        let asked = self.ask(move |launcher| launcher.limit(&name, limits));
        match asked.await {
            // What cannot be limited here never was.
            Ok(()) | Err(BackendError::Limit { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl Backend for LocalBackend {
    fn create<'a>(&'a self, plan: &'a SandboxPlan) -> Pending<'a, Result<Created, BackendError>> {
        Box::pin(async move {
            let made = self.start(plan).await;
            if made.is_err()
                && let Err(error) = self.end(&plan.place).await
            {
                tracing::warn!(%error, "a sandbox that was not made is not wholly removed");
            }
            made
        })
    }

    fn take<'a>(
        &'a self,
        place: &'a Place,
        id: Option<&'a SandboxId>,
    ) -> Pending<'a, Result<(), BackendError>> {
        let naming = self.unnamed().remove(place);
        Box::pin(async move {
            if let (Some(naming), Some(id)) = (naming, id) {
                let name = id.to_string();
                self.ask(move |launcher| launcher.name(&naming, &name))
                    .await?;
            }
            Ok(())
        })
    }

    fn adopt<'a>(
        &'a self,
        place: &'a Place,
        spec: &'a SandboxSpec,
    ) -> Pending<'a, Result<(), BackendError>> {
        Box::pin(async move {
            self.find(place).await?;
            let limited = self.settle_limits(place, spec).await;
            let way_out = self.open_way_out(place, spec).map(drop);
            // It lives: what it may lack now is told, and is no reason to give it up.
            for outcome in [limited, way_out] {
                match outcome {
                    Err(error @ BackendError::Lack { .. }) => return Err(error),
                    Err(error) => {
                        tracing::error!(%error, %place, "a sandbox is not wholly as it was left");
                    }
                    Ok(()) => {}
                }
            }
            Ok(())
        })
    }

    fn endpoint(&self, place: &Place) -> Endpoint {
        Endpoint::Unix(self.dir(place).join("agent.sock"))
    }

    fn ended(&self, place: &Place) -> Pending<'static, String> {
        let agent = self.live().get(place).cloned();
        let word = self.dir(place).join("agent").join(OUT_OF_MEMORY);
        Box::pin(async move {
            if let Some(agent) = agent {
                exit_of(&agent).await;
            }
            if word.symlink_metadata().is_ok() {
                return "its memory ran out, and the kernel ended it as a whole".to_owned();
            }
            "its agent ended by itself".to_owned()
        })
    }

    fn pause<'a>(&'a self, place: &'a Place) -> Pending<'a, Result<(), BackendError>> {
        let name = group(place);
        Box::pin(async move {
            let frozen = self.ask(move |launcher| launcher.freeze(&name)).await;
            frozen.map_err(|error| match error {
                BackendError::Forbidden { .. } => BackendError::Limit {
                    pointer: String::new(),
                    detail: "it cannot be paused: this hub has no control group that can freeze a sandbox".to_owned(),
                },
                other => other,
            })
        })
    }

    fn resume<'a>(&'a self, place: &'a Place) -> Pending<'a, Result<(), BackendError>> {
        let name = group(place);
        Box::pin(self.ask(move |launcher| launcher.thaw(&name)))
    }

    fn limit<'a>(
        &'a self,
        place: &'a Place,
        from: &'a sandshell_types::SandboxLimits,
        to: &'a sandshell_types::SandboxLimits,
    ) -> Pending<'a, Result<(), BackendError>> {
        Box::pin(self.change_limits(place, from, to))
    }

    fn destroy<'a>(&'a self, place: &'a Place) -> Pending<'a, Result<(), BackendError>> {
        Box::pin(self.end(place))
    }

    fn sweep<'a>(
        &'a self,
        known: &'a HashSet<Place>,
    ) -> Pending<'a, Result<NotSwept, BackendError>> {
        Box::pin(async move {
            let listed = self.places();
            let mut places = listed.map_err(|source| {
                BackendError::of_machine("list the directories of sandboxes", source)
            })?;
            places.retain(|place| !known.contains(place));
            let mut not_swept = NotSwept::new();
            for place in places {
                tracing::info!(%place, "removing what is left of a sandbox");
                if let Err(error) = self.end(&place).await {
                    not_swept.push((place, error));
                }
            }
            let maybe_alive = not_swept
                .iter()
                .filter(|(_, error)| !matches!(error, BackendError::Remains(_)))
                .map(|(place, _)| place);
            let kept = known.iter().chain(maybe_alive);
            self.etcs.forget_others(kept.map(|place| self.dir(place)));
            // The first sandbox need not wait for it.
            if let Err(error) = self.ask(|_| Ok(())).await {
                tracing::error!(%error, "there is no launcher yet");
            }
            Ok(not_swept)
        })
    }
}

fn make_private(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
}

fn group(place: &Place) -> String {
    format!("{GROUP}{place}")
}

/// Waits for what becomes of a sandbox that is being made.
async fn outcome(report: OwnedFd) -> Result<Vec<Protection>, NotMade> {
    let died = |source| {
        NotMade::Other(BackendError::Failed {
            action: "make the sandbox",
            source,
        })
    };
    let mut report = tokio::net::unix::pipe::Receiver::from_owned_fd(report).map_err(died)?;
    let mut text = Vec::new();
    report.read_to_end(&mut text).await.map_err(died)?;
    match serde_json::from_slice(&text) {
        Ok(Outcome::Ready(protections)) => Ok(protections),
        Ok(Outcome::Failed(step)) => Err(NotMade::Failed(step)),
        Ok(Outcome::Refused { setting, reason }) => Err(NotMade::Other(BackendError::Invalid {
            pointer: format!("/{setting}"),
            detail: reason,
        })),
        Err(_) => Err(NotMade::Other(BackendError::Dead(
            "its agent ended at its start".to_owned(),
        ))),
    }
}

/// Why a sandbox was not made.
enum NotMade {
    Failed(Step),
    Other(BackendError),
}

impl From<NotMade> for BackendError {
    fn from(why: NotMade) -> Self {
        match why {
            NotMade::Failed(step) => failed_at(step),
            NotMade::Other(error) => error,
        }
    }
}

/// What became of a sandbox that could not be made.
fn failed_at(step: Step) -> BackendError {
    if let Some(forbidden) = step.forbidden() {
        return BackendError::Forbidden {
            detail: forbidden.to_string(),
            protections: forbidden.protections,
            remedy: REMEDY,
        };
    }
    if is_lack(&step.errno.into()) {
        return BackendError::Lack {
            action: step.what,
            errno: step.errno,
        };
    }
    BackendError::Failed {
        action: "the launcher",
        source: io::Error::other(step),
    }
}

fn watch(process: OwnedFd) -> Result<Agent, BackendError> {
    let watched = reactor::watch(process, Interest::READABLE);
    watched
        .map(Arc::new)
        .map_err(|source| BackendError::of_machine("watch the agent", source))
}

/// Sees to the end of a launcher. The next wish finds out, and starts another.
async fn attend(launcher: AsyncFd<OwnedFd>) {
    exit_of(&launcher).await;
    if let Err(errno) = collect(launcher.get_ref()) {
        tracing::warn!(%errno, "a launcher that ended is not collected");
    }
}

/// Resolves when the process of a pidfd has ended.
async fn exit_of(process: &AsyncFd<OwnedFd>) {
    // An error is the end of the runtime, and so ours.
    drop(process.readable().await);
}
