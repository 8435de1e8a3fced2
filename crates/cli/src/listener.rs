//! Who listens on a TCP port of this machine, as the kernel tells everyone.

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// A listening socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listener {
    /// The user that made it.
    pub(crate) uid: u32,
    /// Its inode, by which its process can be found.
    inode: u64,
}

impl Listener {
    /// Who would take a connection to this address; `None` when nobody does.
    pub(crate) fn at(address: SocketAddr) -> Option<Self> {
        ["/proc/net/tcp", "/proc/net/tcp6"]
            .iter()
            .filter_map(|file| fs::read_to_string(file).ok())
            .find_map(|table| table.lines().find_map(|line| parse(line, address)))
    }

    /// Whether it is ours, or that of root, who could read our files anyway.
    pub(crate) fn is_trusted(self) -> bool {
        self.uid == rustix::process::geteuid().as_raw() || self.uid == 0
    }

    /// Pid and name of its process, where we may see that.
    pub(crate) fn process(self) -> Option<(u32, String)> {
        let wanted = format!("socket:[{}]", self.inode);
        let processes = fs::read_dir("/proc").ok()?.flatten();
        processes
            .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
            .find(|pid| holds(*pid, &wanted))
            .map(|pid| {
                let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
                (pid, name.trim_end().to_owned())
            })
    }
}

fn holds(pid: u32, wanted: &str) -> bool {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    files
        .flatten()
        .filter_map(|file| fs::read_link(file.path()).ok())
        .any(|target| target.as_os_str() == wanted)
}

/// A line of the kernel's table, if it is a socket that listens for this address.
fn parse(line: &str, address: SocketAddr) -> Option<Listener> {
    const LISTENS: &str = "0A";
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let (host, port) = fields.get(1)?.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let takes = *fields.get(3)? == LISTENS && port == address.port() && covers(host, address)?;
    takes.then_some(Listener {
        uid: fields.get(7)?.parse().ok()?,
        inode: fields.get(9)?.parse().ok()?,
    })
}

/// Whether a socket bound to this host stands in the way of an address, or answers for it.
fn covers(host: &str, address: SocketAddr) -> Option<bool> {
    if host.len() == 8 {
        let bound = Ipv4Addr::from(u32::from_str_radix(host, 16).ok()?.to_le_bytes());
        return Some(match address {
            SocketAddr::V4(address) => bound.is_unspecified() || bound == *address.ip(),
            SocketAddr::V6(address) => bound.is_unspecified() && address.ip().is_unspecified(),
        });
    }
    let mut bytes = [0; 16];
    for (word, place) in bytes.chunks_exact_mut(4).enumerate() {
        let digits = host.get(word * 8..word * 8 + 8)?;
        place.copy_from_slice(&u32::from_str_radix(digits, 16).ok()?.to_le_bytes());
    }
    let bound = Ipv6Addr::from(bytes);
    Some(match address {
        // One on all addresses usually takes those of version 4 too.
        SocketAddr::V4(_) => bound.is_unspecified(),
        SocketAddr::V6(address) => bound.is_unspecified() || bound == *address.ip(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_who_listens() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let found = Listener::at(address).unwrap();
        assert_eq!(found.uid, rustix::process::geteuid().as_raw());
        assert!(found.is_trusted());
        assert_eq!(found.process().unwrap().0, std::process::id());
        drop(socket);
        assert_eq!(Listener::at(address), None);
    }

    #[test]
    fn knows_what_stands_in_the_way() {
        let of = |host, address: &str| covers(host, address.parse().unwrap());
        assert_eq!(of("0100007F", "127.0.0.1:1"), Some(true));
        assert_eq!(of("00000000", "127.0.0.1:1"), Some(true));
        assert_eq!(of("0100007F", "127.0.0.2:1"), Some(false));
        assert_eq!(
            of("00000000000000000000000000000000", "127.0.0.1:1"),
            Some(true)
        );
        assert_eq!(
            of("00000000000000000000000001000000", "[::1]:1"),
            Some(true)
        );
        assert_eq!(
            of("00000000000000000000000001000000", "127.0.0.1:1"),
            Some(false)
        );
        assert_eq!(of("nonsense", "127.0.0.1:1"), None);
    }
}
