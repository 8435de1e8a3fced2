//! Listening sockets as the kernel lists them in `/proc/PID/net/tcp` and `tcp6`.

use std::fs::File;
use std::io::BufReader;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::io::Errno;
use sandshell_sys::procfs;

/// The state `TCP_LISTEN` in the table.
const LISTEN: &str = "0A";

/// A listening socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Row {
    pub(super) address: SocketAddr,
    pub(super) inode: u64,
}

/// All listening sockets in the network of this process; none when it is gone.
pub(super) fn listening(pid: i32) -> Result<Vec<Row>, Errno> {
    let mut found = Vec::new();
    for name in ["tcp", "tcp6"] {
        let table = File::open(format!("/proc/{pid}/net/{name}"));
        let table = table.and_then(|file| rows(BufReader::new(file)));
        found.extend(procfs::of_the_living(table)?.unwrap_or_default());
    }
    Ok(found)
}

fn rows(table: impl std::io::BufRead) -> std::io::Result<Vec<Row>> {
    let mut found = Vec::new();
    for line in table.lines().skip(1) {
        let line = line?;
        let mut fields = line.split_ascii_whitespace().skip(1);
        let local = fields.next().unwrap_or_default();
        // The kernel lists all listening sockets before the first of any other kind, of which there
        // may be very many.
        if fields.nth(1) != Some(LISTEN) {
            break;
        }
        let inode = fields.nth(5).and_then(|field| field.parse().ok());
        if let (Some(address), Some(inode)) = (address(local), inode) {
            found.push(Row { address, inode });
        }
    }
    Ok(found)
}

/// `0100007F:1F90`: words of the address in the machine's byte order, then the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| -> Option<[u8; 4]> {
        let digits = ip.get(at * 8..at * 8 + 8)?;
        u32::from_str_radix(digits, 16).ok().map(u32::to_ne_bytes)
    };
    let ip = match ip.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut octets = [0; 16];
            for (at, part) in octets.chunks_exact_mut(4).enumerate() {
                part.copy_from_slice(&word(at)?);
            }
            Ipv6Addr::from(octets).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const HEAD: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";

    #[test]
    fn reads_the_kernels_own_lines() {
        let text = format!(
            "{HEAD}   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0\n   1: 0100007F:0016 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 12 1\n"
        );
        let expected = Row {
            address: "127.0.0.1:8080".parse().unwrap(),
            inode: 4711,
        };
        assert_eq!(rows(text.as_bytes()).unwrap(), [expected]);
        assert_eq!(
            address("00000000000000000000000001000000:0050"),
            "[::1]:80".parse().ok()
        );
        assert_eq!(
            address("0000000000000000FFFF00000100007F:0050"),
            "127.0.0.1:80".parse().ok()
        );
        assert_eq!(address("zz:0050"), None);
        assert_eq!(address("0100007F"), None);
    }

    #[test]
    fn sees_a_socket_of_our_own() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let own = rustix::process::getpid().as_raw_nonzero().get();
        assert!(
            listening(own)
                .unwrap()
                .iter()
                .any(|row| row.address == address)
        );
    }
}
