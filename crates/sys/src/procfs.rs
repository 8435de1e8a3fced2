//! Questions to /proc. For finding and showing processes, never for trust decisions: whoever is
//! signalled is first pinned by a pidfd.

use std::collections::HashSet;
use std::fs;
use std::io::Read as _;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::is_lack;

/// The pid of a pidfd's process as this process sees it; `None` once it is reaped.
pub fn pid_of(pidfd: &impl AsRawFd) -> Result<Option<i32>, Errno> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd()));
    let info = of_the_living(info)?.unwrap_or_default();
    let pid = info.lines().find_map(|line| line.strip_prefix("Pid:"));
    let pid = pid.and_then(|pid| pid.trim().parse().ok());
    Ok(pid.filter(|pid| *pid > 0))
}

/// Pins a pid so that it cannot be taken for another process later.
pub fn pin(pid: i32) -> Result<OwnedFd, Errno> {
    pidfd_open(Pid::from_raw(pid).ok_or(Errno::SRCH)?, PidfdFlags::empty())
}

/// What was read of a process; nothing when it is gone. What could not be opened for a lack is not gone.
pub fn of_the_living<T>(read: std::io::Result<T>) -> Result<Option<T>, Errno> {
    read.map(Some)
        .or_else(|error| match Errno::from_io_error(&error) {
            Some(errno) if is_lack(errno) => Err(errno),
            _ => Ok(None),
        })
}

/// Children of a process (of all its threads). Empty when it is gone.
pub fn children(pid: i32) -> Result<Vec<i32>, Errno> {
    let of_thread = |thread: &str| -> Result<Vec<i32>, Errno> {
        let list = fs::read_to_string(format!("/proc/{pid}/task/{thread}/children"));
        Ok(of_the_living(list)?
            .unwrap_or_default()
            .split_whitespace()
            .filter_map(|child| child.parse().ok())
            .collect())
    };
    let main = pid.to_string();
    // The link count of the directory tells of other threads without reading it.
    let single = fs::metadata(format!("/proc/{pid}/task"))
        .is_ok_and(|task| std::os::unix::fs::MetadataExt::nlink(&task) <= 3);
    if single {
        return of_thread(&main);
    }
    let mut found = Vec::new();
    let threads = of_the_living(fs::read_dir(format!("/proc/{pid}/task")))?;
    for thread in threads.into_iter().flatten().flatten() {
        let name = thread.file_name();
        if let Some(name) = name.to_str()
            && name != main
        {
            found.extend(of_thread(name)?);
        }
    }
    // A thread that ends leaves its children to the main one: that is asked last, and tells of some again.
    found.extend(of_thread(&main)?);
    let mut known = HashSet::new();
    found.retain(|pid| known.insert(*pid));
    Ok(found)
}

/// How often a walk is repeated in which processes ended. Whoever starts and ends them faster is not followed.
const WALKS: usize = 8;

/// Everything below a process, parents before children, without the process itself.
///
/// A process that ends gives its children to one above it, which may have been asked already: they would be in no
/// list though they live. So a walk that met ended processes is repeated until it meets no others.
pub fn descendants(pid: i32) -> Result<Vec<i32>, Errno> {
    let mut ended_before = HashSet::new();
    let mut found = Vec::new();
    for _ in 0..WALKS {
        let ended;
        (found, ended) = walk(pid)?;
        if ended.is_subset(&ended_before) {
            break;
        }
        ended_before = ended;
    }
    Ok(found)
}

/// One walk: what is below, and those of it that had ended when they were asked for their children.
fn walk(pid: i32) -> Result<(Vec<i32>, HashSet<i32>), Errno> {
    let mut found = children(pid)?;
    let mut known: HashSet<i32> = found.iter().copied().collect();
    let mut ended = HashSet::new();
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        next += 1;
        let below = children(parent)?;
        if below.is_empty() && !is_alive(parent)? {
            ended.insert(parent);
        }
        // One that was moved while we walked can be met twice.
        found.extend(below.into_iter().filter(|pid| known.insert(*pid)));
    }
    Ok((found, ended))
}

/// The parent of a process.
pub fn parent(pid: i32) -> Result<Option<i32>, Errno> {
    let told = || Ok(stat(pid)?.map(|stat| stat.parent));
    match told()? {
        // It has none, or was just being reaped: then there is nothing to be read a second time.
        Some(0) => told(),
        parent => Ok(parent),
    }
}

/// Whether a process descends from another. Sure only for a process that is pinned.
pub fn is_below(pid: i32, ancestor: i32) -> Result<bool, Errno> {
    // A line that breaks off was left by a process that ended: another has its children now.
    for _ in 0..WALKS {
        if let Some(is) = is_in_line(pid, ancestor)? {
            return Ok(is);
        }
    }
    Ok(false)
}

/// The same; `None` when the line broke off on the way up.
fn is_in_line(pid: i32, ancestor: i32) -> Result<Option<bool>, Errno> {
    let mut above = parent(pid)?.unwrap_or(0);
    while above > 0 && above != ancestor {
        match parent(above)? {
            Some(next) => above = next,
            None => return Ok(None),
        }
    }
    Ok(Some(above == ancestor))
}

