//! What `/proc` says of processes: the view from outside that tests compare the agent with.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

use crate::pidfd;

/// Pids of live processes with this text in their arguments or environment, other than the caller.
///
/// The test puts a unique text into its commands' argv; whatever still has it afterwards has leaked.
/// Zombies have neither and do not count.
pub fn alive_with_marker(marker: &str) -> Vec<i32> {
    assert!(!marker.is_empty(), "every process has the empty marker");
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let has_marker = |pid: i32| {
        ["cmdline", "environ"].iter().any(|file| {
            // A process that ends meanwhile, or that we may not look into, is not ours.
            fs::read(format!("/proc/{pid}/{file}")).is_ok_and(|bytes| contains(&bytes, marker))
        })
    };
    all_pids()
        .into_iter()
        .filter(|&pid| pid != own && has_marker(pid))
        .collect()
}

/// Waits until no process has the marker; gives those that are left at the deadline.
pub fn wait_until_gone(marker: &str, deadline: Duration) -> Vec<i32> {
    let deadline = Instant::now() + deadline;
    loop {
        let alive = alive_with_marker(marker);
        // After one of them has ended another may have been forked: look again.
        let Some(&first) = alive.first() else {
            return alive;
        };
        if !pidfd::open(first)
            .is_none_or(|fd| pidfd::wait_readable(&[std::os::fd::AsFd::as_fd(&fd)], deadline))
        {
            return alive_with_marker(marker);
        }
    }
}

/// How many file descriptors a process has open.
pub fn open_fds(pid: i32) -> usize {
    let path = format!("/proc/{pid}/fd");
    fs::read_dir(&path)
        .unwrap_or_else(|error| panic!("{path}: {error}"))
        .count()
}

/// Resident memory of a process.
pub fn rss_bytes(pid: i32) -> u64 {
    kilobytes(&format!("/proc/{pid}/status"), "VmRSS:") * 1024
}

/// Resident memory of a process, with shared pages divided among those who share them.
pub fn pss_bytes(pid: i32) -> u64 {
    kilobytes(&format!("/proc/{pid}/smaps_rollup"), "Pss:") * 1024
}

/// Every live or zombie descendant of a process, parents before their children.
pub fn children_deep(pid: i32) -> Vec<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for child in all_pids() {
        if let Some(parent) = parent_of(child) {
            children.entry(parent).or_default().push(child);
        }
    }
    let mut found = Vec::new();
    let mut next = vec![pid];
    while let Some(parent) = next.pop() {
        let direct = children.remove(&parent).unwrap_or_default();
        found.extend_from_slice(&direct);
        next.extend(direct);
    }
    found
}

/// The live or zombie children of a process.
pub fn children(pid: i32) -> Vec<i32> {
    let is_child = |child: &i32| parent_of(*child) == Some(pid);
    all_pids().into_iter().filter(is_child).collect()
}

/// Processes that hold a socket which listens on this port of IPv4.
pub(crate) fn listeners(port: u16) -> Vec<i32> {
    const LISTENS: &str = "0A";
    let table = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    let address = format!(":{port:04X}");
    let links: Vec<String> = table
        .lines()
        .map(|line| line.split_ascii_whitespace().collect::<Vec<_>>())
        .filter(|words| words.len() > 9 && words[1].ends_with(&address) && words[3] == LISTENS)
        .map(|words| format!("socket:[{}]", words[9]))
        .collect();
    let holds = |pid: &i32| {
        let open = fs::read_dir(format!("/proc/{pid}/fd"))
            .into_iter()
            .flatten();
        let mut open = open
            .flatten()
            .filter_map(|fd| fs::read_link(fd.path()).ok());
        open.any(|to| links.iter().any(|link| to.as_os_str() == link.as_str()))
    };
    all_pids().into_iter().filter(holds).collect()
}

fn all_pids() -> Vec<i32> {
    fs::read_dir("/proc")
        .expect("/proc is mounted")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

fn parent_of(pid: i32) -> Option<i32> {
    // Bytes, because a process may give itself any name.
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let after_name = stat.iter().rposition(|&byte| byte == b')')? + 1;
    let fields = std::str::from_utf8(&stat[after_name..]).ok()?;
    fields.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn kilobytes(path: &str, field: &str) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    text.lines()
        .find_map(|line| {
            line.strip_prefix(field)?
                .trim()
                .strip_suffix("kB")?
                .trim()
                .parse()
                .ok()
        })
        .unwrap_or_else(|| panic!("{path} has no {field}"))
}

fn contains(haystack: &[u8], needle: &str) -> bool {
    haystack
        .windows(needle.len())
        .any(|window| window == needle.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_listens_is_found_and_whoever_is_connected_is_not() {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let there = std::net::TcpStream::connect(address).unwrap();
        let (here, _) = listener.accept().unwrap();
        // A child of another test may have it for a moment before it becomes its program.
        assert!(listeners(address.port()).contains(&own));
        drop(listener);
        assert!(!listeners(address.port()).contains(&own));
        drop((here, there));
    }
}
