//! Faults: what is left when system calls fail, processes are killed or stand still, disks are full and
//! clients misbehave.
//!
//! What must hold each time: no byte lost or doubled, no process left, no id reused, a clear error for
//! whoever asked, and a service that goes on. `make test` has a sample, `make faults` all of it
//! (`SANDSHELL_FAULTS=full`).

mod bench;
mod clients;
mod clock;
mod disk;
mod exhausted;
mod hub;
mod injected;
mod killed;
mod lives;
mod stalls;
mod tracer;

use std::time::{SystemTime, UNIX_EPOCH};

use sandshell_testkit::Hub;

use crate::hub::{agent_of, id_of, sandbox, spec_of, until};

/// Whether everything is to be tried, or only a sample.
fn full() -> bool {
    std::env::var("SANDSHELL_FAULTS").is_ok_and(|amount| amount == "full")
}

/// Of so many faults one is tried when not all are.
const SAMPLE: u64 = 12;

/// Where the random numbers of a sample begin.
const SEED: u64 = 1;

/// Says something that is to be seen with the test.
#[expect(clippy::print_stderr, reason = "it belongs to the test's report")]
fn say(what: &str) {
    eprintln!("{what}");
}

/// The seed, which is told.
fn seed() -> u64 {
    let given = std::env::var("SANDSHELL_FAULTS_SEED").ok();
    let given = given.and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| {
        if !full() {
            return SEED;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        u64::try_from(now.as_micros()).unwrap()
    });
    say(&format!("SANDSHELL_FAULTS_SEED={seed}"));
    seed
}

/// Whether a fault is in the sample with this seed. Each is asked of by itself: which calls are seen at all is a matter
/// of threads and time, and one more or less must not choose others in place of all that come after it.
fn in_sample(seed: u64, fault: &str) -> bool {
    // FNV-1a
    let hashed = fault
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
    full() || Dice(seed ^ hashed).below(SAMPLE) == 0
}

/// Random numbers that can be had again: the seed is told, and taken from `SANDSHELL_FAULTS_SEED`. A sample has
/// always the same, so that `make test` says the same of the same code; in full the clock gives another each time.
struct Dice(u64);

impl Dice {
    fn new() -> Self {
        Self(seed())
    }

    /// A number below this one (splitmix64).
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// Processes of a hub's sandboxes: those that have something of its directory among their mounts.
fn processes_of(hub: &Hub) -> Vec<i32> {
    let name = hub.dir().file_name().unwrap().to_str().unwrap().to_owned();
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let has_it = |pid: &i32| {
        std::fs::read_to_string(format!("/proc/{pid}/mountinfo"))
            .is_ok_and(|mounts| mounts.contains(&name))
    };
    pids.filter(has_it).collect()
}
