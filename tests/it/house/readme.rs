//! The README and the guides, run as a reader would: `make run` in one terminal, every `sh` block in
//! another. Guides begin where the README's quickstart ends: the hub is known to the command line.
//!
//! Blocks marked `sh` are pasted into one bash, in order. A `text` block right after one is what it
//! prints; there `…` stands for whatever varies, and a line of only `…` for any number of lines. Two things
//! are changed: the port, so that a running agent is not in the way, and times that a slow machine exceeds.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use sandshell_testkit::find_binary;

use super::{files, read, root};
use crate::calls::DEADLINE;

const ADDRESS: &str = "127.0.0.1:4020";
const ANYTHING: &str = "…";

/// Times to wait for something, and how long that may be on a machine that stands still for a while.
const LIMITS: [[&str; 2]; 2] = [
    ["--timeout 30s", "--timeout 120s"],
    ["\"timeout_ms\": 10000}", "\"timeout_ms\": 120000}"],
];

/// Times in which something must have come out, and longer ones: where a block with one prints something else, the document
/// is run again with the next.
const PAUSES: [[&str; 3]; 3] = [
    ["--timeout 300ms", "--timeout 3s", "--timeout 75s"],
    [
        "\"timeout_ms\": 300}",
        "\"timeout_ms\": 3000}",
        "\"timeout_ms\": 75000}",
    ],
    ["sleep 0.5", "sleep 2", "sleep 10"],
];

/// Printed between two blocks; nothing in the README prints it.
const MARK: &str = "\u{1e}";

struct Block {
    text: String,
    expected: Option<String>,
}

fn blocks(document: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut lines = document.lines();
    // Whether the next block, if it is `text`, belongs to the last `sh` one.
    let mut follows = false;
    while let Some(line) = lines.next() {
        let Some(kind) = line.strip_prefix("```") else {
            continue;
        };
        let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let text = body.join("\n");
        match kind {
            "sh" => blocks.push(Block {
                text,
                expected: None,
            }),
            "text" if follows => {
                if let Some(last) = blocks.last_mut() {
                    last.expected = Some(text);
                }
            }
            _ => {}
        }
        follows = kind == "sh";
    }
    blocks
}

/// Whether what was printed is what was expected.
fn matches(printed: &[&str], expected: &[&str]) -> bool {
    match expected.split_first() {
        None => printed.is_empty(),
        Some((&ANYTHING, rest)) => {
            (0..=printed.len()).any(|skipped| matches(&printed[skipped..], rest))
        }
        Some((line, rest)) => printed
            .split_first()
            .is_some_and(|(first, others)| line_matches(first, line) && matches(others, rest)),
    }
}

fn line_matches(mut printed: &str, expected: &str) -> bool {
    let mut parts = expected.split(ANYTHING);
    let first = parts.next().unwrap_or_default();
    let Some(rest) = printed.strip_prefix(first) else {
        return false;
    };
    printed = rest;
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return printed.ends_with(part);
        }
        let Some(at) = printed.find(part) else {
            return false;
        };
        printed = &printed[at + part.len()..];
    }
    printed.is_empty()
}

/// `make run` with the binary under test, until dropped.
struct MakeRun {
    make: Child,
    /// The agent, once it is served.
    agent: Option<Pid>,
}

impl MakeRun {
    /// Starts it and gives the address it says it is served at.
    fn start(run_dir: &Path) -> (Self, String) {
        use std::os::unix::process::CommandExt as _;
        let mut child = Command::new("make")
            .arg("run")
            // Inside `make test` it would say at the end which directory it leaves, to nobody.
            .arg("--no-print-directory")
            .arg("LISTEN=127.0.0.1:0")
            .arg(format!("RUN_DIR={}", run_dir.display()))
            .arg(format!("SANDSHELL_BIN={}", find_binary().display()))
            .current_dir(root())
            .env_remove("MAKEFLAGS")
            .env_remove("MAKELEVEL")
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        let mut running = Self {
            make: child,
            agent: None,
        };
        let mut said = String::new();
        let mut address = None;
        for line in BufReader::new(stdout).lines() {
            let line = line.unwrap();
            if let Some((_, found)) = line.split_once("served at http://") {
                address = Some(found.to_owned());
            }
            // The last line: from here on it says nothing more.
            if line.contains("curl ") {
                running.agent = Some(pid_in(&run_dir.join("ready")));
                return (running, address.expect("an address"));
            }
            said.push_str(&line);
            said.push('\n');
        }
        panic!("make run ended:\n{said}");
    }

    /// Ends the agent, and with it `make run`, which must be content.
    fn stop(mut self) {
        kill_process(self.agent.expect("it was served"), Signal::TERM).unwrap();
        let status = self.make.wait().unwrap();
        assert!(status.success(), "make run ended with {status}");
    }
}

impl Drop for MakeRun {
    fn drop(&mut self) {
        // Only when the test failed; else it has been waited for.
        if matches!(self.make.try_wait(), Ok(None))
            && let Some(group) = i32::try_from(self.make.id()).ok().and_then(Pid::from_raw)
        {
            let _ = kill_process_group(group, Signal::TERM);
            let _ = self.make.wait();
        }
    }
}

