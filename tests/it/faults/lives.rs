//! Each system call of a hub, and of its launcher, fails once while a sandbox is made, changed and ended.
//!
//! What must hold: whoever asked is told, what the record says is so, and nothing is left of what was not made
//! or was ended.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use sandshell_client::types::{
    ErrorCode, SandboxLimits, SandboxPatch, SandboxRecord, SandboxState,
};
use sandshell_client::{Client, ClientError};
use sandshell_testkit::Hub;

use super::bench::used_fds;
use super::injected::FAILURES;
use super::killed::launcher_of;
use super::tracer::{Tracer, able, failing, injected, names};
use super::{id_of, in_sample, processes_of, say, seed, spec_of};
use crate::calls::{DEADLINE, exec_of, in_time, skipped};
use crate::hub::groups_of;
use crate::limits::groups_named;

/// The only sandbox.
const NAME: &str = "own";

/// Whose system calls are failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    Hub,
    Launcher,
}

/// Steps in the life of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Create,
    Limit,
    Pause,
    /// Of one that is paused already.
    PauseAgain,
    Resume,
    Destroy,
}

const STEPS: [Step; 6] = [
    Step::Create,
    Step::Limit,
    Step::Pause,
    Step::PauseAgain,
    Step::Resume,
    Step::Destroy,
];

/// A call to be failed.
#[derive(Debug, Clone, Copy)]
struct Fault {
    call: &'static str,
    errno: &'static str,
    nth: u32,
}

struct Lives {
    hub: Hub,
    /// Whether sandboxes can be frozen here.
    freezes: bool,
    /// The number of processes that was asked for last, each time another.
    pids: u64,
    /// Directories of sandboxes that were seen.
    places: BTreeSet<String>,
    /// Descriptors of the hub and of its launcher without a sandbox.
    rest: (usize, usize),
}

impl Lives {
    async fn new() -> Self {
        let mut lives = Self {
            hub: Hub::start(),
            freezes: true,
            pids: 300,
            places: BTreeSet::new(),
            rest: (0, 0),
        };
        // Pools of threads and connections grow with use.
        for _ in 0..3 {
            for step in STEPS {
                lives.prepare(step).await;
                match lives.ask(step).await {
                    Err(error) if matches!(step, Step::Pause | Step::PauseAgain) => {
                        assert_eq!(error.code(), Some(ErrorCode::LimitUnavailable), "{error:?}");
                        lives.freezes = false;
                    }
                    asked => asked.unwrap(),
                }
            }
        }
        assert_eq!(lives.settled(true).await, [""; 0]);
        lives
    }

    fn client(&self) -> Client {
        self.hub.client()
    }

    fn fds(&self) -> (usize, usize) {
        (used_fds(self.hub.pid()), used_fds(launcher_of(&self.hub)))
    }

    async fn record(&self) -> Option<SandboxRecord> {
        match in_time(self.client().get_sandbox(&id_of(NAME))).await {
            Ok(record) => Some(record).filter(|record| !record.state.is_over()),
            Err(error) => {
                assert_eq!(error.code(), Some(ErrorCode::SandboxNotFound), "{error:?}");
                None
            }
        }
    }

    /// Has all be as it must be before a step.
    async fn prepare(&mut self, step: Step) {
        let (client, id) = (self.client(), id_of(NAME));
        let there = self.record().await;
        let wanted = step != Step::Create;
        if there.is_some() && !wanted {
            in_time(client.destroy_sandbox(&id)).await.unwrap();
        }
        if there.is_none() && wanted {
            in_time(client.create_sandbox(&spec_of(NAME)))
                .await
                .unwrap();
        }
        if self.freezes && there.is_some() && matches!(step, Step::Limit | Step::Pause) {
            in_time(client.resume_sandbox(&id)).await.unwrap();
        }
        if self.freezes && matches!(step, Step::PauseAgain | Step::Resume) {
            in_time(client.pause_sandbox(&id)).await.unwrap();
        }
        self.note_places();
        self.pids += 1;
    }

    fn note_places(&mut self) -> Vec<String> {
        let entries = std::fs::read_dir(self.hub.state_dir().join("sandboxes")).unwrap();
        let now: Vec<String> = entries
            .flatten()
            .map(|entry| entry.file_name().to_str().unwrap().to_owned())
            .collect();
        self.places.extend(now.iter().cloned());
        now
    }

