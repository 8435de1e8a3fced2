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
//! nothing of it may be left: no process, no record.
//!
//! One agent, in bubblewrap or in a sandbox of a hub, serves many sequences, several at a time; ids that begin with
//! the sequence's own prefix keep them apart. A sequence that fails is made shorter and printed twice: as
//! steps, to be put into [`regressions`], and as calls, to be made by hand.
//!
//! `SANDSHELL_MODEL_SEQUENCES` and `SANDSHELL_MODEL_SEED` ask for more or other ones; `make model` runs
//! 10,000.

mod act;
mod drive;
mod regressions;
mod script;
mod step;
mod world;

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use sandshell_client::Client;
use sandshell_client::types::{IsolationPolicy, IsolationSpec, SandboxSpec, SessionRequest};
use sandshell_testkit::{Agent, Hub};
use tokio::runtime::Runtime;

use self::act::Act;
use self::drive::{Chosen, Driver, act_in_time};
use self::step::Step;
use self::world::World;
use crate::calls::in_time;

/// Sequences of each place, unless more are asked for.
const SEQUENCES: u32 = 100;
/// How many run at a time.
const AT_A_TIME: u32 = 4;
/// A failing sequence is tried this often in shorter forms.
const SHRINK_STEPS: u32 = 400;

/// Numbers the sequences of this test's process.
static NEXT: AtomicU32 = AtomicU32::new(0);

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
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let prefix = format!("m{number}-");
    let dir = format!("/tmp/model-{number}");
    // Seconds that no other program on the machine sleeps.
    let marker = format!("86400.{:07}{number:07}", std::process::id());
    let acts = World::plan(&prefix, &dir, &marker, &place.cwd, steps);
    place.runtime.block_on(async {
        let mut driver = Driver::new(place.client.clone(), &prefix, &place.chosen);
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
        if failed.is_none()
            && let Err(error) = driver.nothing_is_left(&dir, &marker).await
        {
            failed = Some((acts.len(), error));
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

/// Runs random sequences, several at a time, and panics with the shortest form of the first that fails.
fn run_many(place: &Place) {
    let sequences = number("SANDSHELL_MODEL_SEQUENCES", SEQUENCES);
    let seed = number("SANDSHELL_MODEL_SEED", 1);
    let done = AtomicU32::new(0);
    let began = Instant::now();
    let failures: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_A_TIME)
            .map(|worker| {
                let share = sequences / AT_A_TIME + u32::from(worker < sequences % AT_A_TIME);
                let done = &done;
                let progress = move || {
                    let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                    tell(done, sequences, began);
                };
                scope.spawn(move || work(place, worker, share, seed, &progress))
            })
            .collect();
        workers
            .into_iter()
            .filter_map(|worker| worker.join().unwrap().err())
            .collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The share of one worker: a generator of its own, whose seed a failure names.
fn work(
    place: &Place,
    worker: u32,
    share: u32,
    seed: u32,
    progress: &(dyn Fn() + Sync),
) -> Result<(), String> {
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&seed.to_le_bytes());
    bytes[4..8].copy_from_slice(&worker.to_le_bytes());
    let config = Config {
        cases: share,
        max_shrink_iters: SHRINK_STEPS,
        // Seeds say nothing once a generator has changed: a failure becomes a test in `regressions`.
        failure_persistence: None,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let outcome = runner.run(&step::sequence(), |steps| {
        progress();
        run(place, &steps).map_err(|failure| TestCaseError::fail(failure.0))
    });
    outcome.map_err(|error| match error {
        TestError::Fail(reason, steps) => {
            let steps: String = steps
                .iter()
                .map(|step| format!("    Step::{step:?},\n"))
                .collect();
            format!(
                "SANDSHELL_MODEL_SEED={seed}, worker {worker}: a sequence fails.\n  \
                 As steps:\n{steps}  As calls:\n{reason}"
            )
        }
        TestError::Abort(reason) => format!("worker {worker} gave up: {reason}"),
    })
}

#[expect(clippy::print_stderr, reason = "progress of a long run")]
fn tell(done: u32, of: u32, began: Instant) {
    if done.is_multiple_of(500) || done == of {
        eprintln!("{done} of {of} sequences, {:.0?}", began.elapsed());
    }
}

#[test]
fn random_sequences_in_bubblewrap_are_as_the_model_says() {
    let (_agent, place) = Place::in_bubblewrap();
    run_many(&place);
}

#[test]
fn random_sequences_in_a_sandbox_are_as_the_model_says() {
    let (_hub, place) = Place::in_a_sandbox();
    run_many(&place);
}
