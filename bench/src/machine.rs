//! Where, when and of what was measured.

use std::fmt;
use std::path::Path;
use std::process::Command;

use sandshell_testkit::find_binary;
use serde::{Deserialize, Serialize};

/// Everything is told as text: it is for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) kernel: String,
    pub(crate) processors: usize,
    pub(crate) processor: String,
    #[serde(default)]
    pub(crate) memory: String,
    #[serde(default)]
    pub(crate) distribution: String,
    #[serde(default)]
    pub(crate) shell: String,
    /// Of the tree the benchmark runs in; with a `+` when there are changes that no commit has.
    #[serde(default)]
    pub(crate) commit: String,
    /// How the measured binary was compiled.
    #[serde(default)]
    pub(crate) profile: String,
    #[serde(default)]
    pub(crate) user: String,
    /// `YYYY-MM-DD`.
    #[serde(default)]
    pub(crate) date: String,
    /// How the benchmark was called.
    #[serde(default)]
    pub(crate) command: String,
    pub(crate) load_before: String,
    #[serde(default)]
    pub(crate) load_after: String,
}

impl Default for Machine {
    fn default() -> Self {
        let processor = read("/proc/cpuinfo")
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
            .map_or_else(String::new, |(_, name)| name.to_owned());
        Self {
            kernel: read("/proc/sys/kernel/osrelease"),
            processors: std::thread::available_parallelism().map_or(0, usize::from),
            processor,
            memory: memory(),
            distribution: distribution(),
            shell: shell(),
            commit: commit(),
            profile: profile(),
            user: if rustix::process::geteuid().is_root() {
                "root".to_owned()
            } else {
                "an ordinary user".to_owned()
            },
            date: said("date", &["+%F"]),
            command: command(),
            load_before: load(),
            load_after: String::new(),
        }
    }
}

impl Machine {
    /// Notes the end of the measurements.
    pub(crate) fn finish(&mut self) {
        self.load_after = load();
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Linux {}, {} × {}, {}\n{}, {}; commit {}, profile {}, as {}, on {}\nload before {}, after {}",
            self.kernel,
            self.processors,
            self.processor,
            self.memory,
            self.distribution,
            self.shell,
            self.commit,
            self.profile,
            self.user,
            self.date,
            self.load_before,
            self.load_after
        )
    }
}

fn memory() -> String {
    let info = read("/proc/meminfo");
    let kib = info
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB"));
    let kib = kib.and_then(|kib| kib.parse::<f64>().ok());
    kib.map_or_else(String::new, |kib| {
        format!("{:.1} GiB", kib / 1024.0 / 1024.0)
    })
}

fn distribution() -> String {
    let release = read("/etc/os-release");
    let name = release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.unwrap_or_default().trim_matches('"').to_owned()
}

fn shell() -> String {
    let text = said("bash", &["--version"]);
    let version = text
        .split_once("version ")
        .and_then(|(_, rest)| rest.split('(').next());
    version.map_or_else(String::new, |version| format!("bash {version}"))
}

fn commit() -> String {
    let hash = said("git", &["rev-parse", "--short", "HEAD"]);
    let changed = !said("git", &["status", "--porcelain", "--untracked-files=no"]).is_empty();
    match (hash.as_str(), changed) {
        ("", _) => "unknown".to_owned(),
        (hash, true) => format!("{hash}+"),
        (hash, false) => hash.to_owned(),
    }
}

/// Cargo puts what it builds in a directory of the profile's name.
fn profile() -> String {
    let binary = find_binary();
    let dir = binary.parent().and_then(Path::file_name);
    dir.map_or_else(String::new, |dir| dir.to_string_lossy().into_owned())
}

/// Without the directories of this machine.
fn command() -> String {
    let words = std::env::args().skip(1);
    let words: Vec<String> = std::iter::once("sandshell-bench".to_owned())
        .chain(words)
        .collect();
    words.join(" ")
}

fn load() -> String {
    let load = read("/proc/loadavg");
    let first: Vec<&str> = load.split(' ').take(3).collect();
    first.join(" ")
}

/// The first line of what a program says; nothing where there is no such program.
fn said(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    let said = output.ok().filter(|output| output.status.success());
    let text = said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let text = text.unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path)
        .unwrap_or_default()
        .trim()
        .to_owned()
}