    async fn ask(&self, step: Step) -> Result<(), ClientError> {
        let (client, id) = (self.client(), id_of(NAME));
        match step {
            Step::Create => client.create_sandbox(&spec_of(NAME)).await.map(drop),
            Step::Limit => {
                let limits = SandboxLimits {
                    pids: Some(self.pids),
                    ..SandboxLimits::default()
                };
                let patch = SandboxPatch {
                    limits: Some(limits),
                    ..SandboxPatch::default()
                };
                client.patch_sandbox(&id, &patch).await.map(drop)
            }
            Step::Pause | Step::PauseAgain => client.pause_sandbox(&id).await.map(drop),
            Step::Resume => client.resume_sandbox(&id).await.map(drop),
            Step::Destroy => client.destroy_sandbox(&id).await.map(drop),
        }
    }

    /// Takes a step while a call fails. Says whether it came to that, and what did not hold then.
    async fn try_with(&mut self, whose: Whose, step: Step, fault: Fault) -> (bool, Vec<String>) {
        self.prepare(step).await;
        let args = failing(fault.call, fault.errno, fault.nth);
        let tracer = self.trace(whose, &args.each_ref().map(String::as_str));
        let answer = tokio::time::timeout(DEADLINE, self.ask(step)).await;
        let hit = !injected(&tracer.detach()).is_empty();
        self.note_places();
        let mut wrong = Vec::new();
        match answer {
            Err(_) => wrong.push("no answer".to_owned()),
            Ok(Ok(())) => wrong.extend(self.is_done(step).await.err()),
            Ok(Err(error)) => match error.code() {
                Some(ErrorCode::Unavailable | ErrorCode::NoSpace) => {}
                Some(ErrorCode::Internal) if fault.errno == "EIO" => {}
                // The connection itself could not be watched.
                None if fault.call == "epoll_ctl" => {}
                _ => wrong.push(format!("{error:?}")),
            },
        }
        wrong.extend(self.is_as_recorded().await.err());
        wrong.extend(self.goes_on(step).await.err());
        if matches!(step, Step::Create | Step::Destroy) {
            wrong.extend(self.settled(false).await);
        }
        (hit, wrong)
    }

    fn trace(&self, whose: Whose, args: &[&str]) -> Tracer {
        match whose {
            Whose::Hub => Tracer::attach(self.hub.pid(), args),
            Whose::Launcher => Tracer::attach_alone(launcher_of(&self.hub), args),
        }
    }

    /// Whether what was answered as done is done.
    async fn is_done(&self, step: Step) -> Result<(), String> {
        let record = self.record().await;
        let state = record.as_ref().map(|record| record.state);
        let wanted = match step {
            Step::Create | Step::Limit | Step::Resume => Some(SandboxState::Ready),
            Step::Pause | Step::PauseAgain => Some(SandboxState::Paused),
            Step::Destroy => None,
        };
        if state != wanted {
            return Err(format!("answered as done, and it is {state:?}"));
        }
        if step == Step::Limit {
            let limits = record.and_then(|record| record.spec.limits);
            let pids = limits.and_then(|limits| limits.pids);
            if pids != Some(self.pids) {
                return Err(format!("{} processes, recorded are {pids:?}", self.pids));
            }
            // Where one group cannot have both limits and processes, what has the limits lies in it.
            let mut most = self.told_by_groups(&["pids.max", "c/pids.max"]);
            most.retain(|text| text != "max");
            if most.is_empty() || most.iter().any(|most| *most != self.pids.to_string()) {
                return Err(format!("{} processes, and there are {most:?}", self.pids));
            }
        }
        Ok(())
    }

    /// Whether the sandbox, if there is one, runs or stands still as its record says.
    async fn is_as_recorded(&self) -> Result<(), String> {
        let Some(record) = self.record().await else {
            return Ok(());
        };
        match record.state {
            SandboxState::Ready => self.runs().await,
            SandboxState::Paused => {
                // It is frozen by one hierarchy, whichever can.
                let told = self.told_by_groups(&["cgroup.events", "freezer.state"]);
                let frozen = |text: &String| text.contains("frozen 1") || text == "FROZEN";
                if told.iter().any(frozen) {
                    Ok(())
                } else {
                    Err(format!("called paused, and its groups say {told:?}"))
                }
            }
            // Its end was refused, and is to be asked for again.
            SandboxState::Destroying => Ok(()),
            state => Err(format!("it is {state:?}")),
        }
    }

    /// What is in these files of the sandbox's groups, where there are such.
    fn told_by_groups(&self, files: &[&str]) -> Vec<String> {
        groups_of(&self.hub)
            .iter()
            .flat_map(|group| files.iter().map(|file| group.join(file)))
            .filter_map(|file| std::fs::read_to_string(file).ok())
            .map(|text| text.trim().to_owned())
            .collect()
    }

