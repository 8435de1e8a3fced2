//! The whole agent against a model: random sequences of calls, each answer predicted.
//!
//! ```text
//! step::sequence ──► world::plan ──► acts: calls, each with the answers allowed ──► drive ──► agent
//!  random, shrinks    the model, pure                                  compares what came
//! ```
//!
//! The model is a state machine for each kind of thing; `world/sessions.rs`, `world/processes.rs` and
//! `world/terminals.rs` draw theirs, `script.rs` is its bash. It predicts exit codes, the exact bytes of
//! each stream, offsets, the state of sessions, lists, and the codes of refusals. At the end of every sequence
//! nothing of it may be left, no process and no record, and the log of events must tell of each thing's life.
//!
//! One agent, in bubblewrap or in a sandbox of a hub, serves many sequences, several at a time; ids that begin with
//! the sequence's own prefix keep them apart. A sequence that fails is made shorter and printed twice: as
//! steps, to be put into [`regressions`], and as calls, to be made by hand.
//!
//! `SANDSHELL_MODEL_SEQUENCES` and `SANDSHELL_MODEL_SEED` ask for more or other ones; `make model` runs
//! 10,000.

mod act;
mod drive;
mod races;
mod regressions;
mod script;
mod step;
mod world;

use std::cell::Cell;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use sandshell_client::Client;
use sandshell_client::types::{IsolationPolicy, IsolationSpec, SandboxSpec, SessionRequest};
use sandshell_testkit::{Agent, Hub};
use tokio::runtime::Runtime;

use self::act::Act;
use self::drive::{Chosen, Driver, Events, act_in_time};
use self::step::Step;
use self::world::World;
use crate::calls::in_time;

/// Sequences of each place, unless more are asked for.
const SEQUENCES: u32 = 100;
/// How many run at a time.
const AT_A_TIME: u32 = 4;
/// A failing sequence is tried this often in shorter forms, and no longer than this: whoever ends a test that takes
/// too long would end it without a word.
const SHRINK_STEPS: u32 = 400;
const SHRINK_MS: u32 = 60_000;

/// What keeps sequences apart.
struct Names {
    /// Ids of the sequence begin with it.
    prefix: String,
    dir: String,
    /// Seconds that no other program on the machine sleeps.
    marker: String,
}

impl Names {
    fn next() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self {
            prefix: format!("m{number}-"),
            dir: format!("/tmp/model-{number}"),
            marker: format!("86400.{:07}{number:07}", std::process::id()),
        }
    }
}

/// An agent that serves sequences.
struct Place {
    runtime: Runtime,
    client: Client,
    /// Where its sessions begin.
    cwd: String,
    chosen: Chosen,
}

impl Place {
    fn new(runtime: Runtime, client: Client) -> Self {
        let session = runtime.block_on(async {
            let session = in_time(client.create_session(&SessionRequest::default())).await;
            let session = session.unwrap();
            in_time(client.delete_session(&session.id)).await.unwrap();
            session
        });
        Self {
            runtime,
            client,
            cwd: session.cwd,
            chosen: Chosen::default(),
        }
    }

    fn in_bubblewrap() -> (Agent, Self) {
        let agent = Agent::builder().in_bubblewrap().start();
        let place = Self::new(Runtime::new().unwrap(), agent.client());
        (agent, place)
    }

    fn in_a_sandbox() -> (Hub, Self) {
        let hub = Hub::start();
        let runtime = Runtime::new().unwrap();
        let spec = SandboxSpec {
            isolation: Some(IsolationSpec {
                policy: IsolationPolicy::BestEffort,
                require: Vec::new(),
            }),
            ..SandboxSpec::default()
        };
        let client = hub.client();
        let made = runtime.block_on(async { in_time(client.create_sandbox(&spec)).await });
        let place = Self::new(runtime, client.sandbox(&made.unwrap().id));
        (hub, place)
    }
}

/// What went wrong, with all calls up to the one that failed.
struct Failure(String);

/// Runs one sequence to its end.
fn run(place: &Place, steps: &[Step]) -> Result<(), Failure> {
    let Names {
        prefix,
        dir,
        marker,
    } = Names::next();
    let acts = World::plan(&prefix, &dir, &marker, &place.cwd, steps);
    place.runtime.block_on(async {
        let mut driver = Driver::new(place.client.clone(), &prefix, &place.chosen);
        let events = Events::listen(&place.client, &prefix).await;
        let made = driver.prepare(&dir).await;
        let mut failed = made.err().map(|error| (0, error));
        for (index, act) in acts.iter().enumerate() {
            if failed.is_some() {
                break;
            }
            if let Err(error) = act_in_time(&mut driver, act).await {
                failed = Some((index, error));
            }
        }
        if failed.is_none() {
            let told = match events {
                Ok(events) => events.are_those_of(&acts).await,
                Err(error) => Err(error),
            };
            let left = driver.nothing_is_left(&dir, &marker).await;
            failed = told.and(left).err().map(|error| (acts.len(), error));
        }
        let Some((index, error)) = failed else {
            return Ok(());
        };
        driver.clear().await;
        Err(Failure(report(&acts, index, &error)))
    })
}

/// The calls that were made, and the answer that was wrong.
fn report(acts: &[Act], failed: usize, error: &str) -> String {
    let mut text = String::new();
    for act in acts.iter().take(failed + 1) {
        let _ = writeln!(text, "    {act}");
    }
    let _ = writeln!(text, "    ^ {error}");
    text
}

