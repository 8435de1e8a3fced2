//! The corpora on any Rust: every input that is kept, then inputs made of them by a seed.
//!
//! `SANDSHELL_FUZZ_RUNS` is how many of these each target gets, `SANDSHELL_FUZZ_SEED` where they begin.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test"
)]

use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once};

use sandshell_fuzz::{TARGETS, Target};

/// Targets that make directories or start programs, and so get a tenth.
const SLOW: &[&str] = &[
    "archive_unpack",
    "command_text",
    "config",
    "cp_unpack",
    "dialects",
    "image_import",
    "output_log",
    "paths",
];

const RUNS: u64 = 2000;
const SEED: u64 = 20_260_101;
/// Longest input that is made.
const LONGEST: usize = 4096;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

fn inputs(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let mut inputs: Vec<_> = fs::read_dir(corpus().join(target))
        .unwrap_or_else(|error| panic!("{target} has no corpus: {error}"))
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    inputs.sort();
    inputs
}

/// The first panic of any thread: a target may have some of its own.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Runs one input. A panic that the product catches is a find, too.
fn run((name, target): &Target, data: &[u8]) -> Result<(), String> {
    static NOTED: Once = Once::new();
    // One at a time, so that a panic is known by its input.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap();
    NOTED.call_once(|| {
        std::panic::set_hook(Box::new(|info| {
            let mut first = PANIC.lock().unwrap();
            first.get_or_insert_with(|| info.to_string());
        }));
    });
    let ended = catch_unwind(AssertUnwindSafe(|| target(data)));
    let panicked = PANIC.lock().unwrap().take();
    match panicked {
        None if ended.is_ok() => Ok(()),
        panic => Err(format!(
            "{name}: {}\n  input: b\"{}\"",
            panic.unwrap_or_default(),
            data.escape_ascii()
        )),
    }
}

fn none_failed(failures: &[String]) {
    // The hook is silent, so that a panic that is expected is.
    for failure in failures {
        eprintln!("{failure}");
    }
    assert!(failures.is_empty());
}

#[test]
fn every_target_has_a_corpus_and_a_binary() {
    let names: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let there = |dir: &str, suffix: &str| -> BTreeSet<String> {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join(dir);
        let entries = fs::read_dir(dir).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .map(|name| name.trim_end_matches(suffix).to_owned())
            .collect()
    };
    assert_eq!(there("corpus", ""), names);
    assert_eq!(there("fuzz_targets", ".rs"), names);
}

#[test]
fn every_input_kept_holds() {
    let mut failures = Vec::new();
    for target in TARGETS {
        for (path, data) in inputs(target.0) {
            if let Err(why) = run(target, &data) {
                failures.push(format!("{}: {why}", path.display()));
            }
        }
    }
    none_failed(&failures);
}

/// Numbers that are the same for the same seed (xorshift64*).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16;
        usize::try_from(number).unwrap() % end.max(1)
    }
}

/// Changes an input a little, at times with a part of another.
fn mutate(data: &mut Vec<u8>, other: &[u8], numbers: &mut Numbers) {
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(data.len() + 1);
        let length = numbers.below(16).min(data.len() - at);
        match numbers.below(7) {
            0 if at < data.len() => data[at] ^= 1 << numbers.below(8),
            1 if at < data.len() => data[at] = [0, 0xff, b'/', b'"', b'\n', 0x1b][numbers.below(6)],
            2 => data.insert(at, numbers.below(256) as u8),
            3 => drop(data.drain(at..at + length)),
            4 => {
                let part = data[at..at + length].to_vec();
                data.splice(at..at, part);
            }
            5 => {
                let from = numbers.below(other.len() + 1);
                let until = (from + numbers.below(64)).min(other.len());
                data.splice(at..at + length, other[from..until].iter().copied());
            }
            _ => data.truncate(at),
        }
    }
    data.truncate(LONGEST);
}

#[test]
fn inputs_made_by_a_seed_hold() {
    let setting = |name: &str, default: u64| {
        let value = std::env::var(name).ok();
        value.map_or(default, |value| value.parse().unwrap())
    };
    let runs = setting("SANDSHELL_FUZZ_RUNS", RUNS);
    let seed = setting("SANDSHELL_FUZZ_SEED", SEED);
    let mut failures = Vec::new();
    for target in TARGETS {
        let kept = inputs(target.0);
        let runs = if SLOW.contains(&target.0) {
            runs / 10
        } else {
            runs
        };
        let mut numbers = Numbers(seed);
        for _ in 0..runs {
            let mut data = kept[numbers.below(kept.len())].1.clone();
            let other = &kept[numbers.below(kept.len())].1;
            mutate(&mut data, other, &mut numbers);
            if let Err(why) = run(target, &data) {
                failures.push(why);
                break;
            }
        }
    }
    none_failed(&failures);
}
