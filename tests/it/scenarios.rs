//! The scenarios that every client plays (`sdk/scenarios`), on the Rust client and the command line.
//!
//! Here is what a scenario means: placeholders, likeness, steps. A player knows the calls. What a player
//! cannot say is in a list of its own, with the reason, and told aloud; nothing else is passed over, and
//! an entry that no scenario needs any more is a failure.

mod cli;
mod client;
mod likeness;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use sandshell_client::Client;
use sandshell_client::types::{
    ExecRequest, IsolationPolicy, IsolationSpec, ProtectionStatus, SandboxRecord, SandboxSpec,
};
use sandshell_testkit::{Hub, UnprivilegedUser};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::task::JoinHandle;

use crate::calls::{in_time, skipped};
use likeness::{filled, part, unlike, without};

/// How long a step may take that is to come true.
const EVENTUALLY: Duration = Duration::from_mins(2);

type Args = Map<String, Value>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    name: String,
    #[serde(rename = "about")]
    _about: String,
    #[serde(default)]
    sandbox: Args,
    #[serde(default)]
    requires: Vec<String>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    name: String,
    call: String,
    #[serde(default)]
    args: Args,
    expect: Option<Value>,
    error: Option<Value>,
    #[serde(default)]
    save: BTreeMap<String, String>,
    start: Option<String>,
    #[serde(default)]
    eventually: bool,
    #[serde(default)]
    needs: Vec<String>,
}

/// What a call came to: a result, or a problem.
type Said = Result<Value, Value>;

/// How a step was played.
enum Played {
    /// By the player itself.
    Own(Said),
    /// By another for it, so that what follows finds what it needs: it is not judged.
    ByAnother(Said, &'static Lack),
    /// By nobody.
    Not(&'static Lack),
}

/// What a player cannot say, and why.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Lack {
    what: &'static str,
    why: &'static str,
}

/// Something that makes the calls of scenarios.
trait Player: 'static {
    /// All that it cannot say.
    const LACKS: &'static [Lack];
    /// Members of results that it does not see: call and member.
    const UNSEEN: &'static [(&'static str, &'static str, &'static str)];

    async fn new(hub: &Hub, sandbox: &SandboxRecord) -> Self;

    fn call(self: Rc<Self>, call: String, args: Args) -> impl Future<Output = Played> + 'static;
}

/// A lack by its name.
fn lack<P: Player>(what: &str) -> &'static Lack {
    let found = P::LACKS.iter().find(|lack| lack.what == what);
    found.unwrap_or_else(|| panic!("{what:?} is not in the list of what cannot be said"))
}

fn scenarios() -> Vec<Scenario> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let files = std::fs::read_dir(root.join("sdk/scenarios")).unwrap();
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "json"));
    paths.sort();
    assert!(paths.len() >= 12, "{paths:?}");
    let read = |path: &std::path::PathBuf| {
        let text = std::fs::read_to_string(path).unwrap();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    paths.iter().map(read).collect()
}

/// Plays all of them, each on a sandbox of its own.
async fn play_all<P: Player>(hub: &Hub) {
    let playing = Box::pin(play_each::<P>(hub));
    tokio::task::LocalSet::new().run_until(playing).await;
}

async fn play_each<P: Player>(hub: &Hub) {
    let mut lacks = BTreeSet::new();
    let mut complete = true;
    for scenario in scenarios() {
        complete &= play::<P>(hub, &scenario, &mut lacks).await;
    }
    let stale: Vec<_> = P::LACKS
        .iter()
        .filter(|lack| !lacks.contains(lack))
        .collect();
    assert!(
        !complete || stale.is_empty(),
        "it can say this now: {stale:?}"
    );
}

/// Plays one; the flag tells whether all of it was.
async fn play<P: Player>(
    hub: &Hub,
    scenario: &Scenario,
    lacks: &mut BTreeSet<&'static Lack>,
) -> bool {
    let name = &scenario.name;
    let mut kept: HashMap<String, Value> = HashMap::new();
    let marker = crate::calls::marker();
    let letters = marker.chars().rev().filter(char::is_ascii_alphanumeric);
    let random: String = letters.take(8).collect();
    kept.insert("random".to_owned(), random.to_lowercase().into());
    let spec = filled(&Value::Object(scenario.sandbox.clone()), &kept);
    let spec = SandboxSpec {
        isolation: Some(best_effort()),
        ..serde_json::from_value(spec).unwrap()
    };
    let client = hub.client();
    let record = in_time(client.create_sandbox(&spec)).await.unwrap();
    kept.insert("sandbox".to_owned(), record.id.as_str().into());
    let enforced = |layer: &str| {
        let mut layers = record.protections.iter();
        layers.any(|one| one.name.name() == layer && one.status == ProtectionStatus::Enforced)
    };
    let missing: Vec<_> = scenario
        .requires
        .iter()
        .filter(|one| !enforced(one))
        .collect();
    if !missing.is_empty() {
        skipped(&format!(
            "{name}: the sandbox is without {missing:?}, which it requires"
        ));
        return false;
    }
    let mut stage = Stage {
        player: Rc::new(P::new(hub, &record).await),
        sandbox: client.sandbox(&record.id),
        kept,
        begun: HashMap::new(),
        lacks,
    };
    let mut complete = true;
    for step in &scenario.steps {
        complete &= stage.step(name, step).await;
    }
    drop(stage);
    in_time(client.destroy_sandbox(&record.id)).await.unwrap();
    complete
}

