//! strace, attached to a process that the test started, to see its system calls and to fail some.
//!
//! Counts of `when=` are strace's own: one count for each thread, from the moment it was attached.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::calls::skipped;

/// Whether there is a strace and it may trace; says so when not.
pub(super) fn able() -> bool {
    let tried = Command::new("strace")
        .args(["-o", "/dev/null", "true"])
        .stdin(Stdio::null())
        .output();
    match tried {
        Ok(output) if output.status.success() => true,
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            skipped(&format!(
                "strace may not trace, so NO system call is failed: {said}"
            ));
            false
        }
        Err(error) => {
            skipped(&format!(
                "there is no strace, so NO system call is failed: {error}"
            ));
            false
        }
    }
}

/// A strace at work. Dropped, it lets go.
pub(super) struct Tracer {
    child: Child,
    traced: i32,
    log: tempfile::NamedTempFile,
}

impl Tracer {
    /// Attaches to all threads of a process, those to come included.
    pub(super) fn attach(pid: i32, args: &[&str]) -> Self {
        Self::start(pid, &[&["-f"], args].concat())
    }

    /// Attaches to a process of one thread, and not to what it forks.
    pub(super) fn attach_alone(pid: i32, args: &[&str]) -> Self {
        Self::start(pid, args)
    }

    fn start(pid: i32, args: &[&str]) -> Self {
        let log = tempfile::NamedTempFile::with_prefix("sandshell-test-").unwrap();
        let mut child = Command::new("strace")
            .arg("-o")
            .arg(log.path())
            .args(args)
            .args(["-p", &pid.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert!(line.contains(" attached"), "strace: {line}");
        // It tells of every new thread: nobody is to wait for us to read that.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        Self {
            child,
            traced: pid,
            log,
        }
    }

    /// Lets go, and gives what was seen.
    pub(super) fn detach(mut self) -> Vec<String> {
        self.end();
        let bytes = std::fs::read(self.log.path()).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        text.lines().map(str::to_owned).collect()
    }

    fn end(&mut self) {
        let tracer = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        let traced = Pid::from_raw(self.traced).unwrap();
        if matches!(self.child.try_wait(), Ok(None)) {
            // strace makes a call fail by putting one that does not exist in its place. Told to end between that and
            // the errno, it leaves ENOSYS behind, which no kernel would say. A process that has stopped is in no call.
            let stopped = kill_process(traced, Signal::STOP).is_ok();
            while stopped && !self.all_stopped() && matches!(self.child.try_wait(), Ok(None)) {
                std::thread::yield_now();
            }
            let _ = kill_process(tracer, Signal::INT);
        }
        let _ = self.child.wait();
        let _ = kill_process(traced, Signal::CONT);
    }

    /// Whether strace has seen every thread of the process stop.
    fn all_stopped(&self) -> bool {
        let Ok(threads) = std::fs::read_dir(format!("/proc/{}/task", self.traced)) else {
            return true;
        };
        let seen = std::fs::read_to_string(self.log.path()).unwrap_or_default();
        seen.matches("--- stopped by SIGSTOP ---").count() >= threads.count()
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        self.end();
    }
}

/// The names of the calls in a log, each once.
pub(super) fn names(log: &[String]) -> Vec<String> {
    let name = |line: &String| -> Option<String> {
        // Lines begin with a pid where several are traced.
        let start = line.trim_start_matches(|c: char| c.is_ascii_digit());
        let (name, _) = start.trim_start().split_once('(')?;
        let plain = name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        (plain && !name.is_empty()).then(|| name.to_owned())
    };
    let mut names: Vec<String> = log.iter().filter_map(name).collect();
    names.sort();
    names.dedup();
    names
}

/// The lines that tell of a failure we made.
pub(super) fn injected(log: &[String]) -> Vec<&String> {
    log.iter()
        .filter(|line| line.contains("(INJECTED)"))
        .collect()
}

/// What strace is told to fail the `nth` call of this name.
pub(super) fn failing(call: &str, errno: &str, nth: u32) -> [String; 4] {
    let trace = format!("trace={call}");
    let inject = format!("inject={call}:error={errno}:when={nth}");
    ["-e".to_owned(), trace, "-e".to_owned(), inject]
}