/// The pid in a ready file. It is written just after the last line is printed.
fn pid_in(ready: &Path) -> Pid {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Ok(text) = std::fs::read_to_string(ready) {
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            let pid = value["pid"]
                .as_i64()
                .and_then(|pid| i32::try_from(pid).ok());
            return pid.and_then(Pid::from_raw).unwrap();
        }
        assert!(
            Instant::now() < deadline,
            "{} was not written",
            ready.display()
        );
        std::thread::yield_now();
    }
}

#[test]
fn every_block_of_the_readme_works_as_printed() {
    assert!(works_as_printed("README.md", false) >= 5);
}

#[test]
fn every_block_of_the_guides_works_as_printed() {
    let guides = files("docs/how-to", "md");
    let worked: usize = guides
        .iter()
        .map(|guide| works_as_printed(&guide.display().to_string(), true))
        .sum();
    assert!(worked >= 20, "the guides have lost their examples");
}

/// Runs the blocks of a document; gives how many there are.
fn works_as_printed(document: &str, knows_the_hub: bool) -> usize {
    let blocks = blocks(&read(document));
    if blocks.is_empty() {
        return 0;
    }
    let mut wrong = None;
    for round in 0..PAUSES[0].len() {
        wrong = first_wrong(document, &blocks, knows_the_hub, round);
        let in_a_hurry = |(block, _): &(&Block, String)| {
            let mut short = PAUSES.iter().map(|[short, ..]| short);
            short.any(|short| block.text.contains(short))
        };
        if !wrong.as_ref().is_some_and(in_a_hurry) {
            break;
        }
    }
    if let Some((block, printed)) = wrong {
        panic!(
            "{document}: $ {}\nshould print\n{}\nand printed\n{printed}",
            block.text,
            block.expected.as_deref().unwrap_or_default()
        );
    }
    blocks.len()
}

/// Runs all blocks; gives the first that prints something else than is expected, and what that is.
fn first_wrong<'a>(
    document: &str,
    blocks: &'a [Block],
    knows_the_hub: bool,
    round: usize,
) -> Option<(&'a Block, String)> {
    let dir = tempfile::tempdir().unwrap();
    let run_dir = dir.path().join(".build/run");
    let (running, address) = MakeRun::start(&run_dir);
    // A terminal shows both.
    let mut script = "exec 2>&1\n".to_owned();
    for block in blocks {
        let text = in_round(&block.text, round).replace(ADDRESS, &address);
        script.push_str(&text);
        script.push_str(&format!("\nprintf '{MARK}'\n"));
    }
    let mut bash = Command::new("bash");
    bash.args(["-euc", &script])
        .current_dir(dir.path())
        .env("PATH", path_with_binary())
        .env("HOME", dir.path())
        .env_remove("XDG_CONFIG_HOME")
        .stdin(Stdio::null());
    if knows_the_hub {
        bash.env("SANDSHELL_URL", format!("http://{address}"))
            .env("SANDSHELL_TOKEN_FILE", run_dir.join("token"));
    }
    let output = bash.output().unwrap();
    running.stop();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{document}: {printed}");
    let parts: Vec<&str> = printed.split(MARK).collect();
    assert_eq!(parts.len(), blocks.len() + 1);
    let mut each = blocks.iter().zip(parts);
    let (block, part) = each.find(|(block, part)| {
        let got: Vec<&str> = part.trim_end().lines().collect();
        block.expected.as_ref().is_some_and(|expected| {
            let wanted: Vec<&str> = expected.trim_end().lines().collect();
            !matches(&got, &wanted)
        })
    })?;
    Some((block, part.to_owned()))
}

/// A text with the times of a round.
fn in_round(text: &str, round: usize) -> String {
    let limits = LIMITS.map(|[here, patient]| (here, patient));
    let pauses = PAUSES.map(|pauses| (pauses[0], pauses[round]));
    let changes = limits.into_iter().chain(pauses);
    changes.fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

fn path_with_binary() -> std::ffi::OsString {
    let binary = find_binary();
    let own = std::env::var_os("PATH").unwrap_or_default();
    let dirs = binary
        .parent()
        .map(Path::to_owned)
        .into_iter()
        .chain(std::env::split_paths(&own));
    std::env::join_paths(dirs).unwrap()
}

#[test]
fn the_times_that_are_changed_stand_in_a_document() {
    let guides: String = files("docs/how-to", "md").iter().map(read).collect();
    let text = read("README.md") + &guides;
    let limits = LIMITS.iter().map(|[here, _]| here);
    for time in limits.chain(PAUSES.iter().map(|[here, ..]| here)) {
        assert!(text.contains(time), "{time} is in none");
    }
}

#[test]
fn blocks_and_outputs_are_told_apart() {
    let text = "a\n```console\nmake run\n```\n```sh\none\n```\nb\n```text\nx\n```\n```sh\ntwo\n```\n```json\n{}\n```\n";
    let blocks = blocks(text);
    assert_eq!(blocks.len(), 2);
    assert_eq!(blocks[0].expected.as_deref(), Some("x"));
    assert_eq!(blocks[1].expected, None);
}

#[test]
fn what_varies_is_left_out() {
    assert!(line_matches("id 123 ms", "id … ms") && !line_matches("id 123 s", "id … ms"));
    assert!(line_matches("a1b2c", "a…b…c") && !line_matches("a1b2cd", "a…b…c"));
    assert!(line_matches("same", "same") && !line_matches("same!", "same"));
    assert!(matches(&["a", "x", "y", "b"], &["a", ANYTHING, "b"]));
    assert!(!matches(&["a", "x"], &["a"]));
}