/// The oldest in the unbroken line of a process's ancestors that run the same program as it does.
pub fn first_of_our_program(pid: i32) -> i32 {
    let program = |pid: i32| fs::read_link(format!("/proc/{pid}/exe")).ok();
    let ours = program(pid);
    let above = |pid: i32| parent(pid).unwrap_or_default();
    std::iter::successors(above(pid), |pid| above(*pid))
        .take_while(|above| ours.is_some() && program(*above) == ours)
        .last()
        .unwrap_or(pid)
}

/// The number a process has in its own PID namespace; nothing when it is gone.
pub fn innermost_pid(pid: i32) -> Result<Option<i32>, Errno> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"));
    let status = of_the_living(status)?.unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let innermost = numbers.and_then(|numbers| numbers.split_whitespace().next_back());
    Ok(innermost.and_then(|number| number.parse().ok()))
}

/// What /proc/PID/stat says, as far as we use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// State letter.
    pub state: char,
    /// Its parent; 0 of one that is being reaped.
    pub parent: i32,
    /// CPU time in clock ticks.
    pub cpu_ticks: u64,
    /// CPU time of the children it has reaped, in clock ticks.
    pub reaped_ticks: u64,
    /// Resident pages.
    pub resident_pages: u64,
}

/// Reads /proc/PID/stat; nothing when the process is gone.
pub fn stat(pid: i32) -> Result<Option<Stat>, Errno> {
    let text = of_the_living(fs::read(format!("/proc/{pid}/stat")))?.unwrap_or_default();
    Ok(fields_of(&String::from_utf8_lossy(&text)))
}

/// Whether it is there and not a zombie.
pub fn is_alive(pid: i32) -> Result<bool, Errno> {
    Ok(stat(pid)?.is_some_and(|stat| !matches!(stat.state, 'Z' | 'X')))
}

fn fields_of(text: &str) -> Option<Stat> {
    // The name is in parentheses and may contain anything, parentheses included.
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |i: usize| fields.get(i).and_then(|f| f.parse::<u64>().ok());
    Some(Stat {
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        cpu_ticks: number(11)? + number(12)?,
        reaped_ticks: number(13)? + number(14)?,
        resident_pages: number(21)?,
    })
}

/// Whether a process ignores SIGINT and does not leave SIGQUIT at its default, as a shell without job control
/// arranges for what it starts with `&`: that ignores both, unless it has taken SIGQUIT for itself since.
pub fn ignores_interrupt(pid: i32) -> bool {
    let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else {
        return false;
    };
    let has = |name: &str, signal: i32| {
        let hex = status.lines().find_map(|line| line.strip_prefix(name));
        let set = hex.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
        set.is_some_and(|set| set & (1 << (signal - 1)) != 0)
    };
    has("SigIgn:", libc::SIGINT) && (has("SigIgn:", libc::SIGQUIT) || has("SigCgt:", libc::SIGQUIT))
}

/// The command line with spaces between arguments, of a longer one the first KiB; the name in brackets
/// when there is none.
pub fn command_line(pid: i32) -> String {
    // A program makes its own as long as it likes, and is named in many places.
    const MOST: u64 = 1024;
    let mut raw = Vec::new();
    let _ = fs::File::open(format!("/proc/{pid}/cmdline"))
        .and_then(|file| file.take(MOST).read_to_end(&mut raw));
    let text = String::from_utf8_lossy(&raw);
    let line = text.trim_end_matches('\0').replace('\0', " ");
    if !line.is_empty() {
        return line;
    }
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    format!("[{}]", name.trim_end())
}

/// Clock ticks a second, for `Stat::cpu_ticks`.
pub fn ticks_per_second() -> u64 {
    rustix::param::clock_ticks_per_second()
}

/// Bytes in a page, for `Stat::resident_pages`.
pub fn page_size() -> u64 {
    rustix::param::page_size() as u64
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};

    use super::*;

    /// Has children whose parent ends the moment they are named, so that they become its own.
    const REAPER: &str = r#"
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(36, 1)
end, alive = os.pipe()
def orphan():
    born = os.fork()
    if born: os.write(1, b"%d\n" % born); os._exit(0)
    os.close(alive)
    os.read(end, 1)
    os._exit(0)
for line in sys.stdin:
    first = os.fork()
    if first == 0: orphan()
    os.waitpid(first, 0)
    if line.strip():
        os.kill(int(line), signal.SIGKILL)
        os.waitpid(int(line), 0)
"#;

    /// What lives all the time is in every walk, also while it passes from one parent to another.
    #[test]
    fn one_that_is_handed_over_is_not_missed() {
        let mut reaper = Command::new("python3")
            .args(["-u", "-c", REAPER])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let root = i32::try_from(reaper.id()).unwrap();
        let mut asked = reaper.stdin.take().unwrap();
        let mut lines = BufReader::new(reaper.stdout.take().unwrap()).lines();
        let mut last = String::new();
        for round in 0..1000 {
            std::io::Write::write_all(&mut asked, format!("{last}\n").as_bytes()).unwrap();
            last = lines.next().unwrap().unwrap();
            let born: i32 = last.parse().unwrap();
            assert!(descendants(root).unwrap().contains(&born), "{round}");
            assert!(is_below(born, root).unwrap(), "{round}");
        }
        drop(asked);
        assert!(reaper.wait().unwrap().success());
    }
}