fn number(name: &str, usual: u32) -> u32 {
    let set = std::env::var(name).ok();
    set.map_or(usual, |text| text.parse().expect("a number"))
}

/// Makes random plans and runs them, several at a time; panics with the shortest form of those that fail.
fn run_many<S: Strategy>(
    share_of_all: u32,
    plans: impl Fn() -> S + Sync,
    run: impl Fn(&S::Value) -> Result<(), Failure> + Sync,
    shown: impl Fn(&S::Value) -> String + Sync,
) {
    let sequences = number("SANDSHELL_MODEL_SEQUENCES", SEQUENCES) / share_of_all;
    let seed = number("SANDSHELL_MODEL_SEED", 1);
    let done = AtomicU32::new(0);
    let began = Instant::now();
    let work = |worker: u32| {
        let share = sequences / AT_A_TIME + u32::from(worker < sequences % AT_A_TIME);
        let mut runner = runner(share, seed, worker);
        let failed = Cell::new(false);
        let outcome = runner.run(&plans(), |plan| {
            tell(done.fetch_add(1, Ordering::Relaxed) + 1, sequences, began);
            let outcome = catch_unwind(AssertUnwindSafe(|| run(&plan)));
            if !matches!(outcome, Ok(Ok(()))) && !failed.replace(true) {
                let why = outcome.as_ref().ok().and_then(|ran| ran.as_ref().err());
                let why = why.map_or("it panicked", |failure| failure.0.as_str());
                say(&format!(
                    "SANDSHELL_MODEL_SEED={seed}, worker {worker}: before it is made shorter:\n{}{why}",
                    shown(&plan)
                ));
            }
            let outcome = outcome.unwrap_or_else(|panic| resume_unwind(panic));
            outcome.map_err(|failure| TestCaseError::fail(failure.0))
        });
        outcome.map_err(|error| match error {
            TestError::Fail(reason, plan) => format!(
                "SANDSHELL_MODEL_SEED={seed}, worker {worker}: this fails:\n{}  As calls:\n{reason}",
                shown(&plan)
            ),
            TestError::Abort(reason) => format!("worker {worker} gave up: {reason}"),
        })
    };
    let failures: Vec<String> = std::thread::scope(|scope| {
        let work = &work;
        let workers: Vec<_> = (0..AT_A_TIME)
            .map(|worker| scope.spawn(move || work(worker)))
            .collect();
        let ended = workers.into_iter().map(|worker| worker.join().unwrap());
        ended.filter_map(Result::err).collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// A generator of one worker's own, whose seed a failure names.
fn runner(cases: u32, seed: u32, worker: u32) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&seed.to_le_bytes());
    bytes[4..8].copy_from_slice(&worker.to_le_bytes());
    let config = Config {
        cases,
        max_shrink_iters: SHRINK_STEPS,
        max_shrink_time: SHRINK_MS,
        // Seeds say nothing once a generator has changed: a failure becomes a test in `regressions`.
        failure_persistence: None,
        ..Config::default()
    };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

/// Steps as they are written in a regression test.
fn as_steps(steps: &[Step]) -> String {
    let lines = steps.iter().map(|step| format!("    Step::{step:?},\n"));
    format!("  As steps:\n{}", lines.collect::<String>())
}

fn tell(done: u32, of: u32, began: Instant) {
    if done.is_multiple_of(500) || done == of {
        say(&format!(
            "{done} of {of} sequences, {:.0?}",
            began.elapsed()
        ));
    }
}

#[expect(
    clippy::print_stderr,
    reason = "progress of a long run, and how it ends"
)]
fn say(what: &str) {
    eprintln!("{what}");
}

fn sequences(place: &Place) {
    run_many(
        1,
        step::sequence,
        |steps| run(place, steps),
        |steps| as_steps(steps),
    );
}

#[test]
fn random_sequences_in_bubblewrap_are_as_the_model_says() {
    let (_agent, place) = Place::in_bubblewrap();
    sequences(&place);
}

#[test]
fn random_sequences_in_a_sandbox_are_as_the_model_says() {
    let (_hub, place) = Place::in_a_sandbox();
    sequences(&place);
}

/// Calls at once about one id. A tenth as many as sequences.
fn races(place: &Place) {
    run_many(
        10,
        races::plans,
        |(kind, plans)| {
            let names = Names::next();
            let race = races::race(&place.client, &names.prefix, &names.marker, *kind, plans);
            place.runtime.block_on(race).map_err(Failure)
        },
        |plans| format!("  {plans:?}\n"),
    );
}

#[test]
fn calls_at_once_about_one_id_have_an_order() {
    let (_hub, place) = Place::in_a_sandbox();
    races(&place);
    let (_agent, place) = Place::in_bubblewrap();
    races(&place);
}

#[test]
fn clients_take_turns_in_one_session() {
    let (_agent, place) = Place::in_bubblewrap();
    run_many(
        20,
        || prop::collection::vec(1..8_u8, 1..5),
        |counts| {
            let prefix = Names::next().prefix;
            let turns = races::take_turns(&place.client, &prefix, counts);
            place.runtime.block_on(turns).map_err(Failure)
        },
        |counts| format!("  {counts:?} commands\n"),
    );
}
