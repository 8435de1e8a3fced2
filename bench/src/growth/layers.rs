//! Which layer of a sandbox costs what when one is made.
//!
//! `perf record` notes, without stopping anybody, each system call of the launcher and of all it forks while sandboxes
//! are made, and `perf trace -s` adds up how long they took. The trace adds to each call; what the quickest of all took is taken for that and
//! subtracted. Calls that only wait are left out. Processes of a sandbox work beside each other, so the sum is work, not
//! time on the clock; that is measured before, without a trace.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use sandshell_testkit::{Hub, children_deep};
use sandshell_types::SandboxSpec;

use crate::plot::{Bar, Chart, Drawing};
use crate::report::{Report, skipped};

const SECTION: &str = "layers";
const CREATE: &str = "create, on the clock";
const FIRST: &str = "create to first exec result, on the clock";
const ATTACHED_WITHIN: Duration = Duration::from_secs(10);

/// Layers, and the calls that make them.
const LAYERS: [(&str, &[&str]); 7] = [
    (
        "forks and namespaces",
        &["clone", "clone3", "fork", "vfork", "unshare", "setns"],
    ),
    (
        "mounts and the root",
        &[
            "mount",
            "umount2",
            "umount",
            "pivot_root",
            "open_tree",
            "move_mount",
            "mount_setattr",
            "fsopen",
            "fsconfig",
            "fsmount",
        ],
    ),
    (
        "files: /etc, /dev, groups, maps of ids",
        &[
            "open",
            "openat",
            "openat2",
            "mkdir",
            "mkdirat",
            "mknod",
            "mknodat",
            "symlink",
            "symlinkat",
            "unlink",
            "unlinkat",
            "rename",
            "renameat2",
            "chown",
            "fchown",
            "fchownat",
            "lchown",
            "chmod",
            "fchmod",
            "fchmodat",
            "fchmodat2",
            "write",
            "pwrite64",
            "writev",
            "ftruncate",
            "stat",
            "fstat",
            "newfstatat",
            "statx",
            "statfs",
            "fstatfs",
            "readlink",
            "readlinkat",
            "getdents64",
            "close",
            "close_range",
            "access",
            "faccessat",
            "faccessat2",
            "lseek",
            "pread64",
            "fcntl",
            "dup2",
            "dup3",
            "flock",
        ],
    ),
    (
        "users and rights",
        &[
            "setuid",
            "setgid",
            "setresuid",
            "setresgid",
            "setgroups",
            "capset",
            "capget",
            "prctl",
            "setrlimit",
            "prlimit64",
            "setfsuid",
            "setfsgid",
            "umask",
        ],
    ),
    (
        "Landlock",
        &[
            "landlock_create_ruleset",
            "landlock_add_rule",
            "landlock_restrict_self",
        ],
    ),
    ("filter of system calls", &["seccomp"]),
    (
        "programs and memory",
        &[
            "execve", "execveat", "mmap", "munmap", "mprotect", "mremap", "madvise", "brk",
        ],
    ),
];

/// Calls in which nothing is done.
const WAITING: &[&str] = &[
    "poll",
    "ppoll",
    "select",
    "pselect6",
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "recvmsg",
    "recvfrom",
    "wait4",
    "waitid",
    "futex",
    "read",
    "readv",
    "nanosleep",
    "clock_nanosleep",
    "accept",
    "accept4",
    "pause",
    "rt_sigtimedwait",
    "rt_sigsuspend",
];

pub(crate) async fn run(report: &mut Report, hub: &Hub, count: usize) -> Result<()> {
    let client = hub.client();
    let (created, used) = super::sandboxes::probes(&client, count).await?;
    report.add_run(SECTION, CREATE, created);
    report.add_run(SECTION, FIRST, used);

    let launcher = launcher(hub).context("the hub has no launcher")?;
    let dir = tempfile::TempDir::with_prefix("sandshell-bench-")?;
    let noted = dir.path().join("noted");
    let mut perf = match record(launcher, &noted).await {
        Ok(perf) => perf,
        Err(error) => {
            skipped(&format!("{SECTION}: perf cannot be used here: {error:#}"));
            return Ok(());
        }
    };
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(client.create_sandbox(&SandboxSpec::default()).await?.id);
    }
    end(&mut perf)?;
    for id in &ids {
        client.destroy_sandbox(id).await?;
    }
    let calls = totals(&summary(&noted)?);
    ensure!(!calls.is_empty(), "perf saw nothing");
    draw(report, &calls, count as f64);
    Ok(())
}

