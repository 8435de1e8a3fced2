//! The hub is killed at every step it takes, and what it has answered is so all the same.
//!
//! ```text
//! listen: each kind of step once ──► which calls it makes ──► points: (kind, call, nth, before or after)
//! worlds: a hub, a few random steps, a step with a trap at a point ─► dead ─► started again ─► checked ─┐
//!                  ▲──────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! `tracer` stops the hub at each system call that has an effect outside of it (`effects`), so that no hook
//! in the product is needed: durable writes, words to the launcher, spawns, answers, accepts, directories.
//! `model` says what must be; of the one wish in flight it may be all or nothing, and the wish sent again
//! must do what it says (`checks`). `machine` looks at what is really there.
//!
//! `make crash` takes every point, `make test` a sample. A violation is told with its seed and the points of
//! its world; `SANDSHELL_CRASH_REPLAY`, a file with these lines, plays it again.

mod checks;
mod effects;
mod machine;
mod model;
mod points;
mod tracer;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use futures_util::FutureExt as _;
use nix::errno::Errno;
use rustix::process::Signal;

use crate::calls::skipped;
use points::{Kind, Moment, Point, Trap, Victim};
use world::{Answer, Random, World};

/// Crash points of one world: enough that they meet each other's traces, few enough to be understood.
const IN_ONE_WORLD: usize = 8;

/// What came of a run.
#[derive(Debug, Default)]
struct Tally {
    reached: usize,
    missed: BTreeSet<String>,
    /// Worlds with a violation.
    violated: usize,
}