    async fn runs(&self) -> Result<(), String> {
        let inside = self.client().sandbox(&id_of(NAME));
        match tokio::time::timeout(DEADLINE, inside.exec(&exec_of("echo in"))).await {
            Ok(Ok(done)) if done.stdout == "in\n" => Ok(()),
            other => Err(format!("called ready, and it does not run: {other:?}")),
        }
    }

    /// Whether the same can be done now.
    async fn goes_on(&mut self, step: Step) -> Result<(), String> {
        self.prepare(step).await;
        let asked = in_time(self.ask(step)).await;
        asked.map_err(|error| format!("afterwards {error:?}"))?;
        self.is_done(step)
            .await
            .map_err(|wrong| format!("afterwards {wrong}"))?;
        self.is_as_recorded().await
    }

    /// Waits until nothing is left of any sandbox, and the hub and its launcher have no more than at rest, or notes
    /// what that is; says what is left.
    async fn settled(&mut self, first: bool) -> Vec<String> {
        self.prepare(Step::Create).await;
        let began = Instant::now();
        let (mut last, mut same) = (self.fds(), 0);
        loop {
            let mut left: Vec<String> = self.note_places();
            left.extend(
                processes_of(&self.hub)
                    .iter()
                    .map(|pid| format!("process {pid}")),
            );
            let groups = self
                .places
                .iter()
                .flat_map(|place| groups_named(&format!("sandshell-{place}")));
            left.extend(groups.map(|group| group.display().to_string()));
            let now = self.fds();
            same = if now == last { same + 1 } else { 0 };
            last = now;
            if first && same == 40 {
                self.rest = now;
            }
            if !first && (now.0 > self.rest.0 || now.1 > self.rest.1) {
                left.push(format!("descriptors {now:?} after {:?}", self.rest));
            }
            if left.is_empty() && (!first || same >= 40) {
                self.places.clear();
                return left;
            }
            if began.elapsed() > DEADLINE {
                return left;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_of_a_life_that_fails_is_told_and_leaves_what_is_recorded() {
    if !able() {
        return;
    }
    let (seed, began) = (seed(), Instant::now());
    let mut lives = Lives::new().await;
    let (mut tried, mut made, mut wrong) = (0, 0, Vec::new());
    for (whose, step) in [Whose::Launcher, Whose::Hub]
        .into_iter()
        .flat_map(|whose| STEPS.map(|step| (whose, step)))
    {
        let freezes = matches!(step, Step::Pause | Step::PauseAgain | Step::Resume);
        if freezes && !lives.freezes {
            continue;
        }
        lives.prepare(step).await;
        let tracer = lives.trace(whose, &[]);
        lives.ask(step).await.unwrap();
        let seen = names(&tracer.detach());
        for (call, errnos) in FAILURES {
            // The hub locks its records by it, which takes nothing.
            let locks = whose == Whose::Hub && *call == "fcntl";
            if locks || !seen.iter().any(|name| name == call) {
                continue;
            }
            for errno in *errnos {
                for nth in 1..60 {
                    let fault = format!("{whose:?} {step:?} {call} {errno} {nth}");
                    if !in_sample(seed, &fault) {
                        continue;
                    }
                    tried += 1;
                    let fault = Fault { call, errno, nth };
                    let (hit, found) = lives.try_with(whose, step, fault).await;
                    for one in &found {
                        say(&format!("WRONG: {whose:?}: {step:?}, {fault:?}: {one}"));
                    }
                    wrong.extend(found);
                    if !hit {
                        break;
                    }
                    made += 1;
                }
            }
        }
        say(&format!(
            "{whose:?}: {step:?}: {made} so far; calls {seen:?}"
        ));
    }
    say(&format!(
        "{made} system calls failed of {tried} that were to, in {} s",
        began.elapsed().as_secs()
    ));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(made > 0, "nothing was failed");
}

/// Whoever pauses what is paused does not wake it, whatever fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_one_that_cannot_be_paused_again_stays_paused() {
    if !able() {
        return;
    }
    let mut lives = Lives::new().await;
    if !lives.freezes {
        return skipped("no sandbox can be paused here, so NONE is paused again");
    }
    let (mut made, mut wrong) = (0, Vec::new());
    for nth in 1.. {
        let fault = Fault {
            call: "openat",
            errno: "EMFILE",
            nth,
        };
        let (hit, found) = lives
            .try_with(Whose::Launcher, Step::PauseAgain, fault)
            .await;
        let told = found.into_iter().map(|one| format!("{fault:?}: {one}"));
        wrong.extend(told);
        if !hit {
            break;
        }
        made += 1;
    }
    say(&format!("{made} system calls failed"));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(made > 0, "nothing was failed");
}
