//! What the sandbox uses: figures of its group where there is one, else summed over its processes.
//!
//! Asks the kernel when asked; keeps nothing. What cannot be told is absent, never a guess.

use std::fs;
use std::path::Path;

use rustix::fs::fstatvfs;
use sandshell_sys::cgroup::{Group, Seat};
use sandshell_sys::procfs;
use sandshell_types::{
    CpuStats, Cpus, DiskStats, MemoryStats, NetworkStats, PidStats, StatsSource, Timestamp,
};

use crate::inside::Root;
use crate::tree::Nursery;

/// Figures of everything that init started.
pub(crate) struct Figures {
    pub(crate) at: Timestamp,
    pub(crate) cpu: CpuStats,
    pub(crate) memory: MemoryStats,
    pub(crate) pids: PidStats,
    pub(crate) network: Option<NetworkStats>,
}

/// Reads files of /proc for each process, so not to be called on the runtime's thread.
pub(crate) fn figures(nursery: &Nursery, init: Option<i32>, warden: Option<i32>) -> Figures {
    // What cannot be looked at for now is left out, not counted as none.
    let members = init.and_then(|init| {
        let mut members = procfs::descendants(init).ok()?;
        members.push(init);
        if let Some(warden) = warden {
            members.extend(procfs::descendants(warden).ok()?);
        }
        Some(members)
    });
    let controllers = nursery.controllers();
    Figures {
        at: Timestamp::now(),
        cpu: CpuStats {
            limit: controllers
                .cpu
                .as_ref()
                .ok()
                .and_then(Seat::cpu_limit)
                .and_then(Cpus::from_millis),
            ..cpu(nursery, members.as_deref(), init)
        },
        memory: memory(nursery, members.as_deref()),
        pids: PidStats {
            count: members.as_ref().map(|members| members.len() as u64),
            limit: controllers.pids.as_ref().ok().and_then(Seat::pids_limit),
        },
        network: init.and_then(network),
    }
}

fn cpu(nursery: &Nursery, members: Option<&[i32]>, init: Option<i32>) -> CpuStats {
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    if let Some(micros) = nursery.group().and_then(Group::cpu_micros) {
        return CpuStats {
            usage_ms: Some(micros / 1000),
            cpus,
            limit: None,
            source: StatsSource::Cgroup,
        };
    }
    // What init has reaped counts; its own time does not.
    let stat = |pid: i32| procfs::stat(pid).unwrap_or_default();
    let reaped = init.and_then(stat).map(|stat| stat.reaped_ticks);
    let alive = members.map(|members| {
        let others = members.iter().filter(|pid| Some(**pid) != init);
        let used = others.filter_map(|pid| stat(*pid));
        used.map(|stat| stat.cpu_ticks + stat.reaped_ticks)
            .sum::<u64>()
    });
    let ticks = alive.map(|alive| alive + reaped.unwrap_or(0));
    CpuStats {
        usage_ms: ticks.map(|ticks| ticks * 1000 / procfs::ticks_per_second()),
        cpus,
        limit: None,
        source: StatsSource::Proc,
    }
}

fn memory(nursery: &Nursery, members: Option<&[i32]>) -> MemoryStats {
    let controller = nursery.controllers().memory.as_ref().ok();
    let exclusive = nursery.common().is_some_and(|common| common.exclusive);
    if let Some(seat) = controller.filter(|_| exclusive)
        && let used @ Some(_) = seat.memory_used()
    {
        return MemoryStats {
            used_bytes: used,
            limit_bytes: seat.memory_limit(),
            source: StatsSource::Cgroup,
        };
    }
    // What limits us limits all that we start.
    let shared = nursery.common().map(|common| &common.memory);
    let used = |members: &[i32]| members.iter().filter_map(|pid| share(*pid)).sum();
    MemoryStats {
        used_bytes: members.map(used),
        limit_bytes: shared.and_then(Seat::memory_limit),
        source: StatsSource::Proc,
    }
}

/// A process's share of its pages, or all it has resident.
fn share(pid: i32) -> Option<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let kib = rollup
        .lines()
        .find_map(|line| line.strip_prefix("Pss:")?.trim().strip_suffix("kB"))
        .and_then(|kib| kib.trim().parse::<u64>().ok());
    match kib {
        Some(kib) => Some(kib * 1024),
        None => Some(procfs::stat(pid).unwrap_or_default()?.resident_pages * procfs::page_size()),
    }
}

/// What went over the interfaces that init sees, but for the loopback.
fn network(init: i32) -> Option<NetworkStats> {
    let text = fs::read_to_string(format!("/proc/{init}/net/dev")).ok()?;
    let (received_bytes, sent_bytes) = interfaces(&text);
    let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    Some(NetworkStats {
        received_bytes,
        sent_bytes,
        shared: namespace(&init.to_string()) == namespace("self"),
    })
}

fn interfaces(text: &str) -> (u64, u64) {
    let mut total = (0, 0);
    for line in text.lines() {
        let Some((name, figures)) = line.split_once(':') else {
            continue;
        };
        if name.trim() == "lo" {
            continue;
        }
        let figures: Vec<u64> = figures
            .split_whitespace()
            .filter_map(|figure| figure.parse().ok())
            .collect();
        total.0 += figures.first().unwrap_or(&0);
        total.1 += figures.get(8).unwrap_or(&0);
    }
    total
}

/// The file system of a directory; to be called on a thread of the inside.
pub(crate) fn disk(root: &Root, dir: &Path) -> Option<DiskStats> {
    let fs = fstatvfs(root.find_dir(dir).ok()?).ok()?;
    Some(DiskStats {
        path: dir.to_string_lossy().into_owned(),
        total_bytes: fs.f_blocks * fs.f_frsize,
        used_bytes: fs.f_blocks.saturating_sub(fs.f_bfree) * fs.f_frsize,
        available_bytes: fs.f_bavail * fs.f_frsize,
        total_inodes: fs.f_files,
        available_inodes: fs.f_favail,
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn interfaces_are_summed_without_the_loopback() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes packets\n\
                    lo: 9 9 0 0 0 0 0 0 9 9 0 0 0 0 0 0\n\
                    eth0: 10 1 0 0 0 0 0 0 200 1 0 0 0 0 0 0\n\
                    eth1:5 1 0 0 0 0 0 0 7 1 0 0 0 0 0 0\n";
        assert_eq!(super::interfaces(text), (15, 207));
    }
}