fn number(name: &str) -> Option<usize> {
    std::env::var(name).ok()?.parse().ok()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// Plays a world to its end and cleans up; a violation is told with all that is needed to see it again.
fn play<T>(seed: u64, points: &[Point], what: impl AsyncFnOnce(&mut World) -> T) -> T {
    runtime().block_on(async {
        let mut world = World::new(seed);
        let played = AssertUnwindSafe(what(&mut world)).catch_unwind().await;
        let played = match played {
            Ok(played) => {
                let finished = AssertUnwindSafe(world.finish()).catch_unwind().await;
                finished.map(|()| played)
            }
            Err(violation) => {
                // So that nothing is left on the machine.
                let _ = AssertUnwindSafe(world.finish()).catch_unwind().await;
                Err(violation)
            }
        };
        played.unwrap_or_else(|violation| {
            tell(&world, seed, points);
            std::panic::resume_unwind(violation)
        })
    })
}

#[expect(clippy::print_stderr, reason = "the harness captures it with the panic")]
fn tell(world: &World, seed: u64, points: &[Point]) {
    eprintln!("--- a violation; to replay:\nseed {seed}");
    for point in points {
        eprintln!("{point}");
    }
    eprintln!("--- the steps:\n{}", world.trail.join("\n"));
    eprintln!("--- the hub wrote:\n{}--- end", world.log());
}

/// Hears what calls each kind of step makes. `None` where nothing can be traced.
fn all_points() -> Option<Vec<Point>> {
    let heard = play(0, &[], async |world: &mut World| {
        match world.start(Kind::FirstStart, None, &[]).await {
            Ok(served) => assert!(served, "the hub does not start"),
            Err(errno @ (Errno::EPERM | Errno::EACCES | Errno::ENOSYS)) => {
                skipped(&format!(
                    "processes cannot be traced here ({errno}), so the hub is NOT killed at its calls"
                ));
                return None;
            }
            Err(errno) => panic!("{errno}"),
        }
        for _ in 0..2 {
            for kind in Kind::asked() {
                world.listen(kind).await;
            }
        }
        // One that is paused, one that runs, one that waits, are there to be taken over.
        for kind in [Kind::CreateFresh, Kind::Pause, Kind::Command] {
            world.listen(kind).await;
        }
        for _ in 0..2 {
            world.kill().await;
            world.start_again().await;
            world.check().await;
            stop(world, None).await;
            world.start_again().await;
        }
        Some(std::mem::take(&mut world.heard))
    });
    Some(points_of(&heard?))
}

fn points_of(heard: &BTreeMap<Kind, BTreeMap<String, u32>>) -> Vec<Point> {
    let mut points = Vec::new();
    for (kind, calls) in heard {
        for (call, count) in calls {
            for nth in 1..=*count {
                for moment in [Moment::Before, Moment::After] {
                    let mut add = |victim| {
                        points.push(Point {
                            during: *kind,
                            trap: Trap {
                                call: call.clone(),
                                nth,
                                moment,
                                victim,
                            },
                        });
                    };
                    // Files are copied one after the other: after one is before the next.
                    if call.contains("s/etc/N/") && moment == Moment::After {
                        continue;
                    }
                    add(Victim::Hub);
                    // Where the launcher is asked for something, it may be late or die as well.
                    if kind.launches() && (call.contains("msg") || call.contains("hub.db")) {
                        add(Victim::HubFirst);
                        add(Victim::Launcher);
                    }
                }
            }
        }
    }
    points
}

/// Ends a hub by SIGTERM, perhaps with a trap in its way.
async fn stop(world: &mut World, trap: Option<Trap>) {
    world.pool_full().await;
    world.tracer().arm(trap);
    world.tracer().signal(Signal::TERM);
    world.stopped().await;
}

/// One crash, and what must hold after it. Says whether the point was reached.
async fn crash(world: &mut World, point: &Point) -> bool {
    let trap = Some(point.trap.clone());
    match point.during {
        Kind::FirstStart => unreachable!("a world begins with it"),
        Kind::Start => {
            // Killed as it serves, killed again as it comes back.
            world.note(format!("killed, then {point}"));
            world.kill().await;
            let served = world.start(Kind::Start, trap, &[]).await.unwrap();
            let reached = if served {
                world.settled_trap().await
            } else {
                world.ended().await;
                true
            };
            if reached {
                world.start_again().await;
            }
            reached
        }
        Kind::Stop => {
            world.note(point.to_string());
            stop(world, trap.clone()).await;
            let reached = world.sprung_last();
            world.start_again().await;
            reached
        }
        _ => {
            let (wish, answer, reached) = world.trapped(point).await;
            if !reached {
                // The step was taken in another way this time, and nothing happened.
                match answer {
                    Answer::Done(reply) => world.done(&wish, reply),
                    other => panic!("{wish:?}: {other:?}"),
                }
                return false;
            }
            if point.trap.victim == Victim::Launcher {
                world.settle_with_hub(&wish, answer).await;
                return true;
            }
            world.start_again().await;
            match answer {
                Answer::Done(reply) => world.done(&wish, reply),
                Answer::Broken => world.settle(&wish).await,
                Answer::Refused(code, text) => panic!("{wish:?}: {code:?}, {text}"),
            }
            true
        }
    }
}

fn play_world(seed: u64, points: &[Point], tally: &Mutex<Tally>) {
    play(seed, points, async |world: &mut World| {
        let mut points = points.iter();
        let first = points.clone().next().filter(|point| point.during == Kind::FirstStart);
        let count = |point: &Point, reached: bool| {
            let mut tally = tally.lock().unwrap();
            if reached {
                tally.reached += 1;
            } else {
                tally.missed.insert(point.to_string());
            }
        };
        if let Some(point) = first {
            points.next();
            world.note(point.to_string());
            let trap = Some(point.trap.clone());
            let served = world.start(Kind::FirstStart, trap, &[]).await.unwrap();
            if served {
                count(point, world.settled_trap().await);
            } else {
                world.ended().await;
                count(point, true);
            }
        }
        if world.is_down() {
            world.start_again().await;
        }
        for point in points {
            world.wander().await;
            let reached = crash(world, point).await;
            count(point, reached);
            world.check().await;
        }
    });
}

/// Worlds of these points; those of a first start stand at the beginning of one each.
fn worlds(mut points: Vec<Point>, random: &mut Random) -> Vec<Vec<Point>> {
    // Mixed, so that a sample has some of everything.
    for at in (1..points.len()).rev() {
        points.swap(at, random.below(at + 1));
    }
    let (firsts, others): (Vec<Point>, Vec<Point>) = points
        .into_iter()
        .partition(|point| point.during == Kind::FirstStart);
    let mut worlds: Vec<Vec<Point>> = others
        .chunks(IN_ONE_WORLD)
        .map(<[Point]>::to_vec)
        .collect();
    for (at, first) in firsts.into_iter().enumerate() {
        match worlds.get_mut(at) {
            Some(world) => world.insert(0, first),
            None => worlds.push(vec![first]),
        }
    }
    worlds
}

#[test]
#[expect(clippy::print_stderr, reason = "the figures are what is wanted")]
fn killed_at_any_call_the_hub_keeps_its_word() {
    let began = Instant::now();
    if let Ok(file) = std::env::var("SANDSHELL_CRASH_REPLAY") {
        return replay(&file);
    }
    let Some(mut points) = all_points() else {
        return;
    };
    let known = points.len();
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for point in &points {
        *kinds.entry(point.during.name()).or_default() += 1;
    }
    eprintln!("{known} crash points: {kinds:?}");
    let seed = number("SANDSHELL_CRASH_SEED").unwrap_or(7) as u64;
    let mut random = Random(seed);
    let wanted = number("SANDSHELL_CRASH_POINTS").unwrap_or(40).min(known);
    for at in 0..wanted {
        let with = at + random.below(known - at);
        points.swap(at, with);
    }
    points.truncate(wanted);
    let worlds = worlds(points, &mut random);
    let tally = Mutex::new(Tally::default());
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..number("SANDSHELL_CRASH_JOBS").unwrap_or(2) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(points) = worlds.get(at) else {
                        return;
                    };
                    let playing = || play_world(seed + at as u64, points, &tally);
                    if std::panic::catch_unwind(AssertUnwindSafe(playing)).is_err() {
                        tally.lock().unwrap().violated += 1;
                    }
                }
            });
        }
    });
    let tally = tally.into_inner().unwrap();
    eprintln!(
        "seed {seed}: {} crash points of {known} in {} worlds, {} not reached, {} s",
        tally.reached,
        worlds.len(),
        tally.missed.len(),
        began.elapsed().as_secs()
    );
    for missed in &tally.missed {
        eprintln!("not reached: {missed}");
    }
    assert_eq!(tally.violated, 0, "worlds with a violation; they are told above");
    assert!(tally.reached * 2 > wanted, "most points are not reached");
}

/// Plays one world as a violation was told: its seed, and its points.
fn replay(file: &str) {
    let text = std::fs::read_to_string(file).unwrap();
    let mut lines = text.lines();
    let seed = lines.next().and_then(|line| line.strip_prefix("seed "));
    let seed = seed.expect("it begins with `seed N`").parse().unwrap();
    let points: Vec<Point> = lines.map(|line| line.parse().unwrap()).collect();
    play_world(seed, &points, &Mutex::default());
}
