//! Who holds a listening socket: the table of sockets matched with the descriptors of init's
//! descendants. Reads only /proc, and blocks while it does.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use sandshell_sys::{is_lack, procfs};

use super::table::{self, Row};

/// A listening socket and who holds it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) row: Row,
    pub(super) pid: i32,
    fd: u32,
}

/// A pinned process below init that holds a listening socket.
#[derive(Debug)]
pub(super) struct Holder {
    row: Row,
    pidfd: OwnedFd,
    /// The descriptor as a file of /proc.
    link: String,
    targets: Vec<SocketAddr>,
}

impl Holder {
    pub(super) fn port(&self) -> u16 {
        self.row.address.port()
    }

    /// Where to connect to, the best first.
    pub(super) fn targets(&self) -> &[SocketAddr] {
        &self.targets
    }

    /// Whether the process lives and holds the same socket. A few microseconds.
    pub(super) fn still_holds(&self) -> bool {
        // The link first: it means something only if the process was alive after it was read.
        inode_of(&self.link) == Some(self.row.inode) && is_alive(&self.pidfd)
    }
}

/// Every listening socket of the sandbox.
pub(super) fn all(init: i32) -> Result<Vec<Found>, Errno> {
    let rows = table::listening(init)?;
    holders(init, &rows)
}

/// The holder of a port.
pub(super) fn one(init: i32, port: u16) -> Result<Option<Holder>, Errno> {
    let mut rows = table::listening(init)?;
    rows.retain(|row| row.address.port() == port);
    if rows.is_empty() {
        return Ok(None);
    }
    let mut found = holders(init, &rows)?;
    let ours: HashSet<u64> = found.iter().map(|one| one.row.inode).collect();
    let foreign: Vec<IpAddr> = rows
        .iter()
        .filter(|row| !ours.contains(&row.inode))
        .map(|row| row.address.ip())
        .collect();
    found.sort_by_key(|one| preference(one.row.address.ip()));
    // A socket shared out by the kernel with one that is not ours could lead to that one.
    found.retain(|one| !foreign.contains(&one.row.address.ip()));
    for one in found {
        if let Some(holder) = hold(init, one, &foreign)? {
            return Ok(Some(holder));
        }
    }
    Ok(None)
}

fn hold(init: i32, found: Found, foreign: &[IpAddr]) -> Result<Option<Holder>, Errno> {
    let pidfd = match procfs::pin(found.pid) {
        Err(errno) if is_lack(errno) => return Err(errno),
        Err(_) => return Ok(None),
        Ok(pidfd) => pidfd,
    };
    let holder = Holder {
        row: found.row,
        pidfd,
        link: format!("/proc/{}/fd/{}", found.pid, found.fd),
        targets: targets(found.row.address, foreign),
    };
    // Pinned first: its number cannot pass to a stranger between the two questions.
    let is_ours = procfs::is_below(found.pid, init)? && holder.still_holds();
    Ok(is_ours.then_some(holder))
}

fn preference(ip: IpAddr) -> u8 {
    match ip {
        IpAddr::V4(ip) if ip == Ipv4Addr::LOCALHOST => 0,
        IpAddr::V4(ip) if ip.is_unspecified() => 1,
        IpAddr::V6(ip) if ip == Ipv6Addr::LOCALHOST => 2,
        IpAddr::V6(ip) if ip.is_unspecified() => 3,
        _ => 4,
    }
}

/// The addresses at which exactly this socket answers.
fn targets(bound: SocketAddr, foreign: &[IpAddr]) -> Vec<SocketAddr> {
    let at = |ip: IpAddr| SocketAddr::new(ip, bound.port());
    match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => vec![at(Ipv4Addr::LOCALHOST.into())],
        IpAddr::V6(ip) if ip.is_unspecified() => {
            let mut both = vec![at(Ipv6Addr::LOCALHOST.into())];
            // It takes IPv4 too unless it said otherwise, in which case another may have the port.
            if !foreign.iter().any(IpAddr::is_ipv4) {
                both.push(at(Ipv4Addr::LOCALHOST.into()));
            }
            both
        }
        ip => vec![at(ip)],
    }
}

/// Those of the sockets that a descendant of init holds; parents are asked before children.
fn holders(init: i32, rows: &[Row]) -> Result<Vec<Found>, Errno> {
    let mut wanted: HashMap<u64, Row> = rows.iter().map(|row| (row.inode, *row)).collect();
    let mut found = Vec::new();
    for pid in procfs::descendants(init)? {
        if wanted.is_empty() {
            break;
        }
        let entries = procfs::of_the_living(std::fs::read_dir(format!("/proc/{pid}/fd")))?;
        for entry in entries.into_iter().flatten().flatten() {
            let number = entry.file_name().to_str().and_then(|n| n.parse().ok());
            if let Some(fd) = number
                && let Some(inode) = inode_of(&format!("/proc/{pid}/fd/{fd}"))
                && let Some(row) = wanted.remove(&inode)
            {
                found.push(Found { row, pid, fd });
            }
        }
    }
    Ok(found)
}

/// The inode of the socket a descriptor leads to.
fn inode_of(link: &str) -> Option<u64> {
    let target = std::fs::read_link(link).ok()?;
    let inode = target.to_str()?.strip_prefix("socket:[")?;
    inode.strip_suffix(']')?.parse().ok()
}

fn is_alive(pidfd: &OwnedFd) -> bool {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    matches!(
        poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&now)),
        Ok(0)
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_reached_where_only_it_answers() {
        let targets = |bound: &str, foreign: &[&str]| -> Vec<String> {
            let foreign: Vec<IpAddr> = foreign.iter().map(|ip| ip.parse().unwrap()).collect();
            targets(bound.parse().unwrap(), &foreign)
                .iter()
                .map(ToString::to_string)
                .collect()
        };
        assert_eq!(targets("0.0.0.0:8", &[]), ["127.0.0.1:8"]);
        assert_eq!(targets("127.0.0.2:8", &["127.0.0.1"]), ["127.0.0.2:8"]);
        assert_eq!(targets("[::]:8", &[]), ["[::1]:8", "127.0.0.1:8"]);
        assert_eq!(targets("[::]:8", &["127.0.0.1"]), ["[::1]:8"]);
    }

    /// We are not below ourselves: what we hold is nobody's in the sandbox.
    #[test]
    fn our_own_sockets_are_not_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let own = rustix::process::getpid().as_raw_nonzero().get();
        assert!(one(own, port).unwrap().is_none());
        assert!(
            all(own)
                .unwrap()
                .iter()
                .all(|one| one.row.address.port() != port)
        );
    }
}