fn draw(report: &mut Report, calls: &[(String, f64)], sandboxes: f64) {
    let mut bars = Vec::new();
    let mut known = 0.0;
    let worked = calls
        .iter()
        .filter(|(call, _)| !WAITING.contains(&call.as_str()));
    let all: f64 = worked.map(|(_, total)| total).sum();
    for (layer, names) in LAYERS {
        let of_it = calls
            .iter()
            .filter(|(call, _)| names.contains(&call.as_str()));
        let total: f64 = of_it.map(|(_, total)| total).sum();
        known += total;
        bars.push((layer, total / sandboxes));
    }
    bars.push(("everything else in the kernel", (all - known) / sandboxes));
    for (layer, value) in &bars {
        report.add(SECTION, layer, "ms", *value);
    }
    let clock = report.median(SECTION, CREATE);
    let mut bars: Vec<Bar> = bars
        .into_iter()
        .map(|(layer, value)| Bar {
            name: layer.to_owned(),
            value,
            mark: None,
            reference: false,
        })
        .collect();
    bars.push(Bar {
        name: CREATE.to_owned(),
        value: clock,
        mark: None,
        reference: true,
    });
    report.draw(Chart {
        id: "layers".to_owned(),
        section: SECTION.to_owned(),
        title: "What making a sandbox costs, by layer".to_owned(),
        drawing: Drawing::Bars {
            unit: "ms".to_owned(),
            mark: String::new(),
            bars,
        },
    });
}

fn launcher(hub: &Hub) -> Option<i32> {
    let is_launcher = |pid: &i32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words
            .split(|byte| *byte == 0)
            .any(|word| word == b"launcher")
    };
    children_deep(hub.pid()).into_iter().find(is_launcher)
}

/// Begins to note; it does when perf holds descriptors of events.
async fn record(pid: i32, noted: &Path) -> Result<Child> {
    let mut perf = Command::new("perf")
        .args(["record", "-q", "-m", "8M", "-p", &pid.to_string()])
        .args(["-e", "raw_syscalls:sys_enter,raw_syscalls:sys_exit", "-o"])
        .arg(noted)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let deadline = Instant::now() + ATTACHED_WITHIN;
    loop {
        if let Some(status) = perf.try_wait()? {
            anyhow::bail!("perf ended with {status}");
        }
        if holds_events(perf.id()) {
            return Ok(perf);
        }
        if Instant::now() > deadline {
            end(&mut perf)?;
            anyhow::bail!("perf did not attach");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn holds_events(pid: u32) -> bool {
    let Ok(fds) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    fds.filter_map(Result::ok)
        .filter_map(|fd| fs::read_link(fd.path()).ok())
        .any(|link| link.to_string_lossy().contains("perf_event"))
}

fn end(perf: &mut Child) -> Result<()> {
    let pid = i32::try_from(perf.id()).ok().and_then(Pid::from_raw);
    kill_process(pid.context("a pid")?, Signal::INT)?;
    perf.wait()?;
    Ok(())
}

fn summary(noted: &Path) -> Result<String> {
    let output = Command::new("perf")
        .args(["trace", "-s", "-i"])
        .arg(noted)
        .output()?;
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(told + &String::from_utf8_lossy(&output.stderr))
}

/// Milliseconds in each call, of all processes, without what the trace adds. Perf prints, for each process and call,
/// how many there were, how many failed, their total, and the quickest.
fn totals(text: &str) -> Vec<(String, f64)> {
    let mut seen: Vec<(&str, f64, f64)> = Vec::new();
    let mut quickest = f64::INFINITY;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [call, calls, errors, total, min, ..] = words.as_slice() else {
            continue;
        };
        let (Ok(calls), Ok(_), Ok(total), Ok(min)) = (
            calls.parse::<f64>(),
            errors.parse::<u64>(),
            total.parse::<f64>(),
            min.parse::<f64>(),
        ) else {
            continue;
        };
        quickest = quickest.min(min);
        match seen.iter_mut().find(|(known, ..)| known == call) {
            Some((_, count, sum)) => (*count, *sum) = (*count + calls, *sum + total),
            None => seen.push((call, calls, total)),
        }
    }
    let own = |(call, calls, total): (&str, f64, f64)| {
        (call.to_owned(), (total - calls * quickest).max(0.0))
    };
    seen.into_iter().map(own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_of_perf_are_added_up() {
        let text = "\n Summary of events:\n\n sandshell (7), 60 events, 90.9%\n\n   syscall   calls  errors  total  min  avg\n\
                    \n   ------- -----  ------ -------- ----\n   mount   8  1  1.500  0.125\n   clone  1      0  2.250  2.2\n\
                    \n sandshell (8), 2 events, 9.1%\n\n   mount   2      0     0.500     0.25\n";
        let expected = [("mount".to_owned(), 0.75), ("clone".to_owned(), 2.125)];
        assert_eq!(totals(text), expected);
    }

    #[test]
    fn a_call_belongs_to_one_layer() {
        let mut all: Vec<&str> = LAYERS
            .iter()
            .flat_map(|(_, calls)| calls.iter().copied())
            .collect();
        all.extend(WAITING);
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