fn best_effort() -> IsolationSpec {
    IsolationSpec {
        policy: IsolationPolicy::BestEffort,
        ..IsolationSpec::default()
    }
}

/// A scenario on its way.
struct Stage<'a, P> {
    player: Rc<P>,
    sandbox: Client,
    kept: HashMap<String, Value>,
    begun: HashMap<String, JoinHandle<Played>>,
    lacks: &'a mut BTreeSet<&'static Lack>,
}

impl<P: Player> Stage<'_, P> {
    /// Plays a step; false when something is missing for it.
    async fn step(&mut self, scenario: &str, step: &Step) -> bool {
        let place = format!("{scenario}: {}", step.name);
        for program in &step.needs {
            let request = ExecRequest {
                command: Some(format!("command -v {program}")),
                ..ExecRequest::default()
            };
            if in_time(self.sandbox.exec(&request))
                .await
                .unwrap()
                .exit_code
                != 0
            {
                skipped(&format!("{place}: {program} is not in the sandbox"));
                return false;
            }
        }
        let until = Instant::now() + EVENTUALLY;
        while let Err(reason) = self.attempt(&place, step).await {
            assert!(
                step.eventually && Instant::now() < until,
                "{place}: {reason}"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        true
    }

    /// Makes the call of a step; why it was not as expected.
    async fn attempt(&mut self, place: &str, step: &Step) -> Result<(), String> {
        let fill = |value: &Value| filled(value, &self.kept);
        let Value::Object(args) = fill(&Value::Object(step.args.clone())) else {
            unreachable!("an object stays one")
        };
        let (expect, error) = (
            step.expect.as_ref().map(fill),
            step.error.as_ref().map(fill),
        );
        if let Some(name) = &step.start {
            let call = Rc::clone(&self.player).call(step.call.clone(), args);
            self.begun
                .insert(name.clone(), tokio::task::spawn_local(call));
            return Ok(());
        }
        let played = if step.call == "join" {
            let begun = self.begun.remove(args["start"].as_str().unwrap()).unwrap();
            in_time(begun).await.unwrap()
        } else {
            in_time(Rc::clone(&self.player).call(step.call.clone(), args)).await
        };
        let result = match played {
            Played::Own(Err(problem)) => {
                let wanted = error.ok_or_else(|| format!("it failed: {problem}"))?;
                return unlike(&problem, &wanted, "problem");
            }
            Played::Own(Ok(result)) if error.is_some() => {
                return Err(format!("it gave {result} and should have failed"));
            }
            Played::Own(Ok(result)) => {
                let wanted = expect.map(|wanted| self.seen(place, step, wanted));
                if let Some(wanted) = wanted {
                    unlike(&result, &wanted, "result")?;
                }
                result
            }
            Played::ByAnother(said, lack) => {
                self.note(place, lack);
                match said {
                    Ok(result) => result,
                    Err(_) if error.is_some() => return Ok(()),
                    Err(problem) => return Err(format!("it failed for another: {problem}")),
                }
            }
            Played::Not(lack) => {
                self.note(place, lack);
                return Ok(());
            }
        };
        for (name, path) in &step.save {
            self.kept.insert(name.clone(), part(&result, path).clone());
        }
        Ok(())
    }

    fn note(&mut self, place: &str, lack: &'static Lack) {
        self.lacks.insert(lack);
        skipped(&format!("{place}: {}: {}", lack.what, lack.why));
    }

    /// What is expected, without what this player does not see.
    fn seen(&self, place: &str, step: &Step, wanted: Value) -> Value {
        let mut unseen = P::UNSEEN.iter().filter(|(call, ..)| *call == step.call);
        unseen.clone().for_each(|(_, member, why)| {
            skipped(&format!("{place}: `{member}` is not looked at: {why}"));
        });
        unseen
            .by_ref()
            .fold(wanted, |wanted, (_, member, _)| without(wanted, member))
    }
}

#[tokio::test]
async fn the_client_plays_them() {
    play_all::<client::ByClient>(&Hub::start()).await;
}

#[tokio::test]
async fn the_client_plays_them_for_an_ordinary_user() {
    if let Some(user) = UnprivilegedUser::get() {
        play_all::<client::ByClient>(&Hub::of(user)).await;
    }
}

#[tokio::test]
async fn the_command_line_plays_them() {
    play_all::<cli::ByCommands>(&Hub::start()).await;
}

#[tokio::test]
async fn the_command_line_plays_them_for_an_ordinary_user() {
    if let Some(user) = UnprivilegedUser::get() {
        play_all::<cli::ByCommands>(&Hub::of(user)).await;
    }
}
